"""Linear algebra of least squares whose columns may differ by many decades."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# The smallest normal number: what is divided by it stays a number.
TINY = float(np.finfo(float).tiny)


def inverse(A: NDArray, rcond: float = 1e-10) -> NDArray:
    """Invert a positive semidefinite matrix, scaled to unit diagonal; eigenvalues below `rcond` are zero."""
    size = np.sqrt(np.maximum(np.diag(A), TINY))
    # Divided one after the other: a product of two sizes may be no number any more.
    return np.linalg.pinv(A / size / size[:, None], rcond=rcond, hermitian=True) / size / size[:, None]


def inverse_diagonal(J: NDArray) -> NDArray:
    """Return the diagonal (P,) of (J^T J)^-1; 1 where a column is zero."""
    here = np.any(J, axis=0)
    size = np.where(here, np.linalg.norm(J, axis=0), 1.0)
    return np.where(here, np.diag(np.linalg.pinv((J / size).T @ (J / size), hermitian=True)), 1.0) / size**2


def orthonormal(J: NDArray) -> NDArray:
    """Return an orthonormal basis (m, rank) of the columns of J (m, P)."""
    norms = np.linalg.norm(J, axis=0)
    Q, R = np.linalg.qr(J[:, norms > 0] / norms[norms > 0])
    U, s, _ = np.linalg.svd(R)
    return Q @ U[:, s > np.sqrt(np.finfo(float).eps) * s.max(initial=0.0)]


def without(J: NDArray, columns: NDArray) -> NDArray:
    """Project the columns of J (m, P) out of columns (m, q)."""
    Q = orthonormal(J)
    return columns - Q @ (Q.T @ columns)


def nonnegative(A: NDArray, offset: NDArray) -> NDArray:
    """Minimise 1/2 x^T A x + offset^T x over x >= 0, for A (k, k) that may be singular."""
    if not offset.size:
        return offset
    from scipy.optimize import nnls  # takes a quarter of a second to import

    # Beyond the rounding of A.
    ridge = max(1e-13, 8 * float(np.finfo(A.dtype).eps)) * np.trace(A) * np.eye(len(A))
    upper = np.linalg.cholesky(A + ridge).T
    return nnls(upper, -np.linalg.solve(upper.T, offset))[0]
