"""What to do in the next experiment, so that chosen parameters become as certain as possible.

Of each candidate the run is simulated with its exact Jacobian, and the error bars that a fit of it would have follow
without a fit (`fisher`). All have the same length when compiled: shorter records are continued by samples that are not
measured.

A setting is a dictionary control -> value. A control is a parameter of the problem (a height of fall, an angle), an
element of one (`u0[1]`), or one of four that every recording has: `frame_rate` [1/s], `duration` [s], `runs` (how often
it is repeated), `channels` (which are seen, a tuple).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

from diffcontact.arguments import is_count, placed
from diffcontact.host.messages import did_you_mean
from diffcontact.host.progress import stage
from diffcontact.identify.estimate import Posterior, finite_or_none, resumed
from diffcontact.identify.experiment.fisher import CRITERIA, Evidence, Noise, as_found, criterion_value, evidence_of
from diffcontact.identify.identifiable import hints, null_space
from diffcontact.identify.objective import Objective
from diffcontact.identify.observations import Problem
from diffcontact.identify.parameters import Domain, FreeParameters, Interval, Normal, Tie
from diffcontact.identify.residual import Run, Samples, enough, evaluate, negligible_columns, residual, strikes
from diffcontact.identify.result import FitResult
from diffcontact.identify.verdict.reasons import DIFFERENCE, listed
from diffcontact.numerics.batching import side_by_side
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.report.content import aligned
from diffcontact.status import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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
        pause = float(jnp.finfo(real).eps) ** DIFFERENCE * (record.times[-1] - record.times[0])
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


# Candidates in the table, and the gain below which nobody would change a thing.
_ROWS, _BETTER = 10, 1.1


@dataclass(frozen=True, eq=False)
class Design:
    """The next experiment, and those that it was chosen from.

    Attributes:
        best: what to do; None where no candidate tells anything about what is sought.
        default: the run as it was given, for comparison.
        candidates: all that were looked at, the best first; those with a status are last.
        sought: names of the elements that are sought.
        criterion: "D", "A" or "one".
        now: standard errors before any new run, by name; infinite where nothing is known.
        unseen: why the default shows nothing of what is sought, in words; empty where it does.
        quantile: half width of a 95 % interval in standard errors.
        units: of controls and of what is sought, by name, where they are known.
    """

    best: Candidate | None
    default: Candidate
    candidates: tuple[Candidate, ...]
    sought: tuple[str, ...]
    criterion: str
    now: dict[str, float]
    unseen: tuple[str, ...] = ()
    quantile: float = float(ndtri(0.975))
    units: Mapping[str, str] = field(default_factory=lambda: {FRAME_RATE: "samples/s", DURATION: "s"})

    @property
    def excluded(self) -> dict[Status, int]:
        """How many candidates have a status, and are not proposed for that."""
        return dict(Counter(one.status for one in self.candidates if one.status != Status.OK))

    @property
    def silent(self) -> int:
        """How many candidates tell nothing about what is sought, or do not in one of the draws."""
        return sum(one.status == Status.OK and not one.eligible for one in self.candidates)

    def gain(self, candidate: Candidate) -> float:
        """By how much smaller than with the default run the variance is (of several: its mean, by the criterion)."""
        if not np.isfinite(self.default.criterion):
            return np.inf if candidate.eligible else np.nan
        return float(np.exp(self.default.criterion - candidate.criterion))

    def interval(self, candidate: Candidate) -> dict[str, float]:
        """Half widths of the 95 % intervals that a candidate would give, by name."""
        return {name: self.quantile * error for name, error in candidate.stderr.items()}

    def in_units(self, units: Mapping[str, tuple[str, float]], time: str = "s") -> Design:
        """The same in other units.

        Args:
            units: name of a parameter -> its unit and what one of that is in the fit's own units.
            time: unit of times.
        """

        def unit(name):
            return units.get(name, units.get(name.partition("[")[0], ("", 1.0)))

        def parts(values):
            return {
                name: v if unit(name)[1] == 1.0 else np.asarray(v)[()] / unit(name)[1] for name, v in values.items()
            }

        def whole(one):
            return replace(one, setting=parts(one.setting), stderr=parts(one.stderr))

        names = {*self.sought, *(name for one in self.candidates[:1] for name in one.setting)}
        known = {name: unit(name)[0] for name in names if unit(name)[0] not in ("", "1")}
        candidates = tuple(map(whole, self.candidates))
        return replace(
            self,
            best=None if self.best is None else candidates[self.candidates.index(self.best)],
            default=whole(self.default),
            candidates=candidates,
            now=parts(self.now),
            units={FRAME_RATE: f"samples/{time}", DURATION: time, **known},
        )

    @property
    def sentence(self) -> str:
        """What to do, and what it is good for."""
        if self.best is None:
            why = f": {'; '.join(self.unseen)}" if self.unseen else ""
            return f"no candidate shows {listed(self.sought)}{why}"
        before, gain = self.default.stderr, self.gain(self.best)
        if gain < _BETTER:
            return f"no candidate tells a tenth more of {listed(self.sought)} than the run as it was"
        errors = ", ".join(
            f"stderr of {name} {error:.2g}{self._unit(name)} instead of {before[name]:.2g}"
            if np.isfinite(before[name])
            else f"stderr of {name} {error:.2g}{self._unit(name)}, where the run as it was shows nothing of it"
            for name, error in self.best.stderr.items()
        )
        text = f"{self._said(self.best.setting)}: {errors}"
        return text + (f" (a variance {gain:.2g} times smaller)" if np.isfinite(gain) and gain > 1 else "")

    @property
    def table(self) -> str:
        """What the best ten candidates would give, and the default."""
        shown = [one for one in self.candidates if one.eligible][:_ROWS]
        names = list(shown[0].setting) if shown else []
        errors = [f"stderr {name}" for name in self.sought]
        cells = [["", *names, *errors, "gain", "impacts"]]
        for label, one in [*((str(i + 1), one) for i, one in enumerate(shown)), ("as it was", self.default)]:
            settings = [_number(one.setting.get(name, "")) for name in names]
            errors = [f"{one.stderr[name]:.3g}" for name in self.sought]
            gain = f"{self.gain(one):.3g}" if np.isfinite(self.gain(one)) else ""
            cells.append([label, *settings, *errors, gain, str(len(one.order))])
        return aligned(cells)

    @property
    def remarks(self) -> tuple[str, ...]:
        """What was left out, and why."""
        told = [f"{len(self.candidates)} candidates"]
        told += [f"{count} not proposed, status {int(s)}: {s.message}" for s, count in self.excluded.items()]
        if self.silent:
            told.append(f"{self.silent} show nothing of {listed(self.sought)}")
        if self.default.status != Status.OK:
            told.append(f"the run as it was has status {int(self.default.status)}: {self.default.status.message}")
        return tuple(told)

    def __str__(self) -> str:
        return "\n".join([self.sentence, "", self.table, "", "; ".join(self.remarks)])

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for `json.dumps`; what is infinite is None."""

        def finite(errors: Mapping[str, float]) -> dict[str, float | None]:
            return {name: finite_or_none(error) for name, error in errors.items()}

        def plain(one: Candidate) -> dict[str, Any]:
            setting = {name: np.asarray(part).tolist() for name, part in one.setting.items()}
            told = {"setting": setting, "stderr": finite(one.stderr), "gain": finite_or_none(self.gain(one))}
            return told | {"status": int(one.status), "impacts": len(one.order)}

        return {
            "sentence": self.sentence,
            "criterion": self.criterion,
            "now": finite(self.now),
            "best": None if self.best is None else plain(self.best),
            "default": plain(self.default),
            "candidates": [plain(one) for one in self.candidates],
            "remarks": list(self.remarks),
        }

    def plot(self) -> Figure:
        """What each candidate would give over each control: one row for each element sought, a column per control.

        Returns:
            A figure of matplotlib of which pyplot knows nothing.

        Raises:
            ImportError: matplotlib is absent.
        """
        try:
            from matplotlib.figure import Figure
        except ImportError as missing:
            raise ImportError("Design.plot: matplotlib is absent; pip install 'diffcontact[report]'") from missing
        controls = list(self.candidates[0].setting)
        size = (3.6 * len(controls) + 0.6, 2.9 * len(self.sought) + 0.6)
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(self.sought), len(controls), squeeze=False, sharey="row")
        for row, sought in zip(axes, self.sought, strict=True):
            for panel, control in zip(row, controls, strict=True):
                self._panel(panel, sought, control)
            row[0].set_ylabel(f"standard error of {sought}")
        for panel, control in zip(axes[-1], controls, strict=True):
            panel.set_xlabel(f"{control} [{self.units[control]}]" if control in self.units else control)
        handles, labels = axes[0, 0].get_legend_handles_labels()
        title = "colours: how many impacts are seen"
        figure.legend(handles, labels, title=title, loc="outside upper center", ncols=4, frameon=False)
        return figure

    def _panel(self, axes: Any, sought: str, control: str) -> None:
        values = [one.setting[control] for one in self.candidates]
        numbers, places = all(np.ndim(value) == 0 for value in values), list(dict.fromkeys(map(repr, values)))

        def x(one: Candidate) -> float:
            return float(one.setting[control]) if numbers else places.index(repr(one.setting[control]))

        good = [one for one in self.candidates if one.eligible]
        counts = sorted({len(one.order) for one in good})
        colours = [f"C{counts.index(len(one.order)) % 10}" for one in good]
        axes.scatter([x(one) for one in good], [one.stderr[sought] for one in good], s=12, c=colours, lw=0)
        if out := [x(one) for one in self.candidates if one.status != Status.OK]:
            bottom = axes.get_xaxis_transform()
            axes.plot(out, [0.02] * len(out), "kx", ms=4, transform=bottom, label="status not 0")
        if np.isfinite(self.default.stderr[sought]):
            axes.axhline(self.default.stderr[sought], color="0.4", lw=1, ls="--", label="as it was")
        if self.best is not None:
            axes.plot(x(self.best), self.best.stderr[sought], "*", ms=14, mfc="none", mec="k", label="best")
        axes.set_yscale("log")
        if not numbers:
            axes.set_xticks(range(len(places)), places)

    def _unit(self, name: str) -> str:
        return f" {self.units[name]}" if name in self.units else ""

    def _said(self, setting: Setting) -> str:
        parts = []
        for name, value in setting.items():
            if name == RUNS:
                parts.append(f"{value} run{'s' if value > 1 else ''}")
            elif name == CHANNELS:
                parts.append(f"channel{'s' if len(value) > 1 else ''} {listed([str(k) for k in value])}")
            else:
                named = name.replace("_", " ") if name in (FRAME_RATE, DURATION) else f"{name} ="
                parts.append(f"{named} {_number(value)}{self._unit(name)}")
        return ", ".join(parts)


