r"""By how much something that the model lacks moves an estimate, beside what its interval allows for.

With J_g the derivatives of the residuals, measured less modelled, and A the information of all runs and their priors,
what adds d_g to the samples of run g moves the estimate by -A^-1 b, and something of which only the size |c_g| is known
by at most w,

    A = sum_g J_g^T J_g + Q,    b = sum_g J_g^T d_g,    w_j = sum_g |c_g| |J_g A^-1 e_j|

all in units of the noise. Intervals hold it if they reach as far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.verdict.evidence import Evidence, RunEvidence

_NAMED = 2
# Columns that are differences are known to this power of machine epsilon; see `fixed_terms`.
_KNOWN = 0.4
# Of the parameter that is moved most, beside its interval; what is moved by less of that is moved by rounding.
_MOVED = 1e-3
_TINY = np.finfo(float).tiny


def rows(array: NDArray, run: RunEvidence) -> NDArray:
    """(n k, m) of (n, k, m) samples, zero where nothing was measured."""
    return np.where(run.present[..., None], array, 0.0).reshape(-1, array.shape[-1])


@dataclass(frozen=True, eq=False)
class Shifts:
    """What moves the parameters of a fit.

    Attributes:
        evidence: of the fit.
    """

    evidence: Evidence

    @cached_property
    def inverse(self) -> NDArray:
        """(P, P) A^-1 of the parameters that are kept."""
        A = np.diag(self.evidence.objective.priors.information(self.evidence.theta)[self.evidence.kept])
        for run in self.evidence.runs:
            J = rows(run.residual.J, run)
            A[np.ix_(run.residual.index, run.residual.index)] += J.T @ J
        size = np.sqrt(np.maximum(np.diag(A), _TINY))
        return np.linalg.pinv(A / np.outer(size, size), rcond=1e-10, hermitian=True) / np.outer(size, size)

    @cached_property
    def slopes(self) -> NDArray:
        """(P,) of the parameters by theta."""
        return self.evidence.objective.parameters.slopes(self.evidence.theta)[self.evidence.kept]

    @cached_property
    def reach(self) -> NDArray:
        """(P,) half of each interval; infinite where an end is, zero where it is rounding (data without noise)."""
        table = [row for row, kept in zip(self.evidence.result.rows(), self.evidence.kept, strict=True) if kept]
        ends = np.array([[np.nan if end is None else end for end in row["interval95"]] for row in table], float)
        ends = ends.reshape(-1, 2)
        half = np.nan_to_num(np.ptp(ends, axis=1) / 2, nan=np.inf)
        return np.where(half > np.finfo(float).eps * np.max(np.abs(ends), axis=1), half, 0.0)

    @cached_property
    def sought(self) -> NDArray:
        """(P,) which are of interest: no run has them to itself, and no run's start depends on them, if any are so."""
        own = self.evidence.objective.parameters.own | _of_the_start(self.evidence)
        sought = ~own[self.evidence.kept]
        return sought if sought.any() else np.ones_like(sought)

    def by(self, parts: Mapping[int, NDArray]) -> NDArray:
        """(P,) how far d_g (n, k) of some runs move the parameters."""
        return -self.slopes * (self.inverse @ self._score(parts))

    def left(self, parts: Mapping[int, NDArray]) -> float:
        """The size of what no parameter makes up for of d_g (n, k), |d|^2 - b^T A^-1 b, in units of the noise.

        Zero where that is rounding: they make up for all of it.
        """
        whole = sum(float(np.sum(rows(d[..., None], self.evidence.runs[number]) ** 2)) for number, d in parts.items())
        b = self._score(parts)
        left = max(whole - float(b @ self.inverse @ b), 0.0)
        return float(np.sqrt(left)) if left > self.evidence.objective.eps ** (2 * _KNOWN) * whole else 0.0

    def _score(self, parts: Mapping[int, NDArray]) -> NDArray:
        b = np.zeros(self.slopes.size)
        for number, d in parts.items():
            run = self.evidence.runs[number]
            b[run.residual.index] += rows(run.residual.J, run).T @ rows(d[..., None], run)[:, 0]
        return b

    def at_most(self, sizes: Sequence[float], where: Sequence[NDArray] | None = None) -> NDArray:
        """(P,) how far something of size |c_g| in each run moves them if it has the shape that moves them most.

        Args:
            sizes: per run, in units of the noise.
            where: (n,) per run, the samples that it can touch; None: all.
        """
        total = np.zeros(self.slopes.size)
        for number, (run, size) in enumerate(zip(self.evidence.runs, sizes, strict=True)):
            J = run.residual.J if where is None else np.where(where[number][:, None, None], run.residual.J, 0.0)
            total += size * np.linalg.norm(rows(J, run) @ self.inverse[run.residual.index], axis=0)
        return np.abs(self.slopes) * total

    def ratio(self, moved: NDArray) -> NDArray:
        """(P,) how many times as far as its interval each is moved; 0 of what is not sought."""
        compared = self.sought & (self.reach > 0)
        return np.divide(np.abs(moved), self.reach, out=np.zeros_like(self.reach), where=compared)

    def named(self, moved: NDArray) -> str:
        """The sought parameters that are moved most beside their intervals; empty if there are none.

        Args:
            moved: (P,) by how much each is.
        """
        ratio = self.ratio(moved)
        most = [int(j) for j in np.argsort(-ratio)[:_NAMED] if ratio[j] > _MOVED * ratio.max()]
        return " and ".join(str(name) for name in np.array(self.evidence.result.names)[self.evidence.kept][most])

    def beyond(self, moved: NDArray) -> str:
        """The sought parameters that are moved further than their intervals reach, in words; empty if there are none.

        Args:
            moved: (P,) by how much each is.
        """
        names, ratio = (
            [str(name) for name in np.array(self.evidence.result.names)[self.evidence.kept]],
            self.ratio(moved),
        )
        worst = [int(j) for j in np.argsort(-ratio)[:_NAMED] if ratio[j] > 1.0]
        each = (
            f"{names[j]} by {self.evidence.shown(names[j], abs(float(moved[j])))}, {_far(float(ratio[j]))}"
            for j in worst
        )
        return " and ".join(each)


def _far(ratio: float) -> str:
    return f"{'further than' if ratio < 1.95 else f'{ratio:.2g} times as far as'} its interval reaches"


def _of_the_start(evidence: Evidence) -> NDArray:
    """(P,) parameters on which the initial state of a run depends."""
    found = np.zeros(evidence.theta.size, bool)
    for run in evidence.objective.joint.runs:
        slopes = jax.tree.leaves(run.beginning(evidence.theta).slopes)
        found[run.index] |= np.any([np.any(np.asarray(s) != 0, axis=tuple(range(np.ndim(s) - 1))) for s in slopes], 0)
    return found
