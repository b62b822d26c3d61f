# %% [markdown]
# # Orders of EventTimed where forces are not constant
#
# Errors of the state at the end and of its Jacobian with respect to all parameters, against the step h: a damped
# pendulum that hits a stop, a double pendulum with M(q) that hits a wall, a mass that lands in a bowl and slides there,
# and one that slides down a dome and leaves it. The truth is solved event by event (`event_exact.py`). Beside order 2
# stands order 4, and what a step of it costs.
#
# Then what rest looks like (a bowl's energy, a stack), and how much memory reverse mode needs.
#
# Run it: `python experiments/orders.py` (some minutes), or with `--smoke` (coarse, one problem).

# %%
from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from event_exact import event_exact
from problems.reference import model

import diffcontact as dc

jax.config.update("jax_enable_x64", True)


def dome():
    """A mass falls onto a dome (e = 0), slides down and leaves it. theta: x0, y0, gravity."""
    system = dc.System(
        gap=lambda t, q, p: jnp.linalg.norm(q)[None] - 1.0,
        force=lambda t, q, u, p: jnp.array([0.0, -1.0], q.dtype) * p["gravity"],
        mass=lambda q, p: jnp.ones_like(q),
        restitution=lambda p: 0.0,
    )
    return system, lambda x: ({"gravity": x[2]}, x[:2], jnp.zeros_like(x[:2]))


@dataclass(frozen=True)
class Problem:
    """A model, the values of its parameters, and when to look."""

    name: str
    theta: tuple
    T: float

    def model(self):
        """(system, unpack)"""
        return dome() if self.name == "dome" else model(self.name)


PENDULUM = Problem("pendulum_stop", (1.0, 0.0, 1.0, 9.81, 0.1, 0.6), 2.0)
PROBLEMS = [
    PENDULUM,
    Problem("pendulum_stop", (1.2, -0.3, 0.8, 9.81, 0.3, 0.85), 2.3),
    Problem("double_pendulum_wall", (-0.8, -0.5, 0.0, 0.0, 1.0, 0.7, 1.0, 0.8, 9.81, 0.5), 1.0),
    Problem("double_pendulum_wall", (-0.5, -0.9, 0.3, 0.1, 0.8, 0.5, 0.9, 0.7, 9.81, 0.3), 0.9),
    Problem("landing_bowl", (0.6, 0.3, 9.81), 1.0),
    Problem("landing_bowl", (-0.3, 0.5, 9.81), 0.9),
    Problem("dome", (0.5, 1.2, 9.81), 0.7),
]


# %% [markdown]
# ## Error against h


# %%
def solver(system, unpack: Callable, scheme) -> Callable:
    """(theta, T, steps) -> (state, its Jacobian), one compilation for all numbers of steps."""

    def end(theta, T, steps):
        params, q0, u0 = unpack(theta)
        h = T / steps
        state = scheme.init(system, params, jnp.zeros_like(T), h, q0, u0)
        state = jax.lax.fori_loop(0, steps, lambda k, s: scheme.step(system, params, k * h, h, s)[0], state)
        state = jnp.concatenate([state.q, state.u])
        return state, state

    return jax.jit(jax.jacfwd(end, has_aux=True))


def seconds(call: Callable) -> float:
    """Time of a call that is compiled already."""
    begin = time.perf_counter()
    jax.block_until_ready(call())
    return time.perf_counter() - begin


def table(problem: Problem, counts, solvers: dict) -> dict[int, np.ndarray]:
    """Print a problem's errors; order -> (rows, 2) errors of state and Jacobian, relative to the largest entry."""
    system, unpack = problem.model()
    truth = event_exact(system, unpack, problem.theta, problem.T)
    happened = ", ".join(f"{event.time:.4f}" for event in truth.events)
    print(f"\n{problem.name}, theta = {problem.theta}, T = {problem.T}, events at {happened}")
    print(f"{'h':>10}{'order 2: state':>18}{'Jacobian':>10}{'order 4: state':>18}{'Jacobian':>10}{'cost':>8}")
    errors = {order: [] for order in solvers}
    for count in counts:
        times = []
        for order, solve in solvers.items():
            call = partial(solve, jnp.asarray(problem.theta), jnp.asarray(problem.T), count)
            jacobian, state = call()
            times.append(seconds(call))
            pairs = ((state, truth.state), (jacobian, truth.jacobian))
            errors[order].append([np.max(np.abs(a - b)) / np.max(np.abs(b)) for a, b in pairs])
        two, four = (errors[order][-1] for order in (2, 4))
        row = f"{two[0]:18.2e}{two[1]:10.2e}{four[0]:18.2e}{four[1]:10.2e}{times[1] / times[0]:8.1f}"
        print(f"{problem.T / count:10.2e}{row}")
    found = {order: np.array(rows) for order, rows in errors.items()}
    slopes = {order: [observed_order(counts, rows[:, k]) for k in (0, 1)] for order, rows in found.items()}
    print(f"{'observed':>10}{slopes[2][0]:18.2f}{slopes[2][1]:10.2f}{slopes[4][0]:18.2f}{slopes[4][1]:10.2f}")
    return found


