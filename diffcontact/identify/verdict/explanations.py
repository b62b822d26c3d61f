r"""Explanations of the residuals: faults of the measuring, fixed terms, a resistance, impacts that differ.

With y (n, k) what the model says of the samples, a fault of size s would add s d to it,

    scale of channel c       d_tc = y_tc             zero of c     d_tc = 1
    delay of c               d_tc = -dy_tc/dt        clock         d_tc = (t - t_0) dy_tc/dt in all c
    clock that jumps at t_j  d_tc = dy_tc/dt in all c from t_j on: pictures that are missing or too many
    perspective              d_tc = (y_ti - m_i)(y_tc - m_c) / L, one size for each c and i, where m are the middles of
                             the channels and L the widest range: by so much the scale changes across the picture
    impacts that last        d_tc = -dy_tc/dt times the number of impacts so far, as of bounces: what follows is late
    impact i late            d_tc = -(the jump of dy_tc/dt in it) from it on, as of bodies that meet once, one size each

in units of the noise.

Rao's score test: a fault of sizes s (m,) adds D_g s to run g. What a run's parameters can make up for is projected out
of its columns, S_g = (1 - J_g J_g^+) D_g, and with I = sum_g S_g^T S_g

    s = I^-1 sum_g S_g^T r_g,    z^2 = s^T I (Var sum_g S_g^T r_g)^-1 I s

are the fault that the data would like best and, if there is none, a chi^2 number of m degrees of freedom. The variance
is that of noise correlated like r - S s, or like r if that is larger and r - S s follows itself closely, too.

Source: C. R. Rao, Proc. Cambridge Philosophical Society 44 (1948) 50.

Each explanation is tried by Rao's `score_test`, and the one is told that makes the residuals likeliest, by chi^2 with a
penalty of p log n for its p numbers (Schwarz), if it is certain, and takes half of what chi^2 has too much. Others that
are nearly as likely are named beside it, as residuals do not tell them apart. On an uneven rail one run of carts would
have its scale changed by 0.3 %.

What the fault moved the estimate by follows from its size. Where an interval does not reach as far, it is wrong, and
the verdict is "no". Of several faults that are nearly as likely one that does it is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri, fdtrc

from diffcontact.identify.noise import effective_count, run_noise, score_covariance
from diffcontact.identify.verdict.evidence import Evidence, RunEvidence
from diffcontact.identify.verdict.shifts import Shifts, rows
from diffcontact.identify.verdict.verdict import Reason

SCALE, PERSPECTIVE, ZERO, CLOCK = (
    "scale of channel ",
    "perspective in channel ",
    "zero of channel ",
    "rate of the clock",
)
JUMP = "jump of the clock [s]"
_TINY = np.finfo(float).tiny
# Where a clock may jump, at most so many places; more impacts are not looked at one by one, nor more channels in pairs.
_PLACES, _IMPACTS, _PAIRED = 24, 4, 4


def directions(evidence: Evidence, number: int) -> dict[str, NDArray]:
    """(n, k) of what one number describes in a run, in units of the noise; zero in channels that are left alone."""
    run, seen = evidence.runs[number], _Seen(evidence, number)
    found, clock = {}, np.zeros_like(seen.y)
    for c in seen.channels:
        clock[:, c] = (run.times - run.times[0]) * seen.speed[:, c]
        shapes = {
            f"{PERSPECTIVE}{c}": seen.bent(c, c),
            f"{SCALE}{c}": seen.y[:, c],
            f"{ZERO}{c}": np.ones(len(run.times)),
            f"delay [s] of channel {c}": -seen.speed[:, c],
        }
        for name, shape in shapes.items():
            one = np.zeros_like(seen.y)
            one[:, c] = shape
            found[name] = seen.weighed(one)
    return found | {CLOCK: seen.weighed(clock)}


def faults_of_measuring(evidence: Evidence, number: int) -> dict[str, NDArray]:
    """(n, k, m) of every fault of a run by its name, in units of the noise; none of a run that only times impacts."""
    run, seen = evidence.runs[number], _Seen(evidence, number)
    if not seen.channels:
        return {}
    found = {name: d[..., None] for name, d in directions(evidence, number).items()}
    pairs = [(c, i) for c in seen.channels for i in seen.channels if c == i or len(seen.channels) <= _PAIRED]
    found["perspective"] = seen.columns(_only(c, seen.bent(c, i), seen.y.shape) for c, i in pairs)
    for j in range(2, len(run.times) - 1, max(len(run.times) // _PLACES, 1)):
        late = (np.arange(len(run.times)) >= j)[:, None]
        found[f"{JUMP} at t = {run.times[j]:.4g}"] = seen.columns([late * seen.speed])
    if impacts := run.impacts:
        passed = np.sum([np.arange(len(run.times)) >= behind for _, behind in impacts], axis=0)
        found["time [s] that impacts last"] = seen.columns([-passed[:, None] * seen.speed])
        if len(impacts) <= _IMPACTS:
            found["moment [s] of the impacts"] = seen.columns(_late(seen.y, run.times, impacts))
    return {name: d for name, d in found.items() if np.all(np.isfinite(d)) and d.size}


class _Seen:
    """What the model says of a run's samples: y and its derivative (n, tracks), and which of them are measured.

    Samples that are missing have values, too: they are missing about impacts above all, which the others, as a line
    through them, would not show.
    """

    def __init__(self, evidence: Evidence, number: int):
        run, data = evidence.runs[number], evidence.objective.joint.runs[number].samples
        n, tracks = len(run.times), run.tracks
        self.sigma = np.asarray(data.sigma, float)[:n, :tracks]
        self.present, self.shape = run.present[:, :tracks], run.residual.r.shape
        self.channels = [c for c in range(tracks) if self.present[:, c].sum() >= 2]
        self.y, self.speed, self.ends = np.zeros((n, tracks)), np.zeros((n, tracks)), np.zeros((2, tracks))
        for c in self.channels:
            y, here = evidence.seen[number][:, c], self.present[:, c]
            # Where nothing was measured nobody minds what is not finite.
            known = here | np.isfinite(y)
            self.y[:, c] = np.interp(run.times, run.times[known], y[known])
            self.speed[:, c] = _speed(run.times, self.y[:, c], run.impacts)
            self.ends[:, c] = np.min(y[here]), np.max(y[here])

    def bent(self, c: int, i: int) -> NDArray:
        """(n,) what channel c sees of a scale that changes along channel i by 1 over the widest range."""
        middle, width = self.ends.mean(0), max(float(np.max(np.ptp(self.ends, axis=0))), _TINY)
        return (self.y[:, i] - middle[i]) * (self.y[:, c] - middle[c]) / width

    def weighed(self, d: NDArray) -> NDArray:
        """(n, k) of d (n, tracks), in units of the noise; zero where nothing was measured."""
        found = np.zeros(self.shape)
        found[:, : d.shape[1]] = np.where(self.present, d / self.sigma, 0.0)
        return found

    def columns(self, several) -> NDArray:
        """(n, k, m) of m times d (n, tracks)."""
        return np.stack([self.weighed(d) for d in several], axis=-1)


def _speed(times: NDArray, y: NDArray, impacts: list[tuple[int, int]]) -> NDArray:
    """(n,) the derivative of samples, from one side where an impact is on the other."""
    speed = np.gradient(y, times)
    begins, ends = [0, *(behind for _, behind in impacts)], [*(before + 1 for before, _ in impacts), len(times)]
    for begin, end in zip(begins, ends, strict=True):
        if end - begin > 2:
            speed[begin:end] = np.gradient(y[begin:end], times[begin:end], edge_order=2)
    return speed


def _only(c: int, shape: NDArray, whole: tuple[int, ...]) -> NDArray:
    found = np.zeros(whole)
    found[:, c] = shape
    return found


def _late(y: NDArray, times: NDArray, impacts: list[tuple[int, int]]) -> list[NDArray]:
    """Per impact, (n, tracks) how much less a motion has gone on that is struck by one second later, per second."""
    n = len(times)
    found = []
    for before, behind in impacts:
        if before < 1 or behind > n - 2:
            continue
        slopes = [(y[j + 1] - y[j]) / (times[j + 1] - times[j]) for j in (before - 1, behind)]
        found.append(-(slopes[1] - slopes[0]) * (np.arange(n) >= behind)[:, None])
    return found or [np.zeros_like(y)]


# What the parameters leave of a fault, below which they make up for it.
_SEEN = 1e-3
# A column of which the others leave less than this adds rounding.
_NEGLIGIBLE = 1e-6
# Samples that follow each other closely are worth less than this part of their number.
_CLOSELY = 0.5


@dataclass(frozen=True, eq=False)
class Fault:
    """Something that was not as the model has it.

    Attributes:
        name: what it is.
        added: per run that it touches, what it adds, of the size that the data would like best, (n, k).
        left: per run, (n, k, m) what the parameters leave of its columns.
        size: (m,) in its own units.
        taken: by how much chi^2 would fall.
        freedom: of how many numbers.
    """

    name: str
    added: Mapping[int, NDArray]
    left: Mapping[int, NDArray]
    size: NDArray
    taken: float
    freedom: int

    def certainty(self, evidence: Evidence) -> tuple[float, float]:
        """z^2, and the standard error of the first size, from the noise that is left without the fault.

        Noise that follows itself closely without the fault, too, is taken as it is with it: the fault may have taken
        slow noise away. Of both the smaller z^2 is given.
        """
        certain, error, white = self._tested(evidence, 1.0)
        if not white:
            certain, error, _ = min((certain, error, white), self._tested(evidence, 0.0))
        return certain, error

    def _tested(self, evidence: Evidence, share: float) -> tuple[float, float, bool]:
        """z^2, the standard error, and whether noise that is left without this share of the fault is nearly white."""
        m = self.size.size
        variance, information, white = np.zeros((m, m)), np.zeros((m, m)), True
        for number, left in self.left.items():
            run = evidence.runs[number]
            rest = run.residual.r - share * left @ self.size
            models = (run_noise(rest, run.residual.J) if share else run.noise).models
            n = len(rest)
            white &= all(effective_count(model, n) > _CLOSELY * n for model in models if model.sigma > 0)
            variance += score_covariance(models, rest, left)
            flat = rows(left, run)
            information += flat.T @ flat
        inverse = np.linalg.pinv(information, rcond=_SEEN**2, hermitian=True)
        score = information @ self.size
        certain = float(score @ np.linalg.pinv(variance, rcond=_SEEN**2, hermitian=True) @ score)
        return certain, float(np.sqrt((inverse @ variance @ inverse)[0, 0])), white


class Projected:
    """The runs of a fit, of which each has what its own parameters can make up for projected out.

    Args:
        evidence: of the fit.
    """

    def __init__(self, evidence: Evidence):
        self.evidence = evidence

    @cached_property
    def _bases(self) -> list[NDArray]:
        return [_basis(run) for run in self.evidence.runs]

    def fault(self, name: str, parts: Mapping[int, NDArray]) -> Fault | None:
        """How large a fault the runs together ask for; None where their parameters make up for it.

        Args:
            name: what it is.
            parts: number of a run -> its columns (n, k, m).
        """
        m = next(iter(parts.values())).shape[-1]
        score, information, whole = np.zeros(m), np.zeros((m, m)), np.zeros(m)
        lefts = {}
        for number, columns in parts.items():
            run, U = self.evidence.runs[number], self._bases[number]
            d = rows(columns, run)
            left = d - U @ (U.T @ d)
            score += left.T @ np.nan_to_num(run.residual.r).ravel()
            information += left.T @ left
            whole += np.sum(d**2, axis=0)
            lefts[number] = left.reshape(columns.shape)
        scale = np.sqrt(np.maximum(whole, _TINY))
        values, vectors = np.linalg.eigh(information / np.outer(scale, scale))
        seen = values > _SEEN**2
        if not seen.any() or not np.all(np.isfinite(score)):
            return None
        V = vectors[:, seen] / scale[:, None]
        size = V @ ((V.T @ score) / values[seen])
        added = {number: columns @ size for number, columns in parts.items()}
        return Fault(name, added, lefts, size, float(score @ size), int(seen.sum()))


def _basis(run: RunEvidence) -> NDArray:
    """(n k, P_i) orthonormal columns that span the run's Jacobian."""
    J = rows(run.residual.J, run)
    U, s, _ = np.linalg.svd(J / np.maximum(np.linalg.norm(J, axis=0), _TINY), full_matrices=False)
    return U[:, s > _NEGLIGIBLE]


