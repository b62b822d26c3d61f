"""What a projection of the velocity needs where contacts rub, and where q' is not u."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

import jax
import jax.numpy as jnp
from jax import Array

from diffcontact import qp
from diffcontact.friction import friction_coefficients, slip_rows
from diffcontact.numerics import mass as mass_matrix
from diffcontact.qp.rows import NONE, Rows, dense
from diffcontact.system import rate


def reached(system: Any, params: Any, t, h, q: Array) -> tuple[Array, Rows]:
    """The gaps (c,) at (t, q), where a velocity of zero leads to within h seconds, and their rows (c, d)."""
    gap, rows = system.linearised(params, t, q)
    if system.rate is None:
        return gap, rows
    t, still = jnp.asarray(t, q.dtype), jnp.zeros(rows.shape[1], q.dtype)
    way = rate(system, params, q, still)
    return gap + h * jax.jvp(lambda q: system.gap(t, q, params), (q,), (way,))[1], rows


def rubbed(
    system: Any, params: Any, t, q: Array, mass, normals: Rows, b: Array, v: Array, iterate: bool
) -> qp.Reaction:
    """The velocity after contact with friction, from v (d,), with all contacts at (t, q); by Coulomb's law or convex.

    Args:
        system, params: whose contacts they are.
        t, q: where they are taken [s], [m].
        mass: (d,) or (d, d).
        normals, b: the rows and offsets of the normal velocities.
        v: (d,) the velocity without contacts.
        iterate: see `VelocityProjection`.
    """
    directions, drift = slip_rows(system, params, t, q, v.size)
    N, S = dense(normals), jnp.stack([dense(one) for one in directions], axis=1)
    mu = friction_coefficients(system, params, b.size, q.dtype)
    return qp.coulomb(mass, N, S, b, drift, mu, v) if iterate else _convex(mass, N, S, b, drift, mu, v)


def rubbed_many(
    system: Any, params: Any, t, q: Array, mass, normals: qp.BodyRows, b: Array, v: Array, start: Array, iterate: bool
) -> qp.Reaction:
    """As `rubbed`, with the contacts of a list; it starts from the reactions `start` (c, 1 + k)."""
    directions, drift = slip_rows(system, params, t, q, v.size)
    tangents = cast(tuple[qp.BodyRows, ...], directions)
    mu = friction_coefficients(system, params, b.size, q.dtype)
    return qp.coulomb_many(mass, normals, tangents, b, drift, mu, v, reactions=start, iterate=iterate)


def _convex(mass, N, S, b, s, friction, v) -> qp.Reaction:
    """The convex problem with dense rows: in the metric of the mass they are those of one body of mass 1."""
    root, count = mass_matrix.root(mass), N.shape[0]
    bodies = jnp.tile(jnp.array([[NONE, 0]]), (count, 1))

    def rows(G):
        return qp.BodyRows(bodies, mass_matrix.whiten(root, G.T).T[:, None], 1)

    one, tolerance = jnp.ones_like(v), max(1e-10, 64 * float(jnp.finfo(v.dtype).eps))
    tangents = tuple(rows(S[:, i]) for i in range(S.shape[1]))
    begin = mass_matrix.whiten(root, mass_matrix.apply(mass, v))
    found = qp.coulomb_many(one, rows(N), tangents, b, s, friction, begin, tolerance=tolerance, iterate=False)
    u = v + mass_matrix.unwhiten(root, found.u - begin)
    return replace(found, u=u)
