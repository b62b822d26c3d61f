r"""Inertia of bodies as ten numbers: whatever these are, some solid body has it.

With the mass m, the centre of mass c and the second moments S of the mass about it, along the axes of the body::

    m = exp(2 alpha),   c = t,   S = m A A^T,   A = (exp(d1)  s12      s13   )      inertia I = tr(S) 1 - S
                                                    (0        exp(d2)  s23   )
                                                    (0        0        exp(d3))

    theta = (alpha, d1, d2, d3, s12, s23, s13, t1, t2, t3)

Source: C. Rucker, P. M. Wensing, Smooth parameterization of rigid-body inertia, IEEE Robot. Autom. Lett. 7 (2022).
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.systems.tree import dot


def solid(theta: Array) -> tuple[Array, Array, Array]:
    """Return masses (b,) [kg], inertias (b, 3, 3) [kg m^2], centres of mass (b, 3) [m] of ten numbers each (b, 10)."""
    A = jnp.zeros((len(theta), 3, 3), theta.dtype)
    A = A.at[:, (0, 1, 2), (0, 1, 2)].set(jnp.exp(theta[:, 1:4])).at[:, (0, 1, 0), (1, 2, 2)].set(theta[:, 4:7])
    mass = jnp.exp(2 * theta[:, 0])
    S = mass[:, None, None] * dot("bij,bkj->bik", A, A)
    return mass, jnp.trace(S, axis1=1, axis2=2)[:, None, None] * jnp.eye(3, dtype=S.dtype)[None] - S, theta[:, 7:]


def log_cholesky(mass: np.ndarray, inertia: np.ndarray, centre: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Return the ten numbers (b, 10) of bodies; arguments as `solid` returns them.

    Raises:
        ValueError: an inertia is that of no solid body, or of a rod or a disc without thickness.

    Example:
        >>> import jax
        >>> ball = np.array([2.0]), 0.1 * np.eye(3)[None], np.array([[0.0, 0.0, 0.3]])
        >>> theta = log_cholesky(*ball, ["ball"])
        >>> theta.shape, all(np.allclose(*pair) for pair in zip(ball, jax.jit(solid)(theta), strict=True))
        ((1, 10), True)
    """
    found = np.zeros((len(mass), 10))
    for row, m, tensor, name in zip(found, mass, inertia, names, strict=True):
        S = np.trace(tensor) / 2 * np.eye(3) - tensor
        try:
            # The factor of the matrix turned round, turned round, is the upper one.
            A = np.linalg.cholesky(S[::-1, ::-1] / m)[::-1, ::-1]
        except np.linalg.LinAlgError:
            moments = ", ".join(f"{x:.6g}" for x in np.linalg.eigvalsh(tensor))
            raise ValueError(
                f"log_cholesky: body {name!r} with principal moments {moments} kg m^2: expected those of a solid body, "
                "each less than the sum of the others"
            ) from None
        row[0], row[1:4] = np.log(m) / 2, np.log(np.diag(A))
        row[4:7] = A[0, 1], A[1, 2], A[0, 2]
    found[:, 7:] = centre
    return found
