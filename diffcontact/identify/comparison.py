"""Which of two models do the data support?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.result import FitResult

# Burnham and Anderson's reading of a difference in AIC; the same numbers are Kass and Raftery's for BIC.
_WORTH_NOTICE, _STRONG = 2.0, 10.0


@dataclass(frozen=True)
class Comparison:
    """Two models of the same data; negative differences speak for the first.

    Attributes:
        labels: what they are called.
        chi2_per_dof: of each.
        aic, bic: differences, first minus second, with the same number of effective samples for both.
        prediction: of each, root mean square residual of runs that the shared parameters had not seen; NaN where that
            cannot be told.
        verdict: in words.
    """

    labels: tuple[str, str]
    chi2_per_dof: tuple[float, float]
    aic: float
    bic: float
    prediction: tuple[float, float]
    verdict: str

    def __str__(self) -> str:
        rows = [f"{'':24}{self.labels[0]:>16}{self.labels[1]:>16}"]
        for title, pair in (
            ("chi^2 per freedom", self.chi2_per_dof),
            ("AIC", (self.aic, 0.0)),
            ("BIC", (self.bic, 0.0)),
            ("error on unseen runs", self.prediction),
        ):
            rows.append(f"{title:24}{pair[0]:16.5g}{pair[1]:16.5g}")
        return "\n".join([*rows, self.verdict])


def compare(first: FitResult, second: FitResult, labels: tuple[str, str] = ("first", "second")) -> Comparison:
    """Compare two fits of the same data.

    AIC and BIC count correlated samples as so many independent ones as the better fit's residuals are worth; the size
    of the noise is taken as unknown. The error on unseen runs (`FitResult.prediction_errors`) needs no such count:
    where there are several runs it is the one to look at first.

    Args:
        first, second: the fits.
        labels: what to call them.

    Raises:
        ValueError: something else than two fits and two labels; fits of different data, or, as far as is known, by
            another loss or with another noise stated: their costs are in different units.

    Source: K. P. Burnham, D. R. Anderson, Model Selection and Multimodel Inference (2002), section 2.6; R. E. Kass,
    A. E. Raftery, J. American Statistical Association 90 (1995) 773.
    """
    for name, fitted in (("first", first), ("second", second)):
        if not isinstance(fitted, FitResult):
            raise ValueError(f"compare({name}): expected a FitResult, what fit returns, got {type(fitted).__name__}")
    if isinstance(labels, str) or not (isinstance(labels, Sequence) and len(labels) == 2):
        raise ValueError(f"compare(labels): {labels!r}, expected two words")
    if [r.shape for r in first.residuals] != [r.shape for r in second.residuals] or any(
        np.any(np.isnan(a) != np.isnan(b)) for a, b in zip(first.residuals, second.residuals, strict=True)
    ):
        raise ValueError("compare: the two fits are of different data; expected the same samples of the same runs")
    _require_same_units(first, second)
    better = min(first, second, key=lambda result: result.cost)
    n, tiny = better.effective_samples, np.finfo(float).tiny
    misfit = n * (np.log(max(first.cost, tiny) / max(second.cost, tiny)) + _size(first) - _size(second))
    more = len(first.names) - len(second.names)
    aic, bic = float(misfit + 2 * more), float(misfit + np.log(max(n, 1.0)) * more)
    prediction = _on_unseen_runs(first), _on_unseen_runs(second)
    return Comparison(
        labels, (first.chi2_per_dof, second.chi2_per_dof), aic, bic, prediction, _verdict(labels, aic, bic, prediction)
    )


def _require_same_units(first: FitResult, second: FitResult) -> None:
    """Refuse costs that count in different units."""
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
            raise ValueError(
                f"compare: run {i} is fitted with two different sigma, expected the same noise in both fits"
            )


def _stated(fit: FitResult) -> list[NDArray]:
    """(n, k) of each run, the noise as it was stated."""
    runs = [] if fit.objective is None else fit.objective.joint.runs
    factors = fit.noise_factors or (1.0,) * len(runs)
    sigmas = [np.asarray(run.samples.sigma)[: run.length] / f for run, f in zip(runs, factors, strict=True)]
    return [np.where(run.present, sigma, 0.0) for run, sigma in zip(runs, sigmas, strict=True)]


def _size(fit: FitResult) -> float:
    """The mean of log factor^2, by which residuals count in units of a noise that the fit has estimated."""
    return float(np.mean(np.log(np.concatenate(fit.noise_factors) ** 2))) if fit.noise_factors else 0.0


def _on_unseen_runs(fit: FitResult) -> float:
    return float(np.sqrt(np.mean(np.square(fit.prediction_errors)))) if fit.prediction_errors else float("nan")


def _verdict(labels: tuple[str, str], aic: float, bic: float, prediction: tuple[float, float]) -> str:
    favoured = labels[0] if aic + bic < 0 else labels[1]
    weight = min(abs(aic), abs(bic)) if aic * bic > 0 else 0.0
    if weight < _WORTH_NOTICE:
        text = "the data do not decide"
    else:
        text = f"the data support {favoured}" + (" strongly" if weight > _STRONG else "")
    if all(np.isfinite(prediction)):
        text += f"; unseen runs are predicted better by {labels[int(prediction[1] < prediction[0])]}"
    return text
