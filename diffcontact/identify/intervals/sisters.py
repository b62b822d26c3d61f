r"""What one run cannot know: how much another would differ. Sister runs that were fitted before tell.

With their estimates x_g and standard errors s_g within each run, the scatter between runs is found by moments, and a
run's interval has the variance

    stderr^2 + tau^2,    tau^2 = max(Q - (n - 1), 0) / (sum w - sum w^2 / sum w)
    w_g = 1 / s_g^2,     Q = sum_g w_g (x_g - mean)^2,    mean = sum_g w_g x_g / sum_g w_g

and Student's t with the degrees of freedom that an uncertain tau^2 leaves,

    (n - 1) (stderr^2 + tau^2)^2 / (tau^2 + mean(s_g^2) / 2)^2

Satterthwaite's with half of what the errors within the runs add to that uncertainty: with the whole, intervals of runs
that do not differ hold the truth in 100 % of all cases beside three sisters. So normal numbers are held in 91 to 98.5 %
beside three, in 92 to 98 % beside four and more; through whole fits (`experiments/run_to_run.py`) in 94 to 99.5 % where
runs do not differ, and in 89.5 to 96 % where they differ by four times their own errors.

Source: R. DerSimonian, N. Laird, Controlled Clinical Trials 7 (1986) 177.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from diffcontact.identify.result import FitResult

_FEWEST = 2


def beside(result: FitResult, sisters: Sequence[FitResult], names: Sequence[str]) -> FitResult:
    """The result of one run with intervals that hold what differs between runs, as its sister runs tell it.

    Parameters that all have under the same name are widened. Those of which the sisters know nothing, like an initial
    state that every run has to itself, keep their interval within the run: leave them out of `names`.

    Args:
        result: what `fit` returned for one run.
        sisters: fits of other single runs of the same kind, at least two, also read from files.
        names: the elements that runs of one kind have in common.

    Raises:
        ValueError: too few sister runs, or joint fits; an element that some sister does not have.

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
        >>> bool(0.4 < high - low < 0.7)  # the runs differ by 0.09
        True
    """
    require_single_runs([len(fitted.residuals) for fitted in (result, *sisters)])
    values, spans = result.estimate, {name: np.array(part, float) for name, part in result.interval95.items()}
    growth = np.ones(len(result.names))
    for name in names:
        for fitted in (result, *sisters):
            if name not in fitted.names:
                raise ValueError(f"beside(names): no element {name!r} in a fit of {', '.join(fitted.names)}")
        j, at = result.names.index(name), result.place(name)
        within = result.covariance[j, j]
        known = [
            (fitted.estimate[k], fitted.covariance[k, k]) for fitted in sisters for k in [fitted.names.index(name)]
        ]
        x, variance = (np.array(part) for part in zip(*known, strict=True))
        if not np.all(np.isfinite([within, *variance])):
            continue
        between, freedom = _scatter(x, variance, within)
        growth[j] = np.sqrt(1.0 + between / within)
        half = t.ppf(0.975, freedom) * np.sqrt(within + between)
        low, high = spans[at[0]][at[1]]
        # What a bound has cut stays cut: only what lies within the interval of one run is known to be possible.
        spans[at[0]][at[1]] = min(low, values[j] - half), max(high, values[j] + half)
    errors = {name: np.array(part, float) for name, part in result.stderr.items()}
    for name, factor in zip(result.names, growth, strict=True):
        parameter, index = result.place(name)
        errors[parameter][index] *= factor
    return replace(
        result,
        interval95=spans,
        stderr={name: part[()] for name, part in errors.items()},
        covariance=result.covariance * np.outer(growth, growth),
        error_bars=f"beside {len(sisters)} sister runs, whose scatter {', '.join(names)} hold; {result.error_bars}",
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


def _scatter(x: NDArray, variance: NDArray, within: float) -> tuple[float, float]:
    """tau^2 of estimates (n,) with variances (n,), and the degrees of freedom of it with the variance within a run."""
    weight = 1.0 / variance
    excess = float(np.sum(weight * (x - weight @ x / weight.sum()) ** 2)) - (x.size - 1)
    between = max(excess, 0.0) / (weight.sum() - np.sum(weight**2) / weight.sum())
    uncertain = between + variance.mean() / 2
    return between, max((within + between) ** 2 / uncertain**2 * (x.size - 1), (x.size - 1) / 2)
