r"""Several frictions under one load, and frictions under a load that is given: as of layers between two surfaces.

A layer is a coordinate z of its own, and takes no part in the motion. Under a contact it bears the contact's load::

        body            gap  g(t, q) - z_1       slips by the system's slip,        |B|   <= mu P
      - - - - - z_1     gap  z_1 - z_2           slips by its rolling velocity,     |B_1| <= mu_1 P_1
      - - - - - z_2     gap  z_2                 by the next one,                   |B_2| <= mu_2 P_2
      ___________

No force acts on these layers and no gap lets them move: z = 0 always. So M_z z'' = P_2 - P_1 = 0, and all contacts of
such a pile bear the load of the first, at rest, in motion and in an impact, whatever M_z is. A layer in a joint is
pressed onto the ground by the given force F, and bears just that, and nothing in an impact::

      F | - - - - - z   gap  z                   slips by the joint's slip,         |beta| <= F
        ___________

What layers rub is the body, by the rows of their own slip velocities. So events, modes, impacts and derivatives are
those of contacts that rub.

In an event-driven step the layers of contacts that are open rub nothing: they would have slips that end, and hand on
impacts between bodies that do not touch. Where one solution says what closes and what it bears, they are told by it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.friction import friction_coefficients, tangential_compliances, tangential_restitutions
from diffcontact.numerics.mass import solve
from diffcontact.schemes.event_timed.contacts import Place, reach
from diffcontact.schemes.event_timed.percussion import Percussion
from diffcontact.schemes.scheme import Info
from diffcontact.status import Status, first
from diffcontact.system import Params, System, advanced


@dataclass(frozen=True)
class Layers:
    """A system with the layers under its contacts, and those in its joints.

    Attributes:
        given: the system itself.
        system: the `System` of all of them, contacts and coordinates of the layers behind its own: layer by layer, then
            those of joints.
        params: its params.
        contacts: c, how many contacts the given system has.
        piled: c m, how many layers there are under its contacts; joints: how many in joints.
    """

    given: System
    system: System
    params: Params
    contacts: int
    piled: int
    joints: int

    @classmethod
    def under(cls, system: Any, params: Params, t, q: Array, u: Array, way: Array | None = None) -> Layers:
        """Of a system whose contacts or joints resist (`System.layered`), for a step from (q, u) at t.

        Args:
            way: None where all layers rub, or (d,), how far each coordinate may go in an event-driven step: layers of
                contacts that are open by more than rounding then rub nothing.
        """

        def shape(function, *otherwise) -> tuple[int, ...]:
            return otherwise if function is None else jax.eval_shape(lambda: function(t, q, u, params)).shape

        t = jnp.asarray(t, q.dtype)
        (count,) = jax.eval_shape(lambda: system.gap(t, q, params)).shape
        (_, many, _), (joints, along) = shape(system.rolling, count, 0, 1), shape(system.joint_slip, 0, 1)
        directions = max(shape(system.slip, count, 1)[1], along)
        piled = _Layered(system, count, many, joints, directions, u.size, q.dtype)
        place = lax.stop_gradient(Place.at(system, params, t, q, u.size))
        normals, mass = place.rows[:, 0], place.mass
        inverse = jnp.sum(normals * solve(mass, normals.T).T, axis=1)
        like = jnp.where(inverse > 0, 1 / jnp.where(inverse > 0, inverse, 1), jnp.max(mass))
        below = jnp.array(jnp.inf, q.dtype)
        if way is not None and many:
            # A gap that is met is zero to the root of the precision; it may grow as it goes.
            far = reach(system, *lax.stop_gradient((params, t, place, q)))
            size = jnp.max(far + jnp.abs(normals) @ lax.stop_gradient(way), initial=0.0)
            below = 4 * jnp.finfo(q.dtype).eps ** 0.5 * size
        masses = jnp.concatenate([jnp.tile(like, many), jnp.full(joints, jnp.max(mass))])
        return cls(system, piled.whole(), _Given(params, masses, below), count, count * many, joints)

    @property
    def coordinates(self) -> int:
        """How many the layers have."""
        return self.piled + self.joints

    def lying(self, x: Array) -> Array:
        """What belongs to the system's coordinates (..., d), zero for those of the layers; one number as it is."""
        return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, self.coordinates)]) if x.ndim else x

    def without(self, x: Array) -> Array:
        """What belongs to the system's coordinates (..., d); one number as it is."""
        return x[..., : x.shape[-1] - self.coordinates] if x.ndim else x

    def of_all(self, x: Array) -> Array:
        """What a contact says (c,), said by all in its pile; of joints it is zero."""
        return jnp.pad(jnp.tile(x, 1 + self.piled // max(self.contacts, 1)), (0, self.joints))

    def percussion(self, struck: Percussion) -> Percussion:
        """What a percussion does to the system's own contacts (..., c) and coordinates."""
        names = ("impulse", "before", "after", "slow", "soft", "numbers")
        of_contacts = {name: getattr(struck, name)[..., : self.contacts] for name in names}
        of_bodies = {name: self.without(getattr(struck, name)) for name in ("q", "u", "jump")}
        return replace(struck, **of_contacts, **of_bodies, friction=self._rubbed(struck.friction))

    def reported(self, info: Info, t, h) -> Info:
        """What a step from t to t + h reports of the system's own contacts; its pieces of motion tell of all."""
        assert info.friction is not None
        status = first(info.status, self._drives(t, h))
        struck = None if info.percussions is None else self.percussion(info.percussions)
        own, joints = info.impulse[: self.contacts], info.friction[self.contacts + self.piled :]
        told = {"impulse": own, "friction": self._rubbed(info.friction), "percussions": struck, "joints": joints}
        return replace(info, status=status, **told)

    def _drives(self, t, h) -> Array:
        """() BAD_INPUT where the friction of a joint is negative at an end of the step."""
        friction = self.given.joint_friction
        if friction is None:
            return jnp.zeros((), jnp.int32)
        bounds = jax.vmap(lambda t: friction(t, self.params.own))(jnp.stack([t, t + h]))
        return jnp.where(jnp.any(lax.stop_gradient(bounds) < 0), Status.BAD_INPUT, Status.OK).astype(jnp.int32)

    def _rubbed(self, friction: Array | None) -> Array | None:
        """(..., c, k) those of the system's own contacts, None where these do not rub."""
        return friction[..., : self.contacts, :] if friction is not None and self.given.rubs else None


class _Given(NamedTuple):
    """What is known of a system with layers: the params of the system itself; the masses (c m + j,) of the layers [kg],
    any will do, and those like that of the bodies are the best conditioned; the gap () up to which a contact counts as
    touching [m]."""

    own: Params
    mass: Array
    below: Array


class _Layered(NamedTuple):
    """The functions of a system of d coordinates, with `many` layers under each of `count` contacts, and of joints."""

    system: Any
    count: int
    many: int
    joints: int
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
            tangential_restitution=None if given.tangential_restitution is None else self.tangential_restitution,
            tangential_compliance=None if given.tangential_compliance is None else self.tangential_compliance,
            rate=None if given.rate is None else self.rate,
            advance=None if given.rate is None else self.advance,
            dexpinv=None if given.dexpinv is None else self.dexpinv,
            impact_law=given.impact_law,
        )

    @property
    def added(self) -> int:
        return self.count * self.many + self.joints

    def split(self, x):
        """What belongs to the system, and to the layers."""
        return x[: x.size - self.added], x[x.size - self.added :]

    def gap(self, t, q, given):
        own, z = self.split(q)
        piles, free = z[: z.size - self.joints].reshape(self.many, self.count), z[z.size - self.joints :]
        above = jnp.concatenate([self.system.gap(t, own, given.own)[None], piles])
        return jnp.concatenate([(above - jnp.concatenate([piles, jnp.zeros_like(above[:1])])).ravel(), free])

    def force(self, t, q, u, given):
        (own, _), (speed, _) = self.split(q), self.split(u)
        pressed = jnp.zeros(self.added, self.dtype)
        if self.joints:
            pressed = pressed.at[-self.joints :].set(-jnp.asarray(self.system.joint_friction(t, given.own), self.dtype))
        return jnp.concatenate([self.system.force(t, own, speed, given.own), pressed])

    def mass(self, q, given):
        own, d = self.system.mass(self.split(q)[0], given.own), self.d
        if own.ndim == 1:
            return jnp.concatenate([own, given.mass])
        return jnp.zeros((d + self.added,) * 2, own.dtype).at[:d, :d].set(own).at[d:, d:].set(jnp.diag(given.mass))

    def restitution(self, given):
        e = jnp.broadcast_to(jnp.asarray(self.system.restitution(given.own), self.dtype), (self.count,))
        return jnp.pad(e, (0, self.added))

    def restitution_at_speed(self, given, speed):
        return jnp.pad(self.system.restitution(given.own, speed[: self.count]), (0, self.added))

    def tangential_restitution(self, given):
        return jnp.pad(tangential_restitutions(self.system, given.own, self.count, self.dtype), (0, self.added))

    def tangential_compliance(self, given):
        return jnp.pad(tangential_compliances(self.system, given.own, self.count, self.dtype), (0, self.added))

    def slip(self, t, q, u, given):
        (own, _), (speed, _) = self.split(q), self.split(u)
        found = []
        for name, count in (("slip", self.count), ("rolling", self.count * self.many), ("joint_slip", self.joints)):
            function = getattr(self.system, name)
            slip = jnp.zeros((count, 0), self.dtype) if function is None else function(t, own, speed, given.own)
            if slip.ndim == 3:
                touching = self.system.gap(t, own, given.own) <= given.below
                slip = jnp.moveaxis(jnp.where(touching[:, None, None], slip, 0), 1, 0).reshape(count, -1)
            found.append(jnp.pad(slip, ((0, 0), (0, self.directions - slip.shape[1]))))
        return jnp.concatenate(found)

    def friction(self, given):
        return self.of_all(friction_coefficients(self.system, given.own, self.count, self.dtype), given)

    def friction_at_speed(self, given, speed):
        return self.of_all(jnp.asarray(self.system.friction(given.own, speed[: self.count]), self.dtype), given)

    def of_all(self, mu, given):
        """Coefficients of all: mu of the contacts, their resistance, and 1 of joints, whose load is their friction."""
        found = [jnp.broadcast_to(mu, (self.count,))]
        if self.many:
            resistance = jnp.asarray(self.system.resistance(given.own), self.dtype)
            found.append(jnp.broadcast_to(resistance, (self.count, self.many)).T.ravel())
        return jnp.concatenate([*found, jnp.ones(self.joints, self.dtype)])

    def rate(self, q, u, given):
        (own, _), (speed, z) = self.split(q), self.split(u)
        return jnp.concatenate([self.system.rate(own, speed, given.own), z])

    def dexpinv(self, theta, u, given):
        (own, _), (speed, z) = self.split(theta), self.split(u)
        return jnp.concatenate([self.system.dexpinv(own, speed, given.own), z])

    def advance(self, q, u, s, given):
        (own, z), (speed, w) = self.split(q), self.split(u)
        return jnp.concatenate([advanced(self.system, given.own, own, speed, s), z + s * w])
