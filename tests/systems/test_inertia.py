"""Inertia as ten numbers: of point masses, of a file, in a written file."""

import jax
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.systems.inertia import log_cholesky, solid

SKEW = """<mujoco><worldbody><body name="skew"><freejoint/><inertial pos=".1 .2 .3" quat=".9 .1 .2 .3" mass="2"
diaginertia=".3 .4 .5"/><body name="arm" pos="0 0 1"><joint type="ball"/>
<geom type="box" size=".1 .2 .3" euler="10 20 30" pos=".1 .2 .3"/></body></body></worldbody></mujoco>"""


def test_ten_numbers_are_those_of_six_points():
    """Points at c +- sqrt(3) a, of columns a of A, have the second moments m A A^T."""
    theta = np.random.default_rng(0).normal(size=(4, 10))
    mass, inertia, centre = map(np.asarray, jax.jit(solid)(theta))
    for (alpha, d1, d2, d3, s12, s23, s13, *c), m, tensor, at in zip(theta, mass, inertia, centre, strict=True):
        A = np.array([[np.exp(d1), s12, s13], [0, np.exp(d2), s23], [0, 0, np.exp(d3)]])
        points = np.sqrt(3) * np.concatenate([A.T, -A.T])
        expected = np.exp(2 * alpha) / 6 * sum(r @ r * np.eye(3) - np.outer(r, r) for r in points)
        np.testing.assert_allclose([m, *at], [np.exp(2 * alpha), *c])
        np.testing.assert_allclose(tensor, expected, rtol=1e-12, atol=1e-12 * m)
    np.testing.assert_allclose(log_cholesky(mass, inertia, centre, "abcd"), theta, atol=1e-9)
    with pytest.raises(
        ValueError, match=r"body 'disc' with principal moments 1, 1, 2 kg m\^2: expected those of a solid"
    ):
        log_cholesky(np.ones(1), np.diag([1.0, 2.0, 1.0])[None], np.zeros((1, 3)), ["disc"])


def test_ten_numbers_stand_for_mass_inertia_and_centre_and_are_written(tmp_path):
    pytest.importorskip("mujoco", minversion="4", reason="Mechanism.write needs MuJoCo 4")
    system = dc.systems.mechanism(SKEW, contacts=())
    rng, theta = np.random.default_rng(1), system.log_cholesky
    assert system.names["log_cholesky"] == ("skew", "arm")
    q, u = rng.normal(size=11), rng.normal(size=9)
    q[3:7], q[7:] = q[3:7] / np.linalg.norm(q[3:7]), q[7:] / np.linalg.norm(q[7:])

    def at(system):
        return jax.jit(lambda params: (system.mass(q, params), system.force(0.0, q, u, params)))

    of = at(system)
    for found, expected in zip(of({"log_cholesky": theta}), of({}), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    other = {"log_cholesky": theta + 0.3 * rng.normal(size=theta.shape)}
    system.write(other, tmp_path / "other.xml")
    for found, expected in zip(of(other), at(dc.systems.mechanism(tmp_path / "other.xml"))({}), strict=True):
        # A file has six digits.
        np.testing.assert_allclose(found, expected, atol=1e-5 * np.abs(expected).max())
    with pytest.raises(ValueError, match=r"params\['log_cholesky'\]: it stands for mass, expected none of these"):
        of(other | {"mass": 1.0})
    with pytest.raises(ValueError, match=r"params\['log_cholesky'\]: expected shape \(2, 10\), got \(10,\)"):
        of({"log_cholesky": theta[0]})
