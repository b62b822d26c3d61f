"""Balls: the order of the gaps, and gradients where centres coincide."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.qp.rows import BodyRows, dense, switched
from diffcontact.status import Status
from diffcontact.system import System


def test_gaps_are_ordered_low_walls_high_walls_pairs():
    system = dc.systems.balls(3, 2, box=((0.0, -1.0), (2.0, 3.0)))
    q = np.array([0.5, 0.0, 1.0, 1.0, 1.5, 2.0])
    params = {"radius": np.array([0.1, 0.2, 0.3])}
    low = [0.4, 0.9, 0.8, 1.8, 1.2, 2.7]
    high = [1.4, 2.9, 0.8, 1.8, 0.2, 0.7]
    pairs = [np.sqrt(1.25) - 0.3, np.sqrt(5.0) - 0.4, np.sqrt(1.25) - 0.5]
    np.testing.assert_allclose(jax.jit(system.gap)(0.0, q, params), [*low, *high, *pairs], atol=1e-15)


def test_equal_arguments_return_the_same_system():
    assert dc.systems.balls(2, 2, box=(0.0, 1.0)) is dc.systems.balls(2, 2, box=([0.0, 0.0], [1.0, 1.0]))
    assert dc.systems.carts() is dc.systems.carts()


def test_gradients_are_finite_where_centres_coincide():
    system = dc.systems.balls(2, 2)
    jacobian = jax.jit(jax.jacrev(system.gap, argnums=1))(0.0, np.zeros(4), {"radius": np.ones(2)})
    assert np.all(np.isfinite(jacobian))


WALLED = pytest.mark.parametrize(
    ("count", "dimension", "box", "more"),
    [
        (4, 2, ((0.0, -1.0), (np.inf, 3.0)), {}),
        (5, 3, None, {}),
        (
            4,
            2,
            lambda t, params: (t, 9.0),
            {"planes": lambda t, params: ([[0.6, 0.8], [0.0, 1.0]], [0, t]), "fixed": 2},
        ),
    ],
)


def _somewhere(count, dimension, box, more):
    """The system, and places and params of its balls."""
    rng = np.random.default_rng(0)
    q = rng.normal(size=count * dimension)
    params = {"radius": np.full(count, 0.1), "fixed_radius": np.ones(2), "fixed_centre": rng.normal(size=(2, 2))}
    return dc.systems.balls(count, dimension, box=box, **more), q, params


@WALLED
def test_the_sparse_normals_are_the_gradients_of_the_gaps(count, dimension, box, more):
    system, q, params = _somewhere(count, dimension, box, more)

    @jax.jit
    def both(t, q, params):
        return dense(system.normals(t, q, params)), jax.jacfwd(system.gap, argnums=1)(t, q, params)

    np.testing.assert_allclose(*both(0.3, q, params), atol=1e-15)


@pytest.mark.full
def test_gaps_that_are_replaced_with_their_gradients_are_those_that_act():
    """The first two of four balls pass through each other, and a fifth wall, which is one twice, stops the last one."""
    balls, off = dc.systems.balls(4, 1, box=(0.0, 10.0)), np.arange(14) == 8

    def gap(t, q, params):
        gaps = jnp.where(off, jnp.inf, balls.gap(t, q, params))
        return jnp.append(gaps, gaps[7])

    def normals(t, q, params):
        rows = switched(balls.normals(t, q, params), ~off)
        again = [jnp.concatenate([x, x[7:8]]) for x in (rows.bodies, rows.normals)]
        return BodyRows(*again, rows.count)

    system = replace(balls, gap=gap, normals=normals)
    params = {"mass": np.ones(4), "radius": np.full(4, 0.1), "gravity": np.zeros(1), "restitution": 0.0}
    times = np.linspace(0.0, 2.0, 201)
    run = dc.simulate(system, params, [1.0, 2.0, 5.0, 8.9], [1.0, 0, 0, 2.0], times, scheme=dc.VelocityProjection())
    np.testing.assert_allclose(run.q[-1], [3.0, 2.0, 5.0, 9.9], atol=1e-12)
    assert run.status == 0


@pytest.mark.full
@pytest.mark.parametrize("scheme", [dc.VelocityProjection(), dc.ElasticProjection(), dc.CatchingUp()])
@pytest.mark.parametrize("count", [1, 4])
def test_replaced_gaps_are_not_taken_for_convex_ones(count, scheme):
    """A spike, 0.2 m high and a twentieth wide, is between two places of a ball that flies through it in one step."""

    def spike(t, q, params):
        x, y = q.reshape(-1, 2).T
        return y - 0.2 * jnp.exp(-((x / 0.05) ** 2))

    system = replace(dc.systems.balls(count, 2), gap=spike, normals=None)
    params = {"mass": np.ones(count), "radius": np.ones(count), "gravity": np.zeros(2), "restitution": 0.0}
    q0, u0 = np.tile([-0.5, 0.1], count), np.tile([1.0, 0.0], count)
    run = dc.simulate(system, params, q0, u0, np.linspace(0.0, 1.0, 6), scheme=scheme)
    assert run.status == Status.TOO_COARSE


@pytest.mark.full
@WALLED
def test_gaps_are_rounded_as_their_terms_are(count, dimension, box, more):
    """|grad g| |q| + |g|, and as much for the fixed balls, whose places are subtracted, too."""
    system, q, params = _somewhere(count, dimension, box, more)
    gap, rows = system.linearised(params, 0.0, q)
    expected = System.terms(system, params, 0.0, q, gap, rows)
    if system.surfaces.fixed:
        _, second, direction = system.surfaces.facing(0.0, q, params)
        met = (second >= count) & (second < count + 2)
        centre = np.abs(params["fixed_centre"])[np.where(met, second - count, 0)]
        expected += np.where(met, np.sum(np.abs(direction) * centre, axis=1), 0)
    np.testing.assert_allclose(system.terms(params, 0.0, q, gap, rows), expected, rtol=1e-14)


@pytest.mark.parametrize("call", [{"count": 0}, {"dimension": 0}, {"box": (1.0, 0.0)}, {"box": ((0, 0, 0), (1, 1, 1))}])
def test_bad_input_is_refused_by_name(call):
    with pytest.raises(ValueError, match=next(iter(call))):
        dc.systems.balls(**{"count": 1, "dimension": 2, **call})


@pytest.mark.full
def test_rows_of_balls_that_just_fit_in_single_precision():
    """Five fit exactly from wall to wall: rounding makes their rows contradict each other, and nothing is lost."""
    count, h = 64, np.float32(2e-3)
    system = dc.systems.balls(count, 3, box=(0.0, 1.0))
    ones = jnp.ones(count, np.float32)
    params = {"mass": ones, "radius": 0.1 * ones, "gravity": np.array([0, 0, -9.81], np.float32), "restitution": 0.0}
    heights, *across = np.meshgrid(*[np.linspace(0.12, 0.88, 4)] * 3, indexing="ij")
    q0 = np.stack([*across, heights], -1).ravel().astype(np.float32)
    u0 = np.random.default_rng(0).normal(size=(8, q0.size)).astype(np.float32)
    times = h * np.arange(201, dtype=np.float32)

    def run(u0):
        path = dc.simulate(system, params, q0, u0, times, scheme=dc.VelocityProjection())
        return path.status, jnp.min(jax.vmap(lambda q: system.gap(0.0, q, params))(path.q))

    status, gap = jax.jit(lambda lanes: jax.lax.map(run, lanes))(u0[:4])
    assert np.all(status == 0)
    assert np.min(gap) > -1e-4 * 0.1
