"""Multiply constraint rows, dense or between bodies, measure them, and put held ones into slots.

A working set of at most k = min(c, d) rows of c is held in k *slots*: (k,) ints, each a row or NONE. Work on it then
costs k, not c.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer

from diffcontact.numerics import linear
from diffcontact.numerics.batching import in_lanes, once

# What a slot without a row, or a row without a second body, has instead of an index.
NONE = -1


@partial(jax.tree_util.register_dataclass, data_fields=["bodies", "normals"], meta_fields=["count"])
@dataclass(frozen=True)
class BodyRows:
    """Hold the rows G (c, d) of contacts between `count` bodies of m components each, d = count * m.

        (G u)_i = sum_a normals[i, a] . u[bodies[i, a]],     u (count, m), body-major

    Forming, scaling and checking c rows costs c m instead of c d; only the rows that may become active are ever spread
    out.

    Args:
        bodies: (c, 2) int, the two bodies of each row, or -1 where there is none (a wall). Others than these are
            refused where they are known, and not looked for where they are traced.
        normals: (c, 2, m) the row's entries for them, not read where there is no body; or (c, 1, m) those for the
            second body, of which the first's are the opposite.
        count: how many bodies there are, static.

    Example:
        >>> rows = BodyRows(jnp.array([[0, 1], [1, -1]]), jnp.array([[[-1.0], [1.0]], [[1.0], [0.0]]]), 2)
        >>> jax.jit(dense)(rows).tolist()
        [[-1.0, 1.0], [0.0, 1.0]]
    """

    bodies: jax.Array
    normals: jax.Array
    count: int

    @property
    def shape(self) -> tuple[int, int]:
        """(c, d), that of the dense rows."""
        return self.normals.shape[0], self.count * self.normals.shape[-1]

    @property
    def dtype(self) -> np.dtype:
        return self.normals.dtype


Rows = jax.Array | BodyRows


def check_bodies(G: BodyRows) -> None:
    """Refuse wrong shapes and numbers of bodies, unless traced, by a ValueError."""
    if G.normals.ndim != 3 or G.normals.shape[1] not in (1, 2):
        raise ValueError(f"G.normals has the shape {G.normals.shape}; expected (c, 2, m) or (c, 1, m): normals per row")
    expected = G.normals.shape[0], 2
    if G.bodies.shape != expected:
        raise ValueError(f"G.bodies has the shape {G.bodies.shape}; expected {expected}: two bodies per row")
    if isinstance(G.bodies, Tracer):
        return
    bodies = np.asarray(G.bodies)
    wrong = bodies[(bodies < NONE) | (bodies >= G.count)]
    if wrong.size:
        raise ValueError(f"G.bodies: expected numbers from -1 (none) to {G.count - 1}, got {wrong[0]}")


def product(G: Rows, x):
    """Return G x (c,) for x (d,)."""
    if not isinstance(G, BodyRows):
        return G @ x
    there = (G.bodies != NONE)[:, :, None]
    return jnp.sum(jnp.where(there, both(G).normals * x.reshape(G.count, -1)[G.bodies], 0), axis=(1, 2))


def transposed_product(G: Rows, multipliers):
    """Return G^T multipliers (d,) for multipliers (c,): the impulse on each body."""
    if not isinstance(G, BodyRows):
        return G.T @ multipliers
    places = jnp.where(G.bodies == NONE, G.count, G.bodies)
    nowhere = jnp.zeros((G.count, G.normals.shape[-1]), G.dtype)
    return nowhere.at[places].add(both(G).normals * multipliers[:, None, None], mode="drop").ravel()


def squares(G: Rows, x):
    """Return sum_j G_ij^2 x_j (c,)."""
    return product(_mapped(G, jnp.square), x)


def magnitudes(G: Rows, x):
    """Return sum_j |G_ij| |x_j| (c,), the scale of the rounding of G x.

    Two bodies of a row are never one.
    """
    return product(_mapped(G, jnp.abs), jnp.abs(x))


def transposed_magnitudes(G: Rows, multipliers):
    """Return sum_i |G_ij| |multipliers_i| (d,), the scale of the rounding of G^T multipliers."""
    return transposed_product(_mapped(G, jnp.abs), jnp.abs(multipliers))


def difference(G: Rows, H: Rows) -> Rows:
    """Return the rows G - H, both of the same bodies."""
    if isinstance(G, BodyRows) and isinstance(H, BodyRows):
        return replace(G, normals=both(G).normals - both(H).normals)
    return dense(G) - dense(H)


def take(G: Rows, rows):
    """Return the dense rows (k, d) of the indices (k,), or of a slice."""
    if not isinstance(G, BodyRows):
        return G[rows]
    bodies = G.bodies[rows]
    count = bodies.shape[0]
    spread = jnp.zeros((count, G.count, G.normals.shape[-1]), G.dtype)
    places = jnp.where(bodies == NONE, G.count, bodies)
    return spread.at[jnp.arange(count)[:, None], places].add(both(G).normals[rows], mode="drop").reshape(count, -1)


def part(G: Rows, rows) -> Rows:
    """Return the rows of the indices (k,), or of a slice."""
    return replace(G, bodies=G.bodies[rows], normals=G.normals[rows]) if isinstance(G, BodyRows) else G[rows]


def whitened(root, G: Rows, scale=None) -> Any:
    """Return the rows scale_i L^-1 G_i, whose inner products are G M^-1 G^T.

    `root` is L with M = L L^T, (d,) for `BodyRows`; `scale` is (c,), or None for one.
    """
    if not isinstance(G, BodyRows):
        # They stay rows: transposing a thousand of them takes longer than everything else that is done with them.
        rows = G * (1 / root)[None, :] if root.ndim == 1 else linear.whiten(root, G.T).T
        return rows if scale is None else rows * scale[:, None]
    factor = (1 / root).reshape(G.count, -1)[G.bodies]
    return replace(G, normals=both(G).normals * (factor if scale is None else factor * scale[:, None, None]))


def squared_lengths(mass, root, G: Rows):
    """Return the squared lengths of the rows (c,) in the metric M^-1."""
    return squares(G, 1 / mass) if mass.ndim == 1 else jnp.sum(whitened(root, dense(G)) ** 2, axis=1)


def delassus(unit: Rows):
    """Return the inner products (c, c) of whitened rows, G M^-1 G^T.

    Those of `BodyRows` are summed over the bodies that two rows share: four comparisons and 4 m products each instead
    of d. On a CPU small batched products of matrices run at a fraction of the speed of sums.
    """
    if not isinstance(unit, BodyRows):
        return unit @ unit.T
    sides = [(unit.bodies[:, side], unit.normals[:, side].T) for side in (0, 1)]
    total = jnp.zeros((unit.bodies.shape[0],) * 2, unit.dtype)
    for body, normal in sides:
        for other, across in sides:
            shared = (body[:, None] == other[None, :]) & (body != NONE)[:, None]
            product = sum(x[:, None] * y[None, :] for x, y in zip(normal, across, strict=True))
            total = total + jnp.where(shared, product, 0)
    return total


def dense(G: Rows):
    """Return all rows (c, d)."""
    return take(G, slice(None))


def switched(G: Rows, on) -> Any:
    """Return the rows G, zero where they are off."""
    if isinstance(G, BodyRows):
        return replace(G, normals=jnp.where(on[:, None, None], G.normals, 0))
    return jnp.where(on[:, None], G, 0)


def along(G: Rows, tangent: Rows) -> Rows:
    """Return the tangent as rows: a body's index has no tangent."""
    if isinstance(G, BodyRows) and isinstance(tangent, BodyRows):
        return replace(G, normals=tangent.normals)
    return tangent


