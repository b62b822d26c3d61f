"""What data can determine, before a fit and after it, and what it is called."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import BALL, BALL_FREE, BALL_START, SAMPLES, ball_problem
from falling import FALLING, SCHEME, TIMES, positions, start_of

import diffcontact as dc
from diffcontact.identify import Interval, Normal, Observations, Positive, Problem, Real, check, fit
from diffcontact.identify.identifiable import combination, null_space

EPS = float(np.finfo(float).eps)
NAMES = ["a", "b", "c", "d"]


def test_a_direction_is_reported_in_the_units_of_the_parameters(rng):
    J = rng.normal(size=(20, 4)) * [1e-6, 1.0, 1e6, 1.0]
    J[:, 2] = -3.0 * J[:, 0]  # 3 a + c is what counts: moving a by 1/3 and c by 1 changes nothing
    null = null_space(J, NAMES, EPS)
    (direction,) = null.directions
    assert direction.keys() == {"a", "c"}
    np.testing.assert_allclose(direction["a"] / direction["c"], 3.0, rtol=1e-6)  # singular values below 1e-8 are zero
    assert null.unidentifiable.tolist() == [True, False, True, False]
    assert np.linalg.matrix_rank(J[:, ~null.redundant]) == 3


def test_independent_directions_are_reported_apart(rng):
    J = rng.normal(size=(20, 4))
    J[:, 1], J[:, 3] = 2.0 * J[:, 0], 5.0 * J[:, 2]
    null = null_space(J, NAMES, EPS)
    assert sorted(map(sorted, null.directions)) == [["a", "b"], ["c", "d"]]
    assert null.redundant.sum() == 2


def test_no_parameter_is_seen():
    null = null_space(np.zeros((5, 4)), NAMES, EPS)
    assert null.directions == [{name: 1.0} for name in NAMES]


def test_a_start_without_an_impact_is_not_without_hope_but_data_without_one_are(rng):
    # Thrown up so fast that it is still in the air at the end of the record; other points of the bounds are not.
    bounds = BALL_FREE | {"u0": Interval(0.0, 20.0)}
    thrown = BALL_START | {"u0": [15.0]}
    assert not check(ball_problem(rng), thrown, bounds).hopeless
    assert check(ball_problem(rng), thrown, bounds, points=1).hints == ("e needs an impact: none in these data",)


def test_a_fit_of_nothing_that_the_data_show_is_refused_unless_told_to(rng):
    short, free = ball_problem(rng, end=0.1), {"e": Interval(0.0, 1.0)}
    assert not check(short, BALL_START, BALL_FREE, priors={"e": Normal(0.8, 0.1)}).hopeless
    with pytest.raises(ValueError, match="fit\\(check\\): e needs an impact: none in these data; expected other data"):
        fit(short, BALL_START, BALL_FREE, check=True)
    with pytest.raises(ValueError, match=r"fit\(check\): e needs an impact: none in these data.*check=False fits"):
        fit(short, BALL_START, free)
    told = fit(short, BALL_START, free, check=False)
    assert (told.unidentifiable, told.error_bars) == ([{"e": 1.0}], "none: the data determine no parameter")
    assert "unseen" in told.verdict.codes
    # With a prior there is something to find out; with g free as well, what it is is found and e is named.
    assert fit(short, BALL_START, free, priors={"e": Normal(0.8, 0.1)}).params["e"] == pytest.approx(0.8)
    assert fit(short, BALL_START, BALL_FREE).unidentifiable == [{"e": 1.0}]


def test_identifiability_of_what_can_be_seen(rng):
    seen = check(ball_problem(rng), BALL_START, BALL_FREE)
    assert not seen.hopeless
    assert seen.singular_values.shape == (4,)
    assert 0 < seen.singular_values[-1] < seen.singular_values[0]
    assert "all of e, g, q0[0], u0[0] can be seen" in str(seen)


def test_a_simulation_that_was_refused_is_not_taken_for_one_without_impacts(rng):
    jumping = replace(ball_problem(rng), clock=lambda t, p: t - 0.1 * (t > 0.7))
    told = "the simulation of run 0 cannot be trusted: times that do not increase"
    assert check(jumping, BALL_START, {"e": Interval(0.0, 1.0)}).hints[0].startswith(told)
    for strict in (None, True):
        with pytest.raises(ValueError, match=rf"fit\(check\): {told}.*; expected a simulation with status 0"):
            fit(jumping, BALL_START, {"e": Interval(0.0, 1.0)}, check=strict)


SEEN = (0.4 * TIMES - 9.81 * TIMES**2 / 2)[:, None] + 1e-2 * np.random.default_rng(4).normal(size=(41, 1))


def run(observe=positions, initial=start_of, clock=None, values=SEEN, per_run=()):
    return Problem(FALLING, Observations(TIMES, values, 1e-2, observe), initial, SCHEME, 1, per_run, clock)


def fitted(problem, free=None, **options):
    return fit(problem, {"g": 9.0, "u0": [0.0], "s": -1.0}, free or {"g": Real(), "u0": Real()}, **options)


OBSERVE, LATE = r"Observations\(observe\): returned nan in row", np.where(TIMES[:, None] > 0.5, np.nan, 0.0)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            lambda: run(initial=lambda p: (np.zeros(1), p["u0"] * np.nan)),
            r"Problem\(initial\): .* in entry 0 of u0; exp",
        ),
        (
            lambda: run(lambda x, p: x.q / (0.0 * p["g"])),
            f"{OBSERVE} 0, channel 0, of a trajectory that is finite; exp",
        ),
        (lambda: run(lambda x, p: x.q + LATE), f"{OBSERVE} 21, channel 0, of a trajectory that is finite; expected"),
        (lambda: run(clock=lambda t, p: t * np.nan), r"Problem\(clock\): returned nan in entry 0; expected finite num"),
        (
            lambda: [run(), run(lambda x, p: x.q * np.nan)],
            f"{OBSERVE} .*, of a trajectory that is finite, in run 1; exp",
        ),
    ],
)
def test_the_function_is_named_before_the_search(monkeypatch, problem, message):
    monkeypatch.setitem(fit.__globals__, "search", lambda *_: pytest.fail("searched"))
    with pytest.raises(ValueError, match=f"^{message}"):
        fitted(problem())


def test_what_is_finite_elsewhere_or_was_not_measured_is_fitted():
    seen = SEEN.copy()
    seen[0] = np.nan
    unseen = fitted(run(lambda x, p: x.q + np.where(TIMES[:, None] > 0.0, 0.0, np.nan), values=seen))
    assert unseen.params["g"] == pytest.approx(9.81, abs=0.2)
    # Of a negative number there is no root, and half of the bounds are positive.
    rooted = run(lambda x, p: x.q + 0.0 * jnp.sqrt(p["s"]))
    free = {"g": Real(), "u0": Real(), "s": Interval(-2.0, 2.0)}
    assert fitted(rooted, free, starts=8).params["s"] > 0.0


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


def test_restitution_and_drop_height_of_one_rebound(rng):
    # The drop is not filmed and nobody knows when it was: height h gives the speed e sqrt(2 g h) of the rebound.
    values = np.full((SAMPLES, 1), np.nan)
    times = np.linspace(0.0, 0.6, SAMPLES)
    speed = 0.8 * np.sqrt(2 * 9.81)
    values[:, 0] = speed * times - 9.81 * times**2 / 2
    values += 1e-3 * rng.normal(size=values.shape)

    def rebound(params):
        return np.zeros(1), (params["e"] * (2 * params["g"] * params["h"]) ** 0.5)[None]

    problem = Problem(BALL, Observations(times, values, 1e-3, positions), rebound, substeps=1)
    start = {"e": 0.7, "h": 1.1, "g": 9.81}
    result = fit(problem, start, {"e": Interval(0.0, 1.0), "h": Positive(), "g": Positive()})
    assert result.hints == ("only e^2 h is identified, not e and h",)


@pytest.mark.full
def test_friction_needs_sliding_and_a_free_oscillation_shows_no_mass():
    block = dc.ParticleLine(
        mass=lambda p: p["mass"] * np.ones(1),
        damping=lambda p: np.zeros((1, 1)),
        stiffness=lambda p: p["k"] * np.ones((1, 1)),
        load=lambda t, p: np.zeros(1),
        friction=lambda p: p["gamma"],
        normal=lambda t, p: 9.81 * np.ones(1),
        percussion_times=[],
        percussions=lambda p: np.zeros(0),
    )
    params = {"mass": 1.0, "k": 5.0, "gamma": 0.2, "q0": np.array([0.1])}
    free = {"gamma": Positive(), "k": Positive(), "mass": Positive()}

    def released(params):
        return params["q0"], np.zeros(1)

    seen = Observations(TIMES, np.full((41, 1), 0.1), 1e-3, positions)
    problem = Problem(block, seen, released, dc.PercussionFriction(), 1)  # compiles faster than EventTimed
    stuck = check(problem, params, free, points=1)  # 0.5 N of spring against 1.96 N of friction
    assert "gamma needs a stretch of sliding: none in these data" in stuck.hints
    # Pulled out further it slides; spring, friction and mass may then all be twice as large.
    slides = check(problem, params | {"q0": np.array([2.0])}, free, points=1)
    assert slides.hints == ("only the ratios of gamma, k and mass are identified, not their common scale",)
