"""What is identified, in words."""

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import BALL, BALL_FREE, BALL_START, SAMPLES, ball_problem, positions

import diffcontact as dc
from diffcontact.identify import Interval, Observations, Positive, Problem, check, fit
from diffcontact.identify.identifiability.naming import combination

pytestmark = pytest.mark.full

TIMES = np.linspace(0.0, 1.0, 41)


@pytest.mark.parametrize(
    ("direction", "values", "text"),
    [
        ({"k": 1.0, "m": 0.5, "c": 0.1}, {"k": 10.0, "m": 5.0, "c": 1.0}, "only the ratios of k, m and c"),
        ({"a": 1.0, "b": -2.0}, {"a": 1.0, "b": 2.0}, "only a b is identified"),
        ({"a": 1.0, "b": 0.5}, {"a": 1.0, "b": 1.5}, "only a/b^3 is identified"),
        ({"a": 1.0, "b": -1.0}, {"a": 0.0, "b": 3.0}, "only a + b is identified"),
        ({"a": 1.0, "b": 0.3}, {"a": 1.7, "b": 3.1}, "a and b are not identified together: along {a: 1, b: 0.3}"),
    ],
)
def test_combinations_have_names(direction, values, text):
    assert combination(direction, values).startswith(text)


def test_restitution_needs_an_impact(rng):
    flight = ball_problem(rng, sigma=1e-3, end=0.4)
    result = fit(flight, BALL_START, BALL_FREE)
    assert result.hints == ("e needs an impact: none in these data",)
    assert result.hints[0] in str(result)


def test_restitution_and_drop_height_of_one_rebound(rng):
    # The drop is not filmed and nobody knows when it was: height h gives the speed e sqrt(2 g h) of the rebound.
    values = np.full((SAMPLES, 1), np.nan)
    times = np.linspace(0.0, 0.6, SAMPLES)
    speed = 0.8 * np.sqrt(2 * 9.81)
    values[:, 0] = speed * times - 9.81 * times**2 / 2
    values += 1e-3 * rng.normal(size=values.shape)

    def rebound(params):
        return jnp.zeros(1), params["e"] * jnp.sqrt(2 * params["g"] * params["h"])[None]

    problem = Problem(BALL, Observations(times, values, 1e-3, positions), rebound, substeps=1)
    start = {"e": 0.7, "h": 1.1, "g": 9.81}
    result = fit(problem, start, {"e": Interval(0.0, 1.0), "h": Positive(), "g": Positive()})
    assert result.hints == ("only e^2 h is identified, not e and h",)


def line(weight):
    return dc.ParticleLine(
        mass=lambda p: p["mass"] * jnp.ones(1),
        damping=lambda p: jnp.zeros((1, 1)),
        stiffness=lambda p: p["k"] * jnp.ones((1, 1)),
        load=lambda t, p: jnp.zeros(1),
        friction=lambda p: p["gamma"],
        normal=lambda t, p: weight * jnp.ones(1),
        percussion_times=[],
        percussions=lambda p: jnp.zeros(0),
    )


def test_friction_needs_sliding_and_a_free_oscillation_shows_no_mass():
    block = line(9.81)
    params = {"mass": 1.0, "k": 5.0, "gamma": 0.2, "q0": np.array([0.1])}
    free = {"gamma": Positive(), "k": Positive(), "mass": Positive()}

    def released(params):
        return params["q0"], jnp.zeros(1)

    seen = Observations(TIMES, np.full((41, 1), 0.1), 1e-3, positions)
    problem = Problem(block, seen, released, dc.PercussionFriction(), 1)  # compiles faster than EventTimed
    stuck = check(problem, params, free, points=1)  # 0.5 N of spring against 1.96 N of friction
    assert "gamma needs a stretch of sliding: none in these data" in stuck.hints
    # Pulled out further it slides; spring, friction and mass may then all be twice as large.
    slides = check(problem, params | {"q0": np.array([2.0])}, free, points=1)
    assert slides.hints == ("only the ratios of gamma, k and mass are identified, not their common scale",)
