# %% [markdown]
# # Do the published schemes converge, and do their derivatives?
#
# For each scheme, on problems with exact solutions: the error of the state at the end against the step h, with the
# observed order, and the error of the scheme's own Jacobian with respect to all parameters (relative, Frobenius).
# EventTimed stands beside them. The states converge, first order in h. Most of the Jacobians do not: the step in
# which an impact is seen is an integer and does not move with the parameters.
#
# Run it: `python experiments/convergence.py` (some minutes), or with `--smoke` (coarse, a few problems).

# %%
from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from problems import closed_form, reference

import diffcontact as dc
from diffcontact.hypotheses import penetration

jax.config.update("jax_enable_x64", True)


@dataclass(frozen=True)
class Case:
    """A problem, the end of the motion, and what is right there: state (2 d,) and its Jacobian (2 d, p)."""

    name: str
    system: dc.System | dc.ParticleLine
    unpack: Callable
    theta: np.ndarray
    T: float
    state: np.ndarray
    jacobian: np.ndarray


def _known(problem: closed_form.ExactProblem) -> Case:
    """A case whose truth is a formula."""
    theta = jnp.asarray(problem.theta)
    state, jacobian = np.asarray(problem.exact(theta)), np.asarray(jax.jacfwd(problem.exact)(theta))
    return Case(problem.name, problem.system, problem.unpack, problem.theta, problem.T, state, jacobian)


def from_reference(name: str, run: int) -> Case:
    """A case whose truth was solved event by event."""
    problem = reference.load(name)
    truth = problem.runs[run]
    title = f"{name.replace('_', ' ')}, T = {truth['T']:g}"
    state, jacobian = np.array(truth["state"]), np.array(truth["jacobian"])
    return Case(title, problem.system, problem.unpack, problem.theta, truth["T"], state, jacobian)


@dataclass(frozen=True)
class Row:
    """One run: step h, errors of state (largest entry) and Jacobian (relative), deepest penetration."""

    h: float
    state: float
    jacobian: float
    depth: float


def measure(case: Case, scheme, counts) -> list[Row]:
    """The errors with T / h = each of `counts`."""
    longest = max(counts)

    # All h share one compilation: every run has the same number of steps, and is read when it comes by T.
    @jax.jit
    def at(h, index):
        def end(theta):
            params, q0, u0 = case.unpack(theta)
            run = dc.simulate(case.system, params, q0, u0, h * jnp.arange(longest + 1), scheme=scheme)
            deep = jnp.zeros(longest + 1)
            if isinstance(case.system, dc.System):
                deep = penetration(case.system, params, run.t, run.q)
            deepest = jnp.max(jnp.where(jnp.arange(longest + 1) <= index, deep, 0.0))
            return jnp.concatenate([run.q[index], run.u[index]]), (run.q[index], run.u[index], deepest)

        return jax.jacfwd(end, has_aux=True)(jnp.asarray(case.theta))

    rows = []
    for count in counts:
        jacobian, (q, u, depth) = at(case.T / count, count)
        state = np.max(np.abs(np.concatenate([q, u]) - case.state))
        wrong = np.linalg.norm(jacobian - case.jacobian) / np.linalg.norm(case.jacobian)
        rows.append(Row(case.T / count, float(state), float(wrong), float(depth)))
    return rows


def order(h, errors) -> float:
    """Slope of log error against log h, least squares; nan where the errors are rounding."""
    errors = np.asarray(errors)
    return float(np.polyfit(np.log(h), np.log(errors), 1)[0]) if np.all(errors > 1e-11) else np.nan


def table(title: str, cases, scheme, counts, beside: bool = True) -> dict[str, list[Row]]:
    """Print errors and orders of a scheme, EventTimed beside it where wanted, and return the scheme's rows."""
    print(f"\n{title}\n{'':34}{'h':>9}{'state':>10}{'Jacobian':>10}{'depth/h':>9}   EventTimed: state  Jacobian")
    found = {}
    for case in cases:
        rows = found[case.name] = measure(case, scheme, counts)
        compare = beside
        others = measure(case, dc.EventTimed(), counts) if compare else [None] * len(rows)
        for row, other in zip(rows, others, strict=True):
            right = f"{other.state:20.1e}{other.jacobian:10.1e}" if other else ""
            name = case.name if row is rows[0] else ""
            print(f"{name:34}{row.h:9.2e}{row.state:10.2e}{row.jacobian:10.2e}{row.depth / row.h:9.2f}{right}")
        h = [row.h for row in rows]
        orders = [order(h, [getattr(row, name) for row in rows]) for name in ("state", "jacobian")]
        print(f"{'  observed order':43}{orders[0]:10.2f}{orders[1]:10.2f}")
    return found


# %% [markdown]
# ## The tables


# %%
def main(smoke: bool) -> dict:
    """All tables, or in smoke mode a coarse few."""
    counts = (20, 40) if smoke else (50, 100, 200, 400, 800)
    spheres = [closed_form.two_spheres()]
    nonconvex, bouncing, friction = [closed_form.shrinking_pocket()], [closed_form.bouncing_ball(0.8)], []
    if not smoke:
        spheres += [
            closed_form.three_spheres(),
            closed_form.swelling_spheres(),
            closed_form.swinging_wall(),
        ]
        nonconvex += [closed_form.rotating_discs(), closed_form.two_spheres()]
        bouncing = [kind(e) for kind in (closed_form.bouncing_ball, closed_form.polar) for e in (0.3, 0.8, 1.0)]
        bouncing += [closed_form.two_spheres(0.8)]
    elastic = [_known(problem) for problem in bouncing]
    friction.append(from_reference("slider_percussions", 1))
    if not smoke:
        elastic.append(from_reference("double_pendulum_wall", 1))
        friction += [from_reference("slider_percussions", 2), from_reference("two_particle_chain", 1)]
    found = {
        "S1": table("VelocityProjection (S1)", map(_known, spheres), dc.VelocityProjection(), counts, not smoke),
        "S2": table("CatchingUp (S2)", map(_known, nonconvex), dc.CatchingUp(), counts, not smoke),
        "S3": table("ElasticProjection (S3)", elastic, dc.ElasticProjection(), counts, not smoke),
        "S4": table("PercussionFriction (S4)", friction, dc.PercussionFriction(), counts, not smoke),
    }
    return found


if __name__ == "__main__":
    tables = main("--smoke" in sys.argv[1:])
