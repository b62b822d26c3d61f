from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.certify.singularity import Singularity

pytestmark = pytest.mark.full

BALL = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
FALL = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-9.81]), "restitution": 0.8}
TIMES = np.linspace(0.0, 1.5, 151)


def test_gaps_of_ones_own_are_not_called_by_the_names_of_those_of_balls():
    """One wall for one of two balls, which touch nothing else."""
    one = replace(dc.systems.balls(2, 1), gap=lambda t, q, params: 9.0 - q[1:])
    params = {"mass": np.ones(2), "radius": np.ones(2), "gravity": np.zeros(1), "restitution": 0.5}
    certificate = dc.certify(one, params, [1.0, 2.0], [2.0, 1.0], np.linspace(0.0, 8.0, 81))
    assert certificate.clear
    np.testing.assert_allclose(certificate.trajectory.percussions.time[0], 7.0, atol=1e-12)


def test_a_certificate_is_for_values_that_are_known():
    with pytest.raises(ValueError, match="certify works outside transformations only"):
        jax.jit(lambda q0: dc.certify(BALL, FALL, q0, [0.0], TIMES, substeps=1).first()[1])(jnp.ones(1))


def test_a_bounce_at_the_threshold_of_rest():
    # What leaves the floor slower than h g / 16 = 0.04905 / 8 m/s stays there; this one is 0.01 % faster.
    v = 0.04905 / 8 / 0.8 * 1.0001
    certificate = dc.certify(BALL, FALL, [0.0], [-v], TIMES[:2], substeps=1)
    assert certificate.first()[0] == Singularity.THRESHOLD
    # Within 1e-5 of it nothing changes, but that its next rebound is slower.
    certificate = dc.certify(BALL, FALL, [0.0], [-v], TIMES[:2], substeps=1, change=1e-5)
    assert certificate.first()[0] == Singularity.ZENO_END
    # A single impact is no Zeno sequence.
    assert (
        dc.certify(BALL, FALL, [0.0], [-0.999 * v], TIMES[:2], substeps=1, change=1e-5).first()[0] == Singularity.SLOW
    )


def test_a_slow_landing_has_a_derivative_whatever_the_step():
    # It is slow against what a step makes of it, h g / 16 = 6 mm/s, not against its own motion.
    assert dc.certify(BALL, {**FALL, "restitution": 0.0}, [0.0], [-0.005], TIMES[:2], substeps=1).clear


# A ball thrown up from 1 m, gravity 10, ceiling at 2 m: its height without the ceiling is 2 m minus the clearance.


TWO = dc.systems.balls(2, 2)
DISCS = {"mass": jnp.ones(2), "radius": 0.5 * jnp.ones(2), "gravity": jnp.zeros(2), "restitution": 1.0}


@pytest.mark.parametrize(
    ("apart", "grazes"), [(1.0, True), (1 + 1e-10, True), (1 - 1e-10, True), (1.01, False), (0.9, False)]
)
def test_discs_that_pass_at_the_sum_of_their_radii(apart, grazes):
    run = [-1.5, apart, 0.0, 0.0], [3.0, 0.0, 0.0, 0.0], np.linspace(0.0, 1.0, 11)
    certificate = dc.certify(TWO, DISCS, *run, substeps=1)
    assert certificate.first()[0] == (Singularity.GRAZING if grazes else Singularity.NONE)


def test_a_shallow_touch_is_an_impact():
    # The cubic of a step of 0.34 m passes 1e-5 m too high: the step looks where it is lowest.
    height, speed = 1 - 1e-5, 3.37
    run = [-1.5, height, 0.0, 0.0], [speed, 0.0, 0.0, 0.0], np.linspace(0.0, 1.0, 11)
    assert dc.certify(TWO, DISCS, *run, substeps=1).first()[0] == Singularity.NONE
    # Equal masses: the disc that stood gets what velocity lies along the normal.
    given = speed * np.sqrt(1 - height**2) * np.array([np.sqrt(1 - height**2), -height])
    np.testing.assert_allclose(dc.simulate(TWO, DISCS, *run).u[-1, 2:], given, atol=1e-12)


