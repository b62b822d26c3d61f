r"""A joint descent in which each run finds what it keeps to itself by itself, and only what runs share moves together.

    c(s) = sum_i min_z c_i(s, z),   G = sum_i g_s - A_sz A_zz^-1 g_z,   H = sum_i A_ss - A_sz A_zz^-1 A_zs

at the minima z_i: s is what the runs share, z_i what run i has of its own, g_i = J_i^T r_i, A_i = J_i^T J_i. G and H
are what is left of slope and curvature when the z_i follow. At a smooth minimum g_z is zero, at a kink it is not.

Where an impact would have to pass a sample the cost has a kink. A descent in all parameters at once takes steps that
suit the one run that stands before its kink, however far the others have to go; of many runs one always does. Here each
run goes past its own while the others wait: from next door if need be, or from aside, along what it hardly sees, or
from another friction, with which contacts grip that slip here, or the other way round.

Source: G. H. Golub, V. Pereyra, SIAM J. Numer. Anal. 10 (1973) 413, for the reduced problem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from diffcontact.host.progress import stage
from diffcontact.identify.identifiable import role
from diffcontact.identify.problem.objective import NormalEquations, Objective
from diffcontact.identify.search.levenberg_marquardt import bounded_step, descend
from diffcontact.identify.search.neighbouring_impacts import neighbouring_impacts

# A descent has stalled where the slope at its end promises more than this part of the cost.
_STALLED = 1e-3
# Looking next door pays in the beginning; a round that gains less than `_STALLED` is the last.
_ROUNDS, _SHARED_STEPS, _OWN_STEPS = 6, 8, 20
_SHARED_TOLERANCE, _OWN_TOLERANCE = 1e-4, 1e-7
# A run starts from so many standard errors aside, too, along the directions that it sees least.
_ASIDE, _HARDLY_SEEN = 6.0, 3
# And with its own friction so many times as large as it is and as it began, at most nine tenths of the way to a bound.
_FRICTIONS = 0.5, 2.0, 4.0


def stalled(objective: Objective, end: OptimizeResult) -> bool:
    """Whether a joint descent stopped although its slope promises a lower cost, within the bounds."""
    parameters = objective.parameters
    if parameters.runs < 2 or not parameters.own.any():
        return False
    if objective.exact(end.cost):
        return False
    g, A = end.jac.T @ end.fun, end.jac.T @ end.jac
    # So little damping changes no step that the data determine.
    args = end.x[None], g[None], A[None], np.array([1e-10]), np.diag(A)[None], parameters.low, parameters.high
    step = bounded_step(*args)[0]
    return bool(-g @ step - 0.5 * step @ A @ step > _STALLED * end.cost)


def rub_for_themselves(objective: Objective, theta: NDArray) -> bool:
    """Whether runs have frictions of their own: each may be in a valley, slip or grip, that no descent leaves."""
    parameters = objective.parameters
    if parameters.runs < 2:
        return False
    first = objective.joint.runs[0].index
    return any(_is_friction(objective.of_run(0), theta, j) for j in map(int, first[parameters.own[first]]))


def run_by_run(objective: Objective, theta: NDArray) -> NDArray:
    """Where the runs lead from theta (P,): of a lower cost, or theta itself."""
    with stage("run by run"):
        runs = [_OwnPart.of(objective, i, theta) for i in range(objective.parameters.runs)]
        shared = np.flatnonzero(~objective.parameters.own)
        low, high = objective.parameters.low[shared], objective.parameters.high[shared]
        here, rounds = _Place.at(objective, theta), count()
        for _ in range(_ROUNDS):
            before = here.cost
            here = _descended(objective, runs, here, next_door=True)

            def evaluate(trial: NDArray, _) -> NormalEquations:
                nonlocal here
                there = _descended(objective, runs, here.moved(runs, shared, trial[0], objective))
                objective.told(next(rounds), there.cost)
                G, H = there.reduced(runs, shared)
                here = min(here, there, key=lambda place: place.cost)
                return NormalEquations(np.array([there.cost]), G[None], H[None], np.ones(1))

            if shared.size:
                start = here.theta[shared][None]
                descend(evaluate, start, low, high, iterations=_SHARED_STEPS, tolerance=_SHARED_TOLERANCE)
            if not here.cost < (1 - _STALLED) * before:
                break
    return here.theta


@dataclass(frozen=True, eq=False)
class _OwnPart:
    """A run by itself, which elements of theta it has of its own, and which of these are coefficients of friction."""

    alone: Objective
    own: NDArray
    frictions: tuple[int, ...]

    @classmethod
    def of(cls, objective: Objective, i: int, theta: NDArray) -> _OwnPart:
        index, alone = objective.joint.runs[i].index, objective.of_run(i)
        own = index[objective.parameters.own[index]]
        return cls(alone, own, tuple(j for j in map(int, own) if _is_friction(alone, theta, j)))

    def lead(self, theta: NDArray, next_door: bool) -> NDArray:
        """The run's own elements at the best of its minima that are found from theta (P,), all else held."""
        own, parameters = self.own, self.alone.parameters
        starts = [theta[own]]
        if next_door:
            starts += [*self.aside(theta), *self.otherwise(theta)]
            places = neighbouring_impacts(self.alone, theta, own)
            starts += [] if places is None else list(places[:, own])

        def evaluate(trial: NDArray, _) -> NormalEquations:
            whole = np.tile(theta, (len(trial), 1))
            whole[:, own] = trial
            at = self.alone.normal_equations(whole, np.ones(len(trial)))
            return replace(at, gradient=at.gradient[:, own], curvature=at.curvature[:, own][:, :, own])

        low, high = parameters.low[own], parameters.high[own]
        ends = descend(evaluate, np.array(starts), low, high, iterations=_OWN_STEPS, tolerance=_OWN_TOLERANCE)
        return ends.theta[np.argmin(ends.cost)]

    def aside(self, theta: NDArray) -> list[NDArray]:
        """Own elements (P_i,) at both ends of what the run's samples hardly see: where it may grip instead of slip."""
        own, parameters = self.own, self.alone.parameters
        J = self.alone.evaluate(theta)[1][:, own]
        seen = np.flatnonzero(np.any(J != 0, axis=0))
        scale = np.linalg.norm(J[:, seen], axis=0)
        values, directions = np.linalg.eigh((J[:, seen] / scale).T @ (J[:, seen] / scale))
        places = []
        for value, direction in list(zip(values, directions.T, strict=True))[:_HARDLY_SEEN]:
            for side in (-_ASIDE, _ASIDE):
                place = theta[own].copy()
                place[seen] += side * direction / scale / np.sqrt(max(value, 1e-8))
                places.append(place)
        return [place for place in places if np.all((place > parameters.low[own]) & (place < parameters.high[own]))]

    def otherwise(self, theta: NDArray) -> list[NDArray]:
        """Own elements (P_i,) with other frictions: no descent leads from slip to grip, or back."""
        low, high, places = self.alone.parameters.low, self.alone.parameters.high, []
        for j in self.frictions:
            here = np.array([theta[j], self.alone.parameters.start[j]])
            factors = np.array([_FRICTIONS]).T
            tried = here + np.log(factors) if self.alone.parameters.log[j] else here * factors
            tried = np.clip(tried, 0.1 * theta[j] + 0.9 * low[j], 0.1 * theta[j] + 0.9 * high[j])
            places += [np.where(self.own == j, x, theta[self.own]) for x in np.unique(tried)]
        return places


