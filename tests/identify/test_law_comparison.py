"""Laws of impact compared: bumpers whose e falls with speed, bumpers that scatter, bounces of a film."""

import json

import jax.numpy as jnp
import numpy as np
import pytest
from bumpers import FIXED, RUNS, SCATTER, SPEEDS, experiment, falling

import diffcontact as dc
from diffcontact.identify import Interval, Observations, Problem, Real, compare_laws, fit

pytestmark = pytest.mark.full


def test_the_law_that_the_bumpers_follow_is_found_and_scatter_supports_none():
    rng = np.random.default_rng(3)
    scatter = SCATTER * rng.normal(size=RUNS)
    found = compare_laws(experiment(falling(SPEEDS) + 0.2 * scatter, rng), ("linear", "power"))
    assert found.best == "power"
    assert found.verdict.startswith("e falls with the speed of approach, best by the law 'power'")
    assert "do not tell it" not in found.verdict
    exponent, (low, high) = np.log(0.39 / 0.10) / np.log(2.5), found.results["power"].interval95["restitution_exponent"]
    assert low < exponent < high
    assert found.results["power"].chi2_per_dof < found.results["constant"].chi2_per_dof / 20
    assert "constant e is rejected" in str(found)
    document = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert document["best"] == "power"
    assert set(document["fits"]) == {"constant", "linear", "power"}
    scattered = compare_laws(experiment(0.35 + scatter, rng), ("linear", "power"))
    assert scattered.best == "constant"
    assert scattered.verdict.startswith("a constant restitution is supported")
    assert scattered.against["linear"].aic < -10  # by what is within the runs alone a line would be


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
        ball, Observations(times, seen, 1e-3, lambda x, p: x.q), lambda p: (p["q0"], jnp.zeros(1)), substeps=1
    )
    start = falling | {"restitution": e[0], "later_restitution": np.array(e[1:]), "q0": np.zeros(1)}
    free = {"restitution": Interval(0.0, 1.0), "later_restitution": Interval(0.0, 1.0), "q0": Real()}
    found = compare_laws(fit(problem, start, free, shooting="single"), ("constant", "linear", "power"))
    assert found.given == "one per contact"
    assert found.best == "linear"
    low, high = found.results["linear"].interval95["restitution_loss"]
    assert low < 0.05 < high
    assert found.against["constant"].aic > 100


def test_nothing_to_compare():
    rng = np.random.default_rng(0)
    result = experiment(np.full(RUNS, 0.35), rng, free=("mass_ratio", "q0", "u0"))
    assert compare_laws(result) is None


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


def test_a_sticking_speed_that_is_there_has_an_interval():
    speed = 0.06
    # Drag, per mass of 1.3, slows the first rider over the metre per m/s that lies before it.
    e = 0.5 * np.sqrt(1 - (speed / (SPEEDS * (1 - FIXED["drag"] / 1.3))) ** 2)
    found = compare_laws(experiment(e, np.random.default_rng(6)), ("sticking",))
    assert found.best == "sticking"
    result = found.results["sticking"]
    low, high = result.interval95["sticking_speed"]
    assert 0 < low < speed < high < SPEEDS[0]
    # By its square the interval is as long as twice the half width of the speed, to second order in their ratio.
    half = float(result.quantile["sticking_speed"]) * float(result.stderr["sticking_speed"])
    assert high - low == pytest.approx(2 * half, rel=(half / speed) ** 2)