def _number(value: Any) -> str:
    if isinstance(value, tuple | list | np.ndarray):
        return f"({', '.join(map(_number, value))})"
    return f"{value:.4g}" if isinstance(value, float | np.floating) else str(value)


def design(
    problem: Problem | Sequence[Problem],
    params: Mapping[str, Any],
    free: Mapping[str, Domain],
    controls: Mapping[str, Any],
    *,
    target: str | Sequence[str] | None = None,
    criterion: str | None = None,
    after: FitResult | None = None,
    over: Posterior | None = None,
    draws: int = 8,
    like: int = 0,
    priors: Mapping[str, Normal] | None = None,
    tied: Mapping[str, Tie] | None = None,
    candidates: int = 200,
    seed: int = 0,
) -> Design:
    r"""Find the next experiment that makes chosen parameters most certain.

    A candidate is a setting of the controls. It is simulated with its exact derivatives J (m, P) of what would be
    observed, in units of the noise; least squares then have the covariance::

        C = A^-1 S A^-1,    A = J^T J,    S = J^T Sigma J        white noise: C = A^-1, A Fisher's information

    with what is each run's own (an initial state) projected out of A and S, run by run. What was not observed is taken
    to be as `params` say. All candidates of a scan are simulated side by side. What the experimenter sets is known to
    be about so; if it is free, it is fitted to the run all the same.

    A candidate whose simulation has a status is not proposed, but counted; neither is one that
    tells nothing of what is sought, like the friction of an impact that grips.

    Args:
        problem: the run as it was or would be: system, times, noise, what is observed. What was measured does not
            matter. Of a list, the one at `like`.
        params, free, priors, tied: as for `fit`, at the values that are taken for the truth.
        controls: name -> `Interval(low, high)`, or a list of values. Names are those of parameters (`height`) or their
            elements (`u0[1]`), and `frame_rate` [1/s], `duration` [s], `runs`, `channels` (a tuple of those that are
            seen). With a frame rate or duration samples are evenly spaced, and none is missing.
        target: what is sought, names of parameters or of elements of them; None: all free ones that are not each run's
            own.
        criterion: "D" makes the volume of the region of confidence small, "A" the mean variance in units of the values
            (of 1 where a value is 0), "one" the variance of the only one sought. None: "one" if there is only one,
            "D" otherwise.
        after: what `fit` found so far. The next runs add to it, their noise is as it was found there, with its
            correlation in time and, from three runs on, with what differs from run to run.
        over: draws of the parameters from the posterior, instead of the covariance of `after`.
        draws: over so many of them the criterion is averaged, the given values among them; without `after` or `over`
            there are only those.
        like: which run is varied.
        candidates: how many settings are scanned, about.
        seed: of the draws, and of scans that are no grid.

    Returns:
        A `Design`: `best` is the setting with its standard errors, `sentence` says so, `table` compares, `plot()`
        shows. Printing it gives sentence and table.

    Raises:
        ValueError: as for `fit`; a control or target that does not exist, a bound that is not finite.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.System(
        ...     gap=lambda t, q, p: q,
        ...     force=lambda t, q, u, p: -9.81 * jnp.ones(1),
        ...     mass=lambda q, p: jnp.ones(1),
        ...     restitution=lambda p: p["e"],
        ... )
        >>> times = np.linspace(0.0, 1.0, 41)
        >>> film = dc.Observations(times, np.zeros((41, 1)), 1e-3, lambda run, p: run.q)
        >>> fall = dc.Problem(ball, film, lambda p: (jnp.stack([p["height"]]), jnp.zeros(1)), substeps=1)
        >>> known = {"e": 0.8, "height": 2.0}
        >>> print(design(fall, known, {"e": dc.Interval(0, 1)}, {"height": [0.3, 0.8, 2.0]}).sentence)
        height = 0.8: stderr of e 0.00015 instead of 0.00019 (a variance 1.7 times smaller)
    """
    problems = [problem] if isinstance(problem, Problem) else list(problem)
    if not is_count(like, 0) or like >= len(problems):
        raise ValueError(f"design(like): {like!r}, expected one of the {len(problems)} problems, counted from 0")
    if not is_count(candidates, 1) or not is_count(draws, 1):
        raise ValueError(f"design(candidates, draws): {candidates!r}, {draws!r}, expected integers of at least 1")
    one = _single(problems, params, free, like)
    objective = Objective.of(*one, priors=_priors_of_run(priors, problems[0].per_run, params, like), tied=tied)
    elements = _elements(objective.parameters)
    if late := [name for name in controls if name in elements and elements[name][0] in (tied or {})]:
        raise ValueError(f"design(controls): {late[0]!r} is tied, so it follows from others; expected those")
    shapes = {name: np.shape(one[1][where]) if at is None else () for name, (where, at) in elements.items()}
    chosen = Controls.of(controls, shapes, problems[like].observations.values.shape[1])
    run = NextRun(objective, elements)
    question = _question(
        objective, run, chosen, set(problems[0].per_run), target, criterion, after, over, draws, like, seed
    )
    with stage("design"):
        default, tried = scan(run, chosen, question, candidates, seed)
    ranked = sorted(tried, key=lambda one: (not one.eligible, one.status != 0, one.criterion))
    best = ranked[0] if ranked[0].eligible else None
    names = tuple(question.names[j] for j in question.sought)
    errors = np.sqrt(np.diag(question.covariance(None, 0)))
    return Design(
        best=best,
        default=default,
        candidates=tuple(ranked),
        sought=names,
        criterion=question.criterion,
        now=dict(zip(names, map(float, errors), strict=True)),
        unseen=() if default.eligible else _why(objective, names),
    )


