"""Two-sided constraints: a system in independent velocities beside the same in a coordinate of its own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo
from scipy.integrate import solve_ivp

import diffcontact as dc

WALL = 0.25


def _rod_in_the_plane(t, q, u, p):
    return jnp.array([0.0, -9.81]) - p["damping"] * u


# A bob on a rod that strikes a wall, as a point in the plane under a constraint.
POINT = dc.systems.constrained(
    zoo.system(gap=lambda t, q, p: q[:1] + WALL, force=_rod_in_the_plane, restitution=lambda p: p["e"]),
    lambda q, p: q @ q - p["length"] ** 2,
    independent=[0],
)
TIMES = np.linspace(0.0, 1.2, 25)


@pytest.fixture(scope="module")
def program():
    """Of (length, e, angle), the damping and u0: place and velocity across, their derivative, and the motion."""

    def end(x, damping, u0):
        length, e, angle = x
        q0 = length * jnp.stack([jnp.sin(angle), -jnp.cos(angle)])
        run = dc.simulate(POINT, {"length": length, "e": e, "damping": damping}, q0, u0, TIMES, substeps=4)
        end = jnp.concatenate([run.q[-1, :1], run.u[-1]])
        return end, (end, run.q, run.status)

    derived = jax.jit(jax.jacfwd(end, has_aux=True))
    return lambda *given: jax.tree.map(np.asarray, derived(*map(np.asarray, given)))


def _by_angle(x):
    """Place and velocity across of a bob by its angle, integrated from impact to impact."""
    length, e, angle = x
    t, y, impacts = 0.0, np.array([angle, 0.0]), 0

    def rate(t, y):
        return [y[1], -9.81 / length * np.sin(y[0]) - 0.1 * y[1]]

    def gap(t, y):
        return length * np.sin(y[0]) + WALL

    gap.terminal, gap.direction = True, -1
    while t < TIMES[-1]:
        flight = solve_ivp(rate, (t, TIMES[-1]), y, "DOP853", events=gap, rtol=1e-12, atol=1e-13)
        t, y = flight.t[-1], flight.y[:, -1]
        if flight.status == 1:
            y, impacts = np.array([y[0], -e * y[1]]), impacts + 1
    assert impacts == 1
    return length * np.array([np.sin(y[0]), np.cos(y[0]) * y[1]])


def test_a_pendulum_as_a_point_on_a_rod_is_one_by_its_angle(program):
    """State and derivative behind an impact, by length, e and initial place."""
    at = np.array([0.8, 0.7, 0.9])
    slope, (found, q, told) = program(at, 0.1, np.zeros(1))
    assert told == 0
    np.testing.assert_allclose(np.sum(q**2, axis=1), 0.64, rtol=1e-13)
    # Steps of 12.5 ms in a period of 1.8 s: (2 pi / 140)^4 = 4e-6 of the way, and more of slopes.
    np.testing.assert_allclose(found, _by_angle(at), atol=5e-6)
    slopes = np.stack([(_by_angle(at + h) - _by_angle(at - h)) / 2e-5 for h in 1e-5 * np.eye(3)], axis=1)
    np.testing.assert_allclose(slope, slopes, atol=1e-4)


def test_a_start_far_from_the_constraint_is_refused():
    # Newton's steps from the top of the circle lead nowhere: the dependent velocity is that along the rod's end.
    params = {"length": 0.8, "e": 0.5, "damping": 0.0}
    with pytest.raises(ValueError, match="q0: expected"):
        dc.simulate(POINT, params, jnp.array([0.0, 1e-6]), jnp.zeros(1), TIMES)


def test_a_way_past_a_dead_point_is_told(program):
    """The velocity across does not give that of a bob whose rod lies flat."""
    _, (_, _, told) = program([0.8, 0.5, 0.0], 0.0, [5.0])
    assert told in (dc.Status.TOO_COARSE, dc.Status.NOT_FINITE)


@pytest.mark.parametrize(
    ("independent", "line"),
    [([], "expected rising numbers"), ([1, 0], "expected rising numbers"), ([0, 1], r"expected 1 independent")],
)
def test_bad_numbers_of_velocities_are_named(independent, line):
    def mass(q):
        two = dc.System(POINT.gap, _rod_in_the_plane, lambda q, p: jnp.ones(2), lambda p: p["e"])
        return dc.systems.constrained(two, lambda q, p: q[:1], independent).mass(q, {})

    with pytest.raises(ValueError, match=line):
        jax.eval_shape(mass, jnp.ones(2))
