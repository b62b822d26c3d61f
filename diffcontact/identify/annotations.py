"""What a report of a fit shows besides: noise, where the verdict's complaints are, and the law of single impacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from diffcontact.drawing import Draw
from diffcontact.host.progress import stage
from diffcontact.identify.error_bars import error_bars, under_loss
from diffcontact.identify.estimate import Estimate
from diffcontact.identify.linearised import LinearisedFit, LinearisedRun
from diffcontact.identify.noise import robust_size
from diffcontact.identify.reporting import Labels, fit_report
from diffcontact.identify.residual import KICK, kick
from diffcontact.identify.verdict.evidence import Evidence
from diffcontact.identify.verdict.explanations import Fault, explanations, faults_of_measuring
from diffcontact.identify.verdict.reasons import LEVELS, LOOKED_AT, SLIGHT, Verdict, Words
from diffcontact.identify.verdict.residuals import patterns
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.report.content import Curve, Impact, Mark, Report, Restitution
from diffcontact.report.simulated import LISTED
from diffcontact.system import System
from diffcontact.systems.cell_list_balls import CellListBalls
from diffcontact.systems.laws import LAWS

# Speeds at which laws of restitution are drawn, and how many: more of them nobody can tell apart.
_SPEEDS, _CURVES = 60, 8


def annotated_report(
    result: Estimate,
    verdict: Verdict,
    evidence: Evidence | None,
    labels: Labels | None = None,
    draw: Draw | None = None,
    profiles: Sequence[Any] = (),
    *,
    laws: Mapping[str, Evidence] | None = None,
    unit: str = "",
) -> Report:
    """Build the report of a fit, with the noise of its samples, the verdict's complaints and the law of impact.

    Args:
        result, verdict, labels, draw, profiles: as of `fit_report`.
        evidence: of the verdict; None of a result that was read from a file or did not converge.
        laws: name of a law of restitution -> the evidence of its fit; the first one's impacts are shown. By default the
            law of the fit, if it is one of the speed.
        unit: of speeds.
    """
    report = fit_report(result, verdict, labels, draw, profiles)
    if evidence is None:
        return report
    if laws is None:
        by_speed = any(getattr(problem.system, "speed_dependent", False) for problem in result.problems)
        laws = {"as fitted": evidence} if by_speed else {}
    report = with_evidence(report, evidence, verdict.codes)
    if report.numbers is None or not laws:
        return report
    fits = {_formula(law): one for law, one in laws.items()}
    shown = restitution(fits, [run.label for run in report.runs], unit)
    return replace(report, numbers=replace(report.numbers, restitution=shown))


def with_evidence(report: Report, evidence: Evidence, codes: Sequence[str]) -> Report:
    """The report with the noise of every sample, and marks where the verdict's complaints are, by their codes."""
    marks = complaints(evidence, codes) if not evidence.fit.exact else [[] for _ in evidence.runs]
    runs = []
    for view, run, found in zip(report.runs, evidence.runs, marks, strict=True):
        if view.samples.size:
            # A long record shows some of its samples only.
            rows = np.clip(np.searchsorted(run.times, view.samples), 0, run.times.size - 1)
            shown = [replace(mark, rows=mark.rows[rows]) for mark in found]
            noise = np.where(run.present, run.sigma, np.nan)[rows, : run.tracks]
            view = replace(view, noise=noise, marks=[mark for mark in shown if mark.rows.any()])
        runs.append(view)
    return replace(report, runs=runs)


def complaints(evidence: Evidence, codes: Sequence[str]) -> list[list[Mark]]:
    """Per run, where the complaints of the verdict are; `codes` are those that it made."""
    words, found = Words(), [[] for _ in evidence.runs]
    for reason in patterns(evidence):
        for shape in reason.figures.get("shapes", ()) if reason.code in codes else ():
            text = f"residuals {words.sentence(shape)}"
            for marks, rows in zip(found, _shaped(evidence.runs, shape.code, shape.figures), strict=True):
                if rows.any():
                    marks.append(Mark(text, rows, stretch=shape.code != "far off"))
    for reason in explanations(evidence):
        if reason.code == "explanation" and reason.code in codes:
            for number, marks in enumerate(found):
                rows = _at_fault(evidence, number, str(reason.figures["name"]))
                if rows.any():
                    marks.append(Mark(f"residuals have the shape of: {reason.figures['name'].rstrip(',')}", rows))
    return found


