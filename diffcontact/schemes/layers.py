r"""Contacts that resist rolling and pivoting: several frictions under one load, as of layers between two surfaces.

A layer is a coordinate z of its own. It lies under its contact and takes no part in the motion::

        body            gap  g(t, q) - z_1       slips by the system's slip,        |B|   <= mu P
      - - - - - z_1     gap  z_1 - z_2           slips by its rolling velocity,     |B_1| <= mu_1 P_1
      - - - - - z_2     gap  z_2                 by the next one,                   |B_2| <= mu_2 P_2
      ___________

No force acts on a layer and no gap lets it move: z = 0 always. So M_z z'' = P_2 - P_1 = 0, and all contacts of such a
pile bear the load of the first, at rest, in motion and in an impact, whatever M_z is. What they rub is the body, by the
rows of their own slip velocities. So events, modes, impacts and derivatives are those of contacts that rub.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.friction import friction_coefficients, tangential_restitutions
from diffcontact.schemes.event_timed.impacts import Percussion
from diffcontact.schemes.scheme import Info
from diffcontact.system import Params, System, advanced


@dataclass(frozen=True)
class Layers:
    """A system with the layers under its contacts.

    Attributes:
        system: the `System` of all of them, contacts and coordinates of the layers behind its own, layer by layer.
        contacts: c, how many contacts the given system has.
        coordinates: c m, those of m layers under each.
    """

    system: System
    contacts: int
    coordinates: int

    @classmethod
    def under(cls, system: Any, params: Params, t, q: Array, u: Array) -> Layers:
        """Of a system whose contacts resist (`System.rolling`)."""
        shape = jax.eval_shape(lambda: system.rolling(jnp.asarray(t, q.dtype), q, u, params)).shape
        count, many, directions = shape
        added, d = count * many, u.size

        def split(x):
            """What belongs to the system, and to the layers (m, c)."""
            return x[: x.size - added], x[x.size - added :].reshape(many, count)

        def gap(t, q, params):
            own, z = split(q)
            above = jnp.concatenate([system.gap(t, own, params)[None], z])
            return (above - jnp.concatenate([z, jnp.zeros_like(z[:1])])).ravel()

        def force(t, q, u, params):
            (own, _), (speed, _) = split(q), split(u)
            return jnp.pad(system.force(t, own, speed, params), (0, added))

        def mass(q, params):
            own = system.mass(split(q)[0], params)
            # Any will do; one of the size of the others is the best conditioned.
            layer = lax.stop_gradient(jnp.max(own)) * jnp.ones(added, own.dtype)
            if own.ndim == 1:
                return jnp.concatenate([own, layer])
            return jnp.zeros((d + added,) * 2, own.dtype).at[:d, :d].set(own).at[d:, d:].set(jnp.diag(layer))

        def restitution(params):
            e = jnp.broadcast_to(jnp.asarray(system.restitution(params), q.dtype), (count,))
            return jnp.pad(e, (0, added))

        def at_speed(params, speed):
            return jnp.pad(system.restitution(params, speed[:count]), (0, added))

        def slip(t, q, u, params):
            (own, _), (speed, _) = split(q), split(u)
            # What is open neither rolls on anything nor hands an impact on to what the body touches elsewhere.
            near = system.gap(t, own, params) <= jnp.finfo(q.dtype).eps ** 0.5 * (1 + jnp.max(jnp.abs(own)))
            rolling = jnp.where(near[:, None, None], system.rolling(t, own, speed, params), 0)
            sliding = system.slip(t, own, speed, params)
            return jnp.concatenate([sliding[None], jnp.moveaxis(rolling, 1, 0)]).reshape(-1, directions)

        def with_resistance(mu, params):
            resistance = jnp.broadcast_to(jnp.asarray(system.resistance(params), q.dtype), (count, many))
            return jnp.concatenate([jnp.broadcast_to(mu, (1, count)), resistance.T]).ravel()

        def friction(params):
            return with_resistance(friction_coefficients(system, params, count, q.dtype), params)

        def friction_at_speed(params, speed):
            return with_resistance(jnp.asarray(system.friction(params, speed[:count]), q.dtype), params)

        def rate(q, u, params):
            (own, _), (speed, z) = split(q), split(u)
            return jnp.concatenate([system.rate(own, speed, params), z.ravel()])

        def advance(q, u, s, params):
            (own, z), (speed, w) = split(q), split(u)
            return jnp.concatenate([advanced(system, params, own, speed, s), (z + s * w).ravel()])

        return cls(
            System(
                gap,
                force,
                mass,
                at_speed if system.speed_dependent else restitution,
                slip=slip,
                friction=friction_at_speed if system.friction_by_speed else friction,
                tangential_restitution=lambda params: jnp.pad(
                    tangential_restitutions(system, params, count, q.dtype), (0, added)
                ),
                rate=None if system.rate is None else rate,
                advance=None if system.rate is None else advance,
            ),
            count,
            added,
        )

    def lying(self, x: Array, value: float = 0.0) -> Array:
        """What belongs to the system's coordinates, with this value for those of the layers."""
        return jnp.pad(x, (0, self.coordinates), constant_values=value)

    def without(self, x: Array) -> Array:
        """What belongs to the system's coordinates (..., d)."""
        return x[..., : x.shape[-1] - self.coordinates]

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
