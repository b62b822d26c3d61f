"""The course of a motion between the times of its grid: where it strikes, and how it bends, against closed forms."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.report import page
from diffcontact.report.course import course, thinned
from diffcontact.report.simulated import trajectory_report

G, E, HEIGHT = 9.81, 0.7, 1.0
BALL = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
PARAMS = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-G]), "restitution": E}
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


@pytest.fixture(scope="module")
def drop():
    return dc.simulate(BALL, PARAMS, [HEIGHT], [0.0], TIMES, percussions=8)


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
    found = course(dc.simulate(BALL, PARAMS, [HEIGHT], [0.0], at, percussions=8))
    np.testing.assert_allclose(found.q[:, 0], height(found.t), atol=1e-9)


def test_several_unlisted_impacts_in_one_interval_are_no_arc(drop):
    coarse = dc.simulate(BALL, PARAMS, [HEIGHT], [0.0], [0.0, 0.3, TIMES[-1]])
    found = course(coarse, gap=lambda t, q: q[0])
    assert found.contacts.tolist() == [-2]
    assert found.impacts.tolist() == [(0.3 + TIMES[-1]) / 2]
    np.testing.assert_array_equal(found.t[-2:], coarse.t[1:])


def test_what_is_not_finite_ends_the_course(drop):
    broken = replace(drop, q=drop.q.at[5:].set(jnp.nan), percussions=None)
    found = course(broken)
    assert found.t[-1] == TIMES[4]
    assert np.isfinite(found.q).all()


def test_a_motion_that_is_finite_nowhere_has_a_page_all_the_same(drop):
    report = trajectory_report(replace(drop, q=drop.q * jnp.nan, percussions=None), BALL, PARAMS)
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
        t=jnp.arange(7.0),
        q=jnp.zeros((7, 1)),
        u=jnp.zeros((7, 1)),
        impulse=jnp.ones((6, 1)),
        status=jnp.zeros((), int),
        friction=jnp.asarray(friction),
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


def test_a_fan_is_the_quantiles_of_its_lanes(drop):
    lanes = np.linspace(0.5, 1.5, 21)
    fan = dc.Trajectory(
        t=jnp.tile(drop.t, (21, 1)),
        q=jnp.asarray(lanes[:, None, None] * np.asarray(drop.q)),
        u=jnp.asarray(lanes[:, None, None] * np.asarray(drop.u)),
        impulse=jnp.tile(drop.impulse, (21, 1, 1)),
        status=jnp.zeros(21, int),
    )
    (run,) = trajectory_report(fan, BALL, PARAMS).runs
    middle = run.curve[:, 0]
    np.testing.assert_allclose(middle, height(run.times), atol=3e-4)
    for band, part in zip(run.bands[..., 0], (0.05, 0.25, 0.75, 0.95), strict=True):
        np.testing.assert_allclose(band, np.quantile(lanes, part) * middle, atol=1e-3)
