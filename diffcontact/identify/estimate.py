"""The estimate at the end of a fit, with its error bars, and draws about it: what verdicts and designs start from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.noise import autocorrelation
from diffcontact.identify.objective import Objective
from diffcontact.identify.observations import Problem
from diffcontact.identify.parameters import Domain
from diffcontact.identify.verdict.reasons import Verdict
from diffcontact.report.content import INTERVAL, sampled_table, within

# The r-hat of chains that agree.
_MIXED = 1.01
# Percentiles 2.5 and 97.5 of fewer independent draws are off by a fifth of a standard deviation and more.
_ENOUGH = 100
# More divergences than the jumps of a contact problem cost.
_ROUGH = 0.01


@dataclass(frozen=True, eq=False)
class Profile:
    """The profile of one element.

    Attributes:
        name: of the element.
        interval95: (2,) where the profile leaves the 95 % region; infinite, or the bound, where it does not.
        values: (m,) of the element, sorted.
        rise: (m,) 2 (c(x) - c) / s^2 there, in squared standard errors.
    """

    name: str
    interval95: NDArray
    values: NDArray
    rise: NDArray


@dataclass(frozen=True)
class FreedTerm:
    """A term of the model that was held fixed, and set free as the residuals asked for it."""

    name: str  # of the element
    held: float  # where it was held, the mean of its prior
    sigma: float  # one standard deviation of its prior
    chi2: float  # per degree of freedom, while it was held


@dataclass(frozen=True, eq=False)
class Estimate:
    """The estimate, its error bars, and reasons to doubt it; host data (numpy) throughout.

    Attributes:
        params: all parameters, the free ones at their estimates.
        stderr: one standard error per free parameter, in its shape; infinite where the data cannot determine it; at a
            bound that of the curvature without the bound.
        interval95: 95 % intervals (..., 2) in the parameter's shape, cut at its bounds.
        quantile: half widths of the intervals in standard errors, before the cut.
        covariance: (P, P) in the order of `names`. Parameters at a bound or without a finite error have only their
            diagonal entry; the others are what they are with those held.
        covariance_plain: (P, P) the textbook form s^2 (J^T J)^-1 that takes the samples as independent, in the same
            manner.
        names: (P,) one name per element: `e`, `mass[0]`.
        cost: half the sum of the squared normalised residuals.
        dof: measured samples minus free parameters.
        converged: whether the optimiser met its tolerance with a finite simulation.
        message: how it ended, and what else to know.
        error_bars: which error bars these are, and why.
        form: the same in a word: "none", "stated" (noise), "within" (runs), "between" (runs).
        unidentifiable: directions in parameter space that the data cannot see, each a dict name -> weight.
        at_bound: names of the elements whose estimate is at a bound.
        residuals: per problem, (values - simulated) / noise (n, k), NaN where missing.
        trajectories: per problem, the trajectory at the estimate.
        start_costs: the waterfall: final cost from every start, sorted; the best one is polished.
        iterations: Jacobians that the best start took.
        effective_samples: how many independent samples the correlated ones are worth.
        hints: the unidentifiable directions in words, and what would resolve them.
        prediction_errors: per run, root mean square of its residuals when what the runs share is estimated from the
            other runs only; empty where there are no others.
        profiles: of the elements whose interval is that of their profile, because a bound is near.
        gripped: names of coefficients of friction that are only bounded from below, because every contact grips.
        elsewhere: other minima that explain the data as well, each a dict name -> value of what lies there outside the
            interval of the estimate's own minimum; `interval95` holds them all.
        lower_elsewhere: where intervals have met a lower cost once more than the fit would go on from; else empty.
        noise_factors: per run, (k,) estimated noise over stated noise; empty where the stated noise was taken.
        freed: the terms that were set free since residuals asked for them, in that order.
        objective: what was minimised, started at the estimate: the runs with their noise as estimated, the free
            parameters, the loss and the priors. `profile`, `bootstrap` and `posterior` go on from it. None in a result
            that was read from a file or unpickled: it consists of functions, which neither holds.
    """

    params: dict[str, Any]
    stderr: dict[str, Any]
    interval95: dict[str, Any]
    quantile: dict[str, Any]
    covariance: NDArray
    covariance_plain: NDArray
    names: tuple[str, ...]
    cost: float
    dof: int
    converged: bool
    message: str
    error_bars: str
    unidentifiable: list[dict[str, float]]
    at_bound: tuple[str, ...]
    residuals: tuple[NDArray, ...] = field(repr=False)
    trajectories: tuple[Any, ...] = field(repr=False)
    form: str = ""
    start_costs: tuple[float, ...] = ()
    iterations: int = 0
    hints: tuple[str, ...] = ()
    effective_samples: float = 0.0
    prediction_errors: tuple[float, ...] = ()
    noise_factors: tuple[NDArray, ...] = ()
    profiles: tuple[Profile, ...] = ()
    gripped: tuple[str, ...] = ()
    elsewhere: tuple[dict[str, float], ...] = ()
    lower_elsewhere: str = ""
    freed: tuple[FreedTerm, ...] = ()
    objective: Objective | None = field(default=None, repr=False)

    @property
    def scope(self) -> str:
        """What the intervals are called: those of fewer runs than can be compared hold within these runs."""
        return within(len(self.residuals)) if self.form == "within" else INTERVAL

    @property
    def profiled(self) -> tuple[str, ...]:
        """Names of the elements whose interval is that of their profile."""
        return tuple(along.name for along in self.profiles)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The runs, as `fit` was given them; empty in a result that was read from a file."""
        return () if self.objective is None else self.objective.joint.problems

    @property
    def free(self) -> dict[str, Domain]:
        """The domains of the free parameters; empty in a result that was read from a file."""
        return {} if self.objective is None else dict(self.objective.parameters.free)

    @property
    def estimate(self) -> NDArray:
        """(P,) the estimates of the free parameters, in the order of `names`."""
        return np.concatenate([np.ravel(np.asarray(self.params[name], float)) for name in self.stderr])

    @property
    def errors(self) -> NDArray:
        """(P,) standard errors, in the order of `names`; infinite where the data cannot determine a parameter."""
        return np.concatenate([np.ravel(np.asarray(part, float)) for part in self.stderr.values()])

    @property
    def bounded(self) -> NDArray:
        """(P,) which estimates are at a bound."""
        return np.isin(self.names, self.at_bound)

    @property
    def known(self) -> NDArray:
        """(P,) which have a finite error."""
        return np.isfinite(np.diag(self.covariance))

    @property
    def determined(self) -> NDArray:
        """(P,) which have a finite error and are not at a bound."""
        return self.known & ~self.bounded

    @property
    def quantiles(self) -> NDArray:
        """(P,) half widths of the intervals in standard errors, before the cut, in the order of `names`."""
        return np.concatenate([np.ravel(part) for part in self.quantile.values()])

    @property
    def ends(self) -> NDArray:
        """(P, 2) of the intervals, in the order of `names`."""
        return np.concatenate([np.reshape(interval, (-1, 2)) for interval in self.interval95.values()])

    @property
    def samples(self) -> int:
        """How many numbers were measured."""
        return sum(int(np.sum(~np.isnan(r))) for r in self.residuals)

    @property
    def chi2_per_dof(self) -> float:
        """2 cost / dof: 1 where the noise is as large as stated; NaN without spare samples."""
        return 2 * self.cost / self.dof if self.dof > 0 else float("nan")

    @property
    def aic(self) -> float:
        """Akaike's criterion n log(2 cost / m) + 2 (P + 1), the noise's scale being unknown; n effective samples of m.

        Differences between models of the same data count; see `compare`.
        """
        return self._criterion(2.0)

    @property
    def bic(self) -> float:
        """Schwarz's criterion n log(2 cost / m) + (P + 1) log n, n effective samples of m."""
        return self._criterion(np.log(max(self.effective_samples, 1.0)))

    def _criterion(self, price: float) -> float:
        if not (self.cost > 0 and self.samples):
            return float("-inf")
        return float(self.effective_samples * np.log(2 * self.cost / self.samples) + price * (len(self.names) + 1))

    def autocorrelation(self, lags: int = 1) -> tuple[NDArray, ...]:
        """Per run, correlations (lags + 1, k) of residuals so many samples apart; 1 at lag 0, NaN where none remain."""
        return tuple(autocorrelation(r, lags) for r in self.residuals)

    def place(self, name: str) -> tuple[str, tuple[int, ...]]:
        """The parameter of an element of `names`, and its index there; parameters may be called like elements."""
        j = self.names.index(name)
        for parameter, value in self.stderr.items():
            if j < np.size(value):
                return parameter, tuple(int(i) for i in np.unravel_index(j, np.shape(value)))
            j -= np.size(value)
        raise ValueError(f"FitResult.place(name): {name!r} is in no parameter")

    def rows(self) -> list[dict[str, Any]]:
        """Per element: name, value, stderr, stderr_plain, interval95 and note; what is infinite is None."""
        plain = np.sqrt(np.diag(self.covariance_plain))
        holders = {
            "not seen by the data": {name for along in self.unidentifiable for name in along} - set(self.gripped),
            "gripped: bounded from below": self.gripped,
            "at its bound": self.at_bound,
            "interval by its profile": self.profiled,
            "may be elsewhere, too": {name for other in self.elsewhere for name in other},
        }
        return [
            {
                "name": name,
                "value": float(value),
                "stderr": finite_or_none(error),
                "stderr_plain": finite_or_none(textbook),
                "interval95": [finite_or_none(end) for end in ends],
                "note": ", ".join(note for note, names in holders.items() if name in names),
            }
            for name, value, error, textbook, ends in zip(
                self.names, self.estimate, self.errors, plain, self.ends, strict=True
            )
        ]


