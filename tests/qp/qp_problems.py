"""Projections built backwards from a chosen solution, and the optimality conditions that every solution must meet."""

import jax
import numpy as np

from diffcontact.compilation import _knows

_LEVEL = {"xla_backend_optimization_level": 1}


def optimised(function):
    """`jax.jit` as users have it, not as the tests' flags do.

    Without optimisation rounding differs from processor to processor, and on some the search takes one stored problem
    of s32, whose rows are nearly dependent, for infeasible.
    """
    return jax.jit(function, compiler_options=_LEVEL if _knows(_LEVEL) else None)


def backwards(rng, count, dimension, active, *, full=False, redundant=0, masses=1.0):
    """A projection whose solution is known: `active` rows push on it, the others have room to spare.

    The first `redundant` active rows are repeated as the last rows, so that multipliers are not unique but u is.
    masses: ratio of the largest to the smallest mass.

    Returns:
        (mass, G, b, v), u
    """
    G = rng.normal(size=(count, dimension))
    u = rng.normal(size=dimension)
    multipliers = np.zeros(count)
    multipliers[:active] = rng.uniform(0.5, 1.0, active)
    room = np.where(multipliers > 0, 0.0, rng.uniform(0.5, 1.0, count))
    if redundant:
        G[-redundant:], room[-redundant:] = G[:redundant], 0.0
    diagonal = masses ** rng.uniform(-0.5, 0.5, dimension)
    if full:
        rotation = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
        mass = rotation @ np.diag(diagonal) @ rotation.T
        mass = (mass + mass.T) / 2
        v = u - np.linalg.solve(mass, G.T @ multipliers)
    else:
        mass, v = diagonal, u - G.T @ multipliers / diagonal
    return (mass, G, room - G @ u, v), u


def optimality(problem, solution):
    """The largest violation of the optimality conditions, in the unit of each condition's terms."""
    mass, G, b, v = (np.asarray(x, np.float64) for x in problem)
    u, multipliers = np.asarray(solution.u, np.float64), np.asarray(solution.multipliers, np.float64)
    on = np.isfinite(b)
    value = G[on] @ u + b[on]
    weight = np.diag(mass) if mass.ndim == 1 else mass
    stationarity = weight @ (u - v) - G.T @ multipliers
    size = 1 + np.abs(weight @ (u - v)).max()
    return max(
        -value.min(initial=0) / (1 + np.abs(u).max()),
        -multipliers.min(initial=0),
        np.abs(stationarity).max() / size,
        np.abs(value * multipliers[on]).max(initial=0) / size,
    )
