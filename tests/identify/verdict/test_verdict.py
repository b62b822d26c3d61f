"""What is wrong is named, and what is right is left alone: replicas of a bouncing ball, one compilation for all."""

from dataclasses import replace

import numpy as np
import pytest
from bouncing import BALL, BALL_FREE, SAMPLES, ball_problem, bounces, positions, start_of
from scipy.signal import lfilter

from diffcontact.identify import Interval, Normal, Observations, Problem, fit, fit_replicas

TIMES = np.linspace(0.0, 1.5, SAMPLES)
REPLICAS = 2
START = {"e": 0.8, "g": 9.81, "q0": np.ones(1), "u0": np.full(1, 0.3)}


def heights(replicas=REPLICAS, sigma=0.01, seed=3, **law):
    exact = bounces(**{"e": 0.8, "g": 9.81, "height": 1.0, "speed": 0.3, "times": TIMES} | law)
    return (exact + sigma * np.random.default_rng(seed).normal(size=(replicas, SAMPLES)))[:, :, None]


def slowing(a, b):
    """Heights of a ball with e = a - b v."""
    q, u, start, seen = 1.0, 0.3, 0.0, np.empty(SAMPLES)
    for _ in range(11):
        s = TIMES[start <= TIMES] - start
        seen[start <= TIMES] = q + u * s - 9.81 * s**2 / 2
        flight = (u + np.sqrt(u * u + 2 * 9.81 * q)) / 9.81
        v = 9.81 * flight - u
        start, q, u = start + flight, 0.0, max(a - b * v, 0.0) * v
    return seen


@pytest.fixture(scope="module")
def exact():
    run = ball_problem(np.random.default_rng(0), sigma=0.0, noise=0.01)
    return fit(run, START, BALL_FREE)


def named(results, word):
    return sum(any(word in reason for reason in result.verdict.reasons) for result in results)


def test_a_model_that_is_right_is_left_alone(exact):
    results = fit_replicas(exact, [heights(6)])
    # One false alarm in twenty would be too many; two in six happen once in 700 times at one in a hundred.
    assert sum(result.verdict.explains != "yes" for result in results) <= 1
    assert all(result.verdict.reasons == () for result in results if result.verdict.explains == "yes")


def correlated(phi, sigma, seed=1):
    """(4, n) noise of which neighbours have this correlation."""
    white = np.random.default_rng(seed).normal(size=(4, SAMPLES + 100))
    return sigma * np.sqrt(1 - phi**2) * np.asarray(lfilter([1.0], [1.0, -phi], white))[:, 100:]


@pytest.mark.parametrize("factor", [0.5, pytest.param(1.0, marks=pytest.mark.full)])
def test_a_shape_is_said_however_large_the_noise_is_stated(exact, factor):
    """One run cannot tell correlated noise from a misfit, and no noise that somebody states can; the intervals hold."""
    results = fit_replicas(exact, [heights(4, sigma=0.0) + correlated(0.9, factor * 0.01)[:, :, None]])
    # The fit takes away the slowest part of it, in a few replicas nearly all that correlates.
    assert named(results, "follow each other") + named(results, "smooth curve") >= 3
    assert sum(result.verdict.explains == "no" for result in results) <= 1


def test_rounding_has_no_pattern(exact):
    """Data that were simulated, without noise: what is left follows itself, and means nothing."""
    laws = ({"e": 0.7}, {"e": 0.85, "g": 9.0})
    for law in laws:
        (result,) = fit_replicas(exact, [heights(1, sigma=0.0, **law)])
        assert np.max(np.abs(result.residuals[0])) < 1e-11
        assert not result.verdict.reasons
    # A thousand times as much is none.
    (result,) = fit_replicas(exact, [heights(1, sigma=0.0) + 1e-8 * np.sin(3 * TIMES)[None, :, None]])
    assert "smooth curve" in str(result.verdict)


def noise(sigma, seed):
    return sigma * np.random.default_rng(seed).normal(size=(REPLICAS, SAMPLES, 1))


