import jax
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


def test_an_oscillator_with_dry_friction_stops_where_it_must():
    """Half cycles about +-F/k, each shorter than the one before by 2 F/k; and derivatives by m, k, gamma and q0."""
    line, names, theta = dc.systems.particle_line(), ("mass", "stiffness", "gamma"), np.array([2.0, 50.0, 0.25, 0.47])
    known, times = {"damping": 0.0, "normal": 10.0, "rest": 0.0}, np.arange(0.0, 3.6, 0.1)

    def exact(theta, t):
        m, k, gamma, amplitude = theta
        over = int(t * 5 / np.pi)  # omega is 5
        omega, shift, sign = jnp.sqrt(k / m), 10 * gamma / k, (-1) ** over
        swing, phase = amplitude - (2 * over + 1) * shift, omega * t - over * jnp.pi
        return sign * jnp.stack([shift + swing * jnp.cos(phase), -swing * omega * jnp.sin(phase)])

    def end(theta):
        params, sixth = known | dict(zip(names, theta, strict=False)), dc.EventTimed(order=6)
        run = dc.simulate(line, params, theta[3:], np.zeros(1), times, scheme=sixth, substeps=10)
        found = jnp.concatenate([run.q, run.u], axis=1)
        return found, (found, run.status)

    jacobian, (found, status) = jax.jit(jax.jacfwd(end, has_aux=True))(theta)
    assert status == dc.Status.OK
    for row in (4, 9, 17, 24):
        # In motion, after 0, 1, 2 and 3 reversals. A step turns the phase by 0.05 and loses 1e-12 of the amplitude.
        np.testing.assert_allclose(found[row], exact(theta, times[row]), atol=1e-9)
        np.testing.assert_allclose(jacobian[row], jax.jacfwd(exact)(theta, times[row]), atol=1e-8)
    # At rest in the end, within the band where friction holds it: 0.47 - 4 * 0.1 = 0.07 lies beyond F/k = 0.05, one
    # more half cycle about that ends at 0.03. Its derivative is the friction's share of the stopping place.
    np.testing.assert_allclose(found[-1], [0.03, 0.0], atol=1e-9)
    np.testing.assert_allclose(jacobian[-1, 0], [0.0, -10 * 2.5 / 2500, 10 * 10 / 50, -1.0], atol=1e-8)


def test_a_measured_force_drives_the_last_particle():
    line = dc.systems.particle_line(2, driven=True)
    params = PARAMS | {"drive_times": jnp.array([1.0, 2.0, 2.0]), "drive": jnp.array([3.0, 5.0, 5.0])}
    at_rest = line.stiffness(params) @ np.full(2, 0.1)
    for t, force in ((0.0, 3.0), (1.5, 4.0), (2.0, 5.0), (9.0, 5.0)):
        np.testing.assert_allclose(line.load(t, params) - at_rest, [0.0, force], atol=1e-12)
