"""The velocity projection beside SCoPI, another code that steps by it: the states that its own tests end in.

Those of friction are from hpc-maths/scopi @ 2ba5652 and 07ebb66, BSD-3-Clause.
"""

import json

import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full


def scopi(reference, name):
    """Setup and final state of one of SCoPI's own tests."""
    return json.loads((reference / "scopi" / "final_states.json").read_text())[name]


def test_scopi_three_spheres(reference):
    setup = scopi(reference, "three_spheres")
    spheres, force = dc.systems.balls(3, 2), np.ravel(setup["force"])
    system = dc.System(spheres.gap, lambda t, q, u, p: jnp.asarray(force), spheres.mass, lambda p: 0.0)
    params = {"mass": np.array(setup["mass"], float), "radius": np.array(setup["radius"])}
    times = setup["dt"] * np.arange(setup["steps"] + 1)
    run = dc.simulate(
        system, params, np.ravel(setup["q0"]), np.ravel(setup["u0"]), times, scheme=dc.VelocityProjection()
    )
    # SCoPI's own solver stops at 1e-7; 1e-6 after 60 steps.
    np.testing.assert_allclose(run.q[-1], np.ravel(setup["q"]), atol=1e-6)
    np.testing.assert_allclose(run.u[-1], np.ravel(setup["u"]), atol=1e-6)


def test_scopi_three_spheres_that_rub():
    """Its fixed point, the exact law: discs of mass and inertia 1, mu = 0.5, 70 steps of 0.1 s."""
    discs = dc.systems.balls(3, 2, spin=True)
    force = jnp.array([1.7, -1.3, 0.0, -0.5, -1.7, 0.0, -4.5, -1.3, 0.0])
    system = dc.System(
        discs.gap,
        lambda t, q, u, p: force,
        discs.mass,
        lambda p: 0.0,
        slip=discs.slip,
        friction=lambda p: p["friction"],
    )
    params = {"mass": jnp.ones(3), "radius": jnp.full(3, 0.5), "inertia": jnp.ones(3), "friction": 0.5}
    q0 = [-1.7, 1.3, 0.0, 0.5, 1.7, 0.0, 4.5, 1.3, 0.0]
    run = dc.simulate(system, params, q0, np.zeros(9), 0.1 * np.arange(71), scheme=dc.VelocityProjection())
    assert run.status == dc.Status.OK
    q = [[-21.365373837444146, -35.86004367004577], [-24.13322557791232, -33.18749332899189]]
    q += [[-33.20640058464355, -33.50746300096231]]
    u = [[-2.416353080677564, -10.341054438534952, 1.8490470234378233]]
    u += [[-6.138129089478195, -10.240053601431724, -0.13877512798659764]]
    u += [[-14.545517829844236, -9.518891960033335, -0.2855612840954528]]
    # Its fixed point stops at 1e-6, and velocities add up to positions over 7 s.
    np.testing.assert_allclose(run.u[-1].reshape(3, 3), u, atol=1e-6)
    np.testing.assert_allclose(run.q[-1].reshape(3, 3)[:, :2], q, atol=2e-6)


def test_scopi_disc_that_slips_down_a_slope():
    """Its convex scheme: a disc of radius 2 m and inertia 2 kg m^2 falls onto a slope of 30 degrees, mu = 0.1."""
    normal = jnp.array([[0.5, np.sqrt(0.75)]])
    disc = dc.systems.balls(1, 2, planes=lambda t, p: (normal, jnp.zeros(1)), spin=True)
    params = {"mass": jnp.ones(1), "radius": jnp.full(1, 2.0), "inertia": jnp.full(1, 2.0), "gravity": [0.0, -1.0]}
    params |= {"friction": 0.1, "restitution": 0.0}
    q0 = [0.0, 3 / np.sqrt(0.75), 0.0]
    run = dc.simulate(disc, params, q0, np.zeros(3), 0.1 * np.arange(201), scheme=dc.VelocityProjection(iterate=False))
    assert run.status == dc.Status.OK
    # Its solver stops at 1e-7.
    np.testing.assert_allclose(run.q[-1, :2], [71.56701162523167, -38.95437061818806], atol=1e-7)
    np.testing.assert_allclose(run.u[-1], [7.161246987036821, -4.131774373007218, -1.732290999947742], atol=1e-7)


ON_A_FLOOR = dc.systems.balls(1, 2, planes=lambda t, p: (jnp.array([[0.0, 1.0]]), jnp.zeros(1)), spin=True)


@pytest.mark.parametrize(
    ("friction", "degrees", "errors"),
    [
        (0.1, 30, (0.00101117, 0.000971288)),
        (0.1, 45, (0.00102263, 0.000929086)),
        (0.1, 60, (0.00102867, 0.000856009)),
        (0.5, 30, (0.00105583, 0.000999002)),
        (0.5, 45, (0.00104746, 0.000999008)),
        (0.5, 60, (0.0010907, 0.000883162)),
        (1.0, 30, (0.00107652, 0.000999002)),
        (1.0, 45, (0.00112413, 0.000999003)),
        (1.0, 60, (0.0011583, 0.000999013)),
    ],
)
def test_scopi_errors_of_the_convex_scheme(friction, degrees, errors):
    """A disc that falls onto a slope, rolls or slips: relative errors of place and spin, a step late."""
    angle, end = np.radians(degrees), 10.01
    params = {"mass": jnp.ones(1), "radius": jnp.ones(1), "friction": friction, "restitution": 0.0}
    params["gravity"] = jnp.array([np.sin(angle), -np.cos(angle)])
    run = dc.simulate(
        ON_A_FLOOR,
        params,
        [0.0, 2.0, 0.0],
        np.zeros(3),
        0.01 * np.arange(1001),
        scheme=dc.VelocityProjection(iterate=False),
    )
    struck = np.sqrt(2 / np.cos(angle))
    along, onto, since = struck * np.sin(angle), struck * np.cos(angle), end - struck
    if np.tan(angle) <= 3 * friction:
        place = np.sin(angle) * since**2 / 3 + 2 / 3 * along * since + along * struck / 2
        spin = -2 / 3 * (np.sin(angle) * since + along)
    else:
        pull = np.sin(angle) - friction * np.cos(angle)
        place = pull * since**2 / 2 + (along - friction * onto) * since + along * struck / 2
        spin = -2 * friction * (np.cos(angle) * since + onto)
    error = np.hypot(run.q[-1, 0] - place, run.q[-1, 1] - 1) / np.hypot(place, 1)
    # Six digits are printed, and its solver leaves 1e-7 of the state.
    np.testing.assert_allclose([error, abs(run.u[-1, 2] / spin - 1)], errors, atol=3e-7)
