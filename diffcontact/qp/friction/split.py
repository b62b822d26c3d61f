"""Of reactions that move the bodies alike, those of least norm: the load of a box that lies flat on four corners."""

from __future__ import annotations

import jax.numpy as jnp
from jax.scipy.linalg import cho_factor, cho_solve

from diffcontact.batching import where_wanted
from diffcontact.qp.friction.modes import Modes, slip_direction
from diffcontact.qp.rows.metric import independent_slots, inverse_length
from diffcontact.qp.rows.slots import NONE

# Where the least norm is outside the cones reactions go this far towards it.
FRACTIONS = (1.0, 0.5, 0.25, 0.125)


def least_norm(contacts, r, modes: Modes):
    """The reactions (c, 1 + k) of least norm among those in the same modes, with the same H^T r; r where there is one.

    Args:
        contacts: `Contacts`.
        r: (c, 1 + k).
        modes: theirs.
    """
    w, size = contacts.velocities(r), r.shape[1]
    direction = slip_direction(r, w, contacts.strides())
    # A contact that slips pushes along one line, one that sticks in all directions.
    sliding = jnp.concatenate([jnp.ones_like(r[:, :1]), contacts.friction[:, None] * direction], axis=1)
    sliding = sliding * (1 / jnp.sqrt(1 + contacts.friction**2))[:, None]
    first = (jnp.arange(size) == 0)[None, None, :]
    lines = jnp.where(modes.slip[:, None, None], jnp.where(first, sliding[:, :, None], 0), jnp.eye(size)[None])
    lines = jnp.where(modes.closed[:, None, None], lines, 0).astype(r.dtype)

    # The norm is that in the unit of the rows that were given.
    pushes = (jnp.einsum("cij,cid->cjd", lines, contacts.rows) / contacts.scale[:, None, None]).reshape(r.size, -1)
    scaled = pushes * inverse_length(jnp.sum(pushes * pushes, axis=1))[:, None]
    present = jnp.any(scaled != 0, axis=1)
    slots = independent_slots(scaled, present)

    def lighter():
        taken = jnp.where((slots != NONE)[:, None], pushes[jnp.maximum(slots, 0)], 0)
        free = jnp.diag((slots == NONE).astype(r.dtype))
        gram = cho_factor(taken @ taken.T + free)
        # pushes = X^T taken: what is not in the row space of X moves nothing.
        X = cho_solve(gram, taken @ pushes.T)
        loads = (contacts.scale[:, None] * jnp.einsum("cij,ci->cj", lines, r)).reshape(r.size)
        least = X.T @ cho_solve(cho_factor(X @ X.T + free), X @ loads)
        change = jnp.einsum("cij,cj->ci", lines, (least - loads).reshape(r.shape)) / contacts.scale[:, None]
        return jnp.where(jnp.all(jnp.isfinite(change)), change, 0)

    redundant = jnp.sum(present) > jnp.sum(slots != NONE)
    change = where_wanted(redundant, lighter, jnp.zeros_like(r))
    fractions = jnp.asarray((*FRACTIONS, 0), r.dtype)
    candidates = r[None] + fractions[:, None, None] * change[None]
    normal, tangential = candidates[:, :, 0], candidates[:, :, 1:]
    bound = contacts.friction[None] * normal
    within = jnp.sum(tangential * tangential, axis=2) <= bound * bound
    possible = (normal >= 0) & (within | ~(modes.closed & ~modes.slip)[None])
    return candidates[jnp.argmax(jnp.all(possible, axis=1).at[-1].set(True))]
