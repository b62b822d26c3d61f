"""Pages of simulated motions, or of ensembles as a fan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from diffcontact.drawing import Coordinate, Draw, Drawing, drawing_of
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.report.content import Channel, Event, Report, RunView
from diffcontact.report.course import CHORD, ROUNDED, Course, course, thinned
from diffcontact.report.motion import Motion, motion
from diffcontact.system import friction_coefficients

# Of an ensemble: lanes that are drawn, that are counted in its bands, and at how many times.
_DRAWN_LANES, _COUNTED_LANES, _FAN_TIMES = 12, 400, 500
# Which part of the lanes is below each edge of a band.
_BANDS = (0.05, 0.25, 0.75, 0.95)
# Coordinates that get a curve: more of them nobody can tell apart. Rows of a curve, and impacts that are marked.
_CURVES, _ROWS, LISTED = 24, 1500, 256


def trajectory_report(
    trajectory: Any, system: Any = None, params: Any = None, draw: Draw | None = None, title: str = "Motion"
) -> Report:
    """The page of a simulated motion; params may be a function lane -> params."""
    lanes = np.ndim(trajectory.q) == 3
    first = _lane(trajectory, 0) if lanes else trajectory
    given = _params_of(params, 0)
    drawing = drawing_of(system, draw)
    known = coordinates_of(drawing, given, first.q.shape[1])
    if lanes:
        run = _fan(trajectory, system, params, drawing)
    else:
        found = system_course(trajectory, system, given)
        run = single("motion", found, events_of(found, trajectory, system, given), drawing, given)
    shown = [j for j, one in enumerate(known) if one.plotted][:_CURVES]
    run = replace(run, curve=run.curve[:, shown], bands=run.bands[:, :, shown] if run.bands.size else run.bands)
    channels = [channel_of(known[j]) for j in shown]
    return Report(title, channels, "s", [run], method=_facts(trajectory, system))


def channel_of(coordinate: Coordinate) -> Channel:
    """How a coordinate is shown: angles in degrees."""
    unit, factor = ("deg", 180 / np.pi) if coordinate.unit == "rad" else (coordinate.unit, 1.0)
    return Channel(coordinate.name, "" if unit == "1" else unit, factor, coordinate.down)


def coordinates_of(drawing: Drawing, params: Any, count: int) -> Sequence[Coordinate]:
    """What the coordinates are called; by their number where nobody has said."""
    known = () if drawing.coordinates is None else tuple(drawing.coordinates(params))
    return known if len(known) == count else tuple(Coordinate(f"q[{j}]", "") for j in range(count))


def system_course(trajectory: Any, system: Any, params: Any) -> Course:
    """The course of a system's trajectory."""
    rates = partial(_rates, system, params) if getattr(system, "rate", None) is not None else None
    gap = partial(_smallest_gap, system, params) if hasattr(system, "gap") else None
    return course(trajectory, rates, getattr(system, "percussion_times", None), gap)


@partial(jit_fast_compile, static=("system",))
def _rates(system: Any, params: Any, q: Array, u: Array) -> Array:
    return jax.vmap(lambda q, u: system.rate(q, u, params))(q, u)


@partial(jit_fast_compile, static=("system",))
def _smallest_gap(system: Any, params: Any, t: Array, q: Array) -> Array:
    return jnp.min(system.gap(t, q, params), initial=jnp.inf)


def events_of(found: Course, trajectory: Any, system: Any, params: Any) -> list[Event]:
    """Impacts, and changes between stick and slip, in order."""
    told = {-1: "impact", -2: "impact at about this time"}
    listed = [
        Event(float(t), told.get(contact, f"impact of contact {contact}"))
        for t, contact in zip(found.impacts, found.contacts.tolist(), strict=True)
    ]
    if trajectory.changes is not None:
        listed += _mode_changes(trajectory.changes)
    elif trajectory.friction is not None and getattr(system, "friction", None) is not None:
        impulse = trajectory.impulse
        listed += _grips(trajectory, friction_coefficients(system, params, impulse.shape[-1], impulse.dtype))
    if hasattr(system, "percussion_times"):
        listed += _stops(trajectory)
    return sorted(listed, key=lambda event: event.time)


def small(found: Course, values: NDArray) -> NDArray:
    """Select rows that show places and values (m, k) sharply."""
    if found.t.size < 2:
        return np.arange(found.t.size)
    shown, tolerance = np.concatenate([found.q, values], axis=1), CHORD
    rows = thinned(found.t, shown, tolerance)
    while rows.size > _ROWS and tolerance < 0.01:
        tolerance *= 2
        rows = thinned(found.t, shown, tolerance)
    return rows


def single(label: str, found: Course, events: Sequence[Event], drawing: Drawing, params: Any) -> RunView:
    """One motion as far as it is finite, nowhere perhaps."""
    kept = found.kept(small(found, found.q[:, :0]))
    moving = motion(drawing, params, kept.t, kept.q) if kept.t.size > 1 else None
    return RunView(label, kept.t, kept.q, events=events, motion=moving)


