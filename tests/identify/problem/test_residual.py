import numpy as np
from dragged import FREE, START, problem

from diffcontact.identify.problem.objective import Objective


def test_lanes_side_by_side_are_lanes_one_by_one(rng):
    run = problem(rng)
    joint = Objective.of(run, START, FREE).joint
    theta = np.array([[0.3, 0.1], [0.8, 0.5], [1.4, -0.2], [0.6, 0.0], [0.9, 0.7]])
    values = [run.observations.values + 1e-3 * np.arange(5)[:, None, None]]
    for measured in (None, values):
        ((r, J),), ((r_chunked, J_chunked),) = (joint.lanes(theta, measured, chunk) for chunk in (1, 3))
        assert r.shape == (5, *run.observations.values.shape)
        np.testing.assert_allclose(r_chunked, r, atol=1e-9)  # of residuals up to 1e3, other order of summation
        np.testing.assert_allclose(J_chunked, J, rtol=1e-9, atol=1e-9)
    at = joint.replaced("values", [value[3] for value in values]).linearise(theta[3])[0]
    np.testing.assert_allclose(at.r, r[3], atol=1e-9)
