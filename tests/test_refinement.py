"""Steps that are halved, and when they are fine enough: asked of motions that are made up, numpy alone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact import Status
from diffcontact.simulate import HALVINGS, change, refined
from diffcontact.trajectory import Trajectory

TIMES = np.linspace(0.0, 1.0, 5)


def _made_up(off=0.0, status=Status.OK, impulse=(0.0, 0.0, 0.0, 0.0), velocity=0.0):
    """Positions that are all `off` by so much; an impulse of each interval, and velocities."""
    q = np.full((5, 1), off)
    return Trajectory(TIMES, q, q * 0 + velocity, np.array(impulse)[:, None], np.array(status, np.int32))


def _second_order(tried, status=lambda n: Status.OK):
    def run(n):
        tried.append(n)
        return _made_up(1.0 / n**2, status(n))

    return run


@pytest.mark.parametrize(("tolerance", "steps"), [(1e-1, 8), (1e-2, 32), (1e-4, 256), (1e-6, 2048)])
def test_steps_are_halved_until_the_motion_stays(tolerance, steps):
    tried = []
    number, found = refined(_second_order(tried), tolerance)
    # From n / 2 to n steps it changes by 3 / n^2, three times what is left.
    assert tried == [2**k for k in range(len(tried))]
    assert number == tried[-1] == steps
    assert 3 / number**2 <= tolerance < 3 / (number / 2) ** 2
    np.testing.assert_allclose(found.error, 3 / number**2, rtol=1e-6)
    assert found.status == Status.OK
    assert found.q[-1, 0] == 1 / number**2


@pytest.mark.parametrize(("factor", "status"), [(0.99, Status.TOO_COARSE), (0.2, Status.TOO_COARSE), (1.01, Status.OK)])
def test_what_the_finest_steps_do_not_reach_is_told(factor, status):
    tried, finest = [], 2**HALVINGS
    number, found = refined(_second_order(tried), factor * 3 / finest**2)
    assert (number, found.status) == (finest, status)


@pytest.mark.parametrize(
    ("status", "tried"),
    [
        # Smaller steps mend what is coarse, and nothing that is wrong with the input.
        (lambda n: Status.TOO_COARSE if n < 64 else Status.OK, 64),
        (lambda n: Status.BAD_MASS, 1),
        (lambda n: Status.OVERLAP, 1),
    ],
    ids=["coarse", "no mass", "overlap"],
)
def test_what_smaller_steps_cannot_mend_ends_the_search(status, tried):
    number, found = refined(_second_order([], status), 1e-1)
    assert (number, found.status) == (tried, status(tried))


def test_an_impact_on_an_output_time_is_no_change_of_the_velocity():
    """In one of two runs its impulse belongs to the interval before, in the other one to that after."""
    before, after = _made_up(impulse=[0, 2, 0, 0]), _made_up(impulse=[0, 0, 2, 0])
    before.u[2], after.u[2] = 1.0, -1.0
    assert change(before, after) == 0.0
    # At another time, or with impulses that differ, velocities count.
    before.u[3] = 0.5
    assert change(before, after) == 0.5
    assert change(_made_up(impulse=[0, 2, 0, 0]), _made_up(impulse=[0, 0, 1, 0], velocity=3.0)) == 3.0
    assert change(_made_up(), _made_up(np.nan)) == np.inf


@pytest.mark.full
def test_the_error_is_one():
    # Second order: the change of the last halving is three times what is left, so the true error is below it.
    spring = zoo.system(gap=lambda t, q, p: q + 5.0, force=lambda t, q, u, p: -4 * q, restitution=0.5)
    run = dc.simulate(spring, None, [1.0], [0.0], [0.0, 1.5, 3.0], substeps="auto", tolerance=1e-4)
    assert run.status == 0
    miss = np.max(np.abs(np.concatenate([run.q[:, 0] - np.cos(2 * run.t), run.u[:, 0] + 2 * np.sin(2 * run.t)])))
    assert 0 < miss <= run.error <= 1e-4


CONTROLLED = zoo.system(
    gap=lambda t, q, p: q + 50.0,
    force=lambda t, q, u, p: p["U"][jnp.clip((t * 10).astype(int), 0, 9)] * jnp.ones(1),
    restitution=0.5,
)

CONTROL = np.array([1.0, -3.0, 2.0, 5.0, -4.0, 0.0, 1.0, 1.0, 2.0, 3.0])


@pytest.mark.full
@pytest.mark.parametrize("times", [np.linspace(0, 1, 11), np.array([0.0, 0.37, 1.0])])
def test_breaks_make_a_switched_force_exact(times):
    def end(control):
        run = dc.simulate(CONTROLLED, {"U": control}, [0.0], [0.0], times, breaks=np.arange(11) / 10)
        return jnp.concatenate([run.q[-1], run.u[-1]]), run

    (state, run), jacobian = jax.jit(lambda u: (end(u), jax.jacrev(lambda u: end(u)[0])(u)))(CONTROL)
    # u = sum U / 10; q = sum of U / 10 times the time left from the middle of its piece.
    left = 0.95 - 0.1 * np.arange(10)
    np.testing.assert_allclose(state, [np.sum(CONTROL * left) / 10, np.sum(CONTROL) / 10], atol=1e-14)
    np.testing.assert_allclose(jacobian, np.stack([left / 10, np.full(10, 0.1)]), atol=1e-14)
    assert run.impulse.shape == (times.size - 1, 1)
    assert run.status == 0
