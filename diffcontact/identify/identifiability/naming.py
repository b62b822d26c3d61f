"""What is identified where single parameters are not: null directions in words, and what would resolve them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact.identify.problem.objective import Objective
from diffcontact.particle_line import ParticleLine

# Exponents of products like e^2 h: small whole numbers, recognised to the accuracy of a null direction.
_LARGEST_EXPONENT = 4
_ACCURACY = 1e-3


def explain(objective: Objective, theta: Any, direction: Mapping[str, float], trajectories: Sequence[Any]) -> str:
    """One unseen direction (name -> weight) in words.

    Args:
        objective: the fit.
        theta: (P,) where.
        direction: along which no residual changes.
        trajectories: of the runs there.
    """
    if len(direction) > 1:
        values = dict(zip(objective.parameters.names, objective.parameters.values(np.asarray(theta)), strict=True))
        text = combination(direction, values)
        if all(role(objective, theta, name) == "mass" for name in direction):
            text += "; a known mass or a force in newton would resolve it"
        return text
    (name,) = direction
    kind = role(objective, theta, name)
    if kind == "restitution":
        if not any(np.any(np.asarray(trajectory.impulse) > 0) for trajectory in trajectories):
            return f"{name} needs an impact: none in these data"
        return f"{name} needs an impact whose rebound is seen: none in these data"
    if kind == "friction":
        if any(trajectory.friction is not None for trajectory in trajectories):
            least = least_friction(objective, theta, name, trajectories)
            gripped = f"; all grip, for which {name} >= {least:.3g} at the estimate" if least > 0 else ""
            return f"{name} needs a contact that slips: none in these data{gripped}"
        return f"{name} needs a stretch of sliding: none in these data"
    if kind == "tangential_restitution":
        return f"{name} needs an impact in the grip: none in these data"
    if kind == "mass":
        return f"{name} needs a force or a collision that depends on it: none in these data"
    return f"{name} has no effect on what was measured"


def combination(direction: Mapping[str, float], values: Mapping[str, float]) -> str:
    """What a change of several parameters along a direction leaves alone.

    Example:
        >>> combination({"m1": 1.0, "m2": 0.5}, {"m1": 2.0, "m2": 1.0})
        'only m1/m2 is identified, not m1 and m2'
        >>> combination({"e": 1.0, "h": -5.0}, {"e": 0.8, "h": 2.0})
        'only e^2 h is identified, not e and h'
        >>> combination({"x": 1.0, "d": 1.0}, {"x": 0.0, "d": 0.3})
        'only x - d is identified, not x and d'
    """
    names = list(direction)
    relative = {name: direction[name] / values[name] if values[name] else np.inf for name in names}
    if len(names) > 2 and all(abs(relative[name] / relative[names[0]] - 1) < _ACCURACY for name in names):
        return f"only the ratios of {_list(names)} are identified, not their common scale"
    found = [_pair(first, second, direction, relative) for first, second in combinations(names, 2)]
    kept = [text for text in found if text]
    if len(names) == 2 and kept:
        return f"only {kept[0]} is identified, not {_list(names)}"
    along = ", ".join(f"{name}: {weight:.3g}" for name, weight in direction.items())
    return f"{_list(names)} are not identified together: along {{{along}}} nothing changes" + (
        f", {_list(kept)} among them" if kept else ""
    )


def _pair(first: str, second: str, direction: Mapping[str, float], relative: Mapping[str, float]) -> str:
    """A product of powers, a sum or a difference of two that stays the same; empty where there is none that simple."""
    if np.isfinite(relative[first]) and np.isfinite(relative[second]):
        # first^p second^q is constant where p c_1 + q c_2 = 0, c the relative changes.
        ratio = Fraction(-relative[second] / relative[first]).limit_denominator(_LARGEST_EXPONENT)
        near = abs(float(ratio) * relative[first] / relative[second] + 1) < _ACCURACY
        if near and 0 < abs(ratio.numerator) <= _LARGEST_EXPONENT:
            p, q = abs(ratio.numerator), ratio.denominator * (1 if ratio > 0 else -1)
            return f"{_power(first, p)}{' ' if q > 0 else '/'}{_power(second, abs(q))}"
    if abs(abs(direction[first] / direction[second]) - 1) < _ACCURACY:
        return f"{first} {'-' if direction[first] * direction[second] > 0 else '+'} {second}"
    return ""


def _power(name: str, exponent: int) -> str:
    return name if exponent == 1 else f"{name}^{exponent}"


def _list(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def role(objective: Objective, theta: Any, name: str) -> str:
    """Which of a system's functions a parameter is for: "mass", "restitution", "friction", "tangential_restitution".

    "" where it is for none of them.
    """
    for run, here, there in _moved(objective, theta, name):
        system = run.model.system
        line = isinstance(system, ParticleLine)
        functions = {
            "mass": system.mass if line else lambda p, s=system, r=run: s.mass(jnp.asarray(r.model.initial(p)[0]), p),
        }
        for kind in ("restitution", "friction", "tangential_restitution"):
            function = getattr(system, kind, None)
            if function is not None:
                functions[kind] = function
        if not line and system.speed_dependent:
            functions["restitution"] = partial(_at_speed, run, system.restitution, 1.0)
        # What friction loses with the speed bounds no grip from below.
        if not line and system.friction_by_speed:
            functions["friction"] = partial(_at_speed, run, system.friction, 0.0)
        for kind, function in functions.items():
            if np.any(np.asarray(function(here)) != np.asarray(function(there))):
                return kind
    return ""


def _at_speed(run, coefficient, speed, params):
    """(c,) values at one speed of approach [m/s] of a coefficient that depends on it."""
    system, q0 = run.model.system, jnp.asarray(run.model.initial(params)[0])
    gap = jax.eval_shape(lambda q: system.gap(jnp.zeros((), q.dtype), q, params), q0)
    return coefficient(params, jnp.full(gap.shape, speed, q0.dtype))


def _moved(objective: Objective, theta: Any, name: str):
    """The runs, each with all parameters at theta and with those of theta that has this element moved a little."""
    j, theta = objective.parameters.names.index(name), np.asarray(theta, float)
    moved = theta + (1e-3 * max(abs(theta[j]), 1.0)) * (np.arange(theta.size) == j)
    for run in objective.joint.runs:
        yield run, *(run.beginning(at).params for at in (theta, moved))


def least_friction(objective: Objective, theta: Any, name: str, trajectories: Sequence[Any]) -> float:
    """The largest |B| / P over all intervals, of the contacts that rub with this coefficient; 0 where none touches."""
    least = 0.0
    for (run, here, there), trajectory in zip(_moved(objective, theta, name), trajectories, strict=True):
        if trajectory.friction is None:
            continue
        mu = run.model.system.friction
        if run.model.system.friction_by_speed:
            mu = partial(_at_speed, run, mu, 0.0)
        differs = np.asarray(mu(here)) != np.asarray(mu(there))
        rub, load = np.linalg.norm(np.asarray(trajectory.friction), axis=-1), np.asarray(trajectory.impulse)
        # Of balls with a cell list, reactions are per ball.
        contacts = differs if differs.shape in ((), load.shape[-1:]) else np.any(differs)
        felt = contacts & (load > np.finfo(load.dtype).eps ** 0.5 * np.max(load, initial=0.0))
        least = max(least, float(np.max(rub[felt] / load[felt], initial=0.0)))
    return least
