"""A resistance and a kick beside the parameters: what they do where they are, nothing where they are not."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.identify.problem.disturbance import KICK, RESISTANCE, Disturbed, disturbed, kick, no_kick

FREE = dc.System(
    gap=lambda t, q, p: q[:1] + 100.0,
    force=lambda t, q, u, p: p["pull"] * jnp.ones(2),
    mass=lambda q, p: jnp.diag(p["mass"]),
    restitution=lambda p: 0.0,
)
PARAMS = {"pull": 0.0, "mass": np.array([2.0, 5.0])}
Q0, U0, TIMES = np.zeros(2), np.array([1.0, -3.0]), np.linspace(0.0, 1.0, 21)


def rode(system, params):
    return dc.simulate(system, params, Q0, U0, TIMES, scheme=dc.EventTimed(order=4)).u


def test_what_is_resisted_loses_its_speed_exponentially_whatever_its_mass():
    slowed = rode(disturbed(FREE), Disturbed.of(PARAMS | {RESISTANCE: 0.7}))
    # Of fourth order in steps of 0.05 s: (0.7 x 0.05)^5 / 120 a step.
    np.testing.assert_allclose(slowed, U0 * np.exp(-0.7 * TIMES)[:, None], rtol=1e-7)


def test_a_kick_changes_the_velocity_by_what_it_says_whatever_the_masses():
    change = np.array([0.3, -0.2])
    kicked = rode(disturbed(FREE), Disturbed.of(PARAMS | {RESISTANCE: 0.0, KICK: kick(0.5, 0.05, change)}))
    # A hat over two steps: the sum of what it is at their ends, each but once.
    np.testing.assert_allclose(kicked[TIMES > 0.56], (U0 + change)[None] + np.zeros((9, 1)), rtol=1e-12)
    np.testing.assert_array_equal(kicked[TIMES < 0.44], U0[None] + np.zeros((9, 1)))


@pytest.mark.parametrize(
    "params",
    [
        PARAMS,
        Disturbed.of(PARAMS),
        Disturbed.of(PARAMS | {RESISTANCE: 0.0}),
        Disturbed.of(PARAMS | {RESISTANCE: 0.0, KICK: no_kick(2, float)}),
    ],
)
def test_without_it_nothing_changes(params):
    np.testing.assert_array_equal(rode(disturbed(FREE), params), rode(FREE, PARAMS))


def test_parameters_that_are_resisted_are_a_dictionary_and_a_tree():
    params = Disturbed.of(PARAMS | {RESISTANCE: 0.5})
    assert params == PARAMS
    doubled = jax.tree.map(lambda leaf: 2 * leaf, params)
    assert isinstance(doubled, Disturbed)
    assert (doubled.rate, doubled["pull"]) == (1.0, 0.0)
    np.testing.assert_array_equal(doubled["mass"], [4.0, 10.0])


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("force", lambda t, q, u, p: p["pull"]), ("mass", lambda q, p: jnp.ones(())), ("mass", lambda q, p: jnp.ones(3))],
)
def test_a_wrong_shape_is_told_as_without_it(name, wrong):
    system = disturbed(replace(FREE, **{name: wrong}))
    with pytest.raises(ValueError, match=rf"{name}.*shape"):
        rode(system, Disturbed.of(PARAMS | {RESISTANCE: 0.0}))


def test_systems_that_are_alike_are_resisted_alike():
    assert disturbed(FREE) == disturbed(FREE)
    assert hash(disturbed(FREE)) == hash(disturbed(FREE))
    line = object()
    assert disturbed(line) is line
