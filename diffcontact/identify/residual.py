"""A run: from its free parameters to normalised residuals, their exact Jacobian, and how far both are rounded.

    r_i = (values_i - observe(simulate(theta_i), theta_i)) / noise_i       (n_i, k_i), dimensionless
    J_i = d r_i / d z_i                                                   (n_i, k_i, P_i), forward mode

One compiled function serves all runs that share system, scheme, `observe`, `initial` and `clock` (a `Model`).

**Disturbances** stand beside a model's parameters at zero: a resistance of a rate c [1/s], and a kick that changes the
velocity by k [m/s] within 2 T seconds about its moment, w(t) = max(0, 1 - |t - moment| / T) / T. A verdict asks what
the data say of them, without compiling anything anew:

    M(q) du = (f(t, q, u) - c M(q) u + M(q) w(t) k) dt + ...

**Rounding.** Each step rounds a state by eps / 2 of its size at most, and n steps leave in a channel y a root mean
square of (4 + n / 10) eps max |y|: bodies that slide, fall and bounce, in 60 to 120 000 steps of either precision,
leave n / 17.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike, NDArray

from diffcontact.arguments import placed, require_near
from diffcontact.identify.linearised import LinearisedRun
from diffcontact.identify.noise import Loss
from diffcontact.identify.observations import Impacts, Observations, Problem
from diffcontact.identify.parameters import Block, FreeParameters, insert
from diffcontact.inputs import Functions, called
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.numerics.fingerprint import fingerprint
from diffcontact.numerics.linear import apply_mass
from diffcontact.simulate import OF_THE_STEP, Trajectory, astride, simulate
from diffcontact.status import Status
from diffcontact.system import System

# Not names that a user's parameters have: `fixed_terms` finds them under these, and sentences tell them by these.
RESISTANCE, KICK = "resistance to motion", "kick"


def no_kick(d: int, dtype: Any) -> Array:
    """(2 + d,) a kick that changes no velocity."""
    return kick(0.0, 1.0, np.zeros(d, dtype))


def kick(moment: ArrayLike, width: ArrayLike, change: ArrayLike) -> Array:
    """(2 + d,) a kick at a moment [s], T = width [s], that changes the velocity by `change` (d,) [m/s], as parameters
    hold it."""
    change = np.asarray(change)
    return placed(np.concatenate([np.asarray([moment, width], change.dtype), change]))


@jax.tree_util.register_pytree_with_keys_class
class Disturbed(dict):
    """A run's parameters, and beside them what disturbs its motion: `rate` () [1/s] and `kick` (2 + d,), or None."""

    rate: Array | None = None
    kick: Array | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Disturbed:
        """These parameters, with what stands under `RESISTANCE` and `KICK` among them taken out and put beside them."""
        disturbed = cls(params)
        disturbed.rate, disturbed.kick = disturbed.pop(RESISTANCE, None), disturbed.pop(KICK, None)
        return disturbed

    def tree_flatten_with_keys(self):
        names = sorted(self)
        children = [(jax.tree_util.DictKey(name), self[name]) for name in names]
        beside = [(jax.tree_util.GetAttrKey("rate"), self.rate), (jax.tree_util.GetAttrKey("kick"), self.kick)]
        return [*children, *beside], tuple(names)

    @classmethod
    def tree_unflatten(cls, names, children) -> Disturbed:
        *values, rate, kick = children
        disturbed = cls(zip(names, values, strict=True))
        disturbed.rate, disturbed.kick = rate, kick
        return disturbed


@dataclass(frozen=True)
class _Disturbed:
    """A system's force, and what disturbs it where the parameters say so. Compared by the two functions it holds."""

    force: Callable[[Any, Array, Array, Any], Array]
    mass: Callable[[Array, Any], Array]

    def __call__(self, t: Any, q: Array, u: Array, params: Any) -> Array:
        force, rate, kick = self.force(t, q, u, params), getattr(params, "rate", None), getattr(params, "kick", None)
        if rate is None:
            return force
        # Another shape of force or mass is a mistake, which `simulate` tells.
        mass, d = jnp.asarray(self.mass(q, params)), u.size
        if not (jnp.shape(force) == (d,) and mass.shape in ((d,), (d, d))):
            return force
        change = -rate * u
        if kick is not None:
            moment, width = kick[0], kick[1]
            change = change + jnp.maximum(1.0 - jnp.abs(t - moment) / width, 0.0) / width * kick[2:]
        return force + apply_mass(mass, change)


def disturbed(system: Any) -> Any:
    """The system, able to be disturbed. One that is no `System`, or known by its identity only, is as it was."""
    if not isinstance(system, System):
        return system
    try:
        hash(system)
    except TypeError:
        return system
    return replace(system, force=_Disturbed(system.force, system.mass))


