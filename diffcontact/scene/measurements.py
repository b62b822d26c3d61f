"""Measured columns from a recording in which every row is right, and the times of its rows.

Times are as they stand, equally spaced at a rate, or on a straight line over the rows or over the frames of a film.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.files import read_bytes, read_text
from diffcontact.host.messages import did_you_mean, shown
from diffcontact.scene.reading import FROM_DATA, Reading
from diffcontact.scene.recordings import Sheet, recognised
from diffcontact.scene.recordings.sheet import rows_of
from diffcontact.scene.units import LARGEST, SMALLEST, has_decimal_comma, is_number, moment, number

# How far a row may be from the line, besides the rounding of its time, in spacings: half of one is a lost row.
_JITTER = 0.2
# Where frames are missing a row may be late by as much, most rows are not.
_LATE = 0.1
# A record that has lost more frames than it has rows, and this many, is none of one film.
_FRAMES = 100
# The length of a frame is looked for in so many rows.
_PART = 300


def straight_clock(times: NDArray) -> NDArray:
    """(n,) times on the straight line over the row number that fits best, for times that were rounded.

    Args:
        times: (n,) as they were written, NaN where one is missing.

    Returns:
        (n,) equally spaced times.

    Raises:
        ValueError: fewer than three times; a row further from the line than the rounding of the times explains: rows
            are lost there, or the rate changes. Its message begins with the number of the row.

    Example:
        >>> straight_clock(np.array([0.0, 0.0, 0.01, 0.01, 0.02, 0.02, 0.03])).round(3).tolist()
        [-0.002, 0.003, 0.008, 0.013, 0.018, 0.023, 0.028]
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
    """(n,) times on a straight line over the frames, of a film of which some frames have no row.

    Which frame a row is of follows from its time: numbers that increase, as near to the times as they can be (the sum
    of the distances is smallest), so that a time that was written late moves no row.

    Args:
        times: (n,) as they were written, not decreasing.
        spacing: how long a frame is, or None: as the times say.

    Raises:
        ValueError: fewer than three times; times that follow no line over any frames. Its message begins with the
            number of the row.

    Example:
        The fourth row is late, two frames are lost after it.

        >>> frame_clock(np.array([0.0, 0.007, 0.014, 0.024, 0.042, 0.049, 0.056])).round(4).tolist()
        [0.0006, 0.0076, 0.0145, 0.0215, 0.0423, 0.0493, 0.0562]
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
        line, _ = min(starts, key=lambda start: np.sum(np.abs(part - _line_at(*start))))
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


def _line_at(line: tuple[float, float], frames: NDArray) -> NDArray:
    """Times of frames on a line (spacing, first)."""
    return line[1] + line[0] * frames


def _on_frames(
    times: NDArray, spacing: float, rounds: int = 20, known: bool = False
) -> tuple[tuple[float, float], NDArray]:
    """The line (spacing, first) over the frames, and these (n,): in turn the nearest frames, and the line over them."""
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
    """(n,) whole numbers from 0 that do not decrease and whose distances to these have the smallest sum."""
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
    """The last digit with which finite times were written, at least 1e-9.

    Example:
        >>> resolution(np.array([0.25, 0.5, 1.0]))
        0.01
    """
    for digits in range(10):
        # Rounding of a float64, and of its product with a unit.
        if np.all(np.abs(times - np.round(times, digits)) <= 1e-12 + 1e-12 * np.abs(times)):
            return 10.0**-digits
    return 1e-9


def summed(spacings: NDArray) -> NDArray:
    """(n,) times from those that passed since the row before, NaN where one is missing but in the first row.

    Example:
        >>> summed(np.array([np.nan, 0.5, 0.25])).tolist()
        [0.0, 0.5, 0.75]
    """
    return np.concatenate([[0.0], np.cumsum(spacings[1:])])


def backwards(times: NDArray) -> bool:
    """Whether times fall from most rows to the next: a table whose last moment stands first.

    Example:
        >>> backwards(np.array([0.3, 0.2, np.nan, 0.1])), backwards(np.array([0.0, 0.2, 0.1, 0.3]))
        (True, False)
    """
    seen = times[np.isfinite(times)]
    return seen.size > 2 and bool(np.mean(np.diff(seen) < 0) > 0.5)


def increasing(times: NDArray) -> NDArray:
    """(n,) True where a time is there and later than all before it.

    Example:
        >>> increasing(np.array([0.0, 1.0, 1.0, np.nan, 0.5, 2.0])).tolist()
        [True, True, False, False, False, True]
    """
    latest = np.fmax.accumulate(np.concatenate([[-np.inf], times]))[:-1]
    return times > latest


_ENDS = re.compile(r"\r\n|\r|\n")
# A header is looked for in so many lines, to tell how many stand before it.
_HEADER = 100
# Below it DeepLabCut itself takes a point as not seen.
_LIKELIHOOD = 0.6
# Fewer rows are read field by field at once.
_MANY = 5000
# From this part of the rows on, and so many, times that do not increase are the rule, not slips.
_RULE, _SEVERAL = 0.02, 3


@dataclass(frozen=True, eq=False)
class Measurements:
    """Columns of one file.

    Attributes:
        path: of the file, as it was given.
        columns: name -> (n,) numbers as they stand in the file, NaN where a field is empty.
        sha256: of the file's bytes.
        times: (n,) of the rows, in the system's unit.
        entire: name -> times and numbers (m,) of a column that is known where it has a number, also between the rows.
        understood: what the header says, in words; "" for a CSV.
    """

    path: str
    columns: Mapping[str, NDArray]
    sha256: str
    times: NDArray = field(default_factory=lambda: np.empty(0))
    entire: Mapping[str, tuple[NDArray, NDArray]] = field(default_factory=dict)
    understood: str = ""


def read_measurements(
    path: str | Path, columns: Sequence[str], reading: Reading, entire: Sequence[str] = ()
) -> Measurements:
    """Read the named columns of a recording; an empty field is a lost sample.

    A recording whose writer is known by its header (`recordings`) is read as that writes it, any other as a CSV with
    one header line. Lines may end as on any system. Every row must be right, also those that are not used.

    Args:
        path: of the file; UTF-8.
        columns: names of the columns that are needed, as the header spells them; `*` stands for any text and `?` for
            any letter, in a name that fits one column.
        reading: how times, numbers and lost samples are written.
        entire: of the columns, those of which every row counts, also where data.every takes one in so many.

    Returns:
        `Measurements`.

    Raises:
        OSError: the file cannot be read.
        ValueError: a column that the header lacks or has twice, a row with another number of fields than the header, a
            field that is not a finite number, times that do not increase; names file, row (the first line is row 1),
            column, and the key that helps.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "fall.csv")
        >>> _ = path.write_text("t [s],y [m]\\n0.0,1.0\\n0.1,\\n")
        >>> read_measurements(path, ["y*"], Reading(time="t [s]")).columns["y*"].tolist()
        [1.0, nan]
    """
    content = read_bytes(path)
    lines = lines_of(_text(path, content, reading.encoding))
    try:
        sheet = open_sheet(lines, reading)
        wanted = tuple(dict.fromkeys((*columns, *([reading.time] if reading.time else ()))))
        found = {name: _column(name, sheet, lines, reading) for name in wanted}
        _require_distinct(found)
        rows, values = _rows(sheet, found, _beside(sheet, found), reading)
        _lose(values, sheet, reading)
        table = {name: values[position] for name, position in found.items()}
        _lose_together([table[name] for name in columns if name != reading.time], reading)
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
    whole = {name: _numbers(times, table[name][keep]) for name in entire}
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


def _numbers(times: NDArray, column: NDArray) -> tuple[NDArray, NDArray]:
    """A column where it has a number, and when that is."""
    seen = np.isfinite(column)
    return times[seen], column[seen]


def _text(path: str | Path, content: bytes, encoding: str) -> str:
    try:
        return read_text(path, expected="a CSV file", content=content, encoding=encoding)
    except ValueError as error:
        if encoding != "UTF-8":
            raise
        other = "UTF-16" if b"\0" in content[:1000] else "Latin-1"
        raise ValueError(f"{error} or data.encoding = {other!r}") from None


def lines_of(text: str) -> list[str]:
    """The lines of a text, which may end as on any system.

    Example:
        >>> lines_of("a\\r\\nb\\rc\\n")
        ['a', 'b', 'c']
    """
    lines = _ENDS.split(text)
    return lines[:-1] if not lines[-1] else lines


def open_sheet(lines: Sequence[str], reading: Reading) -> Sheet:
    """The table of a recording: that of a known writer, or a CSV where the scene says how it is laid out."""
    if reading.delimiter is None and reading.skip is None and reading.names is None:
        known = recognised(lines)
        if known is not None:
            return known
    before, after = reading.skip or (0, 0)
    delimiter = reading.delimiter or ","
    if reading.names is not None:
        return _csv(reading.names, lines, delimiter, before + after, before)
    header = next(iter(rows_of(lines, delimiter, before)), None)
    names = tuple(name.strip() for name in header.fields) if header else ()
    end = header.last if header else before
    return _csv(names, lines, delimiter, end + after, before + 1)


def _csv(names: tuple[str, ...], lines: Sequence[str], delimiter: str, skip: int, header: int) -> Sheet:
    rows = rows_of(lines, delimiter, skip)
    return Sheet(names=names, rows=rows, header=header, lines=lines[skip:], delimiter=delimiter, skipped=skip)


def _column(name: str, sheet: Sheet, lines: Sequence[str], reading: Reading) -> int:
    """The position of a column, by its name or a pattern that fits it alone."""
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


def _require_distinct(found: Mapping[str, int]) -> None:
    known: dict[int, str] = {}
    for name, position in found.items():
        if position in known:
            raise ValueError(f"column {shown(name)} is also {shown(known[position])}, expected every column once")
        known[position] = name


def _rows(
    sheet: Sheet, found: Mapping[str, int], beside: Sequence[int], reading: Reading
) -> tuple[Sequence[int], dict[int, NDArray]]:
    """The line of each row that is not empty, and by position the columns that are needed and those beside them."""
    plain = _plain_rows(sheet, (*found.values(), *beside), reading)
    if plain is not None:
        return plain
    rows, values = array("q"), {position: array("d") for position in (*found.values(), *beside)}
    decimal, lost = reading.decimal or sheet.decimal, _Lost.of(reading)
    names = {position: name for name, position in found.items()}
    wanted = [(names.get(i, sheet.names[i]), i, column.append) for i, column in values.items()]
    for first, last, fields in sheet.rows:
        if not any(map(str.strip, fields)):
            continue
        if len(fields) != len(sheet.names):
            quoted = f", as a quote holds it together with all up to row {last}" if first < last else ""
            raise ValueError(
                f"row {first} has {len(fields)} fields{quoted}, expected {len(sheet.names)} as the header has"
            )
        rows.append(last)
        for name, position, append in wanted:
            try:
                append(_number(fields[position], decimal, lost))
            except ValueError as error:
                hint = _number_hint(fields[position])
                raise ValueError(f"row {last}, column {shown(name)}: {error}{hint}") from None
    return rows, {position: np.frombuffer(column).copy() for position, column in values.items()}


def _plain_rows(
    sheet: Sheet, positions: Sequence[int], reading: Reading
) -> tuple[Sequence[int], dict[int, NDArray]] | None:
    """The same of a long text that holds nothing but finite numbers; None of any other: it is read field by field."""
    lines, mark = sheet.lines, sheet.delimiter
    if len(lines) < _MANY or mark == " " or (reading.decimal or sheet.decimal) != ".":
        return None
    if any(line.count(mark) != len(sheet.names) - 1 or '"' in line for line in lines):
        return None
    try:
        table = np.loadtxt(lines, delimiter=mark, usecols=positions, comments=None, ndmin=2)
    except ValueError:
        return None
    size = np.abs(table)
    if len(table) != len(lines) or not np.all(((size >= SMALLEST) & (size <= LARGEST)) | (table == 0)):
        return None
    table[np.isin(table, list(_Lost.of(reading).numbers))] = np.nan
    first = 1 + sheet.skipped
    return range(first, first + len(lines)), {i: column.copy() for i, column in zip(positions, table.T, strict=True)}


class _Lost(NamedTuple):
    """What stands for a lost sample: words, and the numbers among them, which may be spelt in several ways."""

    words: frozenset[str]
    numbers: frozenset[float]

    @classmethod
    def of(cls, reading: Reading) -> _Lost:
        words = frozenset(group[0] for group in reading.missing if len(group) == 1)
        numbers = []
        for word in words:
            with contextlib.suppress(ValueError):
                numbers.append(number(word))
        return cls(words, frozenset(numbers))


def _number(field: str, decimal: str, lost: _Lost) -> float:
    if not field or field.isspace() or field.strip() in lost.words:
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
    return np.nan if value in lost.numbers else value


def _number_hint(field: str) -> str:
    """The key that would help, for the end of a message about a field."""
    if has_decimal_comma(field):
        return "; a decimal comma wants data.decimal = ','"
    if "nan" in field.lower():
        return "; a lost sample is an empty field, or what data.missing says"
    if not any(map(str.isdigit, field)):
        return f"; a lost sample wants data.missing = [{field.strip()!r}], a row of units data.skip = [0, 1]"
    return ""


def _beside(sheet: Sheet, found: Mapping[str, int]) -> tuple[int, ...]:
    """Positions of the columns that tell whether samples of the needed ones are lost."""
    names = {sheet.names[i] for i in found.values()}
    telling = {sheet.likelihood[name] for name in names if name in sheet.likelihood}
    telling.update(name for group in sheet.lost_together if names & set(group) for name in group)
    return tuple(sheet.names.index(name) for name in sorted(telling - names))


def _lose(table: dict[int, NDArray], sheet: Sheet, reading: Reading) -> None:
    """Lose what the writer marks: markers that are 0 in all coordinates, and points it was not sure of."""
    position = {name: i for i, name in enumerate(sheet.names)}
    for group in sheet.lost_together:
        parts = [table[position[name]] for name in group if position[name] in table]
        if len(parts) == len(group):
            gone = np.all([part == 0 for part in parts], axis=0)
            for part in parts:
                part[gone] = np.nan
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


def _lose_together(columns: Sequence[NDArray], reading: Reading) -> None:
    """Lose what the scene says several columns of a marker hold together."""
    for words in (group for group in reading.missing if len(group) > 1):
        size = len(words)
        if len(columns) % size:
            raise ValueError(
                f"data.missing: {shown(' '.join(words))} has {size} numbers, expected as many as each marker has "
                f"columns; the preparation has {len(columns)} in all"
            )
        for i in range(0, len(columns), size):
            marker = columns[i : i + size]
            gone = np.all([part == number(word) for part, word in zip(marker, words, strict=True)], axis=0)
            for part in marker:
                part[gone] = np.nan


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
    try:
        line = reading.time_factor * (_frames(written, reading) if reading.lost_frames else straight_clock(written))
    except ValueError as error:
        i, _, message = str(error).partition(": ")
        count = "" if reading.lost_frames or reading.rate == FROM_DATA else "; without data.time rows are counted"
        raise ValueError(f"row {rows[int(keep[int(i)])]}, column {shown(name)}: {message}{count}") from None
    if reading.lost_frames or not isinstance(reading.rate, float):
        return keep, line
    # The rows are equally spaced; by how much the scene says.
    return keep, line[0] + (keep - keep[0]) / reading.rate


def _frames(written: NDArray, reading: Reading) -> NDArray:
    """Times of a film of which some frames have no row, in the unit of the column."""
    rate = reading.rate
    return frame_clock(written, 1.0 / (rate * reading.time_factor) if isinstance(rate, float) else None)


def _require_increasing(rows: Sequence[int], name: str, times: NDArray) -> None:
    line = "data.rate = 'from data' takes all rows as equally spaced"
    for i in np.flatnonzero(np.isnan(times)).tolist():
        raise ValueError(
            f"row {rows[i]}, column {name!r}: the time is missing; {line}, data.untimed = 'leave out' does without it"
        )
    wrong, back = np.flatnonzero(np.diff(times) <= 0).tolist(), int(np.sum(np.diff(times) < 0))
    for i in wrong:
        hint = f"data.untimed = 'leave out' does without it, {line}"
        if len(wrong) >= max(_RULE * times.size, _SEVERAL):
            hint = f"{len(wrong)} do not, as if rounded: {line}, data.rate = 240 at so many a second"
            # Rounding makes times equal; it turns none round.
            if 2 * back > len(wrong):
                hint = f"{back} go back, as if rows were out of order: sort them by this column"
        raise ValueError(
            f"row {rows[i + 1]}, column {name!r}: {times[i + 1]:g} follows {times[i]:g}, "
            f"expected times that increase; {hint}"
        )
