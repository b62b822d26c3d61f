"""Survey a recording: clock, markers, units, roughness, losses.

Columns may also say how a body is turned, or be the velocities before and after impacts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.files import read_bytes, read_text
from diffcontact.host.messages import shown
from diffcontact.identify.noise import roughness
from diffcontact.scene.draft.layout import (
    COUNT,
    FRAME,
    FULL_TURN,
    LENGTHS,
    TIME,
    TIMES,
    Headings,
    Layout,
    axis_of,
    core,
    encoding_of,
    is_spacing,
    layout_of,
)
from diffcontact.scene.measurements import (
    FROM_DATA,
    LEAVE_OUT,
    WERE_ROUNDED,
    Reading,
    increasing,
    lines_of,
    open_sheet,
    read_measurements,
    resolution,
    straight_clock,
    summed,
)
from diffcontact.scene.preparation.coordinates import OFF_LENGTH
from diffcontact.scene.preparation.lines import FEWEST
from diffcontact.scene.recordings import Sheet, recognised
from diffcontact.scene.units import factor

# A body that is thrown seldom turns more often; a ball that was heard bounces at most so often.
_MANY_TURNS, _MOST_IMPACTS = 6, 60
# A column moves if it goes that many times further than it is rough.
MOVES = 12.0
# The message names so many columns.
_TOLD = 6
# A fit of more rows takes minutes; so many rows show the motion, around each of which kinks are looked for.
_MANY, _LOOKED_AT = 5000, 20_000
# A clock nobody named as one ticks as evenly.
_TICK = 0.1


@dataclass(frozen=True, eq=False)
class Column:
    """A column of numbers with unit and roughness [its unit]."""

    name: str
    values: NDArray
    unit: str
    guessed: bool
    roughness: float

    @property
    def span(self) -> float:
        """How far it goes, whatever a few readings say."""
        return float(np.ptp(np.nanpercentile(self.values, [2, 98])))

    @property
    def moves(self) -> bool:
        return self.span > MOVES * self.roughness


@dataclass(frozen=True, eq=False)
class Marker:
    """Columns of one point by axis ("" without one), in one unit."""

    name: str
    axes: Mapping[str, Column]

    @property
    def moving(self) -> dict[str, Column]:
        return {axis: column for axis, column in self.axes.items() if column.moves}


@dataclass(frozen=True, eq=False)
class Survey:
    """What a recording holds."""

    path: Path  # of the file
    understood: str  # the statements of its header, "" for a CSV
    keys: tuple[str, ...]  # TOML lines of [data] that its layout and its times need, in order
    reading: Reading  # the same, for reading it now
    time_unit: str  # in which its times count: "s", "ms", ..., "frame".
    guessed: bool  # whether that is a guess
    times: NDArray  # (n,) in that unit, of the rows that have one
    markers: tuple[Marker, ...]  # points that were tracked, in the order of the file
    rate: tuple[float, str] | None = None  # frames per second and where the recording states it, or None
    # columns of 0 and 1, by what they are of: "repeated", "outlier"
    flags: Mapping[str, str] = field(default_factory=dict)
    angles: tuple[Column, ...] = ()  # columns that say how something is turned in a plane
    quaternions: tuple[tuple[str, ...], ...] = ()  # the names of four columns each that say so in space
    forces: Mapping[str, NDArray] = field(default_factory=dict)  # columns in newton, by name
    impacts: ImpactTable | None = None  # what it has instead of all these, if each row is an impact
    remarks: tuple[str, ...] = ()  # what was noticed, in words
    thinned: str = ""  # of these, how many rows were looked at; "" for all


def survey(path: str | Path) -> Survey:
    """Look at a recording; errors name the file, and why nothing can be drafted from it."""
    content = read_bytes(path)
    encoding = encoding_of(content)
    lines = lines_of(read_text(path, expected="a recording as text", content=content, encoding=encoding))
    try:
        known = recognised(lines)
        layout = layout_of(lines) if known is None else Layout(Reading(), known.names)
        sheet = known or open_sheet(lines, layout.reading)
        reading = replace(layout.reading, encoding=encoding)
        names = [name for name in layout.columns if name and sheet.names.count(name) == 1]
        if not names:
            raise ValueError("no column of numbers with a name of its own")
        # With rows counted, so that no time can be wrong.
        columns = dict(read_measurements(path, names, reading).columns)
        return _surveyed(Path(path), sheet, layout, reading, columns)
    except ValueError as error:
        text = str(error)
        raise ValueError(text if text.startswith(f"{path}: ") else f"{path}: {text}") from None


def _surveyed(path: Path, sheet: Sheet, layout: Layout, reading: Reading, columns: Mapping[str, NDArray]) -> Survey:
    headings, flags, keys = Headings(layout.units), _flags(columns), _layout_keys(layout)
    rows = np.arange(next(iter(columns.values())).size, dtype=float)
    if (table := impact_table(columns, headings, flags.get("outlier", ""))) is not None:
        return Survey(path, sheet.understood, tuple(keys), reading, "frame", False, rows, (), impacts=table)
    time = sheet.time or _time_column(columns, headings)
    unit, guessed = _time_unit(time, columns, headings)
    remarks = list(layout.remarks)
    if reading.encoding != "UTF-8":
        keys.insert(0, f'encoding = "{reading.encoding}"')
    written, spacing = columns[time] if time else rows, is_spacing(time)
    keep, times, clock, told = _clock(summed(written) if spacing else written, unit == "frame")
    if time:
        keys += [f"time = {quoted(time)}", f'time_unit = "{unit}"{"  # a guess" if guessed else ""}']
        keys += ["spacing = true  # the column holds the times from one row to the next"] * spacing
        keys += [f'{key} = "{value}"  # {why}' for key, value, why in clock]
    remarks += told
    rate = None if layout.rate is None else (layout.rate[0], f"as line {layout.rate[1]} says")
    if layout.rate and unit == "frame":
        remarks.append(f"line {layout.rate[1]} says {layout.rate[0]:g} frames a second")
    step, thinned = -(-keep.size // _LOOKED_AT), ""
    keep, times = keep[::step], times[::step]
    if step > 1:
        thinned = f"looked at one row in {step} of {rows.size}; a short motion is seen in a part of them"
        remarks.append(thinned)
    needed = {key: value for key, value, _ in clock}
    left_out = "untimed" in needed
    reading = replace(reading, time=time, rate=needed.get("rate"), leave_out=left_out, spacing=spacing)
    left = [name for name in columns if name != time and name not in flags.values()]
    if rows.size > _MANY:
        keys.append(f"every = {-(-rows.size // _MANY)}  # of {rows.size} rows; 1 uses all and takes longer")
    quaternions = quaternions_in({name: columns[name] for name in left})
    left = [name for name in left if not any(name in names for names in quaternions)]
    # By its unit, or by its name where it states none.
    stated = {name: headings.unit(name) for name in left}
    angles = [name for name in left if stated[name] in FULL_TURN or (not stated[name] and is_angle(core(name)))]
    positions = [name for name in left if name not in angles and headings.may_be_position(name)]
    lengths = {name: stated[name] or layout.length for name in positions}
    guess = _length_unit([columns[name] for name in positions if not lengths[name]], unit == "frame")
    found = [(name, columns[name][keep], lengths[name]) for name in positions]
    places = [Column(name, values, unit or guess, not unit, roughness(values)) for name, values, unit in found]
    moving = [column for column in places if _goes(column, times)]
    for names, what, among in (
        ([column.name for column in moving], "length", LENGTHS),
        (angles, "angle", tuple(FULL_TURN)),
    ):
        for name in names:
            headings.require_known(name, what, among)
    markers = _markers(moving)
    # Times by themselves may be those of a ball's bounces: each flight is shorter than the one before.
    heard = 3 <= times.size <= _MOST_IMPACTS and bool(np.all(np.diff(times, 2) < 0))
    if not markers and not angles and not heard:
        told = [f"{shown(name)} {_no_place(name, columns[name], headings)}" for name in left[:_TOLD]]
        raise ValueError(
            f"no position that moves: {', '.join(told) or 'there is nothing but the times'}; expected a place, "
            f"as 'x [mm]', in {', '.join(LENGTHS)}"
        )
    for column in (next(iter(marker.axes.values())) for marker in markers):
        if lost := int(np.isnan(column.values).sum()):
            remarks.append(f"{lost} of {column.values.size} samples of {column.name} are lost")
    # A scene has one unit of length.
    used = {column.name for marker in markers for column in marker.axes.values()}
    for column in moving:
        if column.name not in used and len({one.unit for one in moving}) > 1:
            remarks.append(f"{column.name} is left out: it is in {column.unit}, other places are not")
    return Survey(
        path=path,
        understood=sheet.understood,
        keys=tuple(keys),
        reading=reading,
        time_unit=unit,
        guessed=guessed,
        times=times,
        rate=rate,
        markers=tuple(markers),
        flags=flags,
        angles=tuple(_angle(name, columns[name][keep], stated[name]) for name in angles),
        quaternions=quaternions,
        forces={name: columns[name][keep] for name in left if stated[name] == "N"},
        remarks=tuple(remarks),
        thinned=thinned,
    )


def _no_place(name: str, values: NDArray, headings: Headings) -> str:
    """Why a column is no position that moves."""
    if what := headings.quantity(name):
        return f"is {what}"
    seen = values[np.isfinite(values)]
    if seen.size < FEWEST:
        return f"has {seen.size} numbers"
    if not headings.may_be_position(name):
        return "is named otherwise"
    return (
        "shows no motion beyond its scatter"
        if np.ptp(seen) <= MOVES * roughness(seen)
        else "counts rows or goes as the clock does"
    )


def _layout_keys(layout: Layout) -> list[str]:
    reading, keys = layout.reading, []
    if reading.delimiter not in (None, ","):
        keys.append(f"delimiter = {quoted(reading.delimiter)}")
    if reading.decimal == ",":
        keys.append('decimal = ","')
    if reading.skip not in (None, (0, 0)):
        keys.append(f"skip = {list(reading.skip)}  # lines before the header and after it")
    if reading.names is not None:
        source = f"of the comment in line {layout.named_in}" if layout.named_in else "a guess: there is no header"
        keys.append(f"names = {quoted_names(reading.names)}  # {source}")
    if reading.missing:
        keys.append(f"missing = {quoted_names([word for (word,) in reading.missing])}")
    return keys


def _time_column(columns: Mapping[str, NDArray], headings: Headings) -> str:
    """Find the column of times, spacings, frames or rows; "" for none."""
    steady = {name: values for name, values in columns.items() if _steady(values)}
    found = [name for name in steady if TIME.fullmatch(name.strip())]
    found += [name for name, values in columns.items() if is_spacing(name) and not np.any(values < 0)]
    found += [name for pattern in (FRAME, COUNT) for name in steady if pattern.fullmatch(name.strip())]
    if found:
        return found[0]
    for name, values in columns.items():
        if TIME.fullmatch(name.strip()) and _steady(-values):
            raise ValueError(f"column {name!r}: the times fall from row to row; sort the rows by this column")
    first = next(iter(columns))
    other = axis_of(first)[0] != "" or headings.unit(first) not in ("", *TIMES)
    return first if first in steady and not other and _ticks(columns[first]) else ""


def _steady(values: NDArray) -> bool:
    seen = values[np.isfinite(values)]
    if seen.size < 3 or not seen[-1] > seen[0]:
        return False
    return float(np.mean(np.diff(seen) < 0)) < WERE_ROUNDED


def _ticks(values: NDArray) -> bool:
    """Tell whether values rise evenly, early and late, as clocks do."""
    seen = values[np.isfinite(values)]
    steps = np.diff(seen)
    typical = float(np.median(steps))
    near = _TICK * typical + 1.01 * resolution(seen)
    parts = [np.median(part) for part in np.array_split(steps, 3) if part.size]
    return bool(np.all(np.abs(np.array(parts) - typical) <= near) and np.mean(np.abs(steps - typical) <= near) > 0.5)


def _time_unit(name: str, columns: Mapping[str, NDArray], headings: Headings) -> tuple[str, bool]:
    if not name:
        return "frame", False
    headings.require_known(name, "time", TIMES)
    if stated := headings.unit(name):
        return stated, False
    counted = any(pattern.fullmatch(name.strip()) for pattern in (FRAME, COUNT))
    if counted and not TIME.fullmatch(name.strip()):
        return "frame", False
    seen = columns[name][np.isfinite(columns[name])]
    step = float(np.median(seen if is_spacing(name) else np.diff(seen)))
    if step == 1 and np.all(seen == np.round(seen)) and not is_spacing(name):
        return "frame", True
    # Cameras take between one and a thousand pictures a second.
    return next(unit for unit, most in (("s", 1.0), ("ms", 1e3), ("us", 1e6), ("ns", np.inf)) if step < most), True


def _clock(written: NDArray, frames: bool) -> tuple[NDArray, NDArray, list[tuple[str, str, str]], list[str]]:
    """Choose rows with a time, their times, keys of [data], remarks."""
    rows = np.arange(written.size)
    good = increasing(written)
    bad = int((~good).sum())
    if bad == 0:
        steps = np.diff(written)
        gaps = np.flatnonzero(steps > 2.5 * np.median(steps))
        count = f"{gaps.size} gaps in the times, the first" if gaps.size > 1 else "a gap in the times,"
        return rows, written, [], [f"{count} from {written[i]:.6g} to {written[i + 1]:.6g}" for i in gaps[:1]]
    kind = f"{bad} times are missing or do not increase"
    if bad > WERE_ROUNDED * written.size and not frames:
        try:
            return rows, straight_clock(written), [("rate", FROM_DATA, "the times were rounded")], [kind]
        except ValueError:
            kind += ", nor are the rows equally spaced"
    return rows[good], written[good], [("untimed", LEAVE_OUT, "rows without a time of their own")], [kind]


def _flags(columns: Mapping[str, NDArray]) -> dict[str, str]:
    flags = {}
    for name, values in columns.items():
        if set(np.unique(values[np.isfinite(values)])) <= {0.0, 1.0}:
            for use, pattern in (("repeated", r"dup|repeat|doppel"), ("outlier", r"outlier|false|bad|flagged")):
                if re.search(pattern, name, re.IGNORECASE):
                    flags[use] = name
    return flags


def _angle(name: str, values: NDArray, stated: str) -> Column:
    guess = "deg" if np.nanmax(np.abs(values), initial=0.0) > _MANY_TURNS * FULL_TURN["rad"] else "rad"
    unit = stated or guess
    whole, seen = values.copy(), np.isfinite(values)
    whole[seen] = np.unwrap(values[seen], period=FULL_TURN[unit])
    return Column(name, whole, unit, not stated, roughness(whole) if seen.any() else 0.0)


def _length_unit(columns: Sequence[NDArray], film: bool) -> str:
    """Guess one unit for all columns that state none."""
    seen = np.concatenate([values[np.isfinite(values)] for values in columns]) if columns else np.zeros(0)
    if seen.size == 0:
        return "m"
    # Cameras count pixels, some hundreds of them; metres are few.
    whole, size = bool(np.all(seen == np.round(seen))), float(np.max(np.abs(seen)))
    if size > 30:
        return "px" if whole or film else "mm"
    return "m"


def _goes(column: Column, times: NDArray) -> bool:
    """Tell a motion from a count of rows or another clock."""
    seen = np.isfinite(column.values)
    if seen.sum() < FEWEST or not column.span > 0 or np.all(np.diff(column.values[seen]) == 1):
        return False
    line = np.polynomial.polynomial.polyfit(times[seen], column.values[seen], 1)
    off = column.values[seen] - np.polynomial.polynomial.polyval(times[seen], line)
    named = axis_of(column.name)[0] != "" or not column.guessed
    return named or float(np.max(np.abs(off))) > 1e-3 * column.span


def _markers(columns: Sequence[Column]) -> list[Marker]:
    """Group columns that move into points by their names."""
    points: dict[str, dict[str, Column]] = {}
    for column in columns:
        axis, name = axis_of(column.name)
        axes = points.setdefault(name, {})
        if all(other.unit == column.unit for other in axes.values()):
            axes.setdefault(axis, column)
    markers = [Marker(name, axes) for name, axes in points.items()]
    return [marker for marker in markers if marker.moving]


def quoted(text: str) -> str:
    """A TOML string."""
    # JSON's escapes are TOML's, which has one more.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def quoted_names(names: Sequence[str]) -> str:
    """A TOML list."""
    return f"[{', '.join(map(quoted, names))}]"


_ANGLE = re.compile(
    r"(?:.*[\s_.\-])?(?:theta|phi|psi|angle|winkel|rot\w*|yaw|heading|orientation)(?:[\s_.\-]*\d+)?", re.IGNORECASE
)
# The letter that names a quaternion's part is its last one, or before the number of the body.
_QUATERNION = re.compile(r"(.*(?:q\w*?|rotation)[\s_.\-]*)([wxyz])([\s_.\-]*\d*)", re.IGNORECASE)


def is_angle(core: str) -> bool:
    """Whether a column is an angle, by its name without the unit."""
    return _ANGLE.fullmatch(core) is not None


def quaternions_in(columns: Mapping[str, NDArray]) -> tuple[tuple[str, ...], ...]:
    """Find columns w x y z that are unit quaternions."""
    groups: dict[tuple[str, str], dict[str, str]] = {}
    for name in columns:
        if found := _QUATERNION.fullmatch(name.strip()):
            groups.setdefault((found[1], found[3]), {})[found[2].lower()] = name
    found = []
    for group in (group for group in groups.values() if len(group) == 4):
        names = tuple(group[axis] for axis in "wxyz")
        length = np.linalg.norm([columns[name] for name in names], axis=0)
        seen = length[np.isfinite(length)]
        if seen.size and np.all(np.abs(seen - 1) < OFF_LENGTH):
            found.append(names)
    return tuple(found)


_WHEN = re.compile(
    r"(?:^|(?<=[\s_.\-]))(?:(before|pre|vorher|initial|in|minus)|(after|post|nachher|final|out|plus))(?=[\s_.\-]|$)",
    re.IGNORECASE,
)
# What a change of spin is off a moment, beside it, at most; a table has so many impacts.
_OFF, _FEWEST_IMPACTS = 0.5, 5


@dataclass(frozen=True, eq=False)
class Pair:
    """A quantity before and after impacts, with values (n,) each."""

    before: str
    after: str
    unit: str
    values: tuple[NDArray, NDArray]
    axis: str

    @property
    def turns(self) -> float:
        """The part of the impacts that turn it round."""
        return float(np.nanmean(self.values[0] * self.values[1] < 0))


@dataclass(frozen=True, eq=False)
class ImpactTable:
    """Columns of a table of impacts: velocities, spins, lengths."""

    velocities: tuple[Pair, ...]
    spins: tuple[Pair, ...]
    lengths: Mapping[str, tuple[str, NDArray]]
    flagged: str = ""


def impact_table(columns: Mapping[str, NDArray], headings: Headings, flagged: str) -> ImpactTable | None:
    """Find velocities with columns before and after; None without."""
    if flagged:
        columns = {name: values[np.nan_to_num(columns[flagged]) == 0] for name, values in columns.items()}
    halves: dict[str, dict[str, str]] = {}
    for name in columns:
        if found := _WHEN.search(core(name)):
            stem = _WHEN.sub("", core(name)).strip(" _.-")
            halves.setdefault(stem, {})["before" if found[1] else "after"] = name
    pairs: dict[str, list[Pair]] = {"a velocity": [], "an angular velocity": []}
    for stem, names in halves.items():
        what = (headings.quantity(names["before"]) or headings.quantity(stem)) if len(names) == 2 else ""
        if what in pairs:
            values = columns[names["before"]], columns[names["after"]]
            default = "m/s" if what == "a velocity" else "rad/s"
            unit = headings.unit(names["before"]) or default
            # As in vx or "v y".
            axis = axis_of(stem)[0] or (stem[-1].lower() if re.fullmatch(r"[vu][xyz]", stem, re.IGNORECASE) else "")
            pairs[what].append(Pair(names["before"], names["after"], unit, values, axis))
    if not pairs["a velocity"] or len(next(iter(columns.values()))) < _FEWEST_IMPACTS:
        return None
    lengths = {name: (unit, columns[name]) for name in columns if (unit := headings.unit(name)) in ("m", "cm", "mm")}
    return ImpactTable(tuple(pairs["a velocity"]), tuple(pairs["an angular velocity"]), lengths, flagged)


def scatter(pairs: tuple[Pair, ...]) -> float:
    """Scatter of velocities about a linear law of impact [m/s]."""
    before, after = (np.stack([pair.values[i] for pair in pairs], axis=1) for i in (0, 1))
    good = np.all(np.isfinite(before) & np.isfinite(after), axis=1)
    slopes = np.linalg.lstsq(before[good], after[good], rcond=None)[0]
    off = np.abs(after[good] - before[good] @ slopes)
    size = np.sqrt(1 + np.sum(slopes**2, axis=0))
    return factor(pairs[0].unit, "m/s") * max(1.4826 * float(np.median(off / size)), 1e-6)


def levers_of(table: ImpactTable, along: Pair, normal: Pair) -> tuple[tuple[tuple[str, str], str], float] | None:
    """Find the columns of levers, their unit, and the gyration [m]."""
    speeds = [factor(pair.unit, "m/s") * (pair.values[1] - pair.values[0]) for pair in (normal, along)]
    spin = factor(table.spins[0].unit, "rad/s") * (table.spins[0].values[1] - table.spins[0].values[0])
    best, least = None, _OFF
    for names in permutations(table.lengths, 2):
        units = [table.lengths[name][0] for name in names]
        arms = [factor(units[0], "m") * table.lengths[name][1] for name in names]
        moments = np.stack([arm * speed for arm, speed in zip(arms, speeds, strict=True)], axis=1)
        good = np.isfinite(spin) & np.all(np.isfinite(moments), axis=1)
        if units[0] != units[1] or good.sum() < _FEWEST_IMPACTS:
            continue
        slopes, *_ = np.linalg.lstsq(moments[good], spin[good], rcond=None)
        off = float(np.std(spin[good] - moments[good] @ slopes) / max(np.std(spin[good]), 1e-300))
        if off < least and np.all(slopes != 0):
            best, least = ((names, units[0]), float(np.mean(np.abs(slopes)) ** -0.5)), off
    return best
