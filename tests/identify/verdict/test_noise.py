"""What residuals that are not the stated noise are called: runs alike or apart, wrong ratios, blind losses."""

from dataclasses import replace

import numpy as np
import pytest
from falling import NOISE, fall, fitted

from diffcontact.identify import Observations, Real
from diffcontact.identify.error_bars import slope_in_noise
from diffcontact.identify.noise import Loss

FREE = {"g": Real(), "u0": Real()}
MISSING = NOISE * np.random.default_rng(6).normal(size=41)
RATIOS = np.where(np.arange(41) % 2 == 1, 5.0, 1.0)


def judged(noises, sigma=3 * NOISE, **options):
    """Of a joint fit of falls with these noises, stated as sigma, each from a speed of its own: verdict and reasons."""
    runs = []
    for noise in noises:
        run = fall(None, ("u0",), noise)
        seen = run.observations
        stated = np.broadcast_to(sigma, 41)[:, None]
        runs.append(replace(run, observations=Observations(seen.times, seen.values, stated, seen.observe)))
    verdict = fitted(runs, FREE, u0=np.zeros((len(runs), 1)), **options).verdict
    return verdict.explains, verdict.reasons


def told(*arguments, **options):
    return " ".join(judged(*arguments, **options)[1])


@pytest.fixture
def noise():
    return NOISE * np.random.default_rng(8).normal(size=(4, 41))


def test_noise_is_left_alone(noise):
    for count in (2, 4):
        assert judged(noise[:count], NOISE) == ("yes", ())
    # The last is as noisy as stated; the others have a third of that.
    assert "far larger" not in told(noise * np.array([[0.3], [0.3], [0.3], [1.0]]))


@pytest.mark.parametrize("options", [{}, {"noise": "estimated"}])
def test_a_misfit_that_dwarfs_the_noise_does_not_make_two_runs_one(noise, options):
    for count in (2, 3):
        explains, reasons = judged(noise[:count] + 100 * MISSING, **options)
        assert "residuals are the same" not in " ".join(reasons)
    assert explains == "no"
    assert "residuals are alike in all runs (correlation 1.00)" in " ".join(reasons)
    # Of one recording it is seen all the same.
    assert "residuals are the same in run 0 and run 2" in told(noise[[0, 1, 0]] + 100 * MISSING, **options)


def test_a_misfit_of_noise_that_nobody_stated_needs_no_shape():
    """Twenty samples of a bend, five times as large as they are rough, are too few to follow each other for certain."""
    times = np.linspace(0.0, 1.0, 20)
    noise, bend = np.random.default_rng(3).normal(size=20), np.cos(3 * np.pi * times)
    reasons = []
    for size in (0.0, 5.0):
        run = fall(None, noise=np.zeros(41))
        seen = run.observations
        rows = slice(0, 40, 2)
        values = seen.values[rows] + NOISE * (noise + size * bend)[:, None]
        run = replace(run, observations=Observations(seen.times[rows], values, NOISE, seen.observe))
        reasons.append(fitted(run, FREE, noise="rough").verdict)
    assert [verdict.explains for verdict in reasons] == ["yes", "no"]
    assert "times as large as samples are rough" in " ".join(reasons[1].reasons)


def test_what_all_runs_lack_is_no_scatter(noise):
    explains, reasons = judged(noise[:3] + 2 * MISSING)
    assert explains == "no"
    assert "residuals are alike in all runs (correlation 0." in " ".join(reasons)
    assert "It may have moved the parameters: were that by as much as is left, g by" in " ".join(reasons)


@pytest.mark.parametrize(("number", "garbage"), [(0, "noise"), (2, "reversed")])
def test_a_run_of_something_else_is_named(noise, number, garbage):
    """White, or as smooth as a motion: as many samples are worth few, but so far from any noise that does not count."""
    t = np.linspace(0.0, 1.0, 41)
    noise[number] = 100 * noise[number] if garbage == "noise" else 2.0 * np.sin(9.0 * t)
    explains, reasons = judged(noise)
    assert explains == "no"
    (apart,) = (reason for reason in reasons if "far larger than in the other runs" in reason)
    assert f"residuals in run {number} (" in apart
    assert apart.count("times)") == 1


def test_two_of_five_are_both_named_and_outliers_make_no_outsider(noise):
    five = np.concatenate([noise, noise[:1, ::-1]])
    five[[1, 4]] *= 50
    (apart,) = (reason for reason in judged(five)[1] if "far larger than in the other runs" in reason)
    assert "run 1 (" in apart
    assert "run 4 (" in apart
    noise[1, [12, 30]] += 50 * NOISE
    assert "far larger" not in told(noise)
    # More than these bend the whole run to where they are, unless the loss does not let them.
    noise[1, ::8] += 50 * NOISE
    assert "far larger" not in told(noise, loss="cauchy")


@pytest.mark.parametrize(
    ("true", "stated", "length"),
    [
        (1.0, RATIOS, "too short"),
        (1.0, 3 * RATIOS, "too short"),
        (RATIOS**2, RATIOS, "too long"),
        (RATIOS**2, 3 * RATIOS, "too long"),
        (RATIOS, RATIOS, ""),
        (RATIOS, 3 * RATIOS, ""),
        (1.0, 3.0, ""),
    ],
    ids=["short", "short 3", "long", "long 3", "right", "right 3", "even"],
)
def test_noise_stated_in_other_ratios_than_it_has_is_told(true, stated, length):
    error = NOISE * true * np.random.default_rng(0).normal(size=41)
    reasons = told([error], NOISE * stated)
    assert ("ratios are not as stated" in reasons) == bool(length)
    assert f"on the others are {length}" in reasons or not length


@pytest.mark.parametrize(("loss", "divisor"), [("huber", 100), pytest.param("cauchy", 10, marks=pytest.mark.full)])
def test_a_noise_stated_too_small_is_as_a_small_f_scale(noise, loss, divisor):
    """Both are the same cost. Stated or estimated as it is, and with f_scale in proportion, it is none."""
    one = noise[:1]
    explains, reasons = judged(one, NOISE / divisor, loss=loss, f_scale=1.0)
    assert explains == "no"
    assert "takes the noise for outliers" in " ".join(reasons)
    assert "intervals rest on" not in " ".join(reasons)
    assert "outliers" not in told(one, NOISE / divisor, loss=loss, f_scale=float(divisor))
    assert "outliers" not in told(one, NOISE / divisor, loss=loss, f_scale=1.0, noise="estimated")


@pytest.mark.parametrize(("loss", "f_scale"), [("huber", 0.1), ("soft_l1", 0.1), ("cauchy", 0.5)])
def test_a_loss_that_sees_the_noise_is_left_alone(loss, f_scale):
    one = NOISE * np.random.default_rng(3).normal(size=41)
    wild = np.where(np.arange(41) % 10 == 5, one + 50 * NOISE, one)
    for each in (one, wild):
        assert "outliers" not in told([each], NOISE, loss=loss, f_scale=f_scale)


def test_the_slope_in_noise_is_that_of_many_samples(rng):
    r = rng.normal(size=400_000)
    for loss in (Loss("huber", 0.5), Loss("soft_l1", 0.5), Loss("cauchy", 0.5)):
        # The mean of so many slopes, of which each scatters by less than 1, is known to 1.6e-3.
        assert slope_in_noise(loss, 1.0) == pytest.approx(float(np.mean(np.asarray(loss.influence(r)[1]))), abs=5e-3)
