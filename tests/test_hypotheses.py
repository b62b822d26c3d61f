"""The hypotheses of the theorems at a state: rows that meet or violate each, by one program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.hypotheses import (
    active_set,
    angle_condition,
    prox_regularity,
    report,
    reverse_triangle,
    velocity_bound,
)

INF = np.inf


def _wedge(angle):
    return {"normals": [[2.0, 0.0], [np.cos(angle), np.sin(angle)], [1.0, 1.0]], "offset": [0.0, 0.0, 1.0]}


def _skew(slope, **changed):
    return {"normals": [[1.0, slope], [1.0, -slope], [1.0, 0.3]], "offset": [0.0, 0.0, 1.0]} | changed


def _bent(*eigenvalues):
    """One gap of slope 3 whose curvature has these eigenvalues."""
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])
    curvature = np.zeros((3, 2, 2))
    curvature[0] = turn @ np.diag(eigenvalues) @ turn.T
    return {"normals": [[0.0, 3.0], [1.0, 1.0], [1.0, 1.0]], "offset": [0.0, 1.0, 1.0], "curvature": curvature}


# Each row's gamma, eta and largest cosine.
ROWS = {
    # |l1 n1 + l2 n2| is smallest for equal weights: gamma = 1 / cos(angle / 2).
    "a wide wedge": (_wedge(0.3), 1 / np.cos(0.15), INF, np.cos(0.3)),
    "a wedge": (_wedge(1.2), 1 / np.cos(0.6), INF, np.cos(1.2)),
    "a narrow wedge": (_wedge(2.9), 1 / np.cos(1.45), INF, -np.cos(2.9)),
    "clamped": ({"normals": [[1.0, 0.0], [-1.0, 0.0], [1.0, 1.0]], "offset": [0.0, 0.0, 1.0]}, INF, 0.0, 1.0),
    "nothing is closed": ({}, 1.0, INF, 0.0),
    # In M^-1 = diag(1, 1/4): cos = (1 - 1/4) / (1 + 1/4).
    "orthogonal to the eye only": (_skew(1.0, mass=[1.0, 4.0]), np.sqrt(2), INF, 0.6),
    # The third gap is open and skew to both.
    "orthogonal in the kinetic metric": (_skew(2.0, mass=[1.0, 4.0]), np.sqrt(5), INF, 0.0),
    # eta = |grad g| / kappa, kappa the largest positive eigenvalue.
    "outside of something round": (_bent(2.0, 1.5), 1.0, 1.5, 0.0),
    "a saddle": (_bent(2.0, -4.0), 1.0, 1.5, 0.0),
    "inside of something round": (_bent(-2.0, -1.0), 1.0, INF, 0.0),
}


def _stacked(rows, model):
    full = [{name: np.asarray(row.get(name, value), float) for name, value in model.params.items()} for row in rows]
    return jax.tree.map(lambda *values: np.stack(values), *full)


@pytest.fixture(scope="module")
def found():
    """Name -> gamma, whether there is one, the direction, eta, the largest cosine, whether all are orthogonal."""

    def one(p):
        at = zoo.QUADRICS.system, p, 0.0, p["q0"]
        triangle, angle = reverse_triangle(*at), angle_condition(*at)
        return triangle.gamma, triangle.exists, triangle.direction, prox_regularity(*at), angle.worst, angle.holds

    values = jax.jit(jax.vmap(one))(_stacked([row for row, *_ in ROWS.values()], zoo.QUADRICS))
    return dict(zip(ROWS, zip(*map(np.asarray, values), strict=True), strict=True))


@pytest.mark.parametrize("name", ROWS)
def test_constants_by_hand(found, name):
    row, gamma, eta, cosine = ROWS[name]
    here, exists, direction, radius, worst, holds = found[name]
    np.testing.assert_allclose([here, radius, worst], [gamma, eta, cosine], rtol=1e-9, atol=1e-12)
    assert (exists, holds) == (np.isfinite(gamma), cosine == 0)
    if exists and row:
        # The good direction opens every closed gap, the least by 1 / gamma.
        closed = np.array(row["normals"])[np.array(row["offset"]) == 0]
        unit = closed / np.linalg.norm(closed, axis=1, keepdims=True)
        np.testing.assert_allclose(np.min(unit @ direction), 1 / gamma, rtol=1e-9)


def test_what_is_nearly_closed_counts_where_asked():
    params = _stacked([{"normals": [[1.0, 0.0], [0.0, 1.0], [0.0, 2.0]], "offset": [0.0, 0.1, 0.3]}], zoo.QUADRICS)
    params = jax.tree.map(lambda x: x[0], params)
    masks = jax.jit(lambda rho: active_set(zoo.QUADRICS.system, params, 0.0, np.zeros(2), rho))
    assert masks(0.0).tolist() == [True, False, False]
    assert masks(0.1).tolist() == [True, True, False]


LINES = {
    "dashpots and springs": {"damping": 0.5, "stiffness": 1.0},
    "dashpots": {"damping": 0.5, "stiffness": 0.0},
    "springs": {"damping": 0.0, "stiffness": 1.0},
    "neither": {"damping": 0.0, "stiffness": 0.0},
    "beyond the horizon": {"damping": 0.5, "stiffness": 800.0},
}


def test_the_bound_of_the_velocity_by_hand():
    """(4.2) of S4, where percussions of 0.2 and 0.3 lie within T = 0.27 s and one of 0.7 behind it."""
    T, q, u = 0.27, np.array([0.5, -0.2]), np.array([-1.0, 0.4])
    rows = [row | {"percussion": [0.2, 0.3, 0.7]} for row in LINES.values()]
    bound = jax.vmap(lambda p: velocity_bound(zoo.CHAIN.system, p, 0.0, jnp.asarray(q), jnp.asarray(u), T, samples=9))
    found = jax.tree.map(np.asarray, jax.jit(bound)(_stacked(rows, zoo.CHAIN)))
    mass, length = np.array([1.0, 0.6]), np.linalg.norm
    size = length(np.array([[2.0, -1.0], [-1.0, 1.0]]) / mass[:, None], 2)
    for k, (name, row) in enumerate(LINES.items()):
        a, b, c = size * row["damping"], size * row["stiffness"], 1 / 0.6
        horizon = (np.sqrt(a**2 + 4 * b) - a) / (2 * b) if b else (1 / a if a else INF)
        np.testing.assert_allclose(found.horizon[k], horizon, rtol=1e-12, err_msg=name)
        known = length(u) + b * T * length(q) + c * 0.2 * length([9.81, 5.9]) * (T + 0.5) + c * T * 3.0
        expected = known / (1 - a * T - b * T**2) if horizon > T else INF
        np.testing.assert_allclose(found.bound[k], expected, rtol=1e-12, err_msg=name)
    # All but the last are within their horizon.
    assert np.isfinite(found.bound).tolist() == [True] * 4 + [False]


def planes(rows):
    """Half-spaces <row, q> >= 0 with mass diag(1, 4, 9, ...)."""
    rows = np.array(rows, float)
    return zoo.system(gap=lambda t, q, p: rows @ q, mass=lambda q, p: jnp.arange(1.0, q.size + 1) ** 2)


@pytest.mark.full
def test_gamma_bounds_every_combination(rng):
    # Seven rows in four dimensions, more than are independent, all opening along the first axis.
    rows = rng.normal(size=(7, 4)) + np.array([2.5, 0, 0, 0])
    found = reverse_triangle(planes(rows), {}, 0.0, jnp.zeros(4))
    assert found.exists
    weights = rng.exponential(size=(2000, 7)) ** 3
    ratio = (weights @ np.linalg.norm(rows, axis=1)) / np.linalg.norm(weights @ rows, axis=1)
    assert np.max(ratio) <= found.gamma * (1 + 1e-12)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    # The good direction opens all, the least by 1 / gamma.
    np.testing.assert_allclose(np.min(unit @ found.direction), 1 / found.gamma, rtol=1e-9)


def slider(damping, stiffness):
    return dc.ParticleLine(
        mass=lambda p: 2.0 * jnp.ones(1),
        damping=lambda p: damping * jnp.ones((1, 1)),
        stiffness=lambda p: stiffness * jnp.ones((1, 1)),
        load=lambda t, p: 3.0 * jnp.cos(t) * jnp.ones(1),
        friction=lambda p: 0.25,
        normal=lambda t, p: (4.0 + t) * jnp.ones(1),
        percussion_times=[0.1, 0.9],
        percussions=lambda p: jnp.array([0.2, 0.4]),
    )


@pytest.mark.full
def test_report_of_a_system_names_what_fails():
    text = str(report(planes([[1.0, 0.0], [-1.0, 0.0]]), {}, 0.0, [0.0, 0.0], [-2.0, 0.0]))
    assert "no: gap[0] closes at 2 m/s" in text
    assert "fails: active gradients have a vanishing combination" in text
    assert "largest cosine 1" in text


@pytest.mark.full
def test_report_of_a_line():
    text = str(report(slider(2.0, 8.0), {}, 0.0, [0.5], [-1.0], duration=0.2))
    assert "0.390388 s" in text
    assert "|u| <= 2.98438 m/s" in text
    assert "the duration exceeds the horizon" in str(report(slider(2.0, 8.0), {}, 0.0, [0.5], [-1.0], duration=2.0))


@pytest.mark.full
def test_report_refuses_other_things():
    with pytest.raises(ValueError, match="expected a System or a ParticleLine, got int"):
        report(3, {}, 0.0, [0.0], [0.0])
