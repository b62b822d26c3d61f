# %% [markdown]
# # Do the published schemes converge, and do their derivatives?
#
# For each scheme, on problems that were solved event by event (`tests/reference/exact`, `event_exact.py`): the error of
# the state at the end against the step h, with the observed order, and the error of the scheme's own Jacobian with
# respect to all parameters (relative, Frobenius). EventTimed stands beside them. The states converge, first order in h.
# Most of the Jacobians do not: the step in which an impact is seen is an integer and does not move with the parameters.
#
# Run it: `python experiments/convergence.py` (some minutes), or with `--smoke` (coarse, one problem for each scheme).

# %%
from __future__ import annotations

import sys
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from event_exact import event_exact
from problems import reference

import diffcontact as dc
from diffcontact.hypotheses import penetration

jax.config.update("jax_enable_x64", True)

# Scheme -> names of problems, and which of their ends; None: the last one, with e = 0.
CASES = {
    dc.VelocityProjection(): (("growing_balls", None), ("landing_slope", 1)),
    dc.CatchingUp(): (("round_obstacle", None), ("landing_bowl", 1)),
    dc.ElasticProjection(): (("round_obstacle", 1), ("bounce", 2), ("growing_balls", 1), ("double_pendulum_wall", 1)),
    dc.PercussionFriction(): (("slider_percussions", 1), ("slider_percussions", 2), ("two_particle_chain", 1)),
}


def load(name: str, which: int | None) -> tuple[str, reference.ReferenceProblem, dict]:
    """What it is called, the problem, and its end: `T`, `state` and `jacobian`."""
    problem, title = reference.load(name), name.replace("_", " ")
    if which is not None:
        return f"{title}, T = {problem.runs[which]['T']:g}", problem, problem.runs[which]
    # Its restitution is the last parameter.
    unpack, T = problem.unpack, problem.runs[-1]["T"]
    problem = replace(problem, unpack=lambda x: unpack(jnp.append(x, 0.0)), theta=problem.theta[:-1])
    exact = event_exact(problem.system, problem.unpack, problem.theta, T)
    return f"{title}, e = 0, T = {T:g}", problem, {"T": T, "state": exact.state, "jacobian": exact.jacobian}


@dataclass(frozen=True)
class Row:
    """One run: step h, errors of state (largest entry) and Jacobian (relative), deepest penetration."""

    h: float
    state: float
    jacobian: float
    depth: float


def measure(problem: reference.ReferenceProblem, end: dict, scheme, counts) -> list[Row]:
    """The errors with T / h = each of `counts`."""
    longest, system = max(counts), problem.system

    # All h share one compilation: every run has the same number of steps, and is read when it comes by T.
    @jax.jit
    def at(h, index):
        def last(theta):
            params, q0, u0 = problem.unpack(theta)
            run = dc.simulate(system, params, q0, u0, h * jnp.arange(longest + 1), scheme=scheme)
            deep = (
                penetration(system, params, run.t, run.q) if isinstance(system, dc.System) else jnp.zeros(longest + 1)
            )
            deepest = jnp.max(jnp.where(jnp.arange(longest + 1) <= index, deep, 0.0))
            state = jnp.concatenate([run.q[index], run.u[index]])
            return state, (state, deepest)

        return jax.jacfwd(last, has_aux=True)(jnp.asarray(problem.theta))

    rows, truth = [], np.array(end["jacobian"])
    for count in counts:
        jacobian, (state, depth) = at(end["T"] / count, count)
        wrong = np.linalg.norm(jacobian - truth) / np.linalg.norm(truth)
        rows.append(
            Row(end["T"] / count, float(np.max(np.abs(state - np.array(end["state"])))), float(wrong), float(depth))
        )
    return rows


def order(h, errors) -> float:
    """Slope of log error against log h, least squares; nan where the errors are rounding."""
    errors = np.asarray(errors)
    return float(np.polyfit(np.log(h), np.log(errors), 1)[0]) if np.all(errors > 1e-11) else np.nan


def main(smoke: bool) -> dict[str, dict[str, list[Row]]]:
    """Print errors and orders of all schemes, EventTimed beside them; in smoke mode a coarse few."""
    counts, found = (20, 40) if smoke else (50, 100, 200, 400, 800), {}
    for scheme, cases in CASES.items():
        title = type(scheme).__name__
        found[title] = {}
        print(f"\n{title}\n{'':34}{'h':>9}{'state':>10}{'Jacobian':>10}{'depth/h':>9}   EventTimed: state  Jacobian")
        for name, which in cases[:1] if smoke else cases:
            label, problem, end = load(name, which)
            rows = found[title][label] = measure(problem, end, scheme, counts)
            others = [None] * len(rows) if smoke else measure(problem, end, dc.EventTimed(), counts)
            for row, other in zip(rows, others, strict=True):
                right = f"{other.state:20.1e}{other.jacobian:10.1e}" if other else ""
                shown = label if row is rows[0] else ""
                print(f"{shown:34}{row.h:9.2e}{row.state:10.2e}{row.jacobian:10.2e}{row.depth / row.h:9.2f}{right}")
            orders = [order([r.h for r in rows], [getattr(r, of) for r in rows]) for of in ("state", "jacobian")]
            print(f"{'  observed order':43}{orders[0]:10.2f}{orders[1]:10.2f}", flush=True)
    return found


if __name__ == "__main__":
    main("--smoke" in sys.argv[1:])
