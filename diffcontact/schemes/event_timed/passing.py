"""Bodies that pass through each other within a motion, and leave no trace at its end."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.batching import in_lanes, where_wanted
from diffcontact.schemes.event_timed.events import Cubic
from diffcontact.system import System, gap_motion, rate

# Shares of the way that are looked at in any case.
_QUARTERS = (0.25, 0.5, 0.75)
# So many more are looked at, as long as tangents cross below zero.
_FURTHER = 8
_HAIR = 1 - 2**-7


def before_overlap(system, params, t, s, q, u, end, at_begin, watched: Array, tolerance):
    """How much of a motion can be followed until a gap is negative: a share, and place and velocity there.

    A body may pass through another within the step and leave no trace at its end. Quarters of the way are looked at,
    along the parabola that the smooth motion is to second order. So is the place where a gap's cubic is lowest: a touch
    that is shallower than the cubic is right is seen there. And where a gap is so small on both sides of a quarter that
    the bodies may have met in between, the place is found (`_meeting`).

    Args:
        t, q, u: the beginning.
        s: length of the motion [s].
        end: the arrival, with place `q` and velocity `slope`.
        at_begin: gaps and their velocities, (c,) each, there.
        watched: (c,) gaps to look at.
        tolerance: () a gap that is smaller than minus this is negative [m]. Nothing is differentiated.
    """
    params, t, s, q, u, end, at_begin = lax.stop_gradient((params, t, s, q, u, end, at_begin))
    way = s * rate(system, params, q, u)
    bend = end.q - q - way
    path = _Path(system, params, t, s, q, way, bend)
    at_end = gap_motion(system, params, t + s, end.q, end.slope)
    dip = Cubic.between(at_begin, at_end, s).lowest(watched)
    fractions = jnp.stack([dip, *jnp.array(_QUARTERS, u.dtype)])
    gaps = jax.vmap(path.gaps)(fractions)
    f = _first_overlap(fractions, gaps, watched, tolerance)

    # How far a gap may go within a quarter: as far as within another, or as its velocity at either end says.
    ends = (at_begin[0], s * at_begin[1]), (at_end[0], s * at_end[1])
    nodes = jnp.concatenate([ends[0][0][None], gaps[1:], ends[1][0][None]])
    farthest = jnp.concatenate([jnp.diff(nodes, axis=0), jnp.stack([ends[0][1], ends[1][1]]) / 4])
    near = nodes[:-1] + nodes[1:] < 1.25 * jnp.max(jnp.abs(farthest), axis=0)[None, :]
    meet = where_wanted(
        jnp.any(near & watched[None, :]), lambda: _meeting(path, ends, watched, tolerance), jnp.ones_like(f)
    )
    f = jnp.minimum(f, meet)
    whole = f == 1.0
    return f, jnp.where(whole, end.q, path.place(f)), jnp.where(whole, end.slope, u + f * (end.slope - u))


class _Path(NamedTuple):
    """The parabola q + f way + f^2 bend, f from 0 to 1, that a motion of s seconds from t is to second order."""

    system: System
    params: object
    t: Array
    s: Array
    q: Array
    way: Array
    bend: Array

    def place(self, f):
        return self.q + f * self.way + f**2 * self.bend

    def gaps(self, f):
        return self.system.gap(self.t + f * self.s, self.place(f), self.params)

    def look(self, f):
        """Gaps (c,) at f, and what they change by per unit of f."""
        return jax.jvp(self.gaps, (f,), (jnp.ones_like(f),))


def _first_overlap(fractions, gaps, watched, tolerance):
    overlaps = jnp.any((gaps < -tolerance) & watched[None, :], axis=1)
    return jnp.min(jnp.where(overlaps, fractions, 1.0))


def _meeting(path: _Path, ends, watched, tolerance):
    """() the share of the way at which bodies are found to overlap; 1 if nowhere.

    The distance of convex bodies that move straight is convex: it lies above its tangents, and those of two places
    cross where it may be lowest. Where they cross deepest below zero the gaps are looked at, again and again.

    Args:
        path: the motion.
        ends: gaps (c,) and what they change by per unit of f, at its beginning and at its end.
        watched, tolerance: see `before_overlap`.
    """
    quarters = jnp.array(_QUARTERS, path.q.dtype)

    def closer(number, seen):
        fractions, gaps, slopes = seen
        left, wide = fractions[:-1, None], jnp.diff(fractions)[:, None]
        falls, rises = slopes[:-1], slopes[1:]
        turns = (falls < 0) & (rises > 0) & watched[None, :]
        # A hair before: two bodies that fly straight at each other have no normal where their centres meet.
        share = (gaps[:-1] - gaps[1:] + rises * wide) / jnp.where(turns, rises - falls, 1.0)
        way = _HAIR * jnp.clip(share, 0.0, wide)
        depth = jnp.where(turns, gaps[:-1] + falls * way, jnp.inf)
        deepest = jnp.argmin(depth)
        f = jnp.where(depth.ravel()[deepest] < -tolerance, (left + way).ravel()[deepest], 1.0)
        f = jnp.where(number < quarters.size, quarters[jnp.minimum(number, quarters.size - 1)], f)
        # The last ones are places at the end, as long as any are to be filled.
        seen = jax.tree.map(lambda all_, one: all_.at[-1].set(one), seen, (f, *path.look(f)))
        order = jnp.argsort(seen[0])
        return jax.tree.map(lambda x: x[order], seen)

    further = quarters.size + _FURTHER
    fractions = jnp.concatenate([jnp.zeros(1, path.q.dtype), jnp.ones(1 + further, path.q.dtype)])
    known = jax.tree.map(lambda a, b: jnp.where(fractions[:, None] > 0, b, a), *ends)
    start = in_lanes((fractions, *known), (path.q, path.way))
    fractions, gaps, _ = lax.fori_loop(0, further, closer, start)
    return _first_overlap(fractions, gaps, watched, tolerance)
