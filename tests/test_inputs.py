from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

LINE = dc.ParticleLine(
    mass=lambda p: p["mass"],
    damping=lambda p: p["damping"],
    stiffness=lambda p: np.zeros((2, 2)),
    load=lambda t, p: np.zeros(2),
    friction=lambda p: p["friction"],
    normal=lambda t, p: p["normal"],
    percussion_times=[0.5],
    percussions=lambda p: p["weights"],
)
PARAMS = {
    "mass": np.ones(2),
    "damping": np.eye(2),
    "friction": 0.3,
    "normal": np.ones(2),
    "weights": np.ones(1),
}


def refuse(message, system=LINE, q0=(0.0, 0.0), u0=(0.0, 0.0), times=(0.0, 1.0), **changed):
    with pytest.raises(ValueError, match=message):
        dc.simulate(system, {**PARAMS, **changed}, q0, u0, times, scheme=dc.PercussionFriction())


@pytest.mark.parametrize(
    ("message", "changed"),
    [
        (r"ParticleLine.mass: .* \(2,\), got \(3,\)", {"mass": np.ones(3)}),
        (r"ParticleLine.damping: .* \(2, 2\), got \(2,\)", {"damping": np.ones(2)}),
        (r"ParticleLine.percussions: .* \(1,\), got \(2,\)", {"weights": np.ones(2)}),
        (r"ParticleLine.friction: .* \(\), got \(2,\)", {"friction": np.ones(2)}),
        (r"mass: expected positive", {"mass": np.array([1.0, 0.0])}),
        (r"friction: expected at least 0, got -0.1", {"friction": -0.1}),
        (r"percussions: expected at least 0", {"weights": np.array([-1.0])}),
        (r"params\[.normal.\]: expected finite", {"normal": np.array([1.0, np.nan])}),
        (r"damping: expected a symmetric", {"damping": np.array([[1.0, 0.5], [0.0, 1.0]])}),
        (r"damping: expected a positive semidefinite", {"damping": np.array([[1.0, 2.0], [2.0, 1.0]])}),
    ],
)
def test_a_particle_line_that_makes_no_sense_is_refused(message, changed):
    refuse(message, **changed)


@pytest.mark.parametrize(
    ("message", "changed"),
    [
        (r"q0: expected shape \(d,\)", {"q0": np.zeros((2, 2))}),
        (r"u0: expected the shape of q0", {"u0": (0.0,)}),
        (r"times: expected shape", {"times": (0.0,)}),
        (r"times\[2\] = 1.0 follows 1.0", {"times": (0.0, 1.0, 1.0)}),
        (r"u0: expected finite", {"u0": (0.0, np.inf)}),
        (r"system: expected a System or a ParticleLine, got str", {"system": "line"}),
        (r"ParticleLine.belt: .* \(\), got \(2,\)", {"system": replace(LINE, belt=lambda t, p: np.zeros(2))}),
    ],
)
def test_arguments_that_do_not_fit_are_refused(message, changed):
    refuse(message, **changed)


@pytest.mark.parametrize(
    ("message", "params", "q0"),
    [
        (r"System.mass: expected an array of shape \(1,\) or \(1, 1\), got \(2,\)", {"mass": np.ones(2)}, 1.0),
        (r"System.restitution: .* \(\) or \(1,\), got \(2,\)", {"e": np.zeros(2)}, 1.0),
        (r"restitution: expected within \[0, 1\], got 1.5", {"e": 1.5}, 1.0),
        (r"mass: expected positive", {"mass": -np.ones(1)}, 1.0),
        (r"q0: expected no overlap, but gap\[0\] = -0.5", {}, -0.5),
    ],
)
def test_a_system_that_makes_no_sense_is_refused(message, params, q0):
    system = dc.System(
        gap=lambda t, q, p: q,
        force=lambda t, q, u, p: np.zeros(1),
        mass=lambda q, p: p["mass"],
        restitution=lambda p: p["e"],
    )
    with pytest.raises(ValueError, match=message):
        dc.simulate(system, {"mass": np.ones(1), "e": 0.5, **params}, [q0], [0.0], [0.0, 1.0])


def test_normals_that_do_not_fit_the_gaps_are_refused():
    four, five = (dc.systems.balls(count, 1, box=(0.0, 1.0)) for count in (4, 5))
    params = {"mass": np.ones(4), "radius": np.full(4, 0.1), "gravity": np.zeros(1), "restitution": 0.0}
    wrong = replace(four, normals=lambda t, q, p: five.normals(t, np.zeros(5), p))
    with pytest.raises(ValueError, match=r"System.normals: expected an array of shape \(14, 4\), got \(20, 5\)"):
        dc.simulate(wrong, params, [0.1, 0.3, 0.5, 0.7], np.zeros(4), [0.0, 1.0])
    with pytest.raises(ValueError, match=r"System\(normals=...\): expected a function, got int"):
        replace(four, normals=3)
    steeper = replace(four, gap=lambda t, q, p: four.gap(t, q, p) * jnp.where(np.arange(14) == 9, 2.0, 1.0))
    with pytest.raises(ValueError, match=r"row 9 is not that of gap\[9\]"):
        dc.simulate(steeper, params, [0.1, 0.3, 0.5, 0.7], np.zeros(4), [0.0, 1.0])