def _single(problems: Sequence[Problem], params, free, like: int) -> tuple[Problem, dict[str, Any], dict[str, Domain]]:
    """The run that is varied, with the parameters and domains that are its own."""
    own = set(problems[0].per_run)

    def is_leaf(part):
        return isinstance(part, list | tuple)

    def domain(name, one):
        shape = np.shape(params.get(name))
        if name not in own or not isinstance(one, Interval) or np.ndim(one.low) + np.ndim(one.high) == 0:
            return one
        return replace(one, low=np.broadcast_to(one.low, shape)[like], high=np.broadcast_to(one.high, shape)[like])

    of_run = {name: value for name, value in params.items() if name in own}
    of_run = jax.tree.map(lambda leaf: np.asarray(leaf)[like], of_run, is_leaf=is_leaf)
    domains = {name: domain(name, one) for name, one in free.items()}
    return replace(problems[like], per_run=()), {**params, **of_run}, domains


def _priors_of_run(
    priors: Mapping[str, Normal] | None, own: Sequence[str], params: Mapping[str, Any], like: int
) -> dict[str, Normal]:
    def pick(part, name):
        # As a fit has it: of whatever shape, it stands for the values of all runs.
        return np.broadcast_to(part, np.shape(params[name]))[like]

    return {
        name: Normal(pick(prior.mean, name), pick(prior.sigma, name)) if name in own else prior
        for name, prior in (priors or {}).items()
    }


