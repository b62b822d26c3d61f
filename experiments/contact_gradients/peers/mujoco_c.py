"""MuJoCo's C library, by central differences of its states: it has no derivatives through contact.

Contacts are springs. Tuned are how long a contact lasts, in steps, from which stiffness and damping follow such that it
bounces with e, and a little more e than is asked for, or less: steps and friction change the rebound. Friction has a
spring and a damper of its own in a `pair`: the hardest that MuJoCo admits, twice the step, or like the contact's.
"""

from __future__ import annotations

import numpy as np

from ..scene import Problem, seen
from . import Peer, one_by_one, version
from .mjcf import mjcf, motion, start
from .springs import counts

STEPS = (2e-3, 5e-4, 1.25e-4)
TOLD = (
    "MuJoCo: soft contacts, no coefficient of restitution: a spring and a damper for each contact, so hard that a "
    "contact lasts 8 to 64 steps. Bodies in a plane have joints that keep them there, bodies that cannot turn slide "
    "joints, a plate that moves is a heavy box."
)


def build(name: str) -> Peer:
    import mujoco

    # Otherwise it leaves a file of warnings in the working folder.
    mujoco.set_mju_user_warning(lambda text: None)

    told = f"{TOLD} No derivatives through contact (mjd_transitionFD takes differences, too)."
    return Peer(name, STEPS, lambda problem: "", one_by_one(_run, mujoco), told, version("mujoco"), settings, finer)


def settings(problem: Problem, h: float) -> list[tuple[int, float, bool]]:
    """(steps that a contact lasts, e in addition, whether friction is as hard as it can be or like the contact)."""
    needs = problem.needs()
    more = (0.0, -0.1, -0.06, -0.03, 0.03, 0.06, 0.1) if "restitution" in needs else (0.0,)
    rubs = (True, False) if "friction" in needs else (True,)
    return [(steps, extra, hard) for steps in (16, 8, 32, 64) for extra in more for hard in rubs]


def finer(problem: Problem, setting, turn: int) -> list:
    """Restitutions on both sides of the best one."""
    steps, extra, hard = setting
    away = 0.02 / 3**turn
    return [(steps, extra + k * away, hard) for k in (-1, -0.5, 0.5, 1)] if "restitution" in problem.needs() else []


def _run(mujoco, problem: Problem, scene: dict, h: float, setting) -> np.ndarray:
    model = mujoco.MjModel.from_xml_string(
        mjcf(problem, scene, h, setting, 'cone="elliptic" impratio="10" tolerance="1e-14"')
    )
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = start(problem, scene)
    found, drive = [], scene.get("drive")
    for count in counts(problem, h):
        if drive is None:
            mujoco.mj_step(model, data, nstep=count)
        else:
            for _ in range(count):
                # The force in the middle of the step.
                swing = np.sin(drive["frequency"] * (data.time + h / 2))
                data.qfrc_applied[:3] = np.array(drive["force"]) * swing
                mujoco.mj_step(model, data)
        found.append(seen(problem, motion(problem, scene, data.qpos, data.qvel)))
    return np.array(found)
