"""A step map on a crowd: only the contacts that may close within the step are looked at."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact import qp
from diffcontact.schemes.applicability import inelastic_status
from diffcontact.schemes.event_timed.impacts import Percussion
from diffcontact.schemes.scheme import Info, Scheme
from diffcontact.schemes.velocity_projection import VelocityProjection
from diffcontact.status import Status, first
from diffcontact.systems.cell_list_balls import Crowd, Near


@partial(jax.tree_util.register_dataclass, data_fields=["q", "u", "near", "loads"], meta_fields=[])
@dataclass(frozen=True)
class CrowdState:
    """Position and velocity, and the multipliers of the last step's contacts, where the next projection starts."""

    q: Array
    u: Array
    near: Near
    loads: Array


@dataclass(frozen=True)
class AmongNeighbours:
    """Any step map of a `System`, on a `Crowd`.

    `VelocityProjection` uses sparse rows and `qp.project_many`, from the last step's multipliers, for thousands of
    balls. The other schemes are given the System of the near contacts, which they treat as a dense one: right for tens
    of balls in a wide space.

    What was left out is checked afterwards: a ball that moved further than was thought may have met what was not near,
    and the status says NEIGHBOURS_MISSED; where the list was too short it says NEIGHBOURS_FULL. `simulate` then repeats
    the run with more.

    Args:
        scheme: the step map.
    """

    scheme: Any

    @property
    def inelastic(self) -> bool:
        return getattr(self.scheme, "inelastic", False)

    @property
    def keeps(self) -> tuple[str, ...]:
        return getattr(self.scheme, "keeps", ())

    def init(self, system: Crowd, params, t, h, q: Array, u: Array):
        """As the scheme; sparse rows begin from multipliers of zero."""
        if not isinstance(self.scheme, VelocityProjection):
            return self.scheme.init(system, params, t, h, q, u)
        near, _ = system.soon(params, t, h, q, u)
        return CrowdState(q, u, near, jnp.zeros(near.number.shape, q.dtype))

    def step(self, system: Crowd, params, t, h, state) -> tuple[Any, Info]:
        """Look who is near, step, and see that it was enough."""
        near, way = system.soon(params, t, h, state.q, state.u)
        if isinstance(state, CrowdState):
            after, impulse, status = _project(system, params, t, h, state, near)
            happened = None
        else:
            after, info = self.scheme.step(system.only(near), params, t, h, state)
            impulse, status = info.impulse, info.status
            happened = _numbered(info.percussions, near)
        moved = jnp.linalg.norm((after.q - state.q).reshape(system.count, system.dimension), axis=1)
        full = jnp.where(near.full, Status.NEIGHBOURS_FULL, Status.OK)
        missed = jnp.where(jnp.max(lax.stop_gradient(moved)) > way, Status.NEIGHBOURS_MISSED, Status.OK)
        return after, Info(system.per_ball_impulse(near, impulse), first(first(full, missed), status), happened)


def _project(system: Crowd, params, t, h, state: CrowdState, near: Near):
    """The step of `VelocityProjection`, S1 eq. (11)-(15), with sparse rows."""
    mass = system.mass(state.q, params)
    free = state.u + h * system.force(t + h / 2, state.q, state.u, params) / mass
    gap, rows = system.rows(near, params, t + h, state.q)
    start = near.carry_over(state.near, state.loads)
    move = qp.project_many(mass, rows, jnp.where(near.taken, gap / h, jnp.inf), free, multipliers=start)
    status = first(move.status, inelastic_status(system.only(near), params))
    after = CrowdState(state.q + h * move.u, move.u, near, lax.stop_gradient(move.multipliers))
    return after, move.multipliers, status


def _numbered(happened: Percussion | None, near: Near) -> Percussion | None:
    """The percussions of a step with the numbers of the crowd's contacts, in place of those of this step's list."""
    if happened is None:
        return None
    contact = jnp.where(happened.contact >= 0, near.number[happened.contact], -1)
    return replace(happened, contact=contact, numbers=near.number[happened.numbers])


def adapted(scheme: Scheme, system) -> Scheme:
    """The scheme, told to look at neighbours only where the system is a crowd."""
    return AmongNeighbours(scheme) if isinstance(system, Crowd) else scheme
