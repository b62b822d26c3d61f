r"""Faults of the measuring that residuals show: a scale, a zero, a delay, a clock that is off.

With y (n, k) what the model says of the samples, a fault of size s would add s d to it,

    scale of channel c       d_tc = y_tc             zero of c     d_tc = 1
    delay of c               d_tc = -dy_tc/dt        clock         d_tc = (t - t_0) dy_tc/dt in all c

in units of the noise. What a run's parameters can make up for is projected out of d, S = (1 - J J^+) d, and

    s = S^T r / S^T S,    z = S^T r / sqrt(Var S^T r)

is the fault that the data would like best and, if there is none, a standard normal number (Rao's score test). The
variance is that of noise correlated like r - s S. Only the fault that takes away most of the residuals is told, and
only if that is half of what is too much: else something else is wrong. A model that lacks a slow term may leave the
same shape: on an uneven rail one run of carts would have its scale changed by 0.3 %.

Source: C. R. Rao, Proc. Cambridge Philosophical Society 44 (1948) 50.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from diffcontact.identify.covariance.run_noise import run_noise, score_covariance
from diffcontact.identify.verdict.evidence import Evidence, RunEvidence
from diffcontact.identify.verdict.verdict import Reason

# One false alarm in a thousand fits.
_LEVEL = 1e-3
# What the parameters leave of a fault, below which they make up for it.
_SEEN = 1e-3
# A column of which the others leave less than this adds rounding.
_NEGLIGIBLE = 1e-6
_TINY = np.finfo(float).tiny
# Of the excess of chi^2, the part that a fault must explain to be named.
_MOST = 0.5


@dataclass(frozen=True, eq=False)
class Fault:
    """A fault of the measuring.

    Attributes:
        name: what it is.
        left: (n, k) per run, what the parameters leave of it.
        size: that the data would like best, in its own unit.
        taken: by how much chi^2 would fall.
    """

    name: str
    left: list[NDArray]
    size: float
    taken: float


def calibration(evidence: Evidence) -> Iterator[Reason]:
    """The fault of the measuring that would explain what is wrong, if one would."""
    if evidence.objective.loss.robust:
        return
    of_runs = [directions(evidence, number) for number in range(len(evidence.runs))]
    names = sorted(set().union(*of_runs))
    found = [
        fault
        for name in names
        if (fault := _fault(name, [(r, d[name]) for r, d in zip(evidence.runs, of_runs, strict=True) if name in d]))
    ]
    if not found:
        return
    best = max(found, key=lambda fault: fault.taken)
    excess = sum(float(np.nansum(run.residual.r**2)) for run in evidence.runs) - evidence.result.dof
    # Residuals within the noise need no cause.
    if excess <= 0 or best.taken < _MOST * excess:
        return
    error = _stderr(best, [run for run, d in zip(evidence.runs, of_runs, strict=True) if best.name in d])
    if abs(best.size) > norm.isf(_LEVEL / 2 / len(found)) * error:
        yield Reason(
            f"residuals have the shape that a fault of the measuring leaves, or something alike: {best.name} by "
            f"{best.size:.2g} +- {error:.1g}. The parameters may have given way to it: check scale, zero and clock, "
            "and what is held fixed (gravity, lengths)"
        )


def directions(evidence: Evidence, number: int) -> dict[str, NDArray]:
    """(n, k) of every fault of a run, in units of the noise; zero in channels that it does not touch."""
    run, data = evidence.runs[number], evidence.objective.joint.runs[number].samples
    n, tracks = len(run.times), run.tracks
    sigma, values = (np.asarray(part, float)[:n, :tracks] for part in (data.sigma, data.values))
    present, zero = run.present[:, :tracks], np.zeros(run.residual.r.shape)
    y = values - np.nan_to_num(run.residual.r[:, :tracks]) * sigma
    found, clock = {}, zero.copy()
    for c in range(tracks):
        here = present[:, c]
        if here.sum() < 2:
            continue
        speed = np.gradient(y[here, c], run.times[here])
        clock[here, c] = (run.times[here] - run.times[0]) * speed / sigma[here, c]
        shapes = {"scale": y[here, c], "zero": np.ones(here.sum()), "delay [s]": -speed}
        for name, shape in shapes.items():
            one = zero.copy()
            one[here, c] = shape / sigma[here, c]
            found[f"{name} of channel {c}"] = one
    return found | {"rate of the clock": clock}


def _fault(name: str, parts: list[tuple[RunEvidence, NDArray]]) -> Fault | None:
    """How large a fault all runs together ask for; None where their parameters make up for it."""
    lefts, score, information, whole = [], 0.0, 0.0, 0.0
    for run, direction in parts:
        J, d = (np.where(run.present[..., None], part, 0.0) for part in (run.residual.J, direction[..., None]))
        flat = J.reshape(d.size, -1)
        U, s, _ = np.linalg.svd(flat / np.maximum(np.linalg.norm(flat, axis=0), _TINY), full_matrices=False)
        U = U[:, s > _NEGLIGIBLE]
        left = d.ravel() - U @ (U.T @ d.ravel())
        score += float(left @ np.nan_to_num(run.residual.r).ravel())
        information += float(left @ left)
        whole += float(np.sum(d**2))
        lefts.append(left.reshape(direction.shape))
    if information <= _SEEN**2 * whole:
        return None
    return Fault(name, lefts, score / information, score**2 / information)


def _stderr(fault: Fault, runs: list[RunEvidence]) -> float:
    """Of a fault's size, from the noise that is left without it."""
    variance = information = 0.0
    for run, left in zip(runs, fault.left, strict=True):
        rest = run.residual.r - fault.size * left
        models = run_noise(rest, run.residual.J).models
        variance += float(score_covariance(models, rest, left[..., None])[0, 0])
        information += float(np.sum(left**2))
    return float(np.sqrt(variance)) / information
