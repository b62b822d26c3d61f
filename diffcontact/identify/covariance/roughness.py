r"""How rough a column is from sample to sample: its noise, whatever the motion under it.

Third differences leave nothing of a parabola, and of white noise of standard deviation sigma a normal number of
variance 20 sigma^2. Their median does not mind impacts, lost samples and false readings::

    sigma = median |x_{i+3} - 3 x_{i+2} + 3 x_{i+1} - x_i| / (0.6745 sqrt(20))

Noise whose neighbours are correlated comes out smaller, by a factor of 2.7 for a correlation of 0.8. Rounding hides
noise below the last digit, whose standard deviation is 1 / sqrt(12) of it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# With fewer samples there is nothing to take a median of.
FEWEST = 8
# Samples for one degree of freedom of the square: neighbouring third differences are correlated by -3/4, 3/10 and
# -1/20, which leaves 1 of 2.31, and their median has 0.37 of the information of their mean square.
PER_FREEDOM = 6.2


def roughness(values: NDArray) -> float:
    """One standard deviation of the noise of a column.

    Motion across a gap, or beside samples that repeat the one before as of a film in a file of more pictures, adds to
    third differences. So it is estimated from unbroken stretches, from all samples, and from those that differ from the
    one before, and the smallest number counts.

    Args:
        values: (n,) of equally spaced samples, NaN where one is lost.

    Returns:
        The estimate, at least the rounding of the numbers; infinite for fewer than eight samples.

    Example:
        >>> t = np.arange(2000) / 500
        >>> rng = np.random.default_rng(0)
        >>> print(f"{roughness(np.sin(3 * t) + 0.001 * rng.normal(size=t.size)):.4f}")
        0.0010
    """
    seen = values[np.isfinite(values)]
    if seen.size < FEWEST:
        return float("inf")
    steps = np.diff(np.unique(seen))
    moved = seen[np.append(True, np.diff(seen) != 0)]
    noise = min(_median(part) for part in (values, seen, moved))
    return max(noise, float(steps.min()) / np.sqrt(12.0) if steps.size else 0.0)


def _median(x: NDArray) -> float:
    """The estimate from the third differences that are known; infinite where these are too few."""
    third = np.abs(np.diff(x, 3))
    known = third[np.isfinite(third)]
    return float(np.median(known) / (0.6745 * np.sqrt(20.0))) if known.size >= FEWEST - 3 else float("inf")
