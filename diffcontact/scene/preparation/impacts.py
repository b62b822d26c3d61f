"""Impacts: tables of velocities before and after, and bounces of a ball with the samples around each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import shown
from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.preparation.coordinates import PREPARATIONS, RESTITUTION_STARTS, Preparation, PreparedRun

# The velocities are those at these times; the system is struck between them.
_TIMES = np.array([0.0, 2.0])


@PREPARATIONS.add(
    "impacts",
    before="columns of the velocities before: of the ball; of two carts; of the body along the floor and off it",
    after="as many after it",
    unit='of these, "m/s" by default',
    spin="of a body, [before, after]",
    spin_unit='of these, "rad/s" by default',
    levers="of a body, [normal, tangential]: where the floor strikes it, seen from its centre",
    lever_unit='of these, "m" by default',
    gyration="{ value, unit }: radius of gyration, the root of the moment of inertia over the mass",
    flagged="column that is not 0 in rows that are left out",
)
def impacts(table: Table, ready: ReadySystem) -> Preparation:
    """Take each row as a run: velocities before and after.

    Directions are those of the system: a ball comes from above, the first cart from behind, a body strikes a floor with
    its second velocity. The data give the signs of its levers: rho^2 dw = l_n dv_n + l_t dv_t. Rows in which nothing
    approaches are left out. A spin is the last velocity of a body, times rho; levers are in units of rho.
    """
    if ready.length != "m/s":
        raise table.fail("kind", "'impacts' goes with the system 'impact'")
    before, after, body = table.names("before"), table.names("after"), "levers" in ready.given
    if len(after) != len(before):
        raise table.fail("after", f"{len(after)} columns, before has {len(before)}; expected as many")
    scales, flagged = np.full(len(before), table.factor("unit", "m/s")), table.text("flagged", "")
    arms, arm_scale = (), 1.0
    if body:
        spin, arms, rho = table.names("spin"), table.names("levers"), table.quantity("gyration", "m")
        for key, names in (("spin", spin), ("levers", arms)):
            if len(names) != 2:
                raise table.fail(key, f"{len(names)} columns, expected two")
        before, after = (*before, spin[0]), (*after, spin[1])
        scales = np.append(scales, rho * table.factor("spin_unit", "rad/s"))
        arm_scale = table.factor("lever_unit", "m") / rho
    for key in ("spin", "spin_unit", "levers", "lever_unit", "gyration"):
        if key in table and not body:
            raise table.fail(key, "of what does not turn, expected of = 'body' in [system]")

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        del times
        u, v = (scales * np.stack([columns[name] for name in names], -1) for names in (before, after))
        good = np.all(np.isfinite(u) & np.isfinite(v), axis=1)
        if flagged:
            good &= np.nan_to_num(columns[flagged]) == 0
        levers = np.zeros((len(good), 0))
        if body:
            levers = arm_scale * np.stack([columns[name] for name in arms], -1)
            good &= np.all(np.isfinite(levers), axis=1)
            # The signs by which moments explain changes of spin.
            change = (v - u)[good]
            slopes = np.linalg.lstsq(levers[good] * change[:, [1, 0]], change[:, 2], rcond=None)[0]
            levers = levers * np.where(slopes < 0, -1.0, 1.0)
            speeds = [w[:, 1] + levers[:, 0] * w[:, 2] for w in (u, v)]
        else:
            row = np.array([1.0]) if len(before) == 1 else np.array([-1.0, 1.0])
            # Speeds without a sign, and axes that count downwards.
            way = -np.sign(np.sum((u @ row)[good])) or 1.0
            u, v = way * u, way * v
            if len(before) == 1 and np.sum(v[good]) < 0:
                v = -v
            speeds = [u @ row, v @ row]
        good &= speeds[0] < 0
        if not good.any():
            names = ", ".join(map(shown, before))
            raise ValueError(f"columns {names}: nothing approaches in any row, expected impacts")
        restitution = float(np.clip(np.median(-speeds[1][good] / speeds[0][good]), *RESTITUTION_STARTS))
        note = {"impacts": f"{int(good.sum())} of {good.size} rows"}
        for i in np.flatnonzero(good):
            start, given = {"u0": u[i], "restitution": restitution}, {"levers": levers[i]} if body else {}
            yield PreparedRun(_TIMES, np.stack([u[i], v[i]]), start, given, note, part=f"impact {i + 1}")

    return Preparation(
        runs=runs,
        columns=(*before, *after, *arms, *((flagged,) if flagged else ())),
        channels=before,
        description="each row is an impact: velocities before it and after it",
        suggests=("u0", "restitution"),
        gives=("levers",),
    )


# Samples on each side that say whether a lowest one is a bounce, and between two bounces.
_SIDE = 4


@PREPARATIONS.add(
    "rebound",
    columns="one for each coordinate of the ball",
    unit='of all of them, the system\'s by default: "mm"',
    up="the one of these that grows upwards, off the surface",
    around="so many samples before the bounce and after it, at most (30)",
    each="true: every bounce is a run (false: the first one)",
    near="{ value, unit }: bounces are within so much of the lowest sample of all",
    straight="{ value, unit }: bounces between flights that are off straight lines by more are left out",
)
def rebound(table: Table, ready: ReadySystem) -> Preparation:
    """Take one bounce, or each, with the flights around it.

    A ball in flight has no lowest point. So a sample below four others on either side is a bounce. A run ends before
    the next one, and begins behind the one before. Parabolas through the flight before the bounce give position and
    velocity at the beginning, and by how much it curves.

    Of a puck that is struck by hand as well, bounces are those near the cushion, between flights that are straight.
    """
    names, up = table.names("columns"), table.text("up")
    if up not in names:
        raise table.fail("up", f"{shown(up)}, expected one of the columns {', '.join(map(shown, names))}")
    around = table.integer("around", default=30, least=2 * _SIDE)
    near, straight = (table.quantity(key, ready.length, np.inf) for key in ("near", "straight"))
    scale, each = table.factor("unit", ready.length), table.flag("each", False)

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        values = np.stack([scale * columns[name] for name in names], axis=-1)
        seen = np.flatnonzero(np.all(np.isfinite(values), axis=1))
        height = values[seen, names.index(up)]
        lowest = seen[_lowest(height)]
        # Up to its neighbours.
        begins = np.maximum(lowest - around, np.append(0, lowest[:-1] + 2))
        ends = np.minimum(lowest + around + 1, np.append(lowest[1:] - 1, times.size))
        found = [
            (bounce, np.arange(begin, end))
            for bounce, begin, end in zip(lowest, begins, ends, strict=True)
            if values[bounce, names.index(up)] <= height.min() + near
            and _off_lines(times, values, bounce, np.arange(begin, end)) <= straight
        ]
        if not found:
            limits = f", within preparation.near = {near:.6g} of the lowest of all" if np.isfinite(near) else ""
            if np.isfinite(straight):
                limits += f", between flights that are off straight lines by preparation.straight = {straight:.6g}"
            raise ValueError(
                f"column {up!r} has no lowest sample with {_SIDE} higher ones on either side{limits}, expected a bounce"
            )
        for bounce, rows in found if each else found[:1]:
            at = f"t = {times[bounce]:.6g}"
            notes = {"bounce": f"near {at}; {rows.size} of {times.size} samples are used"}
            start, part = _flight(times, values, rows[rows < bounce]), f"bounce near {at}" if each else ""
            yield PreparedRun(times[rows], values[rows], start, notes=notes, part=part)

    bounce = "each bounce" if each else "the first bounce"
    return Preparation(
        runs=runs,
        columns=names,
        channels=names,
        description=f"each coordinate is one column, {around} samples before {bounce} and after it are used",
        suggests=("q0", "u0", "flight"),
    )


def _off_lines(times: NDArray, values: NDArray, bounce: int, rows: NDArray) -> float:
    """Deviation of both flights from lines; NaN where one is missing."""
    off = []
    for side in (rows[rows < bounce], rows[rows > bounce]):
        side = side[np.all(np.isfinite(values[side]), axis=1)]
        if side.size < _SIDE:
            return np.nan
        at = times[side] - times[bounce]
        line = np.polynomial.polynomial.polyfit(at, values[side], 1)
        off.append(np.sqrt(np.mean((values[side] - line[0] - at[:, None] * line[1]) ** 2, axis=0)))
    return float(np.max(off))


def _flight(times: NDArray, values: NDArray, before: NDArray) -> Mapping[str, Any]:
    """Start of the flight, and its velocity and curve midway."""
    seen = before[np.all(np.isfinite(values[before]), axis=1)]
    parabolas = [np.polynomial.Polynomial.fit(times[seen], column, 2) for column in values[seen].T]
    return {
        "q0": np.array([y(times[before[0]]) for y in parabolas]),
        "u0": np.array([y.deriv()(times[before[0]]) for y in parabolas]),
        "flight": np.array([[y.deriv(k)(times[seen].mean()) for y in parabolas] for k in (1, 2)]),
    }


def _lowest(height: NDArray) -> NDArray:
    """Samples below most of four neighbours on each side."""
    found: list[int] = []
    for i in range(_SIDE, height.size - _SIDE):
        near = height[i - _SIDE : i + _SIDE + 1]
        if height[i] == near.min() and np.sum(near > height[i]) > _SIDE and not (found and i - found[-1] <= _SIDE):
            found.append(i)
    return np.array(found, int)
