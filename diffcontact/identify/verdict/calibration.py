r"""Faults of the measuring, as what they add to the samples.

With y (n, k) what the model says of the samples, a fault of size s would add s d to it,

    scale of channel c       d_tc = y_tc             zero of c     d_tc = 1
    delay of c               d_tc = -dy_tc/dt        clock         d_tc = (t - t_0) dy_tc/dt in all c
    clock that jumps at t_j  d_tc = dy_tc/dt in all c from t_j on: pictures that are missing or too many
    perspective              d_tc = (y_ti - m_i)(y_tc - m_c) / L, one size for each c and i, where m are the middles of
                             the channels and L the widest range: by so much the scale changes across the picture
    impacts that last        d_tc = -dy_tc/dt times the number of impacts so far, as of bounces: what follows is late
    impact i late            d_tc = -(the jump of dy_tc/dt in it) from it on, as of bodies that meet once, one size each

in units of the noise.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.verdict.evidence import Evidence

SCALE, PERSPECTIVE, ZERO, CLOCK = (
    "scale of channel ",
    "perspective in channel ",
    "zero of channel ",
    "rate of the clock",
)
JUMP = "jump of the clock [s]"
_TINY = np.finfo(float).tiny
# Where a clock may jump, at most so many places; more impacts are not looked at one by one, nor more channels in pairs.
_PLACES, _IMPACTS, _PAIRED = 24, 4, 4


def directions(evidence: Evidence, number: int) -> dict[str, NDArray]:
    """(n, k) of what one number describes in a run, in units of the noise; zero in channels that are left alone."""
    run, seen = evidence.runs[number], _Seen(evidence, number)
    found, clock = {}, np.zeros_like(seen.y)
    for c in seen.channels:
        clock[:, c] = (run.times - run.times[0]) * seen.speed[:, c]
        shapes = {
            f"{PERSPECTIVE}{c}": seen.bent(c, c),
            f"{SCALE}{c}": seen.y[:, c],
            f"{ZERO}{c}": np.ones(len(run.times)),
            f"delay [s] of channel {c}": -seen.speed[:, c],
        }
        for name, shape in shapes.items():
            one = np.zeros_like(seen.y)
            one[:, c] = shape
            found[name] = seen.weighed(one)
    return found | {CLOCK: seen.weighed(clock)}


def faults_of_measuring(evidence: Evidence, number: int) -> dict[str, NDArray]:
    """(n, k, m) of every fault of a run by its name, in units of the noise; none of a run that only times impacts."""
    run, seen = evidence.runs[number], _Seen(evidence, number)
    if not seen.channels:
        return {}
    found = {name: d[..., None] for name, d in directions(evidence, number).items()}
    pairs = [(c, i) for c in seen.channels for i in seen.channels if c == i or len(seen.channels) <= _PAIRED]
    found["perspective"] = seen.columns(_only(c, seen.bent(c, i), seen.y.shape) for c, i in pairs)
    for j in range(2, len(run.times) - 1, max(len(run.times) // _PLACES, 1)):
        late = (np.arange(len(run.times)) >= j)[:, None]
        found[f"{JUMP} at t = {run.times[j]:.4g}"] = seen.columns([late * seen.speed])
    if impacts := run.impacts:
        passed = np.sum([np.arange(len(run.times)) >= behind for _, behind in impacts], axis=0)
        found["time [s] that impacts last"] = seen.columns([-passed[:, None] * seen.speed])
        if len(impacts) <= _IMPACTS:
            found["moment [s] of the impacts"] = seen.columns(_late(seen.y, run.times, impacts))
    return {name: d for name, d in found.items() if np.all(np.isfinite(d)) and d.size}


class _Seen:
    """What the model says of a run's samples: y and its derivative (n, tracks), and which of them are measured.

    Samples that are missing have values, too: they are missing about impacts above all, which the others, as a line
    through them, would not show.
    """

    def __init__(self, evidence: Evidence, number: int):
        run, data = evidence.runs[number], evidence.objective.joint.runs[number].samples
        n, tracks = len(run.times), run.tracks
        self.sigma = np.asarray(data.sigma, float)[:n, :tracks]
        self.present, self.shape = run.present[:, :tracks], run.residual.r.shape
        self.channels = [c for c in range(tracks) if self.present[:, c].sum() >= 2]
        self.y, self.speed, self.ends = np.zeros((n, tracks)), np.zeros((n, tracks)), np.zeros((2, tracks))
        for c in self.channels:
            y, here = evidence.seen[number][:, c], self.present[:, c]
            # Where nothing was measured nobody minds what is not finite.
            known = here | np.isfinite(y)
            self.y[:, c] = np.interp(run.times, run.times[known], y[known])
            self.speed[:, c] = _speed(run.times, self.y[:, c], run.impacts)
            self.ends[:, c] = np.min(y[here]), np.max(y[here])

    def bent(self, c: int, i: int) -> NDArray:
        """(n,) what channel c sees of a scale that changes along channel i by 1 over the widest range."""
        middle, width = self.ends.mean(0), max(float(np.max(np.ptp(self.ends, axis=0))), _TINY)
        return (self.y[:, i] - middle[i]) * (self.y[:, c] - middle[c]) / width

    def weighed(self, d: NDArray) -> NDArray:
        """(n, k) of d (n, tracks), in units of the noise; zero where nothing was measured."""
        found = np.zeros(self.shape)
        found[:, : d.shape[1]] = np.where(self.present, d / self.sigma, 0.0)
        return found

    def columns(self, several) -> NDArray:
        """(n, k, m) of m times d (n, tracks)."""
        return np.stack([self.weighed(d) for d in several], axis=-1)


def _speed(times: NDArray, y: NDArray, impacts: list[tuple[int, int]]) -> NDArray:
    """(n,) the derivative of samples, from one side where an impact is on the other."""
    speed = np.gradient(y, times)
    begins, ends = [0, *(behind for _, behind in impacts)], [*(before + 1 for before, _ in impacts), len(times)]
    for begin, end in zip(begins, ends, strict=True):
        if end - begin > 2:
            speed[begin:end] = np.gradient(y[begin:end], times[begin:end], edge_order=2)
    return speed


def _only(c: int, shape: NDArray, whole: tuple[int, ...]) -> NDArray:
    found = np.zeros(whole)
    found[:, c] = shape
    return found


def _late(y: NDArray, times: NDArray, impacts: list[tuple[int, int]]) -> list[NDArray]:
    """Per impact, (n, tracks) how much less a motion has gone on that is struck by one second later, per second."""
    n = len(times)
    found = []
    for before, behind in impacts:
        if before < 1 or behind > n - 2:
            continue
        slopes = [(y[j + 1] - y[j]) / (times[j + 1] - times[j]) for j in (before - 1, behind)]
        found.append(-(slopes[1] - slopes[0]) * (np.arange(n) >= behind)[:, None])
    return found or [np.zeros_like(y)]
