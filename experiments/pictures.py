# %% [markdown]
# # The pictures of README.md and of the gallery
#
# Each is made of a simulation, none of a measurement, in some seconds.
#
# Run it: `python experiments/pictures.py [NAME ...] [--out FOLDER]` (all of them: some minutes); needs matplotlib. It
# writes to experiments/pictures.

# %%
from __future__ import annotations

import argparse
import os
import runpy
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import study_pictures as studies
from matplotlib.animation import FuncAnimation
from matplotlib.figure import Figure
from study_pictures import blank

import diffcontact as dc
from diffcontact.commands.demo import TRUTH

jax.config.update("jax_enable_x64", True)

HERE = Path(__file__).resolve().parent
DOTS = 90


# %%
def example(name: str) -> dict[str, Any]:
    """What one of the first steps leaves behind, run in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        return runpy.run_path(str(HERE / f"{name}.py"))


def bounce() -> Figure:
    return example("first_steps")["result"].plot()


def carts() -> Figure:
    return example("carts")["result"].plot()


def own_system() -> Figure:
    return example("own_system")["result"].plot()


def all_devices() -> Figure:
    found = example("all_devices")
    figure, axes = blank("restitution", "dropped from [m]")
    shape = (200, 100)
    sides = (found["batch"][name].reshape(shape) for name in ("restitution", "height"))
    colours = axes.pcolormesh(*sides, found["found"]["height"].reshape(shape), shading="nearest", rasterized=True)
    figure.colorbar(colours, label="height after 1.5 s [m]")
    return figure


def sensitivities() -> Figure:
    found = example("sensitivities")
    figure, axes = blank("time [s]", "d q / d restitution [m]")
    for i, slopes in enumerate(np.asarray(found["found"].dq["restitution"]).reshape(len(found["times"]), -1).T):
        axes.plot(found["times"], slopes, "o-", label=f"ball {i}")
    axes.legend(frameon=False)
    return figure


# %% [markdown]
# ## Scenes: what their recordings look like


# %%
def recorded(system, params, start, times, noise: float, unit: str, names: Sequence[str] = (), factor=1.0) -> Figure:
    """A simulated motion, and what would have been measured of it."""
    motion = dc.simulate(system, params, *start, times)
    assert motion.status == 0
    q = factor * np.asarray(motion.q)
    figure, axes = blank("time [s]" if unit != "px" else "time [frames]", f"position [{unit}]")
    every = max(1, len(times) // DOTS)
    seen = q[::every] + noise * np.random.default_rng(0).normal(size=q[::every].shape)
    for k in range(q.shape[1]):
        axes.plot(times[::every], seen[:, k], "o", ms=3.5, mew=0, alpha=0.45, color=f"C{k}")
        axes.plot(times, q[:, k], lw=1, color=f"C{k}", label=names[k] if names else None)
    if names:
        axes.legend(frameon=False)
    if unit == "px":
        axes.invert_yaxis()
    return figure


def airtrack() -> Figure:
    start, times = ([0.2, 0.9], [0.25, -0.15]), np.linspace(0.0, 3.0, 301)
    params = {**TRUTH, "sag": 0.014}
    return recorded(dc.systems.carts(), params, start, times, 5.0, "mm", ("first", "second"), 1e3)


def bouncing_ball() -> Figure:
    params = {"restitution": 0.78, "gravity": 3.0, "drag": 3e-5, "floor": 600.0, "floor_drift": 0.1}
    return recorded(dc.systems.bouncing_ball(), params, ([40.0], [0.0]), np.linspace(0.0, 70.0, 281), 4.0, "px")


def halfpipe() -> Figure:
    params = {"mass": 1.0, "stiffness": 9.0, "damping": 0.02, "normal": 1.0, "rest": 0.0, "gamma": 0.05}
    start, times = ([0.3], [0.0]), np.linspace(0.0, 16.0, 481)
    return recorded(dc.systems.particle_line(), params, start, times, 4.0, "mm", (), 1e3)


def spring() -> Figure:
    params = {"mass": 0.529, "stiffness": 20.0, "damping": 0.03, "normal": 1.0, "rest": 0.0, "gamma": 0.0}
    start, times = ([0.05], [0.0]), np.linspace(0.0, 20.0, 801)
    return recorded(dc.systems.particle_line(), params, start, times, 1.0, "mm", (), 1e3)


def carriage() -> Figure:
    drive_times = np.linspace(0.0, 8.0, 401)
    params = {"mass": 1.2, "stiffness": 4.0, "damping": 0.4, "normal": 1.0, "rest": 0.0, "gamma": 1.2}
    params |= {"drive_times": drive_times, "drive": 2.0 * np.sin(1.5 * drive_times)}
    start, times = ([0.0], [0.0]), np.linspace(0.0, 8.0, 321)
    return recorded(dc.systems.particle_line(driven=True), params, start, times, 4.0, "mm", (), 1e3)


# %% [markdown]
# ## Bodies that move


# %%


def ellipse() -> Figure:
    """An ellipse that is thrown onto a floor."""
    return thrown(dc.shapes.Ellipse((0.035, 0.025)), ([0.0, 0.15, 0.4], [1.0, 0.3, -8.0]), 0.75, 0.19, 0.9, 0.035)


def tumbling() -> Figure:
    """A square that is thrown onto a floor, tumbles and comes to rest on a side."""
    return thrown(dc.shapes.Box(0.1, 0.1), ([0.0, 0.3, 0.3], [2.2, 0.6, -7.0]), 0.5, 0.25, 1.2, 0.08)


def thrown(shape: Any, start, restitution: float, friction: float, end: float, every: float) -> Figure:
    """A body's outline each time that it has gone so far or turned as much, and the way of its centre."""
    floor = dc.systems.bodies(shape, 2, lambda t, p: (jnp.array([[0.0, 1.0]]), jnp.zeros(1)))
    params = {"mass": jnp.ones(1), "gravity": jnp.array([0.0, -9.81])}
    params |= {"restitution": restitution, "friction": friction}
    motion = dc.simulate(floor, params, *start, jnp.linspace(0.0, end, 601))
    assert motion.status == 0
    figure, axes = blank("x [m]", "y [m]")
    q = np.asarray(motion.q)
    axes.plot(q[:, 0], q[:, 1], color="C1", lw=1)
    around = np.linspace(0.0, 2 * np.pi, 73)
    if isinstance(shape, dc.shapes.Ellipse):
        outline = np.stack([np.cos(around), np.sin(around)], axis=1) * np.asarray(shape.semi_axes)
    else:
        corners = np.asarray(shape.vertices)[list(shape.faces[0])]
        outline = np.concatenate([corners, corners[:1]])
    seen = [q[0]]
    for pose in q:
        moved = np.abs(pose - seen[-1]) * [1, 1, np.abs(outline).max()]
        if np.linalg.norm(moved) > every:
            seen.append(pose)
    for x, y, angle in seen:
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        axes.fill(*((outline @ turn.T) + [x, y]).T, fc="C0", ec="k", lw=0.6, alpha=0.25)
    axes.axhline(0.0, color="k", lw=1)
    axes.set(aspect="equal")
    return figure


