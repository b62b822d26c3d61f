"""VelocityProjection where contacts rub: against closed forms, with Coulomb's law in every step, dense and in lists."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import references
import zoo
from friction_problems import residual
from programs import run

import diffcontact as dc
from diffcontact.schemes.velocity_projection import rubbed_many
from diffcontact.system import contacts, slips

pytestmark = pytest.mark.full

G = 9.81
COULOMB, CONVEX = dc.VelocityProjection(), dc.VelocityProjection(iterate=False)


@pytest.mark.parametrize("name", ["slope_stop", "disc_land", "ladder"])
def test_it_converges_with_the_step(reference, name):
    """A block that stops, a disc that lands, slides and rolls, a ladder that slides: to the event-exact state."""
    known = references.REFERENCES[name]
    label, (row, state, _) = list(known.rows(reference).items())[-1]
    rows = {str(n): row | {"substeps": n} for n in (2, 32)}
    found = run(known.model, rows, COULOMB, derivative=False)
    assert {motion.status for motion in found.values()} == {dc.Status.OK}
    coarse, fine = (np.max(np.abs(known.state(found[n]) - state)) for n in rows)
    # First order: sixteen times as many steps, and an impact may be anywhere within one.
    assert fine < coarse / 12, label
    assert fine < 0.05


def _heap(count=6, cell=None):
    """Discs that fall onto a floor and each other, with spin."""
    rng = np.random.default_rng(3)
    system = dc.systems.balls(count, 2, box=((-np.inf, 0.0), (np.inf, np.inf)), spin=True, cell=cell)
    place = np.array([((i % 3) * 0.43 + 0.22, 0.25 + 0.45 * (i // 3)) for i in range(count)])
    place += rng.uniform(-0.01, 0.01, place.shape)
    q0 = np.column_stack([place, np.zeros(count)]).ravel()
    u0 = rng.normal(size=3 * count)
    params = {"mass": rng.uniform(0.5, 2, count), "radius": np.full(count, 0.2), "gravity": np.array([0.0, -G])}
    return system, params | {"restitution": 0.0, "friction": 0.4}, q0, u0


H = 0.01


def test_every_step_obeys_the_law_and_loses_energy():
    system, params, q0, u0 = _heap()
    run = dc.simulate(system, params, q0, u0, H * np.arange(81), scheme=COULOMB)
    assert run.status == dc.Status.OK
    mass, force = np.asarray(system.mass(run.q[0], params)), np.asarray(system.force(0.0, run.q[0], run.u[0], params))
    look = jax.jit(lambda q: (contacts(system, params, 0.0, q), slips(system, params, 0.0, q, q.size)))
    worst, slipping = 0.0, 0
    for q, u, after, P, B in zip(run.q, run.u, run.u[1:], run.impulse, run.friction, strict=False):
        if not np.any(P > 0):
            continue
        here, slip = look(q)
        problem = (
            mass,
            here.normals,
            slip.tangents,
            here.gap / H,
            slip.drift,
            np.full(P.size, 0.4),
            u + H * force / mass,
        )
        worst = max(worst, residual(tuple(map(np.asarray, problem)), np.asarray(after), np.asarray(P), np.asarray(B)))
        slipping += int(np.sum((P > 0) & (np.abs(B[:, 0]) > 0.4 * P * (1 - 1e-9))))
    # The rounding of gaps that just close, over the step.
    assert worst < 1e-10
    assert slipping > 20
    assert np.all(np.abs(run.friction[:, :, 0]) <= 0.4 * run.impulse * (1 + 1e-12))
    energy = np.sum(mass * np.asarray(run.u) ** 2, axis=1) / 2 - run.q @ force
    assert np.max(np.diff(energy)) < 1e-12


def test_sticking_contacts_of_two_discs_keep_their_momentum():
    """Nothing else is there: what one gains the other loses, spin about a common point included."""
    system = dc.systems.balls(2, 2, spin=True)
    params = {"mass": np.array([1.0, 3.0]), "radius": np.array([0.2, 0.3]), "gravity": np.zeros(2), "restitution": 0.0}
    params["friction"] = 0.6
    q0, u0 = np.array([0.0, 0.0, 0.0, 0.6, 0.1, 0.0]), np.array([1.0, 0.5, 3.0, -1.0, 0.0, -1.0])
    run = dc.simulate(system, params, q0, u0, H * np.arange(21), scheme=COULOMB)
    mass = np.asarray(system.mass(run.q[0], params))
    assert np.any(run.impulse > 0)
    momentum = np.asarray(run.u) * mass
    np.testing.assert_allclose(
        momentum[:, :2] + momentum[:, 3:5], np.tile((u0 * mass)[:2] + (u0 * mass)[3:5], (21, 1)), atol=1e-13
    )


def test_the_convex_scheme_lifts_off_by_what_slips():
    """A block set on the floor hops at mu |v_T|, whatever the step, and then floats where mu |v_T| = g / h; by
    Coulomb's law it touches."""
    mu, times = 0.3, 0.01 * np.arange(41)
    block = zoo.DISC.system, zoo.DISC.params | {"friction": mu}, [0.0, 0.0, 0.0], [2.0, 0.0, 0.0], times
    floating, touching = (dc.simulate(*block, scheme=scheme) for scheme in (CONVEX, COULOMB))
    assert floating.status == touching.status == dc.Status.OK
    # P = mu (2 - mu P) in the first step, of which gravity takes the rest.
    np.testing.assert_allclose(floating.u[1, 1], mu * (2 - mu * floating.impulse[0, 0]), rtol=1e-8)
    assert (0.55**2 - 0.01 * 0.55 * G) / (2 * G) < np.max(floating.q[:, 1]) < 0.018
    # It slows down by h mu G in a step: its height lags by mu^2 G h^2, of which this is twice.
    np.testing.assert_allclose(floating.q[20:, 1], 0.01 * mu * floating.u[20:, 0], atol=2 * mu**2 * G * 1e-4)
    assert 2.4e-3 < floating.q[-1, 1] < 2.5e-3
    np.testing.assert_allclose(touching.q[:, 1], 0.0, atol=1e-14)
    np.testing.assert_allclose(floating.u[-1, 0], touching.u[-1, 0], atol=0.003)


