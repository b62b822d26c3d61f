"""Does restitution depend on the speed of approach, and by which law? Bounces of a film, and runs of bumpers."""

import json
from dataclasses import replace

import numpy as np
import pytest
from bouncing import BALL, bounces, positions
from bumpers import RUNS, SCATTER, SPEEDS, experiment, falling

import diffcontact as dc
from diffcontact.identify import Interval, Observations, Problem, Real, compare_laws, fit
from diffcontact.identify.impact_law import law_of_impact, speed_test

TIMES, FREE = np.linspace(0.0, 2.0, 61), {"e": Interval(0.0, 1.0), "height": Real()}


def film(law, seed=1):
    """A ball that is dropped from 1 m, its restitution a function of the speed of approach; 1 mm of noise."""
    e, v = [], np.sqrt(2 * 9.81)
    for _ in range(11):
        e.append(law(v))
        v *= e[-1]
    seen = bounces(e, 9.81, 1.0, 0.0, TIMES) + 1e-3 * np.random.default_rng(seed).normal(size=61)
    return Problem(BALL, Observations(TIMES, seen[:, None], 1e-3, positions), dropped, None, 1)


def dropped(params):
    return params["height"], np.zeros(1)


def fitted(problem, free=FREE):
    return fit(problem, {"e": 0.88, "g": 9.81, "height": np.ones(1)}, free, shooting="single")


def test_one_film_with_many_bounces():
    """The slope is right to its standard error where it is small, where one step is as good as a fit."""
    found = speed_test(fitted(film(lambda v: 0.9 - 0.01 * v)))
    assert found is not None
    assert abs(found.slope + 0.01) < 3 * found.stderr
    assert found.stderr < 0.002
    assert found.speeds[1] == pytest.approx(np.sqrt(2 * 9.81), rel=1e-2)
    assert found.restitution == pytest.approx([0.9 - 0.01 * v for v in found.speeds], abs=0.01)
    clean = fitted(film(lambda v: 0.9))
    assert law_of_impact(clean) is None
    assert abs(speed_test(clean).slope) < 3 * speed_test(clean).stderr


def test_nothing_is_said_where_nothing_can_be():
    line = film(lambda v: 0.9 - 0.02 * v)
    assert law_of_impact(fitted(line)).startswith("restitution falls with the speed of approach, from 0.")
    # A law of the speed already; restitution is not free.
    known = replace(line, system=replace(BALL, restitution=lambda p, v: p["e"] + 0.0 * v))
    assert law_of_impact(fitted(known, {"e": FREE["e"]})) is None
    held = fitted(line, {"height": Real()})
    assert law_of_impact(held) is None
    assert compare_laws(held) is None


def test_laws_are_told_apart_by_a_film():
    found = compare_laws(fitted(film(lambda v: 0.95 - 0.06 * v)), ("linear", "power"))
    assert found.best == "linear"
    assert "do not tell it" not in found.verdict
    assert found.against["linear"].aic < -10
    low, high = found.results["linear"].interval95["restitution_loss"]
    assert low < 0.06 < high
    assert "constant e is rejected" in str(found)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["best"] == "linear"
    assert set(document["fits"]) == {"constant", "linear", "power"}
    clean = compare_laws(fitted(film(lambda v: 0.9)), ("linear",))
    assert clean.best == "constant"
    assert clean.verdict.startswith("a constant restitution is supported")


@pytest.mark.full
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


@pytest.mark.full
def test_the_law_that_the_bumpers_follow_is_found_and_scatter_supports_none():
    rng = np.random.default_rng(3)
    scatter = SCATTER * rng.normal(size=RUNS)
    found = compare_laws(experiment(falling(SPEEDS) + 0.2 * scatter, rng), ("linear", "power"))
    assert found.best == "power"
    assert found.verdict.startswith("e falls with the speed of approach, best by the law 'power'")
    exponent, (low, high) = np.log(0.39 / 0.10) / np.log(2.5), found.results["power"].interval95["restitution_exponent"]
    assert low < exponent < high
    assert found.results["power"].chi2_per_dof < found.results["constant"].chi2_per_dof / 20
    scattered = compare_laws(experiment(0.35 + scatter, rng), ("linear", "power"))
    assert scattered.best == "constant"
    assert scattered.against["linear"].aic < -10  # by what is within the runs alone a line would be


