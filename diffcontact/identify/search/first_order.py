"""Descents that need gradients only, for so many parameters that a Jacobian is too much.

One reverse pass gives the gradient of the cost whatever the number of parameters. Least squares are badly conditioned:
theta is measured in units 1 / sqrt(diag(J^T J)), and that diagonal comes from a few more reverse passes,

    (J^T J)_jj = E (J^T v)_j^2,      v random signs

"lbfgs" is scipy's L-BFGS-B, a quasi-Newton method with bounds. "adam" (optax), projected on the bounds, is slower and
gets past small jumps of the cost.

Source: R. Byrd, P. Lu, J. Nocedal, C. Zhu, SIAM J. Sci. Comput. 16 (1995) 1190; D. Kingma, J. Ba, ICLR 2015; C. Bekas,
E. Kokiopoulou, Y. Saad, Appl. Numer. Math. 57 (2007) 1214, for the diagonal.
"""

from __future__ import annotations

from functools import partial
from itertools import count

import jax
import jax.numpy as jnp
import numpy as np
import optax
from numpy.typing import NDArray
from scipy.optimize import OptimizeResult, minimize

from diffcontact.identify.problem.loss import Loss
from diffcontact.identify.problem.model import Model
from diffcontact.identify.problem.objective import Objective
from diffcontact.identify.problem.residual import residual
from diffcontact.numerics.compilation import jit_fast_compile

_PROBES = 8
# What the line search is told where the simulation is not finite; its interpolation needs a number.
_INFINITE = 1e300
_LBFGS_ITERATIONS = 2000
_ADAM_ITERATIONS = 2000
# In units of the scaled parameters, falling to a thousandth on a cosine.
_ADAM_RATE = 0.05


@partial(jit_fast_compile, static=("model", "loss"))
def _cost_and_gradient(model: Model, loss: Loss, z, fixed, samples):
    def cost(z):
        s, _ = loss.squared(residual(model, z, fixed, samples)[0])
        return 0.5 * jnp.sum(s**2)

    return jax.value_and_grad(cost)(z)


@partial(jit_fast_compile, static=("model", "loss"))
def _pulled_back(model: Model, loss: Loss, z, fixed, samples, probes):
    """(probes, P_i) J^T v for random signs v (probes, n, k)."""
    _, pullback = jax.vjp(lambda z: loss.squared(residual(model, z, fixed, samples)[0])[0], z)
    return jax.lax.map(lambda v: pullback(v)[0], probes)


class GradientDescent:
    """An objective seen through its gradient; `seed` is of the random signs that set the scale."""

    def __init__(self, objective: Objective, seed: int):
        self.objective, self.seed = objective, seed

    def value_and_gradient(self, theta: NDArray) -> tuple[float, NDArray]:
        """Cost and its gradient (P,); an infinite cost with a zero gradient where the simulation is not finite."""
        f, J = self.objective.priors.rows(theta)
        cost, gradient = 0.5 * float(f @ f), J.T @ f
        for run in self.objective.joint.runs:
            value, slope = _cost_and_gradient(
                run.model, self.objective.loss, jnp.asarray(theta[run.index]), run.fixed, run.samples
            )
            value, slope = float(value), np.asarray(slope, float)
            if not (np.isfinite(value) and np.all(np.isfinite(slope))):
                return float("inf"), np.zeros_like(theta)
            cost += value
            gradient[run.index] += slope
        return cost, gradient

    def scale(self, theta: NDArray) -> NDArray:
        """(P,) 1 / sqrt(diag(J^T J)), estimated; 1 where nothing depends on a parameter."""
        rng, diagonal = np.random.default_rng(self.seed), self.objective.priors.information(theta)
        for run in self.objective.joint.runs:
            signs = jnp.asarray(rng.choice([-1.0, 1.0], (_PROBES, *run.samples.values.shape)), run.samples.values.dtype)
            z = jnp.asarray(theta[run.index])
            pulled = np.asarray(_pulled_back(run.model, self.objective.loss, z, run.fixed, run.samples, signs), float)
            diagonal[run.index] += np.mean(np.where(np.isfinite(pulled), pulled, 0.0) ** 2, axis=0)
        return np.where(diagonal > 0, 1.0 / np.sqrt(np.where(diagonal > 0, diagonal, 1.0)), 1.0)


