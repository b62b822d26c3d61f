import sys

import numpy as np
import pytest

from diffcontact.identify.search.starts import starting_points


class Layout:
    start, log = np.array([0.5, 4.0, 0.0, np.log(3.0)]), np.array([False, False, False, True])
    low, high = np.array([0.0, 0.0, -np.inf, -np.inf]), np.array([1.0, np.inf, np.inf, np.inf])


def points_of(starts):
    return starting_points(Layout, starts, 0)  # pyright: ignore[reportArgumentType]


def test_starts_fill_the_bounds_and_keep_to_one_sided_ones():
    points = np.array([*points_of(65)])
    np.testing.assert_array_equal(points[0], Layout.start)
    low, high = points[1:].min(axis=0), points[1:].max(axis=0)
    # 64 points of a Sobol set: one in each 64th of every axis.
    edges = np.array([[0.0, 2.0, -1.0, np.log(1.5)], [1.0, 8.0, 1.0, np.log(6.0)]])
    assert np.all(low >= edges[0])
    assert np.all(high <= edges[1])
    assert np.all(high - low > (edges[1] - edges[0]) * 62 / 64)


def test_a_fit_from_its_start_alone_waits_for_no_other(monkeypatch):
    """scipy.stats, which draws them, takes half a second to import."""
    monkeypatch.setitem(sys.modules, "scipy.stats", None)
    for points in (points_of(1), points_of(65)):
        np.testing.assert_array_equal(next(points), Layout.start)
    assert not [*points_of(1)][1:]
    with pytest.raises(ImportError):
        next(points)