def resumed(result: Estimate, caller: str, all_seen: bool = False) -> Objective:
    """The objective of a result, for the `caller` that goes on from its estimate.

    Raises:
        ValueError: one line that says why there is nothing to go on from; of `all_seen`: directions that the data
            cannot see, too.
    """
    if not isinstance(result, Estimate):
        raise ValueError(f"{caller}(result): {type(result).__name__}, expected the FitResult that fit returned")
    if result.objective is None:
        raise ValueError(
            f"{caller}(result): read from a file or unpickled, so without the functions that it was fitted with; "
            "expected what fit returned (fit again, starting at result.params)"
        )
    if not result.converged:
        raise ValueError(f"{caller}(result): not converged, {result.message}; expected an estimate to go on from")
    if all_seen and result.unidentifiable:
        raise ValueError(f"{caller}(result): {'; '.join(result.hints)}; expected priors or fewer free parameters")
    return result.objective


def finite_or_none(value: float) -> float | None:
    """Replace what is not finite by None, as strict JSON has it."""
    return float(value) if np.isfinite(value) else None


def missed(result: Estimate, values: NDArray) -> tuple[dict[str, float], ...]:
    """Other minima of the fit with a value further out than any of some estimates or draws (..., P)."""
    flat = values.reshape(-1, values.shape[-1])
    low, high = (dict(zip(result.names, end, strict=True)) for end in (flat.min(axis=0), flat.max(axis=0)))
    return tuple(
        other for other in result.elsewhere if any(not low[name] <= x <= high[name] for name, x in other.items())
    )


