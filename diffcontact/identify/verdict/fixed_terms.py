"""What a fit holds fixed, as columns of the data: how each sample would change with it.

A term that a model has and a fit does not use stands among the parameters, most often at zero: the damping of a film of
air, a tilt. Whether the data want it is seen without fitting it. So it is with a resistance that the model has not, and
with impacts that are not all alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.problem.disturbance import KICK, RESISTANCE, kick
from diffcontact.identify.problem.residual import linearise
from diffcontact.identify.problem.run import Run

# Arrays of more are places and shapes rather than terms, and each entry costs a simulation.
_ENTRIES, _ALTOGETHER = 4, 24


class FixedTerm(NamedTuple):
    """A number that is held fixed: at what, and what one more of it would add to the samples, (n, k, 1) in noise."""

    value: float
    column: NDArray


def fixed_terms(run: Run, theta: NDArray) -> dict[str, FixedTerm]:
    """The numbers that a run holds fixed, of which its samples would see a change at theta (P,)."""
    columns, found = _Columns(run, theta), dict[str, FixedTerm]()
    for name, value in run.fixed.items():
        if name in (RESISTANCE, KICK) or not _is_number(value):
            continue
        for entry in np.ndindex(np.shape(value)):
            if len(found) == _ALTOGETHER:
                return found
            number = float(value[entry])
            # Between rounding and what is no longer a derivative.
            step = (abs(number) or 1.0) * float(jnp.finfo(value.dtype).eps) ** 0.4
            moved = np.array(value)
            moved[entry] += step
            if (column := columns.by(name, moved, step)) is not None:
                found[name + "".join(f"[{i}]" for i in entry)] = FixedTerm(number, column[..., None])
    return found


def resistance(run: Run, theta: NDArray) -> NDArray | None:
    """(n, k) how a run's samples would change, in noise, if its motion were resisted at theta (P,).

    By what takes all of the speed, to first order, until the run's end; None where no sample would see it.
    """
    rate = run.fixed[RESISTANCE]
    times = np.asarray(run.samples.times, float)[: run.length]
    most = 1.0 / (times[-1] - times[0])
    # Between rounding and what is no longer a derivative.
    share = float(jnp.finfo(rate.dtype).eps) ** 0.4
    return _Columns(run, theta).by(RESISTANCE, np.asarray(rate) + np.asarray(share * most, rate.dtype), share)


def impacts(run: Run, theta: NDArray, trajectory: Any, struck: Sequence[tuple[int, int]]) -> list[NDArray]:
    """Per impact, (n, k) how a run's samples would change, in noise, if it alone changed the velocity by twice as much.

    To first order, by a kick behind it; where no sample sees that, none.

    Args:
        run, theta, trajectory: at theta (P,).
        struck: the samples before and behind each impact.
    """
    t, u = (np.asarray(array, float)[: run.length] for array in (trajectory.t, trajectory.u))
    columns, found = _Columns(run, theta), list[NDArray]()
    share = float(jnp.finfo(run.samples.times.dtype).eps) ** 0.4
    for before, behind in struck[:_ALTOGETHER]:
        if behind + 2 >= run.length:
            continue
        # What forces did meanwhile is no impact's.
        first = before - 1 if before else behind
        slope = (u[first + 1] - u[first]) / (t[first + 1] - t[first])
        change = u[behind] - u[before] - (t[behind] - t[before]) * slope
        moment, width = t[behind + 1], t[behind + 2] - t[behind + 1]
        column = columns.by(KICK, kick(moment, width, (share * change).astype(run.samples.times.dtype)), share)
        if column is not None:
            found.append(column)
    return found


class _Columns:
    """How the samples of a run at theta change with what it holds fixed, without compiling anything anew."""

    def __init__(self, run: Run, theta: NDArray):
        self.run, self.z = run, theta[run.index]

    def residuals(self, fixed: dict[str, Any]) -> NDArray:
        model, substeps = self.run.model.counted()
        J, r, _ = linearise(model, self.z, fixed, self.run.samples, substeps)
        return self.run.measured(r, J)[0]

    @cached_property
    def here(self) -> NDArray:
        return self.residuals(self.run.fixed)

    def by(self, name: str, value: Any, step: float) -> NDArray | None:
        """(n, k) the change by a step to this value, over the step; None where nothing changes or it is not finite."""
        moved = self.residuals(self.run.fixed | {name: value})
        # NaN is a missing sample.
        if np.any(np.isinf(self.here) | np.isinf(moved)):
            return None
        column = np.nan_to_num((self.here - moved) / step, posinf=np.nan, neginf=np.nan)
        return column if np.all(np.isfinite(column)) and np.any(column != 0) else None


def _is_number(value) -> bool:
    return hasattr(value, "at") and jnp.issubdtype(value.dtype, jnp.floating) and value.size <= _ENTRIES
