"""What a fit holds fixed, as columns of the data: how each sample would change with it.

A term that a model has and a fit does not use stands among the parameters, most often at zero: the damping of a film of
air, a tilt. Whether the data want it is seen without fitting it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.problem.residual import linearise
from diffcontact.identify.problem.run import Run

# Arrays of more are places and shapes rather than terms, and each entry costs a simulation.
_ENTRIES, _ALTOGETHER = 4, 24


class Held(NamedTuple):
    """A number that is held fixed: at what, and what one more of it would add to the samples, (n, k, 1) in noise."""

    value: float
    column: NDArray


def held(run: Run, theta: NDArray) -> dict[str, Held]:
    """The numbers that a run holds fixed, of which its samples would see a change at theta (P,)."""
    model, substeps = run.model.counted()
    z = jnp.asarray(theta[run.index])

    def residuals(fixed) -> NDArray:
        J, r, _ = linearise(model, z, fixed, run.samples, substeps)
        return run.measured(r, J)[0]

    at, found = None, dict[str, Held]()
    for name, value in run.fixed.items():
        if not _is_number(value):
            continue
        for entry in np.ndindex(np.shape(value)):
            if len(found) == _ALTOGETHER:
                return found
            if at is None:
                at = residuals(run.fixed)
            number = float(value[entry])
            # Between rounding and what is no longer a derivative.
            step = (abs(number) or 1.0) * float(jnp.finfo(value.dtype).eps) ** 0.4
            moved = residuals(run.fixed | {name: value.at[entry].add(step)})
            column = np.nan_to_num((at - moved) / step, posinf=np.nan, neginf=np.nan)
            if np.all(np.isfinite(column)) and np.any(column != 0):
                label = name + "".join(f"[{i}]" for i in entry)
                found[label] = Held(number, column[..., None])
    return found


def _is_number(value) -> bool:
    return hasattr(value, "at") and jnp.issubdtype(value.dtype, jnp.floating) and value.size <= _ENTRIES
