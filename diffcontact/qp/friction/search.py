"""The search for reactions that obey Coulomb's law: local solves and Newton first, then along a path to a start."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.numerics.batching import in_lanes, once, select, where_any
from diffcontact.qp.friction.evenly import evenly
from diffcontact.qp.friction.modes import Modes
from diffcontact.qp.friction.passes import accepted, improve, residual, sweep, wanted
from diffcontact.qp.friction.path import follow

# The first is from rest; each further one follows another path.
ATTEMPTS = 8


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Found:
    """What a search ends with.

    Args:
        r: (c, 1 + k) reactions in the unit of `Contacts`.
        way: (d,) L^-1 H^T r.
        residual: () relative natural map.
        modes: `Modes`.
    """

    r: jax.Array
    way: jax.Array
    residual: jax.Array
    modes: Modes

    @property
    def solved(self):
        """() bool, whether they are a solution."""
        return self.residual <= accepted(self.r.dtype)


def search(contacts) -> Found:
    """The best reactions that could be found."""
    r = _alone(contacts) if contacts.q.shape[0] == 1 else _together(contacts)
    w, strides = contacts.velocities(r), contacts.strides()
    left = residual(contacts, r)[1]
    modes = Modes.of(r, w, contacts.friction, strides, jnp.where(left <= accepted(r.dtype), left, 0) * contacts.unit)
    r = modes.apply(r, w, contacts.friction, strides)
    found = Found(r=r, way=contacts.step(r), residual=residual(contacts, r)[1], modes=modes)
    if contacts.q.shape[0] == 1:
        return found
    shared, way, modes = evenly(contacts, r, modes)
    left = residual(contacts, shared)[1]
    as_good = left <= jnp.maximum(2 * found.residual, wanted(r.dtype))
    return select(as_good, Found(r=shared, way=way, residual=left, modes=modes), found)


def _alone(contacts):
    """One contact: its exact solution, once more for the digits that cancel in it."""
    return sweep(contacts, sweep(contacts, jnp.zeros_like(contacts.q), 30), 30)


def _together(contacts):
    none = jnp.zeros_like(contacts.q)
    enough = accepted(none.dtype)

    def attempt(state):
        number, best, left = state
        running = left > enough
        away = running & (number > 0)
        start = where_any(away, lambda: follow(contacts, number, away), lambda: none)
        found = improve(contacts, start, running)
        better = running & (found.residual < left)
        return number + 1, jnp.where(better, found.r, best), jnp.where(better, found.residual, left)

    def unfinished(state):
        return (state[2] > enough) & (state[0] < ATTEMPTS)

    start = (jnp.zeros((), jnp.int32), none, residual(contacts, none)[1])
    return lax.while_loop(unfinished, once(attempt), in_lanes(start, start[2]))[1]
