"""Derivatives of `qp.project` and `qp.hold`: both modes, second order, in every argument, and at ties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from qp_problems import backwards

from diffcontact import qp
from diffcontact.qp import native
from diffcontact.status import Status

ALL = (0, 1, 2, 3)


def _flat(*problem):
    """u and the multipliers as one vector (18,)."""
    found = qp.project(*problem)
    return jnp.concatenate([found.u, found.multipliers])


def _curved(*problem):
    return jnp.sum(jnp.sin(_flat(*problem)))


def _tangents(rng, problem):
    tangents = tuple(rng.normal(size=x.shape) for x in problem)
    mass = tangents[0]
    return ((mass if mass.ndim == 1 else mass + mass.T), *tangents[1:])


def _moved(problem, tangents, step):
    return tuple(x + step * y for x, y in zip(problem, tangents, strict=True))


@jax.jit
def _first_order(problem, tangents, cotangent):
    value, forward = jax.jvp(_flat, problem, tangents)
    _, pull = jax.vjp(_flat, *problem)
    return value, forward, pull(cotangent)


@jax.jit
def _second_order(problem, tangents):
    return jax.jvp(jax.grad(_curved, ALL), problem, tangents)


@pytest.mark.parametrize("full", [False, True])
def test_first_order(rng, full):
    # The other rows keep 0.5 away and the active ones push with 0.5: no tie is near.
    problem, _ = backwards(rng, 12, 6, 4, full=full)
    tangents = _tangents(rng, problem)
    cotangent = rng.normal(size=18)
    _, forward, backward = _first_order(problem, tangents, cotangent)
    step = 1e-6
    central = [_first_order(_moved(problem, tangents, s), tangents, cotangent)[0] for s in (step, -step)]
    # Central differences: step^2 of curvature and eps/step of rounding.
    np.testing.assert_allclose(forward, (central[0] - central[1]) / (2 * step), atol=1e-6 * np.abs(forward).max())
    through = sum(np.sum(x * y) for x, y in zip(backward, tangents, strict=True))
    np.testing.assert_allclose(through, cotangent @ forward, rtol=1e-12)


def test_second_order(rng):
    problem, _ = backwards(rng, 12, 6, 4)
    tangents = _tangents(rng, problem)
    _, along = _second_order(problem, tangents)
    step = 1e-5
    up, down = (_second_order(_moved(problem, tangents, s), tangents)[0] for s in (step, -step))
    for exact, high, low in zip(along, up, down, strict=True):
        np.testing.assert_allclose(exact, (high - low) / (2 * step), atol=1e-5 * (1 + np.abs(exact).max()))


@pytest.mark.parametrize("method", ["project", "hold"])
def test_a_loop_has_the_second_derivatives_of_its_parts(method, rng):
    """Rows that a loop's problems share: reverse mode parts what varies in it from what does not."""
    (mass, G, b, v), _ = backwards(rng, 6, 3, 2)
    problem, shares = (mass, G, b, v), jnp.array([1.0, 1.001])
    tangents = _tangents(rng, problem)
    find = qp.project if method == "project" else lambda *problem: qp.hold(*problem, np.arange(6) < 2)

    def curved(share, mass, G, b, v):
        return jnp.sum(jnp.sin(find(mass, G, b, share * v).u))

    def looped(*problem):
        return jnp.sum(jax.lax.map(lambda share: curved(share, *problem), shares))

    def apart(*problem):
        return curved(shares[0], *problem) + curved(shares[1], *problem)

    found, expected = jax.jit(lambda *at: [jax.jvp(jax.grad(loss, ALL), at, tangents)[1] for loss in (looped, apart)])(
        *problem
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12 * (1 + np.abs(other).max()))


def test_jacobians_agree_through_a_scan(rng):
    """Two projections in a row, as a simulation strings them, in both modes and under vmap."""
    (mass, G, b, v), _ = backwards(rng, 6, 3, 2)

    def simulate(v):
        def step(u, _):
            return qp.project(mass, G, b, u - 0.1).u, None

        return jax.lax.scan(step, v, None, length=2)[0]

    many = np.stack([v, v + 0.1])
    forward, backward = jax.jit(lambda x: (jax.vmap(jax.jacfwd(simulate))(x), jax.vmap(jax.jacrev(simulate))(x)))(many)
    np.testing.assert_allclose(forward, backward, atol=1e-14)


def test_a_tie_follows_the_working_set():
    """v = (0, -1) touches x >= 0 without pushing on it: the row is not in the working set, so u moves with v there."""
    problem = (jnp.ones(2), jnp.eye(2), jnp.zeros(2), jnp.array([0.0, -1.0]))
    found = qp.project(*problem)
    assert found.active.tolist() == [False, True]
    jacobian = jax.jacfwd(lambda v: qp.project(*problem[:3], v).u)(problem[3])
    np.testing.assert_allclose(jacobian, np.diag([1.0, 0.0]), atol=1e-15)


def test_switched_off_rows_have_no_derivative(rng):
    (mass, G, b, v), _ = backwards(rng, 6, 3, 2)
    b = np.where(np.arange(6) < 3, b, np.inf)
    gradient = jax.jit(jax.grad(lambda *x: jnp.sum(qp.project(*x).u ** 2), ALL))(mass, G, b, v)
    assert all(np.all(np.isfinite(x)) for x in gradient)
    assert not np.any(gradient[1][3:])
    assert not np.any(gradient[2][3:])


