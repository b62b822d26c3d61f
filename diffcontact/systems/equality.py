"""Constrain a model file's points that stay together, welded bodies, coupled joints and tendons."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.systems.poses import product
from diffcontact.systems.tree import Tree, dot


@dataclass(frozen=True, eq=False)
class Equalities:
    """Hold constraints phi(q) = 0 between frames and joints of a tree, as constant arrays.

    Attributes:
        frames: (k, 2) frames whose points `local` (k, 2, 3) stay together.
        welded: (w, 2) frames whose bodies' orientations, `own` (w, 2, 4), differ by `turned` (w, 4).
        weights: (p, 2, n) of q - `rest` in two sums; the first is the polynomial `terms` (p, 5) of the second.
        rows: (m,) those rows of phi that do not follow from the others.
    """

    frames: np.ndarray
    local: np.ndarray
    welded: np.ndarray
    own: np.ndarray
    turned: np.ndarray
    weights: np.ndarray
    rest: np.ndarray
    terms: np.ndarray
    rows: np.ndarray

    def off(self, tree: Tree, q: Array) -> Array:
        """Return phi (m,): distances [m], vector parts of quaternions, and coordinates [m or rad]."""
        parts = [jnp.zeros(0, q.dtype)]
        if len(self.frames):
            at = tree.frames(q)
            one, other = (at.points(self.frames[:, i], self.local[:, i]) for i in range(2))
            parts.append((one - other).ravel())
        if len(self.welded):
            of = tree.orientations(q)
            one, other = (product(of[self.welded[:, i]], jnp.asarray(self.own[:, i], q.dtype)) for i in range(2))
            back = other * jnp.array([[1.0, -1.0, -1.0, -1.0]], q.dtype)
            parts.append(product(back, product(one, jnp.asarray(self.turned, q.dtype)))[:, 1:].ravel())
        if len(self.weights):
            moved = dot("pin,n->pi", self.weights, q - jnp.asarray(self.rest, q.dtype))
            powers = jnp.stack([moved[:, 1] ** n for n in range(self.terms.shape[1])], axis=1)
            parts.append(moved[:, 0] - dot("pn,pn->p", powers, self.terms))
        return jnp.concatenate(parts)[self.rows]


def coordinates(
    found: Equalities, tree: Tree, start: np.ndarray, wanted: np.ndarray | None
) -> tuple[Equalities, np.ndarray]:
    """Drop rows that follow from others, and choose independent velocities (d - m,).

    Args:
        start: (n,) the configuration of the file; ranks are those a little aside, where it is at no dead point.
        wanted: velocities (d - m,), or None for the least constrained ones; ValueError if some follow from others.
    """

    def slope(start, aside):
        there = tree.advance(start, aside, 1.0)
        return jax.jacfwd(lambda u: found.off(tree, tree.advance(there, u, 1.0)))(jnp.zeros_like(aside))

    number = np.arange(tree.velocities, dtype=float)
    J = np.asarray(jax.jit(slope)(start, 0.05 * np.cos(number)))
    rows = np.sort(pivots(J.T))
    open_ = np.setdiff1d(number, [] if wanted is None else wanted).astype(int)
    others = open_[pivots(J[np.ix_(rows, open_)])]
    kept = np.setdiff1d(number, others).astype(int)
    if others.size < rows.size or (wanted is not None and kept.size != len(wanted)):
        count = tree.velocities - rows.size
        raise ValueError(
            f"expected {count} velocities that give all others, got {0 if wanted is None else len(wanted)}"
        )
    return replace(found, rows=found.rows[rows]), kept


def pivots(A: np.ndarray, tolerance: float = 1e-4) -> np.ndarray:
    """Return columns of A (m, n) that span all, the longest first, by Gram-Schmidt.

    Shorter columns are rounding. The tolerance is that of single precision, with a margin of a hundred.
    """
    left, found = np.array(A, float), []
    size = np.max(np.linalg.norm(left, axis=0), initial=0.0)
    for _ in range(min(A.shape)):
        lengths = np.linalg.norm(left, axis=0)
        longest = int(np.argmax(lengths))
        if lengths[longest] <= tolerance * size:
            break
        found.append(longest)
        axis = left[:, longest] / lengths[longest]
        left -= np.outer(axis, axis @ left)
    return np.array(found, int)
