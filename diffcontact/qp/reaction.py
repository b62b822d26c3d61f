"""Hold what contacts make of a velocity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Reaction:
    """Hold a velocity after contact, and the impulses that led to it.

        M (u - v) = N^T normal + S^T tangential

    Without friction N is the matrix G of a projection, and nothing is tangential.

    Args:
        u: (d,) the velocity [m/s].
        normal: (c,) impulses along the rows [N s]; >= 0 but from `hold`.
        closed: (c,) bool, contacts that are closed; of a projection its working set, independent rows that are held.
        status: () int, a `diffcontact.status.Status`; 0 is fine.
        tangential: (c, k) B, |B| <= mu P [N s]; None without friction.
        slip: (c,) bool, contacts that slip; None where it is not known.
    """

    u: jax.Array
    normal: jax.Array
    closed: jax.Array
    status: jax.Array
    tangential: Any = None
    slip: Any = None

    @property
    def multipliers(self) -> jax.Array:
        """Return `normal` (c,) under its name in a projection, M (u - v) = G^T multipliers."""
        return self.normal

    @property
    def active(self) -> jax.Array:
        """Return `closed` (c,) bool under its name in a projection, the working set."""
        return self.closed


Projection = CoulombProjection = Reaction
