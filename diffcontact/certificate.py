"""Where a trajectory has no derivative, or hardly one: a certificate, and a check of the derivative by differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from diffcontact.arguments import count
from diffcontact.compilation import quick_jit
from diffcontact.schemes.scheme import Scheme
from diffcontact.sensitivity import gather, put, sensitivity
from diffcontact.simulate import Trajectory, simulate
from diffcontact.singularities.course import course
from diffcontact.singularities.grips import grips, slides
from diffcontact.singularities.singularity import Finding, Singularity
from diffcontact.singularities.strikes import kinks, meetings, slow_strikes
from diffcontact.singularities.touches import passes, unloaded
from diffcontact.status import Status, first
from diffcontact.system import System


@dataclass(frozen=True)
class Certificate:
    """What speaks against the derivative of a run, and what it says nothing of.

    Attributes:
        trajectory: the run, with its percussions.
        findings: the singularities, in the order of time, those that are `harmless` among them.
    """

    trajectory: Trajectory
    findings: tuple[Finding, ...]

    @property
    def clear(self) -> bool:
        """Whether none but harmless ones were found, and the run resolved all that happened."""
        return not self._against and int(self.trajectory.status) == Status.OK

    @property
    def _against(self) -> list[Finding]:
        return [finding for finding in self.findings if not finding.singularity.harmless]

    def first(self) -> tuple[Singularity, float, int]:
        """The first that is not harmless, its time [s] and its contact; (NONE, nan, -1) where there is none.

        A run that reports a status, and nothing before, is (UNRESOLVED, nan, -1).
        """
        if self._against:
            first = self._against[0]
            return first.singularity, first.time, first.contact
        resolved = int(self.trajectory.status) == Status.OK
        return Singularity.NONE if resolved else Singularity.UNRESOLVED, float("nan"), -1

    def __str__(self) -> str:
        happened = self.trajectory.percussions
        assert happened is not None
        count, status = int(np.sum(np.asarray(happened.contact) >= 0)), Status(int(self.trajectory.status))
        lines = [f"{finding}" for finding in self._against[:_SHOWN]]
        if len(self._against) > _SHOWN:
            lines.append(f"and {len(self._against) - _SHOWN} more")
        if status != Status.OK:
            lines.append(f"status {status.name}: {status.message}")
        lines = lines or [f"{Singularity.NONE.name}: {Singularity.NONE.message}"]
        for kind in _WORST:
            alike = [finding for finding in self.findings if finding.singularity == kind and kind.harmless]
            more = f" (and {len(alike) - 1} more)" if len(alike) > 1 else ""
            lines += [f"{finding}{more}" for finding in alike[:1]]
        return "\n".join([f"{count} percussions", *lines])


def certify(
    system: Any,
    params: Any,
    q0: Any,
    u0: Any,
    times: Any,
    *,
    scheme: Scheme | None = None,
    substeps: int | str = "auto",
    tolerance: float = 1e-6,
    breaks: Any = None,
    percussions: int = 256,
    change: float = 1e-3,
) -> Certificate:
    """Look along a run for reasons why its derivative does not exist, or is about to change.

    - GRAZING: a contact is struck at less than `change` times the speed of what moves there, or passes so close that
      it would be if its gap were mirrored: the clearance c is below (change speed)^2 / (2 a), a its acceleration.
    - SIMULTANEOUS: coupled contacts meet at one time, or within the gaps that `change`^2 of the way closes. Motions
      nearby, in which they close one after the other, come out otherwise than the run or its derivative.
      Contacts that rest under a load or stuck where they were struck stay closed; those that touch without, and those
      that are struck at the first time, may be opened by the initial values.
    - UNLOADED: bodies touch at rest and are neither pressed together nor pulled apart.
    - ZENO_END: a bounce too slow to be followed ends a sequence of them in rest; SLOW: the same of a single impact;
      THRESHOLD: the speed of a bounce is within the relative `change` of being left out so.
    - KINK: a restitution that depends on the speed jumps, or has a kink, within the relative `change` of a speed of
      approach.
    - AT_THE_END: an impact within `change`^2 of the run's length of its end.
    Where contacts rub, besides:

    - CONE_EDGE: an impact leaves at the edge between grip and slip, to the relative `change`.
    - SLIP_GRAZES: a slip comes within `change` of the fastest to zero and does not end, or ends with a rate that
      vanishes. Otherwise the edge between stick and slip is crossed in time, and there the derivative exists.
    - UNDETERMINED: contacts share load and friction in more than one way, and the motion depends on it.
    - GRIPPED and NOT_UNIQUE are listed for information, and leave a certificate `clear`: an impact in the grip, through
      which nothing depends on mu; contacts that share load and friction in more than one way, on whose sum alone the
      motion depends (a box that lies flat), each set of them once.

    With friction all coupled contacts that meet at one time are SIMULTANEOUS, whether their order matters or not.
    Contacts that let go do so where their load vanishes; there the derivative exists.

    Args:
        system, params, q0, u0, times, scheme, substeps, tolerance, breaks: as in `simulate`, with EventTimed on a
            `System`; of one with a neighbour list (`balls(..., cell=...)`) all pairs are looked at, and contacts are
            numbered as without cells. Steps that are found ("auto") have an error, and passes that are missed by less
            are named.
        percussions: how many to look at; a run with more is UNRESOLVED.
        change: relative change of the velocities that nothing should depend on.

    Returns:
        A `Certificate`; print it.

    Raises:
        ValueError: as `simulate`, and for a `ParticleLine`, whose contacts neither open nor close.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> balls = dc.systems.balls(3, 1)
        >>> params = dict(mass=jnp.ones(3), radius=0.1 * jnp.ones(3), gravity=jnp.zeros(1), restitution=1.0)
        >>> cradle = dc.certify(balls, params, [-0.5, 0.0, 0.5], [1.0, 0.0, -1.0], [0.0, 0.5])
        >>> cradle.first()[0].name, int(cradle.first()[2])
        ('SIMULTANEOUS', 0)
    """
    if not isinstance(system, System):
        raise ValueError(
            f"certify: expected a System, got {type(system).__name__}; it looks at contacts that open and close, and a "
            "ParticleLine has none"
        )
    for name in ("rolling", "adhesion"):
        if getattr(system, name) is not None:
            raise ValueError(f"certify: expected a System without {name}=..., of whose events it knows nothing")
    found = None
    if substeps == "auto":
        found = simulate(
            system, params, q0, u0, times, scheme=scheme, substeps=substeps, tolerance=tolerance, breaks=breaks
        )
        substeps = int(np.asarray(found.substeps))
    grid = _steps(times, count("substeps", substeps, 1), breaks)
    run = simulate(system, params, q0, u0, grid, scheme=scheme, breaks=breaks, percussions=percussions)
    if found is not None:
        run = replace(run, status=first(found.status, run.status), error=found.error, substeps=found.substeps)
    way = course(system, params, run)
    impacts = way.impacts
    singularities = [
        *slow_strikes(way, change),
        *kinks(way, change),
        *meetings(way, change),
        *passes(way, scheme, change),
        *unloaded(way),
        *grips(way, change),
        *slides(way, change),
    ]
    begin, end = way.begin.t[0], way.end.t[-1]
    for k in np.flatnonzero(end - impacts.time <= change**2 * (end - begin)):
        singularities.append((Singularity.AT_THE_END, float(impacts.time[k]), int(impacts.contact[k])))
    if impacts.count == percussions and percussions:
        singularities.append((Singularity.UNRESOLVED, float(impacts.time[-1]), int(impacts.contact[-1])))
    # The worst first where there are several at one time.
    singularities = sorted(dict.fromkeys(singularities), key=lambda one: (one[1], _WORST.index(one[0]), one[2]))
    return Certificate(_at(run, times), tuple(Finding(*one, way.names[one[2]]) for one in singularities))


# So many are printed.
_SHOWN = 5
_WORST = [
    Singularity.SIMULTANEOUS,
    Singularity.UNLOADED,
    Singularity.GRAZING,
    Singularity.UNDETERMINED,
    Singularity.CONE_EDGE,
    Singularity.SLIP_GRAZES,
    Singularity.THRESHOLD,
    Singularity.KINK,
    Singularity.ZENO_END,
    Singularity.SLOW,
    Singularity.AT_THE_END,
    Singularity.UNRESOLVED,
    Singularity.GRIPPED,
    Singularity.NOT_UNIQUE,
]


# Steps beyond that are not looked at one by one.
_MOST_STEPS = 20_000


def _steps(times, substeps: int, breaks) -> np.ndarray:
    """The times at which steps end."""
    times = np.asarray(times)
    if times.ndim != 1 or times.size < 2:
        return times
    count = max(1, min(substeps, _MOST_STEPS // times.size))
    parts = np.arange(count) / count
    steps = np.append((times[:-1, None] + parts * np.diff(times)[:, None]).ravel(), times[-1])
    within = np.array([] if breaks is None else breaks, steps.dtype)
    apart = np.min(np.abs(within[:, None] - steps[None, :]), axis=1, initial=np.inf)
    inside = (within > times[0]) & (within < times[-1]) & (apart > 1e-9 * np.ptp(times))
    return np.unique(np.concatenate([steps, within[inside]]))


def _at(run: Trajectory, times) -> Trajectory:
    """The run at the times it was asked for."""
    places = np.searchsorted(np.asarray(run.t), np.asarray(times, run.t.dtype))
    impulse, friction = (
        None if x is None else jnp.asarray(np.add.reduceat(np.asarray(x), places[:-1], axis=0))
        for x in (run.impulse, run.friction)
    )
    return replace(run, t=run.t[places], q=run.q[places], u=run.u[places], impulse=impulse, friction=friction)


@dataclass(frozen=True)
class GradientCheck:
    """A derivative beside differences.

    Attributes:
        widths: (m,) relative half-widths of the central differences.
        errors: (m,) |difference - derivative| / |derivative| of the state at the end, Frobenius.
        changed: (m,) whether a displaced run has other percussions (number or contacts) than the run itself.
        certificate: of the run.
        resolved: whether shorter steps leave the derivative as it is (`sensitivity`).
        tolerance: what counts as agreement, the cube root of the precision's eps: 6e-6 in double, 5e-3 in single.
            Differences of a smooth map come down to eps^(2/3) times its condition.
    """

    widths: np.ndarray
    errors: np.ndarray
    changed: np.ndarray
    certificate: Certificate
    tolerance: float
    resolved: bool = True

    @property
    def agrees(self) -> bool:
        """Some width agrees: differences of a smooth map do, between curvature and rounding."""
        return bool(np.min(self.errors) <= self.tolerance)

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.agrees and not self.resolved:
            return "the derivative is that of these steps, but shorter ones change it: take smaller steps"
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
    substeps: int | str = "auto",
    tolerance: float | None = None,
    widths: Sequence[float] | None = None,
    percussions: int = 64,
) -> GradientCheck:
    """Compare the derivative of the state at the end with central differences of several widths, and say what to think.

    Args:
        system, params, q0, u0, times, wrt, scheme, substeps, tolerance: as in `sensitivity`, with EventTimed on a
            `System`. The differences are taken with the same steps.
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
    found = sensitivity(system, params, q0, u0, times, wrt=wrt, scheme=scheme, substeps=substeps, tolerance=tolerance)
    if found.trajectory.substeps is not None:
        substeps = int(found.trajectory.substeps)
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
    fine = int(run.status) != Status.TOO_COARSE
    others = np.asarray(contacts).reshape(len(steps), -1, percussions) != np.asarray(happened.contact)
    return GradientCheck(sizes, errors, np.any(others, axis=(1, 2)), certificate, eps ** (1 / 3), fine)


def _matrix(ends, start) -> np.ndarray:
    """(p, n + d) derivatives of q and u at the end by each entry, in the order of ravel_pytree."""
    names = sorted(start)
    pairs = [pair for name in names for pair in zip(*map(jax.tree.leaves, ends[name]), strict=True)]
    columns = [np.concatenate([x[-1], v[-1]]).reshape(x.shape[1] + v.shape[1], -1) for x, v in pairs]
    return np.concatenate(columns, axis=1).T


@partial(quick_jit, static_argnames=("system", "scheme", "substeps", "percussions"))
def _ends(system, params, q0, u0, batch, times, scheme, substeps, percussions):
    """State at the end and contacts of the percussions, for each lane of the batch."""

    def run(moved):
        place = put(params, q0, u0, moved)
        end = simulate(system, *place, times, scheme=scheme, substeps=substeps, percussions=percussions)
        assert end.percussions is not None
        return jnp.concatenate([end.q[-1], end.u[-1]]), end.percussions.contact

    return jax.vmap(run)(batch)
