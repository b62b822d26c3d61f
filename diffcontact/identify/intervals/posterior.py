"""Posterior: which parameters the data leave possible, without the parabola that standard errors rest on.

    log p(theta | data) = -1/2 sum_runs |W r(theta)|^2 - 1/2 sum_priors ((theta_j - mean_j) / sigma_j)^2,
    low <= theta <= high, flat otherwise (in the logarithm, for a parameter in log scale)

r are the residuals and W the filters that make them white (`noise.whitening`). What differs from run to run is not in
it. The No-U-Turn sampler walks in coordinates x without bounds (`Unbounded`), y = y_0 + L x, with L L^T the inverse of
the curvature at the estimate.

Source: M. D. Hoffman, A. Gelman, J. Machine Learning Research 15 (2014) 1593, for the sampler; A. Vehtari, A. Gelman,
D. Simpson, B. Carpenter, P.-C. Buerkner, Bayesian Analysis 16 (2021) 667, on reading r-hat and the effective size.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from diffcontact.arguments import is_count
from diffcontact.host.progress import stage
from diffcontact.identify.estimate import Posterior, missed, resumed
from diffcontact.identify.noise import run_noise, whitening
from diffcontact.identify.objective import Objective
from diffcontact.identify.residual import Linearised, Run, residual
from diffcontact.identify.result import FitResult
from diffcontact.report.content import within
from diffcontact.status import Status

# The draws are made in so many pieces, at most.
_PIECES = 20
# Precision of the logistic distribution, which is what a flat prior in an interval is in coordinates without bounds.
_FLAT = 3.0 / np.pi**2
# Chains begin so many times as far from the estimate as they will end, so that r-hat has something to show.
_DISPERSION = 2.0
# Two for each half of each chain, as its variance takes.
_FEWEST = 4
# So many draws are simulated once more, for the status of their motions.
_TRIED = 50


def posterior(
    result: FitResult,
    *,
    chains: int = 4,
    draws: int = 500,
    warmup: int = 500,
    seed: int = 0,
) -> Posterior:
    """Draw from the posterior, chains side by side; needs blackjax (`pip install 'diffcontact[posterior]'`).

    The noise of a channel is taken to be equally large everywhere. Where it is larger in the samples that matter the
    intervals of the fit are wider, and it is they that hold.

    The chains begin around the estimate. They rarely cross to another minimum, however well they agree: what the fit
    has found elsewhere is `missed`.

    Args:
        result: what `fit` returned, with loss "linear"; runs, priors and noise are those of the fit.
        chains, draws: how many, and of how many draws each, at least 4.
        warmup: draws of each chain that tune the sampler and are thrown away.
        seed: of everything random.

    Raises:
        ValueError: numbers that are no such integers; a robust loss, which is not the logarithm of a density.
            A direction that the data cannot see; a channel that is fitted exactly, so that its noise is unknown.
            A fit that did not converge; a result that was read from a file.
        ImportError: blackjax is absent.
    """
    for name, value, least in (("chains", chains, 1), ("draws", draws, _FEWEST), ("warmup", warmup, 1)):
        if not is_count(value, least):
            raise ValueError(f"posterior({name}): {value!r}, expected an integer of at least {least}")
    objective = resumed(result, "posterior", all_seen=True)
    if objective.loss.robust:
        raise ValueError(f"posterior(result): loss {objective.loss.name!r} is no log-density, expected 'linear'")
    sphere = _Sphere(objective, result)
    key, scatter = jax.random.split(jax.random.key(seed))
    starts = _DISPERSION * jax.random.normal(scatter, (chains, objective.joint.size))
    x, divergent = _sample(sphere.log_density, jax.random.split(key, chains), starts, draws, warmup)
    theta = np.asarray(jax.vmap(jax.vmap(sphere.theta))(x), float)
    values = objective.parameters.values(theta)
    return Posterior(
        result.names,
        values,
        *_diagnostics(values),
        int(np.sum(np.asarray(divergent))),
        verdict=result.verdict,
        scope=within(len(result.residuals)),
        missed=missed(result, values),
        failure=_failure(objective, theta.reshape(-1, theta.shape[-1])),
    )


def _failure(objective: Objective, theta: NDArray) -> str:
    """What is wrong with the simulation at some of the draws theta (N, P), in as many as are tried."""
    for i in np.unique(np.linspace(0, len(theta) - 1, _TRIED).astype(int)):
        for trajectory in objective.joint.trajectories(theta[i], objective.joint.linearise(theta[i])):
            if status := Status(int(trajectory.status)):
                return status.message
    return ""


def _blackjax() -> Any:
    try:
        return import_module("blackjax")
    except ImportError as error:
        raise ImportError("posterior: blackjax is absent; pip install 'diffcontact[posterior]'") from error


def _sample(log_density: Callable, keys: Array, starts: Array, draws: int, warmup: int) -> tuple[Array, Array]:
    """Positions (chains, draws, P) and whether each diverged (chains, draws)."""
    blackjax = _blackjax()

    def tuned(key, start):
        return blackjax.window_adaptation(blackjax.nuts, log_density).run(key, start, num_steps=warmup)[0]

    def drawn(state, parameters, keys):
        kernel = blackjax.nuts(log_density, **parameters)

        def draw(state, key):
            state, info = kernel.step(key, state)
            return state, (state.position, info.is_divergent)

        return jax.lax.scan(draw, state, keys)

    tune, run = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
    each = jax.vmap(lambda key: jax.random.split(key, draws))(run)
    # As many pieces as are of one length, so that they are compiled once: after each there is a sign of life.
    pieces, found = max(k for k in range(1, _PIECES + 1) if draws % k == 0), []
    with stage("posterior: tuning"):
        state, parameters = jax.block_until_ready(jax.jit(jax.vmap(tuned))(tune, starts))
    draw_more = jax.jit(jax.vmap(drawn))
    with stage("posterior: draws", total=draws) as at:
        for piece in jnp.split(each, pieces, axis=1):
            state, some = jax.block_until_ready(draw_more(state, parameters, piece))
            found.append(some)
            at(len(found) * draws // pieces)
    positions, divergent = zip(*found, strict=True)
    return jnp.concatenate(positions, axis=1), jnp.concatenate(divergent, axis=1)


def _diagnostics(values: NDArray) -> tuple[NDArray, NDArray]:
    """r-hat and effective size (P,) of values (chains, n, P), from the halves of the chains."""
    measures, half = _blackjax().diagnostics, values.shape[1] // 2
    values = np.concatenate([values[:, :half], values[:, -half:]])
    r_hat, effective = measures.potential_scale_reduction(values), measures.effective_sample_size(values)
    # blackjax drops the axis of a single parameter.
    return np.reshape(r_hat, values.shape[2:]).astype(float), np.reshape(effective, values.shape[2:]).astype(float)


class _Sphere:
    """The posterior in coordinates x (P,) in which it is nearly a standard normal distribution around zero."""

    def __init__(self, objective: Objective, result: FitResult):
        parameters = objective.parameters
        self.priors, self.log = objective.priors, parameters.log
        self.unbounded = Unbounded(parameters.low, parameters.high)
        start = _inside(objective, result)
        at = objective.joint.linearise(start)
        filters = [_filter(run, here, i) for i, (run, here) in enumerate(zip(objective.joint.runs, at, strict=True))]
        self.groups = _alike(objective.joint.runs, filters)
        self.center = jnp.asarray(self.unbounded.coordinates(start))
        curvature = np.diag(self.priors.information(start))
        for run, here, W in zip(objective.joint.runs, at, filters, strict=True):
            J = np.asarray(_filtered(W[: run.length, :, :, None], here.J)).reshape(-1, run.index.size)
            curvature[np.ix_(run.index, run.index)] += J.T @ J
        slopes = np.exp(np.asarray(self.unbounded.log_slope(self.center), float))
        curvature = curvature * np.outer(slopes, slopes)
        curvature += np.diag(np.where(self.unbounded.above | self.unbounded.below, _FLAT, 0.0))
        self.spread = jnp.asarray(np.linalg.inv(np.linalg.cholesky(curvature)).T)

    def theta(self, x: Array) -> Array:
        """(P,) free parameters at x, as the optimiser sees them."""
        return self.unbounded.theta(self.center + self.spread @ x)

    def log_density(self, x: Array) -> Array:
        """Logarithm of the posterior density of x up to a constant; -inf where the simulation is not finite."""
        y = self.center + self.spread @ x
        theta = self.unbounded.theta(y)
        value = jnp.sum(self.unbounded.log_slope(y)) - 0.5 * jnp.sum(self._prior_rows(theta) ** 2)
        for model, group in self.groups:

            def misfit(index, fixed, samples, W, model=model):
                r, _ = residual(model, theta[index], fixed, samples)
                return 0.5 * jnp.sum(_filtered(W, r) ** 2)

            value = value - jnp.sum(jax.vmap(misfit)(*group))
        return jnp.where(jnp.isfinite(value), value, -jnp.inf)

    def _prior_rows(self, theta: Array) -> Array:
        values = jnp.where(self.log, jnp.exp(jnp.where(self.log, theta, 0.0)), theta)
        return (values[self.priors.index] - self.priors.mean) / self.priors.sigma


def _inside(objective: Objective, result: FitResult) -> NDArray:
    """(P,) the estimate, moved half a standard error away from a bound that it is at."""
    parameters = objective.parameters
    stderr = np.sqrt(np.diag(result.covariance)) / parameters.slopes(parameters.start)
    margin = np.minimum(stderr / 2, (parameters.high - parameters.low) / 4)
    return np.clip(parameters.start, parameters.low + margin, parameters.high - margin)


def _filter(run: Run, at: Linearised, i: int) -> NDArray:
    """(n, k, p+1) the whitening filters of a run's channels, zero behind its end."""
    channels, models = [], run_noise(at.r, at.J).models
    for c, (present, model) in enumerate(zip(run.present.T, models, strict=True)):
        if not present.any():
            channels.append(np.zeros((run.length, 1)))
            continue
        if not model.sigma > 0:
            raise ValueError(f"posterior(result): run {i}, channel {c} is fitted exactly; expected some noise")
        channels.append(whitening(model, present))
    longest = max(W.shape[1] for W in channels)
    behind = run.samples.times.shape[0] - run.length
    return np.stack([np.pad(W, ((0, behind), (0, longest - W.shape[1]))) for W in channels], axis=1)


