"""Differences of the state at the end of a motion, of several widths, beside its derivative."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.flatten_util import ravel_pytree

from diffcontact.compilation import quick_jit
from diffcontact.named import gather, put
from diffcontact.simulate import simulate
from diffcontact.status import Status


@dataclass(frozen=True)
class Differences:
    """A derivative and differences: central ones, and of one side at the edge of what a parameter may be (e = 0).

    Attributes:
        names: (p,) of the parameters' entries, as in "q0[1]".
        widths: (m,) their half-widths, relative to each parameter (absolute for those that are zero).
        sizes: (p,) of the parameters, 1 for those that are zero.
        extent: of the motion: the largest value of each coordinate and velocity on the way, as a vector's length.
        precision: eps of the arrays.
        derivative: (p, n + d) of q and u at the end by each of them.
        differences: (m, p, n + d) the same by differences.
        contacts: (m, p, 2, k) those of the first k percussions of the motions displaced to either side.
    """

    names: tuple[str, ...]
    widths: np.ndarray
    sizes: np.ndarray
    extent: float
    precision: float
    derivative: np.ndarray
    differences: np.ndarray
    contacts: np.ndarray

    @classmethod
    def of(
        cls,
        found: Any,
        system: Any,
        params: Any,
        q0: Array,
        u0: Array,
        wrt: Sequence[str],
        scheme: Any,
        substeps: int,
        widths: Sequence[float] | None = None,
        percussions: int = 1,
    ) -> Differences:
        """Of a `Sensitivity` by these names, simulated with the same steps.

        Args:
            widths: None for five from eps^0.2 to eps^0.45, eps the precision of the arrays.
            percussions: how many to tell.
        """
        start = gather(params, q0, u0, wrt)
        at, unravel = ravel_pytree(start)
        derivative = _matrix({name: (found.dq[name], found.du[name]) for name in wrt}, start)
        eps = float(jnp.finfo(at.dtype).eps)
        wide = np.asarray(eps ** np.linspace(0.2, 0.45, 5) if widths is None else widths, float)
        sizes = np.where(np.asarray(at) == 0, 1.0, np.abs(at))
        steps = wide[:, None] * sizes[None, :]
        moves = steps[:, :, None, None] * np.array([1.0, -1.0])[:, None] * np.eye(at.size)[:, None, :]
        batch = jax.vmap(unravel)(jnp.asarray(np.asarray(at) + moves.reshape(-1, at.size), at.dtype))
        run = found.trajectory
        ends, contacts, outside = _ends(system, params, q0, u0, batch, run.t, scheme, substeps, percussions)
        outside = np.asarray(outside).reshape(*steps.shape, 2)
        beyond = outside & ~outside[:, :, ::-1]
        here = np.concatenate([run.q[-1], run.u[-1]])
        ends = np.where(beyond[..., None], here, np.asarray(ends).reshape(*steps.shape, 2, -1))
        differences = (ends[:, :, 0] - ends[:, :, 1]) / (steps * np.where(np.any(beyond, axis=2), 1, 2))[:, :, None]
        contacts = np.asarray(contacts).reshape(*steps.shape, 2, percussions)
        # Of a motion that does not exist no other contacts are told.
        contacts = np.where(beyond[..., None], contacts[:, :, ::-1], contacts)
        extent = _extent(run)
        return cls(entries(start), wide, sizes, extent, eps, derivative, differences, contacts)

    def errors(self) -> np.ndarray:
        """(m, p) |difference - derivative| by each parameter, relative to the larger one of the two.

        Each parameter counts by itself and by its own size, so that no unit hides it behind another one: a derivative
        of zero where the differences are not is off by 1. Differences come down to eps^(2/3) times what rounding works
        on, which is the motion and what the parameters make of it. So what is below eps^(1/3) times that counts as if
        it were as large: that a derivative is zero, and the differences are rounding, is no disagreement. What is not
        finite is off by infinity.
        """
        sizes = np.linalg.norm(self.derivative, axis=1) * self.sizes
        rounded = self.precision ** (1 / 3) * max(self.extent, np.max(sizes, initial=0.0))
        larger = np.maximum(np.maximum(sizes, np.linalg.norm(self.differences, axis=2) * self.sizes), rounded)
        apart = np.linalg.norm(self.differences - self.derivative, axis=2) * self.sizes
        # Where all is zero, nothing moves at all.
        errors = np.divide(apart, larger, out=np.zeros_like(apart), where=(larger > 0) & (larger < np.inf))
        return np.where(np.isfinite(apart), errors, np.inf)

    def worst(self) -> float:
        """The largest of the errors by a parameter, each at the width that is best for it."""
        return float(np.max(np.min(self.errors(), axis=0), initial=0.0))


def _extent(run) -> float:
    """Length of the vector of the largest absolute values that the coordinates and the velocities of a run have."""
    return float(np.linalg.norm(np.concatenate([np.max(np.abs(np.asarray(x)), axis=0) for x in (run.q, run.u)])))


def entries(start: dict[str, Any]) -> tuple[str, ...]:
    """Names of all entries, in the order of ravel_pytree."""
    found = []
    for path, leaf in jax.tree_util.tree_leaves_with_path(start):
        name = jax.tree_util.keystr(path[:1], simple=True) + jax.tree_util.keystr(path[1:])
        places = np.ndindex(leaf.shape)
        found += [f"{name}[{', '.join(map(str, place))}]" if place else name for place in places]
    return tuple(found)


def _matrix(ends, start) -> np.ndarray:
    """(p, n + d) derivatives of q and u at the end by each entry, in the order of ravel_pytree."""
    names = sorted(start)
    pairs = [pair for name in names for pair in zip(*map(jax.tree.leaves, ends[name]), strict=True)]
    columns = [np.concatenate([x[-1], v[-1]]).reshape(x.shape[1] + v.shape[1], -1) for x, v in pairs]
    return np.concatenate(columns, axis=1).T


@partial(quick_jit, static=("system", "scheme", "substeps", "percussions"))
def _ends(system, params, q0, u0, batch, times, scheme, substeps, percussions):
    """Of each lane the state at the end, contacts of the percussions, and whether a parameter is out of its range."""

    def run(moved):
        place = put(params, q0, u0, moved)
        end = simulate(system, *place, times, scheme=scheme, substeps=substeps, percussions=percussions)
        assert end.percussions is not None
        return jnp.concatenate([end.q[-1], end.u[-1]]), end.percussions.contact, _outside(end.status)

    return jax.vmap(run)(batch)


def _outside(status: Array) -> Array:
    return (status == Status.BAD_INPUT) | (status == Status.BAD_RESTITUTION)
