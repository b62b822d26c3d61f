"""Noise of a run: how rough its channels are, how strongly correlated in time, and what outliers may cost.

**Roughness.** Third differences leave nothing of a parabola, and of white noise of standard deviation sigma a normal
number of variance 20 sigma^2. Their median does not mind impacts, lost samples and false readings::

    sigma = median |x_{i+3} - 3 x_{i+2} + 3 x_{i+1} - x_i| / (0.6745 sqrt(20))

**Correlation** is that of an autoregressive model of each channel::

    r_t + a_1 r_{t-1} + ... + a_p r_{t-p} = eps_t,      eps white with standard deviation sigma

A fit takes out of the residuals whatever looks like a change of a parameter. Restricted likelihood (REML) undoes that::

    -2 log L = (n - P) log sigma^2 + sum_t log v_t + log |X^T X|,     X = the columns of J, filtered like r
    sigma^2  = (RSS of filtered r on X) / (n - P)

A sample with only m < p predecessors (at the start, after a gap) is predicted from those, by the Durbin-Levinson
coefficients of order m, with the relative variance v = 1 / prod_{i > m} (1 - kappa_i^2). The partial correlations
kappa_i in (-1, 1) are the free variables; AIC chooses p. Samples are counted by index. A channel that was measured at
every s-th index has its model in steps of s indices. The spectrum is flat below half of P/2 oscillations per record,
where a fit of P parameters has left nothing to see. The channels of a run share one polynomial, with a scale each,
unless polynomials of their own are likelier (AIC).

**Robust losses** say what an outlier may cost, cost = 1/2 sum_i C^2 rho(r_i^2 / C^2), C = f_scale::

    linear   rho(z) = z                                        the sum of squares
    soft_l1  rho(z) = 2 (sqrt(1 + z) - 1)                      squares near zero, |r| far out
    huber    rho(z) = z if z <= 1, else 2 sqrt(z) - 1          the same, with a kink in the curvature
    cauchy   rho(z) = ln(1 + z)                                far out hardly more than nothing

as scipy's `least_squares` has them. Every one is a sum of squares of other residuals, with the exact gradient,

    s_i = sign(r_i) C sqrt(rho(r_i^2 / C^2)),      ds_i/dr_i = rho' r_i / s_i >= 0

Source: H. D. Patterson, R. Thompson, Biometrika 58 (1971) 545, for REML; O. Barndorff-Nielsen, G. Schou, J.
Multivariate Analysis 3 (1973) 408, for the partial correlations; H. Akaike, IEEE Trans. Automatic Control 19 (1974)
716; P. J. Huber, Ann. Math. Statist. 35 (1964) 73, and B. Triggs, P. McLauchlan, R. Hartley, A. Fitzgibbon, Bundle
Adjustment (2000), section 4.3, for the losses.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.optimize import minimize
from scipy.special import polygamma

from diffcontact.numerics.least_squares import orthonormal

# With fewer samples there is nothing to take a median of.
FEWEST = 8
# Samples for one degree of freedom of the square: neighbouring third differences are correlated by -3/4, 3/10 and
# -1/20, which leaves 1 of 2.31, and their median has 0.37 of the information of their mean square.
PER_FREEDOM = 6.2
# The same of their mean square, a little more than the 2.31 of white noise since far ones are winsorised.
PER_FREEDOM_OF_A_MEAN = 2.6
# Of a step: as far from a multiple of it numbers may be that are read to it and then converted.
_MULTIPLE = 0.01
# Correlations beyond are those of a motion.
_SLOWEST = 0.8


def roughness(values: NDArray) -> float:
    """One standard deviation of the noise of a column (n,) of equally spaced samples, NaN where one is lost.

    The smallest of three estimates counts: of unbroken stretches, of all samples, of those that differ from the one
    before (films repeat pictures). At least the rounding of the numbers; infinite for fewer than eight.
    """
    seen = values[np.isfinite(values)]
    if seen.size < FEWEST:
        return float("inf")
    steps = np.diff(np.unique(seen))
    multiples = steps / steps.min() if steps.size else steps
    rounded = np.all(np.abs(multiples - np.round(multiples)) < _MULTIPLE)
    moved = seen[np.append(True, np.diff(seen) != 0)]
    noise = min(_median(part) for part in (values, seen, moved))
    return max(noise, float(steps.min()) / np.sqrt(12.0) if steps.size and rounded else 0.0)


def robust_size(r: NDArray, axis: int | None = None) -> NDArray:
    """The standard deviation of residuals that are normal but for a few, which do not move it; NaN where missing."""
    return 1.4826 * np.nanmedian(np.abs(r), axis=axis)


def _median(x: NDArray) -> float:
    third = np.abs(np.diff(x, 3))
    known = third[np.isfinite(third)]
    return float(np.median(known) / (0.6745 * np.sqrt(20.0))) if known.size >= FEWEST - 3 else float("inf")


def neighbourly(values: NDArray) -> NDArray:
    """(k,) standard deviations of residuals (n, k) that are noise with correlated neighbours, NaN where one is lost.

    Third differences of samples s apart have, for correlations rho^s, a variance of sigma^2 f(rho^s), with
    f(c) = 20 - 30 c + 12 c^2 - 2 c^3. Those of s = 1 and s = 2 tell sigma and rho, one for all channels.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> noise = np.convolve(rng.normal(size=2000), 0.5 ** np.arange(9))[:2000] * np.sqrt(0.75)
        >>> print(f"{neighbourly(noise[:, None])[0]:.2f}, {roughness(noise):.2f}")
        1.00, 0.60
    """
    near, far = (np.array([mean_square_of_steps(channel, apart) for channel in values.T]) for apart in (1, 2))
    known = (near > 0) & np.isfinite(near) & np.isfinite(far)
    tried = np.linspace(0.0, _SLOWEST, 81)
    ratio = float(np.mean(far[known] / near[known])) if known.any() else 1.0
    rho = float(np.interp(ratio, _third(tried**2) / _third(tried), tried))
    rough = np.array([roughness(channel) for channel in values.T])
    return np.where(known, np.sqrt(near * 20.0 / _third(rho)), rough)


def _third(rho):
    return 20.0 - 30.0 * rho + 12.0 * rho**2 - 2.0 * rho**3


def mean_square_of_steps(x: NDArray, apart: int = 1) -> float:
    """The variance of white noise of as large third differences, of samples (n,) so far apart, far ones winsorised.

    It is surer than the square of `roughness`, and follows false samples further. Infinite for fewer than eight.
    """
    third = x[3 * apart :] - 3 * x[2 * apart : -apart] + 3 * x[apart : -2 * apart] - x[: -3 * apart]
    known = np.abs(third[np.isfinite(third)])
    if known.size < FEWEST - 3:
        return float("inf")
    # Of normal numbers 0.9734 of the square is left.
    return float(np.mean(np.minimum(known, 3 * np.median(known) / 0.6745) ** 2)) / (20.0 * 0.9734)


MAX_ORDER = 8
# arctanh of the largest partial correlation that is tried, 0.9999: beyond lies a random walk, whose variance is
# infinite.
_LARGEST = 5.0
_SCAN = np.linspace(-0.9, 0.9, 7)
# Of arctanh kappa, for the curvature of the deviance: below its standard deviation in any record of use.
_STEP = 0.03
# Deviance of a filter that wipes out a column of J to rounding; finite, so that differences of it are numbers.
_IMPOSSIBLE = 1e100


@dataclass(frozen=True)
class Autoregression:
    """An AR(p) model of one channel."""

    polynomial: NDArray  # (s p + 1,) coefficients 1, a_1, ..., a_p, each s indices behind the other and zeros between.
    sigma: float  # standard deviation of the innovations
    slowest: float = 0.0  # frequency [rad per sample] below which the spectrum is flat
    freedom: float = np.inf  # degrees of freedom of sigma
    # Pairs of polynomials, displaced by one standard deviation to either side. There is one pair for each independent
    # direction in which the residuals leave the polynomial uncertain.
    perturbations: tuple[tuple[NDArray, NDArray], ...] = ()
    every: int = 1  # s, 1 where most samples have a neighbour

    @property
    def order(self) -> int:
        return (self.polynomial.size - 1) // self.every

    def spectrum(self, n: int) -> NDArray:
        """Power of the process at the frequencies of a real Fourier transform of length n."""
        frequency, turn = np.fft.rfftfreq(n) * 2 * np.pi, 2 * np.pi / self.every
        # What samples that are s apart show of a frequency is the same at all its images.
        frequency = np.maximum(np.abs(frequency - turn * np.round(frequency / turn)), self.slowest)
        response = np.exp(-1j * np.outer(frequency, np.arange(self.polynomial.size))) @ self.polynomial
        return (self.sigma / np.abs(response)) ** 2

    def autocovariance(self, n: int) -> NDArray:
        """(n,) autocovariances of the process at lags 0 to n-1."""
        return np.fft.irfft(self.spectrum(grid(n)), grid(n))[:n]


def autoregression(r: NDArray, J: NDArray) -> Autoregression:
    """Fit an AR model to one channel's residuals r (n,), NaN where missing, by REML, its order by AIC.

    J (n, P) is their Jacobian with respect to what was fitted, of any rank.
    """
    present = ~np.isnan(r)
    scale = np.sqrt(np.mean(r[present] ** 2)) if present.any() else 0.0
    if scale == 0.0:
        return Autoregression(np.ones(1), 0.0)
    X = np.column_stack([orthonormal(np.where(present[:, None], J, 0.0)), np.where(present, r / scale, 0.0)])
    count, rank = int(present.sum()), X.shape[1] - 1
    if count <= rank:
        return Autoregression(np.ones(1), float(scale), freedom=1.0)
    highest = int(np.clip((count - rank) // 10, 0, MAX_ORDER))
    every = spacing(present)
    moments = _Moments(X, present, highest, every)
    kappa = np.zeros(0)
    deviance, sigma = moments.deviance(kappa)
    best = deviance, kappa, sigma
    for p in range(1, highest + 1):
        kappa = moments.best_extension(kappa)
        deviance, sigma = moments.deviance(kappa)
        if deviance + 2 * p < best[0]:
            best = deviance + 2 * p, kappa, sigma
        elif p > best[1].size + 1:
            break
    _, kappa, sigma = best
    slowest, freedom = 0.5 * np.pi * rank / r.size, float(count - rank)
    pairs = tuple((_spread(a, every), _spread(b, every)) for a, b in moments.perturbations(kappa))
    polynomial = _spread(_polynomials(kappa)[-1], every)
    return Autoregression(polynomial, float(sigma * scale), slowest, freedom, pairs, every)


def whitening(model: Autoregression, present: NDArray) -> NDArray:
    """(n, p+1) filter W that makes noise white: sum_j W[t, j] r[t - j] has variance 1, zero where missing."""
    p, polynomial, variance = model.polynomial.size - 1, model.polynomial, 1.0
    rows = np.zeros((p + 1, p + 1))
    for m in range(p, -1, -1):
        rows[m, : m + 1] = polynomial / (model.sigma * np.sqrt(variance))
        kappa = -polynomial[-1]
        if m:
            # Durbin and Levinson's recursion backwards.
            polynomial = ((polynomial + kappa * polynomial[::-1]) / (1 - kappa**2))[:-1]
            variance /= 1 - kappa**2
    before = model.every * predecessors(present, model.order, model.every)
    return np.where(present[:, None], rows[before], 0.0)


def filtered(W: NDArray, x: NDArray) -> NDArray:
    """(n, m) sum over lags of W (n, p+1) with x (n, m)."""
    found = np.zeros_like(x)
    for lag in range(min(W.shape[1], len(x))):
        found[lag:] += W[lag:, lag, None] * x[: len(x) - lag]
    return found


def effective_count(model: Autoregression, n: int) -> float:
    """Satterthwaite's count of samples that are independent, n gamma_0^2 / sum_tau (1 - |tau|/n) gamma_tau^2."""
    gamma = model.autocovariance(n)
    if gamma[0] == 0.0:
        return float(n)
    weight = 1.0 - np.arange(n) / n
    return float(n / (2 * weight @ (gamma / gamma[0]) ** 2 - 1.0))


