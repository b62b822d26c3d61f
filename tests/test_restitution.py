"""Restitution as a function of the speed of approach: rows of one ball with derivatives by all parameters, refusals."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo
from event_exact import event_exact
from programs import run

import diffcontact as dc
from diffcontact import Status

G = 9.81
LAW = {"e": 0.9, "slope": 0.04}
# The same e at the speed of the first impact, but constant: another derivative by the height.
MEAN = {"e": 0.9 - 0.04 * np.sqrt(2 * G), "slope": 0.0}
# End and number of bounces before.
BOUNCES = {
    "one bounce": (LAW | {"end": 1.0}, 1),
    "two bounces": (LAW | {"end": 1.5}, 2),
    "three bounces": (LAW | {"end": 1.9}, 3),
    "a mean coefficient": (MEAN | {"end": 1.0}, 1),
}
# From 1 m at e = 0.6 above 1 m/s: impacts at 4.43, 2.66, 1.59, 0.96 m/s, the last of which sticks.
SPEEDS = np.sqrt(2 * G) * 0.6 ** np.arange(4)
STICKS = np.sqrt(2 / G) + 2 * np.sum(SPEEDS[1:]) / G
ENDS = {
    "sticks at last": {"e": 0.6, "bend": 1.0, "times": np.linspace(0.0, STICKS + 1e-6, 21), "substeps": 20},
    "sticks, and rests": {"e": 0.6, "bend": 1.0, "times": np.linspace(0.0, 3.0, 21), "substeps": 20},
    "has not landed yet": {"e": 0.6, "bend": 1.0, "times": np.linspace(0.0, STICKS - 1e-6, 21), "substeps": 20},
    "leaves its range": {"e": 0.9, "slope": 0.5},
}


@pytest.fixture(scope="module")
def motions():
    return run(zoo.BALL, {name: row for name, (row, _) in BOUNCES.items()} | ENDS)


def _dropped(theta, T, bounces):
    """Height and velocity at T of a ball that was dropped from theta[2], by recursion from bounce to bounce."""
    e, slope, height = theta
    speed = jnp.sqrt(2 * G * height)
    time = landed = speed / G
    for _ in range(bounces):
        speed = (e - slope * speed) * speed
        landed, time = time, time + 2 * speed / G
    left = T - landed
    return jnp.stack([speed * left - G * left**2 / 2, speed - G * left])


@pytest.fixture(scope="module")
def recursions():
    """Name -> the end of a row by recursion, and its derivative."""

    def recursion(row, bounces):
        given = np.array([row["e"], row["slope"], 1.0]), row["end"], bounces
        return _dropped(*given), jax.jacfwd(_dropped)(*given)

    return jax.jit(lambda: {name: recursion(*case) for name, case in BOUNCES.items()})()


@pytest.mark.parametrize("name", BOUNCES)
def test_a_ball_that_is_dropped_follows_the_recursion_with_its_derivative(motions, recursions, name):
    end, slopes = map(np.asarray, recursions[name])
    motion = motions[name]
    assert motion.status == Status.OK
    np.testing.assert_allclose(motion.end, end, atol=1e-11)
    np.testing.assert_allclose(motion.jacobian("e", "slope", "q0"), slopes, atol=1e-10)


def test_the_slope_of_the_law_matters(motions):
    law, mean = (motions[name].jacobian("q0") for name in ("one bounce", "a mean coefficient"))
    np.testing.assert_allclose(motions["one bounce"].end, motions["a mean coefficient"].end, atol=1e-11)
    assert np.max(np.abs(law - mean)) > 0.1


def test_a_ball_that_sticks_below_a_speed_comes_to_rest_at_the_right_time(motions):
    assert SPEEDS[3] < 1.0 < SPEEDS[2]
    for name in ("sticks at last", "sticks, and rests"):
        assert motions[name].status == Status.OK
        np.testing.assert_allclose(motions[name].end, 0.0, atol=1e-12)
    np.testing.assert_allclose(motions["has not landed yet"].u[-1], -SPEEDS[3], rtol=1e-4)


def test_a_law_that_leaves_its_range_says_so(motions):
    motion = motions["leaves its range"]
    assert motion.status == Status.BAD_RESTITUTION
    # It is taken as inelastic.
    np.testing.assert_allclose(motion.end, 0.0, atol=1e-12)


def test_bounces_are_those_of_an_event_driven_integrator(reference):
    """Siconos', e = 0.9, at times that are none of an impact; the sequence of bounces ends at 8.58 s."""
    t, q, u = np.loadtxt(reference / "siconos/bouncing_ball_event_driven.csv", delimiter=",", skiprows=1).T
    # Rows of impacts stand twice.
    single = np.flatnonzero([np.sum(np.abs(t - time) < 1e-9) == 1 and 0 < time < 8.4 for time in t])
    some = single[np.linspace(0, single.size - 1, 20).astype(int)]
    found = run(zoo.BALL, {"siconos": {"e": 0.9, "times": [0.0, *t[some]], "substeps": 60}})["siconos"]
    assert found.status == Status.OK
    np.testing.assert_allclose(found.q[1:, 0], q[some], atol=1e-9)
    np.testing.assert_allclose(found.u[1:, 0], u[some], atol=1e-9)


def _simulated(restitution, **options):
    system = zoo.system(gap=lambda t, q, p: q, restitution=restitution)
    return dc.simulate(system, {}, np.ones(1), np.zeros(1), np.linspace(0, 1, 3), **options)


@pytest.mark.parametrize(
    ("restitution", "line"),
    [
        (lambda p, v: v**-0.2, r"restitution at speed 0: expected within \[0, 1\], got \["),
        (lambda p, v: np.ones(2), r"System.restitution: expected an array of shape \(\) or \(1,\), got \(2,\)"),
        (lambda p, v, w: 0.5, r"expected a function of \(params, speed\), got one of \(p, v, w\)"),
        (lambda: 0.5, r"expected a function of \(params\), got one of \(\)"),
        (lambda p, v: p["e"] * v, r"System.restitution: no parameter 'e' in params"),
    ],
)
def test_laws_that_are_none_are_refused_in_one_line(restitution, line):
    with pytest.raises(ValueError, match=line) as error:
        _simulated(restitution)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("scheme", [dc.VelocityProjection(), dc.CatchingUp(), dc.ElasticProjection()])
def test_schemes_of_a_constant_coefficient_refuse_a_law(scheme):
    with pytest.raises(ValueError, match=f"{type(scheme).__name__} takes no restitution that depends on the speed"):
        _simulated(lambda p, v: jnp.zeros_like(v), scheme=scheme)


def test_a_second_argument_with_a_default_is_no_speed():
    assert not zoo.POINT.system.speed_dependent
    assert zoo.BALL.system.speed_dependent


def _ball(restitution) -> dc.System:
    return zoo.system(gap=lambda t, q, p: q, force=lambda t, q, u, p: -G * jnp.ones(1), restitution=restitution)


def _linear(p, speed):
    return p["e0"] - p["a"] * speed


def _viscoelastic(p, speed):
    return 1 - p["c"] * speed**0.2


BALL = _ball(_linear)


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
def test_hypotheses_name_the_law():
    report = dc.hypotheses.report(BALL, {"e0": 0.9, "a": 0.04}, 0.0, jnp.ones(1), jnp.zeros(1))
    assert "depends on the speed" in str(report)