def _fan(trajectory: Any, system: Any, params: Any, drawing: Drawing) -> RunView:
    """Median and bands of each coordinate, and some moving lanes."""
    q = np.asarray(trajectory.q, float)
    whole = np.flatnonzero(np.all(np.isfinite(q), axis=(1, 2)))
    if not whole.size:
        raise ValueError("trajectory.report: no lane is finite, expected one")
    counted = whole[np.unique(np.linspace(0, whole.size - 1, _COUNTED_LANES).astype(int))]
    courses = {}
    for lane in counted:
        found = system_course(_lane(trajectory, lane), system, _params_of(params, lane))
        courses[lane] = found.kept(small(found, found.q[:, :0]))
    begin = max(found.t[0] for found in courses.values())
    times = np.linspace(begin, min(found.t[-1] for found in courses.values()), _FAN_TIMES)
    below = np.quantile([_at(times, found) for found in courses.values()], (0.5, *_BANDS), axis=0)
    shapes, first = [], None
    for lane in counted[np.unique(np.linspace(0, counted.size - 1, _DRAWN_LANES).astype(int))]:
        seen = motion(drawing, _params_of(params, lane), times, _at(times, courses[lane]))
        # What stands still is there once.
        shapes += [one for one in seen.shapes if first is None or any(len(rows) > 1 for rows in one.fields.values())]
        first = first or seen
    assert first is not None
    lanes = f"{counted.size} lanes" + (f" of {whole.size}" if counted.size < whole.size else "")
    return RunView(
        label=lanes,
        times=times,
        curve=below[0],
        motion=Motion(first.dimension, first.up, shapes),
        bands=below[1:],
        notes={} if whole.size == len(q) else {"left out": f"{len(q) - whole.size} lanes that are not finite"},
    )


def _at(times: NDArray, found: Course) -> NDArray:
    """(m, d) places at these times."""
    return np.stack([np.interp(times, found.t, column) for column in found.q.T], axis=1)


def _lane(trajectory: Any, lane: int) -> Any:
    lanes = np.shape(trajectory.q)[0]

    def pick(leaf):
        return leaf if np.ndim(leaf) == 0 or np.shape(leaf)[0] != lanes else leaf[lane]

    time = trajectory.t[lane] if np.ndim(trajectory.t) == 2 else trajectory.t
    return replace(jax.tree.map(pick, trajectory), t=time)


def _params_of(params: Any, lane: int) -> Any:
    return params(lane) if isinstance(params, Callable) else params


def _mode_changes(changes: Any) -> list[Event]:
    names = ("open", "stick", "slip")
    columns = (changes.time, changes.contact, changes.before, changes.after)
    listed = zip(*map(np.asarray, columns), strict=True)
    return [
        Event(float(time), f"contact {contact}: {names[before]} to {names[after]}", "change")
        for time, contact, before, after in listed
        if contact >= 0
    ]


def _grips(trajectory: Any, mu: Any) -> list[Event]:
    """Changes between stick and slip of lasting contacts.

    Of a contact that slips throughout an interval friction is as large as it can be.
    """
    load, friction = np.asarray(trajectory.impulse, float), np.asarray(trajectory.friction, float)
    if friction.shape[:-1] != load.shape:
        return []
    held = np.linalg.norm(friction, axis=-1) < (1 - ROUNDED) * np.asarray(mu, float) * load
    closed = load > 0
    stays = closed[1:] & closed[:-1]
    events = []
    for i, contact in zip(*np.nonzero(stays & (held[1:] != held[:-1])), strict=True):
        text = f"contact {contact}: {'slip to stick' if held[i + 1, contact] else 'stick to slip'}"
        events.append(Event(float(trajectory.t[i + 1]), text, "change"))
    return events


def _stops(trajectory: Any) -> list[Event]:
    """Stops and starts of particles on a line."""
    t, u = np.asarray(trajectory.t, float), np.asarray(trajectory.u, float)
    rest = u == 0
    events = []
    for i, j in zip(*np.nonzero(rest[1:] != rest[:-1]), strict=True):
        text = f"particle {j}" if u.shape[1] > 1 else "it"
        events.append(Event(float(t[i + 1]), f"{text} {'stops' if rest[i + 1, j] else 'sets off'}", "change"))
    return events


def _facts(trajectory: Any, system: Any) -> dict[str, str]:
    status = np.asarray(trajectory.status)
    wrong = int(np.sum(status != 0))
    facts = {"System": type(system).__name__} if system is not None else {}
    if wrong:
        one = f"{int(status) if status.ndim == 0 else ''}: not to be trusted, see dc.Status"
        facts["Status"] = f"{wrong} of {status.size} lanes are not fine" if status.ndim else one
    return facts
