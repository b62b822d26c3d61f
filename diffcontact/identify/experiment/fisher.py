r"""How certain a fit of some runs would be: from what each run tells to the covariance of what is sought.

A run with Jacobian J (in units of its noise) and score covariance V = Cov(J^T noise) has parameters of its own, an
initial state say. With these projected out,

    A = J_s^T J_s - J_s^T J_o (J_o^T J_o)^+ J_o^T J_s,        S = X^T V X,    X = [I, -(J_o^T J_o)^+ J_o^T J_s]

is what it tells of the rest: A the curvature of its cost (Schur's complement), S the covariance of its score. Least
squares over several runs add both, and are off by

    C = (sum A)^-1 (sum S) (sum A)^-1

the error bars of a fit (`error_bars`). For white noise S = A, and C is the inverse of Fisher's information.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

# Eigenvalues of a scaled J^T J below it are rounding: singular values below its root, as in `null_space`.
_NOTHING = 1e-13
_TAKES_PART = 1e-8

CRITERIA = ("D", "A", "one")


@dataclass(frozen=True, eq=False)
class Evidence:
    """What runs tell of the p parameters that they share.

    Attributes:
        curvature: (p, p) A above.
        score: (p, p) S above.
    """

    curvature: NDArray
    score: NDArray

    def __add__(self, other: Evidence) -> Evidence:
        return Evidence(self.curvature + other.curvature, self.score + other.score)

    def __mul__(self, runs: int) -> Evidence:
        """That of so many runs of the kind."""
        return Evidence(runs * self.curvature, runs * self.score)

    def scattered(self, scatter: NDArray) -> Evidence:
        """The same for a run whose parameters differ from the common ones with variances (p,)."""
        return Evidence(self.curvature, self.score + self.curvature @ np.diag(scatter) @ self.curvature)

    def covariance(self) -> NDArray:
        """(p, p) of the estimates; infinite on the diagonal, and zero beside it, of what is not determined.

        Example:
            >>> Evidence(np.diag([4.0, 0.0]), np.diag([4.0, 0.0])).covariance()
            array([[0.25, 0.  ],
                   [0.  ,  inf]])
        """
        inverse, unknown = _inverse(self.curvature)
        covariance = inverse @ self.score @ inverse
        covariance[unknown, :] = covariance[:, unknown] = 0.0
        covariance[unknown, unknown] = np.inf
        return covariance


def projected(curvature: NDArray, score: NDArray, shared: NDArray) -> Evidence:
    """What a run with curvature and score covariance (P, P) tells of the parameters that are shared, p of P marks.

    Example:
        >>> both = np.array([[2.0, 1.0], [1.0, 1.0]])
        >>> projected(both, both, np.array([True, False])).curvature.tolist()
        [[1.0]]
    """
    own = ~shared
    X = np.zeros((shared.size, int(shared.sum())))
    X[shared] = np.eye(X.shape[1])
    if own.any():
        X[own] = -_inverse(curvature[np.ix_(own, own)])[0] @ curvature[np.ix_(own, shared)]
    return Evidence(X.T @ curvature @ X, X.T @ score @ X)


def _inverse(matrix: NDArray) -> tuple[NDArray, NDArray]:
    """Pseudo-inverse of a positive semidefinite matrix, and (p,) True for what takes part in its null space."""
    size = np.sqrt(np.maximum(np.diag(matrix), 0.0))
    scale = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
    values, vectors = np.linalg.eigh(matrix * np.outer(scale, scale))
    kept = values > _NOTHING * max(values.max(initial=0.0), np.finfo(float).tiny)
    inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T * np.outer(scale, scale)
    return inverse, np.sum(vectors[:, ~kept] ** 2, axis=1) > _TAKES_PART


def value(covariance: NDArray, criterion: str, scales: NDArray) -> float:
    """What a design makes small, of the covariance (t, t) of what is sought; infinite where some of it is unknown.

    "D": log det C / t, the volume of the region of confidence; "A": log of the mean variance, each in units of its
    scale; "one": log of the variance of the one that is sought.

    Args:
        covariance: of what is sought.
        criterion: one of `CRITERIA`.
        scales: (t,) for "A".
    """
    if not np.all(np.isfinite(covariance)):
        return np.inf
    if criterion == "D":
        sign, logarithm = np.linalg.slogdet(covariance)
        return float(logarithm / len(covariance)) if sign > 0 else -np.inf
    return float(np.log(np.mean(np.diag(covariance) / scales**2)))
