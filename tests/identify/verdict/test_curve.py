"""Noise about a smooth curve is told from noise that is correlated."""

import numpy as np
import pytest
from scipy.signal import lfilter

from diffcontact.identify.linearised import LinearisedRun
from diffcontact.identify.verdict.residuals import curve

SAMPLES, RECORDS = 200, 20


def evidence(r, columns, struck=()):
    """A run of one channel whose residuals are r once the columns (n, P) have been fitted; `struck` are samples."""
    t = np.linspace(0.0, 1.0, r.size)
    present = np.isfinite(r)
    X = np.where(present[:, None], columns(t), 0.0)
    Q = np.linalg.qr(X)[0]
    left = np.where(present, r - Q @ (Q.T @ np.where(present, r, 0.0)), np.nan)
    hit = np.isin(np.arange(r.size), struck)
    return LinearisedRun(left[:, None], X[:, None, :], np.arange(X.shape[1]), t, hit, tracks=1)


def flight(t):
    """Two straight lines that meet, as of carts that collide."""
    return np.stack([np.ones_like(t), t, np.maximum(t - 0.45, 0.0)], axis=1)


def wave(rng, t, size, cycles=1.5):
    return size * np.sqrt(2.0) * np.sin(2 * np.pi * cycles * t + rng.uniform(0, 2 * np.pi))


def test_a_curve_under_the_noise_is_found_with_its_size(rng):
    t = np.linspace(0.0, 1.0, SAMPLES)
    sizes = []
    for i in range(RECORDS):
        r = rng.normal(size=SAMPLES) + wave(rng, t, 4.0)
        # Gaps do not matter.
        r[60 : 60 + i] = np.nan
        sizes.append(curve(evidence(r, flight)))
        assert sizes[-1] > 0
    # The lines take up some of a wave of one and a half cycles, at most half of its size.
    assert 2.0 < np.median(sizes) < 4.2


def test_a_curve_that_an_impact_breaks_is_found(rng):
    """Drag that the two riders have differently: a parabola before the impact, another one after it."""
    n, at = 600, 270
    t = np.linspace(0.0, 1.0, n)
    late = np.maximum(t - 0.45, 0.0)
    bent = np.where(t < 0.45, 8.0 * t * (0.45 - t), -14.0 * late * (0.55 - late))
    found = [curve(evidence(rng.normal(size=n) + 3.0 * bent / np.std(bent), flight, (at - 1, at))) for _ in range(6)]
    assert all(one > 0 for one in found)


@pytest.mark.parametrize("struck", [(), (89, 90)], ids=["free", "struck"])
@pytest.mark.parametrize("phi", [*(pytest.param(phi, marks=pytest.mark.full) for phi in (0.0, 0.5)), 0.9, 0.97])
def test_correlated_noise_is_no_curve(rng, phi, struck):
    for _ in range(RECORDS):
        noise = lfilter([1.0], [1.0, -phi], rng.normal(size=SAMPLES + 300))[300:]
        assert curve(evidence(noise, flight, struck)) == 0


def test_what_the_fit_has_taken_out_is_no_curve(rng):
    t = np.linspace(0.0, 1.0, SAMPLES)

    def with_wave(t):
        return np.column_stack([flight(t), np.sin(9 * t), np.cos(9 * t)])

    r = rng.normal(size=SAMPLES) + 5.0 * np.sin(9 * t + 1.0)
    assert curve(evidence(r, flight)) > 0
    assert curve(evidence(r, with_wave)) == 0


def test_short_records_and_residuals_of_nothing_show_none(rng):
    t = np.linspace(0.0, 1.0, 99)
    assert curve(evidence(rng.normal(size=99) + wave(rng, t, 5.0), flight)) == 0
    assert curve(evidence(np.zeros(SAMPLES), flight)) == 0
