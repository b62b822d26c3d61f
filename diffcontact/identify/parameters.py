"""Which parameters are free, within which bounds and priors, and how they lie in one flat vector.

The optimiser sees one vector theta (P,). Run i sees only its part of it, z_i = theta[index_i]::

    theta = [ shared ... | those of run 0, those of run 1, ... ]    d residual_i / d theta is zero outside index_i

A parameter in log scale is there with its logarithm, value = exp(theta). Tied parameters are functions of those that
are in theta. Priors are further rows of the residual.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import placed
from diffcontact.host.messages import did_you_mean


@dataclass(frozen=True)
class Interval:
    """Domain of a parameter between bounds: low <= parameter <= high.

    Bounds are numbers or arrays that broadcast to the shape of the parameter.

    Args:
        low, high: the bounds.
        log: search (and form error bars) in the logarithm, for what may be off by a factor; low must be above 0.

    Raises:
        ValueError: bounds that are NaN or the wrong way round; a logarithm of what is not positive.

    Example:
        >>> Interval(0.0, 1.0)
        Interval(low=0.0, high=1.0)
        >>> Interval(1.0, 0.0)
        Traceback (most recent call last):
        ValueError: Interval(low=1.0, high=0.0): bounds the wrong way round, low must be below high
    """

    low: Any
    high: Any
    log: bool = field(default=False, repr=False, kw_only=True)

    def __post_init__(self):
        try:
            low, high = np.asarray(self.low, float), np.asarray(self.high, float)
            right = np.all(low < high)
        except (TypeError, ValueError):
            raise ValueError(f"{self}: expected numbers, or arrays of one shape") from None
        if np.any(np.isnan(low)) or np.any(np.isnan(high)):
            raise ValueError(f"{self}: a bound is NaN, expected numbers; -inf and inf are no bounds")
        if not right:
            raise ValueError(f"{self}: bounds the wrong way round, low must be below high")
        if self.log and not np.all(np.asarray(self.low, float) > 0):
            raise ValueError(f"{self}: low must be above 0 in log scale")


@dataclass(frozen=True)
class Positive:
    """A parameter above zero: a mass, a stiffness, a radius.

    Args:
        log: search (and form error bars) in the logarithm, for what may be off by a factor.

    Example:
        >>> Positive().low, Positive().high
        (0.0, inf)
    """

    log: bool = field(default=False, repr=False, kw_only=True)
    low: ClassVar[float] = 0.0
    high: ClassVar[float] = np.inf


@dataclass(frozen=True)
class Real:
    """A parameter without bounds.

    Example:
        >>> Real().low, Real().high
        (-inf, inf)
    """

    log: ClassVar[bool] = False
    low: ClassVar[float] = -np.inf
    high: ClassVar[float] = np.inf


Domain = Interval | Positive | Real
Tie = Callable[[dict[str, Any]], Any]


@dataclass(frozen=True)
class Block:
    """A free parameter as one run sees it: its name, its shape, its scale. Hashable, static under jit."""

    name: str
    shape: tuple[int, ...]
    log: bool = False

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


def insert(view: tuple[Block, ...], z: jax.Array, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """A run's parameters: the fixed ones, and the free ones cut from its vector `z`; traceable."""
    params, begin = dict(fixed), 0
    for block in view:
        part = z[begin : begin + block.size].reshape(block.shape)
        exp = np.exp if isinstance(part, np.ndarray) else jnp.exp
        params[block.name] = exp(part) if block.log else part
        begin += block.size
    return params


