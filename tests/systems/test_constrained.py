"""Two-sided constraints: systems in independent velocities beside the same in coordinates of their own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

WALL = 0.25


def _rod_in_the_plane(t, q, u, p):
    return jnp.array([0.0, -9.81]) - p["damping"] * u


# A bob on a rod that strikes a wall: as a point in the plane under a constraint, and by its angle.
POINT = dc.systems.constrained(
    dc.System(
        gap=lambda t, q, p: q[:1] + WALL,
        force=_rod_in_the_plane,
        mass=lambda q, p: jnp.ones(2),
        restitution=lambda p: p["e"],
    ),
    lambda q, p: q @ q - p["length"] ** 2,
    independent=[0],
)
ANGLE = dc.System(
    gap=lambda t, q, p: p["length"] * jnp.sin(q) + WALL,
    force=lambda t, q, u, p: -9.81 * p["length"] * jnp.sin(q) - p["damping"] * p["length"] ** 2 * u,
    mass=lambda q, p: p["length"] ** 2 * jnp.ones(1),
    restitution=lambda p: p["e"],
)
TIMES = np.linspace(0.0, 1.2, 25)


def test_a_pendulum_as_a_point_on_a_rod_is_one_by_its_angle():
    """State and derivative behind three impacts, by length, e and initial place, to the error of both methods."""

    def params(x):
        return {"length": x[0], "e": x[1], "damping": 0.1}

    def of_point(x):
        length, _, angle = x
        q0 = length * jnp.stack([jnp.sin(angle), -jnp.cos(angle)])
        run = dc.simulate(POINT, params(x), q0, jnp.zeros(1), TIMES, substeps=4)
        return jnp.concatenate([run.q[-1, :1], run.u[-1]]), (run.status, run.q)

    def of_angle(x):
        run = dc.simulate(ANGLE, params(x), x[2:], jnp.zeros(1), TIMES, substeps=4)
        length, turned = x[0], run.q[-1]
        return length * jnp.concatenate([jnp.sin(turned), jnp.cos(turned) * run.u[-1]]), run.status

    at = jnp.array([0.8, 0.7, 0.9])
    (found, (told, q)), slope = jax.jit(lambda x: (of_point(x), jax.jacfwd(lambda x: of_point(x)[0])(x)))(at)
    (expected, also), slopes = jax.jit(lambda x: (of_angle(x), jax.jacfwd(lambda x: of_angle(x)[0])(x)))(at)
    assert told == also == 0
    np.testing.assert_allclose(np.sum(np.asarray(q) ** 2, axis=1), 0.64, rtol=1e-13)
    # Steps of 12.5 ms in a period of 1.8 s: (2 pi / 140)^4 = 4e-6 of the way, and more of slopes.
    np.testing.assert_allclose(found, expected, atol=5e-6)
    np.testing.assert_allclose(slope, slopes, atol=1e-4)


def test_a_start_far_from_the_constraint_is_refused():
    # Newton's steps from the top of the circle lead nowhere: the dependent velocity is that along the rod's end.
    params = {"length": 0.8, "e": 0.5, "damping": 0.0}
    with pytest.raises(ValueError, match="q0: expected"):
        dc.simulate(POINT, params, jnp.array([0.0, 1e-6]), jnp.zeros(1), TIMES)


def test_a_way_past_a_dead_point_is_told():
    """The velocity across does not give that of a bob whose rod lies flat."""
    params = {"length": 0.8, "e": 0.5, "damping": 0.0}
    run = dc.simulate(POINT, params, jnp.array([0.0, -0.8]), jnp.array([5.0]), TIMES, substeps=4)
    assert run.status in (dc.Status.TOO_COARSE, dc.Status.NOT_FINITE)


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
