"""What EventTimed promises of any motion: both modes, second derivatives, lanes, the list of percussions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.schemes.event_timed import EventTimed

TIMES = np.linspace(0.0, 0.8, 5)


def _disc(theta):
    """A disc with spin that bounces between walls and grips or slips: theta (8,)."""
    system = dc.systems.balls(1, 2, box=(0.0, 1.0), spin=True)
    params = {"mass": jnp.ones(1), "radius": 0.1 * jnp.ones(1), "gravity": jnp.array([0.0, -9.81])}
    params |= {"restitution": theta[0], "friction": theta[1], "tangential_restitution": 0.0}
    return system, params, theta[2:5], theta[5:8]


THETA = np.array([0.7, 0.3, 0.4, 0.5, 0.0, 1.5, 0.5, 6.0])


def _run(theta, scheme=EventTimed(), **options):  # noqa: B008
    return dc.simulate(*_disc(theta), TIMES, scheme=scheme, substeps=10, **options)


def _end(theta):
    run = _run(theta)
    return jnp.concatenate([run.q[-1], run.u[-1]]), run.status


@pytest.fixture(scope="module")
def forwards():
    return jax.jit(jax.vmap(jax.jacfwd(lambda theta: (_end(theta)[0],) * 2, has_aux=True)))


def _jacobian(forwards):
    return np.asarray(forwards(np.stack([THETA] * 16))[0])[0]


def test_lanes_leave_each_other_alone(forwards):
    lanes = THETA + 0.05 * np.random.default_rng(0).normal(size=(16, 8))
    alone = forwards(np.tile(lanes[:1], (16, 1)))
    among = forwards(lanes)
    for x, y in zip(alone, among, strict=True):
        assert np.array_equal(np.asarray(x)[0], np.asarray(y)[0])


def test_it_is_what_differences_say(forwards):
    """Of order 4 in 1e-5: differences are good to 1e-9 beside a motion of some metres a second."""
    steps = 1e-5 * np.concatenate([np.eye(8), -np.eye(8)])
    ends = np.asarray(forwards(THETA + steps)[1])
    differences = (ends[:8] - ends[8:]).T / 2e-5
    found = _jacobian(forwards)
    assert np.max(np.abs(found - differences)) < 1e-6 * np.max(np.abs(found))


def test_reverse_mode_is_forward_mode(forwards):
    weights = np.random.default_rng(1).normal(size=6)
    gradient, status = jax.jit(jax.grad(lambda theta: (lambda x, s: (weights @ x, s))(*_end(theta)), has_aux=True))(
        THETA
    )
    found = _jacobian(forwards)
    assert status == 0
    assert np.max(np.abs(gradient - weights @ found)) < 1e-12 * np.max(np.abs(found))


def test_second_derivatives(forwards):
    hessian = jax.jit(jax.jacfwd(jax.jacfwd(lambda theta: _end(theta)[0])))(THETA)
    steps = 1e-5 * np.concatenate([np.eye(8), -np.eye(8)])
    jacobians = np.asarray(forwards(THETA + steps)[0])
    differences = np.moveaxis((jacobians[:8] - jacobians[8:]) / 2e-5, 0, -1)
    assert np.max(np.abs(hessian - differences)) < 1e-5 * np.max(np.abs(hessian))


def test_percussions_are_those_of_the_motion():
    """Their times and impulses have the derivative of what the motion says."""

    def first(theta):
        run = _run(theta, percussions=6)
        return run.percussions.time, run.percussions

    tangent = np.eye(8)[3]
    found = jax.jit(lambda theta: jax.jvp(first, (theta,), (tangent,)))(THETA)
    (_, struck), (faster, _) = jax.tree.map(np.asarray, found)
    assert struck.contact[0] >= 0
    # The first impact is that of the floor (contact 1) or of a wall; its time from free flight.
    q, u, contact = THETA[2:5], THETA[5:8], int(struck.contact[0])
    times = {1: (u[1] + np.sqrt(u[1] ** 2 + 2 * 9.81 * (q[1] - 0.1))) / 9.81, 2: (0.9 - q[0]) / u[0]}
    assert abs(float(struck.time[0] - times[contact])) < 1e-12
    height = 1 / np.sqrt(u[1] ** 2 + 2 * 9.81 * (q[1] - 0.1)) if contact == 1 else 0.0
    assert abs(float(faster[0] - height)) < 1e-10
    assert np.all(struck.before[np.arange(6), struck.contact][struck.contact >= 0] < 0)


def test_what_functions_close_over_is_differentiated():
    """Behind the wall at w the place is w - e (what is left of the way): both ways of giving w agree with it."""

    def end(wall, friction):
        system = dc.System(
            gap=lambda t, q, p: wall - q,
            force=lambda t, q, u, p: -friction * u,
            mass=lambda q, p: jnp.ones(1),
            restitution=lambda p: p,
        )
        run = dc.simulate(system, 0.5, jnp.zeros(1), jnp.ones(1), jnp.linspace(0.0, 2.0, 5), scheme=EventTimed(order=6))
        return run.q[-1, 0]

    value, slope = jax.jit(jax.value_and_grad(end))(0.7, 0.0)
    assert abs(value - (0.7 - 0.5 * 1.3)) < 1e-14
    assert abs(slope - 1.5) < 1e-13


def test_single_precision(forwards):
    """The same motion to a thousand roundings."""
    with jax.enable_x64(False):
        run = jax.jit(_run)(np.asarray(THETA, np.float32))
    assert run.q.dtype == jnp.float32
    assert run.status == 0
    end = np.asarray(forwards(np.stack([THETA] * 16))[1])[0]
    assert np.max(np.abs(np.asarray(run.q)[-1] - end[:3])) < 1e-3


def test_free_flight():
    system = dc.System(
        gap=lambda t, q, p: q[:0],
        force=lambda t, q, u, p: -p * q,
        mass=lambda q, p: jnp.ones(1),
        restitution=lambda p: 0.0,
    )

    def end(p):
        times = jnp.linspace(0.0, 1.0, 21)
        return dc.simulate(system, p, jnp.ones(1), jnp.zeros(1), times, scheme=EventTimed(order=6)).q[-1, 0]

    value, slope = jax.jit(jax.value_and_grad(end))(4.0)
    # cos(sqrt(p) t); what the sixth order leaves, (h w)^7 / 7! a step, is some 1e-10 in twenty steps.
    assert abs(value - np.cos(2.0)) < 1e-8
    assert abs(slope + np.sin(2.0) / 4) < 1e-8


def test_the_error_travels_with_the_motion():
    """Two masses on springs that strike each other and a wall some thirty times, of second order."""
    system = dc.System(
        gap=lambda t, q, p: jnp.stack([q[0] + 0.05, q[1] - q[0] + 0.02]),
        force=lambda t, q, u, p: -jnp.array([40.0, 90.0]) * q - jnp.array([2.0, 3.0]) * jnp.sin(7.0 * t + q),
        mass=lambda q, p: jnp.array([1.0, 0.6]),
        restitution=lambda p: 0.9,
    )
    times, q0, u0 = np.linspace(0.0, 2.0, 5), jnp.zeros(2), jnp.array([0.4, -0.3])

    def run(scheme, substeps):
        return dc.simulate(system, {}, q0, u0, times, scheme=scheme, substeps=jnp.asarray(substeps))

    truth = jax.tree.map(np.asarray, run(EventTimed(order=6), 400))
    for substeps in (100, 200):
        found = jax.tree.map(np.asarray, run(EventTimed(order=2, errors=True), substeps))
        off = np.concatenate([found.q - truth.q, found.u - truth.u], axis=1)[1:]
        size = np.max(np.abs(off), axis=1)
        assert found.status == 0
        assert np.max(size) > 1e-4
        # The errors add up to what is carried, but for their own squares.
        assert np.all(np.max(np.abs(np.asarray(found.error)[1:] + off), axis=1) < 0.2 * size)
