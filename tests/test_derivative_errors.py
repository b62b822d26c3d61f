"""A derivative beside differences: each parameter counts by itself and by its own size."""

import numpy as np
import pytest

from diffcontact.sensitivity import derivative_errors


def errors(derivative, found, sizes=(1.0, 1.0)):
    """Of two parameters, two numbers at the end and one width, in double precision."""
    eps = float(np.finfo(float).eps)
    return derivative_errors(np.array(derivative, float), np.array([found], float), np.array(sizes), 1.0, eps)


@pytest.mark.parametrize(
    ("derivative", "found", "expected"),
    [
        # The larger of both: as it is the other way round.
        ([[1, 0], [0, 0]], [[1, 0], [0, 2]], [0, 1]),
        ([[1, 0], [0, 2]], [[1, 0], [0, 0]], [0, 1]),
        ([[4, 0], [1e-4, 0]], [[4, 0], [2e-4, 0]], [0, 0.5]),
        # eps^(1/3) = 6.06e-6 is what a derivative of rounding counts as.
        ([[0, 0], [0, 0]], [[0, 0], [6.06e-12, 0]], [0, 1e-6]),
        ([[0, 0], [0, 0]], [[np.nan, 0], [0, np.inf]], [np.inf, np.inf]),
    ],
)
def test_each_parameter_is_compared_with_its_own(derivative, found, expected):
    np.testing.assert_allclose(errors(derivative, found), [expected], rtol=1e-3)


def test_the_size_of_a_parameter_says_what_its_derivative_weighs():
    """1e-8 per Pa is much for 1e5 Pa and rounding for 1e-5 Pa."""
    cut = [[0, 0], [0, 0]], [[1e-8, 0], [0, 0]]
    assert np.max(errors(*cut, sizes=(1e5, 1.0))) == 1.0
    assert np.max(errors(*cut, sizes=(1e-5, 1.0))) < 1e-6
