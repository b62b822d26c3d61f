"""The first event on a smooth way: the first of several numbers along it that passes zero."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics.batching import where_wanted

# The cubic's root is good to O(s^4): a step of Newton's method arrives, another one settles. More run where another
# event turns out to have come before.
_CANDIDATES = 14


class Watched(NamedTuple):
    """Numbers (m,) along a way, how fast they change, and where that is known `exact`ly."""

    values: Array
    rates: Array
    exact: Array


class Found(NamedTuple):
    """The way to the first event, or to the end: its length s, the event's `index`, and whether there is one.

    `arrival` and `seen` are what the way and the numbers are there.
    """

    s: Array
    index: Array
    found: Array
    arrival: Any
    seen: Any


class Cubic(NamedTuple):
    """Numbers along a motion, c0 + c1 sigma + c2 sigma^2 + c3 sigma^3 with sigma = time / s in [0, 1], (c,) each."""

    c0: Array
    c1: Array
    c2: Array
    c3: Array

    @classmethod
    def between(cls, begin: tuple[Array, Array], end: tuple[Array, Array], s) -> Cubic:
        """The cubics with these values and velocities at both ends of a motion of s seconds."""
        (g0, v0), (g1, v1) = begin, end
        return cls(g0, s * v0, 3 * (g1 - g0) - s * (2 * v0 + v1), 2 * (g0 - g1) + s * (v0 + v1))

    def value(self, sigma):
        return self.c0 + sigma * (self.c1 + sigma * (self.c2 + sigma * self.c3))

    def extrema(self) -> tuple[Array, Array]:
        """The places sigma of each cubic's extrema, the earlier first, cut to [0, 1]."""
        # The form of the quadratic formula that neither cancels nor divides by zero.
        discriminant = jnp.sqrt(jnp.maximum(self.c2**2 - 3 * self.c1 * self.c3, 0.0))
        stable = -(self.c2 + jnp.where(self.c2 >= 0, discriminant, -discriminant))
        tiny = jnp.finfo(self.c0.dtype).tiny
        one = stable / jnp.where(jnp.abs(self.c3) > tiny, 3 * self.c3, jnp.inf)
        other = self.c1 / jnp.where(jnp.abs(stable) > tiny, stable, jnp.inf)
        return jnp.clip(jnp.minimum(one, other), 0.0, 1.0), jnp.clip(jnp.maximum(one, other), 0.0, 1.0)


def first_event(
    advance: Callable, begin, watch: Array, rises: Array, tolerance: Array, tolerance_rate: Array, left, rounding,
    before: Callable, nowhere
) -> Found:  # fmt: skip
    """The smooth way to its end, or to the first time at which a watched number passes zero.

    Args:
        advance: s -> (arrival, `Watched` there).
        begin: `Watched` (m,) at the beginning.
        watch: (m,) which to look at; rises: (m,) which rise first, so that a dip behind that is their cubic's error.
        tolerance, tolerance_rate: (m,) below what values and rates are zero to rounding.
        left: the end [s]; rounding: () of times.
        before: (s, arrival, `Watched` there) -> () a share of the way where a number is seen to be negative although it
            is not at the end, else 1; () its index.
        nowhere: (arrival, seen) before any motion; only their shapes count.
    """
    values = begin.values
    floor = jnp.where(values <= tolerance, values, 0.0)

    def attempt(carry):
        number, _, s, index, found, _, last, high, early, *_ = carry
        arrival, seen = advance(s)
        f, first = seen.values, number == 0
        # Where another number is negative it passed zero before; what closes together is late together.
        this = jnp.arange(f.size) == index
        overlap = floor - f
        others = watch & ~this & (overlap > tolerance)
        slope = _slope(seen, last, s, f, index, values)
        late = -overlap[index] / jnp.where(slope != 0, slope, -jnp.inf)
        together = overlap + jnp.where(seen.exact, late * seen.rates, 0.0) <= overlap / 8
        astray = early | jnp.any(others & ~together)
        share, negative = where_wanted(first, lambda: before(s, arrival, seen), (jnp.ones_like(s), index))
        # What is still open there is not first, whatever its cubic tells: a gap may have a kink.
        among = jnp.where(first, watch, others | (watch & this & (overlap >= -tolerance)))
        tau, aimed, event = where_wanted(
            first | astray,
            lambda: first_root(begin, seen, floor, s, among, tolerance, tolerance_rate, rises),
            (s, index, found),
        )
        early = first & (share < jnp.where(event, tau / jnp.where(s != 0, s, 1.0), 1.0))
        tau, aimed, event = jnp.where(early, share * s, tau), jnp.where(early, negative, aimed), early | event
        anew = first | (astray & event)
        index, found = jnp.where(anew, aimed, index), jnp.where(first, event, found)
        # The event is before the first place where any number has been seen to be negative.
        high = jnp.where(jnp.any(watch & (overlap > tolerance)), jnp.minimum(high, s), high)
        target = jnp.clip(jnp.where(anew, tau, s - late), 0.0, high)
        close = (jnp.abs(target - s) <= rounding) | (jnp.abs(overlap[index]) <= tolerance[index] / 128)
        return number + 1, s, target, index, found, ~found | (~anew & close), (s, f), high, early, arrival, seen

    zero, no = jnp.zeros((), jnp.int32), jnp.array(False)
    start = zero, left, left, zero, no, no, (jnp.zeros_like(left), values), left, no, *nowhere
    _, s, _, index, found, _, _, _, _, arrival, seen = lax.while_loop(
        lambda c: ~c[5] & (c[0] < _CANDIDATES), attempt, start
    )
    return Found(s, index, found, arrival, seen)


