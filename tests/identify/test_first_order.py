import numpy as np
import pytest
from dragged import START, TRUTH, problem

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


def test_ends_of_starts_that_explain_the_data_as_well_are_told(rng):
    """Of a speed that is the square of a parameter the data do not show the sign."""
    tied, free = {"u0": lambda p: p["root"] ** 2 * np.ones(1)}, {"root": Interval(-2.0, 2.0)}
    start = {name: value for name, value in TRUTH.items() if name != "u0"} | {"root": 0.9}
    found = fit(problem(rng), start, free, tied=tied, method="lbfgs", starts=4)
    # The steps of first order move the speed from 0.5 to 0.47 m/s, whichever its sign.
    root, error = float(found.params["root"]), float(found.stderr["root"])
    assert [other["root"] for other in found.elsewhere] == pytest.approx([-root], abs=error)
    low, high = found.interval95["root"]
    assert low == pytest.approx(-high, abs=error)
    assert abs(root) + error < high < abs(root) + 4 * error
