"""The way from a start to the best estimate: several starts, a growing horizon, shorter steps, the noise of channels.

**A descent** is scipy's trust-region least squares within bounds, with exact Jacobians; on the way to it `explored`
takes Levenberg and Marquardt's steps, which go along bounds.

**By gradients alone,** for so many parameters that a Jacobian in every step is too much: one reverse pass gives the
gradient of the cost, whatever their number. theta is in units of 1 / sqrt(diag(J^T J)) at the start. "lbfgs" is scipy's
L-BFGS-B. "adam" (optax), projected on the bounds, is slower and gets past small jumps of the cost.

**A growing horizon.** Where the simulation has another number of impacts than the data, or has them at other times, the
cost is full of local minima. A short record has few impacts. So the beginning of the record is fitted, the simulation
followed on until it leaves the data, and the fit repeated: within its reach the next impacts are nearly right.

**Run by run.** Where runs have frictions of their own, each may be in a valley, slip or grip, that no descent leaves.
So each tries other frictions while all else is held, before all descend together again. (Twelve flights of a
table-tennis ball come to a cost that is lower by 3 %.)

**The noise of each channel** is found by iterated generalised least squares, until no s_c differs from 1 by more than a
hundredth: sigma_c <- s_c sigma_c, s_c^2 = sum of the channel's r^2 / (m_c (1 - P/m)), and fit again. Under a robust
loss s_c is 1.4826 times the median of |r|.

Source: M. A. Branch, T. F. Coleman, Y. Li, SIAM J. Sci. Comput. 21 (1999) 1; H. B. Nielsen, Damping Parameter in
Marquardt's Method, IMM-REP-1999-05, for `explored`; R. Byrd, P. Lu, J. Nocedal, C. Zhu, SIAM J. Sci. Comput. 16 (1995)
1190; D. Kingma, J. Ba, ICLR 2015; A. Ribeiro, K. Tiels, J. Umenberger, T. Schoen, L. Aguirre,
Automatica 121 (2020) 109158, on the length of the simulation; G. A. F. Seber, C. J. Wild, Nonlinear Regression (1989),
section 2.8, on the noise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, least_squares, lsq_linear, minimize
from scipy.sparse import csr_array

from diffcontact.host.progress import stage
from diffcontact.identify.identifiable import role
from diffcontact.identify.noise import Loss, neighbourly, robust_size
from diffcontact.identify.objective import Objective
from diffcontact.identify.parameters import starting_points
from diffcontact.identify.residual import Model, residual
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.numerics.least_squares import TINY

SHOOTING = ("auto", "single", "growing")
Vector = Callable[[NDArray], NDArray]

MAX_EVALUATIONS = 300
# Parameters smaller than one in so many, or larger than so many, are sought in units of their own size.
_ORDINARY = 2.0**20
# Of the exploring steps: the damping at first, the gain over what was promised that is one, and the part of the way to
# a bound that may not be reached.
_DAMPING, _GAINS, _SHARE = 1e-2, 1e-3, 0.9
# With more parameters, nearly all of them the runs' own, a step is sought by iterations on a sparse Jacobian: its
# singular values would take longer than all else.
_MANY = 200
# Relative tolerance and steps of a descent from each of several starts; the best is polished.
EXPLORED, _ITERATIONS = 1e-3, 25
# The horizon grows by at least this part of the record, less than what lies between two impacts worth resolving.
_STAGE, _FIRST, STAGE_STEPS = 1.0 / 24.0, 1.0 / 12.0, 12
# Rounds in which the noise of channels settles.
_NOISE_ROUNDS, _SETTLED = 10, 0.01
# Rounds of all runs, of which the last gains less than this part of the cost; steps and tolerance of a run by itself.
_ROUNDS, _GAIN, _OWN_STEPS, _OWN_TOLERANCE = 6, 1e-3, 20, 1e-7
# A run starts with its own friction so many times as large as it is and as it began, too, at most nine tenths of the
# way to a bound.
_FRICTIONS = 0.5, 2.0, 4.0
# What the line search is told where the simulation is not finite; its interpolation needs a number.
_HUGE = 1e300
# Gradients that a descent by these alone takes, at most.
_GRADIENTS = 2000
# In units of the scaled parameters, falling to a thousandth on a cosine.
_ADAM_RATE = 0.05


@dataclass(frozen=True, eq=False)
class Outcome:
    """The end of a search."""

    end: OptimizeResult  # the best end, polished
    costs: tuple[float, ...]  # (N,) the waterfall: the cost from every start, sorted
    story: str = ""  # how it was found, for the message; empty where there is nothing to tell
    # (N, P) where the starts ended, best first and not polished; None where there was one start.
    ends: NDArray | None = None

    @classmethod
    def of(cls, end: OptimizeResult) -> Outcome:
        """The outcome of a single descent."""
        return cls(end, (float(end.cost),))

    def told(self, *parts: str) -> Outcome:
        """The same with more to tell."""
        return replace(self, story="; ".join(filter(None, (self.story, *parts))))

    def continued(self, end: OptimizeResult, told: str = "", alone: bool = False) -> Outcome:
        """The same with another end; `alone`: of another objective, whose costs are others."""
        costs = (float(end.cost), *(() if alone else self.costs[1:]))
        return replace(self, end=end, costs=costs).told(told)


def search(objective: Objective, method: str, starts: int, seed: int, shooting: str) -> Outcome:
    """Find the best minimum that a start or several lead to; arguments as of `fit`."""
    points = np.array([*starting_points(objective.parameters, starts, seed)])
    if method != "lm":
        ends = sorted((FIRST_ORDER[method](objective, point) for point in points), key=lambda end: end.cost)
        places = np.stack([end.x for end in ends]) if len(ends) > 1 else None
        best = Outcome(ends[0], tuple(float(end.cost) for end in ends), "", places)
    elif shooting == "growing":
        best = _polished(objective, _grown(objective, points)).told("by a growing horizon")
    else:
        best = _polished(objective, points if starts == 1 else _each(objective, points))
        if shooting == "auto" and not objective.explained(best.end.x):
            cost, grown = best.end.cost, _polished(objective, _grown(objective, points))
            won = grown.end.cost < cost * (1 - 1e-6)
            best = (grown if won else best).told(
                f"single shooting ended at cost {cost:.6g}, which noise does not explain; "
                f"a growing horizon found {f'{grown.end.cost:.6g}' if won else 'nothing better'}"
            )
    if len(best.costs) == 1:
        return best
    # Starts are left within their tolerance of the minimum, not polished.
    together = sum(cost <= best.costs[0] * (1 + 10 * EXPLORED) for cost in best.costs)
    return best.told(f"{together} of {len(best.costs)} starts end within 1 % of the best cost")


def _grown(objective: Objective, points: NDArray) -> list[NDArray]:
    """Where a growing horizon leads from each of the points (N, P)."""
    found = []
    with stage("a growing horizon", total=len(points)) as at:
        for theta in points:
            horizon = _FIRST
            while horizon < 1.0:
                theta = explored(objective, theta, EXPLORED, STAGE_STEPS, horizon)
                horizon = min(max(objective.reach(theta, horizon), horizon) + _STAGE, 1.0)
            found.append(theta)
            at(len(found))
    return found


def _each(objective: Objective, points: NDArray) -> list[NDArray]:
    found = []
    with stage(f"{len(points)} starts", total=len(points)) as at:
        for point in points:
            found.append(explored(objective, point, EXPLORED, _ITERATIONS))
            at(len(found))
    return found


def _polished(objective: Objective, places: Sequence[NDArray] | NDArray) -> Outcome:
    """The end of a descent from the best of several places (N, P), and all of them by their costs; without a story."""
    theta = np.array(places)
    if len(theta) == 1:
        return Outcome.of(_solved(objective, theta[0]))
    costs = np.array([0.5 * float(np.sum(objective.evaluate(place)[0] ** 2)) for place in theta])
    best = int(np.argmin(costs))
    end = _solved(objective, theta[best])
    costs[best] = end.cost
    order = np.argsort(costs, kind="stable")
    return Outcome(end, tuple(float(cost) for cost in costs[order]), "", theta[order])


def _solved(objective: Objective, start: NDArray) -> OptimizeResult:
    """The end of a descent from a start, run by run where runs have frictions of their own."""
    end, runs = solve(objective, start), range(objective.parameters.runs)
    if len(runs) < 2 or objective.exact(end.cost) or not _own_frictions(objective, 0, end.x):
        return end
    with stage("run by run"):
        frictions = [_own_frictions(objective, i, end.x) for i in runs]
        for _ in range(_ROUNDS):
            theta = end.x.copy()
            for i in runs:
                theta = _from_other_frictions(objective, i, theta, frictions[i])
            before, further = end.cost, solve(objective, theta)
            end = further if further.cost < before else end
            if not end.cost < (1 - _GAIN) * before:
                break
    return end


def _own_frictions(objective: Objective, i: int, theta: NDArray) -> list[int]:
    """Which elements are coefficients of friction that run i has to itself; what may be negative is none."""
    parameters, index = objective.parameters, objective.joint.runs[i].index
    possible = parameters.own & (parameters.log | (parameters.low >= 0)) & objective.joint.rubs
    alone = objective.of_run(i)
    return [int(j) for j in index[possible[index]] if role(alone, theta, parameters.names[j]) == "friction"]


def _from_other_frictions(objective: Objective, i: int, theta: NDArray, frictions: Sequence[int]) -> NDArray:
    """(P,) theta with the own elements of run i at the best minimum that other frictions lead to, all else held."""
    parameters, alone = objective.parameters, objective.of_run(i)
    own = objective.joint.runs[i].index
    own = own[parameters.own[own]]
    low, high, starts = parameters.low, parameters.high, [theta[own]]
    for j in frictions:
        here, factors = np.array([theta[j], parameters.start[j]]), np.array([_FRICTIONS]).T
        tried = here + np.log(factors) if parameters.log[j] else here * factors
        ends = (0.1 * theta[j] + 0.9 * bound[j] for bound in (low, high))
        starts += [np.where(own == j, x, theta[own]) for x in np.unique(np.clip(tried, *ends))]

    def whole(part: NDArray) -> NDArray:
        found = theta.copy()
        found[own] = part
        return found

    def led(part: NDArray) -> OptimizeResult:
        return descent(
            lambda z: alone.evaluate(whole(z))[0],
            lambda z: alone.evaluate(whole(z))[1][:, own],
            np.clip(part, low[own], high[own]),
            (low[own], high[own]),
            ftol=_OWN_TOLERANCE,
            max_nfev=_OWN_STEPS,
        )

    return whole(min(map(led, starts), key=lambda end: end.cost).x)


def with_resolved_steps(objective: Objective, found: Outcome) -> tuple[Objective, Outcome]:
    """Go on from a search with shorter steps, as long as halving them changes what is observed at its end."""
    # Numbers of substeps only grow, up to a bound.
    while True:
        finer = objective.on(objective.joint.resolved(found.end.x))
        if finer.substeps == objective.substeps:
            return finer, found
        objective, found = finer, found.continued(solve(finer, found.end.x), alone=True)


def with_estimated_noise(
    objective: Objective, found: Outcome, rough: bool = False
) -> tuple[Objective, Outcome, tuple[NDArray, ...]]:
    """Go on with the noise that residuals show; per run the factors (k,) over stated noise."""
    factors = [np.ones(run.present.shape[1]) for run in objective.joint.runs]
    stated = [run.sigma for run in objective.joint.runs]
    round_, settled = 0, False
    while round_ < _NOISE_ROUNDS and not settled:
        scales, round_ = _scales(objective, found.end.x, rough), round_ + 1
        factors = [factor * scale for factor, scale in zip(factors, scales, strict=True)]
        objective = objective.replaced("sigma", [s * factor for s, factor in zip(stated, factors, strict=True)])
        found = found.continued(solve(objective, found.end.x), alone=True)
        settled = all(np.all(np.abs(scale - 1.0) <= _SETTLED) for scale in scales)
    told = f"noise of each channel estimated in {round_} round{'s' if round_ > 1 else ''}"
    return objective, found.told(told + ("" if settled else ", not settled")), tuple(factors)


def _scales(objective: Objective, theta: NDArray, rough: bool) -> list[NDArray]:
    """Per run, (k,) how much larger the residuals of each channel are than stated."""
    residuals = [np.where(np.isfinite(at.r), at.r, np.nan) for at in objective.joint.linearise(theta)]
    roundings = [np.where(run.present, run.rounding, np.nan) for run in objective.joint.runs]
    spare = max(1.0 - objective.joint.size / objective.joint.samples, 1.0 / objective.joint.samples)

    def size(parts: list[NDArray], channels: int) -> NDArray:
        alike = np.concatenate([part for part in parts if part.shape[1] == channels])
        if rough:
            each = np.array([neighbourly(part) for part in parts if part.shape[1] == channels])
            return np.sqrt(np.mean(np.where(np.isfinite(each), each, 1.0) ** 2, axis=0))
        if objective.loss.robust:
            return robust_size(alike, axis=0)
        return np.sqrt(np.nanmean(alike**2, axis=0) / spare)

    scales = []
    for run in objective.joint.runs:
        scale, rounding = (size(parts, run.present.shape[1]) for parts in (residuals, roundings))
        # A channel that is fitted to rounding, holds nothing but zeros, or has no sample, keeps its noise.
        scales.append(np.where((rounding > 0) & (scale > rounding), scale, 1.0))
    return scales


def solve(objective: Objective, start: NDArray) -> OptimizeResult:
    """Trust-region descent within the bounds until neither cost nor parameters move."""
    if not np.all(np.isfinite(objective.evaluate(start)[0])):
        raise ValueError(
            "fit(params): at the starting values the simulation is not finite up to the last sample; "
            "expected values from which it is"
        )
    iterations = count()

    def jacobian(theta):
        f, J = objective.evaluate(theta)
        objective.told(next(iterations), 0.5 * float(f @ f))
        return J

    # eps^(3/4): the last step has no more to give, yet rounding in the simulation does not keep the fit going.
    tolerance = objective.eps**0.75
    return descent(
        lambda theta: objective.evaluate(theta)[0],
        jacobian,
        start,
        (objective.parameters.low, objective.parameters.high),
        ftol=tolerance,
        xtol=tolerance,
        gtol=tolerance,
        max_nfev=MAX_EVALUATIONS,
    )


def explored(objective: Objective, start: NDArray, tolerance: float, most: int, horizon: float = 1.0) -> NDArray:
    """(P,) where Levenberg and Marquardt's steps on the samples up to a horizon (a part of the record) lead.

    It ends where a step promises less than the tolerance, relatively, or after `most` evaluations. The damping follows
    the ratio of actual to predicted decrease (Nielsen); the least step within the bounds goes along them.
    """
    low, high = objective.parameters.low, objective.parameters.high
    theta, damping, growth = np.clip(start, low, high), _DAMPING, 2.0
    (f, J), scale = objective.evaluate(theta, horizon), np.zeros(start.size)
    # The zero of a mass, where there is no simulation, is not reached.
    open_sides = np.where(np.isfinite(low) ^ np.isfinite(high), _SHARE, 1.0)
    for iteration in range(most - 1):
        cost = 0.5 * float(f @ f)
        objective.told(iteration, cost)
        scale = np.maximum(scale, np.linalg.norm(J, axis=0))
        rows = np.vstack([J, np.sqrt(damping) * np.diag(np.where(scale > 0, scale, 1.0))])
        room = open_sides * (low - theta), open_sides * (high - theta)
        step = lsq_linear(rows, -np.append(f, np.zeros(theta.size)), room).x
        predicted = cost - 0.5 * float(np.sum((f + J @ step) ** 2))
        there = np.clip(theta + step, low, high)
        trial = objective.evaluate(there, horizon)
        gain = (cost - 0.5 * float(trial[0] @ trial[0])) / max(predicted, TINY)
        if gain > _GAINS:
            theta, (f, J) = there, trial
            damping, growth = damping * max(1 / 3, 1 - min(2 * gain - 1, 1.0) ** 3), 2.0
        else:
            damping, growth = damping * growth, 2.0 * growth
        if predicted <= tolerance * cost:
            break
    return theta


def descent(f: Vector, J: Vector, start: NDArray, bounds: tuple[NDArray, NDArray], **options: Any) -> OptimizeResult:
    """scipy's trust-region least squares in units in which no parameter is far from 1; its result in those given."""
    size = np.abs(start)
    far = (size > 0) & ((size < 1 / _ORDINARY) | (size > _ORDINARY))
    # Powers of two round nothing.
    unit = np.where(far, np.exp2(np.round(np.log2(np.where(far, size, 1.0)))), 1.0)
    sparse = start.size > _MANY

    def scaled(z):
        found = J(unit * z) * unit
        return csr_array(found) if sparse else found

    end = least_squares(
        lambda z: f(unit * z),
        start / unit,
        jac=scaled,  # pyright: ignore[reportArgumentType]  (scipy's stubs forget the callable)
        tr_solver="lsmr" if sparse else "exact",
        bounds=tuple(bound / unit for bound in bounds),
        x_scale="jac",
        **options,
    )
    if sparse:
        end.jac = end.jac.toarray()
    end.x, end.jac, end.grad = unit * end.x, end.jac / unit, end.grad / unit
    return end


