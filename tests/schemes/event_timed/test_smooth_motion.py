"""Contacts that let go and close again: orders of state and Jacobian, and no percussion where nothing is struck."""

import json
from functools import partial

import hybrid
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc

pytestmark = pytest.mark.full

# A mass on a spring whose other end is drawn up as w t^2: it lies on the floor until k w t^2 = g, and then leaves it
# with an acceleration that begins at zero.
LIFTED = zoo.system(gap=lambda t, q, p: q, force=lambda t, q, u, p: p[0] * (p[1] * t**2 - q) - p[2])


def _lifted(p, t):
    """(2,) position and velocity, after the mass has left the floor."""
    k, w, g = p
    omega, since = jnp.sqrt(k), jnp.sqrt(g / (k * w))

    def driven(t):
        return w * t**2 - g / k - 2 * w / k

    a, b = -driven(since), -2 * w * since / omega
    phase = omega * (t - since)
    position = driven(t) + a * jnp.cos(phase) + b * jnp.sin(phase)
    return jnp.stack([position, 2 * w * t - a * omega * jnp.sin(phase) + b * omega * jnp.cos(phase)])


def _end(system, unpack, T, steps, order, theta):
    params, q0, u0 = unpack(theta)
    times = T * jnp.linspace(0.0, 1.0, steps + 1)
    run = dc.simulate(system, params, q0, u0, times, scheme=dc.EventTimed(order=order), percussions=32)
    return jnp.concatenate([run.q[-1], run.u[-1]]), run


def _errors(system, unpack, T, steps, order, theta, state, jacobian):
    """Relative errors of state and Jacobian (Frobenius), and the run."""
    end = partial(_end, system, unpack, T, steps, order)
    value, run = jax.jit(end)(theta)
    found = jax.jit(jax.jacfwd(lambda theta: end(theta)[0]))(theta)
    errors = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in ((value, state), (found, jacobian))]
    return np.array(errors), run


def _check_percussions(run):
    """Every percussion that is listed approaches."""
    struck = run.percussions.contact >= 0
    before = run.percussions.before[np.arange(len(struck)), run.percussions.contact]
    assert np.all(before[struck] < 0)
    return int(np.sum(struck))


@pytest.mark.parametrize("order", [2, 4])
def test_a_mass_that_is_lifted(order):
    theta = jnp.array([100.0, 1.3, 20.0])
    exact = partial(_lifted, t=0.8)
    truth = exact(theta), jax.jacfwd(exact)(theta)
    coarse, fine = (
        _errors(LIFTED, lambda p: (p, jnp.zeros(1), jnp.zeros(1)), 0.8, steps, order, theta, *truth)
        for steps in (80, 320)
    )
    for _, run in (coarse, fine):
        assert run.status == 0
        assert _check_percussions(run) == 0
    # The slack of a fifth (order 2) and a half (order 4) is for the next terms of the expansion.
    assert np.all(np.log(coarse[0] / fine[0]) / np.log(4) > {2: 1.8, 4: 3.5}[order])


# How far each observed order may be judged: rounding ends it where forces are constant.
@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("name", hybrid.PROBLEMS)
def test_orders_on_hybrid_systems(reference, name, order):
    problem = hybrid.PROBLEMS[name]
    truth = json.loads((reference / f"hybrid/{name}.json").read_text())
    theta, state, jacobian = (np.array(truth[key]) for key in ("theta", "state", "jacobian"))
    coarse, fine = (
        _errors(problem.system, problem.unpack, truth["T"], steps, order, theta, state, jacobian)
        for steps in (round(truth["T"] / 5e-3), round(truth["T"] / 1e-3))
    )
    assert fine[1].status == 0
    hits = sum(kind == "hit" for *_, kind in truth["events"])
    # Order 2 may land once more after it has let go, by its error of that time; what a Zeno sequence has left is cut.
    assert _check_percussions(fine[1]) <= hits + 2
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