def _shaped(runs: Sequence[LinearisedRun], code: str, figures: Mapping[str, Any]) -> Iterator[NDArray]:
    """(n, tracks) of every run, the samples of a pattern."""
    off = [run.r[:, : run.tracks] for run in runs]
    far = _furthest(off, figures["count"], figures["limit"]) if code == "far off" else []
    for number, (run, r) in enumerate(zip(runs, off, strict=True)):
        third = np.ptp(run.times) / 3
        rows = {
            "at impacts": run.struck,
            "grow": run.times >= run.times[-1] - third,
            "fade": run.times <= run.times[0] + third,
        }.get(code)
        measured = ~np.isnan(r)
        if rows is not None:
            yield measured & rows[:, None]
        elif code == "far off":
            yield far[number]
        elif code in ("smooth", "curve", "curve in runs", "correlated"):
            yield np.stack([_one_sided(channel) for channel in r.T], axis=1)
        else:
            yield np.zeros_like(measured)


def _furthest(off: Sequence[NDArray], count: int, limit: float) -> list[NDArray]:
    """(n, k) of every run, which samples are the furthest off among all, beyond a limit in sizes of the others."""
    sizes = []
    for r in off:
        scale = np.array(
            [robust_size(channel[~np.isnan(channel)]) if np.isfinite(channel).any() else 0 for channel in r.T]
        )
        sizes.append(np.nan_to_num(np.divide(np.abs(r), scale, out=np.zeros_like(r), where=scale > 0)))
    last = np.sort(np.concatenate([size.ravel() for size in sizes]))[-count]
    return [(size > limit) & (size >= last) for size in sizes]


def _one_sided(r: NDArray) -> NDArray:
    """(n,) samples of stretches on one side of zero that are longer than white noise has them; else all."""
    (rows,) = np.nonzero(~np.isnan(r))
    found = np.zeros(r.size, bool)
    if not rows.size:
        return found
    longest = int(np.ceil(np.log2(rows.size / LEVELS["pattern"])))
    edges = np.flatnonzero(np.diff(r[rows] > 0)) + 1
    for begin, end in zip([0, *edges], [*edges, rows.size], strict=True):
        if end - begin > longest:
            found[rows[begin] : rows[end - 1] + 1] = True
    return found if found.any() else ~np.isnan(r)


def _at_fault(evidence: Evidence, number: int, name: str) -> NDArray:
    """(n, tracks) samples of a run at which what is called so acts: at its impacts, or about a moment."""
    run = evidence.runs[number]
    for fault in (*faults_of_measuring(evidence, number), Fault("unlike")):
        if fault.name != name:
            continue
        if fault.kind in ("lasting", "late", "unlike"):
            return np.repeat(run.struck[:, None], run.tracks, axis=1)
        if fault.time is not None:
            at = int(np.argmin(np.abs(run.times - fault.time)))
            return np.repeat((np.abs(np.arange(run.times.size) - at) <= 1)[:, None], run.tracks, axis=1)
    return np.zeros((run.times.size, run.tracks), bool)


def _formula(law: str) -> str:
    return f"{law}: e(v) = {LAWS[law].formula}" if law in LAWS and LAWS[law].coefficients else law


def restitution(fits: Mapping[str, Evidence], labels: Sequence[str], unit: str) -> Restitution | None:
    """Restitution against speed: the law of every fit, and the impacts of the first fit one by one.

    Impact i has a restitution e_i = e(v_i) + (1 + e(v_i)) s_i of its own, where s_i scales what it does to the
    velocities. All s_i are found from the residuals to first order, with what e(v) depends on held as it is and the
    other parameters free; their intervals are those of `error_bars`.

    Args:
        fits: name of each law -> the evidence of its fit.
        labels: of the runs.
        unit: of speeds.

    Returns:
        None where no restitution depends on what is free, or no impact is seen.
    """
    with stage("restitution of single impacts"):
        impacts, left_out = _impacts(next(iter(fits.values())), labels)
    speeds = np.array([one.speed for one in impacts])
    if not speeds.size:
        return None
    grid = np.linspace(0.9 * speeds.min(), 1.1 * speeds.max(), _SPEEDS)
    curves = [curve for name, one in fits.items() for curve in _curves(name, one, grid)]
    return Restitution(unit, grid, curves[:_CURVES], impacts, left_out) if curves else None


