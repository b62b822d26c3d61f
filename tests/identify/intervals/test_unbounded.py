import jax.numpy as jnp
import numpy as np

from diffcontact.identify.intervals.unbounded import Unbounded


def test_bounds_are_respected_and_slopes_are_those_of_the_map():
    low, high = np.array([0.0, 1.0, -np.inf, -np.inf]), np.array([2.0, np.inf, 5.0, np.inf])
    line, y, h = Unbounded(low, high), np.array([0.3, -1.2, 0.7, 4.0]), 1e-6
    theta = np.asarray(line.theta(jnp.asarray(y)))
    assert np.all((theta > low) & (theta < high))
    np.testing.assert_allclose(line.coordinates(theta), y)
    slopes = (np.asarray(line.theta(jnp.asarray(y + h))) - np.asarray(line.theta(jnp.asarray(y - h)))) / (2 * h)
    np.testing.assert_allclose(line.log_slope(jnp.asarray(y)), np.log(np.abs(slopes)), atol=1e-8)  # h^2 and eps / h
