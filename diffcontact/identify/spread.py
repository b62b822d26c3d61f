"""What many runs say together: the mean of a parameter, how much it differs from run to run, and on what it depends.

Run i of n was fitted by itself, to y_i with the standard error s_i, under conditions x_i::

    y_i = x_i^T beta + b_i + eps_i,      b_i ~ N(0, tau^2),    eps_i ~ N(0, s_i^2)

tau, the spread, has the largest restricted likelihood, with the weights w_i = 1 / (s_i^2 + tau^2)::

    -2 log L = sum_i log(s_i^2 + tau^2) + log |X^T W X| + Q(tau^2),      Q = sum_i w_i (y_i - x_i^T beta)^2

beta is that of the weights, and its covariance (X^T W X)^-1 Q / (n - p), with quantiles of Student's t of n - p degrees
of freedom. Where Q(0) is one of the 2.5 % smallest numbers it is that of the stated errors, (X^T W X)^-1. Q(tau^2) is
a chi^2 number of n - p degrees of freedom, and the interval of tau holds those at which Q is none of the 2.5 % largest
or smallest.

Source: G. Knapp, J. Hartung, Statistics in Medicine 22 (2003) 2693, for the covariance; W. Viechtbauer, Statistics in
Medicine 26 (2007) 37, for the interval of tau.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar, root_scalar
from scipy.special import chdtri, stdtrit

from diffcontact.identify.verdict.reasons import OF_A_COLUMN
from diffcontact.numerics.least_squares import TINY

_LEVEL = 0.95


@dataclass(frozen=True)
class Value:
    """An estimate with its standard error and its 95 % interval."""

    value: float
    stderr: float
    interval95: tuple[float, float]


@dataclass(frozen=True)
class Spread:
    """What many runs say of one parameter.

    Attributes:
        mean: over all runs that might be; with conditions, at the mean of each.
        spread: tau, the standard deviation from run to run, without what the errors of the fits add.
        spread_interval95: of tau.
        slopes: by how much the parameter changes with each condition, per unit of it.
        runs: n.
    """

    mean: Value
    spread: float
    spread_interval95: tuple[float, float]
    slopes: Mapping[str, Value] = field(default_factory=dict)
    runs: int = 0

    def __str__(self) -> str:
        low, high = self.mean.interval95
        lines = [
            f"mean {self.mean.value:.5g} +- {self.mean.stderr:.2g}, 95 % [{low:.5g}, {high:.5g}], of {self.runs} runs",
            f"spread between runs {self.spread:.2g}, 95 % [{self.spread_interval95[0]:.2g}, "
            f"{self.spread_interval95[1]:.2g}]",
        ]
        for name, slope in self.slopes.items():
            low, high = slope.interval95
            lines.append(f"per unit of {name} {slope.value:.3g} +- {slope.stderr:.1g}, 95 % [{low:.3g}, {high:.3g}]")
        return "\n".join(lines)


def spread(
    values: Sequence[float] | NDArray,
    stderr: Sequence[float] | NDArray,
    conditions: Mapping[str, Sequence[float] | NDArray] | None = None,
) -> Spread:
    """Mean and spread of a parameter over runs that were fitted one by one, and how it depends on their conditions.

    Args:
        values: (n,) what each run gives, as `fit(...).params[name]`.
        stderr: (n,) its standard error within the run, as `fit(...).stderr[name]`.
        conditions: name -> (n,) what was different from run to run, as the height of a fall.

    Returns:
        A `Spread`.

    Raises:
        ValueError: too few runs, numbers that are not finite, errors that are not positive, conditions that do not
            differ or that follow from others.

    Example:
        >>> rng, heights = np.random.default_rng(0), np.linspace(0.2, 1.0, 40)
        >>> truth = 0.8 - 0.1 * (heights - heights.mean()) + 0.02 * rng.normal(size=40)  # they differ by 0.02
        >>> found = spread(truth + 0.01 * rng.normal(size=40), np.full(40, 0.01), {"height": heights})
        >>> bool(abs(found.mean.value - 0.8) < 0.01), bool(0.01 < found.spread < 0.03)
        (True, True)
        >>> low, high = found.slopes["height"].interval95
        >>> bool(low < -0.1 < high)
        True
    """
    y, s = _numbers("values", values), _numbers("stderr", stderr)
    if s.shape != y.shape or np.any(s <= 0):
        raise ValueError(f"spread(stderr): {s}, expected {y.size} positive numbers, one for each run")
    names = tuple(conditions or ())
    X = np.column_stack([np.ones(y.size), *(_condition(name, conditions, y.size) for name in names)])
    n, p = X.shape
    if n < p + 1 or n < 2:
        raise ValueError(f"spread(values): {n} runs, expected at least {max(p + 1, 2)}")
    if (own := _alone(X)) is not None:
        raise ValueError(f"spread(conditions): {names[own - 1]!r} follows from the others, expected one of its own")
    tau2 = _likeliest(y, s, X)
    beta, inverse, Q = _weighted(tau2, y, s, X)
    # Runs that agree better than their errors allow, as rounded ones may, say nothing of how large these are.
    agree = _weighted(0.0, y, s, X)[2] < float(chdtri(n - p, (1 + _LEVEL) / 2))
    covariance = inverse * (1.0 if agree else Q / (n - p))
    quantile = float(stdtrit(n - p, (1 + _LEVEL) / 2))
    found = [_value(b, float(np.sqrt(v)), quantile) for b, v in zip(beta, np.diag(covariance), strict=True)]
    ends = [_root(float(chdtri(n - p, level)), y, s, X) for level in ((1 - _LEVEL) / 2, (1 + _LEVEL) / 2)]
    return Spread(
        mean=found[0],
        spread=float(np.sqrt(tau2)),
        spread_interval95=(float(np.sqrt(ends[0])), float(np.sqrt(ends[1]))),
        slopes=dict(zip(names, found[1:], strict=True)),
        runs=n,
    )


def _numbers(name: str, given: Any) -> NDArray:
    try:
        numbers = np.asarray(given, float)
    except (TypeError, ValueError):
        raise ValueError(f"spread({name}): {given!r}, expected numbers") from None
    if numbers.ndim != 1 or not np.all(np.isfinite(numbers)):
        raise ValueError(f"spread({name}): {given!r}, expected finite numbers, one for each run")
    return numbers


def _condition(name: str, conditions: Any, n: int) -> NDArray:
    """(n,) a condition, about its mean."""
    x = _numbers(f"conditions: {name!r}", conditions[name])
    if x.size != n or np.ptp(x) == 0:
        raise ValueError(f"spread(conditions): {name!r} is {x}, expected {n} numbers that differ")
    return x - x.mean()


def _alone(X: NDArray) -> int | None:
    R = np.linalg.qr(X, mode="r")
    small = np.flatnonzero(np.abs(np.diag(R)) < OF_A_COLUMN * np.linalg.norm(X, axis=0))
    return int(small[0]) if small.size else None


def _weighted(tau2: float, y: NDArray, s: NDArray, X: NDArray) -> tuple[NDArray, NDArray, float]:
    """beta (p,), (X^T W X)^-1 and Q at tau^2."""
    w = 1.0 / (s**2 + tau2)
    inverse = np.linalg.inv(X.T @ (w[:, None] * X))
    beta = inverse @ (X.T @ (w * y))
    return beta, inverse, float(w @ (y - X @ beta) ** 2)


def _likeliest(y: NDArray, s: NDArray, X: NDArray) -> float:
    """tau^2 of the largest restricted likelihood."""

    def deviance(tau2: float) -> float:
        _, inverse, Q = _weighted(tau2, y, s, X)
        return float(np.sum(np.log(s**2 + tau2)) - np.linalg.slogdet(inverse)[1] + Q)

    # Beyond the scatter of all values nothing is likelier; the likelihood may have two maxima.
    widest = np.sqrt(np.sum((y - y.mean()) ** 2)) + s.max()
    grid = np.concatenate([[0.0], widest * np.geomspace(1e-4, 1.0, 60)])
    best = int(np.argmin([deviance(tau**2) for tau in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    found = minimize_scalar(lambda tau: deviance(tau**2), bounds=(low, high), method="bounded")
    return float(found.x**2) if found.fun < deviance(0.0) else 0.0


def _root(level: float, y: NDArray, s: NDArray, X: NDArray) -> float:

    def excess(tau2: float) -> float:
        return _weighted(tau2, y, s, X)[2] - level

    if excess(0.0) <= 0:
        return 0.0
    widest = float(np.sum((y - y.mean()) ** 2)) / level + TINY
    return float(root_scalar(excess, bracket=(0.0, widest), rtol=1e-10).root)


def _value(value: float, stderr: float, quantile: float) -> Value:
    return Value(float(value), stderr, (float(value - quantile * stderr), float(value + quantile * stderr)))
