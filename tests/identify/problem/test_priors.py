"""Priors are measurements besides the data."""

import numpy as np
import pytest
from dragged import FREE, START, TRUTH, inside, problem

from diffcontact.identify import Normal, Positive, Real, fit

pytestmark = pytest.mark.full


def test_a_prior_is_a_measurement_more(rng):
    run = problem(rng)
    alone = fit(run, START, FREE)
    sigma = float(alone.stderr["drag"])
    both = fit(run, START, FREE, priors={"drag": Normal(alone.params["drag"] + sigma, sigma)})
    # Two equally good measurements: their mean, with an error smaller by sqrt 2. The fit weighs the samples by the
    # stated noise, the error bars by the residuals' own, which differ by 8 % in 81 samples: three of that.
    np.testing.assert_allclose(both.params["drag"], alone.params["drag"] + sigma / 2, atol=0.25 * sigma)
    np.testing.assert_allclose(both.stderr["drag"], sigma / np.sqrt(2), rtol=0.25)
    assert both.dof == alone.dof + 1


def test_a_prior_resolves_what_the_data_cannot_see(rng):
    free = {"mass": Positive(), "drag": Positive(), "weight": Positive(), "u0": Real()}
    run = problem(rng)
    assert fit(run, START, free).unidentifiable
    resolved = fit(run, START, free, priors={"mass": Normal(1.5, 0.01)})
    assert resolved.unidentifiable == []
    for name in ("mass", "drag", "weight"):
        assert inside(resolved, name, TRUTH[name])
    # The mass comes from the prior alone.
    np.testing.assert_allclose([resolved.params["mass"], resolved.stderr["mass"]], [1.5, 0.01], rtol=1e-3)


@pytest.mark.parametrize("arguments", [(np.nan, 1.0), (0.0, 0.0), (0.0, np.inf)])
def test_a_prior_has_a_finite_mean_and_a_positive_sigma(arguments):
    with pytest.raises(ValueError, match="expected a finite mean and a positive finite sigma"):
        Normal(*arguments)
