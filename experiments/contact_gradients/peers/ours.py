"""diffcontact: `EventTimed` of order 4 and 2, and the published step maps, all differentiated by JAX."""

from __future__ import annotations

from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc

from ..scene import Problem, read, seen
from . import Peer, lacks, version

jax.config.update("jax_enable_x64", True)

TOLD = (
    "Rigid contacts, each event at its own time inside the step; nothing is tuned. Where forces are constant it is "
    "exact at every step that is shorter than eight flights are; elsewhere of fourth order, or of second. A bounce "
    "whose flight is shorter than an eighth of the step, and slower than an eighth of the motion, counts as none, with "
    "status 0."
)

SCHEMES = {
    "diffcontact": dc.EventTimed(),
    "diffcontact, order 2": dc.EventTimed(order=2),
    "ElasticProjection": dc.ElasticProjection(),
    "VelocityProjection": dc.VelocityProjection(),
    "CatchingUp": dc.CatchingUp(),
}


def build(name: str) -> Peer:
    published = not isinstance(SCHEMES[name], dc.EventTimed)

    def cannot(problem):
        if name == "ElasticProjection":
            return lacks(problem, "friction")
        return lacks(problem, "restitution", *(("friction",) if name == "CatchingUp" else ())) if published else ""

    def jacobian(problem, theta, h, setting):
        state, by_theta, _ = _run(problem.name, name)(jnp.asarray(theta), _count(problem, h))
        return np.asarray(state), np.asarray(by_theta)

    def states(problem, thetas, h, setting):
        return np.stack([jacobian(problem, theta, h, setting)[0] for theta in thetas])

    def status(problem, h, setting):
        found = int(_run(problem.name, name)(jnp.array(problem.theta), _count(problem, h))[2])
        return dc.Status(found).name if found else ""

    steps = (8e-3, 2e-3, 5e-4) if published else (1e-1, 2e-2, 5e-3)
    told = "The published step map, differentiated step by step." if published else TOLD
    return Peer(
        name,
        steps,
        cannot,
        states,
        told,
        version("diffcontact"),
        jacobian=jacobian,
        differences=published,
        status=status,
    )


def _count(problem: Problem, h: float):
    """Steps between two times, for all the same number: as long as h, or shorter. Known when running only."""
    longest = np.max(np.diff([0.0, *problem.times]))
    return jnp.asarray(max(1, int(np.ceil(longest / h - 1e-9))))


@lru_cache(maxsize=2)
def _run(name: str, scheme: str):
    """(theta, steps between times) -> outputs at the times, their derivative, and the status."""
    problem = read(name)
    system, unpack, outputs = model(problem)
    times = jnp.array([0.0, *problem.times])

    def path(theta, count):
        run = dc.simulate(system, *unpack(theta), times, scheme=SCHEMES[scheme], substeps=count)
        found = jax.vmap(lambda q, u: outputs(q, u, theta))(run.q[1:], run.u[1:])
        return found, (found, run.status)

    def all_of(theta, count):
        jacobian, (state, status) = jax.jacfwd(path, has_aux=True)(theta, count)
        return state, jacobian, status

    return jax.jit(all_of)


def model(problem: Problem):
    """(system, unpack, outputs): theta -> (params, q0, u0), and (q, u, theta) -> the problem's outputs."""
    kind = "rods" if "rods" in problem.scene else next(iter(problem.needs() & {"boxes"}), None)
    if kind is None:
        kind = "one that cannot turn" if {"no turning", "friction"} <= problem.needs() else "balls"
    system, unpack, motion = {"rods": _rods, "boxes": _boxes, "balls": _balls, "one that cannot turn": _block}[kind](
        problem
    )

    def outputs(q, u, theta):
        return jnp.stack([jnp.asarray(x, float) for x in seen(problem, motion(q, u, problem.at(list(theta))))])

    return system, lambda theta: unpack(problem.at(list(theta))), outputs


def _stacked(bodies, name):
    return jnp.stack([jnp.stack([jnp.asarray(x, float) for x in body[name]]) for body in bodies])


def _numbers(bodies, name):
    return jnp.stack([jnp.asarray(body[name], float) for body in bodies])


def _vector(x):
    return jnp.stack([jnp.asarray(value, float) for value in x])


def _planes(problem: Problem, dimension: int):
    normals = jnp.array([plane["normal"][:dimension] for plane in problem.scene["planes"]])
    return lambda t, p: (normals, p["offset"] + p["speed"] * t)


def _common(scene: dict) -> dict:
    params = {name: jnp.asarray(scene[name], float) for name in ("restitution", "friction")}
    planes = scene["planes"]
    return params | {name: _numbers(planes, name) for name in ("offset", "speed") if planes}