def crowds() -> Figure:
    """A column of discs collapses onto a floor."""
    columns, rows, rng = 6, 14, np.random.default_rng(0)
    radius = rng.uniform(0.08, 0.1, columns * rows)
    place = np.stack(np.meshgrid(np.arange(columns), np.arange(rows)), axis=-1).reshape(-1, 2) * 0.205 + [2.0, 0.11]
    place[:, 0] += rng.uniform(-2e-3, 2e-3, len(place))
    heap = dc.systems.balls(len(place), 2, box=((0.0, 0.0), (5.0, jnp.inf)), cell=0.21)
    params = {"mass": jnp.ones(len(place)), "radius": radius, "gravity": jnp.array([0.0, -9.81]), "restitution": 0.0}
    times = jnp.linspace(0.0, 0.45, 91)
    motion = dc.simulate(heap, params, place.ravel(), np.zeros(place.size), times, scheme=dc.VelocityProjection())
    assert motion.status == 0
    figure, axes = blank("x [m]", "y [m]")
    for centre, r in zip(np.asarray(motion.q[-1]).reshape(-1, 2), radius, strict=True):
        disc(axes, centre, r, "C0")
    axes.set(xlim=(0, 5), ylim=(0, 2.6), aspect="equal")
    return figure


def disc(axes: Any, centre, radius: float, colour: str) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle(tuple(centre), radius, fc=colour, ec="k", lw=0.4, alpha=0.7))


# %% [markdown]
# ## Pictures of the guides


# %%
def pendulum() -> tuple[dc.System, dict[str, float]]:
    """A pendulum with drag that hits a wall: forces are smooth, so that orders show."""
    system = dc.System(
        gap=lambda t, q, p: q + p["wall"],
        force=lambda t, q, u, p: -9.81 * p["length"] * jnp.sin(q) - p["drag"] * u,
        mass=lambda q, p: p["length"] ** 2 * jnp.ones(1),
        restitution=lambda p: p["e"],
    )
    return system, {"wall": 0.2, "length": 0.5, "drag": 0.01, "e": 0.7}


