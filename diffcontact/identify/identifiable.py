"""Which parameters the data determine, and in words which they do not."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr

from diffcontact.identify.objective import Objective
from diffcontact.identify.parameters import starting_points
from diffcontact.identify.residual import Run
from diffcontact.identify.verdict.reasons import RATIO, SLIGHT, listed
from diffcontact.status import Status
from diffcontact.system import ParticleLine


@dataclass(frozen=True)
class NullSpace:
    """The null space of a Jacobian: combinations of parameters that the data do not determine."""

    # One dict name -> weight per direction in parameter space along which no residual changes; the largest weight is 1.
    directions: list[dict[str, float]]
    unidentifiable: NDArray  # (P,) True for every parameter that takes part in one: it has no finite error of its own
    redundant: NDArray  # (P,) True for one parameter of each direction: with those held, all others are determined


def null_space(J: NDArray, names: Sequence[str], eps: float) -> NullSpace:
    """Null directions of the Jacobian (m, P): singular values, columns of unit length, below sqrt(eps) of the largest.

    Several are mixed such that each has a parameter of its own (QR with pivoting of the null space).
    """
    P = J.shape[1]
    norms = np.linalg.norm(J, axis=0)
    directions: list[dict[str, float]] = [
        {str(name): 1.0} for name, norm in zip(names, norms, strict=True) if norm == 0
    ]
    unidentifiable, redundant = norms == 0, norms == 0
    seen = np.flatnonzero(norms > 0)
    if seen.size == 0:
        return NullSpace(directions, unidentifiable, redundant)
    _, s, Vt = np.linalg.svd(np.linalg.qr(J[:, seen] / norms[seen], mode="r"), full_matrices=True)
    s = np.pad(s, (0, seen.size - s.size))
    basis = Vt[s <= np.sqrt(eps) * s[0]].T
    if basis.shape[1]:
        pivots = np.asarray(qr(basis.T, mode="r", pivoting=True)[-1])[: basis.shape[1]]
        basis = basis @ np.linalg.inv(basis[pivots])
        redundant = redundant | np.isin(np.arange(P), seen[pivots])
    for direction in basis.T:
        # The components carry the rounding of the small singular values; what is below their fourth root is none.
        part = np.abs(direction) > eps**0.25 * np.abs(direction).max()
        unidentifiable = unidentifiable | np.isin(np.arange(P), seen[part])
        weights = np.where(part, direction / norms[seen], 0.0)
        weights = weights / weights[np.argmax(np.abs(weights))]
        directions.append({names[int(seen[j])]: float(weights[j]) for j in np.flatnonzero(part)})
    return NullSpace(directions, unidentifiable, redundant)


# Exponents of products like e^2 h: small whole numbers.
_LARGEST_EXPONENT = 4
_NEEDS = {
    "restitution": "an impact",
    "friction": "a stretch of sliding",
    "tangential_restitution": "an impact in the grip",
    "tangential_compliance": "an impact that does not slip throughout",
    "mass": "a force or a collision that depends on it",
}


def explain(objective: Objective, theta: Any, direction: Mapping[str, float], trajectories: Sequence[Any]) -> str:
    """One unseen direction (name -> weight) at theta (P,) in words."""
    if len(direction) > 1:
        values = dict(zip(objective.parameters.names, objective.parameters.values(np.asarray(theta)), strict=True))
        masses = all(role(objective, theta, name) == "mass" for name in direction)
        more = "; a known mass or a force in newton would resolve it" if masses else ""
        return combination(direction, values) + more
    (name,) = direction
    kind, more = role(objective, theta, name), ""
    if kind not in _NEEDS:
        return f"{name} has no effect on what was measured"
    needs = _NEEDS[kind]
    if kind == "restitution" and any(np.any(np.asarray(one.impulse) > 0) for one in trajectories):
        needs = "an impact whose rebound is seen"
    if kind == "friction" and any(one.friction is not None for one in trajectories):
        least = least_friction(objective, theta, name, trajectories)
        needs, more = "a contact that slips", f"; all grip, for which {name} >= {least:.3g} at the estimate"
        more = more if least > 0 else ""
    return f"{name} needs {needs}: none in these data{more}"


def combination(direction: Mapping[str, float], values: Mapping[str, float]) -> str:
    """What a change of several parameters along a direction leaves alone."""
    names = list(direction)
    relative = {name: direction[name] / values[name] if values[name] else np.inf for name in names}
    if len(names) > 2 and all(abs(relative[name] / relative[names[0]] - 1) < SLIGHT for name in names):
        return f"only the ratios of {listed(names)} are identified, not their common scale"
    found = [_pair(first, second, direction, relative) for first, second in combinations(names, 2)]
    kept = [text for text in found if text]
    if len(names) == 2 and kept:
        return f"only {kept[0]} is identified, not {listed(names)}"
    along = ", ".join(f"{name}: {weight:.3g}" for name, weight in direction.items())
    return f"{listed(names)} are not identified together: along {{{along}}} nothing changes" + (
        f", {listed(kept)} among them" if kept else ""
    )


def _pair(first: str, second: str, direction: Mapping[str, float], relative: Mapping[str, float]) -> str:
    """A product of powers, a sum or a difference of two that stays the same; empty where there is none that simple."""
    if np.isfinite(relative[first]) and np.isfinite(relative[second]):
        # first^p second^q is constant where p c_1 + q c_2 = 0, c the relative changes.
        ratio = Fraction(-relative[second] / relative[first]).limit_denominator(_LARGEST_EXPONENT)
        near = abs(float(ratio) * relative[first] / relative[second] + 1) < SLIGHT
        if near and 0 < abs(ratio.numerator) <= _LARGEST_EXPONENT:
            p, q = abs(ratio.numerator), ratio.denominator * (1 if ratio > 0 else -1)
            powers = [name if n == 1 else f"{name}^{n}" for name, n in ((first, p), (second, abs(q)))]
            return (" " if q > 0 else "/").join(powers)
    if abs(abs(direction[first] / direction[second]) - 1) < SLIGHT:
        return f"{first} {'-' if direction[first] * direction[second] > 0 else '+'} {second}"
    return ""


def role(objective: Objective, theta: Any, name: str) -> str:
    """Which of a system's functions a parameter is for, a key of `_NEEDS`; "" where it is for none of them."""
    for run, here, there in _moved(objective, theta, name):
        system = run.model.system
        if isinstance(system, ParticleLine):
            functions = {"mass": system.mass, "friction": system.friction}
        else:
            mass, start = system.mass, run.model.initial
            functions = {"mass": lambda p, mass=mass, start=start: mass(jnp.asarray(start(p)[0]), p)}
            functions |= {kind: _coefficient(run, kind) for kind in _NEEDS if kind != "mass"}
        for kind, function in functions.items():
            if function is not None and np.any(np.asarray(function(here)) != np.asarray(function(there))):
                return kind
    return ""


