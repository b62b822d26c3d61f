"""Poisson's and Stronge's law of one contact: Routh's closed form, Keller's equation, and what no law may do."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo
from jax import lax
from routh import ROD, routh
from scipy.integrate import solve_ivp

import diffcontact as dc
from diffcontact.status import Status

LAWS = ("newton", "poisson", "stronge")


@cache
def contact(directions, law, tangential=None):
    """One contact whose velocities are the coordinates: W = M^-1."""
    return zoo.system(
        gap=lambda t, q, p: q[:1],
        mass=lambda q, p: p["mass"],
        restitution=lambda p: p["e"],
        slip=lambda t, q, u, p: u[None, 1:],
        friction=lambda p: p["mu"],
        tangential_restitution=tangential,
        impact_law=law,
    )


def struck(directions, law, params, w):
    """Impulse (P, B), velocity after and status."""
    hit = dc.impact(contact(directions, law), params, 0.0, jnp.zeros_like(w), w)
    return jnp.concatenate([hit.impulse, hit.friction[0]]), hit.u + hit.jump, hit.status


@cache
def many(directions, law):
    # In chunks: jax 0.10's LAPACK deals large batches out to threads, which may all wait for each other for ever.
    return jax.jit(lambda *lanes: lax.map(lambda one: struck(directions, law, *one), lanes, batch_size=250))


def rod(angle, inertia):
    """W of the end of a body of mass 1, at half a metre from its centre, that leans by this angle: a rod, a coin."""
    x, y = 0.5 * np.cos(angle), 0.5 * np.sin(angle)
    return np.array([[1 + x * x / inertia, -x * y / inertia], [-x * y / inertia, 1 + y * y / inertia]])


COIN = 0.25 / 4
# Leaning, inertia, velocity (v_N, v_T), mu. The last is jammed at first: slip presses the end into the floor.
IMPACTS = [
    ("sliding", 0.7, ROD, (-1.0, -8.0), 0.2),
    ("C-sticking", 0.7, ROD, (-1.0, 0.1), 0.9),
    ("R-sticking", 0.7, ROD, (-1.0, 1.1), 0.9),
    ("C-reversed", 0.7, ROD, (-1.0, 0.2), 0.3),
    ("R-reversed", 0.7, ROD, (-1.0, 0.85), 0.3),
    ("sliding", -1.2, COIN, (-2.0, 9.0), 0.25),
    ("C-sticking", -1.2, COIN, (-2.0, -0.4), 0.6),
    ("R-sticking", -1.2, COIN, (-2.0, -4.5), 0.6),
    ("C-reversed", -1.2, COIN, (-2.0, -0.2), 0.1),
    ("R-reversed", -1.2, COIN, (-2.0, -2.8), 0.1),
    ("C-sticking", 1.1, ROD, (-1.0, -0.8), 2.0),
]


def lanes():
    """Those of IMPACTS, with e = 0.6, as parameters and velocities."""
    W = np.array([rod(angle, inertia) for _, angle, inertia, _, _ in IMPACTS])
    params = {"mass": np.linalg.inv(W), "e": np.full(len(W), 0.6), "mu": np.array([one[4] for one in IMPACTS])}
    return W, params, np.array([one[3] for one in IMPACTS])


@pytest.mark.parametrize("law", LAWS[1:])
def test_five_cases_of_a_rod_and_a_coin(law):
    W, params, w = lanes()
    # By hand: W = ((2, 1), (1, 3)), mu = e = 1/2, from (-1, 3), slides throughout: P = (1 + e) / (2 - 1/2).
    by_hand = {"mass": np.linalg.inv([[2.0, 1.0], [1.0, 3.0]]), "e": 0.5, "mu": 0.5}
    more = {name: np.concatenate([values, [by_hand[name]]]) for name, values in params.items()}
    r, _, status = map(np.asarray, many(1, law)(more, np.concatenate([w, [[-1.0, 3.0]]])))
    assert not status.any()
    np.testing.assert_allclose(r[-1], [1.0, -0.5], rtol=1e-14)
    for i, (case, *_, mu) in enumerate(IMPACTS):
        exact, found = routh(W[i], np.asarray(w[i]), mu, 0.6, law)
        assert found == case, (i, found)
        np.testing.assert_allclose(r[i], exact, rtol=1e-13, atol=1e-14)
    jammed = W[-1] @ [1.0, 2.0]
    assert jammed[0] < 0


def random_impacts(directions, count=10_000):
    """Any W, velocity, mu and e; by lanes of a hundred: balls, e = 0 and e = 1, and slips that stay in a plane."""
    rng = np.random.default_rng(directions)
    rows = rng.normal(size=(count, 1 + directions, 2 + directions))
    W = rows @ rows.swapaxes(1, 2)
    w = rng.normal(size=(count, 1 + directions)) * 10 ** rng.uniform(-2, 1, size=(count, 1 + directions))
    w[:, 0] = -np.abs(w[:, 0])
    mu, e = rng.uniform(0, 1.5, size=count), rng.uniform(size=count)
    W[:100] = np.diag([1.0] + [3.5] * directions)
    e[100:200], e[200:300] = 0.0, 1.0
    if directions == 2:
        W[300:400, 2, :2] = W[300:400, :2, 2] = w[300:400, 2] = 0
    return W, {"mass": np.linalg.inv(W), "e": e, "mu": mu}, w


@cache
def outcome(directions, law):
    # Newton's is the general law of many contacts, and slow where rows are nearly dependent.
    W, params, w = random_impacts(directions, 1000 if (directions, law) == (2, "newton") else 10_000)
    return W, params, w, *map(np.asarray, many(directions, law)(params, w))


def test_a_slip_in_space_is_against_its_friction():
    """Impacts by Moreau's law of which a step of Newton's method leads from wrong directions back to these."""
    W, params, w = (jax.tree.map(lambda x: x[[203, 239, 426, 450, 768, 905, 962]], x) for x in random_impacts(2, 1000))
    r, after, status = map(np.asarray, many(2, "newton")(params, w))
    assert not status.any()
    np.testing.assert_allclose(after - w, np.einsum("nij,nj->ni", W, r), atol=1e-10)
    bound = params["mu"] * r[:, 0]
    # What is blended with the impact without restitution has two directions: then the friction is less than its bound.
    assert np.all(np.linalg.norm(r[:, 1:], axis=1) <= bound * (1 + 1e-9))
    assert np.all(after[:, 0] >= -1e-12)
    assert np.all(np.sum(r[:, 1:] * (w + after)[:, 1:], axis=1) + r[:, 0] * (w + after)[:, 0] <= 1e-9 * bound)


@pytest.mark.full
@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("directions", [1, 2])
def test_no_impact_makes_energy(directions, law):
    W, params, w, r, after, status = outcome(directions, law)
    assert np.all(np.isfinite(r))
    assert np.all(np.isfinite(after))
    # In space a slip that turns may press the contact together again while it restores: that is told.
    assert np.mean(status != 0) <= (0 if directions == 1 and law != "newton" else 3e-4)
    fine = status == 0
    before = np.einsum("ni,nij,nj->n", w, params["mass"], w) / 2
    energy = np.einsum("ni,nij,nj->n", after, params["mass"], after) / 2
    # Rounding of W^-1, whose condition is up to 1e8.
    assert np.all((energy <= before * (1 + 1e-9))[fine])
    size = np.linalg.norm(r[:, 1:], axis=1)
    assert np.all((size <= params["mu"] * r[:, 0] * (1 + 1e-9) + 1e-12)[fine])
    scale = np.abs(w).max(axis=1)
    assert np.all((after[:, 0] >= -1e-9 * scale)[fine])
    assert np.all(np.abs(after[100:200, 0]) <= 1e-9 * scale[100:200])
    np.testing.assert_allclose(after - w, np.einsum("nij,nj->ni", W, r), atol=1e-6)


@pytest.mark.full
@pytest.mark.parametrize("law", LAWS[1:])
def test_a_slip_that_stays_in_a_plane_is_rouths(law):
    W, params, w, r, *_ = outcome(2, law)
    for i in range(300, 400):
        exact, _ = routh(W[i][:2, :2], np.asarray(w[i])[:2], float(params["mu"][i]), float(params["e"][i]), law)
        np.testing.assert_allclose(r[i], [*exact, 0.0], rtol=1e-10, atol=1e-13)


def keller(W, w, mu, e, law):
    """The impulse by an adaptive integrator over tau, dP = |v_T| dtau, from event to event.

    None where the slip comes to its end before the impact does: then the closed form takes over.
    """

    def slope(_, y):
        v = w + W @ y[:3]
        slip = np.linalg.norm(v[1:])
        return [slip, *(-mu * v[1:]), v[0] * slip]

    def event(value):
        def of(_, y):
            return value(y)

        of.terminal, of.direction = True, 1
        return of

    slipping = np.linalg.norm(w[1:])
    ends = event(lambda y: 1e-6 * slipping - np.linalg.norm((w + W @ y[:3])[1:]))

    def until(value, start):
        found = solve_ivp(slope, (0, 50), start, "DOP853", [], events=(event(value), ends), rtol=1e-12, atol=1e-15)
        return found.y_events[0][0] if found.t_events[0].size else None

    compressed = until(lambda y: w[0] + W[0] @ y[:3], np.zeros(4))
    if compressed is None:
        return None
    if law == "poisson":
        end = until(lambda y: y[0] - (1 + e) * compressed[0], compressed)
    else:
        end = until(lambda y: y[3] - (1 - e * e) * compressed[3], compressed)
    return None if end is None else end[:3]


@pytest.mark.full
@pytest.mark.parametrize("law", LAWS[1:])
def test_a_slip_that_turns_is_kellers(law):
    W, params, w, r, _, status = outcome(2, law)
    turned = 0
    for i in np.arange(1000, 1040)[status[1000:1040] == 0]:
        exact = keller(W[i], np.asarray(w[i]), float(params["mu"][i]), float(params["e"][i]), law)
        if exact is not None:
            turned += 1
            # The reference's events are located to 1e-11 of its steps.
            np.testing.assert_allclose(r[i], exact, rtol=1e-8, atol=1e-10 * np.abs(exact).max())
    assert turned >= 10


@pytest.mark.full
@pytest.mark.parametrize("law", LAWS[1:])
def test_derivatives_of_a_plane_impact(law):
    """Of all five cases: against complex steps through the closed form, by both modes; what cannot matter is zero."""
    W, params, w = lanes()
    inverse = params["mass"]

    def impulse(theta, mass):
        return struck(1, law, {"mass": mass, "mu": theta[0], "e": theta[1]}, theta[2:])[0]

    theta = jnp.column_stack([params["mu"], params["e"], w])
    forward = np.asarray(jax.jit(jax.vmap(jax.jacfwd(impulse)))(theta, inverse))
    reverse = jax.jit(jax.vmap(jax.jacrev(impulse)))(theta, inverse)
    np.testing.assert_allclose(reverse, forward, rtol=1e-12, atol=1e-13)
    for i, (case, *_) in enumerate(IMPACTS):
        steps = np.asarray(theta[i]) + 1e-30j * np.eye(4)
        exact = np.imag([routh(W[i], step[2:], step[0], step[1], law)[0] for step in steps]).T / 1e-30
        np.testing.assert_allclose(forward[i], exact, rtol=1e-11, atol=1e-12)
        # What cannot matter cancels, on some processors but for the rounding of the terms that do.
        rounding = 4 * np.finfo(float).eps * np.abs(forward[i]).max()
        if case == "sliding":
            assert np.all(np.abs(forward[i][:, 3]) <= rounding)
        if case == "C-sticking" and law == "poisson":
            assert np.all(np.abs(forward[i][:, 0]) <= rounding)


@pytest.mark.full
def test_derivatives_of_an_impact_in_space():
    """Of slips that turn, by Stronge's law, which has all events; and of one that sticks, on which mu has no effect."""
    W, params, w, _, _, status = outcome(2, "stronge")
    sticks = {"mass": jnp.linalg.inv(W[1000]), "mu": 5.0, "e": 0.5}
    few = slice(1000, 1008)

    def impulse(law, theta, mass):
        return struck(2, law, {"mass": mass, "mu": theta[0], "e": theta[1]}, theta[2:])[0]

    theta, mass = jnp.column_stack([params["mu"], params["e"], w])[few], params["mass"][few]
    assert not status[few].any()
    stronge = jax.jit(jax.vmap(lambda theta, mass: impulse("stronge", theta, mass)))
    forward = np.asarray(
        jax.jit(jax.vmap(jax.jacfwd(lambda theta, mass: impulse("stronge", theta, mass))))(theta, mass)
    )
    weights = np.array([0.3, -0.5, 0.8])
    reverse = jax.jit(jax.vmap(jax.grad(lambda theta, mass: weights @ impulse("stronge", theta, mass))))(theta, mass)
    np.testing.assert_allclose(reverse, np.einsum("i,nij->nj", weights, forward), rtol=1e-9, atol=1e-9)
    for j in range(5):
        step = 1e-5 * np.maximum(np.abs(theta[:, j]), 1e-2)
        move = np.eye(5)[j] * step[:, None]
        change = (stronge(theta + move, mass) - stronge(theta - move, mass)) / (2 * step[:, None])
        # Steps of the integrator are chosen anew: 1e-11 of the slip, divided by 1e-5.
        np.testing.assert_allclose(forward[:, :, j], change, rtol=1e-5, atol=1e-5 * np.abs(change).max())

    slow = np.array([5.0, 0.5, -1.0, 1e-2, 2e-2])
    by_poisson = jax.jacfwd(lambda theta: impulse("poisson", theta, sticks["mass"]))(slow)
    assert np.all(by_poisson[:, 0] == 0.0)
    assert np.all(by_poisson[:, 1] != 0.0)