def both(G: BodyRows) -> BodyRows:
    """Return the rows with entries for both bodies."""
    return replace(G, normals=jnp.concatenate([-G.normals, G.normals], axis=1)) if G.normals.shape[1] == 1 else G


def _mapped(G, f):
    return replace(G, normals=f(both(G).normals)) if isinstance(G, BodyRows) else f(G)


def inverse_length(square):
    """Return 1/length from a row's squared length, 1 for zero; differentiable there too."""
    zero = square == 0
    return jnp.where(zero, 1, lax.rsqrt(jnp.where(zero, 1, square)))


def dependence_tolerance(count, eps):
    """Return the squared sine of an angle below which a row depends on others.

    Its rounding error is some units of eps for every row that was eliminated before. Rows at an angle of 0.003 belong
    to different contacts, in single precision too: the active-set method cycles if one is taken for the other.
    """
    return min(64 * max(count, 16) * eps, 8e-6)


# Rows that are eliminated at once where there are several times as many: a pass over all of them, from memory, for each
# row takes ten times as long.
_TOGETHER = 64


def independent_slots(rows, wanted):
    """Return slots (k,) of a largest independent subset of the wanted rows (c,).

    Gram-Schmidt with pivoting, rows (c, d) of length one or zero; of rows that depend on each other the first stay.
    Above 256 rows pivots are chosen in blocks of 64. Then the square of a pivot is at least a tenth of the largest one.
    """
    if rows.shape[0] > 4 * _TOGETHER:
        return _in_blocks(rows, wanted)
    limit = min(rows.shape)
    dependent_below = dependence_tolerance(limit, float(jnp.finfo(rows.dtype).eps))

    def best(residual, slots):
        left = jnp.where(wanted, jnp.sum(residual * residual, axis=1), 0)
        index = jnp.argmax(left)
        return jnp.where((left[index] > dependent_below) & jnp.any(slots == NONE), index, NONE)

    def take(carry):
        residual, slots, index = carry
        residual, _ = _eliminated(residual, index)
        slots = jnp.where(jnp.arange(limit) == jnp.argmax(slots == NONE), index.astype(slots.dtype), slots)
        return residual, slots, best(residual, slots)

    empty = jnp.full(limit, NONE, jnp.int32)
    _, slots, _ = lax.while_loop(
        lambda carry: carry[2] != NONE, once(take), in_lanes((rows, empty, best(rows, empty)), rows)
    )
    return slots


