"""What a fit returns: from the end of a descent to the estimate with its error bars, as it is printed and stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult
from scipy.special import ndtri

from diffcontact.drawing import Draw
from diffcontact.host.files import write_atomically
from diffcontact.identify.annotations import annotated_report
from diffcontact.identify.error_bars import ErrorBars, beside_bounds, error_bars, prediction_errors, under_loss
from diffcontact.identify.estimate import Estimate, FreedTerm, Profile, finite_or_none, resumed
from diffcontact.identify.identifiable import NullSpace, half_widths, hints, in_values, least_friction, null_space, role
from diffcontact.identify.linearised import LinearisedFit, LinearisedRun
from diffcontact.identify.objective import Objective
from diffcontact.identify.parameters import FreeParameters
from diffcontact.identify.reporting import Labels, fit_report
from diffcontact.identify.residual import is_rounding
from diffcontact.identify.search import MAX_EVALUATIONS, Outcome
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.reasons import Reason, Units, Verdict
from diffcontact.identify.verdict.verdict import judge
from diffcontact.numerics.least_squares import inverse
from diffcontact.report import Report, framed, page
from diffcontact.report.content import text_table
from diffcontact.report.figures import figure
from diffcontact.simulate import Trajectory
from diffcontact.status import Status

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame


@dataclass(frozen=True, eq=False)
class FitResult(Estimate):
    """The result of a fit: an `Estimate` with its verdict, page, figure and file.

    All numbers are attributes of `identify.Estimate`: params, stderr, interval95, covariance, cost, residuals and more.

    Attributes:
        stored_verdict: the verdict, where it was passed before or read from a file.
    """

    stored_verdict: Verdict | None = field(default=None, repr=False)

    @cached_property
    def evidence(self) -> Evidence:
        """What the verdict rests on: the fit to first order, and what its residuals hold of anything held fixed.

        Raises:
            ValueError: a result that was read from a file, or did not converge.
        """
        return Evidence.of(self, self.objective or resumed(self, "FitResult.evidence"))

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the model explains the data, and what speaks against it; read it before any interval."""
        if self.stored_verdict is not None:
            return self.stored_verdict
        if self.objective is None:
            return Verdict.of([Reason("read from a file that holds no verdict: fit again for one")])
        return judge(self.evidence)

    def judged(self, units: Units, labels: Sequence[str] = (), phrases: Sequence[tuple[str, str]] = ()) -> FitResult:
        """The same result with its verdict passed, values in units in which people read them.

        Args:
            units: name of a parameter -> its unit and what one of that is in the fit's own units.
            labels: what the runs are called; empty: by their numbers.
            phrases: (pattern, text) pairs, what the reasons say in place of an argument of `fit`.
        """
        if self.objective is None:
            return self
        return replace(self, stored_verdict=judge(self.evidence, units, labels, phrases))

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name != "evidence"}
        return {**kept, "objective": None, "stored_verdict": self.verdict}

    def __copy__(self) -> FitResult:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> FitResult:
        return replace(self, **{name: deepcopy(getattr(self, name), memo) for name in _FIELDS})

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for `json.dumps`: no infinities, no arrays; `from_dict` takes it back."""
        document = {
            "converged": self.converged,
            "message": self.message,
            "verdict": self.verdict.to_dict(),
            "cost": self.cost,
            "dof": self.dof,
            "error_bars": self.error_bars,
            "intervals": self.scope,
            "parameters": {row.pop("name"): row for row in self.rows()},
            "unidentifiable": self.unidentifiable,
            "hints": list(self.hints),
            "at_bound": list(self.at_bound),
            "start_costs": list(self.start_costs),
            "iterations": self.iterations,
            "chi2_per_dof": finite_or_none(self.chi2_per_dof),
            "aic": finite_or_none(self.aic),
            "bic": finite_or_none(self.bic),
            "effective_samples": self.effective_samples,
            "residual_autocorrelation": [[finite_or_none(c) for c in run[1]] for run in self.autocorrelation()],
            "prediction_errors": list(self.prediction_errors),
            "noise_factors": [factors.tolist() for factors in self.noise_factors],
            "fit_result": {name: encode(getattr(self, name)) for name in _FIELDS},
        }
        return document | {"checksum": checksum(document)}

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> FitResult:
        """The result that `to_dict` wrote, also out of a document with further keys (`result.json`); in SI units.

        Raises:
            ValueError: a document that holds no result, or a damaged one.
        """
        stored = document.get("fit_result")
        if not isinstance(stored, Mapping) or not set(_REQUIRED) <= set(stored):
            raise ValueError("FitResult.from_dict: the document has no complete 'fit_result'")
        if document.get("checksum") not in (None, checksum(document)):
            raise ValueError("FitResult.from_dict: damaged, 'fit_result' or 'verdict' is not what was written")
        values = {name: decode(part) for name, part in stored.items() if name in _FIELDS}
        values["trajectories"] = tuple(Trajectory(**trajectory) for trajectory in values["trajectories"])
        values["profiles"] = [Profile(**along) for along in values.get("profiles", ())]
        values["freed"] = [FreedTerm(**term) for term in values.get("freed", ())]
        for name in _TUPLES & values.keys():
            values[name] = tuple(values[name])
        return cls(**values, stored_verdict=Verdict.from_dict(told) if (told := document.get("verdict")) else None)

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
        except ValueError as error:
            raise ValueError(f"{path}: not a JSON document: {error}") from None
        if not isinstance(document, dict):
            raise ValueError(f"{path}: expected a JSON object, got {type(document).__name__}")
        try:
            return cls.from_dict(document)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path}: {error if isinstance(error, ValueError) else f'damaged ({error})'}") from None

    def report(
        self, path: str | Path, *, draw: Draw | None = None, title: str = "A fit", profiles: Sequence[Profile] = ()
    ) -> None:
        """Write the page of this fit: measured and fitted motion that plays, charts, and the numbers beside them.

        One HTML file that needs no network. The picture is that of the system: a `System` of one's own may have a
        `draw`; without one each coordinate is a bead on a wire.

        Args:
            path: of the file.
            draw: `draw(t, q, params) -> shapes`, in place of the system's own picture; see `diffcontact.drawing`.
            title: of the page.
            profiles: of `identify.profile`, to be shown beside those that the fit computed.

        Raises:
            ValueError: a `draw` that returns no shapes, or not always the same ones.
            OSError: the file cannot be written.
        """
        write_atomically(Path(path), page(self._annotated(Labels(title), draw, profiles)))

    def _annotated(self, *options: Any) -> Report:
        evidence = self.evidence if self.converged and self.objective is not None else None
        return annotated_report(self, self.verdict, evidence, *options)

    def plot(self) -> Figure:
        """Run by run: what was measured, the fitted motion with a tick at each impact, and below it the residuals.

        Of a result that was read from a file, the fitted motion alone.

        Returns:
            A figure of matplotlib of which pyplot knows nothing: `savefig` writes it, a notebook shows it.

        Raises:
            ImportError: matplotlib is absent.
        """
        return figure(fit_report(self, self.verdict), "FitResult.plot")

    def _repr_html_(self) -> str:
        return framed(page(self._annotated()))

    def table(self) -> str:
        """The estimates as aligned text: value, standard error, interval and note, with what they rest on."""
        return text_table(self.rows(), self.scope, self.verdict.taken)

    def to_frame(self) -> DataFrame:
        """The estimates as a DataFrame of pandas: a row for each element, by its name.

        Columns: value, stderr, low, high (of the 95 % interval), note. What is not bounded is infinite.

        Raises:
            ImportError: pandas is absent.
        """
        try:
            from pandas import DataFrame
        except ImportError:
            raise ImportError("FitResult.to_frame: pandas is absent; pip install 'diffcontact[pandas]'") from None
        rows, unknown = [], {"stderr": np.inf, "low": -np.inf, "high": np.inf}
        for row in self.rows():
            low, high = row["interval95"]
            parts = {"value": row["value"], "stderr": row["stderr"], "low": low, "high": high, "note": row["note"]}
            rows.append({name: unknown[name] if part is None else part for name, part in parts.items()})
        return DataFrame(rows, index=list(self.names))

    def __str__(self) -> str:
        lines = [f"{self.verdict}\n", self.table()]
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
_FIELDS = tuple(entry.name for entry in fields(FitResult) if entry.name not in ("objective", "stored_verdict"))
# What it holds at least; what came later has a default.
_REQUIRED = tuple(entry.name for entry in fields(FitResult) if entry.default is MISSING)
_TUPLES = {entry.name for entry in fields(FitResult) if str(entry.type).startswith("tuple")}


def encode(value: Any) -> Any:
    """Encode arrays as shape, dtype and data, what is not finite as its name, dataclasses as dictionaries.

    Example:
        >>> encode({"a": np.array([1.0, np.nan])})
        {'a': {'shape': [2], 'dtype': 'float64', 'data': [1.0, 'nan']}}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: encode(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): encode(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [encode(part) for part in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if np.isfinite(value) else str(float(value))
    array = np.asarray(value)
    return {"shape": list(array.shape), "dtype": str(array.dtype), "data": encode(array.ravel().tolist())}


def decode(value: Any) -> Any:
    """What `encode` was given; tuples come back as lists, dataclasses as dictionaries, jax arrays as numpy ones."""
    if isinstance(value, Mapping):
        if set(value) == {"shape", "dtype", "data"}:
            return np.array(decode(value["data"]), value["dtype"]).reshape(value["shape"])
        return {name: decode(part) for name, part in value.items()}
    if isinstance(value, list):
        return [decode(part) for part in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def checksum(document: Mapping[str, Any]) -> str:
    """SHA-256 of what a result is made of again, the same before it was written and after it was read."""
    parts = {name: document.get(name) for name in ("fit_result", "verdict")}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def estimate(objective: Objective, search: Outcome) -> FitResult:
    """The result at the end of a search: the estimate, how well it is known, and what should make one doubt it."""
    end, parameters, joint = search.end, objective.parameters, objective.joint
    theta, slopes = end.x, objective.parameters.slopes(end.x)
    at = joint.linearise(theta)
    trajectories = joint.trajectories(theta, at)
    at, jacobian = _seen_from_inside(objective, theta, at, end.jac, trajectories)
    null = null_space(jacobian, parameters.names, objective.eps)
    runs, prior = under_loss(objective.first_order(at), objective.loss), objective.priors.information(theta)
    bars, predicted = _bars(runs, prior, ~null.redundant)
    bound = _at_bound(end, parameters, np.sqrt(np.diag(bars.covariance))) & ~null.unidentifiable
    if bound.any():
        # What is at a bound keeps its own error; the errors of all others are with it held.
        held, free = bars, ~null.redundant & ~bound
        bars = replace(held, covariance=0.0 * held.covariance, plain=0.0 * held.plain)
        if free.any():
            bars, predicted = _bars(runs, prior, free)
        for matrix, before in ((bars.covariance, held.covariance), (bars.plain, held.plain)):
            matrix[bound, bound] = np.diag(before)[bound]
        bars.quantile[bound] = held.quantile[bound]
    for matrix in (bars.covariance, bars.plain):
        matrix[null.unidentifiable, :] = matrix[:, null.unidentifiable] = 0.0
        matrix[null.unidentifiable, null.unidentifiable] = np.inf
    finite = not any(np.any(np.isinf(a.r)) or np.any(~np.isfinite(a.J)) for a in at)
    errors = np.sqrt(np.diag(bars.covariance))
    down, up = half_widths(objective, theta, bars.quantile * errors)
    if bound.any():
        reach = _beside_bounds(held, jacobian, np.where(bound, end.grad, 0.0), bound, bars.quantile, ~null.redundant)
        down, up = np.where(bound, reach, np.maximum((down, up), reach))
    ends = np.maximum(theta - down, parameters.low), np.minimum(theta + up, parameters.high)
    at_bound = tuple(parameters.names[j] for j in np.flatnonzero(bound))
    return FitResult(
        params=parameters.merge(theta),
        stderr=parameters.split(slopes * errors),
        interval95=parameters.split(np.stack([*map(parameters.values, ends)], axis=-1)),
        quantile=parameters.split(bars.quantile),
        covariance=bars.covariance * np.outer(slopes, slopes),
        covariance_plain=bars.plain * np.outer(slopes, slopes),
        names=parameters.names,
        cost=float(end.cost),
        dof=joint.samples + objective.priors.count - joint.size,
        converged=bool(end.status > 0 and finite),
        message=_message(search, trajectories, finite, at_bound, null),
        error_bars=bars.explanation,
        form=bars.form,
        unidentifiable=[in_values(objective, direction, theta) for direction in null.directions],
        at_bound=at_bound,
        residuals=tuple(a.r for a in at),
        trajectories=trajectories,
        start_costs=search.costs,
        iterations=int(end.njev),
        hints=hints(objective, theta, null.directions, trajectories),
        effective_samples=bars.effective,
        prediction_errors=predicted,
        objective=objective.started_at(theta),
    )


def _bars(runs: Sequence[LinearisedRun], prior: NDArray, keep: NDArray) -> tuple[ErrorBars, tuple[float, ...]]:
    """Error bars of all P parameters, zero but for those to `keep` (P,), and how well each run is predicted."""
    P, normal = keep.size, float(ndtri(0.975))
    covariance, plain, quantile = np.zeros((P, P)), np.zeros((P, P)), np.full(P, normal)
    if not keep.any():
        told = "none: the data determine no parameter"
        return ErrorBars(covariance, plain, quantile, "none", told, effective=0.0, scatter=np.zeros(P)), ()
    fit = LinearisedFit.of(runs, prior, keep)
    bars = error_bars(fit)
    at = np.ix_(keep, keep)
    covariance[at], plain[at], quantile[keep] = bars.covariance, bars.plain, bars.quantile
    return replace(bars, covariance=covariance, plain=plain, quantile=quantile), prediction_errors(fit)


def _beside_bounds(
    free: ErrorBars, J: NDArray, gradient: NDArray, bound: NDArray, quantile: NDArray, keep: NDArray
) -> tuple[NDArray, NDArray]:
    """How far all intervals reach to either side, (P,) each, with what is at a bound free to move inwards.

    Zero for what is not to `keep` (P,), as the data do not determine it.
    """
    inwards, kept = np.where(bound, np.where(gradient >= 0, 1.0, -1.0), 0.0), np.ix_(keep, keep)
    bread = inverse((J.T @ J)[kept], 0.0)
    down, up = np.zeros(keep.size), np.zeros(keep.size)
    down[keep], up[keep] = beside_bounds(free.covariance[kept], bread, gradient[keep], inwards[keep], quantile[keep])
    return down, up


def _seen_from_inside(objective: Objective, theta: NDArray, at: list, jacobian: NDArray, trajectories: tuple):
    """Runs and Jacobian with a secant where a parameter has no effect at the estimate, but has elsewhere in its bounds.

    A restitution of zero has none: bodies that stick stay together for all values near it. Its interval ends somewhere
    nevertheless. A friction with which all contacts grip is left out: all larger ones do the same, and it has a lower
    bound only (`fit.widened`).
    """
    joint, parameters = objective.joint, objective.parameters
    width = parameters.high - parameters.low
    for j in np.flatnonzero((np.linalg.norm(jacobian, axis=0) == 0) & np.isfinite(width)):
        name = parameters.names[j]
        if role(objective, theta, name) == "friction" and least_friction(objective, theta, name, trajectories) > 0:
            continue
        side = 1.0 if theta[j] - parameters.low[j] <= parameters.high[j] - theta[j] else -1.0
        for part, sign in product((0.01, 0.03, 0.1, 0.3), (side, -side)):
            step = sign * part * width[j]
            if not parameters.low[j] <= theta[j] + step <= parameters.high[j]:
                continue
            inside = joint.linearise(theta + step * (np.arange(theta.size) == j))
            secants = []
            for here, there in zip(at, inside, strict=True):
                finite = np.isfinite(here.r) & np.isfinite(there.r)
                secants.append((np.where(finite, there.r, 0.0) - np.where(finite, here.r, 0.0)) / step)
            holders = zip(joint.runs, secants, strict=True)
            length = np.linalg.norm(np.concatenate([secant.ravel() for run, secant in holders if j in run.index]))
            # What has no effect at all, like the mass of a falling body, still moves the residuals by rounding.
            if not is_rounding(length * abs(step), objective.data_norm, objective.eps):
                break
        else:
            continue
        for i, (run, here, secant) in enumerate(zip(joint.runs, at, secants, strict=True)):
            J = here.J.copy()
            J[:, :, run.index == j] = secant[:, :, None]
            at[i] = replace(here, J=J)
        # Orthogonal to the other columns as far as its length is concerned: in rows of its own.
        rows = np.zeros((1, theta.size))
        rows[0, j] = length
        jacobian = np.vstack([jacobian, rows])
    return at, jacobian


def _at_bound(end: OptimizeResult, parameters: FreeParameters, stderr: NDArray) -> NDArray:
    """(P,) True where the cost pushes the parameter against its bound and it has arrived.

    The optimiser stays strictly inside: arrived is within a hundredth of a standard error of the bound, or within 1e-6
    of the distance between the bounds; where that is infinite, of the size of the parameter.
    """
    width, size = parameters.high - parameters.low, np.maximum(np.abs(end.x), np.abs(parameters.start))
    room = np.where(np.isfinite(width), width, np.where(size > 0, size, 1.0))
    near = np.maximum(1e-2 * np.minimum(stderr, np.where(np.isfinite(width), width, np.inf)), 1e-6 * room)
    flat = np.linalg.norm(end.jac, axis=0) == 0
    low = (end.x - parameters.low <= near) & ((end.grad > 0) | flat)
    high = (parameters.high - end.x <= near) & ((end.grad < 0) | flat)
    return low | high | (end.active_mask != 0)


def _message(search: Outcome, trajectories, finite: bool, at_bound: tuple[str, ...], null: NullSpace) -> str:
    reasons = {
        0: f"stopped after {MAX_EVALUATIONS} evaluations without converging; try other starting values or starts=16",
        1: "converged: the gradient vanishes",
        2: "converged: the cost no longer falls",
        3: "converged: the parameters no longer move",
        4: "converged: neither the cost nor the parameters move",
    }
    parts = [reasons[search.end.status]]
    if search.story:
        parts.append(search.story)
    if not finite:
        parts.append("the simulation at the estimate is not finite somewhere, so this is no fit")
    for i, trajectory in enumerate(trajectories):
        status = Status(int(trajectory.status))
        if status:
            parts.append(f"run {i}: {status.message}")
    if at_bound:
        parts.append(f"at a bound: {', '.join(at_bound)}")
    if null.directions:
        involved = ", ".join(dict.fromkeys(name for direction in null.directions for name in direction))
        parts.append(f"the data cannot see {len(null.directions)} direction(s): {involved}")
    return "; ".join(parts)
