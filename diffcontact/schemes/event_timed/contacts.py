r"""The contacts of a system at a place: one description with and without friction.

Each contact has 1 + k velocities, affine in u: d(gap)/dt and k slips, k = 0 where nothing rubs::

    v = R u + r,       R (c, 1 + k, d) the rows N and S,    r (c, 1 + k) the drift of walls and belts [m/s]
    dv/dt = R a + b,   b (c, 1 + k) what curvature and moving walls contribute [m/s^2]
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics import linear
from diffcontact.numerics.linear import length, nonzero
from diffcontact.system import (
    contacts,
    friction_coefficients,
    gap_motion,
    rate,
    slips,
    tangential_compliances,
    tangential_restitutions,
)


class Place(NamedTuple):
    """Contacts, mass and velocities at (t, q).

    Attributes:
        gap: (c,) [m].
        rows: (c, 1 + k, d) R.
        drift: (c, 1 + k) r [m/s].
        mass: (d,) or (d, d) M(q).
    """

    gap: Array
    rows: Array
    drift: Array
    mass: Array

    @classmethod
    def at(cls, system, params, t, q: Array, size: int) -> Place:
        """Of a system with `size` velocities."""
        if system.rows is not None:
            affine = system.rows(t, q, params)
            return cls(system.gap(t, q, params), affine[..., :-1], affine[..., -1], system.mass(q, params))
        here = contacts(system, params, t, q)
        rows, drift = here.normals[:, None], here.drift[:, None]
        if system.slip is not None:
            across = slips(system, params, t, q, size)
            rows = jnp.concatenate([rows, across.tangents], axis=1)
            drift = jnp.concatenate([drift, across.drift], axis=1)
        return cls(here.gap, rows, drift, system.mass(q, params))

    def velocity(self, u: Array) -> Array:
        """(c, 1 + k) velocities of the contacts [m/s]."""
        return self.rows @ u + self.drift


def velocities(system, params, t, q: Array, u: Array) -> tuple[Array, Array]:
    """Gaps (c,) and the velocities (c, 1 + k) of the contacts."""
    if system.rows is not None:
        affine = system.rows(t, q, params)
        return system.gap(t, q, params), affine[..., :-1] @ u + affine[..., -1]
    gap, opening = gap_motion(system, params, t, q, u)
    if system.slip is None:
        return gap, opening[:, None]
    return gap, jnp.concatenate([opening[:, None], system.slip(t, q, u, params)], axis=1)


def bends(system, params, t, q: Array, u: Array) -> Array:
    """(c, 1 + k) b, what the accelerations of the contacts are where u does not change [m/s^2]."""
    along = jnp.ones_like(t), rate(system, params, q, u), jnp.zeros_like(u)
    return jax.jvp(lambda t, q, u: velocities(system, params, t, q, u)[1], (t, q, u), along)[1]


def free_acceleration(system, params, t, q: Array, u: Array, mass: Array) -> Array:
    """(d,) M^-1 f [m/s^2]."""
    return linear.solve_mass(mass, system.force(t, q, u, params))


class Law(NamedTuple):
    """Coefficients (c,) of an impact, or of contacts that last: e, e_t, mu and eta^2 = k_n / k_t."""

    e: Array
    e_t: Array
    mu: Array
    compliance: Array

    @classmethod
    def of(cls, system, params, before: Array) -> Law:
        """At these gap velocities before the impact (c,) [m/s]; 0 for contacts that last."""
        count, dtype = before.size, before.dtype
        mu = jnp.zeros_like(before)
        if system.slip is not None:
            mu = friction_coefficients(system, params, count, dtype, before)
        e = jnp.broadcast_to(system.restitution_of(params, before), before.shape)
        e_t = tangential_restitutions(system, params, count, dtype)
        return cls(e, e_t, mu, tangential_compliances(system, params, count, dtype))


class Limits(NamedTuple):
    """Below what a number is zero to rounding, and when a contact is slow; none of them is differentiated.

    Attributes:
        gap: () [m].
        velocity: () of gaps, slip: () of slips [m/s].
        slow: (c,) a rebound below this may be left out [m/s]: by the size of the gap's acceleration its flight would be
            shorter than is resolved. A threshold that goes to zero with h, not a smoothing.
        gained: (c,) half of what accelerations make of a gap's velocity in the step [m/s].
    """

    gap: Array
    velocity: Array
    slip: Array
    slow: Array
    gained: Array

    @classmethod
    def nothing(cls, gap: Array) -> Limits:
        zero = jnp.zeros((), gap.dtype)
        return cls(zero, zero, zero, jnp.zeros_like(gap), jnp.zeros_like(gap))

    def at_least(self, before: Limits) -> Limits:
        """With the rounding of the pieces before in the same step: a force may be zero now because its terms cancel."""
        gap, velocity, slip = (jnp.maximum(a, b) for a, b in zip(self[:3], before[:3], strict=True))
        return self._replace(gap=gap, velocity=velocity, slip=slip)

    @classmethod
    def at(cls, place: Place, reach: Array, u: Array, free: Array, accelerations: Array, h, flight, t) -> Limits:
        """From the sizes of the terms that cancel in gaps and velocities; one bound for all that may close in the step.

        eps^(3/4) rather than eps: impacts that belong together must not be split by rounding.

        Args:
            reach: (c,) |grad gap| |q| [m].
            free: (d,) acceleration without reactions, accelerations: (c, 1 + k) those of the contacts then [m/s^2].
            h: length of the step, flight: the shortest that is resolved [s].
        """
        rows, eps = jnp.abs(place.rows), jnp.finfo(u.dtype).eps
        scale = jnp.maximum(jnp.abs(accelerations[:, 0]), rows[:, 0] @ jnp.abs(free))
        speed = rows @ jnp.abs(u) + jnp.abs(place.drift)
        opening = speed[:, 0] + h * scale
        near = place.gap <= 2 * h * opening + eps**0.5 * (reach + h * opening)
        parts = reach + h * opening, opening, jnp.abs(t * place.drift[:, 0])
        size, fast, moved = (jnp.max(jnp.where(near, x, 0.0), initial=0.0) for x in parts)
        velocity = jnp.maximum(eps**0.75 * fast, eps * size / jnp.abs(h))
        across = speed[:, 1:] + h * (rows[:, 1:] @ jnp.abs(free))
        slip = jnp.max(jnp.where(near[:, None], across, 0.0), initial=0.0)
        return cls(
            gap=eps**0.75 * size + 8 * eps * moved,
            velocity=velocity,
            slip=jnp.maximum(eps**0.75 * slip, velocity),
            slow=flight / 2 * scale,
            gained=h / 2 * scale,
        )


def reach(system, params, t, place: Place, q: Array) -> Array:
    """(c,) |grad gap| |q|, the size of what cancels in a gap [m]."""
    rows = place.rows[:, 0]
    if system.rate is not None:
        rows = jax.jacfwd(lambda q: system.gap(t, q, params))(q)
    return jnp.abs(rows) @ jnp.abs(q)


def coupled(place: Place, among: Array, contact: Array) -> Array:
    """(c,) contacts of `among` (c,) whose impulse changes a velocity of `contact`, directly or through others."""
    rows = jnp.where(among[:, None, None], place.rows, 0.0)
    count, each, size = rows.shape
    flat = rows.reshape(count * each, size)
    delassus = flat @ linear.solve_mass(place.mass, flat.T)
    length = jnp.sqrt(jnp.diagonal(delassus))
    acts = jnp.abs(delassus) > jnp.finfo(flat.dtype).eps ** 0.75 * length[:, None] * length[None, :]
    touches = jnp.any(acts.reshape(count, each, count, each), axis=(1, 3))

    def spread(carry):
        reached, _ = carry
        return reached | jnp.any(touches & reached[None, :], axis=1), reached

    start = jnp.arange(count) == contact
    return lax.while_loop(lambda c: jnp.any(c[0] != c[1]), spread, (start, jnp.zeros_like(start)))[0]


def unit(x: Array, otherwise: Array) -> Array:
    """(c, k) directions of x, those of `otherwise` where x is zero."""
    size = length(x)
    return jnp.where((size > 0)[:, None], x / nonzero(size)[:, None], otherwise)
