"""A contact that springs sideways: against its springs integrated, its limits, other people's numbers, derivatives."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from springs import springs

import diffcontact as dc
from diffcontact import Status
from diffcontact.schemes.event_timed.compliant import slip_left

SPHERE = np.sqrt(2.5)  # r / rho of a solid sphere: W_TT / W_NN = 7/2


@cache
def shares():
    return jax.jit(jax.vmap(slip_left))


# Initial stick; slip, stick, slip; slip throughout; a stiff tangential spring that sticks many times; e small.
CASES = [
    *((0.05, 3.5, 0.3, 1.0, 1.2), (0.2, 3.5, 0.3, 0.9, 1.2), (0.8, 3.5, 0.3, 0.8, 1.2), (1.7, 3.5, 0.3, 0.8, 1.2)),
    *((2.5, 3.5, 0.3, 0.8, 1.2), (0.3, 2.0, 0.6, 0.5, 0.15), (0.1, 3.0, 0.2, 0.2, 0.6), (0.5, 1.0, 0.5, 0.7, 2.5)),
]


def test_the_share_of_the_slip_is_that_of_the_springs():
    found, ended = shares()(*np.transpose(CASES))
    assert np.all(ended)
    np.testing.assert_allclose(found, [springs(*case) for case in CASES], rtol=0, atol=2e-8)


@cache
def sphere():
    return dc.systems.single_impact("body", impact_law="compliant")


def struck(values, u):
    """Velocity after (v_x, v_y, spin times gyration) and status; e, mu, eta^2 and both levers."""
    hit = dc.impact(sphere(), named(values), 0.0, jnp.zeros_like(u), u)
    return hit.u + hit.jump, hit.status


def named(values):
    names = ("restitution", "friction", "tangential_compliance")
    return dict(zip(names, values[:3], strict=True)) | {"levers": values[3:]}


LANES = 13


@cache
def program():
    def one(values, u):
        by, (v, status) = jax.jacfwd(lambda x: (struck(x, u)[0], struck(x, u)), has_aux=True)(values)
        return v, status, by

    return jax.jit(jax.vmap(one))


def lanes(values, u):
    """Velocities after and statuses, and their derivatives by the values, of lanes (n, 5), (n, 3): by one program."""
    found = program()(np.resize(values, (LANES, 5)), np.resize(u, (LANES, 3)))
    return [np.asarray(x)[: len(values)] for x in found]


def after(rows, u):
    full = np.array([row if len(row) == 5 else [*row, 0.0, SPHERE] for row in rows], float)
    v, status, _ = lanes(full, np.broadcast_to(u, (len(full), 3)))
    return v, status


def test_a_sphere_rebounds_as_others_compute_and_measure():
    """MFIX's linear springs (k_t / k_n = 14.8 / 17.2, e = 1, mu = 0.092) and the experiment that they are held against.

    Source: MFIX, tests/dem/DEM05, of A. H. Kharaz, D. A. Gorham, A. D. Salman, Powder Technology 120 (2001) 281.
    """
    theirs = {1: 0.8764, 5: 3.9937, 10: 6.5953, 15: 9.0906, 20: 12.2112, 25: 16.1724, 30: 21.4755, 45: 39.2091}
    measured = {4.2922: 2.9577, 9.9429: 6.6917, 20.5594: 12.3645, 30.3767: 21.7809, 60.0571: 57.3652}
    angle, n = np.array([*theirs, *measured]), len(theirs)
    u = 3.9 * np.stack([np.sin(np.radians(angle)), -np.cos(np.radians(angle)), 0 * angle], axis=1)
    v, status = after([(1.0, 0.092, 17.2 / 14.8)] * angle.size, u)
    assert not np.any(status)
    rebound = np.degrees(np.arctan2(v[:, 0], v[:, 1]))
    # Theirs takes some fifty steps an impact.
    np.testing.assert_allclose(rebound[:n], [*theirs.values()], rtol=0.02)
    # Linear springs, theirs too, are half a degree above the slowest slip that was measured.
    np.testing.assert_allclose(rebound[n:], [*measured.values()], rtol=0, atol=0.6)
    # Gross slip above tan(angle) = 7/2 mu (1 + e), where the surface does not spring: Coulomb's impact.
    slips = np.tan(np.radians(angle)) > 3.5 * 0.092 * 2
    rigid = u[:, 0] - 0.092 * 2 * -u[:, 1]
    np.testing.assert_allclose(v[slips, 0], rigid[slips], rtol=1e-12)
    # Between, the contact's surface is turned round, as Maw, Barber and Fawcett found.
    left = (v[:, 0] + SPHERE * v[:, 2]) / u[:, 0]
    assert np.all(left[slips] > 0)
    assert np.all(left[2:6] < 0)
    assert left[0] > 0.4


@pytest.mark.parametrize("e", [0.0, 0.7, 1.0])
def test_its_limits_are_coulombs_impact(e):
    u = np.array([0.3, -1.0, 0.2])
    slip = 0.3 + SPHERE * 0.2
    slides = 1 - 3.5 * 0.02 * (1 + e) / slip
    # mu, eta^2, share of the slip that is left, tolerance: of a stiff spring the last oscillation, of size eta.
    limits = [(0.5, 0.0, 0.0, 1e-12), (0.5, 1e-2, 0.0, 0.2), (0.02, 1.2, slides, 1e-12), (0.0, 1.0, 1.0, 1e-12)]
    v, status = after([(e, mu, compliance) for mu, compliance, _, _ in limits], u)
    assert not status.any()
    np.testing.assert_allclose(v[:, 1], e, atol=1e-14)
    for left, (*_, share, tolerance) in zip((v[:, 0] + SPHERE * v[:, 2]) / slip, limits, strict=True):
        np.testing.assert_allclose(left, share, rtol=0, atol=tolerance)


@pytest.mark.full
def test_none_makes_energy_and_in_space_the_slip_keeps_its_line(rng):
    n = 2000
    ball = dc.systems.bodies(
        dc.shapes.Ball(0.1),
        3,
        lambda t, p: (jnp.array([[0.0, 0.0, 1.0]]), jnp.zeros(1)),
        impact_law="compliant",
    )
    names = ("restitution", "friction", "tangential_compliance")
    values = np.stack([rng.uniform(0, 1, n), rng.uniform(0, 1, n), 10 ** rng.uniform(-1, 1, n)], axis=1)
    u = rng.normal(size=(n, 6)) * [1, 1, 0, 10, 10, 10] - [0, 0, 1, 0, 0, 0] * rng.uniform(0.1, 2, (n, 1))
    q = np.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0])

    def one(values, u):
        params = {"mass": jnp.ones(1), "gravity": jnp.zeros(3), **dict(zip(names, values, strict=True))}
        hit = dc.impact(ball, params, 0.0, q, u)
        return u + hit.jump, hit.impulse[0], hit.friction[0], hit.status

    v, P, B, status = map(np.asarray, jax.jit(jax.vmap(one))(values, u))
    assert not status.any()
    inertia = np.array([1, 1, 1, *[0.4 * 0.1**2] * 3])
    assert np.all(v**2 @ inertia <= u**2 @ inertia * (1 + 1e-12))
    assert np.all(np.linalg.norm(B, axis=1) <= values[:, 1] * P * (1 + 1e-12))
    slip = u[:, :2] + 0.1 * np.stack([-u[:, 4], u[:, 3]], axis=1)
    assert np.all(np.abs(slip[:, 0] * B[:, 1] - slip[:, 1] * B[:, 0]) <= 1e-12)
    # Against the law in a line.
    share, _ = shares()(np.linalg.norm(slip, axis=1) / -u[:, 2], np.full(n, 3.5), *values[:, [1, 0, 2]].T)
    left = v[:, :2] + 0.1 * np.stack([-v[:, 4], v[:, 3]], axis=1)
    np.testing.assert_allclose(left, np.asarray(share)[:, None] * slip, atol=1e-11)


def test_derivatives_are_those_of_differences():
    def left(x):
        return slip_left(*x)[0]

    cases = np.array(CASES)
    modes = {"forward": jax.jacfwd, "reverse": jax.jacrev}
    by = {name: jax.jit(jax.vmap(mode(left))) for name, mode in modes.items()}
    forward = np.asarray(by["forward"](cases))
    np.testing.assert_allclose(by["reverse"](cases), forward, rtol=1e-12, atol=1e-12)
    for k in range(5):
        step = 1e-5 * np.eye(5)[k]
        ends = [np.asarray(shares()(*np.transpose(cases + n * step))[0]) for n in (-2, -1, 1, 2)]
        difference = (ends[0] - 8 * ends[1] + 8 * ends[2] - ends[3]) / 12e-5
        np.testing.assert_allclose(forward[:, k], difference, rtol=1e-7, atol=1e-8)
    # At rest sideways, without friction, without rebound: finite, too.
    edges = np.resize(
        [(0, 3.5, 0.3, 1, 1.2), (1, 3.5, 0, 1, 1.2), (0.3, 3.5, 0.3, 0, 1.2), (1, 3.5, 0.3, 1, 0)], (8, 5)
    )
    for mode in by.values():
        assert np.all(np.isfinite(mode(edges)))
    single = shares()(*np.transpose(cases).astype(np.float32))[0]
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, shares()(*np.transpose(cases))[0], atol=2e-5)
    assert np.all(np.isfinite(by["forward"](edges.astype(np.float32))))


@pytest.mark.full
def test_a_motion_has_the_impacts_of_the_law_and_its_derivative():
    values, u = np.array([0.9, 0.1, 1.2, 0.0, SPHERE]), np.array([0.25, -1.0, 0.0])

    def end(values):
        last = dc.simulate(sphere(), named(values), -u, u, np.array([0.0, 0.7, 2.0])).u[-1]
        return last, last

    by, last = jax.jit(jax.jacfwd(end, has_aux=True))(values)
    law, _, exact = (x[0] for x in lanes(values[None], u[None]))
    np.testing.assert_allclose(last, law, atol=1e-14)
    # But for the normal lever, on which the law itself does not depend.
    np.testing.assert_allclose(np.asarray(by)[:, [0, 1, 2, 4]], exact[:, [0, 1, 2, 4]], atol=1e-12)


def test_who_is_struck_off_the_centre_is_told():
    v, status = after([(0.9, 0.1, 1.2, 0.3, 1.0)], [0.2, -1.0, 0.0])
    assert status == [Status.NO_FRICTION]
    assert "centre" in Status.NO_FRICTION.message
    np.testing.assert_allclose(v[0, 0], 0.2, atol=1e-14)
    given = {"gap": 0, "force": 0, "mass": 0, "restitution": 0, "slip": 0, "friction": 0}
    given = {name: lambda *_: None for name in given}
    with pytest.raises(ValueError, match='expected with impact_law="compliant", and with no other law'):
        dc.System(**given, impact_law="compliant")
    with pytest.raises(ValueError, match="and with no other law"):
        dc.System(**given, tangential_compliance=lambda p: 1.0)
    with pytest.raises(ValueError, match="tangential_compliance: expected at least 0"):
        struck(np.array([0.9, 0.1, -1.0, 0.0, 1.0]), np.array([0.2, -1.0, 0.0]))
