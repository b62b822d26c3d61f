"""EventTimed where contacts rub: event-exact references and closed forms."""

import json

import coulomb
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full


@pytest.mark.parametrize("name", coulomb.PROBLEMS)
def test_the_references_by_reverse_mode(reference, name):
    data = json.loads((reference / f"coulomb/{name}.json").read_text())
    theta = jnp.array(list(data["parameters"].values()))
    for run in data["runs"]:
        counts = [round(run["T"] / 1e-2)]
        found, statuses = coulomb.errors(coulomb.PROBLEMS[name], run, theta, counts, reverse=True, order=4)
        assert not statuses.any()
        # As forwards: what fourth order leaves of the ladder and of a given force at this step, 1e-7; rounding else.
        assert np.all(found < {"ladder": 1e-6, "driven_block": 1e-7}.get(name, 2e-11))


@pytest.mark.parametrize("name", ["ladder", "driven_block"])
def test_fourth_order(reference, name):
    """A mass matrix and friction that turn, and a drive, through slips that end and begin."""
    data = json.loads((reference / f"coulomb/{name}.json").read_text())
    theta, run = jnp.array(list(data["parameters"].values())), data["runs"][-1]
    counts = [round(run["T"] / h) for h in (2e-2, 4e-3)]
    found, statuses = coulomb.errors(coulomb.PROBLEMS[name], run, theta, counts, order=4)
    assert not statuses.any()
    assert np.all(np.log(found[0] / found[1]) / np.log(counts[1] / counts[0]) > 3.5)
    # The second order has 7e-6 and 2e-5 there.
    assert np.all(found[1] < 1e-8)


def test_fourth_order_where_paths_bend():
    """A disc rolls and slips in a bowl, and a point slides on a turntable in space: contacts and slips that turn."""

    def inward(q):
        return -q[:2] / jnp.sqrt(q[:2] @ q[:2])

    bowl = dc.System(
        gap=lambda t, q, p: (0.9 - jnp.sqrt(q[:2] @ q[:2]))[None],
        force=lambda t, q, u, p: -9.81 * jnp.array([0.0, 1.0, 0.0]),
        mass=lambda q, p: jnp.array([1.0, 1.0, 0.005]),
        restitution=lambda p: 0.0,
        slip=lambda t, q, u, p: (u[:2] @ (inward(q)[::-1] * jnp.array([1.0, -1.0])) + 0.1 * u[2])[None, None],
        friction=lambda p: p,
    )
    table = dc.System(
        gap=lambda t, q, p: q[2:],
        force=lambda t, q, u, p: -9.81 * jnp.array([0.0, 0.0, 1.0]),
        mass=lambda q, p: jnp.ones(3),
        restitution=lambda p: 0.0,
        slip=lambda t, q, u, p: (u[:2] - 2.0 * jnp.stack([-q[1], q[0]]))[None],
        friction=lambda p: p,
    )
    rim = 0.9 * jnp.array([np.sin(1.3), -np.cos(1.3), 0.0])
    for system, q0, u0 in ((bowl, rim, jnp.zeros(3)), (table, jnp.array([0.3, 0.0, 0.0]), jnp.array([0.3, 0.5, 0.0]))):

        def end(mu, count, system=system, q0=q0, u0=u0):
            run = dc.simulate(system, mu, q0, u0, [0.0, 0.6], scheme=dc.EventTimed(order=4), substeps=count)
            return jnp.concatenate([run.q[-1], run.u[-1]]), run.status

        @jax.jit
        def both(mu, count, end=end):
            return end(mu, count)[0], *jax.jacfwd(end, has_aux=True)(mu, count)

        (*coarse, one), (*fine, two), (*truth, three) = (both(0.1, jnp.array(count)) for count in (24, 48, 384))
        assert one == two == three == Status.OK
        for x, y, z in zip(coarse, fine, truth, strict=True):
            # Sixteen times more exact; ten, since the order shows in the limit only.
            assert np.max(np.abs(y - z)) < np.max(np.abs(x - z)) / 10
            assert np.max(np.abs(y - z)) < 1e-5 * np.max(np.abs(z))


