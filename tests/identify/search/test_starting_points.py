import numpy as np

from diffcontact.identify.search.starts import starting_points


def test_starts_fill_the_bounds_and_keep_to_one_sided_ones():
    class Layout:
        start, log = np.array([0.5, 4.0, 0.0, np.log(3.0)]), np.array([False, False, False, True])
        low, high = np.array([0.0, 0.0, -np.inf, -np.inf]), np.array([1.0, np.inf, np.inf, np.inf])

    points = starting_points(Layout, 65, 0)  # pyright: ignore[reportArgumentType]
    np.testing.assert_array_equal(points[0], Layout.start)
    low, high = points[1:].min(axis=0), points[1:].max(axis=0)
    # 64 points of a Sobol set: one in each 64th of every axis.
    edges = np.array([[0.0, 2.0, -1.0, np.log(1.5)], [1.0, 8.0, 1.0, np.log(6.0)]])
    assert np.all(low >= edges[0])
    assert np.all(high <= edges[1])
    assert np.all(high - low > (edges[1] - edges[0]) * 62 / 64)
