"""A double pendulum with stops: a mass matrix that depends on the position, by one program for each order.

On every commit `test_constrained.py` has a mass that depends on the position, through an impact, with derivatives.
"""

import numpy as np
import pytest
import zoo
from programs import run

from diffcontact import Status

pytestmark = pytest.mark.full

SWINGS = {"q0": [-0.6, 0.4], "end": 0.5, "wall": zoo.FAR}


def _energy(motion):
    (m1, m2), (l1, l2), (a, b), (v, w) = *(motion.params[name] for name in ("mass", "length")), motion.q.T, motion.u.T
    kinetic = (m1 + m2) * (l1 * v) ** 2 / 2 + m2 * (l2 * w) ** 2 / 2 + m2 * l1 * l2 * v * w * np.cos(a - b)
    return kinetic - motion.params["gravity"] * ((m1 + m2) * l1 * np.cos(a) + m2 * l2 * np.cos(b))


def test_energy_is_kept_to_second_order_and_taken_by_restitution():
    """At steps of 25 ms and a quarter of it; an impact with the stop leaves less, and none where e = 1."""
    rows = {str(n): SWINGS | {"substeps": n} for n in (1, 4)}
    hits = SWINGS | {"stop": 0.3, "u0": [-0.5, 0.0], "q0": [-0.28, 0.4], "substeps": 20}
    rows |= {"e = 1": hits | {"restitution": 1.0}, "e = 0.5": hits}
    found = run(zoo.PENDULUM, rows)
    assert {motion.status for motion in found.values()} == {Status.OK}
    error = {name: np.max(np.abs(np.diff(_energy(found[name])))) for name in ("1", "4")}
    # Sixteen times; twelve, since the order shows in the limit only.
    assert error["4"] < error["1"] / 12
    for name in ("e = 1", "e = 0.5"):
        assert np.sum(found[name].impulse[:, 2] > 0) == 1, name
    lost = {name: np.ptp(_energy(found[name])) for name in ("e = 1", "e = 0.5")}
    assert lost["e = 1"] < 1e-3 < lost["e = 0.5"]
    assert np.all(np.diff(_energy(found["e = 0.5"])) < 1e-4)
