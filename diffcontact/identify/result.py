"""What a fit returns, and how it is printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.table import text_table


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
        start_costs: final cost from every start.
        iterations: Jacobians that the best start took.
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

    @property
    def blurred(self) -> tuple[str, ...]:
        """Names that take part in a direction that the data cannot see."""
        return tuple(name for name in self.names if any(name in direction for direction in self.unidentifiable))

    def rows(self) -> list[dict[str, Any]]:
        """Per element: name, value, stderr, stderr_plain, interval95 and note; what is infinite is None."""
        values, errors, intervals = (
            np.concatenate([np.reshape(part[name], (-1, *tail)) for name in self.stderr])
            for part, tail in ((self.params, ()), (self.stderr, ()), (self.interval95, (2,)))
        )
        plain = np.sqrt(np.diag(self.covariance_plain))
        rows = []
        for j, name in enumerate(self.names):
            note = "not seen by the data" if name in self.blurred else "at its bound" if name in self.at_bound else ""
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
        """Everything but residuals and trajectories, ready for `json.dumps`: no infinities, no arrays."""
        return {
            "converged": self.converged,
            "message": self.message,
            "cost": self.cost,
            "dof": self.dof,
            "error_bars": self.error_bars,
            "parameters": {row.pop("name"): row for row in self.rows()},
            "unidentifiable": self.unidentifiable,
            "at_bound": list(self.at_bound),
            "start_costs": list(self.start_costs),
            "iterations": self.iterations,
        }

    def __str__(self) -> str:
        lines = [text_table(self.rows())]
        lines.append(f"cost {self.cost:.6g}, {self.dof} degrees of freedom; {self.message}")
        lines.append(f"error bars {self.error_bars}")
        for direction in self.unidentifiable:
            along = ", ".join(f"{name}: {weight:.4g}" for name, weight in direction.items())
            lines.append(f"the data cannot see a change along {{{along}}}")
        return "\n".join(lines)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
