# %% [markdown]
# # Beside other simulators: work and precision
#
# A ball that bounces twice, and two discs in a box with four impacts (`reference/exact`), e = 0.8, whose states and
# Jacobians are known event by event: the error of either against the time that it takes, for EventTimed,
# ElasticProjection, MJX and MuJoCo C with central differences, one trajectory at a time, in double precision. The
# errors are those of the state at the end and of its Jacobian by q0 and u0, relative to the largest entry. The contacts
# of MuJoCo and MJX are springs and dampers that bounce with e and last 16 steps.
#
# Each method runs in a process of its own and is stopped where a point takes longer than its limit. What is not
# installed (`pip install 'diffcontact[simulators]'`) is left out, and said so.
#
# Run it: `taskset -c 0 python experiments/work_precision.py [--out FOLDER]` (a quarter of an hour), or with `--smoke`.
# It writes work_precision.txt and a picture to FOLDER (default out/work_precision).

# %%
from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from event_exact import event_exact
from impact_gradients import picture
from measuring import Report, bounded, timed
from peers import Balls, Simulator, absent, mjx, mujoco_c, ours

import diffcontact as dc


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
        solution = event_exact(
            self.balls.system, lambda x: (self.balls.params, *jnp.split(x, 2)), np.array(self.q0 + self.u0), self.T
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

METHODS: dict[str, Callable[[Balls, float], Simulator]] = {
    "EventTimed": partial(ours, scheme=dc.EventTimed()),
    "ElasticProjection": partial(ours, scheme=dc.ElasticProjection()),
    "MJX": partial(mjx, springs=True),
    "MuJoCo C": partial(mujoco_c, springs=True),
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


HEAD = f"{'problem':15}{'method':19}{'steps':>7}{'state [ms]':>11}{'error':>9}{'Jac. [ms]':>11}{'error':>9}"


# %%
def work(method: str, name: str, truth, counts, limit: float) -> Iterator[Work]:
    """The points of one method on one problem, until a Jacobian takes longer than `limit` seconds."""
    problem = PROBLEMS[name]
    x0 = np.array(problem.q0 + problem.u0)
    for steps in counts:
        # Fewer, larger steps do for a method that is exact between the events.
        count = max(2, steps // 20) if method == "EventTimed" else steps
        simulator = METHODS[method](problem.balls, problem.T / count)
        points = []
        for function, exact in zip(state_and_jacobian(simulator, count), truth, strict=True):
            spent, found = timed(partial(function, x0), limit)
            error = np.max(np.abs(np.asarray(found) - exact)) / np.max(np.abs(exact))
            points.append((spent, float(error)))
        yield Work(name, method, count, *points)
        if points[1][0] > limit:
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


def draw(axes, points: list[Work]) -> None:
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
def main(arguments=None) -> list[Work]:
    """Print the table, and return what was printed."""
    parser = argparse.ArgumentParser(description="error against time, beside other simulators")
    parser.add_argument("--smoke", action="store_true", help="one ball, ElasticProjection, two step lengths")
    parser.add_argument("--out", type=Path, default=Path("out/work_precision"))
    parser.add_argument("--limit", type=float, default=5.0, help="seconds for one Jacobian")
    parser.add_argument("--patience", type=float, default=300.0, help="seconds for one point with its compilation")
    options = parser.parse_args(arguments)
    jax.config.update("jax_enable_x64", True)
    report, points = Report(), []
    missing = [] if options.smoke else absent(report)
    methods = ["ElasticProjection"] if options.smoke else [method for method in METHODS if method not in missing]
    report(HEAD)
    for name in list(PROBLEMS)[: 1 if options.smoke else None]:
        truth = PROBLEMS[name].truth()
        for method in methods:
            counts = (100, 400) if options.smoke else PROBLEMS[name].counts
            arguments = (method, name, truth, counts, options.limit)
            for result in work(*arguments) if options.smoke else bounded(work, arguments, "float64", options.patience):
                report(f"{name:15}{method:19}{result}" if isinstance(result, str) else str(result))
                points += [] if isinstance(result, str) else [result]
    report.write(options.out / "work_precision.txt")
    problems = len({point.problem for point in points})
    picture(options.out, "work_precision", partial(draw, points=points), 2 * problems)
    return points


if __name__ == "__main__":
    main()
