"""Carts on a track, and a ball whose bounces have coefficients of their own: closed forms, by a program each.

On every commit of the carts what they are made of; impacts of two bodies on a line are those of `test_row.py`.
"""

import jax
import numpy as np
import pytest
import zoo
from programs import run
from scipy.linalg import expm

from diffcontact import Status

# They meet after 0.8 s at 0.5 m/s.
MET = {
    "meet": {"end": 2.0},
    "fly on a sagging track": {"tilt": 0.02, "sag": 0.03, "drag": 0.05, "end": 0.5, "substeps": 5},
}


def test_carts_have_the_gap_mass_and_force_of_their_track():
    given = {"mass_ratio": 1.4, "distance": 0.1, "tilt": 0.02, "sag": 0.03, "drag": 0.05, "restitution": 0.7}
    q, u, carts = np.array([0.2, 0.5]), np.array([0.4, -0.1]), zoo.CARTS.system
    found = jax.jit(lambda p: (carts.gap(0.0, q, p), carts.mass(q, p), carts.force(0.0, q, u, p), carts.restitution(p)))
    gap, mass, force, e = map(np.asarray, found(given))
    np.testing.assert_allclose(gap, [0.2], rtol=1e-15)
    np.testing.assert_allclose(mass, [1.4, 1.0])
    np.testing.assert_allclose(
        force, [1.4 * (0.02 - 0.03 * 0.2) - 0.05 * 0.4, 0.02 - 0.03 * 0.5 + 0.05 * 0.1], rtol=1e-14
    )
    assert np.all(e == 0.7)


@pytest.fixture(scope="module")
def carts():
    return run(zoo.CARTS, MET)


@pytest.mark.full
def test_carts_share_momentum_by_their_restitution(carts):
    motion = carts["meet"]
    assert motion.status == Status.OK
    # Of masses 1.4 and 1: (1.4 + 1) mean = 1.4 * 0.4 - 0.1, and 0.7 * 0.5 apart.
    mean = (1.4 * 0.4 - 0.1) / 2.4
    np.testing.assert_allclose(motion.u[-1], [mean - 0.35 / 2.4, mean + 0.35 * 1.4 / 2.4], rtol=1e-12)
    by = motion.jacobian("restitution", "distance")
    np.testing.assert_allclose(by[2:, 0], [-0.5 / 2.4, 0.5 * 1.4 / 2.4], rtol=1e-11)
    # A longer distance lets them meet sooner, by 2 s/m: each goes on with its new velocity for that much longer.
    change = 2 * (motion.u[-1] - np.array([0.4, -0.1]))
    np.testing.assert_allclose(by[:2, 1], change, rtol=1e-11)


@pytest.mark.full
def test_free_flight_on_the_track_is_the_solution_of_its_equation(carts):
    motion = carts["fly on a sagging track"]
    assert motion.status == Status.OK
    for i, mass in enumerate((1.4, 1.0)):
        # q' = u, u' = tilt - sag q - drag u / mass.
        A = np.array([[0, 1, 0], [-0.03, -0.05 / mass, 0.02], [0, 0, 0]])
        exact = expm(A * 0.5) @ [motion.q[0, i], motion.u[0, i], 1.0]
        # Second order: steps of 5 ms.
        np.testing.assert_allclose([motion.q[-1, i], motion.u[-1, i]], exact[:2], atol=1e-7)


def _flights(p, times):
    """Parabolas between impacts with the moving floor: the first bounce and two later ones."""
    g, floor, drift, t, y, u = p["gravity"], p["floor"], p["floor_drift"], 0.0, 0.0, 0.0
    found, e = np.full(times.size, np.nan), p["restitution"]
    while t < times[-1]:
        since = times - t
        found[since >= 0] = (y + u * since + g / 2 * since**2)[since >= 0]
        relative = u - drift
        s = (-relative + np.sqrt(relative**2 + 2 * g * (floor + drift * t - y))) / g
        t, y, u = t + s, y + u * s + g / 2 * s**2, drift - e * (u + g * s - drift)
        e = p["later_restitution"][0]
    return found


def test_each_bounce_follows_its_own_law_on_the_moving_floor(rng):
    """Gaps of floors that are not there have a kink where the ball strikes another: no cubic tells of it."""
    around = {"restitution": 0.78, "later_restitution": 0.72, "gravity": 10.4, "floor": 8.0, "floor_drift": -0.5}
    drawn = {f"drawn {k}": {name: x * rng.uniform(0.9, 1.1) for name, x in around.items()} for k in range(12)}
    rows = {name: row | {"apexes": [2.2], "end": 4.0} for name, row in drawn.items()}
    found = run(zoo.BOUNCES, rows | {"falls": {"end": 4.0}, "slowed down": {"end": 4.0, "drag": 0.02}})
    for name in (*rows, "falls"):
        assert found[name].status == Status.OK
        # Constant forces: exact to rounding.
        exact = _flights(found[name].params, found[name].t)
        np.testing.assert_allclose(found[name].q[:, 0], exact, atol=1e-10, err_msg=name)
    motion = found["falls"]
    for name in ("restitution", "later_restitution", "gravity", "floor", "floor_drift"):
        up, down = (_flights(motion.params | {name: motion.params[name] + d}, motion.t) for d in (1e-6, -1e-6))
        # Central differences of the closed form: rounding 1e-15 / 1e-6 and curvature of the order of 1e-12.
        np.testing.assert_allclose(motion.by[name][:, 0].ravel(), (up - down) / 2e-6, atol=1e-7, err_msg=name)
    assert found["slowed down"].q[4, 0] < motion.q[4, 0]
