r"""Whether residuals are noise about a smooth curve, rather than noise whose neighbours are correlated.

Intervals take residuals that follow each other for correlated noise, another draw of which another measurement would
have. What the model lacks is no such noise. It bends the track slowly, and the noise stands on top of it, each sample
by itself. The two are told apart by their likelihoods, each penalised for its p or K coefficients (Schwarz, p log n):

    r_t = correlated          AR(p), p <= 8 (`identify.noise`)
    r_t = curve(t) + white    curve = sum_k c_k b_k(t), k <= K,  b = 1, t, t^2, t^3, cos(pi t), cos(2 pi t), ...

The cubic is there for the ends, where cosines alone would converge slowly. An impact may break the curve: what a term
did to the velocities before it comes out of it changed. So a second family is tried, in which every impact at t_i adds
(t - t_i)_+^j, j = 0 to 3, behind the cubic. What the fit has taken out of r is taken out of the b_k, too. Correlated
noise is rough at every scale, so that no few b_k leave white noise of it.

Source: G. Schwarz, Annals of Statistics 6 (1978) 461, for the penalty.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.noise import misfit
from diffcontact.identify.verdict.evidence import RunEvidence

# In -2 log L: e^15 to 1.
_DECISIVE = 30.0
# In shorter records slow noise is a curve, and none can tell.
_FEWEST = 100
# A curve has one coefficient in so many samples, and so many at most: else it is no smooth one.
_SAMPLES, _MOST = 10, 50
# A column of which the others leave less than this adds rounding.
_NEGLIGIBLE = 1e-6


@dataclass(frozen=True)
class Curve:
    """A smooth curve in the residuals of a run, one for each of its channels.

    Attributes:
        size: its root mean square over that of the noise about it.
        lead: by how much it is likelier than correlated noise, in -2 log L, penalties included.
    """

    size: float
    lead: float


def curve_in(run: RunEvidence) -> Curve | None:
    """The smooth curve in a run's residuals; None where there is certainly none, or nobody can tell.

    Channels that were not measured sample by sample are left out, and so are those of fewer than a hundred samples.
    """
    seen = run.present.sum(axis=0)
    channels = [c for c in range(run.tracks) if seen[c] >= _FEWEST and np.nansum(run.residual.r[:, c] ** 2) > 0]
    if not channels:
        return None
    models, r = [run.noise.models[c] for c in channels], run.residual.r[:, channels]
    correlated = misfit(r, models) + sum(
        model.order * np.log(seen[c]) for c, model in zip(channels, models, strict=True)
    )
    count = min(int(seen[channels].min()) // _SAMPLES, _MOST)
    families = [shapes_of(len(r), count)]
    if 0 < 4 * (breaks := _breaks(run)).size < count - 4:
        families.append(shapes_of(len(r), count, breaks))
    smooth, size = min(_fitted(r, run.residual.J[:, channels], shapes) for shapes in families)
    lead = correlated - smooth
    return Curve(size, lead) if size > 0 and lead > _DECISIVE else None


def _fitted(r: NDArray, J: NDArray, shapes: NDArray) -> tuple[float, float]:
    """-2 log L with its penalty of the best curves (n, k) and white noise, and the curves' size over the noise's."""
    present = ~np.isnan(r)
    y, J, count = r[present], J[present], present.sum(axis=0)
    U, s, _ = np.linalg.svd(J / np.maximum(np.linalg.norm(J, axis=0), np.finfo(float).tiny), full_matrices=False)
    U = U[:, s > _NEGLIGIBLE]
    # From slow to fast, one of each for every channel.
    basis = np.einsum("nm,cd->ncmd", shapes, np.eye(r.shape[1])).reshape(*r.shape, -1)[present]
    Q = orthonormal(basis, U)
    kept, parts = np.any(Q != 0, axis=0), (Q.T @ y) * Q
    rest = y[:, None] - np.cumsum(np.column_stack([np.zeros_like(y), parts]), axis=1)
    channel = np.nonzero(present)[1]
    squares = np.stack([np.sum(rest[channel == c] ** 2, axis=0) for c in range(r.shape[1])])
    squares = np.maximum(squares, np.finfo(float).tiny)
    likelihood = count @ np.log(squares / count[:, None])
    schwarz = likelihood + np.append(0, np.cumsum(kept)) * np.log(count.min())
    best = int(np.argmin(schwarz))
    left = float(squares[:, best].sum())
    return float(schwarz[best]), float(np.sqrt(max(float(y @ y) - left, 0.0) / left)) if best else 0.0


def orthonormal(basis: NDArray, U: NDArray) -> NDArray:
    """Columns (m, K) that span the basis column by column, orthogonal to U; zero where the others leave nothing.

    A QR decomposition would fill these up with rounding, which takes from the columns behind them.
    """
    Q = np.column_stack([U, np.zeros_like(basis)])
    for k, column in enumerate(basis.T, U.shape[1]):
        rest = column
        for _ in range(2):
            rest = rest - Q @ (Q.T @ rest)
        if (size := np.linalg.norm(rest)) > _NEGLIGIBLE * np.linalg.norm(column):
            Q[:, k] = rest / size
    return Q[:, U.shape[1] :]


def _breaks(run: RunEvidence) -> NDArray:
    """Where in the record, from 0 to 1, its impacts are: each in the middle of the samples that it lies between."""
    edges = np.flatnonzero(np.diff(np.concatenate([[False], run.struck, [False]]).astype(int)))
    return (edges[::2] + edges[1::2] - 1) / (2 * max(len(run.struck) - 1, 1))


def shapes_of(n: int, count: int, breaks: NDArray | tuple[float, ...] = ()) -> NDArray:
    """(n, count) of functions from slow to fast over n samples: a cubic's, those from a break on, then cosines."""
    t = np.linspace(0.0, 1.0, n)
    broken = [np.where(t > at, (t - at) ** k, 0.0) for at in breaks for k in range(4)]
    cosines = (np.cos(np.pi * k * t) for k in range(1, count - 3 - len(broken)))
    return np.stack([*(t**k for k in range(4)), *broken, *cosines], axis=1)
