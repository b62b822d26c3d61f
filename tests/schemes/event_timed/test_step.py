"""What contact must never do by EventTimed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc

pytestmark = pytest.mark.full


def _balls(count, dimension, box=None, **params):
    defaults = {"mass": jnp.ones(count), "radius": 0.1 * jnp.ones(count), "gravity": jnp.zeros(dimension)}
    return dc.systems.balls(count, dimension, box=box), {**defaults, "restitution": 1.0, **params}


def _energy(params, run):
    gravity = jnp.tile(params["gravity"], params["mass"].size)
    mass = jnp.repeat(params["mass"], params["gravity"].size)
    return 0.5 * run.u**2 @ mass - run.q @ (mass * gravity)


def test_a_stack_at_rest_stays_at_rest():
    # Two discs that touch each other, the floor and the walls, and one on top of them: more contacts than needed.
    system, params = _balls(3, 2, box=(0.0, jnp.array([0.4, 1.0])), restitution=0.5)
    params = {**params, "mass": jnp.array([1.0, 2.0, 0.5]), "gravity": jnp.array([0.0, -9.81])}
    q0 = jnp.array([0.1, 0.1, 0.3, 0.1, 0.2, 0.1 + jnp.sqrt(0.03)])

    @jax.jit
    def stay(h):
        run = dc.simulate(system, params, q0, jnp.zeros(6), h * jnp.arange(201))
        return run, jax.vmap(lambda q: system.gap(0.0, q, params))(run.q)

    for h in (1e-1, 1e-2, 1e-3, 1e-4):
        run, gaps = stay(h)
        energy = _energy(params, run)
        assert run.status == 0
        assert np.max(np.abs(run.u)) <= 1e-9, h
        assert np.min(gaps) >= -1e-12, h
        assert np.max(np.diff(energy)) <= 1e-10 * energy[0], h
        # The floor carries them: 3.5 kg for 200 h.
        np.testing.assert_allclose(np.sum(run.impulse[:, [1, 3, 5]]), 3.5 * 9.81 * 200 * h, rtol=1e-9)


def test_a_ball_in_a_wedge_bounces_in_order():
    # Between the floor and a wall that leans over it by 0.3 rad, both met within one step; e = 1, no gravity.
    slope = 0.3
    wedge = zoo.system(gap=lambda t, q, p: jnp.stack([q[1], jnp.sin(p) * q[0] - jnp.cos(p) * q[1]]), restitution=1.0)

    def run(slope):
        scheme = dc.EventTimed(events=12)
        return dc.simulate(wedge, slope, [1.0, 0.1], [-4.0, -1.0], [0.0, 1.0], scheme=scheme, percussions=12)

    trajectory, tangent = jax.jvp(run, (slope,), (1.0,))
    # Mirrored in the walls it flies straight on: sectors of 0.3 rad. Polar coordinates of where that ends, folded back.
    x, y = 1.0 - 4.0, 0.1 - 1.0
    angle, radius = np.arctan2(y, x) % (2 * np.pi), np.hypot(x, y)
    # Unfolded it turns clockwise through the floor: as many sectors below zero.
    below = 2 * np.pi - angle
    sector = int(below // slope)
    inside = below - sector * slope
    folded = inside if sector % 2 == 0 else slope - inside
    np.testing.assert_allclose(trajectory.q[-1], radius * np.array([np.cos(folded), np.sin(folded)]), atol=1e-12)
    assert int(np.sum(trajectory.percussions.contact >= 0)) == sector + 1
    assert trajectory.status == 0
    turns = -sector if sector % 2 == 0 else sector + 1
    np.testing.assert_allclose(
        tangent.q[-1], turns * radius * np.array([-np.sin(folded), np.cos(folded)]), atol=1e-10 * radius
    )


def test_a_pile_settles_without_penetration(rng):
    # Five diameters are 1.0: a box of exactly that width has one place only for five on the floor.
    system, params = _balls(6, 2, box=(0.0, jnp.array([1.03, 1.0])), gravity=jnp.array([0.0, -9.81]))
    grid = np.array([[0.15 + 0.23 * (i % 4), 0.2 + 0.25 * (i // 4)] for i in range(6)])
    lanes = 4
    q0 = (grid + rng.uniform(-0.01, 0.01, (lanes, 6, 2))).reshape(lanes, 12)
    restitution = jnp.array([0.0, 0.3, 0.5, 0.8])

    def run(restitution, q0, u0):
        return dc.simulate(system, {**params, "restitution": restitution}, q0, u0, np.linspace(0, 3, 301))

    runs = jax.vmap(run)(restitution, q0, rng.normal(size=(lanes, 12)))
    # A rattling cluster has more percussions in one step than are resolved one by one, or bounces shorter than a step
    # that matter: both are told. Nothing else may go wrong, and nothing where nothing bounces.
    assert runs.status[0] == 0
    assert {*runs.status[1:].tolist()} <= {dc.Status.OK, dc.Status.TOO_MANY_EVENTS, dc.Status.TOO_COARSE}
    gaps = jax.vmap(jax.vmap(lambda q: system.gap(0.0, q, params)))(runs.q)
    assert np.min(gaps) >= -1e-12
    energy = jax.vmap(lambda run: _energy(params, run))(runs)
    # Rolling over each other is second order: gains of O(h^3) per step with accelerations and curvatures of order 10.
    assert np.max(np.diff(energy, axis=1)) < 10 * (0.01) ** 3 * np.max(energy)
    # At rest, wherever that is.
    assert np.max(np.abs(runs.u[:, -1])) < 1e-9


@pytest.mark.parametrize("restitution", [0.0, 0.5, 0.9])
def test_a_zeno_sequence_ends_on_time(restitution):
    system, params = _balls(1, 1, box=(0.0, 10.0), radius=jnp.zeros(1), gravity=jnp.array([-9.81]))
    fall = np.sqrt(2 / 9.81)
    end = fall * (1 + restitution) / (1 - restitution)
    h = 1e-2
    # One grid for all coefficients: nothing is compiled anew.
    times = np.arange(0.0, 8.7, h)
    run = dc.simulate(system, {**params, "restitution": restitution}, [1.0], [0.0], times)
    rests_from = times[np.flatnonzero(np.abs(run.u[:, 0]) > 1e-9)[-1] + 1]
    # Cut where the approach is below h g / 2; the rest of the sequence would take 2 e v / (g (1 - e)) = h e / (1 - e).
    assert -h * (1 + restitution / (1 - restitution)) <= rests_from - end <= h
    assert run.status == 0


def test_an_order_that_does_not_exist():
    with pytest.raises(ValueError, match="expected 2, 4 or 6"):
        dc.EventTimed(order=3)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_body_far_away_moves_nobody(dtype):
    """Two discs bounce on a floor; a third passes by, so far off that single precision puts it on a grid of 6 cm."""
    times = np.linspace(0, 1, 101, dtype=dtype)
    q0, u0 = np.array([0.5, 0.5, 0.58, 0.9, 1e6, 1e6], dtype), np.array([0, 0, 0, 0, 1e4, 0], dtype)

    def two(count):
        params = {
            "mass": np.array([1, 2, 1], dtype)[:count],
            "radius": np.full(count, 0.1, dtype),
            "gravity": np.array([0, -9.81], dtype),
            "restitution": dtype(0.8),
        }
        system = dc.systems.balls(count, 2, box=(0.0, np.inf))
        run = dc.simulate(system, params, q0[: 2 * count], u0[: 2 * count], times)
        assert run.status == 0
        return np.asarray(run.q[:, :4])

    alone = two(2)
    # Both bounce: 0.3 m up from the floor again.
    assert np.ptp(alone[20:, 1]) > 0.1
    # Rounding of what both do alike, multiplied by three impacts and a second of flight.
    np.testing.assert_allclose(two(3), alone, atol=1e3 * np.finfo(dtype).eps)
