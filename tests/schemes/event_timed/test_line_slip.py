import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full

SCHEME = dc.EventTimed()


def chain(count, belt=None, times=()):
    """Particles of 1, 1.5, ... kg between springs and dashpots, under an oscillating load and normal reaction."""
    links = 2 * np.eye(count) - np.eye(count, k=1) - np.eye(count, k=-1)
    return dc.ParticleLine(
        mass=lambda p: p["mass"] * (1 + 0.5 * jnp.arange(count)),
        damping=lambda p: p["damping"] * jnp.asarray(links),
        stiffness=lambda p: p["stiffness"] * jnp.asarray(links),
        load=lambda t, p: p["load"] * jnp.cos(7 * t) * jnp.ones(count),
        friction=lambda p: p["gamma"],
        normal=lambda t, p: 10 * (1 + 0.3 * jnp.sin(3 * t)) * jnp.ones(count),
        percussion_times=times,
        percussions=lambda p: p["weights"],
        belt=belt,
    )


def values(mass=1.0, damping=0.3, stiffness=100.0, load=2.0, gamma=0.2, weights=()):
    return {
        "mass": mass,
        "damping": damping,
        "stiffness": stiffness,
        "load": load,
        "gamma": gamma,
        "weights": jnp.asarray(weights, float),
    }


def march(line, params, q, u, T, steps, scheme=SCHEME):
    """(q, u) after so many steps, compiled once for all numbers of them."""
    h = T / steps
    begin = scheme.init(line, params, 0.0 * h, h, q, u)
    end = jax.lax.fori_loop(0, steps, lambda k, state: scheme.step(line, params, k * h, h, state)[0], begin)
    return jnp.concatenate([end.q, end.u])


def test_an_oscillator_with_dry_friction_stops_where_it_must():
    line = dc.ParticleLine(
        mass=lambda p: p["m"] * jnp.ones(1),
        damping=lambda p: jnp.zeros((1, 1)),
        stiffness=lambda p: p["k"] * jnp.ones((1, 1)),
        load=lambda t, p: jnp.zeros(1),
        friction=lambda p: p["gamma"],
        normal=lambda t, p: 10.0 * jnp.ones(1),
        percussion_times=[],
        percussions=lambda p: jnp.zeros(0),
    )
    names = ("m", "k", "gamma", "q0")
    theta = jnp.array([2.0, 50.0, 0.25, 0.47])

    def exact(theta, t):
        """Half cycles about +-F/k, each shorter than the one before by 2 F/k."""
        m, k, gamma, amplitude = theta
        over = int(t * 5 / np.pi)  # omega is 5
        omega, shift, sign = jnp.sqrt(k / m), 10 * gamma / k, (-1) ** over
        swing, phase = amplitude - (2 * over + 1) * shift, omega * t - over * jnp.pi
        return sign * jnp.stack([shift + swing * jnp.cos(phase), -swing * omega * jnp.sin(phase)])

    times = jnp.arange(0.0, 3.6, 0.1)

    def run(theta):
        params, sixth = dict(zip(names, theta, strict=True)), dc.EventTimed(order=6)
        run = dc.simulate(line, params, theta[3:], jnp.zeros(1), times, scheme=sixth, substeps=10)
        return jnp.concatenate([run.q, run.u], axis=1)

    jacobian, found = jax.jacfwd(run)(theta), run(theta)
    for row in (4, 9, 17, 24):
        # In motion, after 0, 1, 2 and 3 reversals. A step turns the phase by 0.05 and loses 1e-12 of the amplitude.
        np.testing.assert_allclose(found[row], exact(theta, float(times[row])), atol=1e-9)
        np.testing.assert_allclose(jacobian[row], jax.jacfwd(exact)(theta, float(times[row])), atol=1e-8)
    # At rest in the end, within the band where friction holds it: 0.47 - 4 * 0.1 = 0.07 lies beyond F/k = 0.05, one
    # more half cycle about that ends at 0.03.
    np.testing.assert_allclose(found[-1], [0.03, 0.0], atol=1e-9)
    # q = -(q0 - 10 F/k): the friction's share of the stopping place.
    np.testing.assert_allclose(jacobian[-1, 0], [0.0, -10 * 2.5 / 2500, 10 * 10 / 50, -1.0], atol=1e-8)


