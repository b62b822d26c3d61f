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
those of contacts that rub. In an event-driven step the layers of contacts that are open rub nothing: they would have
slips that end, and hand on impacts between bodies that do not touch.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics.linear import nonzero, solve_mass
from diffcontact.schemes.event_timed.contacts import Place, reach
from diffcontact.schemes.event_timed.events import Percussion
from diffcontact.schemes.scheme import Info
from diffcontact.status import Status, first
from diffcontact.system import Params, System, advanced, friction_coefficients


@dataclass(frozen=True)
class Layers:
    """A system with the layers under its contacts, and those in its joints.

    Attributes:
        given: the system itself.
        system: the `System` of all, contacts and coordinates of the layers behind its own: layer by layer, then joints;
            params: its params.
        contacts: c, of the given system; piled: c m, layers under its contacts; joints: layers in joints.
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
        whole = _whole(system, count, many, joints, directions, u.size, q.dtype)
        place = lax.stop_gradient(Place.at(system, params, t, q, u.size))
        normals, mass = place.rows[:, 0], place.mass
        inverse = jnp.sum(normals * solve_mass(mass, normals.T).T, axis=1)
        like = jnp.where(inverse > 0, 1 / nonzero(inverse), jnp.max(mass))
        below = jnp.array(jnp.inf, q.dtype)
        if way is not None and many:
            # A gap that is met is zero to the root of the precision; it may grow as it goes.
            far = reach(system, *lax.stop_gradient((params, t, place, q)))
            size = jnp.max(far + jnp.abs(normals) @ lax.stop_gradient(way), initial=0.0)
            below = 4 * jnp.finfo(q.dtype).eps ** 0.5 * size
        masses = jnp.concatenate([jnp.tile(like, many), jnp.full(joints, jnp.max(mass))])
        return cls(system, whole, _Given(params, masses, below), count, count * many, joints)

    @property
    def coordinates(self) -> int:
        """How many the layers have."""
        return self.piled + self.joints

    def lying(self, x: Array) -> Array:
        """Add zeros for the layers to (..., d) numbers of the system's coordinates; one number stays."""
        return jnp.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, self.coordinates)]) if x.ndim else x

    def without(self, x: Array) -> Array:
        """Take the numbers of the system's coordinates (..., d); one number stays."""
        return x[..., : x.shape[-1] - self.coordinates] if x.ndim else x

    def of_all(self, x: Array) -> Array:
        """Repeat what contacts (c,) say for all in their piles; of joints it is zero."""
        return jnp.pad(jnp.tile(x, 1 + self.piled // max(self.contacts, 1)), (0, self.joints))

    def percussion(self, struck: Percussion) -> Percussion:
        """Take what a percussion does to the system's own contacts (..., c) and coordinates."""
        names = ("impulse", "before", "after", "slow", "soft", "numbers")
        of_contacts = {name: getattr(struck, name)[..., : self.contacts] for name in names}
        of_bodies = {name: self.without(getattr(struck, name)) for name in ("q", "u", "jump")}
        return replace(struck, **of_contacts, **of_bodies, friction=self._rubbed(struck.friction))

    def reported(self, info: Info, t, h) -> Info:
        """Take what a step from t to t + h reports of the system's own contacts; its pieces of motion tell of all.

        The status is BAD_INPUT where the friction of a joint is negative at an end of the step.
        """
        assert info.friction is not None
        status, friction = info.status, self.given.joint_friction
        if friction is not None:
            bounds = jax.vmap(lambda t: friction(t, self.params.own))(jnp.stack([t, t + h]))
            drives = jnp.any(lax.stop_gradient(bounds) < 0)
            status = first(status, jnp.where(drives, Status.BAD_INPUT, Status.OK).astype(jnp.int32))
        struck = None if info.percussions is None else self.percussion(info.percussions)
        own, joints = info.impulse[: self.contacts], info.friction[self.contacts + self.piled :]
        told = {"impulse": own, "friction": self._rubbed(info.friction), "percussions": struck, "joints": joints}
        return replace(info, status=status, **told)

    def _rubbed(self, friction: Array | None) -> Array | None:
        """(..., c, k) those of the system's own contacts, None where these do not rub."""
        return friction[..., : self.contacts, :] if friction is not None and self.given.rubs else None


class _Given(NamedTuple):
    """The system's own params; masses (c m + j,) of the layers [kg], any will do; the gap () of what touches [m]."""

    own: Params
    mass: Array
    below: Array


def _whole(given: Any, count: int, many: int, joints: int, directions: int, d: int, dtype) -> System:
    """The system of d coordinates with `many` layers under each of `count` contacts, and those of joints."""
    added = count * many + joints

    def split(x):
        """What belongs to the system, and to the layers."""
        return x[: x.size - added], x[x.size - added :]

    def gap(t, q, p: _Given):
        own, z = split(q)
        piles, free = z[: z.size - joints].reshape(many, count), z[z.size - joints :]
        above = jnp.concatenate([given.gap(t, own, p.own)[None], piles])
        return jnp.concatenate([(above - jnp.concatenate([piles, jnp.zeros_like(above[:1])])).ravel(), free])

    def force(t, q, u, p: _Given):
        pressed = jnp.zeros(added, dtype)
        if joints:
            pressed = pressed.at[-joints:].set(-jnp.asarray(given.joint_friction(t, p.own), dtype))
        return jnp.concatenate([given.force(t, split(q)[0], split(u)[0], p.own), pressed])

    def mass(q, p: _Given):
        own = given.mass(split(q)[0], p.own)
        if own.ndim == 1:
            return jnp.concatenate([own, p.mass])
        return jnp.zeros((d + added,) * 2, own.dtype).at[:d, :d].set(own).at[d:, d:].set(jnp.diag(p.mass))

    def slip(t, q, u, p: _Given):
        (own, _), (speed, _), found = split(q), split(u), []
        for name, rows in (("slip", count), ("rolling", count * many), ("joint_slip", joints)):
            function = getattr(given, name)
            one = jnp.zeros((rows, 0), dtype) if function is None else function(t, own, speed, p.own)
            if one.ndim == 3:
                touching = given.gap(t, own, p.own) <= p.below
                one = jnp.moveaxis(jnp.where(touching[:, None, None], one, 0), 1, 0).reshape(rows, -1)
            found.append(jnp.pad(one, ((0, 0), (0, directions - one.shape[1]))))
        return jnp.concatenate(found)

    def padded(coefficients, p: _Given, *speed):
        own = coefficients(p.own, *(x[:count] for x in speed))
        return jnp.pad(jnp.broadcast_to(jnp.asarray(own, dtype), (count,)), (0, added))

    def restitution(p: _Given):
        return padded(given.restitution, p)

    def restitution_at_speed(p: _Given, speed):
        return padded(given.restitution, p, speed)

    def rubbing(mu, p: _Given):
        """Coefficients of all: mu of the contacts, their resistance, and 1 of joints, whose load is their friction."""
        found = [jnp.broadcast_to(mu, (count,))]
        if many:
            resistance = jnp.asarray(given.resistance(p.own), dtype)
            found.append(jnp.broadcast_to(resistance, (count, many)).T.ravel())
        return jnp.concatenate([*found, jnp.ones(joints, dtype)])

    def friction(p: _Given):
        return rubbing(friction_coefficients(given, p.own, count, dtype), p)

    def friction_at_speed(p: _Given, speed):
        return rubbing(jnp.asarray(given.friction(p.own, speed[:count]), dtype), p)

    def beside(function):
        """The same of places, or rotation vectors, and velocities; layers go as they go."""

        def call(x, u, p: _Given):
            (own, _), (speed, z) = split(x), split(u)
            return jnp.concatenate([function(own, speed, p.own), z])

        return None if function is None else call

    def advance(q, u, s, p: _Given):
        (own, z), (speed, w) = split(q), split(u)
        return jnp.concatenate([advanced(given, p.own, own, speed, s), z + s * w])

    turns, springs = given.tangential_restitution, given.tangential_compliance
    return System(
        gap,
        force,
        mass,
        restitution_at_speed if given.speed_dependent else restitution,
        slip=slip,
        friction=friction_at_speed if given.friction_by_speed else friction,
        tangential_restitution=None if turns is None else lambda p: padded(turns, p),
        tangential_compliance=None if springs is None else lambda p: padded(springs, p),
        rate=beside(given.rate),
        advance=None if given.rate is None else advance,
        dexpinv=beside(given.dexpinv),
        impact_law=given.impact_law,
    )
