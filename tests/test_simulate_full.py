"""The outer loop: transformations, grids, refusals."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact import stepping
from diffcontact.numerics.devices import side_by_side

pytestmark = pytest.mark.full

SYSTEM = dc.systems.balls(2, 1, box=(0.0, 2.0))
PARAMS = {"mass": jnp.array([1.0, 2.0]), "radius": 0.1 * jnp.ones(2), "gravity": jnp.zeros(1), "restitution": 0.7}
TIMES = jnp.linspace(0.0, 2.0, 21)
START = jnp.array([0.3, 1.2]), jnp.array([1.5, -0.4])


def test_steps_are_the_same_however_they_are_counted(monkeypatch):
    """So many known when tracing, or when running; a step alone in a branch, as on a CPU, or without one."""

    def told(e, substeps, events=8):
        params, scheme = {**PARAMS, "restitution": e}, dc.EventTimed(events=events)
        run = dc.simulate(SYSTEM, params, *START, TIMES, substeps=substeps, scheme=scheme)
        return jnp.concatenate([run.q.ravel(), run.u.ravel(), run.impulse.ravel()])

    for substeps in (1, 5):
        known = told(0.7, substeps)
        np.testing.assert_allclose(told(0.7, jnp.array(substeps)), known, atol=1e-13)
    # Impulses are summed on the way, and have derivatives in both modes.
    forward, weights = jax.jacfwd(told)(0.7, 5), jnp.linspace(1.0, 2.0, known.size)
    np.testing.assert_allclose(jax.grad(lambda e: told(e, 5) @ weights)(0.7), forward @ weights, rtol=1e-12)
    monkeypatch.setattr(stepping, "side_by_side", lambda: replace(side_by_side(), apart=False))
    # Another number of events is another program.
    np.testing.assert_allclose(told(0.7, 1, events=7), told(0.7, jnp.array(1)), atol=1e-13)
