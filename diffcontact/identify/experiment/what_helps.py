"""Of what a tenth more would help: told from the Jacobian that a fit has, without another simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.error_bars import under_loss
from diffcontact.identify.estimate import Estimate
from diffcontact.identify.experiment.fisher import Evidence, Noise, as_found, projected
from diffcontact.identify.linearised import LinearisedFit, LinearisedRun
from diffcontact.identify.verdict.texts import Words

_MORE = 0.1
# Below it nothing helps.
_VISIBLE = 1e-3


def what_helps(result: Estimate, name: str | None = None) -> dict[str, float]:
    r"""Tell by how much a tenth more data would shrink a standard error.

    The most helpful addition comes first.

    A tenth more runs of the kind, a tenth more frames a second (of noise that is correlated in time, they tell less), a
    record that is longer by a tenth and goes on telling as much as its last tenth does, or noise that is smaller by a
    tenth in one channel (a nearer camera, another angle). All from the Jacobian at the estimate and the noise that the
    fit found, its first run's for all: what is tenfold is `identify.design`'s to say.

    Args:
        result: what `fit` returned.
        name: of an element, as in `result.names`; None: the first of those that runs share, for whose sake a fit is
            made.

    Returns:
        What -> part; empty where nothing is known, or of a result that was read from a file.

    Raises:
        ValueError: an unknown name, or one that the data cannot see.
    """
    j = _asked(result, name)
    if j is None:
        return {}
    objective = result.objective
    assert objective is not None
    theta = objective.parameters.start
    runs = under_loss(objective.first_order(), objective.loss)
    noise = as_found(result, 0, result.names)
    told = _Told(runs, noise, objective.priors.information(theta), j, _spacings(result))
    before = told.stderr(runs)
    if not np.isfinite(before):
        # Its interval is that of a secant, or of a profile.
        return {}
    found = {
        "runs of the kind": told.stderr(runs, count=1 + _MORE),
        "frames a second": told.stderr(runs, ratio=1 / (1 + _MORE)),
        "length of the record": told.stderr(runs, longer=True),
    }
    channels = runs[0].r.shape[1]
    for k in range(channels if channels > 1 and all(run.r.shape[1] == channels for run in runs) else 0):
        found[f"precision of channel {k}"] = told.stderr([_sharper(run, k) for run in runs])
    # More of it may weigh wrongly in least squares, and then helps nothing.
    shrinks = {what: max(float(1 - error / before), 0.0) for what, error in found.items()}
    return dict(sorted(shrinks.items(), key=lambda item: -item[1]))


def sentence(result: Estimate, name: str | None = None) -> str:
    """What would help most, for a report; empty where nothing is known."""
    j = _asked(result, name)
    helps = {} if j is None else what_helps(result, result.names[j])
    if j is None or not helps or max(helps.values()) < _VISIBLE:
        return ""
    assert result.objective is not None
    words = Words(result.objective.joint.problems[0].observations.channels)
    parts = ", ".join(f"{words.told(what)} {100 * part:.1f} %" for what, part in helps.items() if part >= _VISIBLE)
    return f"a tenth more of these would shorten the interval of {result.names[j]} by: {parts}"


def _asked(result: Estimate, name: str | None) -> int | None:
    """Which element; None where none can be asked for."""
    if name is not None and name not in result.names:
        raise ValueError(f"what_helps(name): no element {name!r}; there are {', '.join(result.names)}")
    variance = np.diag(result.covariance)
    known = np.isfinite(variance) & (variance > 0) & ~np.isin(result.names, result.at_bound)
    if name is not None:
        if not known[result.names.index(name)]:
            raise ValueError(f"what_helps(name): the data cannot see {name!r}")
        return result.names.index(name) if result.objective is not None else None
    if result.objective is None:
        return None
    candidates = known & ~result.objective.parameters.own
    candidates = candidates if candidates.any() else known
    if not candidates.any():
        return None
    return int(np.argmax(candidates))


class _Told:
    """The standard error of one element under variations of the runs."""

    def __init__(self, runs: list[LinearisedRun], noise: Noise, prior: NDArray, j: int, spacings: list[float]):
        self.noise, self.prior, self.j, self.spacings = noise, prior, j, spacings
        shared = LinearisedFit(tuple(runs), prior).seen_by > 1
        # A parameter of one run is told by that one.
        self.shared = shared | (np.arange(prior.size) == j)

    def stderr(self, runs: list[LinearisedRun], count: float = 1.0, ratio: float = 1.0, longer: bool = False) -> float:
        """With each run so many times, samples so many times as far apart and as many more, or its end twice."""
        P = self.prior.size
        total = Evidence(np.diag(self.prior), np.diag(self.prior))
        scatter = np.diag(np.where(self.shared, self.noise.scatter, 0.0))
        for run, spacing in zip(runs, self.spacings, strict=True):
            J = np.where(np.isnan(run.r)[:, :, None], 0.0, run.J)
            curvature, score = np.zeros((P, P)), np.zeros((P, P))
            for part in (J, _end(J)) if longer else (_resampled(J, ratio),):
                at = np.ix_(run.index, run.index)
                curvature[at] += np.einsum("nkp,nkq->pq", part, part)
                score[at] += self.noise.score(part, ratio * spacing)
            # What differs from run to run does so however much a run tells.
            score += curvature @ scatter @ curvature
            total = total + Evidence(count * curvature, count * score)
        rest = projected(total.curvature, total.score, np.arange(P) == self.j)
        return float(np.sqrt(rest.covariance()[0, 0]))


def _resampled(J: NDArray, ratio: float) -> NDArray:
    """(n / ratio, k, P) between the samples."""
    if ratio == 1.0:
        return J
    n = J.shape[0]
    at = np.arange(0.0, n - 1 + 1e-9, ratio)
    low = np.minimum(at.astype(int), n - 2)
    part = (at - low)[:, None, None]
    return (1 - part) * J[low] + part * J[low + 1]


def _end(J: NDArray) -> NDArray:
    """Its last tenth (n, k, P), zero before."""
    return np.where((np.arange(J.shape[0]) >= np.ceil((1 - _MORE) * J.shape[0]))[:, None, None], J, 0.0)


def _sharper(run: LinearisedRun, k: int) -> LinearisedRun:
    weight = np.where(np.arange(run.r.shape[1]) == k, 1 / (1 - _MORE), 1.0)
    return replace(run, J=run.J * weight[:, None])


def _spacings(result: Estimate) -> list[float]:
    """[s] of the runs' samples."""
    assert result.objective is not None
    return [float(np.median(np.diff(problem.observations.times))) for problem in result.objective.joint.problems]
