"""`qp.project` and `qp.hold`: tables of problems of one shape, each the lanes of one program, with both derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import quadprog
from exact_problems import contradiction, equalities, size
from qp_problems import (
    assert_differences,
    assert_transposed,
    backwards,
    degenerate,
    derivatives,
    moved,
    optimality,
    padded,
    projected_and_held,
    run,
    with_neighbours,
)

from diffcontact import qp
from diffcontact.status import Status

C, D = 16, 6
NAN, INF = np.nan, np.inf


def _row(rng, problem, active, tangents=None):
    """A row of a table, with random tangents and cotangents of all that is found."""
    if tangents is None:
        tangents = tuple(rng.normal(size=x.shape) * np.isfinite(x) for x in problem)
        if tangents[0].ndim == 2:
            tangents = (tangents[0] + tangents[0].T, *tangents[1:])
    count, dimension = problem[1].shape
    active = np.asarray(active, bool)
    return tuple(problem), (active,), tangents, rng.normal(size=2 * (count + dimension))


def _small(mass, G, b, v, active=(), tangent=None):
    """A row of few rows and components. All of v moves along, and nothing else, where no tangents are given."""
    problem = padded(mass, G, b, v, C, D)
    tangents = tuple(np.zeros_like(x) for x in problem) if tangent is None else tangent
    if tangent is None:
        tangents[3][:] = 1.0
    return _row(np.random.default_rng(1), problem, np.pad(np.array(active, bool), (0, C - len(active))), tangents)


ROW, BOTH = [1.0, 1.0], np.ones(2)
# What is not asked for is not read: the second row is the first one twice over, the third is zero.
HELD = np.array([[1.0, 1.0], [2.0, 2.0], [0.0, 0.0], [1.0, -1.0]])


def _held(mass, b, active):
    return _small(mass, np.where(np.array(active)[:, None] == 1, HELD, NAN), b, [3.0, 4.0], active)


# Problems of two components: the status of `project`, u, how u moves with v; None where nothing is said.
SMALL = {
    "untouched": (_small(BOTH, [ROW], [1.0], [0.5, 0.2]), Status.OK, [0.5, 0.2], [1, 1]),
    "one of two pushes, the other is touched": (_small(BOTH, np.eye(2), [0, 0], [0, -1.0]), Status.OK, [0, 0], [1, 0]),
    "masses": (_small([1.0, 3.0], [ROW], [0.0], [-2.0, 0.0]), Status.OK, [-0.5, 0.5], [-0.5, 0.5]),
    "zero, repeated, longer and off": (
        _small(BOTH, [[0, 0], [1, 0], [1, 0], [2, 0], [0, 1]], [0, -1.0, -1.0, -2.0, INF], [-3.0, -5.0]),
        Status.OK,
        [1, -5],
        [0, 1],
    ),
    "a wall that is moved": (
        _small(
            BOTH,
            [[1, 0]],
            [-1.0],
            [0, 0],
            tangent=(np.zeros(D), np.zeros((C, D)), np.eye(C)[0], np.zeros(D)),
        ),
        Status.OK,
        [1, 0],
        [-1, 0],
    ),
    "a wall that turns": (
        _small(
            BOTH,
            [[1, 0]],
            [-1.0],
            [0, 2.0],
            tangent=(np.zeros(D), np.eye(C, D, 1) * np.eye(C)[0][:, None], np.zeros(C), np.zeros(D)),
        ),
        Status.OK,
        [1, 2],
        # (1, a) u = 1 with u on the line through (0, 2) along (1, a): u_x = 1 - 2 a, u_y = 2 + a.
        [-2, 1],
    ),
    "no room": (_small(BOTH, [[1, 0], [-1, 0], [0, 1]], [-1.0, -3.0, 0], [0.3, -1]), Status.INFEASIBLE, [-1, 0], None),
    "a zero row that wants more": (_small(BOTH, [[0, 0], [1, 0]], [-1.0, 0], [-2, 3]), Status.INFEASIBLE, [0, 3], None),
    "all off": (_small(BOTH, [ROW, ROW], [INF, INF], [-9, -9]), Status.OK, [-9, -9], [1, 1]),
    "off and no number": (_small(BOTH, [[NAN, 1], ROW], [INF, 5.0], [1, 1]), Status.OK, [1, 1], [1, 1]),
    "a row that is no number": (_small(BOTH, [[NAN, 1], ROW], [5.0, 5], [1, 1]), Status.ILL_CONDITIONED, None, None),
    "an offset that is none": (_small(BOTH, [ROW, ROW], [NAN, 5], [1, 1]), Status.ILL_CONDITIONED, None, None),
    "an offset of -inf": (_small(BOTH, [ROW, ROW], [-INF, 5], [1, 1]), Status.ILL_CONDITIONED, None, None),
    "a mass that is none": (_small([-1, 1], [ROW], [0], [-1, -1]), Status.ILL_CONDITIONED, None, None),
    # x + 1e-9 y >= 1 and x <= 1 - 3e-13: rounding does not explain y = 3e-4.
    "a corner far away": (_small(BOTH, [[1, 1e-9], [-1, 0]], [-1, 1 - 3e-13], [0, 0]), None, None, None),
}

# What became of `hold`.
HOLD = {
    "dependent rows agree": (_held(BOTH, [1, 2, 0, 1], [1, 1, 1, 1]), Status.OK),
    "dependent rows do not": (_held(BOTH, [1, 3, 0, 1], [1, 1, 0, 1]), Status.INFEASIBLE),
    "a zero row wants more": (_held(BOTH, [1, 2, 1, 1], [1, 0, 1, 0]), Status.INFEASIBLE),
    "an offset is none": (_held(BOTH, [NAN, 2, 0, 1], [1, 0, 0, 1]), Status.NOT_FINITE),
    "an offset is infinite": (_held(BOTH, [1, 2, 0, INF], [1, 0, 0, 1]), Status.NOT_FINITE),
    "those not asked for are none": (_held(BOTH, [1, NAN, INF, 1], [1, 0, 0, 1]), Status.OK),
    "a negative mass": (_held([-1, 1], [1, 2, 0, 1], [1, 0, 0, 1]), Status.ILL_CONDITIONED),
    "no mass": (_held([0, 1], [1, 2, 0, 1], [1, 0, 0, 0]), Status.ILL_CONDITIONED),
    "nothing held": (_held([-1, 1], [1, 2, 0, 1], [0, 0, 0, 0]), Status.OK),
}


def _consistent(rng):
    """Rows of any length that can all be held: the second is three times the first, the fourth repeats the third."""
    G = rng.normal(size=(8, 5)) * 10.0 ** rng.uniform(-3, 3, (8, 1))
    G[1], G[3] = -3 * G[0], G[2]
    v = rng.normal(size=5) * 10.0 ** rng.uniform(-3, 3)
    problem = padded(10.0 ** rng.uniform(-1, 1, 5), G, -G @ rng.normal(size=5), v, C, D)
    return _row(rng, problem, np.arange(C) < (4 if rng.uniform() < 0.5 else 8))


def _table(decades=4.0, digits=9, spread=10):
    """The rows, and the solutions that are known."""
    rng, rows, known = np.random.default_rng(0), {}, {}

    def add(name, made, active=0):
        problem, known[name] = made
        rows[name] = _row(rng, problem, (np.arange(C) < active) & np.isfinite(problem[2]))

    for i in range(40):
        add(f"degenerate {i}", degenerate(rng, C, D, decades), rng.integers(0, 4))
    for i in range(20):
        add(f"equalities {i}", equalities(rng, C, D, digits=digits, decades=spread), 1)
    for i in range(30):
        add(f"contradiction {i}", contradiction(rng, C, D, [1.0, 2.0**-10, 2.0**-30][i % 3], digits=digits))
    for i in range(16):
        # The other rows keep 0.5 away and the active ones push with 0.5: no tie is near.
        add(f"regular {i}", backwards(rng, C, D, 1 + i % 5), 3)
    regular = with_neighbours({name: rows.pop(name) for name in list(rows) if name.startswith("regular")})
    for i in range(12):
        problem = list(backwards(rng, C, D, 4)[0])
        problem[2] = problem[2] - rng.uniform(0, 1, C)
        add(f"random {i}", (tuple(problem), None))
    rows |= regular | {name: row for name, (row, *_) in (SMALL | HOLD).items()}
    return rows | {f"consistent {i}": _consistent(rng) for i in range(20)}, known


@pytest.fixture(scope="module")
def table(kernel):
    rows, known = _table()
    # The kernel makes its batches itself.
    program = jax.jit(jax.vmap(derivatives(projected_and_held)))
    return rows, known, run(program, rows)


def _of(rows, *kinds):
    return [name for name in rows if name.startswith(kinds) and not name.endswith(("+1", "-1"))]


def _error(problem, u, exact):
    """In the unit that the masses give what has to be moved."""
    many = tuple(x[None] for x in problem)
    return np.max(np.abs(u - exact) / size(many, exact[None])[0])


def test_solutions_are_found(table):
    rows, known, found = table
    for name in _of(rows, "degenerate", "equalities", "regular"):
        problem, (solution, _), exact = rows[name][0], found[name][0], known[name]
        assert solution.status == Status.OK, name
        assert np.sum(solution.active) <= D, name
        assert np.all(solution.multipliers >= 0), name
        # Some hundreds of roundings.
        assert _error(problem, solution.u, exact) < 1e-12, name
        if not name.startswith("equalities"):
            assert optimality(problem, solution) < 1e-11, name


def test_contradictions_are_relaxed_least(table):
    rows, known, found = table
    for name in _of(rows, "contradiction"):
        solution = found[name][0][0]
        assert solution.status == Status.INFEASIBLE, name
        # The conflict's own condition multiplies some hundreds of roundings.
        assert _error(rows[name][0], solution.u, known[name]) < 1e-9, name


def test_against_quadprog(table):
    rows, _, found = table
    statuses = set()
    for name in _of(rows, "random"):
        mass, G, b, v = rows[name][0]
        solution = found[name][0][0]
        try:
            expected = quadprog.solve_qp(np.diag(mass), mass * v, G.T, -b)[0]
        except ValueError:
            assert solution.status == Status.INFEASIBLE, name
        else:
            assert solution.status == Status.OK, name
            np.testing.assert_allclose(solution.u, expected, atol=1e-9, err_msg=name)
        statuses.add(int(solution.status))
    assert statuses == {Status.OK, Status.INFEASIBLE}


@pytest.mark.parametrize("name", SMALL)
def test_small_problems(table, name):
    _, status, u, along = SMALL[name]
    (solution, _), _, forward, _ = table[2][name]
    assert solution.status == status if status is not None else solution.status != Status.OK
    assert np.all(np.isfinite(solution.u))
    if u is not None:
        # Of a zero row that wants more, and of no room: the digits of the least violation.
        np.testing.assert_allclose(solution.u[:2], u, atol=1e-15 if status == Status.OK else 1e-6)
    if along is not None:
        np.testing.assert_allclose(forward[:2], along, atol=1e-15)


@pytest.mark.parametrize("name", HOLD)
def test_what_became_of_hold_is_told(table, name):
    assert table[2][name][0][1].status == HOLD[name][1]


def test_rows_that_are_held(table):
    """They hold as equalities, by multipliers of either sign; of those that depend on each other one is held."""
    rows, _, found = table
    signs = set()
    for name in _of(rows, "regular", "consistent"):
        (mass, G, b, v), (asked,) = rows[name][:2]
        held = found[name][0][1]
        assert held.status == Status.OK, name
        assert np.sum(held.active) == np.linalg.matrix_rank(G[asked] / np.linalg.norm(G[asked], axis=1)[:, None]), name
        on = asked & held.active
        terms = np.abs(G) @ (np.abs(held.u) + np.abs(v)) + np.where(asked, np.abs(b), 0)
        assert np.all(np.abs(G @ held.u + np.where(asked, b, 0))[on] < 1e-9 * terms[on]), name
        force = mass * (held.u - v)
        np.testing.assert_allclose(force, G.T @ held.multipliers, atol=1e-9 * (1 + np.abs(force).max()), err_msg=name)
        signs |= set(np.sign(held.multipliers[on]))
    assert signs == {-1.0, 1.0}


def test_derivatives(table):
    """Central differences away from ties; finite and each other's transpose there too, and among contradictions."""
    rows, _, found = table
    for name in _of(rows, "regular"):
        assert_differences(found, name)
    for name in _of(rows, "regular", "degenerate", "equalities", "contradiction", "random", "untouched", "no room"):
        assert_transposed(rows, found, name, 1e-9 if name.startswith("contradiction") else 1e-11)
        # Rows that are off have no derivative.
        off, (_, by_row, by_offset, _) = rows[name][0][2] == INF, found[name][3]
        assert not np.any(by_row[off]), name
        assert not np.any(by_offset[off]), name


