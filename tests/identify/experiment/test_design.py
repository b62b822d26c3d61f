"""Experiments by what they would tell: closed forms of Fisher's information, and what must not be proposed."""

import json
from dataclasses import replace

import numpy as np
import pytest
from bouncing import BALL, positions

from diffcontact.identify import Interval, Normal, Observations, Positive, Problem, Real, design
from diffcontact.status import Status

NOISE = 0.01
# One length of record, so one compilation for most of this file.
TIMES = np.linspace(0.0, 1.0, 41)
G = 9.81


def start_of(params):
    return params["height"][None], params["speed"][None]


def ball(times=TIMES, noise=NOISE):
    return Problem(BALL, Observations(times, np.zeros((times.size, 1)), noise, positions), start_of, substeps=1)


KNOWN = {"e": 0.8, "g": G, "height": 1.0, "speed": 0.0}
FREE = {"e": Interval(0.0, 1.0), "g": Positive(), "height": Real(), "speed": Real()}
ALONE = {"e": FREE["e"]}


def jacobian(times, e, height):
    """(n, 4) d height(t) / d (e, g, height, speed) of a ball dropped at rest, up to its second impact."""
    T = np.sqrt(2 * height / G)
    # Fall and rebound as functions of (e, g, h, v), by complex steps: exact to rounding.
    columns = []
    for k in range(4):
        p = np.array([e, G, height, 0.0], complex)
        p[k] += 1e-30j
        ee, g, h, v = p
        hit = (v + np.sqrt(v * v + 2 * g * h)) / g
        up = ee * np.sqrt(v * v + 2 * g * h)
        s = times - hit
        columns.append(np.where(times < T, h + v * times - g * times**2 / 2, up * s - g * s**2 / 2).imag / 1e-30)
    return np.stack(columns, axis=1)


def test_what_is_not_sought_is_projected_out():
    found = design(ball(), KNOWN, FREE, {"height": [0.8, 1.2], "runs": [1, 4]}, target=["e", "g"])
    for one in found.candidates:
        J = jacobian(TIMES, 0.8, one.setting["height"]) / NOISE
        own = J[:, 2:]
        # Each run has a height and a speed of its own, so that runs add what is left without them.
        left = J[:, :2] - own @ np.linalg.lstsq(own, J[:, :2], rcond=None)[0]
        C = np.linalg.inv(one.setting["runs"] * left.T @ left)
        assert one.stderr["e"] == pytest.approx(np.sqrt(C[0, 0]), rel=1e-7)
        assert one.stderr["g"] == pytest.approx(np.sqrt(C[1, 1]), rel=1e-7)
        assert one.criterion == pytest.approx(np.log(np.linalg.det(C)) / 2, rel=1e-7)
    assert found.best.setting["runs"] == 4


def test_criteria_and_priors_are_what_they_say():
    J = jacobian(TIMES, 0.8, 1.0) / NOISE
    C = np.linalg.inv(J.T @ J + np.diag([0.0, 1 / 0.02**2, 0.0, 0.0]))
    known = {"g": Normal(G, 0.02)}
    found = design(ball(), KNOWN, FREE, {"height": [1.0]}, target=["e", "g"], criterion="A", priors=known)
    assert found.best.criterion == pytest.approx(np.log((C[0, 0] / 0.8**2 + C[1, 1] / G**2) / 2), rel=1e-7)
    assert (found.now["e"], found.now["g"]) == (np.inf, pytest.approx(0.02))


@pytest.mark.parametrize("like", [0, 1])
def test_priors_of_two_runs_with_two_numbers_each_are_those_of_a_fit(like):
    """Of a parameter (2 runs, 2 numbers) a prior (2,) is one for each number, as it is for `fit`, not for each run."""
    mean, sigma = np.array([0.5, 0.0]), np.array([1.0, 1e-5])
    problem = replace(ball(), initial=lambda p: (p["start"][:1], p["start"][1:]), per_run=("start",))
    known = {"e": 0.8, "g": G, "start": np.array([[1.0, 0.0], [1.0, 0.0]])}
    free = {"e": FREE["e"], "g": FREE["g"], "start": Real()}

    def now(prior):
        return design(
            [problem] * 2, known, free, {"start[0]": [1.0]}, target=["e"], priors={"start": prior}, like=like
        ).default

    short, written_out = (
        now(Normal(m, s)) for m, s in ((mean, sigma), (np.tile(mean, (2, 1)), np.tile(sigma, (2, 1))))
    )
    assert short.stderr["e"] == pytest.approx(written_out.stderr["e"], rel=1e-9)


