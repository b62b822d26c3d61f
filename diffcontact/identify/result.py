"""What a fit returns, and how it is printed."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.files import write_atomically
from diffcontact.identify.portable import decode, encode
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.observations import Problem
from diffcontact.identify.problem.parameters import Domain
from diffcontact.identify.table import text_table
from diffcontact.simulate import Trajectory


@dataclass(frozen=True, eq=False)
class FitResult:
    """The estimate, its error bars, and everything that should make one doubt it. Host data (numpy) throughout.

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
        noise_factors: per run, (k,) estimated noise over stated noise; empty where the stated noise was taken.
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
    start_costs: tuple[float, ...] = ()
    iterations: int = 0
    hints: tuple[str, ...] = ()
    effective_samples: float = 0.0
    prediction_errors: tuple[float, ...] = ()
    noise_factors: tuple[NDArray, ...] = ()
    objective: Objective | None = field(default=None, repr=False)

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
        return tuple(_autocorrelation(r, lags) for r in self.residuals)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "objective": None}

    def __copy__(self) -> FitResult:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> FitResult:
        return replace(self, **{name: deepcopy(getattr(self, name), memo) for name in _FIELDS})

    def rows(self) -> list[dict[str, Any]]:
        """Per element: name, value, stderr, stderr_plain, interval95 and note; what is infinite is None."""
        values = self.estimate
        errors, intervals = (
            np.concatenate([np.reshape(part[name], (-1, *tail)) for name in self.stderr])
            for part, tail in ((self.stderr, ()), (self.interval95, (2,)))
        )
        unidentifiable = {name for direction in self.unidentifiable for name in direction}
        plain = np.sqrt(np.diag(self.covariance_plain))
        rows = []
        for j, name in enumerate(self.names):
            note = "not seen by the data" if name in unidentifiable else "at its bound" if name in self.at_bound else ""
            rows.append(
                {
                    "name": name,
                    "value": float(values[j]),
                    "stderr": _finite(errors[j]),
                    "stderr_plain": _finite(plain[j]),
                    "interval95": [_finite(bound) for bound in intervals[j]],
                    "note": note,
                }
            )
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for `json.dumps`: no infinities, no arrays; `from_dict` takes it back."""
        return {
            "converged": self.converged,
            "message": self.message,
            "cost": self.cost,
            "dof": self.dof,
            "error_bars": self.error_bars,
            "parameters": {row.pop("name"): row for row in self.rows()},
            "unidentifiable": self.unidentifiable,
            "hints": list(self.hints),
            "at_bound": list(self.at_bound),
            "start_costs": list(self.start_costs),
            "iterations": self.iterations,
            "chi2_per_dof": _finite(self.chi2_per_dof),
            "aic": _finite(self.aic),
            "bic": _finite(self.bic),
            "effective_samples": self.effective_samples,
            "residual_autocorrelation": [[_finite(c) for c in run[1]] for run in self.autocorrelation()],
            "prediction_errors": list(self.prediction_errors),
            "noise_factors": [factors.tolist() for factors in self.noise_factors],
            "fit_result": {name: encode(getattr(self, name)) for name in _FIELDS},
        }

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> FitResult:
        """The result that `to_dict` wrote, also out of a document with further keys (`result.json`); in SI units.

        Raises:
            ValueError: a document that holds no result.
        """
        stored = document.get("fit_result")
        if not isinstance(stored, Mapping) or set(stored) != set(_FIELDS):
            raise ValueError("FitResult.from_dict: the document has no complete 'fit_result'")
        values = {name: decode(stored[name]) for name in _FIELDS}
        values["trajectories"] = tuple(Trajectory(**trajectory) for trajectory in values["trajectories"])
        for name in ("names", "at_bound", "start_costs", "residuals", "hints", "prediction_errors", "noise_factors"):
            values[name] = tuple(values[name])
        return cls(**values)

    def save(self, path: str | Path) -> None:
        """Write the result as JSON."""
        write_atomically(Path(path), json.dumps(self.to_dict(), indent=1, allow_nan=False) + "\n")

    @classmethod
    def load(cls, path: str | Path) -> FitResult:
        """Read what `save`, or the command line, wrote.

        Raises:
            OSError: the file cannot be read.
            ValueError: it holds no result.
        """
        try:
            document = json.loads(Path(path).read_text(encoding="utf-8"))
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: not a JSON document: {error}") from None
        if not isinstance(document, dict):
            raise ValueError(f"{path}: expected a JSON object, got {type(document).__name__}")
        return cls.from_dict(document)

    def __str__(self) -> str:
        lines = [text_table(self.rows())]
        lines.append(f"cost {self.cost:.6g}, {self.dof} degrees of freedom; {self.message}")
        lines.append(
            f"chi^2 per degree of freedom {self.chi2_per_dof:.3g}, AIC {self.aic:.6g}, BIC {self.bic:.6g} with "
            f"{self.effective_samples:.0f} effective samples"
        )
        lines.append(f"error bars {self.error_bars}")
        for direction in self.unidentifiable:
            along = ", ".join(f"{name}: {weight:.4g}" for name, weight in direction.items())
            lines.append(f"the data cannot see a change along {{{along}}}")
        lines += self.hints
        return "\n".join(lines)


# What a file can hold.
_FIELDS = tuple(entry.name for entry in fields(FitResult) if entry.name != "objective")


def resumed(result: FitResult, caller: str, all_seen: bool = False) -> Objective:
    """The objective of a result, to go on from its estimate.

    Args:
        result: what `fit` returned.
        caller: the name of the function that goes on, for messages.
        all_seen: refuse a result with directions that the data cannot see.

    Raises:
        ValueError: one line that says why there is nothing to go on from.
    """
    if not isinstance(result, FitResult):
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


def _autocorrelation(r: NDArray, lags: int) -> NDArray:
    power = np.nanmean(r**2, axis=0)
    with warnings.catch_warnings():
        # A lag without any pair is NaN, and says so by being NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.stack([np.nanmean(r[lag:] * r[: len(r) - lag], axis=0) / power for lag in range(lags + 1)])


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