def _coefficient(run: Run, kind: str) -> Callable[[Any], Any] | None:
    """A coefficient of a run's contacts as a function of its parameters; at one speed if it depends on that."""
    system, function = run.model.system, getattr(run.model.system, kind)
    speeds = {"restitution": 1.0} if system.speed_dependent else {}
    speeds |= {"friction": 0.0} if system.friction_by_speed else {}
    if function is None or kind not in speeds:
        return function

    def at_speed(params):
        q0 = jnp.asarray(run.model.initial(params)[0])
        gap = jax.eval_shape(lambda q: system.gap(jnp.zeros((), q.dtype), q, params), q0)
        return function(params, jnp.full(gap.shape, speeds[kind], q0.dtype))

    return at_speed


def _moved(objective: Objective, theta: Any, name: str):
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
        mu = _coefficient(run, "friction")
        differs = False if mu is None else np.asarray(mu(here)) != np.asarray(mu(there))
        rub, load = np.linalg.norm(np.asarray(trajectory.friction), axis=-1), np.asarray(trajectory.impulse)
        # Of balls with a cell list, reactions are per ball.
        contacts = differs if np.shape(differs) in ((), load.shape[-1:]) else np.any(differs)
        felt = contacts & (load > np.finfo(load.dtype).eps ** 0.5 * np.max(load, initial=0.0))
        least = max(least, float(np.max(rub[felt] / load[felt], initial=0.0)))
    return least


