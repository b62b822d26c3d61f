"""The verdict of a fit: checks are functions (Evidence) -> Iterator[Reason], one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from scipy.special import chdtri

from diffcontact.identify.impact_law import law_of_impact
from diffcontact.identify.intervals.profile import misjudged
from diffcontact.identify.observations import labels_of
from diffcontact.identify.verdict.between_runs import common_misfit, contradictions, outsiders
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.explanations import explanations, freed_terms, taken_as_right
from diffcontact.identify.verdict.reasons import (
    IMPOSSIBLE,
    LEVELS,
    NAMED,
    SLIGHT,
    UNUSUAL,
    Amount,
    Reason,
    Run,
    Units,
    Verdict,
    Words,
)
from diffcontact.identify.verdict.residuals import noise_overstated, noise_ratios, patterns
from diffcontact.numerics.least_squares import TINY, inverse
from diffcontact.status import Status

# What is simulated only to this many standard deviations of the noise tells nothing of it.
_ROUNDED = 1.0


def ending(evidence: Evidence) -> Iterator[Reason]:
    """Whether the fit arrived anywhere, and whether its simulations are right."""
    result = evidence.result
    if not result.converged:
        yield Reason("not converged", {"message": result.message}, fatal=True)
    for i, trajectory in enumerate(result.trajectories):
        if status := Status(int(trajectory.status)):
            yield Reason("status", {"run": Run(i), "message": status.message}, fatal=True)


def untested(evidence: Evidence) -> Iterator[Reason]:
    """Whether anything is left over to test the model with, and where not, whether it passes through all samples."""
    objective, result = evidence.objective, evidence.result
    if result.dof > 0:
        return
    priors = f" and {objective.priors.count} priors" if objective.priors.count else ""
    missed = np.sqrt(2 * result.cost)
    passes = missed <= SLIGHT or objective.exact(result.cost)
    figures = {"samples": evidence.fit.samples, "priors": priors, "free": objective.joint.size, "missed": missed}
    yield Reason("untested" if passes else "untested and missed", figures, fatal=not passes)


def rounded(evidence: Evidence) -> Iterator[Reason]:
    """Whether rounding is larger than the noise was stated to be: then nothing tests the model, either."""
    n = evidence.fit.samples
    precision = "single" if evidence.objective.eps > np.finfo(float).eps else "double"
    advice = Reason(f"{precision} precision")
    if evidence.fit.exact and evidence.misfit > chdtri(n, LEVELS["pattern"]) / n:
        yield Reason("rounding", {"times": np.sqrt(evidence.misfit), "advice": advice})
    elif rounding := max((run.change for run in evidence.objective.joint.runs if run.imprecise), default=0.0):
        figures = {"rounding": rounding, "precision": precision, "advice": advice}
        yield Reason("imprecise", figures, fatal=rounding > _ROUNDED)


def starts(evidence: Evidence) -> Iterator[Reason]:
    """Whether other starts might have ended lower: noise does not explain the best end, and hardly any came to it."""
    costs = np.array(evidence.result.start_costs)
    if costs.size < 2 or evidence.objective.explained(evidence.theta):
        return
    together = int(np.sum(costs <= costs[0] * 1.01))
    if together <= max(1, costs.size // 8):
        after = costs[min(together, costs.size - 1)]
        yield Reason("starts", {"together": together, "starts": costs.size, "best": costs[0], "next": after})


def outlying(evidence: Evidence) -> Iterator[Reason]:
    """Whether the loss takes noise for outliers, so that the intervals rest on a few samples."""
    if part := evidence.outlier_scale:
        loss = evidence.objective.loss
        yield Reason("outliers", {"loss": loss.name, "scale": loss.scale, "part": part}, fatal=True)


def unseen(evidence: Evidence) -> Iterator[Reason]:
    """What the data do not determine, or only bound."""
    result = evidence.result
    for name in result.gripped:
        least = float(result.ends[result.names.index(name), 0])
        yield Reason("gripped", {"name": name, "least": Amount(name, least)})
    for along in result.profiles:
        inside = np.flatnonzero(along.rise <= result.quantiles[result.names.index(along.name)] ** 2)
        # Where nothing rubs a second valley of the cost has other reasons.
        if evidence.objective.joint.rubs and np.any(np.diff(inside) > 1):
            found = along.values[np.argmin(np.abs(along.rise))]
            far = along.values[inside][np.argmax(np.abs(along.values[inside] - found))]
            yield Reason("two valleys", {"name": along.name, "far": Amount(along.name, float(far))})
    for direction in result.unidentifiable:
        if not set(direction) <= set(result.gripped):
            yield Reason("unseen", {"names": tuple(direction)})


def bounds(evidence: Evidence) -> Iterator[Reason]:
    """Estimates that their bounds have stopped, unless the bound is a zero and what is sought hardly depends on it.

    Without the bound the estimate would be J_j^T f / |J_j|^2 away, of what the other parameters leave of J_j, and these
    would follow it. A bound of zero is one of nature: how far the data go beyond is what the model lacks.
    """
    result, objective, theta = evidence.result, evidence.objective, evidence.theta
    f, J = objective.evaluate(theta)
    others, own = J[:, evidence.kept], objective.parameters.own
    for name in result.at_bound:
        j = result.names.index(name)
        along = np.linalg.lstsq(others, J[:, j], rcond=objective.eps**0.5)[0]
        left = J[:, j] - others @ along
        away = float(left @ f) / max(float(left @ left), TINY)
        pushed = abs(away) * np.linalg.norm(left) / np.sqrt(evidence.scale)
        low, high = objective.parameters.low[j], objective.parameters.high[j]
        by_sign = low == 0.0 and theta[j] < high / 2
        if not by_sign or (pushed >= UNUSUAL and (not own[j] or evidence.beyond(evidence.slopes * along * away))):
            yield Reason("bound", {"name": name, "value": Amount(name, result.estimate[j]), "pushed": pushed})


def priors(evidence: Evidence) -> Iterator[Reason]:
    """Priors that the data contradict: (theta_j' - mean) / sqrt(V + sigma^2) is a standard normal number.

    theta_j' is the estimate without the prior, to first order, and V its variance.
    """
    objective, known = evidence.objective, evidence.objective.priors
    f, J = objective.evaluate(evidence.theta)
    rows, slopes = known.rows(evidence.theta)
    for i, j in enumerate(known.index):
        kept = evidence.kept.copy()
        kept[j] = True
        data = J[:, kept].T @ J[:, kept] - np.outer(slopes[i, kept], slopes[i, kept])
        gradient = J[:, kept].T @ f - slopes[i, kept] * rows[i]
        here, back, slope = int(kept[:j].sum()), inverse(data), slopes[i, j]
        if abs((back @ data)[here, here] - 1.0) > 1e-3:
            continue  # only the prior knows of it
        off = rows[i] - slope * float((back @ gradient)[here])
        # Residuals larger than stated, or correlated, are worth less than the stated noise has it.
        off = abs(off) / np.sqrt(1.0 + evidence.scale * back[here, here] * slope**2)
        if off > UNUSUAL:
            yield Reason("prior", {"name": evidence.result.names[j], "off": off}, fatal=bool(off > IMPOSSIBLE))


def curvature(evidence: Evidence) -> Iterator[Reason]:
    """Intervals at whose ends the cost is not what its curvature says, and that no profile has replaced."""
    told: set[str] = set()
    if evidence.result.lower_elsewhere:
        yield Reason("lower elsewhere", {"where": evidence.result.lower_elsewhere})
    for end in misjudged(evidence.result, evidence.objective):
        if end.name in told:
            continue
        told.add(end.name)
        place = {"side": "upper" if end.upper else "lower", "name": end.name}
        where = Reason("behind an end" if end.behind else "end", place)
        if end.lower_than_the_estimate:
            yield Reason("lower at an end", {"where": where, "risen": -end.risen}, fatal=True)
        else:
            yield Reason("short interval", {"where": where, "risen": end.risen, "expected": end.expected})


def elsewhere(evidence: Evidence) -> Iterator[Reason]:
    """Other minima that explain the data as well, one sentence for all."""
    result = evidence.result
    if not result.elsewhere:
        return
    names = list(dict.fromkeys(name for other in result.elsewhere for name in other))[:NAMED]

    def told(place: dict[str, float]) -> tuple[Reason, ...]:
        values = {name: Amount(name, place[name]) for name in names if name in place}
        return tuple(Reason("value", {"name": name, "value": value}) for name, value in values.items())

    here = told(dict(zip(result.names, map(float, result.estimate), strict=True)))
    others = [other for other in map(told, result.elsewhere) if other]
    distinct = [other for i, other in enumerate(others) if other not in others[:i]]
    more = f" (and {len(distinct) - NAMED} more)" if len(distinct) > NAMED else ""
    listed = tuple(Reason("values", {"values": other}) for other in distinct[:NAMED])
    yield Reason("elsewhere", {"here": here, "others": listed, "more": more})


def _law(evidence: Evidence) -> Iterator[Reason]:
    if sentence := law_of_impact(evidence.result):
        yield Reason("law of impact", {"law": sentence})


# Rounding has patterns, too, and intervals of its size hold nothing.
_OF_RESIDUALS = (
    *(_law, outsiders, patterns, noise_overstated, noise_ratios),
    *(explanations, contradictions, common_misfit),
)
_CHECKS = (
    *(ending, untested, rounded, *_OF_RESIDUALS, outlying, priors, starts),
    *(elsewhere, unseen, bounds, curvature),
)


def judge(
    evidence: Evidence,
    units: Units | None = None,
    labels: Sequence[str] = (),
    phrases: Sequence[tuple[str, str]] = (),
) -> Verdict:
    """The verdict on a fit; units, labels and phrases as of `FitResult.judged`."""
    problems = evidence.objective.joint.problems
    first, runs = problems[0], labels or labels_of(problems)
    words = Words(first.observations.channels, runs, first.per_run, phrases, units or {})
    checks = [check for check in _CHECKS if not (evidence.fit.exact and check in _OF_RESIDUALS)]
    taken = taken_as_right(evidence)
    reasons = words.grouped(reason for check in checks for reason in check(evidence))
    freed = tuple(words.told(words.sentence(reason)) for reason in freed_terms(evidence))
    return Verdict.of(reasons, words.told(words.sentence(taken)) if taken else "", freed)
