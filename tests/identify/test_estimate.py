"""What an estimate says of itself."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.optimize import OptimizeResult

from diffcontact.identify.estimate import _at_bound


@pytest.mark.parametrize("size", [1e-12, 7e-7, 1.0, 1e9])
@pytest.mark.parametrize(
    ("value", "stderr", "arrived"),
    [
        pytest.param(1.0, 1e-3, False, id="known to 0.1 %"),
        pytest.param(0.04, 1.0, False, id="hardly known"),
        pytest.param(1e-3, 1.0, True, id="a thousandth of its error away"),
        pytest.param(1e-9, 0.0, True, id="data without noise"),
    ],
)
def test_the_unit_of_a_parameter_does_not_bring_it_to_its_bound(size, value, stderr, arrived):
    """An inertia of a table-tennis ball is 7e-7 kg m^2, and not at 0."""
    end = OptimizeResult(
        x=np.array([value * size]), grad=np.array([1 / size]), jac=np.array([[1 / size]]), active_mask=np.zeros(1, int)
    )
    positive = SimpleNamespace(low=np.zeros(1), high=np.full(1, np.inf), start=np.array([0.8 * size]))
    assert _at_bound(end, positive, np.array([stderr * size])).tolist() == [arrived]
