"""What no residual can show, and moves an estimate all the same, is said with how little of it does."""

import dataclasses
import re

import dragged
import numpy as np
import pytest
from falling import FALLING, SCHEME, TIMES, fall, fitted, start_of

from diffcontact.identify import FitResult, Normal, Observations, Positive, Problem, Real, fit

FREE = {"g": Real(), "u0": Real()}
G, NOISE = 9.81, 1e-3


def stated(noise, sigma=1e-3):
    run = fall(None, noise=noise)
    seen = run.observations
    return dataclasses.replace(run, observations=Observations(seen.times, seen.values, sigma, seen.observe))


def fell(free, **options) -> FitResult:
    return fitted(stated(1e-3 * np.random.default_rng(2).normal(size=41)), free, **options)


def percent(taken: str, fault: str, name: str) -> float:
    """How large an error of this fault the sentence says to be enough for a parameter."""
    (told,) = re.findall(rf"{fault} \(([^)]*)\)", taken)
    return float(re.findall(rf"of ([0-9.e-]+) % (?:moves )?{name}", told)[0])


def test_gravity_is_as_right_as_scale_and_clock():
    """h = u0 t - g t^2 / 2: a scale s changes g and u0 by s of themselves, a clock changes g by 2 s."""
    result = fell(FREE)
    halves = {name: float(np.ptp(result.interval95[name])) / 2 for name in FREE}
    for fault, power in (("scale of channel 0", 1), ("rate of the clock", 2)):
        # Two digits are printed.
        off = percent(result.verdict.taken, fault, "g")
        np.testing.assert_allclose(off, 100 * halves["g"] / (power * G), rtol=0.06)
    # In steps of first order u0 is not the 0.4 m/s of the exact fall, but it is scaled alike.
    u0 = float(result.params["u0"][0])
    off = percent(result.verdict.taken, "scale of channel 0", "u0")
    np.testing.assert_allclose(off, 100 * halves["u0"] / u0, rtol=0.06)
    # The report has all, a terminal the first three.
    assert "rate of the clock (an error of" in str(result)
    assert FitResult.from_dict(result.to_dict()).verdict.taken == result.verdict.taken


def test_where_gravity_is_known_a_scale_would_show():
    assert fell(FREE, priors={"g": Normal(G, 1e-4)}).verdict.taken == ""


def hardly_shows(taken: str, what: str) -> tuple[float, float]:
    """How much of it would hardly show, and by how much that moves g."""
    ((size, moved),) = re.findall(rf"{what} would hardly show, and moves g by (\S+),", taken)
    return float(size), float(moved)


T, U0 = TIMES[stated(0.0).observations.present[:, 0]], 0.4
# A zero is a height off by 1; a rate c bends h = u0 t - g t^2 / 2 by -c (u0 t^2 / 2 - g t^3 / 6), here until T = 1 s.
BENT = -(U0 * T**2 / 2 - G * T**3 / 6) / TIMES[-1]


@pytest.mark.parametrize(
    ("what", "unit", "change", "most"),
    [
        (r"zero of channel 0 \((\S+) off it", 1.0, np.ones(T.size), 0.045),
        (r"what takes (\S+) % of the speed until the end", 0.01, BENT, 0.2),
    ],
    ids=["zero", "resistance"],
)
def test_what_nobody_sought_is_taken_as_right_as_far_as_it_would_not_show(what, unit, change, most):
    """What u0 and g make up for of it they are moved by; a zero of a hundredth of the fall, 4.5 m, would be seen."""
    result = fell(FREE)
    assert result.verdict.explains == "yes"
    size, moved = hardly_shows(result.verdict.taken, what)
    made_up, left, *_ = np.linalg.lstsq(np.column_stack([T, -(T**2) / 2]), change)
    # Three standard deviations of the noise as the residuals show it; steps of first order, two digits.
    expected = min(3 * NOISE * np.sqrt(result.chi2_per_dof / left[0]), most)
    np.testing.assert_allclose(unit * size, expected, rtol=0.06)
    np.testing.assert_allclose(moved, abs(made_up[1]) * expected, rtol=0.06)


