"""pooltool, a simulator of billiards that goes from event to event, as this benchmark's answers do.

Its balls slide, roll and spin on a cloth and meet each other and cushions; there is no falling, no bouncing, no
inertia but a solid sphere's. Rolling friction, and that of a spin about the vertical, is 1e-9: it divides by it.
"""

from __future__ import annotations

import numpy as np

from ..scene import Problem, seen
from . import Peer, one_by_one, version

TOLD = (
    "pooltool: balls on a cloth, event by event, without a time step; one problem is of its kind. It has no "
    "derivatives; differences of its states are as exact as differences can be, since times of events move along."
)


def build(name: str) -> Peer:
    import pooltool

    def cannot(problem: Problem) -> str:
        return "" if problem.name == "sphere_rolls" else "not a solid sphere on a level cloth"

    # There is no step: this one stands for it in tables and charts.
    return Peer(name, (1e-3,), cannot, one_by_one(_run, pooltool), TOLD, version("pooltool-billiards"))


def _run(pooltool, problem: Problem, scene: dict, h: float, setting) -> list:
    return [_end(pooltool, scene, problem, time) for time in problem.times]


def _end(pooltool, scene: dict, problem: Problem, time: float) -> list:
    (body,) = scene["bodies"]
    parameters = pooltool.BallParams(
        m=body["mass"],
        R=body["radius"],
        u_s=scene["friction"],
        u_r=1e-9,
        u_sp_proportionality=1e-9,
        g=-scene["gravity"][1],
    )
    ball = pooltool.Ball("cue", params=parameters)
    middle = np.array([0.5, 1.0, 0.0])
    ball.state.rvw[:] = [middle + _there(body["position"]), _there(body["velocity"]), _there(body["spin"])]
    ball.state.s = pooltool.constants.sliding
    shot = pooltool.System(cue=pooltool.Cue(cue_ball_id="cue"), table=pooltool.Table.default(), balls={"cue": ball})
    states = pooltool.simulate(shot, t_final=time).balls["cue"].history.states
    # Events are kept; what is between them follows from the one before.
    before = max((state for state in states if state.t <= time), key=lambda state: state.t)
    p = parameters
    (x, v, w), _ = pooltool.physics.evolve.evolve_ball_motion(
        before.s, before.rvw, p.R, p.m, p.u_s, p.u_sp, p.u_r, p.g, time - before.t
    )
    return seen(problem, {"position": [_back(x - middle)], "velocity": [_back(v)], "spin": [_back(w)]})


def _there(x) -> np.ndarray:
    """Its z is up, y here."""
    return np.array([x[0], -x[2], x[1]], float)


def _back(x) -> np.ndarray:
    return np.array([x[0], x[2], -x[1]])
