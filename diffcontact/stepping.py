"""A step map, step after step: from one time that was asked for to the next."""

from __future__ import annotations

import copy
from dataclasses import replace
from math import prod
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.inputs import all_requirements, initial_status, sanitised
from diffcontact.numerics.batching import entangled, in_lanes, once, side_by_side
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.schemes.event_timed.events import ModeChange, Percussion, mode_changes
from diffcontact.schemes.monitor import enters_closed
from diffcontact.schemes.scheme import Info, Scheme
from diffcontact.status import Status, first, stands_still
from diffcontact.system import ParticleLine, System, normalised
from diffcontact.trajectory import Trajectory


def initial_state(scheme: Scheme, system, params, t, h, q: Array, u: Array) -> Any:
    """What the first step starts from, of length h."""
    return scheme.init(system.neighbours(params, t, h, q, u), params, t, h, q, u)


def one_step(scheme: Scheme, system, params, t, h, state) -> tuple[Any, Info]:
    """One step among the contacts that may close in it, reported as of the whole system."""
    listed = system.neighbours(params, t, h, state.q, state.u)
    after, info = scheme.step(listed, params, t, h, state)
    if isinstance(system, System) and system.normalise is not None:
        after = replace(after, q=normalised(system, params, after.q))
    status = first(listed.overlooked(state.q, after.q), info.status)
    if isinstance(listed, System):
        status = first(status, enters_closed(listed, params, t, h, state, after))
    happened = info.percussions
    if happened is not None and listed.numbers is not None:
        happened = happened.numbered(listed.numbers)
    # A list's contacts are others in every step, and so are the directions of their friction.
    if info.pieces is not None and listed.numbers is not None:
        raise ValueError("changes: expected a system whose contacts keep their numbers, got one with a cell list")
    friction = info.friction if listed.numbers is None else None
    truncation = scheme.truncated(listed, params, t, h, state, after, info.impulse)
    return after, Info(listed.reported(info.impulse), status, happened, friction, info.pieces, truncation)


def _stepped(system, params, q0, u0, times, breaks, scheme, substeps, percussions, changes, sound) -> Trajectory:
    """The motion, each interval between two times (and breaks) cut into `substeps` steps.

    Args:
        system, params, q0, u0, times, scheme, percussions, changes: as in `simulate`, checked.
        breaks: None or (m,).
        substeps: an int, or a traced () integer; see `steps` and `counted_steps`.
        sound: whether all requirements are known to hold.
    """
    asked = q0, u0, times
    status, stands = jnp.zeros((), int), jnp.array(False)
    if not sound:
        found = all_requirements(system, params, *asked)
        status = initial_status(found)
        stands = stands_still(status)
        system, params, q0, u0, times = sanitised(found, stands, system, params, *asked)
    step, advance = _each_piece(system, params, breaks, scheme, substeps, percussions)
    grid, places, intervals = (times, None, None) if breaks is None else with_breaks(times, breaks)
    q0 = normalised(system, params, q0) if isinstance(system, System) else q0
    q0, u0 = entangled((q0, u0), (params, times))
    at_first = times[0], (times[1] - times[0]) / substeps
    initial = initial_state(scheme, system, params, *at_first, q0, u0)
    truncation = _zeros_like(jax.eval_shape(step, initial, at_first)[1].truncation)
    (end, status, truncation), (told, impulses, happened) = lax.scan(
        advance, in_lanes((initial, status, truncation), q0), (grid[:-1], grid[1:])
    )
    status, (q, u, adhesion, error) = first(status, scheme.conclude(system, params, end)), told
    if truncation is not None:
        mass = system.mass(end.q, params) if isinstance(system, System) else system.mass(params)
        coarse = jnp.where(truncation.coarse(mass), Status.TOO_COARSE, Status.OK).astype(jnp.int32)
        status = first(status, coarse)
    q0, u0, times = asked
    q, u = (jnp.concatenate([x[None], jnp.where(stands, x[None], way)]) for x, way in ((q0, q), (u0, u)))
    impulses = jax.tree.map(lambda impulse: jnp.where(stands, 0, impulse), impulses)
    adhesion, error = jax.tree.map(
        lambda x: jnp.concatenate([jnp.zeros_like(x[:1]), jnp.where(stands, 0, x)]), (adhesion, error)
    )
    if breaks is not None:
        q, u, adhesion, error = jax.tree.map(lambda x: x[places], (q, u, adhesion, error))
        none = jax.tree.map(lambda x: jnp.zeros((times.size - 1, *x.shape[1:]), x.dtype), impulses)
        impulses = jax.tree.map(lambda none, impulse: none.at[intervals].add(impulse), none, impulses)
    finite = jnp.all(jnp.isfinite(q)) & jnp.all(jnp.isfinite(u))
    finite = finite & jnp.all(jnp.asarray([jnp.all(jnp.isfinite(impulse)) for impulse in jax.tree.leaves(impulses)]))
    status = jnp.where(finite, status, Status.NOT_FINITE)
    impulse, friction = impulses
    run = Trajectory(t=times, q=q, u=u, impulse=impulse, status=status, friction=friction, adhesion=adhesion)
    run = run if error is None else replace(run, error=error)
    struck, pieces = happened
    if percussions:
        run = replace(run, percussions=_listed(struck, stands, percussions, scheme))
    return replace(run, changes=_changed(pieces, stands, changes)) if changes else run


