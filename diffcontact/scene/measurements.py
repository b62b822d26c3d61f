"""Read recordings as numbers, in the way that [data] says, with the times of their rows: as written, or on a line."""

from __future__ import annotations

import contextlib
import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.files import read_bytes, read_text
from diffcontact.host.messages import did_you_mean, shown
from diffcontact.scene.keys import Table
from diffcontact.scene.recordings import Sheet, recognised, rows_of
from diffcontact.scene.units import LARGEST, SMALLEST, has_decimal_comma, is_number, moment, number

KEYS = {
    "time": "the column of the times; without it rows are counted, as frames",
    "time_unit": 'of that column, the system\'s by default: "s", "ms", "frame"',
    "spacing": "true: that column holds the time since the row before, dt, and is summed (false)",
    "rate": 'rows, or frames, per second; or "from data" where times were rounded and follow a line over the rows',
    "lost_frames": "true: times were rounded or late, and frames in which nothing was found have no row (false)",
    "untimed": '"leave out": rows whose time is missing or does not increase',
    "window": "[from, to] in time_unit: only this part of a record",
    "every": "10: every tenth row of a record that is too long (1); of what drives the system all rows count",
    "encoding": 'of the text: "UTF-8" (default), "UTF-16" or "Latin-1"',
    "delimiter": 'between fields, one character (",")',
    "decimal": 'within numbers: "." (default) or ","',
    "skip": "lines before the header, or [before it, after it]",
    "names": "of the columns, of a file without a header",
    "missing": 'what stands for a lost sample: "-"; "0 0 0" for columns of the preparation that hold it together',
    "likelihood": "samples of which a tracker was less sure are lost (0.6)",
}
FROM_DATA, LEAVE_OUT = "from data", "leave out"
_MOST_SKIPPED = 10**4


@dataclass(frozen=True)
class Reading:
    """How recordings are read; fields are as `KEYS` describes them, but for these."""

    time: str = ""  # "" counts rows
    time_unit: str = "s"
    time_factor: float = 1.0  # from `time_unit` to the system's; `rate` and `window` are in the latter
    spacing: bool = False
    rate: float | str | None = None
    lost_frames: bool = False
    leave_out: bool = False
    window: tuple[float, float] | None = None
    every: int = 1
    encoding: str = "UTF-8"
    # delimiter, decimal, skip, names: None where the scene does not say: a recording whose writer is known by its
    # header is read as that writes it, any other as CSV with a header
    delimiter: str | None = None
    decimal: str | None = None
    skip: tuple[int, int] | None = None
    names: tuple[str, ...] | None = None
    # texts for a lost sample, and groups of numbers that stand for one together
    missing: tuple[tuple[str, ...], ...] = ()
    likelihood: float | None = None

    @classmethod
    def from_table(cls, data: Table, time: str) -> Reading:
        """Read the scene's [data] table; `time` is the system's unit of time."""
        column = data.text("time", "")
        if "time" in data and not column:
            raise data.fail("time", "'', expected the name of a column, or none for rows that count frames")
        unit = data.text("time_unit", time if column else "frame")
        if not column and unit != "frame":
            raise data.fail("time_unit", f"{shown(unit)} without data.time, expected a column of times")
        factor, rate = data.factor("time_unit", time, unit), _rate(data, column)
        for key in ("spacing", "lost_frames", "untimed"):
            if key in data and not column:
                raise data.fail(key, "without data.time, expected the column of the times with it")
        lost_frames = data.flag("lost_frames", False)
        if lost_frames and rate == FROM_DATA:
            raise data.fail("lost_frames", f"with data.rate = {FROM_DATA!r}, expected frames a second, or no rate")
        window = data.numbers("window") if "window" in data else None
        if window is not None and (window.shape != (2,) or not window[0] < window[1]):
            raise data.fail("window", f"{shown(window.tolist())}, expected [from, to] in data.time_unit, from below to")
        likelihood = data.number("likelihood") if "likelihood" in data else None
        if likelihood is not None and not 0 <= likelihood <= 1:
            raise data.fail("likelihood", f"{likelihood}, expected from 0 to 1")
        return cls(
            time=column,
            time_unit=unit,
            time_factor=factor,
            spacing=data.flag("spacing", False),
            # The duration of a frame says the unit already.
            rate=None if unit == "frame" and rate != FROM_DATA else rate,
            lost_frames=lost_frames,
            leave_out="untimed" in data and data.choice("untimed", (LEAVE_OUT,)) == LEAVE_OUT,
            window=None if window is None else (float(window[0] * factor), float(window[1] * factor)),
            every=data.integer("every", 1, least=1),
            encoding=data.choice("encoding", ("UTF-8", "UTF-16", "Latin-1"), "UTF-8"),
            **_layout(data),
            names=data.names("names") if "names" in data else None,
            missing=_missing(data),
            likelihood=likelihood,
        )


