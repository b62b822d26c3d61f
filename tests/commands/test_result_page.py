"""What the page of a fit shows besides its numbers: the noise, the verdict's complaints, single impacts."""

import json
import re

import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.identify import Interval, Observations, Problem, Real
from diffcontact.identify.annotations import _at_fault, _shaped, restitution, with_evidence
from diffcontact.identify.linearised import LinearisedRun
from diffcontact.identify.reporting import fit_report
from diffcontact.identify.verdict.explanations import faults_of_measuring
from diffcontact.systems import laws

T = np.linspace(0.0, 3.0, 301)


def run_of(r, struck=()):
    rows = np.isin(np.arange(r.size), struck)
    return LinearisedRun(r[:, None], np.zeros((r.size, 1, 1)), np.zeros(1, int), T, rows, tracks=1)


def shaped(code, run, **figures):
    (rows,) = _shaped([run], code, figures)
    return np.flatnonzero(rows[:, 0]).tolist()


def test_samples_far_off_are_those_that_the_verdict_counts(rng):
    noise = rng.normal(size=T.size)
    noise[[20, 150, 290]] = 9.0, -12.0, 30.0
    assert shaped("far off", run_of(noise), count=3, limit=6.0) == [20, 150, 290]
    assert shaped("far off", run_of(noise), count=2, limit=6.0) == [150, 290]


def test_patterns_lie_at_impacts_or_in_a_third(rng):
    noise = rng.normal(size=T.size)
    noise[11] = np.nan
    run = run_of(noise, struck=(10, 11, 12, 100, 101))
    assert shaped("at impacts", run) == [10, 12, 100, 101]
    assert shaped("grow", run) == list(range(200, 301))
    assert shaped("fade", run) == [row for row in range(101) if row != 11]
    assert shaped("another", run) == []


def test_a_curve_is_where_residuals_stay_on_one_side(rng):
    bent = 0.5 * rng.normal(size=T.size)
    bent[100:200] += 3.0
    marked = shaped("curve", run_of(bent))
    assert 98 <= min(marked) <= 100
    assert 199 <= max(marked) <= 201
    # Neighbours that alternate follow each other, too: everywhere.
    assert shaped("correlated", run_of((-1.0) ** np.arange(T.size))) == list(range(T.size))


def test_the_page_of_the_demo_has_its_noise_and_no_complaint(done):
    (run,) = with_evidence(fit_report(done, done.verdict), done.evidence, done.verdict.codes).runs
    # A tenth of a millimetre, of the samples that there are.
    np.testing.assert_allclose(run.noise[np.isfinite(run.measured)], 1e-4)
    np.testing.assert_array_equal(np.isnan(run.noise), np.isnan(run.measured))
    assert run.marks == []


def test_a_jump_of_the_clock_is_where_it_jumps(done):
    evidence = done.evidence
    moment = evidence.runs[0].times[62]
    # As `faults_of_measuring` calls it, at one of the places at which it looks.
    jump = min(
        (fault for fault in faults_of_measuring(evidence, 0) if fault.kind == "jump"),
        key=lambda fault: abs(fault.time - moment),
    )
    rows = _at_fault(evidence, 0, jump.name)
    assert evidence.runs[0].times[np.flatnonzero(rows[:, 0])[1]] == jump.time
    impacts = _at_fault(evidence, 0, "time [s] that impacts last")
    np.testing.assert_array_equal(np.flatnonzero(impacts[:, 0]), np.flatnonzero(evidence.runs[0].struck))
    assert not _at_fault(evidence, 0, "perspective").any()


@pytest.mark.full
def test_impacts_by_themselves_are_as_the_law_that_made_them(rng):
    """A ball of e = 0.8 (v / 3)^-0.1, and one impact that is 0.02 bouncier than the law has it."""
    law, odd = laws.restitution("power"), 2
    truth = {"restitution": 0.8, "restitution_exponent": 0.1, "reference_speed": 3.0}

    def ball(restitution):
        return dc.System(
            gap=lambda t, q, p: q,
            force=lambda t, q, u, p: -9.81 * jnp.ones(1),
            mass=lambda q, p: jnp.ones(1),
            restitution=restitution,
        )

    def dropped(params):
        return params["height"], jnp.zeros(1)

    def bouncier(params, v):
        return law(params, v) + jnp.where(jnp.abs(v - 2.7) < 0.3, 0.02, 0.0)

    times = np.linspace(0.0, 2.4, 241)
    film = dc.simulate(ball(bouncier), truth, jnp.ones(1), jnp.zeros(1), times)
    seen = np.asarray(film.q) + 1e-3 * rng.normal(size=film.q.shape)
    seen = Observations(times, seen, 1e-3, lambda trajectory, params: trajectory.q)
    params = truth | {"height": np.ones(1)}
    free = {"restitution": Interval(0.0, 1.0), "restitution_exponent": Real(), "height": Real()}
    result = dc.fit(Problem(ball(law), seen, dropped, None, 1), params, free, shooting="single")
    found = restitution({"power": result.evidence}, ["film"], "m/s")
    assert found is not None
    assert len(found.impacts) >= 4
    for number, one in enumerate(found.impacts):
        true = 0.8 * (one.speed / 3) ** -0.1 + 0.02 * (number == odd)
        assert abs(one.value - true) < 2 * (one.high - one.low) / 2 + 2e-4
    assert found.impacts[odd].low > found.impacts[odd].law
    (curve,) = found.curves
    assert np.all(curve.ends[0] <= curve.values)
    assert np.all(curve.values <= curve.ends[1])
    assert np.ptp(curve.ends, axis=0).max() < 0.02


def test_a_report_from_python_shows_the_noise_as_that_of_the_command_does(done, tmp_path):
    done.report(tmp_path / "fit.html")
    data = re.search(
        r'<script[^>]*type="application/json"[^>]*>(.*?)</script>', (tmp_path / "fit.html").read_text(), re.S
    )
    assert data is not None
    (run,) = json.loads(data[1])["runs"]
    assert "noise" in run
