"""What is no problem is refused, or told, by all of `qp`."""

import re
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffcontact import qp
from diffcontact.status import Status

RAGGED: Any = [[1.0, 2.0], [1.0]]
NOTHING: Any = None
HEAVY: Any = "heavy"
ROW = qp.BodyRows(jnp.array([[0, -1]]), jnp.ones((1, 2, 1)), 2)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: qp.project(np.ones(2), 1j * np.ones((1, 2)), np.ones(1), np.ones(2)), "G: expected real numbers"),
        (
            lambda: qp.project(HEAVY, np.ones((1, 2)), np.ones(1), np.ones(2)),
            "mass: expected real numbers, got 'heavy'",
        ),
        (lambda: qp.project(np.ones(2), RAGGED, np.ones(1), np.ones(2)), "G: expected real numbers"),
        (
            lambda: qp.hold(np.ones(2), NOTHING, np.ones(1), np.ones(2), np.array([True])),
            "G: expected real numbers, got None",
        ),
        (lambda: qp.box(1j * np.eye(2), np.ones(2), -np.ones(2), np.ones(2)), "A: expected real numbers"),
        (lambda: qp.project_many(np.ones(2), ROW, -np.ones(1), np.ones(2), tolerance=-1.0), "tolerance=-1.0"),
        *(
            (lambda f=f, a=a: f(np.ones(2), replace(ROW, bodies=jnp.array([a])), -np.ones(1), np.ones(2)), "G.bodies: ")
            for f in (qp.project, qp.project_many)
            for a in ([0, 2], [-2, 0])
        ),
    ],
)
def test_what_is_no_problem_is_refused_in_one_line(call, line):
    with pytest.raises(ValueError, match=f"^{re.escape(line)}") as refused:
        call()
    assert "\n" not in str(refused.value)


CROWD = np.ones(2), ROW, (ROW,), -np.ones(1), np.zeros((1, 1)), np.zeros(1), np.zeros(2)


@pytest.mark.parametrize(
    "many",
    [
        lambda **tolerance: qp.project_many(np.ones(2), ROW, -np.ones(1), np.zeros(2), **tolerance),
        lambda **tolerance: qp.coulomb_many(*CROWD, **tolerance),
    ],
)
def test_a_tolerance_is_a_number_under_jit_as_outside(many):
    for run in (lambda f: f(), lambda f: jax.jit(f)()):
        rough, fine = run(lambda: many(tolerance=1e-2).u), run(lambda: many(tolerance=1e-9).u)
        np.testing.assert_allclose(rough, [1.0, 0.0], atol=1e-2)
        np.testing.assert_allclose(fine, [1.0, 0.0], atol=1e-9)
        with pytest.raises(ValueError, match=r"tolerance=0\.0: expected a positive number"):
            run(lambda: many(tolerance=0.0).u)


def test_many_rows_in_integers_and_with_a_mass_that_is_none():
    whole = replace(ROW, normals=jnp.ones((1, 2, 1), int))
    found = qp.project_many(np.ones(2), whole, -np.ones(1), np.zeros(2))
    # The residual that it stops at.
    np.testing.assert_allclose(found.u, [1.0, 0.0], atol=1e-6)
    assert qp.project_many(-np.ones(2), ROW, -np.ones(1), np.zeros(2)).status == Status.ILL_CONDITIONED