def rate_of(data: Table) -> float | None:
    """Rows per second that a [data] table states, or None."""
    if not isinstance(data.data.get("rate"), int | float):
        return None
    rate = data.number("rate")
    if not rate > 0:
        raise data.fail("rate", f"{rate}, expected rows per second, above 0")
    return rate


def _rate(data: Table, column: str) -> float | str | None:
    if data.data.get("rate") == FROM_DATA:
        if not column:
            raise data.fail("rate", f"{FROM_DATA!r} without data.time, expected a number of rows per second")
        return FROM_DATA
    rate = rate_of(data)
    if rate is None and "rate" in data:
        raise data.fail("rate", f"{shown(data.data['rate'])}, expected rows per second or {FROM_DATA!r}")
    return rate


def _layout(data: Table) -> dict[str, Any]:
    delimiter = data.text("delimiter") if "delimiter" in data else None
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '\r\n\0"'):
        raise data.fail("delimiter", f"{shown(delimiter)}, expected one character, no quote and no end of a line")
    decimal = data.choice("decimal", (".", ",")) if "decimal" in data else None
    if decimal == delimiter == ",":
        raise data.fail("decimal", "',' between the fields too, expected another data.delimiter, ';' or '\\t'")
    written = data.data.get("skip")
    skip = written if isinstance(written, list) else [written, 0]
    whole = all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= _MOST_SKIPPED for n in skip)
    if "skip" in data and (len(skip) != 2 or not whole):
        expected = "expected a number of lines before the header, or [before it, after it]"
        raise data.fail("skip", f"{shown(written)}, {expected}")
    return {"delimiter": delimiter, "decimal": decimal, "skip": tuple(skip) if "skip" in data else None}


def _missing(data: Table) -> tuple[tuple[str, ...], ...]:
    written, groups = data.data.get("missing", ()), []
    for entry in [written] if isinstance(written, str) else data.names("missing") if "missing" in data else ():
        words = tuple(entry.split())
        if not words:
            raise data.fail("missing", f"{shown(entry)}, expected a text; an empty field is lost in any case")
        groups.append(words if all(map(is_number, words)) else (entry.strip(),))
    return tuple(groups)


_ENDS = re.compile(r"\r\n|\r|\n")
# The line with the header is looked for among so many.
_HEADER = 100
# Below it DeepLabCut itself takes a point as not seen.
_LIKELIHOOD = 0.6
# From this part of the rows on, and so many, times that do not increase are the rule, not slips.
WERE_ROUNDED, _SEVERAL = 0.02, 3


@dataclass(frozen=True, eq=False)
class Measurements:
    """Columns of one file."""

    path: str  # of the file, as it was given
    columns: Mapping[str, NDArray]  # name -> (n,) numbers as they stand in the file, NaN where a field is empty
    sha256: str  # of the file's bytes
    times: NDArray = field(default_factory=lambda: np.empty(0))  # (n,) of the rows, in the system's unit
    # name -> times and numbers (m,) of a column that is known where it has a number, also between the rows
    entire: Mapping[str, tuple[NDArray, NDArray]] = field(default_factory=dict)
    understood: str = ""  # the statements of the header, in words; "" for a CSV


