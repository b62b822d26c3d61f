"""From candidates to the best one: a scan of all that is possible, then an ascent that keeps the order of impacts.

Where another impact comes in, or two change places, what an experiment tells jumps: there is no slope to follow from
one side to the other. So the scan looks everywhere, and each ascent stays among settings whose impacts come in the same
order as those of the candidate where it began. It tries steps along each control, all of a round at once, and halves
them where none helps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.experiment.controls import RUNS, Controls, Setting
from diffcontact.identify.experiment.lanes import NextRun, Seen
from diffcontact.identify.experiment.noise import Noise
from diffcontact.identify.experiment.precision import Evidence, projected, value
from diffcontact.status import Status

_ROUNDS, _FINEST = 12, 0.01
# Ascents begin at so many candidates of different orders.
_ASCENTS = 2
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


class Search:
    """Candidates with what they would give, each simulated once however often it is asked for.

    Args:
        run: the run to come.
        controls: what can be chosen.
        question: what is sought.
    """

    def __init__(self, run: NextRun, controls: Controls, question: Question):
        self.run, self.controls, self.question = run, controls, question
        self.refused = 0
        self.now = question.value(question.covariance(None, 0))
        self._length, self._seen = 0, {}

    def look(self, settings: Sequence[Setting]) -> list[Candidate]:
        """What settings would give, those that cost too much left out and counted."""
        affordable = [setting for setting in settings if not setting or self.controls.affordable(setting)]
        self.refused += len(settings) - len(affordable)
        self._simulate(affordable)
        return [self._candidate(setting) for setting in affordable]

    def ascend(self, begin: Candidate, step: float) -> list[Candidate]:
        """Candidates on the way up from one, the last one the best of them."""
        way, controls = [begin], self.controls
        chosen = {name: begin.setting[name] for name in controls.choices}
        for _ in range(_ROUNDS):
            if step < _FINEST:
                break
            here = controls.places(way[-1].setting)
            around = [np.clip(here + side * step * e, 0.0, 1.0) for e in np.eye(here.size) for side in (-1.0, 1.0)]
            tried = self.look([controls.at(place, chosen) for place in around if not np.array_equal(place, here)])
            same = [one for one in tried if one.eligible and one.order == begin.order]
            best = min(same, key=lambda one: one.criterion, default=way[-1])
            if best.criterion < way[-1].criterion:
                way.append(best)
            else:
                step /= 2
        return way[1:]

    def beginnings(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The best candidates of a few orders of impacts and choices."""
        found: dict[Any, Candidate] = {}
        for one in sorted((one for one in candidates if one.eligible), key=lambda one: one.criterion):
            found.setdefault((one.order, self._choices(one.setting)), one)
        return list(found.values())[:_ASCENTS]

    def _choices(self, setting: Setting) -> tuple:
        return tuple(np.asarray(setting[name]).tobytes() for name in self.controls.choices)

    def _simulate(self, settings: Sequence[Setting]) -> None:
        """What settings show that were not looked at yet; how many runs there are makes no difference to one."""
        new: dict[Any, Setting] = {}
        for setting in settings:
            if (key := _key(setting)) not in self._seen:
                new.setdefault(key, {name: part for name, part in setting.items() if name != RUNS})
        if not new:
            return
        longest = max(self.run.record(setting).times.size for setting in new.values())
        self._length = max(self._length, longest)
        draws = self.question.thetas
        lanes = [setting for setting in new.values() for _ in draws]
        seen = self.run.seen(lanes, [theta for _ in new for theta in draws], self._length)
        for i, key in enumerate(new):
            self._seen[key] = seen[i * len(draws) : (i + 1) * len(draws)]

    def _candidate(self, setting: Setting) -> Candidate:
        question, seen = self.question, self._seen[_key(setting)]
        runs = int(setting.get(RUNS, 1))
        covariances = [question.covariance(one, runs) for one in seen]
        spreads = np.sqrt(np.array([np.diag(covariance) for covariance in covariances]))
        status = next((one.status for one in seen if one.status != Status.OK), Status.OK)
        criterion = float(np.mean([question.value(covariance) for covariance in covariances]))
        with np.errstate(divide="ignore"):
            stderr = np.exp(np.mean(np.log(spreads), axis=0))
        names = [question.names[j] for j in question.sought]
        return Candidate(
            setting=setting,
            stderr=dict(zip(names, map(float, stderr), strict=True)),
            criterion=criterion,
            cost=self.controls.price(setting) if setting else 0.0,
            status=status,
            order=seen[0].order,
            tells=bool(criterion < self.now - _TOLD) and bool(np.isfinite(criterion)),
        )


def found(search: Search, candidates: int, ascend: bool, seed: int) -> tuple[Candidate, list[Candidate], Search]:
    """The run as it was, all candidates, and the search whose steps were short enough for the best of them."""
    settings = search.controls.scan(candidates, seed)
    while True:
        (default,) = search.look([{}])
        tried = search.look(settings)
        if ascend and search.controls.continuous:
            step = 0.5 / max(len({one[next(iter(search.controls.continuous))] for one in settings}) - 1, 1)
            tried += [one for begin in search.beginnings(tried) for one in search.ascend(begin, step)]
        # A setting may be met twice on the way.
        tried = list({repr(one.setting): one for one in tried}.values())
        best = min((one for one in tried if one.eligible), key=lambda one: one.criterion, default=None)
        finer = search.run.resolved([{}] if best is None else [{}, best.setting], search.question.thetas[0])
        if finer.run.model.substeps == search.run.run.model.substeps:
            return default, tried, search
        search = Search(finer, search.controls, search.question)


def _key(setting: Setting) -> Any:
    return tuple((name, np.asarray(part).tobytes()) for name, part in sorted(setting.items()) if name != RUNS)