def test_the_scan_ends_at_the_best_height():
    # The later the first impact, the faster, and the shorter the time that is left: there is a best height between.
    heights = np.linspace(0.75, 2.5, 36)
    exact = heights[np.argmin([-np.linalg.norm(jacobian(TIMES, 0.8, h)[:, 0]) for h in heights])]
    assert heights[0] < exact < heights[-1]
    found = design(ball(), KNOWN, ALONE, {"height": Interval(0.75, 2.5)}, candidates=36)
    assert found.gain(found.best) == pytest.approx((found.default.stderr["e"] / found.best.stderr["e"]) ** 2)
    assert found.best.order == (0,)
    assert found.best.setting["height"] == pytest.approx(exact, rel=1e-12)


def test_what_cannot_show_it_is_not_proposed():
    # From 6 m it has not come down within a second; from 8 m neither.
    found = design(ball(), KNOWN | {"height": 6.0}, ALONE, {"height": [6.0, 8.0]})
    assert found.best is None
    assert found.silent == 2
    assert found.default.stderr["e"] == np.inf
    assert found.sentence == "no candidate shows e: e needs an impact: none in these data"
    one = design(ball(), KNOWN | {"height": 6.0}, ALONE, {"height": [6.0, 1.0]})
    assert one.best.setting == {"height": 1.0}
    assert "as it was shows nothing of it" in one.sentence


def test_what_cannot_be_simulated_is_counted():
    found = design(ball(), KNOWN, ALONE, {"height": [-0.5, 0.6, 1.0, 1.4]})
    assert found.excluded == {Status.OVERLAP: 1}
    assert found.best.setting != {"height": -0.5}
    assert "1 not proposed, status 1" in str(found)
    json.dumps(found.to_dict(), allow_nan=False)


def test_rate_length_and_channels_are_of_the_record():
    seen = Observations(TIMES, np.zeros((41, 2)), NOISE, lambda trajectory, params: trajectory.q * np.array([1.0, 0.1]))
    problem = Problem(BALL, seen, start_of, substeps=1)
    found = design(
        problem, KNOWN, ALONE, {"frame_rate": [40.0, 100.0], "duration": [0.8, 1.0], "channels": [(0,), (1,), (0, 1)]}
    )
    assert len(found.candidates) == 12
    for one in found.candidates:
        rate, span = one.setting["frame_rate"], one.setting["duration"]
        times = np.arange(int(np.floor(rate * span + 1e-6)) + 1) / rate
        J = np.linalg.norm(jacobian(times, 0.8, 1.0)[:, 0])
        weight = {(0,): 1.0, (1,): 0.1, (0, 1): np.sqrt(1.01)}[one.setting["channels"]]
        assert one.stderr["e"] == pytest.approx(NOISE / (weight * J), rel=1e-6), one.setting
    assert found.best.setting == {"frame_rate": 100.0, "duration": 1.0, "channels": (0, 1)}


@pytest.mark.parametrize(
    ("controls", "options", "told"),
    [
        ({}, {}, "controls.: empty"),
        ({"heigth": Interval(0, 1)}, {}, "did you mean 'height'"),
        ({"height": Interval(0, np.inf)}, {}, "finite bounds"),
        ({"runs": [0]}, {}, "whole numbers of at least 1"),
        ({"channels": [(3,)]}, {}, "channels from 0 to 0"),
        ({"height": [1.0]}, {"target": "f"}, "target.: no free parameter 'f'"),
        ({"height": [1.0]}, {"criterion": "E"}, "criterion.: 'E'"),
        ({"height": [1.0]}, {"like": 1}, "like.: 1"),
    ],
)
def test_bad_input_is_named(controls, options, told):
    with pytest.raises(ValueError, match=told):
        design(ball(), KNOWN, ALONE, controls, **options)


def test_its_picture_has_a_panel_for_each_control():
    found = design(ball(), KNOWN, ALONE, {"height": [0.6, 1.0], "runs": [1, 2]})
    assert [axes.get_xlabel() for axes in found.plot().get_axes()] == ["height", "runs"]