def read_measurements(
    path: str | Path, columns: Sequence[str], reading: Reading, entire: Sequence[str] = ()
) -> Measurements:
    """Read named columns of a recording; empty fields are lost samples.

    A recording whose writer is known by its header (`recordings`) is read as that writes it, any other as a CSV with
    one header line. Lines may end as on any system. Every row must be right, also those that are not used. In names `*`
    stands for any text and `?` for any letter. Of columns in `entire` every row counts, whatever data.every says.
    Errors name file, row (the first line is row 1), column, and the key that helps.
    """
    content = read_bytes(path)
    lines = lines_of(_text(path, content, reading.encoding))
    try:
        sheet = open_sheet(lines, reading)
        wanted = tuple(dict.fromkeys((*columns, *([reading.time] if reading.time else ()))))
        found = {name: _column(name, sheet, lines, reading) for name in wanted}
        for (one, at), (other, there) in combinations(found.items(), 2):
            if at == there:
                raise ValueError(f"column {shown(other)} is also {shown(one)}, expected every column once")
        # Columns that say which samples of these are lost.
        names = {sheet.names[i] for i in found.values()}
        beside = {sheet.likelihood[name] for name in names if name in sheet.likelihood}
        beside.update(name for group in sheet.lost_together if names & set(group) for name in group)
        rows, values = _rows(sheet, found, [sheet.names.index(name) for name in sorted(beside - names)], reading)
        _lose(values, sheet, reading, [found[name] for name in columns if name != reading.time])
        table = {name: values[position] for name, position in found.items()}
        keep, times = _clock(rows, table, reading)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    if reading.window is not None:
        inside = (times >= reading.window[0]) & (times <= reading.window[1])
        if inside.sum() < 2:
            raise ValueError(
                f"{path}: data.window holds {int(inside.sum())} rows, expected at least 2 of those from "
                f"{times[0] / reading.time_factor:.6g} to {times[-1] / reading.time_factor:.6g}"
            )
        keep, times = keep[inside], times[inside]
    whole = {
        name: (times[seen], table[name][keep][seen]) for name in entire for seen in [np.isfinite(table[name][keep])]
    }
    keep, times = keep[:: reading.every], times[:: reading.every]
    if times.size < 2:
        raise ValueError(
            f"{path}: {len(rows)} rows of data, of which one in {reading.every} is {times.size}, expected at least 2"
        )
    return Measurements(
        path=str(path),
        columns={name: table[name][keep] for name in wanted},
        sha256=hashlib.sha256(content).hexdigest(),
        times=times,
        entire=whole,
        understood=sheet.understood,
    )


def _text(path: str | Path, content: bytes, encoding: str) -> str:
    try:
        return read_text(path, expected="a CSV file", content=content, encoding=encoding)
    except ValueError as error:
        if encoding != "UTF-8":
            raise
        other = "UTF-16" if b"\0" in content[:1000] else "Latin-1"
        raise ValueError(f"{error} or data.encoding = {other!r}") from None


def lines_of(text: str) -> list[str]:
    """The lines of a text, which may end as on any system."""
    lines = _ENDS.split(text)
    return lines[:-1] if not lines[-1] else lines


def open_sheet(lines: Sequence[str], reading: Reading) -> Sheet:
    """Open a recording of a known writer, or a CSV."""
    if reading.delimiter is None and reading.skip is None and reading.names is None:
        known = recognised(lines)
        if known is not None:
            return known
    before, after = reading.skip or (0, 0)
    delimiter = reading.delimiter or ","
    if reading.names is not None:
        return Sheet(reading.names, rows_of(lines, delimiter, before + after), before)
    header = next(iter(rows_of(lines, delimiter, before)), None)
    names = tuple(name.strip() for name in header.fields) if header else ()
    end = header.last if header else before
    return Sheet(names, rows_of(lines, delimiter, end + after), before + 1)


