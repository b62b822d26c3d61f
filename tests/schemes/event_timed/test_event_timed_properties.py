"""Random balls in a box: what must hold for every one of them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import diffcontact as dc

pytestmark = pytest.mark.full

BALLS, D, CONTACTS = 3, 6, 15
BOX = dc.systems.balls(BALLS, 2, box=(0.0, 1.0))
RADII = {"radius": jnp.full(BALLS, 0.1)}
# Each contact has its own e, and the mass matrix is any positive definite one: all balls move when one is pushed.
SYSTEM = zoo.system(
    gap=lambda t, q, p: BOX.gap(t, q, RADII),
    mass=lambda q, p: p["root"] @ p["root"].T,
    restitution=lambda p: p["restitution"],
)
TIMES = jnp.linspace(0.0, 1.0, 26)


def _numbers(shape, low, high):
    return arrays(np.float64, shape, elements=st.floats(low, high, allow_subnormal=False))


CASES = st.fixed_dictionaries(
    {
        # Condition numbers of M up to a few thousand.
        "root": _numbers((D, D), -0.3, 0.3).map(lambda x: np.tril(x, -1) + np.diag(10 ** (3 * np.diag(x)))),
        "restitution": _numbers(CONTACTS, 0.0, 1.0),
        # In three columns, so that none overlap.
        "q0": _numbers((BALLS, 2), -1.0, 1.0).map(
            lambda x: np.stack([np.array([0.2, 0.5, 0.8]) + 0.05 * x[:, 0], 0.5 + 0.3 * x[:, 1]], axis=1).ravel()
        ),
        "u0": _numbers(D, -2.0, 2.0),
    }
)


def _run(case):
    return dc.simulate(SYSTEM, case, case["q0"], case["u0"], TIMES)


@jax.jit
def _forward(case, tangent):
    """The run, how it changes, and its gaps."""
    run, change = jax.jvp(_run, (case,), (tangent,))
    return run, change, jax.vmap(lambda q: SYSTEM.gap(0.0, q, case))(run.q)


@jax.jit
def _both_modes(case, tangent, weight):
    """weight^T (d end / d case) tangent, forward and in reverse, and the status."""

    def end(case):
        run = _run(case)
        return jnp.concatenate([run.q[-1], run.u[-1]]), run.status

    _, forward, status = jax.jvp(end, (case,), (tangent,), has_aux=True)
    _, pull, _ = jax.vjp(end, case, has_aux=True)
    (pulled,) = pull(weight)
    back = sum(jnp.vdot(pulled[name], tangent[name]) for name in tangent)
    return forward @ weight, back, status


def _tangent(case, seed):
    rng = np.random.default_rng(seed)
    return {name: rng.normal(size=x.shape) for name, x in case.items()}


def _holds(case, seed):
    run, change, gaps = _forward(case, _tangent(case, seed))
    # A ball that heavier ones press against a wall may rattle more often than a step resolves one by one, and is struck
    # again before it is known to lie still.
    assert run.status in (dc.Status.OK, dc.Status.TOO_MANY_EVENTS, dc.Status.TOO_COARSE)
    # eps^(3/4) of lengths of order 1.
    assert np.min(gaps) >= -1e-11
    mass = case["root"] @ case["root"].T
    u = np.asarray(run.u)
    energy = np.sum(u * (u @ mass), axis=1) / 2
    assert np.max(np.diff(energy)) <= 1e-12 * energy[0] + 1e-300
    # Along both axes together: the walls' impulses, and nothing else. Low walls push up, high walls down.
    walls = np.sum(run.impulse[:, :6], axis=1) - np.sum(run.impulse[:, 6:12], axis=1)
    momentum = np.sum(u @ mass, axis=1)
    np.testing.assert_allclose(np.diff(momentum), walls, atol=1e-11 * (1 + np.max(np.abs(momentum))))
    assert np.all(np.isfinite(change.q))
    assert np.all(np.isfinite(change.u))


@settings(max_examples=3000, deadline=None, derandomize=True, database=None)
@given(CASES, st.integers(0, 2**31))
def test_no_penetration_no_gain_momentum_kept_and_derivatives_finite(case, seed):
    _holds(case, seed)


def _generic(rng):
    """A case without ties: there, programs that round differently may take different one-sided derivatives."""
    root = np.tril(rng.uniform(-0.3, 0.3, (D, D)), -1) + np.diag(10 ** rng.uniform(-1, 1, D))
    q0 = np.stack([np.array([0.2, 0.5, 0.8]) + rng.uniform(-0.05, 0.05, 3), rng.uniform(0.2, 0.8, 3)], axis=1)
    return {
        "root": root,
        "restitution": rng.uniform(0, 1, CONTACTS),
        "q0": q0.ravel(),
        "u0": rng.uniform(-2, 2, D),
    }


@settings(max_examples=500, deadline=None, derandomize=True, database=None)
@given(st.integers(0, 2**31))
def test_forward_and_reverse_agree(seed):
    rng = np.random.default_rng(seed)
    case, weight = _generic(rng), rng.normal(size=2 * D)
    tangent, eps = _tangent(case, seed + 1), np.finfo(float).eps
    forward, back, status = _both_modes(case, tangent, weight)
    # What rattles more often than a step resolves is told, and its derivative hangs on rounding.
    assume(status == 0)
    # Two programs round differently, and balls that rattle between heavier ones multiply that. By how much, forward
    # mode itself tells: from starts that differ by a rounding.
    near = [{**case, "q0": case["q0"] * (1 + eps * rng.choice([-2, -1, 1, 2], D))} for _ in range(5)]
    spread = np.ptp([forward, *(_both_modes(one, tangent, weight)[0] for one in near)])
    np.testing.assert_allclose(forward, back, rtol=1e-12, atol=1e-12 * np.linalg.norm(weight) + 30 * spread)
