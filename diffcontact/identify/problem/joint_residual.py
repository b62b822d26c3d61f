"""The residuals of all runs as functions of one flat vector theta.

Shorter runs are continued past their end to the length of the longest, so that runs of one code share a compilation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import placed, require_near
from diffcontact.identify.linearised import LinearisedRun
from diffcontact.identify.problem.loss import Loss
from diffcontact.identify.problem.observations import Impacts, Observations, Problem
from diffcontact.identify.problem.parameters import FreeParameters
from diffcontact.identify.problem.precision import TOLERANCE, are_rounding, enough, rounding
from diffcontact.identify.problem.residual import (
    KICK,
    RESISTANCE,
    Beginning,
    Model,
    Samples,
    beginning,
    evaluate,
    linearise,
    no_kick,
    observed,
    share_code,
)
from diffcontact.inputs import Functions, called
from diffcontact.status import Status, first
from diffcontact.system import System

# How much shorter steps may be simulated with derivatives that nobody asked for: twice the time of a simulation, and
# less than its compilation.
_WITH_DERIVATIVES = 8
# The largest difference of two simulations that are rounded, over the root mean square that one is.
_LARGEST = 5.0
# A residual this large (in standard deviations) is a simulation on its way to infinity; its square is still a number.
_INFINITE = 1e15


@dataclass(frozen=True, eq=False)
class Run:
    """One run, ready to be evaluated: its code, its numbers, and where its free parameters lie in theta.

    `penalty` stands in for residuals that are not finite: a thousand times the largest measured value, in noise.
    `change` is what half as long steps would change, in noise; 0 where nobody asked.
    """

    model: Model
    samples: Samples
    fixed: dict[str, Any]
    index: NDArray
    present: NDArray
    penalty: float
    change: float = 0.0

    @property
    def length(self) -> int:
        return self.present.shape[0]

    @property
    def padded(self) -> bool:
        return self.samples.times.shape[0] > self.length

    @property
    def times(self) -> NDArray:
        """(n,) of its own samples."""
        return np.asarray(self.samples.times, float)[: self.length]

    @property
    def values(self) -> NDArray:
        """(n, k) what was measured; zero where a sample is missing."""
        return np.asarray(self.samples.values, float)[: self.length]

    @property
    def sigma(self) -> NDArray:
        """(n, k) the noise; 1 where a sample is missing."""
        return np.asarray(self.samples.sigma, float)[: self.length]

    @property
    def progress(self) -> NDArray:
        """(n,) how far into the run each sample was taken, from 0 to 1."""
        times = self.times
        return (times - times[0]) / (times[-1] - times[0])

    @property
    def rounding(self) -> NDArray:
        """(n, k) how large rounding of its simulated samples is, in units of their noise."""
        values, sigma = (np.asarray(x)[: self.length] for x in (self.samples.values, self.samples.sigma))
        return rounding(values, sigma, self.present, self.length * self.model.substeps)

    @property
    def coarse(self) -> bool:
        """Whether its steps are too long: half as long ones would be seen, and by more than they are rounded."""
        return self.change > max(TOLERANCE, _LARGEST * float(np.max(self.rounding, initial=0.0)))

    @property
    def imprecise(self) -> bool:
        """Whether rounding of the simulation is seen, of which steps of no length are free."""
        return self.change > TOLERANCE and not self.coarse

    def observed(self, theta: NDArray, trajectory: Any) -> NDArray:
        """(n, k) what would have been seen of a trajectory on the padded times at theta (P,)."""
        return np.asarray(observed(self.model, theta[self.index], self.fixed, trajectory), float)[: self.length]

    def beginning(self, theta: NDArray) -> Beginning:
        return beginning(self.model, theta[self.index], self.fixed, self.samples.times)

    def moves_the_start(self, theta: NDArray) -> NDArray:
        """(P_i,) the run's parameters on which its initial state depends at theta (P,)."""
        slopes = jax.tree.leaves(self.beginning(theta).slopes)
        return np.any([np.any(np.asarray(s) != 0, tuple(range(np.ndim(s) - 1))) for s in slopes], axis=0)

    def measured(self, r: Any, J: Any) -> tuple[NDArray, NDArray]:
        """Residuals and Jacobian on its own samples: NaN and zero where missing, infinite where not finite."""
        r = np.asarray(r, float)[: self.length]
        r = np.where(np.abs(r) < _INFINITE, r, np.inf)
        J = np.asarray(J, float)[: self.length]
        return np.where(self.present, r, np.nan), np.where(np.abs(J) < _INFINITE**2, J, np.inf)

    def first_order(self, at: Linearised, trajectory: Any = None) -> LinearisedRun:
        """The run for statistics, in its own parameters; without a trajectory nobody knows where its impacts are."""
        r, J = np.where(np.isfinite(at.r), at.r, np.nan), np.where(np.isfinite(at.J), at.J, 0.0)
        hit = np.zeros(self.length - 1, bool)
        if trajectory is not None and isinstance(self.model.system, System):
            hit = np.any(strikes(trajectory.impulse), axis=1)
        touched = np.append(hit, False) | np.append(False, hit)
        tracks = self.present.shape[1] - bool(self.model.impacts)
        exact = are_rounding(np.where(self.present, r, 0.0), self.rounding)
        return LinearisedRun(r, J, self.index, self.times, touched, self.sigma, tracks, exact)

    def finite_rows(self, r: NDArray, J: NDArray, loss: Loss) -> tuple[NDArray, NDArray]:
        """Rows (m_i,), (m_i, P_i) whose squares are the loss; a large penalty without derivative where not finite."""
        finite = np.isfinite(r)
        J = np.where(np.isfinite(J) & finite[:, None], J, 0.0)
        r = np.where(finite, r, self.penalty)
        if not loss.robust:
            return r, J
        s, slope = loss.squared(r)
        return s, np.where(finite, slope, 0.0)[:, None] * J

    def enough(self, theta: NDArray) -> tuple[int, float]:
        """How many substeps the run needs at theta, and what half as long steps would change (`precision.enough`)."""
        model, samples, z = self.model, self.samples, theta[self.index]
        if model.impacts:
            # Percussions are listed for numbers that are known when compiling; the samples know as much.
            arrays = (placed(np.asarray(array)[:, :-1]) for array in (samples.values, samples.sigma, samples.present))
            samples = Samples(samples.times, *arrays)
        counted, number = model.counted
        model = replace(model, substeps=1, impacts=0, heard=None)

        def simulated(substeps: int):
            # What the fit compiles anyway tells as much, together with derivatives that a few simulations can afford.
            if number is not None and substeps <= _WITH_DERIVATIVES * self.model.substeps:
                return linearise(counted, z, self.fixed, samples, placed(substeps))[1:]
            return evaluate(model, z, self.fixed, samples, placed(substeps))

        return enough(simulated, self.model.substeps)


