"""How many steps are enough: by what halving them changes, and by what the run says of itself."""

import jax.numpy as jnp
import numpy as np
import pytest

from diffcontact import Status, Trajectory
from diffcontact.identify.problem.precision import enough


def runs(error, status=lambda number: Status.OK):
    """Residuals that are off by error(number)."""

    def run(number):
        still = np.zeros((3, 1))
        off = jnp.array([[0.0], [0.0], [error(number)]])
        return off, Trajectory(np.arange(3.0), still, still, np.zeros((2, 1)), jnp.asarray(status(number)))

    return run


def test_halving_must_not_change_a_tenth_of_the_noise():
    # 1/n - 1/(2n) <= 0.1 from n = 5 on.
    number, change = enough(runs(lambda n: 1 / n))
    assert number == 8
    np.testing.assert_allclose(change, 1 / 16)
    assert enough(runs(lambda n: 0.0))[0] == 1
    # Never longer steps than before.
    assert enough(runs(lambda n: 1 / n), least=32)[0] == 32


def test_where_none_is_enough_the_best_is_taken():
    number, change = enough(runs(lambda n: 100 / n))
    assert number == 64
    np.testing.assert_allclose(change, 100 / 128)
    # One that went to infinity with all numbers tells nothing.
    assert enough(runs(lambda n: np.nan)) == (1, np.inf)


@pytest.mark.parametrize(
    ("status", "number"),
    [
        (lambda n: Status.TOO_COARSE if n < 4 else Status.OK, 4),  # steps that are too long at 1 and 2 alike
        (lambda n: Status.TOO_COARSE, 1),  # nothing to be had from smaller ones
        (lambda n: Status.RESTITUTION_IGNORED, 1),
    ],
)
def test_a_status_that_smaller_steps_mend_is_mended(status, number):
    assert enough(runs(lambda n: 0.0, status))[0] == number