def test_no_lane_touches_another(kernel):
    """A lane alone, without a batch, is what it is beside others that search, contradict or are not numbers."""
    rows, _ = _table()
    program = jax.jit(lambda problem: qp.project(*problem))
    names = ["regular 3", "degenerate 2", "contradiction 0", "untouched"]
    together = run(jax.jit(jax.vmap(program)), {name: rows[name][:1] for name in [*names, "a row that is no number"]})
    for name in names:
        alone = jax.tree.map(np.asarray, program(rows[name][0]))
        assert alone.status == together[name].status
        np.testing.assert_allclose(alone.u, together[name].u, atol=1e-7 if "contra" in name else 1e-13)


def test_in_single_precision(kernel):
    # What is built in few binary digits is exact there, too.
    rows, known = _table(decades=2.0, digits=4, spread=0)
    program = jax.jit(jax.vmap(lambda problem, more: projected_and_held(problem, *more)[1]))
    found = run(program, {name: row[:2] for name, row in rows.items()}, np.float32)
    for name in _of(rows, "degenerate", "equalities", "regular"):
        solution = found[name][0]
        assert solution.u.dtype == np.float32
        assert solution.status == Status.OK, name
        # A thousand roundings.
        assert _error(rows[name][0], solution.u, known[name]) < 1e-4, name
    for name in _of(rows, "contradiction")[::3]:
        # Those that miss their rows by one, not by what single precision does not tell.
        assert found[name][0].status != Status.OK, name
    for name in _of(rows, "consistent"):
        assert found[name][1].status == Status.OK, name


