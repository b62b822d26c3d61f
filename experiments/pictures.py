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
from matplotlib.animation import FuncAnimation
from matplotlib.figure import Figure
from matplotlib.patches import Circle
from problems.fits import CASES

import diffcontact as dc
from diffcontact.commands.demo import TRUTH

jax.config.update("jax_enable_x64", True)

HERE = Path(__file__).resolve().parent
DOTS = 90
BALL = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
FALL = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-9.81]), "restitution": jnp.array(0.8)}


def blank(x: str, y: str) -> tuple[Figure, Any]:
    """A figure with one pair of axes, without pyplot."""
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=x, ylabel=y)
    return figure, axes


# %%
def example(name: str) -> dict[str, Any]:
    """What one of the first steps leaves behind, run in a folder of its own."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        return runpy.run_path(str(HERE / f"{name}.py"))


def plotted(name: str) -> Figure:
    return example(name)["result"].plot()


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


LINE = {"mass": 1.0, "normal": 1.0, "rest": 0.0}
DRIVEN = np.linspace(0.0, 8.0, 401)
# System, parameters, start, times, noise and unit, names of the curves, and the unit over metres.
SCENES: dict[str, tuple] = {
    "airtrack": (
        *(dc.systems.carts(), {**TRUTH, "sag": 0.014}, ([0.2, 0.9], [0.25, -0.15]), np.linspace(0.0, 3.0, 301)),
        *(5.0, "mm", ("first", "second"), 1e3),
    ),
    "bouncing_ball": (
        dc.systems.bouncing_ball(),
        {"restitution": 0.78, "gravity": 3.0, "drag": 3e-5, "floor": 600.0, "floor_drift": 0.1},
        *(([40.0], [0.0]), np.linspace(0.0, 70.0, 281), 4.0, "px"),
    ),
    "halfpipe": (
        *(dc.systems.particle_line(), LINE | {"stiffness": 9.0, "damping": 0.02, "gamma": 0.05}),
        *(([0.3], [0.0]), np.linspace(0.0, 16.0, 481), 4.0, "mm", (), 1e3),
    ),
    "spring": (
        *(dc.systems.particle_line(), LINE | {"mass": 0.529, "stiffness": 20.0, "damping": 0.03, "gamma": 0.0}),
        *(([0.05], [0.0]), np.linspace(0.0, 20.0, 801), 1.0, "mm", (), 1e3),
    ),
    "carriage": (
        dc.systems.particle_line(driven=True),
        LINE
        | {"mass": 1.2, "stiffness": 4.0, "damping": 0.4, "gamma": 1.2}
        | {"drive_times": DRIVEN, "drive": 2.0 * np.sin(1.5 * DRIVEN)},
        *(([0.0], [0.0]), np.linspace(0.0, 8.0, 321), 4.0, "mm", (), 1e3),
    ),
}


# %% [markdown]
# ## Bodies that move


# %%


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
        axes.add_patch(Circle(tuple(centre), r, fc="C0", ec="k", lw=0.4, alpha=0.7))
    axes.set(xlim=(0, 5), ylim=(0, 2.6), aspect="equal")
    return figure


# %% [markdown]
# ## Pictures of the guides


# %%
def work_precision() -> Figure:
    """Processor time for state and derivative of a pendulum at a wall, and their errors, for each scheme over steps."""
    found = example("own_system")
    system, params = found["pendulum"], found["truth"]
    schemes = {f"EventTimed, order {order}": dc.EventTimed(order=order) for order in (2, 4, 6)}
    schemes["ElasticProjection"] = dc.ElasticProjection()

    def ends(scheme, steps):
        times = jnp.linspace(0.0, 2.0, steps + 1)

        def end(e):
            run = dc.simulate(system, {**params, "restitution": e}, [1.0], [0.0], times, scheme=scheme)
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
    times = np.linspace(0.0, 0.8, 33)

    def end(scheme, height):
        return dc.simulate(BALL, FALL, height[None], [0.0], times, scheme=scheme).q[-1, 0]

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


# %% [markdown]
# ## Studies: what derivatives miss, how intervals cover, where fits end


# %%
def contact_gradients() -> Figure:
    """Where a sliding block stops, over the friction, with tangents."""
    block = dc.System(
        gap=lambda t, q, p: q[1:],
        force=lambda t, q, u, p: jnp.array([0.0, -9.81]),
        mass=lambda q, p: jnp.ones(2),
        restitution=lambda p: 0.0,
        slip=lambda t, q, u, p: u[None, :1],
        friction=lambda p: p["mu"],
    )

    @jax.jit
    @jax.vmap
    def stop(mu):
        def place(mu):
            start = jnp.zeros(2), jnp.array([2.0, 0.0])
            return dc.simulate(block, {"mu": mu}, *start, jnp.linspace(0.0, 2.0, 21)).q[-1, 0]

        return place(mu), jax.jacfwd(place)(mu)

    mu = np.linspace(0.15, 0.8, 14)
    places, slopes = (np.asarray(part) for part in stop(mu))
    figure, axes = blank("friction coefficient", "where it stops [m]")
    for at, place, slope in zip(mu, places, slopes, strict=True):
        step = 0.03 * np.array([-1.0, 1.0])
        axes.plot(at + step, place + slope * step, color="C1", lw=2)
    axes.plot(mu, places, "o", color="C0", ms=4)
    return figure


def interval_coverage() -> Figure:
    """A ball's film, measured sixty times with other noise: the interval of e from each, in colour if it misses."""
    from verdicts import clean

    family = clean("ball")
    figure, axes = blank("measurement", "restitution")
    for i, result in enumerate(family.results(60, seed=3)):
        low, high = result.interval95["e"]
        axes.plot([i, i], [low, high], color="C0" if low <= family.sought["e"] <= high else "C1", lw=2)
    axes.axhline(family.sought["e"], color="k", lw=0.8)
    return figure