class _Moments:
    """Lagged cross products of X = [Q, r]: all that the likelihood needs, whatever the filter, collected once."""

    def __init__(self, X: NDArray, present: NDArray, highest: int, every: int = 1):
        self.rank, self.size = X.shape[1] - 1, float(X[:, -1] @ X[:, -1])
        before = np.where(present, predecessors(present, highest, every), -1)
        orders = range(highest + 1)
        exactly = [_lagged_products(X, np.flatnonzero(before == m), every * np.arange(m + 1)) for m in orders]
        # An AR(p) model needs the samples with m < p predecessors apart, all others together.
        self.count = [[*(int(np.sum(before == m)) for m in range(p)), int(np.sum(before >= p))] for p in orders]
        # (sum_m (m+1)^2, c^2): row (m, a, b) multiplies a_a a_b of the polynomial of order m.
        self.products = []
        for p in orders:
            rest = np.sum([products[: p + 1, : p + 1] for products in exactly[p:]], axis=0)
            parts = [products.reshape(-1, X.shape[1] ** 2) for products in (*exactly[:p], rest)]
            self.products.append(np.concatenate(parts))

    def deviance(self, kappa: NDArray) -> tuple[float, float]:
        """-2 log L up to a constant, and the innovation sigma that maximises L, for partial correlations kappa (p,)."""
        p, rank = kappa.size, self.rank
        # v_m = 1 / prod_{i > m} (1 - kappa_i^2): what m predecessors leave unexplained beyond p of them.
        variance = 1.0 / np.append(np.cumprod((1.0 - kappa**2)[::-1])[::-1], 1.0)
        weights = [np.outer(a / v, a).ravel() for a, v in zip(_polynomials(kappa), variance, strict=True)]
        C = (np.concatenate(weights) @ self.products[p]).reshape(rank + 1, rank + 1)
        logarithms = np.dot(self.count[p], np.log(variance))
        G, b, s = C[:rank, :rank], C[:rank, rank], C[rank, rank]
        freedom = sum(self.count[p]) - rank
        try:
            factor = cho_factor(G) if rank else (np.ones((1, 1)), True)
        except LinAlgError:
            return _IMPOSSIBLE, 0.0
        # Cross products of r resolve no less than their rounding: residuals that are rounding themselves are fitted
        # as well as that, and not better.
        rest = max(s - b @ cho_solve(factor, b) if rank else s, np.finfo(float).eps * self.size)
        determinant = 2 * np.sum(np.log(np.diag(factor[0]))) if rank else 0.0
        return freedom * np.log(rest / freedom) + determinant + logarithms, np.sqrt(rest / freedom)

    def best_extension(self, kappa: NDArray) -> NDArray:
        """(p+1,) partial correlations of highest likelihood, starting from those of order p and a scan of the next."""
        # The likelihood is flat towards +-1, so that a descent from afar may end there.
        first = min(_SCAN, key=lambda value: self.deviance(np.append(kappa, value))[0])
        result = minimize(
            lambda y: self.deviance(np.tanh(y))[0],
            np.arctanh(np.append(kappa, first)),
            method="L-BFGS-B",
            bounds=[(-_LARGEST, _LARGEST)] * (kappa.size + 1),
        )
        return np.tanh(result.x)

    def perturbations(self, kappa: NDArray) -> tuple[tuple[NDArray, NDArray], ...]:
        """Pairs of polynomials, one sigma of arctanh kappa (p,) to either side, by the curvature of the deviance."""
        y, step = np.arctanh(kappa), _STEP * np.eye(kappa.size)

        def deviance(*moves):
            return self.deviance(np.tanh(np.clip(y + sum(moves), -_LARGEST, _LARGEST)))[0]

        curvature = np.array(
            [[deviance(a, b) - deviance(a, -b) - deviance(-a, b) + deviance(-a, -b) for a in step] for b in step]
        ).reshape(kappa.size, kappa.size)
        values, directions = np.linalg.eigh(curvature / (4 * _STEP**2))
        moves = directions * np.sqrt(2.0 / (np.maximum(values, 0.0) + 2.0))

        def displaced(move):
            return _polynomials(np.tanh(np.clip(y + move, -_LARGEST, _LARGEST)))[-1]

        return tuple((displaced(-move), displaced(move)) for move in moves.T)


