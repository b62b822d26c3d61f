"""Multiply by the rows between thousands of bodies; sum long vectors in one pass, and bring parts of them together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.core import Tracer

from diffcontact.arguments import require_tolerance
from diffcontact.numerics.batching import any_lane
from diffcontact.qp.rows import NONE, BodyRows, both


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


@dataclass(frozen=True)
class UnitContacts:
    """Hold the rows H (1 + k, c, n m), normal first, of c contacts between n bodies; W = H M^-1 H^T.

    Contacts come last, bodies first: what a contact adds to a body is scattered and gathered as one slice, which XLA on
    a CPU does twice as fast as m numbers.

    Args:
        bodies: (2, c) the two bodies of each contact; n where there is none.
        entries: (2, m, 1 + k, c) the rows' entries for them.
        inverse: (n + 1, m) diagonal of M^-1, zero for the last body, which stands for none.
    """

    bodies: jax.Array
    entries: jax.Array
    inverse: jax.Array

    @classmethod
    def of(cls, rows: tuple[BodyRows, ...], scale, mass) -> UnitContacts:
        """Scale 1 + k rows (c, d) of each contact by (1 + k, c), for a mass (d,)."""
        count = rows[0].count
        bodies = jnp.where(rows[0].bodies == NONE, count, rows[0].bodies).T.astype(jnp.int32)
        entries = jnp.stack([both(one).normals for one in rows], axis=-1).transpose(1, 2, 3, 0)
        return cls(bodies, entries * scale[None, None], jnp.pad((1 / mass).reshape(count, -1), ((0, 1), (0, 0))))

    def part(self, place, there) -> UnitContacts:
        """Select the contacts at the places (k,), zero unless `there` (k,)."""
        return replace(
            self, bodies=self.bodies[:, place], entries=jnp.where(there[None, None, None], self.entries[..., place], 0)
        )

    def response(self, reactions):
        return self.product(self.motion(reactions))

    def product(self, motion):
        """Return H motion (1 + k, c) of a motion (n + 1, m) of the bodies."""
        sides = zip(self.bodies, self.entries, strict=True)
        return sum(jnp.sum(entries * motion[bodies].T[:, None], axis=0) for bodies, entries in sides)

    def motion(self, reactions):
        """Return M^-1 H^T r (n + 1, m)."""
        pushes = jnp.zeros_like(self.inverse)
        for bodies, entries in zip(self.bodies, self.entries, strict=True):
            pushes = pushes.at[bodies].add(jnp.sum(entries * reactions[None], axis=1).T)
        return self.inverse * pushes


def sums(*values):
    """Sum several vectors (c,) in one pass; XLA on a CPU takes several for each."""
    start = (jnp.zeros((), values[0].dtype),) * len(values)
    return lax.reduce(values, start, lambda a, b: tuple(map(jnp.add, a, b)), (0,))


def largest(values):
    """Return the largest value or 0, twice as fast as a maximum that keeps NaN."""
    start, dimensions = jnp.zeros((), values.dtype), tuple(range(values.ndim))
    return lax.reduce(values, start, lambda a, b: jnp.where(b > a, b, a), dimensions)


def stated_tolerance(tolerance, dtype):
    """Return the tolerance of a residual; None: 1e-6 in double precision, 64 eps in single."""
    if tolerance is None:
        return max(1e-6, 64 * float(jnp.finfo(dtype).eps))
    if not isinstance(tolerance, Tracer):
        require_tolerance(tolerance)
    return tolerance


# Number of rows up to which rows that are off, or contacts that cannot push, are worked on, too. Bringing 99 rows
# together makes a step of a heap with half of its rows on 44 % slower, 224 rows 4 % slower, and 720 rows 9 % faster.
BROUGHT_TOGETHER_ABOVE = 256


def solved_among(solve, problem, x, on, sizes):
    """Solve a problem with its entries that are `on` (c,) brought together.

    An entry that is off costs as much as another, so that the iterations leave it out.

    Args:
        solve: (problem, x) -> x, and something else.
        problem: has `part(place, there)`, its entries at the places (k,), none where `there` is False.
        x: (..., c) where it starts.
        sizes: how many entries are brought together, ascending; all of them where these are not enough.
    """
    count, number = on.size, jnp.sum(on)

    def among(size):
        (kept,) = jnp.nonzero(on, size=size, fill_value=count)
        place, there = jnp.minimum(kept, count - 1), kept < count
        found, more = solve(problem.part(place, there), jnp.where(there, x[..., place], 0))
        return x.at[..., kept].set(found, mode="drop"), more

    # The first of the sizes that is enough, for all lanes of a batch.
    least = sum((any_lane(number > size).astype(int) for size in sizes), jnp.zeros((), int))
    return lax.switch(least, [*(partial(among, size) for size in sizes), lambda: solve(problem, x)])
