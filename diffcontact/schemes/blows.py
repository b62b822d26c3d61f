"""What steps do not see between the times that they ask for, and is enough by itself: blows, walls, belts.

One step is enough, however long the body has been at rest. A sum over steps, as `unseen` has it, does not tell: what a
body feels while it lies on a floor for ten seconds hides any blow.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from diffcontact.qp.rows import magnitudes, product
from diffcontact.schemes.unseen import PLACES, SIMPSON, beside, depends_on_time, hides
from diffcontact.system import acceleration

# What a step takes a force for may be wrong by 5/8 of what comes or goes with it and lasts for eight steps: by half,
# where it is switched on right behind the beginning of a step, and as a mean over uneven places. And by 1/8 of what
# acts anyhow, so that a force may have six steps for a period.
_STEPS, _SWITCHED, _ACTING = 8, 5 / 8, 1 / 8
# And by that share of the largest force on any coordinate.
_LARGEST = 1 / 256
# A wall may come in by that share faster than the body that it meets goes on.
_THROWN = 3 / 16
# What surfaces that hardly move round by, in eps of the largest coordinate.
_ROUNDING = 64


def forces_blow(given: Callable, t, s, root: Array) -> Array:
    """(d,) the change of velocity within s seconds by a force that steps do not see [m/s]; 0 where it is none to tell.

    A force that is switched on within a step is there in the next ones, too, and taken wrongly for less than a step;
    one that is there between two times, or at one only, is taken for none or for a whole step's. What comes and goes is
    looked for in the eight steps before and behind.

    Args:
        given: t -> (..., d) accelerations, of which several are added up.
        root: (d,) the root of the mass, which tells what coordinates of different units weigh.

    Example:
        >>> hammer = lambda t: jnp.where((t > 0.31) & (t < 0.35), 100.0, 0.0) * jnp.ones(1)
        >>> switched = lambda t: jnp.where(t > 0.31, 100.0, 0.0) * jnp.ones(1)
        >>> felt = jax.jit(forces_blow, static_argnums=0)
        >>> [np.round(felt(force, 0.25, 0.1, np.ones(1)), 1).tolist() for force in (hammer, switched)]
        [[4.2], [0.0]]
    """
    t, s, root = lax.stop_gradient((jnp.asarray(t), s, root))
    if not depends_on_time(given, t):
        return jnp.zeros_like(root)
    steps = np.arange(_STEPS)
    times = t + s * jnp.asarray(np.concatenate([PLACES, -steps, 1 + steps]), jnp.result_type(t, s))
    values = lax.stop_gradient(jax.vmap(given)(times))
    # Before and behind a motion a force need not be defined.
    values = jnp.where(jnp.isfinite(values), values, 0.0).reshape(times.size, -1, root.size)
    within, before, behind = jnp.split(values, [PLACES.size, PLACES.size + _STEPS])
    shares = jnp.asarray(PLACES, values.dtype)[:, None, None]
    off = jnp.mean(jnp.abs(within - (1 - shares) * before[:1] - shares * behind[:1]), axis=0)
    acting = jnp.maximum(jnp.abs(before[0]), jnp.abs(behind[0]))
    least = (_LARGEST * jnp.max(root[None] * acting) / root)[None]
    told = off > _SWITCHED * _lasting(before, behind) + jnp.maximum(_ACTING * acting, least)
    return jnp.abs(s) * jnp.sum(jnp.where(told, off, 0.0), axis=0)


def _lasting(before: Array, behind: Array) -> Array:
    """How much values change from step to step, or once for all."""
    here, there = (jnp.mean(values, axis=0) for values in (before, behind))
    changes = jnp.mean(jnp.abs(before - here[None]), axis=0), jnp.mean(jnp.abs(behind - there[None]), axis=0)
    return jnp.maximum(jnp.maximum(*changes), jnp.abs(there - here))


def surfaces_strike(system, params, t, s, q: Array, u: Array, w: Array, impulse: Array) -> Array:
    """() whether walls throw a body within s seconds, or belts push it, in a way that steps do not see.

    Args:
        q, u: the place and the velocity at the beginning; w: (d,) the velocity at the end.
        impulse: (c,) of the contacts that acted [N s].
    """
    params, t, q, u, w, impulse = lax.stop_gradient((params, t, q, u, w, impulse))
    thrown = walls_kick(system, params, t, s, q, u, w, impulse)
    if system.joint_slip is not None:
        slip = lambda t: system.joint_slip(t, q, u, params)  # noqa: E731
        thrown = thrown | belts_shake(slip, t, s, jnp.ones(jax.eval_shape(slip, t).shape[0], bool))
    if not system.rubs:
        return thrown
    return thrown | belts_shake(lambda t: system.slip(t, q, u, params), t, s, impulse != 0)


def walls_kick(system, params, t, s, q: Array, u: Array, w: Array, impulse: Array) -> Array:
    """() whether a wall comes in within s seconds, for a part of the step, so fast that a body there is thrown.

    That is faster than the body is, before or behind it, and than the wall goes on: a piston that starts within a step
    has its body in the next one. A wall that opens throws nothing. Arguments as in `surfaces_strike`.
    """

    def gap(t):
        return system.gap(t, q, params)

    if not depends_on_time(gap, t):
        return jnp.array(False)
    shares = np.concatenate([[0.0], PLACES, [1.0, 2.0]])
    gaps = jax.vmap(gap)(t + s * jnp.asarray(shares, q.dtype))
    moves = gaps[:-1] - gaps[1:]
    within, behind = moves[:-1], jnp.where(jnp.isfinite(moves[-1]), moves[-1], 0.0)
    rows, a = system.linearised(params, t, q)[1], acceleration(system, params, t, q, u)
    speed = jnp.maximum(jnp.abs(u), jnp.abs(w)) + s * jnp.abs(a)
    goes_on = jnp.maximum(jnp.maximum(product(rows, u), product(rows, w)), behind / s)
    known = jnp.maximum(goes_on, 0.0) + s / 2 * jnp.abs(product(rows, a)) + _THROWN * magnitudes(rows, speed)
    rounding = _ROUNDING * jnp.finfo(q.dtype).eps * jnp.max(jnp.abs(q))
    parts = jnp.asarray(np.diff(shares[:-1])[:, None], q.dtype)
    fast = jnp.any(within > parts * s * known[None] + rounding, axis=0)
    reached = (impulse != 0) | (jnp.min(gaps[:-1], axis=0) <= 0)
    return jnp.any(reached & fast)


def belts_shake(slip: Callable, t, s, touching: Array) -> Array:
    """() whether belts do in this step, and in those before and behind it, what steps do not see.

    One that starts or stops at once does so in one step, or in two. Through three friction may have pushed in any
    direction.

    Args:
        slip: t -> (c, k) what contacts rub with, for bodies as they are [m/s].
        touching: (c,) contacts that acted.
    """
    t, s = lax.stop_gradient((jnp.asarray(t), s))
    if not depends_on_time(slip, t):
        return jnp.array(False)
    begins = t + s * jnp.asarray([-1.0, 0.0, 1.0], jnp.result_type(t, s))
    off, size = jax.vmap(lambda t: beside(slip, t, s, SIMPSON))(begins)
    return jnp.any(touching[:, None] & jnp.all(hides(off, size, slip(t)), axis=0))
