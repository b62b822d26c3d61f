"""The event-exact solution that other truths are compared with."""

import jax.numpy as jnp
import numpy as np
import pytest
from event_exact import event_exact
from problems import reference

import diffcontact as dc


@pytest.mark.parametrize("name", ["bounce", "growing_balls", "double_pendulum_wall"])
def test_the_event_exact_solution_is_exact(name):
    problem = reference.load(name)
    for run in problem.runs[1:]:
        found = event_exact(problem.system, problem.unpack, problem.theta, run["T"])
        # Integrated to 1e-13; the references are good to 1e-11.
        np.testing.assert_allclose(found.state, run["state"], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found.jacobian, run["jacobian"], rtol=1e-10, atol=1e-9)


def test_a_mass_that_slides_down_a_dome_lets_go():
    system = dc.System(
        gap=lambda t, q, p: jnp.linalg.norm(q)[None] - 1.0,
        force=lambda t, q, u, p: jnp.array([0.0, -1.0]) * p["gravity"],
        mass=lambda q, p: jnp.ones_like(q),
        restitution=lambda p: 0.0,
    )
    x, y, gravity = theta = (0.5, 1.2, 9.81)
    found = event_exact(system, lambda x: ({"gravity": x[2]}, x[:2], jnp.zeros_like(x[:2])), theta, 0.7)
    landing, leaving = found.events
    assert (landing.struck, leaving.struck) == (True, False)
    # It lands at (x, b), keeps the speed along the dome, and leaves where gravity no longer turns it: v^2 = g height.
    b = np.sqrt(1 - x**2)
    height = 2 / 3 * (b + (y - b) * x**2)
    fallen = 0.7 - leaving.time
    speed_down = np.sqrt(gravity * height) * np.sqrt(1 - height**2)
    np.testing.assert_allclose(found.state[1], height - speed_down * fallen - gravity * fallen**2 / 2, atol=1e-11)
