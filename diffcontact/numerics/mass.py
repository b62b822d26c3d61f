"""The mass matrix as an operator: a vector of masses or a full symmetric positive definite matrix, one interface.

Of a full matrix only the symmetric part counts, so that its derivative is symmetric, too.
"""

from __future__ import annotations

import jax.numpy as jnp

from diffcontact.numerics import linear


def apply(mass, x):
    """M x.

    Args:
        mass: (d,) the diagonal of M, or (d, d) all of it [kg].
        x: (d,) one vector, or (d, k) columns.

    Returns:
        An array of the shape of x.

    Example:
        >>> apply(jnp.array([1.0, 2.0]), jnp.array([3.0, 4.0])).tolist()
        [3.0, 8.0]
    """
    return _scale(mass, x) if mass.ndim == 1 else _symmetric(mass) @ x


def solve(mass, x):
    """M^-1 x, by a Cholesky factor where M is full; the derivative does not go through the factor.

    Args:
        mass: (d,) the diagonal of M, or (d, d) all of it, symmetric positive definite [kg].
        x: (d,) one vector, or (d, k) columns.

    Returns:
        An array of the shape of x.

    Example:
        >>> import jax
        >>> jax.jit(solve)(jnp.array([[4.0, 0.0], [0.0, 1.0]]), jnp.array([8.0, 1.0])).tolist()
        [2.0, 1.0]
    """
    return _scale(1 / mass, x) if mass.ndim == 1 else linear.solve_positive(_symmetric(mass), x)


def root(mass):
    """L with M = L L^T: (d,) square roots of the diagonal, or the (d, d) lower Cholesky factor.

    Example:
        >>> root(jnp.array([4.0, 9.0])).tolist()
        [2.0, 3.0]
    """
    return jnp.sqrt(mass) if mass.ndim == 1 else linear.cholesky(_symmetric(mass))


def whiten(root_of_mass, x):
    """L^-1 x, so that |L^-1 x| is the length of the covector x in the metric M^-1.

    Args:
        root_of_mass: L, as `root` returns it.
        x: (d,) or (d, k).

    Example:
        >>> whiten(root(jnp.array([4.0, 9.0])), jnp.array([2.0, 9.0])).tolist()
        [1.0, 3.0]
    """
    if root_of_mass.ndim == 1:
        return _scale(1 / root_of_mass, x)
    return linear.solve_lower(root_of_mass, x)


def unwhiten(root_of_mass, x):
    """L^-T x, so that unwhiten(L, whiten(L, x)) = M^-1 x.

    Args:
        root_of_mass: L, as `root` returns it.
        x: (d,) or (d, k).

    Example:
        >>> unwhiten(root(jnp.array([4.0, 9.0])), jnp.array([2.0, 9.0])).tolist()
        [1.0, 3.0]
    """
    if root_of_mass.ndim == 1:
        return _scale(1 / root_of_mass, x)
    return linear.solve_lower(root_of_mass, x, transposed=True)


def _symmetric(mass):
    return (mass + mass.T) / 2


def _scale(diagonal, x):
    return (diagonal if x.ndim == 1 else diagonal[:, None]) * x
