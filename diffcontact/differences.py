"""Central differences of the state at the end of a motion, of several widths, beside its derivative."""

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


@dataclass(frozen=True)
class Differences:
    """A derivative and central differences.

    Attributes:
        widths: (m,) their half-widths, relative to each parameter (absolute for those that are zero).
        sizes: (p,) of the parameters, 1 for those that are zero.
        derivative: (p, n + d) of q and u at the end by each of them.
        differences: (m, p, n + d) the same by differences.
        contacts: (m, 2 p, k) those of the first k percussions of the displaced motions.
    """

    widths: np.ndarray
    sizes: np.ndarray
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
        ends, contacts = _ends(system, params, q0, u0, batch, found.trajectory.t, scheme, substeps, percussions)
        ends = np.asarray(ends).reshape(*steps.shape, 2, -1)
        differences = (ends[:, :, 0] - ends[:, :, 1]) / (2 * steps[:, :, None])
        return cls(wide, sizes, derivative, differences, np.asarray(contacts).reshape(len(steps), -1, percussions))

    def errors(self) -> np.ndarray:
        """(m,) |difference - derivative| / |derivative|, Frobenius."""
        size = np.linalg.norm(self.derivative) or 1.0
        return np.linalg.norm(self.differences - self.derivative, axis=(1, 2)) / size

    def worst(self) -> float:
        """The largest error by a parameter at the best width, relative to the largest derivative, both per size."""
        columns = self.sizes * np.linalg.norm(self.differences - self.derivative, axis=2)
        largest = np.max(self.sizes * np.linalg.norm(self.derivative, axis=1), initial=0.0) or 1.0
        return float(np.min(np.max(columns, axis=1, initial=0.0), initial=np.inf)) / largest


def _matrix(ends, start) -> np.ndarray:
    """(p, n + d) derivatives of q and u at the end by each entry, in the order of ravel_pytree."""
    names = sorted(start)
    pairs = [pair for name in names for pair in zip(*map(jax.tree.leaves, ends[name]), strict=True)]
    columns = [np.concatenate([x[-1], v[-1]]).reshape(x.shape[1] + v.shape[1], -1) for x, v in pairs]
    return np.concatenate(columns, axis=1).T


@partial(quick_jit, static_argnames=("system", "scheme", "substeps", "percussions"))
def _ends(system, params, q0, u0, batch, times, scheme, substeps, percussions):
    """State at the end and contacts of the percussions, for each lane of the batch."""

    def run(moved):
        place = put(params, q0, u0, moved)
        end = simulate(system, *place, times, scheme=scheme, substeps=substeps, percussions=percussions)
        assert end.percussions is not None
        return jnp.concatenate([end.q[-1], end.u[-1]]), end.percussions.contact

    return jax.vmap(run)(batch)
