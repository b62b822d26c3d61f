"""Projected conjugate gradients on the dual of a projection onto sparse rows.

Why not a gradient method, however accelerated: a ball that wedges itself between others gives the dual an eigenvalue of
1e-7 and less, one among hundreds. Conjugate gradients need some iterations more for it, Nesterov's method thousands.

What an iteration costs is what it reads and writes. Very many rows are therefore worked on in single precision, around
loads at which the values are known in the caller's; where that is not enough, a last search goes on in the caller's.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.batching import any_lane, select
from diffcontact.qp.rows.body_rows import BodyRows
from diffcontact.qp.rows.slots import NONE

# From a cold start thousands of redundant contacts take some hundreds.
ITERATIONS = 20000
# Steps along conjugate directions before all rows are looked at again, which costs as much as one.
STEPS = 4
# How far to go against the gradient; a search along the way shortens it. Rows that are alike have the eigenvalue 2.
REACH = 0.5
# In single precision: until the residual is so much smaller than it was, or so many steps have been taken.
LESS, ROUND = 1e-4, 1000


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Iterate:
    """What is carried from iteration to iteration.

    Args:
        change: (c,) d of the loads x, from where they are looked at.
        values: (c,) w of the rows at x + d, the gradient of the dual.
        motion: (m, n + 1) D N^T d, what the change does to the bodies.
        direction: (c,) the last conjugate direction.
        slope: (c,) the part of w there that it was begun from, of the rows with a load.
        square: () sum of slope^2, infinite before the first.
        size: () sum of direction^2, or a little more.
        residual: () of the optimality conditions, when last looked at.
        number: () int, of steps.
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
    """min_x 1/2 x^T A x + at_v^T x over x >= 0.

    Args:
        at_v: (c,) values of the unit rows at v.
        rows: the `UnitRows`.
        enough: () the residual that is asked for.
    """

    at_v: jax.Array
    rows: UnitRows
    enough: jax.Array

    def part(self, place, there) -> Dual:
        """That of the rows at the places (k,), as far as they are there (k,)."""
        rows = replace(
            self.rows,
            bodies=self.rows.bodies[:, place],
            normals=jnp.where(there[None, None, :], self.rows.normals[:, :, place], 0),
        )
        return replace(self, at_v=jnp.where(there, self.at_v[place], 0), rows=rows)

    def solved(self, x):
        """The loads (c,) where the residual is small enough, or as small as it gets, and it."""
        around = self.around(x, x.dtype)
        end = lax.while_loop(
            lambda state: (state.residual > self.enough) & (state.number < ITERATIONS),
            around.some_steps,
            around.begin(),
        )
        return around.loads(x, end), end.residual

    def approached(self, x):
        """The same, by steps in single precision, which may end before it.

        Whenever the residual has come down by `LESS` the values are computed anew in the caller's precision, and the
        directions kept, until that brings it down no more. (Reliable updates: M. A. Clark et al., Comput. Phys. Comm.
        181 (2010).)
        """

        def more(carry):
            x, begin, _ = carry
            around = self.around(x, jnp.float32)
            goal = jnp.maximum(0.9 * self.enough.astype(jnp.float32), LESS * begin.residual)
            end = lax.while_loop(
                lambda state: (state.residual > goal) & (state.number < begin.number + ROUND), around.some_steps, begin
            )
            x = around.loads(x, end)
            return x, self.around(x, jnp.float32).again(end), begin.residual

        def not_enough(carry):
            _, state, before = carry
            return (state.residual > self.enough) & (state.residual < before / 2)

        begin = self.around(x, jnp.float32).begin()
        x, end, _ = lax.while_loop(not_enough, more, (x, begin, jnp.full_like(begin.residual, jnp.inf)))
        return x, end.residual.astype(x.dtype)

    def around(self, x, dtype) -> _Around:
        """It, as seen from the loads x (c,), for steps in another precision."""
        w = self.at_v + self.rows.up(self.rows.down(x)) + _eps(x) * x
        return _Around(-x.astype(dtype), w.astype(dtype), self.rows.to(dtype))