def observed_order(counts, errors) -> float:
    """Slope of log error against log h where errors are above the truth's own and rounding; nan below two rows."""
    above = np.asarray(errors) > 1e-11
    if np.sum(above) < 2:
        return np.nan
    return float(-np.polyfit(np.log(np.asarray(counts)[above]), np.log(np.asarray(errors)[above]), 1)[0])


# %% [markdown]
# ## Rest: the energy of a mass that slides in a bowl


# %%
def bowl_drift(counts) -> np.ndarray:
    """Print and return the largest change of the energy of a mass that slides to and fro in a bowl for T = 3 [J]."""
    system, _ = model("landing_bowl")
    params, q0, T = {"gravity": jnp.array(9.81)}, jnp.array([0.8, -0.6]), 3.0
    scheme = dc.EventTimed(order=2)

    @jax.jit
    def drift(steps):
        h = T / steps

        def step(k, carry):
            state, most = carry
            state, _ = scheme.step(system, params, k * h, h, state)
            energy = state.u @ state.u / 2 + params["gravity"] * (state.q[1] - q0[1])
            return state, jnp.maximum(most, jnp.abs(energy))

        state = scheme.init(system, params, jnp.zeros_like(h), h, q0, jnp.zeros(2))
        return jax.lax.fori_loop(0, steps, step, (state, jnp.zeros_like(h)))[1]

    drifts = np.array([float(drift(count)) for count in counts])
    print("\nSliding in a bowl, T = 3: largest change of the energy [J], of 3.9 J")
    for count, value in zip(counts, drifts, strict=True):
        print(f"{T / count:10.2e}{value:12.2e}")
    print(f"{'observed':>10}{observed_order(counts, drifts):12.2f}")
    return drifts


# %% [markdown]
# ## Reverse mode: memory against the number of steps


# %%
def reverse_memory(roots) -> dict[str, np.ndarray]:
    """Print and return the bytes of temporary memory that the gradient of a final height takes, for root^2 steps.

    Cut into as many intervals as substeps, or one substep to each interval: then the trajectory alone has that length.
    """
    ball = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
    params = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-9.81]), "restitution": 0.8}

    def needed(intervals: int, substeps: int) -> int:
        times = jnp.linspace(0.0, 1.0, intervals + 1)

        def height(q0):
            return dc.simulate(ball, params, q0, jnp.zeros(1), times, substeps=substeps).q[-1, 0]

        return jax.jit(jax.grad(height)).lower(jnp.ones(1)).compile().memory_analysis().temp_size_in_bytes

    roots = np.asarray(roots)
    found = {
        "as many intervals as substeps": np.array([needed(int(root), int(root)) for root in roots]),
        "one substep to an interval": np.array([needed(int(root) ** 2, 1) for root in roots]),
    }
    print("\nGradient of a bouncing ball's final height in reverse mode: temporary memory [bytes]")
    print(f"{'steps':32}" + "".join(f"{root**2:12d}" for root in roots) + "   grows like")
    for name, values in found.items():
        # What a step's own working memory takes at any length cancels in the differences.
        grown, ratio = np.diff(values), (roots[2] - roots[1]) / (roots[1] - roots[0])
        power = np.log(grown[1] / grown[0]) / np.log(ratio) / 2
        print(f"{name:32}" + "".join(f"{value:12d}" for value in values) + f"   steps^{power:.2f}")
    return found


# %%
def main(smoke: bool) -> dict:
    """All tables, or in smoke mode a coarse one."""
    steps = (2e-2, 1e-2, 5e-3) if smoke else (1e-2, 5e-3, 2e-3, 1e-3, 5e-4, 2e-4, 1e-4)
    found, solvers, name = {}, {}, None
    for problem in [PENDULUM] if smoke else PROBLEMS:
        if problem.name != name:
            solvers = {order: solver(*problem.model(), dc.EventTimed(order=order)) for order in (2, 4)}
            name = problem.name
        counts = [round(problem.T / h) for h in steps]
        found[problem] = table(problem, counts, solvers)
    if not smoke:
        found["drift"] = bowl_drift((300, 600, 1500, 3000, 6000, 15000, 30000))
        found["memory"] = reverse_memory((10, 50, 250))
    return found


if __name__ == "__main__":
    tables = main("--smoke" in sys.argv[1:])