def test_a_zero_that_a_parameter_makes_up_for_moves_nothing_else():
    """Where the height at the start is sought, too, it makes up for all of it."""
    observed = stated(1e-3 * np.random.default_rng(2).normal(size=41))
    placed = dataclasses.replace(observed, initial=lambda p: (p["height"], start_of(p)[1]))
    assert "zero" not in fit(placed, {"g": G, "u0": [0.4], "height": [0.0]}, {**FREE, "height": Real()}).verdict.taken


def test_a_resistance_that_is_seen_is_named_with_its_size():
    """A fall that loses about a third of its speed: u' = -g - c u with c = 0.6/s, and T = 1 s."""
    c, noise = 0.6, 1e-3 * np.random.default_rng(2).normal(size=41)
    lost = (1 - np.exp(-c * TIMES)) / c
    resisted = 0.4 * lost - G * (TIMES - lost) / c
    without = 0.4 * TIMES - G * TIMES**2 / 2
    result = fitted(stated(noise + resisted - without), FREE)
    assert result.verdict.explains == "no"
    (told,) = re.findall(r"a resistance that the model has not, .* by (\S+) \+-", " ".join(result.verdict.reasons))
    # Half of it by another half bends the fall: the size is of first order.
    assert 0.3 < float(told) < 0.7


def test_where_the_model_has_a_drag_that_is_held_at_zero_it_is_the_drag_that_is_told():
    pulled = 0.5 * dragged.TIMES + dragged.TIMES**2 + NOISE * np.random.default_rng(2).normal(size=dragged.TIMES.size)
    seen = Observations(dragged.TIMES, pulled[:, None], NOISE, dragged.positions)
    run = Problem(dragged.DRAGGED, seen, dragged.start_of, dragged.SCHEME, 1)
    taken = fit(run, dragged.TRUTH | {"drag": 0.0}, {"weight": Positive(), "u0": Real()}).verdict.taken
    assert "drag = 0 (" in taken
    assert "resists the motion" not in taken


def test_a_term_that_does_what_a_parameter_does_has_no_size():
    """A tilt of the rail and the weight pull alike: of either any size would do, and none is told."""
    system = dataclasses.replace(
        dragged.DRAGGED, force=lambda t, q, u, p: p["weight"] + p["tilt"] * p["mass"] - p["drag"] * u
    )
    pulled = 0.5 * dragged.TIMES + dragged.TIMES**2 + NOISE * np.random.default_rng(2).normal(size=dragged.TIMES.size)
    seen = Observations(dragged.TIMES, pulled[:, None], NOISE, dragged.positions)
    run = Problem(system, seen, dragged.start_of, dragged.SCHEME, 1)
    taken = fit(run, dragged.TRUTH | {"tilt": 0.0}, {"weight": Positive(), "u0": Real()}).verdict.taken
    assert "tilt = 0 (nothing tells it from weight)" in taken


def test_an_axis_that_two_bodies_share_is_looked_at_as_one():
    """Two marks of one body: a scale of either alone would show, one of both changes g by as much."""
    once = stated(1e-3 * np.random.default_rng(2).normal(size=41)).observations
    values = np.column_stack([once.values, 2.0 * once.values])
    seen = Observations(once.times, values, once.sigma[0, 0], lambda run, params: run.q @ np.array([[1.0, 2.0]]))
    result = fitted(Problem(FALLING, seen, start_of, SCHEME, 1), FREE)
    off = percent(result.verdict.taken, "scale of channels 0 and 1", "g")
    np.testing.assert_allclose(off, 100 * float(np.ptp(result.interval95["g"])) / 2 / G, rtol=0.06)
    assert "scale of channel " not in result.verdict.taken
