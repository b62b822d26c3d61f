"""Single wrong changes to the package, and whether its tests see them. Run by hand: it takes hours.

    python tests/mutations.py [--only NUMBER ...] [--package qp ...] [--tier default|full|all] [--near]
                              [--workers N] [--cache FOLDER] [--json FILE]

Each mutation is made in a copy of the checkout. There the tests that mirror the changed file run first, then those of
its package, then the rest of the tier. The first failing test is named. The exit code is 1 where fewer than 90 % of
the mutations are seen, and 2 where the table no longer fits the code or the unchanged tests fail.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "diffcontact"
# The share of the mutations that a tier has to see.
WANTED = 0.9
# A stage of tests that takes longer counts as seen: the change has made something endless [s].
LIMIT = 3 * 3600.0


class Mutation(NamedTuple):
    """A wrong change: in a file of the package, a text that occurs there once, and what replaces the text."""

    number: int
    package: str
    file: str
    text: str
    replacement: str
    broken: str

    @property
    def path(self) -> str:
        """Relative to the checkout."""
        return f"{PACKAGE}/{self.file}"


MUTATIONS = (
    Mutation(
        1,
        "qp",
        "qp/projection.py",
        "status = jnp.where(jnp.all(jnp.isfinite(u)), found.status, Status.NOT_FINITE)",
        "status = jnp.where(jnp.all(jnp.isfinite(u)), Status.OK, Status.NOT_FINITE)",
        "a projection onto rows that contradict each other is called right",
    ),
    Mutation(
        2,
        "qp",
        "qp/working_set.py",
        "tolerance = noise + 16 * eps *",
        "tolerance = noise + 1e10 * eps *",
        "a row that is violated by a millionth counts as satisfied",
    ),
    Mutation(
        3,
        "qp",
        "qp/active_set.py",
        "joins = full <= shortest",
        "joins = full < jnp.inf",
        "a row whose multiplier would become negative stays in the working set",
    ),
    Mutation(
        4,
        "qp",
        "qp/rows/body_rows.py",
        "nowhere.at[places].add(",
        "nowhere.at[places].set(",
        "impulses on one body overwrite each other instead of adding up",
    ),
    Mutation(
        5,
        "qp",
        "qp/rows/body_rows.py",
        "shared = (body[:, None] == other[None, :]) & (body != NONE)[:, None]",
        "shared = body[:, None] == other[None, :]",
        "two contacts with walls count as having a body in common",
    ),
    Mutation(
        6,
        "qp",
        "qp/box.py",
        "right = jnp.where(free, -b - A @ bound, bound)",
        "right = jnp.where(free, -b, bound)",
        "components on their bounds do not act on the free ones",
    ),
    Mutation(
        7,
        "qp",
        "qp/equality.py",
        "force = mass_matrix.apply(dmass, v - u) + dG_held.T @ multipliers",
        "force = mass_matrix.apply(dmass, v - u)",
        "the derivative of a projection lacks the turning of its rows",
    ),
    Mutation(
        8,
        "qp",
        "qp/friction/law.py",
        "on_boundary = (P + friction * size) / (1 + friction**2)",
        "on_boundary = (P + friction * size) / (1 + friction)",
        "a square is missing in the projection onto the cone of friction",
    ),
    Mutation(
        9,
        "qp",
        "qp/friction/one_contact.py",
        "s = jnp.maximum(jnp.diagonal(W)[1:] - coupling * W[1:, 0], tiny)",
        "s = jnp.maximum(jnp.diagonal(W)[1:], tiny)",
        "a normal impulse that changes the slip is left out",
    ),
    Mutation(
        10,
        "qp",
        "qp/friction/derivative.py",
        "by_normal = jnp.where(slipping, -friction[:, None] * e, 0)",
        "by_normal = jnp.where(slipping, friction[:, None] * e, 0)",
        "in derivatives friction falls as the load grows",
    ),
    Mutation(
        11,
        "qp",
        "qp/matrix_free/conjugate_gradients.py",
        "_largest(jnp.abs(jnp.minimum(d - self.floor, w)))",
        "_largest(jnp.minimum(d - self.floor, w))",
        "violated rows do not count in the residual of many rows",
    ),
    Mutation(
        12,
        "qp",
        "qp/matrix_free/coulomb_many.py",
        "friction * normal / tangential, coulomb)",
        "friction * tangential / normal, coulomb)",
        "the friction of many contacts is scaled by the inverse ratio of their rows",
    ),
    Mutation(
        13,
        "schemes",
        "schemes/position_projection.py",
        "curvature = jnp.where(regular, curvature, 0.0)",
        "curvature = jnp.zeros_like(curvature)",
        "the derivative of a projected position lacks the curvature of its contacts",
    ),
    Mutation(
        14,
        "schemes",
        "schemes/position_projection.py",
        "outside = jnp.any(system.gap(t, w, params) < 0)",
        "outside = jnp.any(system.gap(t, w, params) < -1e-3)",
        "bodies may overlap by a millimetre before a position is projected",
    ),
    Mutation(
        15,
        "schemes",
        "schemes/catching_up.py",
        "system.force(t + h / 2, q, u, params)",
        "system.force(t, q, u, params)",
        "the force is taken at the beginning of a step, not in its middle",
    ),
    Mutation(
        16,
        "schemes",
        "schemes/catching_up.py",
        "inelastic_status(system, params)), first(curved, passed))",
        "inelastic_status(system, params)), curved)",
        "a step that goes right through a body is not reported",
    ),
    Mutation(
        17,
        "schemes",
        "schemes/elastic_projection.py",
        "meant = t + h * (1 - e) / (1 + e)",
        "meant = t + h",
        "moving contacts are taken at another time than the projected position",
    ),
    Mutation(
        18,
        "schemes",
        "schemes/elastic_projection.py",
        "w = q + h * ((1 - e) * u + gain) / (1 + e)",
        "w = q + h * ((1 - e) * u / (1 + e) + gain)",
        "the force is not divided by 1 + e",
    ),
    Mutation(
        19,
        "schemes",
        "schemes/elastic_projection.py",
        "jnp.where(coupled, Status.COUPLED_IMPACTS, Status.OK),",
        "jnp.asarray(int(Status.OK)),",
        "impacts that act on each other are not reported",
    ),
    Mutation(
        20,
        "schemes",
        "schemes/velocity_projection.py",
        "gap, rows = reached(system, params, t + h, h, q)",
        "gap, rows = reached(system, params, t, h, q)",
        "moving contacts are taken at the beginning of a step, not at its end",
    ),
    Mutation(
        21,
        "schemes",
        "schemes/applicability.py",
        "_TURN = 0.25",
        "_TURN = 2.5",
        "normals may turn ten times as far in a step before it is reported",
    ),
    Mutation(
        22,
        "schemes",
        "schemes/gluing.py",
        "left = jnp.minimum(found.multipliers, most_held(system, params, adhesion))",
        "left = found.multipliers",
        "an adhesion grows beyond its bound",
    ),
    Mutation(
        23,
        "schemes",
        "schemes/percussion_friction.py",
        "factor = linear.cholesky(jnp.diag(mass) + s * damping + s**2 * stiffness)",
        "factor = linear.cholesky(jnp.diag(mass) + s * damping + s * stiffness)",
        "a square is missing: springs are too stiff in implicit Euler",
    ),
    Mutation(
        24,
        "schemes",
        "schemes/percussion_friction.py",
        "reaction = qp.box(compliance, free - drift, -bound, bound)",
        "reaction = qp.box(compliance, free, -bound, bound)",
        "friction acts as if the belt stood still",
    ),
    Mutation(
        25,
        "schemes",
        "schemes/line.py",
        "impulse = jnp.where(mass * jnp.abs(slip) < bound, -mass * slip, -bound * jnp.sign(slip))",
        "impulse = jnp.where(mass * jnp.abs(slip) < bound, -mass * slip, -bound * jnp.sign(u))",
        "a percussion slows down the velocity, not the slip on the belt",
    ),
    Mutation(
        26,
        "schemes",
        "schemes/line.py",
        "(times <= end + _rounding(t, h))",
        "(times < end - _rounding(t, h))",
        "< for <=: a percussion at the end of a step acts in the next step",
    ),
    Mutation(
        27,
        "event_timed",
        "schemes/event_timed/events.py",
        "late = jnp.where(approaching, missed / jnp.where",
        "late = jnp.where(approaching, lax.stop_gradient(missed) / jnp.where",
        "the time of an event carries no derivative",
    ),
    Mutation(
        28,
        "event_timed",
        "schemes/event_timed/impacts.py",
        "here.drift + e * self.opening, jnp.inf)",
        "e * self.opening, jnp.inf)",
        "the velocity of a moving wall is left out of its impacts",
    ),
    Mutation(
        29,
        "event_timed",
        "schemes/event_timed/smooth_motion.py",
        "return u + s / 2 * (begin.a + free) if order == 2 else w",
        "return u + s * begin.a if order == 2 else w",
        "the velocity is integrated to first order only",
    ),
    Mutation(
        30,
        "event_timed",
        "schemes/event_timed/friction/moment.py",
        "rises, turns = e * place.contacts.velocity(u), e_t[:, None] *",
        "rises, turns = e * place.contacts.velocity(u), -e_t[:, None] *",
        "the tangential restitution has the wrong sign",
    ),
    Mutation(
        31,
        "event_timed",
        "schemes/event_timed/friction/flow/law.py",
        "-(some**2) * end.work",
        "-some * end.work",
        "a square is missing in Stronge's law of impact",
    ),
    Mutation(
        32,
        "event_timed",
        "schemes/event_timed/line_slip.py",
        "reversed_ = jnp.where(jnp.abs(drawn) <= bound, 0, jnp.sign(drawn))",
        "reversed_ = jnp.where(jnp.abs(drawn) <= 10 * bound, 0, jnp.sign(drawn))",
        "a particle sticks under ten times the pull that friction can hold",
    ),
    Mutation(
        33,
        "systems",
        "systems/surfaces.py",
        "blocks = [distance - radius[first] - radius[second]]",
        "blocks = [distance - radius[first] - radius[first]]",
        "a swapped index: the gap of two balls has one radius twice",
    ),
    Mutation(
        34,
        "systems",
        "systems/surfaces.py",
        "return table[jnp.asarray(material)[first], jnp.asarray(material)[second]]",
        "return table[jnp.asarray(material)[first], jnp.asarray(material)[first]]",
        "a pair of materials has the coefficient of the first with itself",
    ),
    Mutation(
        35,
        "systems",
        "systems/spin.py",
        "at_second = jnp.concatenate([tangent, -far * moment], axis=1)",
        "at_second = jnp.concatenate([tangent, far * moment], axis=1)",
        "the spin of the second ball has the wrong sign in the slip",
    ),
    Mutation(
        36,
        "systems",
        "systems/spin.py",
        "{2: 1 / 2, 3: 2 / 5}[surfaces.dimension] * mass * radius**2",
        "{2: 1 / 2, 3: 2 / 5}[surfaces.dimension] * mass * radius",
        "a square is missing in the moment of inertia of balls",
    ),
    Mutation(
        37,
        "systems",
        "systems/bodies.py",
        "torque = -jnp.cross(w, poses.turn(turned, w))",
        "torque = jnp.cross(w, poses.turn(turned, w))",
        "the gyroscopic torque has the wrong sign",
    ),
    Mutation(
        38,
        "systems",
        "systems/solids.py",
        "poses.turn(turned.swapaxes(1, 2), normal))",
        "poses.turn(turned, normal))",
        "the normal at an ellipse is turned the wrong way into its frame",
    ),
    Mutation(
        39,
        "systems",
        "systems/laws.py",
        'share = 1 - (value("sticking_speed") / speed) ** 2',
        'share = 1 - (value("sticking_speed") / speed)',
        "a square is missing in the restitution of sticky bodies",
    ),
    Mutation(
        40,
        "systems",
        "systems/cell_list_balls.py",
        "self.within(params, t, q, 2 * way + closing)",
        "self.within(params, t, q, way / 8)",
        "contacts that close within the step are missing from the neighbour list",
    ),
    Mutation(
        41,
        "systems",
        "systems/air.py",
        "jnp.cross(w, v) if dimension == 3",
        "jnp.cross(v, w) if dimension == 3",
        "topspin lifts a ball in space",
    ),
    Mutation(
        42,
        "systems",
        "shapes/polytopes.py",
        "share = jnp.clip(jnp.sum(to * along, axis=1) / jnp.sum(along**2, axis=1), 0, 1)",
        "share = jnp.sum(to * along, axis=1) / jnp.sum(along**2, axis=1)",
        "the nearest point of a polygon may lie beyond the end of an edge",
    ),
    Mutation(
        43,
        "runs",
        "certificate.py",
        "        *kinks(way, change),\n",
        "",
        "a certificate does not look for kinks of the restitution",
    ),
    Mutation(
        44,
        "runs",
        "singularities/order.py",
        "late = -(meeting.normals[contact] @ moved)",
        "late = (meeting.normals[contact] @ moved)",
        "a saltation matrix with the wrong sign decides whether the order of impacts matters",
    ),
    Mutation(
        45,
        "runs",
        "hypotheses.py",
        "jnp.linalg.eigvalsh(curvature)[:, -1]",
        "jnp.linalg.eigvalsh(curvature)[:, 0]",
        "the radius of prox-regularity takes the smallest curvature",
    ),
    Mutation(
        46,
        "runs",
        "hypotheses.py",
        "left = 1 - a * duration - b * duration**2",
        "left = 1 - a * duration - b * duration",
        "a square is missing in the bound of the velocity",
    ),
    Mutation(
        47,
        "runs",
        "hypotheses.py",
        "jnp.where(near[:, None], contacts(system, params, t, q).normals, 0.0).T",
        "contacts(system, params, t, q).normals.T",
        "the angle condition counts contacts that are open",
    ),
    Mutation(
        48,
        "runs",
        "sensitivity.py",
        "wrt, scheme, substeps) <= agreement:",
        "wrt, scheme, substeps) <= 1e6 * agreement:",
        "a derivative that does not exist is called right",
    ),
    Mutation(
        49,
        "runs",
        "refinement.py",
        "missed = jnp.where(error > tolerance,",
        "missed = jnp.where(error > 10 * tolerance,",
        "steps that miss the tolerance tenfold are called fine enough",
    ),
    Mutation(
        50,
        "runs",
        "impact.py",
        "approach = jnp.where(closed, opening, jnp.inf)",
        "approach = opening",
        "the contact that is struck may be one that is open",
    ),
    Mutation(
        51,
        "runs",
        "ensemble/run.py",
        "which = np.flatnonzero(status == code)",
        "which = np.flatnonzero(status >= code)",
        "the summary counts lanes under a status that is not theirs",
    ),
    Mutation(
        52,
        "runs",
        "ensemble/store.py",
        "!= checksums[number]:",
        "!= checksums[number] and number > 0:",
        "damage of the first chunk of a store is not seen",
    ),
    Mutation(
        53,
        "identify",
        "identify/problem/residual.py",
        "(samples.values - seen) / samples.sigma, 0.0)",
        "(samples.values - seen) * samples.sigma, 0.0)",
        "residuals are multiplied by their noise",
    ),
    Mutation(
        54,
        "identify",
        "identify/problem/residual.py",
        "jnp.interp(_heard(model, trajectory), times, samples.times)",
        "jnp.interp(_heard(model, trajectory), samples.times, times)",
        "swapped arguments: times of impacts are put on the wrong clock",
    ),
    Mutation(
        55,
        "identify",
        "identify/problem/parameters.py",
        "return np.where(self.log, self.values(theta), 1.0)",
        "return np.ones(self.log.shape)",
        "errors of logarithms are given as errors of the parameters",
    ),
    Mutation(
        56,
        "identify",
        "identify/problem/priors.py",
        "self.parameters.slopes(theta)[self.index] / self.sigma",
        "self.parameters.slopes(theta)[self.index] / self.sigma**2",
        "a prior of 0.1 counts ten times as much as it should in the error bars",
    ),
    Mutation(
        57,
        "identify",
        "identify/problem/observations.py",
        "bad = ~(np.broadcast_to(noise, values.shape) > 0)",
        "bad = ~(np.broadcast_to(noise, values.shape) >= 0)",
        ">= for >: a noise of zero is accepted",
    ),
    Mutation(
        58,
        "identify",
        "identify/problem/loss.py",
        "return first * r, first + 2 * z * second",
        "return first * r, first",
        "a term is missing in the error bars under a robust loss",
    ),
    Mutation(
        59,
        "identify",
        "identify/covariance/autoregression.py",
        "freedom = sum(self.count[p]) - rank",
        "freedom = sum(self.count[p])",
        "noise is estimated as if no parameter had been fitted",
    ),
    Mutation(
        60,
        "identify",
        "identify/covariance/error_bars.py",
        "quantile[shared] = stdtrit(between.freedom, 0.975)",
        "quantile[shared] = ndtri(0.975)",
        "intervals from few runs take the normal distribution for Student's",
    ),
    Mutation(
        61,
        "identify",
        "identify/covariance/jackknife.py",
        "scatter = (G - 1) / G * left_out.delta.T @ left_out.delta",
        "scatter = left_out.delta.T @ left_out.delta / G",
        "the factor G - 1 of the jackknife is missing",
    ),
    Mutation(
        62,
        "identify",
        "identify/covariance/run_noise.py",
        "correlation = (innovations / norms).T @ (innovations / norms)",
        "correlation = np.eye(norms.size)",
        "noise that channels have in common counts as independent",
    ),
    Mutation(
        63,
        "identify",
        "identify/identifiability/null_space.py",
        "basis = Vt[s <= np.sqrt(eps) * s[0]].T",
        "basis = Vt[s <= eps**2 * s[0]].T",
        "directions that the data cannot see count as seen",
    ),
    Mutation(
        64,
        "identify",
        "identify/estimate.py",
        "low = (end.x - parameters.low <= near) & ((end.grad > 0) | flat)",
        "low = (end.x - parameters.low <= near) & (end.grad < 0)",
        "an estimate at its lower bound is not reported",
    ),
    Mutation(
        65,
        "identify",
        "identify/intervals/scan.py",
        "min(2 * (cost - self.cost) / self.scale,",
        "min((cost - self.cost) / self.scale,",
        "a factor 2 is missing in the rise of the cost along a profile",
    ),
    Mutation(
        66,
        "identify",
        "identify/intervals/bootstrap.py",
        "simulated = measured - sigma * np.where(run.present, here.r, 0.0)",
        "simulated = measured",
        "replicas have the noise of the data and their own",
    ),
    Mutation(
        67,
        "identify",
        "identify/verdict/contradiction.py",
        "moved = -inverse @ (S.T @ r.ravel())",
        "moved = inverse @ (S.T @ r.ravel())",
        "a single run's own estimate is on the wrong side",
    ),
    Mutation(
        68,
        "identify",
        "identify/verdict/verdict.py",
        "key=lambda reason: not reason.fatal)",
        "key=lambda reason: reason.fatal)",
        "a fatal reason does not decide where there are others",
    ),
    Mutation(
        69,
        "identify",
        "identify/verdict/doubts.py",
        "if abs(off) > _UNUSUAL:",
        "if abs(off) > 10 * _UNUSUAL:",
        "a threshold times ten: priors that the data contradict are not named",
    ),
    Mutation(
        70,
        "identify",
        "identify/experiment/noise.py",
        "ratio = spacing / self.spacing",
        "ratio = self.spacing / spacing",
        "an inverted ratio: noise at another frame rate has the wrong correlation",
    ),
    Mutation(
        71,
        "identify",
        "identify/comparison.py",
        "aic, bic = float(misfit + 2 * more)",
        "aic, bic = float(misfit - 2 * more)",
        "AIC rewards further parameters",
    ),
    Mutation(
        72,
        "scene",
        "scene/units.py",
        "return self.dimension == other.dimension",
        "return [base for base, _ in self.dimension] == [base for base, _ in other.dimension]",
        "a loosened check: m/s is taken where m/s^2 is expected",
    ),
    Mutation(
        73,
        "scene",
        "scene/units.py",
        '"rpm": (2 * math.pi / 60.0,',
        '"rpm": (1 / 60.0,',
        "a wrong factor: a turn is taken for a radian in rpm",
    ),
    Mutation(
        74,
        "scene",
        "scene/ties.py",
        "flat = flat.at[at].set(factor * jnp.ravel(params[source])[of])",
        "flat = flat.at[at].set(factor * jnp.ravel(params[source])[at])",
        "a swapped index: a parameter follows from another element",
    ),
    Mutation(
        75,
        "scene",
        "scene/clock.py",
        "off[worst] > 0.75 * resolution(times[seen]) + _JITTER * spacing",
        "off[worst] > 10 * (0.75 * resolution(times[seen]) + _JITTER * spacing)",
        "a threshold times ten: lost rows are not noticed in the times",
    ),
    Mutation(
        76,
        "scene",
        "scene/measurements.py",
        "np.all([part == 0 for part in parts], axis=0)",
        "np.any([part == 0 for part in parts], axis=0)",
        "a marker is lost where one of its coordinates is zero",
    ),
    Mutation(
        77,
        "scene",
        "scene/recordings/qualisys.py",
        "repr(count / rate)",
        "repr((count + 1) / rate)",
        "the first frame of a Qualisys export is one frame late",
    ),
    Mutation(
        78,
        "scene",
        "scene/scale.py",
        "stretch = self.stated / params[NAME]",
        "stretch = params[NAME] / self.stated",
        "an inverted ratio: a fitted scale stretches the wrong way",
    ),
    Mutation(
        79,
        "scene",
        "scene/preparation/free_decay.py",
        "np.arcsinh(2 * a * X) / (4 * a)",
        "np.arcsinh(2 * a * X) / (2 * a)",
        "a wrong factor in the length of the way along a track",
    ),
    Mutation(
        80,
        "report",
        "report/course.py",
        "s**2 * (3 - 2 * s) * q1[arc]",
        "s**2 * (2 - s) * q1[arc]",
        "bodies are drawn beside the way that they take between two times",
    ),
    Mutation(
        81,
        "report",
        "report/motion.py",
        "np.subtract(away[name], rows,",
        "np.subtract(rows, away[name],",
        "measured bodies are drawn on the wrong side of the fitted ones",
    ),
    Mutation(
        82,
        "report",
        "commands/fit.py",
        "not (strict and result.verdict.explains == NO)",
        "not (strict and result.verdict.explains != NO)",
        "--strict fails where the model explains the data",
    ),
    Mutation(
        83,
        "report",
        "commands/check.py",
        "closest = int(np.argmin(gaps))",
        "closest = int(np.argmax(gaps))",
        "check looks where contacts are farthest, not closest",
    ),
)


@dataclass(frozen=True)
class Result:
    """What the tests made of a mutation.

    Args:
        number, package, file, broken: of the mutation.
        outcome: "seen", "unseen", or what the change ended in before a test could fail: "import", "crash", "endless".
        test: the first that failed.
        stage: the tests among which it is.
        seconds: wall time.
    """

    number: int
    package: str
    file: str
    broken: str
    outcome: str
    test: str
    stage: str
    seconds: float

    @property
    def seen(self) -> bool:
        return self.outcome != "unseen"


def misfits(mutations: Sequence[Mutation] = MUTATIONS, root: Path = ROOT) -> list[str]:
    """The rows that no longer apply, in words."""
    told = []
    for one in mutations:
        file = root / one.path
        count = file.read_text().count(one.text) if file.exists() else 0
        if count != 1:
            there = f"{one.text!r} is there {count} times" if file.exists() else "no such file"
            told.append(
                f"row {one.number}, {one.path}: {there}, expected once: "
                f"give the row the place where now '{one.broken}' could happen, or another change of this package"
            )
    return told


def expression(tier: str, root: Path = ROOT) -> str:
    """The marker expression of a tier: what pyproject.toml has, what it leaves out first, or nothing.

    Example:
        >>> expression("all")
        ''
    """
    options = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    words = shlex.split(options)
    default = words[words.index("-m") + 1] if "-m" in words else ""
    left_out = re.findall(r"not (\w+)", default)
    return {"default": default, "full": left_out[0] if left_out else "", "all": ""}[tier]


def stages(mutation: Mutation, root: Path, near: bool) -> Iterator[tuple[str, list[str]]]:
    """Names of stages and their paths: the file's own tests, those of its folders up to its package, all others."""
    parts = Path(mutation.file).with_suffix("").parts
    for n in range(len(parts) - 1, -1, -1):
        folder, name = root.joinpath("tests", *parts[:n]), parts[n]
        found = [*([folder / name] if (folder / name).is_dir() else []), *sorted(folder.glob(f"test_{name}*.py"))]
        paths = [str(path.relative_to(root)) for path in found]
        own = n == len(parts) - 1
        if own or paths:
            yield ("module", [mutation.path, *paths]) if own else ("package", paths)
    if not near:
        yield "rest", ["tests", PACKAGE]


