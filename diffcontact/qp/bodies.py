"""Constraint rows between bodies, two small normals each, instead of a row of mostly zeros."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp

from diffcontact.qp.slots import NONE


@partial(jax.tree_util.register_dataclass, data_fields=["bodies", "normals"], meta_fields=["count"])
@dataclass(frozen=True)
class BodyRows:
    """The rows G (c, d) of contacts between `count` bodies of m components each, d = count * m.

        (G u)_i = sum_a normals[i, a] . u[bodies[i, a]],     u (count, m), body-major

    Forming, scaling and checking c rows costs c m instead of c d; only the rows that may become active are ever spread
    out.

    Args:
        bodies: (c, 2) int, the two bodies of each row, or -1 where there is none (a wall).
        normals: (c, 2, m) the row's entries for them; not read where there is no body.
        count: how many bodies there are, static.

    Example:
        >>> rows = BodyRows(jnp.array([[0, 1], [1, -1]]), jnp.array([[[-1.0], [1.0]], [[1.0], [0.0]]]), 2)
        >>> dense(rows).tolist()
        [[-1.0, 1.0], [0.0, 1.0]]
    """

    bodies: jax.Array
    normals: jax.Array
    count: int

    @property
    def shape(self):
        """(c, d), that of the dense rows."""
        return self.normals.shape[0], self.count * self.normals.shape[-1]

    @property
    def dtype(self):
        return self.normals.dtype


Rows = jax.Array | BodyRows


def times(G: Rows, x):
    """(c,) G x for x (d,)."""
    if not isinstance(G, BodyRows):
        return G @ x
    there = (G.bodies != NONE)[:, :, None]
    return jnp.sum(jnp.where(there, G.normals * x.reshape(G.count, -1)[G.bodies], 0), axis=(1, 2))


def lift(G: Rows, loads):
    """(d,) G^T loads for loads (c,): what the rows' multipliers add up to at each body."""
    if not isinstance(G, BodyRows):
        return G.T @ loads
    places = jnp.where(G.bodies == NONE, G.count, G.bodies)
    nowhere = jnp.zeros((G.count, G.normals.shape[-1]), G.dtype)
    return nowhere.at[places].add(G.normals * loads[:, None, None], mode="drop").ravel()


def squares(G: Rows, x):
    """(c,) sum_j G_ij^2 x_j."""
    return times(_mapped(G, jnp.square), x)


def magnitudes(G: Rows, x):
    """(c,) sum_j |G_ij| |x_j|, what the rounding of G x is relative to; two bodies of a row are never one."""
    return times(_mapped(G, jnp.abs), jnp.abs(x))


def take(G: Rows, rows):
    """(k, d) the dense rows of the indices (k,), or of a slice."""
    if not isinstance(G, BodyRows):
        return G[rows]
    bodies = G.bodies[rows]
    count = bodies.shape[0]
    spread = jnp.zeros((count, G.count, G.normals.shape[-1]), G.dtype)
    places = jnp.where(bodies == NONE, G.count, bodies)
    return spread.at[jnp.arange(count)[:, None], places].add(G.normals[rows], mode="drop").reshape(count, -1)


def dense(G: Rows):
    """(c, d) all rows."""
    return take(G, slice(None))


def switched(G: Rows, on):
    """The rows G, zero where they are off."""
    return _mapped(G, lambda x: jnp.where(on.reshape(-1, *[1] * (x.ndim - 1)), x, 0))


def along(G: Rows, tangent: Rows) -> Rows:
    """The tangent of the rows as rows: a body's index has no tangent."""
    if isinstance(G, BodyRows) and isinstance(tangent, BodyRows):
        return replace(G, normals=tangent.normals)
    return tangent


def _mapped(G, f):
    return replace(G, normals=f(G.normals)) if isinstance(G, BodyRows) else f(G)
