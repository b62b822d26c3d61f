import convergence
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import closed_form

import diffcontact as dc
from diffcontact.system import contacts

pytestmark = pytest.mark.full

SWELLING = closed_form.growing_spheres(3, [], np.zeros(21), 1.0, 0.0, "three growing spheres")
H = 0.02


@jax.jit
def _swell(params, q0, u0):
    """The run, its gaps, and the contacts at (t', q) that each step projected on."""
    run = dc.simulate(SWELLING.system, params, q0, u0, H * jnp.arange(41), scheme=dc.VelocityProjection())
    gaps = jax.vmap(lambda t, q: SWELLING.system.gap(t, q, params))(run.t, run.q)
    ahead = jax.vmap(lambda t, q: contacts(SWELLING.system, params, t, q))(run.t[1:], run.q[:-1])
    return run, gaps, ahead


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_growing_spheres_are_feasible_and_in_balance(seed):
    rng = np.random.default_rng(seed)
    corners = np.array([[0, 0], [1, 0], [0.4, 0.9]])
    q0 = (corners + rng.uniform(-0.05, 0.05, (3, 2))).ravel()
    u0 = (1.5 * (corners.mean(axis=0) - corners) + rng.uniform(-0.5, 0.5, (3, 2))).ravel()
    params = {"mass": rng.uniform(0.5, 4, 3), "radius": rng.uniform(0.2, 0.3, 3), "rate": rng.uniform(0, 0.3, 3)}
    run, gaps, ahead = _swell(params, q0, u0)
    assert run.status == dc.Status.OK
    assert np.any(run.impulse > 0)
    # Proposition 2.1: gaps are convex in q, so what the linear constraints admit is feasible; rounding of sizes of 1.
    assert np.min(gaps) >= -1e-12
    # (15), with the gradients at (t', q).
    jump = np.repeat(params["mass"], 2) * np.diff(run.u, axis=0)
    np.testing.assert_allclose(jump, np.einsum("nci,nc->ni", ahead.normals, run.impulse), atol=1e-12)
    assert np.all(run.impulse >= 0)
    linear = ahead.gap + H * np.einsum("nci,ni->nc", ahead.normals, run.u[1:])
    np.testing.assert_allclose(run.impulse * linear, 0.0, atol=1e-12)
    np.testing.assert_allclose(np.diff(run.q, axis=0), H * run.u[1:], atol=1e-14)


def test_the_mean_force_is_exact_for_forces_affine_in_time():
    system = dc.System(
        gap=lambda t, q, p: q + 10.0,
        force=lambda t, q, u, p: (1.0 + 3.0 * t) * jnp.ones(1),
        mass=lambda q, p: jnp.array([2.0]),
        restitution=lambda p: 0.0,
    )
    run = dc.simulate(system, {}, [0.0], [0.0], [0.0, 0.3, 1.0], scheme=dc.VelocityProjection())
    np.testing.assert_allclose(run.u[:, 0], (run.t + 1.5 * run.t**2) / 2, rtol=1e-14)


def test_total_variation_stays_bounded():
    coarse, fine = convergence.trajectories(convergence.balls_in_box(3, 0.0), dc.VelocityProjection(), (50, 200))
    # Proposition 2.4: a velocity that chattered would have four times the variation with four times the steps.
    assert convergence.total_variation(fine.u) < 1.3 * convergence.total_variation(coarse.u)


def _round(inside):
    sign = -1.0 if inside else 1.0
    return dc.System(
        gap=lambda t, q, p: sign * (jnp.linalg.norm(q)[None] - 1.0),
        force=lambda t, q, u, p: jnp.zeros(2),
        mass=lambda q, p: jnp.ones(2),
        restitution=lambda p: 0.0,
    )


@pytest.mark.parametrize(
    ("h", "status"), [(10.0, dc.Status.TOO_COARSE), (2.0, dc.Status.TOO_COARSE), (1.0, dc.Status.OK)]
)
def test_a_step_so_long_that_it_meets_what_it_passes_by_is_reported(h, status):
    times = np.arange(0.0, 20.1, h)
    run = dc.simulate(_round(False), {}, [-10.0, 1.5], [1.0, 0.0], times, scheme=dc.VelocityProjection())
    assert run.status == status
    if status == dc.Status.OK:
        np.testing.assert_allclose(run.q[-1], [10.0, 1.5], rtol=1e-14)


@pytest.mark.parametrize(
    ("h", "status"), [(2.0, dc.Status.TOO_COARSE), (0.3, dc.Status.TOO_COARSE), (0.2, dc.Status.OK)]
)
def test_a_step_so_long_that_it_leaves_a_bowl_is_reported(h, status):
    # Along the wall at 1 m/s, radius 1 m. The tangent in the first place never acts.
    run = dc.simulate(_round(True), {}, [0.0, -1.0], [1.0, 0.0], [0.0, h], scheme=dc.VelocityProjection())
    assert run.status == status
