"""Doubts about the estimate itself: how the fit ended, starts, loss, bounds, priors, a cost that is no parabola."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import chdtri

from diffcontact.identify.intervals.parabola import leaning, misjudged
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.verdict import Reason
from diffcontact.status import Status

# Standard deviations of a prior: once in 400 fits, and never.
_UNUSUAL, _IMPOSSIBLE = 3.0, 5.0
# One false alarm in a thousand fits, as in `patterns`.
_LEVEL = 1e-3
# What is simulated only to this many standard deviations of the noise tells nothing of it.
_ROUNDED = 1.0
# A fit that misses all samples together by so much of their noise passes through them: it moves no estimate by more
# than that part of its error.
_PASSES = 1e-3


def ending(evidence: Evidence) -> Iterator[Reason]:
    """Whether the fit arrived anywhere, and whether its simulations are right."""
    result = evidence.result
    if not result.converged:
        yield Reason(f"the fit did not converge: {result.message}", fatal=True)
    for i, trajectory in enumerate(result.trajectories):
        if status := Status(int(trajectory.status)):
            yield Reason(f"the simulation of {evidence.run(i)} cannot be trusted: {status.message}", fatal=True)


def untested(evidence: Evidence) -> Iterator[Reason]:
    """Whether anything is left over to test the model with, and where not, whether it passes through all samples."""
    objective, result = evidence.objective, evidence.result
    if result.dof > 0:
        return
    priors = f" and {objective.priors.count} priors" if objective.priors.count else ""
    free = f"{evidence.samples} samples{priors} are not more than {objective.joint.size} free parameters"
    missed = np.sqrt(2 * result.cost)
    if missed <= _PASSES or objective.exact(result.cost):
        yield Reason(
            f"{free}: the model passes through all of them, right or wrong, and nothing tests it. Measure more, or "
            "hold parameters"
        )
    else:
        yield Reason(
            f"{free}, so nothing tests the model; it could pass through all of them and misses them by {missed:.2g} "
            "standard deviations: a bound or a local minimum has stopped the fit. Try more starts, measure more, or "
            "hold parameters, those first that the data cannot see",
            fatal=True,
        )


def rounded(evidence: Evidence) -> Iterator[Reason]:
    """Whether rounding is larger than the noise was stated to be: then nothing tests the model, either."""
    n = evidence.samples
    single = evidence.objective.eps > np.finfo(float).eps
    advice = "Compute in double precision (jax_enable_x64)" if single else "State the noise as it is, or fewer steps"
    if evidence.exact and evidence.misfit > chdtri(n, _LEVEL) / n:
        yield Reason(
            f"residuals are {np.sqrt(evidence.misfit):.2g} times as large as the stated noise, and no larger than the "
            f"rounding of the simulation, so nothing was looked for in them. {advice}"
        )
    elif rounding := max((run.change for run in evidence.objective.joint.runs if run.imprecise), default=0.0):
        yield Reason(
            f"the simulation is rounded by {rounding:.2g} of the stated noise, whatever its steps: "
            f"{'single' if single else 'double'} precision is too coarse for such a noise. {advice}",
            fatal=rounding > _ROUNDED,
        )


def starts(evidence: Evidence) -> Iterator[Reason]:
    """Whether other starts might have ended lower: noise does not explain the best end, and hardly any came to it."""
    costs = np.array(evidence.result.start_costs)
    if costs.size < 2 or evidence.objective.explained(evidence.theta):
        return
    together = int(np.sum(costs <= costs[0] * 1.01))
    if together <= max(1, costs.size // 8):
        yield Reason(
            f"{together} of {costs.size} starts ended at the best cost {costs[0]:.4g}, the next at "
            f"{costs[min(together, costs.size - 1)]:.4g}, so a better minimum may exist. Try more starts, or a start "
            "from the fit of a similar run"
        )


def outlying(evidence: Evidence) -> Iterator[Reason]:
    """Whether the loss takes noise for outliers."""
    if evidence.within_noise:
        loss, part = evidence.objective.loss, evidence.objective.loss.scale / evidence.spread
        yield Reason(
            f"loss={loss.name!r} takes the noise for outliers: f_scale = {loss.scale:.3g} is {part:.2g} standard "
            "deviations of the residuals. The estimate follows the few samples that it happens to meet, and the "
            "intervals are too short. State the noise as it is, or noise='estimated', and an f_scale of 1 or more",
            fatal=True,
        )


def unseen(evidence: Evidence) -> Iterator[Reason]:
    """What the data do not determine, or only bound."""
    result = evidence.result
    for name in result.gripped:
        parameter, at = result.place(name)
        least = float(np.asarray(result.interval95[parameter])[at][0])
        yield Reason(
            f"{name} >= {evidence.shown(name, least)} (95 %): it gripped, so the data only bound it from below"
        )
    for along in result.profiles:
        parameter, at = result.place(along.name)
        inside = np.flatnonzero(along.rise <= np.asarray(result.quantile[parameter])[at] ** 2)
        # Where nothing rubs a second valley of the cost has other reasons.
        if evidence.objective.joint.rubs and np.any(np.diff(inside) > 1):
            found = along.values[np.argmin(np.abs(along.rise))]
            far = along.values[inside][np.argmax(np.abs(along.values[inside] - found))]
            yield Reason(
                f"{along.name} may also be far from its estimate, as {evidence.shown(along.name, float(far))}: there a "
                "contact grips that slips here, or the other way round, and with other values of what is not seen (a "
                "spin, a friction) the data are explained, too. The interval holds both. Measure the spin, or hold it"
            )
    for direction in result.unidentifiable:
        if set(direction) <= set(result.gripped):
            continue
        yield Reason(f"the data cannot see {' with '.join(direction)}: no error can be given. Hold it, or tie it")


def bounds(evidence: Evidence) -> Iterator[Reason]:
    """Estimates that their bounds have stopped.

    A bound of zero is physics: no damping, drag or friction is negative. It is told where the data would go further by
    more than noise does. Without the bound the estimate would be J_j^T f / |J_j|^2 away, of the part of J_j that the
    other parameters cannot make up for.
    """
    result, objective, theta = evidence.result, evidence.objective, evidence.theta
    f, J = objective.evaluate(theta)
    scale = max(evidence.misfit, 1.0) * evidence.samples / max(evidence.effective, 1.0)
    for name in result.at_bound:
        j = result.names.index(name)
        others = J[:, evidence.kept]
        left = J[:, j] - others @ np.linalg.lstsq(others, J[:, j], rcond=objective.eps**0.5)[0]
        pushed = abs(float(left @ f)) / max(np.sqrt(scale) * np.linalg.norm(left), np.finfo(float).tiny)
        low, high = objective.parameters.low[j], objective.parameters.high[j]
        by_sign = name in result.profiled and low == 0.0 and theta[j] < high / 2
        if by_sign and pushed < _UNUSUAL:
            continue
        yield Reason(
            f"{name} = {evidence.shown(name, result.estimate[j])} is at its bound, and the data would go {pushed:.1f} "
            "standard errors beyond. If the bound is not a law of nature, widen it; else the model may lack what "
            "pushes it there"
        )
    if short := [name for name in leaning(result, evidence.objective) if name not in result.profiled]:
        yield Reason(
            f"the intervals of {', '.join(short)} hold only with {', '.join(result.at_bound)} at its bound: were it "
            "free they would be longer, so they may be too short. Use identify.profile"
        )


def priors(evidence: Evidence) -> Iterator[Reason]:
    r"""Priors that the data contradict.

    Without the prior of theta_j the estimate would be theta_j', to first order, with the variance V of the data alone.
    Both measure the same: (theta_j' - mean) / sqrt(V + sigma^2) is a standard normal number.
    """
    objective, theta = evidence.objective, evidence.theta
    known = objective.priors
    f, J = objective.evaluate(theta)
    rows, slopes = known.rows(theta)
    # Residuals larger than stated, or correlated, are worth less than the stated noise has it.
    scale = max(evidence.misfit, 1.0) * evidence.samples / max(evidence.effective, 1.0)
    for i, j in enumerate(known.index):
        kept = evidence.kept.copy()
        kept[j] = True
        data = J[:, kept].T @ J[:, kept] - np.outer(slopes[i, kept], slopes[i, kept])
        gradient = J[:, kept].T @ f - slopes[i, kept] * rows[i]
        here = int(kept[:j].sum())
        size = np.sqrt(np.maximum(np.diag(data), np.finfo(float).tiny))
        inverse = np.linalg.pinv(data / np.outer(size, size), rcond=1e-10, hermitian=True) / np.outer(size, size)
        if abs((inverse @ data)[here, here] - 1.0) > 1e-3:
            continue  # only the prior knows of it
        slope = slopes[i, j]
        off = rows[i] - slope * float((inverse @ gradient)[here])
        off /= np.sqrt(1.0 + scale * inverse[here, here] * slope**2)
        if abs(off) > _UNUSUAL:
            yield Reason(
                f"the data and the prior of {evidence.result.names[j]} are {abs(off):.1f} standard deviations apart: "
                "either the prior is wrong, or the model is, and the parameter makes up for it",
                fatal=bool(abs(off) > _IMPOSSIBLE),
            )


def curvature(evidence: Evidence) -> Iterator[Reason]:
    """Intervals at whose ends the cost is not what its curvature says, and that no profile has replaced."""
    told: set[str] = set()
    if evidence.result.lower_elsewhere:
        yield Reason(f"the fit may have ended in a local minimum: {evidence.result.lower_elsewhere}. Try more starts")
    for end in misjudged(evidence.result, evidence.objective):
        if end.name in told:
            continue
        told.add(end.name)
        way = "at twice the way to the" if end.behind else "at the"
        where = f"{way} {'upper' if end.upper else 'lower'} end of the interval of {end.name}"
        if end.lower_than_the_estimate:
            yield Reason(
                f"{where} the cost is lower than at the estimate, by {-end.risen:.3g}: the fit ended in a local "
                "minimum. Try more starts",
                fatal=True,
            )
        else:
            yield Reason(
                f"{where} the cost has risen by {end.risen:.3g} only, {end.expected:.3g} were to be expected, so it "
                "may be too short. Use identify.profile"
            )


_NAMED = 3


def elsewhere(evidence: Evidence) -> Iterator[Reason]:
    """Other minima that explain the data as well, one sentence for all."""
    result = evidence.result
    if not result.elsewhere:
        return
    names = list(dict.fromkeys(name for other in result.elsewhere for name in other))[:_NAMED]
    values = dict(zip(result.names, map(float, result.estimate), strict=True))

    def told(place: dict[str, float]) -> str:
        return ", ".join(f"{name} = {evidence.shown(name, place[name])}" for name in names if name in place)

    others = list(dict.fromkeys(filter(None, map(told, result.elsewhere))))
    more = f" (and {len(others) - _NAMED} more)" if len(others) > _NAMED else ""
    yield Reason(
        f"the data do not tell {told(values)} from {'; or '.join(others[:_NAMED])}{more}: each explains them as well. "
        "The intervals hold all of these, and most of what lies in between explains nothing. Where a gap hides how "
        "often something bounced, measure within it; else hold or bound what is known otherwise"
    )
