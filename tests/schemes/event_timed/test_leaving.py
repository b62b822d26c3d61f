"""A block that leaves the floor, or a stop, inside a step: closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc

# On a belt that slows down and turns back, at a stop; lifted off by a force that grows.
BLOCK = zoo.system(
    gap=lambda t, q, p: jnp.stack([q[1], -q[0]]),
    force=lambda t, q, u, p: jnp.stack([0.0 * t, p["weight"] * jnp.expm1(p["growth"] * (t - p["lifts"]))]),
    slip=lambda t, q, u, p: jnp.stack([u[0] - p["belt"] + p["slows"] * t**2, u[1]])[:, None],
    friction=lambda p: np.array([1.0, 0.0]) * p["mu"],
)


@pytest.fixture(scope="module")
def program():
    def run(params):
        end = dc.simulate(BLOCK, params, np.zeros(2), np.zeros(2), np.linspace(0.0, 1.0, 11))
        return end.q[-1], end.u[-1], end.status

    return jax.jit(lambda lanes: jax.lax.map(run, lanes))


def test_a_load_that_vanishes_ever_faster_is_one_event(program):
    """y'' = c (e^x - 1), x = w (t - t0): the cubic through a step dips below the floor, the block does not.

    Two of them leave just before a step ends, so that the next one begins some 10^-13 m above the floor.
    """
    growth, lifts = np.array([1.0, 3.0, 5.0, 8.0]), np.array([0.4 - 1e-4, 0.411, 0.57, 0.6 - 1e-5])
    none = np.zeros(4)
    params = {"weight": none + 2, "growth": growth, "lifts": lifts, "belt": none, "slows": none, "mu": none}
    q, u, status = map(np.asarray, program(params))
    assert not np.any(status)
    x = growth * (1 - lifts)
    # Of fourth order: (w h)^4 / 120 a step.
    tolerance = (0.8**4 / 120) / 4
    np.testing.assert_allclose(q[:, 1], 2 * (np.expm1(x) - x - x**2 / 2) / growth**2, rtol=tolerance)
    np.testing.assert_allclose(u[:, 1], 2 * (np.expm1(x) - x) / growth, rtol=tolerance)


def test_a_belt_that_turns_back_takes_a_block_from_its_stop(program):
    """The belt stands still for a moment, and the block sticks both to it and to the stop."""
    belt, slows = np.array([0.263, 0.3, 0.8, 1.1]), np.array([1.3, 2.0, 1.7, 2.2])
    ones = np.ones(4)
    params = {"weight": 9.81 * ones, "growth": ones, "lifts": 50 * ones, "belt": belt, "slows": slows, "mu": 0.5 * ones}
    q, u, status = map(np.asarray, program(params))
    assert not np.any(status)
    turns = np.sqrt(belt / slows)
    np.testing.assert_allclose(q[:, 0], belt * (1 - turns) - slows * (1 - turns**3) / 3, rtol=1e-11)
    np.testing.assert_allclose(u[:, 0], belt - slows, rtol=1e-11)


def test_corners_that_let_go_at_once():
    """A block on two corners, with a load on either that a growing pull takes away at the same instant."""
    left, right, half, starts = 0.05, np.array([0.05, 0.3]), 0.025, 9.81 / 200
    system = zoo.system(
        gap=lambda t, q, p: q[0] - half * jnp.cos(q[1]) + jnp.array([-left, p]) * jnp.sin(q[1]),
        force=lambda t, q, u, p: 0.038 * jnp.stack([200 * t - 9.81, 0.0]),
        mass=lambda q, p: np.array([0.038, 5.9e-4]),
    )

    def end(p):
        run = dc.simulate(system, p, jnp.array([half, 0.0]), np.zeros(2), np.linspace(0.0, 0.1, 6))
        return run.q[-1], run.status

    q, status = jax.jit(lambda lanes: jax.lax.map(end, lanes))(right)
    assert not np.any(status)
    np.testing.assert_allclose(q, np.array([[half + 200 * (0.1 - starts) ** 3 / 6, 0.0]] * 2), rtol=1e-12, atol=1e-15)
