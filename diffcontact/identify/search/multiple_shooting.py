r"""Multiple shooting: the record in segments, each from a state of its own, brought together little by little.

A segment is short, so it sees an impact or two, nearly at the right time, and its residuals are nearly linear in its
state. With s_k the state at which segment k begins and x_k(t; s_k, theta) its motion,

    minimise  1/2 sum |r(x_k, theta)|^2  +  w/2 sum_k |(x_k(t_{k+1}) - s_{k+1}) / sigma_k|^2   over theta, s_1, s_2, ...

for growing w. At first the segments hardly know of each other, in the end the motion is one. sigma_k is how well
segment k + 1 alone determines its state, so that w compares like with like in any units. Where this ends is the start
of a descent on the whole record: it explores, and the estimate does not depend on it.

Source: H. G. Bock, in Modelling of Chemical Reaction Systems, Springer (1981) 102, for the method; A. Ribeiro,
K. Tiels, J. Umenberger, T. Schoen, L. Aguirre, Automatica 121 (2020) 109158, for why short simulations make the cost
smooth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from diffcontact.identify.problem.impacts import kinks
from diffcontact.identify.problem.model import Model
from diffcontact.identify.problem.objective import NormalEquations, Objective
from diffcontact.identify.problem.residual import Samples
from diffcontact.identify.problem.run import Run
from diffcontact.identify.search.levenberg_marquardt import descend
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.simulate import simulate

# Segments of a record in which nothing is seen to happen, and the fewest intervals of one.
SEGMENTS, LEAST = 8, 3
_WEIGHTS = 0.01, 0.1, 1.0, 10.0, 100.0
_ITERATIONS, _TOLERANCE = 8, 1e-3


@partial(jit_fast_compile, static=("model",))
def _linearise(model: Model, z: Array, state: Array, fixed, samples: Samples, last: Array, substeps: Array | None):
    """Residuals (L, k) and final state (2d,) of a segment, and their derivatives by (z, state) on a last axis."""

    number = model.substeps if substeps is None else substeps

    def of(both):
        params = model.parameters(both[: z.size], fixed)
        # Places and velocities of bodies that turn in space differ in number.
        places = sum(part.size for part in jax.tree.leaves(jax.eval_shape(model.initial, params)[0]))
        q, u = jnp.split(both[z.size :], [places])
        q = q if getattr(model.system, "normalise", None) is None else model.system.normalise(q)
        times = samples.times if model.clock is None else model.clock(samples.times, params)
        motion = simulate(model.system, params, q, u, times, scheme=model.scheme, substeps=number)
        r = jnp.where(samples.present, (samples.values - model.observe(motion, params)) / samples.sigma, 0.0)
        both = r, jnp.concatenate([motion.q[last], motion.u[last]])
        return both, both

    return jax.jacfwd(of, has_aux=True)(jnp.concatenate([z, state]))


@partial(jit_fast_compile, static=("model",))
def _initial(model: Model, z: Array, fixed):
    """The state (2d,) in which a run begins, and its derivative by z."""

    def of(z):
        q, u = model.initial(model.parameters(z, fixed))
        state = jnp.concatenate([jnp.ravel(jnp.asarray(q)), jnp.ravel(jnp.asarray(u))]).astype(z.dtype)
        return state, state

    return jax.jacfwd(of, has_aux=True)(z)


@dataclass(frozen=True, eq=False)
class _Segment:
    """A segment's residuals r (m,) and final state (2d,), and their derivatives r_by and end_by (..., P_i + 2d).

    What moves a segment are the P_i parameters of its run and the 2d components of its first state.
    """

    r: NDArray
    r_by: NDArray
    end: NDArray
    end_by: NDArray


class CutRun:
    """A run in segments.

    Args:
        run: the run.
        motion: (n, 2d) its states at the start of the search.

    Attributes:
        cuts: (K + 1,) rows at which segments begin and end.
        states: (K - 1, 2d) of the motion there.
        size: (2d,) how far each component of the state moves.
    """

    def __init__(self, run: Run, motion: NDArray):
        self.index, self.fixed = run.index, run.fixed
        # Times of impacts are nobody's.
        self.model, self.substeps = replace(run.model, impacts=0, heard=None).counted()
        channels = run.samples.values.shape[1] - bool(run.model.impacts)
        present = run.present[:, :channels]
        times = np.asarray(run.samples.times, float)[: run.length]
        values, sigma = (
            np.asarray(part, float)[: run.length, :channels] for part in (run.samples.values, run.samples.sigma)
        )
        self.cuts = cuts(times, np.where(present, values, np.nan), sigma)
        self.states = motion[self.cuts[1:-1]]
        extent = np.ptp(motion, axis=0)
        self.size = np.maximum(extent, 1e-3 * max(extent.max(), np.finfo(float).tiny))
        self._lengths = np.diff(self.cuts)
        step = np.arange(int(self._lengths.max()) + 1)
        self._samples = []
        for begin, length in zip(self.cuts, self._lengths, strict=False):
            rows = np.minimum(begin + step, run.length - 1)
            # All segments have one length: behind its end a shorter one goes on, unseen. The last sample is the last
            # one's, every other that segment's which begins with it.
            on = np.maximum(begin + step - (run.length - 1), 0) * (times[-1] - times[-2])
            seen = step < length + (begin + length == run.length - 1)
            self._samples.append(
                Samples(
                    times=jnp.asarray(times[rows] + on, run.samples.times.dtype),
                    values=jnp.asarray(values[rows], run.samples.values.dtype),
                    sigma=jnp.asarray(sigma[rows], run.samples.sigma.dtype),
                    present=jnp.asarray(present[rows] & seen[:, None]),
                )
            )

    def segment(self, k: int, z: NDArray, state: NDArray) -> _Segment:
        """Segment k as it moves from a state (2d,)."""
        samples = self._samples[k]
        (J, E), (r, end) = _linearise(self.model, z, state, self.fixed, samples, self._lengths[k], self.substeps)
        seen = np.asarray(samples.present)
        r, J, end, E = (np.asarray(part, float) for part in (r, J, end, E))
        return _Segment(r[seen], J[seen], end, E)

    def first_state(self, z: NDArray) -> tuple[NDArray, NDArray]:
        """The state (2d,) in which the run begins, and its derivatives (2d, P_i) by the parameters."""
        S, state = _initial(self.model, z, self.fixed)
        return np.asarray(state, float), np.asarray(S, float)


def cuts(times: NDArray, values: NDArray, sigma: NDArray) -> NDArray:
    """(K + 1,) rows at which segments begin and end: never at an impact that the samples show, and between any two.

    Example:
        >>> times = np.linspace(0.0, 1.0, 49)
        >>> height = np.abs(times - 0.51)[:, None]  # an impact between the rows 24 and 25
        >>> cuts(times, height, np.full((49, 1), 1e-4)).tolist()
        [0, 6, 12, 18, 22, 30, 36, 42, 48]
    """
    n = times.size
    impacts = np.searchsorted(times, kinks(times, values, sigma)[0]) - 0.5

    def apart(row):
        return np.min(np.abs(impacts - row), initial=np.inf)

    even = np.rint(np.linspace(0, n - 1, SEGMENTS + 1)[1:-1])
    wanted = [max((row, row - 2, row + 2), key=lambda place: min(apart(place), 1.5)) for row in even]
    chosen = [0.0]
    for row in np.unique(np.append(wanted, (impacts[1:] + impacts[:-1]) // 2)):
        if row - chosen[-1] >= LEAST and n - 1 - row >= LEAST and apart(row) >= 1.0:
            chosen.append(row)
    return np.array([*chosen, n - 1], int)


class _Pieces:
    """The objective on x = (theta, states): P parameters, and the states of all runs but their first ones.

    Args:
        objective: on the whole record.
        runs: cut up.
    """

    def __init__(self, objective: Objective, runs: list[CutRun]):
        self.objective, self.runs, self.size = objective, runs, objective.parameters.low.size
        counts = [run.states.size for run in runs]
        self.begins = self.size + np.cumsum([0, *counts[:-1]])
        self.total = self.size + sum(counts)
        # (K - 1, 2d) per run: how well each segment determines its first state.
        self.deviations = [np.ones_like(run.states) for run in runs]

    def place(self, i: int, k: int) -> NDArray:
        """Where the state of segment k >= 1 of run i lies in x."""
        width = self.runs[i].size.size
        return self.begins[i] + (k - 1) * width + np.arange(width)

    def normal_equations(self, x: NDArray, weight: float) -> NormalEquations:
        """Cost, gradient and curvature of one lane x (1, X)."""
        cost, g, A = 0.0, np.zeros(self.total), np.zeros((self.total, self.total))

        def add(rows, J, at):
            nonlocal cost
            cost += 0.5 * float(rows @ rows)
            g[at] += J.T @ rows
            A[np.ix_(at, at)] += J.T @ J

        theta = x[0, : self.size]
        for i, run in enumerate(self.runs):
            z = theta[run.index]
            state, S = run.first_state(z)
            for k in range(len(run.states) + 1):
                here = run.segment(k, z, state)
                if k == 0:
                    at, J, E = run.index, *(by[:, : z.size] + by[:, z.size :] @ S for by in (here.r_by, here.end_by))
                else:
                    at, J, E = np.concatenate([run.index, self.place(i, k)]), here.r_by, here.end_by
                if not all(np.all(np.isfinite(part)) for part in (here.r, J, here.end, E)):
                    cost = np.inf
                    break
                rows, slope = (np.asarray(part) for part in self.objective.loss.squared(here.r))
                add(rows, slope[:, None] * J, at)
                if k < len(run.states):
                    following = self.place(i, k + 1)
                    state, unit = x[0, following], np.sqrt(weight) / self.deviations[i][k]
                    joint = np.concatenate([E, -np.eye(state.size)], axis=1)
                    add(unit * (here.end - state), unit[:, None] * joint, np.concatenate([at, following]))
        prior, slopes = self.objective.priors.rows(theta)
        add(prior, slopes, np.arange(self.size))
        return NormalEquations(np.array([cost]), g[None], A[None], np.ones(1))

    def swept(self, theta: NDArray) -> NDArray:
        """(X,) theta, and from segment to segment the state that fits it, begun where the one before ends."""
        x = np.append(theta, np.zeros(self.total - self.size))
        for i, run in enumerate(self.runs):
            z = theta[run.index]
            state = run.first_state(z)[0]
            for k in range(len(run.states)):
                state, deviation = _fitted(run, k + 1, z, run.segment(k, z, state).end)
                x[self.place(i, k + 1)], self.deviations[i][k] = state, deviation
        return x


def _fitted(run: CutRun, k: int, z: NDArray, predicted: NDArray) -> tuple[NDArray, NDArray]:
    """The state (2d,) from which segment k fits best, and how well it is known; what it does not show stays."""
    known = np.diag(run.size**-2.0)

    def evaluate(states, _):
        here = run.segment(k, z, states[0])
        off, J = states[0] - predicted, here.r_by[:, z.size :]
        cost = 0.5 * (here.r @ here.r + off @ known @ off)
        finite = np.isfinite(cost) and np.all(np.isfinite(J))
        if not finite:
            return NormalEquations(np.full(1, np.inf), off[None], known[None], np.ones(1))
        return NormalEquations(
            np.array([cost]), (J.T @ here.r + known @ off)[None], (J.T @ J + known)[None], np.ones(1)
        )

    free = np.full(predicted.size, np.inf)
    start = np.where(np.isfinite(predicted), predicted, run.states[k - 1])
    at = descend(evaluate, start[None], -free, free, iterations=_ITERATIONS, tolerance=_TOLERANCE)
    curvature = evaluate(at.theta, None).curvature[0]
    return at.theta[0], np.sqrt(np.diag(np.linalg.inv(curvature)))


@dataclass(frozen=True, eq=False)
class Pieced:
    """What multiple shooting found.

    Attributes:
        theta: (P,) where it led.
        apart: the cost of the segments while they hardly know of each other; the least that any theta could reach.
    """

    theta: NDArray
    apart: float


def piece_together(objective: Objective, theta: NDArray, enough: float = np.inf) -> Pieced | None:
    """Where multiple shooting leads from theta (P,).

    Args:
        objective: on the whole record.
        theta: the start.
        enough: where segments of their own would not make the cost less than this, it is left at that.

    Returns:
        None where it does not apply: what is observed depends on more than the state then, or nothing was simulated.
    """
    at = objective.joint.linearise(theta)
    runs = []
    for run, here in zip(objective.joint.runs, at, strict=True):
        states = [np.asarray(part, float)[: run.length] for part in (here.trajectory.q, here.trajectory.u)]
        motion = np.concatenate(states, axis=1)
        if not np.all(np.isfinite(motion)):
            return None
        cut = CutRun(run, motion)
        if not _one_motion(cut, run, theta, here.r):
            return None
        runs.append(cut)
    pieces = _Pieces(objective, runs)
    x = pieces.swept(theta)
    low, high = (
        np.append(bound, np.full(pieces.total - theta.size, side))
        for bound, side in ((objective.parameters.low, -np.inf), (objective.parameters.high, np.inf))
    )
    apart = np.inf
    for weight in _WEIGHTS:
        found = descend(
            lambda trial, _, weight=weight: pieces.normal_equations(trial, weight),
            x[None],
            low,
            high,
            iterations=_ITERATIONS,
            tolerance=_TOLERANCE,
        )
        x, apart = found.theta[0], min(apart, float(found.cost[0]))
        if apart > enough:
            break
    return Pieced(x[: theta.size], apart)


def _one_motion(cut: CutRun, run: Run, theta: NDArray, r: NDArray) -> bool:
    """Whether segments begun in the states of the whole motion repeat its residuals (n, k)."""
    z = theta[run.index]
    states = [cut.first_state(z)[0], *cut.states]
    pieces = np.concatenate([cut.segment(k, z, state).r for k, state in enumerate(states)])
    whole = r[:, : r.shape[1] - bool(run.model.impacts)]
    whole = whole[~np.isnan(whole)]
    # Half the digits: states of the motion are rounded, and impacts make rounding grow.
    tolerance = np.sqrt(float(jnp.finfo(run.samples.values.dtype).eps)) * np.max(np.abs(whole), initial=1.0)
    return bool(np.all(np.isfinite(pieces)) and np.all(np.abs(pieces - whole) <= tolerance))
