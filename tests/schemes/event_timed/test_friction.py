"""EventTimed against event-exact references backwards, its orders, and closed forms where contacts rub."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references
import zoo
from programs import run

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full


# Forwards they are rows of the models' own modules.
@pytest.mark.parametrize("name", references.REFERENCES)
def test_the_references_by_reverse_mode(reference, name):
    references.check_reversed(reference, name)


@pytest.mark.parametrize("order", [2, 4, 6])
@pytest.mark.parametrize("name", ["ladder", "driven_block", "landing_bowl", "double_pendulum_wall"])
def test_errors_fall_with_the_order(reference, name, order):
    """Masses, contacts and friction that turn, and a drive, through landings and slips that end and begin."""
    known, errors = references.REFERENCES[name], []
    label, (row, state, derivative) = list(known.rows(reference).items())[-1]
    for substeps in (6, 24):
        (found,) = run(known.model, {label: row | {"substeps": substeps}}, dc.EventTimed(order=order)).values()
        assert found.status == Status.OK
        pairs = (known.state(found), state), (known.derivative(found), derivative)
        errors.append([np.max(np.abs(x - y)) / max(1.0, np.max(np.abs(y))) for x, y in pairs])
    coarse, fine = np.array(errors)
    # A quarter of the step; the slack is for what is of higher order. References are good to 1e-10.
    assert np.all((fine < coarse / 4 ** (order - 0.5)) | (fine < 3e-10))


def test_fourth_order_where_paths_bend():
    """A disc rolls and slips in a bowl: a contact and a slip that turn."""

    def inward(q):
        return -q[:2] / jnp.sqrt(q[:2] @ q[:2])

    bowl = zoo.system(
        gap=lambda t, q, p: (0.9 - jnp.sqrt(q[:2] @ q[:2]))[None],
        force=lambda t, q, u, p: -9.81 * jnp.array([0.0, 1.0, 0.0]),
        mass=lambda q, p: jnp.array([1.0, 1.0, 0.005]),
        slip=lambda t, q, u, p: (u[:2] @ (inward(q)[::-1] * jnp.array([1.0, -1.0])) + 0.1 * u[2])[None, None],
        friction=lambda p: p,
    )
    rim = 0.9 * jnp.array([np.sin(1.3), -np.cos(1.3), 0.0])

    def end(mu, count):
        run = dc.simulate(bowl, mu, rim, jnp.zeros(3), [0.0, 0.6], scheme=dc.EventTimed(order=4), substeps=count)
        return jnp.concatenate([run.q[-1], run.u[-1]]), run.status

    both = jax.jit(lambda mu, count: (end(mu, count)[0], *jax.jacfwd(end, has_aux=True)(mu, count)))
    (*coarse, one), (*fine, two), (*truth, three) = (both(0.1, jnp.array(count)) for count in (24, 48, 384))
    assert one == two == three == Status.OK
    for x, y, z in zip(coarse, fine, truth, strict=True):
        # Sixteen times more exact; ten, since the order shows in the limit only.
        assert np.max(np.abs(y - z)) < np.max(np.abs(x - z)) / 10
        assert np.max(np.abs(y - z)) < 1e-5 * np.max(np.abs(z))


# A solid sphere that rolls on a table that turns: radius, turning speed, place and velocity of the centre.
TABLE = zoo.system(
    gap=lambda t, q, p: q[2:] - p[0],
    force=lambda t, q, u, p: jnp.array([0.0, 0.0, -9.81, 0.0, 0.0, 0.0]),
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
def test_a_sphere_rolls_in_a_circle_on_a_turntable(order):
    """Where what is rubbed on moves with the place: the closed form, and its derivative."""

    def end(params, count):
        times, scheme = jnp.array([0.0, TABLE_END]), dc.EventTimed(order=order)
        run = dc.simulate(TABLE, params, *_on_the_table(params), times, scheme=scheme, substeps=count)
        found = jnp.concatenate([run.q[-1], run.u[-1]])
        return found, (found, run.status)

    ended, params = jax.jit(jax.jacfwd(end, has_aux=True)), jnp.array([0.05, 3.0, 0.4, -0.2, 0.3, 0.5])
    errors = []
    for count in (60, 240):
        slope, (found, status) = ended(params, jnp.array(count))
        assert status == Status.OK
        pairs = (found, _circled(params)), (slope, jax.jacfwd(_circled)(params))
        errors.append([np.max(np.abs(x - y)) / np.max(np.abs(y)) for x, y in pairs])
    coarse, fine = np.array(errors)
    # A quarter of the step: 16 times more exact, or 256 times, a little less than the limit.
    assert np.all(fine < coarse / (12 if order == 2 else 150))
    assert np.all(fine < (2e-4 if order == 2 else 1e-7))


def test_two_alike_blocks_stick_and_slip_at_the_same_times(reference):
    """Each event comes twice at one time, and none of them is found again at length zero."""
    data = json.loads((reference / "coulomb/driven_block.json").read_text())
    theta, run = jnp.array(list(data["parameters"].values())), data["runs"][0]
    _, mu, angle, g, amplitude, frequency = theta
    pair = zoo.system(
        gap=lambda t, q, p: q[2:],
        force=lambda t, q, u, p: jnp.repeat(
            jnp.stack([amplitude * jnp.sin(frequency * t) - g * jnp.sin(angle), -g * jnp.cos(angle)]), 2
        ),
        slip=lambda t, q, u, p: u[:2, None],
        friction=lambda p: mu,
    )
    u0 = jnp.array([theta[0], theta[0], 0.0, 0.0])
    motion = dc.simulate(pair, None, jnp.zeros(4), u0, jnp.array([0.0, run["T"]]), substeps=375)
    assert motion.status == 0
    x, _, v, _ = run["state"]
    # As one block alone: 7e-10 at this step.
    np.testing.assert_allclose(motion.q[-1], [x, x, 0.0, 0.0], atol=2e-9)
    np.testing.assert_allclose(motion.u[-1], [v, v, 0.0, 0.0], atol=2e-9)


@pytest.mark.parametrize("wrt", ["restitution", "tangential_restitution"])
def test_what_sticks_where_it_lands_stays_there_whatever_grows_from_zero(wrt):
    """Bounces of e = 0 that begin to grow are over at once: where a body comes to rest they count to second order.

    M couples the normal and the tangential velocity, so that what the normal one leaves would go along the contact.
    """
    mass = np.array([[2.0, 0.8], [0.8, 1.0]])
    system = dc.System(
        gap=lambda t, q, p: q[:1],
        force=lambda t, q, u, p: jnp.array([-10.0, 1.0]),
        mass=lambda q, p: jnp.asarray(mass),
        restitution=lambda p: p["restitution"],
        slip=lambda t, q, u, p: u[None, 1:],
        friction=lambda p: 5.0,
        tangential_restitution=lambda p: p["tangential_restitution"],
    )
    q0, u0, times = np.array([0.33, 0.0]), np.array([-1.0, 0.4]), np.linspace(0.0, 1.0, 11)

    def end(value):
        params = {"restitution": 0.0, "tangential_restitution": 0.0, wrt: value}
        run = dc.simulate(system, params, q0, u0, times)
        return jnp.concatenate([run.q[-1], run.u[-1]]), run.status

    found, slope, status = jax.jvp(end, (0.0,), (1.0,), has_aux=True)
    assert status == dc.Status.OK
    # Constant accelerations until it lands, and no motion behind that.
    a = np.linalg.solve(mass, [-10.0, 1.0])
    s = (-u0[0] - np.sqrt(u0[0] ** 2 - 2 * a[0] * q0[0])) / a[0]
    np.testing.assert_allclose(found, [0.0, u0[1] * s + a[1] * s**2 / 2, 0.0, 0.0], atol=1e-14)
    np.testing.assert_allclose(slope, 0.0, atol=1e-12)
