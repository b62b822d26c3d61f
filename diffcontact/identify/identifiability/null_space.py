"""Which combinations of parameters the data cannot see."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import qr


@dataclass(frozen=True)
class NullSpace:
    """The null space of a Jacobian: combinations of parameters that the data do not determine.


    Attributes:
        directions: one dict name -> weight per direction in parameter space along which no residual changes; the
            largest weight is 1.
        unidentifiable: (P,) True for every parameter that takes part in one: it has no finite error of its own.
        redundant: (P,) True for one parameter of each direction: with those held, all others are determined.
    """

    directions: list[dict[str, float]]
    unidentifiable: NDArray
    redundant: NDArray


def null_space(J: NDArray, names: Sequence[str], eps: float) -> NullSpace:
    """Null directions of the Jacobian (m, P), from the singular values of J with its columns scaled to unit length.

    Singular values below sqrt(eps) of the largest count as zero. Several null directions are mixed such that each has a
    parameter of its own (QR with pivoting of the null space), so that what is independent is reported apart.

    Example:
        >>> null_space(np.array([[1.0, 2.0, 0.0], [2.0, 4.0, 0.0]]), ["a", "b", "c"], 2e-16).directions
        [{'c': 1.0}, {'a': 1.0, 'b': -0.5}]
    """
    P = J.shape[1]
    norms = np.linalg.norm(J, axis=0)
    directions: list[dict[str, float]] = [
        {str(name): 1.0} for name, norm in zip(names, norms, strict=True) if norm == 0
    ]
    unidentifiable, redundant = norms == 0, norms == 0
    seen = np.flatnonzero(norms > 0)
    if seen.size == 0:
        return NullSpace(directions, unidentifiable, redundant)
    _, s, Vt = np.linalg.svd(np.linalg.qr(J[:, seen] / norms[seen], mode="r"), full_matrices=True)
    s = np.pad(s, (0, seen.size - s.size))
    basis = Vt[s <= np.sqrt(eps) * s[0]].T
    if basis.shape[1]:
        pivots = np.asarray(qr(basis.T, mode="r", pivoting=True)[-1])[: basis.shape[1]]
        basis = basis @ np.linalg.inv(basis[pivots])
        redundant = redundant | np.isin(np.arange(P), seen[pivots])
    for direction in basis.T:
        # The components carry the rounding of the small singular values; what is below their fourth root is none.
        part = np.abs(direction) > eps**0.25 * np.abs(direction).max()
        unidentifiable = unidentifiable | np.isin(np.arange(P), seen[part])
        weights = np.where(part, direction / norms[seen], 0.0)
        weights = weights / weights[np.argmax(np.abs(weights))]
        directions.append({names[int(seen[j])]: float(weights[j]) for j in np.flatnonzero(part)})
    return NullSpace(directions, unidentifiable, redundant)
