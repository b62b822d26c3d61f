"""`qp.project`: against stored solutions, by the optimality conditions, on built problems, and in degenerate cases."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import quadprog
from hypothesis import given, settings
from hypothesis import strategies as st
from qp_problems import backwards, optimality, optimised

from diffcontact import qp
from diffcontact.status import Status

project = jax.jit(qp.project)
batch = optimised(jax.vmap(qp.project))
FIELDS = ("mass", "G", "b", "v")


@functools.cache
def _stored(folder, name, count):
    with np.load(folder / "qp" / f"{name}.npz") as stored:
        return tuple(stored[field][:count] for field in FIELDS), stored["u"][:count]


def _lane(tree, lane):
    return jax.tree.map(lambda x: x[lane], tree)


# The stored solutions' own optimality residual is 1e-14, on the redundant `pyramid` 3.5e-11.
@pytest.mark.parametrize(
    ("name", "within"), [("ball3d", 1e-10), ("cradle", 1e-10), ("s10", 1e-10), ("pyramid", 1e-9), ("s32", 1e-10)]
)
def test_stored_solutions(reference, name, within):
    problem, u = _stored(reference, name, 32)
    found = batch(*problem)
    assert not np.any(found.status)
    np.testing.assert_allclose(found.u, u, atol=within, rtol=0)
    assert max(optimality(_lane(problem, i), _lane(found, i)) for i in range(len(u))) < 1e-11


@pytest.mark.parametrize("name", ["ball3d", "s10", "pyramid"])
def test_stored_solutions_in_single_precision(reference, name):
    problem, u = _stored(reference, name, 16)
    found = batch(*(x.astype(np.float32) for x in problem))
    assert found.u.dtype == jnp.float32
    assert not np.any(found.status)
    # A thousand roundings of single precision, of the scale of the velocities.
    np.testing.assert_allclose(found.u, u, atol=1e-4 * np.abs(u).max(), rtol=0)


@pytest.mark.parametrize("full", [False, True])
def test_against_quadprog(rng, full):
    for _ in range(5):
        problem, _ = backwards(rng, 12, 6, 4, full=full)
        mass, G, b, v = problem
        b = b - rng.uniform(0, 1.0, b.shape)
        weight = mass if full else np.diag(mass)
        try:
            expected = quadprog.solve_qp(weight, weight @ v, G.T, -b)[0]
        except ValueError:
            assert int(project(mass, G, b, v).status) == Status.INFEASIBLE
            continue
        found = project(mass, G, b, v)
        np.testing.assert_allclose(found.u, expected, atol=1e-9)
        assert int(found.status) == Status.OK


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**31), active=st.integers(0, 6), redundant=st.integers(0, 4), full=st.booleans())
def test_built_backwards(seed, active, redundant, full):
    rng = np.random.default_rng(seed)
    problem, u = backwards(rng, 12, 6, active, full=full, redundant=min(redundant, active))
    found = project(*problem)
    assert int(found.status) == Status.OK
    assert optimality(problem, found) < 1e-11
    # The rows' own condition, which random rows do not bound, is what a rounding of them is multiplied by.
    assert np.sum(found.active) <= 6
    condition = np.linalg.cond(problem[1][:active]) if active else 1.0
    np.testing.assert_allclose(found.u, u, atol=1e-12 * max(condition, 10) ** 2)


@pytest.mark.parametrize(("dtype", "ratio", "within"), [(np.float64, 1e8, 1e-9), (np.float32, 1e4, 1e-3)])
def test_mass_ratios(rng, dtype, ratio, within):
    for full in (False, True):
        problem, _ = backwards(rng, 12, 6, 4, full=full, masses=ratio)
        problem = tuple(x.astype(dtype) for x in problem)
        found = project(*problem)
        assert int(found.status) == Status.OK
        assert optimality(problem, found) < within


def test_pairs_of_rows_at_a_small_angle_in_single_precision(rng):
    G = rng.normal(size=(20, 6, 10))
    G = np.concatenate([G, G + 0.01 * rng.normal(size=G.shape)], axis=1)
    u, multipliers = rng.normal(size=(20, 10)), rng.uniform(0.5, 1, (20, 12)) * (rng.random((20, 12)) < 0.5)
    room = np.where(multipliers > 0, 0, rng.uniform(0.01, 1, (20, 12)))
    b, v = room - np.einsum("ncd,nd->nc", G, u), u - np.einsum("ncd,nc->nd", G, multipliers)
    found = batch(np.ones((20, 10), np.float32), *(x.astype(np.float32) for x in (G, b, v)))
    assert np.all(found.status == Status.OK)
    # A violation is rounding (1e-7) of terms of order 10, times the inverse of the angle.
    assert np.min(np.einsum("ncd,nd->nc", G, found.u) + b) > -1e-3


def test_many_rows_are_compacted(rng):
    problem, u = backwards(rng, 400, 5, 4)
    found = project(*problem)
    assert int(found.status) == Status.OK
    np.testing.assert_allclose(found.u, u, atol=1e-11)


def test_rows_that_only_become_violated_on_the_way():
    """A circle of half planes whose first candidates, the most violated ones, say nothing about the corner."""
    angles = np.linspace(-1.5, 1.5, 300)
    G = np.stack([np.cos(angles), np.sin(angles)], 1)
    problem = (np.ones(2), G, np.full(300, -1.0), np.array([-0.3, 0.0]))
    found = project(*problem)
    assert int(found.status) == Status.OK
    assert optimality(problem, found) < 1e-12


def test_nothing_to_do_returns_v_itself(rng):
    mass, G, b, v = backwards(rng, 12, 6, 0)[0]
    found = project(mass, G, b, v)
    assert np.array_equal(found.u, v)
    assert not np.any(found.active)


def test_zero_rows_switched_off_rows_and_duplicates():
    G = jnp.array([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0], [2.0, 0.0], [0.0, 1.0]])
    b = jnp.array([0.0, -1.0, -1.0, -2.0, jnp.inf])
    found = project(jnp.ones(2), G, b, jnp.array([-3.0, -5.0]))
    assert int(found.status) == Status.OK
    np.testing.assert_allclose(found.u, [1.0, -5.0], atol=1e-15)
    assert np.sum(found.active) == 1
    np.testing.assert_allclose(G.T @ found.multipliers, [4.0, 0.0], atol=1e-15)


def test_no_rows():
    v = jnp.array([1.0, 2.0])
    found = qp.project(jnp.ones(2), jnp.zeros((0, 2)), jnp.zeros(0), v)
    assert np.array_equal(found.u, v)
    assert found.multipliers.shape == found.active.shape == (0,)
    assert int(found.status) == Status.OK


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_infeasible_returns_the_least_violating_point(dtype):
    """x >= 1 and x <= -3 share a violation of 2 each at x = -1; y >= 0 is met as usual."""
    G = np.array([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0]], dtype)
    b = np.array([-1.0, -3.0, 0.0], dtype)
    v = np.array([0.3, -1.0], dtype)
    found = project(np.ones(2, dtype), G, b, v)
    assert int(found.status) == Status.INFEASIBLE
    # Some roundings of numbers of size three.
    np.testing.assert_allclose(found.u, [-1.0, 0.0], atol=100 * np.finfo(dtype).eps)
    derivatives = jax.jacrev(lambda *x: qp.project(*x).u, argnums=(0, 1, 2, 3))(np.ones(2, dtype), G, b, v)
    assert all(np.all(np.isfinite(x)) for x in derivatives)


def test_infeasible_by_a_zero_row():
    found = project(jnp.ones(2), jnp.array([[0.0, 0.0], [1.0, 0.0]]), jnp.array([-1.0, 0.0]), jnp.array([-2.0, 3.0]))
    assert int(found.status) == Status.INFEASIBLE
    np.testing.assert_allclose(found.u, [0.0, 3.0], atol=1e-6)


def test_a_mass_without_a_factor_says_so():
    """1 + 1e-9 is 1 in single precision, and the mass singular."""
    mass = np.array([[1, 1], [1, 1 + 1e-9]], np.float32)
    v = np.array([-1, 0.5], np.float32)
    found = qp.project(mass, np.eye(2, dtype=np.float32), np.zeros(2, np.float32), v)
    assert int(found.status) == Status.ILL_CONDITIONED
    np.testing.assert_array_equal(found.u, v)


def test_one_lane_does_not_disturb_the_others(rng):
    """A batch of a free, an active and an infeasible lane gives what each gives alone."""
    problems = [backwards(rng, 12, 6, active)[0] for active in (0, 5, 5)]
    problems[2][1][1], problems[2][2][:2] = -problems[2][1][0], -1.0
    together = batch(*(np.stack(x) for x in zip(*problems, strict=True)))
    for lane, problem in enumerate(problems):
        alone = project(*problem)
        assert int(alone.status) == int(together.status[lane]) == (Status.INFEASIBLE if lane == 2 else Status.OK)
        np.testing.assert_allclose(together.u[lane], alone.u, atol=1e-7 if lane == 2 else 1e-13)


def test_eager_equals_jit_and_half_batched(rng):
    problem, _ = backwards(rng, 12, 6, 4)
    mass, G, b, v = problem
    compiled = project(*problem)
    np.testing.assert_allclose(qp.project(*problem).u, compiled.u, atol=1e-14)
    moved = jax.vmap(lambda x: qp.project(mass, G, b, x).u)(jnp.stack([v, v + 0.1]))
    np.testing.assert_allclose(moved[0], compiled.u, atol=1e-14)


@pytest.mark.parametrize(
    ("mass", "G", "b", "v", "says"),
    [
        (jnp.ones(3), jnp.ones((1, 2)), jnp.ones(1), jnp.ones(2), r"mass has the shape \(3,\)"),
        (jnp.ones(2), jnp.ones(2), jnp.ones(1), jnp.ones(2), r"G has the shape \(2,\)"),
        (jnp.ones(2), jnp.ones((1, 2)), jnp.ones(2), jnp.ones(2), r"b has the shape \(2,\)"),
        (jnp.ones(2), jnp.ones((1, 2)), jnp.ones(1), jnp.ones(3), r"v has the shape \(3,\)"),
    ],
)
def test_shapes_that_do_not_fit(mass, G, b, v, says):
    with pytest.raises(ValueError, match=says):
        qp.project(mass, G, b, v)


@pytest.mark.parametrize("full", [False, True])
def test_one_row_alone_is_as_beside_one_that_is_off(rng, full):
    root = rng.normal(size=(4, 4))
    mass = jnp.asarray(root @ root.T + np.eye(4) if full else rng.uniform(1.0, 2.0, 4))
    row, v = jnp.asarray(rng.normal(size=(1, 4))), jnp.asarray(rng.normal(size=4))
    for G, b in ((row, -2.0), (row, 9.0), (0 * row, -1.0), (0 * row, 1.0), (row, jnp.inf)):
        alone = qp.project(mass, G, jnp.array([b]), v)
        beside = qp.project(mass, jnp.concatenate([G, G]), jnp.array([b, jnp.inf]), v)
        # A handful of roundings of numbers of size one.
        np.testing.assert_allclose(alone.u, beside.u, atol=1e-14)
        np.testing.assert_allclose(alone.multipliers, beside.multipliers[:1], atol=1e-14)
        assert alone.status == beside.status
        assert alone.active[0] == beside.active[0]
        held = qp.hold(mass, G, jnp.array([min(b, 9.0)]), v, jnp.array([True]))
        held_beside = qp.hold(mass, jnp.concatenate([G, G]), jnp.array([min(b, 9.0), 0.0]), v, jnp.array([True, False]))
        np.testing.assert_allclose(held.u, held_beside.u, atol=1e-14)
        assert held.active[0] == held_beside.active[0]


def test_only_the_symmetric_part_of_a_mass_counts_in_derivatives_too(rng):
    dimension, count = 3, 2
    factor, skew = rng.normal(size=(2, dimension, dimension))
    mass, skew = factor @ factor.T + np.eye(dimension), skew - skew.T
    G, b, v = rng.normal(size=(count, dimension)), -np.ones(count), -np.ones(dimension)
    tangents, none, mu = rng.normal(size=(count, 1, dimension)), np.zeros((count, 1)), np.full(count, 0.3)
    for u in (
        lambda mass: qp.project(mass, G, b, v).u,
        lambda mass: qp.hold(mass, G, b, v, np.ones(count, bool)).u,
        lambda mass: qp.coulomb(mass, G, tangents, b, none, mu, v).u,
    ):
        # Some hundred roundings: the mass is not ill conditioned.
        np.testing.assert_allclose(u(mass + skew), u(mass), atol=1e-13)
        np.testing.assert_allclose(jax.jvp(u, (mass,), (skew,))[1], 0, atol=1e-13)
