"""What a certificate says where contacts rub: grips, slips that end, loads that are shared."""

import jax.numpy as jnp
import numpy as np
import pytest
from rubbing import BLOCK, SLIDES

import diffcontact as dc
from diffcontact.singularities.singularity import Singularity

pytestmark = pytest.mark.full

DISC = dc.systems.balls(1, 2, planes=lambda t, p: (jnp.array([[0.0, 1.0]]), jnp.zeros(1)), spin=True)


def _singularities(certificate):
    return {finding.singularity for finding in certificate.findings}


@pytest.mark.parametrize(
    ("nearer", "found"),
    [
        (0.9, set()),
        (0.99, set()),
        (1 - 1e-4, {Singularity.CONE_EDGE}),
        (1.0, {Singularity.CONE_EDGE}),
        (1 + 1e-4, {Singularity.CONE_EDGE}),
        (1.01, {Singularity.GRIPPED}),
        (2.0, {Singularity.GRIPPED}),
    ],
)
def test_an_impact_slips_or_grips_or_leaves_at_the_edge(nearer, found):
    # Falls 0.4 m with a slip of 1 - 0.1 * 20 m/s, of which m / 3 takes part: P = 1.7 sqrt(2 g 0.4), B = 1.3 / 3.
    params = {"mass": jnp.ones(1), "radius": 0.1 * jnp.ones(1), "gravity": jnp.array([0.0, -9.81])}
    law = {
        "restitution": 0.7,
        "tangential_restitution": 0.3,
        "friction": nearer * 1.3 / 3 / (1.7 * np.sqrt(0.8 * 9.81)),
    }
    certificate = dc.certify(
        DISC, params | law, [0.0, 0.5, 0.0], [1.0, 0.0, -20.0], np.linspace(0.0, 0.5, 6), substeps=1
    )
    assert _singularities(certificate) == found
    assert certificate.clear == (Singularity.CONE_EDGE not in found)
    assert [(f.time, f.contact) for f in certificate.findings] == [(pytest.approx(np.sqrt(0.8 / 9.81)), 0)] * len(found)
    if found == {Singularity.GRIPPED}:
        assert certificate.first()[0] == Singularity.NONE
        assert "for information: an impact in the grip" in str(certificate)


@pytest.mark.parametrize(
    ("least", "jerk", "found"),
    [
        (1e-4, 8.0, [Singularity.SLIP_GRAZES]),
        (1e-2, 8.0, []),
        (-1e-4, 8.0, [Singularity.SLIP_GRAZES]),
        (-1e-2, 8.0, []),
        # Stops for good, or goes on without coming near to zero.
        (-1e-2, 0.0, []),
        (0.5, 0.0, []),
    ],
)
@pytest.mark.parametrize("steps", [7, 10])
def test_a_slip_that_all_but_ends(least, jerk, found, steps):
    # v = least + 4 (t - 1/2)^2 with the jerk; without, least + 1 - 2 t.
    params = SLIDES | {"push": 1.0 if jerk else 3.0, "jerk": jerk}
    certificate = dc.certify(
        BLOCK, params, [0.0, 0.0], [1.0 + least, 0.0], np.linspace(0.0, 1.0, steps + 1), substeps=1
    )
    assert [f.singularity for f in certificate.findings] == found
    assert certificate.clear == (not found)
    assert all(abs(f.time - 0.5) <= 1 / steps for f in certificate.findings)


# A box on three feet in a row, which rub as they are told.
FEET = dc.System(
    gap=lambda t, q, p: q[1] + jnp.array([-0.2, 0.0, 0.2]) * q[2],
    force=lambda t, q, u, p: jnp.stack([p["push"], -10.0 * jnp.ones(()), jnp.zeros(())]),
    mass=lambda q, p: jnp.array([1.0, 1.0, 0.02]),
    restitution=lambda p: 0.0,
    slip=lambda t, q, u, p: (u[0] + 0.1 * u[2]) * jnp.ones((3, 1)),
    friction=lambda p: p["mu"],
)


@pytest.mark.parametrize(
    ("mu", "speed", "found"),
    [
        ([0.5, 0.5, 0.5], 0.0, [Singularity.NOT_UNIQUE]),
        ([0.5, 0.5, 0.5], 2.0, [Singularity.NOT_UNIQUE]),
        ([0.5, 0.1, 0.5], 2.0, [Singularity.UNDETERMINED]),
    ],
)
def test_a_box_on_three_feet_shares_its_load_as_it_likes(mu, speed, found):
    params = {"mu": jnp.array(mu), "push": 1.0}
    certificate = dc.certify(FEET, params, [0.0, 0.0, 0.0], [speed, 0.0, 0.0], np.linspace(0.0, 0.1, 3), substeps=1)
    assert [f.singularity for f in certificate.findings] == found
    assert certificate.clear == (found == [Singularity.NOT_UNIQUE])
    assert [(f.time, f.contact) for f in certificate.findings] == [(0.0, 0)]


