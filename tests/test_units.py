"""No number in the library has a unit: a world of other lengths, masses and times moves alike, to the last digits.

Units are powers of two, which change no digit. Where many are added up the order may differ, by a rounding or two.
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact import qp

pytestmark = pytest.mark.full

# Factors of length, mass and time: from a nanometre to 1e6 km, 1e-24 kg, 1e9 s.
UNITS = [(2.0**-30, 1.0, 1.0), (2.0**30, 1.0, 1.0), (1.0, 2.0**-80, 1.0), (2.0**-20, 2.0**-40, 2.0**30)]
TIMES = np.linspace(0.0, 1.0, 21)


@cache
def problems():
    """Friction problems of two contacts in space, eight of them."""
    rng = np.random.default_rng(4)
    shapes = {
        "mass": (4,),
        "normals": (2, 4),
        "tangents": (2, 2, 4),
        "b": (2,),
        "s": (2, 2),
        "friction": (2,),
        "v": (4,),
    }
    drawn = {name: rng.normal(size=(8, *shape)) for name, shape in shapes.items()}
    return drawn | {"mass": np.exp(drawn["mass"]), "friction": np.abs(drawn["friction"])}


@jax.jit
def _answer(problems, mass, speed):
    units = {"mass": mass, "normals": 1.0, "tangents": 1.0, "b": speed, "s": speed, "friction": 1.0, "v": speed}
    scaled = {name: units[name] * x for name, x in problems.items()}

    def one(problem):
        found = qp.coulomb(**problem)
        return found.u / speed, found.normal / mass / speed, found.tangential / mass / speed, found.status

    return jax.lax.map(one, scaled)


@pytest.mark.parametrize(("mass", "speed"), [(2.0**-80, 1.0), (1.0, 2.0**-200), (2.0**-100, 2.0**300)])
def test_friction_is_that_of_any_unit(mass, speed):
    known, found = _answer(problems(), 1.0, 1.0), _answer(problems(), mass, speed)
    assert np.any(known[3] == 0)
    for one, other in zip(known, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_friction_in_single_precision_is_that_of_light_bodies():
    """Of some sixty micrograms at a micrometre a second; roots of the masses are powers of two, too."""
    single = jax.tree.map(np.float32, problems())
    known, found = _answer(single, *np.float32([1.0, 1.0])), _answer(single, *np.float32([2.0**-24, 2.0**-20]))
    for one, other in zip(known, found, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_box_problem_is_that_of_any_unit():
    A, b = np.array([[2.0, 0.3], [0.3, 1.0]]), np.array([-3.0, 0.2])
    one, other = (qp.box(A, b * x, -np.ones(2) * x, np.ones(2) * x) for x in (1.0, 2.0**-60))
    np.testing.assert_array_equal(one.x, other.x * 2.0**60)
    assert one.status == other.status == 0


def _cart(L, M, T):
    """A cart on a rail with a pendulum, between walls: a place and an angle, M(q)."""
    E = M * L**2 / T**2
    units = np.array([L, 1.0])

    def mass(q, p):
        cross = 0.5 * jnp.cos(q[1])
        return E * T**2 * jnp.array([[2.0, cross], [cross, 0.25]]) / units[:, None] / units[None]

    def force(t, q, u, p):
        return E / units * jnp.stack([0.5 * jnp.sin(q[1]) * (u[1] * T) ** 2, -5.0 * jnp.sin(q[1])])

    def gap(t, q, p):
        bob = q[0] / L + 0.5 * jnp.sin(q[1])
        return L * jnp.stack([1.0 - bob, 1.0 + bob, 0.8 - q[0] / L, 0.8 + q[0] / L])

    return dc.System(gap, force, mass, lambda p: p["e"]), {"e": 0.0}, units, [0.2, 0.4], [3.0, 2.0]


def _discs(L, M, T):
    """Three discs that spin and rub, with a cell list."""
    params = {"mass": M * np.array([1.0, 2.0, 0.7]), "radius": L * np.array([0.1, 0.15, 0.12]), "friction": 0.4}
    params |= {"gravity": np.array([0.0, -10.0]) * L / T**2, "restitution": 0.0}
    q0, u0 = [0.3, 0.5, 0.0, 0.75, 0.4, 0.0, 1.5, 0.6, 0.0], [1.0, -1.0, 5.0, -0.5, 0.0, 3.0, 0.3, 0.2, -9.0]
    system = dc.systems.balls(3, 2, ((0.0, 0.0), (2.0 * L, np.inf)), spin=True, cell=0.5 * L)
    return system, params, np.tile([L, L, 1.0], 3), q0, u0


def _sliders(L, M, T):
    """Two particles on a spring, of which one is pulled, with dry friction."""
    chain = np.array([[2.0, -1.0], [-1.0, 1.0]])
    line = dc.ParticleLine(
        mass=lambda p: M * jnp.array([1.0, 0.5]),
        damping=lambda p: 0.1 * M / T * jnp.eye(2),
        stiffness=lambda p: 30.0 * M / T**2 * chain,
        load=lambda t, p: M * L / T**2 * jnp.array([0.0, 2.0]) * jnp.sin(5.0 * t / T),
        friction=lambda p: p["friction"],
        normal=lambda t, p: 10.0 * M * L / T**2 * jnp.array([1.0, 0.5]),
        percussion_times=(),
        percussions=lambda p: jnp.zeros(0),
    )
    return line, {"friction": 0.2}, np.array([L, L]), [0.1, -0.1], [1.0, 0.5]


@cache
def _motion(world, scheme, units=(1.0, 1.0, 1.0)):
    system, params, lengths, q0, u0 = world(*units)
    run = dc.simulate(system, params, q0 * lengths, u0 * lengths / units[2], TIMES * units[2], scheme=scheme)
    assert run.status == dc.Status.OK
    return np.asarray(run.q) / lengths


@pytest.mark.parametrize("units", UNITS)
@pytest.mark.parametrize(
    ("world", "scheme"),
    [
        pytest.param(_cart, dc.CatchingUp(), id="CatchingUp"),
        pytest.param(_discs, dc.EventTimed(), id="EventTimed, friction, a list"),
        pytest.param(_sliders, dc.EventTimed(), id="EventTimed, a line"),
        pytest.param(_sliders, dc.PercussionFriction(), id="PercussionFriction"),
    ],
)
def test_a_motion_is_that_of_any_unit(world, scheme, units):
    known, found = _motion(world, scheme), _motion(world, scheme, units)
    np.testing.assert_allclose(found, known, atol=1e-14)


def test_sides_that_are_open_take_no_part_in_an_impact():
    """They are infinitely far, and do not make all else near."""
    disc = dc.systems.balls(2, 2, box=((-np.inf, 0.0), (np.inf, np.inf)), spin=True)
    params = {"mass": np.ones(2), "radius": np.array([0.1, 0.1]), "gravity": np.zeros(2)}
    params |= {"restitution": 0.5, "friction": 0.3}
    q, u = np.array([0.0, 0.1, 0.0, 0.5, 0.7, 0.0]), np.array([9.0, -1.0, 0.0, 1.0, -2.0, 0.0])
    hit = dc.impact(disc, params, 0.0, q, u)
    P = 1.5
    np.testing.assert_allclose(hit.jump, [-0.3 * P, P, -0.3 * P * 0.1 / 0.005, 0, 0, 0], atol=1e-14)


@pytest.mark.parametrize("length", [1.0, 2.0**-20, 2.0**-40])
@pytest.mark.parametrize("cell", [None, 0.3])
@pytest.mark.parametrize("spin", [False, True])
def test_what_overlaps_by_a_percent_is_told_in_any_unit(length, cell, spin):
    """Two balls of some 0.1 m, 0.1 um and 0.1 pm, in single precision, and two that touch."""
    system = dc.systems.balls(2, 3, cell=None if cell is None else cell * length, spin=spin)
    lengths = {"radius": np.full(2, 0.1), "gravity": np.zeros(3)}
    params = {name: np.float32(length * x) for name, x in lengths.items()} | {"mass": np.ones(2, np.float32)}
    params |= {"restitution": np.float32(0.5)} | ({"friction": np.float32(0.5)} if spin else {})

    def start(apart):
        centre = np.float32(length * np.array([[0.3, 0.4, 0.5], [0.3 + apart, 0.4, 0.5]]))
        still = np.tile(np.float32([1, 0, 0, 0]), (2, 1))
        return np.hstack([centre, still]).ravel() if spin else centre.ravel()

    run = partial(dc.simulate, system, params, u0=np.zeros(12 if spin else 6, np.float32), times=np.float32([0, 1]))
    assert run(start(0.2)).status == 0
    with pytest.raises(ValueError, match="expected no overlap"):
        run(start(0.198))


@pytest.mark.parametrize("scheme", [dc.CatchingUp(), dc.ElasticProjection(), dc.EventTimed()])
def test_what_is_passed_through_is_told_in_any_unit(scheme):
    """A ball that a step carries past another one, or into a stop of EventTimed: the status is that of metres."""
    system = dc.systems.balls(1, 2, fixed=1)

    def status(length):
        lengths = {"radius": [0.1], "fixed_radius": [0.1], "fixed_centre": [[0.0, 0.0]], "gravity": [0.0, 0.0]}
        params = {name: np.float32(length) * np.array(x, np.float32) for name, x in lengths.items()}
        params |= {"mass": np.ones(1, np.float32), "restitution": np.float32(0)}
        state = (np.float32(length) * np.array(x, np.float32) for x in ([-0.5, 0.05], [1.0, 0.0]))
        return int(dc.simulate(system, params, *state, np.float32([0, 1, 2]), scheme=scheme).status)

    told = [status(length) for length in (1.0, 2.0**-20, 2.0**-40)]
    assert told == [dc.Status.OK if isinstance(scheme, dc.EventTimed) else dc.Status.TOO_COARSE] * 3