# One false alarm in two hundred fits, shared by terms of the model, a resistance that it has not, impacts, jumps of the
# clock, and all others: the model's own terms are few, and are not to pay for the many places where a clock may jump.
_LEVEL = 5e-3
_KINDS = 5
# Of the excess of chi^2, the part that a fault must explain to be named.
_MOST = 0.5
# In chi^2 over its mean: what is less likely by more than e^4.5 is another thing.
_ALIKE = 9.0
_NAMED = 3
_RESISTANCE = "a resistance that the model has not, which takes a part of the speed from start to end,"
_UNLIKE = "impacts that are not all alike, as where restitution or friction differs from one to the next,"
# Of those that are nearly as likely: each has the noise estimated anew.
_TRIED = 3


class _Candidate(NamedTuple):
    """A fault, what it is called in a sentence, how likely it is, of what false alarm it has to be free, and where a
    number that the model holds fixed stands."""

    fault: Fault
    told: str
    likely: float
    level: float
    held: float | None = None


def explanations(evidence: Evidence) -> Iterator[Reason]:
    """The one thing that would explain what is wrong, if one would."""
    if evidence.objective.loss.robust or not evidence.kept.any():
        return
    found = _candidates(evidence)
    if not found:
        return
    found.sort(key=lambda one: -one.likely)
    alike = [one for one in found if one.likely > found[0].likely - _ALIKE * max(evidence.misfit, 1.0)]
    excess = sum(float(np.nansum(run.residual.r**2)) for run in evidence.runs) - evidence.result.dof
    # A number of the model's own that explains as much comes first: to set it free asks for no fault of the measuring.
    own = [one for one in found if one.held is not None and one.fault.taken >= _MOST * excess]
    alike = own + [one for one in alike if one not in own]
    for best in alike[:_TRIED]:
        fault = best.fault
        # Without noise rounding has a shape, too.
        if fault.taken < max(_MOST * excess, chdtri(fault.freedom, best.level)):
            continue
        certain, error = fault.certainty(evidence)
        # The noise is known from as many samples as those that follow each other are worth.
        if fdtrc(fault.freedom, max(evidence.effective, 1.0), certain / fault.freedom) < best.level:
            yield _told(evidence, best, error, [one for one in alike if one is not best])
            return


