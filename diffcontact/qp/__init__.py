"""Project onto linear inequalities in the metric of a mass matrix, differentiably; solve contacts with friction."""

from diffcontact.qp.box import BoxSolution, box
from diffcontact.qp.friction.coulomb import coulomb
from diffcontact.qp.many.coulomb_many import coulomb_many
from diffcontact.qp.many.project_many import project_many
from diffcontact.qp.projection import WORKING_SET, CoulombProjection, Projection, Reaction, hold, project
from diffcontact.qp.rows import BodyRows

__all__ = [
    "WORKING_SET",
    "BodyRows",
    "BoxSolution",
    "CoulombProjection",
    "Projection",
    "Reaction",
    "box",
    "coulomb",
    "coulomb_many",
    "hold",
    "project",
    "project_many",
]