def test_masses_that_are_full(kernel):
    rng, rows, known = np.random.default_rng(3), {}, {}
    for i in range(8):
        problem, known[f"regular {i}"] = backwards(rng, 6, 4, 3, full=True, masses=10.0**i)
        rows[f"regular {i}"] = _row(rng, problem, np.arange(6) < 2)
    skew = rng.normal(size=(4, 4))
    skew = skew - skew.T
    (mass, G, b, v), active = rows["regular 0"][0], rows["regular 0"][1]
    rows = with_neighbours(rows)
    none = tuple(np.zeros_like(x) for x in (G, b, v))
    rows["skew"] = (mass + skew, G, b, v), active, (skew, *none), rows["regular 0"][3]
    for name, matrix in (("indefinite", np.eye(4) - 2 * np.eye(4)[::-1]), ("singular", np.ones((4, 4)))):
        rows[name] = _row(rng, (matrix, G, b, v), active[0])
    found = run(jax.jit(jax.vmap(derivatives(projected_and_held))), rows)
    for i in range(8):
        name, exact = f"regular {i}", known[f"regular {i}"]
        solution = found[name][0][0]
        assert solution.status == Status.OK
        # Roundings, with the condition of the mass.
        np.testing.assert_allclose(solution.u, exact, atol=1e-13 * 10.0**i, err_msg=name)
        assert_transposed(rows, found, name, 1e-14 * 10.0**i + 1e-11)
        if i < 2:
            assert_differences(found, name)
    # Only the symmetric part of a mass counts, in derivatives too.
    np.testing.assert_allclose(found["skew"][1], found["regular 0"][1], atol=1e-13)
    np.testing.assert_allclose(found["skew"][2], 0, atol=1e-13)
    for name in ("indefinite", "singular"):
        projected, held = found[name][0]
        assert projected.status == held.status == Status.ILL_CONDITIONED
        np.testing.assert_array_equal(projected.u, v)