def test_a_touching_cradle_says_by_which_parameters_it_has_a_derivative():
    """What opens or presses the contact of the balls that rest has two sides; masses and the blow have not."""
    params = {"mass": jnp.array([1.0, 1.0, 2.0]), "radius": 0.1 * jnp.ones(3), "gravity": jnp.zeros(1)}
    run = {**params, "restitution": 0.95}, [-0.5, 0.0, 0.2], [1.0, 0.0, 0.0], np.linspace(0.0, 1.0, 11)
    certificate = dc.certify(dc.systems.balls(3, 1), *run, substeps=1)
    assert {Singularity.SIMULTANEOUS, Singularity.UNLOADED} <= {one.singularity for one in certificate.findings}
    # A larger first ball comes earlier, and no more.
    expected = {"radius[1]", "radius[2]", "q0[1]", "q0[2]", "u0[1]", "u0[2]"}
    assert set(certificate.differing) == expected
    assert "differ by q0[1], q0[2], radius[1]" in str(certificate)


def test_a_lift_off_has_a_derivative():
    # A spring whose end accelerates upwards takes a mass off the floor.
    lifted = dc.System(
        lambda t, q, p: q,
        lambda t, q, u, p: p["k"] * (p["w"] * t**2 - q) - p["g"],
        lambda q, p: jnp.ones(1),
        lambda p: 0.0,
    )
    params, times = {"k": 100.0, "w": 1.3, "g": 20.0}, np.linspace(0.0, 0.8, 81)
    certificate = dc.certify(lifted, params, [0.0], [0.0], times, substeps=1)
    assert certificate.clear, str(certificate)
    assert not np.any(np.asarray(certificate.trajectory.percussions.contact) >= 0)


def test_balls_with_a_cell_list_are_certified_as_without():
    box = (0.0, 1.0)
    params = {"mass": jnp.ones(3), "radius": 0.1 * jnp.ones(3), "gravity": jnp.zeros(2), "restitution": 0.9}
    # One disc between two that come from both sides at once.
    run = [0.22, 0.5, 0.5, 0.5, 0.78, 0.5], [0.5, 0.0, 0.0, 0.0, -0.5, 0.0], np.linspace(0.0, 0.5, 6)
    listed = dc.certify(dc.systems.balls(3, 2, box, cell=0.3), params, *run, substeps=1).findings
    dense = dc.certify(dc.systems.balls(3, 2, box), params, *run, substeps=1).findings
    assert [(f.singularity, f.contact, f.name) for f in listed] == [(f.singularity, f.contact, f.name) for f in dense]
    assert listed[0].singularity == Singularity.SIMULTANEOUS
    assert listed[0].name in ("ball 0 and ball 1", "ball 1 and ball 2")
    # Both gaps of 0.08 m close at 0.5 m/s.
    np.testing.assert_allclose(listed[0].time, 0.16, atol=1e-12)


def test_two_walls_at_once_have_a_derivative_whatever_else_is_far_away():
    # Contacts that are open do not couple the two walls of a corner.
    box = dc.systems.balls(3, 2, (0.0, 1.0))
    params = {"mass": jnp.ones(3), "radius": 0.1 * jnp.ones(3), "gravity": jnp.zeros(2), "restitution": 0.9}
    run = [0.225, 0.225, 0.7, 0.3, 0.3, 0.7], [-1.0, -1.0, 0.0, 0.0, 0.0, 0.0], np.linspace(0.0, 0.5, 6)
    assert dc.certify(box, params, *run, substeps=1).clear
    found = dc.sensitivity(box, params, *run, wrt=["q0", "u0"])
    # Each coordinate returns by itself: q = 0.1 + e (gap / v - t) v, with respect to q0 and u0.
    np.testing.assert_allclose(found.dq["q0"][-1][:2, :2], -0.9 * np.eye(2), atol=1e-12)
    np.testing.assert_allclose(found.dq["u0"][-1][:2, :2], -0.45 * np.eye(2), atol=1e-12)


def test_steps_are_found_where_none_are_given():
    # One step of eight seconds leaves out flights below a second.
    coarse = dc.certify(BALL, FALL, [1.0], [0.0], [0.0, 8.0], substeps=1)
    assert coarse.first()[0] == Singularity.SLOW
    assert "status TOO_COARSE" in str(coarse)
    fine = dc.certify(BALL, FALL, [1.0], [0.0], [0.0, 1.0])
    assert fine.clear
    fall, speed = np.sqrt(2 / 9.81), np.sqrt(2 * 9.81)
    bounced = 0.8 * speed * (1 - fall) - 9.81 / 2 * (1 - fall) ** 2
    np.testing.assert_allclose(fine.trajectory.q[:, 0], [1.0, bounced], atol=1e-12)
    np.testing.assert_allclose(fine.trajectory.impulse[:, 0], [1.8 * speed], rtol=1e-12)
