"""A recording that is there twice is found however it was cut or thinned, and nothing else is taken for one."""

import numpy as np
import pytest
from falling import FALLING, NOISE, positions, start_of

from diffcontact.identify import Observations, Problem, Real, fit
from diffcontact.identify.linearised import LinearisedRun
from diffcontact.identify.verdict.between_runs import duplicate_runs

FREE = {"g": Real(), "u0": Real(), "height": Real()}
FILM = np.linspace(0.0, 1.0, 61)


def placed(params):
    return params["height"], start_of(params)[1]


def film(seed):
    noise = NOISE * np.random.default_rng(seed).normal(size=FILM.size)
    return FILM, (0.4 * FILM - 9.81 * FILM**2 / 2 + noise)[:, None]


def told(*recordings, sigma=NOISE):
    """What is told of a joint fit of (times, heights), and the verdict."""
    runs = [
        Problem(FALLING, Observations(*seen, sigma, positions), placed, None, 1, ("u0", "height"))
        for seen in recordings
    ]
    start = {"g": 9.0, "u0": np.zeros((len(runs), 1)), "height": np.zeros((len(runs), 1))}
    verdict = fit(runs, start, FREE).verdict
    return verdict.explains, " ".join(verdict.reasons)


def cut(recording, rows):
    times, heights = recording
    return times[rows], heights[rows]


def later(recording, by):
    times, heights = recording
    return times + by, heights


CUTS = {
    "without its first picture": (slice(None), slice(1, None)),
    "without its last pictures": (slice(None), slice(0, -4)),
    "every second picture": (slice(None), slice(None, None, 2)),
    "every third, from the second on": (slice(None), slice(1, None, 3)),
    "windows that overlap by half": (slice(0, 40), slice(20, 61)),
    "a window of the pictures that another lacks": (slice(5, 61, 2), slice(0, 50)),
}


@pytest.mark.parametrize("kind", CUTS)
def test_a_part_of_a_recording_is_found(kind):
    one, other = (cut(film(0), rows) for rows in CUTS[kind])
    explains, reasons = told(other, later(one, 7.3), film(1))
    assert explains == "no"
    assert "residuals are the same in run 0 and run 1, though" in reasons


def test_a_table_of_fewer_digits_with_pictures_lost_is_found():
    times, heights = film(0)
    kept = np.delete(np.arange(61), [0, 13, 30, 31])
    assert "run 0 and run 2, though" in told((times, heights), film(1), (times[kept], np.round(heights[kept], 3)))[1]


def test_windows_that_do_not_overlap_are_two_runs():
    one = film(0)
    assert told(cut(one, slice(0, 30)), cut(one, slice(31, 61)), film(1))[0] == "yes"


def evidence(residuals, J=None, times=None, sigma=1.0):
    """Of runs with these residuals (n,), as far as `duplicate_runs` looks at it."""
    runs = []
    for r in residuals:
        n = len(r)
        columns = np.stack([np.ones(n), np.arange(n)], axis=1) if J is None else J
        r = r - columns @ np.linalg.lstsq(columns, r, rcond=None)[0]
        when = np.arange(float(n)) if times is None else times
        runs.append(
            LinearisedRun(
                r[:, None], columns[:, None], np.arange(columns.shape[1]), when, sigma=np.full((n, 1), sigma), tracks=1
            )
        )
    return runs


RNG = np.random.default_rng(0)
STILL = np.full((4, 50), 0.3)


def off(residuals, by):
    """With one sample of each run off."""
    residuals[np.arange(4), [5, 9, 20, 33]] += by
    return residuals


APART = {f"noise of {n} samples": RNG.normal(size=(20, n)) for n in (3, 4, 6, 12, 40)} | {
    "an outlier in each": off(RNG.normal(size=(4, 40)), 1e4),
    # At heights that no parameter knows of, and that a camera gives in whole pixels.
    "at rest": STILL,
    "at rest, a pixel off": off(STILL.copy(), 1.0),
    "exact": np.zeros((3, 50)),
}


@pytest.mark.parametrize("kind", APART)
@pytest.mark.parametrize("sigma", [1.0, 100.0])
def test_what_is_alike_is_not_one_recording(kind, sigma):
    """Also of a noise that is stated so large that nothing differs by it."""
    J = np.zeros((50, 1)) if "at rest" in kind else None
    assert not duplicate_runs(evidence(APART[kind], J, sigma=sigma))


def test_times_of_any_spacing_may_be_cut():
    rng = np.random.default_rng(0)
    noise, times = rng.normal(size=50), np.cumsum(rng.uniform(0.5, 2.0, 50))
    whole, part = evidence([noise], times=times), evidence([noise[7:]], times=times[7:] - 3.0)
    assert duplicate_runs([*whole, *part]) == [(0, 1)]
