"""Times in, trajectory out: in steps of a given number, or in steps halved until the motion stays the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.core import Tracer

from diffcontact.arguments import count, placed, real_arrays, require_near, require_tolerance
from diffcontact.inputs import in_precision, require_inputs
from diffcontact.schemes.event_timed import EventTimed
from diffcontact.schemes.scheme import Scheme
from diffcontact.status import Status
from diffcontact.stepping import counted_steps, steps
from diffcontact.system import System
from diffcontact.trajectory import Trajectory

# [m, m/s]
TOLERANCE = 1e-6
# A neighbour list doubles each time: more would be a mistake in the input.
ENLARGEMENTS = 6


def simulate(
    system: Any,
    params: Any,
    q0: Any,
    u0: Any,
    times: Any,
    *,
    scheme: Scheme | None = None,
    substeps: int | str | Array = 1,
    tolerance: float | None = None,
    breaks: Any = None,
    percussions: int = 0,
    changes: int = 0,
    **unknown: Any,
) -> Trajectory:
    """The motion of `system` from (q0, u0) at times[0].

    Pure: jit, vmap, jvp, vjp in params, q0, u0 (and times). It compiles once per system, scheme and shapes; the arrays'
    precision, float32 or float64, is that of the simulation. All that moves in one system shares its digits: in float32
    velocities, and accelerations where contacts push, below some 1e-5 of the largest are rounding, wherever they are.

    Second derivatives are right through impacts, but lack what the time of a lift-off contributes: the motion does not
    depend on it to first order, and it is not differentiated.

    Forces, walls and belts that are functions of time are looked at between the times of steps, too. What they do there
    without any step seeing it, as when a table shakes as often as steps are taken, has the status TOO_COARSE.

    Args:
        system: a `System`, or a `ParticleLine` (for `EventTimed` and `PercussionFriction`).
        params: what the system's functions are given, any pytree of numbers. A dict may hold keys that they do not
            read, for `initial` or other runs; one that looks misspelled is refused, or told by a warning where the
            right one is there, too.
        q0: (d,) position at the first time [m]; no gap may be negative.
        u0: (d,) velocity at the first time [m/s].
        times: (n + 1,) increasing, any spacing [s].
        scheme: a step map, one of `diffcontact.schemes` or a `Scheme` of your own; None means `EventTimed()`.
        substeps: each interval is cut into so many equal steps; "auto", outside transformations: into as many as it
            takes until halving them changes the motion by less than `tolerance` (`Trajectory.error`). A () integer
            array is a number that is known when running only: one compilation serves all, but reverse mode needs an
            int, and so do percussions.
        tolerance: of "auto", for every position and velocity at the times asked for [m, m/s]; None: 1e-6. Steps of a
            given number take none.
        breaks: None, or (m,) times at which forces jump (a control that is switched) [s]: steps end there, and a force
            is never evaluated on the wrong side. Without them a jump inside a step, or rounded to its other side, costs
            the order of the scheme. A break that falls on one of the times is taken for that time: the derivative by
            the break is zero then, and that by the time holds it.
        percussions: how many to list (`Trajectory.percussions`); EventTimed on a `System` knows them.
        changes: of a system whose contacts rub, how many changes between open, stick and slip to list
            (`Trajectory.changes`), those at an event at its own time, with its derivative; EventTimed knows them. What
            depends on the split of a reaction that several contacts share in more than one way has no derivative.

    Returns:
        A `Trajectory`.

    Raises:
        TypeError: for arguments by other names.
        ValueError: for inputs of the wrong shape, and systems that the scheme does not step. Where values are known
            (outside transformations) also for times that do not increase, values that are not finite, masses that are
            not positive, overlapping q0, and restitution outside [0, 1], or above 0 with an inelastic scheme. Inside
            a transformation the trajectory's status says what happened; what cannot be simulated stays at (q0, u0).

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> cart = dc.System(
        ...     gap=lambda t, q, p: 1.0 - q,
        ...     force=lambda t, q, u, p: jnp.zeros(1),
        ...     mass=lambda q, p: jnp.ones(1),
        ...     restitution=lambda p: p["e"],
        ... )
        >>> run = dc.simulate(cart, {"e": 0.5}, [0.0], [2.0], [0.0, 0.5, 1.0])
        >>> [x[:, 0].round(12).tolist() for x in (run.q, run.u, run.impulse)]
        [[0.0, 1.0, 0.5], [2.0, -1.0, -1.0], [3.0, 0.0]]
    """
    known = {field.name for field in fields(EventTimed)}
    for name, value in unknown.items():
        hint = f"; it is the scheme's: scheme=EventTimed({name}={value!r})" if name in known else ""
        raise TypeError(f"simulate has no argument {name!r}{hint}")
    scheme = EventTimed() if scheme is None else scheme
    if not isinstance(scheme, Scheme):
        raise ValueError(f"scheme: expected a step map like EventTimed(), got {scheme!r}")
    percussions, changes = count("percussions", percussions, 0), count("changes", changes, 0)
    substeps = _number_of(substeps, percussions or changes)
    given = times
    q0, u0, times = real_arrays(q0=q0, u0=u0, times=times)
    require_near("times", given, times.dtype)
    breaks = None if breaks is None else _checked_breaks(breaks, times.dtype)
    sound = require_inputs(system, params, q0, u0, times, scheme)
    system = in_precision(system, q0.dtype)
    telling = _telling(system, scheme, percussions, changes)

    def run(number, percussions=0, changes=0):
        stepped = steps if isinstance(number, int) else counted_steps
        chosen = telling if percussions or changes else scheme
        given = params, q0, u0, times, breaks, chosen, number, percussions, changes, sound
        return with_room(lambda system: stepped(system, *given), system)

    if not isinstance(substeps, str):
        if tolerance is not None:
            raise ValueError(f'tolerance={tolerance!r}: expected substeps="auto" with it, got substeps={substeps!r}')
        return run(substeps, percussions, changes)
    tolerance = TOLERANCE if tolerance is None else tolerance
    if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((params, q0, u0, times, breaks, tolerance))):
        raise ValueError('substeps="auto" works outside transformations only (jit, vmap, grad): give a number inside')
    require_tolerance(tolerance)
    # One compilation for all numbers of substeps; only a list of percussions or changes depends on it.
    number, found = refined(lambda number: run(placed(number)), tolerance)
    listed = run(number, percussions, changes) if percussions or changes else found
    return replace(listed, error=found.error, status=found.status, substeps=placed(number))


def _telling(system, scheme, percussions: int, changes: int) -> Scheme:
    """The scheme, that tells percussions or changes of modes where so many are to be listed."""
    timed = isinstance(scheme, EventTimed)
    if changes and not (timed and isinstance(system, System) and system.rubs):
        what = f"{type(scheme).__name__} on a {type(system).__name__}"
        raise ValueError(f"changes={changes}: only EventTimed on a System with slip=... knows them, got {what}")
    wanted = {name for name, number in (("percussions", percussions), ("changes", changes)) if number}
    return replace(scheme, tells=frozenset(wanted)) if timed and wanted else scheme


def _number_of(substeps, listed: int) -> int | str | Array:
    """The argument, checked."""
    if isinstance(substeps, str) and substeps == "auto":
        return substeps
    if not isinstance(substeps, Array):
        return count("substeps", substeps, 1)
    known = not isinstance(substeps, Tracer)
    if substeps.shape or not jnp.issubdtype(substeps.dtype, jnp.integer) or (known and int(substeps) < 1):
        raise ValueError(f"substeps={substeps!r}: expected an integer of at least 1")
    if listed:
        raise ValueError(f"substeps={substeps!r}: to list percussions or changes an int is needed, got an array")
    return substeps


def _checked_breaks(breaks, dtype) -> Array:
    breaks = real_arrays(breaks=breaks)[0].astype(dtype)
    if breaks.ndim != 1:
        raise ValueError(f"breaks: expected times of shape (m,), got shape {breaks.shape}")
    if not isinstance(breaks, Tracer) and not np.all(np.isfinite(breaks)):
        raise ValueError(f"breaks: expected finite numbers, got {breaks}")
    return breaks


def with_room(run: Callable[[Any], Any], system: Any) -> Any:
    """`run(system)`, and again with a larger neighbour list as long as the result's status asks for one.

    The list's length is a shape, so that inside transformations there is no second run.

    Args:
        run: of a system, whose result has a `status` ().
        system: where to begin.

    Returns:
        The last result, after at most `ENLARGEMENTS` runs.
    """
    for _ in range(ENLARGEMENTS):
        found = run(system)
        larger = None if isinstance(found.status, Tracer) else system.larger(Status(int(found.status)))
        if larger is None:
            break
        system = larger
    return found


T = TypeVar("T")
# The finest step is 1/16384 of an interval.
HALVINGS = 14
# What smaller steps may mend.
OF_THE_STEP = (
    Status.OK,
    Status.TOO_COARSE,
    Status.TOO_MANY_EVENTS,
    Status.INFEASIBLE,
    Status.PROJECTION_LIMIT,
    Status.NOT_FINITE,
)


def refined(run: Callable[[int], Trajectory], tolerance: float) -> tuple[int, Trajectory]:
    """Take as many substeps as it takes until halving the steps changes the motion by less than the tolerance.

    Args:
        run: substeps -> trajectory.
        tolerance: largest change allowed of any position and velocity at the times asked for [m, m/s]; see `change`.

    Returns:
        The number of substeps and the finer one of the last two runs, whose `error` is the change.
    """
    substeps, found, error = halved(run, change, lambda found: found.status, tolerance, HALVINGS)
    return substeps, judged(found, error, tolerance)


def halved(
    run: Callable[[int], T],
    change: Callable[[T, T], Any],
    status: Callable[[T], Any],
    tolerance: float,
    halvings: int,
) -> tuple[int, T, float]:
    """Halve the steps of a run, so often at most, until what it finds changes by no more than the tolerance.

    Args:
        run: substeps -> what is found; change: of one finding to the next.
        status: of a finding. One that smaller steps cannot mend ends the search, one that they can prolongs it.

    Returns:
        The number of substeps, what is found with it, and the last change; NaN where there was nothing to mend.
    """
    coarse, substeps, error = run(1), 1, np.inf
    for _ in range(halvings):
        if int(status(coarse)) not in OF_THE_STEP:
            return substeps, coarse, np.nan
        substeps *= 2
        fine = run(substeps)
        error, coarse = float(change(coarse, fine)), fine
        if error <= tolerance and int(status(fine)) == Status.OK:
            break
    return substeps, coarse, error


def judged(found: Trajectory, error: Any, tolerance: float) -> Trajectory:
    """The trajectory with its error; TOO_COARSE where that is above the tolerance."""
    numbers, told = _numbers(found), found.status
    missed = numbers.where(error > tolerance, Status.TOO_COARSE, Status.OK).astype(told.dtype)
    status = numbers.where(numbers.asarray(told) == Status.OK, missed, told)
    return replace(found, status=placed(status), error=placed(error, found.q.dtype))


def change(one: Trajectory, other: Trajectory) -> Any:
    """() the largest difference between two runs of any position [m] and any velocity [m/s], at the same times.

    A velocity is left out where an impact falls on the output time itself; see `astride`.
    """
    numbers = _numbers(one)
    q, u = (abs(numbers.asarray(a) - numbers.asarray(b)) for a, b in ((one.q, other.q), (one.u, other.u)))
    largest = numbers.maximum(q.max(), numbers.where(astride(one, other)[:, None], 0, u).max())
    finite = numbers.isfinite(q).all() & numbers.isfinite(u).all()
    return numbers.where(finite, largest, np.inf)


def _numbers(run: Trajectory) -> Any:
    """numpy, whose operations need no compilation, or what traces them within a transformation."""
    return jnp if isinstance(run.q, Tracer) else np


def astride(one: Trajectory, other: Trajectory) -> Any:
    """(n + 1,) where an impact falls on the output time itself and two runs put it on either side.

    Its impulse belongs to the interval before in one of them and to the one after in the other.
    """
    numbers = _numbers(one)
    impulse = numbers.asarray(one.impulse)
    moved = impulse - numbers.asarray(other.impulse)
    both = abs(moved[:-1] + moved[1:]) <= 1e-3 * numbers.maximum(abs(moved[:-1]), abs(moved[1:]))
    across = both & (abs(moved[:-1]) > 1e-3 * numbers.max(abs(impulse), initial=0.0))
    return numbers.pad(across.any(axis=tuple(range(1, across.ndim))), 1)