def _is_friction(objective: Objective, theta: NDArray, j: int) -> bool:
    """Whether an element is a coefficient of friction; what may be negative is none."""
    parameters = objective.parameters
    possible = objective.joint.rubs and (parameters.log[j] or parameters.low[j] >= 0)
    return bool(possible and role(objective, theta, parameters.names[j]) == "friction")


@dataclass(frozen=True, eq=False)
class _Place:
    """Somewhere in the parameters, with the cost to second order.

    Attributes:
        theta: (P,).
        cost: at theta.
        g, A: (P,), (P, P) gradient and curvature.
    """

    theta: NDArray
    cost: float
    g: NDArray
    A: NDArray

    @classmethod
    def at(cls, objective: Objective, theta: NDArray) -> _Place:
        f, J = objective.evaluate(theta)
        return cls(theta, 0.5 * float(f @ f), J.T @ f, J.T @ J)

    def response(self, run: _OwnPart, shared: NDArray) -> NDArray:
        """(P_i, S) how what the run has of its own follows what is shared: -A_zz^-1 A_zs."""
        scale = np.sqrt(np.diag(self.A)[run.own])
        unit = 1 / np.where(scale > 0, scale, 1.0)
        scaled = unit[:, None] * self.A[np.ix_(run.own, run.own)] * unit
        return -unit[:, None] * (
            np.linalg.pinv(scaled, rcond=1e-10, hermitian=True) @ (unit[:, None] * self.A[np.ix_(run.own, shared)])
        )

    def reduced(self, runs: list[_OwnPart], shared: NDArray) -> tuple[NDArray, NDArray]:
        """G (S,) and H (S, S); what is left of slope and curvature when what the runs have of their own follows."""
        G, H = self.g[shared], self.A[np.ix_(shared, shared)]
        for run in runs:
            follow = self.response(run, shared)
            G = G + self.g[run.own] @ follow
            H = H + self.A[np.ix_(shared, run.own)] @ follow
        return G, (H + H.T) / 2

    def moved(self, runs: list[_OwnPart], shared: NDArray, to: NDArray, objective: Objective) -> NDArray:
        """(P,) theta with what is shared moved, and each run's own following as far as its bounds allow."""
        theta, low, high = self.theta.copy(), objective.parameters.low, objective.parameters.high
        theta[shared] = to
        for run in runs:
            there = self.theta[run.own] + self.response(run, shared) @ (to - self.theta[shared])
            inside = (there > low[run.own]) & (there < high[run.own])
            theta[run.own] = np.where(inside, there, self.theta[run.own])
        return theta


def _descended(objective: Objective, runs: list[_OwnPart], here: _Place | NDArray, next_door: bool = False) -> _Place:
    """Where every run leads by itself."""
    theta = (here.theta if isinstance(here, _Place) else here).copy()
    for run in runs:
        theta[run.own] = run.lead(theta, next_door)
    there = _Place.at(objective, theta)
    return there if not isinstance(here, _Place) or there.cost < here.cost else here
