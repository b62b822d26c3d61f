"""The first event on the way: candidate steps along the smooth motion, aimed by cubics, corrected by Newton steps.

An event is the first root of one of several functions along the motion: a gap that closes, a slip velocity that
vanishes, a friction force that reaches its bound. All of them are positive before, and called gaps here.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import jax.numpy as jnp
from jax import Array, lax

from diffcontact.batching import computed_again, entangled, in_lanes, select, where_wanted
from diffcontact.schemes.event_timed.smooth_motion import Tolerance


class CandidateStep(NamedTuple):
    """A smooth piece of motion, s seconds long, aimed at the event `index` where one was found.

    `late` is how far the next one goes back, after so many `corrections` of the same aim, and `settled` whether that is
    rounding; `arrival` is what the motion is there, any pytree.
    """

    s: Array
    index: Array
    corrections: Array
    found: Array
    late: Array
    settled: Array
    arrival: Any


# The cubic's root is good to O(s^4): the first candidate corrects the time, the second its derivative, the third
# arrives. More run only where rounding is not reached, or another event turns out to have come before.
CANDIDATES = 7
# What closes together has to be closed together, as at the corners of a box that falls flat: the one that was aimed at
# is left open by no more than this part of what counts as closed.
LEFT_OPEN = 1 / 128


class Approach(Protocol):
    """A smooth motion, and the gaps along it."""

    def advance(self, s: Array, /) -> Any:
        """The arrival after s seconds."""
        ...

    def gaps(self, s: Array, arrival: Any, /) -> tuple[Array, Array]:
        """Gaps (c,) and their velocities (c,) there."""
        ...

    def until_overlap(self, s: Array, arrival: Any, /) -> tuple[Array, tuple[Array, Array]]:
        """How long the motion can be followed until a gap is negative, and `gaps` there."""
        ...


def to_event_or_end(
    approach: Approach, at_begin, watched: Array, tolerance: Tolerance, t, left, nowhere: Any
) -> CandidateStep:
    """The smooth motion to the end, or, where a gap closes before, to the first time tau at which one does.

    tau is the root of s -> gap(s) along the motion by Newton's iteration, whose last steps are differentiated: by the
    implicit function theorem d tau = -d gap / (gap velocity). Only its value is kept within the step: an event that
    falls exactly on a grid time (tau = 0, or the end) would lose its derivative otherwise.

    Args:
        approach: the motion.
        at_begin: gaps and their velocities, (c,) each, at s = 0.
        watched: (c,) gaps to look at.
        tolerance: see `Tolerance`.
        t: time at the beginning, which sets the rounding of tau.
        left: the end [s].
        nowhere: an arrival before any motion; only its shapes count.
    """
    rounding = rounding_of_time(t, left, at_begin[0].dtype)
    floor = lax.stop_gradient(jnp.where(at_begin[0] <= tolerance.gap, at_begin[0], 0.0))
    search = _Search(approach, at_begin, watched, tolerance, left, floor, rounding)

    def again(candidate: CandidateStep, number):
        unsettled = (candidate.corrections < 3) | ~candidate.settled
        wanted = (number == 0) | (candidate.found & unsettled)
        return where_wanted(wanted, lambda: search.attempt(candidate, number), candidate), None

    zero, none = jnp.zeros((), floor.dtype), jnp.zeros((), int)
    s, late, arrival = entangled((jnp.asarray(left, floor.dtype), zero, nowhere), at_begin)
    no = jnp.array(False)
    to_end = CandidateStep(s, none, none, no, late, no, arrival)
    return lax.scan(computed_again(again), in_lanes(to_end, s), jnp.arange(1 + CANDIDATES))[0]


class _Search(NamedTuple):
    """What `to_event_or_end` is asked for, `floor` (c,): where closed gaps are at first, 0 for open ones, and the
    rounding of tau."""

    approach: Approach
    at_begin: tuple[Array, Array]
    watched: Array
    tolerance: Tolerance
    left: Array
    floor: Array
    rounding: Array

    def attempt(self, candidate: CandidateStep, number) -> CandidateStep:
        """The next candidate: earlier by how late this one was, and corrected, or aimed anew."""
        s = candidate.s - candidate.late
        s = s + lax.stop_gradient(jnp.clip(s, 0.0, self.left) - s)
        candidate = candidate._replace(s=s, arrival=self.approach.advance(s))
        # The aim was at the first root of cubics. Where another gap is negative it closed earlier than they told,
        # unless the correction opens it, too: what closes together is late together. What is still open there is not
        # first, whatever its cubic tells: a gap may have a kink.
        others = self.watched & (jnp.arange(self.floor.size) != candidate.index)
        gaps, rates = self.approach.gaps(s, candidate.arrival)
        corrected = self.correct(candidate, gaps, rates)
        overlap = self.floor - gaps
        astray = jnp.any((overlap > self.tolerance.gap) & ~(overlap + corrected.late * rates <= overlap / 8) & others)
        closed = self.watched & ((number == 0) | others | (gaps <= self.floor + self.tolerance.gap))

        def aim_anew():
            anew = self.look(candidate, closed)
            return select((number == 0) | anew.found, anew, corrected)

        return where_wanted((number == 0) | astray, aim_anew, corrected)

    def look(self, candidate: CandidateStep, among) -> CandidateStep:
        """Which gap closes first on the way to where the candidate led, and how much earlier."""
        s, ends = lax.stop_gradient(self.approach.until_overlap(candidate.s, candidate.arrival))
        tau, index, found = lax.stop_gradient(first_root(self.at_begin, ends, s, among, self.tolerance))
        # The cubic's root is no more than an aim; its derivative is not the true one and is left out.
        s = jnp.where(found, lax.stop_gradient(candidate.s), candidate.s)
        return candidate._replace(s=s, index=index, corrections=0 * index, found=found, late=lax.stop_gradient(s) - tau)

    def correct(self, candidate: CandidateStep, gaps, rates) -> CandidateStep:
        """How late the candidate was, by its gap and gap velocity.

        The velocity is not differentiated: where the end of the step keeps the gap from closing, what is missed would
        multiply its derivative by (gap acceleration / gap velocity^2) again and again. Of an iteration that arrives
        each step adds an order of derivatives all the same.
        """
        # From where a closed gap is, not from zero: a slow approach would take long for what is rounding.
        missed, rate = (gaps - self.floor)[candidate.index], lax.stop_gradient(rates[candidate.index])
        zero, slow = (jnp.broadcast_to(x, gaps.shape)[candidate.index] for x in self.tolerance[:2])
        # Grazing: without an approach there is no time to correct.
        approaching = rate < -slow
        late = jnp.where(approaching, missed / jnp.where(approaching, rate, -1.0), 0.0)
        # The rounding of a late time is much of a way; loads and grips, behind the gaps, have no such need.
        open_ = approaching & (jnp.abs(missed) > LEFT_OPEN * zero) & (candidate.index < self.tolerance.slow.size)
        settled = (jnp.abs(late) <= self.rounding) & ~open_
        return candidate._replace(late=late, corrections=candidate.corrections + 1, settled=settled)


def rounding_of_time(t, left, dtype) -> Array:
    """() what is shorter than this is rounding, `left` before the end of a step at t.

    An event at the end of a step may leave so much of it. Forces and slips that vanish in there do so by rounding, and
    have no time whose derivative would mean anything.
    """
    return 8 * jnp.finfo(dtype).eps * (jnp.abs(t) + jnp.abs(left))


class Cubic(NamedTuple):
    """Gaps along a motion, c0 + c1 sigma + c2 sigma^2 + c3 sigma^3 with sigma = time / s in [0, 1], (c,) each."""

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

    def slope(self, sigma):
        return self.c1 + sigma * (2 * self.c2 + sigma * 3 * self.c3)

    def extrema(self) -> tuple[Array, Array]:
        """The places sigma of each cubic's extrema, the earlier first, cut to [0, 1]."""
        # The form of the quadratic formula that neither cancels nor divides by zero.
        discriminant = jnp.sqrt(jnp.maximum(self.c2**2 - 3 * self.c1 * self.c3, 0.0))
        stable = -(self.c2 + jnp.where(self.c2 >= 0, discriminant, -discriminant))
        tiny = jnp.finfo(self.c0.dtype).tiny
        one = stable / jnp.where(jnp.abs(self.c3) > tiny, 3 * self.c3, jnp.inf)
        other = self.c1 / jnp.where(jnp.abs(stable) > tiny, stable, jnp.inf)
        return jnp.clip(jnp.minimum(one, other), 0.0, 1.0), jnp.clip(jnp.maximum(one, other), 0.0, 1.0)

    def lowest(self, watched) -> Array:
        """() the place sigma of the lowest extremum of the watched cubics; 1 where none lies inside."""
        extrema = self.extrema()
        sigma, heights = jnp.stack(extrema), jnp.stack([self.value(one) for one in extrema])
        inside = watched[None, :] & (sigma > 0) & (sigma < 1)
        heights = jnp.where(inside, heights, jnp.inf)
        return jnp.where(jnp.any(inside), sigma.ravel()[jnp.argmin(heights)], 1.0)