@dataclass(frozen=True)
class _Around:
    """The dual as seen from loads x, and the steps that lead to its minimum over x + d >= 0.

    Its values are known there; what is rounded is what changes.

    Args:
        floor: (c,) -x, which d is not below.
        values_there: (c,) of the rows at x.
        rows: the `UnitRows`.
    """

    floor: jax.Array
    values_there: jax.Array
    rows: UnitRows

    @property
    def soft(self):
        """A is known to its rounding only; as much more on its diagonal, and rows that contradict each other by no more
        than rounding have multipliers that are finite."""
        return _eps(self.floor)

    def values(self, d, motion):
        """(c,) of the rows at x + d."""
        return self.values_there + self.rows.up(motion) + self.soft * d

    def residual(self, d, w):
        """() of the optimality conditions, less what rounding of the change explains."""
        return _largest(jnp.abs(jnp.minimum(d - self.floor, w))) - self.soft * _largest(jnp.abs(d))

    def loads(self, x, state: _Iterate):
        """(c,) x + d."""
        return jnp.where(state.change > self.floor, jnp.maximum(x + state.change, 0), 0)

    def begin(self) -> _Iterate:
        """At x, with no direction."""
        none, zero = jnp.zeros_like(self.floor), jnp.zeros((), self.floor.dtype)
        still, number = jnp.zeros_like(self.rows.mass), jnp.zeros((), jnp.int32)
        return self.again(_Iterate(none, none, still, none, none, zero + jnp.inf, zero, zero, number))

    def again(self, state: _Iterate) -> _Iterate:
        """At x, with the directions of a state that led there."""
        none, w = jnp.zeros_like(self.floor), self.values_there
        still = jnp.zeros_like(state.motion)
        return replace(state, change=none, values=w, motion=still, residual=self.residual(none, w))

    def some_steps(self, state: _Iterate) -> _Iterate:
        """Take loads up where that pays, then work on the rows that have one, and look at the residual."""
        x, w = state.change - self.floor, state.values
        # Rows without a load are left alone as long as there is more to gain among the others.
        inside, outside = jnp.where(x > 0, w, 0), jnp.where(x > 0, 0, jnp.minimum(w, 0))
        gain, lost = _sums(inside * jnp.minimum(x / REACH, w), outside**2)
        more = lost > gain
        state = lax.cond(any_lane(more), lambda: select(more, self.opening(state), state), lambda: state)
        state, _ = lax.scan(self.along, state, None, length=STEPS)
        return replace(state, residual=self.residual(state.change, state.values))

    def opening(self, state: _Iterate) -> _Iterate:
        """One step against the gradient of all rows, as far as no load becomes negative."""
        direction = state.change - jnp.maximum(state.change - REACH * state.values, self.floor)
        moved = self.rows.down(direction)
        curvature, across = self.rows.square(moved), jnp.sum(state.values * direction)
        length = jnp.minimum(across / jnp.where(curvature > 0, curvature, 1), 1)
        d, motion = jnp.maximum(state.change - length * direction, self.floor), state.motion - length * moved
        return replace(state, change=d, values=self.values(d, motion), motion=motion)

    def along(self, state: _Iterate, _):
        """One step of conjugate gradients among the rows with a load; those that would pull lose it."""
        slope = jnp.where(state.change > self.floor, state.values, 0)
        square, across, alike = _sums(slope * slope, slope * state.direction, slope * state.slope)
        # Of Polak and Ribiere: where rows have lost their load since, the others' directions go on.
        ratio = jnp.maximum(square - alike, 0) / state.square
        ratio = jnp.where(square + ratio * across > 0.1 * square, ratio, 0)
        direction = jnp.where(state.change > self.floor, state.values + ratio * state.direction, 0)
        size = square + 2 * ratio * across + ratio**2 * state.size
        moved = self.rows.down(direction)
        curvature = self.rows.square(moved) + self.soft * size
        length = (square + ratio * across) / jnp.where(curvature > 0, curvature, 1)
        ahead = state.change - length * direction
        cut = _any(ahead < self.floor)
        d, motion = jnp.maximum(ahead, self.floor), state.motion - length * moved
        motion = lax.cond(any_lane(cut), lambda: jnp.where(cut, self.rows.down(d), motion), lambda: motion)
        square = jnp.where(square > 0, square, jnp.inf)
        w, number = self.values(d, motion), state.number + 1
        return _Iterate(d, w, motion, direction, slope, square, size, state.residual, number), None


