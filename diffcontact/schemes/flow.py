"""The smooth part of the motion: free flight and persistent contact, second order in the step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact import qp
from diffcontact.batching import any_lane
from diffcontact.status import first
from diffcontact.system import Contacts, acceleration, contacts, gap_acceleration


class Tolerance(NamedTuple):
    """When a contact counts as closed, at rest and slow; none of them is differentiated.

    Attributes:
        gap: (c,) a gap below this is zero to rounding [m].
        velocity: (c,) a gap velocity below this is zero to rounding [m/s].
        slow: (c,) an approach below this does not bounce [m/s]: h/2 times the gap's acceleration scale, so that the
            next flight would be shorter than the step. It goes to zero with h: a threshold, not a smoothing.
    """

    gap: Array
    velocity: Array
    slow: Array


def tolerances(near: Contacts, q: Array, u: Array, a: Array, gap_acceleration: Array, h) -> Tolerance:
    """Scales of rounding at a state, from the sizes of the terms that cancel in gap and gap velocity.

    eps^(3/4) rather than eps: a projection on closed contacts is exact to a few hundred eps, and neighbours that
    belong to one impact must not be split by rounding.
    """
    q, u, a, h = map(lax.stop_gradient, (q, u, a, h))
    rows = jnp.abs(lax.stop_gradient(near.normals))
    rounding = jnp.finfo(q.dtype).eps ** 0.75
    # Two bodies that fall together have no relative acceleration: the terms' sizes count, not their sum.
    scale = jnp.maximum(jnp.abs(lax.stop_gradient(gap_acceleration)), rows @ jnp.abs(a))
    speed = rows @ jnp.abs(u) + jnp.abs(lax.stop_gradient(near.drift)) + h * scale
    return Tolerance(
        gap=rounding * (rows @ jnp.abs(q) + h * speed),
        velocity=rounding * speed,
        slow=h / 2 * scale,
    )


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["near", "tolerance", "a", "multipliers", "loaded", "status"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Start:
    """All that a smooth piece of motion knows at its beginning, whatever its length.

    Attributes:
        near: the contacts at (t, q).
        tolerance: see `Tolerance`.
        a: (d,) acceleration with the reaction of the resting contacts [m/s^2].
        multipliers: (c,) that reaction [N].
        loaded: (c,) the resting contacts that carry load: they stay closed.
        status: () of the projection.
    """

    near: Contacts
    tolerance: Tolerance
    a: Array
    multipliers: Array
    loaded: Array
    status: Array


def start(system, params, t, q, u, h) -> Start:
    """Which contacts rest, which of them carry load, and how the system accelerates.

    A contact rests if its gap and its gap velocity are zero to rounding. Among those, the reaction follows Gauss'
    principle of least constraint::

        a = argmin 1/2 |a - M^-1 f|_M^2      subject to      d^2 g_i / dt^2 = G_i a + gamma_i >= 0,  i at rest

    with gamma_i = what curvature and moving walls contribute.
    """
    near = contacts(system, params, t, q)
    free = acceleration(system, params, t, q, u)
    lift = gap_acceleration(system, params, t, q, u, free)
    tolerance = tolerances(near, q, u, free, lift, h)
    resting = (jnp.abs(near.gap) <= tolerance.gap) & (jnp.abs(near.velocity(u)) <= tolerance.velocity)

    def supported():
        offset = jnp.where(resting, lift - near.normals @ free, jnp.inf)
        reaction = qp.project(system.mass(q, params), near.normals, offset, free)
        return reaction.u, reaction.multipliers, reaction.active, reaction.status

    def flying():
        return free, jnp.zeros_like(lift), jnp.zeros_like(resting), jnp.zeros((), jnp.int32)

    a, multipliers, loaded, status = lax.cond(any_lane(jnp.any(resting)), supported, flying)
    return Start(near, tolerance, a, multipliers, loaded, status)


def smooth(system, params, t, s, q, u, begin: Start):
    """Advance by s without any impact: q, u, impulse (c,) [N s], status.

    RATTLE for the contacts that carry load, free flight for everything else; a = reaction included, G = loaded rows::

        x = q + s u + s^2/2 a(t, q, u),              then moved (M-orthogonally) onto  g(t+s, x) = 0
        w = u + s/2 (a(t, q, u) + a(t+s, x, u + s a)),   then projected onto  G(t+s, x) w + dg/dt >= 0

    Second order in s; exact for constant forces and flat contacts. The projections run only where contacts carry load.

    Source: RATTLE (Andersen 1983) with the one-sided velocity constraint of S1 eq. (12).
    """
    x = q + s * u + s**2 / 2 * begin.a
    loaded = begin.loaded

    def held(x):
        # Linear constraints need the first pass only; the second is Newton's on curved ones: O(s^3), then O(s^6).
        def newton(x, _):
            here = contacts(system, params, t + s, x)
            offset = here.gap - here.normals @ x
            return qp.hold(system.mass(x, params), here.normals, offset, x, loaded).u, None

        return lax.scan(newton, x, None, length=2)[0]

    some = any_lane(jnp.any(loaded))
    x = lax.cond(some, lambda: jnp.where(jnp.any(loaded), held(x), x), lambda: x)
    w = u + s / 2 * (begin.a + acceleration(system, params, t + s, x, u + s * begin.a))

    def supported():
        here = contacts(system, params, t + s, x)
        offset = jnp.where(loaded, here.drift, jnp.inf)
        end = qp.project(system.mass(x, params), here.normals, offset, w)
        return end.u, s / 2 * begin.multipliers + end.multipliers, first(begin.status, end.status)

    w, impulse, status = lax.cond(some, supported, lambda: (w, jnp.zeros_like(begin.multipliers), begin.status))
    return x, w, impulse, status