@dataclass(frozen=True, eq=False)
class FreeParameters:
    """The flat vector of free parameters, and each run's part of it."""

    params: Mapping[str, Any]  # the user's dictionary with its starting values
    free: Mapping[str, Domain]  # the domain of each free parameter
    per_run: frozenset[str]  # names whose leading axis counts the runs
    view: tuple[Block, ...]  # the free parameters as one run sees them
    names: tuple[str, ...]  # (P,) one per element: `e`, `mass[0]`, `distance[3]`
    start: NDArray  # (P,) starting values of theta
    low: NDArray  # (P,) its bounds
    high: NDArray
    log: NDArray  # (P,) True where theta is the logarithm of the parameter
    runs: int = 1
    tied: Mapping[str, Tie] = field(default_factory=dict)  # functions of a run's parameters that give others

    def started_at(self, theta: NDArray) -> FreeParameters:
        """The same parameters with theta (P,) as their start."""
        return replace(self, params={**self.params, **self.split(self.values(theta))}, start=theta.copy())

    def values(self, theta: NDArray) -> NDArray:
        """(P,) the parameters at theta: exponentials of what is in log scale."""
        return np.where(self.log, np.exp(np.where(self.log, theta, 0.0)), theta)

    @property
    def own(self) -> NDArray:
        """(P,) True for elements that a run keeps to itself."""
        parts = self.split(self.start).items()
        return np.concatenate([np.full(np.size(part), name in self.per_run) for name, part in parts])

    @property
    def of_one_run(self) -> NDArray:
        """(P,) True for elements that one of several runs keeps to itself."""
        return self.own & (self.runs > 1)

    def slopes(self, theta: NDArray) -> NDArray:
        """(P,) derivatives of the parameters by theta."""
        return np.where(self.log, self.values(theta), 1.0)

    def index(self, run: int) -> NDArray:
        """Where the elements of this run's vector z lie in theta."""
        parts = self.split(np.arange(self.start.size)).items()
        return np.concatenate([np.ravel(part[run] if name in self.per_run else part) for name, part in parts])

    def fixed(self, run: int) -> dict[str, Any]:
        """The parameters of this run that are not free, as arrays."""
        free = {block.name for block in self.view}
        pick = {
            name: _map(lambda leaf: np.asarray(leaf)[run], value) if name in self.per_run else value
            for name, value in self.params.items()
            if name not in free
        }
        return _map(placed, pick)

    def split(self, values: NDArray) -> dict[str, Any]:
        """(P, ...) values per element as a dictionary of arrays in the parameters' shapes (numbers for scalars)."""
        parts, begin = {}, 0
        for block in self.view:
            shape = np.shape(self.params[block.name])
            size = np.size(self.params[block.name])
            parts[block.name] = values[begin : begin + size].reshape(shape + values.shape[1:])[()]
            begin += size
        return parts

    def merge(self, theta: NDArray) -> dict[str, Any]:
        """The user's dictionary at `theta`, with what is tied, on a leading axis where that differs from run to run."""
        merged = {**self.params, **self.split(self.values(theta))}

        def of_run(name, value, run):
            return _map(lambda leaf: placed(np.asarray(leaf)[run] if name in self.per_run else leaf), value)

        count = self.runs if self.tied else 0
        runs = [{name: of_run(name, value, i) for name, value in merged.items()} for i in range(count)]
        for name, function in self.tied.items():
            for params in runs:
                # What is tied may follow from what is tied before it.
                params[name] = function(params)
            values = [np.asarray(params[name], float) for params in runs]
            alike = all(np.array_equal(values[0], value) for value in values)
            merged[name] = (values[0] if alike else np.stack(values))[()]
        return merged


def free_parameters(
    params: Mapping[str, Any],
    free: Mapping[str, Domain],
    per_run: frozenset[str],
    runs: int,
    tied: Mapping[str, Tie] | None = None,
) -> FreeParameters:
    """Check names, shapes, starting values and bounds, and lay the free parameters out in one vector."""
    for name, given in (("params", params), ("free", free), ("tied", tied or {})):
        if not isinstance(given, Mapping):
            kind = type(given).__name__
            raise ValueError(f"fit({name}): expected a dictionary with the names of parameters, got {kind}")
    if not free:
        raise ValueError("fit(free): empty, expected at least one parameter name with its domain")
    for name, where in (*((name, "per_run") for name in per_run), *((name, "free") for name in free)):
        if name not in params:
            raise ValueError(f"fit({where}): no parameter {name!r}; {did_you_mean(name, params)}")
    for name, value in params.items():
        _map(lambda leaf, name=name: _check(name, leaf, runs if name in per_run else None), value)
    for name, function in (tied or {}).items():
        if name in free or not callable(function):
            raise ValueError(f"fit(tied): {name!r} is {'free as well' if name in free else 'no function'}")
    values, lows, highs, logs, names, view = [], [], [], [], [], []
    for name, domain in free.items():
        value, low, high = _bounded(name, params[name], domain)
        names += [f"{name}[{','.join(map(str, index))}]" if index else name for index in np.ndindex(value.shape)]
        view.append(Block(name, value.shape[1:] if name in per_run else value.shape, domain.log))
        for parts, part in ((values, value), (lows, low), (highs, high)):
            with np.errstate(divide="ignore"):
                parts.append(np.log(part.ravel()) if domain.log else part.ravel())
        logs.append(np.full(value.size, domain.log))
    return FreeParameters(
        params=dict(params),
        free=dict(free),
        per_run=frozenset(per_run),
        view=tuple(view),
        names=tuple(names),
        start=np.concatenate(values),
        low=np.concatenate(lows),
        high=np.concatenate(highs),
        log=np.concatenate(logs),
        runs=runs,
        tied=dict(tied or {}),
    )