@pytest.mark.full
def test_laws_between_which_the_data_do_not_decide_are_both_named():
    """A line that falls by 0.003 from 80 to 200 mm/s: a constant is off by half of that, a power by 2e-4 at most."""
    rng = np.random.default_rng(7)
    found = compare_laws(experiment(0.37 - 0.025 * (SPEEDS - 0.14), rng), ("linear", "power"))
    worth = {name: (one.aic + one.bic) / 2 for name, one in found.against.items()}
    # Both are better than a constant by much, and neither than the other by what deserves notice.
    assert max(worth.values()) < -10
    assert abs(worth["linear"] - worth["power"]) < 2
    (other,) = {"linear", "power"} - {found.best}
    assert found.verdict.endswith(f"; the data do not tell it from {other!r}")
    assert found.verdict in str(found)
    assert found.to_dict()["verdict"] == found.verdict


@pytest.mark.full
def test_a_law_takes_the_place_of_one_coefficient_for_each_bounce():
    """Three bounces of a line e = 0.9 - 0.05 v, fitted with one e each, and with one for all."""
    ball = dc.systems.bouncing_ball(3)
    falling = {"gravity": 10.0, "drag": 0.0, "floor": 5.0, "floor_drift": 0.0}
    line = dc.systems.bouncing_ball(3, restitution="linear")
    times, e, v = np.linspace(0.0, 2.7, 109), [], [10.0]
    for _ in range(3):
        e.append(0.9 - 0.05 * v[-1])
        v.append(e[-1] * v[-1])
    landed = 1.0 + np.concatenate([[0.0], np.cumsum(2 * np.array(v[1:]) / 10.0)])
    falling["apexes"] = (landed[:2] + landed[1:3]) / 2
    truth = {"restitution": 0.9, "restitution_loss": 0.05}
    seen = np.asarray(dc.simulate(line, falling | truth, [0.0], [0.0], times).q)
    seen = seen + 1e-3 * np.random.default_rng(0).normal(size=seen.shape)
    problem = Problem(
        ball, Observations(times, seen, 1e-3, lambda x, p: x.q), lambda p: (p["q0"], np.zeros(1)), substeps=1
    )
    start = falling | {"restitution": e[0], "later_restitution": np.array(e[1:]), "q0": np.zeros(1)}
    free = {"restitution": Interval(0.0, 1.0), "later_restitution": Interval(0.0, 1.0), "q0": Real()}
    found = compare_laws(fit(problem, start, free, shooting="single"), ("constant", "linear", "power"))
    assert found.given == "one per contact"
    assert found.best == "linear"
    low, high = found.results["linear"].interval95["restitution_loss"]
    assert low < 0.05 < high
    assert found.against["constant"].aic > 100


@pytest.mark.full
def test_a_sticking_speed_that_is_not_there_is_bounded_by_what_its_square_does():
    """Carts of one constant e: where the speed itself would have no upper end, and no sense, it has one in words."""
    found = compare_laws(experiment(np.full(RUNS, 0.35), np.random.default_rng(5)), ("sticking",))
    assert found.best == "constant"
    result = found.results["sticking"]
    low, high = result.interval95["sticking_speed"]
    # The slowest impact, at 0.08 m/s, would not rebound at all at that speed: e would be 0 for 0.35.
    assert low == 0 < high < SPEEDS[0]
    assert f"no sticking_speed seen, {high:.3g} at most" in str(found)
    entry = found.to_dict()["fits"]["sticking"]["parameters"]["sticking_speed"]
    assert entry["stderr"] is None
