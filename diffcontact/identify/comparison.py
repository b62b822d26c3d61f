"""Which of two models do the data support, and which law of impact?"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.progress import stage
from diffcontact.identify.estimate import finite_or_none, resumed
from diffcontact.identify.impact_law import (
    SpeedTest,
    free_contacts,
    restitution_by,
    speed_test,
    speeds_of,
    under_law,
)
from diffcontact.identify.objective import Objective, Progress
from diffcontact.identify.parameters import Interval, Real
from diffcontact.identify.result import FitResult, estimate
from diffcontact.identify.search import search
from diffcontact.identify.verdict.reasons import LEVELS
from diffcontact.numerics.least_squares import TINY
from diffcontact.systems.laws import LAWS, named

# Burnham and Anderson's reading of a difference in AIC; the same number is Kass and Raftery's for BIC.
_WORTH_NOTICE = 2.0


@dataclass(frozen=True)
class Comparison:
    """Two models of the same data; negative differences speak for the first.

    Attributes:
        chi2_per_dof: of each.
        aic, bic: differences, first minus second, with the same number of effective samples for both. A size below 2
            decides nothing, one above 10 clearly.
        prediction: of each, root mean square residual of runs that the shared parameters had not seen; NaN where that
            cannot be told.
    """

    chi2_per_dof: tuple[float, float]
    aic: float
    bic: float
    prediction: tuple[float, float]


def compare(first: FitResult, second: FitResult) -> Comparison:
    """Compare two fits of the same data.

    AIC and BIC count correlated samples as so many independent ones as the better fit's residuals are worth; the size
    of the noise is taken as unknown. The error on unseen runs (`FitResult.prediction_errors`) needs no such count:
    where there are several runs it is the one to look at first.

    Args:
        first, second: the fits.

    Raises:
        ValueError: something else than two fits; fits of different data, or, as far as is known, by another loss or
            with another noise stated: their costs are in different units.

    Source: K. P. Burnham, D. R. Anderson, Model Selection and Multimodel Inference (2002), section 2.6; R. E. Kass,
    A. E. Raftery, J. American Statistical Association 90 (1995) 773.
    """
    for name, fitted in (("first", first), ("second", second)):
        if not isinstance(fitted, FitResult):
            raise ValueError(f"compare({name}): expected a FitResult, what fit returns, got {type(fitted).__name__}")
    if [r.shape for r in first.residuals] != [r.shape for r in second.residuals] or any(
        np.any(np.isnan(a) != np.isnan(b)) for a, b in zip(first.residuals, second.residuals, strict=True)
    ):
        raise ValueError("compare: the two fits are of different data; expected the same samples of the same runs")
    _require_same_units(first, second)
    n = min(first, second, key=lambda result: result.cost).effective_samples
    misfit = n * (np.log(max(first.cost, TINY) / max(second.cost, TINY)) + _size(first) - _size(second))
    more = len(first.names) - len(second.names)
    aic, bic = float(misfit + 2 * more), float(misfit + np.log(max(n, 1.0)) * more)
    chi2, prediction = (first.chi2_per_dof, second.chi2_per_dof), (_on_unseen_runs(first), _on_unseen_runs(second))
    return Comparison(chi2, aic, bic, prediction)


def _require_same_units(first: FitResult, second: FitResult) -> None:
    if bool(first.noise_factors) != bool(second.noise_factors):
        raise ValueError(
            "compare: one of the fits has estimated its noise; expected noise='estimated' in both or neither"
        )
    if first.objective is None or second.objective is None:
        return
    losses = first.objective.loss, second.objective.loss
    if losses[0] != losses[1]:
        told = " and ".join(f"loss={loss.name!r}, f_scale={loss.scale:g}" for loss in losses)
        raise ValueError(f"compare: fits by {told}, expected the same loss in both")
    for i, (one, other) in enumerate(zip(_stated(first), _stated(second), strict=True)):
        if not np.allclose(one, other, rtol=1e-6, atol=0.0):
            raise ValueError(f"compare: run {i} is fitted with two different sigma, expected the same noise in both")


def _stated(fit: FitResult) -> list[NDArray]:
    """(n, k) of each run, the noise as it was stated."""
    runs = [] if fit.objective is None else fit.objective.joint.runs
    factors = fit.noise_factors or (1.0,) * len(runs)
    return [np.where(run.present, run.sigma / f, 0.0) for run, f in zip(runs, factors, strict=True)]


def _size(fit: FitResult) -> float:
    return float(np.mean(np.log(np.concatenate(fit.noise_factors) ** 2))) if fit.noise_factors else 0.0


def _on_unseen_runs(fit: FitResult) -> float:
    return float(np.sqrt(np.mean(np.square(fit.prediction_errors)))) if fit.prediction_errors else float("nan")


@dataclass(frozen=True)
class LawComparison:
    """Fits of the same data under several laws of impact.

    Attributes:
        given: what the restitution was in the fit that it began with: "constant", or "one per contact".
        results: the fits, that one first, by the name of their law.
        against: every other one compared with it.
        speed: what `speed_test` says about the first fit; None of coefficients that contacts have to themselves.
        best: the law that the data support.
        verdict: in words.
    """

    given: str
    results: Mapping[str, FitResult]
    against: Mapping[str, Comparison]
    speed: SpeedTest | None
    best: str
    verdict: str

    def __str__(self) -> str:
        head = f"{'law of impact':18}{'chi^2/dof':>12}{'AIC':>11}{'BIC':>11}{'unseen runs':>13}  parameters"
        rows = [head, "-" * len(head)]
        for name, result in self.results.items():
            one = self.against.get(name)
            aic, bic = (0.0, 0.0) if one is None else (one.aic, one.bic)
            unseen = f"{_on_unseen_runs(result):.4g}" if result.prediction_errors else ""
            rows.append(
                f"{name:18}{result.chi2_per_dof:12.4g}{aic:11.4g}{bic:11.4g}{unseen:>13}  "
                f"{'; '.join(_told(result, name)) or '-'}{'' if result.converged else ' (not converged)'}"
            )
        return "\n".join([*rows, self.verdict])

    def to_dict(self) -> dict[str, Any]:
        """Ready for `json.dumps`; values in SI units, or those of the system."""
        laws = {}
        for name, result in self.results.items():
            entry: dict[str, Any] = {
                "converged": result.converged,
                "cost": result.cost,
                "chi2_per_dof": finite_or_none(result.chi2_per_dof),
                "prediction_errors": list(result.prediction_errors),
                "parameters": {
                    row["name"]: {key: row[key] for key in ("value", "stderr", "interval95", "note")}
                    for row in result.rows()
                },
            }
            if name in self.against:
                entry |= {"aic": finite_or_none(self.against[name].aic), "bic": finite_or_none(self.against[name].bic)}
                if any(one.choice for one in LAWS[name].coefficients):
                    entry["reference_speed"] = float(np.asarray(result.params["reference_speed"]))
            laws[name] = entry
        return {"verdict": self.verdict, "best": self.best, "given": self.given, "fits": laws}


def compare_laws(
    result: FitResult, laws: Collection[str] = tuple(LAWS), *, progress: Progress | None = None
) -> LawComparison | None:
    """Fit the data under each law of `systems.laws` and compare the fits.

    Each fit begins at the estimate of the result.

    The laws take the place of the constant restitution, in the contacts whose restitution is free. Where these have
    coefficients of their own (each bounce of a film, say), a law, or a constant, that all of them share is compared
    with those.

    A law is supported where AIC and BIC prefer it, and where runs are compared also between runs: `speed_test` must
    find that restitution depends on the speed, unseen runs must be predicted no worse, and the interval of the law's
    own parameter must not hold the value at which it is a constant. Runs that scatter support no law.

    Args:
        result: a `FitResult` that converged.
        laws: which of `systems.laws.LAWS`, by name.
        progress: called as `progress(iteration, cost)` at every Jacobian.

    Returns:
        A `LawComparison`; printing it gives the table. None where nothing can be compared: no restitution is free, it
        is a law of the speed already, or no contact was struck.

    Raises:
        ValueError: a result without functions, or that did not converge; no such law.
    """
    tried = [named(name, "compare_laws") for name in laws]
    objective = resumed(result, "compare_laws")
    masks = [free_contacts(run, objective.parameters.start) for run in objective.joint.runs]
    alike = _reference(objective, masks)
    if alike is None:
        return None
    reference, held = alike
    listing = under_law(objective, masks, None, {}, {})
    speeds = np.concatenate(speeds_of(listing, listing.joint.linearise(listing.parameters.start), masks))
    if not speeds.size:
        return None
    given = "constant" if reference is None else "one per contact"
    results = {given: result}
    for law in tried:
        name = law.name
        if name == "constant" and reference is None:
            continue
        start = {one.name: one.start(speeds) for one in law.coefficients}
        sought = [one for one in law.coefficients if not one.choice]
        free = {one.name: Interval(one.low, np.inf) if np.isfinite(one.low) else Real() for one in sought}
        under = under_law(objective, masks, name, start, free, reference=reference, held=held)
        under.progress = progress
        with stage(f"law {name}"):
            found = search(under, "lm", 1, 0, "single")
        results[name] = _by_its_square(replace(estimate(under, found), noise_factors=result.noise_factors), name)
    against = {name: compare(other, result) for name, other in results.items() if other is not result}
    # Of contacts with coefficients of their own there is no slope to be seen besides.
    speed = speed_test(result) if reference is None else None
    size = len(result.names)
    supported = {
        name: one
        for name, one in against.items()
        if _supported(name, one, results[name], speed, len(results[name].names) < size)
    }
    worth = {name: (one.aic + one.bic) / 2 for name, one in supported.items()}
    best = min(worth, key=lambda name: worth[name], default=given)
    alike = [name for name in worth if name != best and worth[name] - worth[best] < _WORTH_NOTICE]
    return LawComparison(given, results, against, speed, best, _law_verdict(given, best, alike, results, speeds))


def _by_its_square(result: FitResult, law: str) -> FitResult:
    """The result with the intervals of coefficients x that the law knows by their squares alone: x^2 +- 2 x k sigma_x.

    k is the quantile; where the interval reaches zero x has no standard error.
    """
    stderr, interval95 = dict(result.stderr), dict(result.interval95)
    for name in (one.name for one in LAWS[law].coefficients if one.squared):
        x = float(result.params[name])
        half = 2 * x * float(result.quantile[name]) * float(stderr[name]) if x > 0 else np.inf
        interval95[name] = np.sqrt(np.maximum([x**2 - half, x**2 + half], 0.0))
        if interval95[name][0] == 0:
            stderr[name] = np.inf
    return replace(result, stderr=stderr, interval95=interval95)


def _reference(objective: Objective, masks: list[NDArray]) -> tuple[int | None, frozenset[str]] | None:
    """Whose coefficient is everybody's, None where they are the same, and the parameters of the others alone.

    None in place of both where no contact has a free constant, or where those of several are entries of one parameter.
    """
    struck = [(run, mask) for run, mask in zip(objective.joint.runs, masks, strict=True) if np.any(mask)]
    if not struck:
        return None
    references, held = set(), set()
    for run, mask in struck:
        by = restitution_by(run.model, objective.parameters.start[run.index], run.fixed)
        slopes = np.atleast_2d(np.asarray(by))[np.atleast_1d(mask)]
        if np.all(slopes == slopes[0]):
            references.add(None)
            continue
        references.add(int(np.flatnonzero(mask)[0]))
        sizes = np.cumsum([0, *(block.size for block in run.model.view)])
        for block, begin, end in zip(run.model.view, sizes[:-1], sizes[1:], strict=True):
            own = slopes[:, begin:end]
            if np.any(own[0] != 0) and np.any(own[1:] != own[0]) and block.size > 1:
                return None
            if np.any(own[1:] != 0) and not np.any(own[0] != 0):
                held.add(block.name)
    return (references.pop(), frozenset(held)) if len(references) == 1 else None


def _supported(name: str, one: Comparison, result: FitResult, speed: SpeedTest | None, simpler: bool) -> bool:
    # What has fewer parameters need not be better, only no worse.
    margin = -_WORTH_NOTICE if simpler else _WORTH_NOTICE
    if not result.converged or one.aic > -margin or one.bic > -margin:
        return False
    if name == "constant":
        return True
    if speed is not None and speed.probability > LEVELS["law of impact"]:
        return False
    if all(np.isfinite(one.prediction)) and one.prediction[0] > one.prediction[1]:
        return False
    # A constant is the law at zero.
    return not any(
        low <= 0 <= high
        for low, high in (result.interval95[c.name] for c in LAWS[name].coefficients if not c.choice and c.speed < 1)
    )


def _told(result: FitResult, name: str) -> list[str]:
    """The parameters of a law in words."""
    own = [c for c in LAWS[name].coefficients if c.name in result.interval95] if name in LAWS else []
    told = []
    for c in own:
        low, high = result.interval95[c.name]
        if c.squared and low <= 0:
            told.append(f"no {c.name} seen" + (f", {high:.3g} at most" if np.isfinite(high) else ""))
        else:
            told.append(f"{c.name} {float(result.params[c.name]):.3g} [{low:.3g}, {high:.3g}]")
    if name in LAWS and any(c.choice for c in LAWS[name].coefficients):
        told.append(f"v0 {float(result.params['reference_speed']):.3g}")
    return told


def _law_verdict(given: str, best: str, alike: list[str], results: Mapping[str, FitResult], speeds: NDArray) -> str:
    before, after = results[given].chi2_per_dof, results[best].chi2_per_dof
    if best == given == "constant":
        return "a constant restitution is supported: no law of the speed does better, beyond what runs scatter"
    if best == given:
        return "the contacts' own restitutions are supported: no law that they share does as well"
    if best == "constant":
        return f"one constant restitution does for all contacts: chi^2/dof {before:.3g} -> {after:.3g}"
    # From the slowest to the fastest impact, where restitution would be 1/2 at speed v0 or 0.
    ends: Any = np.array([np.min(speeds), np.max(speeds)])
    params = {**results[best].params, "restitution": 0.5}
    low, high = np.asarray(LAWS[best].function(params.__getitem__, ends))
    way = "falls" if high < low else "rises"
    rejected = "constant e is rejected" if given == "constant" else "one e per contact is not needed"
    tied = f"; the data do not tell it from {' and '.join(map(repr, alike))}" if alike else ""
    return (
        f"e {way} with the speed of approach, best by the law {best!r}, {LAWS[best].formula}: {rejected}, "
        f"chi^2/dof {before:.3g} -> {after:.3g}{tied}"
    )
