"""A packing of 32 spheres settles in an open box: every one of a thousand projections is solved, and solved exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from qp_problems import optimality

import diffcontact as dc
from diffcontact.system import contacts

pytestmark = pytest.mark.full
H, STEPS = 2e-3, 1000
BOX = dc.systems.balls(32, 3, box=(0.0, (0.5, 0.5, np.inf)))


def _scene(rng):
    """Four layers of eight spheres of unequal size and mass, thrown about."""
    radius = rng.uniform(0.07, 0.1, 32)
    grid = np.stack(np.meshgrid([0.12, 0.375], [0.12, 0.375], 0.12 + 0.22 * np.arange(8), indexing="ij"), axis=-1)
    gravity = np.array([0.3, 0.2, -9.81])
    params = {"mass": (radius / 0.1) ** 3, "radius": radius, "gravity": gravity, "restitution": 0.0}
    return params, grid.reshape(-1), rng.normal(size=96)


def test_a_thousand_steps(rng):
    params, q0, u0 = _scene(rng)
    run = dc.simulate(BOX, params, q0, u0, H * np.arange(STEPS + 1), scheme=dc.VelocityProjection())
    # The first status that is not OK, of all steps.
    assert int(run.status) == dc.Status.OK
    assert np.min(jax.vmap(lambda q: BOX.gap(0.0, q, params))(run.q)) > -1e-12
    ahead = jax.jit(lambda t, q: contacts(BOX, params, t, q))
    mass = BOX.mass(q0, params)
    worst, touching = 0.0, 0
    for k in range(STEPS):
        here = ahead(run.t[k + 1], run.q[k])
        free = run.u[k] + H * jnp.tile(params["gravity"], 32)
        problem = (mass, here.normals, here.gap / H, free)
        solution = dc.qp.Reaction(run.u[k + 1], run.impulse[k], None, run.status)
        worst, touching = max(worst, optimality(problem, solution)), max(touching, np.sum(run.impulse[k] > 0))
    # They have settled: most of the rows that can be active at once are.
    assert touching > 70
    assert np.max(np.abs(run.u[-1])) < 0.1
    assert worst < 1e-9
    print(f"largest optimality residual {worst:.1e}, up to {touching} contacts")
