"""Carts: what is taken as right of slow residuals, and faults of the measuring about an impact that was not seen."""

import numpy as np
import pytest
from scipy.signal import lfilter

import diffcontact as dc
from diffcontact.identify import fit_replicas
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.explanations import Fault, faults_of_measuring

SIMULATED, pytestmark = True, pytest.mark.full
TIMES = np.linspace(0.0, 2.0, 201)
NOISE, REPLICAS = 1e-3, 6
TRUTH = {
    "restitution": 0.8,
    "mass_ratio": 1.3,
    "q0": np.array([0.2, 1.0]),
    "u0": np.array([0.6, -0.2]),
    "distance": 0.1,
    "tilt": 0.0,
    "sag": 0.0,
    "drag": 0.0,
}
FREE = {"restitution": dc.Interval(0.0, 1.0), "mass_ratio": dc.Positive(log=True), "q0": dc.Real(), "u0": dc.Real()}
CARTS = dc.systems.carts()


def rode():
    return np.asarray(dc.simulate(CARTS, TRUTH, TRUTH["q0"], TRUTH["u0"], TIMES).q)


@pytest.fixture(scope="module")
def base():
    seen = dc.Observations(TIMES, rode(), NOISE, lambda trajectory, params: trajectory.q)
    return dc.fit(dc.Problem(CARTS, seen, lambda params: (params["q0"], params["u0"])), TRUTH, FREE)


def evidence_of(result):
    assert result.objective is not None
    return Evidence.of(result, result.objective)


def test_that_slow_residuals_are_noise_is_taken_as_right(base):
    noise = NOISE * np.random.default_rng(5).normal(size=(REPLICAS, TIMES.size, 2))
    slow = NOISE * np.sqrt(1 - 0.97**2) * np.random.default_rng(5).normal(size=(REPLICAS, TIMES.size + 300, 2))
    slow = np.asarray(lfilter([1.0], [1.0, -0.97], slow, axis=1))[:, 300:]
    told = [result.verdict.taken for result in fit_replicas(base, [rode() + slow])]
    # Of so few independent samples one replica in six may look whiter than it is.
    assert sum("that residuals are noise, of which 402 samples are worth" in taken for taken in told) >= REPLICAS - 1
    assert not any(
        "that residuals are noise" in result.verdict.taken for result in fit_replicas(base, [rode() + noise])
    )


def without_contact(values, width=0.05):
    """The samples (n, 2) without those taken while bumpers may push: a gap of 0.7 m closes at 0.8 m/s."""
    return np.where(np.abs(TIMES - 0.7 / 0.8)[:, None] < width, np.nan, values)


def seen_without_contact(values):
    seen = dc.Observations(TIMES, without_contact(values), NOISE, lambda trajectory, params: trajectory.q)
    return dc.fit(dc.Problem(CARTS, seen, lambda params: (params["q0"], params["u0"])), TRUTH, FREE)


def test_samples_that_are_missing_about_an_impact_change_no_fault(base):
    """What a fault adds to the samples that are there does not depend on others: an impact has its jump of speed."""
    clean = rode() + NOISE * np.random.default_rng(5).normal(size=(TIMES.size, 2))
    (whole,), gap = fit_replicas(base, [clean[None]]), seen_without_contact(clean)
    faults = [faults_of_measuring(evidence_of(result), 0) for result in (whole, gap)]
    there = np.isfinite(without_contact(clean))
    for name in (Fault("late"), Fault("lasting"), Fault("delay", (0,))):
        # At two estimates that differ by their noise, a thousandth.
        expected, found = (np.where(there[..., None], fault[name], 0.0) for fault in faults)
        np.testing.assert_allclose(found, expected, rtol=0.02, atol=0.02 * np.abs(expected).max())


def test_impacts_about_which_nothing_is_measured_are_not_late_by_ages():
    """The second track is late by a frame: what that asks for, of any time, is of the size of a frame."""
    late = np.column_stack([rode()[:, 0], np.append(rode()[1:, 1], np.nan)])
    noise = NOISE * np.random.default_rng(5).normal(size=(TIMES.size, 2))
    evidence = evidence_of(seen_without_contact(late + noise))
    faults = {name: d for name, d in faults_of_measuring(evidence, 0).items() if "[s]" in name.name}
    assert Fault("late") in faults
    for name, columns in faults.items():
        fault = evidence.fit.score_test({0: columns})
        assert fault is None or np.all(np.abs(fault.size) < 10 * TIMES[1]), name
