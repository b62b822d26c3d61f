"""Status 0 means right: problems whose solution is known exactly, in both ways to find the working set."""

import jax
import numpy as np
import pytest
from exact_problems import contradiction, equalities, narrow, nearly_dependent, size, stacked

from diffcontact import qp
from diffcontact.qp import kernel as native
from diffcontact.status import Status

pytestmark = pytest.mark.full
C, D = 16, 6


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


@pytest.mark.parametrize("d", [1, 2])
def test_what_single_precision_does_not_tell(solve, d):
    """u >= gap and u <= 0 from v = -1e6, also as one of two coordinates, and what the docstring says of it."""
    gap = np.array([0.0, 10.0, 300.0, 1e3, 1e4])
    ones, down = np.ones((5, d)), np.zeros((5, d))
    G, b = np.zeros((5, 2, d)), np.stack([-gap, 0 * gap], axis=1)
    G[:, 0, 0], G[:, 1, 0], down[:, 0] = 1.0, -1.0, -1e6
    _, status = solve((ones, G, b, down), down, np.float32)
    # 1.5e-5 of the terms and of the largest violation, 15 each.
    assert status[3:].tolist() == [Status.INFEASIBLE] * 2
    assert status[2] != Status.OK
    assert status[1] == status[0] == Status.OK
    _, status = solve((ones, G, b, down), down)
    assert status.tolist() == [Status.OK] + [Status.INFEASIBLE] * 4


def _in_a_bad_metric(rng, decades):
    """Six rows that hold at a known point of three dimensions, masses from 10^-decades to 10^decades."""
    G, u = rng.normal(size=(500, 6, 3)), rng.normal(size=(500, 3))
    b, v = 0.01 - np.einsum("nij,nj->ni", G, u), rng.normal(size=(500, 3))
    return 10.0 ** rng.uniform(-decades, decades, (500, 3)), G, b, v


def test_a_metric_that_spoils_the_solution_is_no_contradiction(solve, rng):
    problem = _in_a_bad_metric(rng, 6)
    status = solve(problem, problem[3])[1]
    assert set(status) == {Status.OK, Status.ILL_CONDITIONED}
    assert np.mean(status == Status.OK) > 0.9


def test_contradictions_in_a_fair_metric_are_told_as_such(solve, rng):
    """One more row, the opposite of a sum of two, that wants one more than they leave it."""
    mass, G, b, v = _in_a_bad_metric(rng, 2)
    weights = rng.uniform(0.25, 1, (500, 2))
    G = np.concatenate([G, -np.einsum("ni,nij->nj", weights, G[:, :2])[:, None]], axis=1)
    b = np.concatenate([b, -1 - np.sum(weights * b[:, :2], axis=1, keepdims=True)], axis=1)
    status = solve((mass, G, b, v), v)[1]
    assert np.all(status != Status.OK)
    assert np.mean(status == Status.INFEASIBLE) >= 0.99


def test_rows_that_leave_little_room_in_single_precision(solve):
    """Rows at a small angle that count as dependent miss what decides: with status 0 u was wrong by 0.5 of itself."""
    rng = np.random.default_rng(7)
    problem, _ = stacked([narrow(rng, 20, 10) for _ in range(4000)])
    exact = jax.jit(lambda *double: jax.lax.map(lambda one: qp.project(*one), double, batch_size=16))(
        *(x.astype(np.float64) for x in problem)
    )
    assert not np.any(exact.status)
    error, status = solve(problem, np.asarray(exact.u), np.float32)
    # 1.5e-5 that a row may be missed by, at an angle of 1e-3 that is told from none: 4e-3 of u in the worst case seen.
    assert np.max(error[status == Status.OK]) < 1e-2
    # Those of which single precision loses the rows, one in a hundred, say so.
    assert np.mean(status == Status.OK) > 0.98


