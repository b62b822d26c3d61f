r"""Runs that the model explains far worse than the others: of something else, or with columns that were swapped.

One such run among several bends what they share, so that residuals grow in all of them, and the size of all together
does not say which to look at. So each run is compared with the middle one, by the size that all but three in ten of its
residuals stay below, which outliers do not raise:

    s_g = (7/10 quantile of |r|) / 1.036,    s_g^2 / s_middle^2 ~ F(a n_g, a n_middle), a = 0.55

for noise, with n independent samples each, as many residuals as 0.55 of their number tell it by root mean square. A run
that its own stated noise explains is no outsider, however well others are explained. Where all together are far from
any noise the verdict is "no" in any case. What is left is no noise to count by, and the ratio says where to look.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import chdtri, fdtrc

from diffcontact.identify.verdict.evidence import Evidence, RunEvidence
from diffcontact.identify.verdict.verdict import Reason

# One false alarm in ten thousand fits of several runs.
_LEVEL = 1e-4
_PART, _NORMAL, _EFFICIENCY = 0.7, 1.0364, 0.55
# Residuals that are larger than those of the middle run by less than this change nobody's mind.
_RATIO = 2.0
# Residuals this many times the noise, in squares, are none; as in `patterns`. A run is named then by its ratio alone.
_GROSS, _CLEAR = 20.0, 3.0
_FEWEST = 3
_TINY = np.finfo(float).tiny
_NAMED = 3


def outsiders(evidence: Evidence) -> Iterator[Reason]:
    """Which runs stand apart from the others by the size of what is left of them."""
    runs = [(number, *_size(run)) for number, run in enumerate(evidence.runs) if not run.rounding]
    gross = evidence.misfit > _GROSS
    runs = sorted((run for run in runs if run[2] >= (0 if gross else _FEWEST)), key=lambda run: run[1])
    if len(runs) < 2:
        return
    _, middle, known = runs[(len(runs) - 1) // 2]

    def stands_apart(size: float, n: float) -> bool:
        ratio = size / max(middle, _TINY)
        if ratio < _RATIO or size**2 < chdtri(n, _LEVEL) / n:
            return False
        return (gross and ratio > _CLEAR) or fdtrc(n, known, ratio**2) < _LEVEL / len(runs)

    apart = [(number, size / max(middle, _TINY)) for number, size, n in runs if n > 0 and stands_apart(size, n)]
    if not apart:
        return
    apart = apart[::-1][:_NAMED]
    told = " and ".join(f"{evidence.run(number)} ({ratio:.2g} times)" for number, ratio in apart)
    yield Reason(
        f"residuals in {told} are far larger than in the other runs: what was recorded there may be something else "
        "(another body, swapped columns, another unit or clock, a noise that is not as stated), and then it spoils "
        "what all runs share. Look at it first, and fit without it",
        fatal=gross,
    )


def _size(run: RunEvidence) -> tuple[float, float]:
    """The size of a run's residuals in units of the stated noise, and of how many independent ones it is known."""
    r = np.abs(run.residual.r[:, : run.tracks])
    present = ~np.isnan(r)
    if not present.any():
        return 0.0, 0.0
    independent = float(np.sum(present * run.worth[: run.tracks]))
    return float(np.quantile(r[present], _PART)) / _NORMAL, _EFFICIENCY * independent
