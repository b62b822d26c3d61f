import numpy as np
import pytest
from dragged import START, problem

from diffcontact.identify import Interval, Real, fit

SIMULATED, pytestmark = True, pytest.mark.full


@pytest.mark.parametrize(("method", "high"), [("lbfgs", 3.0), ("lbfgs", 0.5), ("adam", 0.5)])
def test_methods_of_first_order_end_where_least_squares_do_also_at_a_bound(rng, method, high):
    run, free = problem(rng), {"drag": Interval(0.1, high), "u0": Real()}
    expected, found = fit(run, START, free), fit(run, START, free, method=method)
    assert found.converged
    assert found.at_bound == (("drag",) if high < 0.8 else ())
    # A hundredth of a standard error; adam's last steps are of a ten-thousandth of one.
    for name in ("drag", "u0"):
        error = np.max(expected.stderr[name])
        np.testing.assert_allclose(found.params[name], expected.params[name], atol=1e-2 * error)
        np.testing.assert_allclose(found.stderr[name], expected.stderr[name], rtol=1e-2)
