"""When contacts begin to stick, to slip and to let go, and how these times depend on everything: closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo
from rubbing import DISC, DROP

import diffcontact as dc
from diffcontact import Mode

pytestmark = pytest.mark.full

# Mass 1, weight 10: v' = push + jerk t -+ mu (10 - lift t).
PULLED = zoo.system(
    gap=lambda t, q, p: q[1:],
    force=lambda t, q, u, p: jnp.stack([p["push"] + p["jerk"] * t, p["lift"] * t - 10.0]),
    slip=lambda t, q, u, p: u[None, :1],
    friction=lambda p: p["mu"],
)


SLIDES = {"mu": 0.5, "push": 0.0, "jerk": 0.0, "lift": 0.0}


def pulled(params, count=5):
    u0 = jnp.stack([params["u0"], 0.0])
    run = dc.simulate(PULLED, params, jnp.zeros(2), u0, jnp.linspace(0.0, 2.0, 21), changes=count)
    return run.changes, run.status


def as_known(params):
    """Three times: its slip ends, it slips again, it lets go."""
    brakes, k = 10 * params["mu"] - params["push"], params["jerk"] + params["mu"] * params["lift"]
    return jnp.stack([(brakes - jnp.sqrt(brakes**2 - 2 * k * params["u0"])) / k, brakes / k, 10 / params["lift"]])


def test_a_block_that_is_pulled_stops_slips_and_lets_go():
    params = {"mu": 0.5, "push": 0.0, "jerk": 3.0, "lift": 6.3, "u0": 1.0}
    params = jax.tree.map(jnp.asarray, params)

    @jax.jit
    def times_and_slopes(params):
        def times(params):
            changes, status = pulled(params)
            return changes.time[:3], (changes, status)

        forward, found = jax.jacfwd(times, has_aux=True)(params)
        return *found, forward, jax.jacrev(times, has_aux=True)(params)[0]

    found, status, forward, backward = times_and_slopes(params)
    assert status == 0
    assert found.contact.tolist() == [0, 0, 0, -1, -1]
    assert found.before.tolist() == [Mode.SLIP, Mode.STICK, Mode.SLIP, -1, -1]
    assert found.after.tolist() == [Mode.STICK, Mode.SLIP, Mode.OPEN, -1, -1]
    exact, slopes = as_known(params), jax.jacfwd(as_known)(params)
    np.testing.assert_allclose(found.time[:3], exact, rtol=1e-12)
    for name, slope in slopes.items():
        np.testing.assert_allclose(forward[name], slope, rtol=1e-11, atol=1e-12)
        np.testing.assert_allclose(backward[name], slope, rtol=1e-11, atol=1e-12)


def test_lanes_of_their_own_and_a_slip_that_goes_back():
    still = {"mu": 0.5, "push": 0.0, "jerk": 0.0, "lift": 0.0, "u0": 0.0}
    back = still | {"push": -8.0, "u0": 1.0}
    lanes = jax.tree.map(lambda *x: jnp.array(x), still, back)
    found, status = jax.jit(jax.vmap(pulled))(lanes)
    assert not status.any()
    # What holds does not change; what is thrown up a slope and slips back does, at 1 / (8 + 5).
    assert found.contact.tolist() == [[-1] * 5, [0] + [-1] * 4]
    np.testing.assert_allclose(found.time[1, 0], 1 / 13, rtol=1e-13)
    assert (int(found.before[1, 0]), int(found.after[1, 0])) == (Mode.SLIP, Mode.SLIP)


def test_a_disc_lands_slips_and_rolls():
    def changes(mu):
        params = {"mu": mu, "e": 0.0}
        run = dc.simulate(DISC, params, *DROP, jnp.linspace(0.0, 0.5, 6), changes=3, percussions=1)
        return run.changes.time, (run.changes, run.percussions.time, run.status)

    slope, (found, struck, status) = jax.jit(jax.jacfwd(changes, has_aux=True))(0.1)
    assert status == 0
    assert found.before.tolist() == [Mode.OPEN, Mode.SLIP, -1]
    assert found.after.tolist() == [Mode.SLIP, Mode.STICK, -1]
    # The impact, P = 2, takes 6 mu of the slip of 1 m/s; the rest ends at 30 mu.
    np.testing.assert_allclose(found.time[:2], [0.2, 0.2 + 0.4 / 3], rtol=1e-12)
    np.testing.assert_allclose(found.time[0], struck[0], rtol=1e-15)
    np.testing.assert_allclose(slope[:2], [0.0, -1 / 0.3], rtol=1e-11, atol=1e-12)


def test_nothing_is_listed_or_differs_where_it_is_not_asked_for():
    times = jnp.linspace(0.0, 1.0, 6)
    plain, told = (dc.simulate(PULLED, SLIDES, [0.0, 0.0], [1.0, 0.0], times, changes=n) for n in (0, 1))
    assert plain.changes is None
    np.testing.assert_allclose(told.changes.time, [0.2], rtol=1e-14)
    np.testing.assert_array_equal(plain.q, told.q)
    np.testing.assert_array_equal(plain.u, told.u)


def test_who_does_not_know_them_says_so():
    start = PULLED, SLIDES, [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]
    bare = dc.systems.balls(1, 2)
    params = {"mass": jnp.ones(1), "radius": 0.1 * jnp.ones(1), "gravity": jnp.zeros(2), "restitution": 0.0}
    params |= {"friction": 0.5}
    listed = dc.systems.balls(2, 2, cell=0.3, spin=True)
    two = {name: jnp.repeat(x, 2) if name in ("mass", "radius") else x for name, x in params.items()}
    for line, act in (
        (
            "changes=1: only EventTimed on a System with slip=... knows them, got VelocityProjection on a System",
            lambda: dc.simulate(*start, scheme=dc.VelocityProjection(), changes=1),
        ),
        (
            "changes=1: only EventTimed on a System with slip=... knows them, got EventTimed on a Balls",
            lambda: dc.simulate(bare, params, [0.0, 0.0], [1.0, 0.0], [0.0, 1.0], changes=1),
        ),
        (
            "changes: expected a system whose contacts keep their numbers, got one with a cell list",
            lambda: dc.simulate(listed, two, jnp.arange(6.0), jnp.zeros(6), [0.0, 1.0], changes=1),
        ),
        (
            "substeps=Array.*: to list percussions or changes an int is needed, got an array",
            lambda: dc.simulate(*start, substeps=jnp.array(2), changes=1),
        ),
        ("changes=-1", lambda: dc.simulate(*start, changes=-1)),
    ):
        with pytest.raises(ValueError, match=line):
            act()
