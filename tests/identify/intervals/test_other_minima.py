"""Values far from each other that explain the data as well: one fit names them all, and its interval holds them."""

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import BALL, SAMPLES, ball_problem, bounces, positions, start_of

from diffcontact.identify import FitResult, Interval, Observations, Problem, fit
from diffcontact.identify.problem.joint_residual import JointResidual
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search.hidden_impacts import behind_gaps, gaps

pytestmark = pytest.mark.full

HELD = {"g": 9.81, "q0": [1.0], "u0": [0.0]}
FREE = {"e": Interval(0.0, 1.0)}


@pytest.fixture
def hidden(rng):
    """A ball that is filmed until shortly before its first bounce, and once more two seconds later."""
    times = np.append(np.linspace(0.0, 0.4, SAMPLES - 1), 2.5)
    seen = bounces(0.8, 9.81, 1.0, 0.0, times) + 5e-3 * rng.normal(size=SAMPLES)
    return Problem(BALL, Observations(times, seen[:, None], 5e-3, positions), start_of)


@pytest.mark.parametrize("start", [0.8, 0.9])
def test_bounces_that_nobody_saw_may_be_more_or_fewer(hidden, start, tmp_path):
    """With 4, 5 and 6 of them the ball is where it was seen last."""
    result = fit(hidden, HELD | {"e": start}, FREE)
    low, high = result.interval95["e"]
    found = sorted([result.params["e"], *(other["e"] for other in result.elsewhere)])
    assert found == pytest.approx([0.800, 0.854, 0.876], abs=3e-3)
    assert low < found[0] < 0.803 < found[-1] < high < 0.88
    assert result.verdict.explains == "partly"
    assert any("do not tell e = " in reason and f"e = {found[1]:.4g}" in reason for reason in result.verdict.reasons)
    assert result.rows()[0]["note"] == "may be elsewhere, too"
    result.save(tmp_path / "result.json")
    assert FitResult.load(tmp_path / "result.json").elsewhere == result.elsewhere


@pytest.mark.parametrize("method", ["lm", "lbfgs"])
def test_starts_that_end_elsewhere_at_the_same_cost_are_told(rng, method):
    """Of a speed that is the square of a parameter the data do not show the sign."""
    tied = {"u0": lambda p: p["root"] ** 2 * jnp.ones(1)}
    free = {"root": Interval(-1.0, 1.0)}
    call = {"tied": tied, "shooting": "single", "method": method}
    run = ball_problem(rng)
    alone = fit(run, HELD | {"e": 0.8, "root": 0.5}, free, **call)
    several = fit(run, HELD | {"e": 0.8, "root": 0.5}, free, starts=4, **call)
    root = np.sqrt(0.3)
    assert alone.params["root"] == pytest.approx(root, abs=0.02)
    assert (alone.elsewhere, alone.verdict.explains) == ((), "yes")
    assert [abs(other["root"]) for other in several.elsewhere] == pytest.approx([root], abs=0.02)
    assert several.interval95["root"] == pytest.approx([-root, root], abs=0.05)
    assert several.verdict.explains == "partly"


def test_samples_without_gaps_hide_nothing_and_cost_nothing(rng, hidden, monkeypatch):
    even, gappy = (Objective.of(run, HELD | {"e": 0.8}, FREE) for run in (ball_problem(rng), hidden))
    assert gaps(gappy.joint, gappy.parameters.start) == [(0, SAMPLES - 1)]
    assert len(behind_gaps(gappy)) > 2
    monkeypatch.setattr(JointResidual, "linearise", lambda *_: pytest.fail("simulated"))
    assert behind_gaps(even).shape == (0, 1)