def work(system, params, q0, u0, times, breaks, scheme, substeps, *_) -> int:
    """What `jit_fast_compile` asks for; a number of substeps that one program serves for all is taken for eight."""
    friction = 10 if getattr(system, "rubs", False) else 1
    step = friction * (4 + q0.size**3)
    # A step in one kernel loses some 50 us where its code is not optimised, of 10 to 50.
    in_kernels = scheme is None or scheme.in_kernels
    step = min(step, 25) if in_kernels and q0.size <= _FEW else step
    return times.size * (substeps if isinstance(substeps, int) else 8) * step


# Coordinates of bodies whose steps by `EventTimed` are small enough for one kernel, as a rule.
_FEW = 6


# So many substeps, known when tracing: both modes of differentiation, percussions.
steps = jit_fast_compile(_stepped, work, static=("system", "scheme", "substeps", "percussions", "changes", "sound"))
# So many, known when running: one compilation serves all numbers. No reverse mode, no percussions.
counted_steps = jit_fast_compile(_stepped, work, static=("system", "scheme", "percussions", "changes", "sound"))


def _each_piece(system, params, breaks, scheme, substeps, percussions):
    """Make a step of (state, (t, h)), and a function that carries (state, status, truncation) over a piece of time
    (begin, end) and tells q, u and adhesion at its end, impulses, percussions and changes of modes."""
    keep = jax.checkpoint_policies.save_only_these_names(*scheme.keeps)

    def step_of(within):
        # The system is no static argument: JAX would keep it, and all that was traced for it, for ever.
        def step(state, at):
            t, h = at
            return one_step(scheme, within, params, t, h, state)

        return jax.checkpoint(step, prevent_cse=False, policy=keep)

    step = step_of(system)

    def piece(carry, at):
        state, status, truncation = carry
        begin, end = at
        within = step if breaks is None else step_of(between(system, begin, end))
        state, total, happened = _carried(within, state, begin, (end - begin) / substeps, substeps, percussions)
        truncation = jax.tree.map(jnp.add, truncation, total.truncation)
        carry = state, first(status, total.status), truncation
        return carry, (_told(state), (total.impulse, total.friction), happened)

    def unless_empty(carry, at):
        """A break at one of the times makes a piece of length zero."""
        shapes = jax.eval_shape(piece, carry, at)[1][1:]
        still = jax.tree.map(lambda x: jnp.full(x.shape, _nothing(x.dtype)), shapes)
        empty = at[1] - at[0] <= (0.0 if breaks is None else rounding(*at))
        return lax.cond(empty, lambda: (carry, (_told(carry[0]), *still)), once(lambda: piece(carry, at)))

    alone = isinstance(substeps, int) and substeps == 1
    # A single step is a branch although its piece is never empty, for the reason that `_carried` gives.
    apart = alone and side_by_side().apart
    advance = piece if breaks is None and not apart else unless_empty
    if alone:
        return step, advance
    # Reverse mode keeps a state per interval and, while it is there, one (and what the scheme keeps) per substep of it:
    # with as many substeps as intervals its memory grows like the root of the number of steps.
    return step, jax.checkpoint(advance, prevent_cse=False, policy=keep)


def _zeros_like(shapes):
    return jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)


def _told(state) -> tuple[Array, Array, Array | None, Array | None]:
    """What a trajectory tells of a state."""
    return state.q, state.u, getattr(state, "adhesion", None), getattr(state, "error", None)


def _carried(step, state, t, h, count, percussions):
    """`count` steps of length h from t; percussions are listed where that is asked for.

    Sums are carried along rather than lists kept. On a CPU XLA runs a loop's body that touches long arrays as a graph
    of tasks, and others as a sequence: a step of a ball takes 7 us in the one and 4 in the other.

    Returns:
        The state behind them; the sum of the impulses with the first status; of each step percussions, if asked for,
        and pieces, where the number of steps is known when tracing.
    """
    nothing = _zeros_like(jax.eval_shape(step, state, (t, h))[1])

    def one(carry, _):
        number, state, so_far = carry
        state, info = step(state, (t + h * number.astype(h.dtype), h))
        impulse, friction, truncation = (
            jax.tree.map(jnp.add, getattr(so_far, name), getattr(info, name))
            for name in ("impulse", "friction", "truncation")
        )
        total = Info(impulse, first(so_far.status, info.status), friction=friction, truncation=truncation)
        return (number + 1, state, total), (info.percussions if percussions else None, info.pieces)

    total = entangled(replace(nothing, percussions=None, pieces=None), (t, h, state))
    start = jnp.zeros((), int), state, total
    if isinstance(count, int):
        (_, state, total), happened = lax.scan(one, start, length=count)
    else:
        _, state, total = lax.fori_loop(0, count, lambda _, carry: one(carry, None)[0], start)
        happened = None, None
    return state, total, happened


