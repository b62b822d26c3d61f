"""Restitution as a function of the speed of approach: closed forms with their derivatives, energy, rest, refusals."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from event_exact import event_exact

import diffcontact as dc

pytestmark = pytest.mark.full

G = 9.81


def _ball(restitution) -> dc.System:
    return dc.System(
        gap=lambda t, q, p: q,
        force=lambda t, q, u, p: -G * jnp.ones(1),
        mass=lambda q, p: jnp.ones(1),
        restitution=restitution,
    )


def _linear(p, speed):
    return p["e0"] - p["a"] * speed


def _viscoelastic(p, speed):
    return 1 - p["c"] * speed**0.2


BALL = _ball(_linear)


def test_second_order_through_air_against_an_event_exact_motion():
    """State and derivative; the reference has the saltation of each impact, with de/dspeed in it."""
    ball = replace(BALL, force=lambda t, q, u, p: -G - 0.1 * jnp.abs(u) * u)

    def unpack(theta):
        return {"e0": theta[0], "a": theta[1]}, theta[2:3], theta[3:4]

    def end(theta, steps):
        run = dc.simulate(ball, *unpack(theta), jnp.linspace(0.0, 1.5, steps + 1))
        return jnp.concatenate([run.q[-1], run.u[-1]])

    theta = jnp.array([0.9, 0.04, 1.0, 0.3])
    exact = event_exact(ball, unpack, theta, 1.5)
    assert len(exact.events) == 2
    errors = []
    for steps in (75, 300):
        derivative = jax.jit(jax.jacfwd(lambda theta: end(theta, steps)))(theta)  # noqa: B023
        off = np.max(np.abs(derivative - exact.jacobian)) / np.max(np.abs(exact.jacobian))
        errors.append([np.max(np.abs(end(theta, steps) - exact.state)), off])
    # A quarter of the step: a sixteenth of the error.
    assert np.all(np.array(errors[0]) > 10 * np.array(errors[1]))
    assert np.all(np.array(errors[1]) < [2e-4, 5e-5])


DISC = replace(
    dc.systems.balls(1, 2, planes=lambda t, p: (jnp.array([[0.0, 1.0]]), jnp.zeros(1)), spin=True), restitution=_linear
)


def _disc(theta):
    return {
        "mass": jnp.ones(1),
        "radius": jnp.full(1, 0.1),
        "gravity": jnp.array([0.0, -G]),
        "friction": theta[2],
        "e0": theta[0],
        "a": theta[1],
    }


def test_an_oblique_disc_slips_with_the_impulse_of_its_speed():
    """P = (1 + e(v)) m v and B = mu P against the slip (Walton), in flight, at any step length."""
    start = jnp.array([0.0, 0.4, 0.0]), jnp.array([3.0, -1.0, 0.0])

    def truth(theta):
        speed = jnp.sqrt(1.0 + 2 * G * 0.3)
        tau, T = (speed - 1.0) / G, 0.3
        P = (1 + theta[0] - theta[1] * speed) * speed
        u = jnp.array([3.0 - theta[2] * P, P - speed, -2 * theta[2] * P / 0.1])
        left = T - tau
        fall = jnp.array([0.0, G, 0.0])
        q = jnp.array([3.0 * tau, 0.1, 0.0]) + u * left - fall * left**2 / 2
        return jnp.concatenate([q, u - fall * left])

    def end(theta, steps):
        run = dc.simulate(DISC, _disc(theta), *start, jnp.array([0.0, 0.3]), substeps=steps)
        there = jnp.concatenate([run.q[-1], run.u[-1]])
        return there, there

    theta = jnp.array([0.8, 0.05, 0.2])
    slopes = jax.jit(jax.jacfwd(end, has_aux=True))
    for steps in (4, 30):
        derivative, there = slopes(theta, jnp.array(steps))
        np.testing.assert_allclose(there, truth(theta), atol=1e-10)
        np.testing.assert_allclose(derivative, jax.jacfwd(truth)(theta), atol=1e-8)


@pytest.mark.parametrize("law", [_linear, lambda p, v: 0.2 + 0.7 * v / (1 + v)], ids=["falls", "rises"])
@pytest.mark.parametrize("dimension", [1, 2])
def test_no_impact_makes_energy(law, dimension):
    """Several contacts at once, each with the e of its own speed, among them contacts that separate."""
    balls = dc.systems.balls(3, dimension, spin=dimension == 2)
    system = replace(balls, restitution=law)
    rng = np.random.default_rng(1)
    params = {"mass": jnp.array([1.0, 0.2, 3.0]), "radius": jnp.full(3, 0.1), "gravity": jnp.zeros(dimension)}
    params |= {"e0": 0.9, "a": 0.1, "friction": 0.5}
    place = (
        np.array([[0.0], [0.2], [0.4]]) if dimension == 1 else np.array([[0, 0, 0], [0.2, 0, 0], [0.1, 0.03**0.5, 0]])
    )
    u0 = jnp.asarray(rng.normal(size=(200, place.size)) * 2)

    def energies(u0):
        run = dc.simulate(system, params, jnp.asarray(place.ravel()), u0, jnp.array([0.0, 1e-9]))
        mass = system.mass(run.q[0], params)
        return (mass @ run.u[0] ** 2, mass @ run.u[-1] ** 2), run.status

    (before, after), status = jax.jit(jax.vmap(energies))(u0)
    struck = np.abs(before - after) > 1e-9 * before
    assert np.all(np.asarray(status) == 0)
    assert np.mean(struck) > 0.5
    assert np.all(after <= before * (1 + 1e-12))


def test_a_power_with_an_infinite_slope_at_rest_keeps_derivatives_finite():
    """e = 1 - c v^(1/5) of a box with four walls: the gaps that open have speed 0."""
    box = replace(dc.systems.balls(1, 2, box=(0.0, 1.0)), restitution=_viscoelastic)
    params = {"mass": jnp.ones(1), "radius": jnp.full(1, 0.1), "gravity": jnp.array([0.0, -1.0])}

    def end(c):
        return dc.simulate(box, params | {"c": c}, jnp.full(2, 0.5), jnp.array([1.3, 0.4]), jnp.linspace(0, 2, 41)).q[
            -1
        ]

    c, step = 0.2, 1e-6
    difference = (end(c + step) - end(c - step)) / (2 * step)
    assert np.max(np.abs(difference)) > 0.1
    np.testing.assert_allclose(jax.jacfwd(end)(c), difference, rtol=1e-6)
    np.testing.assert_allclose(jax.jacrev(end)(c), difference, rtol=1e-6)


def test_hypotheses_name_the_law():
    report = dc.hypotheses.report(BALL, {"e0": 0.9, "a": 0.04}, 0.0, jnp.ones(1), jnp.zeros(1))
    assert "depends on the speed" in str(report)
