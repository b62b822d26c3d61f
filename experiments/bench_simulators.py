# %% [markdown]
# # Beside other simulators: how fast?
#
# One ball, ten spheres and 64 spheres fall in the unit box (e = 0, no friction) and pile up; from 0.2 s on 100 steps
# of 2 ms are taken, MuJoCo's default step, in batches of copies with different velocities:
#
# - `VelocityProjection`, in both precisions;
# - MuJoCo C, in double precision, one copy after the other; its gradient by forward differences;
# - MJX and Brax spring (`peers.py` says with what settings), in single precision as they are used.
#
# Steps per second, forward and with the gradient of a weighted sum of the last positions by q0 and u0; on a CPU they
# are seconds of processor time, which others on the machine do not disturb and of which two threads use up two. What
# runs in JAX is given the whole batch at once and, on a CPU, chunk by chunk too; the faster of the two counts.
# Compilation (processor time too), the working memory that XLA plans or MuJoCo allocates, the contacts that are closed
# in each copy (nearer than a hundredth of a radius, mean over copies and steps), the deepest penetration in radii, and
# the energy that is gained (nothing here can: kinetic and potential energy, over its start, above where it has been
# before) stand beside them. Soft contacts hold no more than their springs do, hard ones to rounding.
#
# The residual is what contacts that push cannot explain of the last step, least squares over impulses r of all that are
# nearer than a tenth of a radius, with their rows N at one end of the step or the other, in units of gravity's part:
#
#     min_{r >= 0} |M^(1/2) (u' - u - h g) - M^(-1/2) N^T r| / |M^(1/2) h g|
#
# Ten spheres on one core of a Xeon on which others computed, 18 contacts a copy in the mean, 16 in MJX (`taskset -c 1
# python experiments/bench_simulators.py --scenes "10 spheres" --limit 30`, half an hour; what a call would take longer
# than 30 s for is left out; no GPU was at hand):
#
# | simulator | copies | steps/s | with gradient | compile, s | residual | overlap |
# |---|---|---|---|---|---|---|
# | VelocityProjection, float32 | 1 | 29 000 | 16 000 | 6, 11 | 1e-6 | 8e-6 |
# | | 256 | 78 000 | 34 000 | 7, 12 | 1e-6 | 8e-6 |
# | | 16 384 | 66 000 | left out | 6 | 1e-6 | 8e-6 |
# | VelocityProjection, float64 | 1 | 25 000 | 17 000 | 6, 9 | 3e-15 | 1e-14 |
# | | 256 | 65 000 | 28 000 | 7, 10 | 3e-15 | 1e-14 |
# | | 16 384 | 69 000 | left out | 6 | 3e-15 | 1e-14 |
# | MuJoCo C 3.17, float64 | 1 | 53 000 | 840 | 0 | 3e-15 | 0.18 |
# | | 256 | 56 000 | left out | 0 | 3e-15 | 0.18 |
# | | 16 384 | 54 000 | left out | 0 | 3e-15 | 0.18 |
# | MJX 3.17, float32 | 1 | 12 000 | 2 000 | 7, 28 | 1e-6 | 0.18 |
# | | 256 | 13 000 | 3 000 | 12, 35 | 1e-6 | 0.18 |
# | Brax spring 0.14, float32 | 1 | 28 000 | 4 100 | 7, 31 | 1e-6 | 0.09 |
# | | 256 | 46 000 | 6 400 | 10, 35 | 1e-6 | 0.09 |
#
# One copy alone is where MuJoCo C is ahead, 1.8 times as fast; its gradient is by differences.
#
# Every simulator runs in a process of its own and is stopped where a case takes longer than its limit; a batch is left
# out where the one before says that a call would take longer than `--limit`. What is not installed
# (`pip install 'diffcontact[simulators]'`) is left out, and said so. Errors are in `contact_gradients`.
#
# Run it: `taskset -c 0 python experiments/bench_simulators.py [--out FOLDER]` (hours; parts of it with `--scenes`,
# `--batches`, `--simulators`), or with `--smoke`. It writes simulators.txt and a picture to FOLDER
# (default out/bench_simulators).

# %%
from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from measuring import Report, bars, bounded, clock, options, picture, timed
from peers import Balls, Simulator, absent, brax_spring, mjx, mujoco_c, ours
from scipy.optimize import nnls

import diffcontact as dc
from diffcontact.system import contacts

