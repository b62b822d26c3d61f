"""Derivatives of a whole motion of one ball, against the parabolas', in both modes, and the status of a graze."""

import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact import Status
from diffcontact.sensitivity import _largest_error


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


BALL = zoo.system(
    gap=lambda t, q, p: q, force=lambda t, q, u, p: -p["gravity"] * jnp.ones(1), restitution=lambda p: p["restitution"]
)

OWN = {"gravity": 9.81, "restitution": 0.8}


@pytest.mark.full
def test_parameters_may_be_nested_or_one_array():
    expected = dc.sensitivity(BALL, OWN, [1.0], [0.3], TIMES, wrt=["restitution", "gravity"])
    nested = replace(BALL, force=lambda t, q, u, p: -p["of"]["g"] * jnp.ones(1), restitution=lambda p: p["of"]["e"][0])
    found = dc.sensitivity(nested, {"of": {"g": 9.81, "e": [0.8]}}, [1.0], [0.3], TIMES, wrt=["of"])
    np.testing.assert_allclose(found.dq["of"]["g"], expected.dq["gravity"], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.du["of"]["e"][0], expected.du["restitution"], rtol=1e-12, atol=1e-14)
    flat = replace(BALL, force=lambda t, q, u, p: -p[0] * jnp.ones(1), restitution=lambda p: p[1])
    found = dc.sensitivity(flat, jnp.array([9.81, 0.8]), [1.0], [0.3], TIMES, wrt=["params"])
    both = np.stack([expected.dq["gravity"], expected.dq["restitution"]], axis=-1)
    np.testing.assert_allclose(found.dq["params"], both, rtol=1e-12, atol=1e-14)


@pytest.mark.full
def test_a_derivative_that_is_not_finite_is_reported():
    # The root of zero: the motion is right, its derivative by p is infinite.
    system = replace(BALL, force=lambda t, q, u, p: -9.81 * jnp.ones(1) + jnp.sqrt(p["p"]), restitution=lambda p: 0.5)
    found = dc.sensitivity(system, {"p": 0.0}, [1.0], [0.0], TIMES[:2], wrt=["p"])
    assert found.trajectory.status == dc.Status.NO_DERIVATIVE
    assert np.all(np.isfinite(found.trajectory.q))


SPRING = zoo.system(gap=lambda t, q, p: q + 0.5, force=lambda t, q, u, p: -p["k"] * q, restitution=lambda p: p["e"])


def pulled(k, e, times):
    """From rest at 1 m to the stop at -0.5 m and back: position before the second impact."""
    w = np.sqrt(k)
    impact = np.arccos(-0.5) / w
    s = times - impact
    return np.where(s < 0, np.cos(w * times), -0.5 * np.cos(w * s) + e * np.sqrt(0.75) * np.sin(w * s))


@pytest.mark.full
def test_steps_are_halved_until_the_derivative_stays():
    times, params = np.array([0.0, 0.9, 1.7]), {"k": 4.0, "e": 0.5}
    found = dc.sensitivity(SPRING, params, [1.0], [0.0], times, wrt=["k", "e"], tolerance=1e-4)
    assert found.trajectory.status == 0
    assert 0 < found.trajectory.error <= 1e-4
    slope = (pulled(4 + 1e-5, 0.5, times) - pulled(4 - 1e-5, 0.5, times)) / 2e-5
    # Of second order: the change of the last halving is three times what is left.
    np.testing.assert_allclose(found.dq["k"][:, 0], slope, atol=1e-4 * np.max(np.abs(slope)))


@pytest.mark.full
def test_inside_transformations_steps_are_single_unless_told():
    def slope(q, **options):
        return dc.sensitivity(BALL, OWN, q, jnp.zeros(1), TIMES[:2], wrt=["gravity"], **options).dq["gravity"]

    default, one = jax.jit(slope)(jnp.ones(1)), slope(jnp.ones(1), substeps=1)
    np.testing.assert_allclose(default, one, rtol=1e-14)
    with pytest.raises(ValueError, match="outside transformations"):
        jax.jit(lambda q: slope(q, substeps="auto"))(jnp.ones(1))


