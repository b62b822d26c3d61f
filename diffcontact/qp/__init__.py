"""The differentiable projection onto linear inequalities, in the metric of a mass matrix."""

from diffcontact.qp.bodies import BodyRows
from diffcontact.qp.box import BoxSolution, box
from diffcontact.qp.many import project_many
from diffcontact.qp.projection import SEARCH, Projection, hold, project

__all__ = ["SEARCH", "BodyRows", "BoxSolution", "Projection", "box", "hold", "project", "project_many"]
