"""Contacts that close at one moment, and depend on each other: the four feet of a lid that falls shut, and rattles."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full

HALF_LENGTH, HALF_WIDTH = 0.5, 0.4
ALONG, ACROSS = np.array([-1.0, -1.0, 1.0, 1.0]), np.array([-1.0, 1.0, -1.0, 1.0])
TIMES = jnp.linspace(0.0, 1.0, 41)
# Until which angle the lid stands open at first, which restitution and which moment of inertia it has.
ANGLES, RESTITUTIONS, INERTIAS = np.linspace(0.2, 1.2, 6), np.array([0.0, 0.5]), np.array([0.02, 0.1, 0.3])
LIDS = np.stack(np.meshgrid(ANGLES, RESTITUTIONS, INERTIAS, indexing="ij"), axis=-1).reshape(-1, 3)


def _lid(feet, rubs):
    """q = (height, angle, tilt) of a lid on so many feet, and how far it has slid where it rubs.

    On four feet it may tilt from side to side, and does not, since nothing makes a difference between its sides. On two
    it cannot.
    """
    along, across = (ALONG, ACROSS) if feet == 4 else (ALONG[::2], np.zeros(2))

    def gap(t, q, p):
        floor = p["floor"] * (t - p["begin"])
        return q[0] + HALF_LENGTH * along * jnp.sin(q[1]) + HALF_WIDTH * across * jnp.sin(q[2]) - floor

    def force(t, q, u, p):
        return jnp.zeros_like(u).at[0].set(-9.81)

    def mass(q, p):
        return jnp.concatenate([jnp.stack([1.0, p["inertia"], 0.05]), jnp.ones(1)])[: q.size]

    more = {"slip": lambda t, q, u, p: jnp.full((feet, 1), u[3]), "friction": lambda p: 0.3} if rubs else {}
    return dc.System(gap, force, mass, lambda p: p["restitution"], **more)


@cache
def _shut(feet, rubs, percussions=0):
    """How all lids fall shut that rest on their hinge, on a floor that moves up at this velocity from `begin` on."""
    system = _lid(feet, rubs)

    def run(lid, floor, begin):
        angle, restitution, inertia = lid
        params = {"restitution": restitution, "inertia": inertia, "floor": floor, "begin": begin}
        start = jnp.stack([HALF_LENGTH * jnp.sin(angle), angle, 0.0, 0.0])[: 4 if system.rubs else 3]
        u0 = jnp.array([floor, 0.0, 0.0, 1.0])[: start.size]
        return dc.simulate(system, params, start, u0, begin + TIMES, percussions=percussions)

    return jax.jit(lambda floor, begin: jax.vmap(run, in_axes=(0, None, None))(jnp.asarray(LIDS), floor, begin))


@pytest.mark.parametrize("rubs", [False, True])
@pytest.mark.parametrize(("floor", "begin"), [(0.0, 0.0), (0.0, 1e5), (0.7, 0.0), (0.7, 1e3)])
def test_a_lid_that_falls_shut_does_not_tilt(floor, begin, rubs):
    """A status OK means that the feet of both sides have struck together, however far from t = 0: that of a lid on two
    feet, which cannot tilt, moves alike."""
    four, two = (_shut(feet, rubs)(floor, begin) for feet in (4, 2))
    fine = (four.status == Status.OK) & (two.status == Status.OK)
    # 1e5 s later times are rounded to 1.5e-11 s: feet that belong together strike one after the other then, and bounces
    # that end are TOO_COARSE, or more events than a step resolves.
    late = begin == 1e5
    assert np.mean(fine) >= (0.6 if late else 0.8)
    told = [Status.OK, Status.TOO_COARSE, *[Status.TOO_MANY_EVENTS] * late]
    assert np.all(np.isin(four.status, told))
    # Times are rounded to 1.5e-11 s there, speeds are below 5 m/s, and thirty bounces multiply what they begin with.
    allowed = 1e-9
    assert np.max(np.abs(four.q[fine][:, :, 2])) < allowed
    np.testing.assert_allclose(four.q[fine], two.q[fine], rtol=0, atol=allowed)


def test_feet_that_strike_together_are_closed_to_rounding():
    """Each of two that are aimed at once tells, where it overlaps, that the other one was not first."""
    system, run = _lid(4, False), _shut(4, False, percussions=64)(0.0, 0.0)
    struck = np.asarray(run.percussions.contact) >= 0
    gaps = jax.vmap(jax.vmap(lambda q: system.gap(0.0, q, {"floor": 0.0, "begin": 0.0})))(run.percussions.q)
    met = np.take_along_axis(np.asarray(gaps), np.maximum(run.percussions.contact, 0)[..., None], axis=-1)[..., 0]
    assert np.sum(struck) > 100
    # A hundred roundings of the half length: where the search goes to and fro it is 10^6 of them.
    assert np.max(np.abs(met[struck])) < 100 * np.finfo(float).eps * HALF_LENGTH
