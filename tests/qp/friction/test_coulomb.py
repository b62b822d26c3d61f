"""`qp.coulomb`: tables of problems of one shape, each the lanes of one program, with both derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from friction_problems import random_problems, residual
from qp_problems import assert_differences, assert_transposed, derivatives, run, with_neighbours

from diffcontact import qp
from diffcontact.qp.friction import interior, passes, path
from diffcontact.qp.friction.law import Contacts
from diffcontact.status import Status

NAMES = ("mass", "normals", "tangents", "b", "s", "friction", "v")
# Components of `random_problems`, and contacts of a table.
D, C = 36, 4
TURN = 16


def _solved(problem):
    found = qp.coulomb(*problem)
    return jnp.concatenate([found.u, found.normal, jnp.ravel(found.tangential)]), found


@jax.jit
def _program(*rows):
    """In turns: lanes wait for the one that searches longest."""
    return jax.lax.map(lambda row: derivatives(_solved)(*row), rows, batch_size=TURN)


def _full(rows):
    """As many rows as turns have."""
    return rows | {f"fill {i}": next(iter(rows.values())) for i in range(-len(rows) % TURN)}


def _problem(mass, normals, tangents, friction, v, b=None, s=None, contacts=C, components=D, k=2):
    """Contacts without offsets, as far as none are given; those that are not there are off."""
    N, S = np.asarray(normals, float), np.asarray(tangents, float)
    c, d = N.shape
    more, wider = contacts - c, components - d
    b = np.zeros(c) if b is None else np.asarray(b, float)
    s = np.zeros(S.shape[:2]) if s is None else np.asarray(s, float)
    return (
        np.pad(np.asarray(mass, float), (0, wider), constant_values=1.0),
        np.pad(N, ((0, more), (0, wider))),
        np.pad(S, ((0, more), (0, k - S.shape[1]), (0, wider))),
        np.pad(b, (0, more), constant_values=np.inf),
        np.pad(s, ((0, more), (0, k - S.shape[1]))),
        np.pad(np.broadcast_to(np.asarray(friction, float), c), (0, more)),
        np.pad(np.asarray(v, float), (0, wider)),
    )


def _wider(x, shape):
    return np.pad(np.asarray(x, float), [(0, n - m) for n, m in zip(shape, np.shape(x), strict=True)])


def _directions(rng, problem):
    """Random tangents that leave alone what is switched off."""
    mass, normals, tangents, b = problem[:4]
    on = np.isfinite(b)
    along = [rng.normal(size=x.shape) for x in problem]
    return (
        0.1 * along[0] * mass,
        along[1] * (normals != 0),
        along[2] * (tangents != 0),
        np.where(on, along[3], 0.0),
        np.where(on[:, None] & np.any(tangents != 0, axis=2), along[4], 0.0),
        np.where(on, 0.1 * along[5], 0.0),
        along[6] / np.sqrt(np.where(mass > 0, mass, 1)),
    )


def _row(problem, seed=0, **along):
    """A row of a table, whose tangents are those given, zero where none is, and random ones if there is none at all."""
    rng = np.random.default_rng(seed)
    tangents = _directions(rng, problem)
    if along:
        tangents = tuple(
            _wider(along[name], x.shape) if name in along else np.zeros_like(x)
            for name, x in zip(NAMES, problem, strict=True)
        )
    d, (c, k) = len(problem[0]), problem[4].shape
    return problem, (), tangents, rng.normal(size=d + c * (1 + k))


def _plate(corners, velocity, friction, mass=2.0, inertia=(0.3, 0.3, 0.3), height=0.5):
    """A plate that lies on its corners (c, 2) and slides and pivots: u = (v_x, v_y, v_z, w_x, w_y, w_z)."""
    arms = np.concatenate([corners, np.full((len(corners), 1), -height)], axis=1)
    rows = np.array([[[*e, *np.cross(arm, e)] for e in np.eye(3)] for arm in arms])
    return _problem([*[mass] * 3, *inertia], rows[:, 2], rows[:, :2], friction, velocity)


RECTANGLE = np.array([[1.0, 0.6], [-1.0, 0.6], [-1.0, -0.6], [1.0, -0.6]])
SQUARE = np.array([[x, y] for x in (-1.0, 1.0) for y in (-1.0, 1.0)])
BOX = {"mass": 4.0, "inertia": (1.0, 2.0, 3.0)}
UP, ALONG = np.array([[0.0, 1.0]]), np.array([[[1.0, 0.0]]])
TWICE = np.ones((2, 1)) * UP, np.ones((2, 1, 1)) * ALONG
SPIN = [[0, 0, 1, 0, 0, 0]], [[[1, 0, 0, 0, -0.3, 0], [0, 1, 0, 0.3, 0, 0]]]


def _slot(angle):
    """A block in a slot without play, pressed against one wall: v = (3, -2) in the slot's directions."""
    way, across = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    problem = _problem(np.ones(2), [across, -across], [[way], [way]], [0.5, 0.3], 3 * way - 2 * across)
    return _row(problem, v=way - across), 2 * way, [2, 0], [[-1], [0]], 0.5 * way


