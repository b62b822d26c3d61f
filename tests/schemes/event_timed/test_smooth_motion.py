"""Contacts that let go and close again: orders of state and Jacobian, and no percussion where nothing is struck."""

import json

import hybrid
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full


def _errors(problem, truth, steps, order):
    """Relative errors of state and Jacobian (Frobenius), and the run."""

    def end(theta):
        params, q0, u0 = problem.unpack(theta)
        times = truth["T"] * jnp.linspace(0.0, 1.0, steps + 1)
        run = dc.simulate(problem.system, params, q0, u0, times, scheme=dc.EventTimed(order=order), percussions=32)
        state = jnp.concatenate([run.q[-1], run.u[-1]])
        return state, (state, run)

    found, (value, run) = jax.jit(jax.jacfwd(end, has_aux=True))(np.array(truth["theta"]))
    pairs = (value, np.array(truth["state"])), (found, np.array(truth["jacobian"]))
    return np.array([np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in pairs]), run


# How far each observed order may be judged: rounding ends it where forces are constant.
@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("name", hybrid.PROBLEMS)
def test_orders_on_hybrid_systems(reference, name, order):
    problem = hybrid.PROBLEMS[name]
    truth = json.loads((reference / f"hybrid/{name}.json").read_text())
    coarse, fine = (_errors(problem, truth, round(truth["T"] / h), order) for h in (5e-3, 1e-3))
    assert fine[1].status == 0
    hits = sum(kind == "hit" for *_, kind in truth["events"])
    struck = fine[1].percussions.contact >= 0
    # Every percussion that is listed approaches.
    assert np.all(fine[1].percussions.before[np.arange(32), fine[1].percussions.contact][struck] < 0)
    # Order 2 may land once more after it has let go, by its error of that time; what a Zeno sequence has left is cut.
    assert np.sum(struck) <= hits + 2
    # The references are good to 1e-11.
    converged = fine[0] < 1e-10
    order_seen = np.log(coarse[0] / fine[0]) / np.log(5)
    assert np.all(converged | (order_seen > {2: 1.8, 4: 3.5, 6: 5.5}[order]))


def test_a_ceiling_that_gravity_opens_is_left_elastically():
    # It arrives at sqrt(16 - 2 g h) = 0.0447 m/s: slow, but gravity takes it away.
    system = dc.systems.balls(1, 1, box=(0.0, 0.7999))
    params = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-10.0]), "restitution": 1.0}

    def end(speed):
        run = dc.simulate(system, params, jnp.zeros(1), speed[None], jnp.linspace(0, 0.5, 51))
        return run.u[-1, 0], run.status

    def exact(speed):
        arrives = jnp.sqrt(speed**2 - 20 * 0.7999)
        return -arrives - 10 * (0.5 - (speed - arrives) / 10)

    speed = jnp.array(4.0)
    (value, status), slope = jax.jit(lambda u: (end(u), jax.jacfwd(lambda u: end(u)[0])(u)))(speed)
    assert status == 0
    # The approach is a difference of numbers 90 times as large, and the slope its inverse.
    np.testing.assert_allclose(value, exact(speed), rtol=1e-11)
    np.testing.assert_allclose(slope, jax.grad(exact)(speed), rtol=1e-9)


@pytest.mark.parametrize(("speed", "offset"), [(10.0, 0.19), (3.0, 0.1995), (0.5, 0.1)])
def test_discs_that_pass_each_other_fast_keep_their_energy(speed, offset):
    # A curved surface goes away under what slides along it: nothing is inelastic there, however slow the approach.
    system = dc.systems.balls(2, 2)
    params = {"mass": jnp.ones(2), "radius": 0.1 * jnp.ones(2), "gravity": jnp.zeros(2), "restitution": 1.0}
    h = 0.025
    start = [-np.sqrt(0.04 - offset**2) - 10.3 * h * speed, offset, 0.0, 0.0]
    run = dc.simulate(system, params, start, [speed, 0.0, 0.0, 0.0], h * np.arange(21))
    assert run.status == 0
    np.testing.assert_allclose(np.sum(run.u**2, axis=1), speed**2, rtol=1e-12)
    assert np.max(run.impulse) > 0


def test_a_ball_that_bounces_for_ever_is_not_put_to_rest_in_silence():
    # e = 1 from 1 um: each flight is shorter than an eighth of a step of 1e-2.
    system = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
    params = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-10.0]), "restitution": 1.0}
    run = dc.simulate(system, params, [1e-6], [0.0], np.linspace(0, 0.5, 51))
    assert run.status == dc.Status.TOO_COARSE