def _filtered(W: Any, r: Any) -> Array:
    """(n, k, ...) residuals, or their derivatives, through the filters: sum_j W[t, c, j] r[t - j, c]."""
    lagged = [jnp.pad(r, ((lag, 0), *((0, 0),) * (r.ndim - 1)))[: r.shape[0]] for lag in range(W.shape[2])]
    return sum((W[:, :, lag] * part for lag, part in enumerate(lagged)), jnp.zeros_like(r))


def _alike(runs: list[Run], filters: list[NDArray]) -> list[tuple[Any, tuple]]:
    longest = max(W.shape[2] for W in filters)
    groups: dict[Any, list[tuple]] = {}
    for run, W in zip(runs, filters, strict=True):
        W = np.asarray(np.pad(W, ((0, 0), (0, 0), (0, longest - W.shape[2]))), run.samples.values.dtype)
        groups.setdefault((run.model, run.samples.times.shape), []).append((run.index, run.fixed, run.samples, W))
    return [(model, jax.tree.map(lambda *leaves: np.stack(leaves), *members)) for (model, _), members in groups.items()]


class Unbounded:
    """The map between coordinates y (P,) without bounds and parameters theta (P,) within low and high (infinite: none).

    low and high: theta = low + (high - low) / (1 + exp(-y)); one of them: at the distance exp(y) from it; none: y.
    """

    def __init__(self, low: NDArray, high: NDArray):
        self.above, self.below = np.isfinite(low), np.isfinite(high)
        self.both, self.one = self.above & self.below, self.above ^ self.below
        # Finite everywhere: what an infinite bound would multiply is not used, but would be NaN.
        self.low, self.high = np.where(self.above, low, 0.0), np.where(self.below, high, 0.0)

    def theta(self, y: Array) -> Array:
        """(P,) parameters at coordinates y; traceable."""
        distance = jnp.exp(jnp.where(self.one, y, 0.0))
        half = jnp.where(self.above, self.low + distance, self.high - distance)
        inside = self.low + (self.high - self.low) * jax.nn.sigmoid(y)
        return jnp.where(self.both, inside, jnp.where(self.one, half, y))

    def log_slope(self, y: Array) -> Array:
        """(P,) log |d theta / d y| at coordinates y; traceable."""
        width = np.log(np.where(self.both, self.high - self.low, 1.0))
        inside = width + jax.nn.log_sigmoid(y) + jax.nn.log_sigmoid(-y)
        return jnp.where(self.both, inside, jnp.where(self.one, y, 0.0))

    def coordinates(self, theta: NDArray) -> NDArray:
        """(P,) coordinates of parameters strictly within their bounds."""
        part = np.where(self.both, (theta - self.low) / np.where(self.both, self.high - self.low, 1.0), 0.5)
        distance = np.where(self.one, np.where(self.above, theta - self.low, self.high - theta), 1.0)
        return np.where(self.both, np.log(part / (1 - part)), np.where(self.one, np.log(distance), theta))
