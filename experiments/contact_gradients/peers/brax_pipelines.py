"""Brax's three pipelines, differentiated by JAX.

The spring and the positional pipeline have `elasticity`, an impulse at the end of the step in which bodies overlap;
tuned is `baumgarte_erp`, how fast the overlap is taken back (spring), and `collide_scale`, how much of it at once
(positional). The generalized pipeline has soft contacts without restitution: springs, tuned as for MuJoCo. All bodies
are free, since joints are springs in two of the pipelines; what cannot turn has a large inertia.
"""

from __future__ import annotations

from ..scene import Problem
from . import Peer, lacks, version
from .mjcf import mjcf, motion, start
from .springs import upright

STEPS = (2e-3, 5e-4)
TOLD = {
    "spring": "Brax, spring pipeline: impulses with `elasticity` and a Baumgarte term, joints are springs.",
    "positional": "Brax, positional pipeline: positions are projected, velocities made elastic afterwards.",
    "generalized": "Brax, generalized pipeline: soft contacts in joint coordinates; no restitution of its own.",
}


def build(name: str) -> Peer:
    import importlib

    import jax.numpy as jnp
    import mujoco
    import numpy as np
    from brax.io import mjcf as reader

    from .leaves import Engine, stepped

    kind = name.removeprefix("Brax ")
    pipeline = importlib.import_module(f"brax.{kind}.pipeline")

    def model(problem: Problem, theta, h, setting):
        scene, free = problem.at(list(theta)), "rods" not in problem.scene
        steps, number = setting or (16, 0.1)
        xml = mjcf(problem, scene, h, (steps, 0.0, True), "", free)
        system = reader.load_model(mujoco.MjModel.from_xml_string(xml))
        # The setting's number is the knob of the pipeline; for the generalized one it is e in addition, in the XML.
        knob = {"spring": "baumgarte_erp", "positional": "collide_scale"}.get(kind)
        if knob:
            system = system.replace(elasticity=jnp.full_like(system.elasticity, scene["restitution"]))
            system = system.replace(**{knob: jnp.asarray(number, float)})
        return system, *start(problem, scene, free)

    def run(problem, given, counts):
        system, q, u = given
        nothing = jnp.zeros(system.act_size())
        state = pipeline.init(system, q, u)
        read_out = lambda state: (state.x.pos, state.x.rot, state.xd.vel, state.xd.ang, state.q, state.qd)  # noqa: E731
        return stepped(lambda state: pipeline.step(system, state, nothing), state, read_out, counts)

    def seen(problem, scene, ends):
        x, turned, v, w, q, u = ends
        if "rods" in scene:
            return motion(problem, scene, q, u)
        turned = [upright(one) for one in np.asarray(turned)]
        return {"position": x, "quaternion": turned, "velocity": v, "spin": w}

    engine = Engine(model, run, seen)

    def cannot(problem):
        if "moving plane" in problem.needs():
            return "what holds the plate is a spring, or nothing"
        if kind == "generalized" and "restitution" in problem.needs():
            return "has no restitution"
        return lacks(problem, "drive")

    settings = {
        "spring": [(16, number) for number in (0.1, 0.0, 0.5)],
        "positional": [(16, number) for number in (1.0, 0.5)],
        "generalized": [(steps, 0.0) for steps in (16, 8, 32)],
    }[kind]
    own = {"jacobian": engine.jacobian, "differences": False, "settings": lambda problem, h: settings}
    return Peer(name, STEPS, cannot, engine.states, TOLD[kind], version("brax"), **own)