def not_near(what: str, minima: Sequence[Mapping[str, float]]) -> str:
    """That a fit knows minima which no replica or draw is near, by the values there."""
    told = "; ".join(", ".join(f"{name} = {value:.4g}" for name, value in one.items()) for one in minima)
    return f"the fit knows other minima that no {what} is near: {told}; these intervals do not hold them, the fit's do"


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws from the posterior.

    Attributes:
        names: (P,) as in the fit.
        draws: (chains, n, P) of the parameters.
        r_hat: (P,) scatter of all draws over that within the halves of the chains: 1 where these agree, below 1.01 if
            they may be trusted.
        effective: (P,) how many independent draws they are worth.
        divergences: how many draws met a place too rough for the sampler. A few per thousand are what the jumps of a
            contact problem cost; many mean that the draws avoid some of what is possible.
        verdict: whether the model explains the data, by the fit; where it does not, no draw is of any use. None if
            nobody knows.
        scope: what the intervals are called: what differs between runs is never in them.
        missed: other minima of the fit that no draw is near, each a dict name -> value as in `FitResult.elsewhere`.
        failure: what is wrong with the simulation at some of the draws; empty if nothing.
    """

    names: tuple[str, ...]
    draws: NDArray
    r_hat: NDArray
    effective: NDArray
    divergences: int
    verdict: Verdict | None = None
    scope: str = within(1)
    missed: tuple[dict[str, float], ...] = ()
    failure: str = ""

    @property
    def mean(self) -> NDArray:
        """(P,) means of the draws."""
        return self.draws.mean(axis=(0, 1))

    @property
    def stderr(self) -> NDArray:
        """(P,) standard deviations of the draws."""
        return self.draws.std(axis=(0, 1), ddof=1)

    @property
    def interval95(self) -> NDArray:
        """(P, 2) percentiles 2.5 and 97.5 of the draws."""
        return np.percentile(self.draws, [2.5, 97.5], axis=(0, 1)).T

    @property
    def mixed(self) -> bool:
        """Whether the chains agree on every parameter, with draws enough for percentiles."""
        return bool(np.all((self.r_hat < _MIXED) & (self.effective >= _ENOUGH)))

    @property
    def doubts(self) -> tuple[str, ...]:
        """What speaks against the draws, in sentences; the verdict speaks of the model."""
        chains, n, _ = self.draws.shape
        found = []
        if not self.mixed:
            found.append("the chains do not agree yet, or are too short: more warmup and draws")
        if self.missed:
            found.append(not_near("draw", self.missed))
        if self.divergences > _ROUGH * chains * n:
            found.append("many draws diverged: what is possible may reach further; compare with `profile`")
        if self.failure:
            found.append(f"the simulation cannot be trusted at some of the draws: {self.failure}")
        return tuple(found)

    def __str__(self) -> str:
        notes = [f"r-hat {r:.3f}, {n:.0f} effective draws" for r, n in zip(self.r_hat, self.effective, strict=True)]
        chains, n, _ = self.draws.shape
        below = f"{chains} chain{'s' if chains > 1 else ''} of {n} draws, {self.divergences} divergences"
        return sampled_table(self, self.mean, notes, [below])
