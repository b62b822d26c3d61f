"""What candidates of an experiment would give, and the scan that tries all of them.

Where another impact comes in, or two change places, the information of an experiment jumps. No slope leads from one
side of such a jump to the other. So every candidate is simulated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.experiment.controls import RUNS, Controls, Setting
from diffcontact.identify.experiment.fisher import Evidence, projected, value
from diffcontact.identify.experiment.noise import Noise
from diffcontact.identify.experiment.simulated_candidates import NextRun, Seen
from diffcontact.status import Status

# A variance that shrinks by less was not told anything.
_TOLD = 1e-6


@dataclass(frozen=True, eq=False)
class Candidate:
    """An experiment and what it would give.

    Attributes:
        setting: of the controls; empty for the run as it was.
        stderr: standard error of each element that is sought (the mean over the draws of its logarithm); infinite where
            some draw leaves it undetermined.
        criterion: what the design makes small, a logarithm of a variance; infinite likewise.
        cost: of the setting.
        status: of the simulation, the first of its draws that is not 0; only with 0 it is proposed.
        order: the contacts that are struck, in their order, at the parameters as they are given.
        tells: whether it says anything about what is sought.
    """

    setting: Setting
    stderr: dict[str, float]
    criterion: float
    cost: float
    status: Status
    order: tuple[int, ...]
    tells: bool

    @property
    def eligible(self) -> bool:
        """Whether it may be proposed."""
        return self.status == Status.OK and self.tells and bool(np.isfinite(self.criterion))


@dataclass(frozen=True, eq=False)
class Question:
    """What is sought, and what is known of it.

    Attributes:
        names: of all P elements of theta of one run.
        sought: where those that are sought lie among them.
        shared: (P,) True for what runs have in common; the rest is each run's own.
        thetas: (D, P) draws of the truth, the parameters as they are given first.
        known: what the runs so far tell of what is shared; None: nothing was measured yet.
        prior: (P,) information of the priors.
        noise: of the runs to come.
        criterion: "D", "A" or "one".
        scales: (t,) for "A".
        slopes: (P,) of the parameters by theta.
    """

    names: tuple[str, ...]
    sought: NDArray
    shared: NDArray
    thetas: NDArray
    known: Evidence | None
    prior: NDArray
    noise: Noise
    criterion: str
    scales: NDArray
    slopes: NDArray

    def covariance(self, seen: Seen | None, runs: int) -> NDArray:
        """(t, t) of what is sought after so many runs that show the same; without any, as it is known now."""
        among = (np.cumsum(self.shared) - 1)[self.sought]
        p = int(self.shared.sum())
        first = np.diag(self.prior[self.shared])
        total = self.known or Evidence(first, first)
        if seen is not None:
            J, own = seen.J.reshape(-1, seen.J.shape[2]), np.diag(np.where(self.shared, 0.0, self.prior))
            score = self.noise.score(seen.J, seen.spacing) + own
            one = projected(J.T @ J + own, score, self.shared).scattered(self.noise.scatter[self.shared])
            total = total + one * runs
        assert total.curvature.shape == (p, p)
        slopes = self.slopes[self.sought]
        return total.covariance()[np.ix_(among, among)] * np.outer(slopes, slopes)

    def value(self, covariance: NDArray) -> float:
        """The criterion of a covariance (t, t) of what is sought."""
        return value(covariance, self.criterion, self.scales)


@dataclass(frozen=True, eq=False)
class Scan:
    """What a scan found.

    Attributes:
        default: the run as it was.
        candidates: all settings that are affordable, with what they would give.
        refused: how many settings cost too much.
    """

    default: Candidate
    candidates: list[Candidate]
    refused: int


def scan(run: NextRun, controls: Controls, question: Question, candidates: int, seed: int) -> Scan:
    """Simulate about `candidates` settings, in steps that are short enough for the best of them."""
    settings = controls.scan(candidates, seed)
    affordable = [setting for setting in settings if controls.affordable(setting)]
    distinct = list({_key(setting): setting for setting in affordable}.values())
    while True:
        default, *tried = _candidates(run, controls, question, [{}, *distinct])
        best = min((one for one in tried if one.eligible), key=lambda one: one.criterion, default=default)
        finer = run.resolved([{}, best.setting] if best.setting else [{}], question.thetas[0])
        if finer.run.model.substeps == run.run.model.substeps:
            return Scan(default, tried, len(settings) - len(affordable))
        run = finer


def _candidates(run: NextRun, controls: Controls, question: Question, settings: Sequence[Setting]) -> list[Candidate]:
    """What settings would give; those that differ in the number of runs only are simulated once."""
    single = [{name: part for name, part in setting.items() if name != RUNS} for setting in settings]
    different = {_key(setting): setting for setting in single}
    draws = question.thetas
    lanes = [setting for setting in different.values() for _ in draws]
    longest = max(run.record(setting).times.size for setting in different.values())
    seen = run.seen(lanes, [theta for _ in different for theta in draws], longest)
    shown = {key: seen[i * len(draws) : (i + 1) * len(draws)] for i, key in enumerate(different)}
    now = question.value(question.covariance(None, 0))
    return [
        _candidate(controls, question, setting, shown[_key(one)], now)
        for setting, one in zip(settings, single, strict=True)
    ]


def _candidate(controls: Controls, question: Question, setting: Setting, seen: Sequence[Seen], now: float) -> Candidate:
    """A setting with what its draws would show; `now` is the criterion without a further run."""
    covariances = [question.covariance(one, int(setting.get(RUNS, 1))) for one in seen]
    spreads = np.sqrt(np.array([np.diag(covariance) for covariance in covariances]))
    criterion = float(np.mean([question.value(covariance) for covariance in covariances]))
    with np.errstate(divide="ignore"):
        stderr = np.exp(np.mean(np.log(spreads), axis=0))
    names = [question.names[j] for j in question.sought]
    return Candidate(
        setting=setting,
        stderr=dict(zip(names, map(float, stderr), strict=True)),
        criterion=criterion,
        cost=controls.price(setting) if setting else 0.0,
        status=next((one.status for one in seen if one.status != Status.OK), Status.OK),
        order=seen[0].order,
        tells=bool(criterion < now - _TOLD) and bool(np.isfinite(criterion)),
    )


def _key(setting: Setting) -> Any:
    return tuple((name, np.asarray(part).tobytes()) for name, part in sorted(setting.items()))