class Copies:
    """Copies of the checkout in which tests run, one for each worker.

    Args:
        tier: of the tests.
        near: whether to stop after the tests of the package.
        cache: a folder for compiled programs, or None.
        workers: how many copies.
        scratch: where they are.
    """

    def __init__(self, tier: str, near: bool, cache: Path | None, workers: int, scratch: Path):
        self.marker, self.near, self.cache, self.scratch = expression(tier), near, cache, scratch
        self.running: set[subprocess.Popen] = set()
        self.over = False
        self.free: SimpleQueue[int] = SimpleQueue()
        for number in range(workers):
            self.free.put(number)
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        self.files = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]

    def run(self, mutation: Mutation | None) -> Result:
        """What the tests make of a mutation, or of the unchanged checkout."""
        worker = self.free.get()
        try:
            begin = time.monotonic()
            outcome, test, stage = self._looked_at(mutation, self.scratch / f"copy-{worker}", worker)
            known = (0, "", "", "nothing") if mutation is None else (*mutation[:3], mutation.broken)
            return Result(*known, outcome, test, stage, round(time.monotonic() - begin, 1))
        finally:
            self.free.put(worker)

    def _looked_at(self, mutation: Mutation | None, copy: Path, worker: int) -> tuple[str, str, str]:
        shutil.rmtree(copy, ignore_errors=True)
        for name in self.files:
            place = copy / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place)
        environment = self._environment(copy, worker)
        if mutation is None:
            plan = iter([("rest", ["tests", PACKAGE])])
        else:
            file = copy / mutation.path
            file.write_text(file.read_text().replace(mutation.text, mutation.replacement))
            name = mutation.path.removesuffix(".py").replace("/", ".")
            code = f"import {PACKAGE}, {name}; assert {PACKAGE}.__file__.startswith({str(copy)!r}), {PACKAGE}.__file__"
            returned, output = self._process([sys.executable, "-c", code], copy, environment)
            if returned != 0:
                return "import", output.strip().rpartition("\n")[2], "import"
            plan = stages(mutation, copy, self.near)
        # In a copy with a mutation the table does not fit the code, which is no test of the change.
        done = ["tests/test_mutations.py"]
        for stage, paths in plan:
            options = ["-x", "-q", "-n", "0", "-rfE", "--tb=short", "--no-header", "-m", self.marker]
            # The tests of the kernel keep its code there from one run to the next.
            options += ["-o", f"cache_dir={self.scratch / f'pytest-{worker}'}", *(f"--ignore={path}" for path in done)]
            command = [sys.executable, "-m", "pytest", *options, *paths]
            returned, output = self._process(command, copy, environment)
            done += paths
            # 5: none of the tests is of this tier.
            if returned not in (0, 5):
                return *_failure(returned, output), stage
        return "unseen", "", ""

    def _environment(self, copy: Path, worker: int) -> dict[str, str]:
        environment = os.environ | {"PYTHONPATH": str(copy), "COLUMNS": "300"}
        data = ROOT.parent / "shared" / "data"
        if data.is_dir():
            environment.setdefault("DIFFCONTACT_DATA", str(data))
        kept = "off" if self.cache is None else str(self.cache.resolve() / str(worker))
        environment |= {"DIFFCONTACT_CACHE": kept, "DIFFCONTACT_TEST_CACHE": kept}
        if self.cache is not None:
            # Each worker has a folder of its own: what one writes the other might read by halves.
            environment |= {"JAX_COMPILATION_CACHE_DIR": kept, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
        return environment

    def _process(self, command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int | None, str]:
        """The exit status, None where it took too long, and what was printed."""
        if self.over:
            raise InterruptedError("no further tests begin")
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.running.add(process)
        try:
            output, _ = process.communicate(timeout=LIMIT)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            self.running.discard(process)
            stop(process)

    def stop(self) -> None:
        """End what runs, and begin nothing more."""
        self.over = True
        for process in list(self.running):
            stop(process)


def stop(process: subprocess.Popen) -> None:
    """End a process and those that it has begun."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failure(returned: int | None, output: str) -> tuple[str, str]:
    """The outcome of tests that did not pass, and the first that failed."""
    if returned is None:
        return "endless", ""
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    test = found.group(1) if found else output.strip().rpartition("\n")[2]
    if returned < 0:
        return "crash", test
    # Of what cannot be collected there is no test but the file.
    return ("seen" if returned == 1 and "::" in test else "import"), test


def chosen(only: Sequence[int] | None, packages: Sequence[str] | None) -> list[Mutation]:
    """The rows that were asked for.

    Raises:
        ValueError: there is no such row or package.
    """
    numbers, names = {one.number for one in MUTATIONS}, {one.package for one in MUTATIONS}
    if unknown := sorted(set(only or ()) - numbers):
        raise ValueError(f"--only {unknown[0]}: no such row, expected {min(numbers)} to {max(numbers)}")
    if unknown := sorted(set(packages or ()) - names):
        raise ValueError(f"--package {unknown[0]}: no such package, expected one of {', '.join(sorted(names))}")
    return [one for one in MUTATIONS if one.number in (only or numbers) and one.package in (packages or names)]


def line(result: Result) -> str:
    """A result as the table has it."""
    told = f"{result.number:4}  {result.package:11}  {result.outcome:7}  {result.seconds:7.0f} s  {result.broken}"
    return f"{told}\n{'':37}{result.test}" if result.test else told


def table(results: Sequence[Result]) -> str:
    """All results in order, and how many of each package were seen."""
    lines = [*(line(one) for one in sorted(results, key=lambda one: one.number)), ""]
    for package in (*dict.fromkeys(one.package for one in MUTATIONS), "all"):
        those = [one.seen for one in results if package in (one.package, "all")]
        if those:
            lines.append(f"{package:11} {sum(those)} of {len(those)}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutations that were asked for."""
    parser = argparse.ArgumentParser(description="Single wrong changes to the package, and whether its tests see them.")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="rows of the table; default: all")
    parser.add_argument("--package", nargs="+", metavar="NAME", help="packages of the table; default: all")
    parser.add_argument("--tier", choices=("default", "full", "all"), default="default", help="which tests run")
    parser.add_argument("--near", action="store_true", help="stop after the tests of the changed file's package")
    parser.add_argument("--workers", type=int, default=1, help="how many mutations run at a time")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="where compiled programs are kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results are written, after each of them")
    options = parser.parse_args(arguments)
    try:
        rows = chosen(options.only, options.package)
    except ValueError as error:
        parser.error(str(error))
    if told := misfits():
        print("\n".join(told), file=sys.stderr)
        return 2
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as scratch:
        copies = Copies(options.tier, options.near, options.cache, options.workers, Path(scratch).resolve())
        # Tests that fail anyway would see everything.
        if not (options.only or options.package or options.near):
            unchanged = copies.run(None)
            print(f"unchanged: {unchanged.outcome}, {unchanged.seconds:.0f} s {unchanged.test}", flush=True)
            if unchanged.seen:
                return 2
        pool = ThreadPoolExecutor(options.workers)
        try:
            for future in as_completed([pool.submit(copies.run, row) for row in rows]):
                results.append(future.result())
                print(line(results[-1]), flush=True)
                if options.json is not None:
                    options.json.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            copies.stop()
            pool.shutdown()
    print(f"\n{table(results)}")
    return 0 if sum(one.seen for one in results) >= WANTED * len(results) else 1


if __name__ == "__main__":
    # The tests that run are in sessions of their own, and end with the tool only by its own hand.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
