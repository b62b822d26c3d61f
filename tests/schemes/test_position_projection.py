import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.schemes.position_projection import project_position

pytestmark = pytest.mark.full


@jax.jit
def project(w, radius, sign=1.0, mass=((1.0, 0.0), (0.0, 1.0))):
    """Onto the outside of a disc about the origin (sign 1) or its inside (-1); only the gap is read."""
    disc = zoo.system(
        gap=lambda t, q, p: sign * (jnp.linalg.norm(q)[None] - p), force=lambda t, q, u, p: q, mass=lambda q, p: q
    )
    return project_position(disc, radius, 0.0, jnp.asarray(mass), jnp.array([1.1, 0.0]), w)


derivative = jax.jit(jax.jacfwd(lambda w, radius, sign: project(w, radius, sign).shift, (0, 1)))


@pytest.mark.parametrize(("sign", "w"), [(1.0, [0.7, 0.3]), (-1.0, [1.1, -0.6])])
def test_projection_on_a_circle_and_its_derivative(sign, w):
    def exact(w, radius):
        return radius * w / jnp.linalg.norm(w)

    w, radius = jnp.array(w), jnp.ones(())
    found, jacobian = project(w, radius, sign), derivative(w, radius, sign)
    # The last step is Newton's, from an error of eps^(3/4): exact to rounding.
    np.testing.assert_allclose(w + found.shift, exact(w, radius), atol=1e-15)
    expected = jax.jacfwd(exact, (0, 1))(w, radius)
    np.testing.assert_allclose(jnp.eye(2) + jacobian[0], expected[0], atol=1e-14)
    np.testing.assert_allclose(jacobian[1], expected[1], atol=1e-14)


def test_first_order_conditions_in_a_metric():
    mass, w = jnp.array([[2.0, 0.5], [0.5, 1.0]]), jnp.array([0.8, 0.5])
    found = project(w, 1.0, mass=mass)
    x = w + found.shift
    assert found.status == dc.Status.OK
    np.testing.assert_allclose(jnp.linalg.norm(x), 1.0, atol=1e-15)
    np.testing.assert_allclose(mass @ found.shift, found.multipliers[0] * x, atol=1e-14)


def test_inside_nothing_moves():
    found = project(jnp.array([1.5, 0.0]), 1.0)
    assert np.all(found.shift == 0)
    assert found.status == dc.Status.OK


def test_beyond_the_radius_of_curvature_the_status_says_so():
    # Seen from beyond the centre, the point of the circle on this side is the farthest, not the nearest.
    found = project(jnp.array([-0.5, 0.0]), 1.0)
    assert found.status == dc.Status.PROJECTION_LIMIT
    assert np.all(np.isfinite(found.shift))
