"""The residuals of all runs together, as functions of one flat vector theta."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import placed
from diffcontact.identify.problem.loss import Loss
from diffcontact.identify.problem.model import Model, share_code
from diffcontact.identify.problem.observations import Problem
from diffcontact.identify.problem.parameters import FreeParameters
from diffcontact.identify.problem.residual import evaluate
from diffcontact.identify.problem.run import Linearised, Run, cut, prepared, require_functions
from diffcontact.identify.problem.substeps import FINEST
from diffcontact.status import Status, first

_LINEAR = Loss()


class JointResidual:
    """The residuals of all runs and their Jacobian as functions of the flat vector theta.

    Attributes:
        problems: the runs as they were given.
        runs: one `Run` per problem; their trajectories list at least `listed` percussions.
        size: P, the length of theta.
        samples: m, the number of measured samples.
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
        self.runs = [run.kickable(velocities[run.model]) for run in self.runs]
        self.samples = sum(int(run.present.sum()) for run in self.runs)
        self.rubs = any(getattr(run.model.system, "rubs", False) for run in self.runs)
        self.runs = self._resolved(parameters.start)
        self._unpad_where_observe_looks_ahead(problems, parameters)

    def linearise(self, theta: NDArray) -> list[Linearised]:
        """Every run at theta (P,); what was asked for last, or just before, is remembered."""
        for runs, place, found in self._last:
            if runs is self.runs and np.array_equal(place, theta):
                return list(found)
        # All runs are under way before the first is waited for.
        pending = [run.under_way(theta[run.index], run.samples) for run in self.runs]
        results = []
        for run, (J, r, trajectory) in zip(self.runs, pending, strict=True):
            results.append(Linearised(*run.measured(r, J), trajectory))
        self._last = [*self._last[-1:], (self.runs, np.array(theta), results)]
        return list(results)

    def compressed(self, theta: NDArray, loss: Loss = _LINEAR, horizon: float = 1.0) -> tuple[NDArray, NDArray]:
        """Few rows in place of the m samples: f (M,) and J (M, P) with the f^T f, J^T f and J^T J of all of them.

        Each run's [J_i, r_i], of the loss and up to the horizon, is replaced by its triangular factor, (P_i + 1) rows.
        An orthogonal transformation changes neither the cost nor a Gauss-Newton step, but the optimiser's linear
        algebra becomes as small as the number of parameters. Residuals that are not finite count as a large penalty
        without derivative, so that the optimiser backs off.
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

    def replaced(self, name: str, arrays: Sequence[NDArray]) -> JointResidual:
        """The same runs with other measured `values` or another `sigma` (n_i, k_i); nothing is compiled anew."""
        runs = []
        for run, array in zip(self.runs, arrays, strict=True):
            old = getattr(run.samples, name)
            new = np.array(old, float)
            new[: run.length][run.present] = np.asarray(array, float)[run.present]
            runs.append(replace(run, samples=replace(run.samples, **{name: placed(new, old.dtype)})))
        other = copy(self)
        other.runs = runs
        return other

    def seeing(self, present: Sequence[NDArray]) -> JointResidual:
        """The same runs of which other samples (n_i, k_i) are missing, none of those that were; nothing is compiled."""
        runs = []
        for run, seen in zip(self.runs, present, strict=True):
            padded = np.zeros(run.samples.present.shape, bool)
            padded[: run.length] = seen
            runs.append(replace(run, present=seen, samples=replace(run.samples, present=placed(padded))))
        other = copy(self)
        other.runs, other.samples = runs, sum(int(seen.sum()) for seen in present)
        return other

    def of_run(self, i: int) -> JointResidual:
        """Run i alone, as a function of the same theta."""
        other = copy(self)
        other.problems, other.runs = self.problems[i : i + 1], self.runs[i : i + 1]
        other.samples = int(self.runs[i].present.sum())
        return other

    def resolved(self, theta: NDArray) -> JointResidual:
        """The same runs with steps short enough at theta (P,), where their number was left open; never longer ones."""
        other = copy(self)
        other.runs = self._resolved(theta)
        return other

    def refined(self, factor: int) -> JointResidual:
        """The same runs with so many times as many steps, up to the finest, where their number was left open."""
        other, runs = copy(self), []
        for run, problem in zip(self.runs, self.problems, strict=True):
            number = run.model.substeps
            more = max(number, min(factor * number, FINEST)) if problem.substeps == "auto" else number
            runs.append(replace(run, model=replace(run.model, substeps=more)))
        other.runs = runs
        return other

    def _resolved(self, theta: NDArray) -> list[Run]:
        """Every run with as many substeps as it needs by itself, where their number was left open.

        Runs that list percussions share the largest of their code, since each number would be compiled.
        """
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
                model, number = run.model.counted()
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
            seen = run.observed(parameters.start, cut(at.trajectory, run.length))
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
