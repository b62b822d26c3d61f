import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.hypotheses import velocity_bound
from diffcontact.schemes.line import percussion

pytestmark = pytest.mark.full

SCHEME = dc.PercussionFriction()


def line(*times):
    """Two particles of 1 and 2 kg, each on its own spring; percussions at the given times, all else from params."""
    return dc.ParticleLine(
        mass=lambda p: jnp.array([1.0, 2.0]),
        damping=lambda p: jnp.zeros((2, 2)),
        stiffness=lambda p: p["stiffness"] * jnp.eye(2),
        load=lambda t, p: p["load"] * jnp.array([1.0, -1.0]) * jnp.cos(5 * t),
        friction=lambda p: p["gamma"],
        normal=lambda t, p: p["normal"] * jnp.ones(2),
        percussion_times=times,
        percussions=lambda p: p["weights"],
        belt=lambda t, p: p["belt"],
    )


FREE, STRUCK = line(), line(0.02, 0.05, 0.11)


def params(gamma=0.2, stiffness=0.0, weights=(), normal=10.0, load=0.0, belt=0.0):
    return {
        "gamma": gamma,
        "stiffness": stiffness,
        "weights": np.array(weights, float),
        "normal": normal,
        "load": load,
        "belt": belt,
    }


def test_percussion_solves_its_inclusion():
    u = jnp.array([0.9, 0.35])
    after, impulse = percussion(FREE, params(belt=0.3), 0.1, 0.1, u)
    np.testing.assert_allclose(jnp.array([1.0, 2.0]) * (after - u), impulse, atol=1e-15)
    # a gamma nu = 0.2: the first slips on (1 kg at 0.6 m/s), the second sticks to the belt (2 kg at 0.05 m/s).
    np.testing.assert_allclose(impulse, [-0.2, -0.1], atol=1e-15)
    np.testing.assert_allclose(after[1], 0.3, atol=1e-15)


def test_a_percussion_without_weight_leaves_the_derivative_alone():
    jacobian = jax.jacfwd(lambda u: percussion(FREE, params(), 0.1, 0.0, u)[0])(jnp.zeros(2))
    np.testing.assert_array_equal(jacobian, np.eye(2))


def test_stable_for_any_step():
    values = params(gamma=0.0, stiffness=1e6)
    run = dc.simulate(FREE, values, [1.0, -1.0], [0.0, 0.0], np.linspace(0, 100, 21), scheme=SCHEME)
    energy = 1e6 * np.sum(run.q**2, axis=1) + run.u**2 @ np.array([1.0, 2.0])
    # Implicit Euler dissipates; h is five thousand times the period.
    assert np.all(np.diff(energy) <= 0)


@pytest.mark.parametrize("seed", range(3))
def test_the_estimate_of_the_velocity_holds(seed):
    rng = np.random.default_rng(seed)
    values = params(
        rng.uniform(0, 1), rng.uniform(5, 40), rng.uniform(0, 0.1, 3), rng.uniform(1, 10), rng.uniform(0, 5)
    )
    q0, u0 = jnp.asarray(rng.normal(0, 0.3, 2)), jnp.asarray(rng.normal(0, 1, 2))
    estimate = velocity_bound(STRUCK, values, 0.0, q0, u0, 0.12)
    assert np.isfinite(estimate.bound)
    run = dc.simulate(STRUCK, values, q0, u0, np.linspace(0, 0.12, 25), scheme=SCHEME)
    assert np.max(np.linalg.norm(run.u, axis=1)) <= estimate.bound