@partial(jit_fast_compile, static=("model", "loss"))
def _cost_and_gradient(model: Model, loss: Loss, z, fixed, samples):
    def cost(z):
        s, _ = loss.squared(residual(model, z, fixed, samples)[0])
        return 0.5 * jnp.sum(s**2)

    return jax.value_and_grad(cost)(z)


class _Scaled:
    """Cost and gradient of an objective within bounds, of x = theta / scale with scale = 1 / sqrt(diag(J^T J))."""

    def __init__(self, objective: Objective, start: NDArray):
        self.objective, diagonal = objective, np.sum(objective.evaluate(start)[1] ** 2, axis=0)
        self.scale = 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
        low, high = objective.parameters.low, objective.parameters.high
        # One-sided bounds (the zero of a mass) are not reached.
        open_side = np.isfinite(low) & ~np.isfinite(high)
        inside = np.where(open_side, low + np.finfo(float).eps * np.maximum(self.scale, 1.0), low)
        self.low, self.high, self.start = inside / self.scale, high / self.scale, start / self.scale

    def __call__(self, x: NDArray) -> tuple[float, NDArray]:
        """Cost and its gradient (P,); an infinite cost with a zero gradient where the simulation is not finite."""
        objective, theta = self.objective, x * self.scale
        f, J = objective.priors.rows(theta)
        cost, gradient = 0.5 * float(f @ f), J.T @ f
        for run in objective.joint.runs:
            z = jnp.asarray(theta[run.index])
            value, slope = _cost_and_gradient(run.model, objective.loss, z, run.fixed, run.samples)
            value, slope = float(value), np.asarray(slope, float)
            if not (np.isfinite(value) and np.all(np.isfinite(slope))):
                return float("inf"), np.zeros_like(theta)
            cost += value
            gradient[run.index] += slope
        return cost, gradient * self.scale

    def end(self, x: NDArray, arrived: bool, iterations: int) -> OptimizeResult:
        """Where a descent has come to, as `solve` would report it."""
        theta, low, high = x * self.scale, self.objective.parameters.low, self.objective.parameters.high
        f, J = self.objective.evaluate(theta)
        at = {"active_mask": np.where(theta <= low, -1, np.where(theta >= high, 1, 0)), "status": 2 if arrived else 0}
        found = {"x": theta, "cost": 0.5 * float(f @ f), "fun": f, "jac": J, "grad": J.T @ f, "njev": iterations}
        return OptimizeResult(found | at)


