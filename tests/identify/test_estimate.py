"""What an estimate says of itself."""

from dataclasses import replace
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from bouncing import BALL, BALL_START, ball_problem
from scipy.optimize import OptimizeResult

from diffcontact.identify import Interval, fit
from diffcontact.identify.estimate import _at_bound

pytestmark = pytest.mark.full


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


def test_what_moves_residuals_by_rounding_only_is_unseen_within_finite_bounds_too(rng):
    """The mass of a falling ball cancels, and where no force depends on time so does the zero of the clock."""
    mass, weight = lambda q, p: p["m"] * jnp.ones(1), lambda t, q, u, p: -p["m"] * p["g"] * jnp.ones(1)
    heavy = replace(BALL, force=weight, mass=mass)
    problem = replace(ball_problem(rng), system=heavy, clock=lambda t, p: t + p["zero"])
    free = {"e": Interval(0.0, 1.0), "m": Interval(0.5, 2.0), "zero": Interval(-1.0, 1.0)}
    result = fit(problem, BALL_START | {"g": 9.81, "q0": [1.0], "u0": [0.3], "m": 1.3, "zero": 0.0}, free)
    assert result.unidentifiable == [{"m": 1.0}, {"zero": 1.0}]
    assert result.interval95["m"].tolist() == [0.5, 2.0]
    assert np.diff(result.interval95["e"]) < 0.03
