r"""What one run cannot know: how much another would differ. Sister runs that were fitted before tell.

All n + 1 runs, this one among them, are of one kind: their estimates x_g, with standard errors s_g within each run,
scatter about a common value with the variances s_g^2 + tau^2. Whatever tau is,

    Q(tau^2) = sum_g (x_g - m)^2 / (s_g^2 + tau^2) ~ chi^2(n),    m the mean with weights 1 / (s_g^2 + tau^2)

Q falls with tau^2, so that tau_p^2, at which Q is the upper p quantile of chi^2(n) (0 if Q never is that large), is the
p quantile of a confidence distribution: what the runs say of tau, whatever their errors. The interval of this run is
x_0 +- c h / t,

    mean over p of P(|N(0, s_0^2 + tau_p^2)| < h) = 0.95
    P(|t_n| < t) = 0.95,    P(|n u + t_n| / sqrt(n + 1) < c) = 0.95

and never shorter than within the run. Where tau is large, h = t S with S the standard deviation of the x_g, and the
interval is x_0 +- c S. Since x_0 itself adds to S, c is smaller than t: (x_0 - truth) / S = (n u + t_n) / sqrt(n + 1),
with u one coordinate of a unit vector of n that points anywhere. Beside three sisters c is 2.18 and t 3.18.

So normal numbers are held in 93 to 98 % where the runs differ by at least their own errors, and in up to 99.5 % where
they do not differ and the interval need not have been longer than within the run; beside three sisters that are known
better than this run in up to 99.9 %.

Source: K. Nagashima, H. Noma, T. A. Furukawa, Statistical Methods in Medical Research 28 (2019) 1689, for the
confidence distribution; R. C. Paule, J. Mandel, J. Research NBS 87 (1982) 377, for tau^2 at which Q is n.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import root_scalar
from scipy.special import betaincinv, chdtri, ndtr, stdtr, stdtrit

from diffcontact.identify.intervals.recordings import one_recording_twice
from diffcontact.identify.problem.parameters import Real
from diffcontact.identify.result import FitResult
from diffcontact.identify.verdict.verdict import NO

_FEWEST = 2
_LEVEL = 0.95
# Gauss and Legendre's rule on [0, 1]: intervals to 0.5 %.
_NODES, _WEIGHTS = (0.5 * part for part in np.polynomial.legendre.leggauss(64))
_NODES = _NODES + 0.5


def beside(
    result: FitResult, sisters: Sequence[FitResult], names: Sequence[str], labels: Sequence[str] = ()
) -> FitResult:
    """Widen the intervals of one run by what differs between sister runs.

    Parameters that all have under the same name are widened. Those of which the sisters know nothing, like an initial
    state that every run has to itself, keep their interval within the run: leave them out of `names`. A sister whose
    model does not explain its data may lie anywhere: the verdict then says so.

    Args:
        result: what `fit` returned for one run.
        sisters: fits of other single runs of the same kind, at least two, also read from files.
        names: the elements that runs of one kind have in common.
        labels: what the sisters are called; empty: by their numbers.

    Raises:
        ValueError: too few sister runs, or joint fits; a sister whose fit did not converge; two fits of one recording,
            which would seem to show how well runs agree; an element that some sister does not have.

    Example:
        >>> import diffcontact as dc
        >>> from diffcontact.identify import Observations, Problem, Real, fit
        >>> sled = dc.System(
        ...     gap=lambda t, q, p: q + 1.0,
        ...     force=lambda t, q, u, p: p["pull"] + 0.0 * q,
        ...     mass=lambda q, p: 1.0 + 0.0 * q,
        ...     restitution=lambda p: 0.0,
        ... )
        >>> times, rng = np.linspace(0.0, 1.0, 21), np.random.default_rng(0)
        >>> start, see = lambda p: (np.zeros(1), np.zeros(1)), lambda x, p: x.q
        >>> def run(pull):
        ...     seen = (pull * times**2 / 2 + 0.001 * rng.normal(size=21))[:, None]
        ...     return fit(
        ...         Problem(sled, Observations(times, seen, 0.001, see), start, dc.VelocityProjection(), 8),
        ...         {"pull": 2.0},
        ...         {"pull": Real()},
        ...     )
        >>> low, high = beside(run(2.0), [run(pull) for pull in (1.9, 2.1, 2.05, 1.95)], ["pull"]).interval95["pull"]
        >>> bool(0.25 < high - low < 0.4)  # the runs differ by 0.08
        True
    """
    for fitted in (result, *sisters):
        if not isinstance(fitted, FitResult):
            raise ValueError(f"beside(sisters): {type(fitted).__name__}, expected FitResults, what fit returns")
    require_single_runs([len(fitted.residuals) for fitted in (result, *sisters)])
    called = ["the result", *(labels or (f"sister {i}" for i in range(len(sisters))))]
    for label, sister in zip(called[1:], sisters, strict=True):
        if not sister.converged:
            raise ValueError(
                f"beside(sisters): {label} did not converge, {sister.message}; expected fits with an estimate"
            )
    if same := one_recording_twice([result, *sisters]):
        first, second = (called[i] for i in same)
        raise ValueError(
            f"beside(sisters): {second} is of the same recording as {first}, whole or in part, so that they agree "
            "whatever another run would give; expected every recording once"
        )
    values, spans = result.estimate, {name: np.array(part, float) for name, part in result.interval95.items()}
    growth, unknown = np.ones(len(result.names)), []
    for name in names:
        for label, fitted in zip(called, (result, *sisters), strict=True):
            if name not in fitted.names:
                raise ValueError(f"beside(names): {label} has no {name!r}, but {', '.join(fitted.names)}")
        j, (parameter, index) = result.names.index(name), result.place(name)
        known = [
            (fitted.estimate[k], fitted.covariance[k, k])
            for fitted in (result, *sisters)
            for k in [fitted.names.index(name)]
        ]
        x, variance = (np.array(part) for part in zip(*known, strict=True))
        if not np.all(np.isfinite(variance)):
            unknown.append(name)
            continue
        growth[j] = np.sqrt(1.0 + _moments(x, variance) / variance[0])
        half = _half_width(x, variance)
        low, high = spans[parameter][index]
        lowest, highest = _bounds(result, parameter, index)
        spans[parameter][index] = min(low, max(values[j] - half, lowest)), max(high, min(values[j] + half, highest))
    errors = {name: np.array(part, float) for name, part in result.stderr.items()}
    for name, factor in zip(result.names, growth, strict=True):
        parameter, index = result.place(name)
        errors[parameter][index] *= factor
    held = [name for name in names if name not in unknown]
    told = f"beside {len(sisters)} sister runs, whose scatter {', '.join(held) or 'no interval'} hold"
    if unknown:
        told += f" (not {', '.join(unknown)}, which some of them do not see)"
    wrong = [label for label, sister in zip(called[1:], sisters, strict=True) if sister.verdict.explains == NO]
    doubt = f"{', '.join(wrong)}: the fit does not explain its data, and the scatter between runs rests on it"
    return replace(
        result,
        stored_verdict=result.verdict.but(doubt) if wrong else result.stored_verdict,
        interval95=spans,
        stderr={name: part[()] for name, part in errors.items()},
        covariance=result.covariance * np.outer(growth, growth),
        error_bars=f"{told}; {result.error_bars}",
    )


def require_single_runs(counts: Sequence[int]) -> None:
    """Refuse anything but fits of one run each, the first of them and two sisters at least.

    Args:
        counts: how many runs were fitted together in each.
    """
    if len(counts) <= _FEWEST or any(count != 1 for count in counts):
        raise ValueError(
            f"beside(sisters): fits of {list(counts)} runs, expected one run and at least {_FEWEST} sisters of one run "
            "each"
        )


def _bounds(result: FitResult, parameter: str, index: tuple[int, ...]) -> tuple[float, float]:
    """Of an element; none are known of a result that was read from a file."""
    domain = result.free.get(parameter, Real())
    low, high = (
        np.broadcast_to(bound, np.shape(result.stderr[parameter]))[index] for bound in (domain.low, domain.high)
    )
    return float(low), float(high)


def _half_width(x: NDArray, variance: NDArray) -> float:
    """Half the interval about x[0] that holds what all have in common; estimates and variances (n + 1,)."""
    n = x.size - 1
    deviation = np.sqrt(variance[0] + _scatter(x, variance, chdtri(n, _NODES)))

    def excess(half: float) -> float:
        return float(_WEIGHTS @ (2 * ndtr(half / deviation) - 1)) - _LEVEL

    widest = root_scalar(excess, bracket=(0.0, 10 * deviation.max())).root
    return widest * _own_quantile(n) / float(stdtrit(n, (1 + _LEVEL) / 2))


def _moments(x: NDArray, variance: NDArray) -> float:
    """tau^2 at which Q is what it is in the mean."""
    return float(_scatter(x, variance, np.array([x.size - 1.0]))[0])


def _scatter(x: NDArray, variance: NDArray, levels: NDArray) -> NDArray:
    """tau^2 at which Q takes each of these values (k,), by bisection of its logarithm; 0 where Q never does."""

    def above(between: NDArray) -> NDArray:
        weight = 1.0 / (variance + between[:, None])
        mean = weight @ x / weight.sum(axis=1)
        return np.sum(weight * (x - mean[:, None]) ** 2, axis=1) > levels

    # Q <= sum (x - mean)^2 / tau^2.
    high = np.log(np.sum((x - x.mean()) ** 2) / levels + np.finfo(float).tiny)
    low = np.minimum(high, np.log(variance.min())) - 20.0
    for _ in range(50):
        middle = (low + high) / 2
        larger = above(np.exp(middle))
        low, high = np.where(larger, middle, low), np.where(larger, high, middle)
    return np.where(above(np.zeros(levels.size)), np.exp(high), 0.0)


@cache
def _own_quantile(n: int) -> float:
    """c of the module's text, for n sisters."""
    u = np.sqrt(betaincinv(0.5, (n - 1) / 2, _NODES))

    def excess(c: float) -> float:
        ends = c * np.sqrt(n + 1)
        return float(_WEIGHTS @ (stdtr(n, ends - n * u) - stdtr(n, -ends - n * u))) - _LEVEL

    return float(root_scalar(excess, bracket=(0.0, 20.0)).root)