def half_widths(objective: Objective, theta: NDArray, half: NDArray) -> tuple[NDArray, NDArray]:
    """Half widths (P,) of intervals downwards and upwards, longer where contacts slip or grip at an end and not here.

    Where the sensitivity |dr/dtheta_j| at an end is below half of that at the estimate, that half width grows by their
    ratio: without an end where nothing is left.
    """
    sides = half.copy(), half.copy()
    if not objective.joint.rubs:
        return sides
    here, parameters = _sensitivities(objective, theta), objective.parameters
    told = np.isfinite(half) & (half > 0) & (here > 0)
    for together in _places(objective, theta):
        j = together[told[together]]
        if j.size == 0:
            continue
        for side, sign in zip(sides, (-1.0, 1.0), strict=True):
            moved = theta.copy()
            moved[j] = np.clip(theta[j] + sign * half[j], parameters.low[j], parameters.high[j])
            there = _sensitivities(objective, moved)[j]
            left = there > np.sqrt(objective.eps) * here[j]
            ratio = np.where(left, here[j] / np.where(left, there, 1.0), np.inf)
            side[j] *= np.where(ratio > RATIO, ratio, 1.0)
    return sides


def _places(objective: Objective, theta: NDArray) -> list[NDArray]:
    """The elements that are looked at, the runs' own together; of what several runs share contact laws only."""
    runs, names = objective.joint.runs, objective.parameters.names
    places = [np.unique(elements) for elements in np.transpose([run.index for run in runs])]
    alone = len(runs) == 1
    contact = ("friction", "tangential_restitution", "tangential_compliance")
    return [j for j in places if alone or j.size > 1 or role(objective, theta, names[j[0]]) in contact]


def _sensitivities(objective: Objective, theta: NDArray) -> NDArray:
    """(P,) lengths of the columns of the Jacobian of all runs."""
    squares = np.zeros(theta.size)
    for run, at in zip(objective.joint.runs, objective.joint.linearise(theta), strict=True):
        columns = np.where(np.isfinite(at.J), at.J, 0.0).reshape(-1, at.J.shape[-1])
        np.add.at(squares, run.index, np.sum(columns**2, axis=0))
    return np.sqrt(squares)


POINTS = 9


@dataclass(frozen=True, eq=False)
class Identifiability:
    """Which parameters data can determine, at the most favourable point examined.

    Attributes:
        names: (P,) free parameters.
        singular_values: (P,) of the Jacobian with its columns scaled to unit length, largest first: how different the
            parameters' effects are. The last over the first is 1 for effects as different as can be, 0 for a
            combination without any.
        directions: that the data cannot see, each a dict name -> weight.
        hints: the same in words, and what would resolve it; or `untrusted`.
        untrusted: what is wrong with the simulation, where nothing can be seen because something is at all points; else
            empty.
    """

    names: tuple[str, ...]
    singular_values: NDArray
    directions: list[dict[str, float]]
    hints: tuple[str, ...]
    untrusted: str = ""

    @property
    def hopeless(self) -> bool:
        """Whether some direction cannot be seen."""
        return bool(self.directions)

    def __str__(self) -> str:
        if self.hopeless:
            return "\n".join(self.hints)
        ratio = self.singular_values[-1] / self.singular_values[0]
        return f"all of {', '.join(self.names)} can be seen; least to most distinct effect {ratio:.2g}"


def assess(objective: Objective, points: int = POINTS, seed: int = 0) -> Identifiability:
    """Look at the Jacobian at the start and at a Sobol set of other points: what the best does not see, no fit will."""
    names, looked_at = objective.parameters.names, []
    for theta in starting_points(objective.parameters, points, seed):
        J = objective.evaluate(theta)[1]
        looked_at.append((theta, J, null_space(J, names, objective.eps).directions))
        if not looked_at[-1][2]:
            break
    theta, J, directions = min(looked_at, key=lambda one: len(one[2]))
    norms = np.linalg.norm(J, axis=0)
    values = np.linalg.svd(J / np.where(norms > 0, norms, 1.0), compute_uv=False)
    values = np.pad(values, (0, max(theta.size - values.size, 0)))
    trajectories = [at.trajectory for at in objective.joint.linearise(theta)]
    untrusted = _untrusted(objective, [place for place, *_ in looked_at]) if directions else ""
    told = (untrusted,) if untrusted else hints(objective, theta, directions, trajectories)
    directions = [in_values(objective, direction, theta) for direction in directions]
    return Identifiability(names, values, directions, told, untrusted)


