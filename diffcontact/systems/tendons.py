"""Lengths that springs, limits and actuators act on: sums of coordinates, and ways along sites.

Between sites x that follow each other a length is that of the straight way. With its arms J it moves with L' = J u, and
f pushes with the generalised forces J^T f::

    L(q) = sum of weight q + sum of |x_b - x_a| / divisor,    J = dL/du

A thruster pushes a site with f times a force and a torque along the axes of the site; no length belongs to its arms.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.systems.surroundings import unit
from diffcontact.systems.tree import Tree, dot


@dataclass(frozen=True, eq=False)
class Lengths:
    """Hold k lengths, as constant arrays of numpy.

    Attributes:
        position, velocity: (k, n), (k, d) weights of coordinates and of velocities.
        of: (s,) the length that a straight part belongs to; share: (s,) its weight.
        frames, local: (s, 2), (s, 2, 3) of the points at its ends, and the points therein [m].
        pushing: (p,) which ones are thrusters; pushed, site: (p,), (p, 3) frames, and sites therein [m].
        wrench: (p, 2, 3) their forces and torques along the axes of the frames.
    """

    position: np.ndarray
    velocity: np.ndarray
    of: np.ndarray
    share: np.ndarray
    frames: np.ndarray
    local: np.ndarray
    pushing: np.ndarray
    pushed: np.ndarray
    site: np.ndarray
    wrench: np.ndarray

    def at(self, tree: Tree, q: Array) -> tuple[Array, Array]:
        """Return lengths (k,) and arms (k, d)."""
        q = jnp.asarray(q)
        length, arms = dot("kn,n->k", self.position, q), jnp.asarray(self.velocity, q.dtype)
        if not (self.of.size or self.pushing.size):
            return length, arms
        frames = tree.frames(q)
        if self.pushing.size:
            J = tree.jacobian(frames, self.pushed, frames.points(self.pushed, self.site))
            pushes = dot("pij,pkj->pki", frames.turn[self.pushed], self.wrench).reshape(-1, 6)
            arms = arms.at[self.pushing].add(dot("pi,pid->pd", pushes, J))
        if not self.of.size:
            return length, arms
        begin, end = (frames.points(self.frames[:, i], self.local[:, i]) for i in range(2))
        distance, direction = unit(end - begin)
        J = tree.jacobian(frames, self.frames.T.ravel(), jnp.concatenate([begin, end]))[:, :3]
        opening = dot("si,sid->sd", direction, J[len(begin) :] - J[: len(begin)])
        share = jnp.asarray(self.share, q.dtype)
        return length.at[self.of].add(share * distance), arms.at[self.of].add(share[:, None] * opening)