STEP, STEPS, LATE = 2e-3, 100, 0.2
# Copies that differ; larger batches repeat them. Of so many the whole motion is looked at.
LANES, LOOKED_AT = 32, 8


# %% [markdown]
# ## The scenes


# %%
# Near contacts alone are worth finding where there are many more pairs.
SCENES = {"ball": Balls(1), "10 spheres": Balls(10), "64 spheres": Balls(64, cell=0.2)}

# How many copies a CPU works on at a time, where it is not given all.
CHUNK = {"ball": 256, "10 spheres": 32, "64 spheres": 1}


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
    """One line of the table."""

    scene: str
    batch: int
    simulator: str
    dtype: str
    what: str
    speed: float = np.nan  # simulated steps per second of all copies together
    compilation: float = np.nan  # seconds
    memory: float = np.nan  # MiB
    contacts: float = np.nan  # closed in a copy, in the mean
    residual: float = np.nan  # what pushing contacts do not explain of a step, over h g
    penetration: float = np.nan  # deepest, in radii
    gained: float = np.nan  # energy, over that at the start
    note: str = ""  # why there is no figure, or what is wrong with it

    def __str__(self):
        figures = (
            f"{self.speed:11.0f}{self.compilation:8.1f}{self.memory:9.3g}{self.contacts:9.1f}{self.residual:9.1e}"
            f"{self.penetration:9.1e}{self.gained:9.1e}"
        )
        return f"{self.scene:11}{self.batch:6d} {self.simulator:19}{self.dtype:8}{self.what:9}{figures}  {self.note}"


HEAD = (
    f"{'scene':11}{'batch':>6} {'simulator':19}{'dtype':8}{'what':9}{'steps/s':>11}{'compile':>8}{'MiB':>9}"
    f"{'contacts':>9}{'residual':>9}{'overlap':>9}{'energy':>9}"
)

# The ways to simulate a scene, with the precision that JAX is told to use.
BUILD: dict[str, tuple[Callable, str]] = {
    "VelocityProjection": (partial(ours, scheme=dc.VelocityProjection()), "float32"),
    "VelocityProjection 64": (partial(ours, scheme=dc.VelocityProjection()), "float64"),
    "MuJoCo C": (mujoco_c, "float64"),
    "MJX": (mjx, "float32"),
    "Brax spring": (brax_spring, "float32"),
}


def measure(name: str, scene: str, start, batches, steps: int, limit: float) -> Iterator[Row]:
    """All rows of one simulator on one scene."""
    build, dtype = BUILD[name]
    balls = SCENES[scene]
    simulator = build(balls, STEP)
    blank = Row(scene, 0, name.removesuffix(" 64"), dtype, "")
    blank = replace(blank, **looks(simulator, balls, [x[:LOOKED_AT].astype(dtype) for x in start], steps))
    for what in ("forward", "gradient"):
        function, each = (forward if what == "forward" else gradient)(simulator, steps), 0.0
        for batch in batches:
            row = replace(blank, batch=batch, what=what)
            if each * batch > limit:
                yield replace(row, note=f"left out: about {each * batch:.0f} s a call")
                continue
            lanes = [np.resize(x, (batch, x.shape[1])).astype(dtype) for x in start]
            tried = [case(row, simulator, function, lanes, chunk, steps, limit) for chunk in ways(row, simulator)]
            row = max(tried, key=lambda row: row.speed)
            each = steps / row.speed
            yield row


def ways(row: Row, simulator: Simulator) -> tuple[int | None, ...]:
    """The chunks to try, None for the whole batch at once."""
    several = simulator.traced and jax.default_backend() == "cpu" and CHUNK[row.scene] < row.batch
    return (CHUNK[row.scene], None) if several else (None,)


def case(row: Row, simulator: Simulator, function: Callable, lanes, chunk: int | None, steps: int, limit) -> Row:
    """The row with its figures."""
    call, compilation, memory = prepared(simulator, function, lanes, chunk)
    spent, result = timed(call, limit)
    finite = all(np.all(np.isfinite(x)) for x in jax.tree.leaves(result))
    notes = ([] if chunk is None else [f"{chunk} at a time"]) + ([] if finite else ["not finite"])
    speed = len(lanes[0]) * steps / spent
    return replace(row, speed=speed, compilation=compilation, memory=memory, note=", ".join(notes))


