"""A projection of one coordinate, in closed form: beside the interval itself, and beside the search of two."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffcontact import qp
from diffcontact.status import Status

LANES, ROWS = 2_000, 6


def _problems(rng):
    """(mass, G, b, v) of one coordinate, rows of sizes 1e-3 to 1e3: a fifth zero, a fifth switched off, half of the
    lanes with a point that all rows allow."""
    shape = LANES, ROWS
    G = rng.choice([-1.0, 1.0], shape) * 10.0 ** rng.uniform(-3, 3, shape)
    G = np.where(rng.uniform(size=shape) < 0.2, 0.0, G)
    place = np.where(np.arange(LANES) % 2 == 0, rng.normal(size=LANES), np.nan)[:, None]
    room = np.abs(G) * rng.uniform(0, 1, shape)
    b = np.where(np.isnan(place), np.abs(G) * rng.normal(size=shape), room - G * np.nan_to_num(place))
    b = np.where(rng.uniform(size=shape) < 0.2, np.inf, b)
    return 10.0 ** rng.uniform(-1, 1, (LANES, 1)), G[:, :, None], b, rng.normal(size=(LANES, 1))


def _beside_another(mass, G, b, v):
    """The same, with a coordinate besides that no row moves."""
    one = np.ones((LANES, 1))
    return np.hstack([mass, one]), np.concatenate([G, 0 * G], axis=2), b, np.hstack([v, one])


def _least_violating(G, b, v):
    """The u of one lane: nearest to v in the interval, or of least sum of squares of what rows miss."""
    on = (G != 0) & (b < np.inf)
    ends, up = -b[on] / G[on], G[on] > 0
    low, high = ends[up].max(initial=-np.inf), ends[~up].min(initial=np.inf)
    if low <= high:
        return np.clip(v, low, high)
    # The slope of the sum rises from end to end, straight in between.
    places = np.sort(ends)
    slopes = np.array([np.sum(G[on] * np.minimum(G[on] * x + b[on], 0)) for x in places])
    return np.interp(0.0, slopes, places)


solve = jax.jit(jax.vmap(qp.project))


def test_the_interval_is_found(rng):
    mass, G, b, v = problems = _problems(rng)
    found = solve(*problems)
    expected = np.array([_least_violating(*lane) for lane in zip(G[:, :, 0], b, v[:, 0], strict=True)])
    feasible = np.arange(LANES) % 2 == 0
    np.testing.assert_array_equal(found.status[feasible], Status.OK)
    assert 100 < np.sum(found.status == Status.INFEASIBLE) < LANES / 2
    # Rounding of numbers of size ten; where rows contradict each other, of weights that differ by 10^12, of which the
    # smallest are cut where they are rounding (see `_ScaledRows.softness`).
    np.testing.assert_allclose(found.u[feasible, 0], expected[feasible], atol=1e-13)
    np.testing.assert_allclose(found.u[:, 0], expected, atol=1e-9)
    force = np.sum(G[:, :, 0] * np.asarray(found.multipliers), axis=1)
    np.testing.assert_allclose(mass[:, 0] * (found.u - v)[:, 0], force, rtol=1e-12, atol=1e-12)
    assert np.all(np.sum(found.active, axis=1) <= 1)


def test_as_the_search_finds_it(rng):
    problems = _problems(rng)
    alone, beside = solve(*problems), solve(*_beside_another(*problems))
    np.testing.assert_array_equal(alone.status, beside.status)
    fine = alone.status == Status.OK
    np.testing.assert_array_equal(alone.active[fine], beside.active[fine])
    np.testing.assert_allclose(alone.u[fine, 0], beside.u[fine, 0], atol=1e-13)
    np.testing.assert_allclose(alone.multipliers[fine], beside.multipliers[fine], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("solver", ["project", "hold"])
def test_derivatives_as_beside_another(rng, solver):
    problems, along = _problems(rng), _problems(rng)
    along = [np.where(np.isfinite(x), x, 0.0) for x in along]
    # One row: of several the first is held, which rounding decides among rows of two coordinates.
    active = np.arange(ROWS) == rng.integers(0, ROWS, (LANES, 1))

    def moved(problems, along):
        off = problems[2] == np.inf
        held = (active & ~off,) if solver == "hold" else ()
        along = along[0], along[1], np.where(off, 0.0, along[2]), along[3]
        solved = jax.vmap(lambda *given: getattr(qp, solver)(*given[:4], *given[4:]).u)
        return jax.jvp(lambda *given: solved(*given, *held), problems, along)[1]

    still = np.zeros((LANES, 1))
    beside = along[0] * [1, 0], np.concatenate([along[1], 0 * along[1]], axis=2), along[2], np.hstack([along[3], still])
    alone, beside = moved(problems, tuple(along)), moved(_beside_another(*problems), beside)
    fine = np.asarray(solve(*problems).status) == Status.OK
    scale = 1 + np.abs(alone)
    np.testing.assert_allclose((alone / scale)[fine, 0], (beside[:, :1] / scale)[fine, 0], atol=1e-11)


def test_what_is_no_number_is_told():
    row, one = jnp.array([[1.0], [-1.0]]), jnp.ones(1)
    for b, v in (([jnp.nan, 1.0], 1.0), ([1.0, 1.0], jnp.nan), ([-jnp.inf, 1.0], 0.0)):
        found = qp.project(one, row, jnp.array(b), v * one)
        assert found.status != Status.OK


def test_a_row_that_is_off_is_not_read():
    for count in (1, 3):
        G, b = jnp.ones((count, 1)).at[0].set(jnp.nan), jnp.full(count, 5.0).at[0].set(jnp.inf)
        found = qp.project(jnp.ones(1), G, b, -9.0 * jnp.ones(1))
        assert found.status == Status.OK
        assert found.u == (-9.0 if count == 1 else -5.0)
