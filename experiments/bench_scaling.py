# %% [markdown]
# # Time and memory against the number of balls
#
# - Balls: SCoPI's scene (`crowds.py`) in ten layers on a growing floor, so that the packing is the same for every N;
#   the median time of a step when it has settled, of heaps that step in turn, and the largest memory up to there.
# - A flat layer: the same spheres, one deep, up to 64 000 of them.
#
# An exponent of 1 is linear. A higher heap needs more iterations: that is seen in `crowds.py --side 20`; here those of
# a step hardly change with N. On a CPU an iteration takes longer per contact once the rows no longer fit the core's own
# cache, from some ten thousand balls on: double precision needs twice the room of single, in which most is done.
#
# Run it: `python experiments/bench_scaling.py [--out FOLDER]` (ten minutes), or with `--smoke`. With matplotlib it
# leaves a picture in FOLDER (default out/bench_scaling).

# %%
from __future__ import annotations

import resource
import time
from pathlib import Path

import crowds
import jax
import numpy as np
from measuring import options, picture

jax.config.update("jax_enable_x64", True)

# Of steps of all heaps in turn.
ROUNDS = 15


def per_heap(sides, layers: int, steps: int) -> list[tuple[int, float, float]]:
    """Number of balls, seconds per step at the end, GiB, for each size of the floor.

    All sizes are let settle, then take steps in turn: what else a machine does meanwhile slows down all of them.
    """
    counts, memory, runs, states = [], [], [], []
    for side in sides:
        scene = crowds.scopi(side, layers)
        *_, last = crowds.stepped(scene, steps, 10)
        counts.append(scene.system.count)
        memory.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)
        runs.append(last.run)
        states.append(last.states[-1])
        print(f"{counts[-1]:8d} balls have settled", flush=True)
    spent = []
    for _ in range(ROUNDS):
        spent.append([])
        for index, run in enumerate(runs):
            begin = time.perf_counter()
            states[index], _ = jax.block_until_ready(run(states[index]))
            spent[-1].append(time.perf_counter() - begin)
    found = list(zip(counts, np.median(spent, axis=0).tolist(), memory, strict=True))
    for row in found:
        print("{:8d} balls {:10.4f} s a step {:8.2f} GiB".format(*row), flush=True)
    least, most = np.percentile([exponent(list(zip(counts, times, strict=True))) for times in spent], [25, 75])
    print(f"of {ROUNDS} rounds half have an exponent from {least:.3f} to {most:.3f}")
    return found


def exponent(rows) -> float:
    """The slope of log(second column) over log(first)."""
    x, y = np.log(np.array([row[:2] for row in rows])).T
    return float(np.polyfit(x, y, 1)[0])


def main(arguments=None) -> dict:
    """Print the tables and the exponents."""
    chosen = options(arguments, "few balls", out=Path("out/bench_scaling"))
    balls = per_heap((2, 3), 2, 10) if chosen.smoke else per_heap((10, 14, 20, 32), 10, 160)
    layer = per_heap((3, 4), 1, 10) if chosen.smoke else per_heap((80, 126, 253), 1, 40)
    found = {"balls": balls, "layer": layer, "exponent": exponent(balls)}
    print(f"time of a step ~ N^{found['exponent']:.2f}, in a layer N^{exponent(layer):.2f}")

    def draw(axes):
        for axis, rows in zip(axes, (balls, layer), strict=True):
            x, y = np.array([row[:2] for row in rows]).T
            axis.loglog(x, y, "o-")
            axis.set(xlabel="balls" if rows is balls else "balls in a layer", ylabel="s a step")

    picture(chosen.out, "scaling", draw, 2)
    return found


if __name__ == "__main__":
    main()
