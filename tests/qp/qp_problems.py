"""Projections whose solution is known, the conditions that every solution must meet, and tables of them.

A table is a dict of rows of one shape, {name: (problem, ..., tangents, cotangent)}: the lanes of one compiled program.
"""

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact import qp
from diffcontact.numerics.compilation import _knows

_LEVEL = {"xla_backend_optimization_level": 1}
# Of central differences: their error is its square, and rounding over it.
STEP = 1e-6


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


def degenerate(rng, count, dimension, decades):
    """A projection and its solution; lengths of rows and masses spread over `decades`. Its rows are of these kinds::

    pressing    value 0 at the solution, multiplier > 0
    tied        value 0, multiplier 0
    redundant   a positive combination of pressing rows, value 0, multiplier 0
    pinched     the negative of a pressing row: together they are an equality
    idle        value > 0
    off         b = +inf
    """
    pressing = rng.integers(0, dimension + 1)
    tied = rng.integers(0, dimension - pressing + 1)
    redundant, pinched, off = (
        rng.integers(0, 4) * (pressing > 0),
        rng.integers(0, min(pressing, 3) + 1),
        rng.integers(3),
    )
    mass, u = 10 ** rng.uniform(-decades / 2, decades / 2, dimension), rng.normal(size=dimension)
    rotation = np.linalg.qr(rng.normal(size=(dimension, dimension)))[0]
    close = ((rotation + 0.1 * rng.uniform(-1, 1, rotation.shape)) * np.sqrt(mass))[: pressing + tied]
    sums = rng.uniform(0.1, 1, (redundant, pressing)) @ close[:pressing]
    closed = np.concatenate([close, sums, -close[:pinched]])
    idle = rng.normal(size=(count - len(closed), dimension)) * np.sqrt(mass)
    G, room = np.concatenate([closed, idle]), np.zeros(count)
    room[len(closed) :] = rng.uniform(0.1, 1, len(idle))
    v = u - G[:pressing].T @ rng.uniform(0.5, 1, pressing) / mass
    b = room - G @ u
    b[count - off :] = np.inf
    order, length = rng.permutation(count), 10 ** rng.uniform(-decades / 2, decades / 2, count)
    return (mass, (G * length[:, None])[order], (b * length)[order], v), u


def padded(mass, G, b, v, count, dimension):
    """The same problem with rows that are off and components that no row moves."""
    G = np.asarray(G, float)
    more, wider = count - G.shape[0], dimension - G.shape[1]
    return (
        np.pad(np.asarray(mass, float), (0, wider), constant_values=1.0),
        np.pad(G, ((0, more), (0, wider))),
        np.pad(np.asarray(b, float), (0, more), constant_values=np.inf),
        np.pad(np.asarray(v, float), (0, wider)),
    )


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


def derivatives(flat):
    """The program of a table: flat(problem, *more) returns a vector and what else is found.

    Returns:
        (problem, more, tangents, cotangent) -> what else is found, the vector, its tangent, the problem's cotangents.
    """

    def one(problem, more, tangents, cotangent):
        value, along, found = jax.linearize(lambda *problem: flat(problem, *more), *problem, has_aux=True)
        return found, value, along(*tangents), jax.linear_transpose(along, *problem)(cotangent)

    return one


def projected_and_held(problem, active):
    """u and the multipliers of `project` and of `hold` in one vector, and both results."""
    both = qp.project(*problem), qp.hold(*problem, active)
    return jnp.concatenate([x for found in both for x in (found.u, found.multipliers)]), both


def moved(problem, tangents, step):
    return tuple(x + step * y for x, y in zip(problem, tangents, strict=True))


def run(program, rows, dtype=None):
    """{name: what the program makes of the row}: the rows are lanes of one call."""
    given = jax.tree.map(lambda *x: np.stack(x), *rows.values())
    if dtype is not None:
        given = jax.tree.map(lambda x: x.astype(dtype) if x.dtype == float else x, given)
    found = jax.tree.map(np.asarray, program(*given))
    return {name: jax.tree.map(lambda x, i=i: x[i], found) for i, name in enumerate(rows)}


def with_neighbours(rows):
    """The rows, and those a step to either side along their tangents: what central differences need."""
    neighbours = {
        f"{name} {sign:+d}": (moved(problem, tangents, sign * STEP), more, tangents, cotangent)
        for name, (problem, more, tangents, cotangent) in rows.items()
        for sign in (-1, 1)
    }
    return rows | neighbours


def assert_transposed(rows, found, name, within=1e-12):
    """Forward and reverse mode are finite, and one is the transpose of the other, as far as their terms are known."""
    _, _, tangents, cotangent = rows[name]
    _, _, forward, backward = found[name]
    terms = np.concatenate([np.ravel(x * y) for x, y in zip(backward, tangents, strict=True)])
    across = cotangent * forward
    assert np.all(np.isfinite(terms)), name
    assert np.all(np.isfinite(across)), name
    size = np.sum(np.abs(terms)) + np.sum(np.abs(across))
    np.testing.assert_allclose(np.sum(terms), np.sum(across), atol=within * size, err_msg=name)


def assert_differences(found, name, within=1e-6):
    """The tangent of a row is the central difference between its neighbours, relative to the largest entry."""
    forward, (low, high) = found[name][2], (found[f"{name} {sign:+d}"][1] for sign in (-1, 1))
    difference = (high - low) / (2 * STEP)
    np.testing.assert_allclose(forward, difference, atol=within * (1 + np.abs(difference).max()), err_msg=name)
