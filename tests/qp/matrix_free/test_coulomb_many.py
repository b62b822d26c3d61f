"""Friction at many contacts: against the exact solution, from any start, to the residual it names."""

import jax.numpy as jnp
import numpy as np
import pytest
from problems.friction import residual

from diffcontact import qp
from diffcontact.qp import native
from diffcontact.qp.matrix_free import anderson, coulomb_many
from diffcontact.qp.rows.body_rows import dense
from diffcontact.status import Status


def heap(rng, count=12, k=2, dtype=float):
    """Balls among each other and on the ground, with all components of their velocities: 6 in space, 3 in a plane."""
    dimension, contacts = k + 1, 2 * count
    m = 6 if k == 2 else 3
    bodies = np.array([rng.choice(count, 2, replace=False) for _ in range(contacts)])
    bodies[:count, 0], bodies[:count, 1] = -1, np.arange(count)
    frames = np.stack([np.linalg.qr(rng.normal(size=(dimension, dimension)))[0] for _ in range(contacts)])
    rows = []
    for number in range(dimension):
        direction = frames[:, :, number]
        moment = np.cross(frames[:, :, 0], direction) if k == 2 else (number * np.ones((contacts, 1)))
        sides = np.stack([np.concatenate([-direction, moment], axis=1), np.concatenate([direction, moment], axis=1)], 1)
        rows.append(qp.BodyRows(jnp.asarray(bodies), jnp.asarray(sides[:, :, :m], dtype), count))
    mass = np.repeat(rng.uniform(0.5, 5.0, count), m)
    b = np.where(rng.uniform(size=contacts) < 0.9, rng.uniform(0.0, 0.3, contacts), np.inf)
    s = np.zeros((contacts, k))
    friction, v = rng.uniform(0.0, 0.8, contacts), rng.normal(size=count * m)
    given = [jnp.asarray(x, dtype) for x in (mass, b, s, friction, v)]
    return given[0], rows[0], tuple(rows[1:]), *given[1:]


def exactly(mass, normals, tangents, b, s, friction, v):
    """The same problem with dense rows."""
    return mass, dense(normals), jnp.stack([dense(one) for one in tangents], axis=1), b, s, friction, v


@pytest.fixture(params=native.CHOICES, autouse=True)
def _kernel(request, monkeypatch):
    """In JAX, and by the kernel."""
    if request.param == "native":
        pytest.importorskip("numba")
        assert native.unavailable() is None
    monkeypatch.setenv(native.VARIABLE, request.param)


def left(problem, found):
    """The residual of the law, recomputed."""
    return residual(
        tuple(map(np.asarray, exactly(*problem))), *map(np.asarray, (found.u, found.normal, found.tangential))
    )


@pytest.fixture(params=[coulomb_many.BROUGHT_TOGETHER_ABOVE, 0], ids=["few", "many"])
def few(request, monkeypatch):
    """From how many contacts on those that cannot push are left out."""
    monkeypatch.setattr(coulomb_many, "BROUGHT_TOGETHER_ABOVE", request.param)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("k", [1, 2])
def test_it_agrees_with_the_exact_solution(rng, k):
    problem = heap(rng, k=k)
    exact = qp.coulomb(*exactly(*problem))
    many = qp.coulomb_many(*problem, tolerance=1e-11)
    assert exact.status == many.status == Status.OK
    # The residual is relative to an approach of some units; the condition of the rows takes two digits more.
    np.testing.assert_allclose(many.u, exact.u, atol=1e-8)
    assert left(problem, many) < 1e-10
    friction = np.asarray(problem[5])
    assert np.all(np.linalg.norm(many.tangential, axis=1) <= friction * many.normal * (1 + 1e-12))
    assert np.count_nonzero(many.normal) > 5


def test_the_residual_is_what_was_asked_for(rng):
    problem = heap(rng)
    for tolerance in (1e-3, 1e-6):
        # Relative to the fastest approach, as measured here to a larger scale.
        assert left(problem, qp.coulomb_many(*problem, tolerance=tolerance)) < 10 * tolerance


@pytest.mark.usefixtures("few")
def test_a_start_changes_the_way_and_not_the_end(rng):
    problem = heap(rng)
    cold = qp.coulomb_many(*problem, tolerance=1e-11)
    reactions = jnp.column_stack([cold.normal, cold.tangential]) * 1.1 + 0.1
    warm = qp.coulomb_many(*problem, reactions=reactions, tolerance=1e-11)
    np.testing.assert_allclose(warm.u, cold.u, atol=1e-8)


def test_without_friction_it_is_the_projection(rng):
    mass, normals, tangents, b, s, friction, v = heap(rng)
    found = qp.coulomb_many(mass, normals, tangents, b, s, 0 * friction, v, tolerance=1e-11)
    np.testing.assert_allclose(found.u, qp.project(mass, dense(normals), b, v).u, atol=1e-8)
    np.testing.assert_array_equal(found.tangential, 0.0)


