"""Candidates of an experiment: their simulation with exact Jacobians, and what each would give.

All have the same length when compiled: shorter records are continued by samples that are not measured.

A setting is a dictionary control -> value. A control is a parameter of the problem (a height of fall, an angle), an
element of one (`u0[1]`), or one of four that every recording has: `frame_rate` [1/s], `duration` [s], `runs` (how often
it is repeated), `channels` (which are seen, a tuple).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import is_count, placed
from diffcontact.host.messages import did_you_mean
from diffcontact.identify.experiment.fisher import Evidence, Noise, criterion_value
from diffcontact.identify.problem.joint_residual import Run, strikes
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.parameters import Interval
from diffcontact.identify.problem.precision import enough, negligible_columns
from diffcontact.identify.problem.residual import Samples, evaluate, residual
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.numerics.devices import side_by_side
from diffcontact.status import Status

FRAME_RATE, DURATION, RUNS, CHANNELS = "frame_rate", "duration", "runs", "channels"
RECORDING = (FRAME_RATE, DURATION, RUNS, CHANNELS)

Setting = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Controls:
    """The controls with their domains."""

    continuous: Mapping[str, Interval]  # those that vary in an interval, log where it says so
    choices: Mapping[str, tuple]  # those that take one of a few values

    @classmethod
    def of(
        cls,
        controls: Mapping[str, Any],
        elements: Mapping[str, tuple[int, ...]],
        channels: int,
    ) -> Controls:
        """Check what a user gave; `elements` are the shapes of all numbers that can be set, by name.

        Raises:
            ValueError: no control, an unknown one, an interval without ends, values of the wrong kind.
        """
        if not controls:
            raise ValueError("design(controls): empty, expected at least one control with its interval or values")
        continuous, choices = {}, {}
        for name, domain in controls.items():
            if name not in elements and name not in RECORDING:
                known = did_you_mean(name, [*elements, *RECORDING])
                raise ValueError(f"design(controls): no parameter {name!r}; {known}")
            shape, of_time = elements.get(name, ()), name in (FRAME_RATE, DURATION)
            if isinstance(domain, Interval) and name == RUNS:
                domain = range(int(np.ceil(domain.low)), int(np.floor(domain.high)) + 1)
            if isinstance(domain, Interval) and name != CHANNELS:
                if shape or np.ndim(domain.low) or np.ndim(domain.high):
                    told = f"{name!r} has shape {shape}; expected its elements, as '{name}[0]'"
                    raise ValueError(f"design(controls): {told}")
                if not (np.isfinite(domain.low) and np.isfinite(domain.high)):
                    raise ValueError(f"design(controls): {name!r} is {domain}, expected finite bounds")
                if of_time and not domain.low > 0 and name not in elements:
                    raise ValueError(f"design(controls): {name!r} is {domain}, expected low above 0")
                continuous[name] = domain
            elif isinstance(domain, Sequence | np.ndarray) and len(domain) > 0 and not isinstance(domain, str):
                choices[name] = tuple(domain)
                for value in domain:
                    _require_possible(name, value, shape, channels)
            else:
                raise ValueError(f"design(controls): {name!r} is {domain!r}, expected an Interval or a list of values")
        return cls(continuous, choices)

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.continuous, *self.choices)

    def scan(self, candidates: int, seed: int) -> list[Setting]:
        """About so many settings, spread over all that is possible: a grid, or a Sobol set in many dimensions."""
        chosen = [dict(zip(self.choices, values, strict=True)) for values in product(*self.choices.values())]
        each, count = max(candidates // len(chosen), 1), len(self.continuous)
        a_side = int(np.floor(each ** (1 / count) + 1e-9)) if count else 1
        if count and a_side < 3:
            from scipy.stats import qmc  # takes almost a second to import

            places = np.atleast_2d(qmc.Sobol(count, rng=seed).random_base2(max(int(np.log2(each)), 1)))
        else:
            places = np.array(list(product(np.linspace(0.0, 1.0, max(a_side, 2)), repeat=count)))

        def value(domain: Interval, x: float) -> float:
            low, high = float(domain.low), float(domain.high)
            return float(low * (high / low) ** x if domain.log else low + (high - low) * x)

        axes = self.continuous.items()
        found = [{name: value(one, x) for (name, one), x in zip(axes, place, strict=True)} for place in places]
        return [setting | choice for setting in found for choice in chosen]


def _require_possible(name: str, value: Any, shape: tuple[int, ...], channels: int) -> None:
    if name == CHANNELS:
        right = len(value) > 0 and all(is_count(k, 0) and k < channels for k in value)
        expected = f"tuples of channels from 0 to {channels - 1}"
    elif name == RUNS:
        right, expected = is_count(value, 1), "whole numbers of at least 1"
    else:
        array = np.asarray(value, float)
        right, expected = array.shape == shape and bool(np.all(np.isfinite(array))), f"finite, of shape {shape}"
        right = right and (name not in (FRAME_RATE, DURATION) or bool(np.all(array > 0)))
    if not right:
        raise ValueError(f"design(controls): {name!r} has a value {value!r}, expected {expected}")


@dataclass(frozen=True, eq=False)
class Seen:
    """What one candidate would show: J (n, k, P) in noise, zero where nothing is measured or all is rounding; the time
    between its samples [s]; the status of its simulation; the contacts that are struck, in their order."""

    J: NDArray
    spacing: float
    status: Status
    order: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Record:
    """When and what a candidate would measure: times (n,), present (n, k), sigma (n, k)."""

    times: NDArray
    present: NDArray
    sigma: NDArray


class NextRun:
    """The run to come, of an objective of a single run, as a function of the `elements` that the controls set."""

    def __init__(self, objective: Objective, elements: Mapping[str, tuple[str, tuple[int, ...] | None]]):
        self.objective, self.elements = objective, elements
        self.run: Run = objective.joint.runs[0]
        observations = objective.joint.problems[0].observations
        self._heard = observations.impacts
        self._as_it_was = Record(observations.times, observations.present, observations.sigma)

    def record(self, setting: Setting) -> Record:
        """The samples of a setting: those of the run that is varied, or evenly spaced ones with a rate or duration."""
        was = self._as_it_was
        times, present, sigma = was.times, was.present, was.sigma
        if {FRAME_RATE, DURATION} & (setting.keys() - self.elements.keys()):
            span = setting.get(DURATION, times[-1] - times[0])
            rate = setting.get(FRAME_RATE, 1.0 / np.median(np.diff(times)))
            count = max(int(np.floor(span * rate * (1 + 1e-9))) + 1, 2)
            present = np.tile(was.present.any(axis=0), (count, 1))
            sigma = np.tile(np.nanmedian(np.where(was.present, was.sigma, np.nan), axis=0), (count, 1))
            sigma = np.where(present, sigma, 1.0)
            times = times[0] + np.arange(count) / rate
        if CHANNELS in setting and CHANNELS not in self.elements:
            present = present & np.isin(np.arange(present.shape[1]), setting[CHANNELS])
        return Record(times, present, sigma)

    def params(self, setting: Setting, theta: NDArray) -> dict[str, Any]:
        """All parameters of the run: those of theta (P,), with what the controls set."""
        parameters = self.objective.parameters
        params = {**parameters.params, **parameters.split(parameters.values(theta))}
        for name in (name for name in setting if name in self.elements):
            parameter, at = self.elements[name]
            changed = np.array(setting[name] if at is None else params[parameter], float)
            if at is not None:
                changed[at] = setting[name]
            params[parameter] = changed
        return params

    def seen(self, settings: Sequence[Setting], thetas: Sequence[NDArray], length: int) -> list[Seen]:
        """What each candidate would show, of what it sets and of what is taken for the truth (P,); see `Record`."""
        records = [self.record(setting) for setting in settings]
        lanes = [
            self._numbers(setting, theta, record, length)
            for setting, theta, record in zip(settings, thetas, records, strict=True)
        ]
        chunk = side_by_side().candidates
        found = []
        for begin in range(0, len(lanes), chunk):
            part = lanes[begin : begin + chunk]
            part = part + part[-1:] * (chunk - len(part))
            stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *part)
            found += list(zip(*(np.asarray(array) for array in _look(self.run.model, *stacked)), strict=True))
        return [
            self._cut(theta, record, *lane)
            for theta, record, lane in zip((lane[0] for lane in lanes), records, found[: len(lanes)], strict=True)
        ]

    def _numbers(self, setting: Setting, theta: NDArray, record: Record, length: int):
        """z, what is not free, and the samples of one candidate."""
        parameters = replace(self.objective.parameters, params=self.params(setting, theta))
        z = np.concatenate([np.ravel(np.asarray(parameters.params[block.name], float)) for block in parameters.view])
        z = np.where(parameters.log, np.log(np.where(parameters.log, z, 1.0)), z)
        return z, parameters.fixed(0), self._samples(record, length)

    def _samples(self, record: Record, length: int) -> Samples:
        n, missing = record.times.size, length - record.times.size
        real = jnp.result_type(float)
        # Of the padding nothing is measured; it should take no time in which something could happen.
        pause = float(jnp.finfo(real).eps) ** 0.4 * (record.times[-1] - record.times[0])
        times = np.concatenate([record.times, record.times[-1] + pause * np.arange(1, missing + 1)])
        present = np.pad(record.present, ((0, missing), (0, 0)))
        sigma = np.pad(record.sigma, ((0, missing), (0, 0)), constant_values=1.0)
        impact = None
        if self._heard is not None:
            count = np.isfinite(self._heard.times).sum()
            impact = np.zeros(length, int)
            impact[:count] = np.flatnonzero(np.isfinite(self._heard.times))
            noise = np.broadcast_to(self._heard.noise, self._heard.times.shape)[impact[:count]]
            heard = np.arange(length) < min(count, n)
            present = np.column_stack([present, heard])
            sigma = np.column_stack([sigma, np.where(heard, np.resize(noise, length), 1.0)])
        return Samples(
            times=placed(times, real),
            values=placed(np.zeros(present.shape), real),
            sigma=placed(sigma, real),
            present=placed(present),
            impact=None if impact is None else placed(impact),
        )

    def _cut(self, z, record: Record, r, J, status, impulse) -> Seen:
        n = record.times.size
        J = np.asarray(J, float)[:n]
        finite = bool(np.all(np.isfinite(J)))
        J = np.where(np.isfinite(J), J, 0.0)
        size, eps = float(np.linalg.norm(np.nan_to_num(r))), self.objective.eps
        # The columns that are rounding, as in `Objective.evaluate`.
        rounding = negligible_columns(J.reshape(-1, J.shape[2]), np.asarray(z, float), size, eps)
        outcome = Status(int(status)) if finite or status else Status.NO_DERIVATIVE
        spacing = float(np.median(np.diff(record.times)))
        order = tuple(int(contact) for contact in np.nonzero(strikes(impulse[: n - 1]))[1])
        return Seen(np.where(rounding, 0.0, J), spacing, outcome, order)

    def resolved(self, settings: Sequence[Setting], theta: NDArray) -> NextRun:
        """The same with steps short enough for these settings, where their number was left open."""
        if self.objective.joint.problems[0].substeps != "auto":
            return self
        most = self.run.model.substeps
        for setting in settings:
            record = self.record(setting)
            z, fixed, samples = self._numbers(setting, theta, record, record.times.size)
            if self.run.model.impacts:
                arrays = (array[:, :-1] for array in (samples.values, samples.sigma, samples.present))
                samples = Samples(samples.times, *arrays)
            of = replace(self.run.model, substeps=1, impacts=0, heard=None), z, fixed, samples
            most = max(most, enough(lambda number, of=of: evaluate(*of, jnp.array(number)), most)[0])
        other = NextRun(self.objective, self.elements)
        other.run = replace(self.run, model=replace(self.run.model, substeps=most))
        return other


@partial(jit_fast_compile, static=("model",))
def _look(model, z, fixed, samples):
    """r (N, n, k), J (N, n, k, P), status (N,) and impulses (N, n - 1, ...) of N lanes."""

    def lane(z, fixed, samples):
        def twice(z):
            r, trajectory = residual(model, z, fixed, samples)
            return r, (r, trajectory)

        J, (r, trajectory) = jax.jacfwd(twice, has_aux=True)(z)
        return r, J, trajectory.status, trajectory.impulse

    return jax.vmap(lane)(z, fixed, samples)


# A variance that shrinks by less was not told anything.
_TOLD = 1e-6


@dataclass(frozen=True, eq=False)
class Candidate:
    """An experiment and what it would give.

    Attributes:
        setting: of the controls; empty for the run as it was.
        stderr: standard error of each element that is sought (the mean over the draws of its logarithm); infinite where
            some draw leaves it undetermined.
        criterion: what the design makes small, a logarithm of a variance; infinite likewise.
        status: of the simulation, the first of its draws that is not 0; only with 0 it is proposed.
        order: the contacts that are struck, in their order, at the parameters as they are given.
        tells: whether it says anything about what is sought.
    """

    setting: Setting
    stderr: dict[str, float]
    criterion: float
    status: Status
    order: tuple[int, ...]
    tells: bool

    @property
    def eligible(self) -> bool:
        """Whether it may be proposed."""
        return self.status == Status.OK and self.tells and bool(np.isfinite(self.criterion))


@dataclass(frozen=True, eq=False)
class Question:
    """What is sought, and what is known of it."""

    names: tuple[str, ...]  # of all P elements of theta of one run
    sought: NDArray  # where those that are sought lie among them
    shared: NDArray  # (P,) True for what runs have in common; the rest is each run's own
    thetas: NDArray  # (D, P) draws of the truth, the parameters as they are given first
    known: Evidence | None  # what the runs so far tell of what is shared; None: nothing was measured yet
    prior: NDArray  # (P,) information of the priors
    noise: Noise  # of the runs to come
    criterion: str  # "D", "A" or "one"
    scales: NDArray  # (t,) for "A"
    slopes: NDArray  # (P,) of the parameters by theta

    def covariance(self, seen: Seen | None, runs: int) -> NDArray:
        """(t, t) of what is sought after so many runs that show the same; without any, as it is known now."""
        among = (np.cumsum(self.shared) - 1)[self.sought]
        first = np.diag(self.prior[self.shared])
        total = self.known or Evidence(first, first)
        if seen is not None:
            J, own = seen.J.reshape(-1, seen.J.shape[2]), np.diag(np.where(self.shared, 0.0, self.prior))
            score = self.noise.score(seen.J, seen.spacing) + own
            one = Evidence(J.T @ J + own, score).of(self.shared).scattered(self.noise.scatter[self.shared])
            total = total + one * runs
        slopes = self.slopes[self.sought]
        return total.covariance()[np.ix_(among, among)] * np.outer(slopes, slopes)

    def value(self, covariance: NDArray) -> float:
        """The criterion of a covariance (t, t) of what is sought."""
        return criterion_value(covariance, self.criterion, self.scales)


def scan(
    run: NextRun, controls: Controls, question: Question, candidates: int, seed: int
) -> tuple[Candidate, list[Candidate]]:
    """The run as it was, and about so many settings, in steps that are short enough for the best of them."""
    distinct = list({_key(setting): setting for setting in controls.scan(candidates, seed)}.values())
    while True:
        default, *tried = _candidates(run, question, [{}, *distinct])
        best = min((one for one in tried if one.eligible), key=lambda one: one.criterion, default=default)
        finer = run.resolved([{}, best.setting] if best.setting else [{}], question.thetas[0])
        if finer.run.model.substeps == run.run.model.substeps:
            return default, tried
        run = finer


def _candidates(run: NextRun, question: Question, settings: Sequence[Setting]) -> list[Candidate]:
    """What settings would give; those that differ in the number of runs only are simulated once."""
    single = [{name: part for name, part in setting.items() if name != RUNS} for setting in settings]
    different = {_key(setting): setting for setting in single}
    draws = question.thetas
    lanes = [setting for setting in different.values() for _ in draws]
    longest = max(run.record(setting).times.size for setting in different.values())
    found = run.seen(lanes, [theta for _ in different for theta in draws], longest)
    shown = {key: found[i * len(draws) : (i + 1) * len(draws)] for i, key in enumerate(different)}
    now, names = question.value(question.covariance(None, 0)), [question.names[j] for j in question.sought]
    candidates = []
    for setting, one in zip(settings, single, strict=True):
        seen = shown[_key(one)]
        covariances = [question.covariance(part, int(setting.get(RUNS, 1))) for part in seen]
        spreads = np.sqrt(np.array([np.diag(covariance) for covariance in covariances]))
        criterion = float(np.mean([question.value(covariance) for covariance in covariances]))
        with np.errstate(divide="ignore"):
            stderr = np.exp(np.mean(np.log(spreads), axis=0))
        candidates.append(
            Candidate(
                setting=setting,
                stderr=dict(zip(names, map(float, stderr), strict=True)),
                criterion=criterion,
                status=next((part.status for part in seen if part.status != Status.OK), Status.OK),
                order=seen[0].order,
                tells=bool(criterion < now - _TOLD) and bool(np.isfinite(criterion)),
            )
        )
    return candidates


def _key(setting: Setting) -> Any:
    return tuple((name, np.asarray(part).tobytes()) for name, part in sorted(setting.items()))