def _column(name: str, sheet: Sheet, lines: Sequence[str], reading: Reading) -> int:
    """Position of a column, by name or by a unique pattern."""
    names = sheet.names
    if names.count(name) > 1:
        raise ValueError(f"row {sheet.header}: column {shown(name)} is there {names.count(name)} times, expected once")
    if name in names:
        return names.index(name)
    if "*" in name or "?" in name:
        pattern = re.compile(re.escape(name).replace(r"\*", ".*").replace(r"\?", "."), re.DOTALL)
        fit = [i for i, other in enumerate(names) if pattern.fullmatch(other)]
        if len(fit) == 1:
            return fit[0]
        if fit:
            listed = ", ".join(shown(names[i]) for i in fit[:5])
            raise ValueError(f"pattern {shown(name)} fits {len(fit)} columns ({listed}), expected one")
    raise ValueError(f"no column {shown(name)}; {_hint(name, sheet, lines, reading)}")


def _hint(name: str, sheet: Sheet, lines: Sequence[str], reading: Reading) -> str:
    names, delimiter = sheet.names, reading.delimiter or ","
    if not sheet.understood:
        for i, line in enumerate(lines[:_HEADER]):
            if (
                reading.names is None
                and i + 1 != sheet.header
                and name in (part.strip().strip('"') for part in line.split(delimiter))
            ):
                return f"row {i + 1} has it, expected it in row {sheet.header} or data.skip = {i}"
        other = next((mark for mark in ";\t|," if len(names) == 1 and mark != delimiter and mark in names[0]), "")
        if other:
            below = lines[sheet.header : sheet.header + 5]
            fields = [field for line in below for field in line.split(other)]
            comma = other != "," and any(has_decimal_comma(field) for field in fields)
            more = "; numbers with a decimal comma want data.decimal = ','" if comma else ""
            return f"its fields seem to be between {other!r}, expected {delimiter!r} (data.delimiter = {other!r}){more}"
        if reading.names is None and names and all(is_number(field.replace(",", ".")) for field in names):
            listed = did_you_mean(name, names, listed="the header has")
            return f"{listed}; data.names = [...] would name the columns of a file without one"
    hint = did_you_mean(name, names, listed="the header has")
    return f"{hint} ({sheet.understood})" if sheet.understood else hint


def _rows(
    sheet: Sheet, found: Mapping[str, int], beside: Sequence[int], reading: Reading
) -> tuple[list[int], dict[int, NDArray]]:
    """Read all rows: line numbers, and numbers by position."""
    rows, width = [], len(sheet.names)
    columns: dict[int, list[str]] = {position: [] for position in (*found.values(), *beside)}
    appends = [(position, column.append) for position, column in columns.items()]
    for first, last, fields in sheet.rows:
        if not any(map(str.strip, fields)):
            continue
        if len(fields) != width:
            quoted = f", as a quote holds it together with all up to row {last}" if first < last else ""
            raise ValueError(f"row {first} has {len(fields)} fields{quoted}, expected {width} as the header has")
        rows.append(last)
        for position, append in appends:
            append(fields[position])
    decimal, words = reading.decimal or sheet.decimal, {group[0] for group in reading.missing if len(group) == 1}
    numbers = [number(word) for word in words if is_number(word)]
    values = {position: _at_once(column, decimal, numbers) for position, column in columns.items()}
    slow = [position for position, column in values.items() if column is None]
    names = {position: name for name, position in found.items()}
    read = {position: np.empty(len(rows)) for position in slow}
    for i, row in enumerate(rows if slow else ()):
        for position in slow:
            text = columns[position][i]
            try:
                read[position][i] = _number(text, decimal, words, numbers)
            except ValueError as error:
                name = shown(names.get(position, sheet.names[position]))
                raise ValueError(f"row {row}, column {name}: {error}{_number_hint(text)}") from None
    return rows, {position: read[position] if column is None else column for position, column in values.items()}


