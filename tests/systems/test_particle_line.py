import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full

PARAMS = {"mass": 0.5, "stiffness": 30.0, "damping": 0.2, "gamma": 0.4, "normal": 2.0, "rest": 0.1}


def test_a_chain_pulls_along_its_stretched_links():
    line = dc.systems.particle_line(3)
    params = PARAMS | {"stiffness": jnp.array([10.0, 20.0, 40.0]), "rest": jnp.array([0.1, 0.2, 0.3])}
    q = np.array([0.2, 0.2, 0.1])
    # Links are stretched by 0.1, -0.1, -0.2; each pulls its outer particle back and its inner one forwards.
    expected = [-10.0 * 0.1 + 20.0 * -0.1, -20.0 * -0.1 + 40.0 * -0.2, -40.0 * -0.2]
    np.testing.assert_allclose(line.load(0.0, params) - line.stiffness(params) @ q, expected, rtol=1e-12)
    np.testing.assert_array_equal(line.mass(params), [0.5, 0.5, 0.5])


def test_an_oscillator_loses_the_same_at_every_swing_and_stops():
    line = dc.systems.particle_line()
    params = PARAMS | {"damping": 0.0}
    omega, lost = np.sqrt(30.0 / 0.5), 2 * 0.4 * 2.0 / 30.0  # 2 gamma nu / k per half period
    times = np.concatenate([[0.0], np.pi / omega * np.arange(1, 6)])
    # A half period in 32 steps of sixth order: (pi / 32)^6 / 7! of the amplitude a step.
    run = dc.simulate(line, params, [0.1 + 3.4 * lost], [0.0], times, scheme=dc.EventTimed(order=6), substeps=32)
    # Held as soon as the spring pulls with less than gamma nu, half of what a swing loses: 3.4, 2.4, 1.4, 0.4 < 0.5.
    expected = 0.1 + lost * np.array([3.4, -2.4, 1.4, -0.4, -0.4, -0.4])
    assert run.status == dc.Status.OK
    np.testing.assert_allclose(run.q[:, 0], expected, atol=1e-9)


def test_a_measured_force_drives_the_last_particle():
    line = dc.systems.particle_line(2, driven=True)
    params = PARAMS | {"drive_times": jnp.array([1.0, 2.0, 2.0]), "drive": jnp.array([3.0, 5.0, 5.0])}
    at_rest = line.stiffness(params) @ np.full(2, 0.1)
    for t, force in ((0.0, 3.0), (1.5, 4.0), (2.0, 5.0), (9.0, 5.0)):
        np.testing.assert_allclose(line.load(t, params) - at_rest, [0.0, force], atol=1e-12)
