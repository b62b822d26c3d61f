"""An impact that one contact takes alone, by Poisson's or Stronge's law."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from diffcontact.mass import solve
from diffcontact.schemes.event_timed.friction.flow.law import bounce
from diffcontact.schemes.event_timed.friction.piece import Place


class Hit(NamedTuple):
    """The velocity (d,) after an impact, its impulses (c,) and (c, k), and the status of the search for them."""

    u: Array
    normal: Array
    tangential: Array
    status: Array


def struck_alone(law: str, place: Place, contact: Array, e: Array, u: Array) -> tuple[Hit, Hit]:
    """What the flow over the normal impulse makes of the velocity u (d,), if it is `contact` that is struck.

    Args:
        law: "poisson" or "stronge".
        contact: () int.
        e: () restitution.

    Returns:
        The whole impact, and its compression alone: the impact of e = 0.
    """
    here, slip = place.contacts, place.slip
    rows = jnp.concatenate([here.normals[contact][None], slip.tangents[contact]])
    mobility = solve(place.mass, rows.T)
    before = jnp.concatenate([here.velocity(u)[contact][None], slip.velocity(u)[contact]])
    found = bounce(rows @ mobility, before, place.friction[contact], e, law)
    this = jnp.arange(here.gap.size) == contact

    def hit(impulse) -> Hit:
        normal = jnp.where(this, impulse[0], 0.0)
        tangential = jnp.where(this[:, None], impulse[1:], 0.0)
        return Hit(u + mobility @ impulse, normal, tangential, found.status)

    return hit(found.impulse), hit(found.compression)