ROW = dc.systems.balls(3, 1)

SQUEEZED = {"mass": np.ones(3), "radius": 0.1 * np.ones(3), "gravity": np.zeros(1), "restitution": 0.8}


@pytest.mark.full
@pytest.mark.parametrize(
    ("wrt", "status"), [(["q0"], Status.NO_DERIVATIVE), (["u0"], Status.NO_DERIVATIVE), (["restitution"], Status.OK)]
)
def test_at_a_tie_a_derivative_of_one_side_is_told(wrt, status):
    """A ball is struck from both sides at once: who is first matters, unless nothing changes that."""
    start = [-0.5, 0.0, 0.5], [1.0, 0.0, -1.0]
    found = dc.sensitivity(ROW, SQUEEZED, *start, np.linspace(0.0, 1.0, 11), wrt=wrt)
    assert found.trajectory.status == status
    if status == Status.OK:
        # Both balls leave at e, 0.3 s after the start, from 0.2 m aside.
        np.testing.assert_allclose(found.dq["restitution"][-1], [-0.7, 0.0, 0.7], atol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("wrt", [["restitution"], ["q0"], ["restitution", "q0"]])
def test_with_no_restitution_what_stays_in_touch_has_none_by_it(wrt):
    """A ball strikes another one, and they go on together to a wall, at which both stop. With a small e they part.

    With e they come to the wall one after the other, and strike each other and the wall again and again.
    """
    alley = dc.systems.balls(2, 1, box=(-jnp.inf, 1.1))
    params = {"mass": jnp.ones(2), "radius": 0.05 * jnp.ones(2), "gravity": jnp.zeros(1), "restitution": 0.0}
    run = [-0.5, 0.0], [1.0, 0.0], np.linspace(0.0, 4.0, 9)
    found = dc.sensitivity(alley, params, *run, wrt=wrt)
    by_restitution = "restitution" in wrt
    assert found.trajectory.status == (Status.NO_DERIVATIVE if by_restitution else Status.OK)
    np.testing.assert_allclose(found.trajectory.q[-1], [0.95, 1.05], atol=1e-12)
    if by_restitution:
        away = dc.simulate(alley, {**params, "restitution": 1e-5}, *run)
        slope = (away.q[-1] - found.trajectory.q[-1]) / 1e-5
        assert np.max(np.abs(slope - found.dq["restitution"][-1])) > 0.3
    else:
        np.testing.assert_allclose(found.dq["q0"][-1], 0.0, atol=1e-12)


@pytest.mark.full
def test_with_no_restitution_what_rests_under_a_load_has_a_derivative_by_it():
    """A ball that falls on the floor at e = 0 and is then struck by another one from above."""
    room = dc.systems.balls(2, 1, box=(0.0, jnp.inf))
    params = {"mass": jnp.array([1.0, 0.5]), "radius": 0.05 * jnp.ones(2), "gravity": -10 * jnp.ones(1)}
    run = [0.5, 1.5], [0.0, 0.0], np.linspace(0.0, 0.8, 9)
    found = dc.sensitivity(room, {**params, "restitution": 0.0}, *run, wrt=["restitution"])
    assert found.trajectory.status == Status.OK
    assert not dc.certify(room, {**params, "restitution": 0.0}, *run).findings


@pytest.mark.full
def test_at_the_edge_of_what_a_parameter_may_be_one_side_is_compared():
    """With e < 0 nothing is simulated; the ball of the first test stays on the floor."""
    run = {**OWN, "restitution": 0.0}, np.array([1.0]), np.array([0.3])
    wrt = ["restitution", "q0"]
    found = dc.sensitivity(BALL, *run, TIMES[:6], wrt=wrt, substeps=1)
    assert _largest_error(found, BALL, *run, wrt, None, 1) < 6e-6
