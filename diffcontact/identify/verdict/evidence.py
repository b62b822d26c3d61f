"""Evidence for a verdict: the fit to first order, and how samples would change with what the model holds fixed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.error_bars import LEAST_SLOPE, slope_in_noise
from diffcontact.identify.estimate import Estimate
from diffcontact.identify.linearised import LinearisedFit, LinearisedRun
from diffcontact.identify.noise import FEWEST, PER_FREEDOM_OF_A_MEAN, mean_square_of_steps, robust_size, roughness
from diffcontact.identify.objective import Objective
from diffcontact.identify.residual import KICK, RESISTANCE, Run, kick, linearise
from diffcontact.identify.verdict.reasons import DIFFERENCE, LOOKED_AT, SLIGHT, Amount, Reason
from diffcontact.numerics.least_squares import TINY

# Above this cosine two terms are one.
_ALIKE = 0.9
# Arrays of more are places and shapes rather than terms, and each entry costs a simulation.
_ENTRIES = 4
# Parameters that are told to be moved; beside the one that is moved most, what moves others by less is rounding.
_MOST = 2


class FixedTerm(NamedTuple):
    """A number that is held fixed: at what, and what one more of it would add to the samples, (n, k, 1) in noise."""

    value: float
    column: NDArray


@dataclass(frozen=True, eq=False)
class Evidence:
    """Everything that the checks look at."""

    result: Estimate  # the fit
    objective: Objective  # what it minimised, started at the estimate
    fit: LinearisedFit  # the runs at the estimate, by the parameters that are kept
    kept: NDArray  # (P,) parameters that the data determine and that are not at a bound

    @classmethod
    def of(cls, result: Estimate, objective: Objective) -> Evidence:
        """The evidence of a result that still has its objective."""
        theta = objective.parameters.start
        unseen = {name for direction in result.unidentifiable for name in direction}
        kept = ~result.bounded & ~np.isin(result.names, [*unseen])
        runs = objective.first_order(trajectories=result.trajectories)
        return cls(result, objective, LinearisedFit.of(runs, objective.priors.information(theta), kept), kept)

    @property
    def runs(self) -> tuple[LinearisedRun, ...]:
        return self.fit.runs

    @property
    def theta(self) -> NDArray:
        """(P,) the estimate."""
        return self.objective.parameters.start

    @property
    def names(self) -> list[str]:
        """The parameters that are kept."""
        return [name for name, kept in zip(self.result.names, self.kept, strict=True) if kept]

    @property
    def misfit(self) -> float:
        return self.result.chi2_per_dof

    @property
    def estimated(self) -> bool:
        """Whether the noise is taken from the residuals, as nobody stated it."""
        return bool(self.result.noise_factors)

    @property
    def excess(self) -> float:
        """By how much the sum of squares is larger than that of the noise."""
        return sum(float(np.nansum(run.r**2)) for run in self.runs) - self.result.dof

    @property
    def scale(self) -> float:
        """By how much residuals are larger than stated, in squares, and worth less where they are correlated."""
        return max(self.misfit, 1.0) * self.fit.samples / max(self.fit.effective, 1.0)

    @cached_property
    def rough(self) -> tuple[float, int]:
        """How rough the residuals are from sample to sample, in squares of the stated noise, of how many samples."""
        tracks = [channel for run in self.runs for channel in run.r[:, : run.tracks].T]
        counts = np.array([np.isfinite(channel).sum() for channel in tracks])
        long = counts >= FEWEST
        if not long.any():
            return 1.0, 0
        squares = [roughness(channel) ** 2 for channel, enough in zip(tracks, long, strict=True) if enough]
        return float(np.average(squares, weights=counts[long])), int(counts[long].sum())

    @cached_property
    def rough_mean(self) -> tuple[float, float]:
        """The mean square of steps of the residuals, at least 1, and its degrees of freedom."""
        tracks = [channel for run in self.runs for channel in run.r[:, : run.tracks].T]
        counts = np.array([np.isfinite(channel).sum() for channel in tracks])
        squares = np.array([mean_square_of_steps(channel) for channel in tracks])
        known = np.isfinite(squares)
        if not known.any():
            return 1.0, 0.0
        mean = float(np.average(squares[known], weights=counts[known]))
        return max(mean, 1.0), float(counts[known].sum()) / PER_FREEDOM_OF_A_MEAN

    @cached_property
    def outlier_scale(self) -> float:
        """The scale of a robust loss that takes most of the noise for outliers, in sizes of the noise; else 0."""
        loss, sigma = self.objective.loss, float(robust_size(np.concatenate([run.r.ravel() for run in self.runs])))
        within = loss.robust and sigma > 0 and slope_in_noise(loss, sigma) < LEAST_SLOPE
        return loss.scale / sigma if within else 0.0

    @cached_property
    def slopes(self) -> NDArray:
        """(P,) of the parameters that are kept by theta."""
        return self.objective.parameters.slopes(self.theta)[self.kept]

    @cached_property
    def reach(self) -> NDArray:
        """(P,) half of each interval; infinite where an end is, zero where it is rounding (data without noise)."""
        ends = self.result.ends[self.kept]
        ends = np.where(np.isfinite(ends), ends, np.nan)
        half = np.nan_to_num(np.ptp(ends, axis=1) / 2, nan=np.inf)
        return np.where(half > np.finfo(float).eps * np.max(np.abs(ends), axis=1), half, 0.0)

    @cached_property
    def sought(self) -> NDArray:
        """(P,) which are of interest: no run has them to itself, and no run's start depends on them, if any are so."""
        own = self.objective.parameters.own.copy()
        for run in self.objective.joint.runs:
            own[run.index] |= run.moves_the_start(self.theta)
        sought = ~own[self.kept]
        return sought if sought.any() else np.ones_like(sought)

    def by(self, parts: Mapping[int, NDArray]) -> NDArray:
        """(P,) how far d_g (n, k) of some runs move the parameters."""
        return self.slopes * self.fit.shift(parts)

    def at_most(self, sizes: list[float], where: list[NDArray] | None = None) -> NDArray:
        """(P,) how far something of these sizes moves the parameters at most; see `LinearisedFit.worst_shift`."""
        return np.abs(self.slopes) * self.fit.worst_shift(sizes, where)

    def ratio(self, moved: NDArray) -> NDArray:
        """(P,) how many times as far as its interval each is moved; 0 of what is not sought."""
        compared = self.sought & (self.reach > 0)
        return np.divide(np.abs(moved), self.reach, out=np.zeros_like(self.reach), where=compared)

    def named(self, moved: NDArray) -> tuple[str, ...]:
        """The sought parameters that are moved most beside their intervals, of moves (P,)."""
        ratio = self.ratio(moved)
        return tuple(self.names[j] for j in np.argsort(-ratio)[:_MOST] if ratio[j] > SLIGHT * ratio.max())

    def beyond(self, moved: NDArray) -> tuple[Reason, ...]:
        """The sought parameters that are moved further than their intervals reach, of moves (P,)."""
        ratio = self.ratio(moved)
        found = []
        for j in np.argsort(-ratio)[:_MOST]:
            name, times = self.names[j], float(ratio[j])
            figures = {"name": name, "by": Amount(name, abs(float(moved[j]))), "times": times}
            found += [Reason("moved further" if times < 1.95 else "moved", figures)] if times > 1.0 else []
        return tuple(found)

    @cached_property
    def seen(self) -> list[NDArray]:
        """(n, tracks) of every run, what the model says of its samples, of those that are missing, too."""
        runs = zip(self.objective.joint.runs, self.objective.joint.linearise(self.theta), strict=True)
        return [run.observed(self.theta, at.trajectory) for run, at in runs]

    def way(self, number: int) -> float:
        """How far the samples of a run go from their mean, the root of the sum of squares in noise."""
        run, seen = self.runs[number], self.seen[number]
        tracks = slice(seen.shape[1])
        seen = np.where(run.present[:, tracks] & np.isfinite(seen), seen, np.nan)
        return float(np.sqrt(np.nansum(((seen - np.nanmean(seen, axis=0)) / run.sigma[:, tracks]) ** 2)))

    @cached_property
    def columns(self) -> list[_Columns]:
        """Of every run, how its samples change with what it holds fixed."""
        return [_Columns(run, self.theta) for run in self.objective.joint.runs]

    @cached_property
    def fixed_terms(self) -> list[dict[str, FixedTerm]]:
        """Of every run, the numbers that the fit holds fixed and that its samples would see."""
        return [columns.fixed_terms() for columns in self.columns]

    @cached_property
    def resistance(self) -> dict[int, NDArray]:
        """What a resistance that takes all of the speed would add to the samples (n, k) of each run that would see it.

        In noise; empty where the model has a number that does the same.
        """
        parts = ((number, columns.resistance()) for number, columns in enumerate(self.columns))
        found = {number: column for number, column in parts if column is not None}
        for name in set().union(*self.fixed_terms):
            known = {number: run[name].column[..., 0] for number, run in enumerate(self.fixed_terms) if name in run}
            if _cosine(found, known) > _ALIKE:
                return {}
        return found

    @cached_property
    def impacts(self) -> list[dict[int, NDArray]]:
        """Per impact, what would be added to the samples (n, k) of its run by twice its change of velocity."""
        runs = enumerate(zip(self.columns, self.result.trajectories, self.runs, strict=True))
        return [{g: column} for g, (columns, motion, run) in runs for column in columns.impacts(motion, run.impacts)]


