"""How much of a motion is the truncation of its steps: whether forces change too much within one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.status import Status
from diffcontact.system import advanced

# What truncation may come to of the way of a coordinate: some fifteen steps for a period of an oscillation.
MOST = 1 / 32
# From such a share of its own way on the truncation of a piece makes its change of velocity doubtful, and such a share
# of the fastest motion doubtful changes may have.
DOUBTFUL, MOST_DOUBTFUL = 1 / 16, 1 / 4
# A coordinate counts where its way, times the root of its mass, is more than this power of eps of the largest: a body
# that slides on a floor moves across it by rounding.
LEAST_WAY = 0.75


def winds(system, params, q: Array, u: Array, s, order: int) -> Array:
    """() whether a `rate` turns so far within s seconds that twice half of them lead elsewhere, by `MOST` of the way of
    a coordinate, to and fro.

    At second order a system that knows where its rate leads to (`System.advance`) is not asked.
    """
    if system.rate is None or (order == 2 and system.advance is not None):
        return jnp.array(False)
    by_rule = replace(system, advance=None)
    whole = advanced(by_rule, params, q, u, s)
    half = advanced(by_rule, params, q, u, s / 2)
    halves = advanced(by_rule, params, half, u, s / 2)
    q, whole, half, halves = lax.stop_gradient((q, whole, half, halves))
    way = jnp.abs(half - q) + jnp.abs(halves - half)
    rounding = jnp.finfo(q.dtype).eps ** 0.75 * (1 + jnp.abs(q))
    return jnp.any(jnp.abs(whole - halves) > MOST * way + rounding)


@partial(jax.tree_util.register_dataclass, data_fields=["error", "way", "doubtful"], meta_fields=[])
@dataclass(frozen=True)
class Truncation:
    """What pieces of motion sum up to, in the coordinates of u; not differentiated.

    A piece of s seconds takes the acceleration at its beginning for all of it; what the change of the acceleration adds
    to the place is to leading order::

        s^2/6 |a(t + s) - a(t)|  =  s/3 |w - u - s a(t)|,       w = u + s/2 (a(t) + a(t + s)) the velocity at its end

    Sums rather than single pieces are compared, so that a motion may begin from rest. Where it is so much of a single
    piece that its change of velocity is doubtful (a stiff spring, met for some steps on a long way), that change is
    compared with the fastest motion. Errors that grow by themselves, as those of chaotic motions do, are beyond it:
    that is what `substeps="auto"` is for.

    Attributes:
        error: (d,) the sum of these [m].
        way: (d,) how far the coordinate has moved, to and fro [m].
        doubtful: (d,) the largest change of velocity that was doubtful in a piece [m/s].
    """

    error: Array
    way: Array
    doubtful: Array

    @classmethod
    def nothing(cls, u: Array) -> Truncation:
        """Before any motion."""
        still = jnp.zeros_like(u)
        return cls(still, still, still)

    def after(self, s, u: Array, w: Array, a: Array, rounding, order: int) -> Truncation:
        """And a piece of s seconds, from the velocity u with the acceleration a (d,) to the velocity w.

        Args:
            rounding: () a velocity that is zero to rounding [m/s].
            order: of the motion, 2 or 4. Of fourth order truncation is about the square of that of second, per way.
        """
        s, u, w, a, rounding = lax.stop_gradient((s, u, w, a, rounding))
        # Loads that cancel, among redundant contacts above all, round by more than one term does.
        moved = s / 2 * (jnp.abs(u) + jnp.abs(w) + s * jnp.abs(a) + 64 * rounding)
        off = s / 3 * jnp.abs(w - u - s * a)
        doubtful = jnp.where(off > DOUBTFUL ** (2 / order) * moved, jnp.abs(w - u), 0.0)
        return Truncation(self.error + off, self.way + moved, jnp.maximum(self.doubtful, doubtful))

    def status(self, mass: Array, fastest: Array, order: int) -> Array:
        """() TOO_COARSE where the truncation of a coordinate is a larger share of its way than `MOST`, or a change of
        its velocity that is doubtful a larger share of the fastest motion than `MOST_DOUBTFUL`, or else OK.

        Args:
            mass: (d,) or (d, d), which tells what coordinates of different units weigh [kg].
            fastest: (d,) the largest |u| of the motion [m/s].
            order: as in `after`.

        Example:
            >>> swinging = Truncation(jnp.array([0.1, 0.0]), jnp.array([1.0, 1.0]), jnp.zeros(2))
            >>> [Status(int(swinging.status(jnp.ones(2), jnp.ones(2), order))).name for order in (2, 4)]
            ['TOO_COARSE', 'OK']
        """
        weight = jnp.sqrt(mass if mass.ndim == 1 else jnp.diagonal(mass)) * self.way
        least = float(jnp.finfo(weight.dtype).eps) ** LEAST_WAY
        counts = weight > least * jnp.max(weight, initial=0.0)
        long = self.error > MOST ** (2 / order) * self.way
        coarse = jnp.any(counts & (long | (self.doubtful > MOST_DOUBTFUL * fastest)))
        return jnp.where(coarse, Status.TOO_COARSE, Status.OK).astype(jnp.int32)
