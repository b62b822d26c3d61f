"""Friction that depends on the speed of approach: impacts against the closed form, what lasts, and what is refused."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.certify.singularity import Singularity
from diffcontact.systems import laws

# A disc of mass 1 and radius 0.5 on a floor; a law of the friction for each, by an exponent of the speed.
FLOOR = {"planes": lambda t, params: (np.array([[0.0, 1.0]]), np.zeros(1))}
DISC = dc.systems.balls(1, 2, spin=True, friction="linear", **FLOOR)
R, E, MU, LOSS = 0.5, 0.6, 0.3, 0.04


def params_of(**other):
    given = {"mass": np.ones(1), "radius": jnp.full(1, R), "gravity": np.zeros(2)}
    return given | {"restitution": E, "friction": MU, "friction_loss": LOSS} | other


def slipped(mu, v, u, w):
    """(u, v, w) of a disc behind an impact in which it slips to the right, by Coulomb's law."""
    push = (1 + E) * v
    return np.array([u - mu * push, E * v, w - 2 * mu * push / R])


def test_an_impact_has_the_friction_of_its_speed():
    speeds = np.array([0.5, 2.0, 5.0])
    before = np.stack([np.full(3, 8.0), -speeds, np.ones(3)], axis=1)
    hits = jax.jit(jax.vmap(lambda u: dc.impact(DISC, params_of(), 0.0, jnp.array([0.0, R, 0.0]), u)))(before)
    hits = jax.tree.map(np.asarray, hits)
    assert not np.any(hits.status)
    for speed, after in zip(speeds, hits.u + hits.jump, strict=True):
        np.testing.assert_allclose(after, slipped(MU - LOSS * speed, speed, 8.0, 1.0), rtol=1e-13)


@pytest.mark.full
def test_what_lasts_has_the_friction_of_speed_zero():
    params = params_of(gravity=np.array([0.0, -9.81]), restitution=0.0)
    run = dc.simulate(DISC, params, [0.0, R, 0.0], [4.0, 0.0, 0.0], np.linspace(0, 0.2, 5), scheme=dc.EventTimed())
    assert run.status == dc.Status.OK
    np.testing.assert_allclose(run.u[:, 0], 4 - MU * 9.81 * run.t, rtol=1e-13)