def test_fourth_order_in_state_and_jacobian():
    line, theta = chain(2, belt=lambda t, p: 0.3 + 0.1 * jnp.sin(2 * t)), jnp.array([1.0, 100.0, 0.2, 0.05, -0.9])

    @jax.jit
    def solve(steps):
        def end(theta):
            params = values(mass=theta[0], stiffness=theta[1], gamma=theta[2])
            return march(line, params, theta[3] * jnp.array([1.0, 2.0]), theta[4:] * jnp.array([1.0, -1.0]), 1.0, steps)

        return end(theta), jax.jacfwd(end)(theta)

    errors = np.empty((3, 2))
    truth = solve(800)
    for row, steps in enumerate((25, 50, 100)):
        found = solve(steps)
        errors[row] = [np.linalg.norm(a - b) / np.linalg.norm(b) for a, b in zip(found, truth, strict=True)]
    orders = np.log2(errors[:-1] / errors[1:])
    # With mode changes on the way. The problem's own shortest time is 0.05: h = 0.04 is coarse.
    assert np.all(orders[-1] > 3.5), f"errors {errors}, orders {orders}"
    assert np.all(errors[-1] < 1e-4)


def test_derivatives_agree_with_each_other_and_with_differences():
    line = chain(2, times=(0.0, 0.31, 0.31))
    theta, times = jnp.array([1.0, 100.0, 0.2, 0.05, 1.0, 0.02, 0.01, 0.03]), jnp.linspace(0.0, 0.8, 41)

    def end(theta):
        params = values(mass=theta[0], stiffness=theta[1], gamma=theta[2], weights=theta[5:])
        at = theta[3] * jnp.ones(2), theta[4] * jnp.array([1.0, -0.5]), times
        run = dc.simulate(line, params, *at, substeps=8)
        return jnp.concatenate([run.q[-1], run.u[-1], jnp.sum(run.impulse, axis=0)])

    forward, reverse = jax.jit(jax.jacfwd(end))(theta), jax.jit(jax.jacrev(end))(theta)
    # Rounding of a few hundred operations on numbers of order 10.
    np.testing.assert_allclose(forward, reverse, atol=1e-11)
    batch = jax.jit(jax.vmap(end))
    width = 1e-6 * np.diag(theta)
    differences = (batch(theta[None] + width) - batch(theta[None] - width)) / (2 * np.diagonal(width)[:, None])
    # Central differences: rounding 1e-15 / 1e-6 and curvature 1e-12, of entries of order 10; times of events have
    # derivatives of the method's order, (2.5 ms / 50 ms)^4 / 100.
    np.testing.assert_allclose(forward, differences.T, atol=1e-6)
    np.testing.assert_allclose(batch(theta[None])[0], jax.jit(end)(theta), atol=1e-13)


def test_springs_too_stiff_for_the_step_are_told_and_the_implicit_scheme_takes_them():
    params = values(stiffness=1e10, damping=1e5, load=0.0)
    start = [0.0, 0.0, 0.0], [0.1, -0.2, 0.3], np.linspace(0.0, 1.0, 5)
    assert dc.simulate(chain(3), params, *start).status != dc.Status.OK
    run = dc.simulate(chain(3), params, *start, scheme=dc.PercussionFriction())
    # Springs of 1e10 N/m: everything is over at once, up to the 3 N / 1e10 N/m that friction can hold.
    assert np.max(np.abs(run.u[-1])) < 1e-9
    assert np.max(np.abs(run.q[-1])) < 1e-8


@pytest.mark.parametrize("percussions", [(), (0.1,)])
def test_single_precision(percussions):
    single = jax.tree.map(lambda x: jnp.asarray(x, jnp.float32), values(weights=[0.05] * len(percussions)))
    start, times = jnp.float32([0.02, 0.04]), jnp.linspace(0, 1, 101, dtype=jnp.float32)
    run = dc.simulate(chain(2, times=percussions), single, start, 20 * start, times)
    truth = dc.simulate(
        chain(2, times=percussions),
        values(weights=[0.05] * len(percussions)),
        [0.02, 0.04],
        [0.4, 0.8],
        np.linspace(0, 1, 101),
    )
    assert run.q.dtype == jnp.float32
    # A hundred steps of eps = 1e-7.
    np.testing.assert_allclose(run.q, truth.q, atol=2e-5)
    assert run.status == truth.status == 0