def starting_points(parameters: FreeParameters, starts: int, seed: int) -> Iterator[NDArray]:
    """(P,) each: the given start, then a Sobol set in the bounds, or within a factor of two, or 1 about zero."""
    first, log = parameters.start, parameters.log
    yield first
    if starts == 1:
        return
    from scipy.stats import qmc  # takes half a second to import, and few fits look beyond their start

    reach, apart = np.where(first == 0.0, 1.0, np.abs(first)), np.log(2.0)
    near_low = np.where(log, first - apart, first - np.where(first > 0, reach / 2, reach))
    near_high = np.where(log, first + apart, first + np.where(first < 0, reach / 2, reach))
    bounded = np.isfinite(parameters.low) & np.isfinite(parameters.high)
    low = np.where(bounded, parameters.low, np.maximum(near_low, parameters.low))
    high = np.where(bounded, parameters.high, np.minimum(near_high, parameters.high))
    exponent = int(np.ceil(np.log2(max(starts - 1, 1))))
    points = qmc.Sobol(first.size, rng=seed).random_base2(exponent)[: starts - 1]
    yield from low + points * (high - low)


def symmetric(entries: Any, count: int) -> jax.Array | NDArray:
    """Build a symmetric matrix (count, count) from its upper triangle, row by row.

    It holds one coefficient e_ij per pair of materials.

    Made for `fit(tied={"e_ij": lambda p: symmetric(p["e"], 3)})`.

    Args:
        entries: (count (count + 1) / 2,) the upper triangle with the diagonal.
        count: rows of the matrix.

    Example:
        >>> symmetric(np.array([1.0, 0.75, 0.5]), 2).tolist()
        [[1.0, 0.75], [0.75, 0.5]]
    """
    first, second = np.triu_indices(count)
    position = np.zeros((count, count), int)
    position[first, second] = position[second, first] = np.arange(first.size)
    return entries[position] if isinstance(entries, np.ndarray) else jnp.asarray(entries)[position]


def _bounded(name: str, value: Any, domain: Domain) -> tuple[NDArray, NDArray, NDArray]:
    if not isinstance(domain, Interval | Positive | Real):
        raise ValueError(f"fit(free): {name!r} is {domain!r}, expected Interval(low, high), Positive() or Real()")
    value = np.asarray(value, float)
    if not np.all(np.isfinite(value)):
        raise ValueError(f"fit(params): {name!r} = {value} is not finite, expected a starting value")
    try:
        low, high = (np.broadcast_to(np.asarray(bound, float), value.shape) for bound in (domain.low, domain.high))
    except ValueError:
        raise ValueError(f"fit(free): the bounds of {name!r} do not broadcast to its shape {value.shape}") from None
    inside = (low < value) if isinstance(domain, Positive) else (low <= value)
    if not np.all(inside & (value <= high)):
        raise ValueError(f"fit(params): the start {name!r} = {value} is outside its bounds {domain}")
    return value, low, high


def _check(name: str, leaf: Any, runs: int | None) -> None:
    """Refuse what is no number, and of what each of the runs has to itself another leading axis."""
    shape = np.shape(leaf)
    if runs is not None and shape[:1] != (runs,):
        raise ValueError(
            f"fit(params): {name!r} is per_run, so its leading axis must have one entry per problem ({runs}), "
            f"but its shape is {shape}"
        )
    try:
        wrong = np.any(np.isnan(np.asarray(leaf, float)))
    except (TypeError, ValueError):
        raise ValueError(f"fit(params): {name!r} = {leaf!r} is not a number or an array of numbers") from None
    if wrong:
        raise ValueError(f"fit(params): {name!r} is NaN, expected numbers")


