"""The differentiable projection onto linear inequalities, in the metric of a mass matrix."""

from diffcontact.qp.projection import Projection, hold, project

__all__ = ["Projection", "hold", "project"]
