"""The functions of a run that the user wrote: what is wrong with them is said in one line, and nothing is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact.identify.problem.model import Model
from diffcontact.identify.problem.run import Run
from diffcontact.inputs import Functions, called
from diffcontact.system import System


def require_functions(run: Run) -> int:
    """Refuse what a run's `tied`, `initial` and `clock` return, and contacts that it does not have.

    Returns:
        d, how many velocities `initial` returns.

    Raises:
        ValueError: one line that names the function, what was expected and what it returned.
    """
    model = run.model

    def begin(z, fixed, times):
        params = _parameters(model, z, fixed)
        q0, u0 = _initial(model, params)
        if model.clock is not None:
            shape = jnp.shape(called("Problem(clock)", "times, params", model.clock, params, times, params))
            if shape != times.shape:
                raise ValueError(f"Problem(clock): returned shape {shape}, expected {times.shape} as there are times")
        _require_contacts(model, times[0], q0, params)
        return u0

    return jax.eval_shape(begin, np.zeros(run.index.size), run.fixed, run.samples.times).size


def _parameters(model: Model, z: jax.Array, fixed: Mapping[str, Any]) -> dict[str, Any]:
    """As `Model.parameters`, one tie after the other."""
    params = replace(model, tied=()).parameters(z, dict(fixed))
    for name, function in model.tied:
        params[name] = called(f"fit(tied): {name!r}", "params", function, params, params)
    return params


def _initial(model: Model, params: Mapping[str, Any]) -> tuple[jax.Array, jax.Array]:
    returned = called("Problem(initial)", "params", model.initial, params, params)
    pair = not isinstance(returned, Mapping) and hasattr(returned, "__len__") and len(returned) == 2
    if not pair:
        what = f"{len(returned)} of them" if isinstance(returned, tuple | list) else type(returned).__name__
        raise ValueError(f"Problem(initial): expected two arrays, (q0, u0), got {what}")
    return jnp.asarray(returned[0]), jnp.asarray(returned[1])


def _require_contacts(model: Model, t: jax.Array, q0: jax.Array, params: Mapping[str, Any]) -> None:
    """Refuse impacts that are heard of contacts that there are not."""
    if not model.heard or not isinstance(model.system, System) or q0.ndim != 1:
        return
    (count,) = Functions(model.system, "System", params, q0).shape("gap", "t, q, params", t, q0, params)
    if max(model.heard) >= count:
        raise ValueError(f"Impacts(contacts): {model.heard}, expected numbers from 0 to {count - 1}")
