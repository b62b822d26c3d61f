"""Contacts that rub between bodies, in the unit of their normal rows, laid out for products that are repeated often."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp

from diffcontact.qp.rows.body_rows import BodyRows, both
from diffcontact.qp.rows.slots import NONE


@dataclass(frozen=True)
class UnitContacts:
    """The rows H (1 + k, c, n m) of c contacts between n bodies of m components, normal ones first; W = H M^-1 H^T.

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
        """1 + k rows (c, d) of each contact, times their scale (1 + k, c), in the metric of the mass (d,)."""
        count = rows[0].count
        bodies = jnp.where(rows[0].bodies == NONE, count, rows[0].bodies).T.astype(jnp.int32)
        entries = jnp.stack([both(one).normals for one in rows], axis=-1).transpose(1, 2, 3, 0)
        return cls(bodies, entries * scale[None, None], jnp.pad((1 / mass).reshape(count, -1), ((0, 1), (0, 0))))

    def part(self, place, there) -> UnitContacts:
        """The contacts at the places (k,), zero where there is none: `there` (k,) is False."""
        return replace(
            self, bodies=self.bodies[:, place], entries=jnp.where(there[None, None, None], self.entries[..., place], 0)
        )

    def response(self, reactions):
        """(1 + k, c) W r: the velocities that reactions (1 + k, c) lead to."""
        return self.product(self.motion(reactions))

    def product(self, motion):
        """(1 + k, c) H motion: the velocities of the contacts when the bodies move by `motion` (n + 1, m)."""
        sides = zip(self.bodies, self.entries, strict=True)
        return sum(jnp.sum(entries * motion[bodies].T[:, None], axis=0) for bodies, entries in sides)

    def motion(self, reactions):
        """(n + 1, m) M^-1 H^T r: how reactions (1 + k, c) move the bodies."""
        pushes = jnp.zeros_like(self.inverse)
        for bodies, entries in zip(self.bodies, self.entries, strict=True):
            pushes = pushes.at[bodies].add(jnp.sum(entries * reactions[None], axis=1).T)
        return self.inverse * pushes
