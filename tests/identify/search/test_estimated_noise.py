import jax.numpy as jnp
import numpy as np
import pytest
from dragged import DRAGGED, FREE, SCHEME, START, TIMES, inside, motion, start_of

from diffcontact.identify import Observations, Problem, fit


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
