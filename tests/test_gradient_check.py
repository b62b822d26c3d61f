"""What is right is found right and what is not is named: derivatives that something cut off, in any unit."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.differences import Differences

# A piston of 1 mm^2 that a pressure of 1e5 Pa drives with 0.1 N: all but weightless beside gravity's 9.81.
AREA = 1e-6
PISTON = dc.System(
    gap=lambda t, q, p: q,
    force=lambda t, q, u, p: jnp.array([-9.81]) + AREA * p["pressure"],
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: p["e"],
)
CUT_OFF = replace(PISTON, force=lambda t, q, u, p: jnp.array([-9.81]) + AREA * jax.lax.stop_gradient(p["pressure"]))
PARAMS = {"pressure": jnp.array(1e5), "e": jnp.array(0.8), "idle": jnp.array(300.0)}
RUN = [1.0], [0.0], np.linspace(0.0, 0.8, 5)


def check(system, wrt, params=PARAMS, run=RUN, **options):
    return dc.check_gradient(system, params, *run, wrt=wrt, substeps=1, **options)


@pytest.mark.parametrize("wrt", [["pressure"], ["q0", "pressure", "e"]])
@pytest.mark.full
def test_a_derivative_that_is_cut_off_is_found(wrt):
    """In 1/Pa it is 1e-8, beside others of 1 and more."""
    found = check(CUT_OFF, wrt)
    assert found.apart == ("pressure",)
    # Zero beside something: they differ by all there is, whatever the width.
    np.testing.assert_allclose(found.errors, 1.0, atol=1e-6)
    assert found.verdict.startswith("derivative and differences by pressure disagree")


@pytest.mark.full
def test_a_derivative_that_is_right_is_so_in_any_unit():
    found = check(PISTON, ["q0", "pressure", "e"])
    assert found.names == ("e", "pressure", "q0[0]")
    assert found.agrees
    assert found.verdict == "the derivative is right: differences agree with it"


@pytest.mark.full
def test_a_parameter_that_does_nothing_has_a_derivative_of_zero():
    """Exactly, and where a mass cancels, but for rounding."""
    heavy = replace(
        PISTON, force=lambda t, q, u, p: -9.81 * p["mass"] * jnp.ones(1), mass=lambda q, p: p["mass"] * jnp.ones(1)
    )
    assert check(heavy, ["mass", "idle", "q0"], PARAMS | {"mass": 3.7}).agrees


@pytest.mark.full
def test_in_single_precision_the_same_is_found():
    params, run = ({name: np.float32(x) for name, x in PARAMS.items()}, [np.asarray(x, np.float32) for x in RUN])
    assert check(PISTON, ["q0", "pressure", "idle"], params, run).agrees
    assert check(CUT_OFF, ["q0", "pressure", "idle"], params, run).apart == ("pressure",)


@pytest.mark.full
def test_a_crossing_by_one_parameter_hides_no_other():
    """A fall strikes 1e-4 s before the end: from 0.1 % higher it does not, with 0.1 % more pressure it does."""
    found = check(CUT_OFF, ["q0", "pressure"], run=([9.71 / 2 * 0.7999**2], [0.0], RUN[2]), widths=[1e-3])
    assert found.certificate.clear
    assert found.crossed.tolist() == [[False, True]]
    assert found.apart == ("pressure", "q0[0]")
    assert found.verdict.startswith("derivative and differences by pressure disagree")


def differences(derivative, found, sizes=(1.0, 1.0), extent=1.0):
    """Of two parameters, two numbers at the end and one width, in double precision."""
    derivative, found = np.array(derivative, float), np.array([found], float)
    contacts, eps = np.zeros((1, 2, 2, 1), int), float(np.finfo(float).eps)
    names, widths = ("a", "b"), np.array([1e-4])
    return Differences(names, widths, np.array(sizes), extent, eps, derivative, found, contacts)


@pytest.mark.parametrize(
    ("derivative", "found", "errors"),
    [
        # The larger of both: as it is the other way round.
        ([[1, 0], [0, 0]], [[1, 0], [0, 2]], [0, 1]),
        ([[1, 0], [0, 2]], [[1, 0], [0, 0]], [0, 1]),
        ([[4, 0], [1e-4, 0]], [[4, 0], [2e-4, 0]], [0, 0.5]),
        # eps^(1/3) = 6.06e-6 is what a derivative of rounding counts as.
        ([[0, 0], [0, 0]], [[0, 0], [6.06e-12, 0]], [0, 1e-6]),
        ([[0, 0], [0, 0]], [[np.nan, 0], [0, np.inf]], [np.inf, np.inf]),
    ],
)
def test_each_parameter_is_compared_with_its_own(derivative, found, errors):
    beside = differences(derivative, found)
    np.testing.assert_allclose(beside.errors(), [errors], rtol=1e-3)
    assert beside.worst() == max(beside.errors()[0])


def test_the_size_of_a_parameter_says_what_its_derivative_weighs():
    """1e-8 per Pa is much for 1e5 Pa and rounding for 1e-5 Pa."""
    cut = [[0, 0], [0, 0]], [[1e-8, 0], [0, 0]]
    assert differences(*cut, sizes=(1e5, 1.0)).worst() == 1.0
    assert differences(*cut, sizes=(1e-5, 1.0)).worst() < 1e-6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"widths": []}, r"^widths=\[\]: expected a list of positive numbers, or None$"),
        ({"widths": 1e-5}, r"^widths=1e-05: expected a list of positive numbers, or None$"),
        ({"widths": [[1e-5]]}, r"^widths=\[\[1e-05\]\]: expected a list of positive numbers, or None$"),
        ({"widths": [0.0]}, r"^widths=\[0.0\]: expected a list of positive numbers, or None$"),
        ({"widths": [1e-5, np.nan]}, r"^widths=\[1e-05, nan\]: expected a list of positive numbers, or None$"),
        ({"widths": "small"}, r"^widths: expected real numbers, got 'small'$"),
        ({"tolerance": 0}, r"^tolerance=0: expected a positive number$"),
        ({"wrt": []}, r"^wrt: expected at least one name, got none$"),
        ({"wrt": None}, r"^wrt: expected a list of names, got None$"),
    ],
)
def test_what_would_compare_nothing_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        dc.check_gradient(PISTON, PARAMS, *RUN, **{"wrt": ["q0"], **options})
