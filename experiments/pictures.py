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
import json
import os
import runpy
import tempfile
from collections.abc import Callable, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

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
# ## Studies


# %%
BALL = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
FALL = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-9.81]), "restitution": jnp.array(0.8)}


def last_height(height, scheme=None, substeps=50, end=1.5):
    times = jnp.array([0.0, end])
    return dc.simulate(BALL, FALL, jnp.array([height]), jnp.zeros(1), times, scheme=scheme, substeps=substeps).q[-1, 0]


def convergence() -> Figure:
    """A ball of two impacts: by how much its height and its derivative are off, over the step."""
    exact = float(last_height(1.0, dc.EventTimed(), 400)), float(jax.jacfwd(last_height)(1.0))
    figure, axes = blank("step [s]", "error")
    counts = np.array([20, 40, 80, 160, 320, 640])
    for k, scheme in enumerate((dc.ElasticProjection(), dc.EventTimed())):

        @jax.jit
        def both(substeps, scheme=scheme):
            return last_height(1.0, scheme, substeps), jax.jacfwd(lambda h: last_height(h, scheme, substeps))(1.0)

        found = np.array([[float(part) for part in both(jnp.array(int(n)))] for n in counts])
        off = np.maximum(np.abs(found - exact), 1e-16)
        name = type(scheme).__name__
        axes.loglog(1.5 / counts, off[:, 0], "o-", color=f"C{k}", label=f"{name}, height [m]")
        axes.loglog(1.5 / counts, off[:, 1], "s--", color=f"C{k}", mfc="none", label=f"{name}, its derivative")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.legend(frameon=False)
    return figure


def orders() -> Figure:
    """A pendulum that hits a stop: errors of state and Jacobian over the step, by the order of the scheme."""
    from orders import PENDULUM, event_exact, solver

    system, unpack = PENDULUM.model()
    truth = event_exact(system, unpack, PENDULUM.theta, PENDULUM.T)
    counts = np.array([50, 100, 200, 400, 800])
    figure, axes = blank("step [s]", "relative error")
    for k, order in enumerate((2, 4)):
        solve = solver(system, unpack, dc.EventTimed(order=order))
        rows = []
        for count in counts:
            jacobian, state = solve(jnp.asarray(PENDULUM.theta), jnp.asarray(PENDULUM.T), count)
            pairs = ((state, truth.state), (jacobian, truth.jacobian))
            rows.append([np.max(np.abs(a - b)) / np.max(np.abs(b)) for a, b in pairs])
        errors_over(axes, PENDULUM.T / counts, np.array(rows), f"order {order}", k)
    axes.legend(frameon=False)
    return figure


def friction_orders() -> Figure:
    """A block that is driven to and fro on a rough slope sticks and slips: errors over the step."""
    from friction_orders import FOLDER, coulomb, errors

    data = json.loads((Path(FOLDER) / "coulomb" / "driven_block.json").read_text())
    run, counts = data["runs"][0], np.array([50, 100, 200, 400])
    theta = jnp.array(list(data["parameters"].values()))
    rows, statuses = errors(coulomb.PROBLEMS["driven_block"], run, theta, counts)
    assert not statuses.any()
    figure, axes = blank("step [s]", "relative error")
    errors_over(axes, run["T"] / counts, rows, "driven block", 0)
    axes.legend(frameon=False)
    return figure


def errors_over(axes: Any, steps, rows: np.ndarray, name: str, colour: int) -> None:
    """Errors (m, 2) of state and Jacobian over the steps (m,)."""
    axes.loglog(steps, rows[:, 0], "o-", color=f"C{colour}", label=f"{name}, state")
    axes.loglog(steps, rows[:, 1], "s--", color=f"C{colour}", mfc="none", label=f"{name}, Jacobian")
    axes.xaxis.set_minor_formatter(NullFormatter())


def impact_gradients() -> Figure:
    """The height at the end over the initial height: a curve, and what a published step map makes of it."""
    figure, axes = blank("dropped from [m]", "height after 1.5 s [m]")
    heights = jnp.linspace(0.9, 1.0, 400)
    for scheme in (dc.ElasticProjection(), dc.EventTimed()):
        curve = jax.jit(jax.vmap(lambda h, scheme=scheme: last_height(h, scheme)))(heights)
        axes.plot(heights, curve, lw=1.2, label=type(scheme).__name__)
    axes.legend(frameon=False)
    return figure


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
            return dc.simulate(block, {"mu": mu}, jnp.zeros(2), jnp.array([2.0, 0.0]), jnp.linspace(0.0, 2.0, 21)).q[
                -1, 0
            ]

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
    """A ball's film, measured sixty times with other noise: the interval of e from each."""
    from interval_coverage import ball, fit_replicas, noise

    case = ball()
    q = case.positions()
    results = fit_replicas(case.fit(q), [q + noise(np.random.default_rng(3), (60, *q.shape), 0.0)])
    figure, axes = blank("measurement", "restitution")
    intervals(axes, np.array([result.interval95["e"] for result in results]), case.truth["e"])
    return figure


