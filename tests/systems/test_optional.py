"""Parameters that may be missing: misspelled they are refused, and what is one's own is left alone."""

import jax
import numpy as np
import pytest

import diffcontact as dc


def floor(t, params):
    return np.array([[0.0, 1.0]]), np.zeros(1)


PARAMS = {
    "mass": np.ones(1),
    "radius": 0.1 * np.ones(1),
    "gravity": np.array([0.0, -9.81]),
    "restitution": 0.0,
    "friction": 0.5,
}
TIMES = np.linspace(0.0, 0.3, 4)
DISC = dc.systems.balls(1, 2, planes=floor, spin=True)
AIR = dc.systems.balls(1, 2, planes=floor, spin=True, air=True, resistance=True)
LAW = dc.systems.balls(1, 2, planes=floor, spin=True, restitution="power")
ROD = dc.systems.bodies(dc.shapes.Box(1.0, 0.1), 2, planes=floor)
MORE = {AIR: {"drag": 0.1, "magnus": 0.01}, LAW: {"restitution_exponent": 0.2}}


def throw(system, **params):
    """On the floor, slipping, by the scheme that compiles most quickly."""
    params, start = PARAMS | MORE.get(system, {}) | params, ([0.0, 0.1, 0.0], [1.0, 0.0, 5.0])
    return dc.simulate(system, params, *start, TIMES, scheme=dc.VelocityProjection(), substeps=1)


@pytest.mark.parametrize(
    ("system", "misspelled", "meant"),
    [
        (DISC, "tangential_restitutoin", "tangential_restitution"),
        (DISC, "Tangential_Restitution", "tangential_restitution"),
        (DISC, "interia", "inertia"),
        (AIR, "rolling_frictoin", "rolling_friction"),
        (AIR, "dampning", "damping"),
        (AIR, "magnus_saturaton", "magnus_saturation"),
        (LAW, "reference_sped", "reference_speed"),
        (ROD, "tangential_restituton", "tangential_restitution"),
        (ROD, "inertias", "inertia"),
    ],
)
def test_what_is_misspelled_is_not_left_out(system, misspelled, meant):
    message = rf"^params\['{misspelled}'\]: no parameter of this system, did you mean '{meant}'\?$"
    with pytest.raises(ValueError, match=message):
        throw(system, **{misspelled: 0.7})
    # A transformation of one's own adds a note of JAX's behind it.
    with pytest.raises(ValueError, match=message.removesuffix("$")):
        jax.jit(lambda value: throw(system, **{misspelled: value}).q)(0.7)


def test_what_is_ones_own_is_left_alone():
    """Other words, words added, a name with another letter beside the right one, and what is no name."""
    own = {"diffusion": 1.0, "tangential_restitution_of_glass": 0.3, "my_inertia": 2.0, "tension": 3.0}
    own |= {"inertia": np.array([0.02]), "inertia2": 0.1}
    jax.eval_shape(lambda: throw(DISC, **own))
    np.testing.assert_allclose(jax.jit(DISC.mass)(np.zeros(3), PARAMS | own), [1.0, 1.0, 0.02])


@pytest.mark.parametrize("params", [None, 3.0, [1.0]])
def test_params_that_are_no_dict_are_named(params):
    with pytest.raises(ValueError, match=r"^params: expected a dict with 'radius' of shape \(1,\), got "):
        dc.simulate(DISC, params, [0.0, 2.0, 0.0], [1.0, 0.0, 5.0], TIMES)


@pytest.mark.parametrize("cell", ["a", True, np.nan, 0.0, -1, np.inf, [1.0], 1j])
def test_a_cell_that_is_no_length_is_refused(cell):
    with pytest.raises(ValueError, match=r"^balls\(cell=.*\): expected a positive length, at least "):
        dc.systems.balls(2, 2, cell=cell)


@pytest.mark.parametrize(
    ("system", "argument"),
    [
        (dc.systems.balls, "count"),
        (dc.systems.bouncing_ball, "bounces"),
        (dc.systems.particle_line, "count"),
    ],
)
def test_what_is_no_number_of_bodies_is_refused(system, argument):
    more = {"dimension": 2} if system is dc.systems.balls else {}
    for count in (True, 0, 1.5, "2"):
        told = rf"^{system.__name__}\({argument}={count!r}\): expected an integer of at least 1$"
        with pytest.raises(ValueError, match=told):
            system(**{argument: count}, **more)
    assert system(**{argument: np.int64(1)}, **more) is system(**{argument: 1}, **more)


def test_truth_is_no_number_of_fixed_balls():
    for make in (
        lambda: dc.systems.balls(1, 2, fixed=True),
        lambda: dc.systems.bodies(dc.shapes.Ball(0.1), 2, fixed=True),
    ):
        with pytest.raises(ValueError, match=r"\(fixed=True\): expected an integer of at least 0$"):
            make()
