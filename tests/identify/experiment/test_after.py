"""What comes after a fit: its noise, its scatter from run to run, what it knows, what a tenth more would help."""

import numpy as np
import pytest
from falling import FALLING, NOISE, SCHEME, TIMES, fitted, positions, start_of
from scipy.linalg import toeplitz

from diffcontact.identify import Observations, Problem, Real, design, what_helps
from diffcontact.identify.experiment.fisher import Evidence, Noise, as_found, evidence_of, sentence
from diffcontact.identify.noise import Autoregression

FREE = {"g": Real(), "u0": Real()}


def covariances(polynomial, n):
    return polynomial ** np.arange(n) / (1 - polynomial**2)


@pytest.mark.parametrize("ratio", [1.0, 0.5, 1.7])
def test_correlated_noise_is_as_correlated_at_any_rate(ratio, rng):
    a, n, spacing = 0.8, 60, 0.02
    noise = Noise((Autoregression(np.array([1.0, -a]), 1.0),), np.eye(1), spacing, np.zeros(2))
    J = rng.normal(size=(n, 1, 2))
    known = covariances(a, 4 * n)
    gamma = np.interp(ratio * np.arange(n), np.arange(known.size), known)
    exact = J[:, 0].T @ toeplitz(gamma) @ J[:, 0]
    # The transform's period is eight records, and 0.8^100 of the correlation is left there.
    np.testing.assert_allclose(noise.score(J, ratio * spacing), exact, rtol=1e-7)


def runs(rng, count, scatter):
    """Falls with a speed of their own each, and a weight that differs by `scatter` from run to run."""
    made = []
    for _ in range(count):
        g = 9.81 + scatter * rng.normal()
        values = (0.4 * TIMES - g * TIMES**2 / 2 + NOISE * rng.normal(size=41))[:, None]
        seen = Observations(TIMES, values, NOISE, positions)
        made.append(Problem(FALLING, seen, start_of, SCHEME, 1, ("u0",)))
    return made


@pytest.fixture(scope="module")
def problems():
    return runs(np.random.default_rng(0), 5, 0.1)


@pytest.fixture(scope="module")
def result(problems):
    return fitted(problems, FREE, u0=np.zeros((5, 1)))


def test_what_a_fit_knows_is_as_precise_as_its_error_bars(result):
    known = evidence_of(result, ("g",))
    assert known.covariance()[0, 0] == pytest.approx(result.stderr["g"] ** 2, rel=1e-9)
    # The scatter is that of the runs, to what five of them can show: chi^2 of 4 is between 0.2 and 13 in 99 of 100.
    scatter = as_found(result, 0, ("g", "u0[0]")).scatter
    assert 0.2 / 4 < scatter[0] / 0.1**2 < 13 / 4
    assert scatter[1] == 0.0


def test_another_run_of_the_kind_adds_as_much_as_one_of_those_before(problems, result):
    params = {"g": result.params["g"], "u0": result.params["u0"], "unused": 0.0}
    found = design(problems, params, FREE, {"runs": [1, 5]}, after=result, draws=1)
    assert found.sought == ("g",)
    assert found.now["g"] == pytest.approx(result.stderr["g"], rel=1e-9)
    told = {one.setting["runs"]: one.stderr["g"] for one in found.candidates}
    # All weigh alike: A and S of a run are A_5 / 5 and about S_5 / 5, so five more halve the variance; S is estimated
    # in two ways, of the five from their own scatter, whose variance is off by a part in sqrt(2).
    ratio = (told[5] / found.now["g"]) ** 2
    noise = as_found(result, 0, ("g", "u0[0]"))
    known = evidence_of(result, ("g",))
    one = Evidence(known.curvature / 5, known.curvature / 5).scattered(noise.scatter[:1])
    assert ratio == pytest.approx(((known + one * 5).covariance() / known.covariance())[0, 0], rel=0.1)
    assert told[5] < told[1] < found.now["g"]


def stderr(J):
    """Of the first parameter, in units of white noise."""
    return np.sqrt(np.linalg.inv(J.T @ J)[0, 0])


def test_of_one_run_with_white_noise():
    result = fitted(runs(np.random.default_rng(0), 1, 0.0), FREE, u0=np.zeros((1, 1)))
    helps = what_helps(result, "g")
    assert "AR(0)" in result.error_bars
    # The step map's fall is linear in weight and speed.
    J = result.objective.joint.linearise(result.estimate)[0].J[:, 0]
    longer = np.vstack([J, J[int(np.ceil(0.9 * 41)) :]])
    faster = np.stack([np.interp(np.arange(0, 40 + 1e-9, 1 / 1.1), np.arange(41), column) for column in J.T], axis=1)
    assert helps["runs of the kind"] == pytest.approx(1 - 1 / np.sqrt(1.1), rel=1e-9)
    assert helps["length of the record"] == pytest.approx(1 - stderr(longer) / stderr(J), rel=1e-7)
    assert helps["frames a second"] == pytest.approx(1 - stderr(faster) / stderr(J), rel=1e-7)
    assert next(iter(helps)) == "length of the record"
    with pytest.raises(ValueError, match="no element 'h'"):
        what_helps(result, "h")


def test_where_runs_differ_only_other_runs_help():
    result = fitted(runs(np.random.default_rng(0), 5, 1.0), FREE, u0=np.zeros((5, 1)))
    helps = what_helps(result)
    # The noise within a run is worth 0.03 of g, the scatter 1: what it takes away is a part in a thousand of that.
    assert helps["runs of the kind"] == pytest.approx(1 - 1 / np.sqrt(1.1), rel=1e-9)
    assert max(helps["frames a second"], helps["length of the record"]) < 1e-3
    assert sentence(result) == "a tenth more of these would shorten the interval of g by: runs of the kind 4.7 %"
