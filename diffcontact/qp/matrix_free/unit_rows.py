"""Rows between bodies, scaled to length one and laid out for products that are repeated thousands of times."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.qp.rows.body_rows import BodyRows
from diffcontact.qp.rows.slots import NONE


@dataclass(frozen=True)
class UnitRows:
    """The rows N (c, n m) of length one between n bodies of m components, with the Delassus matrix A = N M^-1 N^T.

    Components come first, and every product is formed a component at a time: XLA on a CPU scatters numbers three times
    as fast as columns of them.

    Args:
        bodies: (2, c) the two bodies of each row; n where there is none.
        normals: (2, m, c) the row's entries for them, or (1, m, c) for the second body, of which the first's are the
            opposite.
        mass: (m, n + 1) diagonal of M, zero for the last body, which stands for none.
        inverse: (m, n + 1) diagonal of M^-1, likewise.
    """

    bodies: jax.Array
    normals: jax.Array
    mass: jax.Array
    inverse: jax.Array

    @classmethod
    def of(cls, G: BodyRows, scale, mass) -> UnitRows:
        """The rows G (c, d), each times its scale (c,), in the metric of the mass (d,)."""
        bodies = jnp.where(G.bodies == NONE, G.count, G.bodies).T.astype(jnp.int32)
        mass, inverse = (jnp.pad(x.reshape(G.count, -1).T, ((0, 0), (0, 1))) for x in (mass, 1 / mass))
        return cls(bodies, scale[None, None, :] * G.normals.transpose(1, 2, 0), mass, inverse)

    def part(self, place, there) -> UnitRows:
        """The rows at the places (k,), zero where there is none: `there` (k,) is False."""
        normals = jnp.where(there[None, None, :], self.normals[:, :, place], 0)
        return replace(self, bodies=self.bodies[:, place], normals=normals)

    def to(self, dtype) -> UnitRows:
        """These rows in another precision."""
        return replace(self, **{name: getattr(self, name).astype(dtype) for name in ("normals", "mass", "inverse")})

    def product(self, motion):
        """(c,) N motion: the rate of each row's value when the bodies move by `motion` (m, n + 1)."""
        total = 0
        for bodies, normals, sign in self._sides(self.normals):
            for normal, component in zip(normals, motion, strict=True):
                total = total + sign * normal * component[bodies]
        return total

    def motion(self, multipliers):
        """(m, n + 1) M^-1 N^T multipliers: how multipliers (c,) move the bodies."""
        nothing, total = jnp.zeros(self.mass.shape[1], multipliers.dtype), 0
        for bodies, pushes, sign in self._sides(self.normals * multipliers[None, None, :]):
            total = total + sign * jnp.stack([nothing.at[bodies].add(push) for push in pushes])
        return self.inverse * total

    def square(self, motion):
        """() motion^T M motion, which is x^T A x for the motion of the multipliers x."""
        return sum(sums(*(self.mass * motion**2)))

    def _sides(self, entries):
        """For the first and the second body of each row: their numbers (c,), their entries (m, c), and a sign."""
        return zip(self.bodies, (entries[0], entries[-1]), (1 if len(entries) == 2 else -1, 1), strict=True)


def sums(*values):
    """The sum of each of several (c,), in one pass; XLA on a CPU takes several for each that is summed by itself."""
    start = (jnp.zeros((), values[0].dtype),) * len(values)
    return lax.reduce(values, start, lambda a, b: tuple(map(jnp.add, a, b)), (0,))
