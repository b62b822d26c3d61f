# %% [markdown]
# # From ten balls to ten thousand
#
# `dc.systems.balls(..., cell=...)` with `VelocityProjection`, looked at from outside after every step: the worst
# overlap, the residual of the projection's optimality conditions (recomputed here), contacts, time per step and memory.
#
# - `scopi`: SCoPI's scene. A grid of spheres, radii uniform in [0.4, 0.45], masses in [1, 2], pulled down by a force of
#   1 each into a box one wider than the grid and open above, h = 0.045, e = 0. On one thread SCoPI takes 0.12 s per
#   step for 1 000 spheres while they fall and 0.33 s once they have settled, with overlaps of 1e-7 radii (C++, its APGD
#   at 1e-3).
#   With `--side 20 --steps 240`, 8 000 spheres in twenty layers with 21 000 contacts take 0.7 to 0.9 s a step on one
#   core once they have settled.
# - `column`: a column of discs collapses onto a floor.
# - `heap`: a cube of spheres of 2 cm is let go on a floor without walls, with `--friction`. Without they run flat.
# - `billiards`: no gravity, e = 0.95, a cue ball into a rack; EventTimed.
#
# `--scene heap --steps 150 --friction 0.5`: after 0.3 s a thousand spheres have a slope of 13 degrees, without friction
# of 3. The residual of Coulomb's law stays below 1e-6 and the overlap below 1e-7 radii at every step. Steps take 2.8
# times as long as those without friction (some 17 ms instead of 7). Where MuJoCo is installed, its C library steps
# through the same heap with an elliptic cone, by its conjugate gradients and with contacts as stiff as the step allows:
# three times as fast, with overlaps of 0.18 radii.
# The heap goes on sinking, since nothing keeps spheres from rolling.
# Between walls that are near, or on a floor of fixed balls, some steps of such a heap end at the iteration limit, with
# residuals of 1e-5.
#
# Run it: `python experiments/crowds.py [--scene scopi] [--side 10] [--steps 200]`, or with `--smoke`. With `--friction`
# and matplotlib it leaves a picture of the heap, with friction and without, in the folder given by `--out`.

# %%
from __future__ import annotations

import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from measuring import installed, options, picture

import diffcontact as dc
from diffcontact.qp.friction.law import natural_map
from diffcontact.qp.rows import product, squares, transposed_product
from diffcontact.simulate import with_room
from diffcontact.status import Status
from diffcontact.stepping import initial_state, one_step
from diffcontact.system import slip_rows, taken

jax.config.update("jax_enable_x64", True)


# %% The scenes.
@dataclass(frozen=True)
class Scene:
    """Many balls, what they are given, where they start, their step [s] and scheme."""

    system: Any
    params: dict
    q0: np.ndarray
    u0: np.ndarray
    h: float
    scheme: Any


def scopi(side: int, layers: int | None = None) -> Scene:
    """side x layers x side spheres; a force of one each, so that heavy ones fall more slowly than light ones."""
    rng = np.random.default_rng(0)
    sizes = side, layers or side, side
    grid = np.stack(np.meshgrid(*[np.arange(size) + 1.0 for size in sizes], indexing="ij"), axis=-1).reshape(-1, 3)
    count = len(grid)
    # Off their places by a little: columns that stand upright would never settle.
    grid = grid + rng.uniform(-0.04, 0.04, grid.shape)
    radius, mass = rng.uniform(0.4, 0.45, count), rng.uniform(1.0, 2.0, count)
    box = ((0.0, 0.0, 0.0), (side + 1.0, np.inf, side + 1.0))
    params = {"mass": mass, "radius": radius, "gravity": np.zeros(3), "restitution": 0.0}
    spheres = dc.systems.balls(count, 3, box=box, cell=0.9)
    return Scene(pushed(spheres, (0.0, -1.0, 0.0)), params, grid, 0 * grid, 0.045, dc.VelocityProjection())


def pushed(balls, force):
    """The same balls with a constant force on each of them [N]."""
    each = np.tile(np.asarray(force), balls.count)
    return replace(balls, force=lambda t, q, u, params: jnp.asarray(each, q.dtype))


