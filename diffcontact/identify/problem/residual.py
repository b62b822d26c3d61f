"""From the free parameters to normalised residuals and their exact Jacobian, run by run.

    r_i = (values_i - observe(simulate(theta_i), theta_i)) / noise_i       (n_i, k_i), dimensionless
    J_i = d r_i / d z_i                                                   (n_i, k_i, P_i), forward mode

One compiled function serves all runs that share system, scheme, `observe`, `initial` and `clock`, each with its own
number of substeps. Shorter runs are continued past their end to the length of the longest, with missing values.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from diffcontact.compilation import quick_jit
from diffcontact.identify.problem.impacts import Impacts
from diffcontact.identify.problem.loss import Loss
from diffcontact.identify.problem.model import Model, share_code
from diffcontact.identify.problem.observations import Observations, Problem
from diffcontact.identify.problem.parameters import FreeParameters
from diffcontact.identify.problem.substeps import TOLERANCE, enough
from diffcontact.simulate import simulate
from diffcontact.status import Status, first

# Simulations side by side on an accelerator.
LANES = 256
_LINEAR = Loss()
# How much shorter steps may be simulated with derivatives that nobody asked for: twice the time of a simulation, and
# less than its compilation.
_WITH_DERIVATIVES = 8
# A residual this large (in standard deviations) is a simulation on its way to infinity; its square is still a number.
_INFINITE = 1e15


@partial(
    jax.tree_util.register_dataclass, data_fields=["times", "values", "sigma", "present", "impact"], meta_fields=[]
)
@dataclass(frozen=True)
class Samples:
    """A run's measurements on the device: times (n,), values, sigma, present (n, k); missing values are zeros.

    Where times of impacts were measured they are the last channel, and `impact` (n,) says which percussion's.
    """

    times: Array
    values: Array
    sigma: Array
    present: Array
    impact: Array | None = None


def residual(model: Model, z: Array, fixed: dict[str, Any], samples: Samples, substeps: Array | None = None):
    """Normalised residuals (n, k) of one run, zero where a sample is missing, and its trajectory; pure, traceable.

    `substeps` in place of the model's are a number that is known when running only.
    """
    params = model.parameters(z, fixed)
    q0, u0 = model.initial(params)
    times = samples.times if model.clock is None else model.clock(samples.times, params)
    # Of the contacts that are not heard there may be many in between.
    listed = model.impacts if model.heard is None else model.impacts and times.size * model.substeps
    listed = max(listed, model.listed)
    number = model.substeps if substeps is None else substeps
    trajectory = simulate(model.system, params, q0, u0, times, scheme=model.scheme, substeps=number, percussions=listed)
    seen = model.observe(trajectory, params)
    expected = samples.values.shape[0], samples.values.shape[1] - bool(model.impacts)
    if jnp.shape(seen) != expected:
        raise ValueError(f"observe returns shape {jnp.shape(seen)}, expected {expected} as the values have")
    if model.impacts:
        # On the recording's clock.
        moments = jnp.interp(_heard(model, trajectory), times, samples.times)
        seen = jnp.concatenate([seen, moments[samples.impact][:, None]], axis=1)
    # Both branches are finite in forward mode: a NaN behind a missing sample stays behind the mask.
    return jnp.where(samples.present, (samples.values - seen) / samples.sigma, 0.0), trajectory


def _heard(model: Model, trajectory) -> Array:
    """(model.impacts,) when the percussions that are heard happen; those that do not, at the end."""
    listed = trajectory.percussions
    heard = listed.contact >= 0
    if model.heard is not None:
        heard &= jnp.isin(listed.contact, jnp.array(model.heard))
    first = jnp.argsort(~heard, stable=True)[: model.impacts]
    return jnp.where(heard[first], listed.time[first], trajectory.t[-1])


_residual = quick_jit(residual, static_argnums=0)


@partial(quick_jit, static_argnums=0)
def _linearise(model: Model, z: Array, fixed: dict[str, Any], samples: Samples, substeps: Array | None = None):
    """J (n, k, P_i), r (n, k) and the trajectory, in one pass of forward mode; `substeps` as in `residual`."""

    def twice(z):
        r, trajectory = residual(model, z, fixed, samples, substeps)
        return r, (r, trajectory)

    J, (r, trajectory) = jax.jacfwd(twice, has_aux=True)(z)
    return J, r, trajectory


@partial(quick_jit, static_argnums=0)
def _linearise_lanes(model: Model, z: Array, fixed: dict[str, Any], samples: Samples, substeps: Array | None = None):
    """J (N, n, k, P_i) and r (N, n, k) of N lanes z (N, P_i) whose measured values (N, n, k) may differ as well;
    `substeps` as in `residual`."""

    def lane(z, values):
        def twice(z):
            r, _ = residual(model, z, fixed, replace(samples, values=values), substeps)
            return r, r

        return jax.jacfwd(twice, has_aux=True)(z)

    return jax.vmap(lane)(z, samples.values)


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
    def progress(self) -> NDArray:
        """(n,) how far into the run each sample was taken, from 0 to 1."""
        times = np.asarray(self.samples.times, float)[: self.length]
        return (times - times[0]) / (times[-1] - times[0])


@dataclass(frozen=True, eq=False)
class Linearised:
    """A run at theta.

    Attributes:
        r: (n, k) residuals, NaN where missing, infinite where the simulation is not finite.
        J: (n, k, P_i) their derivatives by z_i, zero where missing, infinite where not finite.
        trajectory: on the padded times.
    """

    r: NDArray
    J: NDArray
    trajectory: Any


class JointResidual:
    """The residuals of all runs and their Jacobian as functions of the flat vector theta.

    Args:
        problems: the runs.
        parameters: the layout of theta.
        listed: how many percussions the trajectories list, at least.

    Attributes:
        problems: the runs as they were given.
        runs: one `Run` per problem.
        size: P, the length of theta.
        samples: m, the number of measured samples.
    """

    def __init__(self, problems: Sequence[Problem], parameters: FreeParameters, listed: int = 0):
        models = share_code(problems, parameters.view, tuple(parameters.tied.items()), listed)
        kinds = [
            (model, p.observations.values.shape[1], p.observations.impacts is None)
            for model, p in zip(models, problems, strict=True)
        ]
        longest: dict[Any, int] = {}
        for kind, problem in zip(kinds, problems, strict=True):
            longest[kind] = max(longest.get(kind, 0), problem.observations.times.size)
        self.problems = tuple(problems)
        self.size = len(parameters.names)
        self.runs = [
            _run(kind[0], problem.observations, parameters, i, longest[kind])
            for i, (kind, problem) in enumerate(zip(kinds, problems, strict=True))
        ]
        self.samples = sum(int(run.present.sum()) for run in self.runs)
        self.runs = self._resolved(parameters.start)
        self._unpad_where_observe_looks_ahead(problems, parameters)

    def linearise(self, theta: NDArray) -> list[Linearised]:
        """Every run at theta (P,)."""
        # All runs are under way before the first is waited for.
        pending = [_under_way(run, theta[run.index], run.samples) for run in self.runs]
        results = []
        for run, (J, r, trajectory) in zip(self.runs, pending, strict=True):
            results.append(Linearised(*_measured(run, r, J), trajectory))
        return results

    def compressed(self, theta: NDArray, loss: Loss = _LINEAR) -> tuple[NDArray, NDArray]:
        """Few rows in place of the m samples: f (M,) and J (M, P) with the f^T f, J^T f and J^T J of all of them.

        Each run's [J_i, r_i] is replaced by its triangular factor, (P_i + 1) rows. An orthogonal transformation changes
        neither the cost nor a Gauss-Newton step, but the optimiser's linear algebra becomes as small as the number of
        parameters. Residuals that are not finite count as a large penalty without derivative, so that the optimiser
        backs off.

        Args:
            theta: (P,) the free parameters.
            loss: what the squares are of: the residuals themselves, or those that make the squares a robust loss.
        """
        factors = []
        for run, at in zip(self.runs, self.linearise(theta), strict=True):
            r, J = _finite_rows(run, at.r[run.present], at.J[run.present], loss)
            factors.append(np.linalg.qr(np.column_stack([J, r]), mode="r"))
        rows = np.cumsum([0, *(factor.shape[0] for factor in factors)])
        f, J = np.zeros(rows[-1]), np.zeros((rows[-1], self.size))
        for run, factor, begin, end in zip(self.runs, factors, rows[:-1], rows[1:], strict=True):
            f[begin:end] = factor[:, -1]
            J[begin:end, run.index] = factor[:, :-1]
        return f, J

    def lanes(
        self, theta: NDArray, values: Sequence[NDArray] | None = None, chunk: int | None = None
    ) -> list[tuple[NDArray, NDArray]]:
        """Per run, r (N, n, k) and J (N, n, k, P_i) of N lanes theta (N, P), like those of `linearise`.

        On a CPU one lane follows the other, by the function that is compiled anyway. A vmapped simulation takes longer
        per lane there (measured: 1.1 times for one ball, 1.6 times for three in a box). On other devices the lanes run
        side by side, in chunks of one shape.

        Args:
            theta: (N, P), N >= 1.
            values: per run the measured values (N, n, k) of every lane, where they differ from lane to lane.
            chunk: how many run side by side; None: what suits the device.
        """
        if chunk is None:
            chunk = 1 if jax.default_backend() == "cpu" else LANES
        return [
            self._lanes_of_run(run, theta[:, run.index], None if values is None else values[i], chunk)
            for i, run in enumerate(self.runs)
        ]

    def _lanes_of_run(self, run: Run, z: NDArray, values: NDArray | None, chunk: int) -> tuple[NDArray, NDArray]:
        count, n = z.shape[0], run.samples.times.shape[0]
        measured = np.broadcast_to(np.asarray(run.samples.values), (count, n, run.present.shape[1]))
        if values is not None:
            filled = np.where(run.present, values, 0.0)
            measured = np.pad(filled, ((0, 0), (0, n - run.length), (0, 0)))
        if chunk == 1:
            pending = [_under_way(run, z[i], _with_values(run.samples, measured[i]))[:2] for i in range(count)]
            parts = [_measured(run, r, J) for J, r in pending]
            return np.stack([r for r, _ in parts]), np.stack([J for _, J in parts])
        rows = np.minimum(np.arange(-(-count // chunk) * chunk), count - 1).reshape(-1, chunk)
        model, number = run.model.counted()
        parts = [
            _linearise_lanes(model, jnp.asarray(z[row]), run.fixed, _with_values(run.samples, measured[row]), number)
            for row in rows
        ]
        both = [_measured(run, r, J) for J_lanes, r_lanes in parts for J, r in zip(J_lanes, r_lanes, strict=True)]
        return np.stack([r for r, _ in both[:count]]), np.stack([J for _, J in both[:count]])

    def replaced(self, name: str, arrays: Sequence[NDArray]) -> JointResidual:
        """The same runs with other measured `values` or another `sigma` (n_i, k_i); nothing is compiled anew."""
        runs = []
        for run, array in zip(self.runs, arrays, strict=True):
            old = getattr(run.samples, name)
            new = np.array(old, float)
            new[: run.length][run.present] = np.asarray(array, float)[run.present]
            runs.append(replace(run, samples=replace(run.samples, **{name: jnp.asarray(new, old.dtype)})))
        other = copy(self)
        other.runs = runs
        return other

    def resolved(self, theta: NDArray) -> JointResidual:
        """The same runs with steps short enough at theta (P,), where their number was left open; never longer ones."""
        other = copy(self)
        other.runs = self._resolved(theta)
        return other

    def _resolved(self, theta: NDArray) -> list[Run]:
        """Every run with as many substeps as it needs by itself, where their number was left open.

        Runs that list percussions share the largest of their code, since each number would be compiled.
        """
        found = [
            _enough(run, theta) if problem.substeps == "auto" else None
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
                samples = jax.tree.map(lambda leaf, n=run.length: leaf[:n], run.samples)
                model, number = run.model.counted()
                _, trajectory = _residual(model, jnp.asarray(theta[run.index]), run.fixed, samples, number)
            if run.change > TOLERANCE:
                coarse = jnp.asarray(Status.TOO_COARSE, trajectory.status.dtype)
                trajectory = replace(trajectory, status=first(trajectory.status, coarse))
            results.append(_cut(trajectory, run.length))
        return tuple(results)

    def listed(self, theta: NDArray, i: int, percussions: int) -> Any:
        """The trajectory of run i at theta (P,), with so many percussions listed."""
        run = self.runs[i]
        model = replace(run.model, listed=percussions)
        _, trajectory = _residual(model, jnp.asarray(theta[run.index]), run.fixed, run.samples)
        return _cut(trajectory, run.length)

    def _unpad_where_observe_looks_ahead(self, problems: Sequence[Problem], parameters: FreeParameters) -> None:
        """An `observe` that uses the whole trajectory (its mean, its end) must not see the continuation."""
        if not any(run.padded for run in self.runs):
            return
        for i, at in enumerate(self.linearise(parameters.start)):
            run, observations = self.runs[i], problems[i].observations
            params = run.model.parameters(jnp.asarray(parameters.start[run.index]), run.fixed)
            seen = np.asarray(run.model.observe(_cut(at.trajectory, run.length), params), float)
            again = (observations.values - seen) / observations.sigma
            tolerance = float(jnp.finfo(run.samples.values.dtype).eps) ** 0.5  # other summation order, same numbers
            r = at.r[:, : again.shape[1]]
            finite = np.isfinite(r)
            if not np.allclose(again[finite], r[finite], tolerance, tolerance):
                self.runs[i] = replace(_run(run.model, observations, parameters, i, run.length), change=run.change)


def _enough(run: Run, theta: NDArray) -> tuple[int, float]:
    """How many substeps the run needs at theta, and what half as long steps would change; see `enough`."""
    model, samples, z = run.model, run.samples, jnp.asarray(theta[run.index])
    if model.impacts:
        # Percussions are listed for numbers that are known when compiling; the samples know as much.
        arrays = (array[:, :-1] for array in (samples.values, samples.sigma, samples.present))
        samples = Samples(samples.times, *arrays)
    counted, number = model.counted()
    model = replace(model, substeps=1, impacts=0, heard=None)

    def simulated(substeps: int):
        # What the fit compiles anyway tells as much, together with derivatives that a few simulations can afford.
        if number is not None and substeps <= _WITH_DERIVATIVES * run.model.substeps:
            return _linearise(counted, z, run.fixed, samples, jnp.array(substeps))[1:]
        return _residual(model, z, run.fixed, samples, jnp.array(substeps))

    return enough(simulated, run.model.substeps)


def _under_way(run: Run, z: NDArray, samples: Samples):
    """J, r and the trajectory of a run at z (P_i,), not waited for."""
    model, number = run.model.counted()
    return _linearise(model, jnp.asarray(z), run.fixed, samples, number)


def _measured(run: Run, r: Any, J: Any) -> tuple[NDArray, NDArray]:
    """Residuals and Jacobian on the run's own samples: NaN and zero where missing, infinite where not finite."""
    r = np.asarray(r, float)[: run.length]
    r = np.where(np.abs(r) < _INFINITE, r, np.inf)
    J = np.asarray(J, float)[: run.length]
    return np.where(run.present, r, np.nan), np.where(np.abs(J) < _INFINITE**2, J, np.inf)


