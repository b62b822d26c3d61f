"""What is no problem is refused in one line by all of `qp`."""

import re
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from diffcontact import qp
from diffcontact.status import Status

RAGGED: Any = [[1.0, 2.0], [1.0]]
NOTHING: Any = None
HEAVY: Any = "heavy"
ROW: Any = qp.BodyRows(np.array([[0, -1]]), np.ones((1, 2, 1)), 2)
TWO, ONE, WIDE = np.ones(2), np.ones(1), np.ones((1, 2))
CROWD: Any = TWO, ROW, (ROW,), -ONE, np.zeros((1, 1)), np.zeros(1), np.zeros(2)


def _friction(**other):
    names = "mass", "normals", "tangents", "b", "s", "friction", "v"
    given = dict(zip(names, (TWO, WIDE, np.ones((1, 1, 2)), ONE, np.zeros((1, 1)), ONE, TWO), strict=True))
    return qp.coulomb(**(given | other))


def _many(**other):
    names = "mass", "normals", "tangents", "b", "s", "friction", "v"
    return qp.coulomb_many(**(dict(zip(names, CROWD, strict=True)) | other))


CALLS = {
    "G: expected real numbers": lambda: qp.project(TWO, 1j * WIDE, ONE, TWO),
    "G: expected real numbers, got [": lambda: qp.project(TWO, RAGGED, ONE, TWO),
    "G: expected real numbers, got None": lambda: qp.hold(TWO, NOTHING, ONE, TWO, np.array([True])),
    "mass: expected real numbers, got 'heavy'": lambda: qp.project(HEAVY, WIDE, ONE, TWO),
    "A: expected real numbers": lambda: qp.box(1j * np.eye(2), TWO, -TWO, TWO),
    "mass has the shape (3,)": lambda: qp.project(np.ones(3), WIDE, ONE, TWO),
    "G has the shape (2,)": lambda: qp.project(TWO, TWO, ONE, TWO),
    "b has the shape (2,)": lambda: qp.project(TWO, WIDE, TWO, TWO),
    "v has the shape (3,)": lambda: qp.project(TWO, WIDE, ONE, np.ones(3)),
    "active has the shape (2,)": lambda: qp.hold(TWO, WIDE, ONE, TWO, np.array([True, True])),
    "G.normals has the shape (1, 1); expected (c, 2, m)": lambda: qp.project(
        TWO, replace(ROW, normals=np.ones((1, 1))), ONE, TWO
    ),
    "G.bodies has the shape (2, 2); expected (1, 2)": lambda: qp.project(
        TWO, replace(ROW, bodies=np.zeros((2, 2), int)), ONE, TWO
    ),
    "G.bodies: expected numbers from -1 (none) to 1, got 2": lambda: qp.project(
        TWO, replace(ROW, bodies=np.array([[0, 2]])), ONE, TWO
    ),
    "G.bodies: expected numbers from -1 (none) to 1, got -2": lambda: qp.project_many(
        TWO, replace(ROW, bodies=np.array([[-2, 0]])), ONE, TWO
    ),
    "mass has the shape (2, 2); expected (2,): rows between bodies need a diagonal": lambda: qp.project(
        np.eye(2), ROW, ONE, TWO
    ),
    "tangents has the shape (1, 3, 2); expected (1, k, 2), k = 1 or 2": lambda: _friction(tangents=np.ones((1, 3, 2))),
    "G: expected BodyRows": lambda: qp.project_many(TWO, WIDE, ONE, TWO),  # pyright: ignore
    "b has the shape (3,)": lambda: qp.project_many(TWO, ROW, np.ones(3), TWO),
    "multipliers has the shape (2,)": lambda: qp.project_many(TWO, ROW, ONE, TWO, multipliers=TWO),
    "tolerance=-1.0": lambda: qp.project_many(TWO, ROW, -ONE, TWO, tolerance=-1.0),
    "tolerance=0.0: expected a positive number": lambda: _many(tolerance=0.0),
    "tangents[0]: expected BodyRows": lambda: _many(tangents=(WIDE,)),
    "s has the shape (1, 2)": lambda: _many(s=np.zeros((1, 2))),
    "tangents: expected 1 or 2": lambda: _many(tangents=()),
}


@pytest.mark.parametrize("line", CALLS)
def test_what_is_no_problem_is_refused_in_one_line(line):
    with pytest.raises(ValueError, match=f"^{re.escape(line)}") as refused:
        # It is refused where it is traced: nothing is compiled.
        jax.jit(CALLS[line])()
    assert "\n" not in str(refused.value)


def test_many_rows_in_integers_and_with_a_mass_that_is_none():
    """One program: a tolerance is a number under jit, and rows may be whole ones."""
    whole = replace(ROW, normals=np.ones((1, 2, 1), int))
    many = jax.jit(lambda mass: qp.project_many(mass, whole, -ONE, np.zeros(2), tolerance=1e-9))
    found = many(TWO)
    np.testing.assert_allclose(found.u, [1.0, 0.0], atol=1e-9)
    assert many(-TWO).status == Status.ILL_CONDITIONED


def test_no_contacts():
    shapes = (0, 2), (0, 1, 2), (0,), (0, 1), (0,)
    found = jax.jit(qp.coulomb)(TWO, *map(np.zeros, shapes), TWO)
    assert found.status == Status.OK
    np.testing.assert_array_equal(found.u, [1, 1])
    assert found.tangential.shape == (0, 1)
