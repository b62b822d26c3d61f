"""What EventTimed promises of any motion: reverse mode, second derivatives, errors, the list of percussions."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.schemes.event_timed import EventTimed

TIMES = np.linspace(0.0, 0.8, 5)
THETA = {"e": 0.6, "mu": 0.2, "gravity": 9.81, "height": 1.0, "speed": 2.0}
# Of the way, the velocity and the time of the impact.
WEIGHTS = np.array([0.6, -0.3, 0.8])


def _simulated(p):
    """A body that slips in its one impact, with gravity as what the force closes over."""
    system = dc.System(
        gap=lambda t, q, mine: q[1:],
        force=lambda t, q, u, mine: -p["gravity"] * np.array([0.0, 1.0]),
        mass=lambda q, mine: np.ones(2),
        restitution=lambda mine: mine["e"],
        slip=lambda t, q, u, mine: u[:1, None],
        friction=lambda mine: mine["mu"],
    )
    given = {"e": p["e"], "mu": p["mu"]}, jnp.stack([0.0, p["height"]]), jnp.stack([p["speed"], 0.0]), TIMES
    run = dc.simulate(system, *given, percussions=2)
    return WEIGHTS @ jnp.stack([run.q[-1, 0], run.u[-1, 0], run.percussions.time[0]]), run.percussions


def _by_hand(p):
    fall = jnp.sqrt(2 * p["gravity"] * p["height"])
    impact = fall / p["gravity"]
    slower = p["speed"] - p["mu"] * (1 + p["e"]) * fall
    return WEIGHTS @ jnp.stack([p["speed"] * impact + slower * (0.8 - impact), slower, impact]), None


def test_reverse_mode_of_an_impact_with_friction_is_that_by_hand():
    found, exact = jax.jit(lambda p: [jax.grad(of, has_aux=True)(p) for of in (_simulated, _by_hand)])(THETA)
    for name in THETA:
        np.testing.assert_allclose(found[0][name], exact[0][name], rtol=1e-11, err_msg=name)
    struck, fall = found[1], np.sqrt(2 * 9.81)
    assert struck.contact.tolist() == [0, -1]
    np.testing.assert_allclose([struck.time[0], struck.before[0, 0]], [fall / 9.81, -fall], rtol=1e-12)


# On every commit `tests/qp/test_projection.py` has second derivatives.
@pytest.mark.full
def test_second_derivatives_of_an_impact_with_friction_are_those_by_hand():
    """Reverse over reverse along a direction, and forward over reverse."""
    along = {name: np.cos(float(number)) for number, name in enumerate(THETA)}

    def products(of):
        slope = jax.grad(lambda p: of(p)[0])
        forward = jax.jvp(slope, (THETA,), (along,))[1]
        return forward, jax.grad(lambda p: sum(along[name] * x for name, x in slope(p).items()))(THETA)

    (found, again), (exact, _) = jax.jit(lambda: (products(_simulated), products(_by_hand)))()
    for name in THETA:
        np.testing.assert_allclose([found[name], again[name]], exact[name], rtol=1e-10, atol=1e-12, err_msg=name)


def test_free_flight():
    system = zoo.system(gap=lambda t, q, p: q[:0], force=lambda t, q, u, p: -p * q)

    def end(p):
        times = np.linspace(0.0, 1.0, 21)
        return dc.simulate(system, p, np.ones(1), np.zeros(1), times, scheme=EventTimed(order=6)).q[-1, 0]

    value, slope = map(float, jax.jit(jax.value_and_grad(end))(4.0))
    # cos(sqrt(p) t); what the sixth order leaves, (h w)^7 / 7! a step, is some 1e-10 in twenty steps.
    assert abs(value - np.cos(2.0)) < 1e-8
    assert abs(slope + np.sin(2.0) / 4) < 1e-8


def test_the_error_travels_with_the_motion():
    """Two masses on springs that strike each other and a wall some thirty times, of second order."""
    system = zoo.system(
        gap=lambda t, q, p: jnp.stack([q[0] + 0.05, q[1] - q[0] + 0.02]),
        force=lambda t, q, u, p: -np.array([40.0, 90.0]) * q - np.array([2.0, 3.0]) * jnp.sin(7.0 * t + q),
        mass=lambda q, p: np.array([1.0, 0.6]),
        restitution=0.9,
    )
    times, q0, u0 = np.linspace(0.0, 2.0, 5), np.zeros(2), np.array([0.4, -0.3])

    @jax.jit
    def run(substeps):
        return dc.simulate(system, {}, q0, u0, times, scheme=EventTimed(order=2, errors=True), substeps=substeps)

    # A thousandth of the error of 100 steps.
    truth = jax.tree.map(np.asarray, run(np.asarray(3200)))
    for substeps in (100, 200):
        found = jax.tree.map(np.asarray, run(np.asarray(substeps)))
        off = np.concatenate([found.q - truth.q, found.u - truth.u], axis=1)[1:]
        size = np.max(np.abs(off), axis=1)
        assert found.status == 0
        assert np.max(size) > 1e-4
        # The errors add up to what is carried, but for their own squares.
        assert np.all(np.max(np.abs(np.asarray(found.error)[1:] + off), axis=1) < 0.2 * size)
