"""The projection onto many rows: by its optimality conditions, from any start, to the residual it names."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from heaps import chain, spread
from qp_problems import assert_differences, assert_transposed, derivatives, optimality, run, with_neighbours

from diffcontact import qp
from diffcontact.qp.many import project_many
from diffcontact.status import Status

COUNT, ROWS = 20, 40
D = 3 * COUNT


def _given(problem, bodies):
    mass, normals, b, v = problem
    return mass, qp.BodyRows(bodies, normals, COUNT), b, v


def _solved(problem, bodies, start):
    found = qp.project_many(*_given(problem, bodies), multipliers=start, tolerance=1e-12)
    return jnp.concatenate([found.u, found.multipliers]), found


_program = jax.jit(jax.vmap(derivatives(_solved)))


def _row(rng, mass, G, b, v):
    problem = mass, G.normals, b, v
    tangents = tuple(rng.normal(size=x.shape) * np.isfinite(x) for x in problem)
    # Two equal rows stay equal; a wall has no normal.
    tangents[1][5], tangents[2][5] = tangents[1][6], tangents[2][6]
    return problem, (G.bodies, np.zeros(ROWS)), tangents, rng.normal(size=D + ROWS)


def _rows():
    rng = np.random.default_rng(0)
    rows = with_neighbours({f"chain {i}": _row(rng, *chain(rng)) for i in range(6)})
    mass, G, b, v = chain(rng)
    for name, i in (("mass", 0), ("b", 2), ("v", 3)):
        problem = [mass, G, b.copy(), v.copy()]
        problem[i] = np.where(np.arange(problem[i].size) == 0, np.nan, problem[i])
        rows[f"nan in {name}"] = _row(rng, *problem)
    rows["no mass"] = _row(rng, -mass, G, b, v)
    # Two walls that leave no room: the multipliers grow until rounding stops them.
    normals, bodies, shut = G.normals.copy(), G.bodies.copy(), b.copy()
    bodies[:2], normals[:2], shut[:2] = [0, -1], np.eye(3)[0], -1.0
    normals[1] *= -1
    rows["no room"] = _row(rng, mass, replace(G, bodies=bodies, normals=normals), shut, v)
    # A ball falls between two others, a little above their line, that walls and floor hold.
    tilt, off = 1e-3, np.full(ROWS - 6, np.inf)
    entries = [[-np.cos(tilt), -np.sin(tilt)], [np.cos(tilt), -np.sin(tilt)], [1, 0], [-1, 0], [0, 1], [0, 1]]
    bodies, normals = G.bodies.copy(), G.normals.copy()
    bodies[:6] = [[0, 1], [0, 2], [-1, 1], [-1, 2], [-1, 1], [-1, 2]]
    normals[:6, 1], normals[:6, 0] = np.pad(entries, ((0, 0), (0, 1))), -np.pad(entries, ((0, 0), (0, 1)))
    wedge = np.ones(D), replace(G, bodies=bodies, normals=normals), np.concatenate([np.zeros(6), off]), -np.eye(D)[1]
    return rows | {"wedge": _row(rng, *wedge)}


@pytest.fixture(scope="module")
def table():
    rows = _rows()
    return rows, run(_program, rows)


CHAINS = [f"chain {i}" for i in range(6)]


def test_it_is_the_projection(table):
    rows, found = table
    for name in CHAINS:
        (mass, G, b, v), many = _given(rows[name][0], rows[name][1][0]), found[name][0]
        assert many.status == Status.OK, name
        assert np.count_nonzero(many.active) > 5
        # The residual is relative to a violation of some units; the condition of the rows takes two digits more.
        assert optimality((mass, spread(G), b, v), many) < 1e-10, name
    wedge = found["wedge"][0]
    assert wedge.status == Status.OK
    # All stand still: 2 l sin(tilt) = 1, and l against the walls.
    np.testing.assert_allclose(wedge.u, 0, atol=1e-9)
    np.testing.assert_allclose(wedge.multipliers[:4], 0.5 / np.sin(1e-3), rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "status"),
    [
        ("nan in mass", Status.NOT_FINITE),
        ("nan in b", Status.NOT_FINITE),
        ("nan in v", Status.NOT_FINITE),
        ("no mass", Status.ILL_CONDITIONED),
        ("no room", Status.INFEASIBLE),
    ],
)
def test_what_is_no_problem_is_told(table, name, status):
    assert table[1][name][0].status == status
    assert "nan" in name or np.all(np.isfinite(table[1][name][0].u))


def test_derivatives(table):
    rows, found = table
    for name in CHAINS:
        # Conjugate gradients end at 1e-12; two equal rows are soft to 1e-11.
        assert_differences(found, name, 1e-5)
        assert_transposed(rows, found, name, 1e-9)


def test_a_start_changes_the_way_and_not_the_end(table):
    rows, cold = table
    warm = {
        name: (problem, (bodies, cold[name][0].multipliers * 1.1 + 0.1), *rest)
        for name, (problem, (bodies, _), *rest) in rows.items()
    }
    found = run(_program, warm)
    for name in CHAINS:
        np.testing.assert_allclose(found[name][0].u, cold[name][0].u, atol=1e-9)


# Kilograms, and grains of some micrometres whose impulses single precision would not know.
@pytest.mark.parametrize("few", [True, False])
def test_single_precision_does_the_work_of_many_rows_in_double(table, monkeypatch, few):
    """Rows that are on are brought together; four iterations in double precision alone are not enough, and told."""
    if not few:
        monkeypatch.setattr(project_many, "BROUGHT_TOGETHER_ABOVE", 0)
        monkeypatch.setattr(project_many, "SINGLE_PRECISION_ABOVE", 0)
        # Each size is a search of its own to compile.
        monkeypatch.setattr(project_many, "SIXTEENTHS", project_many.SIXTEENTHS[-1:])
    monkeypatch.setattr(project_many, "ITERATIONS", 4)
    rows, exact = table
    # One normal stands for two that are opposite, and the bodies of a row may trade places.
    program = jax.jit(lambda problem, bodies: qp.project_many(*_given(problem, bodies), tolerance=1e-10))
    for unit in (1.0, 1e-15):
        for name in CHAINS[:2]:
            mass, normals, b, v = rows[name][0]
            found = program((unit * mass, normals[:, 1:], unit * b, unit * v), rows[name][1][0])
            assert found.status == (Status.ITERATION_LIMIT if few else Status.OK)
            if not few:
                np.testing.assert_allclose(np.asarray(found.u) / unit, exact[name][0].u, atol=1e-7)