def test_rows_that_are_lost_in_a_bad_metric_contradict_nothing(rng):
    """Masses from 1e-3 to 1e3 in single precision: what is missed is told, and not as a contradiction."""
    mass, G = 10.0 ** rng.uniform(-3, 3, (300, 5)), rng.normal(size=(300, 8, 5))
    b, v = -np.einsum("nij,nj->ni", G, rng.normal(size=(300, 5))), 100 * rng.normal(size=(300, 5))
    problem = [x.astype(np.float32) for x in (mass, G, b, v)]
    held = jax.jit(jax.vmap(qp.hold, (0, 0, 0, 0, None)))(*problem, np.ones(8, bool))
    missed = np.max(np.abs(np.einsum("nij,nj->ni", G, held.u) + b), axis=1)
    assert set(np.asarray(held.status)) == {Status.OK, Status.ILL_CONDITIONED}
    assert np.all(held.status[missed > 10] == Status.ILL_CONDITIONED)


@pytest.mark.parametrize("kernel", native.CHOICES)
@pytest.mark.parametrize(("dtype", "angles"), [(np.float64, (1e-2, 1e-3, 1e-4)), (np.float32, (0.1, 0.03, 0.01))])
def test_the_derivative_in_a_wedge_keeps_what_its_condition_leaves(kernel, dtype, angles, rng, monkeypatch):
    """Two rows at a small angle, multipliers as large as its inverse: u = -G^-1 b whatever v, and its derivative."""
    if kernel == "native":
        pytest.importorskip("numba")
    monkeypatch.setenv(native.VARIABLE, kernel)
    # What is chosen is decided where it is traced, and derivatives are traced once for all.
    jax.clear_caches()
    v = np.array([-1.0, 0.1], dtype)
    moved = jax.jit(lambda G, b, dG: jax.jvp(lambda G: qp.project(np.ones(2, dtype), G, b, v), (G,), (dG,)))
    for angle in angles:
        for _ in range(10):
            dG, up, down = rng.normal(size=(2, 2)).astype(dtype), *(1 + 0.1 * rng.normal(size=2))
            G, b = np.array([[angle * up, 1], [angle, -down]], dtype), angle * rng.uniform(-0.3, 0.3, 2).astype(dtype)
            found, tangent = moved(G, b, dG)
            assert found.status == Status.OK
            assert found.active.all()
            inverse = np.linalg.inv(G.astype(float))
            u = -inverse @ b
            du = -inverse @ dG @ u
            # The condition of A_WW is 1/angle^2; so many roundings are lost, and a digit.
            lost = np.finfo(dtype).eps * (8 / angle + angle**-2)
            assert np.max(np.abs(found.u - u)) <= lost * np.max(np.abs(u))
            assert np.max(np.abs(tangent.u - du)) <= lost * np.max(np.abs(du))


KINDS = {"equalities": (equalities, (), {}), "equalities, badly scaled": (equalities, (), {"decades": 10})}
KINDS |= {f"contradiction {x:.0e}": (contradiction, (x,), {}) for x in 2.0 ** -np.array([0, 20, 36, 40, 44, 47])}


@pytest.mark.parametrize("name", KINDS)
def test_status_ok_is_right(solve, name):
    """Also where a violation is one that rounding explains: 2^-47; of twice as large ones a hundredth is told."""
    make, arguments, options = KINDS[name]
    error, status = solve(*_many(make, 1000, *arguments, **options))
    assert np.max(error, where=status == Status.OK, initial=0) < 1e-11
    assert np.mean(status == Status.OK) > 0.995 or "contradiction" in name
    if name.endswith("e+00"):
        # Where the least violation is not found to a few digits, it proves nothing.
        assert np.mean(status == Status.INFEASIBLE) >= 0.98
        # The conflict's own condition multiplies some hundreds of roundings.
        assert np.max(error) < 1e-9


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize("digits", [10, 13, 17, 20, 22, 24, 27, 30])
def test_rows_at_a_small_angle(solve, digits, sign):
    """A hundred roundings of a row's value, where that is what decides, are that over the angle in u.

    Rows at an angle of 5e-7 or less count as dependent, and of two such rows one is not asked: at most the angle.
    """
    error, status = solve(*_many(nearly_dependent, 1000, 2.0**-digits, sign))
    assert np.max(error[status == Status.OK]) < 2e-6
    assert np.mean(status == Status.OK) > 0.7