def prepared(simulator: Simulator, function: Callable, lanes, chunk: int | None):
    """The call to be timed, the time it took to compile, and its memory [MiB]."""
    if simulator.memory is not None:
        return partial(function, *lanes), 0.0, simulator.memory() / 2**20
    lanes = [jnp.asarray(x) for x in lanes]
    mapped = jax.vmap(function)
    if chunk is not None:
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
    """Contacts, the residual, the deepest penetration and the energy gained, over some lanes."""
    path = partial(simulator.path, steps=steps)
    q, u = jax.jit(jax.vmap(path))(*start) if simulator.traced else path(*start)
    q, u = (np.asarray(x, float) for x in (q, u))
    gaps = jax.jit(jax.vmap(jax.vmap(lambda q: balls.system.gap(0.0, q, balls.params))))(q)
    energy = np.sum(u**2 / 2, axis=2) - balls.gravity * np.sum(q[..., 2::3], axis=2)
    rise = np.max(energy - np.minimum.accumulate(energy, axis=1), axis=1)
    return {
        "contacts": float(np.mean(np.sum(gaps < balls.radius / 100, axis=2))),
        "residual": max(residual(balls, *lane) for lane in zip(q[:, -2:], u[:, -2:], strict=True)),
        "penetration": max(0.0, float(-np.min(gaps)) / balls.radius),
        "gained": float(np.max(rise / energy[:, 0])),
    }


def residual(balls: Balls, q, u) -> float:
    """What contacts that push do not explain of a step between two states q, u (2, d)."""
    fall = STEP * np.tile([0.0, 0.0, balls.gravity], balls.count)
    left = []
    for place in q:
        here = contacts(balls.system, balls.params, 0.0, jnp.asarray(place))
        rows = np.asarray(here.normals)[np.asarray(here.gap) < balls.radius / 10]
        change = u[1] - u[0] - fall
        left.append(nnls(rows.T, change)[1] if len(rows) else np.linalg.norm(change))
    return float(min(left) / np.linalg.norm(fall))


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


def draw(axes, rows: list[Row]) -> None:
    """Steps per second, forward above, gradient below."""
    cases = list(dict.fromkeys((row.scene, row.batch) for row in rows))
    for axis, what in zip(axes, ("forward", "gradient"), strict=True):
        own = [row for row in rows if row.what == what]
        bars(axis, cases, [((r.scene, r.batch), f"{r.simulator}, {r.dtype}", r.speed) for r in own], "{}\nx {}")
        axis.set(yscale="log", ylabel=f"{what}: steps per second")
    axes[0].legend(fontsize=7)


# %%
def main(arguments=None) -> list[Row]:
    """Print the table, and return what was printed."""
    chosen = options(
        arguments,
        "one ball, a few steps, no other simulators",
        out=Path("out/bench_simulators"),
        scenes={"nargs": "+", "choices": SCENES, "default": [*SCENES]},
        batches={"nargs": "+", "type": int, "default": [1, 256, 16384]},
        simulators={"nargs": "+", "choices": BUILD, "default": [*BUILD]},
        limit=60.0,  # seconds for the calls of one case
        patience=900.0,  # seconds for one case with its compilation
    )
    if chosen.smoke:
        chosen.scenes, chosen.batches, chosen.simulators = ["ball"], [2], ["VelocityProjection 64"]
    jax.config.update("jax_enable_x64", True)
    report, rows = Report(), []
    missing = [] if chosen.smoke else absent(report)
    report(HEAD)
    for scene in chosen.scenes:
        start = landing(SCENES[scene], 2 if chosen.smoke else LANES, STEP if chosen.smoke else LATE)
        for name in [name for name in chosen.simulators if name not in missing]:
            dtype = BUILD[name][1]
            arguments = (name, scene, start, chosen.batches, 5 if chosen.smoke else STEPS, chosen.limit)
            for row in measure(*arguments) if chosen.smoke else bounded(measure, arguments, dtype, chosen.patience):
                rows.append(Row(scene, 0, name, dtype, "", note=row) if isinstance(row, str) else row)
                report(str(rows[-1]))
    report("", *ratios(rows))
    report.write(chosen.out / "simulators.txt")
    if any(np.isfinite(row.speed) for row in rows):
        picture(chosen.out, "speed", partial(draw, rows=rows), 2)
    return rows


if __name__ == "__main__":
    main()
