"""Friction at many contacts: by the law itself, from any start, to the residual it names."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from friction_problems import residual
from heaps import exactly, heap
from qp_problems import run

from diffcontact import qp
from diffcontact.qp.many import coulomb_many
from diffcontact.status import Status

COUNT, LIMIT = 12, 400


def _program(**options):
    """(problem, bodies, start) -> what is found; bodies of a problem are those of all its rows."""

    def one(problem, bodies, start):
        mass, rows, *rest = problem
        rows = tuple(qp.BodyRows(bodies, normals, COUNT) for normals in rows)
        return qp.coulomb_many(mass, rows[0], rows[1:], *rest, reactions=start, **options)

    return jax.jit(jax.vmap(one))


def _row(mass, normals, tangents, b, s, friction, v):
    start = np.zeros((len(b), 1 + len(tangents)))
    return (mass, np.stack([one.normals for one in (normals, *tangents)]), b, s, friction, v), normals.bodies, start


def _rows():
    rng = np.random.default_rng(0)
    heaps = {f"heap {i}": heap(rng) for i in range(5)}
    rows = {name: _row(*one) for name, one in heaps.items()}
    problem, bodies, start = rows["heap 0"]
    smooth = heaps["smooth"] = (*heaps["heap 1"][:5], 0 * heaps["heap 1"][5], heaps["heap 1"][6])
    rows["smooth"] = _row(*smooth)
    first = int(np.argmin(problem[2]))
    for i, name in enumerate(("b", "s", "friction", "v"), 2):
        spoilt = [x.copy() for x in problem]
        spoilt[i][first] = np.nan
        rows[f"nan in {name}"] = tuple(spoilt), bodies, start
    # Walls of one body that leave too little room, by a three thousandth of the approach.
    pairs, normals = bodies.copy(), problem[1].copy()
    pairs[:2], normals[:, :2] = [-1, 0], np.eye(3, 6)[:, None, None]
    normals[0, 1] *= -1
    for short in (1.0, 1e-3):
        b = np.concatenate([[0.0, -short], np.full(2 * COUNT - 2, np.inf)])
        v = np.zeros_like(problem[-1])
        v[:2] = [-3.0, 2.0]
        rows[f"short by {short}"] = (problem[0], normals, b, problem[3], problem[4], v), pairs, start
    return heaps, rows


@pytest.fixture(scope="module")
def table():
    heaps, rows = _rows()
    program = _program(tolerance=1e-11)
    with pytest.MonkeyPatch.context() as patch:
        # All lanes wait for the last one: those without a solution would use all iterations that there are.
        patch.setattr(coulomb_many, "ITERATIONS", LIMIT)
        patch.setattr(coulomb_many, "ITERATIONS", LIMIT)
        return heaps, rows, program, run(program, rows)


def _left(problem, found):
    """The residual of the law, recomputed."""
    return residual(exactly(*problem), found.u, found.normal, found.tangential)


def test_the_law_is_obeyed(table):
    heaps, _, _, found = table
    for name, problem in heaps.items():
        hit = found[name]
        assert hit.status == Status.OK, name
        assert _left(problem, hit) < 1e-10, name
        assert np.all(np.linalg.norm(hit.tangential, axis=1) <= problem[5] * hit.normal * (1 + 1e-12))
        assert np.count_nonzero(hit.normal) > 5
    assert np.all(found["smooth"].tangential == 0)


def test_what_has_no_solution_is_told(table):
    found = table[-1]
    for name in ("b", "s", "friction", "v"):
        assert found[f"nan in {name}"].status == Status.NOT_FINITE
    for short in (1.0, 1e-3):
        assert found[f"short by {short}"].status == Status.ITERATION_LIMIT
        assert np.all(np.isfinite(found[f"short by {short}"].u))


def test_a_start_changes_the_way_and_not_the_end(table):
    heaps, rows, program, cold = table
    start = {name: 1.1 * np.column_stack([cold[name].normal, cold[name].tangential]) + 0.1 for name in heaps}
    warm = run(program, {name: (*row[:2], start.get(name, row[2])) for name, row in rows.items()})
    for name in heaps:
        np.testing.assert_allclose(warm[name].u, cold[name].u, atol=1e-8)


def test_the_convex_problem_is_solved_to_its_optimality_conditions(table):
    """Reactions in the cone, (w_N, w_T) in its dual, w_N >= mu |w_T|, and the two orthogonal."""
    heaps, rows, *_ = table
    found = run(_program(tolerance=1e-11, iterate=False), {name: rows[name] for name in heaps})
    for name, problem in heaps.items():
        hit = found[name]
        mass, N, S, b, s, friction, v = exactly(*problem)
        assert hit.status == Status.OK
        on = np.isfinite(b)
        w_N, w_T = (N @ hit.u + b)[on], (np.einsum("ckd,d->ck", S, hit.u) + s)[on]
        P, B = hit.normal[on], hit.tangential[on]
        assert np.min(w_N - friction[on] * np.linalg.norm(w_T, axis=1)) > -1e-8
        assert np.all(np.linalg.norm(B, axis=1) <= friction[on] * P * (1 + 1e-12))
        np.testing.assert_allclose(P * w_N + np.sum(B * w_T, axis=1), 0.0, atol=1e-8)
        force = N.T @ hit.normal + np.einsum("ckd,ck->d", S, hit.tangential)
        np.testing.assert_allclose(mass * (hit.u - v), force, atol=1e-12)


def test_contacts_that_cannot_push_are_left_out(table, monkeypatch):
    """And single precision begins: to the residual that was asked for, in as many iterations as there may be."""
    monkeypatch.setattr(coulomb_many, "BROUGHT_TOGETHER_ABOVE", 0)
    # Each size is a search of its own to compile.
    monkeypatch.setattr(coulomb_many, "SIZES", coulomb_many.SIZES[-1:])
    heaps, rows, _, exact = table
    found = run(_program(), {name: rows[name] for name in heaps})
    for name, problem in heaps.items():
        assert found[name].status == Status.OK
        # Relative to the fastest approach, as measured here to a larger scale.
        assert _left(problem, found[name]) < 1e-5
        np.testing.assert_allclose(found[name].u, exact[name].u, atol=1e-3)


def test_a_derivative_is_refused(table):
    (mass, *_), *rest = table[1]["heap 0"]
    program = _program()

    def loss(mass):
        return jnp.sum(program(*jax.tree.map(lambda x: x[None], ((mass, *table[1]["heap 0"][0][1:]), *rest))).u)

    with pytest.raises(NotImplementedError, match="no derivative"):
        jax.jit(jax.grad(loss))(mass)
