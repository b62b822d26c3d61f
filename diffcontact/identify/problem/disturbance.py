r"""What a model leaves out, as one more force: a resistance (air, a rail, rolling) of a rate c [1/s], and a kick.

No fit has them free. They stand beside the parameters at zero, so that a verdict can ask what the data say of them, as
of any number that is held fixed, without compiling anything anew::

    M(q) du = (f(t, q, u) - c M(q) u + M(q) w(t) k) dt + ...

Free motion loses 1 - exp(-c t) of its speed in t seconds. The kick changes the velocity by k [m/s] within 2 T seconds
about its moment, w(t) = max(0, 1 - |t - moment| / T) / T.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from diffcontact.arguments import placed
from diffcontact.numerics.mass import apply
from diffcontact.system import System

# Not names that a user's parameters have: `fixed_terms` finds them under these, and sentences tell them by these.
RESISTANCE, KICK = "resistance to motion", "kick"


def no_kick(d: int, dtype: Any) -> Array:
    """(2 + d,) a kick that changes d velocities by nothing: see `kick`."""
    return kick(0.0, 1.0, np.zeros(d, dtype))


def kick(moment: ArrayLike, width: ArrayLike, change: ArrayLike) -> Array:
    """(2 + d,) a kick at a moment [s], T = width [s], that changes the velocity by `change` (d,) [m/s], as parameters
    hold it."""
    change = np.asarray(change)
    return placed(np.concatenate([np.asarray([moment, width], change.dtype), change]))


@jax.tree_util.register_pytree_with_keys_class
class Disturbed(dict):
    """A run's parameters, and beside them what disturbs its motion: `rate` () [1/s] and `kick` (2 + d,), or None."""

    rate: Array | None = None
    kick: Array | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Disturbed:
        """These parameters, with what stands under `RESISTANCE` and `KICK` among them taken out and put beside them."""
        disturbed = cls(params)
        disturbed.rate, disturbed.kick = disturbed.pop(RESISTANCE, None), disturbed.pop(KICK, None)
        return disturbed

    def tree_flatten_with_keys(self):
        names = sorted(self)
        children = [(jax.tree_util.DictKey(name), self[name]) for name in names]
        beside = [(jax.tree_util.GetAttrKey("rate"), self.rate), (jax.tree_util.GetAttrKey("kick"), self.kick)]
        return [*children, *beside], tuple(names)

    @classmethod
    def tree_unflatten(cls, names, children) -> Disturbed:
        *values, rate, kick = children
        disturbed = cls(zip(names, values, strict=True))
        disturbed.rate, disturbed.kick = rate, kick
        return disturbed


@dataclass(frozen=True)
class _Disturbed:
    """A system's force, and what disturbs it where the parameters say so. Compared by the two functions it holds."""

    force: Callable[[Any, Array, Array, Any], Array]
    mass: Callable[[Array, Any], Array]

    def __call__(self, t: Any, q: Array, u: Array, params: Any) -> Array:
        force, rate, kick = self.force(t, q, u, params), getattr(params, "rate", None), getattr(params, "kick", None)
        if rate is None:
            return force
        # Another shape of force or mass is a mistake, which `simulate` tells.
        mass, d = jnp.asarray(self.mass(q, params)), u.size
        if not (jnp.shape(force) == (d,) and mass.shape in ((d,), (d, d))):
            return force
        change = -rate * u
        if kick is not None:
            moment, width = kick[0], kick[1]
            change = change + jnp.maximum(1.0 - jnp.abs(t - moment) / width, 0.0) / width * kick[2:]
        return force + apply(mass, change)


def disturbed(system: Any) -> Any:
    """The system, able to be disturbed. One that is no `System`, or known by its identity only, is as it was."""
    if not isinstance(system, System):
        return system
    try:
        hash(system)
    except TypeError:
        return system
    return replace(system, force=_Disturbed(system.force, system.mass))
