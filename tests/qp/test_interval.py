"""A projection of one coordinate, in closed form: values, derivatives, and what is no number."""

import jax
import numpy as np
import pytest
from qp_problems import derivatives, projected_and_held, run

from diffcontact.status import Status

LANES, ROWS = 400, 6


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


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    problem = _problems(rng)
    tangents = tuple(rng.normal(size=x.shape) * np.isfinite(x) for x in problem)
    active = (np.arange(ROWS) == rng.integers(0, ROWS, (LANES, 1))) & np.isfinite(problem[2])
    cotangents = rng.normal(size=(LANES, 2 * (1 + ROWS)))
    lanes = zip(zip(*problem, strict=True), active, zip(*tangents, strict=True), cotangents, strict=True)
    rows = {str(i): (one, (held,), along, back) for i, (one, held, along, back) in enumerate(lanes)}
    one, row, none = np.ones(1), np.ones((ROWS, 1)), np.zeros(ROWS)
    row[1] = -1.0

    def special(name, b, v, G=row):
        b = np.concatenate([b, np.full(ROWS - 2, np.inf)])
        rows[name] = (one, G, b, np.array([v])), (none > 0,), (0 * one, 0 * row, none, 0 * one), cotangents[0]

    special("nan", [np.nan, 1.0], 1.0)
    special("nowhere", [1.0, 1.0], np.nan)
    special("-inf", [-np.inf, 1.0], 0.0)
    special("off", [np.inf, 5.0], 9.0, np.where(np.arange(ROWS)[:, None] == 0, np.nan, row))
    found = run(jax.jit(jax.vmap(derivatives(projected_and_held))), rows)
    return (
        problem,
        active,
        tangents,
        jax.tree.map(lambda *x: np.stack(x), *(found[str(i)] for i in range(LANES))),
        found,
    )


def test_the_interval_is_found(table):
    (mass, G, b, v), _, _, ((found, _), *_), _ = table
    expected = np.array([_least_violating(*lane) for lane in zip(G[:, :, 0], b, v[:, 0], strict=True)])
    feasible = np.arange(LANES) % 2 == 0
    np.testing.assert_array_equal(found.status[feasible], Status.OK)
    assert LANES / 20 < np.sum(found.status == Status.INFEASIBLE) < LANES / 2
    # Rounding of numbers of size ten; where rows contradict each other, of weights that differ by 10^12, of which the
    # smallest are cut where they are rounding (see `_ScaledRows.softness`).
    np.testing.assert_allclose(found.u[feasible, 0], expected[feasible], atol=1e-13)
    np.testing.assert_allclose(found.u[:, 0], expected, atol=1e-9)
    force = np.sum(G[:, :, 0] * found.multipliers, axis=1)
    np.testing.assert_allclose(mass[:, 0] * (found.u - v)[:, 0], force, rtol=1e-12, atol=1e-12)
    assert np.all(np.sum(found.active, axis=1) <= 1)


def test_derivatives(table):
    """u moves with the row that pushes, u = -b/G, or with v; of the row that is held likewise."""
    (_, G, b, v), asked, (_, dG, db, dv), ((projected, held), _, forward, backward), _ = table
    for found, along, active in (
        (projected, forward[:, 0], projected.active),
        (held, forward[:, 1 + ROWS], asked & (G[:, :, 0] != 0)),
    ):
        np.testing.assert_array_equal(found.active, active)
        row, by_row = np.argmax(active, axis=1)[:, None], np.any(active, axis=1)
        g, dg, o, do = (np.take_along_axis(x, row, 1)[:, 0] for x in (G[:, :, 0], dG[:, :, 0], b, db))
        with np.errstate(all="ignore"):
            expected, there = np.where(by_row, o * dg / g**2 - do / g, dv[:, 0]), np.where(by_row, -o / g, v[:, 0])
        fine = found.status == Status.OK
        assert np.sum(fine & by_row) > LANES / 10
        np.testing.assert_allclose(found.u[fine, 0], there[fine], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(along[fine], expected[fine], rtol=1e-9, atol=1e-9)
    assert all(np.all(np.isfinite(x)) for x in (forward, *backward))


@pytest.mark.parametrize("name", ["nan", "nowhere", "-inf", "off"])
def test_what_is_no_number_is_told_and_what_is_off_not_read(table, name):
    (found, _), *_ = table[-1][name]
    assert (found.status == Status.OK) == (name == "off")
    assert name != "off" or found.u == 5.0