def _elements(parameters: FreeParameters) -> dict[str, tuple[str, tuple[int, ...] | None]]:
    """Name -> parameter and place (None: all of it), for whatever numbers a control can set."""
    found: dict[str, tuple[str, tuple[int, ...] | None]] = {}
    for name, value in parameters.params.items():
        if isinstance(value, Mapping):
            continue
        found[name] = name, None
        for place in np.ndindex(*np.shape(value)):
            if place:
                found[f"{name}[{','.join(map(str, place))}]"] = name, place
    return found


def _question(objective, run, controls, per_run, target, criterion, after, over, draws, like, seed) -> Question:
    parameters: FreeParameters = objective.parameters
    if after is not None:
        resumed(after, "design")
    # The parameter that each element of theta belongs to.
    owners = [block.name for block in parameters.view for _ in range(block.size)]
    theirs = np.isin(owners, [*per_run])
    alone = after is None and max(controls.choices.get(RUNS, (1,))) == 1
    own = np.zeros(theirs.size, bool)
    if not alone:
        # Each run's own is what is said to be, what is set, and whatever its initial state depends on.
        set_by_hand = [run.elements[name][0] for name in controls.names if name in run.elements]
        own = theirs = theirs | np.isin(owners, set_by_hand) | run.run.moves_the_start(parameters.start)
    if target is None:
        sought = np.flatnonzero(~theirs) if not theirs.all() else np.arange(own.size)
    else:
        sought = _sought([target] if isinstance(target, str) else list(target), parameters, owners)
    if own[sought].any():
        name = parameters.names[sought[own[sought]][0]]
        raise ValueError(f"design(target): {name!r} is each run's own, so other runs tell nothing of it")
    if sought.size == 0:
        raise ValueError("design(target): nothing is sought, for all that is free is each run's own")
    criterion = criterion or ("one" if sought.size == 1 else "D")
    if criterion not in CRITERIA or (criterion == "one" and sought.size > 1):
        expected = "'D' or 'A' for several" if criterion == "one" else ", ".join(map(repr, CRITERIA))
        raise ValueError(f"design(criterion): {criterion!r}, expected {expected}")
    channels, values = run.run.present.shape[1], parameters.values(parameters.start)
    white = Noise((), np.eye(channels), 1.0, np.zeros(own.size))
    return Question(
        names=parameters.names,
        sought=sought,
        shared=~own,
        thetas=_draws(parameters, own, after, over, draws, seed),
        known=None if after is None else evidence_of(after, tuple(np.array(parameters.names)[~own])),
        prior=objective.priors.information(parameters.start),
        noise=white if after is None else as_found(after, like, parameters.names),
        criterion=criterion,
        scales=np.where(values == 0, 1.0, np.abs(values))[sought],
        slopes=parameters.slopes(parameters.start),
    )


