r"""A joint descent in which each run finds its own parameters by itself, and only what runs share moves together.

    c(s) = sum_i min_z c_i(s, z),   G = sum_i g_s - A_sz A_zz^-1 g_z,   H = sum_i A_ss - A_sz A_zz^-1 A_zs

at the minima z_i: s is what the runs share, z_i what run i has of its own, g_i = J_i^T r_i, A_i = J_i^T J_i. G and H
are what is left of slope and curvature when the z_i follow.

Where an impact would have to pass a sample the cost has a kink. A joint descent takes steps that suit the one run that
stands before its kink. Here each run goes past its own while the others wait: from another friction, too, with which
contacts grip that slip here, or the other way round. (The cost of twelve flights of a
table-tennis ball is lower by 3 %.)

Source: G. H. Golub, V. Pereyra, SIAM J. Numer. Anal. 10 (1973) 413, for the reduced problem.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult

from diffcontact.host.progress import stage
from diffcontact.identify.identifiable import role
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.search.descents import descent
from diffcontact.numerics.least_squares import TINY, inverse

# A round that gains less than this part of the cost is the last; other frictions pay in the beginning.
_GAIN = 1e-3
_ROUNDS, _SHARED_STEPS, _OWN_STEPS = 6, 8, 20
_SHARED_TOLERANCE, _OWN_TOLERANCE = 1e-4, 1e-7
# A run starts with its own friction so many times as large as it is and as it began, too, at most nine tenths of the
# way to a bound.
_FRICTIONS = 0.5, 2.0, 4.0


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
            there = _descended(objective, runs, here.theta, other_frictions=True)
            here = there if there.cost < here.cost else here

            def rows(trial: NDArray) -> tuple[NDArray, NDArray]:
                nonlocal here
                there = _descended(objective, runs, here.moved(runs, shared, trial, objective))
                objective.told(next(rounds), there.cost)
                here = there if there.cost < here.cost else here
                return _rows(there.cost, *there.reduced(runs, shared))

            if shared.size:
                _lowest(rows, here.theta[shared], (low, high), _SHARED_TOLERANCE, _SHARED_STEPS)
            if not here.cost < (1 - _GAIN) * before:
                break
    return here.theta


def _descended(objective: Objective, runs: list[_OwnPart], theta: NDArray, other_frictions: bool = False) -> _Place:
    """Where every run leads by itself from theta (P,), one after the other."""
    theta = theta.copy()
    for run in runs:
        theta[run.own] = run.lead(theta, other_frictions)
    return _Place.at(objective, theta)


def _lowest(rows, start: NDArray, bounds: tuple[NDArray, NDArray], tolerance: float, most: int) -> OptimizeResult:
    """The end of a descent from a start, of residuals and Jacobian by `rows`, asked for once at each place."""
    known: dict[bytes, tuple[NDArray, NDArray]] = {}

    def at(place: NDArray) -> tuple[NDArray, NDArray]:
        key = place.tobytes()
        if key not in known:
            known[key] = rows(place)
        return known[key]

    inside = np.clip(start, *bounds)
    return descent(lambda z: at(z)[0], lambda z: at(z)[1], inside, bounds, ftol=tolerance, max_nfev=most)


def _rows(cost: float, g: NDArray, A: NDArray) -> tuple[NDArray, NDArray]:
    """Residuals and Jacobian with this cost, gradient (P,) and curvature (P, P)."""
    values, vectors = np.linalg.eigh(A)
    seen = values > 1e-14 * max(float(values.max()), TINY)
    root = np.sqrt(np.where(seen, values, 1.0))
    f = np.where(seen, vectors.T @ g / root, 0.0)
    rest = np.sqrt(max(2.0 * cost - float(f @ f), 0.0))
    return np.append(f, rest), np.vstack([(vectors * np.where(seen, root, 0.0)).T, np.zeros(g.size)])


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

    def lead(self, theta: NDArray, other_frictions: bool) -> NDArray:
        """The run's own elements at the best of its minima that are found from theta (P,), all else held."""
        own, parameters, starts = self.own, self.alone.parameters, [theta[self.own]]
        # No descent leads from slip to grip, or back.
        for j in self.frictions if other_frictions else ():
            here, factors = np.array([theta[j], parameters.start[j]]), np.array([_FRICTIONS]).T
            tried = here + np.log(factors) if parameters.log[j] else here * factors
            ends = (0.1 * theta[j] + 0.9 * bound[j] for bound in (parameters.low, parameters.high))
            starts += [np.where(own == j, x, theta[own]) for x in np.unique(np.clip(tried, *ends))]

        def rows(trial: NDArray) -> tuple[NDArray, NDArray]:
            whole = theta.copy()
            whole[own] = trial
            f, J = self.alone.evaluate(whole)
            return f, J[:, own]

        bounds = parameters.low[own], parameters.high[own]
        return min(
            (_lowest(rows, start, bounds, _OWN_TOLERANCE, _OWN_STEPS) for start in starts), key=lambda e: e.cost
        ).x


def _is_friction(objective: Objective, theta: NDArray, j: int) -> bool:
    parameters = objective.parameters
    # What may be negative is none.
    possible = objective.joint.rubs and (parameters.log[j] or parameters.low[j] >= 0)
    return bool(possible and role(objective, theta, parameters.names[j]) == "friction")


@dataclass(frozen=True, eq=False)
class _Place:
    """Somewhere in the parameters, theta (P,), with the cost to second order: gradient g (P,), curvature A (P, P)."""

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
        return -inverse(self.A[np.ix_(run.own, run.own)]) @ self.A[np.ix_(run.own, shared)]

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
