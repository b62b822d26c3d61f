"""Error against the step of state and Jacobian, and the observed order, on every reference with friction.

    python experiments/friction_orders.py [--only ladder driven_block] [--reverse] [--order 4]

Errors are relative to the largest entry. Events take place at their own times, so that constant forces are exact at
every step; all else is of second order, or of fourth or sixth with `--order`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import jax
import jax.numpy as jnp
import numpy as np
from problems import coulomb

import diffcontact as dc

FOLDER = os.environ.get("DIFFCONTACT_REFERENCE", Path(__file__).resolve().parents[1] / "tests" / "reference")
STEPS = (1e-2, 4e-3, 2e-3, 1e-3)


@cache
def _ended(problem: coulomb.Rubbing, reverse: bool, order: int):
    """(theta, end time, count) -> the Jacobian, and (the state, the status): one program for all runs of a problem."""

    def end(theta, until, count):
        q0, u0 = problem.start(theta)
        times = jnp.stack([jnp.zeros(()), until])
        motion = dc.simulate(problem.system, theta, q0, u0, times, scheme=dc.EventTimed(order=order), substeps=count)
        state = jnp.concatenate([motion.q[-1], motion.u[-1]])
        return state, (state, motion.status)

    # Reverse mode has to know how many steps it goes back.
    return (
        jax.jit(jax.jacrev(end, has_aux=True), static_argnums=2) if reverse else jax.jit(jax.jacfwd(end, has_aux=True))
    )


def errors(problem: coulomb.Rubbing, run: dict, theta, counts, *, reverse: bool = False, order: int = 4):
    """For each number of steps the error of the state and of its Jacobian, (m, 2), and all statuses (m,)."""
    found, truth = _ended(problem, reverse, order), [np.array(run[key]) for key in ("state", "jacobian")]
    rows, statuses = [], []
    for count in counts:
        jacobian, (state, status) = found(theta, jnp.asarray(run["T"]), int(count) if reverse else jnp.asarray(count))
        values = zip((state, jacobian), truth, strict=True)
        rows.append([np.max(np.abs(x - y)) / np.max(np.abs(y)) for x, y in values])
        statuses.append(int(status))
    return np.array(rows), np.array(statuses)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=coulomb.PROBLEMS, default=list(coulomb.PROBLEMS))
    parser.add_argument("--reverse", action="store_true", help="the Jacobian by reverse mode")
    parser.add_argument("--order", type=int, choices=(2, 4, 6), default=4, help="of the smooth motion")
    options = parser.parse_args()
    how = {"reverse": options.reverse, "order": options.order}
    print(
        "error of the state | of the Jacobian at h =", ", ".join(map(str, STEPS)), "and the order between the last two"
    )
    for name in options.only:
        data = json.loads((Path(FOLDER) / f"coulomb/{name}.json").read_text())
        theta = jnp.array(list(data["parameters"].values()))
        for run in data["runs"]:
            counts = [max(1, round(run["T"] / h)) for h in STEPS]
            rows, statuses = errors(coulomb.PROBLEMS[name], run, theta, counts, **how)
            order = np.log(rows[-2] / rows[-1]) / np.log(counts[-1] / counts[-2])
            columns = (
                " ".join(f"{x:.1e}" for x in column) + f" ({o:.1f})" for column, o in zip(rows.T, order, strict=True)
            )
            print(
                f"{name:15s} T = {run['T']:<5}", " | ".join(columns), "" if not statuses.any() else statuses, flush=True
            )


if __name__ == "__main__":
    jax.config.update("jax_enable_x64", True)
    main()
