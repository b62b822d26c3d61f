import numpy as np
import pytest
from scipy.optimize import least_squares

from diffcontact.identify.noise import LOSSES, Loss


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("scale", [0.5, 2.0])
def test_the_minimum_is_scipys(rng, name, scale):
    A, b = rng.normal(size=(40, 3)), rng.normal(size=40)
    b[::9] += 20.0
    expected = least_squares(lambda x: A @ x - b, np.zeros(3), loss=name, f_scale=scale, xtol=1e-12, ftol=1e-14)
    loss = Loss(name, scale)
    ours = least_squares(lambda x: np.asarray(loss.squared(A @ x - b)[0]), np.zeros(3), xtol=1e-12, ftol=1e-14)
    np.testing.assert_allclose(ours.cost, expected.cost, rtol=1e-8)
    np.testing.assert_allclose(ours.x, expected.x, atol=1e-5)  # forward differences: sqrt(eps) of the gradient


@pytest.mark.parametrize("name", LOSSES)
def test_slopes_are_derivatives(name):
    # Not at the outlier's edge |r| = scale, where huber's second derivative jumps.
    r = np.array([-7.0, -1.3, -0.2, 0.0, 1e-9, 0.4, 1.1, 30.0])
    loss = Loss(name, 1.2)
    s, slope = loss.squared(r)
    h = 1e-6
    # h^2 and eps / h, of numbers up to 30.
    np.testing.assert_allclose(slope, (loss.squared(r + h)[0] - loss.squared(r - h)[0]) / (2 * h), atol=3e-8)
    psi, rate = loss.influence(r)
    np.testing.assert_allclose(s * slope, psi, rtol=1e-12, atol=1e-15)  # half of d(s^2)/dr = rho' r
    np.testing.assert_allclose(rate, (loss.influence(r + h)[0] - loss.influence(r - h)[0]) / (2 * h), atol=3e-8)


@pytest.mark.parametrize(
    ("arguments", "message"), [(("l1",), "'l1' does not exist; there is 'linear'"), (("huber", 0.0), "f_scale.*0.0")]
)
def test_bad_losses_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        Loss(*arguments)