def _listed(happened, stands, count, scheme) -> Percussion:
    """The first `count` percussions of all steps, in order; none where the lane stands still."""
    if happened is None:
        raise ValueError(f"percussions={count}: only EventTimed on a System knows them, got {type(scheme).__name__}")
    return _first(_in_order(happened, stands), count)


def _changed(pieces, stands, count) -> ModeChange:
    """The first `count` changes of modes, in order; without contacts none."""
    if pieces is None:
        none = jnp.zeros(0, int)
        return _first(ModeChange(jnp.zeros(0), none, none, none), count)
    return _first(mode_changes(_in_order(pieces, stands)), count)


def _in_order(happened, stands):
    """What all steps told, one after the other; nothing where the lane stands still."""

    def row(x):
        # The number of rows in full: without contacts arrays are empty, and -1 would be any number.
        return jnp.where(stands, _nothing(x.dtype), x).reshape(prod(x.shape[:3]), *x.shape[3:])

    return jax.tree.map(row, happened)


def _first(flat, count):
    """The first `count` of those that have a contact, padded."""
    rows = jnp.argsort(flat.contact < 0, stable=True)[:count]
    rest = max(count - rows.size, 0)
    return jax.tree.map(lambda x: jnp.append(x[rows], jnp.full((rest, *x.shape[1:]), _nothing(x.dtype)), axis=0), flat)


def _nothing(dtype):
    """What stands where no percussion happened: -1, which is no contact, or 0."""
    return jnp.asarray(-1 if jnp.issubdtype(dtype, jnp.integer) else 0, dtype)


# What adding up times can do to one, in units of eps |t|.
_ROUNDINGS = 16


def with_breaks(times: Array, breaks: Array) -> tuple[Array, Array, Array]:
    """Make a grid of times (n + 1,) that contains breaks (m,) in any order; those outside have no effect.

    Returns:
        grid (n + m + 1,), not decreasing; the places (n + 1,) of the times in it; for each of its n + m pieces the
        interval between two times that it lies in. A break at one of the times, up to rounding, makes a piece of
        length zero.

    Example:
        >>> import jax, jax.numpy as jnp
        >>> grid, places, intervals = jax.jit(with_breaks)(jnp.array([0.0, 1.0, 2.0]), jnp.array([0.25, 1.0]))
        >>> grid.tolist(), places.tolist(), intervals.tolist()
        ([0.0, 0.25, 1.0, 1.0, 2.0], [0, 3, 4], [0, 0, 1, 1])
    """
    breaks = jnp.clip(breaks, times[0], times[-1])
    after = jnp.clip(jnp.searchsorted(times, breaks), 1, times.size - 1)
    nearest = jnp.where(breaks - times[after - 1] < times[after] - breaks, times[after - 1], times[after])
    breaks = jnp.where(jnp.abs(breaks - nearest) <= rounding(breaks, nearest), nearest, breaks)
    grid = jnp.sort(jnp.concatenate([times, breaks]))
    places = jnp.searchsorted(grid, times, side="right") - 1
    intervals = jnp.clip(jnp.searchsorted(times, grid[:-1], side="right") - 1, 0, times.size - 2)
    return grid, places.at[0].set(0), intervals


def rounding(a: Array, b: Array) -> Array:
    """How far two times may be apart and be the same one [s]."""
    return _ROUNDINGS * jnp.finfo(a.dtype).eps * jnp.maximum(jnp.abs(a), jnp.abs(b))


def between(system: Any, begin: Array, end: Array) -> Any:
    """Make forces of a system see nothing before `begin` and after `end`, () times between two breaks [s].

    A force that jumps at `end` has its left limit there, one that jumps at `begin` its right limit, whatever the
    rounding of these times.
    """
    margin = rounding(begin, end)

    def inside(function):
        return lambda t, *args: function(jnp.clip(t, begin + margin, end - margin), *args)

    piece = copy.copy(system)
    for name in ("force", "joint_friction") if isinstance(system, System) else ("load", "normal"):
        if isinstance(system, System | ParticleLine) and getattr(system, name) is not None:
            object.__setattr__(piece, name, inside(getattr(system, name)))
    return piece
