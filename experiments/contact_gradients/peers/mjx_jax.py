"""MJX, MuJoCo in JAX, differentiated by JAX: the model and the tuning of `mujoco_c.py`.

Where something rubs its elliptic cone is taken, though its derivatives are NaN once a body is at rest: with the
pyramid they are finite, but a block that slides across its axes is half as far off as it slides.
"""

from __future__ import annotations

import numpy as np

from . import Peer, mujoco_c, version
from .mjcf import mjcf, motion, start
from .mujoco_c import STEPS, TOLD
from .springs import relative


def build(name: str) -> Peer:
    import jax.numpy as jnp
    import mujoco
    from mujoco import mjx

    from .leaves import Engine, stepped

    def model(problem, theta, h, setting):
        scene = problem.at(list(theta))
        cone = "elliptic" if "friction" in problem.needs() else "pyramidal"
        options = f'cone="{cone}" impratio="10"'
        built = mujoco.MjModel.from_xml_string(mjcf(problem, scene, h, setting or (16, 0.0, True), options))
        drive = scene.get("drive", {"force": [0, 0, 0], "frequency": 0.0})
        force = np.zeros(built.nv)
        force[: min(3, built.nv)] = drive["force"][: min(3, built.nv)]
        q, u = start(problem, scene)
        return mjx.put_model(built), q, u, force, np.array(drive["frequency"], float)

    def run(problem, given, counts):
        whole, q, u, force, frequency = given

        def step(data):
            if "drive" in problem.needs():
                swing = jnp.sin(frequency * (data.time + whole.opt.timestep / 2))
                data = data.replace(qfrc_applied=force * swing)
            return mjx.step(whole, data)

        return stepped(step, mjx.make_data(whole).replace(qpos=q, qvel=u), lambda data: (data.qpos, data.qvel), counts)

    engine = Engine(model, run, lambda problem, scene, ends: motion(problem, scene, *ends))

    in_c = mujoco_c.build("MuJoCo")

    def tuned(problem, h):
        """Of each duration and friction the restitution that serves the same model in C best, which is quicker."""
        exact, theta = np.array([at["state"] for at in problem.exact]), np.array([problem.theta])
        best: dict = {}
        for setting in in_c.settings(problem, h):
            off = relative(in_c.states(problem, theta, h, setting)[0], exact)
            kind = setting[0], setting[2]
            best[kind] = min(best.get(kind, (off, setting)), (off, setting))
        return [setting for _, setting in best.values()]

    told = f"{TOLD} MJX is that in JAX, differentiated by it in forward mode; NaN once bodies that rub have stopped."
    own = {"jacobian": engine.jacobian, "differences": False, "settings": tuned}
    return Peer(name, STEPS[:2], lambda problem: "", engine.states, told, version("mujoco-mjx"), **own)
