import jax
import jax.numpy as jnp
import numpy as np
import published
import pytest
import zoo

import diffcontact as dc
from diffcontact.hypotheses import penetration

pytestmark = pytest.mark.full

BALL = zoo.system(gap=lambda t, q, p: q, force=lambda t, q, u, p: -9.81 * jnp.ones(1), restitution=lambda p: p["e"])


@pytest.mark.parametrize("e", [0.3, 0.8, 1.0])
def test_energy_and_depth_are_bounded_by_the_step(e):
    problem = system, params, _, _, T = published.balls_in_box(1, e)
    for steps, run in zip((50, 200), published.trajectories(problem, dc.ElasticProjection(), (50, 200)), strict=True):
        h, fastest = T / steps, np.max(np.abs(run.u))
        depth = np.max(penetration(system, params, run.t, run.q))
        assert 0 < depth <= 2 * e / (1 + e) * fastest * h
        # (H6) holds. An impact takes up to two steps, in which gravity's work is not accounted for.
        power = np.sum(params["mass"]) * 9.81 * fastest
        assert published.energy_excess(problem, run) <= power * 2 * h


def test_one_coefficient_only():
    system, params, q0, u0, _ = published.balls_in_box(3, np.full(15, 0.5))
    with pytest.raises(ValueError, match=r"one coefficient for all contacts.*\(15,\)"):
        dc.simulate(system, params, q0, u0, [0.0, 0.1], scheme=dc.ElasticProjection())


def _shifted(t, q, v, h, params):
    return -9.81 * jnp.ones(1) + h * v


def _between_a_ball_and_a_wall(steps):
    """A light ball between a wall and a heavy one: (H6) fails; six impacts, 0.06 s apart or more."""
    system = dc.systems.balls(2, 1, box=(0.0, 10.0))
    radius = jnp.array([0.0, 0.2])
    params = {"mass": jnp.array([1.0, 4.0]), "radius": radius, "gravity": jnp.zeros(1), "restitution": 1.0}
    times = np.linspace(0, 1.5, steps + 1)
    run = dc.simulate(system, params, [0.4, 0.9], [-1.0, -1.0], times, scheme=dc.ElasticProjection())
    return run, dc.simulate(system, params, [0.4, 0.9], [-1.0, -1.0], times)


@pytest.mark.parametrize(("steps", "status"), [(15, dc.Status.COUPLED_IMPACTS), (701, dc.Status.OK)])
def test_impacts_that_act_on_each_other_within_a_step(steps, status):
    run, exact = _between_a_ball_and_a_wall(steps)
    assert run.status == status
    if status == dc.Status.OK:
        # Each of the six comes up to a step late or early, at relative speeds of up to 2.4 m/s.
        np.testing.assert_allclose(run.q[-1], exact.q[-1], atol=6 * 2.4 * 1.5 / steps)


def test_what_presses_on_each_other_at_rest_is_no_impact():
    pile = dc.systems.balls(3, 1, box=(0.0, jnp.inf))
    params = {"mass": jnp.array([1.0, 2.0, 5.0]), "radius": 0.1 * jnp.ones(3), "gravity": -9.81 * jnp.ones(1)}
    run = dc.simulate(
        pile,
        {**params, "restitution": 0.5},
        [0.1, 0.3, 0.5],
        jnp.zeros(3),
        np.linspace(0, 1, 51),
        scheme=dc.ElasticProjection(),
    )
    assert run.status == dc.Status.OK
    np.testing.assert_allclose(run.q[-1], [0.1, 0.3, 0.5], atol=1e-9)
    assert np.all(run.impulse[:, :1] > 0)


def test_another_consistent_acceleration():
    scheme = dc.ElasticProjection(acceleration=_shifted)
    run = dc.simulate(BALL, {"e": 0.5}, [1.0], [0.2], [0.0, 0.1], scheme=scheme)
    np.testing.assert_allclose(run.u[1, 0], 0.2 + 0.1 * (-9.81 + 0.1 * 0.2), rtol=1e-13)


def test_the_row_of_the_position_is_right_without_gravity():
    ball = dc.System(BALL.gap, lambda t, q, u, p: jnp.zeros(1), BALL.mass, BALL.restitution)

    def end(height):
        run = dc.simulate(ball, {"e": 0.8}, height[None], [-1.0], np.linspace(0, 2, 201), scheme=dc.ElasticProjection())
        return run.q[-1, 0]

    np.testing.assert_allclose(jax.jacfwd(end)(1.003), -0.8, rtol=1e-12)


