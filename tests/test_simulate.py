"""The outer loop: transformations, precision, breaks, steps that are found, lanes that cannot be run."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact import Status, stepping
from diffcontact.numerics.batching import side_by_side

TIMES = np.linspace(0.0, 1.0, 11)
FALL, SPEED = np.sqrt(2 / 9.81), np.sqrt(2 * 9.81)
# The end [q, u] by hand of a fall from 1 m and one bounce.
BOUNCED = [0.8 * SPEED * (1 - FALL) - 9.81 / 2 * (1 - FALL) ** 2, 0.8 * SPEED - 9.81 * (1 - FALL)]
LANES = {
    "bounces": ({}, Status.OK),
    "overlaps": ({"q0": [-0.1]}, Status.OVERLAP),
    "flies": ({"u0": [5.0]}, Status.OK),
    "e above 1": ({"e": 1.2}, Status.BAD_RESTITUTION),
    "no number": ({"gravity": np.nan}, Status.NOT_FINITE),
    "times fall": ({"times": TIMES[::-1]}, Status.BAD_TIMES),
    "infinite velocity": ({"u0": [np.inf]}, Status.NOT_FINITE),
    "ceiling below the floor": ({"ceiling": 0.5}, Status.OVERLAP),
}


def lane(model=zoo.BALL, number=np.float64, **changed):
    values = model.params | {"times": TIMES} | changed
    return {name: np.asarray(value, number) for name, value in values.items()}


def simulate(lane, **options):
    return dc.simulate(zoo.BALL.system, lane, lane["q0"], lane["u0"], lane["times"], **options)


def alone(simulated, *arguments, **options):
    """By a plain call, in numpy: each operation on an array of JAX is a program."""
    return jax.tree.map(np.asarray, simulated(*arguments, **options))


def end(run):
    return np.concatenate([run.q[-1], run.u[-1]])


@pytest.fixture(scope="module")
def bounced():
    return alone(simulate, lane())


def same(one, other, atol=1e-13):
    for name in ("t", "q", "u", "impulse"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=atol, err_msg=name)
    assert one.status == other.status == Status.OK


def test_a_plain_call_is_right(bounced):
    assert bounced.status == Status.OK
    np.testing.assert_allclose(end(bounced), BOUNCED, atol=1e-12)
    np.testing.assert_allclose(np.sum(bounced.impulse, axis=0), [1.8 * SPEED, 0.0], rtol=1e-12)


def test_lanes_are_those_of_plain_calls_and_bad_ones_disturb_none(bounced):
    batch = jax.tree.map(lambda *leaves: np.stack(leaves), *(lane(**row) for row, _ in LANES.values()))
    runs = jax.tree.map(np.asarray, jax.jit(jax.vmap(simulate))(batch))
    found = dict(zip(LANES, (Status(int(status)) for status in runs.status), strict=True))
    assert found == {name: status for name, (_, status) in LANES.items()}
    same(jax.tree.map(lambda x: x[0], runs), bounced)
    np.testing.assert_allclose([runs.q[2, -1, 0], runs.u[2, -1, 0]], [6.0 - 9.81 / 2, 5.0 - 9.81], atol=1e-12)
    for k, name in enumerate(LANES):
        # What overlaps is simulated; what else is wrong stands still.
        if runs.status[k] not in (Status.OK, Status.OVERLAP):
            np.testing.assert_array_equal(runs.q[k], np.ones((TIMES.size, 1)), err_msg=name)
            assert np.all(runs.impulse[k] == 0), name


def test_nothing_is_compiled_at_the_second_call(bounced, caplog):
    with jax.log_compiles(), caplog.at_level("WARNING"):
        simulate(lane(e=0.5))
    assert not [record for record in caplog.records if "Compiling" in record.getMessage()]


def test_steps_are_found():
    run = alone(simulate, lane(times=[0.0, 1.0]), substeps="auto", tolerance=1e-9)
    assert (run.status, run.error <= 1e-9) == (Status.OK, True)
    assert run.substeps > 1
    # Forces are constant: exact as soon as the bounce is followed.
    np.testing.assert_allclose(end(run), BOUNCED, atol=1e-12)


# A point is pushed to the right for 0.33 s, within an interval, and stays at a wall 2 m away that leans.
PUSHED = {"push": [30.0, 5.0], "until": 0.33, "normals": [[-1.0, -0.5], [1.0, 0.0], [1.0, 0.0]]}
PUSHED |= {"offset": [2.0, 1.0, 1.0], "mass": [2.0, 1.0]}


def projected(lane, **options):
    system, scheme = zoo.QUADRICS.system, dc.VelocityProjection()
    return dc.simulate(system, lane, lane["q0"], lane["u0"], lane["times"], scheme=scheme, **options)


@pytest.fixture(scope="module")
def pushed():
    return alone(projected, lane(zoo.QUADRICS, **PUSHED))


@pytest.mark.full
def test_jit_changes_nothing(pushed):
    assert np.max(pushed.impulse) > 1.0
    same(jax.jit(projected)(lane(zoo.QUADRICS, **PUSHED)), pushed)
    np.testing.assert_allclose(pushed.density * np.diff(TIMES)[:, None], pushed.impulse, rtol=1e-15)


@pytest.mark.full
def test_single_precision_stays_single(pushed):
    run = alone(projected, lane(zoo.QUADRICS, np.float32, **PUSHED))
    assert {x.dtype.name for x in (run.t, run.q, run.u, run.impulse)} == {"float32"}
    # Rounding of ten steps at some 10 m.
    same(run, pushed, atol=1e-4)


def test_an_impact_in_single_precision(bounced):
    run = alone(simulate, lane(number=np.float32))
    assert {x.dtype.name for x in (run.t, run.q, run.u, run.impulse)} == {"float32"}
    # Some ten roundings of 1e-7 of 8 m/s.
    same(run, bounced, atol=1e-5)


def test_breaks_make_a_force_exact_that_is_switched(pushed):
    far = {"offset": [90.0, 90.0, 90.0]}
    free = alone(projected, lane(zoo.QUADRICS, **PUSHED | far), breaks=[0.33, 0.5, 2.0])
    # F / m for 0.33 s.
    np.testing.assert_allclose(free.u[-1], [15.0 * 0.33, 5.0 * 0.33], rtol=1e-13)
    assert abs(alone(projected, lane(zoo.QUADRICS, **PUSHED | far)).u[-1, 0] - 15.0 * 0.33) > 0.1
    # Impulses between breaks belong to their interval: momentum is accounted for in each.
    run = alone(projected, lane(zoo.QUADRICS, **PUSHED), breaks=[0.33, 0.5, 2.0])
    assert run.impulse.shape == (10, 3)
    assert np.count_nonzero(run.impulse) > 1
    given = np.diff(np.minimum(TIMES, 0.33))[:, None] * PUSHED["push"]
    momentum = np.diff(run.u, axis=0) * PUSHED["mass"]
    np.testing.assert_allclose(momentum, given + run.impulse @ np.array(PUSHED["normals"]), atol=1e-12)


def test_inside_transformations_a_number_is_asked_for():
    with pytest.raises(ValueError, match="outside transformations"):
        jax.jit(lambda at: simulate(at, substeps="auto"))(lane())


SYSTEM = dc.systems.balls(2, 1, box=(0.0, 2.0))

PARAMS = {"mass": np.array([1.0, 2.0]), "radius": 0.1 * np.ones(2), "gravity": np.zeros(1), "restitution": 0.7}

LONGER = np.linspace(0.0, 2.0, 21)

START = np.array([0.3, 1.2]), np.array([1.5, -0.4])


@pytest.mark.full
def test_steps_are_the_same_however_they_are_counted(monkeypatch):
    """So many known when tracing, or when running; a step alone in a branch, as on a CPU, or without one."""

    def told(e, substeps, events=8):
        params, scheme = {**PARAMS, "restitution": e}, dc.EventTimed(events=events)
        run = dc.simulate(SYSTEM, params, *START, LONGER, substeps=substeps, scheme=scheme)
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
