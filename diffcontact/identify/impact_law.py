"""Does the coefficient of restitution depend on the speed of approach?

A fit with a constant restitution goes on from its estimate by a few steps of a descent with one more parameter.

- From four runs of mostly one impact each: every run gets a restitution of its own, and these e_g are regressed on the
  speeds v_g (`spread`): runs scatter for reasons of their own, too.
- Otherwise restitution is e + a v in all impacts, and a has the standard error of `error_bars`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from diffcontact.identify.error_bars import error_bars, under_loss
from diffcontact.identify.estimate import Estimate
from diffcontact.identify.identifiable import null_space
from diffcontact.identify.linearised import LinearisedFit, LinearisedRun
from diffcontact.identify.objective import JointResidual, Objective
from diffcontact.identify.parameters import Domain, Real, free_parameters
from diffcontact.identify.residual import Linearised, Run
from diffcontact.identify.search import EXPLORED, STAGE_STEPS, explored
from diffcontact.identify.spread import spread
from diffcontact.identify.verdict.reasons import LEVELS, RUNS_TO_COMPARE
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.numerics.least_squares import without
from diffcontact.schemes.event_timed import EventTimed
from diffcontact.system import System
from diffcontact.systems.cell_list_balls import CellListBalls
from diffcontact.systems.laws import LAWS

_SLOPE, _OWN = "restitution per speed", "restitution of the run"
# A line takes one run more than a mean.
_RUNS_TO_REGRESS = RUNS_TO_COMPARE + 1
# Impacts that are looked at in each run, at most.
_IMPACTS = 64


@dataclass(frozen=True)
class SpeedTest:
    """Test of a restitution e + a v at the estimate of a fit.

    Attributes:
        slope, stderr: a and its standard error [s/m].
        probability: of such a slope, or a larger one, where there is none (two-sided).
        speeds: the slowest and the fastest speed of approach, over all runs [m/s].
        restitution: at these two, within [0, 1]; None where contacts differ in it.
        chi2_per_dof: with a constant, and with `instead`.
        instead: "a straight line", or "one per run".
    """

    slope: float
    stderr: float
    probability: float
    speeds: tuple[float, float]
    restitution: tuple[float, float] | None
    chi2_per_dof: tuple[float, float]
    instead: str

    def __str__(self) -> str:
        way = "falls" if self.slope < 0 else "rises"
        by = f"by {abs(self.slope):.2g} per unit of it"
        if self.restitution is not None:
            ends = zip(self.restitution, self.speeds, strict=True)
            by = "from " + " to ".join(f"{e:.2g} at {v:.3g}" for e, v in ends)
        before, after = self.chi2_per_dof
        return (
            f"restitution {way} with the speed of approach, {by}: a constant one is rejected "
            f"(p = {self.probability:.1g}; chi^2/dof {before:.3g} -> {after:.3g} with {self.instead})"
        )


def law_of_impact(result: Estimate) -> str | None:
    """Say in a sentence whether restitution depends on the speed of approach.

    Returns None where the data do not show it, and where nothing can be said: of a fit that noise explains or that did
    not converge, of a restitution that is not free, one per bounce or a law already, of impacts that are all as fast.

    Args:
        result: what `fit` returned.

    Example:
        A ball of e = 0.9 - 0.1 v is dropped and filmed; a constant restitution is fitted.

        >>> import jax.numpy as jnp, numpy as np, diffcontact as dc
        >>> from diffcontact.identify import Interval, Observations, Problem
        >>> def ball(restitution):
        ...     return dc.System(
        ...         gap=lambda t, q, p: q,
        ...         force=lambda t, q, u, p: -9.81 * jnp.ones(1),
        ...         mass=lambda q, p: jnp.ones(1),
        ...         restitution=restitution,
        ...     )
        >>> times, start = np.linspace(0.0, 1.5, 61), (jnp.ones(1), jnp.zeros(1))
        >>> film = dc.simulate(ball(lambda p, v: 0.9 - 0.1 * v), {}, *start, times)
        >>> seen = np.asarray(film.q) + 1e-3 * np.random.default_rng(0).normal(size=film.q.shape)
        >>> problem = Problem(
        ...     ball(lambda p: p["e"]), Observations(times, seen, 1e-3, lambda x, p: x.q), lambda p: start, substeps=1
        ... )
        >>> result = dc.fit(problem, {"e": 0.6}, {"e": Interval(0.0, 1.0)}, shooting="single")
        >>> print(law_of_impact(result)[:44])
        restitution falls with the speed of approach
    """
    objective = result.objective
    if objective is None or not result.converged or objective.explained(objective.parameters.start):
        return None
    found = speed_test(result)
    return None if found is None or found.probability > LEVELS["law of impact"] else str(found)


def speed_test(result: Estimate) -> SpeedTest | None:
    """Estimate the slope of restitution over the speed of approach.

    Returns None where there is no such slope.

    Args:
        result: an `Estimate` with its objective.
    """
    objective = result.objective
    if objective is None:
        return None
    masks = [free_contacts(run, objective.parameters.start) for run in objective.joint.runs]
    if not any(np.any(mask) for mask in masks) or _once(objective, masks):
        return None
    if len(masks) >= _RUNS_TO_REGRESS:
        own = _Embedded.gone_on(objective, masks, _OWN)
        if np.median([speeds.size for speeds in own.speeds]) == 1:
            return own.over_runs(result)
    return _Embedded.gone_on(objective, masks, _SLOPE).over_impacts(result)


def _once(objective: Objective, masks: Sequence[NDArray]) -> bool:
    """Whether a single interval between two samples has an impulse at the contacts of the masks: there is one speed."""
    at = objective.joint.linearise(objective.parameters.start)
    impulses = (np.asarray(one.trajectory.impulse) * mask for one, mask in zip(at, masks, strict=True))
    return sum(int(np.sum(np.any(impulse != 0, axis=-1))) for impulse in impulses) <= 1


def free_contacts(run: Run, theta: NDArray) -> NDArray:
    """(c,) or () bool: the contacts whose constant restitution follows from what is free."""
    system, scheme = run.model.system, run.model.scheme or EventTimed()
    told = isinstance(system, System) and not isinstance(system, CellListBalls) and isinstance(scheme, EventTimed)
    if not told or system.speed_dependent:
        return np.zeros((), bool)
    return np.any(np.asarray(restitution_by(run.model, theta[run.index], run.fixed)) != 0, axis=-1)


@partial(jit_fast_compile, static=("model",))
def restitution_by(model: Any, z: Array, fixed: dict[str, Any]) -> Array:
    """(c, P_i) or (P_i,) derivative of the coefficients of restitution by a run's parameters."""
    return jax.jacfwd(lambda z: jnp.asarray(model.system.restitution(model.parameters(z, fixed)), z.dtype))(z)


