"""The differentiable projection onto linear inequalities, in the metric of a mass matrix."""

from diffcontact.qp.box import BoxSolution, box
from diffcontact.qp.projection import Projection, hold, project

__all__ = ["BoxSolution", "Projection", "box", "hold", "project"]