def test_one_row(kernel):
    """u = v + M^-1 g max(-(g v + b), 0) / (g M^-1 g); held, without the maximum."""
    rng = np.random.default_rng(4)
    mass, g, v = rng.uniform(1.0, 2.0, 4), rng.normal(size=4), rng.normal(size=4)
    cases = {
        "violated": (g, -2 - g @ v),
        "not": (g, 2 - g @ v),
        "zero": (0 * g, 1.0),
        "off": (g, INF),
        "wants": (0 * g, -1.0),
    }
    cases |= {"no number": (NAN * g, 5.0), "-inf": (g, -INF), "nan": (g, NAN)}
    rows = {name: _row(rng, (mass, x[None], np.array([b]), v), [True]) for name, (x, b) in cases.items()}
    rows["metric"] = _row(rng, (-mass, g[None], np.array([-2 - g @ v]), v), [True])
    rows = with_neighbours(rows)
    found = run(jax.jit(jax.vmap(derivatives(projected_and_held))), rows)
    for name, (x, b) in cases.items():
        projected, held = found[name][0]
        square = x @ (x / mass)
        if name in ("violated", "not"):
            push = -(x @ v + b) / square
            np.testing.assert_allclose(projected.u, v + x / mass * max(push, 0), atol=1e-14)
            np.testing.assert_allclose(projected.multipliers, [max(push, 0)], atol=1e-14)
            np.testing.assert_allclose(held.u, v + x / mass * push, atol=1e-14)
            assert projected.active == (push > 0)
            assert_differences(found, name)
            assert_transposed(rows, found, name)
        if name in ("zero", "off"):
            np.testing.assert_array_equal(projected.u, v)
    statuses = {name: int(found[name][0][0].status) for name in (*cases, "metric")}
    assert {name for name, status in statuses.items() if status == 0} == {"violated", "not", "zero", "off"}
    assert statuses["wants"] == Status.INFEASIBLE
    assert {statuses[name] for name in ("no number", "-inf", "nan", "metric")} == {Status.ILL_CONDITIONED}
    assert found["off"][0][1].status == found["nan"][0][1].status == Status.NOT_FINITE
    assert found["metric"][0][1].status == Status.ILL_CONDITIONED