def _told(evidence: Evidence, best: _Candidate, error: float, others: list[_Candidate]) -> Reason:
    shifts = Shifts(evidence)
    moved = [words for one in [best, *others] if (words := shifts.beyond(shifts.by(one.fault.added)))]
    if best.held is not None:
        name, number = best.fault.name, best.held + float(best.fault.size[0])
        here, there = evidence.shown(name, best.held), evidence.shown(name, number, error)
        text = f"{name}, held fixed at {here}, would be {there}"
        moved = moved[:1] and [f" {name} as it is has moved {moved[0]}."]
        other = _others([one for one in others if one.held is None])
        return Reason(f"{text} by the shape of the residuals{other}.{''.join(moved)} Set it free", fatal=bool(moved))
    size = f" by {best.fault.size[0]:.2g} +- {error:.1g}" if best.fault.size.size == 1 else ""
    text = (
        "residuals have the shape that a fault of the measuring leaves, or a number held fixed that is another, or "
        f"something alike: {best.told}{size}{_others(others)}. "
    )
    if moved:
        text += f"It would have moved {moved[0]}. "
    return Reason(
        f"{text}The parameters may have given way to it: check scale, zero and clock, and what is held fixed (gravity, "
        "lengths, a term at zero); set it free, or give the model the term that it lacks",
        fatal=bool(moved),
    )