def _slope(seen, last, s, f, index, begin):
    """() how fast the number changes: as told, or by the secant through the last candidate, or the beginning."""
    (earlier, before), apart = last, jnp.abs(s - last[0])
    rate = seen.rates[index]
    step = s - earlier
    secant = (f[index] - before[index]) / jnp.where(apart > 0, step, 1.0)
    whole = (f[index] - begin[index]) / jnp.where(s != 0, s, 1.0)
    secant = jnp.where((apart > 0) & (secant < 0), secant, whole)
    return jnp.where(seen.exact[index] & (rate < 0), rate, secant)


def first_root(begin, seen, floor, s, among, tolerance, tolerance_rate, rises):
    """About when the first of the numbers (m,) passes zero within (0, s], its index, and whether one does.

    Along the way each number is the cubic with the values and rates of both ends: exact for flat contacts and constant
    forces, O(s^4) otherwise; a line where its rate is not known. It is cut at its extrema, so that a contact that
    closes and opens again on the way is seen.

    Args:
        floor: (m,) what is zero of each number.
        rises: (m,) numbers that rise first, as those do that start at zero.
    """
    g0, v0, g1 = begin.values, begin.rates, seen.values - floor
    v1 = jnp.where(jnp.isfinite(seen.rates), seen.rates, 0.0)
    closed = g0 <= tolerance
    start = jnp.where(closed, 0.0, g0)
    v0, v1 = jnp.where(seen.exact, s * v0, g1 - start), jnp.where(seen.exact, s * v1, g1 - start)
    c2, c3 = 3 * (g1 - start) - 2 * v0 - v1, 2 * (start - g1) + v0 + v1
    cubic, tiny = Cubic(start, v0, c2, c3), jnp.finfo(g0.dtype).tiny
    value, (low, high) = cubic.value, cubic.extrema()
    nodes = jnp.stack([jnp.zeros_like(g0), low, high, jnp.ones_like(g0)])
    # The end belongs to the way: a contact that is closed there, and approaching, is an impact now.
    at_end = (g1 < -tolerance) | ((g1 <= tolerance) & (seen.rates < -tolerance_rate) & seen.exact)
    # A cubic that tells of a dip of what rises first, and ends above, is its own error.
    falls = ~(closed | rises) | (g1 < -tolerance)
    below = jnp.stack([(value(low) < -tolerance) & falls, (value(high) < -tolerance) & falls, at_end])
    piece, each = jnp.argmax(below, axis=0), jnp.arange(g0.size)
    low, high = nodes[piece, each], nodes[piece + 1, each]

    immediate = among & closed & (begin.rates < -tolerance_rate) & seen.exact
    crosses = among & jnp.any(below, axis=0) & ~immediate

    def bisect(_, bracket):
        low, high, x = bracket
        y, slope = value(x), v0 + x * (2 * c2 + x * 3 * c3)
        low, high = jnp.where(y > 0, x, low), jnp.where(y > 0, high, x)
        newton = jnp.clip(x - y / jnp.where(slope < -tiny, slope, -jnp.inf), low, high)
        return low, high, jnp.where(slope < -tiny, newton, (low + high) / 2)

    middle = (low + high) / 2
    x = where_wanted(jnp.any(crosses), lambda: lax.fori_loop(0, 12, bisect, (low, high, middle))[2], middle)
    x = jnp.where(immediate, 0.0, jnp.where(crosses, x, jnp.inf))
    index = jnp.argmin(x).astype(jnp.int32)
    found = x[index] <= 1.0
    return jnp.where(found, x[index], 1.0) * s, index, found


