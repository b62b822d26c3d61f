r"""A resistance that a model leaves out: air, a rail, rolling, as one more force -c M(q) u of a rate c [1/s].

No fit has it free. It stands beside the parameters at zero, so that a verdict can ask what the data say of it, as of
any number that is held fixed, without compiling anything anew::

    M(q) du = (f(t, q, u) - c M(q) u) dt + ...,      free motion loses 1 - exp(-c t) of its speed in t seconds
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from diffcontact.mass import apply
from diffcontact.system import System

# Not a name that a user's parameters have: `held` finds it under this one, and sentences tell it by it.
RESISTANCE = "resistance to motion"


@jax.tree_util.register_pytree_with_keys_class
class Resisted(dict):
    """A run's parameters, and beside them, in `rate`, how strongly the motion is resisted: () [1/s], or None."""

    rate: Array | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Resisted:
        """These parameters, with what stands under `RESISTANCE` among them taken out and put beside them."""
        resisted = cls(params)
        resisted.rate = resisted.pop(RESISTANCE, None)
        return resisted

    def tree_flatten_with_keys(self):
        names = sorted(self)
        children = [(jax.tree_util.DictKey(name), self[name]) for name in names]
        return [*children, (jax.tree_util.GetAttrKey("rate"), self.rate)], tuple(names)

    @classmethod
    def tree_unflatten(cls, names, children) -> Resisted:
        *values, rate = children
        resisted = cls(zip(names, values, strict=True))
        resisted.rate = rate
        return resisted


@dataclass(frozen=True)
class _Resisted:
    """A system's force, less c M u where the parameters say how large c is. Compared by the two functions it holds."""

    force: Callable[[Any, Array, Array, Any], Array]
    mass: Callable[[Array, Any], Array]

    def __call__(self, t: Any, q: Array, u: Array, params: Any) -> Array:
        force, rate = self.force(t, q, u, params), getattr(params, "rate", None)
        if rate is None:
            return force
        # Another shape of force or mass is a mistake, which `simulate` tells.
        mass, d = jnp.asarray(self.mass(q, params)), u.size
        sound = jnp.shape(force) == (d,) and mass.shape in ((d,), (d, d))
        return force - rate * apply(mass, u) if sound else force


def resisted(system: Any) -> Any:
    """The system, able to be resisted. One that is no `System`, or that is known by its identity only, is as it was."""
    if not isinstance(system, System):
        return system
    try:
        hash(system)
    except TypeError:
        return system
    return replace(system, force=_Resisted(system.force, system.mass))
