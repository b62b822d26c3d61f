"""What goes on from a result goes on from its own estimate, runs, priors and noise, or says why it does not."""

import pickle

import numpy as np
import pytest
from falling import fall, fitted

from diffcontact.identify import FitResult, Normal, Positive, Real, bootstrap, posterior, profile
from diffcontact.identify.result import resumed
from diffcontact.identify.search import trust_region

pytestmark = pytest.mark.full

FREE = {"g": Positive(), "u0": Real()}
INTERVALS = [lambda result: profile(result, "g"), bootstrap, posterior]


@pytest.mark.parametrize("go_on", INTERVALS)
def test_a_result_without_its_functions_says_so(rng, tmp_path, go_on):
    result = fitted(fall(rng), FREE)
    result.save(tmp_path / "result.json")
    for other in (pickle.loads(pickle.dumps(result)), FitResult.load(tmp_path / "result.json")):
        assert str(other) == str(result)
        with pytest.raises(ValueError, match=r"\(result\): read from a file or unpickled.*expected what fit"):
            go_on(other)


@pytest.mark.parametrize("go_on", INTERVALS)
def test_an_estimate_that_is_none_is_refused(rng, monkeypatch, go_on):
    monkeypatch.setattr(trust_region, "MAX_EVALUATIONS", 1)
    with pytest.raises(ValueError, match=r"\(result\): not converged, stopped after.*expected an estimate"):
        go_on(fitted(fall(rng), FREE))


def test_what_the_data_cannot_see_is_refused_by_all_that_draw_it(rng):
    blind = fitted(fall(rng), {"g": Positive(), "u0": Real(), "unused": Real()}, unused=1.0)
    for go_on in (bootstrap, posterior):
        with pytest.raises(ValueError, match="unused has no effect on what was measured; expected priors"):
            go_on(blind)
    with pytest.raises(ValueError, match="the data cannot see 'unused'"):
        profile(blind, "unused")
    # What they do see has its profile.
    seen = fitted(fall(np.random.default_rng(0)), FREE)
    error = seen.stderr["g"]
    # Each end is found within 0.02 standard errors.
    np.testing.assert_allclose(profile(blind, "g").interval95, profile(seen, "g").interval95, atol=0.04 * error)


def test_what_is_no_result_is_named():
    with pytest.raises(ValueError, match="profile\\(result\\): dict, expected the FitResult"):
        profile({}, "g")  # pyright: ignore[reportArgumentType]


def test_the_objective_of_a_result_is_at_its_estimate(rng):
    result = fitted(fall(rng), FREE, noise="estimated", priors={"g": Normal(9.7, 0.02)})
    at = resumed(result, "test")
    np.testing.assert_array_equal(at.parameters.start, result.estimate)
    f, _ = at.evaluate(at.parameters.start)
    assert 0.5 * f @ f == result.cost
    # The gradient, in standard errors, vanishes there.
    f, J = at.evaluate(at.parameters.start)
    assert np.max(np.abs(J.T @ f) * np.sqrt(np.diag(result.covariance))) < 1e-5