def _map(function: Any, value: Any) -> Any:
    return jax.tree.map(function, value, is_leaf=lambda part: isinstance(part, list | tuple))


# A measurement may be beyond what is possible, by its error: by so many of its standard deviations.
_BEYOND = 2.0


@dataclass(frozen=True)
class Normal:
    """Normal prior of a parameter: `mean` and standard deviation `sigma`.

    Both are numbers or arrays that broadcast to the shape of the parameter.

    What was measured elsewhere may lie beyond the parameter's bounds, as a restitution of 1.01, but by two standard
    deviations at most.

    Raises:
        ValueError: a standard deviation that is not positive, a mean that is not finite.

    Example:
        >>> Normal(9.81, 0.01)
        Normal(mean=9.81, sigma=0.01)
    """

    mean: Any
    sigma: Any

    def __post_init__(self):
        mean, sigma = np.asarray(self.mean, float), np.asarray(self.sigma, float)
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(sigma)) and np.all(sigma > 0)):
            raise ValueError(f"{self}: expected a finite mean and a positive finite sigma")

    def contradicts(self, domain: Domain) -> NDArray:
        """Where the mean is beyond the bounds of a domain by more than two standard deviations."""
        mean, room = np.asarray(self.mean, float), _BEYOND * np.asarray(self.sigma, float)
        return (mean < np.asarray(domain.low) - room) | (mean > np.asarray(domain.high) + room)


class Priors:
    """Rows (parameter - mean) / sigma as functions of theta; a per-run parameter has one prior per run or for all."""

    def __init__(self, priors: Mapping[str, Normal], parameters: FreeParameters):
        self.parameters = parameters
        # Element by element of theta; an infinite sigma is no prior.
        mean = {name: np.zeros(np.shape(value)) for name, value in parameters.split(parameters.start).items()}
        sigma = {name: np.full(value.shape, np.inf) for name, value in mean.items()}
        for name, prior in priors.items():
            if name not in mean:
                raise ValueError(f"fit(priors): {name!r} is not free; free are {', '.join(map(repr, mean))}")
            if not isinstance(prior, Normal):
                raise ValueError(f"fit(priors): {name!r} is {prior!r}, expected Normal(mean, sigma)")
            try:
                mean[name], sigma[name] = (
                    np.broadcast_to(part, mean[name].shape) for part in (prior.mean, prior.sigma)
                )
            except ValueError:
                shape = mean[name].shape
                raise ValueError(f"fit(priors): {prior} of {name!r} does not broadcast to its shape {shape}") from None
            if np.any(prior.contradicts(domain := parameters.free[name])):
                raise ValueError(
                    f"fit(priors): {prior} of {name!r} is beyond its bounds {domain} by more than {_BEYOND:g} sigma, "
                    "expected within"
                )
        everything = [np.concatenate([np.ravel(part) for part in parts.values()]) for parts in (mean, sigma)]
        self.index = np.flatnonzero(np.isfinite(everything[1]))
        self.mean, self.sigma = (part[self.index] for part in everything)

    @property
    def count(self) -> int:
        """How many elements of theta have a prior."""
        return self.index.size

    def around(self, mean: NDArray) -> Priors:
        """Priors of the same elements and widths around other means (count,)."""
        other = copy(self)
        other.mean = mean
        return other

    def among(self, parameters: FreeParameters) -> Priors:
        """The same priors where other parameters are free: those of parameters that still are."""
        other, names = copy(self), parameters.names
        kept = [(i, names.index(name)) for i, j in enumerate(self.index) if (name := self.parameters.names[j]) in names]
        still, index = np.array(kept, int).reshape(-1, 2).T
        other.parameters, other.index, other.mean, other.sigma = parameters, index, self.mean[still], self.sigma[still]
        return other

    def rows(self, theta: NDArray) -> tuple[NDArray, NDArray]:
        """Rows f (count,) of the priors at theta (P,), and their Jacobian J (count, P)."""
        J = np.zeros((self.count, theta.size))
        J[np.arange(self.count), self.index] = self.parameters.slopes(theta)[self.index] / self.sigma
        return (self.parameters.values(theta)[self.index] - self.mean) / self.sigma, J

    def information(self, theta: NDArray) -> NDArray:
        """(P,) what the priors add to the diagonal of J^T J."""
        return np.sum(self.rows(theta)[1] ** 2, axis=0)
