"""EventTimed where contacts rub, beyond its references: what is told, or right, and what must never happen."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo
from scipy.integrate import solve_ivp

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full


def test_what_slips_behind_bounces_that_are_left_out_is_told_or_right():
    """A block bounces to rest on a table that is shaken up, down and sideways, and does not always stick in the end."""
    system = zoo.system(
        gap=lambda t, q, p: q[1:] - 0.12 * (1 - jnp.cos(p[3] * t)),
        force=lambda t, q, u, p: jnp.stack([0.5, -9.81]),
        restitution=0.4,
        slip=lambda t, q, u, p: (u[:1] - p[1] * jnp.sin(p[2] * t))[None],
        friction=lambda p: p[0],
    )

    @jax.jit
    @partial(jax.vmap, in_axes=(0, None))
    def end(p, count):
        scheme = dc.EventTimed(events=1)
        run = dc.simulate(system, p, jnp.zeros(2), jnp.zeros(2), [0.0, 2.0], scheme=scheme, substeps=count)
        return jnp.concatenate([run.q[-1], run.u[-1]]), run.status

    table = jnp.outer(jnp.linspace(0.8, 1.0, 9), jnp.array([0.3, 1.0, 7.0, 11.0]))
    truth, fine = end(table, jnp.array(6400))
    assert not fine.any()
    told = 0
    for count in (100, 200):
        found, statuses = end(table, jnp.array(count))
        wrong = np.max(np.abs(found - truth), axis=1)
        told += np.sum((wrong > 1e-2) & (statuses == Status.TOO_COARSE))
        # Second order: 1e-3 at the first, on velocities of up to 2 m/s.
        assert np.all(wrong[statuses == Status.OK] < 2e-3)
    # The last one sticks in the end where it should slip, by 1.7e-2 m/s.
    assert told > 0


def test_painleve_is_told():
    """A rod that slides on its tip, mu > 4/3: the load that would hold it presses it down; no finite force exists."""
    half = 0.5

    def tip(q):
        return q[:2] + half * jnp.stack([jnp.cos(q[2]), -jnp.sin(q[2])])

    rod = zoo.system(
        gap=lambda t, q, p: tip(q)[1:],
        force=lambda t, q, u, p: jnp.array([0.0, -9.81, 0.0]),
        mass=lambda q, p: jnp.array([1.0, 1.0, half**2 / 3]),
        slip=lambda t, q, u, p: (u[0] - half * jnp.sin(q[2]) * u[2])[None, None],
        friction=lambda p: p,
    )
    angle = 0.9
    q0 = jnp.array([0.0, half * np.sin(angle), angle])

    # The tip ahead of the centre digs in; N M^-1 (N - mu S)^T = 1 + 3 cos^2 - 3 mu sin cos changes its sign at 1.96.
    u0 = jnp.array([1.0, 0.0, 0.0])
    run = jax.jit(jax.vmap(lambda mu: dc.simulate(rod, mu, q0, u0, jnp.linspace(0, 0.02, 3))))(jnp.array([1.0, 2.5]))
    assert run.status.tolist() == [Status.OK, Status.NO_FRICTION]
    assert np.all(np.isfinite(run.q))
    assert np.all(np.isfinite(run.u))


def test_a_corner_whose_walls_carry_a_disc_at_mu_of_one():
    """Belts press it out of the corner as its weight presses it in: loads g / (1 + mu), even ones at mu = 1."""
    g, r = 9.81, 0.1
    corner = zoo.system(
        gap=lambda t, q, p: q[:2] - r,
        force=lambda t, q, u, p: -g * jnp.array([1.0, 1.0, 0.0]),
        mass=lambda q, p: jnp.array([1.0, 1.0, r**2 / 2]),
        slip=lambda t, q, u, p: jnp.stack([u[1] - r * u[2], u[0] + r * u[2]])[:, None] - 10.0,
        friction=lambda p: p,
    )

    def end(mu):
        run = dc.simulate(corner, mu, jnp.array([r, r, 0.0]), jnp.zeros(3), jnp.linspace(0.0, 0.1, 3))
        return jnp.concatenate([run.q[-1], run.u[-1], run.impulse.ravel()]), run.status

    both = jax.jit(
        jax.vmap(lambda mu: (end(mu), jax.jacfwd(end, has_aux=True)(mu)[0], jax.jacrev(end, has_aux=True)(mu)[0]))
    )
    (values, status), *slopes = both(jnp.array([0.9, 1.0]))
    assert status.tolist() == [Status.OK, Status.OK]
    np.testing.assert_allclose(values[0], [r, r, 0, 0, 0, 0, *[0.05 * g / 1.9] * 4], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(slopes[0][0], [0] * 6 + [-0.05 * g / 1.9**2] * 4, rtol=1e-11, atol=1e-12)
    # At mu = 1 the law knows the sum of both loads alone: they are even to 1e-8, and have no derivative.
    np.testing.assert_allclose(values[1], [r, r, 0, 0, 0, 0, *[0.05 * g / 2] * 4], atol=1e-6)
    assert all(np.all(np.isfinite(found)) for found in slopes)


def test_a_slip_that_passes_near_zero_is_told_or_right():
    """A block thrown up a slope too steep to hold it turns at its highest point, the faster the straighter it went."""
    block = zoo.system(
        gap=lambda t, q, p: q[2:],
        force=lambda t, q, u, p: jnp.array([0.0, -p["pull"], -9.81]),
        restitution=lambda p: jnp.zeros(1),
        slip=lambda t, q, u, p: u[None, :2],
        friction=lambda p: p["mu"][None],
    )
    times = jnp.linspace(0.0, 1.0, 51)

    def end(pull, mu, across, up):
        params, start = {"pull": pull, "mu": mu}, jnp.array([across, up, 0.0])
        motion = dc.simulate(block, params, jnp.zeros(3), start, times)
        return jnp.concatenate([motion.q[-1, :2], motion.u[-1, :2]]), motion.status

    def exact(x):
        def rate(_, y):
            speed = np.sqrt(y[2] ** 2 + y[3] ** 2)
            return np.array([y[2], y[3], -x[1] * 9.81 * y[2] / speed, -x[0] - x[1] * 9.81 * y[3] / speed])

        start = np.array([0, 0, x[2], x[3]], complex)
        return solve_ivp(rate, (0, 1), start, method="DOP853", rtol=3e-14, atol=1e-15).y[:, -1]

    x = np.array([[6.0, 0.3, across, 2.0] for across in (0.3, 0.1, 0.03, 0.01, 0.003, 1e-3, 1e-4, 1e-5)])
    found, status = jax.jit(jax.vmap(end))(*x.T)
    slopes, _ = jax.jit(jax.vmap(lambda x: jax.jacfwd(lambda x: end(*x))(x)))(x)
    fine = np.asarray(status) == Status.OK
    assert 4 <= fine.sum() < len(x)
    assert set(np.asarray(status)[~fine]) == {Status.TOO_COARSE}
    for i in np.flatnonzero(fine):
        true = exact(x[i]).real
        # Complex steps: no difference is taken.
        jacobian = np.stack([exact(x[i] + 1e-30j * unit).imag / 1e-30 for unit in np.eye(4)], axis=1)
        # What turns slower than 1/1024 of the fastest motion may do as it likes; its derivative is off by more.
        np.testing.assert_allclose(found[i], true, atol=2 / 1024)
        np.testing.assert_allclose(slopes[i], jacobian, atol=4 / 1024 * np.max(np.abs(jacobian)))


def test_a_contact_that_would_pull_is_told():
    """A disc under another one that a smooth ceiling holds, mu = 20: what it carries is gone within half a step."""
    radius, angle = np.array([0.1327, 0.1386]), -1.2633
    pair = dc.systems.balls(2, 2, planes=lambda t, p: (jnp.array([[0.0, -1.0]]), jnp.zeros(1)), spin=True)
    params = {"mass": jnp.array([0.7325, 5.941]), "radius": radius, "gravity": jnp.array([-9.81, 9.81])}
    params |= {"restitution": 0.0, "friction": jnp.array([0.0, 0.0, 20.0])}
    under = np.array([0.0, -radius[1]]) + radius.sum() * np.array([np.cos(angle), np.sin(angle)])
    v = np.array([-2.564, 0.0]) + 1.5479 * np.array([-np.sin(angle), np.cos(angle)])
    q0, u0 = np.array([*under, 0.0, 0.0, -radius[1], 0.0]), np.array([*v, 1.4223, -2.564, 0.0, 12.05])

    @partial(jax.jit, static_argnums=0)
    def end(order, steps):
        scheme = dc.EventTimed(order=order)
        run = dc.simulate(pair, params, q0, u0, jnp.array([0.0, 0.01]), scheme=scheme, substeps=steps)
        return run.u[-1], run.impulse[-1, 2], run.status

    coarse, pull, told = end(2, jnp.array(1))
    (fine, push, status), (finer, *_) = (end(4, jnp.array(steps)) for steps in (8, 32))
    assert told == Status.TOO_COARSE
    assert pull < 0
    assert push > 0
    assert status == 0
    assert np.max(np.abs(coarse - finer)) > 0.2
    assert np.max(np.abs(fine - finer)) < 5e-3


def test_a_box_that_slides_and_pivots_has_the_derivative_of_its_even_loads():
    """Its motion depends on how four corners share the load, on the ground and as it lands flat."""
    box = dc.systems.bodies(dc.shapes.Box(1.0, 0.6, 0.5), 3, lambda t, p: (jnp.array([[0.0, 0.0, 1]]), jnp.zeros(1)))
    params = {"mass": jnp.ones(1), "gravity": jnp.array([0.0, 0.0, -9.81]), "restitution": 0.0}

    @jax.jit
    def end(x, height):
        q0 = jnp.array([0.0, 0.0, 0.25, 1.0, 0.0, 0.0, 0.0]).at[2].add(height)
        u0 = jnp.stack([x[1], 0.3, 0.0, 0.0, 0.0, x[2]])
        run = dc.simulate(box, params | {"friction": x[0]}, q0, u0, jnp.linspace(0.0, 0.2, 41))
        return jnp.concatenate([run.q[-1], run.u[-1]]), run.status

    slopes, x, width = jax.jit(jax.jacfwd(lambda *x: end(*x)[0])), jnp.array([0.3, 1.0, 4.0]), 5e-4
    for height in (0.0, 0.1):
        assert end(x, height)[1] == Status.OK
        moved = [(end(x + way, height)[0] - end(x - way, height)[0]) / (2 * width) for way in width * jnp.eye(3)]
        # How corners share the load is known to the root of the rounding: 2e-9 of the state, 4e-6 over the width. The
        # square of the width leaves 3e-6.
        np.testing.assert_allclose(slopes(x, height), np.stack(moved, axis=1), atol=1e-5)
        # Pivoting is what drives it sideways: 0.77 m/s for each unit of mu.
        assert abs(moved[0][8]) > 0.5


def test_what_does_not_fit_is_refused_by_name():
    good = {"gap": lambda t, q, p: q[1:2], "force": lambda t, q, u, p: -q, "mass": lambda q, p: jnp.ones(2)}
    good |= {"restitution": lambda p: 0.0, "slip": lambda t, q, u, p: u[None, :1], "friction": lambda p: p}

    def run(mu=0.5, scheme=None, **changes):
        system = dc.System(**(good | changes))
        return dc.simulate(system, mu, jnp.ones(2), jnp.ones(2), jnp.linspace(0, 1, 3), scheme=scheme)

    for changes, line in (
        (
            {"slip": lambda t, q, u, p: u[:1]},
            r"System.slip: expected an array of shape \(1, 1\) or \(1, 2\), got \(1,\)",
        ),
        ({"slip": lambda t, q, u, p: u[None, :1] ** 2}, "System.slip: expected affine in u"),
        ({"mu": -0.1}, "friction: expected at least 0, got"),
        ({"slip": None}, r"System\(friction=...\): expected slip=... with it, got None"),
        ({"friction": None}, r"System\(slip=...\): expected friction=... with it, got None"),
        ({"tangential_restitution": lambda p: 1.5}, r"tangential_restitution: expected within \[-1, 1\]"),
        ({"impact_law": "hertz"}, "System\\(impact_law='hertz'\\): expected one of"),
        ({"rate": lambda q, u, p: u[:1]}, r"System.rate: expected an array of shape \(2,\), got \(1,\)"),
        ({"scheme": dc.CatchingUp()}, "scheme: CatchingUp steps no System with slip"),
        ({"scheme": dc.ElasticProjection()}, "scheme: ElasticProjection steps no System with slip"),
    ):
        with pytest.raises(ValueError, match=line):
            run(**changes)
    bent = jax.jit(lambda mu: run(mu).status)
    assert bent(-0.1) == Status.BAD_INPUT
    with pytest.raises(ValueError, match="q, u: expected a closed contact that approaches; the smallest gap is 1"):
        dc.impact(dc.System(**good), 0.5, 0.0, jnp.ones(2), jnp.ones(2))
