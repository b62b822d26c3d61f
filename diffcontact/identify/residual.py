"""From the free parameters to normalised residuals and their exact Jacobian, run by run.

    r_i = (values_i - observe(simulate(theta_i), theta_i)) / noise_i       (n_i, k_i), dimensionless
    J_i = d r_i / d z_i                                                   (n_i, k_i, P_i), forward mode

One compiled function serves all runs that share system, scheme, substeps, `observe` and `initial`: shorter runs are
continued past their end to the length of the longest, with missing values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from diffcontact.identify.observations import Observations, Problem
from diffcontact.identify.parameters import Block, FreeParameters, insert
from diffcontact.simulate import simulate

# A residual this large (in standard deviations) is a simulation on its way to infinity; its square is still a number.
_INFINITE = 1e15


@dataclass(frozen=True, eq=False)
class Model:
    """Everything about a run that is code, not numbers: static under jit, compared by the functions it holds."""

    system: Any
    scheme: Any
    substeps: int
    observe: Any
    initial: Any
    view: tuple[Block, ...]

    def _identity(self):
        return (*map(_handle, (self.system, self.scheme, self.observe, self.initial)), self.substeps, self.view)

    def __hash__(self):
        return hash(self._identity())

    def __eq__(self, other):
        return isinstance(other, Model) and self._identity() == other._identity()


@partial(jax.tree_util.register_dataclass, data_fields=["times", "values", "sigma", "present"], meta_fields=[])
@dataclass(frozen=True)
class Samples:
    """A run's measurements on the device: times (n,), values, sigma, present (n, k); missing values are zeros."""

    times: Array
    values: Array
    sigma: Array
    present: Array


def residual(model: Model, z: Array, fixed: dict[str, Any], samples: Samples):
    """Normalised residuals (n, k) of one run, zero where a sample is missing, and its trajectory; pure, traceable."""
    params = insert(model.view, z, fixed)
    q0, u0 = model.initial(params)
    trajectory = simulate(model.system, params, q0, u0, samples.times, scheme=model.scheme, substeps=model.substeps)
    seen = model.observe(trajectory, params)
    if jnp.shape(seen) != samples.values.shape:
        raise ValueError(f"observe returns shape {jnp.shape(seen)}, expected {samples.values.shape} as the values have")
    # Both branches are finite in forward mode: a NaN behind a missing sample stays behind the mask.
    return jnp.where(samples.present, (samples.values - seen) / samples.sigma, 0.0), trajectory


_residual = jax.jit(residual, static_argnums=0)


@partial(jax.jit, static_argnums=0)
def _linearise(model: Model, z: Array, fixed: dict[str, Any], samples: Samples):
    """J (n, k, P_i), r (n, k) and the trajectory, in one pass of forward mode."""

    def twice(z):
        r, trajectory = residual(model, z, fixed, samples)
        return r, (r, trajectory)

    J, (r, trajectory) = jax.jacfwd(twice, has_aux=True)(z)
    return J, r, trajectory