def _sphere(mu):
    """Walton: P = m |v_N|, B = -v_T/|v_T| min(mu P, 2/7 m |v_T|)."""
    m, slip = 1.7, np.array([1 - 0.3 * 4, -0.5 + 0.3 * 3])
    size = np.linalg.norm(slip)
    problem = _problem([m] * 3 + [0.4 * m * 0.09] * 3, *SPIN, mu, [1, -0.5, -2, 3, 4, 5])
    return _row(problem), None, [2 * m], [-slip / size * min(mu * 2 * m, 2 / 7 * m * size)], None


# Closed forms: the row; u, P and B; how u moves along the row's tangents.
CLOSED = {
    # The moment of the spin, 3 * 0.3, comes from four corners at sqrt(2), each across its lever.
    "a box at rest": (
        _row(_plate(SQUARE, [0, 0, -1, 0, 0, 0.3], 0.9, **BOX), v=np.full(6, 0.1)),
        np.zeros(6),
        np.ones(4),
        0.9 / 8 * SQUARE[:, ::-1] * [1, -1],
        np.zeros(6),
    ),
    # No corner leaves the floor, and the loads balance the moment of friction. A load more is friction more.
    "a box that slides": (
        _row(_plate(SQUARE, [3, 0, -1, 0, 0, 0], 0.2, **BOX), v=[1, 0, 1, 0, 0, 0]),
        [2.8, 0, 0, 0, 0, 0],
        [0.9, 0.9, 1.1, 1.1],
        [[-0.18, 0], [-0.18, 0], [-0.22, 0], [-0.22, 0]],
        [1.2, 0, 0, 0, 0, 0],
    ),
    # mu 0.2 and 0.6 slow down like 0.4, and the derivative is that of 0.4.
    "two contacts at one place": (
        _row(_problem(np.ones(2), *TWICE, [0.2, 0.6], [3, -2]), friction=[1, 1], v=[0, -1]),
        [2.2, 0],
        [1, 1],
        [[-0.2], [-0.6]],
        [-2.4, 0],
    ),
    # Pushed up by one more, at mu; where it slips the offset of the slip is of no account.
    "a floor that rises": (
        _row(_problem([2.0, 2.0], UP, ALONG, 0.5, [3, -2], s=[[1.0]]), b=[-1], s=[[3.0]]),
        [2, 0],
        [4],
        [[-2]],
        [-0.5, 1],
    ),
    "a belt": (
        _row(_problem([2.0, 2.0], UP, ALONG, 0.5, [0.5, -2], s=[[-0.3]]), s=[[1.0]]),
        [0.3, 0],
        [4],
        [[-0.4]],
        [-1, 0],
    ),
    # u_x = v_x - mu |v_y| m_y / m_x.
    "masses": (_row(_problem([2.0, 4.0], UP, ALONG, 0.5, [3, -1]), mass=[1, 1]), [2, 0], [4], [[-2]], [0.25, 0]),
    # Reactions as large as the inverse of the angle hold u = -N^-1 b, here 0, and its tangent -N^-1 db.
    "a wedge": (
        _row(_problem(np.ones(2), [[1e-4, 1], [1e-4, -1]], TWICE[1], 0, [-1, 0.1]), b=[1e-4, 1e-4]),
        [0, 0],
        [5e3 - 0.05, 5e3 + 0.05],
        [[0], [0]],
        [-1, 0],
    ),
    "at rest": (_row(_problem(np.ones(2), UP, ALONG, 0.5, [0, 0])), [0, 0], [0], [[0]], None),
    **{f"a sphere, mu {mu}": _sphere(mu) for mu in (0.01, 0.03, 0.8)},
    **{f"a slot {i}": _slot(angle) for i, angle in enumerate(np.linspace(0, 6, 8))},
}

