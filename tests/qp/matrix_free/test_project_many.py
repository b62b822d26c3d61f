"""The projection onto many rows: against the exact one, from any start, to the residual it names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffcontact import qp
from diffcontact.qp import native
from diffcontact.qp.matrix_free import conjugate_gradients, project_many
from diffcontact.qp.rows.body_rows import dense
from diffcontact.status import Status


def _chain(rng, count=20, dtype=float):
    """Rows between random pairs of bodies and walls; feasible, since u = 0 is, and with redundant ones."""
    rows = 40
    bodies = np.array([rng.choice(count, 2, replace=False) for _ in range(rows)])
    normals = rng.normal(size=(rows, 2, 3))
    normals[:, 0] = -normals[:, 1]
    bodies[:5, 1] = -1
    bodies[5], normals[5] = bodies[6], normals[6]
    G = qp.BodyRows(jnp.asarray(bodies), jnp.asarray(normals, dtype), count)
    b = jnp.asarray(np.where(rng.uniform(size=rows) < 0.9, rng.uniform(0.0, 0.3, rows), np.inf), dtype)
    mass = jnp.asarray(np.repeat(rng.uniform(0.5, 5.0, count), 3), dtype)
    return mass, G, b.at[5].set(b[6]), jnp.asarray(rng.normal(size=3 * count), dtype)


@pytest.fixture(params=native.CHOICES, autouse=True)
def _kernel(request, monkeypatch):
    """In JAX, and by the kernel."""
    if request.param == "native":
        pytest.importorskip("numba")
        assert native.unavailable() is None
    monkeypatch.setenv(native.VARIABLE, request.param)


@pytest.fixture(params=[project_many.BROUGHT_TOGETHER_ABOVE, 0], ids=["few", "many"])
def few(request, monkeypatch):
    """From how many rows on those that are off are left out, and single precision is used."""
    monkeypatch.setattr(project_many, "BROUGHT_TOGETHER_ABOVE", request.param)
    monkeypatch.setattr(project_many, "SINGLE_PRECISION_ABOVE", request.param)


@pytest.mark.usefixtures("few")
def test_rows_that_are_there_twice_with_other_offsets(rng):
    """Along what two equal rows share the dual has no curvature, and multipliers no bound but zero."""
    pairs = np.array([(0, 1), (1, 2), (2, 3), (3, -1), (0, -1)])
    bodies, normals = jnp.asarray(np.concatenate([pairs, pairs])), rng.normal(size=(200, 5, 2))
    normals /= np.linalg.norm(normals, axis=2, keepdims=True)
    normals = np.stack([-normals, normals], axis=2)[:, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4]]
    b, v = 0.3 * rng.normal(size=(200, 10)), rng.normal(size=(200, 8))
    mass, tolerance = jnp.ones(8), 1e-10

    def both(normals, b, v):
        G = qp.BodyRows(bodies, normals, 4)
        return qp.project(mass, dense(G), b, v), qp.project_many(mass, G, b, v, tolerance=tolerance)

    exact, many = jax.jit(jax.vmap(both))(normals, b, v)
    assert np.all(np.asarray(exact.status) == Status.OK)
    assert np.all(np.asarray(many.status) == Status.OK)
    # Five rows at random are seldom nearer to depending on each other than by a hundredth.
    np.testing.assert_allclose(many.u, exact.u, atol=100 * tolerance)


@pytest.mark.usefixtures("few")
def test_it_agrees_with_the_exact_projection(rng):
    mass, G, b, v = _chain(rng)
    exact = qp.project(mass, dense(G), b, v)
    many = qp.project_many(mass, G, b, v, tolerance=1e-12)
    assert many.status == Status.OK
    # The residual is relative to a violation of some units; the condition of the rows takes two digits more.
    np.testing.assert_allclose(many.u, exact.u, atol=1e-9)
    assert np.count_nonzero(many.active) > 5
    # Of two equal rows either may carry the load.
    np.testing.assert_allclose(dense(G).T @ many.multipliers, mass * (many.u - v), atol=1e-12)
    assert np.all(many.multipliers >= 0)


@pytest.mark.usefixtures("few")
def test_a_start_changes_the_way_and_not_the_end(rng):
    mass, G, b, v = _chain(rng)
    cold = qp.project_many(mass, G, b, v, tolerance=1e-12)
    warm = qp.project_many(mass, G, b, v, multipliers=cold.multipliers * 1.1 + 0.1, tolerance=1e-12)
    np.testing.assert_allclose(warm.u, cold.u, atol=1e-9)


@pytest.mark.parametrize("argument", range(4))
def test_its_derivative_is_the_exact_ones_in_both_modes(rng, argument):
    mass, G, b, v = _chain(rng)
    given = [mass, G.normals, b, v]
    tangent = jnp.asarray(rng.normal(size=given[argument].shape))

    def of(project, rows):
        def u(x):
            m, n, o, w = (*given[:argument], x, *given[argument + 1 :])
            return project(m, rows(qp.BodyRows(G.bodies, n, G.count)), o, w).u

        return u

    many = of(lambda *a: qp.project_many(*a, tolerance=1e-12), lambda G: G)
    _, slope = jax.jvp(of(qp.project, dense), (given[argument],), (tangent,))
    u, ours = jax.jvp(many, (given[argument],), (tangent,))
    if argument != 1:
        # By the normals, two equal rows that move apart are no longer equal; the exact one holds the first of them.
        np.testing.assert_allclose(ours, slope, atol=1e-7 * np.max(np.abs(slope)))
    weight = jnp.asarray(rng.normal(size=u.shape))
    back = jax.vjp(many, given[argument])[1](weight)[0]
    np.testing.assert_allclose(jnp.vdot(back, tangent), weight @ ours, rtol=1e-9)


def test_single_precision(rng):
    mass, G, b, v = _chain(rng, dtype=np.float32)
    many = qp.project_many(mass, G, b, v)
    assert many.u.dtype == jnp.float32
    assert many.status == Status.OK
    violated = jnp.where(jnp.isfinite(b), dense(G) @ many.u + b, 0.0)
    # 64 eps of violations of some units.
    assert float(jnp.min(violated)) > -1e-4


def test_bad_input_is_refused_by_name(rng):
    mass, G, b, v = _chain(rng)
    with pytest.raises(ValueError, match="G: expected BodyRows"):
        qp.project_many(mass, dense(G), b, v)
    with pytest.raises(ValueError, match="b has the shape"):
        qp.project_many(mass, G, b[1:], v)
    with pytest.raises(ValueError, match="multipliers has the shape"):
        qp.project_many(mass, G, b, v, multipliers=b[1:])


@pytest.mark.usefixtures("few")
def test_rows_that_contradict_each_other_are_told():
    # Two walls that leave no room: the multipliers grow until rounding stops them.
    G = qp.BodyRows(jnp.array([[0, -1], [0, -1]]), jnp.array([[[1.0], [0.0]], [[-1.0], [0.0]]]), 1)
    shut = qp.project_many(jnp.ones(1), G, jnp.array([-1.0, -1.0]), jnp.zeros(1))
    assert shut.status == Status.INFEASIBLE
    assert np.all(np.isfinite(shut.u))


def test_no_residual_is_claimed_that_was_not_reached(rng, monkeypatch):
    mass, G, b, v = _chain(rng)
    # The kernel's limit is compiled in.
    monkeypatch.setenv(native.VARIABLE, "jax")
    monkeypatch.setattr(conjugate_gradients, "ITERATIONS", 4)
    assert qp.project_many(mass, G, b, v).status == Status.ITERATION_LIMIT


# Kilograms, and grains of some micrometres whose impulses single precision would not know.
@pytest.mark.parametrize("unit", [1.0, 1e-15])
def test_single_precision_does_the_work_of_many_rows_in_double(rng, monkeypatch, unit):
    mass, G, b, v = _chain(rng)
    # The kernel knows double precision only.
    monkeypatch.setenv(native.VARIABLE, "jax")
    monkeypatch.setattr(project_many, "BROUGHT_TOGETHER_ABOVE", 0)
    monkeypatch.setattr(project_many, "SINGLE_PRECISION_ABOVE", 0)
    monkeypatch.setattr(conjugate_gradients, "ITERATIONS", 4)
    found = qp.project_many(unit * mass, G, unit * b, unit * v, tolerance=1e-10)
    assert found.status == Status.OK
    np.testing.assert_allclose(found.u / unit, qp.project(mass, dense(G), b, v).u, atol=1e-7)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize(("dtype", "tilt"), [(np.float32, 0.03), (np.float64, 1e-3)])
def test_a_wedge_takes_few_iterations(dtype, tilt, monkeypatch):
    """A ball falls between two others, a little above their line, that walls and floor hold: these press on each other
    with 1 / tilt of its weight, and the dual's least eigenvalue is tilt^2. At 1e-3 Nesterov's method takes thousands of
    iterations."""
    bodies = jnp.array([[0, 1], [0, 2], [-1, 1], [-1, 2], [-1, 1], [-1, 2]])
    entries = [[-np.cos(tilt), -np.sin(tilt)], [np.cos(tilt), -np.sin(tilt)], [1, 0], [-1, 0], [0, 1], [0, 1]]
    G = qp.BodyRows(bodies, jnp.asarray(entries, dtype)[:, None], 3)
    v = jnp.asarray([0.0, -1.0, 0.0, 0.0, 0.0, 0.0], dtype)
    # In JAX; the kernel goes the same way, and its limit is compiled in.
    monkeypatch.setattr(conjugate_gradients, "ITERATIONS", 40)
    wedge = qp.project_many(jnp.ones(6, dtype), G, jnp.zeros(6, dtype), v)
    assert wedge.status == Status.OK
    # All stand still: 2 l sin(tilt) = 1, and l against the walls; to the residual over the eigenvalue.
    error = max(1e-6, 64 * np.finfo(dtype).eps) / tilt
    np.testing.assert_allclose(wedge.u, 0, atol=error)
    np.testing.assert_allclose(wedge.multipliers[:4], 0.5 / np.sin(tilt), rtol=max(error, tilt))


def test_one_normal_stands_for_two_that_are_opposite(rng):
    mass, G, b, v = _chain(rng)
    one = qp.BodyRows(G.bodies, G.normals[:, 1:], G.count)
    np.testing.assert_array_equal(dense(one), dense(G))
    turned = qp.BodyRows(G.bodies[:, ::-1], G.normals[:, :1], G.count)
    for rows in (one, turned):
        found = qp.project_many(mass, rows, b, v, tolerance=1e-12)
        np.testing.assert_allclose(found.u, qp.project_many(mass, G, b, v, tolerance=1e-12).u, atol=1e-9)


@pytest.mark.parametrize("argument", [0, 2, 3], ids=["mass", "b", "v"])
def test_what_is_not_a_number_is_told(rng, argument):
    problem = list(_chain(rng))
    problem[argument] = problem[argument].at[0].set(jnp.nan)
    assert qp.project_many(*problem).status == Status.NOT_FINITE