def _inside(low: NDArray, scale: NDArray, high: NDArray) -> NDArray:
    """Lower bounds in scaled parameters; one-sided ones (the zero of a mass) are not reached."""
    open_side = np.isfinite(low) & ~np.isfinite(high)
    return np.where(open_side, low + np.finfo(float).eps * np.maximum(scale, 1.0), low) / scale


def lbfgs(objective: Objective, start: NDArray, seed: int) -> OptimizeResult:
    """Quasi-Newton descent within the bounds."""
    descent = GradientDescent(objective, seed)
    scale, parameters, evaluations = descent.scale(start), objective.parameters, count()

    def scaled(x):
        cost, gradient = descent.value_and_gradient(x * scale)
        objective.told(next(evaluations), cost)
        return min(cost, _INFINITE), gradient * scale

    low, high = _inside(parameters.low, scale, parameters.high), parameters.high / scale
    end = minimize(
        scaled,
        start / scale,
        jac=True,
        method="L-BFGS-B",
        bounds=list(zip(low, high, strict=True)),
        options={
            "maxiter": _LBFGS_ITERATIONS,
            "maxfun": 2 * _LBFGS_ITERATIONS,
            "maxcor": 20,
            "ftol": objective.eps**0.75,
            "gtol": 1e-8,
        },
    )
    # Its line search may give up on the last digits of the cost. So judge by the gradient, in standard errors of the
    # stated noise, of what is not at a bound.
    inward = ((end.x > low) | (end.jac < 0)) & ((end.x < high) | (end.jac > 0))
    flat = np.max(np.abs(np.where(inward, end.jac, 0.0))) <= 1e-3 * np.sqrt(max(objective.misfit(end.x * scale), 1.0))
    return _end(objective, end.x * scale, status=2 if end.success or flat else 0, iterations=int(end.nit))


def adam(objective: Objective, start: NDArray, seed: int) -> OptimizeResult:
    """Adam with a falling rate, projected on the bounds; the best point it meets."""
    descent, parameters = GradientDescent(objective, seed), objective.parameters
    scale = descent.scale(start)
    cost = descent.value_and_gradient(start)[0]
    if not np.isfinite(cost):
        return _end(objective, start, status=0, iterations=0)
    # The scale of a well-determined parameter is its standard error: a bad start is hundreds of them away.
    reach = max(1.0, np.sqrt(2 * cost / start.size))
    low, high = _inside(parameters.low, scale, parameters.high), parameters.high / scale
    rule = optax.adam(optax.cosine_decay_schedule(_ADAM_RATE * reach, _ADAM_ITERATIONS, alpha=1e-4))
    x = start / scale
    state, update = rule.init(x), jax.jit(rule.update)
    best, where, earlier = np.inf, x, np.inf
    for iteration in range(_ADAM_ITERATIONS):
        cost, gradient = descent.value_and_gradient(x * scale)
        if iteration == _ADAM_ITERATIONS - _ADAM_ITERATIONS // 10:
            earlier = best
        if cost < best:
            best, where = cost, x
        if iteration % 50 == 0:
            objective.told(iteration, best)
        updates, state = update(gradient * scale, state)
        x = np.clip(np.asarray(x + updates), low, high)
    # The rate has fallen by then, so that the last tenth moves little where it has arrived.
    settled = np.isfinite(best) and earlier - best <= 1e-4 * best + objective.eps
    return _end(objective, where * scale, status=2 if settled else 0, iterations=_ADAM_ITERATIONS)


def _end(objective: Objective, theta: NDArray, status: int, iterations: int) -> OptimizeResult:
    """Where another method ended, as `trust_region.solve` would report it."""
    f, J = objective.evaluate(theta)
    return OptimizeResult(
        x=theta,
        cost=0.5 * float(f @ f),
        jac=J,
        grad=J.T @ f,
        active_mask=np.where(theta <= objective.parameters.low, -1, np.where(theta >= objective.parameters.high, 1, 0)),
        status=status,
        njev=iterations,
    )
