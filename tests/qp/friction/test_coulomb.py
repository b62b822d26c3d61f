"""Closed forms, random problems, degenerate and contradicting contacts, bad input, batches."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems.friction import random_bodies, random_problems, residual

from diffcontact import qp
from diffcontact.status import Status

coulomb = jax.jit(qp.coulomb)
many = jax.jit(lambda *problems: jax.lax.map(lambda problem: qp.coulomb(*problem), problems, batch_size=16))


def lane(problems, i):
    return tuple(x[i] for x in problems)


def residuals(problems, found):
    u, P, B = (np.asarray(x) for x in (found.u, found.normal, found.tangential))
    return np.array([residual(lane(problems, i), u[i], P[i], B[i]) for i in range(len(u))])


def on_the_floor(v, mu, mass=(2.0, 2.0), slope=0.0):
    """A point or rod with one contact; `slope` couples its slip with the normal velocity."""
    normal, along = jnp.array([[0.0, 1.0]]), jnp.array([[[1.0, slope]]])
    return jnp.array(mass), normal, along, jnp.zeros(1), jnp.zeros((1, 1)), jnp.array([mu]), jnp.array(v)


@pytest.mark.parametrize(
    ("v", "mu", "u", "P", "B"),
    [
        pytest.param([3.0, -2.0], 0.5, [2.0, 0.0], 4.0, -2.0, id="slips"),
        pytest.param([-3.0, -2.0], 0.5, [-2.0, 0.0], 4.0, 2.0, id="slips back"),
        pytest.param([0.5, -2.0], 0.5, [0.0, 0.0], 4.0, -1.0, id="sticks"),
        pytest.param([0.5, 1.0], 0.5, [0.5, 1.0], 0.0, 0.0, id="open"),
        pytest.param([3.0, -2.0], 0.0, [3.0, 0.0], 4.0, 0.0, id="smooth"),
        pytest.param([0.0, 0.0], 0.5, [0.0, 0.0], 0.0, 0.0, id="at rest"),
    ],
)
def test_a_point_on_a_floor(v, mu, u, P, B):
    found = coulomb(*on_the_floor(v, mu))
    assert int(found.status) == Status.OK
    np.testing.assert_allclose(found.u, u, atol=1e-15)
    np.testing.assert_allclose([found.normal[0], found.tangential[0, 0]], [P, B], rtol=1e-15, atol=1e-15)


@pytest.mark.parametrize("mu", [0.1, 0.4, 1.0])
@pytest.mark.parametrize("sideways", [-2.0, 0.3, 2.0])
def test_a_row_that_couples(sideways, mu):
    """W = [[1, a], [a, 1 + a^2]]/2: the three modes one by one."""
    a = 0.8
    found = coulomb(*on_the_floor([sideways, -1.0], mu, slope=a))
    W, q = np.array([[1, a], [a, 1 + a * a]]) / 2, np.array([-1.0, sideways - a])
    P, B = np.linalg.solve(W, -q)
    if abs(B) > mu * P:
        for sign in (-1, 1):
            load = -q[0] / (W[0, 0] - mu * sign * W[0, 1])
            if load >= 0 and sign * (W[1] @ [load, -mu * sign * load] + q[1]) >= 0:
                P, B = load, -mu * sign * load
    np.testing.assert_allclose([found.normal[0], found.tangential[0, 0]], [P, B], rtol=1e-14)


@pytest.mark.parametrize("mu", [0.05, 0.2, 0.8])
def test_a_sphere_with_spin(mu):
    """Walton: P = m |v_N|, B = -v_T/|v_T| min(mu P, 2/7 m |v_T|)."""
    m, r = 1.7, 0.3
    mass = np.array([m] * 3 + [0.4 * m * r * r] * 3)
    normal = np.array([[0.0, 0, 1, 0, 0, 0]])
    tangents = np.array([[[1.0, 0, 0, 0, -r, 0], [0, 1, 0, r, 0, 0]]])
    v = np.array([1.0, -0.5, -2.0, 3.0, 4.0, 5.0])
    slip = tangents[0] @ v
    found = coulomb(mass, normal, tangents, np.zeros(1), np.zeros((1, 2)), np.array([mu]), v)
    size = np.linalg.norm(slip)
    np.testing.assert_allclose(found.normal, [2 * m], rtol=1e-15)
    np.testing.assert_allclose(found.tangential[0], -slip / size * min(mu * 2 * m, 2 / 7 * m * size), rtol=1e-14)


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("make", [random_problems, random_bodies])
def test_random_problems_are_solved(make, k):
    problems = make(7, 64, k)
    found = many(*problems)
    solved = np.asarray(found.status) == Status.OK
    assert solved.sum() >= 63
    assert residuals(problems, found)[solved].max() < 1e-10


@pytest.mark.full
@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("make", [random_problems, random_bodies])
def test_ten_thousand_random_problems_are_solved(make, k):
    problems = make(1, 5000, k)
    found = many(*problems)
    solved = np.asarray(found.status) == Status.OK
    assert solved.mean() >= 0.999
    assert residuals(problems, found)[solved].max() < 1e-10


def test_one_contact_is_always_solved(rng):
    """Any body that is struck anywhere: a root of the last equation must not be lost to rounding (3 in 10^5 were)."""
    count = 200_000
    N, S = (np.stack([x, y, z], axis=1) for x, y, z in rng.normal(0, 1, (2, 3, count)))
    v, mass, mu = rng.normal(0, 1, (count, 3)), 10 ** rng.uniform(-1, 1, (count, 3)), rng.uniform(0, 2, count)
    still = jnp.zeros((count, 1))
    found = jax.jit(jax.vmap(qp.coulomb))(mass, N[:, None], S[:, None, None], still, still[..., None], mu[:, None], v)
    told = np.asarray(found.status) != Status.OK
    # Painleve: sliding presses the contact together at least as much as its load opens it.
    W_NN, W_TN = np.sum(N * N / mass, axis=1), np.abs(np.sum(N * S / mass, axis=1))
    assert not np.any(told & (mu * W_TN < W_NN))


@pytest.mark.parametrize("k", [1, 2])
def test_without_friction_it_is_the_projection(k):
    mass, normals, tangents, b, s, friction, v = random_problems(3, 64, k)
    found = many(mass, normals, tangents, b, s, 0 * friction, v)
    plain = jax.jit(jax.vmap(qp.project))(mass, normals, b, v)
    np.testing.assert_array_equal(found.status, plain.status)
    # Some hundreds of roundings, where components are measured by their masses.
    size = np.sqrt(mass) * np.abs(plain.u - v)
    error = np.sqrt(mass) * np.abs(found.u - plain.u)
    assert np.max(error / (1 + size.max(axis=1, keepdims=True))) < 1e-12
    assert np.all(found.tangential == 0)


CORNERS = np.array([[x, y, -0.5] for x in (-1.0, 1.0) for y in (-1.0, 1.0)])


def flat_box(v, mu):
    rows = np.array([[[*e, *np.cross(lever, e)] for e in np.eye(3)] for lever in CORNERS])
    mass = np.array([4.0, 4.0, 4.0, 1.0, 2.0, 3.0])
    return mass, rows[:, 2], rows[:, :2], np.zeros(4), np.zeros((4, 2)), np.full(4, mu), np.array(v)


def test_a_box_that_lies_flat_rests_on_four_corners():
    found = coulomb(*flat_box([0.0, 0.0, -1.0, 0.0, 0.0, 0.3], 0.9))
    assert int(found.status) == Status.OK
    np.testing.assert_allclose(found.u, 0, atol=1e-14)
    np.testing.assert_allclose(found.normal, 1, rtol=1e-13)
    # The moment of the spin, 3 * 0.3, comes from four corners at sqrt(2), each across its lever.
    across = np.stack([CORNERS[:, 1], -CORNERS[:, 0]], axis=1)
    np.testing.assert_allclose(found.tangential, 0.9 / 8 * across, atol=1e-13)


def test_a_box_that_lies_flat_slides():
    """No corner leaves the floor at mu (height / width) < 1, and the loads balance the moment of friction."""
    found = coulomb(*flat_box([3.0, 0.0, -1.0, 0.0, 0.0, 0.0], 0.2))
    assert int(found.status) == Status.OK
    np.testing.assert_allclose(found.u, [2.8, 0, 0, 0, 0, 0], atol=1e-14)
    np.testing.assert_allclose(found.normal, [0.9, 0.9, 1.1, 1.1], rtol=1e-13)


def test_rows_that_contradict():
    normals = jnp.array([[0.0, 1.0], [0.0, -1.0]])
    tangents = jnp.array([[[1.0, 0.0]], [[1.0, 0.0]]])
    problem = (jnp.ones(2), normals, tangents, -jnp.ones(2), jnp.zeros((2, 1)), 0.5 * jnp.ones(2), jnp.ones(2))
    found = coulomb(*problem)
    assert int(found.status) == Status.INFEASIBLE
    np.testing.assert_allclose(found.u, qp.project(*problem[:2], problem[3], problem[6]).u, atol=1e-14)


def test_slip_that_presses_has_no_solution():
    """u >= 1 and the slip u + 5 > 0, so that P - mu P = 1: with mu = 2 there is no such P (Painleve)."""
    one = jnp.ones((1, 1))
    problem = (jnp.ones(1), one, one[None], -jnp.ones(1), 5 * one, 2 * jnp.ones(1), jnp.zeros(1))
    found = coulomb(*problem)
    assert int(found.status) == Status.NO_FRICTION
    assert float(found.u[0]) == 1
    assert float(found.normal[0]) == 1
    assert float(found.tangential[0, 0]) == 0
    assert "friction" in Status.NO_FRICTION.message


@pytest.mark.parametrize(
    ("name", "value", "status"),
    [
        ("v", [np.nan, -1.0], Status.NOT_FINITE),
        ("b", [-np.inf], Status.NOT_FINITE),
        ("mass", [np.inf, 1.0], Status.NOT_FINITE),
        ("mass", [0.0, 1.0], Status.BAD_MASS),
        ("mass", [-1.0, 1.0], Status.BAD_MASS),
        ("friction", [-0.1], Status.BAD_INPUT),
    ],
)
def test_bad_input_has_a_status(name, value, status):
    names = ("mass", "normals", "tangents", "b", "s", "friction", "v")
    problem = dict(zip(names, on_the_floor([1.0, -1.0], 0.5), strict=True)) | {name: jnp.array(value)}
    found = coulomb(*problem.values())
    assert int(found.status) == status
    np.testing.assert_array_equal(found.u, np.nan_to_num(problem["v"]))


def test_no_contacts():
    found = qp.coulomb(
        jnp.ones(2), *(jnp.zeros(shape) for shape in ((0, 2), (0, 1, 2), (0,), (0, 1), (0,))), jnp.ones(2)
    )
    assert int(found.status) == Status.OK
    np.testing.assert_array_equal(found.u, [1, 1])
    assert found.tangential.shape == (0, 1)


def test_shapes_that_do_not_fit():
    problem = list(on_the_floor([1.0, -1.0], 0.5))
    problem[2] = jnp.ones((1, 3, 2))
    with pytest.raises(ValueError, match=r"tangents has the shape \(1, 3, 2\); expected \(1, k, 2\), k = 1 or 2"):
        qp.coulomb(*problem)


@pytest.mark.parametrize("k", [1, 2])
def test_in_single_precision(k):
    problems = random_problems(5, 64, k)
    single = tuple(x.astype(np.float32) for x in problems)
    found = many(*single)
    assert found.u.dtype == jnp.float32
    solved = np.asarray(found.status) == Status.OK
    assert solved.mean() > 0.95
    # Two thirds of the digits of single precision, and what a unit of them is among reactions.
    assert np.max(residuals(tuple(x.astype(float) for x in single), found)[solved]) < 1e-4


def test_no_lane_touches_another():
    """Bit for bit, whether its neighbours are solved at once, after a long search, never, or are not numbers."""
    problems = random_problems(11, 16, 2)
    spoilt = [np.array(x) for x in problems]
    spoilt[6][3] = np.nan
    spoilt[3][5] = -1e3
    one, other = many(*problems), many(*spoilt)
    assert int(other.status[3]) == Status.NOT_FINITE
    left = np.delete(np.arange(16), [3, 5])
    for x, y in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(np.asarray(x)[left], np.asarray(y)[left])


def test_eager_jit_and_vmap_agree_and_nothing_is_compiled_again():
    problems = random_problems(13, 3, 1, contacts=3)
    together = jax.jit(jax.vmap(qp.coulomb))
    batch = together(*problems)
    for i in range(3):
        for found in (coulomb(*lane(problems, i)), qp.coulomb(*lane(problems, i))):
            assert int(found.status) == int(batch.status[i])
            np.testing.assert_allclose(found.u, batch.u[i], rtol=1e-10, atol=1e-11)
    compiled = coulomb._cache_size()
    coulomb(*lane(random_problems(14, 1, 1, contacts=3), 0))
    together(*random_problems(15, 3, 1, contacts=3))
    assert (coulomb._cache_size(), together._cache_size()) == (compiled, 1)


@pytest.mark.parametrize("mu", [1e3, 1e8, 1e12])
def test_no_contact_approaches_however_large_its_friction(mu):
    """A corner off the centre of a body, struck from all sides."""
    mass, normals, tangents = jnp.array([1.0, 1.0, 0.1]), jnp.array([[0.0, 1.0, 0.3]]), jnp.array([[[1.0, 0.0, 0.2]]])
    v = np.random.default_rng(0).normal(size=(1000, 3))
    still, found = jnp.zeros((1, 1)), jax.jit(jax.vmap(qp.coulomb, (None, None, None, None, None, None, 0)))
    hit = found(mass, normals, tangents, jnp.zeros(1), still, jnp.array([mu]), v)
    # The root of eps, of speeds and levers of size 1; where the law is lost in rounding friction is left out, and said.
    assert np.min(hit.u @ normals[0]) > -1e-7
    assert np.all((hit.status == 0) | (hit.status == Status.NO_FRICTION))
    assert mu > 1e4 or np.all(hit.status == 0)


@pytest.mark.parametrize(("dtype", "angles"), [(np.float64, (1e-2, 1e-3, 1e-4, 1e-5)), (np.float32, (0.03, 0.01))])
def test_a_wedge_keeps_what_its_condition_leaves(dtype, angles, rng):
    """Two contacts at a small angle, whose reactions are as large as its inverse, hold u = -N^-1 b and its tangent."""
    v, still, smooth = np.array([-1.0, 0.1], dtype), np.zeros((2, 1), dtype), np.zeros(2, dtype)

    def solve(N, b):
        sideways = jnp.stack([N[:, 1], -N[:, 0]], axis=1)[:, None, :]
        found = qp.coulomb(np.ones(2, dtype), N, sideways, b, still, smooth, v)
        return found.u, found

    moved = jax.jit(lambda N, b, dN, db: jax.jvp(solve, (N, b), (dN, db), has_aux=True))
    for angle in angles:
        for _ in range(10):
            up, down = 1 + 0.1 * rng.normal(size=2)
            N, b = np.array([[angle * up, 1], [angle, -down]], dtype), angle * rng.uniform(-0.3, 0.3, 2).astype(dtype)
            dN, db = angle * rng.normal(size=(2, 2)).astype(dtype), angle * rng.normal(size=2).astype(dtype)
            _, du, found = moved(N, b, dN, db)
            assert found.status == Status.OK
            assert np.all(found.normal > 0)
            u = -np.linalg.solve(N.astype(float), b.astype(float))
            # The condition of the Delassus matrix is 1/angle^2; so many roundings are lost, and a digit.
            lost = np.finfo(dtype).eps * (8 / angle + angle**-2)
            assert np.max(np.abs(found.u - u)) <= lost * np.max(np.abs(u))
            # A second pass leaves tangents what the condition of N costs, 1/angle, and the truth has as much of it.
            exact = -np.linalg.solve(N.astype(float), db.astype(float) + dN.astype(float) @ u)
            assert np.max(np.abs(du - exact)) <= 30 * np.finfo(dtype).eps / angle * np.max(np.abs(exact))


def test_a_wall_far_away_does_not_stop_a_slip_in_single_precision():
    """A disc of 1 kg, r = 0.1 m, that slips on a floor, with sides 0.9 m away: at 10 ms these are at 90 m/s."""
    f32, h, g, mu = np.float32, 0.01, 9.81, 0.3
    normals = np.array([[1, 0, 0], [0, 1, 0], [-1, 0, 0]], f32)
    tangents = np.array([[[0, -1, 0.1]], [[1, 0, 0.1]], [[0, 1, 0.1]]], f32)
    b, still, frictions = np.array([0.9 / h, 0, 0.9 / h], f32), np.zeros((3, 1), f32), np.full(3, mu, f32)
    mass = np.array([1, 1, 0.005], f32)
    for slip in (0.09, 0.1, 0.2, 1.0):
        hit = qp.coulomb(mass, normals, tangents, b, still, frictions, np.array([slip, -g * h, 0.0], f32))
        assert hit.status == Status.OK
        # 1 / m + r^2 / I = 3 of what friction pushes; to the rounding of the fastest contact.
        atol = np.finfo(f32).eps * 0.9 / h
        np.testing.assert_allclose(tangents[1] @ hit.u, slip - 3 * mu * g * h, atol=atol)
        np.testing.assert_allclose(hit.tangential[1], -mu * g * h, atol=atol)
