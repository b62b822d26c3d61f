"""Recordings as their writers laid them out: files of cameras, trackers and telephones, known by their headers.

A reader takes the lines of a file and returns its `Sheet`, or None: then another wrote it. A CSV is what none claims.
Tracks with times of their own become rows that they share (`joined`).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from diffcontact.host.messages import shown
from diffcontact.scene.units import is_number, number

# What the columns of times are called where the file does not name them.
_TIME, _HEARD, _FRAME = "time [s]", "impact [s]", "frame"


class Row(NamedTuple):
    """Fields of one row; `first` and `last` are its lines, from 1."""

    first: int
    last: int
    fields: Sequence[str]


@dataclass(frozen=True, eq=False)
class Sheet:
    """The table of a recording, as text."""

    names: tuple[str, ...]  # of the columns; a unit that the header states stands behind them, as in "ball x [mm]"
    rows: Iterable[Row]  # of as many fields each, in the order of the file; read once
    header: int = 1  # the line that names the columns
    time: str = ""  # column of the times, "" where the recording has none
    decimal: str = "."  # "." or ",".
    # groups of columns, those of a marker, that hold 0 in all of them where it is lost
    lost_together: tuple[tuple[str, ...], ...] = ()
    # column -> the one that says how sure the tracker was of it
    likelihood: Mapping[str, str] = field(default_factory=dict)
    understood: str = ""  # what the header says, in words; "" for a CSV, which says nothing


def rows_of(lines: Sequence[str], delimiter: str, skip: int = 0) -> Iterator[Row]:
    """Rows behind the first `skip` lines; " " divides at any blanks."""
    if delimiter == " ":
        for i, line in enumerate(lines[skip:], skip + 1):
            yield Row(i, i, line.split())
        return
    # csv needs the ends of lines to keep those within quotes; it counts lines, so a row's number is the editor's.
    reader = csv.reader((f"{line}\n" for line in lines[skip:]), delimiter=delimiter)
    before = skip
    try:
        for fields in reader:
            yield Row(before + 1, skip + reader.line_num, fields)
            before = skip + reader.line_num
    except csv.Error as error:
        raise ValueError(f"row {skip + reader.line_num}: {error}, expected fields between {delimiter!r}") from None


def listed(names: Iterable[str]) -> str:
    """Names for a message, the first eight of them."""
    names = list(names)
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return ", ".join(names[:8]) + more


def decimal_of(fields: Iterable[str]) -> str:
    """The decimal mark that numbers between tabs or semicolons were written with."""
    text = "".join(fields)
    return "," if "," in text and "." not in text else "."


def _divider(line: str, marks: str = "\t;,") -> str:
    """The first of these marks that is in a line, or ""."""
    return next((mark for mark in marks if mark in line), "")


class Sample(NamedTuple):
    """A track at a time [s]: line, and fields by column."""

    line: int
    time: float
    fields: Mapping[int, str]


def joined(tracks: Sequence[Sequence[Sample]], width: int, decimal: str) -> list[Row]:
    """Join tracks to rows of a time and `width` columns.

    Tracks with the same times share row for row, so that times that were rounded, and are there twice, stay two rows.
    Of other tracks a time tells which samples belong together.
    """
    clocks = [[sample.time for sample in track] for track in tracks]
    alike = all(clock == clocks[0] for clock in clocks)
    shared = zip(*tracks, strict=True) if alike else _of_one_time(tracks)
    return [_row(samples, width, decimal) for samples in shared]


def _of_one_time(tracks: Sequence[Sequence[Sample]]) -> list[list[Sample]]:
    found: dict[float, list[Sample]] = {}
    for track in tracks:
        seen: dict[float, int] = {}
        for sample in track:
            if sample.time in seen:
                raise ValueError(
                    f"row {sample.line}: the time {sample.time:g} is there twice, in row {seen[sample.time]} too, and "
                    "other tracks have other times; expected every time once, or the same times in all tracks"
                )
            seen[sample.time] = sample.line
            found.setdefault(sample.time, []).append(sample)
    return [found[time] for time in sorted(found)]


def _row(samples: Sequence[Sample], width: int, decimal: str) -> Row:
    line, time, _ = samples[0]
    fields = [repr(time).replace(".", decimal), *[""] * width]
    for sample in samples:
        for position, text in sample.fields.items():
            fields[position] = text
    return Row(line, line, fields)


def qualisys(lines: Sequence[str]) -> Sheet | None:
    """Qualisys Track Manager: 3D positions as TSV.

        (FILE_VERSION <tab> 2.0.0)                                             from version 2 on
        NO_OF_FRAMES <tab> 720
        NO_OF_MARKERS <tab> 2
        FREQUENCY <tab> 120
        ...
        MARKER_NAMES <tab> left <tab> right
        (Frame <tab> Time <tab> left X <tab> left Y <tab> left Z ...)          where the export includes them
        1 <tab> 0.00000 <tab> 786.7 <tab> -34.0 <tab> 1064.4 ...

    Positions are in mm. A marker that is lost has 0 0 0, or three empty fields.
    """
    first = (line.split("\t")[0].strip() for line in lines)
    end = next((i for i, name in enumerate(first) if not (name[:1].isalpha() and name.upper() == name)), len(lines))
    header = {name.strip(): [part.strip() for part in rest] for name, *rest in (row.split("\t") for row in lines[:end])}
    # Which key comes first depends on the version.
    if not any(name.startswith("NO_OF_") for name in header):
        return None
    for key in ("NO_OF_FRAMES", "NO_OF_MARKERS", "FREQUENCY"):
        stated = header[key][0].replace(",", ".") if header.get(key) else ""
        if not is_number(stated) or not float(stated) > 0:
            raise ValueError(f"key {key}: {shown(header.get(key, 'missing'))}, expected a number above 0")
    rate, markers = float(header["FREQUENCY"][0].replace(",", ".")), int(float(header["NO_OF_MARKERS"][0]))
    names = [name for name in header.get("MARKER_NAMES", []) if name]
    if len(names) != markers:
        raise ValueError(f"key MARKER_NAMES: {len(names)} names, expected {markers} as NO_OF_MARKERS says")
    columns = tuple(f"{name} {axis} [mm]" for name in names for axis in "xyz")
    heading: list[str] = []
    if end < len(lines) and lines[end].lower().startswith(("frame", "time")):
        heading = lines[end].lower().rstrip().split("\t")
        end += 1
    decimal = decimal_of(lines[end : end + 20])
    lost = tuple(columns[i : i + 3] for i in range(0, len(columns), 3))
    return Sheet(
        names=(_TIME, *columns),
        rows=_qualisys_rows(lines, end, len(columns), heading, rate, decimal),
        header=end,
        time=_TIME,
        decimal=decimal,
        lost_together=lost,
        understood=f"a Qualisys export, {markers} markers ({listed(names)}), {rate:g} frames a second, in mm; "
        "0 0 0 is a lost marker",
    )


def _qualisys_rows(
    lines: Sequence[str], skip: int, width: int, heading: Sequence[str], rate: float, decimal: str
) -> Iterator[Row]:
    """Rows of a time and positions; frame numbers may stand before."""
    before, count = _fields_before(heading, width, skip) if heading else None, 0
    for first, last, fields in rows_of(lines, "\t", skip):
        empty = not any(map(str.strip, fields))
        # Without anything before the positions it is a frame in which all markers are lost.
        if empty and (before != 0 or len(fields) < width):
            continue
        if before is None:
            before = _fields_before(fields, width, first)
        if len(fields) < before + width or any(map(str.strip, fields[before + width :])):
            behind = f", behind {before}" if before else ""
            raise ValueError(
                f"row {first} has {len(fields)} fields, expected {before + width}, three for each marker{behind}"
            )
        timed = before == 2 or heading[:before] == ["time"]
        time = fields[before - 1] if timed else repr(count / rate).replace(".", decimal)
        yield Row(first, last, [time, *fields[before : before + width]])
        count += 1


def _fields_before(fields: Sequence[str], width: int, row: int) -> int:
    """Count the fields before the positions; a lost marker, and the end, may have empty ones."""
    known = [n for n in range(3) if len(fields) >= n + width and not any(map(str.strip, fields[n + width :]))]
    if not known:
        raise ValueError(f"row {row} has {len(fields)} fields, expected {width}, three for each marker")
    there = [bool(field.strip()) for field in fields]
    broken = [sum(len(set(there[i : i + 3])) > 1 for i in range(n, n + width, 3)) for n in known]
    return min(zip(broken, [-n for n in known], known, strict=True))[-1]


def deeplabcut(lines: Sequence[str]) -> Sheet | None:
    """DeepLabCut, and what writes like it: CSV with three header rows.

    scorer,net,net,net
    (individuals,...)                     with several animals
    bodyparts,ball,ball,ball
    coords,x,y,likelihood
    0,245.3,189.2,0.98                    frame, pixels from the upper left corner, and how sure the net was
    """
    if not lines or lines[0].split(",")[0].strip('" ') != "scorer":
        return None
    header = [row.fields for row in rows_of(lines[:4], ",")]
    count = next((i + 1 for i, row in enumerate(header) if row[:1] == ["coords"]), 0)
    if not count:
        return None
    levels = header[1:count]
    if len({len(row) for row in header[:count]}) > 1:
        raise ValueError(f"rows 1 to {count} have {[len(row) for row in header[:count]]} fields, expected as many each")
    points, names = [], [_FRAME]
    for *point, coordinate in zip(*(row[1:] for row in levels), strict=True):
        name = " ".join(part.strip() for part in point)
        points.append(name)
        names.append(f"{name} {coordinate.strip()}" + ("" if coordinate.strip() == "likelihood" else " [px]"))
    sure = {
        f"{name} {axis} [px]": f"{name} likelihood"
        for name in dict.fromkeys(points)
        for axis in "xy"
        if f"{name} likelihood" in names and f"{name} {axis} [px]" in names
    }
    return Sheet(
        names=tuple(names),
        rows=rows_of(lines, ",", count),
        header=count,
        time=_FRAME,
        likelihood=sure,
        understood=f"a DeepLabCut export, {listed(dict.fromkeys(points))} in px, y downwards, one row per frame"
        + ("; samples of small likelihood are lost" if sure else ""),
    )


_CLOCK_TIME = re.compile(r"(\d+):(\d\d):(\d\d)[:.](\d\d)")


def kinovea(lines: Sequence[str]) -> Sheet | None:
    """Kinovea: trajectories as sections of text, or as CSV columns.

        #Kinovea Trajectory data export
        #T X Y

        # Trajectory 1
        0.033 866.00 320.00                   or 0:00:00:03 in older versions: hours, minutes, seconds, hundredths

        "Time","Trajectory 1/0/X","Trajectory 1/0/Y"         the object, its point and the axis
        "0.033","866.0","320.0"                              or "0,033";"866,0";"320,0" with decimal commas

    Lengths are in the unit of the calibration, times of a CSV in that of the time code. The file states neither; y is
    upwards.
    """
    if not lines or not lines[0].startswith("#Kinovea"):
        return _kinovea_columns(lines)
    sections, decimal = _trajectories(lines), "."
    tracks = []
    for i, samples in enumerate(sections.values()):
        if any("," in text for sample in samples for text in sample[1:]):
            decimal = ","
        tracks.append(
            [Sample(line, _kinovea_seconds(t, line), {2 * i + 1: x, 2 * i + 2: y}) for line, t, x, y in samples]
        )
    return Sheet(
        names=(_TIME, *(f"{name} {axis}" for name in sections for axis in "xy")),
        rows=joined(tracks, 2 * len(tracks), decimal),
        header=2,
        time=_TIME,
        decimal=decimal,
        understood=f"an export of Kinovea, {listed(sections)}, lengths in the unit of the calibration",
    )


def _kinovea_columns(lines: Sequence[str]) -> Sheet | None:
    """The sheet of a CSV, or None."""
    delimiter = _divider(lines[0], ";,") if lines else ""
    if not delimiter:
        return None
    rows = rows_of(lines, delimiter)
    head, *columns = (field.strip() for field in next(rows).fields)
    parts = [column.rsplit("/", 2) for column in columns]
    pairs = list(zip(parts[::2], parts[1::2], strict=False))
    points = all(len(x) == 3 and x[2] == "X" and y == [*x[:2], "Y"] for x, y in pairs)
    if head != "Time" or len(parts) % 2 or not points:
        return None
    points = [name if point == "0" else f"{name} {point}" for name, point, _ in parts[::2]]
    decimal = decimal_of(field for row in rows_of(lines[1:21], delimiter) for field in row.fields)
    return Sheet(
        names=(head, *(f"{point} {axis}" for point in points for axis in "xy")),
        rows=rows,
        time=head,
        decimal=decimal,
        understood=f"an export of Kinovea, {listed(points)}, lengths in the unit of the calibration"
        f"{', decimal commas' if decimal == ',' else ''}",
    )


def _trajectories(lines: Sequence[str]) -> dict[str, list[tuple[int, str, str, str]]]:
    """Samples (line, time, x, y) by name; nameless sections are counted."""
    sections: dict[str, list[tuple[int, str, str, str]]] = {}
    name = ""
    for i, line in enumerate(lines[2:], 3):
        fields = line.split()
        if not fields or line.startswith("#"):
            name = line.lstrip("# ").strip()
            if name in sections:
                raise ValueError(f"row {i}: a second trajectory {shown(name)}, expected a name of its own")
            continue
        if len(fields) < 3:
            raise ValueError(f"row {i} has {len(fields)} fields, expected a time and two coordinates")
        name = name or f"trajectory {len(sections) + 1}"
        sections.setdefault(name, []).append((i, fields[0], fields[1], fields[2]))
    return sections


def _kinovea_seconds(text: str, line: int) -> float:
    clock = _CLOCK_TIME.fullmatch(text)
    if clock:
        hours, minutes, seconds, hundredths = map(int, clock.groups())
        return 3600 * hours + 60 * minutes + seconds + hundredths / 100
    try:
        return number(text.replace(",", "."))
    except ValueError:
        raise ValueError(f"row {line}: {shown(text)}, expected a time in seconds") from None


def tracker(lines: Sequence[str]) -> Sheet | None:
    """Tracker (physlets.org): tracks between tabs, commas or semicolons.

        <tab> mass A <tab><tab>                     one name per track, over its columns
        t <tab> x <tab> y <tab>
        0,000 <tab> -4,796 <tab> 13,51 <tab>        with the decimal mark of the country

    Several tracks stand side by side, each with its columns. A track that was marked in other frames has a column of
    times. A time is in seconds, a length in the unit of the calibration, which the file does not state. A row in which
    a track was not marked has empty fields.
    """
    if len(lines) < 3:
        return None
    delimiter = _divider(lines[1])
    if not delimiter:
        return None
    above, below = ([part.strip().strip('"') for part in line.lstrip("#").split(delimiter)] for line in lines[:2])
    if (
        below[0] != "t"
        or "x" not in below
        or not any(above)
        or above[0].replace(",", "").replace(".", "").lstrip("-").isdigit()
        or "t" in above
    ):
        return None
    names, track = [_TIME], next(name for name in above if name)
    tracks, clock = [track], 0
    columns: dict[int, list[int]] = {clock: []}
    for i, variable in enumerate(below[1:], 1):
        if i < len(above) and above[i] and above[i] != track:
            track = above[i]
            tracks.append(track)
        if variable == "t":
            clock = i
            columns[clock] = []
        # What follows the last column is empty.
        elif variable:
            names.append(f"{track} {variable}")
            columns[clock].append(i)
    decimal = "." if delimiter == "," else decimal_of(lines[2:22])
    return Sheet(
        names=tuple(names),
        rows=_tracker_rows(lines, delimiter, columns, len(below), decimal),
        header=2,
        time=_TIME,
        decimal=decimal,
        understood=f"an export of Tracker, {'tracks' if len(tracks) > 1 else 'track'} {listed(tracks)}, time in s, "
        f"lengths in the unit of the calibration{', decimal commas' if decimal == ',' else ''}",
    )


def _tracker_rows(
    lines: Sequence[str], delimiter: str, columns: Mapping[int, Sequence[int]], width: int, decimal: str
) -> Iterator[Row]:
    """Rows of a time and all tracks; `columns` by column of times."""
    rows = list(_not_empty(lines, delimiter, columns, width))
    if len(columns) == 1 or all(len(_times_of_tracks(row, columns)) <= 1 for row in rows):
        for row in rows:
            time = next(iter(_times_of_tracks(row, columns)), "")
            yield Row(row.first, row.last, [time, *(row.fields[i] for group in columns.values() for i in group)])
        return
    tracks, before = [], 1
    for clock, group in columns.items():
        track = []
        for row in rows:
            fields = {position: row.fields[i] for position, i in enumerate(group, before)}
            if any(map(str.strip, (row.fields[clock], *fields.values()))):
                track.append(Sample(row.last, _tracker_seconds(row, clock), fields))
        tracks.append(track)
        before += len(group)
    yield from joined(tracks, before - 1, decimal)


def _not_empty(lines: Sequence[str], delimiter: str, columns: Mapping[int, Sequence[int]], width: int) -> Iterator[Row]:
    """The rows that are not empty."""
    last = max(i for clock, group in columns.items() for i in (clock, *group))
    for row in rows_of(lines, delimiter, 2):
        if not any(map(str.strip, row.fields)):
            continue
        if not last < len(row.fields) or any(map(str.strip, row.fields[width:])):
            raise ValueError(f"row {row.first} has {len(row.fields)} fields, expected {width} as the header has")
        yield row


def _times_of_tracks(row: Row, columns: Mapping[int, Sequence[int]]) -> set[str]:
    return {row.fields[clock].strip() for clock in columns} - {""}


def _tracker_seconds(row: Row, clock: int) -> float:
    try:
        return number(row.fields[clock].replace(",", "."))
    except ValueError:
        text = shown(row.fields[clock].strip())
        raise ValueError(f"row {row.last}, field {clock + 1}: {text}, expected the time of the track") from None


_HEARD_EVENT = re.compile(r"(Bounce|Start|Stop)( \d+)? \(s\)")


def phyphox(lines: Sequence[str]) -> Sheet | None:
    """phyphox: when a microphone heard the impacts of a ball.

        "Bounce 0 (s)","Height 0 (m)","Bounce 1 (s)",...          the experiment (In)elastic collision
        "Start (s)","Stop 1 (s)","Stop 2 (s)",...                 the acoustic stopwatch, several events
        1.234000000E0,...                                         one row; 0 where nothing was heard

    The times become one column.
    """
    delimiter = _divider(lines[0]) if lines else ""
    if not delimiter:
        return None
    header, *rows = rows_of(lines[:3], delimiter)
    events = [i for i, name in enumerate(header.fields) if _HEARD_EVENT.fullmatch(name.strip())]
    if len(events) < 3 or not rows:
        return None
    row = rows[0]
    decimal = decimal_of(row.fields) if delimiter != "," else "."
    heard = [row.fields[i] for i in events if i < len(row.fields) and row.fields[i].strip(" 0.,Ee+-")]
    if len(heard) < 3:
        raise ValueError(f"row {row.first} has {len(heard)} times of impacts, expected at least 3")
    return Sheet(
        names=(_HEARD,),
        rows=[Row(row.first, row.last, [time]) for time in heard],
        time=_HEARD,
        decimal=decimal,
        understood=f"an export of phyphox, {len(heard)} impacts that were heard",
    )


_CLOCK_NAME = re.compile(r"(frame|time|t|slice|image|timestamp)\b.*", re.IGNORECASE)
_POINT_NAME = re.compile(
    r"(particle|track|point|marker|object|body|label|id)([\s_]?(id|nr|no|name|number))?", re.IGNORECASE
)
# More points are no experiment on contact.
_MOST_POINTS = 50


def long_table(lines: Sequence[str]) -> Sheet | None:
    """Long tables, as of trackpy: a row for each point and picture.

    frame,particle,x,y
    0,0,12.5,20.0                         which picture, which point, and where it is
    0,1,300.1,20.4
    1,0,13.1,20.0
    """
    delimiter = _divider(lines[0]) if lines else ""
    if not delimiter:
        return None
    names = [name.strip() for name in next(rows_of(lines, delimiter)).fields]
    clocks, points = ([i for i, name in enumerate(names) if p.fullmatch(name)] for p in (_CLOCK_NAME, _POINT_NAME))
    if not clocks or len(points) != 1:
        return None
    _, *rows = rows_of(lines, delimiter)
    if any(len(row.fields) != len(names) for row in rows):
        return None
    clock, point = clocks[0], points[0]
    decimal = "." if delimiter == "," else decimal_of(field for row in rows[:20] for field in row.fields)
    texts = [(row, row.fields[clock].replace(decimal, ".")) for row in rows if row.fields[clock].strip()]
    labels = list(dict.fromkeys(row.fields[point].strip() for row, _ in texts))
    if not all(is_number(text) for _, text in texts) or not 2 <= len(labels) <= _MOST_POINTS:
        return None
    if len({number(text) for _, text in texts}) == len(texts):
        return None
    # A column without a name counts the rows.
    places = [i for i, name in enumerate(names) if name and i not in (clock, point)]
    tracks: dict[str, list[Sample]] = {label: [] for label in labels}
    for row, text in texts:
        label = row.fields[point].strip()
        first = 1 + len(places) * labels.index(label)
        fields = {first + k: row.fields[i] for k, i in enumerate(places)}
        tracks[label].append(Sample(row.last, number(text), fields))
    called = [f"{names[point]} {label}" if is_number(label) else label for label in labels]
    return Sheet(
        names=(names[clock], *(f"{name} {names[i]}" for name in called for i in places)),
        rows=joined(list(tracks.values()), len(places) * len(labels), decimal),
        time=names[clock],
        decimal=decimal,
        understood=f"rows of {len(labels)} points, {listed(called)}, one below the other",
    )


def recognised(lines: Sequence[str]) -> Sheet | None:
    """Open a recording of a known writer, of the first that claims it; None: nothing known."""
    readers = qualisys, deeplabcut, kinovea, tracker, phyphox, long_table
    return next((sheet for reader in readers if (sheet := reader(lines)) is not None), None)