def _at_once(texts: Sequence[str], decimal: str, lost: Sequence[float]) -> NDArray | None:
    """Convert a column of finite numbers; None of any other."""
    whole = "".join(texts)
    if decimal != "." or not whole.isascii() or "_" in whole:
        return None
    try:
        values = np.array(texts, dtype=float)
    except ValueError:
        return None
    size = np.abs(values)
    if not np.all(((size >= SMALLEST) & (size <= LARGEST)) | (values == 0)):
        return None
    values[np.isin(values, lost)] = np.nan
    return values


def _number(field: str, decimal: str, words: Collection[str], lost: Sequence[float]) -> float:
    if not field or field.isspace() or field.strip() in words:
        return np.nan
    if ":" in field:
        with contextlib.suppress(ValueError):
            return moment(field)
    if decimal == "," and "." in field:
        raise ValueError(f"{shown(field.strip())} has a point, expected a decimal comma")
    try:
        value = number(field.replace(",", ".") if decimal == "," else field)
    except ValueError as error:
        raise ValueError(str(error).replace(shown(field.strip().replace(",", ".")), shown(field.strip()))) from None
    return np.nan if value in lost else value


def _number_hint(field: str) -> str:
    """The key that would help, for the end of a message about a field."""
    if has_decimal_comma(field):
        return "; a decimal comma wants data.decimal = ','"
    if "nan" in field.lower():
        return "; a lost sample is an empty field, or what data.missing says"
    if not any(map(str.isdigit, field)):
        return f"; a lost sample wants data.missing = [{field.strip()!r}], a row of units data.skip = [0, 1]"
    return ""


def _lose(table: dict[int, NDArray], sheet: Sheet, reading: Reading, used: Sequence[int]) -> None:
    """Lose markers that hold a code for lost, and unlikely points.

    The writer's groups hold 0; those of the scene are groups of the columns of the preparation, at positions `used`.
    """
    position = {name: i for i, name in enumerate(sheet.names)}
    groups = [([position[name] for name in group], ["0"] * len(group)) for group in sheet.lost_together]
    for words in (group for group in reading.missing if len(group) > 1):
        size = len(words)
        if len(used) % size:
            raise ValueError(
                f"data.missing: {shown(' '.join(words))} has {size} numbers, expected as many as each marker has "
                f"columns; the preparation has {len(used)} in all"
            )
        groups += [(list(used[i : i + size]), list(words)) for i in range(0, len(used), size)]
    for places, words in groups:
        if all(place in table for place in places):
            lost = [table[place] == number(word) for place, word in zip(places, words, strict=True)]
            for place in places:
                table[place][np.all(lost, axis=0)] = np.nan
    least, told = _LIKELIHOOD if reading.likelihood is None else reading.likelihood, False
    for name, telling in sheet.likelihood.items():
        if position[name] in table and position[telling] in table:
            # Written so that an unknown likelihood loses the sample.
            table[position[name]][~(table[position[telling]] >= least)] = np.nan
            told = True
    if reading.likelihood is not None and not told:
        raise ValueError(
            f"data.likelihood: {least:g}, but of no column that is used the file says how sure a tracker was; expected "
            "it left out"
        )


