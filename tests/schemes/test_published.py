"""What all published schemes have in common: transformations, precision, refusals."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

# A mass falls on a round hill beside a slope: curved and flat contact, an impact and then sliding.
HILL = dc.System(
    gap=lambda t, q, p: jnp.stack([jnp.linalg.norm(q) - p["radius"], q[1] + 0.3 * q[0] - p["level"] - 0.1 * t]),
    force=lambda t, q, u, p: jnp.array([0.3, -9.81], q.dtype) - p["drag"] * u,
    mass=lambda q, p: jnp.array([[1.0, 0.2], [0.2, 2.0]], q.dtype) + 0.1 * jnp.diag(q**2),
    restitution=lambda p: p["restitution"],
)
HILL_PARAMS = {"radius": 1.0, "level": 0.6, "drag": 0.4, "restitution": 0.0}
HILL_START = np.array([0.2, 1.02]), np.array([0.5, -0.4])

CHAIN = dc.ParticleLine(
    mass=lambda p: p["mass"],
    damping=lambda p: p["damping"] * np.eye(2),
    stiffness=lambda p: p["stiffness"] * np.array([[2.0, -1.0], [-1.0, 1.0]]),
    load=lambda t, p: jnp.stack([jnp.sin(9 * t), jnp.cos(7 * t)]),
    friction=lambda p: p["friction"],
    normal=lambda t, p: jnp.stack([2 + jnp.sin(t), 1.0]),
    percussion_times=[0.0, 0.17, 0.2, 0.2],
    percussions=lambda p: p["weights"],
    belt=lambda t, p: p["belt"] * jnp.sin(t),
)
CHAIN_PARAMS = {
    "mass": np.array([1.0, 0.6]),
    "damping": 0.3,
    "stiffness": 40.0,
    "friction": 0.3,
    "weights": np.array([0.02, 0.03, 0.01, 0.02]),
    "belt": 0.2,
}
CHAIN_START = np.array([0.1, -0.05]), np.array([0.4, 0.8])

SCHEMES = {
    "velocity": (dc.VelocityProjection(), HILL, HILL_PARAMS, HILL_START),
    "catching": (dc.CatchingUp(), HILL, HILL_PARAMS, HILL_START),
    "elastic": (dc.ElasticProjection(), HILL, {**HILL_PARAMS, "restitution": 0.4}, HILL_START),
    "percussion": (dc.PercussionFriction(), CHAIN, CHAIN_PARAMS, CHAIN_START),
}
each = pytest.mark.parametrize("name", SCHEMES)


@partial(jax.jit, static_argnames="name")
def _end(name, params, q0, u0):
    scheme, system, _, _ = SCHEMES[name]
    run = dc.simulate(system, params, q0, u0, np.linspace(0, 0.4, 21), scheme=scheme)
    return jnp.concatenate([run.q[-1], run.u[-1], jnp.sum(run.impulse, axis=0)])


@pytest.mark.full
@each
def test_forward_and_reverse_are_the_derivative_of_the_scheme_itself(name):
    _, _, params, start = SCHEMES[name]
    point = (params, *start)
    tangent = jax.tree.map(lambda x: jnp.cos(1.0 + jnp.arange(np.size(x), dtype=float)).reshape(np.shape(x)), point)
    if name in ("velocity", "catching"):
        # Restitution is refused there, and has no derivative.
        tangent[0]["restitution"] = np.zeros(())
    point = jax.tree.map(lambda x: jnp.asarray(x, float), point)
    end = partial(_end, name)
    value, forward = jax.jvp(end, point, tangent)
    cotangent = jnp.sin(1.0 + jnp.arange(value.size))
    back = jax.vjp(end, *point)[1](cotangent)
    paired = sum(jnp.vdot(a, b) for a, b in zip(jax.tree.leaves(back), jax.tree.leaves(tangent), strict=True))
    # Rounding through 20 steps and their solves.
    np.testing.assert_allclose(paired, forward @ cotangent, rtol=1e-9)

    def moved(s):
        return end(*jax.tree.map(lambda x, dx: x + s * dx, point, tangent))

    # Fourth order central differences at 1e-4: truncation and rounding about 1e-11, times derivatives of some hundreds.
    s = 1e-4
    back2, back1, here, ahead1, ahead2 = jax.vmap(moved)(s * np.arange(-2.0, 3.0))
    np.testing.assert_allclose(forward, (8 * (ahead1 - back1) - (ahead2 - back2)) / (12 * s), rtol=1e-6, atol=1e-7)
    # A lane of a batch is the run itself: the same arithmetic in another order.
    np.testing.assert_allclose(here, value, rtol=1e-9, atol=1e-10)


@pytest.mark.full
@each
def test_single_precision(name):
    scheme, system, params, start = SCHEMES[name]
    single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), (params, *start))
    run = dc.simulate(system, *single, jnp.linspace(0, 0.4, 21, dtype=jnp.float32), scheme=scheme)
    assert run.q.dtype == run.u.dtype == run.impulse.dtype == jnp.float32
    assert run.status == dc.Status.OK
    end = jnp.concatenate([run.q[-1], run.u[-1], jnp.sum(run.impulse, axis=0)])
    # 20 steps of h = 0.02; velocities are position differences over h: eps / h each.
    np.testing.assert_allclose(end, _end(name, params, *start), atol=3e-4)


@each
def test_the_other_kind_of_system_is_refused(name):
    scheme, system, _, _ = SCHEMES[name]
    _, other, params, start = SCHEMES["percussion" if system is HILL else "elastic"]
    with pytest.raises(ValueError, match=f"{type(scheme).__name__} steps a {type(system).__name__}"):
        dc.simulate(other, {**params, "restitution": 0.0}, *start, [0.0, 0.1], scheme=scheme)


@pytest.mark.full
@pytest.mark.parametrize("scheme", [dc.VelocityProjection(), dc.CatchingUp(), dc.ElasticProjection()])
def test_a_heavy_body_that_flies_elsewhere_hides_nothing(scheme):
    """Discs pass each other at 8 m/s in steps of 25 ms, 0.2 m, with their centres 0.26 m apart."""

    def status(others):
        discs, rest = dc.systems.balls(2 + others, 2), others * [0.0, 1e3]
        params = {
            "mass": np.array([1.0, 1.0] + others * [1e3]),
            "radius": np.full(2 + others, 0.13),
            "gravity": np.zeros(2),
            "restitution": 1.0 if isinstance(scheme, dc.ElasticProjection) else 0.0,
        }
        q0, u0 = [-1.0, 0.18, 0.0, 0.0, *rest], [8.0, 0.0, 0.0, 0.0, *others * [100.0, 0.0]]
        return dc.simulate(discs, params, q0, u0, np.linspace(0, 0.5, 21), scheme=scheme).status

    assert status(0) == status(1) == dc.Status.TOO_COARSE
