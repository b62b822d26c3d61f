"""Describe rigid bodies by shapes: their contact with planes and balls, and their homogeneous inertia.

A shape is given in the body's own frame, whose origin is the body's centre of mass.
"""

from diffcontact.shapes.ellipsoids import Ball, Ellipse, Ellipsoid
from diffcontact.shapes.outline import Outline, outline
from diffcontact.shapes.polytopes import Box, Polygon, Polyhedron
from diffcontact.shapes.shape import Shape

__all__ = ["Ball", "Box", "Ellipse", "Ellipsoid", "Outline", "Polygon", "Polyhedron", "Shape", "outline"]
