"""A sample of infinite sigma is as one that is missing, in everything that a fit tells."""

from dataclasses import replace

import numpy as np
import pytest
from falling import NOISE, fall, fitted

from diffcontact.identify import Observations, Real

FREE = {"g": Real(), "u0": Real()}
NOISES = NOISE * np.random.default_rng(4).normal(size=41)
ROWS = np.arange(41)


def fit_of(sigma, missing=(), **options):
    """Of a fall with such sigmas (n,)."""
    run = fall(None, noise=NOISES)
    seen = run.observations
    values = np.where(np.isin(ROWS, missing)[:, None], np.nan, seen.values)
    seen = Observations(seen.times, values, np.broadcast_to(sigma, 41)[:, None], seen.observe)
    return fitted(replace(run, observations=seen), FREE, **options)


@pytest.mark.parametrize("off", [ROWS[1::2], ROWS[10:25], ROWS[ROWS % 3 != 0]], ids=["odd", "a gap", "most"])
@pytest.mark.parametrize("options", [{}, {"noise": "estimated"}, {"loss": "huber", "f_scale": 3.0}])
def test_samples_of_infinite_sigma_are_as_missing(off, options):
    far = fit_of(np.where(np.isin(ROWS, off), 1e8, NOISE), **options)
    gone = fit_of(NOISE, off, **options)
    for name in FREE:
        # The descent ends where nothing moves by more than eps^(3/4) of itself, 2e-12, or of what the cost resolves.
        np.testing.assert_allclose(far.params[name], gone.params[name], rtol=1e-7)
        np.testing.assert_allclose(far.stderr[name], gone.stderr[name], rtol=1e-6)
        np.testing.assert_allclose(far.interval95[name], gone.interval95[name], rtol=1e-6)
    assert (far.dof, far.samples, far.verdict) == (gone.dof, gone.samples, gone.verdict)
    assert far.chi2_per_dof == pytest.approx(gone.chi2_per_dof, rel=1e-6)
    assert "samples without weight beside the others of their channel taken as missing" in far.message


def test_samples_on_which_a_parameter_rests_are_kept_however_light():
    """A first height that is known as if exactly: all that is known of a fall is in the others."""
    assert fit_of(np.where(ROWS == 0, 1e-6 * NOISE, NOISE)).samples == 39
    # The first third by itself knows little of the weight.
    light = fit_of(np.where(ROWS < 14, NOISE, 40 * NOISE))
    assert light.samples == 39
    assert "without weight" not in light.message


def test_one_sigma_leaves_everything_as_it_is():
    assert "without weight" not in fit_of(1e8).message