def heap(side: int, friction: float | None = None) -> Scene:
    """A cube of spheres of 2 cm on a floor without walls, which roll and rub where there is friction."""
    rng = np.random.default_rng(1)
    count, d = side**3, 0.02
    grid = np.stack(np.meshgrid(*[np.arange(side)] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    place = (grid + 0.5) * 1.05 * d + rng.uniform(-0.02, 0.02, grid.shape) * d
    params = {"mass": np.full(count, 0.01), "radius": rng.uniform(0.45, 0.5, count) * d}
    params |= {"gravity": np.array([0.0, 0.0, -9.81]), "restitution": 0.0}
    rubs = friction is not None
    speed = np.zeros((count, 6 if rubs else 3))
    if rubs:
        params["friction"] = friction
        place = np.column_stack([place, np.tile([1.0, 0.0, 0.0, 0.0], (count, 1))])
    box = ((-np.inf, -np.inf, 0.0), (np.inf, np.inf, np.inf))
    spheres = dc.systems.balls(count, 3, box=box, cell=d, spin=rubs)
    return Scene(spheres, params, place, speed, 2e-3, dc.VelocityProjection())


def column(side: int) -> Scene:
    """A column of discs, side wide and 3 side high, on a floor without walls."""
    rng = np.random.default_rng(2)
    grid = np.stack(np.meshgrid(np.arange(side), np.arange(3 * side), indexing="ij"), axis=-1).reshape(-1, 2)
    count = len(grid)
    place = (grid + 0.5) * 1.02 + rng.uniform(-0.005, 0.005, grid.shape)
    box = ((-np.inf, 0.0), (np.inf, np.inf))
    params = {"mass": np.ones(count), "radius": np.full(count, 0.5), "gravity": np.array([0.0, -9.81])}
    params["restitution"] = 0.0
    return Scene(dc.systems.balls(count, 2, box=box, cell=1.0), params, place, 0 * place, 0.01, dc.VelocityProjection())


def billiards(side: int) -> Scene:
    """A rack of `side` rows and a cue ball, e = 0.95; diameters of 57 mm, a hair apart."""
    d = 0.057
    rows = [
        ((i + 1) * d * 0.5 * np.sqrt(3) * 1.001, (j - i / 2) * d * 1.001) for i in range(side) for j in range(i + 1)
    ]
    place = np.array([(-0.5, 0.002), *rows])
    count = len(place)
    speed = np.zeros_like(place)
    speed[0] = (3.0, 0.0)
    box = ((-1.0, -0.65), (1.5, 0.65))
    params = {"mass": np.full(count, 0.17), "radius": np.full(count, d / 2), "gravity": np.zeros(2)}
    params["restitution"] = 0.95
    table = dc.systems.balls(count, 2, box=box, cell=1.1 * d)
    return Scene(table, params, place, speed, 1e-3, dc.EventTimed(events=24))


SCENES = {"scopi": scopi, "heap": heap, "column": column, "billiards": billiards}


# %% What is looked at.
@dataclass(frozen=True)
class Lot:
    """Some steps of a scene: the step as compiled, the states before and after each, the seconds that each took, and
    the first status that says that a neighbour list was too short."""

    system: Any
    run: Any
    states: list
    spent: list[float]
    status: Status


def stepped(scene: Scene, steps: int, lot: int) -> Iterator[Lot]:
    """Step through the scene, a lot of steps at a time; as `simulate` does, again with more where lists are full."""
    params, h, system, number = jax.tree.map(jnp.asarray, scene.params), scene.h, scene.system, 0
    q, u = (jnp.asarray(x.ravel(), float) for x in (scene.q0, scene.u0))
    state = initial_state(scene.scheme, system, params, 0.0, h, q, u)

    @cache
    def compiled(system):
        shapes = initial_state(scene.scheme, system, params, 0.0, h, q, u)
        return jax.jit(lambda state: one_step(scene.scheme, system, params, 0.0, h, state)).lower(shapes).compile()

    def some_steps(larger) -> Lot:
        # What is carried has the list's shape.
        begin = state if larger is system else initial_state(scene.scheme, larger, params, 0.0, h, state.q, state.u)
        run, states, statuses, spent = compiled(larger), [begin], [], []
        for _ in range(min(lot, steps - number)):
            since = time.perf_counter()
            after, info = jax.block_until_ready(run(states[-1]))
            spent.append(time.perf_counter() - since)
            statuses.append(int(info.status))
            states.append(after)
        short = (status for status in statuses if status in (Status.NEIGHBOURS_FULL, Status.NEIGHBOURS_MISSED))
        return Lot(larger, run, states, spent, Status(next(short, Status.OK)))

    while number < steps:
        part = with_room(some_steps, system)
        number, state, system = number + len(part.spent), part.states[-1], part.system
        yield part


def measured(scene: Scene, steps: int, lot: int) -> Iterator[tuple[dict, np.ndarray]]:
    """For each lot of steps its worst figures and the time per step, and where the balls are after it (n, m)."""
    params, number = jax.tree.map(jnp.asarray, scene.params), 0
    look = jax.jit(lambda system, before, after: figures(system, params, scene.h, before, after), static_argnums=0)
    for part in stepped(scene, steps, lot):
        looks = [look(part.system, before, after) for before, after in pairwise(part.states)]
        number += len(part.spent)
        worst = {name: float(np.max([look[name] for look in looks])) for name in looks[0]}
        place = np.asarray(scene.system.surfaces.translation(part.states[-1].q))
        yield {"step": number, "seconds": float(np.median(part.spent)), "slowest": max(part.spent), **worst}, place


def figures(system, params, h, before, after) -> dict:
    """Worst overlap in radii after a step, relative residual of its projection, and how many contacts push."""
    smallest = jnp.min(params["radius"])
    closed = system.listed_contacts(system.within(params, 0.0, after.q, 1e-6 * smallest))
    overlap = jnp.max(-closed.gap(0.0, after.q, params)) / smallest
    told = {"overlap": jnp.maximum(overlap, 0.0)}
    if not hasattr(after, "multipliers"):
        return told
    listed = system.neighbours(params, 0.0, h, before.q, before.u)
    multipliers, there = after.multipliers, taken(after.numbers)
    mass = system.mass(before.q, params)
    gap, rows = listed.linearised(params, 0.0, before.q)
    if after.friction is not None:
        residual = law_residual(listed, params, h, before, after, gap, rows)
        return told | {"residual": residual, "contacts": jnp.sum(multipliers > 0), "near": jnp.sum(there)}
    free = before.u + h * system.force(0.0, before.q, before.u, params) / mass
    length = jnp.sqrt(jnp.where(there, squares(rows, 1 / mass), 1.0))
    u = free + transposed_product(rows, multipliers) / mass
    value = jnp.where(there, (gap / h + product(rows, u)) / length, 0.0)
    unit = multipliers * length
    residual = jnp.max(jnp.abs(unit - jnp.maximum(unit - value, 0.0))) + jnp.max(jnp.abs(u - after.u))
    scale = jnp.max(jnp.where(there, -(gap / h + product(rows, free)) / length, 0.0))
    residual = jnp.where(scale > 0, residual / jnp.where(scale > 0, scale, 1.0), 0.0)
    return told | {"residual": residual, "contacts": jnp.sum(multipliers > 0), "near": jnp.sum(there)}


def law_residual(listed, params, h, before, after, gap, rows) -> jax.Array:
    """How far a step is from Coulomb's law, in the unit of `qp.coulomb_many` and relative to the fastest approach."""
    there, mass = taken(after.numbers), listed.mass(before.q, params)
    free = before.u + h * listed.force(0.0, before.q, before.u, params) / mass
    tangents, drift = slip_rows(listed, params, 0.0, before.q, free.size)
    reactions = jnp.column_stack([after.multipliers, after.friction])
    directions = [rows, *tangents]
    u = free + sum(transposed_product(row, r) for row, r in zip(directions, reactions.T, strict=True)) / mass
    squared = jnp.stack([jnp.where(there, squares(row, 1 / mass), 1.0) for row in directions], axis=1)
    mean = jnp.mean(squared[:, 1:], axis=1)
    length = jnp.sqrt(jnp.column_stack([squared[:, 0], *[mean] * len(tangents)]))
    offset = jnp.column_stack([gap / h, drift])
    w, approach = (
        jnp.where(there[:, None], (jnp.stack([product(row, x) for row in directions], axis=1) + offset) / length, 0.0)
        for x in (u, free)
    )
    mu = params["friction"] * length[:, 1] / length[:, 0]
    left = natural_map(reactions * length, w, mu, jnp.full_like(mu, 0.4)) / 0.4
    residual = jnp.max(jnp.abs(left)) + jnp.max(jnp.abs(u - after.u))
    scale = jnp.max(-approach[:, 0], initial=0.0)
    return jnp.where(scale > 0, residual / jnp.where(scale > 0, scale, 1.0), 0.0)


def mujoco_c(scene: Scene, steps: int) -> tuple[float, float, np.ndarray]:
    """The heap in MuJoCo's C library: free spheres, an elliptic cone, contacts as stiff as the step allows (two steps).

    By its conjugate gradients: once a thousand spheres touch, its Newton method takes a hundred times as long.

    Returns:
        The median time of a step [s], the largest overlap in radii and where the spheres are at last (n, 3).
    """
    import mujoco

    params, text = scene.params, lambda vector: " ".join(map(str, vector))
    spheres = "".join(
        f'<body pos="{text(centre)}"><freejoint/><geom type="sphere" size="{radius}" mass="{mass}"/></body>'
        for centre, radius, mass in zip(scene.q0[:, :3], params["radius"], params["mass"], strict=True)
    )
    model = mujoco.MjModel.from_xml_string(
        f'<mujoco><option timestep="{scene.h}" gravity="{text(params["gravity"])}" cone="elliptic" solver="CG"/>'
        f'<default><geom condim="3" friction="{params["friction"]} 0 0" solref="{2 * scene.h} 1"/></default>'
        f'<size memory="1G"/><worldbody><geom type="plane" size="9 9 1"/>{spheres}</worldbody></mujoco>'
    )
    data, spent, overlap = mujoco.MjData(model), [], 0.0
    for _ in range(steps):
        since = time.perf_counter()
        mujoco.mj_step(model, data)
        spent.append(time.perf_counter() - since)
        overlap = max(overlap, -np.min(data.contact.dist, initial=0.0) / np.min(params["radius"]))
    return float(np.median(spent)), overlap, np.array(data.qpos).reshape(-1, 7)[:, :3]


def slope(place: np.ndarray) -> float:
    """Of a heap, in degrees: a straight line through the highest spheres in each ring of one diameter's width."""
    radius, rings = np.linalg.norm(place[:, :2] - np.mean(place[:, :2], axis=0), axis=1), np.arange(0.0, 0.2, 0.02)
    highest = [np.max(place[(radius >= ring) & (radius < ring + 0.02), 2], initial=0.0) for ring in rings]
    return float(np.degrees(np.arctan(-np.polyfit(rings, highest, 1)[0])))


def draw(axes, places: dict[str, np.ndarray]):
    """Heaps from the side, one above the other."""
    for panel, (title, place) in zip(axes, places.items(), strict=True):
        x, _, z = (place[np.argsort(-place[:, 1])] - [np.mean(place[:, 0]), 0, 0]).T
        panel.scatter(x, z, s=60, c="tan", edgecolors="k", linewidths=0.4)
        panel.set(title=f"{title}: {slope(place):.0f} degrees", xlabel="x [m]", ylabel="z [m]", aspect="equal")
        panel.set(xlim=(-0.35, 0.35), ylim=(0.0, 0.12))


# %%
def main(arguments=None) -> list[dict]:
    """Print the table of one scene."""
    chosen = options(
        arguments,
        "few balls, few steps",
        scene={"choices": SCENES, "default": "scopi"},
        side=10,
        steps=200,
        friction={"type": float, "help": "mu of the heap, which is stepped without it as well"},
        out=Path("out/crowds"),
    )
    if chosen.friction is not None and chosen.scene != "heap":
        raise SystemExit("--friction: expected --scene heap with it")
    side, steps = (3, 20) if chosen.smoke else (chosen.side, chosen.steps)
    if chosen.friction is None:
        return table(chosen.scene, SCENES[chosen.scene](side), steps)[0]
    bare, flat = table("heap without friction", heap(side), steps)
    rows, place = table(f"heap with friction {chosen.friction:g}", heap(side, chosen.friction), steps)
    times = [np.mean([row["seconds"] for row in part]) for part in (rows, bare)]
    print(f"slope {slope(place):.1f} degrees, without friction {slope(flat):.1f}; time {times[0] / times[1]:.1f} fold")
    places = {f"friction {chosen.friction:g}": place, "no friction": flat}
    if installed("mujoco"):
        seconds, overlap, theirs = mujoco_c(heap(side, chosen.friction), steps)
        print(f"MuJoCo C: {seconds:.3g} s a step, overlap {overlap:.2g} radii, slope {slope(theirs):.1f} degrees")
        places["MuJoCo C"] = theirs
    picture(chosen.out, "heap", lambda axes: draw(axes, places), len(places))
    return rows


def table(title: str, scene: Scene, steps: int) -> tuple[list[dict], np.ndarray]:
    """The table of a scene, printed as it grows, and where its balls are at last (n, m)."""
    rows, place = [], scene.q0
    print(f"{title}: {scene.system.count} balls, {scene.system.per_ball} places a ball, h = {scene.h:g}")
    for row, now in measured(scene, steps, 10):
        place = now
        if not rows:
            print(" ".join(f"{name:>10}" for name in row))
        print(" ".join(f"{value:10.3g}" for value in row.values()), flush=True)
        rows.append(row)
    print(f"largest memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    return rows, place


if __name__ == "__main__":
    main()
