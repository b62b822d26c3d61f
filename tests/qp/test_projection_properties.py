"""Properties of `qp.project` on random problems whose solution is known by construction.

Every problem has C rows of D components, so that a few compiled programs serve them all; its rows are of these kinds::

    pressing    value 0 at the solution, multiplier > 0
    tied        value 0, multiplier 0
    redundant   a positive combination of pressing rows, value 0, multiplier 0
    pinched     the negative of a pressing row: together they are an equality
    idle        value > 0
    off         b = +inf

Lengths of rows and masses spread over four decades each.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from qp_problems import optimality

from diffcontact import qp
from diffcontact.status import Status

C, D = 16, 6
project = jax.jit(qp.project)


@jax.jit
def both_modes(problem, tangents, cotangent):
    def flat(*problem):
        found = qp.project(*problem)
        return jnp.concatenate([found.u, found.multipliers])

    _, forward = jax.jvp(flat, problem, tangents)
    return forward, jax.vjp(flat, *problem)[1](cotangent)


@st.composite
def kinds(draw):
    """How many rows there are of each kind; pressing and tied rows are at most D, so that they can be independent."""
    pressing = draw(st.integers(0, D))
    tied = draw(st.integers(0, D - pressing))
    redundant = draw(st.integers(0, 3)) if pressing else 0
    pinched = draw(st.integers(0, min(pressing, 3)))
    off = draw(st.integers(0, 2))
    return pressing, tied, redundant, pinched, off


def _directions(rng, mass):
    """(D, D) well conditioned rows, of about unit length in the metric M^-1."""
    rotation = np.linalg.qr(rng.normal(size=(D, D)))[0]
    return (rotation + 0.1 * rng.uniform(-1, 1, (D, D))) * np.sqrt(mass)


def _built(seed, kinds, spread):
    """A feasible problem and its solution; `spread` is the decades that masses and lengths of rows cover."""
    rng = np.random.default_rng(seed)
    pressing, tied, redundant, pinched, off = kinds
    mass = 10 ** rng.uniform(-spread / 2, spread / 2, D)
    u = rng.normal(size=D)
    close = _directions(rng, mass)[: pressing + tied]
    closed = np.concatenate(
        [close, rng.uniform(0.1, 1, (redundant, pressing)) @ close[:pressing], -close[: min(pinched, pressing)]]
    )
    idle = rng.normal(size=(C - len(closed), D)) * np.sqrt(mass)
    G, room = np.concatenate([closed, idle]), np.zeros(C)
    room[len(closed) :] = rng.uniform(0.1, 1, len(idle))
    multipliers = np.where(np.arange(C) < pressing, rng.uniform(0.5, 1, C), 0)
    v = u - G.T @ multipliers / mass
    b = room - G @ u
    b[len(b) - off :] = np.inf
    order = rng.permutation(C)
    length = 10 ** rng.uniform(-spread / 2, spread / 2, C)
    return (mass, (G * length[:, None])[order], (b * length)[order], v), u


def _size(mass, v, u):
    """The unit in which u is measured: the masses weigh what has to be moved."""
    return (1 + np.sqrt(mass) @ np.abs(v - u)) / np.sqrt(mass)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**31), kinds())
def test_the_solution_is_found(seed, kinds):
    problem, u = _built(seed, kinds, 4)
    found = project(*problem)
    assert int(found.status) == Status.OK
    assert np.sum(found.active) <= D
    assert np.all(found.multipliers >= 0)
    # Some hundreds of roundings; the rows in the working set may be tied ones.
    assert np.max(np.abs(found.u - u) / _size(problem[0], problem[3], u)) < 1e-12
    assert optimality(problem, found) < 1e-12


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**31), kinds())
def test_in_single_precision(seed, kinds):
    problem, u = _built(seed, kinds, 2)
    single = tuple(x.astype(np.float32) for x in problem)
    found = project(*single)
    assert found.u.dtype == jnp.float32
    assert int(found.status) == Status.OK
    # A thousand roundings.
    assert np.max(np.abs(found.u - u) / _size(problem[0], problem[3], u)) < 1e-4


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31), kinds())
def test_both_modes_agree_at_ties_too(seed, kinds):
    """Where a derivative exists and where it does not: finite, and one is the transpose of the other."""
    problem, _ = _built(seed, kinds, 1)
    rng = np.random.default_rng(seed)
    tangents = tuple(rng.normal(size=x.shape) for x in problem)
    cotangent = rng.normal(size=D + C)
    forward, backward = both_modes(problem, tangents, cotangent)
    terms = np.concatenate([np.ravel(x * y) for x, y in zip(backward, tangents, strict=True)])
    assert np.all(np.isfinite(forward))
    assert np.all(np.isfinite(terms))
    np.testing.assert_allclose(np.sum(terms), cotangent @ forward, atol=1e-12 * np.sum(np.abs(terms)))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), pressing=st.integers(1, D), opposed=st.integers(1, D))
def test_contradicting_rows_are_relaxed_least(dtype, seed, pressing, opposed):
    """The rows G_k of a set K and -sum y_k G_k, y > 0, all want more than they can have.

    The violations r of least sum of squares are the positive combinations of G_K and the row against them that vanish,
    G^T r = 0, so r is proportional to (y, 1).
    """
    rng = np.random.default_rng(seed)
    opposed = min(opposed, pressing)
    mass, u = 10 ** rng.uniform(-0.5, 0.5, D), rng.normal(size=D)
    closed = _directions(rng, mass)[:pressing]
    weights = rng.uniform(0.3, 1, opposed)
    against = -weights @ closed[:opposed]
    idle = rng.normal(size=(C - pressing - 1, D))
    G = np.concatenate([closed, against[None], idle])
    value = np.concatenate([np.zeros(pressing + 1), rng.uniform(0.1, 1, len(idle))])
    violation = np.zeros(C)
    violation[:opposed], violation[pressing] = weights, 1.0
    violation *= rng.uniform(0.1, 1)
    multipliers = np.where(np.arange(C) < pressing, rng.uniform(0.5, 1, C), 0)
    v = u - G.T @ multipliers / mass
    order = rng.permutation(C)
    problem = (mass, G[order], (value - violation - G @ u)[order], v)
    found = project(*(x.astype(dtype) for x in problem))
    assert int(found.status) == Status.INFEASIBLE
    # Each step to the least violation is exact to a rounding over the weight of the violation, eps^(1/4), times the
    # condition of the rows against each other.
    np.testing.assert_allclose(found.u, u, atol=1000 * np.finfo(dtype).eps ** 0.75)


def test_a_lane_without_rows_beside_one_that_searches():
    """Rows that are all switched off contradict nothing, whatever the other lanes of the batch look for."""
    mass, G, b, v = _built(0, (4, 0, 0, 0, 0), 1)[0]
    off = np.full(C, np.inf)
    together = jax.jit(jax.vmap(qp.project, (None, None, 0, None)))(mass, G, np.stack([off, b]), v)
    assert together.status.tolist() == [Status.OK, Status.OK]
    np.testing.assert_array_equal(together.u[0], v)
    assert np.sum(together.active[1]) == 4