@dataclass(frozen=True)
class _Law:
    """A restitution of (params, speed) in which some contacts follow a law; the others keep their constants."""

    constant: Callable[[Any], Any]
    contacts: tuple[bool, ...] | bool
    name: str  # _SLOPE or _OWN, which are added to the constant, or one of `systems.laws.LAWS`
    reference: int | None = None  # the contact whose constant is everybody's; None: each has its own

    def __call__(self, params, speed):
        constant = jnp.asarray(self.constant(params), speed.dtype)
        first = constant if self.reference is None else constant[self.reference]

        def value(name):
            return first if name == "restitution" else jnp.asarray(params[name], speed.dtype)

        if self.name in LAWS:
            e = LAWS[self.name].function(value, speed)
            # As in `laws.built`.
            e = jnp.where(e > 1, 1.0, jnp.where(e < 0, 0.0, e))
        else:
            e = constant + value(self.name) * (speed if self.name == _SLOPE else jnp.ones_like(speed))
        return jnp.where(jnp.asarray(self.contacts), e, constant)


@dataclass(frozen=True, eq=False)
class _Embedded:
    """A fit that has gone on with one more parameter."""

    objective: Objective  # with that parameter
    masks: list[NDArray]  # per run, the contacts that it acts on
    theta: NDArray  # (P,) where it has come to
    at: list[Linearised]  # the runs there
    speeds: list[NDArray]  # per run, the speeds of approach of its impacts [m/s]

    @classmethod
    def gone_on(cls, objective: Objective, masks: list[NDArray], name: str) -> _Embedded:
        """Go on from the start of the objective with _SLOPE or _OWN."""
        per_run = (name,) if name == _OWN else ()
        zero = np.zeros(objective.parameters.runs) if per_run else 0.0
        wider = under_law(objective, masks, name, {name: zero}, {name: Real()}, per_run=per_run)
        theta = explored(wider, wider.parameters.start, EXPLORED, STAGE_STEPS)
        here = wider.joint.linearise(theta)
        return cls(wider, masks, theta, here, speeds_of(wider, here, masks))

    def over_runs(self, result: Estimate) -> SpeedTest | None:
        """The slope of the runs' own restitutions."""
        e, s, v = [], [], []
        runs = self.objective.joint.runs
        times = np.bincount(np.concatenate([run.index for run in runs]))
        for run, one, mask, speeds in zip(runs, self._first_order(), self.masks, self.speeds, strict=True):
            r, J = one.rows
            column = J[:, [self.objective.parameters.names[j].startswith(_OWN) for j in run.index]].ravel()
            own = J[:, (times[run.index] == 1)]
            rest = without(own[:, ~np.all(own == column[:, None], axis=0)], column[:, None])[:, 0]
            if speeds.size and rest @ rest > self.objective.eps * (column @ column):
                e.append(_restitution(run, self.theta, mask, speeds[:1])[0])
                s.append(np.sqrt(r @ r / max(r.size - own.shape[1], 1) / (rest @ rest)))
                v.append(np.mean(speeds))
        e, s, v = (np.array(part) for part in (e, s, v))
        if v.size < _RUNS_TO_REGRESS or np.ptp(v) == 0 or np.ptp(e) == 0 or not np.all(np.isfinite(e) & (s > 0)):
            return None
        found = spread(e, s, {"speed": v})
        slope, stderr = found.slopes["speed"].value, found.slopes["speed"].stderr
        ends = float(np.min(v)), float(np.max(v))
        slowest, fastest = (float(np.clip(found.mean.value + slope * (x - np.mean(v)), 0.0, 1.0)) for x in ends)
        probability = float(2 * stdtr(v.size - 2, -abs(slope) / stderr))
        after = self._chi2_per_dof(result, len(self.masks) - 1)
        misfits = result.chi2_per_dof, after
        return SpeedTest(slope, stderr, probability, ends, (slowest, fastest), misfits, "one per run")

    def over_impacts(self, result: Estimate) -> SpeedTest | None:
        """The slope that all impacts share."""
        names, speeds = self.objective.parameters.names, np.concatenate(self.speeds)
        null = null_space(self.objective.evaluate(self.theta)[1], names, self.objective.eps)
        j = names.index(_SLOPE)
        known = not null.unidentifiable[j] and all(np.all(np.isfinite(one.J)) for one in self.at)
        if not (known and speeds.size and np.ptp(speeds) > 0):
            return None
        keep = ~null.redundant & ~np.isin(names, result.at_bound)
        prior, here = self.objective.priors.information(self.theta), int(np.sum(keep[:j]))
        bars = error_bars(LinearisedFit.of(self._first_order(), prior, keep))
        slope, stderr = float(self.theta[j]), float(np.sqrt(bars.covariance[here, here]))
        if not stderr > 0:
            return None
        ends = float(np.min(speeds)), float(np.max(speeds))
        runs = zip(self.objective.joint.runs, self.masks, strict=True)
        every = [_restitution(run, self.theta, mask, ends) for run, mask in runs if np.any(mask)]
        alike = np.all(np.isfinite(every)) and np.max(np.ptp(every, axis=0)) < 1e-9
        low, high = np.clip(every[0], 0.0, 1.0)
        probability = _probability(abs(slope) / stderr, float(bars.quantile[here]))
        restitution = (float(low), float(high)) if alike else None
        misfits = result.chi2_per_dof, self._chi2_per_dof(result, 1)
        return SpeedTest(slope, stderr, probability, ends, restitution, misfits, "a straight line")

    def _first_order(self) -> list[LinearisedRun]:
        return under_loss(self.objective.first_order(self.at), self.objective.loss)

    def _chi2_per_dof(self, result: Estimate, more: int) -> float:
        f, _ = self.objective.evaluate(self.theta)
        return float(f @ f) / max(result.dof - more, 1)