def meeting(heights_at: Callable, begin, end, watch: Array) -> tuple[Array, Array]:
    """() a share of the way at which a height is negative although it is not at the end, else 1; () its contact.

    Quarters of the way are looked at. The gap of convex bodies that move straight is convex: it lies above its
    tangents, and those of two neighbouring places cross where it may be lowest. Where they cross deepest below zero
    the gaps are looked at in turn there, which is the place for bodies that fly many times their size, and where a
    slope that changes evenly would vanish, which is the place for a gap that is nearly a parabola.

    Args:
        heights_at: share -> gaps above what is zero of them (c,).
        begin, end: heights (c,), and what they change by per unit of the share (c,), at both ends of the way.
        watch: (c,) which to look at.
    """
    count, place = watch.size, jnp.arange(2 + len(_QUARTERS) + _FURTHER)
    look = lambda f: jax.jvp(heights_at, (f,), (jnp.ones_like(f),))  # noqa: E731
    quarters = jnp.array(_QUARTERS, begin[0].dtype)
    nodes = jax.tree.map(lambda a, x, b: jnp.concatenate([a[None], x, b[None]]), begin, jax.vmap(look)(quarters), end)
    nodes = jnp.array([0.0, *_QUARTERS, 1.0], quarters.dtype), *nodes

    def next_place(nodes, by_slope):
        fractions, values, rates = nodes
        wide, falls, rises = jnp.diff(fractions)[:, None], rates[:-1], rates[1:]
        turns = (falls < 0) & (rises > 0) & watch[None, :]
        steeper = jnp.where(turns, rises - falls, 1.0)
        cross = jnp.clip((values[:-1] - values[1:] + rises * wide) / steeper, 0.0, wide)
        depth = jnp.where(turns, values[:-1] + falls * cross, jnp.inf)
        deepest = jnp.argmin(depth)
        share = jnp.where(by_slope, -falls / steeper * wide, cross).ravel()[deepest]
        # A hair before: two bodies that fly straight at each other have no normal where their centres meet.
        share = fractions[deepest // count] + _HAIR * share
        return jnp.where(jnp.any(depth < 0) & ~jnp.any(overlaps(nodes)), share, 1.0)

    def overlaps(nodes):
        return (nodes[1] < 0) & watch[None, :] & (nodes[0] < 1)[:, None]

    def closer(carry):
        number, f, nodes = carry
        # Places that are not looked at yet stand at the end.
        at = jnp.sum(nodes[0] < f)

        def insert(all_, one):
            before = (place < at).reshape(-1, *[1] * one.ndim)
            return jnp.where(before, all_, jnp.roll(all_, 1, 0).at[at].set(one))

        nodes = jax.tree.map(insert, nodes, (f, *look(f)))
        return number + 1, next_place(nodes, number % 2 == 0), nodes

    def lowest():
        padded = jax.tree.map(lambda x: jnp.concatenate([x, *[x[-1:]] * _FURTHER]), nodes)
        start = jnp.zeros((), jnp.int32), first, padded
        return found(lax.while_loop(lambda c: (c[1] < 1) & (c[0] < _FURTHER), closer, start)[2])

    def found(nodes):
        negative = overlaps(nodes)
        at = jnp.argmax(jnp.any(negative, axis=1))
        return jnp.where(jnp.any(negative), nodes[0][at], 1.0), jnp.argmax(negative[at]).astype(jnp.int32)

    first = next_place(nodes, jnp.array(False))
    return where_wanted(first < 1, lowest, found(nodes))


# Places that are looked at in any case, and so many more as long as tangents cross below zero.
_QUARTERS, _FURTHER = (0.25, 0.5, 0.75), 10
_HAIR = 1 - 2**-7