@pytest.mark.full
def test_derivatives_through_bounces_are_those_of_the_law():
    # Falls from 1 m above the floor, slips, and its velocity then is known in closed form.
    g, height = 9.81, 1.0
    times = np.array([0.0, 0.5, 0.8])

    def end(z):
        params = params_of(gravity=jnp.array([0.0, -g]), friction=z[0], friction_loss=z[1], restitution=E)
        q0 = jnp.stack([0.0, R + height + z[2], 0.0])
        run = dc.simulate(DISC, params, q0, np.array([8.0, 0.0, 0.0]), times, scheme=dc.EventTimed())
        return run.u[-1, np.array([0, 2])]

    def truth(z):
        speed = jnp.sqrt(2 * g * (height + z[2]))
        lost = (z[0] - z[1] * speed) * (1 + E) * speed
        return jnp.stack([8.0 - lost, -2 * lost / R])

    z = jnp.array([MU, LOSS, 0.0])
    np.testing.assert_allclose(end(z), truth(z), rtol=1e-12)
    # Rounding of the time of impact.
    np.testing.assert_allclose(jax.jacfwd(end)(z), jax.jacfwd(truth)(z), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(jax.jacrev(end)(z), jax.jacfwd(truth)(z), rtol=1e-9, atol=1e-9)


@pytest.mark.full
def test_poissons_impact_has_the_friction_of_its_speed():
    """A box on its corner, slipping all through: the same as with the constant friction of that speed."""
    own, floor = (dc.shapes.Box([0.2, 0.1]),), FLOOR["planes"]
    params = {"mass": np.ones(1), "gravity": np.zeros(2), "restitution": 0.5}
    angle = 0.5
    low = 0.1 * np.sin(angle) + 0.05 * np.cos(angle)
    q, u = [0.0, low, angle], [9.0, -2.0, 0.0]
    law = dc.systems.bodies(own, 2, floor, friction="linear", impact_law="poisson")
    constant = dc.systems.bodies(own, 2, floor, impact_law="poisson")
    hit = dc.impact(law, params | {"friction": 0.2, "friction_loss": 0.03}, 0.0, q, u)
    same = dc.impact(constant, params | {"friction": 0.2 - 0.03 * 2.0}, 0.0, q, u)
    assert hit.status == same.status == dc.Status.OK
    np.testing.assert_array_equal(hit.jump, same.jump)
    assert np.max(np.abs(hit.friction)) > 0


@pytest.mark.full
@pytest.mark.parametrize("resistance", [False, True])
def test_a_negative_friction_is_none_and_told(resistance):
    disc = dc.systems.balls(1, 2, spin=True, friction="linear", resistance=resistance, **FLOOR)
    own = replace(disc, friction=lambda params, speed: 0.3 - 0.2 * speed)
    params = params_of(rolling_friction=0.01) if resistance else params_of()
    fine, off = (dc.impact(own, params, 0.0, [0.0, R, 0.0], [3.0, -v, 0.0]) for v in (1.0, 2.0))
    assert (fine.status, off.status) == (dc.Status.OK, dc.Status.NO_FRICTION)
    np.testing.assert_array_equal(off.friction, 0.0)
    q0, u0, times = [0.0, R + 0.2, 0.0], [3.0, -2.0, 0.0], np.linspace(0, 0.3, 4)
    run = dc.simulate(own, params, q0, u0, times, scheme=dc.EventTimed())
    assert run.status == dc.Status.NO_FRICTION


@pytest.mark.full
@pytest.mark.parametrize("resistance", [False, True])
def test_a_friction_that_is_negative_at_rest_is_refused(resistance):
    system = dc.systems.balls(1, 2, spin=True, friction="linear", resistance=resistance, **FLOOR)
    with pytest.raises(ValueError, match="friction: expected at least 0"):
        dc.simulate(system, params_of(friction=-0.3), [0.0, R, 0.0], np.zeros(3), [0.0, 0.1])


@pytest.mark.full
def test_resistance_to_rolling_goes_with_it():
    rolls = dc.systems.balls(1, 2, spin=True, friction="linear", resistance=True, **FLOOR)
    hits = [
        dc.impact(system, params_of(rolling_friction=0.0), 0.0, [0.0, R, 0.0], [8.0, -2.0, 1.0])
        for system in (rolls, DISC)
    ]
    np.testing.assert_allclose(hits[0].jump, hits[1].jump, rtol=1e-12)


@pytest.mark.full
@pytest.mark.parametrize("scheme", [dc.VelocityProjection(), dc.VelocityProjection(iterate=False)])
def test_time_stepping_refuses_it(scheme):
    with pytest.raises(ValueError, match="takes no friction that depends on the speed; take EventTimed"):
        dc.simulate(DISC, params_of(), [0.0, R, 0.0], np.zeros(3), [0.0, 0.1], scheme=scheme)


def test_unknown_laws_are_refused():
    with pytest.raises(ValueError, match=r"bodies\(friction='power'\): no such law"):
        dc.systems.bodies(dc.shapes.Box([1, 1]), 2, friction="power")
    with pytest.raises(ValueError, match=r"balls\(friction='linear'\): expected spin=True, and no cell"):
        dc.systems.balls(2, 2, friction="linear")
    with pytest.raises(ValueError, match=r"laws.friction\(friction='lin'\)"):
        laws.friction("lin")


@pytest.mark.full
def test_certify_names_where_friction_comes_to_nothing():
    params = params_of(gravity=np.array([0.0, -9.81]), friction_loss=MU / np.sqrt(2 * 9.81))
    found = dc.certify(DISC, params, [0.0, R + 1.0, 0.0], [8.0, 0.0, 0.0], np.linspace(0, 0.6, 7))
    assert Singularity.KINK in {finding.singularity for finding in found.findings}
