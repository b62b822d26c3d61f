"""Where a trajectory has no derivative, or hardly one: a certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from diffcontact.arguments import count, placed
from diffcontact.certify.checks import grips, kinks, meetings, passes, slides, slow_strikes, stayed, unloaded
from diffcontact.certify.course import course
from diffcontact.certify.differences import differing
from diffcontact.certify.singularity import WORST, Finding, Singularity
from diffcontact.numerics.batching import full_precision_matmul
from diffcontact.schemes.event_timed import EventTimed
from diffcontact.schemes.scheme import Scheme
from diffcontact.simulate import Trajectory, simulate
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
    _compare_sides: Callable[[], tuple[str, ...]] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def differing(self) -> tuple[str, ...]:
        """The entries of params, q0 and u0 by which one-sided derivatives of the state at the last time differ.

        Where a finding has derivatives of one side only, the motion is simulated to either side of each entry, at the
        first call; else none is named. By an entry that is not named the derivative is the one that is computed.
        """
        one_sided = any(finding.singularity.one_sided for finding in self.findings)
        return self._compare_sides() if one_sided and self._compare_sides is not None else ()

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
        if any(finding.singularity.one_sided for finding in self.findings):
            named = ", ".join(self.differing[:_NAMED]) + (", ..." if len(self.differing) > _NAMED else "")
            lines.append(f"one-sided derivatives of the last state differ by {named or 'no parameter'}")
        for kind in WORST:
            alike = [finding for finding in self.findings if finding.singularity == kind and kind.harmless]
            more = f" (and {len(alike) - 1} more)" if len(alike) > 1 else ""
            lines += [f"{finding}{more}" for finding in alike[:1]]
        return "\n".join([f"{count} percussions", *lines])


def certifies(system: Any, scheme: Scheme | None) -> bool:
    """Whether `certify` knows the events of this system and this scheme."""
    known = isinstance(system, System) and not system.layered and system.adhesion is None
    return known and (scheme is None or isinstance(scheme, EventTimed))


@full_precision_matmul
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

    Listed for information, so that a certificate is `clear` with them:

    - GRIPPED: an impact in the grip, through which nothing depends on mu.
    - NOT_UNIQUE: contacts share load and friction in more than one way, on whose sum alone the motion depends (a box
      that lies flat and does not pivot), each set of them once.
    - STAYED: contacts met with e = 0, touch without a load, and take part in an impact later. With a small e they would
      have parted: by e, and by nothing else, the derivative may not exist.

    With friction all coupled contacts that meet at one time are SIMULTANEOUS, whether their order matters or not.
    Contacts that let go do so where their load vanishes; there the derivative exists.

    A tie is a matter of some parameters and not of others: where bodies touch, the motion has one derivative by their
    masses and two by where they start. `Certificate.differing` names the parameters by which the two differ.

    Args:
        system, params, q0, u0, times, scheme, substeps, tolerance, breaks: as in `simulate`, with EventTimed on a
            `System`; of one with a neighbour list (`balls(..., cell=...)`) all pairs are looked at, and contacts are
            numbered as without cells. Steps that are found ("auto") have an error, and passes that are missed by less
            are named.
        percussions: how many to look at, at least 1; a run with as many is UNRESOLVED, for it may have more.
        change: relative change of the velocities that nothing should depend on, between 0 and 1.

    Returns:
        A `Certificate`; print it.

    Raises:
        ValueError: as `simulate`, for a `ParticleLine`, whose contacts neither open nor close, and inside
            transformations.

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
    for name in ("rolling", "joint_slip", "adhesion"):
        if getattr(system, name) is not None:
            raise ValueError(f"certify: expected a System without {name}=..., of whose events it knows nothing")
    percussions = count("percussions", percussions, 1)
    # Of a change that is no number no check would find anything.
    if np.shape(change) or np.asarray(change).dtype.kind not in "iuf" or not 0 < change < 1:
        raise ValueError(f"change={change!r}: expected a number between 0 and 1")
    if any(isinstance(leaf, Tracer) for leaf in (jnp.zeros(()), *jax.tree.leaves((params, q0, u0, times, breaks)))):
        raise ValueError("certify works outside transformations only (jit, vmap, grad): there values are known")
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
        *stayed(way),
        *grips(way, change),
        *slides(way, change),
    ]
    begin, end = way.begin.t[0], way.end.t[-1]
    for k in np.flatnonzero(end - impacts.time <= change**2 * (end - begin)):
        singularities.append((Singularity.AT_THE_END, float(impacts.time[k]), int(impacts.contact[k])))
    if way.count == percussions:
        singularities.append((Singularity.UNRESOLVED, float(impacts.time[-1]), int(impacts.contact[-1])))
    # The worst first where there are several at one time.
    singularities = sorted(dict.fromkeys(singularities), key=lambda one: (one[1], WORST.index(one[0]), one[2]))
    findings = tuple(Finding(*one, way.names[one[2]]) for one in singularities)
    sides = partial(differing, system, params, np.asarray(run.q)[0], np.asarray(run.u)[0], run.t, scheme, breaks)
    return Certificate(_at(run, times), findings, sides)


# So many findings are printed, and so many parameters.
_SHOWN, _NAMED = 5, 12
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
        None if x is None else placed(np.add.reduceat(np.asarray(x), places[:-1], axis=0))
        for x in (run.impulse, run.friction)
    )
    t, q, u = (placed(np.asarray(x)[places]) for x in (run.t, run.q, run.u))
    return replace(run, t=t, q=q, u=u, impulse=impulse, friction=friction)