def _polynomials(kappa: NDArray) -> list[NDArray]:
    polynomials = [np.ones(1)]
    for value in kappa:
        extended = np.append(polynomials[-1], 0.0)
        polynomials.append(extended - value * extended[::-1])
    return polynomials


def _spread(polynomial: NDArray, every: int) -> NDArray:
    spread = np.zeros(every * (polynomial.size - 1) + 1)
    spread[::every] = polynomial
    return spread


def _lagged_products(X: NDArray, rows: NDArray, lags: NDArray) -> NDArray:
    """(m+1, m+1, c, c) sums over the rows t of X[t - a] X[t - b]^T, for a and b among the lags (m+1,)."""
    shape = lags.size, X.shape[1]
    lagged = X[rows[:, None] - lags].reshape(rows.size, lags.size * X.shape[1])
    return (lagged.T @ lagged).reshape(*shape, *shape).transpose(0, 2, 1, 3)


def predecessors(present: NDArray, highest: int, every: int = 1) -> NDArray:
    """How many unbroken measured samples, each `every` indices behind the other, come before each sample, at most
    `highest`."""
    count = np.zeros(present.size, int)
    for t in range(every, present.size):
        count[t] = min(count[t - every] + 1, highest) if present[t - every] else 0
    return count


def spacing(present: NDArray) -> int:
    """How many indices most measured samples are apart from the one before."""
    apart = np.diff(np.flatnonzero(present))
    return int(np.argmax(np.bincount(apart))) if apart.size else 1