def _curves(name: str, evidence: Evidence, speeds: NDArray) -> list[Curve]:
    """The laws of a fit's contacts, those that are alike once."""
    fit, objective = evidence.result, evidence.objective
    theta, found = objective.parameters.start, dict[bytes, tuple[Curve, list[int]]]()
    slopes = objective.parameters.slopes(theta)
    for run, trajectory in zip(objective.joint.runs, fit.trajectories, strict=True):
        if not _has_restitution(run.model.system):
            continue
        e, by = _laws(run, theta, speeds, trajectory.impulse.shape[-1])
        covariance = fit.covariance[np.ix_(run.index, run.index)] / np.outer(slopes[run.index], slopes[run.index])
        width = float(np.max(fit.quantiles[run.index], initial=0.0, where=np.any(by != 0, axis=(0, 1))))
        for contact in np.flatnonzero(np.any(by != 0, axis=(0, 2))):
            at = by[:, contact]
            seen = np.any(at != 0, axis=0)
            error = np.sqrt(np.einsum("mi,ij,mj->m", at[:, seen], covariance[np.ix_(seen, seen)], at[:, seen]))
            half = np.where(np.isfinite(error), width * error, np.nan)
            one = Curve(name, e[:, contact], np.clip(e[:, contact] + np.array([[-1.0], [1.0]]) * half, 0.0, 1.0))
            found.setdefault(one.values.round(9).tobytes(), (one, []))[1].append(int(contact))
    if len(found) == 1:
        return [curve for curve, _ in found.values()]
    told = (", ".join(map(str, dict.fromkeys(contacts))) for _, contacts in found.values())
    return [replace(curve, name=f"{name}, contact {of}") for (curve, _), of in zip(found.values(), told, strict=True)]


def _has_restitution(system: Any) -> bool:
    return isinstance(system, System) and not isinstance(system, CellListBalls)


def _laws(run: Any, theta: NDArray, speeds: NDArray, contacts: int) -> tuple[NDArray, NDArray]:
    """(m, c) e of every contact at speeds (m,), and its derivatives (m, c, P_i) by the run's parameters."""
    e, by = _restitution_at(run.model, theta[run.index], run.fixed, speeds, contacts)
    return np.asarray(e), np.asarray(by)


@partial(jit_fast_compile, static=("model", "contacts"))
def _restitution_at(model: Any, z: Array, fixed: dict[str, Any], speeds: Array, contacts: int) -> tuple[Array, Array]:
    def every(z):
        params, system = model.parameters(z, fixed), model.system

        def at(speed):
            given = (params, jnp.full(contacts, speed)) if system.speed_dependent else (params,)
            return jnp.broadcast_to(jnp.asarray(system.restitution(*given), z.dtype), (contacts,))

        return jax.vmap(at)(speeds)

    return every(z), jax.jacfwd(every)(z)


def _impacts(evidence: Evidence, labels: Sequence[str]) -> tuple[list[Impact], int]:
    """The impacts of a fit with a restitution of their own, and how many cannot be told from others."""
    fit, left_out = evidence.result, 0
    held = np.zeros(len(fit.names), bool)
    places, columns = list[tuple[int, float, float, float]](), list[list[NDArray]]()
    for number, run in enumerate(evidence.objective.joint.runs):
        columns.append([])
        if not _has_restitution(run.model.system):
            continue
        contacts, struck = fit.trajectories[number].impulse.shape[-1], _struck(evidence, number)
        left_out += len(struck[LOOKED_AT:])
        for time, speed, contact, jump, group, alone in struck[:LOOKED_AT]:
            e, by = (part[0, contact] for part in _laws(run, evidence.theta, np.array([speed]), contacts))
            if not np.any(by != 0):
                continue
            held[run.index[by != 0]] = True
            column = _exactly(evidence, number, by) if alone else None
            if column is None and group is not None:
                kicked = _kicked(evidence, number, jump, group)
                column = None if kicked is None else kicked / (1 + e)
            if column is None:
                left_out += 1
                continue
            columns[-1].append(column)
            places.append((number, time, speed, float(e)))
    if not places:
        return [], left_out
    values, half = (part.tolist() for part in _own_values(evidence, columns, held))
    found = [
        Impact(labels[number], time, speed, e + off, e + off - reach, e + off + reach, e)
        for (number, time, speed, e), off, reach in zip(places, values, half, strict=True)
        if np.isfinite(off + reach)
    ]
    return found, left_out + len(places) - len(found)


