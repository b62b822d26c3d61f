"""Figures of motions and fits: what is on them, and that nobody else's figures change."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from diffcontact.report.content import Channel, Event, Report, RunView
from diffcontact.report.figures import figure


def run(label="a run"):
    """A ball that meets the floor at 0.45 s, between two samples."""
    times = np.array([0.0, 0.45, 0.45, 0.9])
    samples = np.array([0.0, 0.3, 0.6, 0.9])
    curve = np.abs(times - 0.45)[:, None]
    fitted = np.abs(samples - 0.45)[:, None]
    residual = np.array([0.01, np.nan, -0.02, 0.0])[:, None]
    return RunView(label, times, curve, samples, fitted + residual, residual, [Event(0.45, "ball 0 meets the floor")])


def lines(axes):
    return {str(line.get_label()): line for line in axes.get_lines()}


def test_a_run_has_its_points_its_curve_its_impacts_and_its_residuals():
    drawn = figure(Report("a fit", [Channel("height", "mm", 1e3)], "s", [run()]), "plot")
    above, below = drawn.get_axes()
    found = lines(above)
    np.testing.assert_allclose(found["height, measured"].get_ydata(), 1e3 * run().measured[:, 0])
    # The corner is where the impact is, though no sample is there.
    np.testing.assert_allclose(found["height, fitted"].get_xydata(), np.column_stack([run().times, 1e3 * run().curve]))
    assert found["impact"].get_xdata().tolist() == [0.45]
    np.testing.assert_allclose(below.get_lines()[-1].get_ydata(), 1e3 * run().residual[:, 0])
    assert (above.get_ylabel(), below.get_ylabel(), below.get_xlabel()) == ("[mm]", "off [mm]", "time [s]")
    assert above.get_ylim()[0] < above.get_ylim()[1]
    drawn.draw_without_rendering()


def test_every_run_has_a_part_and_every_unit_has_axes():
    channels = [Channel("y", "px", down=True), Channel("angle", "deg")]

    def both(label):
        one = run(label)
        return replace(one, **{name: np.hstack([getattr(one, name)] * 2) for name in ("curve", "measured", "residual")})

    drawn = figure(Report("a fit", channels, "frame", [both(f"run {i}") for i in range(4)]), "plot")
    axes = drawn.get_axes()
    assert [one.get_title() for one in axes if one.get_title()] == [f"run {i}" for i in range(4)]
    assert [one.get_ylabel() for one in axes] == ["[px]", "off [px]", "[deg]", "off [deg]"] * 4
    # As in the film: downwards.
    assert [one.yaxis_inverted() for one in axes] == [True, False, False, False] * 4


def test_without_matplotlib_it_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"^plot: matplotlib is absent; pip install 'diffcontact\[report\]'$"):
        figure(Report("a fit", [Channel("height")], "s", [run()]), "plot")