FLOOR = dict(zip(NAMES, _problem(np.ones(2), UP, ALONG, 0.5, [1, -1]), strict=True))


def _spoilt(name, value):
    """The floor with another first entry of an argument."""
    x = FLOOR[name].copy()
    x.flat[0] = value
    return tuple((FLOOR | {name: x}).values())


# What has no solution: the problem, its status, u, P and B.
UNSOLVED = {
    "no room": (_problem(np.ones(2), UP * [[1], [-1]], TWICE[1], 0.5, [1, 1], b=[-1, -1]), Status.INFEASIBLE, [1, 0]),
    # u >= 1 and the slip u + 5 > 0, so that P - mu P = 1: with mu = 2 there is no such P (Painleve).
    "slip that presses": (_problem([1], [[1]], [[[1]]], 2, [0], b=[-1], s=[[5]]), Status.NO_FRICTION, [1]),
    "v": (_spoilt("v", np.nan), Status.NOT_FINITE, [0, -1]),
    "b": (_spoilt("b", -np.inf), Status.NOT_FINITE, [1, -1]),
    "s": (_spoilt("s", np.nan), Status.NOT_FINITE, [1, -1]),
    "rows": (_spoilt("normals", np.inf), Status.NOT_FINITE, [1, -1]),
    "infinite mass": (_spoilt("mass", np.inf), Status.NOT_FINITE, [1, -1]),
    "no mass": (_spoilt("mass", 0.0), Status.BAD_MASS, [1, -1]),
    "negative mass": (_spoilt("mass", -1.0), Status.BAD_MASS, [1, -1]),
    "negative friction": (_spoilt("friction", -0.1), Status.BAD_INPUT, [1, -1]),
}
PLATES = {"at rest": (0, 0, 0), "slides": (4, 0, 0), "slides and pivots": (2, 1, 3), "pivots": (0.1, 0, -4)}


def _plates():
    """Contacts that share a reaction in more than one way, moved along ways that leave rectangles rectangles."""
    rng, rows = np.random.default_rng(1), {}
    for name, (x, y, spin) in PLATES.items():
        here, there = (
            _plate(RECTANGLE * (1 + i * wider), np.array([x, y, -1, 0, 0, spin]) + i * more, 0.3 + i * rubs)
            for wider, more, rubs in [
                (0.1 * rng.normal(size=2), rng.normal(size=6) * [1, 1, 1, 0, 0, 1], 0.05 * rng.normal(size=4))
            ]
            for i in (0, 1)
        )
        with np.errstate(invalid="ignore"):
            along = tuple(np.nan_to_num(b - a) for a, b in zip(here, there, strict=True))
        rows[f"plate {name}"] = here, (), along, rng.normal(size=D + 3 * C)
    return rows


def _rows():
    rng, rows = np.random.default_rng(0), {}
    for i, problem in enumerate(zip(*random_problems(7, 40, 2, contacts=C), strict=True)):
        rows[f"random {i}"] = _row(problem, i)
    for i, problem in enumerate(zip(*random_problems(3, 12, 2, contacts=C), strict=True)):
        rows[f"smooth {i}"] = _row((*problem[:5], 0 * problem[5], problem[6]), i)
    # Every tenth has contacts that are redundant: what is not moved alike is no longer.
    alone = {f"random {i}": rows.pop(f"random {i}") for i in range(40) if i % 10}
    rows |= with_neighbours(alone | _plates())
    tipping = list(_plate(RECTANGLE, [0, 0, -1, 0, 3, 0], 0.3))
    rows["tipping"] = _row(tuple(tipping), rng.integers(9))
    return (
        rows
        | {name: row for name, (row, *_) in CLOSED.items()}
        | {n: _row(p, v=[0.0]) for n, (p, *_) in UNSOLVED.items()}
    )


@pytest.fixture(scope="module")
def table():
    rows = _rows()
    return rows, run(_program, _full(rows))


def _named(rows, *kinds):
    return [name for name in rows if name.startswith(kinds) and not name.endswith(("+1", "-1"))]


def _residual(problem, found):
    return residual(problem, found.u, found.normal, found.tangential)


def _modes(problem, found):
    """What is loaded, and what is at the bound of friction."""
    P, size = found.normal, np.linalg.norm(found.tangential, axis=1)
    return (P > 0).tolist(), (size >= (1 - 1e-9) * problem[5] * P).tolist()


