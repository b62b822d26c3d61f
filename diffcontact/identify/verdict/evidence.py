"""What a verdict rests on: every run at the estimate, with a model of its noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.error_bars import LEAST_SLOPE, RunResidual, noise_seen, slope_in_noise
from diffcontact.identify.estimate import Estimate
from diffcontact.identify.noise import FEWEST, RunNoise, effective_count, roughness, run_noise
from diffcontact.identify.problem.impacts import struck
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.rounding import are_rounding
from diffcontact.identify.problem.run import Run
from diffcontact.identify.verdict.fixed_terms import FixedTerm, fixed_terms, impacts, resistance
from diffcontact.system import System

# Above this cosine two terms are one.
_ALIKE = 0.9

Units = Mapping[str, tuple[str, float]]


@dataclass(frozen=True, eq=False)
class RunEvidence:
    """One run at the estimate.

    Attributes:
        residual: residuals (n, k) and their Jacobian by what the data determine.
        times: (n,) of the samples.
        struck: (n,) samples with an impact in the interval before or after them.
        tracks: how many of the channels were measured sample by sample; times of impacts that were heard are the rest.
        own: (P_i,) True for the parameters that no other run sees.
        rounding: whether the residuals are no larger than the rounding of what was measured.
    """

    residual: RunResidual
    times: NDArray
    struck: NDArray
    tracks: int
    own: NDArray
    rounding: bool = False

    @cached_property
    def noise(self) -> RunNoise:
        """What the residuals look like as noise."""
        return run_noise(self.residual.r, self.residual.J)

    @cached_property
    def impacts(self) -> list[tuple[int, int]]:
        """The samples before and behind every impact; of those that follow each other closely those about them all."""
        edges = np.flatnonzero(np.diff(np.concatenate([[False], self.struck, [False]]).astype(int)))
        return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]

    @property
    def present(self) -> NDArray:
        """(n, k) which samples were measured."""
        return ~np.isnan(self.residual.r)

    @cached_property
    def worth(self) -> NDArray:
        """(k,) how many independent samples each sample of a channel is worth, at most 1."""
        n = self.residual.r.shape[0]
        return np.minimum([effective_count(model, n) / n for model in self.noise.models], 1.0)


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that the checks look at.

    Attributes:
        result: the fit.
        objective: what it minimised, started at the estimate.
        theta: (P,) the estimate.
        runs: at the estimate.
        kept: (P,) parameters that the data determine and that are not at a bound.
        units: name of a parameter -> its unit and what one of that is in the fit's own units, where they differ.
        labels: what the runs are called; empty: by their numbers.
    """

    result: Estimate
    objective: Objective
    theta: NDArray
    runs: tuple[RunEvidence, ...]
    kept: NDArray
    units: Units
    labels: Sequence[str] = ()

    @classmethod
    def of(cls, result: Estimate, objective: Objective, units: Units, labels: Sequence[str] = ()) -> Evidence:
        """The evidence of a result that still has its objective."""
        theta, names = objective.parameters.start, result.names
        unseen = {name for direction in result.unidentifiable for name in direction}
        kept = np.array([name not in unseen and name not in result.at_bound for name in names])
        at = objective.joint.linearise(theta)
        residuals = [
            RunResidual(
                np.where(np.isfinite(a.r), a.r, np.nan), np.where(np.isfinite(a.J), a.J, 0.0), run.index
            ).restricted(kept)
            for run, a in zip(objective.joint.runs, at, strict=True)
        ]
        seen = np.zeros(int(kept.sum()), int)
        for residual in residuals:
            seen[residual.index] += 1
        runs = []
        for run, residual, trajectory in zip(objective.joint.runs, residuals, result.trajectories, strict=True):
            times = np.asarray(run.samples.times, float)[: run.length]
            touched = _struck(trajectory) if isinstance(run.model.system, System) else np.zeros(run.length, bool)
            tracks = run.present.shape[1] - bool(run.model.impacts)
            rounding = are_rounding(np.where(run.present, residual.r, 0.0), run.rounding)
            runs.append(RunEvidence(residual, times, touched, tracks, seen[residual.index] == 1, rounding))
        return cls(result, objective, theta, tuple(runs), kept, units, labels)

    @property
    def samples(self) -> int:
        """How many numbers were measured."""
        return sum(int(run.present.sum()) for run in self.runs)

    @property
    def effective(self) -> float:
        """How many independent samples the measured ones are worth."""
        return float(sum(np.sum(run.present * run.worth) for run in self.runs))

    @property
    def exact(self) -> bool:
        """Whether nothing is left but rounding: data that were simulated, without noise."""
        return all(run.rounding for run in self.runs)

    @cached_property
    def spread(self) -> float:
        """The standard deviation of most residuals, in units of the noise of the fit."""
        return noise_seen(np.concatenate([run.residual.r.ravel() for run in self.runs]))

    @cached_property
    def within_noise(self) -> bool:
        """Whether a robust loss takes most of the noise for outliers, so that its intervals rest on a few samples."""
        loss = self.objective.loss
        return loss.robust and self.spread > 0 and slope_in_noise(loss, self.spread) < LEAST_SLOPE

    @property
    def misfit(self) -> float:
        """chi^2 per degree of freedom against the stated noise."""
        return self.result.chi2_per_dof

    @cached_property
    def rough(self) -> tuple[float, int]:
        """How rough the residuals are from sample to sample, in squares of the stated noise; of how many samples.

        1 of none where no channel of a run is long enough.
        """
        tracks = [channel for run in self.runs for channel in run.residual.r[:, : run.tracks].T]
        counts = np.array([np.isfinite(channel).sum() for channel in tracks])
        long = counts >= FEWEST
        if not long.any():
            return 1.0, 0
        squares = [roughness(channel) ** 2 for channel, enough in zip(tracks, long, strict=True) if enough]
        return float(np.average(squares, weights=counts[long])), int(counts[long].sum())

    @cached_property
    def seen(self) -> list[NDArray]:
        """(n, tracks) of every run, what the model says of its samples, of those that are missing, too."""
        return [
            _seen(run, self.theta, trajectory)
            for run, trajectory in zip(self.objective.joint.runs, self.result.trajectories, strict=True)
        ]

    @cached_property
    def fixed_terms(self) -> list[dict[str, FixedTerm]]:
        """Of every run, the numbers that the fit holds fixed and that its samples would see."""
        return [fixed_terms(run, self.theta) for run in self.objective.joint.runs]

    @cached_property
    def resistance(self) -> dict[int, NDArray]:
        """What a resistance that the model has not would add to the samples (n, k) of every run that would see it.

        In noise, for one that takes all of the speed. Empty where the model has a number that does the same.
        """
        columns = (resistance(run, self.theta) for run in self.objective.joint.runs)
        found = {number: column for number, column in enumerate(columns) if column is not None}
        for name in set().union(*self.fixed_terms):
            known = {number: run[name].column[..., 0] for number, run in enumerate(self.fixed_terms) if name in run}
            if _cosine(found, known) > _ALIKE:
                return {}
        return found

    @cached_property
    def impacts(self) -> list[dict[int, NDArray]]:
        """Per impact of all runs, what it would add to the samples (n, k) of its run if it changed the velocity by
        twice as much."""
        return [
            {number: column}
            for number, (run, seen) in enumerate(zip(self.objective.joint.runs, self.runs, strict=True))
            for column in impacts(run, self.theta, self.result.trajectories[number], seen.impacts)
        ]

    def run(self, number: int) -> str:
        """What a run is called."""
        return self.labels[number] if self.labels else f"run {number}"

    def shown(self, name: str, value: float, stderr: float | None = None) -> str:
        """A value of a parameter, perhaps with its error, in the unit in which people read it."""
        unit, factor = self.units.get(name.partition("[")[0], ("", 1.0))
        error = "" if stderr is None else f" +- {stderr / factor:.2g}"
        return f"{value / factor:.4g}{error}{f' {unit}' if unit not in ('', '1') else ''}"

    def names(self, run: RunEvidence) -> list[str]:
        """The parameters of a run's Jacobian."""
        everything = np.array(self.result.names)[self.kept]
        return [str(name) for name in everything[run.residual.index]]


def _cosine(one: Mapping[int, NDArray], other: Mapping[int, NDArray]) -> float:
    """Of the angle between the lines along which two things change the samples of all runs."""
    dot = sum(float(np.nansum(one[g] * other[g])) for g in one.keys() & other.keys())
    squares = [sum(float(np.nansum(d**2)) for d in parts.values()) for parts in (one, other)]
    return abs(dot) / max(np.sqrt(squares[0] * squares[1]), np.finfo(float).tiny)


def _seen(run: Run, theta: NDArray, trajectory) -> NDArray:
    return run.observed(theta, trajectory)


def _struck(trajectory) -> NDArray:
    """(n,) samples at either end of an interval in which a contact struck."""
    interval = struck(trajectory.impulse)
    return np.append(interval, False) | np.append(False, interval)
