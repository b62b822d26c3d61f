r"""Noise that is stated in other ratios than it has, within a channel.

Error bars take one scale for all samples of a channel. Where the noise of some is stated larger than that of others,
both halves of a channel, those stated above and below the middle of its logarithm, have a mean square

    s^2 = sum r_t^2 / sum (1 - h_t),    h_t the leverage, which the parameters have taken away

of the same size if the ratios are right; samples that follow each other count as what they are worth. Where samples
are only to count less, that of the half above is smaller: the estimate rests on the others, and its intervals are too
short. What does not count at all is missing already (`search.weightless`).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import fdtrc

from diffcontact.identify.noise import orthonormal
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.patterns import LEVEL
from diffcontact.identify.verdict.verdict import Reason

# One half may be all but alone: intervals are then off by the root of this, a fifth.
_RATIO = 1.5
# Independent samples of which a mean square is worth having.
_FEWEST = 3.0


def noise_ratios(evidence: Evidence) -> Iterator[Reason]:
    """Whether the noise of a channel's samples is stated in the ratios that it has."""
    squares, counts = np.zeros(2), np.zeros(2)
    for run, told in zip(evidence.runs, evidence.objective.joint.runs, strict=True):
        present, worth = run.present[:, : run.tracks], np.broadcast_to(run.worth, run.present.shape)[:, : run.tracks]
        r = np.asarray(evidence.objective.loss.squared(run.residual.r[:, : run.tracks])[0])
        stated = np.log(np.asarray(told.samples.sigma, float)[: len(r), : run.tracks])
        low = np.min(stated, axis=0, where=present, initial=np.inf)
        high = np.max(stated, axis=0, where=present, initial=-np.inf)
        left = np.zeros(run.present.shape)
        left[run.present] = 1.0 - np.sum(orthonormal(run.residual.J[run.present]) ** 2, axis=1)
        above = stated > (low + high) / 2
        for side, half in enumerate((~above, above)):
            here = present & half & (high > low)
            squares[side] += np.sum(worth[here] * r[here] ** 2)
            counts[side] += np.sum(worth[here] * left[:, : run.tracks][here])
    if np.any(counts < _FEWEST) or not np.all(squares > 0):
        return
    small, large = mean = squares / counts
    above, below = np.argsort(-mean)
    ratio = mean[above] / mean[below]
    if ratio < _RATIO or fdtrc(counts[above], counts[below], ratio) > LEVEL / 2:
        return
    length = "short" if small > large else "long"
    yield Reason(
        f"samples whose noise is stated as larger than that of others in their channel are off by {np.sqrt(large):.2g} "
        f"of it, the others by {np.sqrt(small):.2g} of theirs: the ratios are not as stated. Intervals take one scale "
        f"for all, and those of what rests on the others are too {length}. State the noise of every sample as it is; "
        "what is not to count is missing (NaN)"
    )
