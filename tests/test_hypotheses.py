import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.hypotheses import (
    active_set,
    angle_condition,
    penetration,
    prox_regularity,
    report,
    reverse_triangle,
    velocity_bound,
)

pytestmark = pytest.mark.full


def planes(rows):
    """Half-spaces <row, q> >= 0 with mass diag(1, 4, 9, ...)."""
    rows = np.array(rows, float)
    return dc.System(
        gap=lambda t, q, p: rows @ q,
        force=lambda t, q, u, p: jnp.zeros_like(q),
        mass=lambda q, p: jnp.arange(1.0, q.size + 1) ** 2,
        restitution=lambda p: 0.0,
    )


def test_active_sets():
    system = planes(np.eye(3))
    q = jnp.array([0.0, 0.1, 0.3])
    assert active_set(system, {}, 0.0, q).tolist() == [True, False, False]
    assert active_set(system, {}, 0.0, q, rho=0.1).tolist() == [True, True, False]


@pytest.mark.parametrize("angle", [0.3, 1.2, 2.9])
def test_gamma_of_a_wedge(angle):
    # Two normals an angle apart; |l1 n1 + l2 n2| is smallest for equal weights: gamma = 1 / cos(angle / 2).
    found = reverse_triangle(planes([[2.0, 0.0], [np.cos(angle), np.sin(angle)]]), {}, 0.0, jnp.zeros(2))
    assert found.exists
    np.testing.assert_allclose(found.gamma, 1 / np.cos(angle / 2), rtol=1e-10)
    np.testing.assert_allclose(found.direction, [np.cos(angle / 2), np.sin(angle / 2)], atol=1e-10)


def test_gamma_bounds_every_combination(rng):
    # Seven rows in four dimensions, more than are independent, all opening along the first axis.
    rows = rng.normal(size=(7, 4)) + np.array([2.5, 0, 0, 0])
    found = reverse_triangle(planes(rows), {}, 0.0, jnp.zeros(4))
    assert found.exists
    weights = rng.exponential(size=(2000, 7)) ** 3
    ratio = (weights @ np.linalg.norm(rows, axis=1)) / np.linalg.norm(weights @ rows, axis=1)
    assert np.max(ratio) <= found.gamma * (1 + 1e-12)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    # The good direction opens all, the least by 1 / gamma.
    np.testing.assert_allclose(np.min(unit @ found.direction), 1 / found.gamma, rtol=1e-9)


def test_no_gamma_where_a_mass_is_clamped():
    found = reverse_triangle(planes([[1.0, 0.0], [-1.0, 0.0]]), {}, 0.0, jnp.zeros(2))
    assert not found.exists
    assert np.isinf(found.gamma)
    assert prox_regularity(planes([[1.0, 0.0], [-1.0, 0.0]]), {}, 0.0, jnp.zeros(2)) == 0


def test_nothing_active():
    found = reverse_triangle(planes(np.eye(2)), {}, 0.0, jnp.ones(2))
    assert found.exists
    assert found.gamma == 1
    assert np.isinf(prox_regularity(planes(np.eye(2)), {}, 0.0, jnp.ones(2)))


def test_prox_regularity_of_two_discs_and_a_bowl():
    # Outside two discs of radius 1 that meet at the origin in a right angle: gamma = sqrt 2, eta = 1 / sqrt 2.
    centres = np.array([[-1.0, -1.0], [1.0, -1.0]]) / np.sqrt(2)
    corner = dc.System(
        gap=lambda t, q, p: p * (jnp.linalg.norm(q[None, :] - centres, axis=1) - 1.0),
        force=lambda t, q, u, p: jnp.zeros(2),
        mass=lambda q, p: jnp.ones(2),
        restitution=lambda p: 0.0,
    )
    np.testing.assert_allclose(prox_regularity(corner, 3.0, 0.0, jnp.zeros(2)), 1 / np.sqrt(2), rtol=1e-9)
    # Inside one of them is convex.
    assert np.isinf(prox_regularity(corner, -3.0, 0.0, jnp.asarray(centres[0] + [0.0, 1.0])))