@pytest.mark.parametrize(("substeps", "status"), [(1, dc.Status.TOO_COARSE), (8, dc.Status.OK)])
def test_an_oblique_impact_that_turns_by_much_within_a_step(substeps, status):
    """Discs 0.26 m apart that pass each other at 8 m/s: 0.2 m within a step of 0.025 s, far more than a quarter of the
    radius of the curve along which one moves round the other. Some of these starts double their energy."""
    discs = dc.systems.balls(2, 2)
    params = {"mass": jnp.ones(2), "radius": jnp.full(2, 0.13), "gravity": jnp.zeros(2), "restitution": 1.0}
    times = jnp.linspace(0.0, 0.5, 21)

    def one(start):
        q0 = jnp.stack([-1.0 + start, 0.18, 0.0, 0.0])
        u0 = jnp.array([8.0, 0.0, 0.0, 0.0])
        run = dc.simulate(discs, params, q0, u0, times, scheme=dc.ElasticProjection(), substeps=substeps)
        return run.status, run.u[-1] @ run.u[-1] / 64.0

    found, energy = jax.vmap(one)(jnp.linspace(0.0, 0.2, 16))
    struck = jnp.abs(energy - 1.0) > 1e-9
    assert jnp.any(struck)
    # (1 + 1/8)^2, if each of the two steps of an impact adds a share h |V| / (8 R) to the velocity at most.
    assert jnp.all(jnp.where(found == 0, jnp.abs(energy - 1.0), 0.0) < 0.27)
    assert jnp.all(jnp.where(struck, found, status) == status)


def test_forces_on_other_bodies_do_not_hide_impacts_that_act_on_each_other():
    row = dc.systems.balls(3, 1, box=(0.0, 1e9))
    system = dc.System(row.gap, lambda t, q, u, p: jnp.array([0.0, 0.0, 1e8]), row.mass, row.restitution)
    params = {"mass": np.array([1.0, 4.0, 1e3]), "radius": np.array([0.0, 0.2, 0.2]), "restitution": 1.0}
    # The two of `_between_a_ball_and_a_wall`, and a third one far away that is pushed on.
    start = [0.4, 0.9, 1e4], [-1.0, -1.0, 0.0]
    run = dc.simulate(system, params, *start, np.linspace(0, 1.5, 16), scheme=dc.ElasticProjection())
    assert run.status == dc.Status.COUPLED_IMPACTS


@pytest.mark.parametrize("e", [0.5, 1.0])
@pytest.mark.parametrize("ratio", [0.1, 0.5, 3.0])
def test_an_impact_in_steps_of_different_lengths_is_reported(e, ratio):
    """Without gravity, from steps of 0.01 s on: some of these leave ten times too fast."""
    ball = dc.System(BALL.gap, lambda t, q, u, p: jnp.zeros(1), BALL.mass, BALL.restitution)
    uneven = np.concatenate([[0.0], np.cumsum(np.tile([0.01, 0.01 * ratio], 60))])
    even_at_the_impact = np.concatenate([np.arange(0.0, 0.5, 0.01), 0.5 + 0.01 * ratio * np.arange(20)])

    def runs(times):
        def one(place):
            run = dc.simulate(ball, {"e": e}, place[None], [-1.0], times, scheme=dc.ElasticProjection())
            return run.status, run.u[-1, 0]

        return jax.vmap(one)(0.3 + 0.01 * jnp.linspace(0.05, 0.95, 10))

    status, _ = runs(uneven)
    assert np.all(status == dc.Status.UNEVEN_STEPS)
    status, leaves = runs(even_at_the_impact)
    assert np.all(status == dc.Status.OK)
    # Exact for uniform motion, two roundings of places over a step.
    np.testing.assert_allclose(leaves, e, rtol=1e-11)


def test_at_rest_steps_may_differ_in_length():
    times = np.concatenate([[0.0], np.cumsum(np.tile([0.01, 0.001, 0.03], 20))])
    run = dc.simulate(BALL, {"e": 0.9}, [0.0], [0.0], times, scheme=dc.ElasticProjection())
    assert run.status == dc.Status.OK
    np.testing.assert_allclose(run.q, 0.0, atol=1e-15)