def run_to_run() -> Figure:
    """Balls whose restitution differs from run to run: intervals of one run each, and of six runs together."""
    from run_to_run import FAMILIES, joint, within

    family = FAMILIES["ball"]()
    scatter = {name: 4.0 * value for name, value in within(family).items()}
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    for axes, runs in zip(figure.subplots(1, 2, sharey=True), (1, 6), strict=True):
        fits = joint(family, runs, scatter, 30, seed=runs)
        intervals(axes, np.array([fit.interval95["e"] for fit in fits]), family.truth["e"])
        axes.set(title=f"{runs} run{'s' if runs > 1 else ''}", xlabel="experiment")
    figure.axes[0].set_ylabel("restitution")
    return figure


def intervals(axes: Any, ends: np.ndarray, truth: float) -> None:
    """Intervals (m, 2) side by side, those that miss the truth in another colour."""
    for i, (low, high) in enumerate(ends):
        axes.plot([i, i], [low, high], color="C0" if low <= truth <= high else "C1", lw=2)
    axes.axhline(truth, color="k", lw=0.8)


def verdicts() -> Figure:
    """Residuals of three measurements of a ball, and what the verdict says of each."""
    from verdicts import NOISE, TIMES, faults

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    rows = figure.subplots(3, sharex=True)
    for axes, (name, make) in zip(rows, faults(smoke=True).items(), strict=True):
        (result,) = make().results(1)
        axes.plot(TIMES, 1e3 * NOISE * result.residuals[0][:, 0], ".-", lw=0.6, ms=4)
        axes.axhline(0.0, color="k", lw=0.8)
        axes.set_title(f"{name.removeprefix('clean: ')}: {result.verdict.headline.partition(':')[0]}", fontsize=9)
    rows[1].set_ylabel("measured - fitted [mm]")
    rows[-1].set_xlabel("time [s]")
    return figure


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


def ensemble_bounces() -> Figure:
    """Two thousand balls of other restitutions and heights: between which heights half and nine tenths of them are."""
    rng, times = np.random.default_rng(0), jnp.linspace(0.0, 2.0, 201)
    batch = {"restitution": rng.normal(0.8, 0.02, 2000), "height": rng.normal(1.0, 0.02, 2000)}

    def run(lane):
        return dc.simulate(
            BALL, FALL | {"restitution": lane["restitution"]}, lane["height"][None], jnp.zeros(1), times
        ).q

    heights = np.asarray(dc.ensemble(run, batch))[:, :, 0]
    figure, axes = blank("time [s]", "height [m]")
    for low, high, alpha in ((0.05, 0.95, 0.2), (0.25, 0.75, 0.4)):
        axes.fill_between(times, *np.quantile(heights, (low, high), axis=0), color="C0", alpha=alpha, lw=0)
    axes.plot(times, np.median(heights, axis=0), lw=1.2)
    return figure


def projections() -> Figure:
    """Velocities before a corner of two walls, and where `qp.project` puts them: on the cone of what is admissible."""
    G = jnp.array([[0.0, 1.0], [0.8, -0.2]])
    v = jnp.array(np.random.default_rng(2).uniform(-1.0, 1.0, (60, 2)))
    u = np.asarray(jax.vmap(lambda v: dc.qp.project(jnp.ones(2), G, jnp.zeros(2), v).u)(v))
    figure, axes = blank("velocity x [m/s]", "velocity y [m/s]")
    axes.fill([0, 1.3, 1.3, 0.325], [0, 0, 1.3, 1.3], color="C2", alpha=0.15, lw=0)
    for before, after in zip(np.asarray(v), u, strict=True):
        axes.plot(*np.stack([before, after]).T, color="0.6", lw=0.7)
    axes.plot(*v.T, "o", ms=3, color="0.4", label="before")
    axes.plot(*u.T, "o", ms=4, color="C0", label="projected")
    axes.set(xlim=(-1.1, 1.3), ylim=(-1.1, 1.1), aspect="equal")
    figure.legend(frameon=False, loc="outside right center")
    return figure