def work_precision() -> Figure:
    """Processor time for state and derivative of a pendulum at a wall, and their errors, for each scheme over steps."""
    system, params = pendulum()
    schemes = {f"EventTimed, order {order}": dc.EventTimed(order=order) for order in (2, 4, 6)}
    schemes["ElasticProjection"] = dc.ElasticProjection()

    def ends(scheme, steps):
        times = jnp.linspace(0.0, 2.0, steps + 1)

        def end(e):
            run = dc.simulate(system, {**params, "e": e}, [1.0], [0.0], times, scheme=scheme)
            return jnp.concatenate([run.q[-1], run.u[-1]])

        both = jax.jit(lambda e: (end(e), jax.jacfwd(end)(e)))
        found, seconds = jax.block_until_ready(both(0.7)), []
        for _ in range(20):
            began = time.process_time()
            jax.block_until_ready(both(0.7))
            seconds.append(time.process_time() - began)
        return found, min(seconds)

    truth, _ = ends(dc.EventTimed(order=6), 1024)
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, 2, sharey=True)
    for label, scheme in schemes.items():
        # The published scheme's steps are short work, and its plateau shows for many of them.
        rows = [ends(scheme, 2**k) for k in (range(4, 9) if isinstance(scheme, dc.EventTimed) else range(4, 14, 2))]
        for k, axes in enumerate(panels):
            errors = [np.linalg.norm(found[k] - truth[k]) / np.linalg.norm(truth[k]) for found, _ in rows]
            axes.loglog([1e3 * seconds for _, seconds in rows], errors, "o-", ms=4, label=label)
    for axes, title in zip(panels, ("state", "derivative by e"), strict=True):
        axes.set(xlabel="processor time for both [ms]", title=title)
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("relative error")
    panels[1].legend(frameon=False)
    return figure


def sawtooth() -> Figure:
    """Where a ball is after 0.8 s, over the height of its fall: the motion, and a scheme that sees impacts at steps."""
    ball = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
    params = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-9.81]), "restitution": 0.8}
    times = np.linspace(0.0, 0.8, 33)

    def end(scheme, height):
        return dc.simulate(ball, params, height[None], [0.0], times, scheme=scheme).q[-1, 0]

    heights = jnp.linspace(0.8, 1.2, 801)
    figure, axes = blank("height of the fall [m]", "height after 0.8 s [m]")
    for label, scheme in (
        ("ElasticProjection, steps of 25 ms", dc.ElasticProjection()),
        ("EventTimed", dc.EventTimed()),
    ):
        axes.plot(heights, jax.jit(jax.vmap(partial(end, scheme)))(heights), lw=1.2, label=label)
    axes.legend(frameon=False)
    return figure


def fitted_bounce() -> FuncAnimation:
    """The fit of the first steps, as it moves: the ball, what was measured of it, and the fitted curve."""
    found = example("first_steps")
    times, film = found["times"], found["film"][:, 0]
    fitted = np.asarray(found["result"].trajectories[0].q)[:, 0]
    figure = Figure(figsize=(7.2, 3.0), layout="constrained")
    place, curve = figure.subplots(1, 2, width_ratios=[1, 5], sharey=True)
    place.set(xlim=(-0.25, 0.25), ylim=(-0.03, 1.08), xticks=[], ylabel="height [m]")
    curve.set(xlim=(times[0], times[-1]), xlabel="time [s]")
    place.axhline(0.0, color="k", lw=1)
    curve.plot(times, fitted, color="0.85", lw=1)
    (seen,) = curve.plot([], [], "o", ms=3.5, mew=0, color="C0", label="measured")
    (line,) = curve.plot([], [], color="C1", lw=1.5, label="fitted")
    (ghost,) = place.plot([], [], "o", ms=13, mew=0, color="C0", alpha=0.4)
    (ball,) = place.plot([], [], "o", ms=13, mfc="none", mec="C1", mew=1.5)
    curve.legend(frameon=False, loc="upper right")

    def draw(k: int):
        seen.set_data(times[: k + 1], film[: k + 1])
        line.set_data(times[: k + 1], fitted[: k + 1])
        ghost.set_data([0.0], [film[k]])
        ball.set_data([0.0], [fitted[k]])
        return seen, line, ghost, ball

    # The last picture stays for a second.
    return FuncAnimation(figure, draw, frames=[*range(0, len(times), 2), *[len(times) - 1] * 15], interval=66)


# %%
STUDIES = (
    *(studies.contact_gradients, studies.starts),
    *(studies.next_experiment, studies.interval_coverage, studies.verdicts, studies.compare_fits),
)
PICTURES: dict[str, Callable[[], Figure | FuncAnimation]] = {
    made.__name__: made
    for made in (
        *(bounce, carts, own_system, all_devices, sensitivities),
        *(airtrack, bouncing_ball, halfpipe, spring, carriage),
        *(tumbling, ellipse, crowds),
        *(fitted_bounce, work_precision, sawtooth),
        *STUDIES,
    )
}


def main(arguments: Sequence[str] | None = None) -> list[Path]:
    """Make the pictures; returns their files."""
    parser = argparse.ArgumentParser(description="The pictures of README.md and of the gallery.")
    parser.add_argument(
        "names", nargs="*", choices=[*PICTURES, []], metavar="NAME", help=f"of {', '.join(PICTURES)}; default: all"
    )
    parser.add_argument("--out", type=Path, default=HERE / "pictures")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    files = []
    for name in options.names or PICTURES:
        made = PICTURES[name]()
        moves = isinstance(made, FuncAnimation)
        files.append(options.out / f"{name}.{'gif' if moves else 'png'}")
        made.save(files[-1], writer="pillow", dpi=80) if moves else made.savefig(files[-1], dpi=80)
        print(f"{files[-1]}: {os.path.getsize(files[-1]) // 1000} kB", flush=True)
    return files


if __name__ == "__main__":
    main()
