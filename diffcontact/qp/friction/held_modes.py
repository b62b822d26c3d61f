"""Contacts that are held in their modes: what moves between two events, one linear system and its derivative.

    open     P = 0,            B = 0
    stick    N u + b = 0,      S u + s = 0
    slip     N u + b = 0,      B = -mu P d,    d the direction of the slip

with M (u - v) = N^T P + S^T B. No sign is asked for: where one is wrong, the motion has met an event.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics import linear
from diffcontact.numerics import mass as mass_matrix
from diffcontact.numerics.batching import where_wanted
from diffcontact.qp.friction.law import solvable
from diffcontact.qp.friction.modes import Modes
from diffcontact.qp.friction.split import Sharing
from diffcontact.qp.rows.metric import inverse_length


class Held(NamedTuple):
    """A velocity (d,), and the normal (c,) and tangential (c, k) impulses that hold it; `shared` (c,) are the contacts
    that share their impulses with others in more than one way, `found` () is whether there are such impulses."""

    u: Array
    normal: Array
    tangential: Array
    shared: Array
    found: Array


def hold_modes(mass, normals, tangents, b, s, friction, v, modes: Modes, direction, near=None) -> Held:
    """u and the impulses of contacts that stay in their modes.

    Of conditions that depend on each other (a box that lies flat) the impulses are shared as `near` shares them, or
    evenly (`split`). Where slip presses a contact together as fast as its load opens it (Painleve; a disc in a corner
    whose walls have mu = 1), no impulse holds it: then those that slip do so smoothly.

    Args:
        mass: (d,) or (d, d).
        normals: (c, d) rows N.
        tangents: (c, k, d) rows S.
        b: (c,), s: (c, k) offsets.
        friction: (c,) mu.
        v: (d,).
        modes: of each contact; no derivative.
        direction: (c, k) of length one where a contact slips.
        near: normal (c,) and tangential (c, k) impulses that obey the law, which the split keeps to; None means evenly.

    Example:
        A block on a slope slips downwards.

        >>> import jax, numpy as np
        >>> row, along, none = np.array([[0.0, 1.0]]), np.array([[[1.0, 0.0]]]), np.zeros(1)
        >>> free, slips = np.array([3.0, -4.0]), Modes(closed=np.array([True]), slip=np.array([True]))
        >>> mu, down = np.array([0.5]), np.ones((1, 1))
        >>> held = jax.jit(hold_modes)(np.ones(2), row, along, none, none[None], mu, free, slips, down)
        >>> held.u.tolist(), held.normal.tolist(), held.tangential.tolist()
        ([1.0, 0.0], [4.0], [[-2.0]])
    """
    if not b.size:
        return Held(v, b, s, b > 0, jnp.array(True))
    H = jnp.concatenate([normals[:, None], tangents], axis=1)
    shape, root = H.shape, mass_matrix.root(mass)
    count = shape[0] * shape[1]
    rows = mass_matrix.whiten(root, H.reshape(-1, shape[2]).T).T.reshape(shape)
    scale = inverse_length(lax.stop_gradient(jnp.sum(rows[:, 0] * rows[:, 0], axis=1)))
    rows = rows * scale[:, None, None]
    freely = scale[:, None] * (jnp.einsum("cid,d->ci", H, v) + jnp.concatenate([b[:, None], s], axis=1))

    first = (jnp.arange(shape[1]) == 0)[None]
    held = modes.closed[:, None] & (first | ~modes.slip[:, None])
    sliding = rows[:, 0] - friction[:, None] * jnp.einsum("cj,cjd->cd", direction, rows[:, 1:])
    columns = jnp.where((first & modes.slip[:, None])[:, :, None], sliding[:, None], rows)
    columns = jnp.where(held[:, :, None], columns, 0).reshape(count, -1)
    flat = jnp.where(held[:, :, None], rows, 0).reshape(count, -1)
    right, held = -freely.reshape(count), held.reshape(count)

    sharing = Sharing.of(rows, scale, modes)
    taken, dependent, unit = sharing.taken, sharing.dependent, scale.repeat(shape[1])
    present = taken | dependent
    matrix = flat @ columns.T
    start = jnp.zeros(shape[:2], v.dtype) if near is None else jnp.concatenate([near[0][:, None], near[1]], axis=1)
    start = jnp.where(present, start.reshape(count), 0)

    def shared():
        system = lax.stop_gradient(jnp.where(present[:, None] & present[None, :], matrix, 0))
        _, sizes, across = linear.svd(system)
        counts = sizes > jnp.finfo(v.dtype).eps * 64 * count * sizes[0]
        # A load is unique where no null vector has a part of it.
        unique = jnp.sum(jnp.where(counts[:, None], across, 0) ** 2, axis=0) > 1 - jnp.finfo(v.dtype).eps ** 0.5
        return present & ~unique

    several = where_wanted(jnp.any(dependent), shared, present & False)
    full = jnp.where(taken[:, None], matrix, jnp.eye(count, dtype=right.dtype))
    full = jnp.where(dependent[:, None], sharing.even * unit[None, :], full)
    right = jnp.where(taken, right, jnp.where(dependent, sharing.even @ start, 0))
    found = solvable(*lax.stop_gradient((full, right)))
    columns, felt = jnp.where(found, columns, flat), jnp.where(found, friction, 0)
    smooth = jnp.where((taken[:, None] & taken[None]), flat @ flat.T, jnp.eye(count, dtype=right.dtype))
    r = linear.solve(jnp.where(found, full, smooth), jnp.where(found | taken, right, start / unit))
    r = jnp.where(present, r, 0)
    u = v + mass_matrix.unwhiten(root, columns.T @ r)
    r = r.reshape(shape[:2]) * scale[:, None]
    slipping = -(felt * r[:, 0])[:, None] * direction
    tangential = jnp.where(modes.slip[:, None], slipping, r[:, 1:])
    return Held(u, r[:, 0], tangential, jnp.any(several.reshape(shape[:2]), axis=1), found)
