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


SKATER = dc.System(
    gap=lambda t, q, p: q[1:],
    force=lambda t, q, u, p: -p["gravity"] * np.array([0.0, 1.0]),
    mass=lambda q, p: np.ones(2),
    restitution=lambda p: p["e"],
    slip=lambda t, q, u, p: u[:1, None],
    friction=lambda p: p["mu"],
)
SKATES = {"e": 0.6, "mu": 0.2, "gravity": 9.81, "height": 1.0, "speed": 2.0}


def _skated(p):
    """Way and velocity behind the one impact of a body that slips in it."""
    fall = jnp.sqrt(2 * p["gravity"] * p["height"])
    impact = fall / p["gravity"]
    slower = p["speed"] - p["mu"] * (1 + p["e"]) * fall
    return WEIGHTS @ jnp.stack([p["speed"] * impact + slower * (0.8 - impact), slower])


def _skates(p):
    run = dc.simulate(SKATER, p, jnp.stack([0.0, p["height"]]), jnp.stack([p["speed"], 0.0]), TIMES)
    return WEIGHTS @ jnp.stack([run.q[-1, 0], run.u[-1, 0]])


def test_reverse_mode_of_an_impact_with_friction_is_that_by_hand():
    found, exact = (jax.jit(jax.grad(of))(SKATES) for of in (_skates, _skated))
    for name in SKATES:
        np.testing.assert_allclose(found[name], exact[name], rtol=1e-11, err_msg=name)


@pytest.mark.full
def test_second_derivatives_of_an_impact_with_friction_are_those_by_hand():
    """Reverse over reverse along a direction, and forward over reverse."""
    along = {name: np.cos(float(number)) for number, name in enumerate(SKATES)}

    def products(of):
        slope = jax.grad(of)
        forward = jax.jvp(slope, (SKATES,), (along,))[1]
        return forward, jax.grad(lambda p: sum(along[name] * x for name, x in slope(p).items()))(SKATES)

    (found, again), (exact, _) = jax.jit(lambda: (products(_skates), products(_skated)))()
    for name in SKATES:
        np.testing.assert_allclose([found[name], again[name]], exact[name], rtol=1e-10, atol=1e-12, err_msg=name)


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
