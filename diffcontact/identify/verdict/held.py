"""What a fit holds fixed, as columns of the data: how each sample would change with it.

A term that a model has and a fit does not use stands among the parameters, most often at zero: the damping of a film of
air, a tilt. Whether the data want it is seen without fitting it.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.problem.residual import linearise
from diffcontact.identify.verdict.evidence import Evidence

# Arrays of more are places and shapes rather than terms, and each entry costs a simulation.
_ENTRIES, _ALTOGETHER = 4, 24


def held(evidence: Evidence, number: int) -> dict[str, NDArray]:
    """(n, k, 1) what each number held fixed in a run would add to its samples, per unit, in units of the noise."""
    run = evidence.objective.joint.runs[number]
    model, substeps = run.model.counted()
    z = jnp.asarray(evidence.theta[run.index])

    def residuals(fixed) -> NDArray:
        J, r, _ = linearise(model, z, fixed, run.samples, substeps)
        return run.measured(r, J)[0]

    at, found = None, {}
    for name, value in run.fixed.items():
        if not _is_number(value):
            continue
        for entry in np.ndindex(np.shape(value)):
            if len(found) == _ALTOGETHER:
                return found
            if at is None:
                at = residuals(run.fixed)
            size = abs(float(value[entry])) or 1.0
            # Between rounding and what is no longer a derivative.
            step = size * float(jnp.finfo(value.dtype).eps) ** 0.4
            moved = residuals(run.fixed | {name: value.at[entry].add(step)})
            column = np.nan_to_num((at - moved) / step, posinf=np.nan, neginf=np.nan)
            if np.all(np.isfinite(column)) and np.any(column != 0):
                label = name + "".join(f"[{i}]" for i in entry)
                found[label] = column[..., None]
    return found


def _is_number(value) -> bool:
    return hasattr(value, "at") and jnp.issubdtype(value.dtype, jnp.floating) and value.size <= _ENTRIES