def _clock(rows: Sequence[int], table: Mapping[str, NDArray], reading: Reading) -> tuple[NDArray, NDArray]:
    """Which rows have a time, and these times, in the system's unit."""
    count = len(rows)
    if count < 2:
        raise ValueError(f"{count} rows of data, expected at least 2")
    keep = np.arange(count)
    if not reading.time:
        return keep, reading.time_factor * keep.astype(float)
    name, written = reading.time, table[reading.time]
    written = summed(written) if reading.spacing else written
    if backwards(written):
        first, last = written[np.isfinite(written)][[0, -1]]
        raise ValueError(
            f"column {shown(name)}: the times fall from {first:g} to {last:g}, expected times that increase; sort the "
            "rows by this column"
        )
    if reading.leave_out:
        keep = keep[increasing(written)]
        written = written[keep]
        if keep.size < 2:
            raise ValueError(f"column {shown(name)}: {keep.size} times that increase, expected at least 2")
    if reading.rate is None and not reading.lost_frames:
        _require_increasing(rows, name, written)
        return keep, reading.time_factor * written
    known = 1.0 / (reading.rate * reading.time_factor) if isinstance(reading.rate, float) else None
    try:
        line = reading.time_factor * (frame_clock(written, known) if reading.lost_frames else straight_clock(written))
    except ValueError as error:
        i, _, message = str(error).partition(": ")
        count = "" if reading.lost_frames or reading.rate == FROM_DATA else "; without data.time rows are counted"
        raise ValueError(f"row {rows[int(keep[int(i)])]}, column {shown(name)}: {message}{count}") from None
    if reading.lost_frames or not isinstance(reading.rate, float):
        return keep, line
    # The rows are equally spaced; by how much the scene says.
    return keep, line[0] + (keep - keep[0]) / reading.rate


def _require_increasing(rows: Sequence[int], name: str, times: NDArray) -> None:
    line = "data.rate = 'from data' takes all rows as equally spaced"
    for i in np.flatnonzero(np.isnan(times)).tolist():
        raise ValueError(
            f"row {rows[i]}, column {name!r}: the time is missing; {line}, data.untimed = 'leave out' does without it"
        )
    wrong, back = np.flatnonzero(np.diff(times) <= 0).tolist(), int(np.sum(np.diff(times) < 0))
    for i in wrong:
        hint = f"data.untimed = 'leave out' does without it, {line}"
        if len(wrong) >= max(WERE_ROUNDED * times.size, _SEVERAL):
            hint = f"{len(wrong)} do not, as if rounded: {line}, data.rate = 240 at so many a second"
            # Rounding makes times equal; it turns none round.
            if 2 * back > len(wrong):
                hint = f"{back} go back, as if rows were out of order: sort them by this column"
        raise ValueError(
            f"row {rows[i + 1]}, column {name!r}: {times[i + 1]:g} follows {times[i]:g}, "
            f"expected times that increase; {hint}"
        )


# Besides the rounding of its time a row may be off the line by so many spacings; half of one is a lost row.
_JITTER = 0.2
# Half of the rows are late by less, in frames.
_LATE = 0.1
# A film loses fewer frames than it has rows, and this many more.
_FRAMES = 100
# The length of a frame is searched in so many rows.
_PART = 300


def straight_clock(times: NDArray) -> NDArray:
    """Put rounded times (n,), NaN where missing, on the best straight line.

    Refuses a row further from the line than rounding explains: rows are lost there. Its message begins with the row.
    """
    rows = np.arange(times.size)
    seen = np.isfinite(times)
    if seen.sum() < 3:
        raise ValueError(f"0: {int(seen.sum())} times, expected at least 3 for a straight line")
    first, spacing = np.polynomial.polynomial.polyfit(rows[seen], times[seen], 1)
    line = first + spacing * rows
    off = np.where(seen, np.abs(times - line), 0.0)
    worst = int(np.argmax(off))
    if not spacing > 0 or off[worst] > 0.75 * resolution(times[seen]) + _JITTER * spacing:
        raise ValueError(
            f"{worst}: {times[worst]:.9g} is {off[worst]:.3g} off the straight line through all times, whose spacing "
            f"is {spacing:.6g}; expected rows that are equally spaced"
        )
    return line


