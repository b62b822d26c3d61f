"""Balls that fly through the air, against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.systems.surroundings import of_the_air

TIMES = np.linspace(0.0, 1.0, 101)


def flight(dimension, u0, *, spin=True, **params):
    """The end of a flight of one ball from the origin."""
    ball = dc.systems.balls(1, dimension, spin=spin, air=True)
    known = {"mass": np.array([2.7e-3]), "radius": np.array([0.02]), "restitution": 1.0, "friction": 0.2}
    q0 = np.concatenate([np.zeros(dimension), {2: [0.0], 3: [1.0, 0, 0, 0]}[dimension] if spin else []])
    return dc.simulate(ball, known | params, q0, jnp.asarray(u0, float), TIMES)


@pytest.mark.full
@pytest.mark.parametrize("spin", [False, True])
def test_a_fall_with_drag_goes_by_the_hyperbolic_tangent(spin):
    """v = v_t tanh(g t / v_t) with drag v_t^2 = g."""
    u0 = np.zeros(6 if spin else 3)
    extra = {"magnus": 0.0} if spin else {}
    run = flight(3, u0, spin=spin, drag=0.15, gravity=np.array([0.0, 0, -9.81]), **extra)
    terminal = np.sqrt(9.81 / 0.15)
    assert run.status == 0
    # Second order: (h g / v_t)^2 / 6 of the 8 m/s.
    np.testing.assert_allclose(run.u[:, 2], -terminal * np.tanh(9.81 * TIMES / terminal), atol=2e-4)


def test_dry_friction_is_as_large_at_any_speed_and_lets_what_rests_creep():
    """It is f opposite to v, but for CREEP^2 / 2 v^2 of it; slow motion has f v / CREEP, but for v^2 / 2 CREEP^2."""
    u = jnp.array([[0.3, 0.4], [0.0, 0.0], [3e-6, -4e-6]])
    known = {"drag": 0.0, "dry_friction": jnp.array([0.2, 0.2, 0.5])}
    expected = [[-0.12, -0.16], [0.0, 0.0], [-1.5e-3, 2e-3]]
    np.testing.assert_allclose(of_the_air(u, 2, known), expected, rtol=1.3e-5)
    slope = jax.jacfwd(lambda v: of_the_air(v[None], 2, known | {"dry_friction": 0.2})[0])(jnp.zeros(2))
    np.testing.assert_allclose(slope, -200.0 * np.eye(2))
    # Carts rub by their own masses, each by itself.
    params = {"mass_ratio": 2.0, "tilt": 0.0, "sag": 0.0, "drag": 0.0, "dry_friction": 0.1}
    pulls = dc.systems.carts().force(0.0, jnp.zeros(2), jnp.array([0.4, -0.2]), params)
    np.testing.assert_allclose(pulls, [-0.2, 0.1], rtol=2e-5)


# Of second order: (2 rad/s h)^2 / 6 for each of two radians, of 5 m/s; measured an eighth of it at half the rate.
# 0.15 m * 100 rad/s / 5 m/s = 3, so that what levels off turns at a quarter of 4 rad/s.
CIRCLES = [({"magnus": 0.02}, 2.0, 7e-4), ({"magnus": 0.04, "magnus_saturation": 0.15}, 1.0, 3e-4)]


@pytest.mark.full
@pytest.mark.parametrize(("law", "rate", "atol"), CIRCLES, ids=["even", "levels off"])
@pytest.mark.parametrize(
    ("dimension", "u0"), [(2, [3.0, 4.0, 100.0]), (3, [3.0, 4.0, 0.0, 0.0, 0.0, 100.0])], ids=["disc", "sphere"]
)
def test_a_ball_that_spins_flies_in_a_circle(dimension, u0, law, rate, atol):
    """v turns, one that spins to the left to the left; its length stays."""
    run = flight(dimension, u0, drag=0.0, gravity=jnp.zeros(dimension), **law)
    turned = 5 * np.exp(1j * (np.arctan2(4, 3) + rate * TIMES))
    np.testing.assert_allclose(run.u[:, 0] + 1j * run.u[:, 1], turned, atol=atol)


def pushed(u, saturation):
    return of_the_air(u[None], 3, {"drag": 0.1, "magnus": 0.01, "magnus_saturation": saturation})[0]


slopes_of_the_push = jax.jit(jax.jacrev(pushed, argnums=(0, 1)))


@pytest.mark.parametrize("u", [[0.0] * 6, [0.0, 0, 0, 1, 0, 0], [1.0, 0, 0, 0, 0, 0]], ids=["rest", "spin", "flight"])
def test_the_derivative_of_a_side_force_that_levels_off_is_finite_where_spin_or_speed_vanish(u):
    by_u, by_saturation = slopes_of_the_push(np.array(u), 0.04)
    # w x v: by the spin where there is speed, by the speed where there is spin and more of it.
    expected = np.zeros((3, 6))
    if u[0]:
        expected[0, 0], expected[1, 1], expected[2, 2] = -0.2, -0.1, -0.1
        expected[1, 5], expected[2, 4] = 0.01, -0.01
    np.testing.assert_allclose(by_u, expected, atol=1e-15)
    np.testing.assert_array_equal(by_saturation, np.zeros(3))


@pytest.mark.full
def test_what_glides_is_slowed_evenly_and_what_is_pulled_at_rest_creeps():
    """v = v_0 - f t; a pull p below f leaves a creep of CREEP p / sqrt(f^2 - p^2)."""
    along = jnp.array([0.6, 0.8, 0.0])

    def run(pull, speed):
        params = {"drag": 0.0, "magnus": 0.0, "dry_friction": 0.2, "gravity": pull * along[:2]}
        return flight(2, speed * along, **params)

    glides, rests = run(0.0, 0.5), run(0.1, 0.0)
    assert glides.status == 0
    np.testing.assert_allclose(np.linalg.norm(glides.u[:, :2], axis=1), 0.5 - 0.2 * TIMES, atol=1e-6)
    np.testing.assert_allclose(rests.u[-1], 1e-3 * 0.1 / np.sqrt(0.03) * along, rtol=1e-3)


@pytest.mark.full
def test_the_derivative_is_finite_at_rest_and_right_in_flight():
    def end(damping, drag, speed):
        u0 = np.array([1.0, 0, 0, 0, 0, 0]) * speed
        run = flight(3, u0, damping=damping, drag=drag, magnus=0.0, gravity=np.zeros(3))
        return run.u[-1, 0]

    slopes = jax.jit(jax.grad(end, argnums=(0, 1, 2)))
    assert slopes(0.0, 0.15, 0.0) == (0.0, 0.0, 1.0)
    # v = v0 / (1 + drag v0 t) without damping, of which the slope by damping is -v (t + drag v0 t^2 / 2) / (1 + ...)
    by_damping = -2 * (1 + 0.15 * 2 / 2) / 1.3**2
    np.testing.assert_allclose(slopes(0.0, 0.15, 2.0), (by_damping, -4 / 1.3**2, 1 / 1.3**2), rtol=1e-4)
    np.testing.assert_allclose(slopes(0.2, 0.0, 2.0)[2], np.exp(-0.2), rtol=1e-5)


@pytest.mark.full
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"drag": np.zeros(2)}, r"params\['drag'\]: expected shape \(\) or \(1,\), got \(2,\)"),
        ({}, r"expected 'drag' of shape \(\) or \(1,\)"),
    ],
)
def test_missing_and_misshapen_coefficients_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        flight(3, np.zeros(6), magnus=0.0, gravity=np.zeros(3), **change)