@dataclass(frozen=True, eq=False)
class Linearised:
    """A run at theta."""

    r: NDArray  # (n, k) residuals, NaN where missing, infinite where the simulation is not finite
    J: NDArray  # (n, k, P_i) their derivatives by z_i, zero where missing, infinite where not finite
    trajectory: Any  # on the padded times


def prepared(model: Model, observations: Observations, parameters: FreeParameters, i: int, length: int) -> Run:
    """The run of index i, continued past its end to `length` samples, with missing values."""
    missing = length - observations.times.size
    # The continuation keeps the typical spacing: steps of another size would be other code paths for the scheme.
    beyond = observations.times[-1] + np.median(np.diff(observations.times)) * np.arange(1, missing + 1)
    present = observations.present

    values, real = np.where(present, observations.values, 0.0), jnp.result_type(float)

    def pad(array, value, dtype: Any = real):
        return placed(np.pad(array, ((0, missing), (0, 0)), constant_values=value), dtype)

    require_near("Observations(times)", observations.times, real)
    samples = Samples(
        times=placed(np.concatenate([observations.times, beyond]), real),
        values=pad(values, 0.0),
        sigma=pad(observations.sigma, 1.0),
        present=pad(present, False, bool),
    )
    penalty = 1e3 * (1.0 + float(np.max(np.abs(values / observations.sigma))))
    fixed = parameters.fixed(i) | {RESISTANCE: placed(0.0, real)}
    run = Run(model, samples, fixed, parameters.index(i), present, penalty)
    return run if observations.impacts is None else with_impacts(run, observations.impacts)


