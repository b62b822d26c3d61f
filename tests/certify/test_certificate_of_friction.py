"""What a certificate says of a disc that falls on a rough floor, and of a block that slides: rows of one program."""

import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.certify.singularity import Singularity

# Falls 0.4 m with a slip of 1 - 0.1 * 20 m/s, of which m / 3 takes part: P = 1.7 sqrt(2 g 0.4), B = 1.3 / 3 to grip.
GRIP = 1.3 / 3 / (1.7 * np.sqrt(0.8 * 9.81))
LAW = {"radius": 0.1, "restitution": 0.7, "tangential_restitution": 0.3}
DROP = LAW | {"q0": [0.0, 0.5, 0.0], "u0": [1.0, 0.0, -20.0], "end": 0.5}
# A block with v' = -mu g + 2 mu g sin t: v is least at t = pi / 6.
WEIGHT = 0.5 * 9.81
LEAST = WEIGHT * (np.pi / 6 - 2 * (1 - np.cos(np.pi / 6)))


def _slides(least):
    return {"q0": np.zeros(3), "u0": [LEAST + least, 0.0, 0.0], "amplitude": 2 * WEIGHT, "end": 0.8}


ROWS = {
    "slips": (DROP | {"friction": 0.9 * GRIP}, []),
    "all but grips": (DROP | {"friction": (1 - 1e-4) * GRIP}, [Singularity.CONE_EDGE]),
    "at the edge": (DROP | {"friction": GRIP}, [Singularity.CONE_EDGE]),
    "grips": (DROP | {"friction": 1.01 * GRIP}, [Singularity.GRIPPED]),
    "slides on": (_slides(1e-2), []),
    "all but stops": (_slides(1e-4), [Singularity.SLIP_GRAZES]),
    "stops for a moment": (_slides(-1e-4), [Singularity.SLIP_GRAZES]),
    "stops, and slides again": (_slides(-1e-2), []),
}


@pytest.mark.parametrize("name", ROWS)
def test_what_is_found(name):
    row, expected = ROWS[name]
    row = zoo.DISC.params | row
    times = np.linspace(0.0, row.pop("end"), 21)
    params = {key: np.asarray(value, float) for key, value in row.items()}
    certificate = dc.certify(zoo.DISC.system, params, row["q0"], row["u0"], times, substeps=1, percussions=16)
    assert [one.singularity for one in certificate.findings] == expected
    assert certificate.clear == (expected in ([], [Singularity.GRIPPED]))
    # Of a slip that all but ends the step is told, of 0.04 s; one that stops does so 5 ms before it would be least.
    at, atol = (np.sqrt(0.8 / 9.81), 1e-12) if "radius" in ROWS[name][0] else (np.pi / 6, 0.045)
    np.testing.assert_allclose([one.time for one in certificate.findings], [at] * len(expected), atol=atol)
    if expected == [Singularity.GRIPPED]:
        assert "for information: an impact in the grip" in str(certificate)


def _singularities(certificate):
    return {finding.singularity for finding in certificate.findings}


# A box on three feet in a row, which rub as they are told.
FEET = zoo.system(
    gap=lambda t, q, p: q[1] + jnp.array([-0.2, 0.0, 0.2]) * q[2],
    force=lambda t, q, u, p: jnp.stack([p["push"], -10.0 * jnp.ones(()), jnp.zeros(())]),
    mass=lambda q, p: jnp.array([1.0, 1.0, 0.02]),
    slip=lambda t, q, u, p: (u[0] + 0.1 * u[2]) * jnp.ones((3, 1)),
    friction=lambda p: p["mu"],
)


@pytest.mark.full
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


@pytest.mark.full
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


@pytest.mark.full
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


# A block on the floor in space, pushed back faster than friction stops it: it turns round, past zero or through it.
PUSHED_BACK = zoo.system(
    gap=lambda t, q, p: q[2:],
    force=lambda t, q, u, p: jnp.array([-10.0, 0.0, -10.0]),
    slip=lambda t, q, u, p: u[None, :2],
    friction=lambda p: p["mu"],
)


@pytest.mark.full
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
