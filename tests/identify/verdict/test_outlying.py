"""A robust loss whose f_scale lies far within the noise is told, and one that takes outliers for outliers is not."""

from dataclasses import replace

import numpy as np
import pytest
from falling import NOISE, fall, fitted

from diffcontact.identify import Observations, Real
from diffcontact.identify.covariance.influence import slope_in_noise
from diffcontact.identify.problem.loss import Loss

FREE = {"g": Real(), "u0": Real()}
NOISES = NOISE * np.random.default_rng(3).normal(size=(3, 41))


def told(error, loss, f_scale, sigma=NOISE, **options):
    """The reasons of the verdict on a fall under such noise, stated as sigma, and the verdict."""
    run = fall(None, noise=error)
    seen = run.observations
    run = replace(run, observations=Observations(seen.times, seen.values, sigma, seen.observe))
    verdict = fitted(run, FREE, loss=loss, f_scale=f_scale, **options).verdict
    return " ".join(verdict.reasons), verdict.explains


@pytest.mark.parametrize(("loss", "f_scale"), [("huber", 0.01), ("soft_l1", 0.01), ("cauchy", 0.1), ("cauchy", 0.01)])
def test_a_loss_that_takes_noise_for_outliers_is_told(loss, f_scale):
    for noise in NOISES:
        reasons, explains = told(noise, loss, f_scale)
        assert explains == "no"
        assert f"loss={loss!r} takes the noise for outliers" in reasons


@pytest.mark.parametrize(("loss", "divisor"), [("huber", 100), ("cauchy", 10), ("cauchy", 30)])
def test_a_noise_stated_too_small_is_as_a_small_f_scale(loss, divisor):
    """Both are the same cost. Stated or estimated as it is, and with f_scale in proportion, it is none."""
    reasons, explains = told(NOISES[0], loss, 1.0, NOISE / divisor)
    assert explains == "no"
    assert "takes the noise for outliers" in reasons
    assert "intervals rest on" not in reasons
    assert "outliers" not in told(NOISES[0], loss, float(divisor), NOISE / divisor)[0]
    assert "outliers" not in told(NOISES[0], loss, 1.0, NOISE / divisor, noise="estimated")[0]


@pytest.mark.parametrize(("loss", "f_scale"), [("huber", 0.1), ("soft_l1", 0.1), ("cauchy", 0.5), ("cauchy", 1.0)])
def test_a_loss_that_sees_the_noise_is_left_alone(loss, f_scale):
    for noise in NOISES:
        wild = np.where(np.arange(41) % 10 == 5, noise + 50 * NOISE, noise)
        assert all("outliers" not in told(each, loss, f_scale)[0] for each in (noise, wild))


def test_the_slope_in_noise_is_that_of_many_samples(rng):
    r = rng.normal(size=400_000)
    for loss in (Loss("huber", 0.5), Loss("soft_l1", 0.5), Loss("cauchy", 0.5)):
        # The mean of so many slopes, of which each scatters by less than 1, is known to 1.6e-3.
        assert slope_in_noise(loss, 1.0) == pytest.approx(float(np.mean(np.asarray(loss.influence(r)[1]))), abs=5e-3)