def _candidates(evidence: Evidence) -> list[_Candidate]:
    projected, log_n = Projected(evidence), np.log(max(evidence.effective, 2.0))
    numbers = range(len(evidence.runs))
    families = (
        ("{}", [faults_of_measuring(evidence, number) for number in numbers]),
        ("{}, held fixed,", [{name: one.column for name, one in run.items()} for run in evidence.fixed_terms]),
        ("{}", [{_RESISTANCE: evidence.resistance[i][..., None]} if i in evidence.resistance else {} for i in numbers]),
        ("{}", [_unlike(evidence, number) for number in numbers]),
    )
    found = []
    for words, of_runs in families:
        several = []
        for name in sorted(set().union(*of_runs)):
            parts: Mapping[int, NDArray] = {
                number: of_runs[number][name] for number in numbers if name in of_runs[number]
            }
            if len({d.shape[-1] for d in parts.values()}) > 1:
                continue
            if fault := projected.fault(name, parts):
                likely = fault.taken - (fault.freedom - 1) * log_n * max(evidence.misfit, 1.0)
                several.append((fault, words.format(name), likely))
        jumps = sum(_is_jump(told) for _, told, _ in several)
        for fault, told, likely in several:
            rivals = jumps if _is_jump(told) else len(several) - jumps
            held = next((run[fault.name].value for run in evidence.fixed_terms if fault.name in run), None)
            found.append(_Candidate(fault, told, likely, _LEVEL / _KINDS / rivals, held))
    return found


def _unlike(evidence: Evidence, number: int) -> dict[str, NDArray]:
    """(n, k, m) what each of the m impacts of all runs would add to a run if it alone were another."""
    if len(evidence.impacts) < 2:
        return {}
    nothing = np.zeros(evidence.runs[number].residual.r.shape)
    return {_UNLIKE: np.stack([impact.get(number, nothing) for impact in evidence.impacts], axis=-1)}


def _is_jump(told: str) -> bool:
    return told.startswith(JUMP)


def _others(alike: list[_Candidate]) -> str:
    """Those that explain it nearly as well, one for each of a kind."""
    names = list(dict.fromkeys(one.told.partition(" at t =")[0] for one in alike))[:_NAMED]
    return f" (or {', or '.join(name.rstrip(',') for name in names)})" if names else ""
