"""Times in, trajectory out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.core import Tracer

from diffcontact.checks import check, count, real_arrays
from diffcontact.requirements import all_requirements, initial_status
from diffcontact.schemes.among_neighbours import adapted
from diffcontact.schemes.event_timed import EventTimed
from diffcontact.schemes.percussion import Percussion
from diffcontact.schemes.scheme import Scheme
from diffcontact.standstill import harmless, stay
from diffcontact.status import Status, first, stands_still
from diffcontact.system import in_precision

# Each doubles the lists of a crowd.
ENLARGEMENTS = 6


@partial(
    jax.tree_util.register_dataclass, data_fields=["t", "q", "u", "impulse", "status", "percussions"], meta_fields=[]
)
@dataclass(frozen=True)
class Trajectory:
    """A simulated motion on the grid of times it was asked for.

    Attributes:
        t: (n + 1,) times [s].
        q: (n + 1, d) positions [m].
        u: (n + 1, d) velocities, right limits [m/s].
        impulse: (n, c) impulse of each contact over each interval [N s], percussions and persistent contact together;
            of a `ParticleLine`, the impulse of friction on each particle; of balls with a cell list, (n, count), what
            each ball takes part in.
        status: () 0 = fine, else the first `Status` that happened.
        percussions: where asked for, the first so many `Percussion`s in order, each field with a leading axis,
            `contact` -1 behind the last one; else None. Differentiable: the time of an impact, its impulse.
    """

    t: Array
    q: Array
    u: Array
    impulse: Array
    status: Array
    percussions: Percussion | None = None

    @property
    def density(self) -> Array:
        """(n, c) the reaction's mean over each interval, impulse / length [N]; a vmapped trajectory's too."""
        return self.impulse / jnp.diff(self.t)[..., None]


def simulate(
    system: Any,
    params: Any,
    q0: Any,
    u0: Any,
    times: Any,
    *,
    scheme: Scheme | None = None,
    substeps: int = 1,
    percussions: int = 0,
    **unknown: Any,
) -> Trajectory:
    """The motion of `system` from (q0, u0) at times[0].

    Pure: jit, vmap, jvp, vjp in params, q0, u0 (and times). It compiles once per system, scheme and shapes; the arrays'
    precision, float32 or float64, is that of the simulation.

    Args:
        system: a `System`, or a `ParticleLine` (for `EventTimed` and `PercussionFriction`).
        params: what the system's functions are given, any pytree of numbers.
        q0: (d,) position at times[0] [m]; no gap may be negative.
        u0: (d,) velocity at times[0] [m/s].
        times: (n + 1,) increasing, any spacing [s].
        scheme: a step map; None means `EventTimed()`.
        substeps: each interval is cut into so many equal steps.
        percussions: how many to list (`Trajectory.percussions`); EventTimed on a `System` knows them.

    Returns:
        A `Trajectory`.

    Raises:
        TypeError: for arguments by other names.
        ValueError: for inputs of the wrong shape, and, where values are known (outside transformations), for times
            that do not increase, restitution outside [0, 1] (or above 0 with an inelastic scheme), masses that are not
            positive, values that are not finite and overlapping q0. Inside a transformation the trajectory's status
            says what happened; what cannot be simulated at all stays at (q0, u0).

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
    for name, value in unknown.items():
        hint = f"; it is the scheme's: scheme=EventTimed({name}={value!r})" if hasattr(EventTimed, name) else ""
        raise TypeError(f"simulate has no argument {name!r}{hint}")
    scheme = EventTimed() if scheme is None else scheme
    substeps, percussions = count("substeps", substeps, 1), count("percussions", percussions, 0)
    q0, u0, times = real_arrays(q0=q0, u0=u0, times=times)
    check(system, params, q0, u0, times, scheme)
    system = in_precision(system, q0.dtype)
    scheme = adapted(scheme, system)
    run = _run(system, params, q0, u0, times, scheme, substeps, percussions)
    # The lists of a crowd have a fixed length; outside transformations a run that outgrew them is done again.
    for _ in range(ENLARGEMENTS):
        if isinstance(run.status, Tracer) or run.status not in (Status.NEIGHBOURS_FULL, Status.NEIGHBOURS_MISSED):
            break
        system = system.larger(run.status)
        run = _run(system, params, q0, u0, times, scheme, substeps, percussions)
    return run


@partial(jax.jit, static_argnames=("system", "scheme", "substeps", "percussions"))
def _run(system, params, q0, u0, times, scheme, substeps, percussions) -> Trajectory:
    def step(state, at):
        t, h = at
        state, info = scheme.step(system, params, t, h, state)
        return state, info

    keep = jax.checkpoint_policies.save_only_these_names(*getattr(scheme, "keeps", ()))
    step = jax.checkpoint(step, prevent_cse=False, policy=keep)

    def interval(carry, at):
        state, status = carry
        t, h = at
        starts = t + h * jnp.arange(substeps, dtype=h.dtype)
        state, info = lax.scan(step, state, (starts, jnp.full((substeps,), h)))
        status = first(status, info.status[jnp.argmax(info.status != Status.OK)])
        happened = info.percussions if percussions else None
        return (state, status), (state.q, state.u, jnp.sum(info.impulse, axis=0), happened)

    if substeps > 1:
        # Reverse mode keeps a state per interval and, while it is there, one (and what the scheme keeps) per substep of
        # it: with as many substeps as intervals its memory grows like the root of the number of steps.
        interval = jax.checkpoint(interval, prevent_cse=False)
    asked = q0, u0, times
    found = all_requirements(system, params, *asked)
    status = initial_status(found)
    stands = stands_still(status)
    system, params, q0, u0, times = harmless(found, stands, system, params, *asked)
    lengths = jnp.diff(times) / substeps
    initial = scheme.init(system, params, times[0], lengths[0], q0, u0)
    (_, status), (q, u, impulse, happened) = lax.scan(interval, (initial, status), (times[:-1], lengths))
    q0, u0, times = asked
    q, u = jnp.concatenate([q0[None], stay(stands, q0, q)]), jnp.concatenate([u0[None], stay(stands, u0, u)])
    impulse = jnp.where(stands, 0, impulse)
    finite = jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(u)) & jnp.all(jnp.isfinite(impulse))
    status = jnp.where(finite, status, Status.NOT_FINITE)
    listed = _listed(happened, stands, percussions, scheme) if percussions else None
    return Trajectory(t=times, q=q, u=u, impulse=impulse, status=status, percussions=listed)


def _listed(happened, stands, count, scheme) -> Percussion:
    """The first `count` percussions of all steps, in order; none where the lane stands still."""
    if happened is None:
        raise ValueError(f"percussions={count}: only EventTimed on a System knows them, got {type(scheme).__name__}")
    flat = jax.tree.map(lambda x: jnp.where(stands, _nothing(x), x).reshape(-1, *x.shape[3:]), happened)
    rows = jnp.argsort(flat.contact < 0, stable=True)[:count]
    return jax.tree.map(lambda x: jnp.concatenate([x[rows], _padding(x, count - rows.size)]), flat)


def _padding(x, count):
    return jnp.full((max(count, 0), *x.shape[1:]), _nothing(x))


def _nothing(x):
    return jnp.asarray(-1 if jnp.issubdtype(x.dtype, jnp.integer) else 0, x.dtype)
