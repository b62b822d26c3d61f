"""NOSNOC, finite elements with switch detection: high order through the switches of a Filippov system.

What it integrates is x' = F+ where c(x) > 0 and F- where c(x) < 0; elements end where c passes zero. A slip is such a
system. An impact is one by time-freezing (its authors', for e > 0): behind the wall a damped spring throws the body
back while the clock of the motion stands still.

Source: A. Nurkanovic, M. Sperl, S. Albrecht, M. Diehl, Finite elements with switch detection for direct optimal
control of nonsmooth systems, Numer. Math. 156 (2024); A. Nurkanovic and others, A time-freezing approach for numerical
optimal control of nonsmooth differential equations with state jumps, IEEE Control Systems Letters 5 (2021).
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..scene import Problem, seen
from . import Peer, one_by_one, version

TOLD = (
    "NOSNOC: finite elements with switch detection, Radau IIA with 2 or 3 stages (order 3 or 5), complementarity to "
    "1e-10, each element's problem by IPOPT. It poses slips along one line, and one body's bounces by time-freezing; "
    "contacts that last behind an impact, Coulomb's law in a plane and bodies that turn would each be a reformulation "
    "of its own. The package gives no derivative of a simulation: differences of its states."
)
# Of the spring behind the wall [1/s^2]: any will do, since the clock stands still meanwhile.
STIFFNESS = 100.0


@dataclass(frozen=True)
class Filippov:
    """A problem as a Filippov system, in numpy."""

    start: Callable[[dict], list]  # scene -> x0
    numbers: Callable[[dict], list]  # scene -> what its fields depend on (p,)
    fields: Callable[[Any, Any, Any], tuple]  # (x, p, casadi) -> F+, F-, c
    length: Callable[[dict, float], float]  # (scene, time) -> how long the system runs until this time [s]
    motion: Callable[[dict, float, Any], dict]  # (scene, time, x) -> what moves then, as in `scene.MOTION`


def _slip(scene: dict) -> tuple[np.ndarray, float, float]:
    """The direction of the slip at the beginning, its size, and by how much more friction slows it than the body."""
    (body,) = scene["bodies"]
    velocity, turns = np.array(body["velocity"], float), body["inertia"] is not None
    slip = velocity.copy()
    if turns:
        slip += np.cross(body["spin"], [0.0, -body["radius"], 0.0])
    size = float(np.linalg.norm(slip))
    return slip / size, size, 1 + body["mass"] * body["radius"] ** 2 / body["inertia"] if turns else 1.0


def _slides_start(scene: dict) -> list:
    """Slip, and the speed and the way that friction has made along it."""
    return [_slip(scene)[1], 0.0, 0.0]


def _slides_fields(x, p, ca):
    rub = p[0]
    return ca.vertcat(-p[1] * rub, -rub, x[1]), ca.vertcat(p[1] * rub, rub, x[1]), x[0]


def _slides_motion(scene: dict, time: float, x) -> dict:
    (body,) = scene["bodies"]
    along, _, _ = _slip(scene)
    place = np.array(body["position"]) + time * np.array(body["velocity"]) + x[2] * along
    spin = np.array(body["spin"], float)
    if body["inertia"] is not None:
        push = body["mass"] * x[1] * along
        spin = spin + np.cross([0.0, -body["radius"], 0.0], push) / body["inertia"]
    return {"position": [place], "velocity": [np.array(body["velocity"]) + x[1] * along], "spin": [spin]}


def _weight(scene: dict) -> float:
    return -scene["friction"] * scene["gravity"][1]


def _driven_fields(x, p, ca):
    push = p[1] * ca.sin(p[2] * x[2])
    return ca.vertcat(x[1], push - p[0], 1), ca.vertcat(x[1], push + p[0], 1), x[1]


def _driven_start(scene: dict) -> list:
    (body,) = scene["bodies"]
    return [body["position"][0], body["velocity"][0], 0.0]


def _driven_numbers(scene: dict) -> list:
    return [_weight(scene), scene["drive"]["force"][0] / scene["bodies"][0]["mass"], scene["drive"]["frequency"]]


def _driven_motion(scene: dict, time: float, x) -> dict:
    return {"position": [[x[0], 0.0, 0.0]], "velocity": [[x[1], 0.0, 0.0]]}


def _damping(scene: dict) -> float:
    """[1/s] of the spring that throws a body back with e."""
    fall = -np.log(scene["restitution"])
    return 2 * fall * np.sqrt(STIFFNESS / (np.pi**2 + fall**2))


def _bounces_fields(x, p, ca):
    return ca.vertcat(x[1], p[0]), ca.vertcat(x[1], -STIFFNESS * x[0] - p[1] * x[1]), x[0]


def _bounces_start(scene: dict) -> list:
    (body,) = scene["bodies"]
    return [body["position"][1] - body["radius"], body["velocity"][1]]


def _bounces_length(scene: dict, time: float) -> float:
    """With what the spring takes for each impact before: how many there are the equation of a ball says."""
    height, speed = _bounces_start(scene)
    gravity, e, count, clock = -scene["gravity"][1], scene["restitution"], 0, 0.0
    while True:
        fast = np.sqrt(speed**2 + 2 * gravity * height)
        clock += (speed + fast) / gravity
        if clock >= time:
            return time + count * np.pi / np.sqrt(STIFFNESS - _damping(scene) ** 2 / 4)
        count, height, speed = count + 1, 0.0, e * fast


def _bounces_motion(scene: dict, time: float, x) -> dict:
    radius = scene["bodies"][0]["radius"]
    return {"position": [[0.0, x[0] + radius, 0.0]], "velocity": [[0.0, x[1], 0.0]]}


def _as_it_is(scene: dict, time: float) -> float:
    return time


_SLIDES = Filippov(
    _slides_start, lambda scene: [_weight(scene), _slip(scene)[2]], _slides_fields, _as_it_is, _slides_motion
)
POSED = {
    "block_stops": _SLIDES,
    "sphere_rolls": _SLIDES,
    "stick_slip": Filippov(_driven_start, _driven_numbers, _driven_fields, _as_it_is, _driven_motion),
    "bounce": Filippov(
        _bounces_start,
        lambda scene: [scene["gravity"][1], _damping(scene)],
        _bounces_fields,
        _bounces_length,
        _bounces_motion,
    ),
}


def build(name: str) -> Peer:
    import casadi as ca
    import nosnoc

    def cannot(problem: Problem) -> str:
        return "" if problem.name in POSED else "no Filippov system with one switch"

    versions = f"{version('nosnoc')}, {version('casadi')}"
    states = one_by_one(_run, ca, nosnoc)
    return Peer(name, (0.1, 0.05, 0.025), cannot, states, TOLD, versions, lambda problem, h: [2, 3])


def _run(ca, nosnoc, problem: Problem, scene: dict, h: float, stages: int) -> list:
    """The outputs at the times, in steps of about h from one to the next."""
    posed = POSED[problem.name]
    state, found, before = np.array(posed.start(scene), float), [], 0.0
    for time in problem.times:
        end = posed.length(scene, time)
        count = max(round((end - before) / h), 1)
        state = _steps(ca, nosnoc, posed, scene, state, (end - before) / count, count, stages)
        found.append(seen(problem, posed.motion(scene, time, state)))
        before = end
    return found


def _steps(ca, nosnoc, posed, scene, state, h, count, stages) -> np.ndarray:
    x, p = ca.SX.sym("x", state.size), ca.SX.sym("p", len(posed.numbers(scene)))
    above, below, switch = posed.fields(x, p, ca)
    model = nosnoc.NosnocModel(
        x=x,
        x0=state,
        F=[ca.horzcat(above, below)],
        c=[switch],
        S=[np.array([[1], [-1]])],
        p_global=p,
        p_global_val=np.array(posed.numbers(scene), float),
    )
    options = nosnoc.NosnocOpts()
    options.terminal_time, options.n_s, options.N_finite_elements = h, stages, 2
    options.comp_tol, options.sigma_N, options.homotopy_update_slope = 1e-10, 1e-10, 0.1
    options.step_equilibration = nosnoc.StepEquilibrationMode.L2_RELAXED_SCALED
    with contextlib.redirect_stdout(io.StringIO()):
        looper = nosnoc.NosnocSimLooper(nosnoc.NosnocSolver(options, model), state, count)
        looper.run()
    return np.array(looper.xcurrent, float)
