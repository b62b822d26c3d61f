"""The vectorised descent on residuals that are known in closed form."""

import numpy as np

from diffcontact.identify.problem.normal_equations import NormalEquations
from diffcontact.identify.search.levenberg_marquardt import descend


def equations(residual, jacobian):
    def evaluate(theta, lanes):
        r, J = residual(theta), jacobian(theta)
        cost = 0.5 * np.sum(r**2, axis=1)
        return NormalEquations(
            np.where(np.isnan(cost), np.inf, cost),
            np.einsum("nmp,nm->np", np.nan_to_num(J), np.nan_to_num(r)),
            np.einsum("nmp,nmq->npq", np.nan_to_num(J), np.nan_to_num(J)),
            np.ones(len(theta)),
        )

    return evaluate


def rosenbrock(theta):
    return np.stack([10.0 * (theta[:, 1] - theta[:, 0] ** 2), 1.0 - theta[:, 0]], axis=1)


def rosenbrock_slopes(theta):
    J = np.zeros((len(theta), 2, 2))
    J[:, 0, 0], J[:, 0, 1], J[:, 1, 0] = -20.0 * theta[:, 0], 10.0, -1.0
    return J


FAR = np.full(2, np.inf)


def test_every_lane_finds_the_valley(rng):
    starts = rng.uniform(-2, 2, (30, 2))
    at = descend(equations(rosenbrock, rosenbrock_slopes), starts, -FAR, FAR, iterations=200, tolerance=1e-12)
    np.testing.assert_allclose(at.theta, 1.0, atol=1e-5)  # the cost is below 1e-12 of what it was
    np.testing.assert_allclose(at.cost, 0.0, atol=1e-10)


def test_bounds_hold_and_what_presses_against_them_does_not_stop_the_rest():
    # Along x = 1/2 the valley's floor is at y = 1/4.
    high = np.array([0.5, 2.0])
    at = descend(
        equations(rosenbrock, rosenbrock_slopes),
        np.array([[-1.0, 1.0]]),
        -2 * np.ones(2),
        high,
        iterations=200,
        tolerance=1e-12,
    )
    np.testing.assert_allclose(at.theta, [[0.5, 0.25]], atol=1e-6)


def test_rounding_does_not_carry_a_step_beyond_its_bound():
    low, start = np.array([0.07718124957327115]), np.array([[0.9480579390302146]])
    assert start[0, 0] + (low[0] - start[0, 0]) < low[0]
    at = descend(
        equations(lambda theta: theta + 5.0, lambda theta: np.ones((len(theta), 1, 1))),
        start,
        low,
        np.ones(1),
        iterations=9,
        tolerance=1e-9,
    )
    assert at.theta[0, 0] == low[0]


def test_a_one_sided_bound_is_not_reached():
    def logarithm(theta):
        return np.log(theta) + 3.0

    at = descend(
        equations(logarithm, lambda theta: 1.0 / theta[:, :, None]),
        np.array([[1.0], [50.0]]),
        np.zeros(1),
        np.full(1, np.inf),
        iterations=100,
        tolerance=1e-14,
    )
    np.testing.assert_allclose(at.theta, np.exp(-3.0), rtol=1e-6)


def test_a_parameter_without_effect_stays_and_an_infinite_cost_stays_infinite():
    def one_of_two(theta):
        return np.where(theta[:, :1] > 100.0, np.nan, theta[:, :1] - 1.0)

    def slopes(theta):
        return np.broadcast_to(np.array([[[1.0, 0.0]]]), (len(theta), 1, 2))

    starts = np.array([[5.0, 7.0], [200.0, 7.0]])
    at = descend(equations(one_of_two, slopes), starts, -FAR, FAR, iterations=50, tolerance=1e-12)
    np.testing.assert_allclose(at.theta, [[1.0, 7.0], [200.0, 7.0]], atol=1e-6)
    assert at.cost.tolist()[1] == np.inf


def test_a_lane_that_has_arrived_is_left_alone():
    asked = []
    evaluate = equations(rosenbrock, rosenbrock_slopes)

    def counted(theta, lanes):
        asked.append(lanes.tolist())
        return evaluate(theta, lanes)

    descend(counted, np.array([[1.0, 1.0], [-1.0, 1.0]]), -FAR, FAR, iterations=30, tolerance=1e-12)
    assert asked[0] == [0, 1]
    assert asked[-1] == [1]
