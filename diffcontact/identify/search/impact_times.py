"""The way by the times of impacts: smooth functions of the parameters even where the positions' cost is a thicket.

Up to the first impact the samples count; from there on only when the impacts happen, the k-th in the data against the
k-th in the simulation. A restitution that is far off then moves all impacts at once, instead of having to climb over
every bounce. It goes astray where impacts are not seen one by one, so it only explores.
"""

from __future__ import annotations

from copy import copy
from dataclasses import replace

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.problem.impacts import Impacts, kinks
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.run import Run, with_impacts
from diffcontact.identify.search.levenberg_marquardt import descend
from diffcontact.particle_line import ParticleLine
from diffcontact.schemes.event_timed import EventTimed

# One impact moves little that the samples before it and after it do not show.
_FEWEST = 2
_ITERATIONS, _TOLERANCE = 40, 1e-6


def match_impacts(objective: Objective, points: NDArray) -> NDArray | None:
    """(N, P) where the times of the impacts that the data show lead from the points (N, P).

    Returns:
        None where no run shows two of them, or where the scheme does not tell when impacts happen.
    """
    timed = [_timed(run) for run in objective.joint.runs]
    if all(new is None for new in timed):
        return None
    joint = copy(objective.joint)
    joint.runs = [run if new is None else new for run, new in zip(objective.joint.runs, timed, strict=True)]
    other = Objective(joint, objective.parameters, objective.loss, objective.priors)
    return descend(
        lambda theta, lanes: other.normal_equations(theta, np.ones(len(lanes))),
        points,
        objective.parameters.low,
        objective.parameters.high,
        iterations=_ITERATIONS,
        tolerance=_TOLERANCE,
    ).theta


def _timed(run: Run) -> Run | None:
    """The run with the samples before its first impact and the times of all; None where fewer than two are known."""
    model = run.model
    if isinstance(model.system, ParticleLine) or not isinstance(model.scheme or EventTimed(), EventTimed):
        return None
    times = np.asarray(run.samples.times, float)[: run.length]
    values, sigma = (np.asarray(part, float)[: run.length] for part in (run.samples.values, run.samples.sigma))
    if model.impacts:
        # They were measured: nothing needs to be looked for.
        heard = values[run.present[:, -1], -1]
        return None if heard.size < _FEWEST else _until(run, times, heard[0], run.present.shape[1] - 1)
    seen = np.where(run.present, values, np.nan)
    at, deviation = kinks(times, seen, np.where(run.present, sigma, 1.0))
    if at.size < _FEWEST:
        return None
    return with_impacts(_until(run, times, at[0], run.present.shape[1]), Impacts(at, deviation))


def _until(run: Run, times: NDArray, first: float, channels: int) -> Run:
    """The run with the samples of so many channels before `first` only."""
    present = run.present.copy()
    present[times >= first, :channels] = False
    padded = np.zeros(run.samples.present.shape, bool)
    padded[: run.length] = present
    return replace(run, present=present, samples=replace(run.samples, present=jnp.asarray(padded)))