def verdicts() -> Figure:
    """Residuals of three measurements of a ball, and what the verdict says of each."""
    from verdicts import FAMILIES, NOISE, SMOKE, TIMES

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    rows = figure.subplots(3, sharex=True)
    for axes, name in zip(rows, SMOKE[:3], strict=True):
        (result,) = FAMILIES[name]().results(1)
        axes.plot(TIMES, 1e3 * NOISE * result.residuals[0][:, 0], ".-", lw=0.6, ms=4)
        axes.axhline(0.0, color="k", lw=0.8)
        axes.set_title(f"{name.partition(': ')[2]}: {result.verdict.headline.partition(':')[0]}", fontsize=9)
    rows[1].set_ylabel("measured - fitted [mm]")
    rows[-1].set_xlabel("time [s]")
    return figure


def compare_fits() -> Figure:
    """Where fits of a ball end that start nearby, with exact derivatives and with differences."""
    from compare_fits import ARRIVED, BOUNDED, WAYS, begins

    figure, axes = blank("simulations, those for differences included; Jacobians where they are exact", "misfit")
    given = begins(BOUNDED["ball"], 12)
    for way, label in (("diffcontact", "exact derivatives"), ("differences", "finite differences")):
        ends = [WAYS[way](BOUNDED["ball"], *one) for one in given]
        axes.semilogx([end.evaluations for end in ends], [end.misfit for end in ends], "o", alpha=0.7, label=label)
    axes.axhline(ARRIVED, color="k", lw=0.8, label="arrived below it")
    axes.set_ylim(0.0, 2.2)
    axes.legend(frameon=False, ncols=3, loc="upper center")
    return figure


def starts() -> Figure:
    """Why bad starts are hard: the cost of a fit over one of its parameters."""
    times = jnp.linspace(0.0, 8.0, 161)

    @jax.jit
    @jax.vmap
    def height(g):
        params = {**FALL, "restitution": 0.95, "gravity": g[None]}
        return dc.simulate(BALL, params, jnp.ones(1), jnp.zeros(1), times).q[:, 0]

    g = np.linspace(-16.0, -5.0, 500)
    off = np.asarray(height(jnp.append(g, -9.81)))
    figure, axes = blank("gravity [m/s^2]", "mean squared misfit [m^2]")
    axes.plot(g, np.mean((off[:-1] - off[-1]) ** 2, axis=1), lw=1.2)
    return figure


def next_experiment() -> Figure:
    """Films of a falling ball that could be made, and how certain the restitution would be after each."""
    truth = {"e": 0.8, "g": 9.81, "height": np.array(0.5), "speed": np.array(0.0)}
    times = np.arange(49) / 60.0
    ball = CASES["ball"].system
    film = dc.Observations(times, np.zeros((times.size, 1)), 2e-3, lambda motion, p: motion.q)
    problem = dc.Problem(ball, film, lambda p: (p["height"][None], p["speed"][None]), substeps=1)
    free = {"e": dc.Interval(0.0, 1.0), "g": dc.Positive(), "height": dc.Real(), "speed": dc.Real()}
    controls = {"height": dc.Interval(0.2, 2.0), "duration": dc.Interval(0.5, 1.5), "frame_rate": [60.0, 120.0]}
    return dc.identify.design(problem, truth, free, controls, target="e", candidates=80).plot()


# %%
PICTURES: dict[str, Callable[[], Figure | FuncAnimation]] = {
    **{name: partial(plotted, name) for name in ("carts", "own_system")},
    "bounce": partial(plotted, "first_steps"),
    **{name: partial(recorded, *scene) for name, scene in SCENES.items()},
    # Each is thrown onto a floor, and comes to rest on a side.
    "tumbling": partial(thrown, dc.shapes.Box(0.1, 0.1), ([0.0, 0.3, 0.3], [2.2, 0.6, -7.0]), 0.5, 0.25, 1.2, 0.08),
    "ellipse": partial(
        thrown, dc.shapes.Ellipse((0.035, 0.025)), ([0.0, 0.15, 0.4], [1.0, 0.3, -8.0]), 0.75, 0.19, 0.9, 0.035
    ),
    **{
        made.__name__: made
        for made in (
            *(all_devices, sensitivities, crowds, fitted_bounce, work_precision, sawtooth),
            *(contact_gradients, starts, next_experiment, interval_coverage, verdicts, compare_fits),
        )
    },
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