@pytest.mark.usefixtures("few")
def test_the_convex_problem_is_solved_to_its_optimality_conditions(rng):
    """Reactions in the cone, (w_N, w_T) in its dual, w_N >= mu |w_T|, and the two orthogonal."""
    problem = heap(rng)
    found = qp.coulomb_many(*problem, iterate=False, tolerance=1e-11)
    mass, N, S, b, s, friction, v = map(np.asarray, exactly(*problem))
    assert found.status == Status.OK
    on = np.isfinite(b)
    w_N, w_T = (N @ found.u + b)[on], (np.einsum("ckd,d->ck", S, found.u) + s)[on]
    P, B = np.asarray(found.normal)[on], np.asarray(found.tangential)[on]
    assert np.min(w_N - friction[on] * np.linalg.norm(w_T, axis=1)) > -1e-8
    np.testing.assert_allclose(P * w_N + np.sum(B * w_T, axis=1), 0.0, atol=1e-8)
    np.testing.assert_allclose(
        mass * (found.u - v), N.T @ found.normal + np.einsum("ckd,ck->d", S, found.tangential), atol=1e-12
    )


def test_single_precision(rng):
    problem = heap(rng, dtype=np.float32)
    found = qp.coulomb_many(*problem)
    assert found.u.dtype == jnp.float32
    assert found.status == Status.OK
    # 64 eps, of velocities of some units.
    assert left(problem, found) < 1e-4


def test_one_body_with_many_contacts_makes_the_steps_shorter(rng):
    """A plate on forty balls: the largest eigenvalue is ten times what it is taken for at first."""
    count = 41
    bodies = jnp.asarray([[i, 40] for i in range(40)] + [[-1, i] for i in range(40)])
    up = np.zeros((80, 2, 3))
    up[:, 0, 2], up[:, 1, 2] = -1, 1
    rows = [np.roll(up, shift, axis=2) for shift in (0, 1, 2)]
    normals, *tangents = (qp.BodyRows(bodies, jnp.asarray(x), count) for x in rows)
    v = np.tile([0.1, 0.0, -1.0], count) + 0.01 * rng.normal(size=3 * count)
    found = qp.coulomb_many(
        jnp.ones(123), normals, tuple(tangents), jnp.zeros(80), jnp.zeros((80, 2)), jnp.full(80, 0.5), jnp.asarray(v)
    )
    assert found.status == Status.OK
    # A residual of 1e-6, over the least eigenvalue that is not zero.
    np.testing.assert_allclose(found.u, 0.0, atol=1e-4)


def test_bad_input_is_refused_by_name(rng):
    mass, normals, tangents, b, s, friction, v = heap(rng)
    with pytest.raises(ValueError, match=r"tangents\[0\]: expected BodyRows"):
        qp.coulomb_many(mass, normals, (dense(tangents[0]),), b, s, friction, v)
    with pytest.raises(ValueError, match="s has the shape"):
        qp.coulomb_many(mass, normals, tangents, b, s[:, :1], friction, v)
    with pytest.raises(ValueError, match="tangents: expected 1 or 2"):
        qp.coulomb_many(mass, normals, (), b, s, friction, v)


def test_no_residual_is_claimed_that_was_not_reached(rng, monkeypatch):
    # The kernel's limit is compiled in.
    monkeypatch.setenv(native.VARIABLE, "jax")
    monkeypatch.setattr(anderson, "ITERATIONS", 4)
    monkeypatch.setattr(coulomb_many, "ITERATIONS", 4)
    assert qp.coulomb_many(*heap(rng)).status == Status.ITERATION_LIMIT


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("short", [1e-3, 1.0])
def test_walls_that_leave_too_little_room_are_told(dtype, short):
    """Also where what is lacking is a three thousandth of the approach."""
    bodies = jnp.array([[-1, 0], [-1, 0]])
    normals = qp.BodyRows(bodies, jnp.array([[[1.0, 0.0]], [[-1.0, 0.0]]], dtype), 1)
    tangents = (qp.BodyRows(bodies, jnp.array([[[0.0, 1.0]], [[0.0, 1.0]]], dtype), 1),)
    given = jnp.ones(2), normals, tangents, jnp.array([0.0, -short]), jnp.zeros((2, 1)), jnp.full(2, 0.3)
    assert qp.coulomb_many(*given, jnp.array([-3.0, 2.0])).status == Status.ITERATION_LIMIT


def test_rows_that_contradict_each_other_are_told():
    """Two walls that leave no room."""
    bodies = jnp.array([[-1, 0], [-1, 0]])
    normals = qp.BodyRows(bodies, jnp.array([[[1.0, 0.0]], [[-1.0, 0.0]]]), 1)
    tangents = (qp.BodyRows(bodies, jnp.array([[[0.0, 1.0]], [[0.0, 1.0]]]), 1),)
    none = jnp.zeros((2, 1))
    shut = qp.coulomb_many(jnp.ones(2), normals, tangents, -jnp.ones(2), none, jnp.full(2, 0.3), jnp.zeros(2))
    assert shut.status == Status.ITERATION_LIMIT
    assert np.all(np.isfinite(shut.u))


@pytest.mark.parametrize("argument", [3, 4, 5, 6], ids=["b", "s", "friction", "v"])
def test_what_is_not_a_number_is_told(rng, argument):
    problem = list(heap(rng))
    problem[argument] = problem[argument].at[int(jnp.argmin(problem[3]))].set(jnp.nan)
    assert qp.coulomb_many(*problem).status == Status.NOT_FINITE