def _untrusted(objective: Objective, places: Sequence[NDArray]) -> str:
    """What is wrong with the simulation at the first of the places (P,), if something is at all of them; else empty."""
    told = ""
    for theta in places:
        trajectories = objective.joint.trajectories(theta, objective.joint.linearise(theta))
        wrong = [(i, status) for i, one in enumerate(trajectories) if (status := Status(int(one.status)))]
        if not wrong:
            return ""
        (i, status), *_ = wrong
        told = told or f"the simulation of run {i} cannot be trusted: {status.message}"
    return told


def refuse_hopeless(objective: Objective, strict: bool) -> None:
    """Raise a ValueError where no free parameter has an effect at any of `POINTS`; `strict`: all must be seen."""
    # A simulation that is not finite says nothing of effects.
    hope = any(
        np.any(objective.evaluate(theta)[1]) or not objective.finite(objective.joint.linearise(theta))
        for theta in ([] if strict else starting_points(objective.parameters, POINTS, seed=0))
    )
    if not hope and (assessed := assess(objective)).hopeless:
        expected = "a simulation with status 0" if assessed.untrusted else "other data, fewer free parameters or priors"
        raise ValueError(
            f"fit(check): {'; '.join(assessed.hints)}; expected {expected} (check=False fits all the same)"
        )


def hints(
    objective: Objective, theta: NDArray, directions: Sequence[Mapping[str, float]], trajectories: Sequence[Any]
) -> tuple[str, ...]:
    """Unseen directions of theta in words."""
    return tuple(
        explain(objective, theta, in_values(objective, direction, theta), trajectories) for direction in directions
    )


def in_values(objective: Objective, direction: Mapping[str, float], theta: NDArray) -> dict[str, float]:
    """A direction in theta (logarithms, for some) as a direction in the parameters, its largest weight 1."""
    parameters, slopes = objective.parameters, objective.parameters.slopes(theta)
    weights = {name: weight * slopes[parameters.names.index(name)] for name, weight in direction.items()}
    largest = max(weights.values(), key=abs)
    return {name: float(weight / largest) for name, weight in weights.items()}


def require_finite(objective: Objective) -> None:
    """Refuse `initial`, `clock` and `observe` that return what is not finite at the start and at all other points."""
    for not_finite in (_to_begin_with, _observed):
        points = starting_points(objective.parameters, POINTS, seed=0)
        told = next(not_finite(objective, next(points)), None)
        if told and all(any(not_finite(objective, theta)) for theta in points):
            raise ValueError(told)


def _to_begin_with(objective: Objective, theta: NDArray) -> Iterator[str]:
    """What `initial` and `clock` return at theta (P,) that is not finite, in words."""
    for number, run in enumerate(objective.joint.runs):
        begun = run.beginning(theta)
        for name, state in zip(("q0", "u0"), begun.state, strict=True):
            if shown := _first(state):
                yield _told(objective, "Problem(initial)", f"{shown} of {name}", number)
        if begun.times is not None and (shown := _first(begun.times)):
            yield _told(objective, "Problem(clock)", shown, number)


def _observed(objective: Objective, theta: NDArray) -> Iterator[str]:
    """What `observe` makes of a trajectory at theta (P,) that is not finite though the trajectory is, in words."""
    runs = objective.joint.runs
    f, _ = objective.evaluate(theta)
    # A residual that is not finite counts as a penalty: without one in the cost there is none.
    penalties = [float(np.ravel(objective.loss.squared(np.array([run.penalty]))[0])[0]) for run in runs]
    if np.linalg.norm(f) < 0.99 * min(penalties):
        return
    for number, (run, at) in enumerate(zip(runs, objective.joint.linearise(theta), strict=True)):
        if not (np.all(np.isfinite(at.trajectory.q)) and np.all(np.isfinite(at.trajectory.u))):
            continue
        seen = run.observed(theta, at.trajectory)
        # Where nothing was measured nobody looks.
        if shown := _first(np.where(run.present[:, : seen.shape[1]], seen, 0.0), "row {}, channel {}"):
            yield _told(objective, "Observations(observe)", f"{shown}, of a trajectory that is finite", number)


def _told(objective: Objective, function: str, shown: str, number: int) -> str:
    where = f", in run {number}" if len(objective.joint.runs) > 1 else ""
    return f"{function}: returned {shown}{where}; expected finite numbers"


def _first(array: Any, place: str = "entry {}") -> str:
    array = np.atleast_1d(np.asarray(array, float))
    wrong = np.argwhere(~np.isfinite(array))
    return f"{array[tuple(wrong[0])]} in {place.format(*wrong[0])}" if wrong.size else ""
