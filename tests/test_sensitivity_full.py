from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.sensitivity import _largest_error
from diffcontact.status import Status

pytestmark = pytest.mark.full

BALL = dc.System(
    gap=lambda t, q, p: q,
    force=lambda t, q, u, p: -p["gravity"] * jnp.ones(1),
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: p["restitution"],
)
PARAMS = {"gravity": 9.81, "restitution": 0.8}
TIMES = np.linspace(0.0, 0.8, 9)


def test_parameters_may_be_nested_or_one_array():
    expected = dc.sensitivity(BALL, PARAMS, [1.0], [0.3], TIMES, wrt=["restitution", "gravity"])
    nested = replace(BALL, force=lambda t, q, u, p: -p["of"]["g"] * jnp.ones(1), restitution=lambda p: p["of"]["e"][0])
    found = dc.sensitivity(nested, {"of": {"g": 9.81, "e": [0.8]}}, [1.0], [0.3], TIMES, wrt=["of"])
    np.testing.assert_allclose(found.dq["of"]["g"], expected.dq["gravity"], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(found.du["of"]["e"][0], expected.du["restitution"], rtol=1e-12, atol=1e-14)
    flat = replace(BALL, force=lambda t, q, u, p: -p[0] * jnp.ones(1), restitution=lambda p: p[1])
    found = dc.sensitivity(flat, jnp.array([9.81, 0.8]), [1.0], [0.3], TIMES, wrt=["params"])
    both = np.stack([expected.dq["gravity"], expected.dq["restitution"]], axis=-1)
    np.testing.assert_allclose(found.dq["params"], both, rtol=1e-12, atol=1e-14)


def test_a_derivative_that_is_not_finite_is_reported():
    # The root of zero: the motion is right, its derivative by p is infinite.
    system = replace(BALL, force=lambda t, q, u, p: -9.81 * jnp.ones(1) + jnp.sqrt(p["p"]), restitution=lambda p: 0.5)
    found = dc.sensitivity(system, {"p": 0.0}, [1.0], [0.0], TIMES[:2], wrt=["p"])
    assert found.trajectory.status == dc.Status.NO_DERIVATIVE
    assert np.all(np.isfinite(found.trajectory.q))


SPRING = dc.System(
    gap=lambda t, q, p: q + 0.5,
    force=lambda t, q, u, p: -p["k"] * q,
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: p["e"],
)


def pulled(k, e, times):
    """From rest at 1 m to the stop at -0.5 m and back: position before the second impact."""
    w = np.sqrt(k)
    impact = np.arccos(-0.5) / w
    s = times - impact
    return np.where(s < 0, np.cos(w * times), -0.5 * np.cos(w * s) + e * np.sqrt(0.75) * np.sin(w * s))


def test_steps_are_halved_until_the_derivative_stays():
    times, params = np.array([0.0, 0.9, 1.7]), {"k": 4.0, "e": 0.5}
    found = dc.sensitivity(SPRING, params, [1.0], [0.0], times, wrt=["k", "e"], tolerance=1e-4)
    assert found.trajectory.status == 0
    assert 0 < found.trajectory.error <= 1e-4
    slope = (pulled(4 + 1e-5, 0.5, times) - pulled(4 - 1e-5, 0.5, times)) / 2e-5
    # Of second order: the change of the last halving is three times what is left.
    np.testing.assert_allclose(found.dq["k"][:, 0], slope, atol=1e-4 * np.max(np.abs(slope)))


def test_inside_transformations_steps_are_single_unless_told():
    def slope(q, **options):
        return dc.sensitivity(BALL, PARAMS, q, jnp.zeros(1), TIMES[:2], wrt=["gravity"], **options).dq["gravity"]

    default, one = jax.jit(slope)(jnp.ones(1)), slope(jnp.ones(1), substeps=1)
    np.testing.assert_allclose(default, one, rtol=1e-14)
    with pytest.raises(ValueError, match="outside transformations"):
        jax.jit(lambda q: slope(q, substeps="auto"))(jnp.ones(1))


ROW = dc.systems.balls(3, 1)
SQUEEZED = {"mass": jnp.ones(3), "radius": 0.1 * jnp.ones(3), "gravity": jnp.zeros(1), "restitution": 0.8}


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
    certificate = dc.certify(alley, params, *run)
    assert certificate.clear
    # After 0.4 s at 1 m/s, 1.05 m at half of it.
    told = [(finding.singularity.name, finding.name) for finding in certificate.findings]
    assert told == [("STAYED", "ball 0 and ball 1")]
    np.testing.assert_allclose(certificate.findings[0].time, 0.4 + 1.05 / 0.5, rtol=1e-12)


def test_with_no_restitution_what_rests_under_a_load_has_a_derivative_by_it():
    """A ball that falls on the floor at e = 0 and is then struck by another one from above."""
    room = dc.systems.balls(2, 1, box=(0.0, jnp.inf))
    params = {"mass": jnp.array([1.0, 0.5]), "radius": 0.05 * jnp.ones(2), "gravity": -10 * jnp.ones(1)}
    run = [0.5, 1.5], [0.0, 0.0], np.linspace(0.0, 0.8, 9)
    found = dc.sensitivity(room, {**params, "restitution": 0.0}, *run, wrt=["restitution"])
    assert found.trajectory.status == Status.OK
    assert not dc.certify(room, {**params, "restitution": 0.0}, *run).findings


def test_at_the_edge_of_what_a_parameter_may_be_one_side_is_compared():
    """With e < 0 nothing is simulated; the ball of the first test stays on the floor."""
    run = {**PARAMS, "restitution": 0.0}, np.array([1.0]), np.array([0.3])
    wrt = ["restitution", "q0"]
    found = dc.sensitivity(BALL, *run, TIMES[:6], wrt=wrt, substeps=1)
    assert _largest_error(found, BALL, *run, wrt, None, 1) < 6e-6
