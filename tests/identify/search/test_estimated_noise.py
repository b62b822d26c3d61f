import jax.numpy as jnp
import numpy as np
import pytest
from dragged import DRAGGED, FREE, SCHEME, START, TIMES, inside, motion, start_of

from diffcontact.identify import Observations, Problem, fit

pytestmark = pytest.mark.full


def both(trajectory, params):
    return jnp.concatenate([trajectory.q, trajectory.q], axis=1)


def test_the_noise_of_each_channel_settles_where_it_is(rng):
    # The same coordinate seen twice, stated as equally good; the second camera is twenty times worse.
    true = np.array([1e-3, 2e-2])
    values = motion(TIMES) + true * rng.normal(size=(TIMES.size, 2))
    run = Problem(DRAGGED, Observations(TIMES, values, 5e-3, both), start_of, SCHEME, 1)
    plain, weighted = fit(run, START, FREE), fit(run, START, FREE, noise="estimated")
    # A standard deviation of 81 samples is known to 8 %: three of them.
    np.testing.assert_allclose(weighted.noise_factors[0] * 5e-3, true, rtol=0.25)
    assert weighted.chi2_per_dof == pytest.approx(1.0, abs=0.03)
    assert weighted.stderr["drag"] < plain.stderr["drag"] / 5
    assert inside(weighted, "drag", 0.8)
    assert "noise of each channel estimated" in weighted.message
    assert plain.noise_factors == ()


@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_the_noise_of_a_channel_does_not_depend_on_its_unit(unit):
    """Stated as one unit of length, whichever that is; in metres 50 nm are 5e-8 of it, and no rounding."""
    true = np.array([5e-8, 5e-7])
    noise = true * np.random.default_rng(1).normal(size=(TIMES.size, 2))
    seen = unit * (motion(TIMES) + noise)
    run = Problem(DRAGGED, Observations(TIMES, seen, 1.0, lambda *of: unit * both(*of)), start_of, SCHEME, 1)
    found = fit(run, START, FREE, noise="estimated")
    # A standard deviation of 81 samples is known to 8 %: three of them.
    np.testing.assert_allclose(found.noise_factors[0], unit * true, rtol=0.25)


def test_a_channel_that_is_fitted_to_rounding_keeps_its_noise():
    noise = np.array([0.0, 1e-3]) * np.random.default_rng(1).normal(size=(TIMES.size, 2))
    run = Problem(DRAGGED, Observations(TIMES, motion(TIMES) + noise, [1e-10, 1e-3], both), start_of, SCHEME, 1)
    found = fit(run, START, FREE, noise="estimated")
    assert found.noise_factors[0][0] == 1.0
