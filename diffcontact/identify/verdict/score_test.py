r"""How large a fault the residuals ask for, and whether there certainly is one: Rao's score test.

A fault of sizes s (m,) adds D_g s to run g. What a run's parameters can make up for is projected out of its columns,
S_g = (1 - J_g J_g^+) D_g, and with I = sum_g S_g^T S_g

    s = I^-1 sum_g S_g^T r_g,    z^2 = s^T I (Var sum_g S_g^T r_g)^-1 I s

are the fault that the data would like best and, if there is none, a chi^2 number of m degrees of freedom. The variance
is that of noise correlated like r - S s, or like r if that is larger and r - S s follows itself closely, too.

Source: C. R. Rao, Proc. Cambridge Philosophical Society 44 (1948) 50.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.noise import effective_count, run_noise, score_covariance
from diffcontact.identify.verdict.evidence import Evidence, RunEvidence
from diffcontact.identify.verdict.shifts import rows

# What the parameters leave of a fault, below which they make up for it.
_SEEN = 1e-3
# A column of which the others leave less than this adds rounding.
_NEGLIGIBLE = 1e-6
# Samples that follow each other closely are worth less than this part of their number.
_CLOSELY = 0.5
_TINY = np.finfo(float).tiny


@dataclass(frozen=True, eq=False)
class Fault:
    """Something that was not as the model has it.

    Attributes:
        name: what it is.
        added: per run that it touches, what it adds, of the size that the data would like best, (n, k).
        left: per run, (n, k, m) what the parameters leave of its columns.
        size: (m,) in its own units.
        taken: by how much chi^2 would fall.
        freedom: of how many numbers.
    """

    name: str
    added: Mapping[int, NDArray]
    left: Mapping[int, NDArray]
    size: NDArray
    taken: float
    freedom: int

    def certainty(self, evidence: Evidence) -> tuple[float, float]:
        """z^2, and the standard error of the first size, from the noise that is left without the fault.

        Noise that follows itself closely without the fault, too, is taken as it is with it: the fault may have taken
        slow noise away. Of both the smaller z^2 is given.
        """
        certain, error, white = self._tested(evidence, 1.0)
        if not white:
            certain, error, _ = min((certain, error, white), self._tested(evidence, 0.0))
        return certain, error

    def _tested(self, evidence: Evidence, share: float) -> tuple[float, float, bool]:
        """z^2, the standard error, and whether noise that is left without this share of the fault is nearly white."""
        m = self.size.size
        variance, information, white = np.zeros((m, m)), np.zeros((m, m)), True
        for number, left in self.left.items():
            run = evidence.runs[number]
            rest = run.residual.r - share * left @ self.size
            models = (run_noise(rest, run.residual.J) if share else run.noise).models
            n = len(rest)
            white &= all(effective_count(model, n) > _CLOSELY * n for model in models if model.sigma > 0)
            variance += score_covariance(models, rest, left)
            flat = rows(left, run)
            information += flat.T @ flat
        inverse = np.linalg.pinv(information, rcond=_SEEN**2, hermitian=True)
        score = information @ self.size
        certain = float(score @ np.linalg.pinv(variance, rcond=_SEEN**2, hermitian=True) @ score)
        return certain, float(np.sqrt((inverse @ variance @ inverse)[0, 0])), white


class Projected:
    """The runs of a fit, of which each has what its own parameters can make up for projected out.

    Args:
        evidence: of the fit.
    """

    def __init__(self, evidence: Evidence):
        self.evidence = evidence

    @cached_property
    def _bases(self) -> list[NDArray]:
        return [_basis(run) for run in self.evidence.runs]

    def fault(self, name: str, parts: Mapping[int, NDArray]) -> Fault | None:
        """How large a fault the runs together ask for; None where their parameters make up for it.

        Args:
            name: what it is.
            parts: number of a run -> its columns (n, k, m).
        """
        m = next(iter(parts.values())).shape[-1]
        score, information, whole = np.zeros(m), np.zeros((m, m)), np.zeros(m)
        lefts = {}
        for number, columns in parts.items():
            run, U = self.evidence.runs[number], self._bases[number]
            d = rows(columns, run)
            left = d - U @ (U.T @ d)
            score += left.T @ np.nan_to_num(run.residual.r).ravel()
            information += left.T @ left
            whole += np.sum(d**2, axis=0)
            lefts[number] = left.reshape(columns.shape)
        scale = np.sqrt(np.maximum(whole, _TINY))
        values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
        seen = values > _SEEN**2
        if not seen.any() or not np.all(np.isfinite(score)):
            return None
        V = vectors[:, seen] / scale[:, None]
        size = V @ ((V.T @ score) / values[seen])
        added = {number: columns @ size for number, columns in parts.items()}
        return Fault(name, added, lefts, size, float(score @ size), int(seen.sum()))


def _basis(run: RunEvidence) -> NDArray:
    """(n k, P_i) orthonormal columns that span the run's Jacobian."""
    J = rows(run.residual.J, run)
    U, s, _ = np.linalg.svd(J / np.maximum(np.linalg.norm(J, axis=0), _TINY), full_matrices=False)
    return U[:, s > _NEGLIGIBLE]