def grid(n: int) -> int:
    """Length of the Fourier transforms for n samples: long enough that the correlation has decayed before it wraps."""
    return 8 * n


def autocorrelation(r: NDArray, lags: int) -> NDArray:
    """Correlations (lags + 1, k) of residuals (n, k) so many samples apart; NaN where there is no pair."""
    power = np.nanmean(r**2, axis=0)
    with warnings.catch_warnings():
        # A lag without any pair is NaN, and says so by being NaN.
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.stack([np.nanmean(r[lag:] * r[: len(r) - lag], axis=0) / power for lag in range(lags + 1)])


@dataclass(frozen=True)
class RunNoise:
    """The models of a run's channels, and pairs of such lists, displaced by one sigma in each uncertain direction."""

    models: list[Autoregression]
    perturbations: list[tuple[list[Autoregression], list[Autoregression]]]


def run_noise(r: NDArray, J: NDArray) -> RunNoise:
    """Models of a run's channels: of one polynomial for all, or of one for each; r (n, k), J (n, k, P)."""
    channels = range(r.shape[1])
    models, groups = [autoregression(r[:, c], J[:, c]) for c in channels], [[c] for c in channels]
    common = _common(r, J, models) if len(models) > 1 else models
    if misfit(r, common) + 2 * common[0].order < misfit(r, models) + 2 * sum(model.order for model in models):
        models, groups = common, [list(channels)]
    perturbations = []
    for group in groups:
        for pair in models[group[0]].perturbations:
            perturbations.append(
                tuple([replace(m, polynomial=a) if c in group else m for c, m in enumerate(models)] for a in pair)
            )
    for c, model in enumerate(models):
        # Half that of the logarithm of chi^2.
        deviation = 0.5 * np.sqrt(polygamma(1, model.freedom / 2))
        displaced = (replace(model, sigma=model.sigma * np.exp(side * deviation)) for side in (-1, 1))
        perturbations.append(tuple([*models[:c], other, *models[c + 1 :]] for other in displaced))
    return RunNoise(models, perturbations)