@dataclass(frozen=True, eq=False)
class Model:
    """Everything about a run that is code, not numbers: static under jit, compared by the functions it holds.

    `impacts` percussions of the contacts `heard` (None: all) are compared with measured times, none where it is 0. The
    trajectory lists at least `listed` of them.
    """

    system: Any
    scheme: Any
    substeps: int
    observe: Any
    initial: Any
    view: tuple[Block, ...]
    clock: Any = None
    tied: tuple[tuple[str, Any], ...] = ()
    impacts: int = 0
    heard: tuple[int, ...] | None = None
    listed: int = 0

    def parameters(self, z: Array, fixed: dict[str, Any]) -> dict[str, Any]:
        """What the run's functions are given: fixed and free parameters, and those tied to them; traceable."""
        params = Disturbed.of(insert(self.view, z, fixed))
        for name, function in self.tied:
            params[name] = function(params)
        return params

    @property
    def lists(self) -> bool:
        """Whether trajectories list percussions: then the number of substeps has to be known when compiling."""
        return bool(self.impacts or self.listed)

    @cached_property
    def fingerprint(self) -> Hashable:
        """What is equal for models of interchangeable code (`numerics.fingerprint`)."""
        return fingerprint(self)

    @cached_property
    def counted(self) -> tuple[Model, Array | None]:
        """The code for any number of substeps, and the number (), known when running: one compilation serves all.

        Where percussions are listed: the model itself, and None.
        """
        if self.lists:
            return self, None
        return replace(self, substeps=1), placed(self.substeps)

    def _identity(self):
        functions = self.system, self.scheme, self.observe, self.initial, self.clock
        numbers = self.substeps, self.impacts, self.heard, self.listed
        return (*map(_handle, functions), *numbers, self.view, *((name, _handle(tie)) for name, tie in self.tied))

    def __hash__(self):
        return hash(self._identity())

    def __eq__(self, other):
        return isinstance(other, Model) and self._identity() == other._identity()


def share_code(
    problems: Sequence[Problem], view: tuple[Block, ...], tied: tuple[tuple[str, Any], ...] = (), listed: int = 0
) -> list[Model]:
    """One model per problem, where functions made alike (a lambda in a loop, say) become one and the same object.

    A number of substeps that is left open begins at 1.
    """
    known: dict[Any, Any] = {}

    def first_alike(function):
        return known.setdefault(fingerprint(function), function)

    return [
        Model(
            system=disturbed(problem.system),
            scheme=problem.scheme,
            substeps=1 if isinstance(problem.substeps, str) else problem.substeps,
            observe=first_alike(problem.observations.observe),
            initial=first_alike(problem.initial),
            view=view,
            clock=first_alike(problem.clock),
            tied=tied,
            listed=listed,
        )
        for problem in problems
    ]


