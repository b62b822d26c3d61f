"""Whether the order of impacts matters, asked of meetings that are made up: numpy alone."""

from dataclasses import replace

import numpy as np
import pytest

from diffcontact.certify.order import Meeting, order_matters


def _one_after_the_other(normals, mass, before, e, drift=None):
    """Contacts that are struck in turn, each once, by Newton's law."""
    normals, mass, before = (np.array(x, float) for x in (normals, mass, before))
    drift, jumps, u = np.zeros(len(normals)) if drift is None else np.array(drift), [], before
    for n, w in zip(normals, drift, strict=True):
        inverse = np.linalg.solve(mass, n)
        jumps.append(-(1 + e) * min(n @ u + w, 0.0) / (n @ inverse) * inverse)
        u = u + jumps[-1]
    none = np.zeros(len(normals), bool)
    law, struck = lambda v: np.full(len(v), e), list(range(len(normals)))
    return Meeting(normals, drift, mass, law, none, none, before, struck, np.array(jumps))


def _at_once(normals, before, impulses, e):
    """Contacts of unit masses that one impact strikes with these impulses."""
    normals, before = np.array(normals, float), np.array(before, float)
    none, jump = np.zeros(len(normals), bool), normals.T @ np.array(impulses, float)
    return Meeting(
        normals, np.zeros(len(normals)), np.eye(before.size), lambda v: np.full(len(v), e), none, none, before, [0],
        jump[None],
    )  # fmt: skip


CORNER, SKEW = [[1.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [1.0, -2.0]]
CRADLE = [[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]]
# A ball falls on another one on the floor.
PILE = _one_after_the_other([[-1.0, 1.0], [1.0, 0.0]], np.eye(2), [0.0, -1.0], 0.0)
MEETINGS = {
    "two walls at right angles": (_one_after_the_other(CORNER, np.eye(2), [-1.0, -2.0], 0.5), False),
    "of which one comes along": (_one_after_the_other(CORNER, np.eye(2), [0.5, -2.0], 0.5, [-1.0, 0.0]), False),
    "at right angles for these masses": (_one_after_the_other(SKEW, np.diag([1.0, 4.0]), [-1.0, 0.1], 0.5), False),
    "not for others": (_one_after_the_other(SKEW, np.eye(2), [-1.0, 0.1], 0.5), True),
    # Moreau's law gives (-1, 2, 2) / 3 to a row of three, one after the other (0, 0, 1).
    "a cradle that touches": (_at_once(CRADLE, [1.0, 0.0, 0.0], [4 / 3, 2 / 3], 1.0), True),
    "a ball struck from both sides": (_at_once(CRADLE, [1.0, 0.0, -1.0], [1.8, 1.8], 0.8), True),
    "a pile that nothing holds": (PILE, True),
    "a pile under its weight": (replace(PILE, held=np.array([False, True])), False),
}


@pytest.mark.parametrize("name", MEETINGS)
def test_the_order_matters_where_neighbours_end_otherwise(name):
    meeting, matters = MEETINGS[name]
    assert order_matters(meeting) == matters
