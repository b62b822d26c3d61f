"""What holds contacts: loads and friction, in the modes that the slip velocities tell.

The record of a run has the modes of its pieces, but no loads; and loads are asked of states beside the run, too.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from scipy.optimize import nnls

from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.numerics.mass import solve
from diffcontact.schemes.event_timed.contacts import Law, Place, bends, free_acceleration

# So many states are computed at once.
AT_ONCE = 64
# Relative size of what counts as nothing.
_DEPENDENT = 1e-6


class Support(NamedTuple):
    """States (m,) of a system, with what holds their closed contacts.

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


def support(system, params, t, q, u, closed, still: float) -> Support:
    """Loads and friction of closed contacts (m, c), of which those slip that are faster than `still` [m/s].

    Without friction that is Gauss' principle. With it, A the rows of what is held (N of the closed contacts, S of those
    that stick) and R those of the reactions (N - mu d . S where a contact slips along d), A (a + M^-1 R^T x) + b = 0 in
    the sense of least squares; contacts that would pull are left out. Those that stick are not asked whether friction
    suffices.
    """
    states = of_states(_states, system, params, t, q, u)
    found = [_held(*(x[k] for x in (*states, closed)), still=still) for k in range(len(t))]
    return Support(*(np.array(x) for x in zip(*found, strict=True)))


def of_states(function, system, params, *states):
    """Call a compiled function for states (m, ...), m > 0, padded with the last to a power of two: few are compiled."""
    count = len(states[0])
    size = AT_ONCE * 2 ** int(np.ceil(np.log2(max(1.0, count / AT_ONCE))))
    filled = (np.concatenate([x, np.repeat(x[-1:], size - count, axis=0)]) for x in states)
    return jax.tree.map(lambda x: np.asarray(x)[:count], function(system, params, *filled))


@partial(jit_fast_compile, static=("system",))
def _states(system, params, t, q, u):
    """Rows (m, c, 1 + k, d), these times M^-1, velocities and accelerations without reactions (m, c, 1 + k), mu."""

    def one(at):
        t, q, u = at
        place = Place.at(system, params, t, q, u.size)
        pushed = solve(place.mass, place.rows.reshape(-1, u.size).T).T.reshape(place.rows.shape)
        free = place.rows @ free_acceleration(system, params, t, q, u, place.mass) + bends(system, params, t, q, u)
        return place.rows, pushed, place.velocity(u), free, Law.of(system, params, jnp.zeros_like(place.gap)).mu

    return lax.map(one, (t, q, u), batch_size=AT_ONCE)


def _held(rows, pushed, speeds, free, mu, closed, still: float):
    """The entries of a `Support` of one state."""
    size, slip = rows.shape[2], speeds[:, 1:]
    fast = np.linalg.norm(slip, axis=1)
    along = slip / np.where(fast > 0, fast, 1.0)[:, None]
    while True:
        slides = closed & (fast > still)
        sticks = closed & ~slides & (mu > 0)
        drag = np.where(slides, mu, 0.0)[:, None] * along
        held = np.concatenate([rows[closed, 0], rows[sticks, 1:].reshape(-1, size)])
        wanted = np.concatenate([free[closed, 0], free[sticks, 1:].ravel()])
        normal = pushed[:, 0] - np.einsum("ck,ckd->cd", drag, pushed[:, 1:])
        reactions = np.concatenate([normal[closed], pushed[sticks, 1:].reshape(-1, size)])
        matrix = held @ reactions.T
        if np.any(mu[closed] > 0):
            found = np.linalg.lstsq(matrix, -wanted, rcond=_DEPENDENT)[0]
        else:
            found = nonnegative(matrix, wanted)
        load = np.zeros(len(closed), free.dtype)
        load[closed] = found[: np.sum(closed)]
        pulls = load < -_DEPENDENT * np.max(np.abs(load), initial=0.0)
        if not np.any(pulls):
            break
        closed = closed & ~pulls
    moved = found @ reactions if len(found) else np.zeros(size)
    loaded = load > _DEPENDENT * np.max(load, initial=0.0)
    counts = np.concatenate([loaded[closed], np.repeat(loaded[sticks], slip.shape[1])])
    rank = _rank(held[counts] @ reactions[counts].T)
    shared = bool(np.any(loaded & (mu > 0))) and rank < np.sum(counts)
    matters = shared and rank < _rank(reactions[counts])
    reached = free + rows @ moved
    return load, reached[:, 0], slip, reached[:, 1:], shared, matters


def nonnegative(matrix, offset) -> np.ndarray:
    """argmin_x 1/2 x^T A x + b^T x over x >= 0, for A (k, k) that may be singular."""
    if not offset.size:
        return offset
    # Beyond the rounding of A.
    ridge = max(1e-13, 8 * float(np.finfo(matrix.dtype).eps)) * np.trace(matrix) * np.eye(len(matrix))
    upper = np.linalg.cholesky(matrix + ridge).T
    return nnls(upper, -np.linalg.solve(upper.T, offset))[0]


def _rank(rows) -> int:
    """The number of independent rows, each of length one."""
    sizes = np.linalg.norm(rows, axis=1, keepdims=True)
    return int(np.linalg.matrix_rank(rows / np.where(sizes > 0, sizes, 1.0), tol=_DEPENDENT)) if rows.size else 0
