"""Solve the dual of a projection onto sparse rows by projected conjugate gradients.

Why not a gradient method, however accelerated? A ball wedged between others gives the dual one eigenvalue of 1e-7 or
less among hundreds. Conjugate gradients need some iterations more for it, Nesterov's method thousands.

What an iteration costs is what it reads and writes. With very many rows the iterations therefore run in single
precision. They work on the change of the multipliers, while the values at the multipliers themselves are computed in
the caller's precision. Where that does not reach the residual, last iterations in the caller's precision do.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.numerics.batching import where_wanted
from diffcontact.numerics.linear import nonzero
from diffcontact.qp.many.vectors import largest, sums
from diffcontact.qp.rows import NONE, BodyRows


@dataclass(frozen=True)
class UnitRows:
    """Hold rows N (c, n m) of length one between n bodies; A = N M^-1 N^T.

    Components come first, and every product is formed a component at a time: XLA on a CPU scatters numbers three times
    as fast as columns of them.

    Args:
        bodies: (2, c) the two bodies of each row; n where there is none.
        normals: (2, m, c) the row's entries for them, or (1, m, c) the second's, opposite to the first's.
        mass: (m, n + 1) diagonal of M, zero for the last body, which stands for none.
        inverse: (m, n + 1) diagonal of M^-1, likewise.
    """

    bodies: jax.Array
    normals: jax.Array
    mass: jax.Array
    inverse: jax.Array

    @classmethod
    def of(cls, G: BodyRows, scale, mass) -> UnitRows:
        """Scale the rows G (c, d) by (c,), in the metric of the mass (d,)."""
        bodies = jnp.where(G.bodies == NONE, G.count, G.bodies).T.astype(jnp.int32)
        mass, inverse = (jnp.pad(x.reshape(G.count, -1).T, ((0, 0), (0, 1))) for x in (mass, 1 / mass))
        return cls(bodies, scale[None, None, :] * G.normals.transpose(1, 2, 0), mass, inverse)

    def part(self, place, there) -> UnitRows:
        """Select the rows at the places (k,), zero unless `there` (k,)."""
        normals = jnp.where(there[None, None, :], self.normals[:, :, place], 0)
        return replace(self, bodies=self.bodies[:, place], normals=normals)

    def to(self, dtype) -> UnitRows:
        return replace(self, **{name: getattr(self, name).astype(dtype) for name in ("normals", "mass", "inverse")})

    def product(self, motion):
        """Return N motion (c,) of a motion (m, n + 1) of the bodies."""
        total = 0
        for bodies, normals, sign in self._sides(self.normals):
            for normal, component in zip(normals, motion, strict=True):
                total = total + sign * normal * component[bodies]
        return total

    def motion(self, multipliers):
        """Return M^-1 N^T multipliers (m, n + 1)."""
        nothing, total = jnp.zeros(self.mass.shape[1], multipliers.dtype), 0
        for bodies, pushes, sign in self._sides(self.normals * multipliers[None, None, :]):
            total = total + sign * jnp.stack([nothing.at[bodies].add(push) for push in pushes])
        return self.inverse * total

    def square(self, motion):
        """Return motion^T M motion, which is x^T A x for the multipliers x behind the motion."""
        return sum(sums(*(self.mass * motion**2)))

    def _sides(self, entries):
        """Return of both bodies their numbers (c,), entries (m, c), and a sign."""
        return zip(self.bodies, (entries[0], entries[-1]), (1 if len(entries) == 2 else -1, 1), strict=True)


# From multipliers of zero thousands of redundant contacts take some hundreds.
ITERATIONS = 20000
# Conjugate steps before all rows are looked at again, which costs as much as one of them.
CONJUGATE_STEPS = 4
# The length of a step against the gradient, which an exact line search shortens. The dual's largest eigenvalue is 1
# for one row and 2 for a pair of equal ones.
GRADIENT_STEP = 0.5
# The values are computed anew in the caller's precision once the residual in single precision has come down by the
# factor, or after the number of steps.
SINGLE_REDUCTION, SINGLE_STEPS = 1e-4, 1000


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Iterate:
    """Carry the state from iteration to iteration; the multipliers are x + d with x fixed.

    Args:
        change: (c,) d.
        values: (c,) w of the rows at x + d, the gradient of the dual.
        motion: (m, n + 1) M^-1 N^T d, how the change moves the bodies.
        direction: (c,) the last conjugate direction.
        slope: (c,) w where that direction began, of the rows with a multiplier.
        square: () sum of slope^2, infinite before the first step.
        size: () sum of direction^2, or a little more.
        residual: () of the optimality conditions, when last looked at.
        number: () int, of conjugate steps.
    """

    change: jax.Array
    values: jax.Array
    motion: jax.Array
    direction: jax.Array
    slope: jax.Array
    square: jax.Array
    size: jax.Array
    residual: jax.Array
    number: jax.Array


@dataclass(frozen=True)
class Dual:
    """Hold the dual of a projection, min_x 1/2 x^T A x + at_v^T x over x >= 0.

    Args:
        at_v: (c,) values of the unit rows at v.
        rows: the unit rows N, A = N M^-1 N^T.
        enough: () the residual that is asked for.
    """

    at_v: jax.Array
    rows: UnitRows
    enough: jax.Array

    def part(self, place, there) -> Dual:
        return replace(self, at_v=jnp.where(there, self.at_v[place], 0), rows=self.rows.part(place, there))

    def solved(self, x):
        """Iterate from the multipliers x (c,) until `enough` or rounding; multipliers and residual."""
        shifted = self.shifted(x, x.dtype)

        def steps(state):
            state = shifted.steps(state)
            # What steps have added up is rounded: a residual counts that is computed anew.
            return where_wanted(state.residual <= self.enough, lambda: shifted.afresh(state), state)

        end = lax.while_loop(
            lambda state: (state.residual > self.enough) & (state.number < ITERATIONS), steps, shifted.begin()
        )
        return shifted.multipliers(x, end), end.residual

    def approached(self, x):
        """Iterate as `solved` in single precision, perhaps not down to `enough`.

        Once the residual has come down by `SINGLE_REDUCTION` the values are computed anew in the caller's precision and
        the directions kept. This ends when it no longer halves the residual.

        Source: reliable updates, M. A. Clark et al., Comput. Phys. Comm. 181 (2010).
        """

        def more(carry):
            x, begin, _ = carry
            shifted = self.shifted(x, jnp.float32)
            goal = jnp.maximum(0.9 * self.enough.astype(jnp.float32), SINGLE_REDUCTION * begin.residual)
            end = lax.while_loop(
                lambda state: (state.residual > goal) & (state.number < begin.number + SINGLE_STEPS),
                shifted.steps,
                begin,
            )
            x = shifted.multipliers(x, end)
            return x, self.shifted(x, jnp.float32).again(end), begin.residual

        def not_enough(carry):
            _, state, before = carry
            return (state.residual > self.enough) & (state.residual < before / 2)

        begin = self.shifted(x, jnp.float32).begin()
        x, end, _ = lax.while_loop(not_enough, more, (x, begin, jnp.full_like(begin.residual, jnp.inf)))
        return x, end.residual.astype(x.dtype)

    def shifted(self, x, dtype) -> _Shifted:
        """Return the dual of a change d from x (c,), in another precision."""
        w = self.at_v + self.rows.product(self.rows.motion(x)) + _eps(x) * x
        return _Shifted(-x.astype(dtype), w.astype(dtype), self.rows.to(dtype))


@dataclass(frozen=True)
class _Shifted:
    """Hold the dual of a change d from multipliers x, with d >= `floor` = -x (c,).

    The values at x, `values_there` (c,), are known to the caller's precision; only what d adds to them is rounded.
    """

    floor: jax.Array
    values_there: jax.Array
    rows: UnitRows

    @property
    def soft(self):
        """Return the addition to the diagonal of A: its rounding.

        With it rows that contradict each other by no more than rounding have finite multipliers.
        """
        return _eps(self.floor)

    def values(self, d, motion):
        """Return the rows' values (c,) at x + d, where `motion` is that of d."""
        return self.values_there + self.rows.product(motion) + self.soft * d

    def residual(self, d, w):
        """Return the residual of optimality, less what rounding of the change explains."""
        return largest(jnp.abs(jnp.minimum(d - self.floor, w))) - self.soft * largest(jnp.abs(d))

    def multipliers(self, x, state: _Iterate):
        return jnp.where(state.change > self.floor, jnp.maximum(x + state.change, 0), 0)

    def begin(self) -> _Iterate:
        none, zero = jnp.zeros_like(self.floor), jnp.zeros((), self.floor.dtype)
        still, number = jnp.zeros_like(self.rows.mass), jnp.zeros((), jnp.int32)
        return self.again(_Iterate(none, none, still, none, none, zero + jnp.inf, zero, zero, number))

    def again(self, state: _Iterate) -> _Iterate:
        """Restart at x, with the directions of a state that led there."""
        none, w = jnp.zeros_like(self.floor), self.values_there
        still = jnp.zeros_like(state.motion)
        return replace(state, change=none, values=w, motion=still, residual=self.residual(none, w))

    def afresh(self, state: _Iterate) -> _Iterate:
        """Compute motion, values and residual anew from the change."""
        motion = self.rows.motion(state.change)
        w = self.values(state.change, motion)
        return replace(state, motion=motion, values=w, residual=self.residual(state.change, w))

    def steps(self, state: _Iterate) -> _Iterate:
        """Make a gradient step if it pays, then conjugate steps, and the residual."""
        x, w = state.change - self.floor, state.values
        # Rows without a multiplier are left alone as long as there is more to gain among the others.
        inside, outside = jnp.where(x > 0, w, 0), jnp.where(x > 0, 0, jnp.minimum(w, 0))
        gain, lost = sums(inside * jnp.minimum(x / GRADIENT_STEP, w), outside**2)
        more = lost > gain
        state = where_wanted(more, lambda: self.gradient_step(state), state)
        state, _ = lax.scan(self.conjugate_step, state, None, length=CONJUGATE_STEPS)
        return replace(state, residual=self.residual(state.change, state.values))

    def gradient_step(self, state: _Iterate) -> _Iterate:
        """Step against the gradient of all rows, until a multiplier reaches zero."""
        direction = state.change - jnp.maximum(state.change - GRADIENT_STEP * state.values, self.floor)
        moved = self.rows.motion(direction)
        curvature, across = self.rows.square(moved), jnp.sum(state.values * direction)
        length = jnp.minimum(across / nonzero(curvature), 1)
        d, motion = jnp.maximum(state.change - length * direction, self.floor), state.motion - length * moved
        return replace(state, change=d, values=self.values(d, motion), motion=motion)

    def conjugate_step(self, state: _Iterate, _):
        """Make one conjugate step among rows with a multiplier; rows that pull lose it."""
        slope = jnp.where(state.change > self.floor, state.values, 0)
        square, across, alike = sums(slope * slope, slope * state.direction, slope * state.slope)
        # Of Polak and Ribiere: where rows have lost their multiplier since, the others' directions go on.
        ratio = jnp.maximum(square - alike, 0) / state.square
        # Behind a minimum among fewer rows the ratio is rounding, and nothing of the gradient would be left beside it.
        follows = (square + ratio * across > 0.1 * square) & (_eps(slope) * ratio**2 * state.size <= square)
        ratio = jnp.where(follows, ratio, 0)
        direction = jnp.where(state.change > self.floor, state.values + ratio * state.direction, 0)
        size = square + 2 * ratio * across + ratio**2 * state.size
        moved = self.rows.motion(direction)
        curvature = self.rows.square(moved) + self.soft * size
        length = (square + ratio * across) / nonzero(curvature)
        ahead = state.change - length * direction
        cut = jnp.any(ahead < self.floor)

        def bent():
            # Where the first multiplier is zero it stays so while the others go on, as long as the dual gains by it:
            # rows that depend on each other have a direction of no curvature, and a length without a bound.
            d = jnp.maximum(ahead, self.floor)
            motion = self.rows.motion(d)
            way, change = d - state.change, motion - state.motion
            gains = sums(state.values * way)[0] + (self.rows.square(change) + self.soft * sums(way * way)[0]) / 2 <= 0
            falls = direction > 0
            first = jnp.min((state.change - self.floor) / jnp.where(falls, direction, 1), initial=jnp.inf, where=falls)
            short = jnp.maximum(state.change - first * direction, self.floor)
            return jnp.where(gains, d, short), jnp.where(gains, motion, state.motion - first * moved)

        d, motion = where_wanted(cut, bent, (ahead, state.motion - length * moved))
        square = jnp.where(square > 0, square, jnp.inf)
        w, number = self.values(d, motion), state.number + 1
        return _Iterate(d, w, motion, direction, slope, square, size, state.residual, number), None


def _eps(x):
    return jnp.finfo(x.dtype).eps
