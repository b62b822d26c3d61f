"""Descents by gradients alone, for so many parameters that a Jacobian in every step is too much.

One reverse pass gives the gradient of the cost, whatever the number of parameters. theta is in units of
1 / sqrt(diag(J^T J)) at the start. "lbfgs" is scipy's L-BFGS-B. "adam" (optax), projected on the bounds, is slower and
gets past small jumps of the cost.

Source: R. Byrd, P. Lu, J. Nocedal, C. Zhu, SIAM J. Sci. Comput. 16 (1995) 1190; D. Kingma, J. Ba, ICLR 2015.
"""

from __future__ import annotations

from functools import partial
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from diffcontact.identify.problem.loss import Loss
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.residual import Model, residual
from diffcontact.numerics.compilation import jit_fast_compile

# What the line search is told where the simulation is not finite; its interpolation needs a number.
_HUGE = 1e300
_ITERATIONS = 2000
# In units of the scaled parameters, falling to a thousandth on a cosine.
_ADAM_RATE = 0.05


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
    options = {"maxiter": _ITERATIONS, "maxfun": 2 * _ITERATIONS, "maxcor": 20, "ftol": objective.eps**0.75}
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
    rule = optax.adam(optax.cosine_decay_schedule(_ADAM_RATE * reach, _ITERATIONS, alpha=1e-4))
    moments, update = rule.init(x), jax.jit(rule.update)
    best = earlier = np.inf
    for iteration in range(_ITERATIONS):
        cost, gradient = scaled(x)
        if iteration == _ITERATIONS - _ITERATIONS // 10:
            earlier = best
        if cost < best:
            best, where = cost, x
        if iteration % 50 == 0:
            objective.told(iteration, best)
        updates, moments = update(gradient, moments)
        x = np.clip(np.asarray(x + updates), scaled.low, scaled.high)
    # The rate has fallen by then, so that the last tenth moves little where it has arrived.
    settled = np.isfinite(best) and earlier - best <= 1e-4 * best + objective.eps
    return scaled.end(where, bool(settled), _ITERATIONS)


# The descents that need gradients only, by their names.
FIRST_ORDER = {"lbfgs": lbfgs, "adam": adam}
