"""Times in, trajectory out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from diffcontact.schemes.event_timed import EventTimed
from diffcontact.schemes.scheme import Scheme
from diffcontact.status import Status, first


@partial(jax.tree_util.register_dataclass, data_fields=["t", "q", "u", "impulse", "status"], meta_fields=[])
@dataclass(frozen=True)
class Trajectory:
    """A simulated motion on the grid of times it was asked for.

    Attributes:
        t: (n + 1,) times [s].
        q: (n + 1, d) positions [m].
        u: (n + 1, d) velocities, right limits [m/s].
        impulse: (n, c) impulse of each contact over each interval [N s], percussions and persistent contact together.
        status: () 0 = fine, else the first `Status` that happened.
    """

    t: Array
    q: Array
    u: Array
    impulse: Array
    status: Array


def simulate(
    system: Any,
    params: Any,
    q0: Any,
    u0: Any,
    times: Any,
    *,
    scheme: Scheme | None = None,
    substeps: int = 1,
) -> Trajectory:
    """The motion of `system` from (q0, u0) at times[0].

    Pure: jit, vmap, jvp, vjp in params, q0, u0 (and times). It compiles once per system, scheme and shapes; the arrays'
    dtype decides the precision.

    Args:
        system: a `System`.
        params: what the system's functions are given, any pytree of numbers.
        q0: (d,) position at times[0] [m]; no gap may be negative.
        u0: (d,) velocity at times[0] [m/s].
        times: (n + 1,) increasing, any spacing [s].
        scheme: a step map; None means `EventTimed()`.
        substeps: each interval is cut into so many equal steps.

    Returns:
        A `Trajectory`.

    Raises:
        ValueError: for inputs of the wrong shape, and, where values are known (outside transformations), for times
            that do not increase, restitution outside [0, 1], masses that are not positive, values that are not finite
            and overlapping q0. Inside a transformation the trajectory's status says what happened.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> cart = dc.System(
        ...     gap=lambda t, q, p: 1.0 - q,
        ...     force=lambda t, q, u, p: jnp.zeros(1),
        ...     mass=lambda q, p: jnp.ones(1),
        ...     restitution=lambda p: p["e"],
        ... )
        >>> run = dc.simulate(cart, {"e": 0.5}, [0.0], [2.0], [0.0, 0.5, 1.0])
        >>> run.q[:, 0].tolist(), run.u[:, 0].tolist(), run.impulse[:, 0].tolist()
        ([0.0, 1.0, 0.5], [2.0, -1.0, -1.0], [3.0, 0.0])
    """
    scheme = EventTimed() if scheme is None else scheme
    if not (isinstance(substeps, int) and substeps >= 1):
        raise ValueError(f"substeps={substeps!r}: expected an integer of at least 1")
    dtype = jnp.result_type(float, *(jnp.asarray(x) for x in (q0, u0, times)))
    q0, u0, times = (jnp.asarray(x, dtype) for x in (q0, u0, times))
    _check_shapes(system, params, q0, u0, times)
    _check_values(system, params, q0, u0, times)
    return _run(system, params, q0, u0, times, scheme, substeps)


@partial(jax.jit, static_argnames=("system", "scheme", "substeps"))
def _run(system, params, q0, u0, times, scheme, substeps) -> Trajectory:
    def step(state, at):
        t, h = at
        state, info = scheme.step(system, params, t, h, state)
        return state, info

    def interval(carry, at):
        state, status = carry
        t, h = at
        starts = t + h * jnp.arange(substeps, dtype=h.dtype)
        state, info = lax.scan(jax.checkpoint(step, prevent_cse=False), state, (starts, jnp.full((substeps,), h)))
        status = first(status, info.status[jnp.argmax(info.status != Status.OK)])
        return (state, status), (state.q, state.u, jnp.sum(info.impulse, axis=0))

    lengths = jnp.diff(times) / substeps
    overlap = jnp.any(system.gap(times[0], q0, params) < -_overlap_tolerance(q0))
    status = jnp.where(overlap, Status.OVERLAP, Status.OK).astype(jnp.int32)
    initial = scheme.init(system, params, times[0], lengths[0], q0, u0)
    (_, status), (q, u, impulse) = lax.scan(interval, (initial, status), (times[:-1], lengths))
    q, u = jnp.concatenate([q0[None], q]), jnp.concatenate([u0[None], u])
    finite = jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(u))
    status = jnp.where(finite, status, Status.NOT_FINITE)
    return Trajectory(t=times, q=q, u=u, impulse=impulse, status=status)


def _overlap_tolerance(q0):
    """What rounding of the positions can make of a gap that is meant to be zero."""
    return jnp.finfo(q0.dtype).eps ** 0.75 * (1 + jnp.max(jnp.abs(q0), initial=0.0))


def _check_shapes(system, params, q0, u0, times):
    if q0.ndim != 1 or q0.size == 0:
        raise ValueError(f"q0: expected shape (d,) with d >= 1, got {q0.shape}")
    if u0.shape != q0.shape:
        raise ValueError(f"u0: expected the shape of q0, {q0.shape}, got {u0.shape}")
    if times.ndim != 1 or times.size < 2:
        raise ValueError(f"times: expected shape (n + 1,) with n >= 1, got {times.shape}")
    t, d = times[0], q0.size
    gap = jax.eval_shape(lambda: system.gap(t, q0, params)).shape
    force = jax.eval_shape(lambda: system.force(t, q0, u0, params)).shape
    mass = jax.eval_shape(lambda: system.mass(q0, params)).shape
    restitution = jax.eval_shape(lambda: jnp.asarray(system.restitution(params))).shape
    for name, shape, expected in (
        ("gap", gap, None if len(gap) == 1 else "(c,)"),
        ("force", force, None if force == (d,) else f"({d},)"),
        ("mass", mass, None if mass in ((d,), (d, d)) else f"({d},) or ({d}, {d})"),
        ("restitution", restitution, None if restitution in ((), gap) else f"() or {gap}"),
    ):
        if expected:
            raise ValueError(f"System.{name}: expected an array of shape {expected}, got {shape}")


def _check_values(system, params, q0, u0, times):
    """Refuse what can be seen to be wrong; nothing can be seen inside a transformation."""
    leaves = (q0, u0, times, *jax.tree.leaves(params))
    if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
        return
    for name, value in (("q0", q0), ("u0", u0), ("times", times)):
        if not np.all(np.isfinite(value)):
            raise ValueError(f"{name}: expected finite numbers, got {np.asarray(value)}")
    steps = np.diff(np.asarray(times))
    if np.any(steps <= 0):
        row = int(np.argmax(steps <= 0)) + 1
        raise ValueError(f"times: expected increasing, but times[{row}] = {times[row]} follows {times[row - 1]}")
    gap, mass, restitution = _values(system, params, q0, times[0])
    if not np.all((restitution >= 0) & (restitution <= 1)):
        raise ValueError(f"restitution: expected within [0, 1], got {restitution}")
    diagonal = mass if mass.ndim == 1 else np.linalg.eigvalsh((mass + mass.T) / 2)
    if not np.all(diagonal > 0):
        raise ValueError(f"mass: expected positive (definite), got {mass}")
    worst = int(np.argmin(gap)) if gap.size else 0
    if gap.size and not gap[worst] >= -_overlap_tolerance(q0):
        raise ValueError(f"q0: expected no overlap, but gap[{worst}] = {gap[worst]:.6g} at the first time")


def _values(system, params, q0, t):
    gap, mass, restitution = _initial_values(system, params, q0, t)
    return np.asarray(gap), np.asarray(mass), np.asarray(restitution)


@partial(jax.jit, static_argnames="system")
def _initial_values(system, params, q0, t):
    return system.gap(t, q0, params), system.mass(q0, params), jnp.asarray(system.restitution(params))
