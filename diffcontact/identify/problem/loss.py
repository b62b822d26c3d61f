"""Robust losses: what an outlier may cost, cost = 1/2 sum_i C^2 rho(r_i^2 / C^2), C = f_scale.

    linear   rho(z) = z                                        the sum of squares
    soft_l1  rho(z) = 2 (sqrt(1 + z) - 1)                      squares near zero, |r| far out
    huber    rho(z) = z if z <= 1, else 2 sqrt(z) - 1          the same, with a kink in the curvature
    cauchy   rho(z) = ln(1 + z)                                far out hardly more than nothing

as scipy's `least_squares` has them. Every one is a sum of squares of other residuals, with the exact gradient,

    s_i = sign(r_i) C sqrt(rho(r_i^2 / C^2)),      ds_i/dr_i = rho' r_i / s_i >= 0

Source: P. J. Huber, Ann. Math. Statist. 35 (1964) 73; B. Triggs, P. McLauchlan, R. Hartley, A. Fitzgibbon, Bundle
Adjustment (2000), section 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

LOSSES = ("linear", "soft_l1", "huber", "cauchy")
ROBUST = f"expected loss {', '.join(map(repr, LOSSES[1:-1]))} or {LOSSES[-1]!r}"


@dataclass(frozen=True)
class Loss:
    """A loss and its scale C [standard deviations], for numpy and jax arrays alike; hashable, static under jit.

    Raises:
        ValueError: an unknown name, a scale that is not positive.
    """

    name: str = "linear"
    scale: float = 1.0

    def __post_init__(self):
        if self.name not in LOSSES:
            raise ValueError(f"fit(loss): {self.name!r} does not exist; there is {', '.join(map(repr, LOSSES))}")
        if not isinstance(self.scale, Real) or not 0 < self.scale < float("inf"):
            raise ValueError(f"fit(f_scale): {self.scale!r}, expected a positive number of standard deviations")

    @property
    def robust(self) -> bool:
        return self.name != "linear"

    def rho(self, z: Any) -> tuple[Any, Any, Any]:
        """rho and its first two derivatives at z >= 0."""
        xp = _module_of(z)
        z = xp.asarray(z)
        if self.name == "linear":
            return z, xp.ones_like(z), xp.zeros_like(z)
        if self.name == "soft_l1":
            root = xp.sqrt(1 + z)
            return 2 * z / (root + 1), 1 / root, -0.5 / root**3
        if self.name == "huber":
            root = xp.sqrt(xp.maximum(z, 1.0))
            far = z > 1
            return xp.where(far, 2 * root - 1, z), 1 / root, xp.where(far, -0.5 / root**3, 0.0)
        return xp.log1p(z), 1 / (1 + z), -1 / (1 + z) ** 2

    def squared(self, r: Any) -> tuple[Any, Any]:
        """s whose squares are the loss of the residuals r, and ds/dr; both shaped like r."""
        xp = _module_of(r)
        if not self.robust:
            return r, xp.ones_like(r)
        z = (r / self.scale) ** 2
        rho, first, _ = self.rho(z)
        # sqrt(rho / z), which goes to 1 where z goes to 0.
        near = z < xp.finfo(z.dtype).eps ** 0.5
        ratio = xp.sqrt(xp.where(near, 1.0, rho / xp.where(near, 1.0, z)))
        return r * ratio, first / ratio

    def influence(self, r: Any) -> tuple[Any, Any]:
        """psi = rho' r, the pull of a residual on the estimate, and its derivative psi'; both shaped like r."""
        z = (r / self.scale) ** 2
        _, first, second = self.rho(z)
        return first * r, first + 2 * z * second


def _module_of(x: Any) -> Any:
    return jnp if isinstance(x, jax.Array) else np
