"""Decisions that lie within the error of a motion."""

import jax
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.schemes.event_timed.monitor import Cubic, Margins
from diffcontact.status import Status

# Two coordinates, a contact of each and one between them; errors of 1e-4 m and of 1e-3 m/s.
NORMALS = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])
CARRIED = Margins(np.outer([1e-4, 0.0, 1e-3, 0.0], np.ones(2)), np.array(False))


@jax.jit
def doubtful(begin, end, hit):
    """Of a second from one state of all contacts to another."""
    piece = Cubic.between(begin, end, 1.0)
    return CARRIED.judged(NORMALS, piece, end, 1.0, np.ones(3, bool), np.zeros(3, bool), hit, 1e-12, hit).doubtful


@pytest.mark.parametrize(
    ("begin", "end", "struck", "doubts"),
    [
        # (gap, velocity) of the first contact, 1 s apart: it comes down to 1e-5 m, and to 1 cm.
        (((0.25 + 1e-5, -1.0), (1.0, 0.0)), ((0.25 + 1e-5, 1.0), (1.0, 0.0)), None, 1),
        (((0.26, -1.0), (1.0, 0.0)), ((0.26, 1.0), (1.0, 0.0)), None, 0),
        # It rises and comes back, just above the floor.
        (((1e-5, 1e-5), (1.0, 0.0)), ((1e-5, -1e-5), (1.0, 0.0)), None, 0),
        # It is struck at 1 m/s, and at 5 mm/s, of which the error is a fifth.
        (((1.0, -1.0), (1.0, 0.0)), ((0.0, -1.0), (1.0, 0.0)), 0, 0),
        (((5e-3, -5e-3), (1.0, 0.0)), ((0.0, -5e-3), (1.0, 0.0)), 0, 1),
        # The third one, which acts on it, would be struck 1e-4 s later, and 1 s later.
        (((1.0, -1.0), (1.0 + 1e-4, -1.0)), ((0.0, -1.0), (1e-4, -1.0)), 0, 1),
        (((1.0, -1.0), (2.0, -1.0)), ((0.0, -1.0), (1.0, -1.0)), 0, 0),
    ],
)
def test_grazes_slow_impacts_and_ties(begin, end, struck, doubts):
    """The second contact stays away."""
    ends = [tuple(np.array([first, 9.0 * (k == 0), third]) for k, (first, third) in enumerate(zip(*at, strict=True)))
            for at in (begin, end)]  # fmt: skip
    assert np.asarray(doubtful(*ends, np.arange(3) == (-1 if struck is None else struck))) == doubts


def test_an_error_goes_through_an_impact_as_a_displacement_does():
    """A mass at 2 m/s with e = 1/2: its place behind is turned round by -e, and so is its velocity."""
    defect = np.array([0.0, 0.1])
    through = jax.jit(lambda speed: CARRIED.through(np.array([1.0, 0.0]), speed, np.array([3.0, 0.0]), defect))
    behind, nothing = through(-2.0), through(2.0)
    np.testing.assert_allclose(behind.error, [[-0.5e-4, 1e-4], [0, 0], [-0.5e-3, 1e-3], [0, 0.1]])
    np.testing.assert_array_equal(nothing.error, CARRIED.error)


@pytest.mark.parametrize("order", [2, pytest.param(4, marks=pytest.mark.full)])
def test_a_graze_within_truncation_is_told(order):
    """A swing that turns a tenth of a micrometre before a wall, and a centimetre before it."""
    swing = zoo.system(gap=lambda t, q, p: p - q, force=lambda t, q, u, p: -q, restitution=0.5)
    times = np.linspace(0.0, 3.0, 31)
    given = [0.0], [1.0], times
    scheme = dc.EventTimed(order=order)
    told = jax.jit(
        lambda walls: jax.lax.map(lambda wall: dc.simulate(swing, wall, *given, scheme=scheme).status, walls)
    )
    assert told(np.array([1 + 1e-7, 1.01])).tolist() == [Status.TOO_COARSE, Status.OK]


def test_bounces_that_were_left_out_are_an_error_of_their_own():
    """Of 2 m/s, and 5 mm, where that is more than what is carried; what is truncated stays as it is."""
    roused = jax.jit(lambda margins, speeds: margins.roused(speeds, 0.01))
    rested = roused(CARRIED, np.array([2.0, 0.0]))
    np.testing.assert_allclose(rested.error, [[1e-4, 1e-4], [5e-3, 0], [1e-3, 1e-3], [2.0, 0]])
    np.testing.assert_array_equal(roused(rested, np.array([-1.0, 0.0])).error, rested.error)


def test_what_is_held_has_no_error_across():
    """One contact alone leaves nothing of it; of two that share a body (M = 1) the sum of the squares falls."""
    held = jax.jit(lambda contacts: CARRIED.held(contacts, NORMALS, NORMALS).error)
    alone, both = (np.asarray(held(np.array([1.0, 0.0, third]))) for third in (0.0, 1.0))
    np.testing.assert_allclose(alone[:, 0], 0.0, atol=1e-18)
    np.testing.assert_array_equal(alone[:, 1], CARRIED.error[:, 1])
    assert np.sum(both**2) < np.sum(CARRIED.error**2)
