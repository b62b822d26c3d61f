"""Status 0 means right: problems whose solution is known exactly, in both ways to find the working set."""

import jax
import numpy as np
import pytest
from exact_problems import contradiction, equalities, nearly_dependent, size, stacked

from diffcontact import qp
from diffcontact.qp import native
from diffcontact.status import Status

C, D, SMALL = 16, 6, 200


@pytest.fixture(params=["jax", "native"])
def solve(request, monkeypatch):
    """(problem, solution) -> the errors of u, and the statuses."""
    if request.param == "native":
        pytest.importorskip("numba")
    monkeypatch.setenv(native.VARIABLE, request.param)
    project = {"jax": _in_jax, "native": _by_kernel}[request.param]

    def solved(problem, u, dtype=np.float64):
        found = project(*(x.astype(dtype) for x in problem))
        return np.max(np.abs(found.u - u) / size(problem, u), axis=1), np.asarray(found.status)

    return solved


# One compiled program each: what is chosen is decided when they are traced.
@jax.jit
def _in_jax(*problem):
    return jax.lax.map(lambda one: qp.project(*one), problem, batch_size=16)


@jax.jit
def _by_kernel(*problem):
    return jax.vmap(qp.project)(*problem)


def _many(make, lanes, *arguments, **options):
    rng = np.random.default_rng(0)
    return stacked([make(rng, C, D, *arguments, **options) for _ in range(lanes)])


@pytest.mark.parametrize("decades", [0, 10])
def test_equalities_as_opposite_rows(solve, decades):
    error, status = solve(*_many(equalities, SMALL, decades=decades))
    assert not np.any(status)
    # Some hundreds of roundings, of rows whose own condition is not bounded.
    assert np.max(error) < 1e-12


def test_equalities_as_opposite_rows_in_single_precision(solve):
    error, status = solve(*_many(equalities, SMALL, digits=4), np.float32)
    assert not np.any(status)
    assert np.max(error) < 1e-4


@pytest.mark.parametrize("violation", [1.0, 2.0**-10, 2.0**-30])
def test_the_least_violation(solve, violation):
    error, status = solve(*_many(contradiction, SMALL, violation))
    assert np.all(status == Status.INFEASIBLE)
    # The conflict's own condition multiplies some hundreds of roundings.
    assert np.max(error) < 1e-9
    assert np.median(error) < 1e-14


def test_a_violation_that_rounding_explains(solve):
    """Right in the sense of the least violation, whatever the status."""
    error, status = solve(*_many(contradiction, SMALL, 2.0**-46))
    assert not np.any(status)
    assert np.max(error) < 1e-11


def _nearly_dependent(solve, lanes):
    """Worst error with status 0 and share of status 0, for angles from 1e-3 to 1e-9."""
    for angle in 2.0 ** -np.array([10, 13, 17, 20, 22, 24, 27, 30]):
        for sign in (-1, 1):
            error, status = solve(*_many(nearly_dependent, lanes, angle, sign))
            right = status == Status.OK
            yield angle, sign, np.max(error[right]), np.mean(right)


def test_rows_at_a_small_angle(solve):
    """A hundred roundings of a row's value, where that is what decides, are that over the angle in u.

    Rows at an angle of 5e-7 or less count as dependent, and of two such rows one is not asked: at most the angle.
    """
    for angle, sign, error, right in _nearly_dependent(solve, SMALL):
        assert error < 2e-6, (angle, sign)
        assert right > 0.7, (angle, sign)


@pytest.mark.parametrize("count", [1, 3])
def test_numbers_that_are_none(solve, count):
    """A row that is not finite has a status, whatever the others say; one that is off is not read."""
    mass, G, b, v = np.ones((1, 2)), np.ones((1, count, 2)), np.full((1, count), 5.0), np.ones((1, 2))
    wrong = G.copy()
    wrong[0, 0, 0] = np.nan
    assert solve((mass, wrong, b, v), v)[1] == Status.ILL_CONDITIONED
    for offset in (np.nan, -np.inf):
        assert solve((mass, G, np.where(np.arange(count) == 0, offset, b), v), v)[1] == Status.ILL_CONDITIONED
    off = np.where(np.arange(count) == 0, np.inf, b)
    assert solve((mass, wrong, off, v), v)[1] == Status.OK


@pytest.mark.slow
def test_status_ok_is_right(solve):
    """Twenty thousand problems of all kinds; prints what was found."""
    lanes = 1000
    for name, make, arguments, options in [
        ("equalities", equalities, (), {}),
        ("equalities, badly scaled", equalities, (), {"decades": 10}),
        *((f"contradiction {x:.0e}", contradiction, (x,), {}) for x in 2.0 ** -np.array([0, 20, 36, 40, 44])),
    ]:
        error, status = solve(*_many(make, lanes, *arguments, **options))
        right = status == Status.OK
        print(f"{name}: {np.mean(right):.1%} status 0, worst {np.max(error, where=right, initial=0):.1e}")
        print(f"    others: worst {np.max(error, where=~right, initial=0):.1e}")
        assert np.max(error, where=right, initial=0) < 1e-11
    for angle, sign, error, right in _nearly_dependent(solve, lanes):
        print(f"angle {angle:.0e} sign {sign}: {right:.1%} status 0, worst {error:.1e}")
        assert error < 2e-6
