"""The course of a motion between the times of its grid: where it strikes, and how it bends, against closed forms."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.report import page, simulated
from diffcontact.report.course import course, thinned
from diffcontact.report.simulated import trajectory_report

G, E, HEIGHT = 9.81, 0.7, 1.0
BALL = dc.systems.balls(1, 1, box=(0.0, np.inf))
PARAMS = {"mass": np.ones(1), "radius": np.zeros(1), "gravity": np.array([-G]), "restitution": E}
# The impacts of a ball that is dropped: after the fall, then after flights that are shorter by e each.
FALL = np.sqrt(2 * HEIGHT / G)
IMPACTS = FALL * (1 + 2 * np.array([0.0, E, E + E**2]))
TIMES = np.linspace(0.0, 0.5 * (IMPACTS[2] + FALL * (1 + 2 * (E + E**2 + E**3))), 14)


def height(t):
    """The closed form, at any times before the fourth impact."""
    starts = np.concatenate([[-FALL], IMPACTS])
    flight = np.searchsorted(IMPACTS, t, side="right")
    since = t - starts[flight]
    return G * FALL * E**flight * since - G * since**2 / 2


def dropped(times):
    """The motion on a grid of times; its list of percussions has eight entries."""
    flight = np.searchsorted(IMPACTS, times, side="right")
    u = G * FALL * E**flight - G * (times - np.concatenate([[-FALL], IMPACTS])[flight])
    past = np.arange(8) < flight[-1]
    speed = past * G * FALL * E ** np.arange(8)
    percussions = SimpleNamespace(
        time=np.where(past, np.resize(IMPACTS, 8), 0.0),
        contact=np.where(past, 0, -1),
        q=np.zeros((8, 1)),
        u=-speed[:, None],
        jump=(1 + E) * speed[:, None],
    )
    impulse = np.diff(np.append(0.0, np.cumsum((1 + E) * speed))[flight])
    return dc.Trajectory(times, height(times)[:, None], u[:, None], impulse[:, None], np.array(0), percussions)


@pytest.fixture(scope="module")
def drop():
    return dropped(TIMES)


def test_the_curve_touches_the_floor_at_each_impact(drop):
    found = course(drop)
    np.testing.assert_allclose(found.impacts, IMPACTS, rtol=1e-12)
    for time in found.impacts:
        rows = np.flatnonzero(np.abs(found.t - time) < 1e-12)
        assert rows.size == 2
        np.testing.assert_allclose(found.q[rows], 0.0, atol=1e-12)
        before, after = found.u[rows, 0]
        assert after == pytest.approx(-E * before)


def test_arcs_between_few_times_are_those_of_the_motion(drop):
    found = course(drop)
    assert found.t.size > 10 * TIMES.size
    assert np.all(np.diff(found.t) >= 0)
    # Hermite's cubics hold parabolas exactly.
    np.testing.assert_allclose(found.q[:, 0], height(found.t), atol=1e-12)


def test_impacts_that_are_not_listed_are_where_the_arcs_meet(drop):
    found = course(replace(drop, percussions=None))
    # The grid on which a meeting is looked for has 32^4 steps an interval, at the end.
    np.testing.assert_allclose(found.impacts, IMPACTS, atol=1e-5 * TIMES[1])
    np.testing.assert_allclose(found.q[:, 0], height(found.t), atol=1e-5)


def test_an_impact_on_the_grid_has_its_kink_there():
    at = np.sort(np.append(TIMES, IMPACTS[1]))
    found = course(dropped(at))
    np.testing.assert_allclose(found.q[:, 0], height(found.t), atol=1e-9)


def test_several_unlisted_impacts_in_one_interval_are_no_arc(drop):
    coarse = replace(dropped(np.array([0.0, 0.3, TIMES[-1]])), percussions=None)
    found = course(coarse, gap=lambda t, q: q[0])
    assert found.contacts.tolist() == [-2]
    assert found.impacts.tolist() == [(0.3 + TIMES[-1]) / 2]
    np.testing.assert_array_equal(found.t[-2:], coarse.t[1:])


def test_what_is_not_finite_ends_the_course(drop):
    broken = replace(drop, q=np.where(TIMES[:, None] < TIMES[5], drop.q, np.nan), percussions=None)
    found = course(broken)
    assert found.t[-1] == TIMES[4]
    assert np.isfinite(found.q).all()


def test_a_motion_that_is_finite_nowhere_has_a_page_all_the_same(drop):
    report = trajectory_report(replace(drop, q=drop.q * np.nan, percussions=None), BALL, PARAMS)
    assert report.runs[0].motion is None
    assert '"runs":[]' in page(report)


def test_thinning_keeps_jumps_and_what_is_bent():
    t = np.array([0.0, 1.0, 2.0, 2.0, 3.0, 4.0])
    values = np.array([0.0, 1.0, 2.0, 5.0, 5.0, 5.0])[:, None]
    assert thinned(t, values, 1e-3).tolist() == [0, 2, 3, 5]
    t = np.linspace(0.0, 1.0, 2001)
    kept = thinned(t, np.sin(9 * t)[:, None], 1e-3)
    assert kept.size < 100
    np.testing.assert_allclose(np.interp(t, t[kept], np.sin(9 * t[kept])), np.sin(9 * t), atol=2e-3)


def test_a_contact_that_begins_to_roll_is_told_from_its_friction():
    """A load of 1 throughout; friction at its bound 0.3 for three intervals, then below it, then at it again."""
    friction = np.array([0.3, -0.3, 0.3, 0.1, 0.2, 0.3])[:, None, None]
    slide = dc.Trajectory(
        t=np.arange(7.0),
        q=np.zeros((7, 1)),
        u=np.zeros((7, 1)),
        impulse=np.ones((6, 1)),
        status=np.zeros((), int),
        friction=friction,
    )
    rubs = dc.System(
        gap=lambda t, q, p: q,
        force=lambda t, q, u, p: q,
        mass=lambda q, p: q + 1.0,
        restitution=lambda p: 0.0,
        slip=lambda t, q, u, p: u[:, None],
        friction=lambda p: p["mu"],
    )
    told = [(event.time, event.text) for event in trajectory_report(slide, rubs, {"mu": 0.3}).runs[0].events]
    changes = [event for event in told if "contact 0: s" in event[1]]
    assert changes == [(3.0, "contact 0: slip to stick"), (5.0, "contact 0: stick to slip")]


def test_a_fan_is_the_quantiles_of_its_lanes(drop, monkeypatch):
    monkeypatch.setattr(simulated, "_DRAWN_LANES", 2)
    lanes = np.linspace(0.5, 1.5, 21)
    fan = dc.Trajectory(
        t=np.tile(drop.t, (21, 1)),
        q=lanes[:, None, None] * drop.q,
        u=lanes[:, None, None] * drop.u,
        impulse=np.tile(drop.impulse, (21, 1, 1)),
        status=np.zeros(21, int),
    )
    (run,) = trajectory_report(fan, BALL, PARAMS).runs
    middle = run.curve[:, 0]
    np.testing.assert_allclose(middle, height(run.times), atol=3e-4)
    for band, part in zip(run.bands[..., 0], (0.05, 0.25, 0.75, 0.95), strict=True):
        np.testing.assert_allclose(band, np.quantile(lanes, part) * middle, atol=1e-3)


def test_a_motion_is_drawn_with_its_impacts(drop):
    (axes,) = drop.plot(BALL, PARAMS).get_axes()
    lines = {str(line.get_label()): line for line in axes.get_lines()}
    np.testing.assert_allclose(lines.pop("impact").get_xdata(), IMPACTS, atol=1e-12)
    (curve,) = lines.values()
    # It reaches the floor, where no sample is.
    assert abs(curve.get_ydata().min()) < 1e-9
    assert len(plt.get_fignums()) == 0
