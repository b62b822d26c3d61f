r"""Runs that contradict each other: what each alone says of the parameters that they share.

To first order run g alone would move the shared parameters from their joint estimate by

    d_g = A_g^+ s_g,    A_g = S_g^T S_g,    s_g = S_g^T r_g,    Cov d_g = A_g^+ Cov(s_g) A_g^+

with S_g its columns of shared parameters, those of its own parameters projected out. The covariance of the score is
that of noise correlated like the residuals. Runs that agree scatter by that much:

    sum_g (d_g - d)^2 / Var d_g ~ chi^2(G - 1),    d the weighted mean
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from diffcontact.identify.noise import score_covariance
from diffcontact.identify.verdict.evidence import Evidence, RunEvidence
from diffcontact.identify.verdict.verdict import Reason

_LEVEL = 1e-4
# From so many runs on intervals rest on their scatter, and so hold what differs between them.
_COMPARED = 3
# Runs that differ by more of their own standard errors than this are not of one kind.
_APART = 5.0
_RESOLVED = 0.99
_NAMED = 3


@dataclass(frozen=True, eq=False)
class Alone:
    """What each run by itself says of one shared parameter.

    Attributes:
        name: of the parameter.
        runs: (G,) which runs determine it by themselves.
        value: (G,) their estimates, to first order.
        stderr: (G,) standard errors of these, within the run.
    """

    name: str
    runs: NDArray
    value: NDArray
    stderr: NDArray

    @property
    def mean(self) -> float:
        """Weighted mean."""
        weight = self.stderr**-2.0
        return float(weight @ self.value / weight.sum())

    @property
    def excess(self) -> float:
        """chi^2 of the runs' scatter, with one degree of freedom less than there are runs."""
        return float(np.sum(((self.value - self.mean) / self.stderr) ** 2))

    @property
    def scatter(self) -> float:
        """Standard deviation between the runs beyond their own errors, by moments; 0 where these explain everything.

        Source: R. DerSimonian, N. Laird, Controlled Clinical Trials 7 (1986) 177.
        """
        weight = self.stderr**-2.0
        scale = weight.sum() - np.sum(weight**2) / weight.sum()
        return float(np.sqrt(max(self.excess - (self.value.size - 1), 0.0) / scale))


def alone(evidence: Evidence) -> list[Alone]:
    """For every parameter that several runs determine by themselves: what each says of it."""
    seen: dict[str, list[tuple[int, float, float]]] = {}
    slopes = evidence.objective.parameters.slopes(evidence.theta)[evidence.kept]
    values = evidence.result.estimate[evidence.kept]
    for g, run in enumerate(evidence.runs):
        for j, moved, deviation in _steps(run):
            at = run.residual.index[j]
            name = evidence.names(run)[j]
            found = g, float(values[at] + slopes[at] * moved), float(abs(slopes[at]) * deviation)
            seen.setdefault(name, []).append(found)
    found = []
    for name, entries in seen.items():
        if len(entries) > 1:
            runs, value, stderr = zip(*entries, strict=True)
            found.append(Alone(name, np.array(runs), np.array(value), np.array(stderr)))
    return found


def _steps(run: RunEvidence) -> Iterator[tuple[int, float, float]]:
    """Position, step and its standard deviation of every shared parameter that the run determines by itself."""
    shared = np.flatnonzero(~run.own)
    present = run.present
    J = np.where(present[..., None], run.residual.J, 0.0)
    r = np.where(present, run.residual.r, 0.0)
    if shared.size == 0 or present.sum() <= J.shape[-1]:
        return
    flat = J.reshape(-1, J.shape[-1])
    own = np.linalg.qr(flat[:, run.own])[0]
    S = flat[:, shared] - own @ (own.T @ flat[:, shared])
    scale = np.linalg.norm(S, axis=0)
    if not np.all(scale > 1e-9 * np.linalg.norm(flat[:, shared], axis=0)):
        keep = scale > 1e-9 * np.linalg.norm(flat[:, shared], axis=0)
        shared, S, scale = shared[keep], S[:, keep], scale[keep]
    if shared.size == 0:
        return
    S = S / scale
    inverse = np.linalg.pinv(S.T @ S, rcond=1e-8, hermitian=True)
    resolution = np.diag(inverse @ (S.T @ S))
    # d r / d theta = J, so the step that lowers |r + J d| is minus that of the score.
    moved = -inverse @ (S.T @ r.ravel())
    score = score_covariance(run.noise.models, run.residual.r, S.reshape(*J.shape[:2], -1))
    deviation = np.sqrt(np.diag(inverse @ score @ inverse))
    for i, j in enumerate(shared):
        if resolution[i] > _RESOLVED and deviation[i] > 0:
            yield int(j), float(moved[i] / scale[i]), float(deviation[i] / scale[i])


def contradictions(evidence: Evidence) -> Iterator[Reason]:
    """Whether the runs contradict each other, and in which parameters most."""
    found = alone(evidence)
    apart = [one for one in found if chdtrc(one.value.size - 1, one.excess) < _LEVEL / len(found)]
    if not apart:
        return
    apart.sort(key=lambda one: one.excess / (one.value.size - 1), reverse=True)
    told = "; ".join(_told(evidence, one) for one in apart[:_NAMED])
    worst = np.sqrt(apart[0].excess / (apart[0].value.size - 1))
    if len(evidence.runs) >= _COMPARED:
        yield Reason(
            f"the runs differ by more than their own errors: {told}. The intervals hold this scatter as far as the "
            "runs are of one kind; look at those that stand apart, or give each run its own (per_run)"
        )
    else:
        yield Reason(
            f"the runs contradict each other: {told}. Fit them separately, give each its own (per_run), or measure "
            "more runs, whose scatter the intervals can hold",
            fatal=bool(worst > _APART),
        )


def _told(evidence: Evidence, one: Alone) -> str:
    lowest, highest = (
        f"{evidence.shown(one.name, one.value[g], one.stderr[g])} in {evidence.run(one.runs[g])}"
        for g in (int(np.argmin(one.value)), int(np.argmax(one.value)))
    )
    return f"{one.name} would be {lowest} alone and {highest}"
