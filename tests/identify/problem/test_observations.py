"""Observations from tables, and several of them for one fit."""

from types import SimpleNamespace

import numpy as np
import pytest

import diffcontact as dc
from diffcontact.identify import Interval, Observations, Real, fit, runs

TIMES = np.arange(40) / 40
TABLE = {"t": TIMES, "x [mm]": np.where(TIMES[5] == TIMES, np.nan, 300 * TIMES), "y [mm]": 1e3 - 200 * TIMES}


class Frame:
    """What a DataFrame of pandas is to whoever takes columns by name."""

    def __init__(self, index):
        self.index, self.columns = index, list(TABLE)

    def __getitem__(self, name):
        return SimpleNamespace(__array__=None) if name not in TABLE else TABLE[name]


STRUCTURED = np.rec.fromarrays(list(TABLE.values()), names=list(TABLE))


@pytest.mark.parametrize(
    ("table", "time"), [(TABLE, "t"), (STRUCTURED, "t"), (Frame(range(40)), "t"), (Frame(TIMES), None)]
)
def test_columns_of_a_table_are_channels_in_the_units_of_the_system(table, time):
    seen = Observations.from_frame(table, ["y [mm]", "x [mm]"], [2.0, 1.0], time=time, scale=1e-3)
    np.testing.assert_allclose(seen.times, TIMES)
    np.testing.assert_allclose(seen.values[:, 0], 1 - 0.2 * TIMES)
    assert np.flatnonzero(~seen.present[:, 1]).tolist() == [5]
    np.testing.assert_allclose(seen.noise, [2e-3, 1e-3])
    assert seen.channels == ("y [mm]", "x [mm]")
    assert seen.observe(SimpleNamespace(q=3), {}) == 3


@pytest.mark.parametrize(
    ("message", "table", "keys"),
    [
        (r"no column 'z'; the table has 't', 'x \[mm\]'", TABLE, {"columns": ["z"]}),
        (r"from_frame\(time\): None, expected the column of the times", TABLE, {"time": None}),
        (r"no column 's'", STRUCTURED, {"time": "s"}),
        ("column 'who' does not hold numbers alone", {**TABLE, "who": ["me"] * 40}, {"columns": ["who"]}),
        (r"from_frame\(columns\): none", TABLE, {"columns": []}),
        (r"Observations\(times\): row 1", {**TABLE, "t": 0 * TIMES}, {}),
    ],
)
def test_tables_that_lack_something_are_refused(message, table, keys):
    with pytest.raises(ValueError, match=message):
        Observations.from_frame(table, **{"columns": ["x [mm]"], "noise": 1.0, "time": "t"} | keys)


def test_names_of_channels_are_as_many_as_they_are():
    with pytest.raises(ValueError, match=r"Observations\(channels\): 2 names, expected 1 as values has columns"):
        Observations(TIMES, TIMES[:, None], 1.0, lambda trajectory, params: trajectory.q, channels=("x", "y"))


def dropped(height, rng):
    """A ball that falls from a height without touching anything: y = h - g t^2 / 2."""
    y = height - 9.81 * TIMES**2 / 2
    return Observations.from_frame({"t": TIMES, "y": y + 1e-4 * rng.normal(size=40)}, ["y"], 1e-4, time="t")


def test_runs_share_what_is_theirs_and_keep_where_they_began(rng):
    ball = dc.systems.balls(1, 1)
    seen = {"low": dropped(1.0, rng), "high": dropped(2.0, rng)}
    shared = {"mass": np.ones(1), "radius": np.zeros(1), "restitution": 0.5, "gravity": np.array([-9.0])}
    problems, params = runs(ball, seen, shared, substeps=1)
    assert [(problem.label, problem.per_run) for problem in problems] == [("low", ("q0", "u0")), ("high", ("q0", "u0"))]
    # A line through a quarter of a second of free fall.
    np.testing.assert_allclose(params["q0"][:, 0], [1.0, 2.0], atol=0.1)
    result = fit(problems, params, {"gravity": Interval(-20.0, 0.0), "q0": Real(), "u0": Real()})
    # 80 samples of 0.1 mm over a second: 2 sigma sqrt(720 / n) of a parabola.
    np.testing.assert_allclose(result.params["gravity"], -9.81, atol=3e-3)
    assert result.verdict.explains == "yes"


@pytest.mark.parametrize(
    ("message", "seen", "per_run"),
    [
        (r"runs\(observations\): none", [], {}),
        (r"runs\(per_run\): 'k' has shape \(3,\), expected 2 values", ["y", "y"], {"k": [1, 2, 3]}),
        (r"runs\(per_run\): without q0 and u0, which channel y does not show", ["y", "other"], {}),
    ],
)
def test_runs_that_do_not_fit_together_are_refused(rng, message, seen, per_run):
    one = dropped(1.0, rng)
    other = Observations(TIMES, one.values, 1.0, lambda trajectory, params: trajectory.u, channels=("y",))
    with pytest.raises(ValueError, match=message):
        runs(dc.systems.balls(1, 1), [one if name == "y" else other for name in seen], {}, per_run)