def under_law(
    objective: Objective,
    masks: Sequence[NDArray],
    law: str | None,
    params: Mapping[str, Any],
    free: Mapping[str, Domain],
    *,
    reference: int | None = None,
    per_run: tuple[str, ...] = (),
    held: Collection[str] = (),
) -> Objective:
    """The same objective under a law of restitution in the contacts of the masks; None: under its own.

    `params` and `free` are further parameters, `per_run` those that every run has to itself, `held` no longer free.
    """
    old, joint = objective.parameters, objective.joint
    kept = {name: domain for name, domain in old.free.items() if name not in held}
    of_runs = old.per_run | set(per_run)
    parameters = free_parameters({**old.params, **params}, {**kept, **free}, of_runs, old.runs, old.tied)
    problems = []
    for problem, run, mask in zip(joint.problems, joint.runs, masks, strict=True):
        system = problem.system
        if law is not None and np.any(mask):
            contacts = tuple(mask.tolist()) if mask.ndim else bool(mask)
            system = replace(system, restitution=_Law(run.model.system.restitution, contacts, law, reference))
        problems.append(replace(problem, system=system, substeps=run.model.substeps, per_run=tuple(of_runs)))
    # A replica's values, and a sigma that was estimated, are not those of the problems.
    other = JointResidual(problems, parameters, listed=_IMPACTS)
    for name in ("values", "sigma"):
        other = other.replaced(name, [getattr(run, name) for run in joint.runs])
    return Objective(other, parameters, objective.loss, objective.priors.among(parameters))


