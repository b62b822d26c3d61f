"""A run, ready to be evaluated: its code, its numbers, its place in theta, and what it gives at theta.

Shorter runs are continued past their end to the length of the longest, with missing values.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import placed, require_near
from diffcontact.identify.linearised import LinearisedRun
from diffcontact.identify.problem.disturbance import KICK, RESISTANCE, no_kick
from diffcontact.identify.problem.impacts import Impacts, struck
from diffcontact.identify.problem.loss import Loss
from diffcontact.identify.problem.model import Model
from diffcontact.identify.problem.observations import Observations
from diffcontact.identify.problem.parameters import FreeParameters
from diffcontact.identify.problem.residual import Beginning, Samples, beginning, evaluate, linearise, observed
from diffcontact.identify.problem.rounding import are_rounding, rounding
from diffcontact.identify.problem.substeps import TOLERANCE, enough
from diffcontact.inputs import Functions, called
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
    def progress(self) -> NDArray:
        """(n,) how far into the run each sample was taken, from 0 to 1."""
        times = np.asarray(self.samples.times, float)[: self.length]
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

    @property
    def digest(self) -> str:
        """What two recordings share only if they are one, whatever their clocks and the order of their channels.

        SHA-256 of what was measured; empty where nothing changes, as of bodies at rest.
        """
        values = np.asarray(self.samples.values, float)[: self.length]
        channels = np.where(self.present, values, np.nan).T
        if all(np.unique(channel[~np.isnan(channel)]).size < 2 for channel in channels):
            return ""
        # A sum with zero turns -0 into 0.
        return hashlib.sha256(b"|".join(sorted((channel + 0.0).tobytes() for channel in channels))).hexdigest()

    def kickable(self, d: int) -> Run:
        """The run, with a kick of nothing for its d velocities held fixed; see `disturbance`."""
        return replace(self, fixed=self.fixed | {KICK: no_kick(d, self.samples.times.dtype)})

    def under_way(self, z: NDArray, samples: Samples):
        """J, r and the trajectory at z (P_i,), not waited for."""
        model, number = self.model.counted()
        return linearise(model, z, self.fixed, samples, number)

    def observed(self, theta: NDArray, trajectory: Any) -> NDArray:
        """(n, k) what would have been seen of a trajectory at theta (P,), on its own times or on the padded ones."""
        samples, missing = trajectory.t.shape[0], self.samples.times.shape[0] - trajectory.t.shape[0]

        def continued(leaf):
            if np.ndim(leaf) == 0 or leaf.shape[0] not in (samples, samples - 1):
                return leaf
            leaf = np.asarray(leaf)
            # Nobody looks beyond the end: see `JointResidual`.
            beyond = np.full((missing, *leaf.shape[1:]), np.nan if np.issubdtype(leaf.dtype, np.floating) else 0)
            return np.concatenate([leaf, beyond.astype(leaf.dtype)])

        if missing:
            listed = trajectory.percussions
            trajectory = replace(jax.tree.map(continued, replace(trajectory, percussions=None)), percussions=listed)
        return np.asarray(observed(self.model, theta[self.index], self.fixed, trajectory), float)[: self.length]

    def beginning(self, theta: NDArray) -> Beginning:
        """How it begins at theta (P,)."""
        return beginning(self.model, theta[self.index], self.fixed, self.samples.times)

    def measured(self, r: Any, J: Any) -> tuple[NDArray, NDArray]:
        """Residuals and Jacobian on its own samples: NaN and zero where missing, infinite where not finite."""
        r = np.asarray(r, float)[: self.length]
        r = np.where(np.abs(r) < _INFINITE, r, np.inf)
        J = np.asarray(J, float)[: self.length]
        return np.where(self.present, r, np.nan), np.where(np.abs(J) < _INFINITE**2, J, np.inf)

    def first_order(self, at: Linearised, trajectory: Any = None) -> LinearisedRun:
        """The run for statistics, in its own parameters; without a trajectory nobody knows where its impacts are."""
        r, J = np.where(np.isfinite(at.r), at.r, np.nan), np.where(np.isfinite(at.J), at.J, 0.0)
        times, sigma = (np.asarray(part, float)[: self.length] for part in (self.samples.times, self.samples.sigma))
        hit = np.zeros(self.length - 1, bool)
        if trajectory is not None and isinstance(self.model.system, System):
            hit = struck(trajectory.impulse)
        touched = np.append(hit, False) | np.append(False, hit)
        tracks = self.present.shape[1] - bool(self.model.impacts)
        exact = are_rounding(np.where(self.present, r, 0.0), self.rounding)
        return LinearisedRun(r, J, self.index, times, touched, sigma, tracks, exact)

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
        """How many substeps the run needs at theta, and what half as long steps would change; see `substeps.enough`."""
        model, samples, z = self.model, self.samples, theta[self.index]
        if model.impacts:
            # Percussions are listed for numbers that are known when compiling; the samples know as much.
            arrays = (placed(np.asarray(array)[:, :-1]) for array in (samples.values, samples.sigma, samples.present))
            samples = Samples(samples.times, *arrays)
        counted, number = model.counted()
        model = replace(model, substeps=1, impacts=0, heard=None)

        def simulated(substeps: int):
            # What the fit compiles anyway tells as much, together with derivatives that a few simulations can afford.
            if number is not None and substeps <= _WITH_DERIVATIVES * self.model.substeps:
                return linearise(counted, z, self.fixed, samples, placed(substeps))[1:]
            return evaluate(model, z, self.fixed, samples, placed(substeps))

        return enough(simulated, self.model.substeps)


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
        return placed(np.column_stack([np.asarray(old), np.asarray(new, old.dtype)]))

    old = run.samples
    samples = Samples(
        old.times,
        beside(old.values, values),
        beside(old.sigma, sigma),
        beside(old.present, present),
        placed(impact),
    )
    return replace(
        run,
        model=replace(run.model, impacts=count, heard=impacts.contacts),
        samples=samples,
        present=np.column_stack([run.present, present[: run.length]]),
    )


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
    """Refuse what a run's `tied`, `initial` and `clock` return, and contacts that it does not have.

    Returns:
        d, how many velocities `initial` returns.

    Raises:
        ValueError: one line that names the function, what was expected and what it returned.
    """
    model = run.model

    def begin(z, fixed, times):
        params = _parameters(model, z, fixed)
        q0, u0 = _initial(model, params)
        if model.clock is not None:
            shape = jnp.shape(called("Problem(clock)", "times, params", model.clock, params, times, params))
            if shape != times.shape:
                raise ValueError(f"Problem(clock): returned shape {shape}, expected {times.shape} as there are times")
        _require_contacts(model, times[0], q0, params)
        return u0

    return jax.eval_shape(begin, np.zeros(run.index.size), run.fixed, run.samples.times).size


def _parameters(model: Model, z: jax.Array, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """As `Model.parameters`, one tie after the other."""
    params = replace(model, tied=()).parameters(z, dict(fixed))
    for name, function in model.tied:
        params[name] = called(f"fit(tied): {name!r}", "params", function, params, params)
    return params


def _initial(model: Model, params: Mapping[str, Any]) -> tuple[jax.Array, jax.Array]:
    returned = called("Problem(initial)", "params", model.initial, params, params)
    pair = not isinstance(returned, Mapping) and hasattr(returned, "__len__") and len(returned) == 2
    if not pair:
        what = f"{len(returned)} of them" if isinstance(returned, tuple | list) else type(returned).__name__
        raise ValueError(f"Problem(initial): expected two arrays, (q0, u0), got {what}")
    return jnp.asarray(returned[0]), jnp.asarray(returned[1])


def _require_contacts(model: Model, t: jax.Array, q0: jax.Array, params: Mapping[str, Any]) -> None:
    """Refuse impacts that are heard of contacts that there are not."""
    if not model.heard or not isinstance(model.system, System) or q0.ndim != 1:
        return
    (count,) = Functions(model.system, "System", params, q0).shape("gap", "t, q, params", t, q0, params)
    if max(model.heard) >= count:
        raise ValueError(f"Impacts(contacts): {model.heard}, expected numbers from 0 to {count - 1}")
