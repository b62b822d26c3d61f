"""The outer loop: transformations, grids, refusals."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact import stepping
from diffcontact.devices import side_by_side

pytestmark = pytest.mark.full

SYSTEM = dc.systems.balls(2, 1, box=(0.0, 2.0))
PARAMS = {"mass": jnp.array([1.0, 2.0]), "radius": 0.1 * jnp.ones(2), "gravity": jnp.zeros(1), "restitution": 0.7}
TIMES = jnp.linspace(0.0, 2.0, 21)
START = jnp.array([0.3, 1.2]), jnp.array([1.5, -0.4])


def _end(params, q0, u0):
    run = dc.simulate(SYSTEM, params, q0, u0, TIMES)
    return jnp.concatenate([run.q[-1], run.u[-1]])


def test_eager_jit_and_vmap_agree():
    eager = _end(PARAMS, *START)
    np.testing.assert_allclose(jax.jit(_end)(PARAMS, *START), eager, atol=1e-14)
    shifted = START[0][None, :] + jnp.array([[0.0], [0.01], [0.3]])
    lanes = jax.vmap(_end, in_axes=(None, 0, None))(PARAMS, shifted, START[1])
    np.testing.assert_allclose(lanes[0], eager, atol=1e-13)
    for lane, q0 in zip(lanes, shifted, strict=True):
        np.testing.assert_allclose(lane, _end(PARAMS, q0, START[1]), atol=1e-13)


def test_forward_and_reverse_derivatives_agree_with_each_other_and_with_differences(rng):
    tangent = jnp.asarray(rng.normal(size=2))
    cotangent = jnp.asarray(rng.normal(size=4))
    value, forward = jax.jvp(lambda q0: _end(PARAMS, q0, START[1]), (START[0],), (tangent,))
    _, pull = jax.vjp(lambda q0: _end(PARAMS, q0, START[1]), START[0])
    np.testing.assert_allclose(cotangent @ forward, pull(cotangent)[0] @ tangent, rtol=1e-12)
    step = 1e-6
    ends = [_end(PARAMS, START[0] + sign * step * tangent, START[1]) for sign in (1, -1)]
    # Central differences: rounding 1e-16 / 1e-6 and the curvature times 1e-12.
    np.testing.assert_allclose(forward, (ends[0] - ends[1]) / (2 * step), atol=1e-8)
    assert value.shape == (4,)


def test_nothing_is_compiled_at_the_second_call(caplog):
    _end(PARAMS, *START)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        _end({**PARAMS, "restitution": 0.5}, *START)
    assert not [record for record in caplog.records if "Compiling" in record.getMessage()]


def test_impulses_account_for_the_momentum():
    run = dc.simulate(SYSTEM, PARAMS, *START, TIMES)
    assert run.impulse.shape == (20, 5)
    walls = np.asarray(run.impulse[:, 0] + run.impulse[:, 1] - run.impulse[:, 2] - run.impulse[:, 3])
    momentum = np.asarray(run.u @ PARAMS["mass"])
    np.testing.assert_allclose(np.diff(momentum), walls, atol=1e-13)
    assert np.max(np.abs(walls)) > 0.1
    np.testing.assert_allclose(run.density * np.diff(TIMES)[:, None], run.impulse, rtol=1e-15)


def test_substeps_and_uneven_grids_change_nothing_for_constant_forces():
    uneven = jnp.array([0.0, 0.13, 0.5, 0.51, 2.0])
    coarse = dc.simulate(SYSTEM, PARAMS, *START, uneven)
    fine = dc.simulate(SYSTEM, PARAMS, *START, uneven, substeps=3)
    np.testing.assert_allclose(coarse.q, fine.q, atol=1e-13)
    np.testing.assert_allclose(jnp.sum(coarse.impulse, 0), jnp.sum(fine.impulse, 0), atol=1e-12)


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


def test_a_lane_that_overlaps_is_reported_and_leaves_its_neighbours_alone():
    starts = jnp.array([[0.3, 1.2], [0.3, 0.35]])
    runs = jax.vmap(lambda q0: dc.simulate(SYSTEM, PARAMS, q0, START[1], TIMES))(starts)
    assert runs.status.tolist() == [0, dc.Status.OVERLAP]
    np.testing.assert_allclose(runs.q[0], dc.simulate(SYSTEM, PARAMS, *START, TIMES).q, atol=1e-13)
    assert np.all(np.isfinite(runs.q))


def test_a_value_that_is_not_finite_is_reported():
    system = dc.System(
        gap=lambda t, q, p: q + 10.0,
        force=lambda t, q, u, p: jnp.where(t > 0.5, jnp.nan, 0.0) * jnp.ones(1),
        mass=lambda q, p: jnp.ones(1),
        restitution=lambda p: 0.0,
    )
    assert dc.simulate(system, {}, [0.0], [0.0], [0.0, 0.4, 0.8]).status == dc.Status.NOT_FINITE


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"times": [0.0, 1.0, 1.0]}, r"times\[2\]"),
        ({"times": [0.0]}, r"times: expected shape"),
        ({"q0": [0.3, 0.35]}, r"gap\[4\] = -0.15"),
        ({"q0": [[0.3, 1.2]]}, r"q0: expected shape"),
        ({"u0": [1.0]}, r"u0: expected the shape of q0"),
        ({"u0": [jnp.inf, 0.0]}, r"u0: expected finite"),
        ({"restitution": 1.2}, r"restitution: expected within \[0, 1\], got 1.2"),
        ({"mass": jnp.array([1.0, 0.0])}, r"mass: expected positive"),
        ({"substeps": 0}, r"substeps=0"),
    ],
)
def test_bad_input_is_refused_by_name(change, message):
    call = {"q0": START[0], "u0": START[1], "times": TIMES, **PARAMS, "substeps": 1, **change}
    params = {name: call.pop(name) for name in PARAMS}
    with pytest.raises(ValueError, match=message):
        dc.simulate(SYSTEM, params, call["q0"], call["u0"], call["times"], substeps=call["substeps"])
