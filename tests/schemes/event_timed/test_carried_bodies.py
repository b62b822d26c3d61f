"""EventTimed where what is rubbed on moves by itself: closed forms of a belt and of a turntable, with derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full

G = 9.81


def _moved(system, start, end, order):
    """(parameters, number of steps) -> the state at the end, its Jacobian, the status."""

    def state(params, count):
        (q0, u0), scheme = start(params), dc.EventTimed(order=order)
        run = dc.simulate(system, params, q0, u0, jnp.array([0.0, end]), scheme=scheme, substeps=count)
        found = jnp.concatenate([run.q[-1], run.u[-1]])
        return found, (found, run.status)

    jacobian = jax.jit(jax.jacfwd(state, has_aux=True))

    def ended(params, count):
        slope, (found, status) = jacobian(params, jnp.array(round(count)))
        assert status == Status.OK
        return found, slope

    return ended


# A block on a belt of the velocity b t^2/2 - c t^3/6; parameters mu, b, c.
BELT = zoo.system(
    gap=lambda t, q, p: q[1:],
    force=lambda t, q, u, p: jnp.array([0.0, -G]),
    slip=lambda t, q, u, p: (u[:1] - p[1] * t**2 / 2 + p[2] * t**3 / 6)[None],
    friction=lambda p: p[0],
)
BELT_END = 1.7


def _carried(p):
    """It goes with the belt until that gains speed faster than mu g, slips, and is caught up with as the belt slows
    down: the speeds differ by (t - s)^2 ((b - c s)/2 - c (t - s)/6), s the time when it began to slip."""
    mu, b, c = p
    begins = (b - jnp.sqrt(b**2 - 2 * c * mu * G)) / c
    slips = 3 * (b - c * begins) / c

    def velocity(t):
        return b * t**2 / 2 - c * t**3 / 6

    def way(t):
        return b * t**3 / 6 - c * t**4 / 24

    left_behind = way(begins + slips) - way(begins) - velocity(begins) * slips - mu * G * slips**2 / 2
    return jnp.stack([way(BELT_END) - left_behind, jnp.zeros(()), velocity(BELT_END), jnp.zeros(())])


# A solid sphere that rolls on a table that turns: radius, turning speed, place and velocity of the centre.
TABLE = zoo.system(
    gap=lambda t, q, p: q[2:] - p[0],
    force=lambda t, q, u, p: jnp.array([0.0, 0.0, -G, 0.0, 0.0, 0.0]),
    mass=lambda q, p: jnp.concatenate([jnp.ones(3), 0.4 * p[0] ** 2 * jnp.ones(3)]),
    slip=lambda t, q, u, p: (u[:2] + p[0] * jnp.stack([-u[4], u[3]]) - p[1] * jnp.stack([-q[1], q[0]]))[None],
    friction=lambda p: 2.0,
    rate=lambda q, u, p: u[:3],
)
TABLE_END = 1.2


def _on_the_table(p):
    """It rolls from the beginning."""
    r, turn, x, y, v, w = p
    return jnp.stack([x, y, r]), jnp.stack([v, w, 0 * r, (turn * x - w) / r, (v + turn * y) / r, 0 * r])


def _circled(p):
    """Its velocity turns at 2/7 of the table's speed, whatever its size, so that it runs in a circle."""
    r, turn, x, y, v, w = p
    rate = 2 / 7 * turn
    cos, sin = jnp.cos(rate * TABLE_END), jnp.sin(rate * TABLE_END)
    there = jnp.stack([x + (sin * v - (1 - cos) * w) / rate, y + ((1 - cos) * v + sin * w) / rate])
    after = jnp.stack([cos * v - sin * w, sin * v + cos * w])
    spin = jnp.stack([turn * there[0] - after[1], after[0] + turn * there[1]]) / r
    return jnp.concatenate([there, r[None], after, jnp.zeros(1), spin, jnp.zeros(1)])


@pytest.mark.parametrize("order", [2, 4])
def test_a_block_on_a_belt_sticks_slips_and_sticks(order):
    params = jnp.array([0.3, 12.0, 16.0])
    ended = _moved(BELT, lambda p: (jnp.zeros(2), jnp.zeros(2)), BELT_END, order)
    for h in (2e-2, 1e-2, 2.5e-3):
        # At second order by how late in its step an event lies: at most 1.7 h^2. The fourth has belts like this one.
        bound = 2 * h**2 if order == 2 else 1e-12
        for found, known in zip(
            ended(params, BELT_END / h), (_carried(params), jax.jacfwd(_carried)(params)), strict=True
        ):
            np.testing.assert_allclose(found, known, atol=bound * np.max(np.abs(known)))


@pytest.mark.parametrize("order", [2, 4])
def test_a_sphere_rolls_in_a_circle_on_a_turntable(order):
    params = jnp.array([0.05, 3.0, 0.4, -0.2, 0.3, 0.5])
    ended, known = _moved(TABLE, _on_the_table, TABLE_END, order), (_circled(params), jax.jacfwd(_circled)(params))
    coarse, fine = (
        np.array([np.max(np.abs(x - y)) / np.max(np.abs(y)) for x, y in zip(ended(params, count), known, strict=True)])
        for count in (60, 240)
    )
    # A quarter of the step: 16 times more exact, or 256 times, a little less than the limit.
    assert np.all(fine < coarse / (12 if order == 2 else 150))
    assert np.all(fine < (2e-4 if order == 2 else 1e-7))
