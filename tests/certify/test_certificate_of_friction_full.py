"""What a certificate says where contacts rub: grips, slips that end, loads that are shared."""

import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.certify.singularity import Singularity

pytestmark = pytest.mark.full


def _singularities(certificate):
    return {finding.singularity for finding in certificate.findings}


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