def _handle(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value


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
    seen = called("Observations(observe)", "trajectory, params", model.observe, params, trajectory, params)
    expected = samples.values.shape[0], samples.values.shape[1] - bool(model.impacts)
    returned = getattr(seen, "shape", None)
    if returned != expected:
        returned = type(seen).__name__ if returned is None else f"shape {returned}"
        raise ValueError(f"observe returns {returned}, expected {expected} as the values have")
    if model.impacts:
        # On the recording's clock.
        moments = jnp.interp(_heard(model, trajectory), times, samples.times)
        seen = jnp.concatenate([seen, moments[samples.impact][:, None]], axis=1)
    # Both branches are finite in forward mode: a NaN behind a missing sample stays behind the mask.
    return jnp.where(samples.present, (samples.values - seen) / samples.sigma, 0.0), trajectory


def _heard(model: Model, trajectory) -> Array:
    listed = trajectory.percussions
    heard = listed.contact >= 0
    if model.heard is not None:
        heard &= jnp.isin(listed.contact, jnp.array(model.heard))
    first = jnp.argsort(~heard, stable=True)[: model.impacts]
    return jnp.where(heard[first], listed.time[first], trajectory.t[-1])


@partial(jit_fast_compile, static=("model",))
def observed(model: Model, z: Array, fixed: dict[str, Any], trajectory: Any):
    """(n, k) what the model's `observe` makes of a trajectory."""
    return model.observe(trajectory, model.parameters(z, fixed))


class Beginning(NamedTuple):
    """How a run begins."""

    params: Any  # what its functions are given
    state: Any  # (q0, u0)
    slopes: Any  # the derivatives of the state by z
    times: Array | None  # the system's times of its samples; None without a clock


@partial(jit_fast_compile, static=("model",))
def beginning(model: Model, z: Array, fixed: dict[str, Any], times: Array) -> Beginning:
    """How a run begins at z (P_i,)."""

    def begun(z):
        params = model.parameters(z, fixed)
        state = model.initial(params)
        return state, (params, state, None if model.clock is None else model.clock(times, params))

    slopes, (params, state, clock) = jax.jacfwd(begun, has_aux=True)(z)
    return Beginning(params, state, slopes, clock)


evaluate = jit_fast_compile(residual, static=("model",))


def _work(model: Model, z: Array, fixed: dict[str, Any], samples: Samples, *_) -> int:
    """What `jit_fast_compile` asks for: a fit linearises about a hundred times, in some eight substeps a sample."""
    return 100 * 8 * samples.times.size * (1 + z.size)


@partial(jit_fast_compile, work=_work, static=("model",))
def linearise(model: Model, z: Array, fixed: dict[str, Any], samples: Samples, substeps: Array | None = None):
    """J (n, k, P_i), r (n, k) and the trajectory, in one pass of forward mode; `substeps` as in `residual`."""

    def twice(z):
        r, trajectory = residual(model, z, fixed, samples, substeps)
        return r, (r, trajectory)

    J, (r, trajectory) = jax.jacfwd(twice, has_aux=True)(z)
    return J, r, trajectory


# Of the last few steps and of `observe`, and of each step, in eps.
_AT_ALL, _PER_STEP = 4.0, 0.1
# Derivatives pass through more operations than values do.
_OF_DERIVATIVES = 100.0


def rounding(values: NDArray, sigma: NDArray, present: NDArray, steps: int) -> NDArray:
    """(n, k) how large rounding of simulated samples is, in units of their noise; zero where one is missing."""
    largest = np.max(np.where(present, np.abs(values), 0.0), axis=0, initial=0.0)
    return np.where(present, (_AT_ALL + _PER_STEP * steps) * np.finfo(values.dtype).eps * largest / sigma, 0.0)


def are_rounding(r: NDArray, of: NDArray) -> bool:
    """Whether residuals (n, k) are, in every channel, no larger than their `rounding`; those that are NaN never are."""
    return bool(np.all(np.sum(r**2, axis=0) <= np.sum(of**2, axis=0)))


def negligible_columns(J: NDArray, theta: NDArray, size: float, eps: float) -> NDArray:
    """(P,) True where a column of J (m, P) at theta (P,) is zero but for rounding, as of a mass in free fall."""
    return is_rounding(np.linalg.norm(J, axis=0) * np.maximum(np.abs(theta), 1.0), size, eps)


def is_rounding(change: Any, size: float, eps: float) -> Any:
    """Whether a change that derivatives promise of data of this size (norms, in noise) is rounding: 100 eps of it."""
    return change <= _OF_DERIVATIVES * eps * size


# What halving the steps may change, in standard deviations of the noise.
TOLERANCE = 0.1
# The finest step is 1/64 of an interval: a fit simulates hundreds of times.
FINEST = 64


def enough(run: Callable[[int], tuple[Array, Trajectory]], least: int = 1) -> tuple[int, float]:
    """The number of substeps, from `least` on, for which halving the steps changes the residuals by less than a tenth.

    `run` gives, for a number of substeps, normalised residuals (n, k) and the trajectory. The largest change of a
    residual is returned, too. Where no number up to `FINEST` is enough, the one with the smallest change is. One with a
    status that smaller steps may mend is enough only where they do not.
    """
    changes: dict[int, float] = {}
    substeps, coarse = least, run(least)
    while substeps <= max(FINEST, least):
        fine = run(2 * substeps)
        changes[substeps] = _change(coarse, fine)
        status = int(coarse[1].status)
        if changes[substeps] <= TOLERANCE and (status == Status.OK or status not in OF_THE_STEP):
            return substeps, changes[substeps]
        substeps, coarse = 2 * substeps, fine
    # No number mends the status, or none is enough.
    best = next(
        (number for number, change in changes.items() if change <= TOLERANCE),
        min(changes, key=lambda number: changes[number]),
    )
    return best, changes[best]


def _change(one: tuple[Array, Trajectory], other: tuple[Array, Trajectory]) -> float:
    moved: NDArray = np.abs(np.asarray(one[0], float) - np.asarray(other[0], float))
    if not np.all(np.isfinite(moved)):
        return np.inf
    return float(np.max(moved[~astride(one[1], other[1])], initial=0.0))


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
        """How many substeps the run needs at theta, and what half as long steps would change (`enough`)."""
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


def strikes(impulse: Any) -> NDArray:
    """(n, c) intervals in which each contact struck: it pushed, impulse (n, ...), and had not in the one before."""
    pushes = np.nan_to_num(np.asarray(impulse, float)).reshape(len(impulse), -1) > 0
    return pushes & ~np.vstack([np.zeros((1, pushes.shape[1]), bool), pushes[:-1]])