def test_hold_is_the_projection_onto_its_rows(rng):
    (mass, G, b, v), _ = backwards(rng, 12, 6, 4)
    active = np.arange(12) < 3
    held = jax.jit(qp.hold)(mass, G, b, v, active)
    np.testing.assert_allclose((G @ held.u + b)[:3], 0, atol=1e-13)
    np.testing.assert_allclose(mass * (held.u - v), G.T @ held.multipliers, atol=1e-13)
    assert np.array_equal(held.active, active)
    assert np.min(qp.hold(mass, G, b, v + 100 * G[0], active).multipliers) < 0


def test_hold_takes_dependent_rows_once(rng):
    (mass, G, b, v), _ = backwards(rng, 12, 6, 4)
    G[1:3], b[1:3] = G[0], b[0]
    for active in (np.arange(12) < 4, np.ones(12, bool)):
        held = jax.jit(qp.hold)(mass, G, b, v, active)
        assert np.sum(held.active) == min(6, np.linalg.matrix_rank(G[active]))
        np.testing.assert_allclose((G @ held.u + b)[np.asarray(held.active)], 0, atol=1e-11)
    gradient = jax.grad(lambda *x: jnp.sum(qp.hold(*x, active).u), ALL)(mass, G, b, v)
    assert all(np.all(np.isfinite(x)) for x in gradient)


@pytest.mark.parametrize("kernel", native.CHOICES)
@pytest.mark.parametrize(
    ("mass", "b", "active", "status"),
    [
        # The second row is the first one twice over, the third is zero: what is not held must agree with what is.
        ([1.0, 1.0], [1.0, 2.0, 0.0, 1.0], [1, 1, 1, 1], Status.OK),
        ([1.0, 1.0], [1.0, 3.0, 0.0, 1.0], [1, 1, 0, 1], Status.INFEASIBLE),
        ([1.0, 1.0], [1.0, 2.0, 1.0, 1.0], [1, 0, 1, 0], Status.INFEASIBLE),
        ([1.0, 1.0], [np.nan, 2.0, 0.0, 1.0], [1, 0, 0, 1], Status.NOT_FINITE),
        ([1.0, 1.0], [1.0, 2.0, 0.0, np.inf], [1, 0, 0, 1], Status.NOT_FINITE),
        ([1.0, 1.0], [1.0, np.nan, np.inf, 1.0], [1, 0, 0, 1], Status.OK),
        ([-1.0, 1.0], [1.0, 2.0, 0.0, 1.0], [1, 0, 0, 1], Status.ILL_CONDITIONED),
        ([0.0, 1.0], [1.0, 2.0, 0.0, 1.0], [1, 0, 0, 0], Status.ILL_CONDITIONED),
        ([[1.0, 2.0], [2.0, 1.0]], [1.0, 2.0, 0.0, 1.0], [1, 0, 0, 0], Status.ILL_CONDITIONED),
        # Nothing is held, so that u = v whatever the metric.
        ([-1.0, 1.0], [1.0, 2.0, 0.0, 1.0], [0, 0, 0, 0], Status.OK),
    ],
)
def test_what_became_of_hold_is_told(kernel, mass, b, active, status, monkeypatch):
    if kernel == "native":
        pytest.importorskip("numba")
    monkeypatch.setenv(native.VARIABLE, kernel)
    G, v = jnp.array([[1.0, 1.0], [2.0, 2.0], [0.0, 0.0], [1.0, -1.0]]), jnp.array([3.0, 4.0])
    # What is not asked for is not read.
    G = jnp.where((jnp.array(active) == 0)[:, None], jnp.nan, G)
    held = jax.jit(qp.hold)(jnp.array(mass), G, jnp.array(b), v, jnp.array(active, bool))
    assert Status(int(held.status)) == status


@pytest.mark.parametrize(("mass", "b", "status"), [(1.0, np.nan, 2), (-1.0, 0.0, 6), (1.0, 0.0, 0)])
def test_what_became_of_one_held_row_is_told(mass, b, status):
    held = qp.hold(jnp.array([mass]), jnp.ones((1, 1)), jnp.array([b]), jnp.ones(1), jnp.array([True]))
    assert held.status == status


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_rows_that_can_be_held_are(rng, dtype):
    """Consistent rows of any lengths and masses, some repeated, from points up to a thousand times farther away."""
    lanes, rows, dimension = 300, 8, 5

    def decades(spread, *shape):
        return 10.0 ** rng.uniform(-spread, spread, shape)

    mass, G = decades(1, lanes, dimension), rng.normal(size=(lanes, rows, dimension)) * decades(3, lanes, rows, 1)
    G[:, 1], G[:, 3] = -3 * G[:, 0], G[:, 2]
    b = -np.einsum("nij,nj->ni", G, rng.normal(size=(lanes, dimension)))
    v = rng.normal(size=(lanes, dimension)) * decades(3, lanes, 1)
    problem = [x.astype(dtype) for x in (mass, G, b, v)]
    # The first four rows are two, and all of them are more than there are dimensions.
    hold = jax.jit(jax.vmap(qp.hold, (0, 0, 0, 0, None)))
    for active in (np.arange(rows) < 4, np.ones(rows, bool)):
        assert not np.any(hold(*problem, active).status)


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
