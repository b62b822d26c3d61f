"""From the free parameters to normalised residuals and their exact Jacobian, run by run.

    r_i = (values_i - observe(simulate(theta_i), theta_i)) / noise_i       (n_i, k_i), dimensionless
    J_i = d r_i / d z_i                                                   (n_i, k_i, P_i), forward mode

One compiled function serves all runs that share system, scheme, `observe`, `initial` and `clock`, each with its own
number of substeps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from diffcontact.identify.problem.model import Model
from diffcontact.inputs import called
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.simulate import simulate


@partial(
    jax.tree_util.register_dataclass, data_fields=["times", "values", "sigma", "present", "impact"], meta_fields=[]
)
@dataclass(frozen=True)
class Samples:
    """A run's measurements on the device: times (n,), values, sigma, present (n, k); missing values are zeros.

    Where times of impacts were measured they are the last channel, and `impact` (n,) says which percussion's.
    """

    times: Array
    values: Array
    sigma: Array
    present: Array
    impact: Array | None = None


def residual(model: Model, z: Array, fixed: dict[str, Any], samples: Samples, substeps: Array | None = None):
    """Normalised residuals (n, k) of one run, zero where a sample is missing, and its trajectory; pure, traceable.

    `substeps` in place of the model's are a number that is known when running only.
    """
    params = model.parameters(z, fixed)
    q0, u0 = model.initial(params)
    times = samples.times if model.clock is None else model.clock(samples.times, params)
    # Of the contacts that are not heard there may be many in between.
    listed = model.impacts if model.heard is None else model.impacts and times.size * model.substeps
    listed = max(listed, model.listed)
    number = model.substeps if substeps is None else substeps
    trajectory = simulate(model.system, params, q0, u0, times, scheme=model.scheme, substeps=number, percussions=listed)
    seen = called("Observations(observe)", "trajectory, params", model.observe, params, trajectory, params)
    expected = samples.values.shape[0], samples.values.shape[1] - bool(model.impacts)
    returned = getattr(seen, "shape", None)
    if returned != expected:
        returned = type(seen).__name__ if returned is None else f"shape {returned}"
        raise ValueError(f"observe returns {returned}, expected {expected} as the values have")
    if model.impacts:
        # On the recording's clock.
        moments = jnp.interp(_heard(model, trajectory), times, samples.times)
        seen = jnp.concatenate([seen, moments[samples.impact][:, None]], axis=1)
    # Both branches are finite in forward mode: a NaN behind a missing sample stays behind the mask.
    return jnp.where(samples.present, (samples.values - seen) / samples.sigma, 0.0), trajectory


def _heard(model: Model, trajectory) -> Array:
    """(model.impacts,) when the percussions that are heard happen; those that do not, at the end."""
    listed = trajectory.percussions
    heard = listed.contact >= 0
    if model.heard is not None:
        heard &= jnp.isin(listed.contact, jnp.array(model.heard))
    first = jnp.argsort(~heard, stable=True)[: model.impacts]
    return jnp.where(heard[first], listed.time[first], trajectory.t[-1])


@partial(jit_fast_compile, static=("model",))
def observed(model: Model, z: Array, fixed: dict[str, Any], trajectory: Any):
    """(n, k) what the model's `observe` makes of a trajectory."""
    return model.observe(trajectory, model.parameters(z, fixed))


class Beginning(NamedTuple):
    """How a run begins.

    Attributes:
        params: what its functions are given.
        state: (q0, u0).
        slopes: the derivatives of the state by z.
        times: the system's times of its samples; None without a clock.
    """

    params: Any
    state: Any
    slopes: Any
    times: Array | None


@partial(jit_fast_compile, static=("model",))
def beginning(model: Model, z: Array, fixed: dict[str, Any], times: Array) -> Beginning:
    """How a run begins at z (P_i,)."""

    def begun(z):
        params = model.parameters(z, fixed)
        state = model.initial(params)
        return state, (params, state, None if model.clock is None else model.clock(times, params))

    slopes, (params, state, clock) = jax.jacfwd(begun, has_aux=True)(z)
    return Beginning(params, state, slopes, clock)


evaluate = jit_fast_compile(residual, static=("model",))


@partial(jit_fast_compile, static=("model",))
def linearise(model: Model, z: Array, fixed: dict[str, Any], samples: Samples, substeps: Array | None = None):
    """J (n, k, P_i), r (n, k) and the trajectory, in one pass of forward mode; `substeps` as in `residual`."""

    def twice(z):
        r, trajectory = residual(model, z, fixed, samples, substeps)
        return r, (r, trajectory)

    J, (r, trajectory) = jax.jacfwd(twice, has_aux=True)(z)
    return J, r, trajectory
