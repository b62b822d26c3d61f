"""Functions that return NaN are named before a search begins; those that do so only at the start have a chance."""

import jax.numpy as jnp
import numpy as np
import pytest
from falling import FALLING, SCHEME, TIMES, positions, start_of

from diffcontact.identify import Interval, Observations, Problem, Real, fit

pytestmark = pytest.mark.full

SEEN = (0.4 * TIMES - 9.81 * TIMES**2 / 2)[:, None] + 1e-2 * np.random.default_rng(4).normal(size=(41, 1))


def run(observe=positions, initial=start_of, clock=None, values=SEEN, per_run=()):
    return Problem(FALLING, Observations(TIMES, values, 1e-2, observe), initial, SCHEME, 1, per_run, clock)


def fitted(problem, free=None, **options):
    return fit(problem, {"g": 9.0, "u0": [0.0], "s": -1.0}, free or {"g": Real(), "u0": Real()}, **options)


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (
            lambda: run(initial=lambda p: (jnp.zeros(1), p["u0"] * jnp.nan)),
            r"^Problem\(initial\): returned nan in entry 0 of u0; expected finite numbers$",
        ),
        (
            lambda: run(lambda x, p: x.q / (0.0 * p["g"])),
            r"^Observations\(observe\): returned nan in row 0, channel 0, of a trajectory that is finite; expected",
        ),
        (
            lambda: run(lambda x, p: jnp.where(x.t[:, None] > 0.5, jnp.sqrt(x.q - 100.0), x.q)),
            r"^Observations\(observe\): returned nan in row 21, channel 0, of a trajectory that is finite; expected",
        ),
        (
            lambda: run(clock=lambda t, p: jnp.sqrt(t - 0.1)),
            r"^Problem\(clock\): returned nan in entry 0; expected finite numbers$",
        ),
        (
            lambda: [run(), run(lambda x, p: x.q * jnp.nan)],
            r"^Observations\(observe\): returned nan .*, of a trajectory that is finite, in run 1; expected finite",
        ),
    ],
)
def test_the_function_is_named_before_the_search(monkeypatch, problem, message):
    monkeypatch.setitem(fit.__globals__, "search", lambda *_: pytest.fail("searched"))
    with pytest.raises(ValueError, match=message):
        fitted(problem())


def test_what_is_finite_elsewhere_or_was_not_measured_is_fitted():
    seen = SEEN.copy()
    seen[0] = np.nan
    unseen = fitted(run(lambda x, p: jnp.where(x.t[:, None] > 0.0, x.q, jnp.nan), values=seen))
    assert unseen.params["g"] == pytest.approx(9.81, abs=0.2)
    # Of a negative number there is no root, and half of the bounds are positive.
    rooted = run(lambda x, p: x.q + 0.0 * jnp.sqrt(p["s"]))
    free = {"g": Real(), "u0": Real(), "s": Interval(-2.0, 2.0)}
    assert fitted(rooted, free, starts=8).params["s"] > 0.0


def test_who_wants_no_check_gets_none():
    result = fitted(run(lambda x, p: x.q * jnp.nan), check=False)
    assert not result.converged
