"""DART: impulses with Newton's restitution and a friction cone of four sides, by differences of its states.

An impact is seen at the first step in which bodies overlap. Tuned is who finds the contacts (its own detector, Bullet,
ODE or FCL), and whether what they overlap is taken back by velocities or apart from them (split impulses).
"""

from __future__ import annotations

import numpy as np

from ..scene import Problem, seen
from . import Peer, one_by_one, version
from .mjcf import joints, moves
from .mujoco_c import STEPS
from .springs import counts, upright

TOLD = (
    "DART: velocities jump by Newton's law at the end of the step in which bodies overlap; below 0.1 m/s it does not "
    "bounce, and the friction cone has sides. Its four detectors were tried, with split impulses and without. No "
    "derivatives (its offspring Nimble has; it is not on PyPI for this Python)."
)


def build(name: str) -> Peer:
    import dartpy

    settings = [(detector, split) for detector in ("DART", "BULLET", "ODE", "FCL") for split in (False, True)]
    states = one_by_one(_run, dartpy)
    return Peer(name, STEPS, lambda problem: "", states, TOLD, version("dartpy"), lambda problem, h: settings)


def _run(dart, problem: Problem, scene: dict, h: float, setting) -> np.ndarray:
    world = dart.simulation.World()
    world.setTimeStep(h)
    world.setGravity(np.array(scene["gravity"], float))
    detector, split = setting
    world.setCollisionDetector(getattr(dart.simulation.CollisionDetectorType, detector))
    world.getConstraintSolver().setSplitImpulseEnabled(split)
    sleep = world.getDeactivationOptions()
    sleep.mEnabled = False
    world.setDeactivationOptions(sleep)
    bodies = _chain(dart, world, scene) if "rods" in scene else _bodies(dart, world, problem, scene)
    for plane in scene["planes"]:
        _plane(dart, world, scene, plane, moves(problem, plane))
    drive, found = scene.get("drive"), []
    for count in counts(problem, h):
        for _ in range(count):
            if drive is not None:
                swing = np.sin(drive["frequency"] * (world.getTime() + h / 2))
                bodies[0].setExtForce(np.array(drive["force"]) * swing)
            world.step(True)
        found.append(seen(problem, _motion(scene, bodies)))
    return np.array(found)


def _bodies(dart, world, problem: Problem, scene: dict) -> list:
    """Each a skeleton of its own, with the joint that leaves it what it has."""
    found = []
    for k, body in enumerate(scene["bodies"]):
        x, v, w, turn = (
            np.array(body.get(name, (0, 0, 0)), float) for name in ("position", "velocity", "spin", "orientation")
        )
        skeleton = dart.dynamics.Skeleton(f"body{k}")
        kind = joints(problem, body)
        if kind == "slides":
            joint, node = skeleton.createTranslationalJointAndBodyNodePair()
            q, u = x, v
        elif kind == "plane":
            joint, node = skeleton.createPlanarJointAndBodyNodePair()
            joint.setXYPlane()
            q, u = [*x[:2], turn[2]], [*v[:2], w[2]]
        else:
            joint, node = skeleton.createFreeJointAndBodyNodePair()
            # Rotation vector and place; velocities along fixed axes.
            q, u = [*turn, *x], [*w, *v]
        shape = dart.dynamics.BoxShape([2 * (h or 0.05) for h in body["half"]]) if "half" in body else None
        _shaped(dart, node, shape or dart.dynamics.SphereShape(body["radius"]), scene)
        # What cannot turn needs a number all the same.
        _weighed(dart, node, body["mass"], body["inertia"] or 1.0)
        joint.setPositions(np.array(q, float))
        joint.setVelocities(np.array(u, float))
        world.addSkeleton(skeleton)
        found.append(node)
    return found


def _shaped(dart, node, shape, scene: dict) -> None:
    """The shape of a body; the coefficients of two in contact are multiplied, of friction the smaller one counts."""
    found = node.createShapeNode(shape)
    found.createVisualAspect()
    found.createCollisionAspect()
    found.createDynamicsAspect()
    found.getDynamicsAspect().setRestitutionCoeff(np.sqrt(scene["restitution"]))
    found.getDynamicsAspect().setFrictionCoeff(scene["friction"])


def _weighed(dart, node, mass: float, inertia: float, place=(0.0, 0.0, 0.0)) -> None:
    node.setInertia(dart.dynamics.Inertia(mass, np.array(place, float), inertia * np.eye(3)))


def _chain(dart, world, scene: dict) -> list:
    skeleton, node, found = dart.dynamics.Skeleton("chain"), None, []
    rods = scene["rods"]
    for k, (body, length) in enumerate(zip(scene["bodies"], rods["lengths"], strict=True)):
        pair = skeleton.createRevoluteJointAndBodyNodePair
        joint, node = pair() if node is None else pair(node)
        joint.setAxis([0, 0, 1])
        # The body's frame is where its mass is.
        hangs, arm = dart.math.Isometry3(), dart.math.Isometry3()
        arm.set_translation([0.0, length, 0.0])
        joint.setTransformFromParentBodyNode(hangs)
        joint.setTransformFromChildBodyNode(arm)
        _shaped(dart, node, dart.dynamics.SphereShape(body["radius"]), scene)
        _weighed(dart, node, body["mass"], 1e-9)
        before = rods["angles"][k - 1] if k else 0.0, rods["rates"][k - 1] if k else 0.0
        joint.setPosition(0, rods["angles"][k] - before[0])
        joint.setVelocity(0, rods["rates"][k] - before[1])
        found.append(node)
    world.addSkeleton(skeleton)
    return found


def _plane(dart, world, scene: dict, plane: dict, moves: bool) -> None:
    """The top of a large box, which weighs so much that nothing stops it where it moves."""
    skeleton, normal = dart.dynamics.Skeleton("plane"), np.array(plane["normal"], float)
    size = np.where(normal == 0, 20.0, 2.0)
    if moves:
        joint, node = skeleton.createPrismaticJointAndBodyNodePair()
        joint.setAxis(normal)
        joint.setVelocity(0, plane["speed"])
        node.setGravityMode(False)
        node.setMass(1e9)
    else:
        joint, node = skeleton.createWeldJointAndBodyNodePair()
    place = dart.math.Isometry3()
    place.set_translation((plane["offset"] - 1.0) * normal)
    joint.setTransformFromParentBodyNode(place)
    _shaped(dart, node, dart.dynamics.BoxShape(size), scene)
    world.addSkeleton(skeleton)


def _motion(scene: dict, bodies: list) -> dict[str, list]:
    found: dict[str, list] = {name: [] for name in ("position", "quaternion", "velocity", "spin")}
    for node in bodies:
        pose = node.getWorldTransform()
        turned = pose.quaternion()
        found["position"].append(pose.translation().ravel())
        found["quaternion"].append(upright(np.array([turned.w(), turned.x(), turned.y(), turned.z()])))
        found["velocity"].append(np.ravel(node.getLinearVelocity()))
        found["spin"].append(np.ravel(node.getAngularVelocity()))
    return found