@pytest.mark.parametrize("scheme", [COULOMB, CONVEX], ids=["coulomb", "convex"])
def test_a_list_of_contacts_moves_as_all_of_them(scheme):
    system, params, q0, u0 = _heap()
    listed, *_ = _heap(cell=0.4)
    times = H * np.arange(41)
    exact = dc.simulate(system, params, q0, u0, times, scheme=scheme)
    many = dc.simulate(listed, params, q0, u0, times, scheme=scheme)
    assert exact.status == many.status == dc.Status.OK
    assert many.friction is None
    # A residual of 1e-6 of the speeds each step, over forty steps.
    np.testing.assert_allclose(many.q, exact.q, atol=1e-5)


def test_friction_in_a_list_has_no_derivative_and_says_so():
    system, params, q0, u0 = _heap(2, cell=0.4)

    def end(friction):
        return dc.simulate(system, params | {"friction": friction}, q0, u0, H * jnp.arange(3), scheme=COULOMB).q[-1, 0]

    with pytest.raises(NotImplementedError, match="no derivative"):
        jax.grad(end)(0.4)


def test_a_tangential_restitution_is_told():
    system, params, q0, u0 = _heap(1)
    run = dc.simulate(system, params | {"tangential_restitution": 0.5}, q0, u0, H * np.arange(3), scheme=COULOMB)
    assert run.status == dc.Status.RESTITUTION_IGNORED


def test_a_start_from_reactions_changes_nothing_but_the_way():
    system, params, q0, u0 = _heap(cell=0.4)
    params = jax.tree.map(jnp.asarray, params)
    q, u = jnp.asarray(q0 * 1.0), jnp.asarray(u0)
    listed = system.neighbours(params, 0.0, 0.05, q, u)
    gap, rows = listed.linearised(params, 0.0, q)
    mass = listed.mass(q, params)
    given = (listed, params, 0.0, q, mass, rows, gap / 0.05, u)
    none = jnp.zeros((gap.size, 2))
    cold = rubbed_many(*given, none, True)
    warm = rubbed_many(*given, jnp.column_stack([cold.normal, cold.tangential]) * 1.1, True)
    np.testing.assert_allclose(warm.u, cold.u, atol=1e-4)