def with_impacts(run: Run, impacts: Impacts) -> Run:
    """The run with one more channel: each time in the row of the sample after it, or in the next that is free."""
    count, times = impacts.times.size, run.times
    which = np.flatnonzero(np.isfinite(impacts.times))
    rows = np.searchsorted(times, impacts.times[which])
    # In order and one per row: as late as those behind leave room, as early as those before do.
    rows = np.minimum(rows, run.length - which.size + np.arange(which.size))
    rows = np.maximum.accumulate(rows - np.arange(which.size)) + np.arange(which.size)
    length = run.samples.times.shape[0]
    present, values, sigma, impact = np.zeros(length, bool), np.zeros(length), np.ones(length), np.zeros(length, int)
    present[rows], impact[rows] = True, which
    values[rows], sigma[rows] = impacts.times[which], np.broadcast_to(impacts.noise, impacts.times.shape)[which]

    def beside(old, new):
        return placed(np.column_stack([np.asarray(old), np.asarray(new, old.dtype)]))

    old, model = run.samples, replace(run.model, impacts=count, heard=impacts.contacts)
    samples = Samples(
        old.times,
        values=beside(old.values, values),
        sigma=beside(old.sigma, sigma),
        present=beside(old.present, present),
        impact=placed(impact),
    )
    return replace(run, model=model, samples=samples, present=np.column_stack([run.present, present[: run.length]]))


def cut(trajectory: Any, length: int) -> Any:
    """The trajectory up to its sample `length`."""
    samples = trajectory.t.shape[0]

    def shortened(leaf):
        if np.ndim(leaf) == 0:
            return leaf
        return placed(np.asarray(leaf)[: length if leaf.shape[0] == samples else length - 1])

    if length == samples:
        return trajectory

    return replace(jax.tree.map(shortened, replace(trajectory, percussions=None)), percussions=trajectory.percussions)


def require_functions(run: Run) -> int:
    """The number of velocities d, having refused what a run's `tied`, `initial` and `clock` should not return."""
    model = run.model

    def begin(z, fixed, times):
        params = replace(model, tied=()).parameters(z, dict(fixed))
        for name, function in model.tied:
            params[name] = called(f"fit(tied): {name!r}", "params", function, params, params)
        state = called("Problem(initial)", "params", model.initial, params, params)
        if isinstance(state, Mapping) or not hasattr(state, "__len__") or len(state) != 2:
            what = f"{len(state)} of them" if isinstance(state, tuple | list) else type(state).__name__
            raise ValueError(f"Problem(initial): expected two arrays, (q0, u0), got {what}")
        q0, u0 = map(jnp.asarray, state)
        if model.clock is not None:
            shape = jnp.shape(called("Problem(clock)", "times, params", model.clock, params, times, params))
            if shape != times.shape:
                raise ValueError(f"Problem(clock): returned shape {shape}, expected {times.shape} as there are times")
        if model.heard and isinstance(model.system, System) and q0.ndim == 1:
            contacts = Functions(model.system, "System", params, q0)
            (count,) = contacts.shape("gap", "t, q, params", times[0], q0, params)
            if max(model.heard) >= count:
                raise ValueError(f"Impacts(contacts): {model.heard}, expected numbers from 0 to {count - 1}")
        return u0

    return jax.eval_shape(begin, np.zeros(run.index.size), run.fixed, run.samples.times).size


_LINEAR = Loss()


