"""Balls with a cell list: the same motion and derivative as with all pairs, and nothing dropped silently."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full

COUNT = 12
BOX = (0.0, 1.6)
PAIRS = dc.systems.balls(COUNT, 2, box=BOX)
LISTED = dc.systems.balls(COUNT, 2, box=BOX, cell=0.25)
TIMES = jnp.linspace(0.0, 0.5, 51)
SCHEME = dc.VelocityProjection()


def _start(seed):
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(4), np.arange(3), indexing="ij"), axis=-1).reshape(-1, 2)
    place = 0.2 + 0.32 * grid + 0.03 * rng.normal(size=grid.shape)
    params = {
        "mass": jnp.asarray(rng.uniform(1.0, 2.0, COUNT)),
        "radius": jnp.asarray(rng.uniform(0.08, 0.12, COUNT)),
        "gravity": jnp.array([0.0, -9.81]),
        "restitution": 0.0,
    }
    return params, jnp.asarray(place.ravel()), jnp.asarray(0.5 * rng.normal(size=2 * COUNT))


def test_impacts_at_their_own_times_are_those_of_all_pairs():
    params, q0, u0 = _start(3)
    params["gravity"] = jnp.zeros(2)

    def end(system):
        def of(restitution):
            run = dc.simulate(system, params | {"restitution": restitution}, q0, u0, TIMES)
            return jnp.concatenate([run.q[-1], run.u[-1]]), run.impulse

        return of

    (dense, impulse), (ddense, _) = jax.jvp(end(PAIRS), (0.8,), (1.0,))
    (listed, share), (dlisted, _) = jax.jvp(end(LISTED), (0.8,), (1.0,))
    assert np.count_nonzero(np.asarray(impulse) > 0) > 5
    # The same algorithm on fewer contacts: rounding, multiplied by each impact of round bodies.
    np.testing.assert_allclose(listed, dense, atol=1e-9)
    np.testing.assert_allclose(dlisted, ddense, atol=1e-8)
    assert share.shape == (TIMES.size - 1, COUNT)


def test_a_list_that_is_too_short_is_told_and_the_run_repeated():
    params, q0, u0 = _start(0)
    short = replace(LISTED, per_ball=1)
    inside = jax.jit(lambda q0: dc.simulate(short, params, q0, u0, TIMES, scheme=SCHEME))(q0)
    assert inside.status == Status.NEIGHBOURS_FULL
    outside = dc.simulate(short, params, q0, u0, TIMES, scheme=SCHEME)
    assert outside.status == Status.OK
    np.testing.assert_allclose(outside.q, dc.simulate(LISTED, params, q0, u0, TIMES, scheme=SCHEME).q, atol=1e-5)


def test_a_ball_that_becomes_faster_than_was_thought_is_told():
    # Squeezed out between two heavy balls that close on it like a wedge.
    listed = replace(dc.systems.balls(3, 2, cell=2.1), stretch=0.1)
    params = {"mass": jnp.array([1e3, 1e3, 1.0]), "radius": jnp.array([1.0, 1.0, 0.1]), "gravity": jnp.zeros(2)}
    params["restitution"] = 0.0
    q0, u0 = jnp.array([-1.05, 0.0, 1.05, 0.0, 0.0, 0.4]), jnp.array([1.0, 0.0, -1.0, 0.0, 0.0, 0.0])
    times = jnp.linspace(0.0, 0.02, 3)
    run = jax.jit(lambda q0: dc.simulate(listed, params, q0, u0, times, scheme=SCHEME))(q0)
    assert run.status == Status.NEIGHBOURS_MISSED
    assert dc.simulate(listed, params, q0, u0, times, scheme=SCHEME).status == Status.OK


def test_places_and_reach_grow_each_for_its_own_reason():
    # With a longer reach more balls are near, and cells, which are as wide, hold more: both at once would never end.
    params, q0, u0 = _start(0)
    ways = [
        jax.jit(lambda u0, listed=listed: listed.neighbours(params, 0.0, 0.01, q0, u0).way)(u0)
        for listed in (LISTED, LISTED.larger(), LISTED.larger(Status.NEIGHBOURS_MISSED))
    ]
    assert LISTED.larger().room == 2 * LISTED.room
    assert LISTED.larger(Status.NEIGHBOURS_MISSED).per_ball == LISTED.per_ball
    assert LISTED.larger(Status.TOO_COARSE) is None
    # Twice but for the allowance for rounding.
    np.testing.assert_allclose(np.array(ways) / ways[0], [1.0, 1.0, 2.0], rtol=1e-2)


@pytest.mark.parametrize("scheme", [SCHEME, dc.ElasticProjection()])
def test_a_ball_that_has_nothing_to_meet(scheme):
    alone = {"mass": jnp.ones(1), "radius": jnp.ones(1), "gravity": jnp.array([0.0, -1.0]), "restitution": 0.0}
    run = dc.simulate(dc.systems.balls(1, 2, cell=2.0), alone, [0.0, 0.0], [1.0, 0.0], [0.0, 0.5, 1.0], scheme=scheme)
    assert run.status == Status.OK
    assert run.impulse.shape == (2, 1)
    np.testing.assert_allclose(run.u[-1], [1.0, -1.0], rtol=1e-15)


def test_bad_input_is_refused_by_name():
    params, q0, u0 = _start(0)
    with pytest.raises(ValueError, match=r"cell=-1\.0"):
        dc.systems.balls(2, 2, cell=-1.0)
    with pytest.raises(ValueError, match="largest diameter"):
        dc.simulate(dc.systems.balls(COUNT, 2, box=BOX, cell=0.1), params, q0, u0, TIMES, scheme=SCHEME)
    with pytest.raises(ValueError, match="ball 0 overlaps ball 1"):
        dc.simulate(LISTED, params, q0.at[:2].set(q0[2:4] + 0.01), u0, TIMES, scheme=SCHEME)
    with pytest.raises(ValueError, match="restitution"):
        dc.simulate(LISTED, params | {"restitution": jnp.zeros(COUNT)}, q0, u0, TIMES, scheme=SCHEME)
    with pytest.raises(ValueError, match="VelocityProjection is for restitution 0"):
        dc.simulate(LISTED, params | {"restitution": 0.5}, q0, u0, TIMES, scheme=SCHEME)


def test_a_run_goes_on_from_where_another_one_ended():
    """What the solver leaves of overlaps, 1e-7 radii, is no overlap to begin with; 1e-5 radii are."""
    system = dc.systems.balls(27, 3, box=((0.0, 0.0, 0.0), (0.7, 0.7, jnp.inf)), cell=0.22)
    params = {"mass": jnp.ones(27), "radius": jnp.full(27, 0.1), "gravity": jnp.array([0.0, 0.0, -9.81])}
    params["restitution"] = 0.0
    grid = 0.11 + 0.22 * np.stack(np.meshgrid(*3 * [np.arange(3)], indexing="ij"), axis=-1).reshape(-1)
    speed = 0.3 * np.random.default_rng(0).normal(size=81)
    run = partial(dc.simulate, system, params, scheme=dc.VelocityProjection())
    settled = run(grid, speed, np.linspace(0.0, 1.0, 201))
    assert settled.status == 0
    assert run(settled.q[-1], settled.u[-1], np.linspace(0.0, 0.1, 11)).status == 0
    lower = settled.q[-1].at[2::3].add(-1e-6)
    with pytest.raises(ValueError, match=r"overlaps side 2 of the box by 1\.?0?\d*e-06$|by 9\.\d*e-07$"):
        run(lower, settled.u[-1], np.linspace(0.0, 0.1, 11))


def test_in_single_precision_what_settles_is_solved():
    """Ten balls fall into a box: behind an impact one contact's multiplier is found, then those of its neighbours.

    Conjugate gradients went on along the direction of the first, stretched by rounding over rounding, and ended at
    their limit in one step of twenty.
    """
    system, low = dc.systems.balls(10, 3, box=(0.0, 1.0), cell=0.22), np.float32(0)
    params = {"mass": np.ones(10), "radius": np.full(10, 0.1), "gravity": np.array([0.0, 0.0, -9.81])}
    params = {name: np.float32(x) for name, x in params.items()} | {"restitution": low}
    grid = np.array([[x, y, z] for z in (0.15, 0.4, 0.65) for x in (0.25, 0.75) for y in (0.25, 0.75)])[:10]
    rng, times = np.random.default_rng(0), np.float32(5e-3 * np.arange(201))
    for _ in range(6):
        start = np.float32(grid + rng.uniform(-0.02, 0.02, (10, 3))).ravel(), rng.normal(size=30).astype(np.float32)
        settled = dc.simulate(system, params, *start, times, scheme=dc.VelocityProjection())
        assert settled.q.dtype == np.float32
        assert settled.status == 0


@pytest.mark.parametrize(
    ("name", "functions"),
    [
        ("gap", {"gap": lambda t, q, params: q.reshape(-1, 2)[:, 1]}),
        ("restitution", {"restitution": lambda params: 0.3}),
        ("normals", {"normals": PAIRS.normals}),
        ("advance", {"rate": lambda q, u, params: u, "advance": lambda q, u, s, params: q + s * u}),
        ("friction", {"slip": None, "tangents": None, "friction": None, "tangential_restitution": None}),
    ],
)
def test_functions_that_a_list_would_not_follow_are_refused(name, functions):
    listed = dc.systems.balls(COUNT, 2, box=BOX, cell=0.25, spin=name == "friction")
    with pytest.raises(ValueError, match=rf"balls\(cell=\.\.\.\): expected its own {name}, which the contacts"):
        replace(listed, **functions)
