"""From the free parameters of a run to normalised residuals and their exact Jacobian.

    r_i = (values_i - observe(simulate(theta_i), theta_i)) / noise_i       (n_i, k_i), dimensionless
    J_i = d r_i / d z_i                                                   (n_i, k_i, P_i), forward mode

One compiled function serves all runs that share system, scheme, `observe`, `initial` and `clock` (a `Model`).

**Disturbances** stand beside a model's parameters at zero: a resistance of a rate c [1/s], and a kick that changes the
velocity by k [m/s] within 2 T seconds about its moment, w(t) = max(0, 1 - |t - moment| / T) / T. A verdict asks what
the data say of them, without compiling anything anew:

    M(q) du = (f(t, q, u) - c M(q) u + M(q) w(t) k) dt + ...
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
from numpy.typing import ArrayLike

from diffcontact.arguments import placed
from diffcontact.identify.problem.observations import Problem
from diffcontact.identify.problem.parameters import Block, insert
from diffcontact.inputs import called
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.numerics.fingerprint import fingerprint
from diffcontact.numerics.linear import apply_mass
from diffcontact.simulate import simulate
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