EXACT = heights(sigma=0.0)
SWAY = np.sin(9 * TIMES + np.linspace(0.0, 3.0, REPLICAS)[:, None])[:, :, None]
HALF = np.where(np.arange(SAMPLES) < SAMPLES // 2, 0.03, 0.004)[:, None]
OFF = np.zeros((SAMPLES, 1))
OFF[[7, 30, 50]] = [[0.3], [-0.3], [0.3]]


@pytest.mark.parametrize(
    ("seen", "reasons", "explains"),
    [
        # A fifth of it is what there is: against the rest no misfit would show.
        (heights(sigma=0.002), ["the noise is stated"], "partly"),
        (heights(sigma=0.03), ["the noise is larger than stated"], "partly"),
        # It looks like bounces that a coarse film has in the wrong places.
        (heights(sigma=0.1), ["more starts"], "no"),
        (EXACT + noise(HALF, 7), ["`noise` of shape (n, k)"], "partly"),
        (heights() + OFF, ["3 far off"], "no"),
        # A camera that sways by as much as the noise is said to be.
        (EXACT + 0.012 * SWAY + noise(1e-4, 6), ["are a smooth curve, not noise"], "no partly"),
        # The law is sought in the replica's data, not in those of the fit that it repeats.
        (
            slowing(1.0, 0.08)[None, :, None] + noise(0.01, 2),
            ["follow each other", "restitution falls with the speed of approach"],
            "no",
        ),
    ],
    ids=["quiet", "loud", "ten times", "half", "off", "sways", "law"],
)
def test_what_is_wrong_is_named(exact, seen, reasons, explains):
    results = fit_replicas(exact, [seen])
    assert [named(results, reason) for reason in reasons] == [REPLICAS] * len(reasons)
    assert {result.verdict.explains for result in results} == set(explains.split())
    # Where the noise is not what it was said to be, intervals hold the truth all the same.
    if explains == "partly":
        assert all(low <= 1.0 <= high for result in results for low, high in result.interval95["q0"])


def test_a_gross_misfit_forbids_its_intervals(exact):
    (result,) = fit_replicas(exact, [(slowing(1.0, 0.08) + 0.002 * np.sin(7 * TIMES))[None, :, None]])
    fine = replace(result, objective=result.objective.replaced("sigma", [np.full((SAMPLES, 1), 0.002)]))
    fine = replace(fine, cost=25 * result.cost)
    assert fine.verdict.explains == "no"
    assert "do not use these intervals" in str(fine)


def test_a_prior_that_the_data_contradict_is_named(exact):
    run = ball_problem(np.random.default_rng(0), sigma=0.0, noise=0.01)
    known = fit(run, START, BALL_FREE, priors={"g": Normal(9.81, 0.001)})
    results = fit_replicas(known, [heights(g=9.5)])
    assert named(results, "the prior of g") == REPLICAS
    assert named(fit_replicas(known, [heights()]), "the prior of g") == 0


def test_an_estimate_at_its_bound_is_named():
    run = ball_problem(np.random.default_rng(0))
    held = fit(run, START | {"e": 0.77}, BALL_FREE | {"e": Interval(0.0, 0.78)})
    assert held.verdict.explains != "yes"
    assert named([held], "e = 0.78 is at its bound") == 1


def test_runs_that_contradict_each_other_are_told_from_runs_that_scatter():
    problems = [
        replace(ball_problem(np.random.default_rng(i), sigma=0.0, noise=0.01), per_run=("q0", "u0")) for i in range(2)
    ]
    start = {"e": 0.8, "g": 9.81, "q0": np.ones((2, 1)), "u0": np.full((2, 1), 0.3)}
    joint = fit(problems, start, BALL_FREE)
    two_balls = fit_replicas(joint, [heights(e=0.75), heights(e=0.85, seed=4)])
    assert named(two_balls, "the runs contradict each other: e would be 0.7") == REPLICAS
    assert {result.verdict.explains for result in two_balls} == {"no"}
    alike = fit_replicas(joint, [heights(), heights(seed=4)])
    assert named(alike, "contradict") == 0
    # By their names, where they have any.
    told = " ".join(two_balls[0].judged({}, ["old.csv", "new.csv"]).verdict.reasons)
    assert " in old.csv alone and 0.8" in told
    assert told.count(" in new.csv") == 1
    assert alike[0].scope == "within these runs"


@pytest.mark.full
def test_a_misfit_that_all_runs_have_in_common_forbids_intervals_that_rest_on_what_differs():
    """Four films from a camera that sways: in step, so that runs agree in what is wrong, or each in its own way."""
    runs = [
        replace(ball_problem(np.random.default_rng(i), sigma=0.0, noise=0.01), per_run=("q0", "u0")) for i in range(4)
    ]
    start = START | {"q0": np.ones((4, 1)), "u0": np.full((4, 1), 0.3)}
    base = fit(runs, start, BALL_FREE)

    def swaying(phases):
        sway = [0.02 * np.sin(6 * TIMES + phase)[:, None] for phase in phases]
        return fit_replicas(base, [heights(3, seed=9 + i) + one for i, one in enumerate(sway)])

    def missed(result):
        return [not low <= START[name] <= high for name in ("e", "g") for low, high in [result.interval95[name]]]

    alike, unlike = swaying([0.0] * 4), swaying([0.0, 1.6, 3.1, 4.7])
    # Five of six are wrong; half of the misfit in the worst shape is what is asked, so one may be let off.
    assert sum(any(missed(result)) for result in alike) >= 2
    assert named(alike, "may have moved the parameters, and intervals hold what differs from run to run") >= 2
    # What differs between the runs is held, and most of it is let off.
    assert not any(any(missed(result)) for result in unlike)
    assert sum(result.verdict.explains == "partly" for result in unlike) >= 1


def test_the_best_of_starts_that_disagree_is_doubted(exact):
    (wrong,) = fit_replicas(exact, [slowing(1.0, 0.08)[None, :, None]])
    assert (
        named(
            [replace(wrong, start_costs=(wrong.cost, 3 * wrong.cost, 4 * wrong.cost, 5 * wrong.cost))], "1 of 4 starts"
        )
        == 1
    )
    (right,) = fit_replicas(exact, [heights(1)])
    assert named([replace(right, start_costs=(right.cost, 3 * right.cost))], "starts") == 0


def few(samples, speed, start=9.75, domain=BALL_FREE["g"]):
    """The fit of a ball with so few samples, started at that speed and gravity."""
    times = np.linspace(0.0, 1.4, samples)
    seen = bounces(0.8, 9.81, 1.0, 0.3, times) + 0.01 * np.random.default_rng(0).normal(size=samples)
    run = Problem(BALL, Observations(times, seen[:, None], 0.01, positions), start_of, substeps=1)
    return fit(run, {"e": 0.79, "g": start, "q0": [1.01], "u0": [speed]}, BALL_FREE | {"g": domain})


def test_what_passes_through_as_many_samples_as_it_has_parameters_is_not_tested_by_them():
    for samples, speed in ((4, 0.29), (4, -3.0), (3, -3.0)):
        found = few(samples, speed)
        assert found.cost < 1e-16
        assert found.verdict.explains == "partly"
        assert named([found], "so nothing tests the model")


def test_what_could_pass_through_all_samples_and_does_not_has_not_arrived():
    """With hardly any gravity: a straight line through three samples, some standard deviations off."""
    found = few(3, 0.29, 0.25, Interval(0.0, 0.5))
    assert found.dof == -1
    assert found.cost > 10
    assert found.verdict.explains == "no"
    assert named([found], "and the model misses them by")


def of_the_measuring(results):
    shapes = ("fault of the measuring", "by the shape of the residuals")
    return [next((r for r in result.verdict.reasons if any(shape in r for shape in shapes)), "") for result in results]


def test_a_scale_or_a_clock_that_gravity_contradicts_is_named_and_that_it_makes_up_for_is_not():
    """Gravity, which the model holds, is named first, and those that do as well stand beside it."""
    run = ball_problem(np.random.default_rng(0), sigma=0.0, noise=0.003)
    held = fit(run, START, {name: domain for name, domain in BALL_FREE.items() if name != "g"})
    for scale, rate in ((1.01, 1.0), (1.0, 1.01), (1.03, 1.0)):
        seen = scale * heights(sigma=0.0, times=rate * TIMES) + heights(sigma=0.003, seed=4) - heights(sigma=0.0)
        for reason in of_the_measuring(fit_replicas(held, [seen])):
            assert "scale of channel 0" in reason or "rate of the clock" in reason
    assert not any(of_the_measuring(fit_replicas(held, [heights(sigma=0.003, seed=4)])))
    results = fit_replicas(fit(run, START, BALL_FREE), [1.03 * heights(sigma=0.003 / 1.03, seed=4)])
    assert not any(of_the_measuring(results))
    assert all(result.verdict.explains == "yes" for result in results)
