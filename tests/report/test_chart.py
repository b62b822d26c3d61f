import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from diffcontact.report.chart import Series, chart, ticks


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-3.7e-5, 2.1e-5), (1e6, 1.001e6), (-0.3, 12.0)])
def test_ticks_are_few_round_and_inside(low, high):
    found = ticks(low, high)
    assert 4 <= len(found) <= 11
    assert low - 1e-9 * (high - low) <= min(found) <= max(found) <= high + 1e-9 * (high - low)


def test_a_chart_is_well_formed_and_lifts_the_pen_at_missing_values():
    t = np.linspace(0.0, 1.0, 5)
    y = np.array([0.0, 1.0, np.nan, 1.0, 2.0])
    picture = chart([Series("a < b", t, y, "#111"), Series("dots", t, y, "#222", dots=True)], "t [s]", "y & z")
    root = ElementTree.fromstring(picture)
    line, dots = (path.get("d") for path in root.iter("path") if path.get("stroke") is not None)
    assert line.count("M") == 2
    assert line.count("L") == 2
    assert dots.count("M") == 4
    assert "a < b" in [text.text for text in root.iter("text")]


def test_a_constant_curve_has_axes_too():
    assert "NaN" not in chart([Series("zero", np.arange(3.0), np.zeros(3), "#111")], "t", "y")


def test_long_curves_are_thinned():
    t = np.linspace(0.0, 1.0, 100_000)
    assert len(chart([Series("long", t, np.sin(t), "#111")], "t", "y")) < 20_000
