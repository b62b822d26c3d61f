import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.hypotheses import penetration
from diffcontact.system import contacts

pytestmark = pytest.mark.full


def test_more_active_constraints_than_dimensions():
    # Five discs leave a corner into which a plane mass is pressed: theorem 4.7.
    angles = np.pi * np.array([0.0, 0.2, 0.35, 0.6, 1.0])
    centres = np.stack([np.cos(angles), -np.sin(angles)], axis=1)
    system = zoo.system(
        gap=lambda t, q, p: jnp.linalg.norm(q[None, :] - centres, axis=1) - 1.0,
        force=lambda t, q, u, p: jnp.array([0.3, -9.81]),
        mass=lambda q, p: jnp.array([1.0, 2.0]),
    )
    run = dc.simulate(system, {}, [0.0, 0.2], [0.05, 0.0], jnp.linspace(0, 1, 51), scheme=dc.CatchingUp())
    assert run.status == dc.Status.OK
    # It ends in the corner, where all five gaps are zero.
    np.testing.assert_allclose(run.q[-1], 0.0, atol=1e-7)
    assert np.max(penetration(system, {}, run.t, run.q)) <= 1e-12
    # Balance of momentum, with the gradients where the mass arrives.
    normals = jax.vmap(lambda t, q: contacts(system, {}, t, q).normals)(run.t[1:], run.q[1:])
    push = np.array([1.0, 2.0]) * np.diff(run.u, axis=0) - 0.02 * np.array([0.3, -9.81])
    np.testing.assert_allclose(push, np.einsum("nci,nc->ni", normals, run.impulse), atol=1e-7)
    assert np.all(run.impulse >= 0)


@pytest.mark.parametrize("scheme", [dc.CatchingUp(), dc.ElasticProjection()], ids=lambda s: type(s).__name__)
def test_a_step_that_is_not_short_against_the_radius_is_reported(scheme):
    # A point mass slides over a disc of radius 1 at 2 m/s, pressed on by 9.81 m/s^2: the way of a step is 2 h.
    disc = zoo.system(
        gap=lambda t, q, p: jnp.linalg.norm(q)[None] - 1.0,
        force=lambda t, q, u, p: jnp.array([0.0, -9.81]),
        mass=lambda q, p: jnp.array([1.0, 1.0]),
    )

    def status(h):
        return dc.simulate(disc, {}, [0.0, 1.0], [2.0, 0.0], [0.0, h], scheme=scheme).status

    assert status(0.1) == dc.Status.OK
    assert status(0.14) == dc.Status.TOO_COARSE


@pytest.mark.parametrize("e", [0.0, 0.5])
@pytest.mark.parametrize("h", [0.1, 0.09])
def test_no_start_leads_through_a_body(e, h):
    """Head-on, whatever share of the last way is left: the step that lands must not be followed by one through it.

    Steps of 0.5 m meet a chord of 0.4 m.
    """
    system = dc.systems.balls(1, 2, fixed=1)
    params = {"mass": jnp.ones(1), "radius": 0.1 * jnp.ones(1), "gravity": jnp.zeros(2), "restitution": e}
    params |= {"fixed_centre": jnp.array([[1.2, 0.0]]), "fixed_radius": 0.1 * jnp.ones(1)}
    starts = jnp.linspace(0.0, 0.499, 60)
    for scheme in (dc.ElasticProjection(), *([dc.CatchingUp()] if e == 0 else [])):

        @jax.vmap
        def run(start, scheme=scheme):
            at = jnp.stack([start, 0.0])
            return dc.simulate(system, params, at, jnp.array([5.0, 0.0]), h * jnp.arange(9), scheme=scheme)

        runs = run(starts)
        assert not np.any((runs.status == dc.Status.OK) & (runs.q[:, -1, 0] > 1.0 + 1e-9))


def _round_obstacle():
    """A point mass falls on a disc off its top, slides down and leaves it: system, q0, duration."""
    system = zoo.system(
        gap=lambda t, q, p: jnp.linalg.norm(q)[None] - 0.5, force=lambda t, q, u, p: jnp.array([0.0, -9.81])
    )
    return system, [0.1, 1.0], 0.7


def _swinging_floor():
    """A point mass on a floor whose acceleration of 14.4 m/s^2 throws it off again and again."""
    system = zoo.system(gap=lambda t, q, p: q - 0.1 * jnp.sin(12 * t), force=lambda t, q, u, p: -9.81 * jnp.ones(1))
    return system, [0.3], 0.75


@pytest.mark.parametrize("scene", [_round_obstacle, _swinging_floor], ids=lambda f: f.__name__[1:])
@pytest.mark.parametrize("scheme", [dc.CatchingUp(), dc.ElasticProjection()], ids=lambda s: type(s).__name__)
def test_a_body_that_is_let_go_has_passed_through_nothing(scene, scheme):
    """The straight way of a step dips below a gap that has just opened, which is the O(h^2) of the scheme."""
    system, q0, end = scene()
    times, still = np.linspace(0.0, end, 33), np.zeros(len(q0))
    exact = dc.simulate(system, {}, q0, still, times, substeps=64)
    assert exact.status == dc.Status.OK
    runs = [dc.simulate(system, {}, q0, still, times, scheme=scheme, substeps=n) for n in (4, 16, 64)]
    assert [int(run.status) for run in runs] == [dc.Status.OK] * 3
    errors = [np.max(np.abs(run.q - exact.q)) for run in runs]
    # First order is a factor of 4 at four times the steps; the impact falls differently into them.
    assert errors[1] < errors[0] / 2.5
    assert errors[2] < errors[1] / 2.5
