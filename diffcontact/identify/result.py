"""What a fit returns, and how it is printed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import MISSING, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.drawing import Draw
from diffcontact.host.files import write_atomically
from diffcontact.identify.covariance.autoregression import autocorrelation
from diffcontact.identify.covariance.error_bars import WITHIN
from diffcontact.identify.intervals.profiled import Profile
from diffcontact.identify.portable import checksum, decode, encode
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.observations import Problem
from diffcontact.identify.problem.parameters import Domain
from diffcontact.identify.reporting import Labels, fit_report
from diffcontact.identify.table import INTERVAL, text_table, within
from diffcontact.identify.verdict.evidence import Units
from diffcontact.identify.verdict.judge import judge
from diffcontact.identify.verdict.verdict import Reason, Verdict
from diffcontact.report import framed, page
from diffcontact.report.figures import figure
from diffcontact.simulate import Trajectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        profiles: of the elements whose interval is that of their profile, because a bound is near.
        gripped: names of coefficients of friction that are only bounded from below, because every contact grips.
        elsewhere: other minima that explain the data as well, each a dict name -> value of what lies there outside the
            interval of the estimate's own minimum; `interval95` holds them all.
        lower_elsewhere: where intervals have met a lower cost once more than the fit would go on from; else empty.
        noise_factors: per run, (k,) estimated noise over stated noise; empty where the stated noise was taken.
        recordings: per run, a digest of what was measured; empty in files of older versions.
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
    profiles: tuple[Profile, ...] = ()
    gripped: tuple[str, ...] = ()
    elsewhere: tuple[dict[str, float], ...] = ()
    lower_elsewhere: str = ""
    recordings: tuple[str, ...] = ()
    objective: Objective | None = field(default=None, repr=False)
    stored_verdict: Verdict | None = field(default=None, repr=False)

    @cached_property
    def verdict(self) -> Verdict:
        """Whether the model explains the data, and what speaks against it; read it before any interval.

        It is passed when it is asked for first, by two simulations per parameter, and written with the result.
        """
        if self.stored_verdict is not None:
            return self.stored_verdict
        if self.objective is None:
            return Verdict.of([Reason("read from a file that holds no verdict: fit again for one")])
        return judge(self, self.objective)

    def judged(self, units: Units, labels: Sequence[str] = ()) -> FitResult:
        """The same result with its verdict passed, values in units in which people read them.

        Args:
            units: name of a parameter -> its unit and what one of that is in the fit's own units.
            labels: what the runs are called; empty: by their numbers.
        """
        return (
            self if self.objective is None else replace(self, stored_verdict=judge(self, self.objective, units, labels))
        )

    @property
    def scope(self) -> str:
        """What the intervals are called: those of fewer runs than can be compared hold within these runs."""
        if not self.error_bars.startswith(WITHIN):
            return INTERVAL
        return within(len(self.residuals))

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

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "objective": None, "stored_verdict": self.verdict}

    def __copy__(self) -> FitResult:
        return replace(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> FitResult:
        return replace(self, **{name: deepcopy(getattr(self, name), memo) for name in _FIELDS})

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
        values = self.estimate
        errors, intervals = (
            np.concatenate([np.reshape(part[name], (-1, *tail)) for name in self.stderr])
            for part, tail in ((self.stderr, ()), (self.interval95, (2,)))
        )
        unidentifiable = {name for direction in self.unidentifiable for name in direction}
        ambiguous = {name for other in self.elsewhere for name in other}
        plain = np.sqrt(np.diag(self.covariance_plain))
        rows = []
        for j, name in enumerate(self.names):
            notes = [
                text
                for text, holders in (
                    ("not seen by the data", unidentifiable - set(self.gripped)),
                    ("gripped: bounded from below", self.gripped),
                    ("at its bound", self.at_bound),
                    ("interval by its profile", self.profiled),
                    ("may be elsewhere, too", ambiguous),
                )
                if name in holders
            ]
            rows.append(
                {
                    "name": name,
                    "value": float(values[j]),
                    "stderr": _finite(errors[j]),
                    "stderr_plain": _finite(plain[j]),
                    "interval95": [_finite(bound) for bound in intervals[j]],
                    "note": ", ".join(notes),
                }
            )
        return rows

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
            "chi2_per_dof": _finite(self.chi2_per_dof),
            "aic": _finite(self.aic),
            "bic": _finite(self.bic),
            "effective_samples": self.effective_samples,
            "residual_autocorrelation": [[_finite(c) for c in run[1]] for run in self.autocorrelation()],
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
        write_atomically(Path(path), page(fit_report(self, Labels(title), draw, profiles)))

    def plot(self) -> Figure:
        """Run by run: what was measured, the fitted motion with a tick at each impact, and below it the residuals.

        Of a result that was read from a file, the fitted motion alone.

        Returns:
            A figure of matplotlib of which pyplot knows nothing: `savefig` writes it, a notebook shows it.

        Raises:
            ImportError: matplotlib is absent.
        """
        return figure(fit_report(self), "FitResult.plot")

    def _repr_html_(self) -> str:
        """What a notebook shows: the page."""
        return framed(page(fit_report(self)))

    def __str__(self) -> str:
        lines = [f"{self.verdict}\n", text_table(self.rows(), self.scope, self.verdict.taken)]
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
_TUPLES |= {"profiles", "gripped", "elsewhere", "recordings"}


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


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
