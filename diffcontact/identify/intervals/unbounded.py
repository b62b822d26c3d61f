"""Parameters within bounds as functions of coordinates without, for samplers that know no bounds.

low and high    theta = low + (high - low) / (1 + exp(-y))
low             theta = low + exp(y)
high            theta = high - exp(y)
none            theta = y
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray


class Unbounded:
    """The map between coordinates y (P,) and parameters theta (P,).

    Args:
        low, high: (P,) bounds of theta, infinite where there is none.

    Example:
        >>> line = Unbounded(np.array([0.0, 0.0, -np.inf]), np.array([4.0, np.inf, np.inf]))
        >>> jax.jit(line.theta)(np.zeros(3)).tolist()
        [2.0, 1.0, 0.0]
        >>> line.coordinates(np.array([2.0, 1.0, 0.0])).tolist()
        [0.0, 0.0, 0.0]
    """

    def __init__(self, low: NDArray, high: NDArray):
        self.above, self.below = np.isfinite(low), np.isfinite(high)
        self.both, self.one = self.above & self.below, self.above ^ self.below
        # Finite everywhere: what an infinite bound would multiply is not used, but would be NaN.
        self.low, self.high = np.where(self.above, low, 0.0), np.where(self.below, high, 0.0)

    def theta(self, y: Array) -> Array:
        """(P,) parameters at coordinates y; traceable."""
        distance = jnp.exp(jnp.where(self.one, y, 0.0))
        half = jnp.where(self.above, self.low + distance, self.high - distance)
        inside = self.low + (self.high - self.low) * jax.nn.sigmoid(y)
        return jnp.where(self.both, inside, jnp.where(self.one, half, y))

    def log_slope(self, y: Array) -> Array:
        """(P,) log |d theta / d y| at coordinates y; traceable."""
        width = np.log(np.where(self.both, self.high - self.low, 1.0))
        inside = width + jax.nn.log_sigmoid(y) + jax.nn.log_sigmoid(-y)
        return jnp.where(self.both, inside, jnp.where(self.one, y, 0.0))

    def coordinates(self, theta: NDArray) -> NDArray:
        """(P,) coordinates of parameters strictly within their bounds."""
        part = np.where(self.both, (theta - self.low) / np.where(self.both, self.high - self.low, 1.0), 0.5)
        distance = np.where(self.one, np.where(self.above, theta - self.low, self.high - theta), 1.0)
        return np.where(self.both, np.log(part / (1 - part)), np.where(self.one, np.log(distance), theta))