@dataclass(frozen=True, eq=False)
class Run:
    """One run, ready to be evaluated: its code, its numbers, and where its free parameters lie in theta.

    `penalty` stands in for residuals that are not finite: a thousand times the largest measured value, in noise.
    """

    model: Model
    samples: Samples
    fixed: dict[str, Any]
    index: NDArray
    present: NDArray
    penalty: float

    @property
    def length(self) -> int:
        return self.present.shape[0]

    @property
    def padded(self) -> bool:
        return self.samples.times.shape[0] > self.length


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

    Attributes:
        runs: one `Run` per problem.
        size: P, the length of theta.
        samples: m, the number of measured samples.
    """

    def __init__(self, problems: Sequence[Problem], parameters: FreeParameters):
        models = _share_code(problems, parameters.view)
        kinds = [(model, p.observations.values.shape[1]) for model, p in zip(models, problems, strict=True)]
        longest: dict[Any, int] = {}
        for kind, problem in zip(kinds, problems, strict=True):
            longest[kind] = max(longest.get(kind, 0), problem.observations.times.size)
        self.size = len(parameters.names)
        self.samples = sum(int(problem.observations.present.sum()) for problem in problems)
        self.runs = [
            _run(kind[0], problem.observations, parameters, i, longest[kind])
            for i, (kind, problem) in enumerate(zip(kinds, problems, strict=True))
        ]
        self._unpad_where_observe_looks_ahead(problems, parameters)

    def linearise(self, theta: NDArray) -> list[Linearised]:
        """Every run at theta (P,)."""
        # All runs are under way before the first is waited for.
        pending = [_linearise(run.model, jnp.asarray(theta[run.index]), run.fixed, run.samples) for run in self.runs]
        results = []
        for run, (J, r, trajectory) in zip(self.runs, pending, strict=True):
            r = np.asarray(r, float)[: run.length]
            r = np.where(np.abs(r) < _INFINITE, r, np.inf)
            r = np.where(run.present, r, np.nan)
            J = np.asarray(J, float)[: run.length]
            J = np.where(np.abs(J) < _INFINITE**2, J, np.inf)
            results.append(Linearised(r, J, trajectory))
        return results

    def compressed(self, theta: NDArray) -> tuple[NDArray, NDArray]:
        """Few rows in place of the m samples: f (M,) and J (M, P) with the f^T f, J^T f and J^T J of all of them.

        Each run's [J_i, r_i] is replaced by its triangular factor, (P_i + 1) rows. An orthogonal transformation changes
        neither the cost nor a Gauss-Newton step, but the optimiser's linear algebra becomes as small as the number of
        parameters. Residuals that are not finite count as a large penalty without derivative, so that the optimiser
        backs off.
        """
        factors = []
        for run, at in zip(self.runs, self.linearise(theta), strict=True):
            r, J = at.r[run.present], at.J[run.present]
            J = np.where(np.isfinite(J) & np.isfinite(r)[:, None], J, 0.0)
            r = np.where(np.isfinite(r), r, run.penalty)
            factors.append(np.linalg.qr(np.column_stack([J, r]), mode="r"))
        rows = np.cumsum([0, *(factor.shape[0] for factor in factors)])
        f, J = np.zeros(rows[-1]), np.zeros((rows[-1], self.size))
        for run, factor, begin, end in zip(self.runs, factors, rows[:-1], rows[1:], strict=True):
            f[begin:end] = factor[:, -1]
            J[begin:end, run.index] = factor[:, :-1]
        return f, J

    def trajectories(self, theta: NDArray, at: Sequence[Linearised]) -> tuple[Any, ...]:
        """The simulated trajectory of each run at its own times."""
        results = []
        for run, linearised in zip(self.runs, at, strict=True):
            trajectory = linearised.trajectory
            if run.padded and int(trajectory.status):
                # What went wrong may lie beyond the end of the data: ask again without the continuation.
                samples = jax.tree.map(lambda leaf, n=run.length: leaf[:n], run.samples)
                _, trajectory = _residual(run.model, jnp.asarray(theta[run.index]), run.fixed, samples)
            results.append(_cut(trajectory, run.length))
        return tuple(results)

    def _unpad_where_observe_looks_ahead(self, problems: Sequence[Problem], parameters: FreeParameters) -> None:
        """An `observe` that uses the whole trajectory (its mean, its end) must not see the continuation."""
        if not any(run.padded for run in self.runs):
            return
        for i, at in enumerate(self.linearise(parameters.start)):
            run, observations = self.runs[i], problems[i].observations
            params = insert(run.model.view, jnp.asarray(parameters.start[run.index]), run.fixed)
            seen = np.asarray(run.model.observe(_cut(at.trajectory, run.length), params), float)
            again = (observations.values - seen) / observations.sigma
            tolerance = float(jnp.finfo(run.samples.values.dtype).eps) ** 0.5  # other summation order, same numbers
            finite = np.isfinite(at.r)
            if not np.allclose(again[finite], at.r[finite], tolerance, tolerance):
                self.runs[i] = _run(run.model, observations, parameters, i, run.length)


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
    return Run(model, samples, parameters.fixed(i), parameters.index(i), present, penalty)


def _share_code(problems: Sequence[Problem], view: tuple[Block, ...]) -> list[Model]:
    """One model per problem, where functions made alike (a lambda in a loop, say) become one and the same object."""
    known: dict[Any, Any] = {}

    def first_alike(function):
        return known.setdefault(_code(function), function)

    return [
        Model(
            system=problem.system,
            scheme=problem.scheme,
            substeps=problem.substeps,
            observe=first_alike(problem.observations.observe),
            initial=first_alike(problem.initial),
            view=view,
        )
        for problem in problems
    ]


def _code(function: Any) -> Any:
    """What makes two functions of one moment interchangeable: the same code over the same closure and defaults."""
    if not isinstance(function, FunctionType):
        return id(function)
    cells = tuple(id(cell.cell_contents) for cell in function.__closure__ or ())
    defaults = tuple(map(id, function.__defaults__ or ()))
    keywords = tuple((name, id(value)) for name, value in (function.__kwdefaults__ or {}).items())
    return function.__code__, id(function.__globals__), cells, defaults, keywords


def _handle(value: Any) -> Any:
    """The value itself where it can be hashed, its identity otherwise (a system that holds arrays)."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


def _cut(trajectory: Any, length: int) -> Any:
    """The trajectory up to its sample `length`."""
    samples = trajectory.t.shape[0]

    def cut(leaf):
        if jnp.ndim(leaf) == 0:
            return leaf
        return leaf[: length if leaf.shape[0] == samples else length - 1]

    return jax.tree.map(cut, trajectory)
