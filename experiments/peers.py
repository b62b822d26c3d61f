"""Balls in a box in diffcontact, in MuJoCo's C library, in MJX and in Brax's spring pipeline, behind one interface.

The balls do not turn and there is no friction, so that all simulate the same d = 3 count coordinates: in
MuJoCo and MJX a ball has three slide joints; in Brax, whose spring pipeline holds joints by springs of their
own, a free joint without friction. Contacts are theirs: soft constraints in MuJoCo and MJX, impulses with a Baumgarte
term in Brax.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from measuring import installed

import diffcontact as dc

NEEDS = {"MuJoCo C": ("mujoco",), "MJX": ("mujoco", "mujoco.mjx"), "Brax spring": ("mujoco.mjx", "brax")}


def absent(say: Callable[[str], None]) -> list[str]:
    """The peers that are not there, and say so."""
    missing = [name for name in NEEDS if not installed(*NEEDS[name])]
    if missing:
        say(f"left out, not installed (pip install 'diffcontact[simulators]'): {', '.join(missing)}")
    return missing


@dataclass(frozen=True)
class Balls:
    """Spheres of 10 cm and 1 kg in the unit box, e = 0."""

    count: int  # how many
    # cell: edge of the cells by which diffcontact finds out who is near [m]; None: it looks at all pairs
    cell: float | None = None
    radius: float = 0.1
    gravity: float = -9.81

    @property
    def params(self) -> dict:
        """Those of `dc.systems.balls`."""
        ones = jnp.ones(self.count)
        common = {"gravity": jnp.array([0.0, 0.0, self.gravity]), "restitution": jnp.zeros(())}
        return {"mass": ones, "radius": self.radius * ones, **common}

    @property
    def system(self) -> dc.System:
        return dc.systems.balls(self.count, 3, box=(0.0, 1.0), cell=self.cell)


@dataclass(frozen=True)
class Simulator:
    """A simulator with a model and a step of its own."""

    # end: (q0, u0, steps) -> (q, u), the state so many steps later. One lane, (d,), where `traced`; else lanes (n, d)
    end: Callable
    path: Callable  # (q0, u0, steps) -> (q, u), (steps + 1, d), all the states on the way; lanes as in `end`
    memory: Callable[[], int] | None = None  # None, or () -> bytes that a simulator outside JAX has in use

    @property
    def traced(self) -> bool:
        """Whether JAX can map, compile and differentiate it."""
        return self.memory is None


def ours(balls: Balls, h: float, scheme) -> Simulator:
    """diffcontact with a step map."""

    def path(q0, u0, steps):
        times = h * jnp.arange(steps + 1, dtype=q0.dtype)
        run = dc.simulate(balls.system, balls.params, q0, u0, times, scheme=scheme)
        return run.q, run.u

    def end(q0, u0, steps):
        q, u = path(q0, u0, steps)
        return q[-1], u[-1]

    return Simulator(end, path)


def mjcf(balls: Balls, h: float, options: str = "", free: bool = False) -> str:
    """The model as MJCF, with MuJoCo's default contacts."""
    axes = [" ".join(map(str, axis)) for axis in np.eye(3)]
    joints = "<freejoint/>" if free else "".join(f'<joint type="slide" axis="{axis}"/>' for axis in axes)
    walls = "".join(
        f'<geom type="plane" size="9 9 1" pos="{place}" zaxis="{normal}"/>'
        for axis in axes
        for place, normal in (("0 0 0", axis), (axis, axis.replace("1.0", "-1.0")))
    )
    sphere = f'<body>{joints}<geom type="sphere" size="{balls.radius}" mass="1"/></body>'
    return (
        f'<mujoco><option timestep="{h}" gravity="0 0 {balls.gravity}" {options}/>'
        f'<default><geom condim="1" friction="0 0 0"/></default>'
        f"<worldbody>{walls}{sphere * balls.count}</worldbody></mujoco>"
    )


def mujoco_c(balls: Balls, h: float) -> Simulator:
    """MuJoCo with its defaults (Newton, to convergence), in double precision, lane after lane on one thread: one call
    of mj_step for all steps of a lane."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(mjcf(balls, h))
    data = mujoco.MjData(model)

    def run(q0, u0, counts):
        states = np.empty((len(counts) + 1, 2, *q0.shape))
        states[0] = q0, u0
        for lane, (q, u) in enumerate(zip(q0, u0, strict=True)):
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:] = q, u
            for k, count in enumerate(counts):
                mujoco.mj_step(model, data, nstep=count)
                states[k + 1, 0, lane], states[k + 1, 1, lane] = data.qpos, data.qvel
        return states

    def path(q0, u0, steps):
        states = run(q0, u0, [1] * steps)
        return np.moveaxis(states[:, 0], 0, 1), np.moveaxis(states[:, 1], 0, 1)

    def end(q0, u0, steps):
        return tuple(run(q0, u0, [steps])[-1])

    return Simulator(end, path, lambda: data.nbuffer + data.maxuse_arena)


def mjx(balls: Balls, h: float) -> Simulator:
    """MJX with one iteration of its Newton solver and four of the line search: more than one is a loop that reverse
    mode cannot pass."""
    import mujoco
    from mujoco import mjx

    options = 'iterations="1" ls_iterations="4"'
    model = mjx.put_model(mujoco.MjModel.from_xml_string(mjcf(balls, h, options)))
    data = mjx.make_data(model)
    return _scanned(
        lambda q, u: data.replace(qpos=q, qvel=u), lambda state: mjx.step(model, state), lambda s: (s.qpos, s.qvel)
    )


def brax_spring(balls: Balls, h: float) -> Simulator:
    """Brax's spring pipeline."""
    from brax.io import mjcf as reader
    from brax.spring import pipeline

    system = reader.loads(mjcf(balls, h, free=True))

    def begin(q, u):
        # A free joint: place and quaternion, velocity and angular velocity.
        q, u = q.reshape(-1, 3), u.reshape(-1, 3)
        upright = jnp.broadcast_to(jnp.array([1.0, 0.0, 0.0, 0.0], q.dtype), (len(q), 4))
        return pipeline.init(
            system, jnp.concatenate([q, upright], 1).ravel(), jnp.concatenate([u, jnp.zeros_like(u)], 1).ravel()
        )

    return _scanned(
        begin,
        lambda state: pipeline.step(system, state, jnp.zeros(system.act_size())),
        lambda state: (state.q.reshape(-1, 7)[:, :3].ravel(), state.qd.reshape(-1, 6)[:, :3].ravel()),
    )


def _scanned(begin: Callable, step: Callable, read: Callable) -> Simulator:
    def end(q0, u0, steps):
        state, _ = jax.lax.scan(lambda state, _: (step(state), None), begin(q0, u0), length=steps)
        return read(state)

    def path(q0, u0, steps):
        def on(state, _):
            state = step(state)
            return state, read(state)

        _, rest = jax.lax.scan(on, begin(q0, u0), length=steps)
        return tuple(jnp.concatenate([x0[None], x]) for x0, x in zip((q0, u0), rest, strict=True))

    return Simulator(end, path)
