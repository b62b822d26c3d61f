"""The differentiable projection onto linear inequalities, in the metric of a mass matrix; contacts with friction."""

from diffcontact.qp.box import BoxSolution, box
from diffcontact.qp.friction.coulomb import CoulombProjection, coulomb
from diffcontact.qp.matrix_free.coulomb_many import coulomb_many
from diffcontact.qp.matrix_free.project_many import project_many
from diffcontact.qp.projection import WORKING_SET, Projection, hold, project
from diffcontact.qp.rows.body_rows import BodyRows

__all__ = [
    "WORKING_SET",
    "BodyRows",
    "BoxSolution",
    "CoulombProjection",
    "Projection",
    "box",
    "coulomb",
    "coulomb_many",
    "hold",
    "project",
    "project_many",
]
