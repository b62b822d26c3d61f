"""From a fit to the page that shows it: measured and fitted motion, and the numbers beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from diffcontact.arguments import placed
from diffcontact.drawing import Draw, Drawing, drawing_of
from diffcontact.identify.estimate import Estimate
from diffcontact.identify.experiment.fisher import sentence
from diffcontact.identify.objective import Objective
from diffcontact.identify.observations import labels_of
from diffcontact.identify.parameters import Real
from diffcontact.identify.residual import strikes
from diffcontact.identify.verdict.reasons import Verdict
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.report import Channel, Event, Numbers, ProfileView, Report, RunView
from diffcontact.report.content import caveat, estimates_of
from diffcontact.report.course import Course
from diffcontact.report.motion import motion
from diffcontact.report.simulated import channel_of, coordinates_of, events_of, single, small, system_course
from diffcontact.schemes.event_timed import EventTimed
from diffcontact.system import System
from diffcontact.trajectory import Trajectory

# Numbers in the derivative of what is observed by the coordinates, at most.
_DERIVATIVES = 2 * 10**7
_CORRELATED = 16
_PERCUSSIONS = 4096
# Samples of a run on its page, about.
_SAMPLES = 5000


@dataclass(frozen=True, eq=False)
class Labels:
    """What a page of a fit calls things; what is empty is found from the systems."""

    title: str = "A fit"  # of the page
    channels: Sequence[Channel] = ()  # what was observed
    time: str = "s"  # unit of times
    runs: Sequence[str] = ()  # one label per run
    draws: Sequence[Draw | None] = ()  # per run, how it looks in place of the system's own picture, or None
    notes: Sequence[Mapping[str, str]] = ()  # per run, what is worth knowing of it
    rows: Sequence[Mapping[str, Any]] = ()  # the estimates as `FitResult.rows` has them, in units of one's own.
    method: Mapping[str, str] = field(default_factory=dict)  # how it was computed, term -> explanation


def fit_report(
    result: Estimate,
    verdict: Verdict,
    labels: Labels | None = None,
    draw: Draw | None = None,
    profiles: Sequence[Any] = (),
) -> Report:
    """Build the page of a fit.

    Args:
        result: of the fit; one that was read from a file has no measurements.
        verdict: on the fit.
        labels: what things are called.
        draw: how the system looks, in place of its own picture.
        profiles: of `identify.profile`, to be shown beside those that the fit computed.
    """
    labels = labels or Labels()
    names = list(labels.runs) or [f"run {i}" for i in range(len(result.trajectories))]
    if result.objective is not None and not labels.runs:
        names = labels_of(result.problems)
    if result.objective is None:
        channels, runs = _remembered(result, names, draw)
    else:
        channels, runs = _measured_runs(result.objective, result, names, labels, draw)
    if labels.notes:
        runs = [replace(run, notes=notes) for run, notes in zip(runs, labels.notes, strict=True)]
    return Report(
        title=labels.title,
        channels=channels,
        time=labels.time,
        runs=runs,
        numbers=numbers(result, verdict, labels, names, profiles),
        method=labels.method,
    )


def _remembered(result: Estimate, names: Sequence[str], draw: Draw | None) -> tuple[list[Channel], list[RunView]]:
    """The fitted motions of a result that no longer knows its runs."""
    drawing, runs = drawing_of(None, draw), []
    for name, trajectory in zip(names, result.trajectories, strict=True):
        found = system_course(trajectory, None, None)
        runs.append(single(name, found, events_of(found, trajectory, None, None), drawing, result.params))
    count = np.shape(result.trajectories[0].q)[1]
    return [channel_of(one) for one in coordinates_of(drawing, result.params, count)], runs


def _measured_runs(
    objective: Objective, result: Estimate, names: Sequence[str], labels: Labels, draw: Draw | None
) -> tuple[Sequence[Channel], list[RunView]]:
    theta, channels, runs = objective.parameters.start, list(labels.channels), []
    for i, name in enumerate(names):
        run, seen = objective.joint.runs[i], objective.joint.problems[i].observations
        params = run.beginning(theta).params
        trajectory = _listed(objective, theta, i, result.trajectories[i], params)
        drawing = drawing_of(run.model.system, draw or (labels.draws[i] if labels.draws else None))
        view = _Observed(run.model.system, run.model.observe, params, trajectory, seen.values)
        channels = channels or view.channels(drawing, seen.channels)
        moments = () if seen.impacts is None else seen.impacts.times[np.isfinite(seen.impacts.times)]
        runs.append(view.run(name, drawing, [Event(float(t), "heard", "heard") for t in moments]))
    return channels, runs


def _listed(objective: Objective, theta: NDArray, i: int, trajectory: Trajectory, params: Any) -> Trajectory:
    """The trajectory of a run with its percussions, simulated once more where arcs do not tell when they happen.

    With friction that would be compiled for a minute; there impacts are where the arcs meet.
    """
    model = objective.joint.runs[i].model
    if not isinstance(model.system, System) or model.system.rubs or not isinstance(model.scheme, EventTimed | None):
        return trajectory
    count = int(np.sum(np.any(strikes(trajectory.impulse), axis=1)))
    if not count or not system_course(trajectory, model.system, params).vague:
        return trajectory
    room = 1 << int(np.ceil(np.log2(2 * count + 8)))
    return objective.joint.listed(theta, i, min(room, _PERCUSSIONS))


class _Observed:
    """A run at the estimate: its course, what is observed along it, and what was measured."""

    def __init__(self, system: Any, observe: Any, params: Any, trajectory: Trajectory, values: NDArray):
        self._system, self._observe, self._params, self._trajectory = system, observe, params, trajectory
        self._t, self._q = np.asarray(trajectory.t, float), np.asarray(trajectory.q, float)
        self._seen = np.asarray(observe(trajectory, params), float)
        self._values = values

    def channels(self, drawing: Drawing, names: Sequence[str] = ()) -> list[Channel]:
        """What is observed, by the names of the coordinates where it is one of these."""
        known, J = coordinates_of(drawing, self._params, self._q.shape[1]), self._derivative
        named = []
        for k in range(self._seen.shape[1]):
            sees = [] if J is None else np.flatnonzero(np.any(np.abs(J[:, k]) > 1e-12, axis=0))
            itself = len(sees) == 1 and J is not None and np.allclose(J[:, k, sees[0]], 1.0)
            named.append(channel_of(known[sees[0]]) if itself else Channel(names[k] if names else f"channel {k}"))
        return named

    def run(self, label: str, drawing: Drawing, heard: Sequence[Event]) -> RunView:
        found = system_course(self._trajectory, self._system, self._params)
        dense = self._along(found)
        # Curves and shapes share their times.
        times, places, curve = self._t, self._q, self._seen
        if dense is not None:
            rows = small(found, dense)
            times, places, curve = found.t[rows], found.q[rows], dense[rows]
        shown = self._shown()
        seen = self._places() if shown.size else None
        measured = None if seen is None else (self._t[shown], self._q[shown], seen[shown])
        # A simulation that is finite nowhere has no picture.
        moving = motion(drawing, self._params, times, places, measured) if found.t.size > 1 else None
        return RunView(
            label=label,
            times=times,
            curve=curve,
            samples=self._t[shown],
            measured=self._values[shown],
            residual=(self._values - self._seen)[shown],
            events=[*events_of(found, self._trajectory, self._system, self._params), *heard],
            motion=moving,
        )

    def _shown(self) -> NDArray:
        off = np.abs(self._values - self._seen)
        if not np.isfinite(self._values).any():
            return np.zeros(0, int)
        every = np.arange(0, self._t.size, -(-self._t.size // _SAMPLES))
        known = np.isfinite(off).any(axis=0)
        return np.union1d(every, np.nanargmax(off[:, known], axis=0)) if known.any() else every

    def _along(self, found: Course) -> NDArray | None:
        """(m, k) what is observed along the course; None where that differs from what the samples show."""
        given = self._trajectory
        rows, contacts = found.t.size, np.shape(given.impulse)[1:]
        if rows < 2:
            return None
        parts = (placed(part) for part in (found.t, found.q, found.u, np.zeros((rows - 1, *contacts))))
        dense = Trajectory(*parts, status=given.status)
        try:
            seen = np.asarray(self._observe(dense, self._params), float)
        except Exception:  # An observe of somebody else's, that knows how many samples there are.
            return None
        if seen.shape != (rows, self._seen.shape[1]):
            return None
        at = np.searchsorted(found.t, self._t, side="right") - 1
        size = np.maximum(np.ptp(self._seen, axis=0), 1e-12)
        return seen if np.all(np.abs(seen[at] - self._seen) <= 1e-3 * size) else None

    @cached_property
    def _derivative(self) -> NDArray | None:
        """(n, k, d) derivative of what is observed by the place of the same sample; None where that is too much."""
        n, k, d = (*self._seen.shape, self._q.shape[1])
        if n * k * d > _DERIVATIVES:
            return None
        return np.moveaxis(np.asarray(_by_places(self._observe, self._params, self._trajectory), float), 0, 2)

    def _places(self) -> NDArray | None:
        """(n, d) where the system was measured to be: the nearest place that is observed as what was measured.

        To first order; a coordinate that was never measured is the fitted one, one that was not at a sample is NaN.
        """
        if not np.isfinite(self._values).any():
            return None
        off = self._values - self._seen
        if self._seen.shape == self._q.shape and np.array_equal(self._seen, self._q):
            return self._q + off
        J = self._derivative
        if J is None or not np.all(np.isfinite(J)):
            return None
        there = np.isfinite(off)
        J = np.where(there[:, :, None], J, 0.0)
        back = np.linalg.pinv(J, rcond=1e-6)
        places = self._q + np.einsum("ndk,nk->nd", back, np.where(there, off, 0.0))
        known = np.any(np.abs(J) > 1e-12, axis=1)
        places[~known & known.any(axis=0)] = np.nan
        return places


def numbers(
    result: Estimate, verdict: Verdict, labels: Labels, runs: Sequence[str], profiles: Sequence[Any] = ()
) -> Numbers:
    """What was found, as it is printed and drawn."""
    rows = list(labels.rows) or result.rows()
    own = () if result.objective is None else result.problems[0].per_run
    estimates, units, views = [], {}, []
    shown = estimates_of(rows)
    for name, row, one, itself, error in zip(result.names, rows, shown, result.estimate, result.errors, strict=True):
        parameter, place = result.place(name)
        # What one of the unit is in the fit's own; an estimate of zero does not show it.
        unit = units[name] = itself / row["value"] if row["value"] else error / row["stderr"] if row["stderr"] else 1.0
        # Between which values the element was looked for.
        domain, shape = result.free.get(parameter, Real()), np.shape(result.stderr[parameter])
        least, most = (np.broadcast_to(np.asarray(end, float), shape)[place] for end in (domain.low, domain.high))
        run = runs[place[0]] if parameter in own and len(runs) > 1 else ""
        bounds = {"least": float(least) / unit, "most": float(most) / unit}
        estimates.append(replace(one, name=name, parameter=parameter, run=run, **bounds))
    # The profiles that the fit computed, and those computed since.
    for name, along in {along.name: along for along in (*result.profiles, *profiles)}.items():
        j = result.names.index(name)
        level, unit = result.quantiles[j] ** 2, estimates[j].unit
        label = f"{name} [{unit}]" if unit not in ("", "1") else name
        views += (
            [ProfileView(label, along.values / units[name], along.rise, float(level))] if np.isfinite(level) else []
        )
    correlated, matrix = _correlation(result, [not one.run for one in estimates])
    return Numbers(
        explains=verdict.explains,
        headline=verdict.headline,
        reasons=verdict.reasons,
        gravest=len(verdict.gravest),
        freed=verdict.freed,
        converged=result.converged,
        message=result.message,
        scope=result.scope,
        caveat=". ".join(text for text in (caveat(result.scope), verdict.taken) if text),
        estimates=estimates,
        correlation=matrix,
        correlated=correlated,
        starts=result.start_costs,
        profiles=views,
        hints=result.hints,
        facts=_facts(result, runs),
    )


def _correlation(result: Estimate, shared: Sequence[bool]) -> tuple[list[str], NDArray]:
    """Correlations of what runs share, and of what else is most correlated with it."""
    variance = np.diag(result.covariance)
    rows = np.flatnonzero(result.determined & (variance > 0))
    if rows.size < 2:
        return [], np.zeros((0, 0))
    size = np.sqrt(variance[rows])
    matrix = result.covariance[np.ix_(rows, rows)] / np.outer(size, size)
    common = np.array(shared)[rows]
    weight = np.max(np.abs(matrix - np.eye(rows.size)), axis=1) + 2.0 * common
    chosen = np.sort(np.argsort(-weight, kind="stable")[:_CORRELATED])
    return [result.names[rows[j]] for j in chosen], matrix[np.ix_(chosen, chosen)]


def _facts(result: Estimate, runs: Sequence[str]) -> dict[str, str]:
    facts = {
        "Fit": f"cost {result.cost:.6g}, {result.dof} degrees of freedom, chi^2 per degree of freedom "
        f"{result.chi2_per_dof:.3g}; {result.effective_samples:.0f} effective samples of {result.samples}; "
        f"AIC {result.aic:.6g}, BIC {result.bic:.6g}",
        "Error bars": result.error_bars,
    }
    if result.prediction_errors:
        told = ", ".join(f"{name} {error:.3g}" for name, error in zip(runs, result.prediction_errors, strict=True))
        facts["Each run predicted from the others"] = f"root mean square of its residuals, in noise: {told}"
    if helps := sentence(result):
        facts["What would help"] = helps
    return facts


@partial(jit_fast_compile, static=("observe",))
def _by_places(observe: Any, params: Any, trajectory: Trajectory) -> Array:
    """(d, n, k) derivative of what is observed by each coordinate of the place of the same sample."""
    n, d = trajectory.q.shape
    _, pushforward = jax.linearize(lambda q: observe(replace(trajectory, q=q), params), trajectory.q)
    return jax.vmap(lambda e: pushforward(jnp.broadcast_to(e, (n, d))))(jnp.eye(d, dtype=trajectory.q.dtype))