def test_the_law_is_obeyed(table):
    rows, found = table
    for name in _named(rows, "random", "smooth", "plate", "tipping"):
        hit = found[name][0]
        assert hit.status == Status.OK, name
        assert _residual(rows[name][0], hit) < 1e-10, name
        if name.startswith("smooth"):
            assert np.all(hit.tangential == 0)
        if name.startswith("plate"):
            # The diagonals of a rectangle carry alike.
            assert np.all(hit.normal > 0)
            assert abs(hit.normal @ [1, -1, 1, -1]) < 1e-13


@pytest.mark.parametrize("name", CLOSED)
def test_closed_forms(table, name):
    _, u, P, B, along = CLOSED[name]
    hit, _, forward, _ = table[1][name]
    assert hit.status == Status.OK
    # Some roundings; of a wedge, times the condition of its Delassus matrix.
    within = 1e-8 if name == "a wedge" else 1e-13
    np.testing.assert_allclose(hit.normal[: len(P)], P, rtol=within, atol=within)
    np.testing.assert_allclose(hit.tangential[: len(B), : np.shape(B)[1]], B, atol=within)
    if u is not None:
        np.testing.assert_allclose(hit.u[: len(u)], u, atol=within)
    if along is not None:
        np.testing.assert_allclose(forward[: len(along)], along, atol=within)


@pytest.mark.parametrize("name", UNSOLVED)
def test_what_has_no_solution_has_a_status(table, name):
    _, status, u = UNSOLVED[name]
    hit, _, forward, backward = table[1][name]
    assert hit.status == status
    np.testing.assert_allclose(hit.u[: len(u)], u, atol=1e-14)
    np.testing.assert_array_equal(hit.tangential, 0)
    if name in ("no room", "slip that presses"):
        assert np.sum(hit.normal) > 0
    assert all(np.all(np.isfinite(x)) for x in (forward, *backward))


def test_derivatives(table):
    """Central differences where no mode changes; finite and each other's transpose everywhere."""
    rows, found = table
    same = 0
    for name in _named(rows, "random", "plate"):
        # Reactions that are far larger than what they do lose digits.
        assert_transposed(rows, found, name, 1e-10)
        if f"{name} +1" in rows:
            modes = [_modes(rows[x][0], found[x][0]) for x in (name, f"{name} +1", f"{name} -1")]
            if modes[0] == modes[1] == modes[2]:
                same += 1
                assert_differences(found, name, 1e-6)
    assert same > 0.8 * 40
    for name in ("at rest", "a wedge", "two contacts at one place"):
        assert_transposed(rows, found, name, 1e-8)


def test_no_lane_touches_another(table):
    """Bit for bit, whether its neighbours are solved at once, after a long search, never, or are not numbers."""
    rows, found = table
    names = [f"random {i}" for i in range(1, 9)]
    others = ["v", "slip that presses", "a wedge", "plate pivots", "smooth 0", "no room", "negative mass", "tipping"]
    beside = run(
        _program,
        _full(
            {x: rows[x] for pair in zip(names, others, strict=True) for x in pair} | {name: rows[name] for name in rows}
        ),
    )
    for name in names:
        for one, other in zip(jax.tree.leaves(found[name]), jax.tree.leaves(beside[name]), strict=True):
            np.testing.assert_array_equal(one, other, err_msg=name)


