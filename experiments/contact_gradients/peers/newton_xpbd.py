"""Newton (on Warp): its XPBD solver, which has restitution, by differences of its states, in single precision.

All perturbed copies are worlds of one model. Tuned are the iterations and the relaxation of contacts. Its
semi-implicit solver has derivatives, but springs for contacts whose damping acts on what rebounds, too, and no
restitution: not tried. On a CPU a step of Warp's kernels takes a millisecond, whatever the number of worlds.
"""

from __future__ import annotations

import numpy as np

from ..scene import Problem, seen
from . import Peer, lacks, version
from .springs import counts, quaternion, upright

STEPS = (2e-3, 1e-3)
TOLD = (
    "Newton 1.8 on Warp, XPBD solver: positions are projected, restitution is applied to velocities afterwards. It "
    "computes in single precision, so that differences narrower than a hundredth are noise. What cannot turn has a "
    "large inertia."
)


def build(name: str) -> Peer:
    import newton
    import warp as wp

    wp.config.quiet = True

    def cannot(problem: Problem) -> str:
        if "moving plane" in problem.needs():
            return "its planes do not move"
        return lacks(problem, "drive", "rods")

    def states(problem, thetas, h, setting):
        return _run(newton, wp, problem, [problem.at(list(theta)) for theta in thetas], h, setting)

    def settings(problem, h):
        return [(2, 0.8), (8, 0.8), (2, 1.0)]

    return Peer(name, STEPS, cannot, states, TOLD, version("newton"), settings)


def _run(newton, wp, problem: Problem, scenes: list[dict], h: float, setting) -> np.ndarray:
    iterations, relaxation = setting
    model, bodies = _model(newton, wp, scenes)
    solver = newton.solvers.SolverXPBD(
        model, iterations=iterations, rigid_contact_relaxation=relaxation, enable_restitution=True
    )
    pipeline = newton.CollisionPipeline(model)
    contacts, control, now, then = pipeline.contacts(), model.control(), model.state(), model.state()
    found = []
    for count in counts(problem, h):
        for _ in range(count):
            now.clear_forces()
            pipeline.collide(now, contacts)
            solver.step(now, then, control, contacts, h)
            now, then = then, now
        q, u = now.body_q.numpy().astype(float), now.body_qd.numpy().astype(float)
        found.append([seen(problem, _motion(q[of], u[of])) for of in bodies])
    return np.swapaxes(np.array(found), 0, 1)


def _model(newton, wp, scenes: list[dict]):
    """A world for each scene, and the numbers of its bodies."""
    whole, numbers = newton.ModelBuilder(up_axis=newton.Axis.Y, gravity=tuple(scenes[0]["gravity"])), []
    for scene in scenes:
        world = newton.ModelBuilder(up_axis=newton.Axis.Y, gravity=tuple(float(x) for x in scene["gravity"]))
        material = newton.ModelBuilder.ShapeConfig(
            density=0.0, mu=scene["friction"], restitution=scene["restitution"], mu_torsional=0.0, mu_rolling=0.0
        )
        for body in scene["bodies"]:
            w, *xyz = quaternion(body.get("orientation", (0, 0, 0)))
            inertia = 1e6 if body["inertia"] is None else body["inertia"]
            number = world.add_body(
                xform=wp.transform(wp.vec3(*body["position"]), wp.quat(*xyz, w)),
                mass=float(body["mass"]),
                inertia=wp.mat33(inertia, 0, 0, 0, inertia, 0, 0, 0, inertia),
                lock_inertia=True,
            )
            # The linear velocity first, then the angular one, as in `State.body_qd`.
            world.joint_qd[-6:] = [*map(float, body["velocity"]), *map(float, body["spin"])]
            world.body_qd[number] = wp.spatial_vector(*map(float, (*body["velocity"], *body["spin"])))
            if "half" in body:
                sides = dict(zip(("hx", "hy", "hz"), (float(half or 0.05) for half in body["half"]), strict=True))
                world.add_shape_box(number, **sides, cfg=material)
            else:
                world.add_shape_sphere(number, radius=float(body["radius"]), cfg=material)
        for plane in scene["planes"]:
            equation = (*map(float, plane["normal"]), -float(plane["offset"]))
            world.add_shape_plane(equation, width=0.0, length=0.0, cfg=material)
        first = whole.body_count
        whole.add_world(world)
        numbers.append(range(first, whole.body_count))
    return whole.finalize(), [list(of) for of in numbers]


def _motion(q, u) -> dict[str, np.ndarray]:
    turned = np.array([upright([w, x, y, z]) for x, y, z, w in q[:, 3:]])
    return {"position": q[:, :3], "quaternion": turned, "velocity": u[:, :3], "spin": u[:, 3:]}