def test_two_alike_blocks_stick_and_slip_at_the_same_times(reference):
    """Each event comes twice at one time, and none of them is found again at length zero."""
    data = json.loads((reference / "coulomb/driven_block.json").read_text())
    theta, run = jnp.array(list(data["parameters"].values())), data["runs"][0]
    _, mu, angle, g, amplitude, frequency = theta
    pair = dc.System(
        gap=lambda t, q, p: q[2:],
        force=lambda t, q, u, p: jnp.repeat(
            jnp.stack([amplitude * jnp.sin(frequency * t) - g * jnp.sin(angle), -g * jnp.cos(angle)]), 2
        ),
        mass=lambda q, p: jnp.ones(4),
        restitution=lambda p: 0.0,
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


# A box on a belt: two corners, which rub alike, so that their friction depends on each other. q = (x, y, angle).
BOX = dc.System(
    gap=lambda t, q, p: q[1] + jnp.array([-1.0, 1.0]) * 0.2 * jnp.sin(q[2]) - 0.1 * jnp.cos(q[2]),
    force=lambda t, q, u, p: jnp.stack([p["push"], -9.81 * jnp.ones(()), jnp.zeros(())]),
    mass=lambda q, p: jnp.array([1.0, 1.0, 0.05 / 3]),
    restitution=lambda p: 0.0,
    slip=lambda t, q, u, p: u[0] + 0.1 * u[2] * jnp.ones((2, 1)) - p["belt"],
    friction=lambda p: p["mu"],
)


def _box(params, end=0.5, steps=10):
    times = jnp.linspace(0.0, end, steps + 1)
    return dc.simulate(BOX, params, jnp.array([0.0, 0.1, 0.0]), jnp.zeros(3), times)


def test_derivatives_agree_eager_jitted_mapped_and_both_ways():
    params = {"mu": jnp.array(0.5), "push": jnp.array(6.0), "belt": jnp.array(0.3)}

    def end(params):
        run = _box(params)
        return jnp.concatenate([run.q[-1], run.u[-1]])

    forward, backward = jax.jit(jax.jacfwd(end))(params), jax.jit(jax.jacrev(end))(params)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-12), forward, backward)
    # It slips against the belt first, then along it: x(0.5) from both accelerations.
    first, then = 6.0 + 0.5 * 9.81, 6.0 - 0.5 * 9.81
    change = 0.3 / first
    np.testing.assert_allclose(end(params)[3], 0.3 + then * (0.5 - change), rtol=1e-12)
    # d u/d mu: 9.81 (t1 - (T - t1)) + (a1 - a2) dt1... by the closed form of u(T) = b + a2 (T - b/a1).
    by_mu = -9.81 * (0.5 - change) + then * 0.3 / first**2 * 9.81
    np.testing.assert_allclose(forward["mu"][3], by_mu, rtol=1e-11)
    lanes = jax.tree.map(lambda x: jnp.stack([x, 2 * x]), params)
    np.testing.assert_allclose(jax.vmap(end)(lanes)[0], end(params), rtol=1e-13, atol=1e-15)


def test_a_slip_that_passes_by_zero_is_followed_or_told():
    """A block in a plane, pushed against its slip: what it has across is not lost without a word."""
    block = dc.System(
        gap=lambda t, q, p: q[2:],
        force=lambda t, q, u, p: jnp.array([-10.0, 0.0, -10.0]),
        mass=lambda q, p: jnp.ones(3),
        restitution=lambda p: 0.0,
        slip=lambda t, q, u, p: u[None, :2],
        friction=lambda p: p,
    )

    @jax.jit
    def end(across, steps, mu=0.5):
        u0 = jnp.stack([1.0, across, 0.0])
        run = dc.simulate(block, mu, jnp.zeros(3), u0, jnp.array([0.0, 0.2]), substeps=steps)
        return run.u[-1, :2], run.status

    # Straight: from 1 m/s to rest at 15 m/s^2, back at 5.
    straight, status = end(0.0, jnp.array(20))
    np.testing.assert_allclose(straight, [-5 * (0.2 - 1 / 15), 0.0], rtol=1e-12, atol=1e-15)
    assert status == 0
    (coarse, told), (fine, status), (finer, _) = (end(0.1, jnp.array(steps)) for steps in (20, 400, 1600))
    assert told == Status.TOO_COARSE
    assert np.max(np.abs(coarse - finer)) > 5e-3
    assert status == 0
    # Second order: 2e-4 with 200 steps.
    assert np.max(np.abs(fine - finer)) < 1e-4
    # Without friction it may turn as it likes.
    smooth, status = end(0.1, jnp.array(1), 0.0)
    np.testing.assert_allclose(smooth, [-1.0, 0.1], rtol=1e-14)
    assert status == 0


def test_a_sphere_rolls_down_a_groove():
    """Two contacts that stick, whose friction is not unique: a = g sin(slope) / (1 + 2/5 / cos^2(half angle))."""
    tilt, half, r, g = 0.3, np.pi / 4, 0.1, 9.81
    sides = np.array([[0.0, np.sin(half), np.cos(half)], [0.0, -np.sin(half), np.cos(half)]])

    def slip(t, q, u, p):
        down = jnp.array([1.0, 0.0, 0.0])
        feet = [(u[:3] - r * jnp.cross(u[3:], side), jnp.cross(side, down)) for side in jnp.array(sides)]
        return jnp.stack([jnp.stack([v[0], v @ across]) for v, across in feet])

    groove = dc.System(
        gap=lambda t, q, p: jnp.array(sides) @ q - r,
        force=lambda t, q, u, p: g * jnp.array([np.sin(tilt), 0.0, -np.cos(tilt), 0.0, 0.0, 0.0]),
        mass=lambda q, p: jnp.array([1.0] * 3 + [0.4 * r**2] * 3),
        restitution=lambda p: 0.0,
        slip=slip,
        friction=lambda p: p,
        rate=lambda q, u, p: u[:3],
    )
    q0 = jnp.array([0.0, 0.0, r / np.cos(half)])

    def roll(mu):
        return dc.simulate(groove, mu, q0, jnp.zeros(6), jnp.linspace(0.0, 1.0, 21))

    run = jax.jit(jax.vmap(roll))(jnp.array([0.3, 0.05]))
    assert not np.any(run.status)
    rolls = g * np.sin(tilt) / (1 + 0.4 / np.cos(half) ** 2)
    slides = g * np.sin(tilt) - 0.05 * g * np.cos(tilt) / np.cos(half)
    np.testing.assert_allclose(run.q[:, -1, 0], [rolls / 2, slides / 2], rtol=1e-12)
    np.testing.assert_allclose(run.u[0, -1, 4] * r * np.cos(half), rolls, rtol=1e-12)


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
