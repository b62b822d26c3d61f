"""Lengths that springs, limits and actuators act on: sums of coordinates, and ways along sites.

length    L(q) = sum of weight q + sum of |x_b - x_a| / divisor    between sites that follow each other
arms      J = dL/du, so that L' = J u, and a pull f shortens it with generalised forces -J^T f
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
    """

    position: np.ndarray
    velocity: np.ndarray
    of: np.ndarray
    share: np.ndarray
    frames: np.ndarray
    local: np.ndarray

    def at(self, tree: Tree, q: Array) -> tuple[Array, Array]:
        """Return lengths (k,) and arms (k, d)."""
        q = jnp.asarray(q)
        length, arms = dot("kn,n->k", self.position, q), jnp.asarray(self.velocity, q.dtype)
        if not self.of.size:
            return length, arms
        frames = tree.frames(q)
        begin, end = (frames.points(self.frames[:, i], self.local[:, i]) for i in range(2))
        distance, direction = unit(end - begin)
        J = tree.jacobian(frames, self.frames.T.ravel(), jnp.concatenate([begin, end]))[:, :3]
        opening = dot("si,sid->sd", direction, J[len(begin) :] - J[: len(begin)])
        share = jnp.asarray(self.share, q.dtype)
        return length.at[self.of].add(share * distance), arms.at[self.of].add(share[:, None] * opening)