class _Struck(NamedTuple):
    """An impact of a single contact."""

    time: float
    speed: float  # of approach
    contact: int
    jump: NDArray  # (d,) of the velocity
    samples: tuple[int, int] | None  # before and behind it; None where another impact is between them, too
    alone: bool  # whether it is the only one of its run


def _struck(evidence: Evidence, number: int) -> list[_Struck]:
    """The impacts of single contacts in a run."""
    run, times = evidence.objective.joint.runs[number], evidence.runs[number].times
    listed = jax.tree.map(np.asarray, evidence.objective.joint.listed(evidence.theta, number, LISTED).percussions)
    found = []
    struck = (listed.impulse > 0) & (listed.before < -listed.slow)
    there = np.flatnonzero((listed.contact >= 0) & (listed.time <= times[run.length - 1]))
    for i in there:
        contacts = np.flatnonzero(struck[i])
        if contacts.size != 1:
            continue
        (contact,) = map(int, contacts)
        time = float(listed.time[i])
        groups = [(a, b) for a, b in evidence.runs[number].impacts if times[a] <= time <= times[b]]
        between = groups and sum(bool(times[groups[0][0]] <= listed.time[j] <= times[groups[0][1]]) for j in there) == 1
        samples, speed = groups[0] if between else None, float(-listed.before[i, contact])
        found.append(_Struck(time, speed, contact, listed.jump[i], samples, there.size == 1))
    return found


def _exactly(evidence: Evidence, number: int, by: NDArray) -> NDArray | None:
    """(n, k) the samples' change by e of the only impact of a run, from that by a parameter on which e depends."""
    # The fit to first order as it is, with what is at a bound or not determined.
    run = evidence.objective.first_order(trajectories=evidence.result.trajectories)[number]
    j = int(np.argmax(np.abs(by)))
    column = -run.J[..., j] / by[j]
    return column if np.any(column != 0) and np.all(np.isfinite(column)) else None


def _kicked(evidence: Evidence, number: int, jump: NDArray, group: tuple[int, int]) -> NDArray | None:
    """(n, k) the samples' change by what changes the velocity once more as an impact does."""
    columns, times, behind = evidence.columns[number], evidence.runs[number].times, group[1]
    if behind + 2 >= times.size:
        return None
    more = kick(times[behind + 1], times[behind + 2] - times[behind + 1], columns.share * jump)
    return columns.by(KICK, np.asarray(more, columns.run.samples.times.dtype), columns.share)


def _own_values(evidence: Evidence, columns: Sequence[Sequence[NDArray]], held: NDArray) -> tuple[NDArray, NDArray]:
    """What is added to e of every impact, and half of its 95 % interval; NaN where the samples do not tell."""
    objective, count, runs = evidence.objective, sum(map(len, columns)), []
    first = objective.first_order(trajectories=evidence.result.trajectories)
    begin = held.size
    for run, own in zip(first, columns, strict=True):
        more = [np.where(run.present, -column, 0.0)[..., None] for column in own]
        index = np.concatenate([run.index, begin + np.arange(len(own))])
        runs.append(replace(run, J=np.concatenate([run.J, *more], axis=-1), index=index))
        begin += len(own)
    keep = np.concatenate([evidence.kept & ~held, np.ones(count, bool)])
    prior = np.concatenate([objective.priors.information(evidence.theta), np.zeros(count)])
    fit = LinearisedFit.of(under_loss(runs, objective.loss), prior, keep)
    bars = error_bars(fit)
    off = fit.shift({number: np.nan_to_num(run.r) for number, run in enumerate(fit.runs)})
    error = np.sqrt(np.diag(bars.covariance)) * bars.quantile
    # What the other parameters and impacts leave of a column, and what is rounding.
    left = 1 / np.maximum(np.diag(fit.information) * np.diag(fit.inverse), 1.0)
    there = ((fit.seen_by > 0) & (left > SLIGHT**2) & (error > 0))[-count:]
    return np.where(there, off[-count:], np.nan), np.where(there, error[-count:], np.nan)