# A disc between a floor and a wall on its left.
CORNER = dc.systems.balls(1, 2, planes=lambda t, p: (jnp.eye(2), jnp.zeros(2)), spin=True)


@pytest.mark.parametrize("apart", [0.0, 0.2])
@pytest.mark.parametrize("friction", [0.0, 0.3])
def test_with_friction_floor_and_wall_act_on_each_other(apart, friction):
    # Reaches the wall after 0.1 s, the floor with it or before.
    params = {"mass": jnp.ones(1), "radius": 0.1 * jnp.ones(1), "gravity": jnp.zeros(2), "restitution": 0.5}
    u0 = [-1.0, -1.0 - apart, 3.0]
    certificate = dc.certify(
        CORNER, params | {"friction": friction}, [0.2, 0.2, 0.0], u0, np.linspace(0.0, 0.2, 3), substeps=1
    )
    assert certificate.clear == (apart > 0 or friction == 0)
    if not certificate.clear:
        assert certificate.first()[0] == Singularity.SIMULTANEOUS


@pytest.mark.parametrize(("spin", "found"), [(50.0, set()), (0.0, {Singularity.UNLOADED})])
def test_what_friction_presses_against_a_wall_is_loaded(spin, found):
    # Friction on the floor drives the spinning disc to the left, where the wall holds it.
    params = {"mass": jnp.ones(1), "radius": 0.1 * jnp.ones(1), "gravity": jnp.array([0.0, -9.81])}
    law = {"restitution": 0.0, "friction": 0.3}
    certificate = dc.certify(
        CORNER, params | law, [0.1, 0.1, 0.0], [0.0, 0.0, spin], np.linspace(0.0, 0.2, 3), substeps=1
    )
    assert _singularities(certificate) == found
    # The floor carries the weight and what friction on the wall adds: N = m g + mu mu N where it lifts the disc.
    assert (certificate.trajectory.impulse[-1, 0] > 0.1 * 0.3 * 9 / (1 + 0.3**2)) == (spin > 0)


def test_a_load_that_no_force_can_hold_is_told():
    # Painleve's rod of tests/schemes/event_timed/test_friction_told.py.
    half, angle = 0.5, 0.9
    rod = dc.System(
        gap=lambda t, q, p: q[1:2] - half * jnp.sin(q[2]),
        force=lambda t, q, u, p: jnp.array([0.0, -9.81, 0.0]),
        mass=lambda q, p: jnp.array([1.0, 1.0, half**2 / 3]),
        restitution=lambda p: 0.0,
        slip=lambda t, q, u, p: (u[0] - half * jnp.sin(q[2]) * u[2])[None, None],
        friction=lambda p: p["mu"],
    )
    certificate = dc.certify(
        rod, {"mu": 2.5}, [0.0, half * np.sin(angle), angle], [1.0, 0.0, 0.0], np.linspace(0, 0.02, 3), substeps=1
    )
    assert not certificate.clear
    assert "status NO_FRICTION" in str(certificate)
    assert "Painleve" in str(certificate)


# A block on the floor in space, pushed back faster than friction stops it: it turns round, past zero or through it.
PUSHED_BACK = dc.System(
    gap=lambda t, q, p: q[2:],
    force=lambda t, q, u, p: jnp.array([-10.0, 0.0, -10.0]),
    mass=lambda q, p: jnp.ones(3),
    restitution=lambda p: 0.0,
    slip=lambda t, q, u, p: u[None, :2],
    friction=lambda p: p["mu"],
)


@pytest.mark.parametrize(
    ("aside", "found"), [(0.5, []), (3e-3, [Singularity.SLIP_GRAZES]), (0.0, [Singularity.SLIP_GRAZES])]
)
def test_a_slip_in_space_that_passes_zero(aside, found):
    # Friction takes from v_y what it takes from v_x, to the power 1/3: 0.2 m/s are left at the turn, 1e-4, and none.
    run = [0.0, 0.0, 0.0], [1.0, aside, 0.0], np.linspace(0.0, 0.2, 21)
    certificate = dc.certify(PUSHED_BACK, {"mu": 0.5}, *run, substeps=1)
    assert [f.singularity for f in certificate.findings] == found
    # At constant deceleration of 15 m/s^2.
    assert all(abs(f.time - 1 / 15) < 0.01 for f in certificate.findings)
