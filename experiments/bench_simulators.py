# %% [markdown]
# # Beside other simulators: how fast, and how right?
#
# One ball, ten spheres and 64 spheres fall in the unit box (e = 0, no friction) and pile up; from 0.2 s on 100 steps
# of 2 ms are taken, MuJoCo's default step, in batches of copies with different velocities:
#
# - `VelocityProjection`, in both precisions, chunk by chunk on a CPU;
# - MuJoCo C, in double precision, one copy after the other; its gradient by forward differences;
# - MJX and Brax spring (`peers.py` says with what settings), in single precision as they are used.
#
# Steps per second, forward and with the gradient of a weighted sum of the last positions by q0 and u0; on a CPU they
# are seconds of processor time, which others on the machine do not disturb and of which two threads use up two.
# Compilation (processor time too), the working memory that XLA plans or MuJoCo allocates, the deepest penetration in
# radii, and the energy that is gained (nothing here can: kinetic and potential energy, over its start, above where it
# has been before) stand beside them. Soft contacts hold no more than their springs do, hard ones to rounding.
#
# Then work and precision on two problems with restitution whose states and Jacobians are known event by event: the
# error of either against the time that it takes, for EventTimed, ElasticProjection, MJX and MuJoCo C with central
# differences, one trajectory at a time.
#
# Every simulator runs in a process of its own and is stopped where a case takes longer than its limit; a batch is left
# out where the one before says that a call would take longer than `--limit`. What is not installed
# (`pip install 'diffcontact[simulators]'`) is left out, and said so.
#
# Run it: `taskset -c 0 python experiments/bench_simulators.py [--out FOLDER]` (hours; parts of it with `--scenes`,
# `--batches`, `--simulators`, `--skip`), or with `--smoke`. It writes simulators.txt and pictures to FOLDER
# (default out/bench_simulators).

# %%
from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from event_exact import event_exact
from impact_gradients import picture
from peers import NEEDS, Balls, Simulator, brax_spring, installed, mjx, mujoco_c

import diffcontact as dc

STEP, STEPS, LATE = 2e-3, 100, 0.2
# Copies that differ; larger batches repeat them. Of so many the whole motion is looked at.
LANES, LOOKED_AT = 32, 8


# %% [markdown]
# ## The scenes


# %%
def spheres(count: int) -> Balls:
    """Spheres of 10 cm and 1 kg in the unit box."""
    ones = np.ones(count)
    return Balls(count, 3, (0.0, 1.0), ones, 0.1 * ones, np.array([0.0, 0.0, -9.81]), 0.0)


SCENES = {"ball": spheres(1), "10 spheres": spheres(10), "64 spheres": spheres(64)}

# How many copies a CPU works on at a time.
CHUNK = {"ball": 256, "10 spheres": 16, "64 spheres": 1}


def ours(balls: Balls, h: float, scheme) -> Simulator:
    """diffcontact with a step map."""
    system = dc.systems.balls(balls.count, balls.dimension, box=balls.box)

    def path(q0, u0, steps):
        times = h * jnp.arange(steps + 1, dtype=q0.dtype)
        run = dc.simulate(system, balls.params, q0, u0, times, scheme=scheme)
        return run.q, run.u

    def end(q0, u0, steps):
        q, u = path(q0, u0, steps)
        return q[-1], u[-1]

    return Simulator(end, path)


def landing(balls: Balls, lanes: int, late: float) -> tuple[np.ndarray, np.ndarray]:
    """(q, u) of the lanes, (lanes, d), `late` seconds after they were let go from a grid with velocities of 1 m/s."""
    side = 1
    while side**3 < balls.count:
        side += 1
    places = np.linspace(0.12, 0.88, side) if side > 1 else [0.3]
    grid = np.stack(np.meshgrid(places, places, places, indexing="ij"), -1).reshape(-1, 3)
    # The lowest layers, bottom up.
    grid = grid[np.argsort(grid[:, 2], kind="stable")][: balls.count]
    q0 = np.tile(grid.ravel(), (lanes, 1))
    u0 = np.random.default_rng(0).normal(size=q0.shape)
    simulator = ours(balls, STEP, dc.VelocityProjection())
    fall = jax.jit(lambda *lanes: jax.lax.map(lambda lane: simulator.end(*lane, round(late / STEP)), lanes))
    return tuple(np.asarray(x) for x in fall(jnp.asarray(q0), jnp.asarray(u0)))


# %% [markdown]
# ## Measuring