def lbfgs(objective: Objective, start: NDArray) -> OptimizeResult:
    """Quasi-Newton descent within the bounds."""
    scaled, evaluations = _Scaled(objective, start), count()

    def told(x):
        cost, gradient = scaled(x)
        objective.told(next(evaluations), cost)
        return min(cost, _HUGE), gradient

    bounds = list(zip(scaled.low, scaled.high, strict=True))
    options = {"maxiter": _GRADIENTS, "maxfun": 2 * _GRADIENTS, "maxcor": 20, "ftol": objective.eps**0.75}
    method = {"jac": True, "method": "L-BFGS-B", "bounds": bounds, "options": options | {"gtol": 1e-8}}
    end = minimize(told, scaled.start, **method)
    # Its line search may give up on the last digits of the cost. So judge by the gradient, in standard errors of the
    # stated noise, of what is not at a bound.
    inward = ((end.x > scaled.low) | (end.jac < 0)) & ((end.x < scaled.high) | (end.jac > 0))
    misfit = max(objective.misfit(end.x * scaled.scale), 1.0)
    flat = np.max(np.abs(np.where(inward, end.jac, 0.0))) <= 1e-3 * np.sqrt(misfit)
    return scaled.end(end.x, end.success or flat, int(end.nit))


def adam(objective: Objective, start: NDArray) -> OptimizeResult:
    """Adam with a falling rate, projected on the bounds; the best point it meets."""
    # Least squares do without optax, whose import takes as long as many a fit.
    import optax

    scaled = _Scaled(objective, start)
    x = where = scaled.start
    cost, _ = scaled(x)
    if not np.isfinite(cost):
        return scaled.end(x, False, 0)
    # The scale of a well-determined parameter is its standard error: a bad start is hundreds of them away.
    reach = max(1.0, np.sqrt(2 * cost / start.size))
    rule = optax.adam(optax.cosine_decay_schedule(_ADAM_RATE * reach, _GRADIENTS, alpha=1e-4))
    moments, update = rule.init(x), jax.jit(rule.update)
    best = earlier = np.inf
    for iteration in range(_GRADIENTS):
        cost, gradient = scaled(x)
        if iteration == _GRADIENTS - _GRADIENTS // 10:
            earlier = best
        if cost < best:
            best, where = cost, x
        if iteration % 50 == 0:
            objective.told(iteration, best)
        updates, moments = update(gradient, moments)
        x = np.clip(np.asarray(x + updates), scaled.low, scaled.high)
    # The rate has fallen by then, so that the last tenth moves little where it has arrived.
    settled = np.isfinite(best) and earlier - best <= 1e-4 * best + objective.eps
    return scaled.end(where, bool(settled), _GRADIENTS)


# The descents that need gradients only, by their names.
FIRST_ORDER = {"lbfgs": lbfgs, "adam": adam}
METHODS = ("lm", *FIRST_ORDER)
