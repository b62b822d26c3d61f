# %% [markdown]
# # Can a hopper learn to jump to a place by the gradient through its contacts?
#
# A trunk of 1 kg on a boom, which keeps it upright, and a leg on a hinge, 0.3 m long, that lengthens. Two servos turn
# and lengthen the leg. Their 18 set points, piecewise linear in time, are optimised by Adam through lift-off, flight
# and an inelastic landing with friction, so that after 1 s the foot stands at 0.5 m and the trunk has been 0.2 m
# higher half-way. Then the foot of a thousand copies meets floors of other friction, drawn from 0.3 to 1, which takes
# some minutes more.
#
# Found, in processor time of a busy machine:
#
# | | |
# |---|---|
# | first gradient, compiled | 71 s |
# | off central differences, steps of 1.6 ms | below 1e-6 (`--smoke --substeps 80`) |
# | VelocityProjection's gradient, off ours | 54 % |
# | 80 steps of Adam | 98 s, the loss falls from 0.0537 to 0.0004, each of status 0 |
# | foot, trunk half-way | 0.500 m, 0.201 m higher |
#
#     python experiments/hopper.py [--substeps N] [--steps N] [--copies N] [--smoke]

# %%
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from measuring import clock, installed, options

import diffcontact as dc
from diffcontact.schemes.scheme import Scheme
from diffcontact.systems.mechanism import Mechanism

jax.config.update("jax_enable_x64", True)

MODEL = """<mujoco>
  <worldbody>
    <geom name="floor" type="plane" size="9 1 .1"/>
    <body name="trunk" pos="0 0 .33">
      <joint name="x" type="slide" axis="1 0 0"/>
      <joint name="z" type="slide" axis="0 0 1"/>
      <geom name="trunk" size=".06" mass="1" contype="0" conaffinity="0"/>
      <body name="leg">
        <joint name="hip" axis="0 1 0"/>
        <joint name="length" type="slide" axis="0 0 -1"/>
        <geom name="foot" size=".03" pos="0 0 -.3" mass=".3" friction=".8"/>
      </body>
    </body>
  </worldbody>
  <actuator>
    <position name="turn" joint="hip" kp="10" kv=".6"/>
    <position name="push" joint="length" kp="400" kv="8"/>
  </actuator>
</mujoco>"""
# Set points every 1/8 s, where steps end, so that none has a kink within.
KNOTS = np.linspace(0.0, 1.0, 9)
PLACE, HEIGHT, FRICTION = 0.5, 0.2, (0.3, 1.0)
FIRST = np.array([[0, 0.1, 0.2, 0.2, -0.2, -0.2, 0, 0, 0], [0, -0.08, 0.1, 0, -0.05, 0, 0, 0, 0]])


# %%
def hopper() -> Mechanism:
    """The hopper, with set points (2, knots) of its servos as the parameter `set_points`."""

    def control(t, q, u, params):
        return jnp.stack([jnp.interp(t, KNOTS, points) for points in params["set_points"]])

    return dc.systems.mechanism(MODEL, control=control)


def foot(q: jax.Array) -> jax.Array:
    """(...) where the foot is along the floor [m]."""
    return q[..., 0] - (0.3 + q[..., 3]) * jnp.sin(q[..., 2])


def jump(system: Mechanism, scheme: Scheme, substeps: int, set_points: jax.Array, friction) -> dc.Trajectory:
    """1 s from rest, with the foot on the floor."""
    params = {"set_points": set_points, "friction": friction}
    return dc.simulate(system, params, np.zeros(4), np.zeros(4), KNOTS, scheme=scheme, substeps=substeps)


def loss(system: Mechanism, scheme: Scheme, substeps: int, set_points: jax.Array) -> tuple[jax.Array, tuple]:
    """How far foot and trunk [m] are off, the speed that is left, the set points; status, and where both are."""
    run = jump(system, scheme, substeps, set_points, 0.8)
    place, height = foot(run.q[-1]), run.q[len(KNOTS) // 2, 1]
    off = (place - PLACE) ** 2 + (height - HEIGHT) ** 2
    rest = 0.01 * jnp.sum(run.u[-1] ** 2) + 0.001 * jnp.sum(set_points**2)
    return off + rest, (run.status, place, height)


@dataclass(frozen=True)
class Found:
    # (steps,), and where the foot of each copy ends (n,) [m].
    losses: np.ndarray
    statuses: np.ndarray
    off: float  # the gradient from central differences along it, relative
    places: np.ndarray
    fine: np.ndarray  # whether a copy has status 0


# %%
def main(arguments: list[str] | None = None) -> Found | None:
    chosen = options(arguments, "three steps, eight copies", substeps=40, steps=80, copies=1000)
    if not installed("mujoco"):
        print("MuJoCo is not installed: nothing to do")
        return None
    steps, copies = (3, 8) if chosen.smoke else (chosen.steps, chosen.copies)
    begin, system, points = clock(), hopper(), jnp.asarray(FIRST)
    ours, theirs = (
        jax.jit(jax.value_and_grad(partial(loss, system, scheme, chosen.substeps), has_aux=True))
        for scheme in (dc.EventTimed(), dc.VelocityProjection())
    )
    slope = jax.block_until_ready(ours(points)[1])
    print(f"first gradient: {clock() - begin:.0f} s", flush=True)
    size = jnp.linalg.norm(slope)
    ahead, behind = (ours(points + sign * 1e-6 * slope / size)[0][0] for sign in (1, -1))
    off = float(abs((ahead - behind) / 2e-6 / size - 1))
    of_steps = float(jnp.linalg.norm(theirs(points)[1] - slope) / size)
    print(f"off central differences by {off:.0e}; VelocityProjection's is off ours by {of_steps:.0%}", flush=True)

    begin, losses, statuses = clock(), [], []
    optimiser = optax.adam(0.01)
    state = optimiser.init(points)
    for _ in range(steps):
        (value, (status, place, height)), slope = ours(points)
        losses.append(float(value))
        statuses.append(int(status))
        last = points
        move, state = optimiser.update(slope, state)
        points = optax.apply_updates(points, move)
    print(f"{steps} steps, {clock() - begin:.0f} s: loss {losses[0]:.4f} to {losses[-1]:.4f}; status {set(statuses)}")
    print(f"foot at {place:.3f} m, trunk half-way {height:.3f} m higher", flush=True)

    def copy(friction):
        run = jump(system, dc.EventTimed(), chosen.substeps, last, friction)
        return foot(run.q[-1]), run.status

    begin, drawn = clock(), np.random.default_rng(1).uniform(*FRICTION, copies)
    places, status = dc.ensemble(copy, drawn)
    fine = status == 0
    ends = ", ".join(f"{one:.3f}" for one in np.quantile(places[fine], (0.05, 0.5, 0.95)))
    print(f"{copies} copies, {clock() - begin:.0f} s, {fine.mean():.1%} of status 0: 5, 50, 95 % land before {ends} m")
    return Found(np.array(losses), np.array(statuses), off, places, fine)


if __name__ == "__main__":
    main()