def frame_clock(times: NDArray, spacing: float | None = None) -> NDArray:
    """Put times (n,) on a line over the frames, some without row; `spacing` is a frame's, if known.

    The times give the frame of each row: increasing numbers with the smallest sum of distances. So a late time moves no
    row. Refuses times that follow no line; its message begins with the row.
    """
    if np.isfinite(times).sum() < 3 or not np.all(np.isfinite(times)):
        raise ValueError(f"{int(np.argmin(np.isfinite(times)))}: expected at least 3 times, and none that is missing")
    if spacing is None:
        step = float(np.median(np.diff(times)))
        if not step > 0:
            raise ValueError("0: expected times that increase")
        # Times that were rounded say only roughly how long a frame is: the best of many lengths is refined.
        part = times[:_PART]
        starts = [_on_frames(part, long, rounds=1) for long in step * np.linspace(0.95, 1.05, 61)]
        line, _ = min(starts, key=lambda start: np.sum(np.abs(part - start[0][1] - start[0][0] * start[1])))
        (spacing, first), frames = _on_frames(times, float(line[0]))
    else:
        (spacing, first), frames = _on_frames(times, spacing, known=True)
    off = np.abs(times - first - spacing * frames)
    worst = int(np.argmax(off))
    if np.median(off) > 0.5 * resolution(times) + _LATE * spacing:
        raise ValueError(
            f"{worst}: half of the times are more than {np.median(off):.3g} off the straight line over frames of "
            f"{spacing:.6g}; expected frames that are equally spaced, some of them without a row"
        )
    return first + spacing * frames


def _on_frames(
    times: NDArray, spacing: float, rounds: int = 20, known: bool = False
) -> tuple[tuple[float, float], NDArray]:
    """Fit the line (spacing, first) and the nearest frames (n,) in turn."""
    rows, line, frames = np.arange(times.size), (spacing, float(times[0])), np.zeros(0)
    for _ in range(rounds):
        nearest = rows + _lost_frames((times - line[1]) / line[0] - rows)
        if known:
            line = spacing, float(np.median(times - spacing * nearest))
        else:
            slope, first = np.polyfit(nearest, times, 1)
            line = float(slope), float(first)
        if np.array_equal(nearest, frames):
            break
        frames = nearest
    return line, frames


def _lost_frames(late: NDArray) -> NDArray:
    """Find non-decreasing whole numbers (n,) from 0 that are nearest."""
    numbers = np.arange(min(max(int(np.ceil(late.max())), 0), late.size + _FRAMES) + 1)
    cost = np.abs(late[:, None] - numbers[None])
    before, chosen = np.zeros(numbers.size), np.zeros(cost.shape, int)
    for i, row in enumerate(cost):
        least = np.minimum.accumulate(before)
        chosen[i] = np.maximum.accumulate(np.where(before == least, numbers, 0))
        before = row + least
    lost = np.zeros(late.size, int)
    last = int(np.argmin(before))
    for i in range(late.size - 1, -1, -1):
        lost[i], last = last, chosen[i, last]
    return lost


def resolution(times: NDArray) -> float:
    """The last digit with which finite times were written, at least 1e-9."""
    for digits in range(10):
        # Rounding of a float64, and of its product with a unit.
        if np.all(np.abs(times - np.round(times, digits)) <= 1e-12 + 1e-12 * np.abs(times)):
            return 10.0**-digits
    return 1e-9


def summed(spacings: NDArray) -> NDArray:
    """Sum spacings (n,) to times, NaN where one is missing."""
    return np.concatenate([[0.0], np.cumsum(spacings[1:])])


def backwards(times: NDArray) -> bool:
    """Tell whether times fall from most rows to the next."""
    seen = times[np.isfinite(times)]
    return seen.size > 2 and bool(np.mean(np.diff(seen) < 0) > 0.5)


def increasing(times: NDArray) -> NDArray:
    """Mark (n,) each time that is later than all before it."""
    latest = np.fmax.accumulate(np.concatenate([[-np.inf], times]))[:-1]
    return times > latest