# %%
@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        speed: simulated steps per second of all copies together.
        compilation: seconds.
        memory: MiB.
        penetration: deepest, in radii.
        gained: energy, over that at the start.
        note: why there is no figure, or what is wrong with it.
    """

    scene: str
    batch: int
    simulator: str
    dtype: str
    what: str
    speed: float = np.nan
    compilation: float = np.nan
    memory: float = np.nan
    penetration: float = np.nan
    gained: float = np.nan
    note: str = ""

    def __str__(self):
        figures = (
            f"{self.speed:11.0f}{self.compilation:8.1f}{self.memory:9.3g}{self.penetration:9.1e}{self.gained:9.1e}"
        )
        return f"{self.scene:11}{self.batch:6d} {self.simulator:19}{self.dtype:8}{self.what:9}{figures}  {self.note}"


HEAD = (
    f"{'scene':11}{'batch':>6} {'simulator':19}{'dtype':8}{'what':9}{'steps/s':>11}{'compile':>8}{'MiB':>9}"
    f"{'overlap':>9}{'energy':>9}"
)

# The ways to simulate a scene, with the precision that JAX is told to use.
BUILD: dict[str, tuple[Callable, str]] = {
    "VelocityProjection": (partial(ours, scheme=dc.VelocityProjection()), "float32"),
    "VelocityProjection 64": (partial(ours, scheme=dc.VelocityProjection()), "float64"),
    "MuJoCo C": (mujoco_c, "float64"),
    "MJX": (mjx, "float32"),
    "Brax spring": (brax_spring, "float32"),
}


def clock() -> float:
    """Seconds: of this process's processors where these do the work."""
    return time.process_time() if jax.default_backend() == "cpu" else time.perf_counter()


def timed(call: Callable, limit: float) -> tuple[float, Any]:
    """Median time of a call, and what it returns: one to warm up, then as many as fit in the limit, five at most."""
    begin, spent = time.perf_counter(), []
    result = jax.block_until_ready(call())
    while not spent or (len(spent) < 5 and time.perf_counter() - begin < limit):
        before = clock()
        jax.block_until_ready(call())
        spent.append(clock() - before)
    return float(np.median(spent)), result


def measure(name: str, scene: str, start, batches, steps: int, limit: float) -> Iterator[Row]:
    """All rows of one simulator on one scene."""
    build, dtype = BUILD[name]
    balls = SCENES[scene]
    simulator = build(balls, STEP)
    blank = Row(scene, 0, name.removesuffix(" 64"), dtype, "")
    blank = replace(blank, **looks(simulator, balls, [x[:LOOKED_AT].astype(dtype) for x in start], steps))
    chunk = CHUNK[scene] if build not in (mujoco_c, mjx, brax_spring) and jax.default_backend() == "cpu" else None
    for what in ("forward", "gradient"):
        function, each = (forward if what == "forward" else gradient)(simulator, steps), 0.0
        for batch in batches:
            row = replace(blank, batch=batch, what=what)
            if each * batch > limit:
                yield replace(row, note=f"left out: about {each * batch:.0f} s a call")
                continue
            lanes = [np.resize(x, (batch, x.shape[1])).astype(dtype) for x in start]
            call, compilation, memory = prepared(simulator, function, lanes, chunk)
            spent, result = timed(call, limit)
            each = spent / batch
            finite = all(np.all(np.isfinite(x)) for x in jax.tree.leaves(result))
            row = replace(row, speed=batch * steps / spent, compilation=compilation, memory=memory)
            yield replace(row, note="" if finite else "not finite")


def prepared(simulator: Simulator, function: Callable, lanes, chunk: int | None):
    """The call to be timed, the time it took to compile, and its memory [MiB]."""
    if simulator.memory is not None:
        return partial(function, *lanes), 0.0, simulator.memory() / 2**20
    lanes = [jnp.asarray(x) for x in lanes]
    mapped = jax.vmap(function)
    if chunk is not None and chunk < len(lanes[0]):
        mapped = lambda *lanes: jax.lax.map(lambda lane: function(*lane), lanes, batch_size=chunk)  # noqa: E731
    before = clock()
    compiled = jax.jit(mapped).lower(*lanes).compile()
    analysis = compiled.memory_analysis()
    memory = analysis.temp_size_in_bytes + analysis.output_size_in_bytes
    return partial(compiled, *lanes), clock() - before, memory / 2**20


