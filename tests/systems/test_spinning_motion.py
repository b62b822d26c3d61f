"""Balls that spin in motion, against closed forms of the state and of its derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo
from programs import run

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full

# Constant forces and straight contacts: exact at every step, but for rounding.
ROUNDING = 1e-12

FLOOR = dc.systems.balls(1, 3, planes=lambda t, p: (jnp.array([[0.0, 0.0, 1.0]]), jnp.zeros(1)), spin=True)
SPHERE = {"mass": np.ones(1), "radius": np.array([0.1]), "gravity": np.array([0.0, 0.0, -9.81])}
SPHERE |= {"restitution": 0.8, "friction": 0.05}


def _at(height):
    return jnp.array([0.0, 0.0, height, 1.0, 0.0, 0.0, 0.0])


@pytest.mark.parametrize("friction", [0.05, 0.3], ids=["slips", "grips"])
def test_a_sphere_bounces_as_the_one_whose_closed_forms_are_known(friction):
    """Beside the zoo's, of `test_sphere.py`; sensitivities have the rows of positions (7) and of velocities (6)."""
    params, u0 = SPHERE | {"friction": friction}, np.array([1.0, 0.5, 0.0, 3.0, -2.0, 7.0])
    row = params | {"radius": 0.1, "q0": [0.0, 0.0, 0.6], "u0": u0, "end": 0.8}
    known = run(zoo.SPHERE, {"bounces": {name: row[name] for name in row if name != "mass"}})["bounces"]
    found = dc.sensitivity(FLOOR, params, _at(0.6), u0, known.t, wrt=["friction", "u0"], substeps=1)
    assert found.trajectory.status == known.status == Status.OK
    assert found.dq["u0"].shape == (21, 7, 6)
    assert found.du["u0"].shape == (21, 6, 6)
    np.testing.assert_allclose(found.trajectory.q[:, :3], known.q, atol=ROUNDING)
    np.testing.assert_allclose(found.trajectory.u, known.u, atol=ROUNDING)
    for name in ("friction", "u0"):
        slopes = np.concatenate([found.dq[name][:, :3], found.du[name]], axis=1)
        np.testing.assert_allclose(slopes, known.by[name], atol=10 * ROUNDING)


@pytest.mark.parametrize("scheme", [dc.EventTimed(), dc.VelocityProjection()])
def test_a_flying_sphere_turns_exactly_however_fast(scheme):
    """Four radians in a step: the quaternion of the rotation about w by |w| t, and its derivative by w."""
    w, times = jnp.array([200.0, -100.0, 330.0]), jnp.linspace(0.0, 0.1, 11)
    params = {**SPHERE, "gravity": jnp.zeros(3), "restitution": 0.0}

    def end(w):
        run = dc.simulate(FLOOR, params, _at(1.0), jnp.concatenate([jnp.zeros(3), w]), times, scheme=scheme)
        return run.q[-1, 3:], run.status

    def exact(w):
        half = jnp.linalg.norm(w) * times[-1] / 2
        return jnp.concatenate([jnp.cos(half)[None], jnp.sin(half) * w / jnp.linalg.norm(w)])

    derivative, status = jax.jacfwd(end, has_aux=True)(w)
    assert status == Status.OK
    np.testing.assert_allclose(end(w)[0], exact(w), atol=ROUNDING)
    np.testing.assert_allclose(derivative, jax.jacfwd(exact)(w), atol=ROUNDING)


@pytest.mark.parametrize(("steps", "told"), [(5, Status.TOO_COARSE), (200, Status.OK)])
def test_a_rate_of_ones_own_that_turns_too_far_in_a_step_is_told(steps, told):
    """A clock's hand (cos, sin), turned by u: 100 rad in steps of 20 rad, or of half a radian."""
    hand = zoo.system(
        gap=lambda t, q, p: q[:1] + 10.0,
        mass=lambda q, p: np.ones(1),
        rate=lambda q, u, p: u[0] * jnp.stack([-q[1], q[0]]),
    )
    run = dc.simulate(hand, {}, [1.0, 0.0], [100.0], jnp.linspace(0.0, 1.0, steps + 1))
    assert run.status == told
    if told == Status.OK:
        # Runge and Kutta: (h w)^5/120 a step.
        np.testing.assert_allclose(run.q[-1], [np.cos(100), np.sin(100)], atol=steps * 0.5**5 / 120)
