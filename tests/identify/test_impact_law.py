"""Does restitution depend on the speed of approach? Ten runs of carts with bumpers whose e falls, and clean ones."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from bumpers import RUNS, SCATTER, SPEEDS, experiment, falling

import diffcontact as dc
from diffcontact.identify import Interval, Observations, Problem, Real, fit
from diffcontact.identify.impact_law import law_of_impact, speed_test

pytestmark = pytest.mark.full


def test_bumpers_that_fall_with_speed_are_told_and_bumpers_that_scatter_are_not():
    rng = np.random.default_rng(3)
    sentence = law_of_impact(experiment(falling(SPEEDS) + SCATTER * rng.normal(size=RUNS), rng))
    assert sentence is not None
    assert sentence.startswith("restitution falls with the speed of approach, from 0.")
    assert law_of_impact(experiment(0.35 + SCATTER * rng.normal(size=RUNS), rng)) is None
    assert law_of_impact(experiment(np.full(RUNS, 0.35), rng)) is None


def test_it_tells_in_95_of_100_and_is_silent_in_95_of_100_clean_ones():
    rng, told = np.random.default_rng(0), {"falls": 0, "scatters": 0, "clean": 0}
    for _ in range(100):
        scatter = SCATTER * rng.normal(size=RUNS)
        for name, e in (
            ("falls", falling(SPEEDS) + scatter),
            ("scatters", 0.35 + scatter),
            ("clean", np.full(RUNS, 0.35)),
        ):
            told[name] += law_of_impact(experiment(e, rng)) is not None
    assert told["falls"] >= 95
    assert max(told["scatters"], told["clean"]) <= 5


def _ball(restitution):
    return dc.System(
        gap=lambda t, q, p: q,
        force=lambda t, q, u, p: -9.81 * jnp.ones(1),
        mass=lambda q, p: jnp.ones(1),
        restitution=restitution,
    )


BALL = _ball(lambda p: p["e"])


def _positions(trajectory, params):
    return trajectory.q


def _height(params):
    return params["height"], jnp.zeros(1)


def _film(slope, rng):
    times = np.linspace(0.0, 2.0, 61)
    fell = dc.simulate(_ball(lambda p, v: 0.9 - p["a"] * v), {"a": slope}, jnp.ones(1), jnp.zeros(1), times)
    seen = np.asarray(fell.q) + 1e-3 * rng.normal(size=fell.q.shape)
    return Problem(BALL, Observations(times, seen, 1e-3, _positions), _height, None, 1)


def test_one_film_with_many_bounces():
    """The slope is right to its standard error where it is small, where one step is as good as a fit."""
    rng = np.random.default_rng(1)
    free = {"e": Interval(0.0, 1.0), "height": Real()}
    result = fit(_film(0.01, rng), {"e": 0.88, "height": np.ones(1)}, free, shooting="single")
    found = speed_test(result)
    assert found is not None
    assert abs(found.slope + 0.01) < 3 * found.stderr
    assert found.stderr < 0.002
    assert found.speeds[1] == pytest.approx(np.sqrt(2 * 9.81), rel=1e-2)
    assert found.restitution == pytest.approx([0.9 - 0.01 * v for v in found.speeds], abs=0.01)
    clean = fit(_film(0.0, rng), {"e": 0.88, "height": np.ones(1)}, free, shooting="single")
    assert law_of_impact(clean) is None
    assert abs(speed_test(clean).slope) < 3 * speed_test(clean).stderr


def test_nothing_is_said_where_nothing_can_be():
    rng = np.random.default_rng(2)
    law = replace(BALL, restitution=lambda p, v: p["e"] + 0.0 * v)
    film = _film(0.02, rng)
    for problem, free in (
        (replace(film, system=law), {"e": Interval(0.0, 1.0)}),  # a law of the speed already
        (film, {"height": Real()}),  # restitution is not free
    ):
        assert law_of_impact(fit(problem, {"e": 0.85, "height": np.ones(1)}, free, shooting="single")) is None