@pytest.mark.full
def test_single_precision():
    for directions in (1, 2):
        _, params, w, r, _, status = outcome(directions, "stronge")
        params, w = jax.tree.map(lambda x: x[:400].astype(jnp.float32), (params, w))
        W = np.linalg.cond(np.asarray(params["mass"], float))
        found, _, told = map(np.asarray, many(directions, "stronge")(params, w))
        fine = (told == 0) & (status[:400] == 0) & (W < 100)
        assert found.dtype == np.float32
        assert np.all(np.isfinite(found))
        assert np.mean(fine) > 0.4
        size = np.abs(r[:400]).max(axis=1, keepdims=True)
        # A condition of a hundred, and steps to eps^0.7 of the slip.
        assert np.all((np.abs(found - r[:400]) <= 3e-4 * size)[fine])


@pytest.mark.full
def test_what_the_laws_do_not_have():
    params, w = {"mass": np.eye(2), "e": 0.5, "mu": 0.3}, np.array([-1.0, 1.0])
    turning = contact(1, "stronge", lambda p: 0.25)
    line = r"tangential_restitution: expected 0 with impact_law='stronge', which has none, got \[0.25\]"
    with pytest.raises(ValueError, match=line):
        dc.impact(turning, params, 0.0, np.zeros(2), w)
    assert jax.jit(lambda w: dc.impact(turning, params, 0.0, np.zeros(2), w).status)(w) == Status.BAD_RESTITUTION
    with pytest.raises(ValueError, match="VelocityProjection takes no System with impact_law='poisson'"):
        dc.simulate(contact(1, "poisson"), params, np.ones(2), w, np.arange(2.0), scheme=dc.VelocityProjection())


@pytest.mark.full
@pytest.mark.parametrize("law", LAWS[1:])
def test_a_wedge_is_told(law):
    """A block with one freedom that friction wedges: no normal impulse moves it back."""
    wedge = zoo.system(
        gap=lambda t, q, p: q,
        restitution=0.5,
        slip=lambda t, q, u, p: 2.0 * u[None],
        friction=lambda p: p,
        impact_law=law,
    )
    impact = jax.jit(jax.value_and_grad(lambda mu: _after(wedge, mu), has_aux=True))
    (after, status), slope = impact(2.0)
    assert status == Status.NO_FRICTION
    assert after == 0.5
    assert np.isfinite(slope)
    (after, status), slope = impact(0.1)
    # Slides down with 1 + 2 mu and up with 1 - 2 mu.
    ratio = 0.5 * 0.8 / 1.2 if law == "poisson" else 0.5 * np.sqrt(0.8 / 1.2)
    assert status == 0
    assert np.isfinite(slope)
    np.testing.assert_allclose(after, ratio, rtol=1e-12)


def _after(system, mu):
    hit = dc.impact(system, mu, 0.0, np.zeros(1), -np.ones(1))
    return (hit.u + hit.jump)[0], hit.status