def cones() -> Figure:
    """Impulses of a sphere that strikes a floor in many ways: within Coulomb's cone it grips, on it it slips."""
    sphere = dc.systems.balls(1, 3, planes=lambda t, p: (jnp.array([[0.0, 0.0, 1.0]]), jnp.zeros(1)), spin=True)
    params = {"mass": jnp.ones(1), "radius": jnp.full(1, 0.1), "gravity": jnp.zeros(3), "restitution": 0.6}
    q = jnp.array([0.0, 0.0, 0.1, 1.0, 0.0, 0.0, 0.0])
    rng = np.random.default_rng(0)
    u = np.concatenate([rng.uniform(-1, 1, (300, 2)), rng.uniform(-2, -0.2, (300, 1)), np.zeros((300, 3))], axis=1)

    @jax.jit
    @jax.vmap
    def struck(u):
        hit = dc.impact(sphere, params | {"friction": 0.25}, 0.0, q, u)
        return hit.impulse[0], jnp.linalg.norm(hit.friction[0])

    normal, friction = (np.asarray(part) for part in struck(jnp.asarray(u)))
    slips = friction > 0.25 * normal * (1 - 1e-9)
    figure, axes = blank("normal impulse [N s]", "friction [N s]")
    axes.plot([0.0, normal.max()], [0.0, 0.25 * normal.max()], color="k", lw=0.8, label="friction coefficient 0.25")
    axes.plot(normal[slips], friction[slips], "o", ms=3, color="C1", label="slips")
    axes.plot(normal[~slips], friction[~slips], "o", ms=3, color="C0", label="grips")
    axes.legend(frameon=False)
    return figure


def compare_fits() -> Figure:
    """Where fits of a ball end that start nearby, with exact derivatives and with differences."""
    from compare_fits import ARRIVED, differences, exact, near
    from starts import ball

    figure, axes = blank("simulations, those for differences included; Jacobians where they are exact", "misfit")
    cases = [ball(seed) for seed in range(12)]
    begins = [near(case, np.random.default_rng(100 + seed)) for seed, case in enumerate(cases)]
    for way, label in ((exact, "exact derivatives"), (differences, "finite differences")):
        ends = [way(case, begin) for case, begin in zip(cases, begins, strict=True)]
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
        return dc.simulate(BALL, {**FALL, "restitution": 0.95, "gravity": g[None]}, jnp.ones(1), jnp.zeros(1), times).q[
            :, 0
        ]

    g = np.linspace(-16.0, -5.0, 500)
    off = np.asarray(height(jnp.append(g, -9.81)))
    figure, axes = blank("gravity [m/s^2]", "mean squared misfit [m^2]")
    axes.plot(g, np.mean((off[:-1] - off[-1]) ** 2, axis=1), lw=1.2)
    return figure


def next_experiment() -> Figure:
    import next_experiment

    return next_experiment.ball().design(80).plot()


def random_worlds() -> Figure:
    """One of them: discs in a box, without gravity."""
    discs = dc.systems.balls(4, 2, box=(0.0, 1.0))
    params = {"mass": jnp.array([1.0, 2.0, 1.5, 0.7]), "radius": jnp.array([0.06, 0.1, 0.08, 0.05])}
    params |= {"gravity": jnp.zeros(2), "restitution": 0.95}
    q0 = [0.2, 0.2, 0.7, 0.3, 0.3, 0.7, 0.8, 0.8]
    u0 = [0.9, 0.5, -0.4, 0.6, 0.5, -0.8, -0.7, -0.3]
    motion = dc.simulate(discs, params, q0, u0, jnp.linspace(0.0, 2.0, 801))
    assert motion.status == 0
    figure, axes = blank("x [m]", "y [m]")
    for i, way in enumerate(np.moveaxis(np.asarray(motion.q).reshape(-1, 4, 2), 1, 0)):
        axes.plot(*way.T, lw=0.8, color=f"C{i}")
        disc(axes, way[-1], float(params["radius"][i]), f"C{i}")
    axes.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
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


def blank(x: str, y: str) -> tuple[Figure, Any]:
    """A figure with one pair of axes, without pyplot."""
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=x, ylabel=y)
    return figure, axes


# %%
PICTURES: dict[str, Callable[[], Figure]] = {
    made.__name__: made
    for made in (
        *(bounce, carts, own_system, all_devices, sensitivities),
        *(airtrack, bouncing_ball, halfpipe, spring, carriage),
        *(convergence, orders, friction_orders, impact_gradients, contact_gradients, random_worlds, crowds, starts),
        next_experiment,
        *(
            tumbling,
            ellipse,
            interval_coverage,
            run_to_run,
            verdicts,
            compare_fits,
            ensemble_bounces,
            projections,
            cones,
        ),
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
        files.append(options.out / f"{name}.png")
        PICTURES[name]().savefig(files[-1], dpi=80)
        print(f"{files[-1]}: {os.path.getsize(files[-1]) // 1000} kB", flush=True)
    return files


if __name__ == "__main__":
    main()