def test_stored_solutions(kernel, reference):
    """Steps of balls, a cradle, ten spheres and a pyramid, brought to the shape of the last; and a circle of rows."""
    rows, known = {}, {}
    for name, lanes in (("ball3d", 16), ("cradle", 16), ("s10", 8), ("pyramid", 8)):
        with np.load(reference / "qp" / f"{name}.npz") as stored:
            fields = [stored[field][:lanes] for field in ("mass", "G", "b", "v", "u")]
        for i, (*problem, u) in enumerate(zip(*fields, strict=True)):
            rows[f"{name} {i}"], known[f"{name} {i}"] = (padded(*problem, 165, 30),), u
    # Half planes whose first candidates, the most violated ones, say nothing about the corner.
    angles = np.linspace(-1.5, 1.5, 165)
    circle = np.stack([np.cos(angles), np.sin(angles)], 1)
    rows["circle"] = (padded(np.ones(2), circle, np.full(165, -1.0), [-0.3, 0.0], 165, 30),)
    found = run(jax.jit(jax.vmap(lambda problem: qp.project(*problem))), rows)
    for name, row in rows.items():
        assert found[name].status == Status.OK, name
        assert optimality(row[0], found[name]) < 1e-11, name
    for name, u in known.items():
        # The stored solutions' own optimality residual is 1e-14, on the redundant `pyramid` 3.5e-11.
        np.testing.assert_allclose(found[name].u[: len(u)], u, atol=1e-9 if "pyramid" in name else 1e-10, err_msg=name)


def test_second_derivatives(kernel):
    """By differences of the gradient, in a loop over problems that share rows: reverse mode parts what varies in it
    from what does not."""
    rng = np.random.default_rng(5)
    (mass, G, b, v), _ = backwards(rng, 6, 3, 2)
    held = np.arange(6) < 2

    def looped(problem):
        def curved(share):
            given = *problem[:3], share * problem[3]
            return jnp.sum(jnp.sin(qp.project(*given).u)) + jnp.sum(jnp.cos(qp.hold(*given, held).u))

        return jnp.sum(jax.lax.map(curved, np.array([1.0, 1.001])))

    problem, tangents = (mass, G, b, v), tuple(rng.normal(size=x.shape) for x in (mass, G, b, v))
    second = jax.jit(lambda problem: jax.jvp(jax.grad(looped), (problem,), (tangents,)))
    step = 1e-5
    (_, along), (up, _), (down, _) = (second(moved(problem, tangents, s)) for s in (0.0, step, -step))
    for exact, high, low in zip(along, up, down, strict=True):
        difference = (np.asarray(high) - np.asarray(low)) / (2 * step)
        np.testing.assert_allclose(exact, difference, atol=1e-6 * (1 + np.abs(difference).max()))


def test_no_rows():
    found = jax.jit(qp.project)(np.ones(2), np.zeros((0, 2)), np.zeros(0), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(found.u, [1.0, 2.0])
    assert found.multipliers.shape == found.active.shape == (0,)
    assert found.status == Status.OK
