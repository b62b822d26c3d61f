"""Rows that a system brings of its contacts, beside the derivatives of its gaps and slips."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact import shapes
from diffcontact.schemes.event_timed.contacts import Place, bends, velocities
from diffcontact.system import normalised

TREE = """<mujoco><worldbody><geom type="plane" size="1 1 1" euler="10 20 0"/>
<body name="trunk" pos="0 0 1"><freejoint/><geom type="ellipsoid" size=".2 .1 .05"/>
  <body pos=".3 0 0"><joint type="ball" range="0 60"/><geom type="capsule" size=".02" fromto="0 0 0 .2 .1 0"/>
    <body pos=".2 .1 0"><joint axis="0 1 0" range="-90 10"/><geom type="cylinder" size=".02 .1" pos="0 0 -.2"/></body>
  </body></body>
<body pos="1 0 .5"><joint type="slide" axis="0 .6 .8" range="-1 2"/><geom type="box" size=".1 .2 .3"/></body>
<body pos="1.5 0 1"><freejoint/><geom size=".1"/></body></worldbody></mujoco>"""
LOOP = """<mujoco><option><flag contact="disable"/></option><worldbody>
<body name="crank"><joint name="crank" axis="0 1 0" range="-80 80"/><geom size=".1" pos=".3 0 0"/>
  <body name="rod" pos=".3 0 0"><joint axis="0 1 0"/><geom size=".1" pos=".8 0 0"/></body></body>
<body name="slider" pos="1.1 0 0"><joint type="slide" axis="1 0 0" range="-.45 1"/><geom size=".1"/></body></worldbody>
<equality><connect body1="rod" body2="slider" anchor=".8 0 0"/></equality></mujoco>"""


def _bodies(dimension):
    """A box, a ball and a fixed ball on planes of which one moves and tilts, with belts."""

    def planes(t, params):
        up = jnp.stack([jnp.sin(0.3 * t), *[0.0 * t] * (dimension - 2), jnp.cos(0.3 * t)])
        side = np.full(dimension, dimension**-0.5)
        return jnp.stack([jnp.asarray(side), up]), jnp.stack([-0.5 + 0.0 * t, 0.2 * t])

    def belt(t, params):
        return jnp.cos(t + jnp.arange(2.0 * dimension)).reshape(2, dimension)

    each = shapes.Box(*(0.4, 0.2, 0.3)[:dimension]), shapes.Ball(0.1)
    params = {"mass": np.ones(2), "gravity": np.zeros(dimension), "restitution": 0.5, "friction": 0.3}
    params |= {"fixed_centre": np.full((1, dimension), 2.0), "fixed_radius": np.full(1, 0.3)}
    return dc.systems.bodies(each, dimension, planes, fixed=1, belt=belt), params


def _mechanism(text):
    pytest.importorskip("mujoco", reason="mechanism reads files by MuJoCo, the extra `mujoco`")
    return dc.systems.mechanism(text, ignore=("contact",)), {}


CASES = {
    "bodies in a plane": lambda: (*_bodies(2), (6, 6)),
    "bodies in space": lambda: (*_bodies(3), (14, 12)),
    "a tree among geoms": lambda: (*_mechanism(TREE), (20, 17)),
    "a closed loop": lambda: (*_mechanism(LOOP), (3, 1)),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] * (name != "a tree among geoms")) for name in CASES]
)
def test_rows_and_what_curvature_adds_are_the_derivatives_of_gaps_and_slips(name):
    system, params, (n, d) = CASES[name]()
    assert system.rows is not None

    @jax.jit
    def both(t, q, u):
        q = q if system.normalise is None else normalised(system, params, q)
        found = []
        for one in (system, replace(system, rows=None)):
            place = Place.at(one, params, t, q, d)
            found.append((place.rows, place.drift, velocities(one, params, t, q, u)[1], bends(one, params, t, q, u)))
        return found

    rng = np.random.default_rng(0)
    for _ in range(3):
        given, derived = both(0.7, 0.3 * rng.normal(size=n), rng.normal(size=d))
        for one, other in zip(given, derived, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(one, other, rtol=0, atol=1e-12 * (1 + np.abs(other).max()))


def test_rows_that_are_not_those_of_the_slip_are_told():
    each = shapes.Box(0.4, 0.2), shapes.Ball(0.1)
    system = dc.systems.bodies(each, 2, lambda t, params: (np.eye(2), np.full(2, -9.0)), fixed=1)
    wrong = replace(system, rows=lambda t, q, p: system.rows(t, q, p).at[0, 1].multiply(2.0))
    params = _bodies(2)[1]
    with pytest.raises(ValueError, match=r"System\.rows: expected the gradients of gap and slip, but row 0"):
        dc.simulate(wrong, params, [0.0, 1.0, 0.1, 1.0, 2.0, 0.0], np.ones(6), [0.0, 0.1])