def _eliminated(residual, index):
    """Return what is left of rows without the direction of one of them, and this direction."""
    row = residual[index]
    direction = row * lax.rsqrt(jnp.sum(row * row))
    residual = residual - (residual @ direction)[:, None] * direction[None, :]
    # Exactly: rounding must not let the same row be taken twice.
    return jnp.where((jnp.arange(residual.shape[0]) == index)[:, None], 0, residual), direction


def _in_blocks(rows, wanted):
    """Return such slots: the longest rows left are eliminated among themselves, then all others by them at once."""
    limit = min(rows.shape)
    dependent_below = dependence_tolerance(limit, float(jnp.finfo(rows.dtype).eps))

    def take(carry):
        residual, slots, number, left = carry
        largest, block = lax.top_k(left, _TOGETHER)

        def one(state):
            own, directions, slots, number, place, pivot = state
            own, direction = _eliminated(own, pivot)
            slots = slots.at[number].set(block[pivot].astype(slots.dtype))
            square = jnp.sum(own * own, axis=1)
            next_pivot = jnp.argmax(square)
            worth = jnp.maximum(dependent_below, 0.1 * largest[0])
            more = (square[next_pivot] > worth) & (number + 1 < limit)
            directions = directions.at[place].set(direction)
            return own, directions, slots, number + 1, place + 1, jnp.where(more, next_pivot, NONE).astype(pivot.dtype)

        zero = jnp.zeros((), number.dtype)
        own = residual[block]
        start = own, jnp.zeros_like(own), slots, number, zero, jnp.zeros((), block.dtype)
        _, directions, slots, number, *_ = lax.while_loop(lambda state: state[5] != NONE, one, start)
        residual = residual - (residual @ directions.T) @ directions
        residual = residual.at[jnp.where(slots == NONE, rows.shape[0], slots)].set(0, mode="drop")
        return residual, slots, number, remaining(residual)

    def remaining(residual):
        return jnp.sum(residual * residual, axis=1)

    def unfinished(carry):
        return (jnp.max(carry[3]) > dependent_below) & (carry[2] < limit)

    rows, empty = jnp.where(wanted[:, None], rows, 0), jnp.full(limit, NONE, jnp.int32)
    start = rows, empty, jnp.zeros((), jnp.int32), remaining(rows)
    return lax.while_loop(unfinished, once(take), in_lanes(start, rows))[1]


def slots_of(mask, count):
    """Return the first `count` rows of a mask (c,) as slots, int32."""
    taken, rows = lax.top_k(mask.astype(jnp.float32), count)
    return jnp.where(taken > 0, rows, NONE).astype(jnp.int32)


def members(slots, count):
    """Return (count,) bool, the rows in the slots."""
    return spread(slots, jnp.ones(slots.shape, bool), count)


def spread(slots, values, count):
    """Return the values (k,) of the slots at their rows (count,), zero elsewhere."""
    # Free slots go to places of their own behind the last row, and are dropped there.
    places = jnp.where(slots == NONE, count + jnp.arange(slots.shape[0]), slots)
    return jnp.zeros(count, values.dtype).at[places].set(values, mode="drop", unique_indices=True)
