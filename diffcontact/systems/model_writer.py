"""Write model files with fitted numbers, MJCF whose soft contacts bounce with the coefficients of restitution.

MuJoCo has no restitution. With solref = (-k, -b) and a constant impedance d near 1 its contacts and stops accelerate
gaps g by g'' = -b g' - k g, whatever the masses are, as long as that pushes. Here k makes a contact last `_STEPS` time
steps of the file, and b is found by bouncing a ball in MuJoCo with the file's options until it has the restitution::

    k = w^2,    b = 2 z w,    w = pi / (steps timestep),    z in [0, steps / (2 pi)]

At z = 0 nothing is lost, at the largest z a contact's velocity is zero after one step; longer contacts lose more.

Source: MuJoCo's documentation, chapters Computation (constraint model) and Modeling (solver parameters).
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from diffcontact.host.files import write_atomically
from diffcontact.systems.model_file import NAMED, Model

# Time steps that a contact lasts: with fewer it depends more on where in a step it begins. Longer ones where those do
# not do.
_STEPS = (20, 40, 80)
_IMPEDANCE = 0.99
# Bounces that begin at different times within a step; halvings of the range of z.
_PHASES, _HALVINGS = 8, 20

# Parameters and the arrays of MuJoCo's model that they are written to.
_ARRAYS = {
    "armature": "dof_armature",
    "damping": "dof_damping",
    "stiffness": "jnt_stiffness",
    "springref": "qpos_spring",
}
_OF_BODIES = {"mass": "body_mass", "inertia": "body_inertia", "centre": "body_ipos"}

_BALL = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/><body>
<joint type="slide" axis="0 0 1"/><geom name="ball" size=".1" pos="0 0 .1" mass="1"/></body></worldbody>
<contact><pair geom1="floor" geom2="ball"/></contact></mujoco>"""


def write(
    model: Model,
    given: dict[str, np.ndarray],
    path: str | os.PathLike[str],
    speed: float,
    tolerance: float,
) -> dict[str, float]:
    """Write a model as MJCF; arguments as of `Mechanism.write`, `given` of full shapes.

    Returns the restitution that MuJoCo reaches by pair of geoms or joint with stops.
    """
    mujoco: Any = import_module("mujoco")
    spec, before = _spec(mujoco, model.source)
    names = (*model.labels["pair"], *model.labels["limit"])
    wanted = np.concatenate([given["restitution"], given["stop_restitution"]])
    found = {e: softness(mujoco, before, e, speed, tolerance) for e in np.unique(wanted).tolist()}
    for e, (_, reached) in found.items():
        if not abs(reached - e) <= tolerance:
            off = [name for name, of in zip(names, wanted, strict=True) if of == e]
            more = f" and {len(off) - NAMED} more" if len(off) > NAMED else ""
            raise ValueError(
                f"write: MuJoCo's bounce of {', '.join(off[:NAMED])}{more} at {speed:g} m/s reaches {reached:.6g}, "
                f"expected {e:.6g} within {tolerance:g}: a shorter option timestep, or tolerance={abs(reached - e):.2g}"
            )
    solref = np.array([found[e][0] for e in wanted.tolist()]).reshape(-1, 2)
    stops, ropes = model.numbers["limit"], model.numbers["rope"]
    _pairs_alone(spec, model, given["friction"], solref)
    m = spec.compile()
    # Whatever the compiler would have made of them, they are those of the file.
    for name in (*_OF_BODIES.values(), "body_iquat"):
        getattr(m, name)[:] = getattr(before, name)
    given = dict(given)
    if (tensors := given.pop("tensor", None)) is not None:
        given["inertia"], turned = _principal(mujoco, tensors)
        m.body_iquat[model.numbers["mass"]] = turned
    _set_numbers(model, m, given)
    of_stops = solref[len(given["restitution"]) :]
    m.jnt_solref[stops], m.jnt_solimp[stops, :2] = of_stops[: len(stops)], _IMPEDANCE
    m.tendon_solref_lim[ropes], m.tendon_solimp_lim[ropes, :2] = of_stops[len(stops) :], _IMPEDANCE
    try:
        spec.copy_back(m)
        text = spec.to_xml()
    except ValueError as error:
        raise ValueError(f"write: MJCF has no place for these numbers: {' '.join(str(error).split())}") from error
    write_atomically(Path(path), text)
    return {name: found[e][1] for name, e in zip(names, wanted.tolist(), strict=True)}


def _spec(mujoco: Any, source: str | os.PathLike[str]) -> tuple[Any, Any]:
    """Return a file that can take explicit masses and inertias, and its model."""
    if isinstance(source, str) and "<" in source:
        spec = mujoco.MjSpec.from_string(source)
    else:
        spec = mujoco.MjSpec.from_file(os.fspath(source))
        # The written file may lie in another folder.
        for folder in ("meshdir", "texturedir"):
            setattr(spec, folder, str((Path(source).parent / getattr(spec, folder)).resolve()))
    if not hasattr(spec, "copy_back"):
        raise ImportError("write needs MuJoCo 4 or newer: pip install 'mujoco>=4'")
    m, compiler = spec.compile(), spec.compiler
    compiler.settotalmass, compiler.boundmass, compiler.boundinertia = -1.0, 0.0, 0.0
    if compiler.inertiafromgeom == mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_TRUE:
        compiler.inertiafromgeom = mujoco.mjtInertiaFromGeom.mjINERTIAFROMGEOM_AUTO
        for body in spec.bodies:
            body.explicitinertial = False
    return spec, m


