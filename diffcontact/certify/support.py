"""What holds contacts that rub: loads and friction, in the modes that the slip velocities tell."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from jax import lax

from diffcontact.friction import friction_coefficients, slip_acceleration, slips
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.numerics.mass import solve
from diffcontact.system import acceleration, contacts, gap_acceleration

# So many states are computed at once.
AT_ONCE = 64


class Support(NamedTuple):
    """States (m,) of a system whose contacts rub, with what holds their closed contacts.

    Attributes:
        load: (m, c) normal reactions [N], zero where a contact is open.
        opening: (m, c) accelerations of the gaps [m/s^2].
        slip: (m, c, k) slip velocities [m/s], and `turning`, (m, c, k), their rates [m/s^2].
        shared: (m,) whether what is held tells the sum of what loaded contacts do only, not the share of each.
        matters: (m,) whether the acceleration depends on these shares.
    """

    load: np.ndarray
    opening: np.ndarray
    slip: np.ndarray
    turning: np.ndarray
    shared: np.ndarray
    matters: np.ndarray


class _Place(NamedTuple):
    """One state: rows N (c, d) and S (c, k, d), both times M^-1, and accelerations without any reaction."""

    normals: Any
    tangents: Any
    pushed: Any
    dragged: Any
    opening: Any
    turning: Any
    slip: Any
    mu: Any


def support(system, params, t, q, u, closed, still: float) -> Support:
    """Loads and friction of closed contacts (m, c), of which those slip that are faster than `still` [m/s].

    With A the rows of what is held (N of the closed contacts, S of those that stick) and R those of the reactions
    (N - mu d . S where a contact slips along d), A (a + M^-1 R^T x) + b = 0 in the sense of least squares; contacts
    that would pull are left out. Those that stick are not asked whether friction suffices.
    """
    places = of_states(_places, system, params, t, q, u)
    found = [_held(_Place(*(x[k] for x in places)), closed[k], still) for k in range(len(t))]
    return Support(*(np.array(x) for x in zip(*found, strict=True)))


def of_states(function, system, params, *states):
    """Call a compiled function for states (m, ...), m > 0, padded with the last to a power of two: few are compiled."""
    count = len(states[0])
    size = AT_ONCE * 2 ** int(np.ceil(np.log2(max(1.0, count / AT_ONCE))))
    filled = (np.concatenate([x, np.repeat(x[-1:], size - count, axis=0)]) for x in states)
    return jax.tree.map(lambda x: np.asarray(x)[:count], function(system, params, *filled))


@partial(jit_fast_compile, static=("system",))
def _places(system, params, t, q, u):
    def one(at):
        t, q, u = at
        near, slip, mass = contacts(system, params, t, q), slips(system, params, t, q, u.size), system.mass(q, params)
        free, (count, k, size) = acceleration(system, params, t, q, u), slip.tangents.shape
        pushed = solve(mass, near.normals.T).T
        dragged = solve(mass, slip.tangents.reshape(-1, size).T).T.reshape(count, k, size)
        opening = gap_acceleration(system, params, t, q, u, free)
        turning = slip_acceleration(system, params, t, q, u, free)
        mu = friction_coefficients(system, params, count, q.dtype)
        return _Place(near.normals, slip.tangents, pushed, dragged, opening, turning, slip.velocity(u), mu)

    return lax.map(one, (t, q, u), batch_size=AT_ONCE)


def _held(at: _Place, closed, still: float):
    """The entries of a `Support` of one state."""
    size = at.normals.shape[1]
    fast = np.linalg.norm(at.slip, axis=1)
    along = at.slip / np.where(fast > 0, fast, 1.0)[:, None]
    while True:
        slides = closed & (fast > still)
        sticks = closed & ~slides & (at.mu > 0)
        drag = np.where(slides, at.mu, 0.0)[:, None] * along
        held = np.concatenate([at.normals[closed], at.tangents[sticks].reshape(-1, size)])
        wanted = np.concatenate([at.opening[closed], at.turning[sticks].ravel()])
        pushed = (at.pushed - np.einsum("ck,ckd->cd", drag, at.dragged))[closed]
        reactions = np.concatenate([pushed, at.dragged[sticks].reshape(-1, size)])
        matrix = held @ reactions.T
        found = np.linalg.lstsq(matrix, -wanted, rcond=_DEPENDENT)[0] if len(wanted) else wanted
        load = np.zeros(len(closed), at.opening.dtype)
        load[closed] = found[: np.sum(closed)]
        pulls = load < -_DEPENDENT * np.max(np.abs(load), initial=0.0)
        if not np.any(pulls):
            break
        closed = closed & ~pulls
    moved = found @ reactions if len(found) else np.zeros(size)
    loaded = load > _DEPENDENT * np.max(load, initial=0.0)
    counts = np.concatenate([loaded[closed], np.repeat(loaded[sticks], at.slip.shape[1])])
    rank = _rank(held[counts] @ reactions[counts].T)
    shared = bool(np.any(loaded & (at.mu > 0))) and rank < np.sum(counts)
    matters = shared and rank < _rank(reactions[counts])
    turning = at.turning + at.tangents @ moved
    return load, at.opening + at.normals @ moved, at.slip, turning, shared, matters


# Relative size of what counts as nothing.
_DEPENDENT = 1e-6


def _rank(rows) -> int:
    """The number of independent rows, each of length one."""
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    return int(np.linalg.matrix_rank(rows / np.where(sizes > 0, sizes, 1.0), tol=_DEPENDENT)) if rows.size else 0
