r"""Laws of restitution and of friction: how the coefficients depend on the speed of approach v.

    constant       e = restitution
    linear         e = restitution - restitution_loss v
    power          e = restitution (v / v0)^-restitution_exponent
    viscoelastic   e = 1 - (1 - restitution) (v / v0)^(1/5)
    sticking       e = restitution sqrt(1 - (v_s / v)^2),   0 where v <= v_s

with v0 the `reference_speed` at which e is `restitution`, a choice and not a property, and v_s the `sticking_speed`.
Each is kept within [0, 1]: at v = 0 a power is cut off at 1, and where a line has come down to 0 it stays there. Beyond
such a corner nothing depends on the law's parameters; `certify` names impacts at one. The slope of "sticking" is
infinite where bodies begin to stick, but above that speed v_s can be fitted, unlike the edge of a step.

Friction in an impact is

    constant       mu = friction
    linear         mu = friction - friction_loss v,   0 where that is negative

and `friction` is that of contacts that last, whatever the law. An impact law by name may have a coefficient, too:
"compliant" the `tangential_compliance`, k_n / k_t (`System`).

Source: viscoelastic spheres: G. Kuwabara, K. Kono, Jpn. J. Appl. Phys. 26 (1987) 1230; R. Ramirez, T. Poeschel,
N. V. Brilliantov, T. Schwager, Phys. Rev. E 60 (1999) 4465. Sticking, an energy that adhesion takes: B. Dahneke,
J. Colloid Interface Sci. 37 (1971) 342.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.host.messages import did_you_mean


@dataclass(frozen=True)
class Coefficient:
    """A parameter that a law has besides `restitution`.

    Attributes:
        name: in params.
        speed: the power of a speed in its unit: 1 for a speed itself, -1 for what is per speed, 0 for a number.
        low: what is possible at least.
        choice: whether it is a choice of units, one number for all contacts that is 1 where params lack it.
        squared: whether the law knows it by its square alone, so that near zero nothing but the square can be seen.
        start: from speeds of approach (m,) to a value at which the law is all but constant, to begin a fit with.
    """

    name: str
    speed: int
    low: float = -np.inf
    choice: bool = False
    squared: bool = False
    start: Callable[[np.ndarray], float] = lambda speeds: 0.0


@dataclass(frozen=True)
class Law:
    """A law of restitution.

    Attributes:
        name, formula: as users write and read them.
        coefficients: its parameters besides `restitution`.
        function: (values by name, speed (c,)) -> e (c,), before it is kept within [0, 1]; speed is above 0.
    """

    name: str
    formula: str
    coefficients: tuple[Coefficient, ...]
    function: Callable[[Callable[[str], Any], Array], Array]


def _sticking(value, speed):
    share = 1 - (value("sticking_speed") / speed) ** 2
    bounces = share > 0
    return jnp.where(bounces, value("restitution") * jnp.sqrt(jnp.where(bounces, share, 1.0)), 0.0)


def _mean(speeds: np.ndarray) -> float:
    return float(np.exp(np.mean(np.log(speeds))))


_REFERENCE = Coefficient("reference_speed", 1, low=0.0, choice=True, start=_mean)
LAWS = {
    law.name: law
    for law in (
        Law("constant", "e", (), lambda value, speed: value("restitution") * jnp.ones_like(speed)),
        Law(
            "linear",
            "e - restitution_loss v",
            (Coefficient("restitution_loss", -1),),
            lambda value, speed: value("restitution") - value("restitution_loss") * speed,
        ),
        Law(
            "power",
            "e (v / v0)^-restitution_exponent",
            (Coefficient("restitution_exponent", 0), _REFERENCE),
            lambda value, speed: (
                value("restitution") * (speed / value("reference_speed")) ** -jnp.asarray(value("restitution_exponent"))
            ),
        ),
        Law(
            "viscoelastic",
            "1 - (1 - e) (v / v0)^(1/5)",
            (_REFERENCE,),
            lambda value, speed: 1 - (1 - value("restitution")) * (speed / value("reference_speed")) ** 0.2,
        ),
        Law(
            "sticking",
            "e sqrt(1 - (v_s / v)^2)",
            # At zero nothing would depend on it.
            (
                Coefficient(
                    "sticking_speed", 1, low=0.0, squared=True, start=lambda speeds: 0.3 * float(np.min(speeds))
                ),
            ),
            _sticking,
        ),
    )
}


def named(name: str, caller: str) -> Law:
    """Return the law that the caller was given by name, or raise a ValueError."""
    if name not in LAWS:
        raise ValueError(f"{caller}(restitution={name!r}): no such law; {did_you_mean(str(name), LAWS)}")
    return LAWS[name]


def _of_params(name: str, params: Any) -> Any:
    return params[name]


def built(law: str, coefficient: Callable[[str, Any], Any]) -> Callable[..., Any]:
    """Make the function of `restitution` anew, for coefficients that close over traced values."""
    found = named(law, "laws.restitution")
    choices = {one.name for one in found.coefficients if one.choice}
    if not found.coefficients:
        return lambda params: coefficient("restitution", params)

    def of_speed(params, speed):
        def value(name):
            if name in choices:
                return params.get(name, 1.0)
            return coefficient(name, params)

        e = jnp.asarray(found.function(value, speed))
        # Not a clip, whose derivative at 0 and 1 themselves is zero.
        return jnp.where(e > 1, 1.0, jnp.where(e < 0, 0.0, e))

    return of_speed


@lru_cache(maxsize=256)
def restitution(law: str = "constant", coefficient: Callable[[str, Any], Any] = _of_params) -> Callable[..., Any]:
    """Make a law as `System(restitution=...)` takes it.

    Args:
        law: one of `LAWS`, by name.
        coefficient: (name, params) -> () or (c,), where the contacts' values are found; by default `params[name]`.

    Returns:
        A function of (params, speed), or of params alone where it is constant; equal arguments give the same one.

    Raises:
        ValueError: no such law.

    Example:
        >>> import jax
        >>> bumpers = restitution("power")
        >>> params = {"restitution": 0.4, "restitution_exponent": 1.5, "reference_speed": 0.1}
        >>> print(np.round(jax.jit(bumpers)(params, np.array([0.05, 0.1, 0.2])), 3))
        [1.    0.4   0.141]
    """
    return built(law, coefficient)


# Laws of friction, and the parameters of each besides `friction`.
FRICTION_LAWS = {"constant": (), "linear": (Coefficient("friction_loss", -1),)}


@lru_cache(maxsize=256)
def friction(law: str = "constant", coefficient: Callable[[str, Any], Any] = _of_params) -> Callable[..., Any]:
    """Make a law as `System(friction=...)` takes it; arguments, returns and errors as of `restitution`.

    Example:
        >>> import jax
        >>> cloth, params = jax.jit(friction("linear")), {"friction": 0.2, "friction_loss": 0.03}
        >>> print(np.round(cloth(params, np.array([0.0, 1.0, 9.0])), 3))
        [0.2  0.17 0.  ]
    """
    require_friction(law, "laws.friction")
    return built_friction(law, coefficient)


def built_friction(law: str, coefficient: Callable[[str, Any], Any]) -> Callable[..., Any]:
    """Make the function of `friction` anew, for coefficients that close over traced values."""
    if law == "constant":
        return lambda params: coefficient("friction", params)

    def of_speed(params, speed):
        slow = jnp.asarray(coefficient("friction", params))
        mu = slow - coefficient("friction_loss", params) * speed
        # One that is negative from the start stays so, and is refused.
        return jnp.where(mu < 0, jnp.minimum(slow, 0.0), mu)

    return of_speed


def of_impact(impact_law: str, coefficient: Callable[[str, Any], Any] = _of_params) -> dict[str, Any]:
    """Return the arguments of `System` for an impact law: its name and its coefficient.

    Example:
        >>> sorted(of_impact("compliant")), of_impact("poisson")
        (['impact_law', 'tangential_compliance'], {'impact_law': 'poisson'})
    """
    own = {"tangential_compliance": lambda params: coefficient("tangential_compliance", params)}
    return {"impact_law": impact_law} | (own if impact_law == "compliant" else {})


def besides_friction(law: str) -> list[str]:
    """Name the parameters that a law of friction has besides `friction`."""
    return [one.name for one in FRICTION_LAWS[law]]


def require_friction(name: str, caller: str) -> None:
    """Refuse an unknown law of friction by a ValueError."""
    if name not in FRICTION_LAWS:
        raise ValueError(f"{caller}(friction={name!r}): no such law; {did_you_mean(str(name), FRICTION_LAWS)}")