def forward(simulator: Simulator, steps: int) -> Callable:
    return lambda q0, u0: simulator.end(q0, u0, steps)


def gradient(simulator: Simulator, steps: int) -> Callable:
    """d(sum_k cos(k) q_k) / d(q0, u0): reverse mode, or forward differences."""

    def value(q0, u0):
        q, _ = simulator.end(q0, u0, steps)
        return q @ np.cos(np.arange(q.shape[-1])).astype(q.dtype)

    if simulator.traced:
        return jax.grad(value, argnums=(0, 1))
    width = 1e-6

    def differences(q0, u0):
        moved = width * np.eye(2 * q0.shape[1])
        dq, du = np.split(moved, 2, axis=1)
        found = [value(q + dq, u + du) - value(q[None], u[None]) for q, u in zip(q0, u0, strict=True)]
        return np.stack(found) / width

    return differences


def looks(simulator: Simulator, balls: Balls, start, steps: int) -> dict[str, float]:
    """The deepest penetration and the energy gained, over some lanes."""
    path = partial(simulator.path, steps=steps)
    q, u = jax.jit(jax.vmap(path))(*start) if simulator.traced else path(*start)
    q, u = (np.asarray(x, float) for x in (q, u))
    system = dc.systems.balls(balls.count, balls.dimension, box=balls.box)
    gaps = jax.jit(jax.vmap(jax.vmap(lambda q: system.gap(0.0, q, balls.params))))(q)
    mass = np.repeat(balls.mass, balls.dimension)
    pull = mass * np.tile(balls.gravity, balls.count)
    energy = np.sum(mass * u**2 / 2 - pull * (q - balls.box[0]), axis=2)
    rise = np.max(energy - np.minimum.accumulate(energy, axis=1), axis=1)
    return {
        "penetration": max(0.0, float(-np.min(gaps)) / balls.radius[0]),
        "gained": float(np.max(rise / energy[:, 0])),
    }


# %% [markdown]
# ## Work and precision
#
# A ball that bounces twice, and two discs in a box with four impacts (`reference/exact`), e = 0.8. The errors are those
# of the state at the end and of its Jacobian by q0 and u0, relative to the largest entry. The contacts of MuJoCo and
# MJX are springs and dampers that bounce with e and last 16 steps.


# %%
@dataclass(frozen=True)
class Problem:
    """What bounces, from where, until when, and in how many steps."""

    balls: Balls
    q0: tuple
    u0: tuple
    T: float
    counts: tuple = (100, 300, 1000, 3000, 10000)

    def truth(self) -> tuple[np.ndarray, np.ndarray]:
        """The state at T, (2 d,), and its Jacobian, (2 d, 2 d)."""
        system = dc.systems.balls(self.balls.count, self.balls.dimension, box=self.balls.box)
        solution = event_exact(
            system, lambda x: (self.balls.params, *jnp.split(x, 2)), np.array(self.q0 + self.u0), self.T
        )
        return solution.state, solution.jacobian


PROBLEMS = {
    "bouncing ball": Problem(
        Balls(1, 1, (0.0, np.inf), np.ones(1), np.array([0.1]), np.array([-9.81]), 0.8), (1.1,), (0.0,), 1.46
    ),
    "two discs": Problem(
        Balls(2, 2, (0.0, 1.0), np.array([1.0, 2.5]), np.array([0.1, 0.15]), np.array([0.0, -9.81]), 0.8),
        (0.3, 0.5, 0.62, 0.61),
        (1.1, 0.4, -0.9, 0.2),
        0.5,
    ),
}


@dataclass(frozen=True)
class Work:
    """A point of the picture: seconds for, and error of, the state and its Jacobian."""

    problem: str
    method: str
    steps: int
    state: tuple[float, float]
    jacobian: tuple[float, float]

    def __str__(self):
        pairs = "".join(f"{1e3 * time:11.3f}{error:9.1e}" for time, error in (self.state, self.jacobian))
        return f"{self.problem:15}{self.method:19}{self.steps:7d}{pairs}"


WORK_HEAD = f"{'problem':15}{'method':19}{'steps':>7}{'state [ms]':>11}{'error':>9}{'Jac. [ms]':>11}{'error':>9}"

METHODS: dict[str, tuple[Callable, str]] = {
    "EventTimed": (partial(ours, scheme=dc.EventTimed()), "float64"),
    "ElasticProjection": (partial(ours, scheme=dc.ElasticProjection()), "float64"),
    "MJX": (partial(mjx, springs=True), "float64"),
    "MuJoCo C": (partial(mujoco_c, springs=True), "float64"),
}