class JointResidual:
    """The residuals of all runs and their Jacobian as functions of the flat vector theta.

    Attributes:
        problems: the runs as they were given.
        runs: one `Run` per problem; their trajectories list at least `listed` percussions.
        size: P, the length of theta.
        rubs: whether contacts rub in any run.
    """

    def __init__(self, problems: Sequence[Problem], parameters: FreeParameters, listed: int = 0):
        models = share_code(problems, parameters.view, tuple(parameters.tied.items()), listed)
        kinds = [
            (model, p.observations.values.shape[1], p.observations.impacts is None)
            for model, p in zip(models, problems, strict=True)
        ]
        longest: dict[Any, int] = {}
        for kind, problem in zip(kinds, problems, strict=True):
            longest[kind] = max(longest.get(kind, 0), problem.observations.times.size, problem.longest)
        self._last: list[tuple[list[Run], NDArray, list[Linearised]]] = []
        self.problems = tuple(problems)
        self.size = len(parameters.names)
        self.runs = [
            prepared(kind[0], problem.observations, parameters, i, longest[kind])
            for i, (kind, problem) in enumerate(zip(kinds, problems, strict=True))
        ]
        velocities = {model: require_functions(run) for model, run in {run.model: run for run in self.runs}.items()}
        # A kick of nothing, held fixed; see `residual.Disturbed`.
        kicks = [no_kick(velocities[run.model], run.samples.times.dtype) for run in self.runs]
        self.runs = [replace(run, fixed=run.fixed | {KICK: kick}) for run, kick in zip(self.runs, kicks, strict=True)]
        self.rubs = any(getattr(run.model.system, "rubs", False) for run in self.runs)
        self.runs = self._resolved(parameters.start)
        self._unpad_where_observe_looks_ahead(problems, parameters)

    @property
    def samples(self) -> int:
        """m, the number of measured samples."""
        return sum(int(run.present.sum()) for run in self.runs)

    def linearise(self, theta: NDArray) -> list[Linearised]:
        """Every run at theta (P,); what was asked for last, or just before, is remembered."""
        for runs, place, found in self._last:
            if runs is self.runs and np.array_equal(place, theta):
                return list(found)
        # All runs are under way before the first is waited for.
        pending = []
        for run in self.runs:
            model, number = run.model.counted
            pending.append(linearise(model, theta[run.index], run.fixed, run.samples, number))
        results = []
        for run, (J, r, trajectory) in zip(self.runs, pending, strict=True):
            results.append(Linearised(*run.measured(r, J), trajectory))
        self._last = [*self._last[-1:], (self.runs, np.array(theta), results)]
        return list(results)

    def compressed(self, theta: NDArray, loss: Loss = _LINEAR, horizon: float = 1.0) -> tuple[NDArray, NDArray]:
        """Few rows in place of the m samples: f (M,) and J (M, P) with the f^T f, J^T f and J^T J of all of them.

        Each run's [J_i, r_i], of the loss and up to the horizon, is replaced by its triangular factor, (P_i + 1) rows.
        Residuals that are not finite count as a large penalty without derivative.
        """
        factors = []
        for run, at in zip(self.runs, self.linearise(theta), strict=True):
            seen = run.present & (run.progress <= horizon)[:, None]
            r, J = run.finite_rows(at.r[seen], at.J[seen], loss)
            factors.append(_triangular_factor(np.column_stack([J, r])))
        rows = np.cumsum([0, *(factor.shape[0] for factor in factors)])
        f, J = np.zeros(rows[-1]), np.zeros((rows[-1], self.size))
        for run, factor, begin, end in zip(self.runs, factors, rows[:-1], rows[1:], strict=True):
            f[begin:end] = factor[:, -1]
            J[begin:end, run.index] = factor[:, :-1]
        return f, J

    def _with(self, runs: Sequence[Run]) -> JointResidual:
        other = copy(self)
        other.runs = list(runs)
        return other

    def replaced(self, name: str, arrays: Sequence[NDArray]) -> JointResidual:
        """The same runs with other measured `values` or another `sigma` (n_i, k_i); nothing is compiled anew."""
        runs = []
        for run, array in zip(self.runs, arrays, strict=True):
            old = getattr(run.samples, name)
            new = np.array(old, float)
            new[: run.length][run.present] = np.asarray(array, float)[run.present]
            runs.append(replace(run, samples=replace(run.samples, **{name: placed(new, old.dtype)})))
        return self._with(runs)

    def of_run(self, i: int) -> JointResidual:
        """Run i alone, as a function of the same theta."""
        other = self._with(self.runs[i : i + 1])
        other.problems = self.problems[i : i + 1]
        return other

    def resolved(self, theta: NDArray) -> JointResidual:
        """The same runs with steps short enough at theta (P,), where their number was left open; never longer ones."""
        return self._with(self._resolved(theta))

    def _resolved(self, theta: NDArray) -> list[Run]:
        """Every run with the substeps it needs, where their number was left open; those that list percussions alike."""
        found = [
            run.enough(theta) if problem.substeps == "auto" else None
            for run, problem in zip(self.runs, self.problems, strict=True)
        ]
        largest: dict[Model, int] = {}
        for run, needs in zip(self.runs, found, strict=True):
            if needs is not None:
                largest[run.model] = max(largest.get(run.model, 1), needs[0])
        resolved = []
        for run, needs in zip(self.runs, found, strict=True):
            if needs is not None:
                number = largest[run.model] if run.model.lists else needs[0]
                run = replace(run, model=replace(run.model, substeps=number), change=needs[1])
            resolved.append(run)
        return resolved

    def trajectories(self, theta: NDArray, at: Sequence[Linearised]) -> tuple[Any, ...]:
        """The simulated trajectory of each run at its own times; TOO_COARSE where shorter steps would be seen."""
        results = []
        for run, linearised in zip(self.runs, at, strict=True):
            trajectory = linearised.trajectory
            if run.padded and int(trajectory.status):
                # What went wrong may lie beyond the end of the data: ask again without the continuation.
                samples = jax.tree.map(lambda leaf, n=run.length: np.asarray(leaf)[:n], run.samples)
                model, number = run.model.counted
                _, trajectory = evaluate(model, theta[run.index], run.fixed, samples, number)
            if run.coarse:
                coarse = np.asarray(Status.TOO_COARSE, trajectory.status.dtype)
                trajectory = replace(trajectory, status=first(trajectory.status, coarse))
            results.append(cut(trajectory, run.length))
        return tuple(results)

    def listed(self, theta: NDArray, i: int, percussions: int) -> Any:
        """The trajectory of run i at theta (P,), with so many percussions listed."""
        run = self.runs[i]
        model = replace(run.model, listed=percussions)
        _, trajectory = evaluate(model, theta[run.index], run.fixed, run.samples)
        return cut(trajectory, run.length)

    def _unpad_where_observe_looks_ahead(self, problems: Sequence[Problem], parameters: FreeParameters) -> None:
        """An `observe` that uses the whole trajectory (its mean, its end) must not see the continuation."""
        if not any(run.padded for run in self.runs):
            return
        for i, at in enumerate(self.linearise(parameters.start)):
            run, observations = self.runs[i], problems[i].observations

            def without_end(leaf, missing=at.trajectory.t.size - run.length):
                leaf = np.array(leaf)
                if leaf.ndim and np.issubdtype(leaf.dtype, np.floating):
                    leaf[len(leaf) - missing :] = np.nan
                return leaf

            known = jax.tree.map(without_end, replace(at.trajectory, percussions=None))
            seen = run.observed(parameters.start, replace(known, percussions=at.trajectory.percussions))
            again = (observations.values - seen) / observations.sigma
            tolerance = float(jnp.finfo(run.samples.values.dtype).eps) ** 0.5  # other summation order, same numbers
            r = at.r[:, : again.shape[1]]
            finite = np.isfinite(r)
            if not np.allclose(again[finite], r[finite], tolerance, tolerance):
                anew = prepared(run.model, observations, parameters, i, run.length)
                anew = replace(anew, fixed=run.fixed, change=run.change)
                self.runs = [*self.runs[:i], anew, *self.runs[i + 1 :]]


# A product of fewer entries is done by the calling thread alone, in OpenBLAS. Its other threads wait for the next one
# by counting: beside any other work they cost a hundred times what they do here.
_ENTRIES = 8192


def _triangular_factor(A: NDArray) -> NDArray:
    """R (n, n) with R^T R = A^T A of A (m, n), from the factors of its blocks of rows; (m, n) where m < n."""
    rows = max(2 * A.shape[1], _ENTRIES // A.shape[1])
    if len(A) <= rows:
        return np.asarray(np.linalg.qr(A, mode="r"))
    blocks = np.zeros((-(-len(A) // rows), rows, A.shape[1]))
    blocks.reshape(-1, A.shape[1])[: len(A)] = A
    return _triangular_factor(np.asarray(np.linalg.qr(blocks, mode="r")).reshape(-1, A.shape[1]))


def strikes(impulse: Any) -> NDArray:
    """(n, c) intervals in which each contact struck: it pushed, impulse (n, ...), and had not in the one before."""
    pushes = np.nan_to_num(np.asarray(impulse, float)).reshape(len(impulse), -1) > 0
    return pushes & ~np.vstack([np.zeros((1, pushes.shape[1]), bool), pushes[:-1]])