def speeds_of(objective: Objective, at: Sequence[Linearised], masks: Sequence[NDArray]) -> list[NDArray]:
    """(m,) per run, speeds of approach of its impacts at the contacts of the masks [m/s]."""
    found = []
    for run, here, mask in zip(objective.joint.runs, at, masks, strict=True):
        if not np.any(mask):
            found.append(np.zeros(0))
            continue
        listed = jax.tree.map(np.asarray, here.trajectory.percussions)
        within = (listed.contact >= 0) & (listed.time <= float(run.samples.times[run.length - 1]))
        struck = (listed.impulse > 0) & (listed.before < -listed.slow) & mask & within[:, None]
        found.append(-listed.before[struck])
    return found


def _restitution(run: Run, theta: NDArray, mask: NDArray, speeds) -> NDArray:
    """Restitution of the contacts of the mask at these speeds (m,); NaN where they differ in it."""
    params = run.beginning(theta).params
    each = [np.asarray(run.model.system.restitution(params, jnp.full(mask.shape, v))) for v in speeds]
    each = [e[mask] if e.ndim else e[None] for e in each]
    return np.array([e[0] if np.ptp(e) < 1e-9 else np.nan for e in each])


def _probability(ratio: float, quantile: float) -> float:
    if quantile <= ndtri(0.975) * (1 + 1e-6):
        return float(2 * ndtr(-ratio))
    # The 97.5 % quantile falls as the freedom grows.
    freedom = np.geomspace(0.5, 1e8, 2000)
    return float(2 * stdtr(np.interp(-quantile, -stdtrit(freedom, 0.975), freedom), -ratio))