def _ones():
    """One contact with one direction: a point on a floor, rows that couple, and bodies that are struck anywhere."""
    shape = {"contacts": 1, "components": 3, "k": 1}
    floor = {
        "slips": ([3.0, -2.0], 0.5, [2.0, 0.0], 4.0, -2.0),
        "slips back": ([-3.0, -2.0], 0.5, [-2.0, 0.0], 4.0, 2.0),
        "sticks": ([0.5, -2.0], 0.5, [0.0, 0.0], 4.0, -1.0),
        "open": ([0.5, 1.0], 0.5, [0.5, 1.0], 0.0, 0.0),
        "smooth": ([3.0, -2.0], 0.0, [3.0, 0.0], 4.0, 0.0),
        "rest": ([0.0, 0.0], 0.5, [0.0, 0.0], 0.0, 0.0),
    }
    rows = {name: _row(_problem([2, 2], UP, ALONG, mu, v, **shape)) for name, (v, mu, *_) in floor.items()}
    closed = {name: (np.array(u), P, B) for name, (_, _, u, P, B) in floor.items()}
    # W = [[1, a], [a, 1 + a^2]]/2: the three modes one by one.
    a, W = 0.8, np.array([[1, 0.8], [0.8, 1.64]]) / 2
    for sideways in (-2.0, 0.3, 2.0):
        for mu in (0.1, 0.4, 1.0):
            name, q = f"couples {sideways} {mu}", np.array([-1.0, sideways - a])
            P, B = np.linalg.solve(W, -q)
            if abs(B) > mu * P:
                for sign in (-1, 1):
                    load = -q[0] / (W[0, 0] - mu * sign * W[0, 1])
                    if load >= 0 and sign * (W[1] @ [load, -mu * sign * load] + q[1]) >= 0:
                        P, B = load, -mu * sign * load
            rows[name] = _row(_problem([2, 2], UP, [[[1, a]]], mu, [sideways, -1], **shape), 3)
            closed[name] = np.array([sideways, -1]) + np.array([B, P + a * B]) / 2, P, B
    rng = np.random.default_rng(2)
    rows = with_neighbours(rows)
    for i in range(300):
        N, S, v = rng.normal(size=(3, 3))
        # One of three is struck with a friction beyond all.
        mu = rng.uniform(0, 2) if i % 3 else 10.0 ** rng.choice([3, 8, 12])
        rows[f"body {i}"] = _row(_problem(10 ** rng.uniform(-1, 1, 3), [N], [[S]], mu, v, **shape), i)
    return rows, closed


def test_one_contact():
    rows, closed = _ones()
    found = run(jax.jit(jax.vmap(derivatives(_solved))), rows)
    for name, (u, P, B) in closed.items():
        hit = found[name][0]
        assert hit.status == Status.OK
        np.testing.assert_allclose(hit.u[:2], u, atol=1e-14, err_msg=name)
        np.testing.assert_allclose([hit.normal[0], hit.tangential[0, 0]], [P, B], rtol=1e-14, atol=1e-15, err_msg=name)
        assert_transposed(rows, found, name)
        if name not in ("rest", "smooth"):
            assert_differences(found, name)
    for name in _named(rows, "body"):
        (mass, (N,), ((S,),), _, _, (mu,), _), hit = rows[name][0], found[name][0]
        # Painleve: sliding presses the contact together at least as much as its load opens it.
        if hit.status != Status.OK:
            assert mu * abs(N @ (S / mass)) >= N @ (N / mass), name
        # The root of eps, of speeds and levers of size 1; where the law is lost in rounding friction is left out.
        assert N @ hit.u > -1e-7, name
        assert hit.status in (Status.OK, Status.NO_FRICTION), name
        assert hit.status != Status.OK or mu > 1e4 or _residual(rows[name][0], hit) < 1e-10


def test_one_contact_alone_and_in_single_precision():
    """Without a batch, and with a mass that is a matrix, of which only the symmetric part counts."""
    rows, closed = _ones()
    alone = jax.jit(qp.coulomb)
    skew = np.random.default_rng(0).normal(size=(3, 3))
    for name, (u, P, B) in closed.items():
        mass, *rest = rows[name][0]
        problem = (x.astype(np.float32) for x in (np.diag(mass) + skew - skew.T, *rest))
        hit = jax.tree.map(np.asarray, alone(*problem))
        assert hit.status == Status.OK
        assert hit.u.dtype == np.float32
        # Some tens of roundings of numbers of size three.
        np.testing.assert_allclose(hit.u[:2], u, atol=1e-5, err_msg=name)
        np.testing.assert_allclose([hit.normal[0], hit.tangential[0, 0]], [P, B], atol=1e-5, err_msg=name)


@pytest.mark.parametrize("way", [path, interior])
def test_the_path_leads_to_a_solution(way):
    """From contacts held apart, or from inside of the cones, also where Newton's method would have found it."""

    def left(mass, normals, tangents, b, s, friction, v):
        on = b < jnp.inf
        H, h = jnp.concatenate([normals[:, None], tangents], axis=1), jnp.concatenate([b[:, None], s], axis=1)
        contacts = Contacts.of(mass, H, jnp.where(on[:, None], h, 0), friction, v, on)
        return passes.residual(contacts, way.follow(contacts, 1, True))[1]

    # They end where contacts are held apart by eps^0.6 of the fastest velocity, or at such a residual.
    assert np.mean(np.asarray(jax.jit(jax.vmap(left))(*random_problems(8, 12, 2, contacts=C))) < 1e-6) > 0.8
