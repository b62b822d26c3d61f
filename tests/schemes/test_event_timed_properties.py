"""Random balls in a box: what must hold for every one of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

BALLS = 3
SYSTEM = dc.systems.balls(BALLS, 2, box=(0.0, 1.0))
TIMES = jnp.linspace(0.0, 1.0, 26)
CONTACTS = 4 * BALLS + 3


def _cases(rng, lanes):
    """Masses over two decades, each contact its own e, no gravity; three balls in three columns."""
    columns = np.array([0.2, 0.5, 0.8])
    q0 = np.stack([columns + rng.uniform(-0.03, 0.03, (lanes, 3)), rng.uniform(0.2, 0.8, (lanes, 3))], axis=2)
    return (
        jnp.asarray(10 ** rng.uniform(-1, 1, (lanes, BALLS))),
        jnp.asarray(rng.uniform(0, 1, (lanes, CONTACTS))),
        jnp.asarray(q0.reshape(lanes, 6)),
        jnp.asarray(rng.normal(size=(lanes, 6))),
    )


def _run(mass, restitution, q0, u0):
    params = {"mass": mass, "radius": jnp.full(BALLS, 0.1), "gravity": jnp.zeros(2), "restitution": restitution}
    return dc.simulate(SYSTEM, params, q0, u0, TIMES)


@pytest.mark.parametrize("lanes", [200, pytest.param(2000, marks=pytest.mark.slow)])
def test_no_penetration_no_gain_momentum_kept_and_derivatives_finite(rng, lanes):
    cases = _cases(rng, lanes)
    tangents = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), cases)

    @jax.jit
    @jax.vmap
    def solve(case, tangent):
        return jax.jvp(lambda *case: _run(*case), case, tangent)

    run, change = solve(cases, tangents)
    # A light ball that a heavy one presses against a wall rattles more often than a step resolves one by one.
    assert np.all((run.status == 0) | (run.status == dc.Status.TOO_MANY_EVENTS))
    assert np.mean(run.status == 0) > 0.9
    params = {"radius": jnp.full(BALLS, 0.1)}
    gaps = jax.vmap(jax.vmap(lambda q: SYSTEM.gap(0.0, q, params)))(run.q)
    # eps^(3/4) of lengths of order 1.
    assert np.min(gaps) >= -1e-11
    mass = np.repeat(cases[0], 2, axis=1)[:, None, :]
    energy = np.sum(mass * np.asarray(run.u) ** 2, axis=2) / 2
    assert np.max(np.diff(energy, axis=1) / energy[:, :1]) < 1e-12
    # Something is lost in nearly every lane: there were impacts.
    assert np.mean(energy[:, -1] < 0.99 * energy[:, 0]) > 0.9
    # Along both axes together: the walls' impulses, and nothing else. Low walls push up, high walls down.
    walls = np.sum(run.impulse[:, :, :6], axis=2) - np.sum(run.impulse[:, :, 6:12], axis=2)
    momentum = np.sum(mass * np.asarray(run.u), axis=2)
    np.testing.assert_allclose(np.diff(momentum, axis=1), walls, atol=1e-10)
    assert np.all(np.isfinite(change.q))
    assert np.all(np.isfinite(change.u))


@pytest.mark.slow
def test_forward_and_reverse_agree(rng):
    cases = _cases(rng, 20)

    def speeds(case):
        run = _run(*case)
        return jnp.concatenate([run.q[-1], run.u[-1]])

    tangents = jax.tree.map(lambda x: jnp.asarray(rng.normal(size=x.shape)), cases)
    weights = jnp.asarray(rng.normal(size=(20, 12)))

    @jax.jit
    @jax.vmap
    def products(case, tangent, weight):
        forward = jax.jvp(speeds, (case,), (tangent,))[1]
        (pulled,) = jax.vjp(speeds, case)[1](weight)
        return forward @ weight, sum(jnp.vdot(a, b) for a, b in zip(pulled, tangent, strict=True))

    forward, reverse = products(cases, tangents, weights)
    # Derivatives grow by an order of magnitude at each impact of a small ball: relative to the largest.
    np.testing.assert_allclose(forward, reverse, rtol=1e-9, atol=1e-12 * np.max(np.abs(forward)))
