r"""Contacts that resist rolling and pivoting: several frictions under one load, as of layers between two surfaces.

A layer is a coordinate z of its own. It lies under its contact and takes no part in the motion::

        body            gap  g(t, q) - z_1       slips by the system's slip,        |B|   <= mu P
      - - - - - z_1     gap  z_1 - z_2           slips by its rolling velocity,     |B_1| <= mu_1 P_1
      - - - - - z_2     gap  z_2                 by the next one,                   |B_2| <= mu_2 P_2
      ___________

No force acts on a layer and no gap lets it move: z = 0 always. So M_z z'' = P_2 - P_1 = 0, and all contacts of such a
pile bear the load of the first, at rest, in motion and in an impact, whatever M_z is. What they rub is the body, by the
rows of their own slip velocities. So events, modes, impacts and derivatives are those of contacts that rub.

In an event-driven step the layers of contacts that are open rub nothing: they would have slips that end, and hand on
impacts between bodies that do not touch. Where one solution says what closes and what it bears, they are told by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.friction import friction_coefficients, tangential_restitutions
from diffcontact.mass import solve
from diffcontact.schemes.event_timed.contacts import Place, reach
from diffcontact.schemes.event_timed.percussion import Percussion
from diffcontact.schemes.scheme import Info
from diffcontact.system import Params, System, advanced


@dataclass(frozen=True)
class Layers:
    """A system with the layers under its contacts.

    Attributes:
        system: the `System` of all of them, contacts and coordinates of the layers behind its own, layer by layer.
        params: its params.
        contacts: c, how many contacts the given system has.
        coordinates: c m, those of m layers under each.
    """

    system: System
    params: Params
    contacts: int
    coordinates: int

    @classmethod
    def under(cls, system: Any, params: Params, t, q: Array, u: Array, way: Array | None = None) -> Layers:
        """Of a system whose contacts resist (`System.rolling`), for a step from (q, u) at t.

        Args:
            way: None where all layers rub, or (d,), how far each coordinate may go in an event-driven step: layers of
                contacts that are open by more than rounding then rub nothing.
        """
        shape = jax.eval_shape(lambda: system.rolling(jnp.asarray(t, q.dtype), q, u, params)).shape
        count, many, directions = shape
        piled = _Piled(system, count, many, directions, u.size, q.dtype)
        place = lax.stop_gradient(Place.at(system, params, t, q, u.size))
        normals, mass = place.rows[:, 0], place.mass
        inverse = jnp.sum(normals * solve(mass, normals.T).T, axis=1)
        like = jnp.where(inverse > 0, 1 / jnp.where(inverse > 0, inverse, 1), jnp.max(mass))
        below = jnp.array(jnp.inf, q.dtype)
        if way is not None:
            # A gap that is met is zero to the root of the precision; it may grow as it goes.
            far = reach(system, *lax.stop_gradient((params, jnp.asarray(t, q.dtype), place, q)))
            size = jnp.max(far + jnp.abs(normals) @ lax.stop_gradient(way), initial=0.0)
            below = 4 * jnp.finfo(q.dtype).eps ** 0.5 * size
        return cls(piled.whole(), _Given(params, like, below), count, count * many)

    def lying(self, x: Array) -> Array:
        """What belongs to the system's coordinates (..., d), zero for those of the layers; one number as it is."""
        return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, self.coordinates)]) if x.ndim else x

    def without(self, x: Array) -> Array:
        """What belongs to the system's coordinates (..., d); one number as it is."""
        return x[..., : x.shape[-1] - self.coordinates] if x.ndim else x

    def of_all(self, x: Array) -> Array:
        """What a contact says (c,), said by all in its pile."""
        return jnp.tile(x, 1 + self.coordinates // self.contacts)

    def percussion(self, struck: Percussion) -> Percussion:
        """What a percussion does to the system's own contacts (..., c) and coordinates."""
        names = ("impulse", "before", "after", "slow", "soft", "numbers")
        of_contacts = {name: getattr(struck, name)[..., : self.contacts] for name in names}
        of_bodies = {name: self.without(getattr(struck, name)) for name in ("q", "u", "jump")}
        assert struck.friction is not None
        return replace(struck, **of_contacts, **of_bodies, friction=struck.friction[..., : self.contacts, :])

    def reported(self, info: Info) -> Info:
        """What a step reports of the system's own contacts; its pieces of motion tell of all."""
        impulse, friction = (None if x is None else x[: self.contacts] for x in (info.impulse, info.friction))
        struck = None if info.percussions is None else self.percussion(info.percussions)
        return replace(info, impulse=impulse, friction=friction, percussions=struck)


class _Given(NamedTuple):
    """What is known of a system with layers: the params of the system itself; the mass (c,) of a layer under each
    contact [kg], any will do, and one like that of the bodies is the best conditioned; the gap () up to which a contact
    counts as touching [m]."""

    own: Params
    mass: Array
    below: Array


class _Piled(NamedTuple):
    """The functions of a system of d coordinates and `count` contacts with `many` layers under each."""

    system: Any
    count: int
    many: int
    directions: int
    d: int
    dtype: Any

    def whole(self) -> System:
        """The system with its layers."""
        given = self.system
        return System(
            self.gap,
            self.force,
            self.mass,
            self.restitution_at_speed if given.speed_dependent else self.restitution,
            slip=self.slip,
            friction=self.friction_at_speed if given.friction_by_speed else self.friction,
            tangential_restitution=self.tangential_restitution,
            rate=None if given.rate is None else self.rate,
            advance=None if given.rate is None else self.advance,
            dexpinv=None if given.dexpinv is None else self.dexpinv,
        )

    @property
    def added(self) -> int:
        return self.count * self.many

    def split(self, x):
        """What belongs to the system, and to the layers (m, c)."""
        return x[: x.size - self.added], x[x.size - self.added :].reshape(self.many, self.count)

    def gap(self, t, q, given):
        own, z = self.split(q)
        above = jnp.concatenate([self.system.gap(t, own, given.own)[None], z])
        return (above - jnp.concatenate([z, jnp.zeros_like(z[:1])])).ravel()

    def force(self, t, q, u, given):
        (own, _), (speed, _) = self.split(q), self.split(u)
        return jnp.pad(self.system.force(t, own, speed, given.own), (0, self.added))

    def mass(self, q, given):
        own, d = self.system.mass(self.split(q)[0], given.own), self.d
        layer = jnp.tile(given.mass, self.many)
        if own.ndim == 1:
            return jnp.concatenate([own, layer])
        return jnp.zeros((d + self.added,) * 2, own.dtype).at[:d, :d].set(own).at[d:, d:].set(jnp.diag(layer))

    def restitution(self, given):
        e = jnp.broadcast_to(jnp.asarray(self.system.restitution(given.own), self.dtype), (self.count,))
        return jnp.pad(e, (0, self.added))

    def restitution_at_speed(self, given, speed):
        return jnp.pad(self.system.restitution(given.own, speed[: self.count]), (0, self.added))

    def tangential_restitution(self, given):
        return jnp.pad(tangential_restitutions(self.system, given.own, self.count, self.dtype), (0, self.added))

    def slip(self, t, q, u, given):
        (own, _), (speed, _) = self.split(q), self.split(u)
        touching = self.system.gap(t, own, given.own) <= given.below
        rolling = jnp.where(touching[:, None, None], self.system.rolling(t, own, speed, given.own), 0)
        sliding = self.system.slip(t, own, speed, given.own)
        return jnp.concatenate([sliding[None], jnp.moveaxis(rolling, 1, 0)]).reshape(-1, self.directions)

    def friction(self, given):
        return self.with_resistance(friction_coefficients(self.system, given.own, self.count, self.dtype), given)

    def friction_at_speed(self, given, speed):
        mu = jnp.asarray(self.system.friction(given.own, speed[: self.count]), self.dtype)
        return self.with_resistance(mu, given)

    def with_resistance(self, mu, given):
        """Friction of all: mu of the contacts, their resistance of the layers."""
        resistance = jnp.asarray(self.system.resistance(given.own), self.dtype)
        resistance = jnp.broadcast_to(resistance, (self.count, self.many))
        return jnp.concatenate([jnp.broadcast_to(mu, (1, self.count)), resistance.T]).ravel()

    def rate(self, q, u, given):
        (own, _), (speed, z) = self.split(q), self.split(u)
        return jnp.concatenate([self.system.rate(own, speed, given.own), z.ravel()])

    def dexpinv(self, theta, u, given):
        (own, _), (speed, z) = self.split(theta), self.split(u)
        return jnp.concatenate([self.system.dexpinv(own, speed, given.own), z.ravel()])

    def advance(self, q, u, s, given):
        (own, z), (speed, w) = self.split(q), self.split(u)
        return jnp.concatenate([advanced(self.system, given.own, own, speed, s), (z + s * w).ravel()])
