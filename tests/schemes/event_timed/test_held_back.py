"""What a step leaves out that would go on for good is told."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc

pytestmark = pytest.mark.full

STEEP = np.pi / 3
FLOOR_AND_RAMP = np.array([[0.0, 1.0], [-np.sin(STEEP), np.cos(STEEP)]])


def _slope(force, restitution, **options):
    """A point on a floor; a ramp begins where params are zero at q = 0."""
    return dc.System(
        gap=lambda t, q, p: FLOOR_AND_RAMP @ q + p["ramp"] * jnp.array([0.0, np.sin(STEEP)]),
        force=lambda t, q, u, p: jnp.asarray(force),
        mass=lambda q, p: jnp.ones(2),
        restitution=lambda p: jnp.asarray(restitution),
        **options,
    )


RUBBING = {"slip": lambda t, q, u, p: u[:1, None] * jnp.ones((2, 1)), "friction": lambda p: 0.0}


@pytest.mark.parametrize("options", [{}, RUBBING], ids=["smooth", "rubbing"])
def test_a_body_kept_at_the_foot_of_a_ramp_is_told(options):
    """It has fallen from 2 m, slides into the ramp with 1 m/s, climbs it for 0.12 s and slides back with 0.25 m/s."""
    system = _slope([0.0, -9.81], 0.0, **options)

    def end(events):
        times, scheme = np.arange(0.0, 4.0, 0.15), dc.EventTimed(events=events)
        return dc.simulate(system, {"ramp": 1.0}, [-0.5, 2.0], [1.0, 0.0], times, scheme=scheme)

    # Steps of 0.15 s that resolve no shorter flight, and flights of 19 ms.
    coarse, fine = end(1), end(8)
    assert coarse.status == dc.Status.TOO_COARSE
    assert coarse.u[-1, 0] == pytest.approx(0.0, abs=1e-12)
    climbs = 2 * np.cos(STEEP) / (9.81 * np.sin(STEEP))
    back = np.cos(STEEP) ** 2
    assert fine.status == 0
    assert fine.q[-1, 0] == pytest.approx(1 - back * (float(fine.t[-1]) - 1.5 - climbs), abs=1e-12)


@pytest.mark.parametrize(("speed", "beyond"), [(0.3, 0.01), (0.5, 0.01), (0.5, 0.02), (0.8, 0.02)])
def test_a_blow_to_a_body_that_would_still_bounce_is_told(speed, beyond):
    """It lands (e = 0.1) and meets the ramp (e = 0.8) soon after; steps that see its bounces say what follows."""
    system = _slope([5.0, -50.0], [0.1, 0.8])
    lands = np.sqrt(2 * 0.5 / 50)
    params = {"ramp": speed * lands + 2.5 * lands**2 + beyond}

    def end(events, substeps):
        scheme = dc.EventTimed(events=events)
        return dc.simulate(system, params, [0.0, 0.5], [speed, 0.0], [0.0, 0.1, 0.2], scheme=scheme, substeps=substeps)

    coarse, fine, finer = end(2, 1), end(8, 1), end(8, 40)
    off = np.max(np.abs(coarse.u[-1] - finer.u[-1]))
    assert off > 0.03
    # What was left out may come to a sixteenth of the fastest motion, of 7 m/s.
    assert coarse.status == dc.Status.TOO_COARSE or off < np.sqrt(2 * 50 * 0.5) / 16
    assert coarse.status == dc.Status.TOO_COARSE or beyond < 0.02
    assert fine.status == finer.status == 0
    assert np.max(np.abs(fine.u[-1, 0] - finer.u[-1, 0])) < 1e-9


@pytest.mark.parametrize("count", [7, 8, 9, 10, 12])
def test_impacts_beyond_those_of_a_step_are_exact_or_told(count):
    """So many points bounce once each within one step that resolves eight events."""
    system = zoo.system(
        gap=lambda t, q, p: q, force=lambda t, q, u, p: jnp.full(q.size, -9.81), restitution=lambda p: p
    )
    high = np.linspace(0.010, 0.011, count)
    meets = (np.sqrt(1 + 2 * 9.81 * high) - 1) / 9.81
    approach, left = 1 + 9.81 * meets, 0.1 - meets

    def end(e):
        run = dc.simulate(system, e, high, -np.ones(count), [0.0, 0.1])
        return run.q[-1], run.status

    (place, status), (slope, _) = jax.jvp(end, (0.8,), (1.0,))
    if count > 8:
        assert status == dc.Status.TOO_MANY_EVENTS
    else:
        assert status == 0
        np.testing.assert_allclose(place, 0.8 * approach * left - 9.81 / 2 * left**2, atol=1e-15)
        np.testing.assert_allclose(slope, approach * left, atol=1e-14)


def test_the_derivative_at_e_of_one_is_that_of_e_below_one():
    """A point slides on a floor (e = 0) into a wall (e = 1), in a scene that is turned by many angles.

    Rounding must not decide at random that energy is made, and the impact be mixed with a softer one.
    """
    normals = np.array([[0.0, 1.0], [-np.sin(1.0), np.cos(1.0)]])

    def turned(angle):
        return jnp.array([[jnp.cos(angle), -jnp.sin(angle)], [jnp.sin(angle), jnp.cos(angle)]])

    system = zoo.system(
        gap=lambda t, q, p: normals @ (turned(p["angle"]).T @ q) + jnp.array([0.0, np.sin(1.0)]),
        force=lambda t, q, u, p: turned(p["angle"]) @ jnp.array([0.0, -9.81]),
        restitution=lambda p: jnp.stack([0.0 * p["e"], p["e"]]),
    )

    def end(e, angle):
        turn = turned(angle)
        run = dc.simulate(
            system, {"e": e, "angle": angle}, jnp.zeros(2), turn @ jnp.array([2.0, 0.0]), np.linspace(0, 0.8, 9)
        )
        return turn.T @ run.u[-1], run.status

    slopes, status = jax.vmap(jax.jacfwd(end, has_aux=True), (None, 0))(1.0, jnp.linspace(0.0, 6.0, 40))
    assert np.all(status == 0)
    # u+ = u - (1 + e) (n . u) n, and flies until the end.
    np.testing.assert_allclose(slopes, np.tile(2 * np.sin(1.0) * normals[1], (40, 1)), atol=1e-9)
