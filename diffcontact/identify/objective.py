"""The objective of a fit, and the residuals of all its runs, as functions of the flat vector theta.

Shorter runs are continued past their end to the length of the longest, so that runs of one code share a compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import placed
from diffcontact.host.progress import note
from diffcontact.identify.linearised import LinearisedRun
from diffcontact.identify.noise import ROBUST, Loss
from diffcontact.identify.observations import Problem
from diffcontact.identify.parameters import Domain, FreeParameters, Normal, Priors, Tie, free_parameters
from diffcontact.identify.residual import (
    KICK,
    Linearised,
    Model,
    Run,
    cut,
    evaluate,
    linearise,
    negligible_columns,
    no_kick,
    prepared,
    require_functions,
    share_code,
)
from diffcontact.status import Status, first

Progress = Callable[[int, float], None]


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


class Objective:
    """The cost of a fit as a function of theta (P,): its rows, their Jacobian, and what follows from them.

    `progress` is called as `progress(iteration, cost)` at every Jacobian of a descent.
    """

    def __init__(
        self,
        joint: JointResidual,
        parameters: FreeParameters,
        loss: Loss,
        priors: Priors,
        progress: Progress | None = None,
    ):
        self.joint, self.parameters, self.progress, self.loss, self.priors = joint, parameters, progress, loss, priors
        scaled = [np.ravel(np.asarray(run.samples.values) / np.asarray(run.samples.sigma)) for run in joint.runs]
        self.data_norm = float(np.linalg.norm(np.concatenate(scaled)))
        self.rounding = float(np.linalg.norm(np.concatenate([run.rounding.ravel() for run in joint.runs])))
        self.eps = float(jnp.finfo(jnp.result_type(float)).eps)
        # Where it was evaluated last, with what came out.
        self._last = np.empty(0), np.empty(0), np.empty((0, 0))
        self._costs: list[tuple[NDArray, float]] = []

    @classmethod
    def of(
        cls,
        problem: Problem | Sequence[Problem],
        params: Mapping[str, Any],
        free: Mapping[str, Domain],
        *,
        loss: str = "linear",
        f_scale: float = 1.0,
        priors: Mapping[str, Normal] | None = None,
        tied: Mapping[str, Tie] | None = None,
        progress: Progress | None = None,
    ) -> Objective:
        """What `diffcontact.fit` minimises, started at `params`; arguments and errors are those of `fit`."""
        if progress is not None and not callable(progress):
            raise ValueError(f"fit(progress): {progress!r}, expected a function or None")
        problems = [problem] if isinstance(problem, Problem) or not isinstance(problem, Iterable) else list(problem)
        if not problems:
            raise ValueError("fit(problem): empty list, expected at least one Problem")
        for i, one in enumerate(problems):
            if not isinstance(one, Problem):
                raise ValueError(f"fit(problem): entry {i} is {type(one).__name__}, expected Problem")
            if set(one.per_run) != set(problems[0].per_run):
                told = f"per_run is {one.per_run} in problem {i}, {problems[0].per_run} in problem 0"
                raise ValueError(f"fit(problem): {told}; expected the same")
        parameters = free_parameters(params, free, frozenset(problems[0].per_run), len(problems), tied)
        # What is refused is refused before anything is compiled.
        of, known = Loss(loss, f_scale), Priors(priors or {}, parameters)
        if not of.robust and f_scale != 1.0:
            # It would change nothing, while whoever gave it believes that outliers count less.
            raise ValueError(f"fit(f_scale): {f_scale!r} with loss 'linear', which knows no outliers; {ROBUST}")
        return cls(JointResidual(problems, parameters), parameters, of, known, progress)

    def started_at(self, theta: NDArray) -> Objective:
        """The same objective with theta (P,) as its start, for whatever goes on from there; it reports no progress."""
        return Objective(self.joint, self.parameters.started_at(theta), self.loss, self.priors)

    def of_run(self, i: int) -> Objective:
        """The same objective with the samples of run i only; theta and the priors are those of all runs."""
        return Objective(self.joint.of_run(i), self.parameters, self.loss, self.priors)

    def on(self, joint: JointResidual, priors: Priors | None = None) -> Objective:
        """The same objective on other runs, perhaps with other priors."""
        return Objective(joint, self.parameters, self.loss, priors or self.priors, self.progress)

    def replaced(self, name: str, arrays: Sequence[NDArray], priors: Priors | None = None) -> Objective:
        """The same objective on other measured `values`, or with another `sigma`; nothing is compiled anew."""
        return self.on(self.joint.replaced(name, arrays), priors)

    def told(self, iteration: int, cost: float) -> None:
        """Report progress to the terminal, and to whoever asked for it."""
        note(f"iteration {iteration}, cost {cost:.6g}")
        if self.progress is not None:
            self.progress(iteration, cost)

    @property
    def substeps(self) -> list[int]:
        """Of each run, steps per interval."""
        return [run.model.substeps for run in self.joint.runs]

    @property
    def remarks(self) -> list[str]:
        """How many substeps were taken, and where they are not enough; empty where there is nothing to tell."""
        numbers, parts = sorted(set(self.substeps)), []
        if numbers[-1] > 1 and any(problem.substeps == "auto" for problem in self.joint.problems):
            parts.append(f"{' to '.join(map(str, dict.fromkeys((numbers[0], numbers[-1]))))} steps in each interval")
        for i, run in enumerate(self.joint.runs):
            if run.coarse and run.change < np.inf:
                change = f"half as long steps would change what is observed by {run.change:.2g} of its noise"
                parts.append(f"run {i}: {change}")
        return parts

    def evaluate(self, theta: NDArray, horizon: float = 1.0) -> tuple[NDArray, NDArray]:
        """f (M,), rows whose squares are twice the cost, and their Jacobian J (M, P), of samples up to a horizon."""
        where, f, J = self._last
        if np.array_equal(theta, where) and horizon == 1.0:
            return f, J
        f, J = self.joint.compressed(theta, self.loss, horizon)
        # Columns of pure rounding, scaled up, would send the optimiser anywhere.
        J = np.where(negligible_columns(J, theta, self.data_norm, self.eps), 0.0, J)
        prior, slopes = self.priors.rows(theta)
        f, J = np.append(f, prior), np.vstack([J, slopes])
        if horizon == 1.0:
            self._last = theta.copy(), f, J
        return f, J

    def exact(self, cost: float) -> bool:
        """Whether a cost is that of exact data: residuals are rounding, and so is whatever a cost rises by."""
        return bool(np.sqrt(2 * cost) <= self.rounding)

    def cost(self, theta: NDArray) -> float:
        """Half the squares of the rows at theta (P,); what was asked for there is remembered."""
        for place, cost in self._costs:
            # To the last digit: a start far from the origin moves by noise where it moves by 1e-9 of its size.
            if np.array_equal(theta, place):
                return cost
        f, _ = self.evaluate(theta)
        self._costs.append((theta.copy(), 0.5 * float(f @ f)))
        return self._costs[-1][1]

    def reach(self, theta: NDArray, horizon: float) -> float:
        """How far into the runs, from 0 to 1, the simulation follows the data behind a horizon."""
        sizes, within = [], []
        for run, at in zip(self.joint.runs, self.joint.linearise(theta), strict=True):
            sizes.append(np.where(np.isfinite(at.r), at.r, np.inf))
            within.append(np.asarray(self.loss.squared(sizes[-1][run.progress <= horizon])[0]).ravel())
        rms = float(np.sqrt(np.nanmean(np.concatenate(within) ** 2)))
        reach = 1.0
        for run, r in zip(self.joint.runs, sizes, strict=True):
            # Five standard deviations of the samples within the horizon: noise hardly does that.
            off = np.any(run.present & ~(np.abs(r) <= 5 * rms), axis=1) & (run.progress > horizon)
            reach = min(reach, float(np.min(run.progress[off], initial=1.0)))
        return reach

    def misfit(self, theta: NDArray) -> float:
        """2 cost per degree of freedom of the samples: 1 where they are off as much as their stated noise."""
        squares = [float(np.nansum(np.asarray(self.loss.squared(at.r)[0]) ** 2)) for at in self.joint.linearise(theta)]
        return sum(squares) / self.freedom

    @property
    def freedom(self) -> int:
        """Samples minus parameters, at least 1."""
        return max(self.joint.samples - self.joint.size, 1)

    def explained(self, theta: NDArray) -> bool:
        """Whether noise explains what is left: of the stated size (three standard errors), white, or rounding."""
        at = self.joint.linearise(theta)
        if not self.finite(at):
            return False
        misfit = self.misfit(theta)
        if self.exact(misfit * self.freedom / 2):
            return True
        if 0.5 < misfit < 2.0:
            return bool(abs(misfit - 1.0) <= 3 * np.sqrt(2.0 / self.freedom))
        return all(white(a.r) for a in at)

    def first_order(
        self, at: Sequence[Linearised] | None = None, trajectories: Sequence[Any] = ()
    ) -> list[LinearisedRun]:
        """The runs for statistics, by default at the start; without trajectories nobody knows where impacts are."""
        at = self.joint.linearise(self.parameters.start) if at is None else at
        shown = trajectories or (None,) * len(at)
        return [run.first_order(*parts) for run, *parts in zip(self.joint.runs, at, shown, strict=True)]

    def finite(self, at: Sequence[Linearised]) -> bool:
        """Whether every measured sample has a simulated value."""
        return all(np.all(np.isfinite(a.r[run.present])) for run, a in zip(self.joint.runs, at, strict=True))


def white(r: NDArray) -> bool:
    """Whether neighbours among residuals (n, k) are uncorrelated, NaN where missing."""
    pairs = np.where(np.isnan(r[1:] * r[:-1]), 0.0, r[1:] * r[:-1])
    counts = np.sum(pairs != 0, axis=0)
    # A channel may have no samples at all.
    power = np.nansum(r**2, axis=0) / np.maximum(np.sum(~np.isnan(r), axis=0), 1)
    return bool(np.all(np.abs(pairs.sum(axis=0)) <= 3 * np.sqrt(np.maximum(counts, 1)) * power))