def _sought(targets: Sequence[str], parameters: FreeParameters, owners: Sequence[str]) -> NDArray:
    found: dict[int, None] = {}
    for target in targets:
        here = [j for j, name in enumerate(parameters.names) if target in (name, owners[j])]
        if not here:
            known = did_you_mean(target, [*parameters.free, *parameters.names])
            raise ValueError(f"design(target): no free parameter {target!r}; {known}")
        found |= dict.fromkeys(here)
    return np.array([*found], int)


def _draws(parameters: FreeParameters, own: NDArray, after, over, draws: int, seed: int) -> NDArray:
    """(D, P) the given values first, then draws of what runs share, within the bounds."""
    start, rng = parameters.start, np.random.default_rng(seed)
    source = after if over is None else over
    if source is None:
        return start[None]
    names, log = source.names, parameters.log
    mine = np.array([j for j, name in enumerate(parameters.names) if not own[j] and name in names], int)
    there = np.array([names.index(parameters.names[j]) for j in mine], int)
    if over is not None:
        flat = over.draws.reshape(-1, len(names))
        values = flat[rng.choice(len(flat), draws - 1, replace=len(flat) < draws)][:, there]
        drawn = np.where(log[mine], np.log(np.where(log[mine], values, 1.0)), values)
    else:
        finite = after.known[there]
        mine, there = mine[finite], there[finite]
        values, vectors = np.linalg.eigh(after.covariance[np.ix_(there, there)])
        root = vectors * np.sqrt(np.maximum(values, 0.0)) / parameters.slopes(start)[mine][:, None]
        moves = [root @ rng.normal(size=mine.size) for _ in range((draws - 1) // 2)]
        drawn = start[mine] + np.reshape([side * move for move in moves for side in (1.0, -1.0)], (-1, mine.size))
        drawn = np.clip(drawn, parameters.low[mine], parameters.high[mine])
    thetas = np.tile(start, (1 + len(drawn), 1))
    thetas[1:, mine] = drawn
    return thetas


def _why(objective: Objective, names: Sequence[str]) -> tuple[str, ...]:
    """What the run as it was does not show of these names, in words."""
    theta = objective.parameters.start
    _, J = objective.evaluate(theta)
    directions = null_space(J, objective.parameters.names, objective.eps).directions
    among = [direction for direction in directions if set(direction) & set(names)]
    trajectories = [at.trajectory for at in objective.joint.linearise(theta)]
    return hints(objective, theta, among, trajectories)
