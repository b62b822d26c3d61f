"""From a fit to its page: no scene is needed, and the picture shows what was measured where it was measured."""

import json
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import BALL, bounces

import diffcontact as dc
from diffcontact.drawing import Ball, drawing_of
from diffcontact.identify.reporting import Labels, _Observed, fit_report

TIMES = np.linspace(0.0, 1.0, 26)
TRUTH = {"e": 0.8, "q0": np.array([1.0, 1.5])}
NOISE = 1e-3


def seen(trajectory, params):
    return trajectory.q


@pytest.fixture(scope="module")
def result():
    """A ball that hits the floor once in two runs, dropped from a height of its own each."""
    rng, problems = np.random.default_rng(0), []
    for height in TRUTH["q0"]:
        values = (bounces(TRUTH["e"], 9.81, height, 0.0, TIMES) + NOISE * rng.normal(size=TIMES.size))[:, None]
        values[7] = np.nan
        observations = dc.Observations(TIMES, values, NOISE, seen)
        problems.append(
            dc.Problem(BALL, observations, lambda p: (p["q0"][None], np.zeros(1)), substeps=1, per_run=("q0",))
        )
    start = {"e": 0.75, "g": 9.81, "q0": np.array([1.02, 1.48])}
    return dc.fit(problems, start, {"e": dc.Interval(0.0, 1.0), "q0": dc.Real()}, shooting="single")


def test_a_fit_alone_is_enough(result):
    report = fit_report(result, result.verdict)
    assert [run.label for run in report.runs] == ["run 0", "run 1"]
    for run, trajectory, height in zip(report.runs, result.trajectories, result.params["q0"], strict=True):
        (impact,) = run.events
        assert impact.time == pytest.approx(np.sqrt(2 * height / 9.81), rel=1e-9)
        # The curve has its corner on the floor, where no sample is.
        (corner,) = np.flatnonzero(np.diff(run.times) == 0)
        np.testing.assert_allclose(run.curve[corner : corner + 2], 0.0, atol=1e-9)
        there = np.isfinite(run.measured)
        assert there.sum() == TIMES.size - 1
        np.testing.assert_allclose((run.measured - run.residual)[there], trajectory.q[there], atol=1e-12)
        (bead,) = run.motion.shapes
        np.testing.assert_allclose(bead.offsets["values"], run.residual)
    e, *heights = report.numbers.estimates
    assert (e.run, e.least, e.most) == ("", 0.0, 1.0)
    assert [one.run for one in heights] == ["run 0", "run 1"]
    assert e.low < TRUTH["e"] < e.high


def test_a_result_from_a_file_shows_its_motion(result, tmp_path):
    result.save(tmp_path / "result.json")
    loaded = dc.FitResult.load(tmp_path / "result.json")
    report = fit_report(loaded, loaded.verdict)
    assert [run.samples.size for run in report.runs] == [0, 0]
    assert [one.text for one in report.numbers.estimates] == [
        one.text for one in fit_report(result, result.verdict).numbers.estimates
    ]


def test_profiles_are_shown_where_they_were_computed_in_the_units_of_the_table(result):
    profile = dc.identify.profile(result, "e")
    assert fit_report(result, result.verdict).numbers.profiles == []
    (shown,) = fit_report(result, result.verdict, profiles=[profile]).numbers.profiles
    # Between the ends of the interval the profile is below its level.
    low, high = profile.interval95
    inside = (shown.values > low + 1e-9) & (shown.values < high - 1e-9)
    assert np.all(shown.rise[inside] <= shown.level * (1 + 1e-6))
    found = replace(result, profiles=(profile,))
    rows = [row | {key: row[key] and 100 * row[key] for key in ("value", "stderr")} for row in found.rows()]
    (shown,) = fit_report(found, found.verdict, Labels(rows=rows)).numbers.profiles
    np.testing.assert_allclose(shown.values, 100 * profile.values, rtol=1e-12)
    assert "interval by its profile" in fit_report(found, found.verdict).numbers.estimates[0].note
    back = dc.identify.FitResult.from_dict(json.loads(json.dumps(found.to_dict())))
    np.testing.assert_array_equal(back.profiles[0].rise, profile.rise)
    assert back.profiled == ("e",)


