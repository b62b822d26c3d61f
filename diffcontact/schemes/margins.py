"""Whether what truncation has made of a motion could have changed which impacts happen, and in which order."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

# How many times the error that is carried a gap must be, and how many times what the error makes of its square the
# square of a speed: the error of an impact's derivative, which goes with one over the speed, is then an eighth.
SAFE, FAST = 2.0, 8.0


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

    def extrema(self) -> tuple[Array, Array]:
        """The places sigma of each cubic's extrema, the earlier first, cut to [0, 1]."""
        # The form of the quadratic formula that neither cancels nor divides by zero.
        discriminant = jnp.sqrt(jnp.maximum(self.c2**2 - 3 * self.c1 * self.c3, 0.0))
        stable = -(self.c2 + jnp.where(self.c2 >= 0, discriminant, -discriminant))
        tiny = jnp.finfo(self.c0.dtype).tiny
        one = stable / jnp.where(jnp.abs(self.c3) > tiny, 3 * self.c3, jnp.inf)
        other = self.c1 / jnp.where(jnp.abs(stable) > tiny, stable, jnp.inf)
        return jnp.clip(jnp.minimum(one, other), 0.0, 1.0), jnp.clip(jnp.maximum(one, other), 0.0, 1.0)


class Margins(NamedTuple):
    """The error of a motion, carried along as a tangent, and the decisions that lie within it; not differentiated.

    A flight of s seconds makes a defect of the place and one of the velocity. An impact turns both as it turns any
    displacement: n the normal, v the speed of approach, jump what it does to the velocity::

        flight:    place + s velocity + defect,    velocity + defect
        impact:    place + jump (n place) / v,     velocity + jump (n velocity) / v

    How forces change with the place is left out: between two impacts that is little.

    Attributes:
        place: (d,) in the coordinates of u [m]. velocity: (d,) [m/s].
        least: () the smallest margin of a decision so far, in parts of what these make of it; below 1 it is doubtful.
    """

    place: Array
    velocity: Array
    least: Array

    @classmethod
    def nothing(cls, u: Array) -> Margins:
        """Before any motion, of the shape of u."""
        still = jnp.zeros_like(u)
        return cls(still, still, jnp.full((), jnp.inf, u.dtype))

    def after(self, s, off: Array, change: Array, way: Array, order: int) -> Margins:
        """And a piece of s seconds.

        Args:
            off: (d,) the truncation of its place at second order [m], with its sign.
            change: (d,) of the velocity in it [m/s].
            way: (d,) how far the coordinate has moved in it, to and fro [m].
            order: of the motion, 2 or 4.
        """
        share = jnp.abs(off) / jnp.where(way > 0, way, jnp.inf)
        # Of an oscillation of w radians per second the share is x / 6, x = (w s)^2. The place is off by x / 6 or by
        # x^2 / 120 of the way; the change of the velocity by that of the trapezoidal or of Simpson's rule, x / 12 or
        # x^2 / 2880.
        place, velocity = (off, share / 2 * change) if order == 2 else (0.3 * share * off, share**2 / 80 * change)
        return Margins(self.place + s * self.velocity + place, self.velocity + velocity, self.least)

    def through(self, happens, normal: Array, speed, jump: Array) -> Margins:
        """And an impact, where one `happens`, of the contact with this normal (d,), met at a speed < 0 [m/s]."""
        normal, speed, jump = lax.stop_gradient((normal, speed, jump))
        meets = happens & (speed < 0)
        share = jump / jnp.where(meets, speed, -jnp.inf)
        return self._replace(
            place=self.place + share * (normal @ self.place),
            velocity=self.velocity + share * (normal @ self.velocity),
        )

    def judged(self, normals: Array, cubic: Cubic, end, s, watched: Array, struck: Array, closed) -> Margins:
        """And the decisions of a piece of s seconds, with the error at its end.

        - A contact that is not struck comes closer than the error: it might have been struck.
        - One that is struck so slowly that it might have been missed, or that the error is much of its speed.
        - One that is open, acts on a coordinate of the one that is struck, and closes so soon that it might have been
          the first.

        Args:
            normals: (c, d) of the contacts at the beginning.
            cubic: the gaps along the piece.
            end: gaps (c,) and their velocities there [m, m/s].
            watched: (c,) contacts that are looked at.
            struck: (c,) the one that is struck at the end, if any.
            closed: () a gap below this is closed [m].
        """
        rows, cubic, (gap, speed), s = lax.stop_gradient((jnp.abs(normals), cubic, end, s))
        place, velocity = rows @ jnp.abs(self.place), rows @ jnp.abs(self.velocity)
        margins, others = [], watched & ~struck
        for sigma in cubic.extrema():
            lowest = (2 * cubic.c2 + 6 * sigma * cubic.c3 > 0) & (sigma > 0) & (sigma < 1)
            # What begins closed rises first: a dip of its cubic is the cubic's own error.
            lowest = lowest & (cubic.c0 > closed)
            margins.append(_parts(lowest & others, jnp.abs(cubic.value(sigma)), SAFE * place))
        # Where the gap is pressed shut it will be struck in any case.
        bend = jnp.maximum(2 * cubic.c2 + 6 * cubic.c3, 0.0) / jnp.where(s > 0, s, jnp.inf) ** 2
        margins.append(_parts(struck, speed**2, FAST * (jnp.abs(speed) * velocity + bend * place)))

        # By so much the time of each impact is uncertain.
        late = jnp.where(speed < 0, place / jnp.where(speed < 0, -speed, 1.0), 0.0)
        acts = jnp.any((rows > 0) & jnp.any(struck[:, None] & (rows > 0), axis=0)[None, :], axis=1)
        apart = SAFE * (late + jnp.max(jnp.where(struck, late, 0.0), initial=0.0))
        follows = acts & others & (gap > closed) & (speed < 0) & jnp.any(struck)
        margins.append(_parts(follows, gap, -speed * apart))
        return self._replace(least=jnp.minimum(self.least, jnp.min(jnp.stack(margins), initial=jnp.inf)))


def _parts(decided: Array, margin: Array, error: Array) -> Array:
    """(c,) margins in parts of the error, infinite where nothing is decided."""
    return jnp.where(decided & (error > 0), margin / jnp.where(error > 0, error, 1.0), jnp.inf)