def _balls(problem: Problem):
    """Discs where the problem is in a plane; without spin where nothing rubs."""
    count, dimension = len(problem.scene["bodies"]), 2 if problem.document["space"] == "plane" else 3
    spin = "friction" in problem.needs()
    planes = _planes(problem, dimension) if problem.scene["planes"] else None
    system = dc.systems.balls(count, dimension, planes=planes, spin=spin)

    def unpack(scene):
        bodies = scene["bodies"]
        x, v, w = (_stacked(bodies, name) for name in ("position", "velocity", "spin"))
        params = _common(scene) | {"gravity": _vector(scene["gravity"])[:dimension]}
        params |= {name: _numbers(bodies, name) for name in ("mass", "radius")}
        if not spin:
            params.pop("friction")
            return params, x[:, :dimension].ravel(), v[:, :dimension].ravel()
        params["inertia"] = _numbers(bodies, "inertia")
        upright = jnp.broadcast_to(jnp.array([1.0, 0.0, 0.0, 0.0]), (count, 4))
        turned, w = (jnp.zeros((count, 1)), w[:, 2:]) if dimension == 2 else (upright, w)
        return params, *(jnp.hstack(part).ravel() for part in ((x[:, :dimension], turned), (v[:, :dimension], w)))

    def motion(q, u, scene):
        del scene
        q, u = q.reshape(count, -1), u.reshape(count, -1)
        flat = jnp.zeros((count, 3 - dimension))
        spins = jnp.pad(u[:, dimension:], ((0, 0), (2, 0))) if dimension == 2 and spin else u[:, dimension:]
        x, v = (jnp.hstack([part[:, :dimension], flat]) for part in (q, u))
        return {"position": x, "velocity": v, "spin": spins}

    return system, unpack, motion


def _boxes(problem: Problem):
    dimension = 2 if problem.document["space"] == "plane" else 3
    shapes = lambda p: [dc.shapes.Box(*(2 * half for half in p["half"]))]  # noqa: E731
    system = dc.systems.bodies(shapes, dimension, _planes(problem, dimension))

    def unpack(scene):
        (body,) = scene["bodies"]
        x, v, w, turned = (_vector(body[name]) for name in ("position", "velocity", "spin", "orientation"))
        params = _common(scene) | {"gravity": _vector(scene["gravity"])[:dimension]}
        params |= {name: _numbers([body], name) for name in ("mass", "inertia")}
        params["half"] = _vector(body["half"])[:dimension]
        angle = jnp.linalg.norm(turned)
        full = jnp.concatenate([jnp.cos(angle / 2)[None], jnp.sin(angle / 2) / angle * turned])
        turned, w = (turned[2:], w[2:]) if dimension == 2 else (full, w)
        return params, jnp.concatenate([x[:dimension], turned]), jnp.concatenate([v[:dimension], w])

    def motion(q, u, scene):
        del scene
        if dimension == 3:
            return {"position": [q[:3]], "quaternion": [q[3:]], "velocity": [u[:3]], "spin": [u[3:]]}
        half = jnp.stack([jnp.cos(q[2] / 2), 0 * q[2], 0 * q[2], jnp.sin(q[2] / 2)])
        return {"position": [q], "quaternion": [half], "velocity": [u], "spin": [jnp.pad(u[2:], (2, 0))]}

    return system, unpack, motion


def _block(problem: Problem):
    """A body that rubs and cannot turn."""
    force, rate = ("drive" in problem.scene), jnp.zeros(3)

    def swing(t, p):
        return p["drive"] * jnp.sin(p["frequency"] * t) if force else rate

    system = dc.System(
        gap=lambda t, q, p: q[1:2] - p["radius"] - p["offset"],
        force=lambda t, q, u, p: p["mass"] * p["gravity"] + swing(t, p),
        mass=lambda q, p: p["mass"] * jnp.ones(3),
        restitution=lambda p: p["restitution"],
        slip=lambda t, q, u, p: jnp.stack([u[0], u[2]])[None],
        friction=lambda p: p["friction"],
    )

    def unpack(scene):
        (body,) = scene["bodies"]
        params = _common(scene) | {"gravity": _vector(scene["gravity"])}
        params |= {name: jnp.asarray(body[name], float) for name in ("mass", "radius")}
        if force:
            drive = scene["drive"]
            params |= {"drive": _vector(drive["force"]), "frequency": jnp.asarray(drive["frequency"], float)}
        if not problem.scene["restitution"]:
            params["restitution"] = 0.0
        return params, _vector(body["position"]), _vector(body["velocity"])

    return system, unpack, lambda q, u, scene: {"position": [q], "velocity": [u]}


def _rods(problem: Problem):
    """Angles from the downward vertical."""
    count = len(problem.scene["bodies"])
    normal = jnp.array(problem.scene["planes"][0]["normal"][:2])

    def places(q, p):
        arms = p["lengths"][:, None] * jnp.stack([jnp.sin(q), -jnp.cos(q)], axis=1)
        return jnp.cumsum(arms, axis=0)

    def coupling(q, p):
        below = jnp.cumsum(p["mass"][::-1])[::-1]
        i = jnp.arange(count)
        return below[jnp.maximum(i[:, None], i[None])] * jnp.outer(p["lengths"], p["lengths"]), below

    def mass(q, p):
        return coupling(q, p)[0] * jnp.cos(q[:, None] - q[None])

    def force(t, q, u, p):
        coupled, below = coupling(q, p)
        return -(coupled * jnp.sin(q[:, None] - q[None])) @ u**2 - p["g"] * p["lengths"] * below * jnp.sin(q)

    system = dc.System(
        gap=lambda t, q, p: places(q, p) @ normal - p["offset"] - p["radius"],
        force=force,
        mass=mass,
        restitution=lambda p: p["restitution"],
    )

    def unpack(scene):
        bodies, rods = scene["bodies"], scene["rods"]
        params = _common(scene) | {name: _numbers(bodies, name) for name in ("mass", "radius")}
        params |= {"g": -jnp.asarray(scene["gravity"][1], float), "lengths": _vector(rods["lengths"])}
        return params, _vector(rods["angles"]), _vector(rods["rates"])

    def motion(q, u, scene):
        p = unpack(scene)[0]
        x, v = jax.jvp(lambda q: places(q, p), (q,), (u,))
        return {"position": x, "velocity": v}

    return system, unpack, motion
