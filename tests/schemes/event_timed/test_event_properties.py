"""What EventTimed promises of any motion: both modes, second derivatives, lanes, the list of percussions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.schemes.event_timed import EventTimed

TIMES = np.linspace(0.0, 0.8, 5)


def _lands(gravity, q0, u0):
    """The time of the impact."""
    return (u0 + jnp.sqrt(u0**2 + 2 * gravity * q0)) / gravity


def _bounced(e, gravity, q0, u0):
    """Height and velocity at T = 0.8 of a ball that has bounced once."""
    impact = _lands(gravity, q0, u0)
    after, left = e * jnp.sqrt(u0**2 + 2 * gravity * q0), 0.8 - impact
    return jnp.stack([after * left - gravity * left**2 / 2, after - gravity * left])


def _run(e, gravity, q0, u0, **options):
    """The same simulated, e as a parameter and gravity as what the force closes over."""
    ball = dc.System(
        gap=lambda t, q, p: q,
        force=lambda t, q, u, p: -gravity * np.ones(1),
        mass=lambda q, p: np.ones(1),
        restitution=lambda p: p,
    )
    return dc.simulate(ball, e, q0[None], u0[None], TIMES, **options)


def _end(*given):
    run = _run(*given)
    return jnp.concatenate([run.q[-1], run.u[-1]])


THETA = (0.8, 9.81, 1.0, 0.3)
ALL = (0, 1, 2, 3)
WEIGHTS = np.array([0.6, -0.3])


@pytest.fixture(scope="module")
def derivatives():
    """In reverse mode, of second order, and of the time of the impact: found, and by hand."""

    def weighted(of):
        return lambda *theta: WEIGHTS @ of(*theta)

    def struck(*theta):
        run = _run(*theta, percussions=2)
        return run.percussions.time[0], run.percussions

    def lands(e, gravity, q0, u0):
        return _lands(gravity, q0, u0), None

    @jax.jit
    def both(*theta):
        return [
            (
                jax.grad(weighted(of), ALL)(*theta),
                jax.jacfwd(jax.jacfwd(weighted(of), ALL), ALL)(*theta),
                jax.jacfwd(time, ALL, has_aux=True)(*theta),
            )
            for of, time in ((_end, struck), (_bounced, lands))
        ]

    return jax.tree.map(np.asarray, both(*map(jnp.asarray, THETA)))


def test_reverse_mode_and_second_derivatives_are_those_by_hand(derivatives):
    (gradient, hessian, _), (exact, exact_hessian, _) = derivatives
    np.testing.assert_allclose(gradient, exact, rtol=1e-11)
    np.testing.assert_allclose(hessian, exact_hessian, rtol=1e-10, atol=1e-10)


def test_percussions_are_those_of_the_motion(derivatives):
    (_, _, (faster, struck)), (_, _, (exact, _)) = derivatives
    np.testing.assert_allclose(faster, exact, rtol=1e-11, atol=1e-12)
    assert struck.contact.tolist() == [0, -1]
    fall = np.sqrt(0.3**2 + 2 * 9.81)
    np.testing.assert_allclose([struck.time[0], struck.before[0, 0]], [(0.3 + fall) / 9.81, -fall], rtol=1e-12)


def test_free_flight():
    system = dc.System(
        gap=lambda t, q, p: q[:0],
        force=lambda t, q, u, p: -p * q,
        mass=lambda q, p: np.ones(1),
        restitution=lambda p: 0.0,
    )

    def end(p):
        times = np.linspace(0.0, 1.0, 21)
        return dc.simulate(system, p, np.ones(1), np.zeros(1), times, scheme=EventTimed(order=6)).q[-1, 0]

    value, slope = jax.jit(jax.value_and_grad(end))(4.0)
    # cos(sqrt(p) t); what the sixth order leaves, (h w)^7 / 7! a step, is some 1e-10 in twenty steps.
    assert abs(value - np.cos(2.0)) < 1e-8
    assert abs(slope + np.sin(2.0) / 4) < 1e-8


def test_the_error_travels_with_the_motion():
    """Two masses on springs that strike each other and a wall some thirty times, of second order."""
    system = dc.System(
        gap=lambda t, q, p: jnp.stack([q[0] + 0.05, q[1] - q[0] + 0.02]),
        force=lambda t, q, u, p: -np.array([40.0, 90.0]) * q - np.array([2.0, 3.0]) * jnp.sin(7.0 * t + q),
        mass=lambda q, p: np.array([1.0, 0.6]),
        restitution=lambda p: 0.9,
    )
    times, q0, u0 = np.linspace(0.0, 2.0, 5), np.zeros(2), np.array([0.4, -0.3])

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