def test_a_picture_of_ones_own_is_taken_also_for_one_run(result, tmp_path):
    def bowl(t, q, params):
        return (Ball(jnp.append(q, q**2)),)

    result.report(tmp_path / "fit.html", draw=bowl, title="A ball")
    assert "<h1>A ball</h1>" in (tmp_path / "fit.html").read_text(encoding="utf-8")
    assert "<iframe srcdoc" in result._repr_html_()
    first, second = fit_report(result, result.verdict, Labels(draws=[bowl, None])).runs
    (ball,), (bead,) = first.motion.shapes, second.motion.shapes
    np.testing.assert_allclose(ball.fields["centre"], np.stack([first.curve[:, 0], first.curve[:, 0] ** 2], axis=1))
    assert bead.kind == "beads"
    # What was measured is displaced along the bowl.
    fitted = first.measured - first.residual
    np.testing.assert_allclose(ball.offsets["centre"][:, 1], (first.measured**2 - fitted**2)[:, 0], atol=1e-12)


def test_of_very_many_samples_some_are_shown_and_the_worst_one(monkeypatch):
    monkeypatch.setattr("diffcontact.identify.reporting._SAMPLES", 5)
    motion = dc.Trajectory(TIMES, np.zeros((26, 1)), np.zeros((26, 1)), np.zeros((25, 0)), np.zeros((), int))
    values = np.where(TIMES[16] == TIMES, 1.0, 0.1)[:, None]
    run = _Observed(BALL, seen, {}, motion, values).run("many", drawing_of(BALL), ())
    np.testing.assert_array_equal(run.samples, TIMES[[0, 6, 12, 16, 18, 24]])
    assert run.motion.shapes[0].offsets["values"].shape == (6, 1)


def test_measured_places_are_observed_as_what_was_measured(rng):
    """A distance and a place of two beads: two channels for two coordinates; a third one is never measured."""
    q = np.stack([TIMES, 2.0 + TIMES**2, 0.3 * TIMES], axis=1)
    motion = dc.Trajectory(TIMES, q, np.gradient(q, TIMES, axis=0), np.zeros((25, 0)), np.zeros((), int))

    def observe(trajectory, params):
        return jnp.stack([(trajectory.q[:, 1] - trajectory.q[:, 0]) ** 2, trajectory.q[:, 0]], axis=1)

    values = np.stack([(q[:, 1] - q[:, 0]) ** 2, q[:, 0]], axis=1) + 1e-6 * rng.normal(size=(TIMES.size, 2))
    values[3] = np.nan
    places = _Observed(BALL, observe, {}, motion, values)._places()
    again = np.stack([(places[:, 1] - places[:, 0]) ** 2, places[:, 0]], axis=1)
    # To first order in a millionth.
    np.testing.assert_allclose(again, values, atol=1e-11)
    np.testing.assert_array_equal(places[:, 2], q[:, 2])
    assert np.isnan(places[3, :2]).all()


def test_channels_are_called_like_the_coordinates_that_they_are():
    balls = dc.systems.balls(1, 2)
    t = TIMES
    motion = dc.Trajectory(t, np.stack([t, t], 1), np.ones((26, 2)), np.zeros((25, 0)), np.zeros((), int))

    def observe(trajectory, params):
        return jnp.stack([trajectory.q[:, 1], trajectory.q[:, 0], trajectory.q.sum(axis=1)], axis=1)

    params = {"gravity": np.array([0.0, 9.81])}
    named = _Observed(balls, observe, params, motion, np.zeros((26, 3))).channels(balls.draw)
    assert [(one.name, one.down) for one in named] == [("y", True), ("x", False), ("channel 2", False)]