def _common(r: NDArray, J: NDArray, separate: list[Autoregression]) -> list[Autoregression]:
    """One polynomial for all channels, each in the scale of its innovations, one behind the other with a gap."""
    scale = np.array([model.sigma for model in separate])
    # A channel without noise, or without samples, has nothing to say.
    r, J = np.where(scale > 0, r, np.nan), np.where(scale[:, None] > 0, J, 0.0)
    count, divisor = np.sum(~np.isnan(r), axis=0), np.where(scale > 0, scale, 1.0)
    # As wide as any between two samples, so that no step leads from one channel to the next.
    gap = max(int(np.max(np.diff(np.flatnonzero(seen)), initial=1)) for seen in ~np.isnan(r).T)
    one = np.concatenate([r / divisor, np.full((gap, r.shape[1]), np.nan)]).ravel(order="F")
    columns = np.concatenate([J / divisor[:, None], np.zeros((gap, *J.shape[1:]))]).transpose(1, 0, 2)
    model = autoregression(one, columns.reshape(one.size, -1))
    share = np.maximum(count, 1) / max(count.sum(), 1)
    return [replace(model, sigma=model.sigma * s, freedom=model.freedom * f) for s, f in zip(scale, share, strict=True)]


def misfit(r: NDArray, models: list[Autoregression]) -> float:
    """-2 log L of residuals r (n, k), whatever was fitted, under polynomials that have the scale which suits them."""
    total = 0.0
    for channel, model in zip(r.T, models, strict=True):
        present = ~np.isnan(channel)
        if model.sigma == 0.0:
            continue
        W = whitening(model, present)
        innovations = filtered(W, np.where(present, channel, 0.0)[:, None])[:, 0]
        total += present.sum() * np.log(np.mean(innovations[present] ** 2)) - 2 * np.sum(np.log(W[present, 0]))
    return total


def score_covariance(models: list[Autoregression], r: NDArray, J: NDArray) -> NDArray:
    """Covariance (P, P) of the score J^T r, J (n, k, P), when r (n, k) is noise of the given models of its channels."""
    return correlated_score(
        [model.spectrum(grid(r.shape[0])) for model in models], innovation_correlation(models, r), J
    )


