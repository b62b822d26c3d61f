"""What users get wrong in a fit: each gives one line that names it, before anything is compiled."""

import jax.numpy as jnp
import numpy as np
import pytest
from falling import FALLING, SCHEME, TIMES, positions, start_of

from diffcontact.identify import Impacts, Interval, Observations, Problem, Real, fit
from diffcontact.identify.problem import joint_residual

pytestmark = pytest.mark.full

VALUES = np.zeros((TIMES.size, 1))


@pytest.fixture(autouse=True)
def _nothing_is_simulated(monkeypatch):
    monkeypatch.setattr(joint_residual.JointResidual, "_resolved", lambda *_: pytest.fail("simulated"))


def fall(initial=start_of, impacts=None, **options):
    return Problem(FALLING, Observations(TIMES, VALUES, 1.0, positions, impacts), initial, SCHEME, 1, **options)


def fitted(problem=None, params=None, free=None, **options):
    params = {"g": 9.0, "u0": [0.0]} if params is None else params
    return fit(fall() if problem is None else problem, params, {"g": Real()} if free is None else free, **options)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (
            r"Problem\(initial\): no parameter 'v' in params \('u0', 'g'\)",
            lambda: fitted(fall(lambda p: (jnp.zeros(1), p["v"]))),
        ),
        (
            r"Problem\(initial\): expected a function of \(params\), got one of \(p, q\)",
            lambda: fitted(fall(two_arguments)),
        ),
        (r"Problem\(initial\): expected two arrays, \(q0, u0\), got NoneType", lambda: fitted(fall(lambda p: None))),
        (r"Problem\(initial\): expected two arrays, .*, got 1 of them", lambda: fitted(fall(lambda p: [1.0]))),
        (
            r"Problem\(initial\): expected two arrays, .*, got dict",
            lambda: fitted(fall(lambda p: {"q0": [1.0], "u0": [0.0]})),
        ),
        (
            r"Problem\(initial\): expected a function that JAX can trace, with jax.numpy in place of numpy",
            lambda: fitted(fall(lambda p: (np.zeros(1), np.asarray(p["u0"])))),
        ),
        (
            r"Problem\(clock\): no parameter 'rate' in params \('u0', 'g'\)",
            lambda: fitted(fall(clock=lambda t, p: t * p["rate"])),
        ),
        (
            r"Problem\(clock\): returned shape \(40,\), expected \(41,\) as there are times",
            lambda: fitted(fall(clock=lambda t, p: t[1:])),
        ),
        (
            r"fit\(tied\): 'h': no parameter 'w' in params \('u0', 'g'\)",
            lambda: fitted(tied={"h": lambda p: 2 * p["w"]}),
        ),
        (
            r"Impacts\(contacts\): \(7,\), expected numbers from 0 to 0",
            lambda: fitted(fall(impacts=Impacts([0.4], 1e-3, (7,)))),
        ),
        (r"Impacts\(contacts\): \(-1,\), expected numbers of contacts", lambda: Impacts([0.4], 1e-3, (-1,))),
        (r"Impacts\(contacts\): \('a',\), expected numbers of contacts", lambda: Impacts([0.4], 1e-3, ("a",))),
        (r"Impacts\(times\): 'a', expected numbers", lambda: Impacts("a", 1e-3)),
        (r"Interval\(low='a', high=1\): expected numbers", lambda: Interval("a", 1)),
        (r"Problem\(per_run\): 3, expected names of parameters", lambda: fall(per_run=3)),
        (r"fit\(problem\): entry 0 is int, expected Problem", lambda: fitted(3)),
        (r"fit\(params\): expected a dictionary with .*, got list", lambda: fitted(params=[1.0])),
        (r"fit\(free\): expected a dictionary with .*, got list", lambda: fitted(free=["g"])),
        (r"fit\(tied\): expected a dictionary with .*, got list", lambda: fitted(tied=["g"])),
        (r"fit\(seed\): 'a', expected an integer of at least 0", lambda: fitted(seed="a")),
        (r"fit\(seed\): -1, expected an integer of at least 0", lambda: fitted(seed=-1)),
        (r"fit\(f_scale\): 'a', expected a positive number", lambda: fitted(loss="huber", f_scale="a")),
        (r"fit\(progress\): 3, expected a function or None", lambda: fitted(progress=3)),
    ],
)
def test_one_line_says_what_was_expected(message, call):
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        call()
    assert "\n" not in str(caught.value)


def two_arguments(p, q):
    return p, q


@pytest.mark.parametrize(
    ("message", "observe"),
    [
        (r"Observations\(observe\): no parameter 's' in params \('u0', 'g'\)", lambda run, p: p["s"] * run.q),
        (r"Observations\(observe\): expected a function of \(trajectory, params\), got one of", lambda run: run.q),
        (r"Observations\(observe\): expected a function that JAX can trace", lambda run, p: np.asarray(run.q)),
        (r"observe returns tuple, expected \(41, 1\)", lambda run, p: (run.q,)),
    ],
)
def test_what_is_wrong_with_observe_is_said_while_it_is_traced(message, observe, monkeypatch):
    monkeypatch.undo()
    seen = Observations(TIMES, VALUES, 1.0, observe)
    with pytest.raises(ValueError, match=f"^{message}") as caught:
        fitted(Problem(FALLING, seen, start_of, SCHEME, 1))
    assert "\n" not in str(caught.value)