def _finite_rows(run: Run, r: NDArray, J: NDArray, loss: Loss) -> tuple[NDArray, NDArray]:
    """Rows (m_i,), (m_i, P_i) whose squares are the loss; a large penalty without derivative for what is not finite."""
    finite = np.isfinite(r)
    J = np.where(np.isfinite(J) & finite[:, None], J, 0.0)
    r = np.where(finite, r, run.penalty)
    if not loss.robust:
        return r, J
    s, slope = loss.squared(r)
    return s, np.where(finite, slope, 0.0)[:, None] * J


def _with_values(samples: Samples, values: Any) -> Samples:
    return replace(samples, values=jnp.asarray(values, samples.sigma.dtype))


def _run(model: Model, observations: Observations, parameters: FreeParameters, i: int, length: int) -> Run:
    missing = length - observations.times.size
    # The continuation keeps the typical spacing: steps of another size would be other code paths for the scheme.
    beyond = observations.times[-1] + np.median(np.diff(observations.times)) * np.arange(1, missing + 1)
    present = observations.present

    def pad(array, value):
        return jnp.asarray(np.pad(array, ((0, missing), (0, 0)), constant_values=value))

    values = np.where(present, observations.values, 0.0)
    real = jnp.result_type(float)
    samples = Samples(
        times=jnp.asarray(np.concatenate([observations.times, beyond]), real),
        values=pad(values, 0.0).astype(real),
        sigma=pad(observations.sigma, 1.0).astype(real),
        present=pad(present, False),
    )
    penalty = 1e3 * (1.0 + float(np.max(np.abs(values / observations.sigma))))
    run = Run(model, samples, parameters.fixed(i), parameters.index(i), present, penalty)
    return run if observations.impacts is None else with_impacts(run, observations.impacts)


def with_impacts(run: Run, impacts: Impacts) -> Run:
    """The run with one more channel: each time in the row of the sample after it, or in the next that is free."""
    count, times = impacts.times.size, np.asarray(run.samples.times, float)[: run.length]
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
        return jnp.concatenate([old, jnp.asarray(new, old.dtype)[:, None]], axis=1)

    old = run.samples
    samples = Samples(
        old.times,
        beside(old.values, values),
        beside(old.sigma, sigma),
        beside(old.present, present),
        jnp.asarray(impact),
    )
    return replace(
        run,
        model=replace(run.model, impacts=count, heard=impacts.contacts),
        samples=samples,
        present=np.column_stack([run.present, present[: run.length]]),
    )


def _cut(trajectory: Any, length: int) -> Any:
    """The trajectory up to its sample `length`."""
    samples = trajectory.t.shape[0]

    def cut(leaf):
        if jnp.ndim(leaf) == 0:
            return leaf
        return leaf[: length if leaf.shape[0] == samples else length - 1]

    return replace(jax.tree.map(cut, replace(trajectory, percussions=None)), percussions=trajectory.percussions)