def _pairs_alone(spec: Any, model: Model, friction: np.ndarray, solref: np.ndarray) -> None:
    """Make the pairs of geoms of the system touch, and no others."""
    geoms = {geom.id: geom for geom in spec.geoms}
    for number, geom in geoms.items():
        geom.contype = geom.conaffinity = 0
        geom.name = geom.name or f"geom {number}"
    for pair in list(spec.pairs):
        spec.delete(pair)
    for number, (one, other) in enumerate(model.numbers["pair"].tolist()):
        made = spec.add_pair(geomname1=geoms[one].name, geomname2=geoms[other].name)
        made.condim = 3 if friction[number] > 0 else 1
        made.friction[:2], made.solref[:], made.solimp[:2] = friction[number], solref[number], _IMPEDANCE
        made.margin = model.pairs[number][2]


def _principal(mujoco: Any, tensors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return principal moments (b, 3) and quaternions of their axes (b, 4) of tensors of inertia (b, 3, 3)."""
    moments, axes, turned = np.zeros((len(tensors), 3)), np.zeros(9), np.zeros((len(tensors), 4))
    for row, quaternion, tensor in zip(moments, turned, tensors, strict=True):
        mujoco.mju_eig3(row, axes, quaternion, tensor.ravel())
    return moments, turned


def _set_numbers(model: Model, m: Any, given: dict[str, np.ndarray]) -> None:
    """Put parameters that differ from the file's into MuJoCo's model."""
    changed = {name for name, value in given.items() if not np.array_equal(value, model.defaults[name])}
    turned = given["springref"] != model.defaults["springref"]
    turned[model.sprung[1]] = False
    for joint in np.array(model.labels["coordinate"])[turned]:
        raise ValueError(f"write: MJCF has no place for springref of joint {str(joint)!r}: expected that of the file")
    for name in changed & _ARRAYS.keys():
        at = getattr(m, _ARRAYS[name])
        # Behind the linear coefficient may be those of a polynomial.
        at.reshape(len(at), -1)[:, 0] = given[name]
    for name in changed & _OF_BODIES.keys():
        getattr(m, _OF_BODIES[name])[model.numbers["mass"]] = given[name]
    if "gravity" in changed:
        m.opt.gravity[:] = given["gravity"]
    stops = model.numbers["limit"]
    m.jnt_range[stops], m.tendon_range[model.numbers["rope"]] = np.split(given["range"], [len(stops)])
    m.dof_frictionloss[model.rubbing] = given["frictionloss"]


def softness(mujoco: Any, m: Any, e: float, speed: float, tolerance: float) -> tuple[np.ndarray, float]:
    """Find solref (2,) for restitution e at `speed` [m/s], and the restitution it reaches.

    Of the model m the options count; the restitution may be off by `tolerance`.
    """
    ball = mujoco.MjModel.from_xml_string(_BALL)
    for name in ("timestep", "integrator", "cone", "solver", "iterations", "tolerance", "impratio", "disableflags"):
        setattr(ball.opt, name, getattr(m.opt, name))
    ball.opt.gravity[:] = 0.0, 0.0, -np.linalg.norm(m.opt.gravity)
    ball.pair_solimp[0, :2] = _IMPEDANCE
    phases = (np.arange(_PHASES) + 0.5) / _PHASES

    def bounce(solref: np.ndarray) -> float:
        ball.pair_solref[0] = solref
        return float(np.mean([_rebound(mujoco, ball, speed, phase) for phase in phases]))

    def of(z: float) -> np.ndarray:
        return np.array([-(w**2), -2 * z * w])

    for steps in _STEPS:
        w, low, high = np.pi / (steps * m.opt.timestep), 0.0, steps / (2 * np.pi)
        for _ in range(_HALVINGS if bounce(of(high)) < e else 0):
            middle = (low + high) / 2
            low, high = (middle, high) if bounce(of(middle)) > e else (low, middle)
        reached = bounce(of(high))
        if abs(reached - e) <= tolerance:
            break
    return of(high), reached


def _rebound(mujoco: Any, m: Any, speed: float, phase: float) -> float:
    """Bounce a ball that touches the floor a share `phase` of a step later."""
    d, gravity = mujoco.MjData(m), -m.opt.gravity[2]
    height = (1 + phase) * m.opt.timestep * speed
    d.qpos[0], d.qvel[0] = height, -speed
    touched = False
    for _ in range(10 * max(_STEPS)):
        mujoco.mj_step(m, d)
        touched |= d.qpos[0] < 0
        if touched and d.qpos[0] >= 0 and d.qvel[0] > 0:
            squares = [v**2 + 2 * gravity * x for x, v in ((d.qpos[0], d.qvel[0]), (height, speed))]
            return float(np.sqrt(squares[0] / squares[1]))
    return 0.0