def test_the_angle_is_that_of_the_kinetic_metric():
    # Orthogonal to the eye, not in M^-1 = diag(1, 1/4): cos = (1 - 1/4) / (1 + 1/4).
    skew = angle_condition(planes([[1.0, 1.0], [1.0, -1.0]]), {}, 0.0, jnp.zeros(2))
    np.testing.assert_allclose(skew.worst, 0.6, rtol=1e-12)
    assert not skew.holds
    assert angle_condition(planes([[1.0, 2.0], [1.0, -2.0]]), {}, 0.0, jnp.zeros(2)).holds
    # A contact that is open does not count.
    assert angle_condition(planes([[1.0, 1.0], [1.0, -1.0]]), {}, 0.0, jnp.array([0.5, 0.5])).holds


def test_a_batch_of_states_in_one_compiled_call():
    def constants(q):
        system = planes([[1.0, 0.0], [np.cos(1.2), np.sin(1.2)]])
        angle = angle_condition(system, {}, 0.0, q).holds
        return reverse_triangle(system, {}, 0.0, q).gamma, prox_regularity(system, {}, 0.0, q), angle

    # In the corner, on one plane, and away from both.
    gamma, radius, holds = jax.jit(jax.vmap(constants))(jnp.array([[0.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    np.testing.assert_allclose(gamma, [1 / np.cos(0.6), 1.0, 1.0], rtol=1e-12)
    assert np.all(np.isinf(radius))
    assert holds.tolist() == [False, True, True]


def slider(damping, stiffness):
    return dc.ParticleLine(
        mass=lambda p: 2.0 * jnp.ones(1),
        damping=lambda p: damping * jnp.ones((1, 1)),
        stiffness=lambda p: stiffness * jnp.ones((1, 1)),
        load=lambda t, p: 3.0 * jnp.cos(t) * jnp.ones(1),
        friction=lambda p: 0.25,
        normal=lambda t, p: (4.0 + t) * jnp.ones(1),
        percussion_times=[0.1, 0.9],
        percussions=lambda p: jnp.array([0.2, 0.4]),
    )


def test_velocity_bound_by_hand():
    # (4.2) with a = 1, b = 4, c = 1/2, T = 0.2, |dtheta| = 0.2 + 0.2, |nu| = 4.2, |p| = 3.
    found = velocity_bound(slider(2.0, 8.0), {}, 0.0, jnp.array([0.5]), jnp.array([-1.0]), 0.2)
    np.testing.assert_allclose(found.horizon, (np.sqrt(17) - 1) / 8, rtol=1e-14)
    expected = (1 + 4 * 0.2 * 0.5 + 0.25 * 4.2 * 0.4 / 2 + 0.2 * 3 / 2) / (1 - 0.2 - 4 * 0.04)
    np.testing.assert_allclose(found.bound, expected, rtol=1e-14)


@pytest.mark.parametrize(("damping", "stiffness", "horizon"), [(2.0, 0.0, 1.0), (0.0, 8.0, 0.5), (0.0, 0.0, np.inf)])
def test_horizon_without_spring_or_dashpot(damping, stiffness, horizon):
    found = velocity_bound(slider(damping, stiffness), {}, 0.0, jnp.zeros(1), jnp.ones(1), 1.5)
    np.testing.assert_allclose(found.horizon, horizon, rtol=1e-14)
    assert np.isfinite(found.bound) == (horizon > 1.5)


def test_penetration():
    q = jnp.array([[1.0, 2.0], [0.5, -0.25], [-0.1, -0.2]])
    np.testing.assert_allclose(penetration(planes(np.eye(2)), {}, jnp.zeros(3), q), [0.0, 0.25, 0.2])


def test_report_of_a_system_names_what_fails():
    text = str(report(planes([[1.0, 0.0], [-1.0, 0.0]]), {}, 0.0, [0.0, 0.0], [-2.0, 0.0]))
    assert "no: gap[0] closes at 2 m/s" in text
    assert "fails: active gradients have a vanishing combination" in text
    assert "largest cosine 1" in text


def test_report_of_a_line():
    text = str(report(slider(2.0, 8.0), {}, 0.0, [0.5], [-1.0], duration=0.2))
    assert "0.390388 s" in text
    assert "|u| <= 2.98438 m/s" in text
    assert "the duration exceeds the horizon" in str(report(slider(2.0, 8.0), {}, 0.0, [0.5], [-1.0], duration=2.0))


def test_report_refuses_other_things():
    with pytest.raises(ValueError, match="expected a System or a ParticleLine, got int"):
        report(3, {}, 0.0, [0.0], [0.0])
