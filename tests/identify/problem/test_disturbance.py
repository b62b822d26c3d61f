"""A resistance and a kick beside the parameters: what force they are, and none where they are not."""

from dataclasses import replace

import jax
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.identify.residual import KICK, RESISTANCE, Disturbed, disturbed, kick, no_kick

FREE = dc.System(
    gap=lambda t, q, p: q[:1] + 100.0,
    force=lambda t, q, u, p: p["pull"] * np.ones(2),
    mass=lambda q, p: p["mass"][:, None] * np.eye(2),
    restitution=lambda p: 0.0,
)
PARAMS = {"pull": 0.5, "mass": np.array([2.0, 5.0])}
Q, U = np.zeros(2), np.array([1.0, -3.0])


FORCE = jax.jit(lambda params, t: disturbed(FREE).force(t, Q, U, params))


def force(params, t=0.0):
    return np.asarray(FORCE(params, t))


def test_what_is_resisted_loses_its_speed_whatever_its_mass():
    found = force(Disturbed.of(PARAMS | {RESISTANCE: 0.7}))
    np.testing.assert_allclose(found, 0.5 - 0.7 * PARAMS["mass"] * U, rtol=1e-12)


def test_a_kick_changes_the_velocity_by_what_it_says_whatever_the_masses():
    change, times = np.array([0.3, -0.2]), np.linspace(0.4, 0.6, 41)
    params = Disturbed.of(PARAMS | {RESISTANCE: 0.0, KICK: kick(0.5, 0.05, change)})
    acceleration = np.array([(force(params, t) - 0.5) / PARAMS["mass"] for t in times])
    # A hat, whose corners are at times of the table: the trapezoidal rule is exact.
    np.testing.assert_allclose(np.trapezoid(acceleration, times, axis=0), change, rtol=1e-9)
    assert np.all(acceleration[np.abs(times - 0.5) > 0.051] == 0)


@pytest.mark.parametrize("beside", [None, {}, {RESISTANCE: 0.0}, {RESISTANCE: 0.0, KICK: no_kick(2, float)}])
def test_without_it_nothing_changes(beside):
    params = PARAMS if beside is None else Disturbed.of(PARAMS | beside)
    np.testing.assert_array_equal(force(params), FREE.force(0.0, Q, U, PARAMS))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("force", lambda t, q, u, p: p["pull"]), ("mass", lambda q, p: np.ones(())), ("mass", lambda q, p: np.ones(3))],
)
def test_a_wrong_shape_is_told_as_without_it(name, wrong):
    system = disturbed(replace(FREE, **{name: wrong}))
    with pytest.raises(ValueError, match=rf"{name}.*shape"):
        dc.simulate(system, Disturbed.of(PARAMS | {RESISTANCE: 0.0}), Q, U, np.linspace(0.0, 1.0, 3))


def test_systems_that_are_alike_are_resisted_alike():
    assert disturbed(FREE) == disturbed(FREE)
    assert hash(disturbed(FREE)) == hash(disturbed(FREE))
    line = object()
    assert disturbed(line) is line
