"""Engines in JAX whose model is built from a document: how they get derivatives by what stands in it.

The numbers of a model are leaves of a pytree, smooth functions of the parameters; their derivatives are central
differences of the *model*, to ten digits. JAX then pushes them through the engine's steps, in forward mode: an own
derivative by every parameter, lengths and offsets included, however the engine reads its documents.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..scene import Problem, read, seen
from .springs import counts

jax.config.update("jax_enable_x64", True)

WIDTH = 1e-6


class Engine:
    """States and own derivatives of one engine.

    Args:
        build: (problem, theta, h, setting) -> what `run` is given: a pytree whose leaves are its numbers.
        run: (problem, pytree, counts) -> what `motion` is given at all times (times, ...), stacked.
        motion: (problem, scene, one of those) -> as `seen` wants it, in NumPy.
    """

    def __init__(self, build: Callable, run: Callable, motion: Callable):
        self.build, self.run, self.motion = build, run, motion
        self._compiled = lru_cache(maxsize=4)(self._compile)

    def _compile(self, name: str):
        problem = read(name)
        fixed = self.build(problem, np.array(problem.theta, float), 1e-3, None)
        leaves = jax.tree.leaves(fixed)
        moving = [isinstance(x, jax.Array | np.ndarray) and np.issubdtype(x.dtype, np.floating) for x in leaves]
        structure = jax.tree.structure(fixed)

        def run(numbers, counts):
            numbers = iter(numbers)
            whole = [next(numbers) if is_one else x for x, is_one in zip(leaves, moving, strict=True)]
            return self.run(problem, jax.tree.unflatten(structure, whole), counts)

        def pushed(numbers, tangents, counts):
            along = lambda tangent: jax.jvp(lambda x: run(x, counts), (numbers,), (tangent,))  # noqa: E731
            return jax.vmap(along, out_axes=(None, 0))(tangents)

        def numbers(theta, h, setting):
            found = jax.tree.leaves(self.build(problem, theta, h, setting))
            return [np.asarray(x, float) for x, is_one in zip(found, moving, strict=True) if is_one]

        return jax.jit(pushed), numbers

    def states(self, problem: Problem, thetas, h, setting) -> np.ndarray:
        # Compiling takes longer than running: what computes derivatives serves for states, too.
        return np.stack([self.jacobian(problem, theta, h, setting)[0] for theta in thetas])

    def jacobian(self, problem: Problem, theta, h, setting) -> tuple[np.ndarray, np.ndarray]:
        pushed, numbers = self._compiled(problem.name)
        theta = np.asarray(theta, float)
        widths = WIDTH * np.where(theta == 0, 1.0, np.abs(theta))
        steps = np.diag(widths)
        sides = [[numbers(theta + sign * step, h, setting) for step in steps] for sign in (1, -1)]
        tangents = [
            np.stack([(a - b) / (2 * w) for a, b, w in zip(above, below, widths, strict=True)])
            for above, below in zip(*(zip(*side, strict=True) for side in sides), strict=True)
        ]
        ends, rates = pushed(numbers(theta, h, setting), tangents, jnp.array(counts(problem, h)))
        ends, rates = jax.tree.map(np.asarray, (ends, rates))
        columns = [self._along(problem, theta, ends, rates, k, step) for k, step in enumerate(steps)]
        return self._seen(problem, theta, ends), np.stack(columns, -1)

    def _along(self, problem, theta, ends, rates, k, step) -> np.ndarray:
        """The outputs are functions of what the engine gives: differentiated along its own derivative."""
        width = step[k]
        above, below = (
            self._seen(problem, theta + s * step, jax.tree.map(lambda x, r: x + s * width * r[k], ends, rates))  # noqa: B023
            for s in (1, -1)
        )
        return (above - below) / (2 * width)

    def _seen(self, problem, theta, ends) -> np.ndarray:
        ends, scene = jax.tree.map(np.asarray, ends), problem.at(list(theta))
        moments = [jax.tree.map(lambda x, k=k: x[k], ends) for k in range(len(problem.times))]
        return np.array([seen(problem, self.motion(problem, scene, moment)) for moment in moments])


def stepped(step: Callable, state: Any, read_out: Callable, counts) -> Any:
    """So many steps to each time, known when running only; what is read there, stacked."""

    def to_next(state, count):
        state = jax.lax.fori_loop(0, count, lambda _, state: step(state), state)
        return state, read_out(state)

    return jax.lax.scan(to_next, state, counts)[1]
