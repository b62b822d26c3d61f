"""A ladder between a rough floor and a rough wall, by one program."""

import numpy as np
import pytest
import zoo
from programs import run

from diffcontact import Status

pytestmark = pytest.mark.full

MU = 0.4
# Both ends at the edge of their cones.
LIMIT = np.arctan((1 - MU**2) / (2 * MU))


def test_it_lets_go_below_its_limit_angle():
    rows = {
        side: {"friction": MU, "angle": LIMIT + change, "end": 0.1}
        for side, change in (("above", 1e-3), ("below", -1e-3))
    }
    found = run(zoo.LADDER, rows | {"without friction": {"friction": 0.0, "end": 0.2}})
    assert {motion.status for motion in found.values()} == {Status.OK}
    # To rounding: it is at rest, and stays so whatever its friction.
    assert abs(found["above"].q[-1, 2] - LIMIT - 1e-3) < 1e-13
    np.testing.assert_allclose(found["above"].jacobian("friction", "gravity"), 0.0, atol=1e-12)
    assert found["below"].q[-1, 2] - LIMIT + 1e-3 < -1e-6
    # Energy: m g y + (m u^2 + I w^2) / 2 with I = m L^2 / 12, of second order in the step of 10 ms.
    slides = found["without friction"]
    energy = 9.81 * slides.q[:, 1] + (slides.u**2 @ [1.0, 1.0, 1 / 12]) / 2
    np.testing.assert_allclose(energy, energy[0], rtol=1e-4)
    # theta'' = -3 g cos(theta) / (2 L) at the start.
    np.testing.assert_allclose(slides.u[1, 2] / 0.01, -1.5 * 9.81 * np.cos(1.0), rtol=2e-3)
