"""Arguments that were accepted in silence, or refused in riddles. Nothing is compiled before one line names them."""

import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc


def simulate(q0=(1.0, 0.0), u0=(0.0, 0.0), force=lambda t, q, u, p: jnp.zeros(2), **options):
    system = dc.System(gap=lambda t, q, p: q[:1], force=force, mass=lambda q, p: jnp.ones(2), restitution=lambda p: 0.5)
    return dc.simulate(system, {}, q0, u0, [0.0, 0.1], **options)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (
            r"^System.force: expected a function that JAX can trace, with jax.numpy in place of numpy$",
            {"force": lambda t, q, u, p: np.sin(q)},
        ),
        (r"^q0: expected the shape of u0, \(2,\), as the mass has it, got \(3,\)$", {"q0": [1.0, 0.0, 0.0]}),
        (r"^u0: expected the shape of q0, \(2,\), got \(3,\)$", {"u0": [1.0, 0.0, 0.0]}),
        (r'^tolerance=1e-06: expected substeps="auto" with it, got substeps=1$', {"tolerance": 1e-6}),
        (r'^tolerance=0.1: expected substeps="auto" with it, got substeps=4$', {"tolerance": 0.1, "substeps": 4}),
    ],
)
def test_one_line_says_what_was_expected(message, call):
    with pytest.raises(ValueError, match=message):
        simulate(**call)


@pytest.mark.parametrize("dimension", [0, 4, 2.0, True])
def test_balls_move_on_a_line_in_a_plane_or_in_space(dimension):
    with pytest.raises(ValueError, match=r"^balls\(dimension=.*\): expected an integer from 1 to 3$"):
        dc.systems.balls(1, dimension)


@pytest.mark.parametrize("bounds", [(np.nan, 1.0), (0.0, np.nan), ([0.0, np.nan], 1.0)])
def test_a_bound_that_is_not_a_number_is_called_so(bounds):
    with pytest.raises(ValueError, match=r": a bound is NaN, expected numbers; -inf and inf are no bounds$"):
        dc.Interval(*bounds)
