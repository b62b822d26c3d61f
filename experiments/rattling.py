# %% [markdown]
# # Rattling worlds: is status 0 right, in state and Jacobian?
#
# Chains of masses between stops, double pendulums between walls and blocks on a belt that shakes, with some twenty
# impacts each: what truncation leaves out travels with the motion, and decides in the end whether an impact happens
# and which comes first. Each world is simulated with EventTimed in steps of 10 and 5 ms, with the Jacobian by its start
# or its drive, and compared with the same in much smaller steps, at two of them: where these two differ nothing is
# known, and the world counts for none. A world counts as wrong where its last state, or its Jacobian, is off by more
# than a tenth of the largest entry. Counted are
#
# - fine: status 0 and right; silent: status 0 and wrong;
# - told: another status and wrong; told though right: another status for nothing.
#
# The worlds stand in `problems/rattling.py`. Run it: `python experiments/rattling.py` (2 000 worlds, half an hour of a
# core), with `--worlds 200 --families chains`, or with `--smoke`.

# %%
from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from problems.rattling import DURATION, FAMILIES, Family

import diffcontact as dc

jax.config.update("jax_enable_x64", True)

# Numbers of steps, and those of the truth: the last one, where the one before agrees.
STEPS, FINER = (100, 200), (800, 1600)
# So far off is wrong; so far apart are the two finest, at most, where the truth is known.
WRONG, KNOWN = 0.1, 0.01
# What is smaller counts as so large: a state at rest [m, m/s], a Jacobian of a motion that forgets its start.
LEAST_STATE, LEAST_JACOBIAN = 0.01, 0.1
CHUNK = 350


@dataclass(frozen=True)
class Ends:
    """Of n worlds the last states (n, k), their Jacobians (n, k, p) and the statuses (n,)."""

    state: np.ndarray
    jacobian: np.ndarray
    status: np.ndarray

    def apart(self, other: Ends) -> np.ndarray:
        """(n,) how far states and Jacobians are from those of another, the larger of both."""
        pairs = (self.state, other.state, LEAST_STATE), (self.jacobian, other.jacobian, LEAST_JACOBIAN)
        return np.max([_relative(*pair) for pair in pairs], axis=0)


def _relative(found, truth, least):
    found, truth = (x.reshape(len(x), -1) for x in (found, truth))
    apart = np.max(np.abs(found - truth), axis=1) / np.maximum(np.max(np.abs(truth), axis=1), least)
    return np.where(np.isfinite(apart), apart, np.inf)


@lru_cache
def _compiled(family: Family, order: int) -> Callable:
    """(worlds, steps in a quarter of the time) -> `Ends`' arrays: one program for all numbers of steps."""
    times = jnp.linspace(0.0, DURATION, 5)

    def ended(world, count):
        def last(moved):
            params = {**world, **moved}
            scheme = dc.EventTimed(order=order)
            run = dc.simulate(family.system, params, params["q0"], params["u0"], times, scheme=scheme, substeps=count)
            state = jnp.concatenate([run.q[-1], run.u[-1]])
            return state, (state, run.status)

        jacobian, (state, status) = jax.jacfwd(last, has_aux=True)({name: world[name] for name in family.by})
        columns = [x.reshape(state.size, -1) for x in jax.tree.leaves(jacobian)]
        return state, jnp.concatenate(columns, axis=1), status

    return jax.jit(jax.vmap(ended, in_axes=(0, None)))


def ends(family: Family, worlds: dict, steps: int, order: int = 4) -> Ends:
    """All worlds in so many steps, a multiple of four."""
    run, count = _compiled(family, order), jnp.asarray(steps // 4)
    parts = []
    for begin in range(0, len(worlds["q0"]), CHUNK):
        part = {name: values[begin : begin + CHUNK] for name, values in worlds.items()}
        parts.append([np.asarray(x) for x in run(part, count)])
    return Ends(*map(np.concatenate, zip(*parts, strict=True)))


@dataclass(frozen=True)
class Row:
    """What became of the worlds of a family whose truth is known: `off` (n,), of the status (n,)."""

    family: str
    steps: int
    off: np.ndarray
    status: np.ndarray

    def count(self, told: bool, wrong: bool) -> int:
        """How many are told or not, wrong or not."""
        return int(np.sum(((self.status != 0) == told) & ((self.off > WRONG) == wrong)))

    def __str__(self):
        counts = "".join(f"{self.count(*kind):8d}" for kind in ((False, False), (True, True), (True, False)))
        kinds = Counter(dc.Status(int(code)).name for code in self.status if code)
        silent = self.count(False, True)
        named = ", ".join(f"{number} {name}" for name, number in kinds.items())
        return f"{self.family:18}{DURATION / self.steps * 1e3:6.1f}{self.off.size:8d}{counts}{silent:8d}  {named}"


HEAD = f"{'family':18}{'h [ms]':>6}{'worlds':>8}{'fine':>8}{'told':>8}{'though':>8}{'silent':>8}  statuses"


def study(family: Family, number: int, seed: int, order: int, counts=STEPS, finer=FINER) -> list[Row]:
    """Print and return the rows of a family, one for each number of steps."""
    worlds = family.sample(np.random.default_rng(seed), number)
    near, truth = (ends(family, worlds, steps) for steps in finer)
    known = near.apart(truth) < KNOWN
    rows = []
    for steps in counts:
        found = ends(family, worlds, steps, order)
        rows.append(Row(family.name, steps, found.apart(truth)[known], found.status[known]))
        print(rows[-1], flush=True)
    return rows


def main(arguments: list[str] | None = None) -> list[Row]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="16 worlds of the first family in steps of 10 ms")
    parser.add_argument("--worlds", type=int, default=2000, help="in all")
    parser.add_argument("--order", type=int, choices=(2, 4), default=4, help="of the smooth motion")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--families", nargs="*", help="beginnings of their names")
    options = parser.parse_args(arguments)
    chosen = [f for f in FAMILIES if not options.families or f.name.startswith(tuple(options.families))]
    print(HEAD)
    if options.smoke:
        return study(chosen[0], 16, options.seed, options.order, STEPS[:1], (200, 400))
    each = -(-options.worlds // len(chosen))
    return [row for k, f in enumerate(chosen) for row in study(f, each, options.seed + k, options.order)]


if __name__ == "__main__":
    main()