def correlated_score(spectra: Sequence[NDArray], rho: NDArray, J: NDArray) -> NDArray:
    """Covariance (P, P) of the score J^T r of noise with given spectra, rho (k, k) the correlation of innovations.

    With F the transforms of J (n, k, P), zero-padded to L = `grid(n)`:
    sum_cd rho_cd sum_w sqrt(S_c(w) S_d(w)) F_c(w)^* F_d(w) / L.
    """
    L = grid(J.shape[0])
    F = np.fft.rfft(J, L, axis=0) * np.sqrt(np.asarray(spectra)).T[:, :, None]
    # A real transform holds one of each pair of conjugate frequencies, 0 and the highest (L is even) stand alone.
    weight = np.full(F.shape[0], 2.0 / L)
    weight[[0, -1]] /= 2.0
    return np.einsum("w,cd,wcp,wdq->pq", weight, rho, F.conj(), F, optimize=True).real


def innovation_correlation(models: list[Autoregression], r: NDArray) -> NDArray:
    """(k, k) correlation of the innovations that residuals (n, k) have under models of their channels."""
    present = ~np.isnan(r)
    filled = np.where(present, r, 0.0)
    innovations = np.zeros_like(filled)
    for channel, model in enumerate(models):
        seen = present[:, channel]
        whole = seen & (predecessors(seen, model.order, model.every) == model.order)
        innovations[whole, channel] = np.convolve(model.polynomial, filled[:, channel])[: seen.size][whole]
    norms = np.linalg.norm(innovations, axis=0)
    norms[norms == 0.0] = 1.0
    correlation = (innovations / norms).T @ (innovations / norms)
    np.fill_diagonal(correlation, 1.0)
    return correlation


LOSSES = ("linear", "soft_l1", "huber", "cauchy")
ROBUST = f"expected loss {', '.join(map(repr, LOSSES[1:-1]))} or {LOSSES[-1]!r}"


@dataclass(frozen=True)
class Loss:
    """A loss and its scale C [standard deviations], for numpy and jax arrays alike; hashable, static under jit.

    Raises:
        ValueError: an unknown name, a scale that is not positive.
    """

    name: str = "linear"
    scale: float = 1.0

    def __post_init__(self):
        if self.name not in LOSSES:
            raise ValueError(f"fit(loss): {self.name!r} does not exist; there is {', '.join(map(repr, LOSSES))}")
        if not isinstance(self.scale, Real) or not 0 < self.scale < float("inf"):
            raise ValueError(f"fit(f_scale): {self.scale!r}, expected a positive number of standard deviations")

    @property
    def robust(self) -> bool:
        return self.name != "linear"

    def rho(self, z: Any) -> tuple[Any, Any, Any]:
        """rho and its first two derivatives at z >= 0."""
        xp = _module_of(z)
        z = xp.asarray(z)
        if self.name == "linear":
            return z, xp.ones_like(z), xp.zeros_like(z)
        if self.name == "soft_l1":
            root = xp.sqrt(1 + z)
            return 2 * z / (root + 1), 1 / root, -0.5 / root**3
        if self.name == "huber":
            root = xp.sqrt(xp.maximum(z, 1.0))
            far = z > 1
            return xp.where(far, 2 * root - 1, z), 1 / root, xp.where(far, -0.5 / root**3, 0.0)
        return xp.log1p(z), 1 / (1 + z), -1 / (1 + z) ** 2

    def squared(self, r: Any) -> tuple[Any, Any]:
        """s whose squares are the loss of the residuals r, and ds/dr; both shaped like r."""
        xp = _module_of(r)
        if not self.robust:
            return r, xp.ones_like(r)
        z = (r / self.scale) ** 2
        rho, first, _ = self.rho(z)
        # sqrt(rho / z), which goes to 1 where z goes to 0.
        near = z < xp.finfo(z.dtype).eps ** 0.5
        ratio = xp.sqrt(xp.where(near, 1.0, rho / xp.where(near, 1.0, z)))
        return r * ratio, first / ratio

    def influence(self, r: Any) -> tuple[Any, Any]:
        """psi = rho' r, the pull of a residual on the estimate, and its derivative psi'; both shaped like r."""
        z = (r / self.scale) ** 2
        _, first, second = self.rho(z)
        return first * r, first + 2 * z * second


def _module_of(x: Any) -> Any:
    return jnp if isinstance(x, jax.Array) else np