def _cosine(one: Mapping[int, NDArray], other: Mapping[int, NDArray]) -> float:
    dot = sum(float(np.nansum(one[g] * other[g])) for g in one.keys() & other.keys())
    squares = [sum(float(np.nansum(d**2)) for d in parts.values()) for parts in (one, other)]
    return abs(dot) / max(np.sqrt(squares[0] * squares[1]), TINY)


class _Columns:
    """How the samples (n, k) of a run at theta change, in noise, with what it holds fixed; nothing is compiled anew."""

    def __init__(self, run: Run, theta: NDArray):
        self.run, self.z = run, theta[run.index]
        # Between rounding and what is no longer a derivative.
        self.share = float(jnp.finfo(run.samples.times.dtype).eps) ** DIFFERENCE

    def _residuals(self, fixed: dict[str, Any]) -> NDArray:
        model, substeps = self.run.model.counted
        J, r, _ = linearise(model, self.z, fixed, self.run.samples, substeps)
        return self.run.measured(r, J)[0]

    @cached_property
    def _here(self) -> NDArray:
        return self._residuals(self.run.fixed)

    def by(self, name: str, value: Any, step: float) -> NDArray | None:
        """(n, k) the change by a step to this value, over the step; None where there is none or it is not finite."""
        moved = self._residuals(self.run.fixed | {name: value})
        # NaN is a missing sample.
        if np.any(np.isinf(self._here) | np.isinf(moved)):
            return None
        column = np.nan_to_num((self._here - moved) / step, posinf=np.nan, neginf=np.nan)
        return column if np.all(np.isfinite(column)) and np.any(column != 0) else None

    def fixed_terms(self) -> dict[str, FixedTerm]:
        """The numbers that the run holds fixed, of which its samples would see a change."""
        found = dict[str, FixedTerm]()
        for name, value in self.run.fixed.items():
            number = hasattr(value, "at") and jnp.issubdtype(value.dtype, jnp.floating) and value.size <= _ENTRIES
            if name in (RESISTANCE, KICK) or not number:
                continue
            for entry in np.ndindex(np.shape(value)):
                if len(found) == LOOKED_AT:
                    return found
                step = (abs(float(value[entry])) or 1.0) * float(jnp.finfo(value.dtype).eps) ** DIFFERENCE
                moved = np.array(value)
                moved[entry] += step
                if (column := self.by(name, moved, step)) is not None:
                    found[name + "".join(f"[{i}]" for i in entry)] = FixedTerm(float(value[entry]), column[..., None])
        return found

    def resistance(self) -> NDArray | None:
        """By what takes all of the speed, to first order, until the run's end; None where no sample would see it."""
        rate, times = self.run.fixed[RESISTANCE], np.asarray(self.run.samples.times, float)[: self.run.length]
        step = np.asarray(self.share / (times[-1] - times[0]), rate.dtype)
        return self.by(RESISTANCE, np.asarray(rate) + step, self.share)

    def impacts(self, trajectory: Any, struck: list[tuple[int, int]]) -> list[NDArray]:
        """Per impact, by twice the change of velocity in it alone, as a kick behind it, if any sample sees it."""
        t, u = (np.asarray(array, float)[: self.run.length] for array in (trajectory.t, trajectory.u))
        found, dtype = list[NDArray](), self.run.samples.times.dtype
        for before, behind in struck[:LOOKED_AT]:
            if behind + 2 >= self.run.length:
                continue
            # What forces did meanwhile is no impact's.
            first = before - 1 if before else behind
            slope = (u[first + 1] - u[first]) / (t[first + 1] - t[first])
            change = u[behind] - u[before] - (t[behind] - t[before]) * slope
            moment, width = t[behind + 1], t[behind + 2] - t[behind + 1]
            column = self.by(KICK, kick(moment, width, (self.share * change).astype(dtype)), self.share)
            if column is not None:
                found.append(column)
        return found
