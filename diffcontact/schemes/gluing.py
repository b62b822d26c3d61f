"""Contacts that hold back: the projection of a velocity where an adhesion pulls."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from diffcontact import qp
from diffcontact.numerics import mass as mass_matrix
from diffcontact.qp.rows import Rows, transposed_product


class Glued(NamedTuple):
    """A velocity u (d,) with contacts that hold back, their impulses (c,) of either sign [N s], the adhesions (c,) that
    these leave [N s], and the status of the projection."""

    u: Array
    impulse: Array
    adhesion: Array
    status: Array


def no_adhesion(system: Any, params: Any, t, q: Array) -> Array:
    """(c,) adhesions of contacts that hold back nothing."""
    return jnp.zeros(jax.eval_shape(lambda: system.gap(jnp.asarray(t, q.dtype), q, params)).shape, q.dtype)


def most_held(system: Any, params: Any, adhesion: Array) -> Array:
    """(c,) the system's bounds of these adhesions."""
    return jnp.broadcast_to(jnp.asarray(system.adhesion(params), adhesion.dtype), adhesion.shape)


def glued(system: Any, params: Any, mass: Array, rows: Rows, b: Array, v: Array, adhesion: Array) -> Glued:
    """The velocity nearest to v whose contacts push, and pull with no more than their adhesion a (c,).

        M (u - v) = G^T P,      G u + b >= 0,      P + a >= 0,      (P + a)_i (G u + b)_i = 0

    As if all of them had let go, pulling with all that they have: P + a are the multipliers of `qp.project` from
    v - M^-1 G^T a. They are the adhesions behind, up to the system's bound: what a
    contact has taken up it can give back.

    Args:
        system, params: whose contacts they are.
        mass: (d,) or (d, d).
        rows, b: (c, d) and (c,) as in `qp.project`.
        v: (d,) the velocity without contacts.
        adhesion: (c,) a >= 0.
    """
    found = qp.project(mass, rows, b, v - mass_matrix.solve(mass, transposed_product(rows, adhesion)))
    left = jnp.minimum(found.multipliers, most_held(system, params, adhesion))
    return Glued(found.u, found.multipliers - adhesion, left, found.status)
