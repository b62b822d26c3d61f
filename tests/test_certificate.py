import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.certificate import Doubt

BALL = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
FALL = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-9.81]), "restitution": 0.8}
TIMES = np.linspace(0.0, 1.5, 151)


def test_percussions_are_listed_with_time_and_impulse():
    run = dc.simulate(BALL, FALL, [1.0], [0.0], TIMES, percussions=4)
    fall, speed = np.sqrt(2 / 9.81), np.sqrt(2 * 9.81)
    happened = run.percussions
    np.testing.assert_allclose(happened.time, [fall, fall + 1.6 * speed / 9.81, 0.0, 0.0], atol=1e-12)
    assert happened.contact.tolist() == [0, 0, -1, -1]
    np.testing.assert_allclose(happened.impulse[:2, 0], [1.8 * speed, 1.44 * speed], rtol=1e-12)
    np.testing.assert_allclose(happened.after, -0.8 * happened.before, atol=1e-12)
    np.testing.assert_allclose(np.sum(happened.impulse), np.sum(run.impulse), rtol=1e-12)


def test_only_event_timed_on_a_system_lists_percussions():
    with pytest.raises(ValueError, match="only EventTimed"):
        dc.simulate(BALL, FALL, [1.0], [0.0], TIMES, scheme=dc.ElasticProjection(), percussions=4)


@pytest.mark.slow
def test_a_clear_bounce_has_a_derivative_that_differences_agree_with():
    check = dc.check_gradient(BALL, FALL, [1.0], [0.0], TIMES, wrt=["restitution", "q0", "u0"])
    assert check.certificate.clear
    assert check.certificate.first() == (Doubt.NONE, pytest.approx(np.nan, nan_ok=True), -1)
    assert check.agrees
    assert not np.any(check.changed)
    # Central differences: the error falls with the square of the width until rounding.
    assert check.errors[1] < 0.02 * check.errors[0]
    assert "verdict: the derivative is right" in str(check)


def test_a_zeno_end_is_named_with_its_time():
    certificate = dc.certify(BALL, {**FALL, "restitution": 0.3}, [1.0], [0.0], TIMES)
    doubt, time, contact = certificate.first()
    assert (doubt, contact) == (Doubt.ZENO_END, 0)
    # Bounces go on until v e^n < g h / 2, before the Zeno time sqrt(2/g) (1 + e)/(1 - e).
    fall = np.sqrt(2 / 9.81)
    assert 1.6 * fall < time < fall * 1.3 / 0.7
    assert "rest of its Zeno sequence" in str(certificate)


def test_a_struck_row_of_touching_balls_has_no_derivative():
    balls = dc.systems.balls(3, 1)
    params = {"mass": jnp.ones(3), "radius": 0.1 * jnp.ones(3), "gravity": jnp.zeros(1), "restitution": 1.0}
    start = [-0.5, 0.0, 0.5], [1.0, 0.0, -1.0]
    certificate = dc.certify(balls, params, *start, np.linspace(0.0, 1.0, 11))
    doubt, time, contact = certificate.first()
    assert doubt == Doubt.SIMULTANEOUS
    # Both gaps of 0.3 m close at 1 m/s.
    np.testing.assert_allclose(time, 0.3, atol=1e-12)
    assert contact in (0, 2)
    assert not certificate.clear


def test_a_bounce_at_the_threshold_of_rest():
    # What leaves the floor slower than h g / 2 = 0.04905 m/s stays there; this one is 0.01 % faster.
    v = 0.04905 / 0.8 * 1.0001
    certificate = dc.certify(BALL, FALL, [0.0], [-v], TIMES[:2])
    assert certificate.first()[0] == Doubt.THRESHOLD
    assert dc.certify(BALL, FALL, [0.0], [-v], TIMES[:2], change=1e-5).clear
    assert dc.certify(BALL, FALL, [0.0], [-0.999 * v], TIMES[:2], change=1e-5).first()[0] == Doubt.ZENO_END


def test_a_landing_that_hardly_approaches_is_grazing():
    certificate = dc.certify(BALL, {**FALL, "restitution": 0.0}, [0.0], [-0.04], TIMES[:2])
    assert certificate.first()[0] == Doubt.GRAZING
    assert dc.certify(BALL, {**FALL, "restitution": 0.0}, [0.0], [-0.06], TIMES[:2]).clear
