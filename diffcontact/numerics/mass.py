"""Apply a mass matrix: a vector of masses (d,), or a symmetric positive definite matrix (d, d) [kg].

Of a full matrix only the symmetric part counts, so that its derivative is symmetric, too. Vectors are (d,), or columns
(d, k).
"""

from __future__ import annotations

import jax.numpy as jnp

from diffcontact.numerics import linear


def apply(mass, x):
    """Return M x."""
    return _scale(mass, x) if mass.ndim == 1 else _symmetric(mass) @ x


def solve(mass, x):
    """Return M^-1 x; the derivative does not go through the Cholesky factor."""
    return _scale(1 / mass, x) if mass.ndim == 1 else linear.solve_positive(_symmetric(mass), x)


def root(mass):
    """Return L with M = L L^T: square roots, or the lower Cholesky factor."""
    return jnp.sqrt(mass) if mass.ndim == 1 else linear.cholesky(_symmetric(mass))


def whiten(root_of_mass, x):
    """Return L^-1 x: its length is that of x in M^-1."""
    if root_of_mass.ndim == 1:
        return _scale(1 / root_of_mass, x)
    return linear.solve_lower(root_of_mass, x)


def unwhiten(root_of_mass, x):
    """Return L^-T x, so that unwhiten(L, whiten(L, x)) = M^-1 x."""
    if root_of_mass.ndim == 1:
        return _scale(1 / root_of_mass, x)
    return linear.solve_lower(root_of_mass, x, transposed=True)


def _symmetric(mass):
    return (mass + mass.T) / 2


def _scale(diagonal, x):
    return (diagonal if x.ndim == 1 else diagonal[:, None]) * x