def _eps(x):
    return jnp.finfo(x.dtype).eps


def _sums(*values):
    """The sums of several (c,) in one pass; XLA on a CPU takes several for each that is summed by itself."""
    start = (jnp.zeros((), values[0].dtype),) * len(values)
    return lax.reduce(values, start, lambda a, b: tuple(map(jnp.add, a, b)), (0,))


def _largest(values):
    """The largest of the values (c,) and 0; twice as fast as a maximum that has to pass on NaN."""
    return lax.reduce(values, jnp.zeros((), values.dtype), lambda a, b: jnp.where(b > a, b, a), (0,))


def _any(values):
    """() whether one of the values (c,) holds."""
    return lax.reduce(values, jnp.asarray(False), jnp.logical_or, (0,))


@dataclass(frozen=True)
class UnitRows:
    """The unit rows N (c, n m), A = N D N^T with D = M^-1, for products that are repeated.

    Components come first, and everything is done a component at a time: XLA on a CPU scatters numbers three times as
    fast as columns of them.

    Args:
        bodies: (2, c) of each row; n where there is none.
        normals: (2, m, c) the row's entries for them, or (1, m, c) for the second, of which the first's are the
            opposite.
        mass, inverse: (m, n + 1) diagonals of M and of D, zero for the last body, which stands for none.
    """

    bodies: jax.Array
    normals: jax.Array
    mass: jax.Array
    inverse: jax.Array

    @classmethod
    def of(cls, G: BodyRows, scale, mass):
        """Those of the rows G (c, d), times their scale (c,)."""
        bodies = jnp.where(G.bodies == NONE, G.count, G.bodies).T.astype(jnp.int32)
        mass, inverse = (jnp.pad(x.reshape(G.count, -1).T, ((0, 0), (0, 1))) for x in (mass, 1 / mass))
        return cls(bodies, scale[None, None, :] * G.normals.transpose(1, 2, 0), mass, inverse)

    def to(self, dtype) -> UnitRows:
        """They in another precision."""
        return replace(self, **{name: getattr(self, name).astype(dtype) for name in ("normals", "mass", "inverse")})

    def up(self, motion):
        """(c,) N motion: what the rows see of the bodies' motion (m, n + 1)."""
        seen = 0
        for bodies, normals, sign in self._sides(self.normals):
            for normal, component in zip(normals, motion, strict=True):
                seen = seen + sign * normal * component[bodies]
        return seen

    def down(self, x):
        """(m, n + 1) D N^T x: how loads (c,) move the bodies."""
        nothing, total = jnp.zeros(self.mass.shape[1], x.dtype), 0
        for bodies, pushes, sign in self._sides(self.normals * x[None, None, :]):
            total = total + sign * jnp.stack([nothing.at[bodies].add(push) for push in pushes])
        return self.inverse * total

    def square(self, motion):
        """() motion^T M motion, which is x^T A x where motion = D N^T x."""
        return sum(_sums(*(self.mass * motion**2)))

    def _sides(self, entries):
        """Of the first and of the second side: the bodies (c,), the entries (m, c), their sign."""
        return zip(self.bodies, (entries[0], entries[-1]), (1 if len(entries) == 2 else -1, 1), strict=True)
