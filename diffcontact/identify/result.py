"""What a fit returns, and how it is printed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from diffcontact.drawing import Draw
from diffcontact.host.files import write_atomically
from diffcontact.identify.estimate import Estimate, FreedTerm, Profile, finite_or_none, resumed
from diffcontact.identify.reporting import Labels, fit_report
from diffcontact.identify.table import text_table
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.texts import Reason, Units
from diffcontact.identify.verdict.verdict import Verdict, judge
from diffcontact.report import framed, page
from diffcontact.report.figures import figure
from diffcontact.simulate import Trajectory

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
        """Whether the model explains the data, and what speaks against it; read it before any interval.

        It is passed when it is asked for first, by two simulations per parameter, and written with the result.
        """
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
        write_atomically(Path(path), page(fit_report(self, self.verdict, Labels(title), draw, profiles)))

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
        """What a notebook shows: the page."""
        return framed(page(fit_report(self, self.verdict)))

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
        rows = [
            {
                "value": row["value"],
                "stderr": float("inf") if row["stderr"] is None else row["stderr"],
                "low": float("-inf") if row["interval95"][0] is None else row["interval95"][0],
                "high": float("inf") if row["interval95"][1] is None else row["interval95"][1],
                "note": row["note"],
            }
            for row in self.rows()
        ]
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
_TUPLES = {"names", "at_bound", "start_costs", "residuals", "hints", "prediction_errors", "noise_factors"}
_TUPLES |= {"profiles", "gripped", "elsewhere", "recordings", "freed"}

# What of a document is sealed: what a result is made of again.
_SEALED = ("fit_result", "verdict")
_ARRAY = {"shape", "dtype", "data"}


def encode(value: Any) -> Any:
    """Arrays as their shape, dtype and flat data; what is not finite as its name; dataclasses as dictionaries.

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
        return _number(float(value))
    array = np.asarray(value)
    data = [_number(x) for x in array.ravel().tolist()]
    return {"shape": list(array.shape), "dtype": str(array.dtype), "data": data}


def decode(value: Any) -> Any:
    """What `encode` was given; tuples come back as lists, dataclasses as dictionaries, jax arrays as numpy ones.

    Example:
        >>> decode(encode({"a": np.array([[1.0, np.inf]]), "b": [None, 2]}))
        {'a': array([[ 1., inf]]), 'b': [None, 2]}
    """
    if isinstance(value, Mapping):
        if set(value) == _ARRAY:
            return np.array([float(x) if isinstance(x, str) else x for x in value["data"]], value["dtype"]).reshape(
                value["shape"]
            )
        return {name: decode(part) for name, part in value.items()}
    if isinstance(value, list):
        return [decode(part) for part in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def _number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def checksum(document: Mapping[str, Any]) -> str:
    """SHA-256 of what a result is made of again, the same before it was written and after it was read.

    Example:
        >>> written = {"verdict": {"explains": "yes"}, "fit_result": {"cost": 1.5, "names": ("e",)}, "title": "a fit"}
        >>> checksum(written) == checksum(json.loads(json.dumps(written)) | {"title": "another"})
        True
    """
    parts = {name: document.get(name) for name in _SEALED}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
