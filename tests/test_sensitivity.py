"""Derivatives of a whole motion of one ball, against the parabolas', in both modes, and the status of a graze."""

import sys

import jax
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact import Status


def _known(model):
    """Parameters without where the motion starts, which `wrt` would find twice."""
    return {name: value for name, value in model.params.items() if name not in ("q0", "u0")}


SYSTEM, PARAMS, TIMES = zoo.BALL.system, _known(zoo.BALL), np.linspace(0.0, 0.8, 9)
NAMES = ("e", "gravity", "q0", "u0")


def bounce(e, gravity, q0, u0):
    """Height and velocity at T = 0.8, after one impact."""
    impact = (u0 + jax.numpy.sqrt(u0**2 + 2 * gravity * q0)) / gravity
    after, left = e * jax.numpy.sqrt(u0**2 + 2 * gravity * q0), 0.8 - impact
    return jax.numpy.stack([after * left - gravity * left**2 / 2, after - gravity * left])


def sensitivity(wrt=NAMES, times=TIMES, q0=1.0, u0=0.3, **options):
    changed = {name: options.pop(name) for name in PARAMS.keys() & options.keys()}
    found = dc.sensitivity(SYSTEM, PARAMS | changed, [q0], [u0], times, wrt=wrt, **options)
    return jax.tree.map(np.asarray, found)


@pytest.fixture(scope="module")
def found():
    return sensitivity(substeps=1)


def test_a_bounce_has_the_derivative_of_its_formula(found):
    truth = jax.jit(jax.jacfwd(bounce, argnums=(0, 1, 2, 3)))(0.8, 9.81, 1.0, 0.3)
    for name, column in zip(NAMES, truth, strict=True):
        shape = (1,) if name in ("q0", "u0") else ()
        assert found.dq[name].shape == found.du[name].shape == (9, 1, *shape)
        ends = np.stack([found.dq[name][-1], found.du[name][-1]]).ravel()
        np.testing.assert_allclose(ends, column, rtol=1e-11, err_msg=name)
    assert found.trajectory.status == Status.OK
    # Before the impact the restitution does nothing, and what falls is 1/2 t^2 lower.
    assert found.dq["e"][1] == 0.0
    np.testing.assert_allclose(found.dq["gravity"][1], -(0.1**2) / 2, rtol=1e-12)


def test_it_is_printed_as_a_table_by_name(found):
    head, columns, *rows = str(found).splitlines()
    assert head == "at t = 0.8 s, status 0: fine"
    assert found.status == Status.OK
    assert columns.split() == ["d", "q[0]", "d", "u[0]"]
    for row, name, element in zip(rows, NAMES, ("e", "gravity", "q0[0]", "u0[0]"), strict=True):
        label, values = row.removeprefix("/ d ").split(maxsplit=1)
        ends = [float(np.ravel(by[name][-1])[0]) for by in (found.dq, found.du)]
        assert label == element
        np.testing.assert_allclose([*map(float, values.split())], ends, rtol=1e-5)
    lanes = jax.tree.map(lambda x: x[None], found)
    assert str(lanes) == repr(lanes)


def test_forward_and_reverse_mode_agree(monkeypatch):
    """Of a point that is stopped by a wall that leans, by a scheme that compiles quickly."""
    params = _known(zoo.QUADRICS) | {"normals": np.array([[-1.0, -0.5], [1.0, 0.0], [1.0, 0.0]])}
    wrt, call = ["q0", "u0", "offset", "mass"], (np.zeros(2), np.array([3.0, 1.0]), TIMES)

    def derivatives(wrt):
        found = dc.sensitivity(zoo.QUADRICS.system, params, *call, wrt=wrt, scheme=dc.VelocityProjection(), substeps=1)
        return jax.tree.map(np.asarray, found)

    forward = derivatives(wrt)
    assert np.max(forward.trajectory.impulse) > 0.1
    # One pass of reverse mode for each number of the motion.
    monkeypatch.setattr(sys.modules["diffcontact.sensitivity"], "REVERSE_COST", 0)
    # In the same order it would be the same program.
    reverse = derivatives(wrt[::-1])
    for name in wrt:
        np.testing.assert_allclose(reverse.dq[name], forward.dq[name], rtol=1e-12, atol=1e-13, err_msg=name)
        np.testing.assert_allclose(reverse.du[name], forward.du[name], rtol=1e-12, atol=1e-13, err_msg=name)


# Thrown up at a ceiling 1 m higher, which it just reaches, misses or strikes.
@pytest.mark.parametrize(
    ("clearance", "status"),
    [(0.0, Status.NO_DERIVATIVE), (0.1, Status.OK), (-0.1, Status.OK)],
    ids=["grazes", "misses", "strikes"],
)
def test_a_touch_that_only_grazes_has_no_derivative(clearance, status):
    thrown = sensitivity(u0=np.sqrt(20 * (1 - clearance)), gravity=10.0, ceiling=2.0, substeps=1, times=0.6875 * TIMES)
    assert thrown.trajectory.status == status


@pytest.mark.parametrize(
    ("wrt", "message"),
    [
        ("q0", r"^wrt: expected a list of names, got 'q0'"),
        (None, r"^wrt: expected a list of names, got None$"),
        (["mass"], "'mass' is neither in params"),
        (["q0", "q0"], "each name once"),
    ],
)
def test_names_are_checked(wrt, message):
    with pytest.raises(ValueError, match=message):
        sensitivity(wrt=wrt)


def test_a_tolerance_of_steps_of_a_given_number_is_refused():
    with pytest.raises(ValueError, match=r'^tolerance=1e-06: expected substeps="auto" with it, got substeps=3$'):
        sensitivity(tolerance=1e-6, substeps=3)


@pytest.mark.parametrize("tolerance", [np.nan, -1.0, 0, np.inf, [1e-3], "x"])
def test_a_tolerance_that_nothing_meets_or_everything_is_refused(tolerance):
    with pytest.raises(
        ValueError, match=r"^tolerance(=.*: expected a positive number|: expected real numbers, got 'x')$"
    ):
        sensitivity(tolerance=tolerance)
