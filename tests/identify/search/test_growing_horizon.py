import numpy as np
from bouncing import BALL_FREE, ball_problem

from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search.growing_horizon import grow


def test_lanes_grow_side_by_side_as_they_do_alone(rng):
    start = {"e": 0.87, "g": 7.92, "q0": [1.08], "u0": [0.24]}
    objective = Objective.of(ball_problem(rng, end=3.0), start, BALL_FREE)
    points = np.stack([objective.parameters.start, [0.5, 9.0, 1.1, 0.2]])
    together = grow(objective, points)
    np.testing.assert_allclose(together[1], grow(objective, points[1:])[0], rtol=1e-12)