def work(method: str, name: str, truth, counts, limit: float) -> Iterator[Work]:
    """The points of one method on one problem."""
    problem = PROBLEMS[name]
    x0 = np.array(problem.q0 + problem.u0)
    for steps in counts:
        # Fewer, larger steps do for a method that is exact between the events.
        count = max(2, steps // 20) if method == "EventTimed" else steps
        simulator = METHODS[method][0](problem.balls, problem.T / count)
        points = []
        for function, exact in zip(state_and_jacobian(simulator, count), truth, strict=True):
            spent, found = timed(partial(function, x0), limit / 10)
            error = np.max(np.abs(np.asarray(found) - exact)) / np.max(np.abs(exact))
            points.append((spent, float(error)))
        yield Work(name, method, count, *points)
        if points[1][0] > limit / 10:
            return


def state_and_jacobian(simulator: Simulator, steps: int) -> tuple[Callable, Callable]:
    """x0 (2 d,) -> the state (2 d,), and its Jacobian (2 d, 2 d)."""
    if simulator.traced:

        def end(x0):
            return jnp.concatenate(simulator.end(*jnp.split(x0, 2), steps))

        return jax.jit(end), jax.jit(jax.jacfwd(end))

    def ends(x0):
        return np.concatenate(simulator.end(*np.split(x0, 2, axis=1), steps), axis=1)

    def central(x0, width=1e-6):
        moved = width * np.eye(x0.size)
        return (ends(x0 + moved) - ends(x0 - moved)).T / (2 * width)

    return lambda x0: ends(x0[None])[0], central


# %% [markdown]
# ## One process each, bounded in time


# %%
def bounded(task: Callable, arguments: tuple, dtype: str, patience: float) -> Iterator:
    """What the generator task(*arguments) yields in a process of its own with JAX in that precision; it is stopped
    where the next result takes longer than `patience` seconds."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, task, arguments, dtype), daemon=True)
    process.start()
    theirs.close()
    try:
        while ours.poll(patience):
            result = ours.recv()
            if result is None:
                return
            yield result
        yield f"stopped: no result in {patience:.0f} s"
    except EOFError:
        yield "stopped: the process ended"
    finally:
        process.terminate()
        process.join()


def _send(connection, task, arguments, dtype) -> None:
    jax.config.update("jax_enable_x64", dtype == "float64")
    for result in task(*arguments):
        connection.send(result)
    connection.send(None)


# %% [markdown]
# ## Showing


# %%
def ratios(rows: list[Row]) -> list[str]:
    """Case by case, who is how many times as fast as whom."""
    lines = []
    for scene, batch, what in dict.fromkeys((row.scene, row.batch, row.what) for row in rows):
        found = [r for r in rows if (r.scene, r.batch, r.what) == (scene, batch, what) and np.isfinite(r.speed)]
        own = max((r for r in found if r.simulator == "VelocityProjection"), key=lambda r: r.speed, default=None)
        for row in found if own is not None else []:
            if row.simulator != "VelocityProjection":
                ratio = own.speed / row.speed
                said = (
                    f"{ratio:.2g} times as fast as {row.simulator}"
                    if ratio >= 1
                    else f"slower: {row.simulator} is {1 / ratio:.2g} times as fast"
                )
                lines.append(f"{scene:11}{batch:6d} {what:9} VelocityProjection ({own.dtype}) is {said}")
    return lines


def draw_speed(axes, rows: list[Row]) -> None:
    """Steps per second, forward above, gradient below."""
    cases = list(dict.fromkeys((row.scene, row.batch) for row in rows))
    names = list(dict.fromkeys((row.simulator, row.dtype) for row in rows))
    for axis, what in zip(axes, ("forward", "gradient"), strict=True):
        for i, name in enumerate(names):
            own = [row for row in rows if row.what == what and (row.simulator, row.dtype) == name]
            places = [cases.index((row.scene, row.batch)) + (i - len(names) / 2) * 0.8 / len(names) for row in own]
            axis.bar(places, [row.speed for row in own], 0.8 / len(names), align="edge", label=", ".join(name))
        axis.set_xticks(range(len(cases)), [f"{scene}\nx {batch}" for scene, batch in cases], fontsize=7)
        axis.set(yscale="log", ylabel=f"{what}: steps per second")
    axes[0].legend(fontsize=7)


def draw_work(axes, points: list[Work]) -> None:
    """Error against time, state and Jacobian of each problem."""
    problems = list(dict.fromkeys(point.problem for point in points))
    panels = [(problem, what) for problem in problems for what in ("state", "jacobian")]
    for axis, (problem, what) in zip(axes, panels, strict=True):
        for method in dict.fromkeys(point.method for point in points):
            pairs = [getattr(p, what) for p in points if (p.problem, p.method) == (problem, method)]
            axis.loglog([1e3 * pair[0] for pair in pairs], [max(pair[1], 1e-16) for pair in pairs], "o-", label=method)
        axis.set(xlabel="time of one trajectory [ms]", ylabel=f"error of the {what.replace('j', 'J')}", title=problem)
    axes[0].legend()


# %%
def speeds(options, chosen: list[str], say: Callable) -> list[Row]:
    """The table of all scenes."""
    rows: list[Row] = []
    say(HEAD)
    for scene in options.scenes:
        start = landing(SCENES[scene], 2 if options.smoke else LANES, STEP if options.smoke else LATE)
        for name in chosen:
            arguments = (name, scene, start, options.batches, 5 if options.smoke else STEPS, options.limit)
            if options.smoke:
                results = measure(*arguments)
            else:
                results = bounded(measure, arguments, BUILD[name][1], options.patience)
            for result in results:
                if isinstance(result, str):
                    result = Row(scene, 0, name, BUILD[name][1], "", note=result)
                say(str(result))
                rows.append(result)
    say("", *ratios(rows))
    return rows


def works(options, chosen: list[str], say: Callable) -> list[Work]:
    """The points of the work-precision picture."""
    points: list[Work] = []
    say("", WORK_HEAD)
    for name in list(PROBLEMS)[: 1 if options.smoke else None]:
        truth = PROBLEMS[name].truth()
        for method in chosen:
            counts = (100, 400) if options.smoke else PROBLEMS[name].counts
            arguments = (method, name, truth, counts, options.limit)
            if options.smoke:
                results = work(*arguments)
            else:
                results = bounded(work, arguments, METHODS[method][1], options.patience)
            for result in results:
                say(f"{name:15}{method:19}{result}" if isinstance(result, str) else str(result))
                points += [] if isinstance(result, str) else [result]
    return points


def main(arguments=None) -> tuple[list[Row], list[Work]]:
    """Print the tables, and return what was printed."""
    parser = argparse.ArgumentParser(description="diffcontact beside other simulators")
    parser.add_argument("--smoke", action="store_true", help="one ball, a few steps, no other simulators")
    parser.add_argument("--out", type=Path, default=Path("out/bench_simulators"))
    parser.add_argument("--scenes", nargs="+", choices=SCENES, default=[*SCENES])
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 256, 4096])
    parser.add_argument("--simulators", nargs="+", choices=BUILD, default=[*BUILD])
    parser.add_argument("--skip", choices=("speed", "work"), help="leave one of the two studies out")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for the calls of one case")
    parser.add_argument("--patience", type=float, default=900.0, help="seconds for one case with its compilation")
    options = parser.parse_args(arguments)
    if options.smoke:
        options.scenes, options.batches, options.simulators = ["ball"], [2], ["VelocityProjection 64"]
    jax.config.update("jax_enable_x64", True)

    lines: list[str] = []

    def say(*said: str) -> None:
        print(*said, sep="\n", flush=True)
        lines.extend(said)

    absent = [] if options.smoke else [name for name in NEEDS if not installed(name)]
    if absent:
        say(f"left out, not installed (pip install 'diffcontact[simulators]'): {', '.join(absent)}")
    clock_of = "processor time" if jax.default_backend() == "cpu" else "time"
    say(f"{jax.devices()[0].device_kind}, {clock_of}, XLA_FLAGS={os.environ.get('XLA_FLAGS', '')}")
    rows, points = [], []
    if options.skip != "speed":
        rows = speeds(options, [name for name in options.simulators if name not in absent], say)
    if options.skip != "work":
        methods = ["ElasticProjection"] if options.smoke else [name for name in METHODS if name not in absent]
        points = works(options, methods, say)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "simulators.txt").write_text("\n".join(lines) + "\n")
    if rows:
        picture(options.out, "speed", partial(draw_speed, rows=rows), 2)
    if points:
        problems = len({point.problem for point in points})
        picture(options.out, "work_precision", partial(draw_work, points=points), 2 * problems)
    return rows, points


if __name__ == "__main__":
    main()
