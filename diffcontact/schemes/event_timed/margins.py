"""Whether what truncation has made of a motion could have changed which impacts happen, and in which order."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from diffcontact.numerics.linear import nonzero

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
    """The errors of a motion, carried along as tangents, and the decisions that lie within them; not differentiated.

    There are two: what is truncated, which a flight of s seconds adds to, and what bounces would do that are left out.
    An impact turns both as it turns any displacement: n the normal, v the speed of approach, jump what it does to the
    velocity::

        flight:    place + s velocity + defect,    velocity + defect
        impact:    place + jump (n place) / v,     velocity + jump (n velocity) / v + defect

    How forces change with the place is left out: between two impacts that is little. Decisions ask for the first alone.

    Attributes:
        error: (4, d) both of the place, in the coordinates of u [m], and both of the velocity [m/s].
        doubtful: () whether a decision so far lies within these.
    """

    error: Array
    doubtful: Array

    @classmethod
    def nothing(cls, u: Array) -> Margins:
        """Before any motion, of the shape of u."""
        return cls(jnp.zeros((4, u.size), u.dtype), jnp.array(False))

    @property
    def fast(self) -> Array:
        """(d,) both errors of the velocity together [m/s]."""
        return jnp.sum(jnp.abs(self.error[2:]), axis=0)

    def after(self, s, off: Array, change: Array, way: Array, order: int) -> Margins:
        """Add a piece of s seconds: its truncation at second order, its change of velocity and its way, (d,) each."""
        share = jnp.abs(off) / jnp.where(way > 0, way, jnp.inf)
        # Of an oscillation of w radians per second the share is x / 6, x = (w s)^2. The place is off by x / 6 or by
        # x^2 / 120 of the way; the change of the velocity by that of the trapezoidal or of Simpson's rule, x / 12 or
        # x^2 / 2880.
        off, change = (off, share / 2 * change) if order == 2 else (0.3 * share * off, share**2 / 80 * change)
        place, raised, velocity, left = self.error
        moved = [place + s * velocity + off, raised + s * left, velocity + change, left]
        return self._replace(error=jnp.stack(moved))

    def roused(self, left: Array, flight) -> Margins:
        """Take velocities (d,) of bounces that were left out, where they are larger than what is carried.

        A bounce that would be back within a flight of so many seconds rises to a quarter of these times its velocity.
        """
        place, raised, velocity, before = self.error
        larger = jnp.abs(left) > jnp.abs(before)
        roused = [place, jnp.where(larger, flight / 4 * left, raised), velocity, jnp.where(larger, left, before)]
        return self._replace(error=jnp.stack(roused))

    def through(self, normal: Array, speed, jump: Array, defect: Array) -> Margins:
        """Go through an impact of the contact with this normal (d,), met at a speed < 0 [m/s]; otherwise there is none.

        It changes the velocity by `jump`, which bounces left out make wrong by `defect`, (d,) each [m/s].
        """
        share = jump / jnp.where(speed < 0, speed, -jnp.inf)
        turned = self.error + jnp.outer(self.error @ normal, share)
        return self._replace(error=turned + jnp.outer(jnp.arange(4) == 3, jnp.where(speed < 0, defect, 0.0)))

    def held(self, these: Array, normals: Array, pushed: Array) -> Margins:
        """Hold contacts (c,), 1 or 0: they leave no gap and no velocity along their normals (c, d).

        One sweep of Jacobi's iteration, with the sums of rows in place of the diagonal, so that it never overshoots;
        `pushed` is M^-1 times the normals.
        """
        sums = jnp.abs(normals @ pushed.T) @ these
        share = (these / nonzero(sums))[:, None] * normals
        return self._replace(error=self.error - (self.error @ share.T) @ pushed)

    def judged(
        self, normals: Array, cubic: Cubic, end, s, watched: Array, struck: Array, closed, fast: Array
    ) -> Margins:
        """Judge the decisions of a piece of s seconds, with the error at its end.

        - A contact that is not struck comes closer than the error: it might have been struck.
        - One is struck so slowly that it might have been missed, or that the error is much of its speed.
        - One that is open, acts on a coordinate of the one that is struck, and closes so soon that it might have been
          the first. Of bounces that are left out: if one of the two is `fast`.

        Args:
            cubic: the gaps along the piece; end: gaps (c,) and their velocities there [m, m/s].
            watched: (c,) contacts that are looked at; struck: (c,) the one that is struck at the end, if any.
            closed: () a gap below this is closed [m]; fast: (c,) contacts whose order matters.
        """
        rows, (gap, speed) = jnp.abs(normals), end
        sizes, others = jnp.abs(self.error) @ rows.T, watched & ~struck
        places, place, velocity = sizes[:2], sizes[0], sizes[2]

        def touches(sigma):
            bottom = (2 * cubic.c2 + 6 * sigma * cubic.c3 > 0) & (sigma > 0) & (sigma < 1)
            # What begins closed rises first: a dip of its cubic is the cubic's own error.
            return bottom & (cubic.c0 > closed) & (jnp.abs(cubic.value(sigma)) < SAFE * place)

        grazes = others & jnp.any(jax.vmap(touches)(jnp.stack(cubic.extrema())), axis=0)
        # Where the gap is pressed shut it will be struck in any case.
        bend = jnp.maximum(2 * cubic.c2 + 6 * cubic.c3, 0.0) / jnp.where(s > 0, s, jnp.inf) ** 2
        slow = struck & (speed**2 < FAST * (jnp.abs(speed) * velocity + bend * place))

        # By so much the gap of each contact is uncertain when the one is struck, whose time is uncertain, too.
        this = struck.astype(speed.dtype)
        approach = speed @ this
        late = places @ this / jnp.where(approach < 0, -approach, jnp.inf)
        acts = rows @ (this @ rows > 0).astype(rows.dtype) > 0
        follows = acts & others & (gap > closed) & (speed < 0)
        first = follows[None] & (gap[None] < SAFE * (places - jnp.outer(late, speed)))
        changed = first[0] | (first[1] & (fast | jnp.any(fast & struck)))
        return self._replace(doubtful=self.doubtful | jnp.any(grazes | slow | changed))
