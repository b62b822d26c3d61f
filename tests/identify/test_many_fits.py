"""Fits in a loop of one process: what they compile, and what they leave behind."""

import resource
import sys

import jax
import numpy as np
import pytest

import diffcontact as dc

TIMES = np.linspace(0.0, 0.7, 15)


@pytest.fixture
def compiled():
    """The programs that are compiled during a test, by name."""
    found, on = [], [True]

    def heard(event, _, **what):
        if on[0] and event == "/jax/core/compile/backend_compile_duration":
            found.append(what.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(heard)
    yield found
    on[0] = False


def bounced(e, height, times):
    """(n, 1) heights of a ball that falls from rest and bounces once or twice."""
    fall = np.sqrt(2 * height / 9.81)
    begins, v, z = fall, e * 9.81 * fall, np.where(times < fall, height - 9.81 / 2 * times**2, 0.0)
    for _ in range(3):
        since = times - begins
        z = np.where(since >= 0, v * since - 9.81 / 2 * since**2, z)
        begins, v = begins + 2 * v / 9.81, e * v
    return z[:, None]


def fitted(rng, height=1.0, held=None):
    """A fit as in a loop of a notebook: with a system, functions and data of its own."""
    ball = dc.System(
        gap=lambda t, q, p: q,
        force=lambda t, q, u, p: -p["g"] * np.ones(1),
        mass=lambda q, p: np.ones(1),
        restitution=(lambda p: p["e"]) if held is None else lambda p: p["e"] + 0.0 * held.zero,
    )
    measured = bounced(0.7, height, TIMES) + 0.003 * rng.normal(size=(TIMES.size, 1))
    seen = dc.Observations(TIMES, measured, 0.003, lambda trajectory, p: trajectory.q)
    run = dc.Problem(ball, seen, lambda p: ([p["h"]], [0.0]), substeps=1)
    start = {"e": 0.65, "g": 9.81, "h": height}
    return dc.fit(run, start, {"e": dc.Interval(0.0, 1.0)}, shooting="single")


def mappings():
    with open("/proc/self/maps") as lines:
        return sum(1 for _ in lines)


# On every commit `test_simulated.py` has a second fit, which compiles nothing, and functions that share their code.
@pytest.mark.full
def test_fifty_fits_compile_the_programs_of_one(rng, compiled):
    """They were 350 mappings and 4 s of processor time each, and thirty larger ones the end of the process."""
    found = [fitted(rng, 1.0 + 0.001 * k).params["e"] for k in range(2)]
    assert 0 < len(compiled) <= 8, compiled
    compiled.clear()
    found += [fitted(rng, 1.0 + 0.001 * k).params["e"] for k in range(2, 50)]
    assert not compiled
    # 0.003 of noise in fifteen samples, of which nine are behind the impact.
    assert np.all(np.abs(np.array(found) - 0.7) < 0.02)
    assert abs(np.mean(found) - 0.7) < 0.002


class Number:
    """What the library cannot look into: a system that refers to one has programs of its own."""

    zero = 0.0


@pytest.mark.full
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc")
def test_a_thousand_fits_leave_nothing_behind(rng):
    """Of one structure; and, of systems that share no program, so many that the first must have gone."""
    fitted(rng)
    for count, held in ((1000, None), (40, Number)):
        before = None
        for k in range(count):
            fitted(rng, held=held and held())
            if k == count // 2:
                before = mappings(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        assert before is not None
        assert mappings() <= 1.05 * before[0]
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss <= 1.1 * before[1]
