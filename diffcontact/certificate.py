"""Where a trajectory has no derivative, or hardly one: a certificate, and a check of the derivative by differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from diffcontact.schemes.scheme import Scheme
from diffcontact.sensitivity import gather, put, sensitivity
from diffcontact.simulate import Trajectory, simulate
from diffcontact.status import Status


class Doubt(IntEnum):
    """Why a percussion may have no derivative; 0 is none."""

    NONE = 0
    GRAZING = 1
    ZENO_END = 2
    SIMULTANEOUS = 3
    THRESHOLD = 4
    UNRESOLVED = 5

    @property
    def message(self) -> str:
        """What happened, and what it means for the derivative."""
        return _MESSAGES[self]


_MESSAGES = {
    Doubt.NONE: "every percussion is clear: the derivative exists and is the one that is computed",
    Doubt.GRAZING: "the contact is hardly approached (less than h |a| / 2): the derivative grows like 1 / velocity",
    Doubt.ZENO_END: "a bounce too slow to be followed ends in rest: the rest of its Zeno sequence is left out, O(h)",
    Doubt.SIMULTANEOUS: "coupled contacts are struck at once: their order would matter, one-sided derivatives differ",
    Doubt.THRESHOLD: "a small change would turn this bounce into rest, or back",
    Doubt.UNRESOLVED: "the run itself reports a status, or more percussions than were listed",
}


@dataclass(frozen=True)
class Certificate:
    """What speaks against the derivative of a run.

    Attributes:
        trajectory: the run, with its percussions.
        doubts: (k,) a `Doubt` for each percussion that happened, in order.
    """

    trajectory: Trajectory
    doubts: np.ndarray

    @property
    def clear(self) -> bool:
        """No doubt at all."""
        return not np.any(self.doubts) and int(self.trajectory.status) == Status.OK

    def first(self) -> tuple[Doubt, float, int]:
        """The first doubt, its time [s] and its contact; (NONE, nan, -1) where there is none."""
        rows = np.flatnonzero(self.doubts)
        if rows.size:
            happened = self.trajectory.percussions
            assert happened is not None
            return Doubt(int(self.doubts[rows[0]])), float(happened.time[rows[0]]), int(happened.contact[rows[0]])
        resolved = int(self.trajectory.status) == Status.OK
        return Doubt.NONE if resolved else Doubt.UNRESOLVED, float("nan"), -1

    def __str__(self) -> str:
        doubt, time, contact = self.first()
        where = f" (t = {time:.6g} s, contact {contact})" if contact >= 0 else ""
        status = Status(int(self.trajectory.status))
        run = "" if status == Status.OK else f"; {status.message}"
        return f"{self.doubts.size} percussions; {doubt.name}{where}: {doubt.message}{run}"


def certify(
    system: Any,
    params: Any,
    q0: Any,
    u0: Any,
    times: Any,
    *,
    scheme: Scheme | None = None,
    substeps: int = 1,
    percussions: int = 256,
    change: float = 1e-3,
) -> Certificate:
    """Look at every percussion of a run for reasons why its derivative does not exist, or is about to change.

    What leaves a contact slower than the threshold h |a| / 2 of the rest test stays there: a percussion is a ZENO_END
    where a contact bounces so slowly, THRESHOLD where its velocity afterwards is within the relative `change` of that.
    It is GRAZING where the approach is below the threshold and nothing bounces (e = 0), SIMULTANEOUS where two coupled
    contacts are approached in it. Contacts that let go do so where their load vanishes; there the derivative exists.

    Args:
        system, params, q0, u0, times, scheme, substeps: as in `simulate`, with EventTimed on a `System`.
        percussions: how many to look at; a run with more is UNRESOLVED.
        change: relative change of the approach velocities that nothing should depend on.

    Returns:
        A `Certificate`; print it.

    Raises:
        ValueError: as `simulate`.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> balls = dc.systems.balls(3, 1)
        >>> params = dict(mass=jnp.ones(3), radius=0.1 * jnp.ones(3), gravity=jnp.zeros(1), restitution=1.0)
        >>> cradle = dc.certify(balls, params, [-0.5, 0.0, 0.5], [1.0, 0.0, -1.0], [0.0, 0.5])
        >>> cradle.first()[0].name, int(cradle.first()[2])
        ('SIMULTANEOUS', 0)
    """
    run = simulate(system, params, q0, u0, times, scheme=scheme, substeps=substeps, percussions=percussions)
    assert run.percussions is not None
    happened = jax.tree.map(np.asarray, run.percussions)
    count = int(np.sum(happened.contact >= 0))
    before, slow, soft = (x[:count] for x in (happened.before, happened.slow, happened.soft))
    contact = happened.contact[:count]
    restitution = np.broadcast_to(np.asarray(system.restitution(params)), before.shape)
    # Velocities that differ by rounding only are the same.
    rounding = np.finfo(before.dtype).eps ** 0.75 * np.max(np.abs(before), initial=1.0)
    struck = (before < -rounding) & (happened.impulse[:count] > 0)
    bounces, rebound = struck & (restitution > 0), -restitution * before
    doubts = np.zeros(count, int)
    doubts[np.sum(struck, axis=1) > 1] = Doubt.SIMULTANEOUS
    doubts[np.any(bounces & (np.abs(rebound - slow) <= change * slow), axis=1)] = Doubt.THRESHOLD
    doubts[np.any(bounces & soft & (rebound < (1 - change) * slow), axis=1)] = Doubt.ZENO_END
    rows = np.arange(count)
    doubts[(-before < slow)[rows, contact] & (restitution == 0)[rows, contact]] = Doubt.GRAZING
    if count == percussions and count:
        doubts[-1] = doubts[-1] or Doubt.UNRESOLVED
    return Certificate(run, doubts)


@dataclass(frozen=True)
class GradientCheck:
    """A derivative beside differences.

    Attributes:
        widths: (m,) relative half-widths of the central differences.
        errors: (m,) |difference - derivative| / |derivative| of the state at the end, Frobenius.
        changed: (m,) whether a displaced run has other percussions (number or contacts) than the run itself.
        certificate: of the run.
        tolerance: what counts as agreement, the cube root of the precision's eps: 6e-6 in double, 5e-3 in single.
            Differences of a smooth map come down to eps^(2/3) times its condition.
    """

    widths: np.ndarray
    errors: np.ndarray
    changed: np.ndarray
    certificate: Certificate
    tolerance: float

    @property
    def agrees(self) -> bool:
        """Some width agrees: differences of a smooth map do, between curvature and rounding."""
        return bool(np.min(self.errors) <= self.tolerance)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.agrees:
            return "the derivative is right: differences agree with it"
        if not self.certificate.clear:
            return f"no derivative to be had here: {self.certificate.first()[0].message}"
        if np.all(self.changed):
            return "differences of every width cross a change of the percussions: nothing can be said; try smaller ones"
        return "derivative and differences disagree, and the percussions do not say why: do not trust it"

    def __str__(self) -> str:
        lines = ["   width   difference - derivative   percussions"]
        for width, error, changed in zip(self.widths, self.errors, self.changed, strict=True):
            lines.append(f"{width:8.0e}   {error:23.2e}   {'others' if changed else 'the same'}")
        return "\n".join([*lines, str(self.certificate), f"verdict: {self.verdict}"])


def check_gradient(
    system: Any,
    params: dict,
    q0: Any,
    u0: Any,
    times: Any,
    *,
    wrt: Sequence[str],
    scheme: Scheme | None = None,
    substeps: int = 1,
    widths: Sequence[float] | None = None,
    percussions: int = 64,
) -> GradientCheck:
    """Compare the derivative of the state at the end with central differences of several widths, and say what to think.

    Args:
        system, params, q0, u0, times, wrt, scheme, substeps: as in `sensitivity`, with EventTimed on a `System`.
        widths: half-widths, relative to each entry (absolute for entries that are zero); None: five from eps^0.2 to
            eps^0.45, where eps is the precision of the arrays: 7e-4 to 9e-8 in double, 4e-2 to 8e-4 in single.
        percussions: how many of a run's to compare.

    Returns:
        A `GradientCheck`; print it.

    Raises:
        ValueError: as `sensitivity`.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
        >>> params = dict(mass=jnp.ones(1), radius=jnp.zeros(1), gravity=-9.81 * jnp.ones(1), restitution=0.8)
        >>> run = [1.0], [0.0], jnp.linspace(0, 1, 11)
        >>> check = dc.check_gradient(ball, params, *run, wrt=["q0", "restitution"])
        >>> print(check.verdict)
        the derivative is right: differences agree with it
    """
    found = sensitivity(system, params, q0, u0, times, wrt=wrt, scheme=scheme, substeps=substeps)
    certificate = certify(system, params, q0, u0, times, scheme=scheme, substeps=substeps, percussions=percussions)
    run = found.trajectory
    start = gather(params, run.q[0], run.u[0], wrt)
    at, unravel = ravel_pytree(start)
    derivative = _matrix({name: (found.dq[name], found.du[name]) for name in wrt}, start)
    eps = float(jnp.finfo(at.dtype).eps)
    sizes = np.asarray(eps ** np.linspace(0.2, 0.45, 5) if widths is None else widths, float)
    steps = sizes[:, None] * np.where(np.asarray(at) == 0, 1.0, np.abs(at))[None, :]
    moves = steps[:, :, None, None] * np.array([1.0, -1.0])[:, None] * np.eye(at.size)[:, None, :]
    batch = jax.vmap(unravel)(jnp.asarray(np.asarray(at) + moves.reshape(-1, at.size), at.dtype))
    ends, contacts = _ends(system, params, run.q[0], run.u[0], batch, run.t, scheme, substeps, percussions)
    ends = np.asarray(ends).reshape(*steps.shape, 2, -1)
    differences = (ends[:, :, 0] - ends[:, :, 1]) / (2 * steps[:, :, None])
    errors = np.linalg.norm(differences - derivative, axis=(1, 2)) / (np.linalg.norm(derivative) or 1.0)
    happened = certificate.trajectory.percussions
    assert happened is not None
    others = np.asarray(contacts).reshape(len(steps), -1, percussions) != np.asarray(happened.contact)
    return GradientCheck(sizes, errors, np.any(others, axis=(1, 2)), certificate, eps ** (1 / 3))


def _matrix(ends, start) -> np.ndarray:
    """(p, 2 d) derivatives of q and u at the end by each entry, in the order of ravel_pytree."""
    names = sorted(start)
    pairs = [pair for name in names for pair in zip(*map(jax.tree.leaves, ends[name]), strict=True)]
    columns = [np.stack([x[-1], v[-1]]).reshape(2 * x.shape[1], -1) for x, v in pairs]
    return np.concatenate(columns, axis=1).T


@partial(jax.jit, static_argnames=("system", "scheme", "substeps", "percussions"))
def _ends(system, params, q0, u0, batch, times, scheme, substeps, percussions):
    """State at the end and contacts of the percussions, for each lane of the batch."""

    def run(moved):
        place = put(params, q0, u0, moved)
        end = simulate(system, *place, times, scheme=scheme, substeps=substeps, percussions=percussions)
        assert end.percussions is not None
        return jnp.concatenate([end.q[-1], end.u[-1]]), end.percussions.contact

    return jax.vmap(run)(batch)