def first_root(begin: tuple[Array, Array], end: tuple[Array, Array], s, watched: Array, tolerance: Tolerance):
    """The gap that closes first within (0, s], and about when.

    Along the motion each gap is the cubic with the given values and velocities at both ends: exact for flat contacts
    and constant forces, O(s^4) otherwise. It is cut at its extrema, so that a contact that closes and opens
    again on the way (a thin obstacle) is seen.

    Args:
        begin, end: gaps and their velocities there, (c,) each [m, m/s].
        s: length of the motion [s].
        watched: (c,) gaps to look at (contacts at rest are kept from overlapping by the smooth motion).
        tolerance: see `Tolerance`.

    Returns:
        time in [0, s] (s where there is none), index, and whether there is one.
    """
    (g0, v0), (g1, v1) = begin, end
    # Two balls have no normal where their centres have come together.
    v1 = jnp.where(jnp.isfinite(v1), v1, 0.0)
    closed = g0 <= tolerance.gap
    start = jnp.where(closed, 0.0, g0)
    cubic = Cubic.between((start, v0), (g1, v1), s)
    inner, gap_at = cubic.extrema(), cubic.value
    tiny = jnp.finfo(g0.dtype).tiny
    nodes = jnp.stack([jnp.zeros_like(g0), *inner, jnp.ones_like(g0)])
    # The end of the step belongs to the step: a contact that is closed there, and approaching, is an impact now.
    at_end = (g1 <= -tolerance.gap) | ((g1 <= tolerance.gap) & (v1 < -tolerance.velocity))
    below = jnp.stack([*(gap_at(sigma) < -tolerance.gap for sigma in inner), at_end])
    crosses = jnp.any(below, axis=0)
    piece = jnp.argmax(below, axis=0)
    columns = jnp.arange(g0.size)
    low, high = nodes[piece, columns], nodes[piece + 1, columns]

    def bisect(bracket, _):
        # Newton where it stays inside the bracket, else bisection; the cubic falls monotonically between the nodes.
        low, high, sigma = bracket
        value, slope = gap_at(sigma), cubic.slope(sigma)
        low, high = jnp.where(value > 0, sigma, low), jnp.where(value > 0, high, sigma)
        newton = sigma - value / jnp.where(slope < -tiny, slope, -jnp.inf)
        inside = (newton >= low) & (newton <= high) & (slope < -tiny)
        return (low, high, jnp.where(inside, newton, (low + high) / 2)), None

    (_, _, sigma), _ = lax.scan(bisect, (low, high, (low + high) / 2), None, length=12)
    # Closed already and approaching: now. Whatever lies inside a closed contact's first piece is this same impact.
    immediate = closed & (v0 < -tolerance.velocity)
    sigma = jnp.where(immediate, 0.0, sigma)
    sigma = jnp.where(watched & (crosses | immediate), sigma, jnp.inf)
    index = jnp.argmin(sigma)
    found = sigma[index] <= 1.0
    return jnp.where(found, sigma[index], 1.0) * s, index, found
