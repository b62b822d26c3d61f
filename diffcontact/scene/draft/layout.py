"""Find the layout of an unknown text of numbers, and what the names of its columns say: time, frame, axis, unit."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from diffcontact.host.messages import shown
from diffcontact.scene.measurements import Reading
from diffcontact.scene.recordings import Row, rows_of
from diffcontact.scene.units import Unit, has_decimal_comma, is_meant, is_number, is_plain, is_unit, require_word

# Numbers begin in one of so many lines.
_HEAD = 200
# So many lines of a long text say what divides it; of the others only those are kept that are not plain numbers.
_LOOKED_AT = 5000
_PLAIN = r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
# Before names of points.
_POINTS = re.compile(r"(markers?|points?|tracks?|body\s?parts?)([\s_]?names?)?", re.IGNORECASE)
# What lines begin with that are no data.
_COMMENTS = "#%"
# Rows per second: a name with a number in the next cell, or a number with its unit anywhere.
_CELLS = re.compile(r"[,;\t:=]|\s{2,}")
_RATE = re.compile(
    r"((capture|export\w*|sampl\w*|video|camera|film|image|recording|data)[\s_-]?)?"
    r"(frame[\s_-]?rate|frames[\s_-]?per[\s_-]?second|fps|frequency|rate|bildrate|bilder pro sekunde|trajectories)"
    r"(\s*[\[(]?(hz|fps|1/s)[\])]?)?",
    re.IGNORECASE,
)
_FPS = re.compile(
    r"\b(\d+(?:[.,]\d+)?) *(?:fps|frames?/s|frames? (?:per|a) second)\b|\bfps +(\d+(?:[.,]\d+)?)", re.IGNORECASE
)
_UNIT_NAME = re.compile(r"(length|position|distance)[\s_]?units?", re.IGNORECASE)
# What columns without a header usually are, by how many there are.
_USUAL = {
    2: ("t", "x"),
    3: ("t", "x", "y"),
    4: ("t", "x", "y", "z"),
    5: ("t", "x1", "y1", "x2", "y2"),
    7: ("t", "x1", "y1", "z1", "x2", "y2", "z2"),
}


@dataclass(frozen=True)
class Layout:
    """How a text is read, and how its columns are named."""

    # delimiter, decimal mark, lines to skip, names where no header is read as one, words for lost samples
    reading: Reading
    columns: tuple[str, ...]  # those that hold numbers
    remarks: tuple[str, ...] = ()  # what was noticed, in words
    named_in: int = 0  # the comment that has the names of the reading, 0 where they are a guess
    # rows per second that a line before the numbers states, and that line; or None
    rate: tuple[float, int] | None = None
    length: str = ""  # the unit of lengths that such a line states, or ""
    units: Mapping[str, str] = field(default_factory=dict)  # name -> text below it in a row of units


def encoding_of(content: bytes) -> str:
    """Tell the encoding of a text: UTF-8, UTF-16 by its mark, Latin-1."""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "UTF-16"
    try:
        content.decode()
    except UnicodeDecodeError:
        return "Latin-1"
    return "UTF-8"


def layout_of(lines: Sequence[str]) -> Layout:
    """The layout that makes most numbers of a text; refuses a number that cannot be read as it is spelt."""
    found = _tables(lines[:_LOOKED_AT]) or _tables(lines)
    if not found:
        raise ValueError(f"no columns of numbers; it begins with {shown(lines[0] if lines else '')}")
    tabs, blanks = found.get("\t"), found.get(" ")
    # A blank between tabs is one within a field, as in 1 500.
    if tabs and blanks and len(tabs.data[0].fields) > 1 and tabs.part >= blanks.part:
        del found[" "]
    best = max(found.values(), key=lambda table: (table.numbers, table.part))
    if len(lines) > _LOOKED_AT:
        best = _table(lines, best.delimiter) or best
    return _layout(_with_first(best), lines)


def stated_rate(lines: Sequence[str]) -> tuple[float, int] | None:
    """Find rows per second in lines above a table, and the line."""
    stated = [(i, name, text) for i, name, text in _pairs(lines) if _RATE.fullmatch(name)]
    stated += [(i, "", match[1] or match[2]) for i, line in enumerate(lines, 1) for match in _FPS.finditer(line)]
    found = []
    for i, name, text in stated:
        number = re.match(r"\d+([.,]\d+)?", text)
        if number and (rate := float(number[0].replace(",", "."))) > 0:
            found.append((not name.lower().startswith("export"), rate, i))
    return min(found, key=lambda one: one[0])[1:] if found else None


def _pairs(lines: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Pair each cell with the next one, which may stand below it."""
    before = ""
    for i, line in enumerate(lines, 1):
        for cell in (cell.strip(' "#%') for cell in _CELLS.split(line)):
            yield i, before, cell
            before = cell


@dataclass(frozen=True)
class _Table:
    """A text as one delimiter divides it."""

    delimiter: str  # which one
    before: tuple[Row, ...]  # rows of as many fields as the data have, before them
    data: tuple[Row, ...]  # rows of numbers; of a long text without those that hold plain numbers only
    columns: tuple[int, ...]  # positions of those that are numbers
    numbers: int  # how many it makes; twice, where there are several columns
    part: float  # of the fields that are numbers


def _tables(lines: Sequence[str]) -> dict[str, _Table]:
    return {mark: table for mark in ",;\t " if (table := _table(lines, mark)) is not None}


def _table(lines: Sequence[str], delimiter: str) -> _Table | None:
    # A quote may hold lines together wherever it stands.
    whole = len(lines) <= _LOOKED_AT or any('"' in line for line in lines)
    rows = _filled(rows_of(lines if whole else lines[:_LOOKED_AT], delimiter))
    width = Counter(len(row.fields) for row in rows[-50:]).most_common(1)[0][0] if rows else 0
    more, plain = ([], 0) if whole else _beyond(lines, delimiter, width)
    rows += more
    numbers = [_meant(row.fields, delimiter) for row in rows]
    # Numbers of markers may stand in a header, too; words follow these.
    begin = next(
        (
            i
            for i, row in enumerate(rows[:_HEAD])
            if len(row.fields) == width and 2 * numbers[i] > width and any(numbers[i : i + 2][-1:])
        ),
        None,
    )
    if width < 1 or begin is None:
        return None
    before, data = (tuple(row for row in part if len(row.fields) == width) for part in (rows[:begin], rows[begin:]))
    made = sum(numbers[begin:]) + width * plain
    # "0,1;2,5" has two numbers between commas, too, but with "1;2" between them.
    fields = max(width * len(rows[begin:]), sum(len(row.fields) for row in rows[begin:])) + width * plain
    return _Table(delimiter, before, data, _columns(data, delimiter, plain), made * min(width, 2), made / fields)


def _filled(rows: Iterable[Row]) -> list[Row]:
    """Rows that are not empty; the mark of a comment is joined with the word behind it."""
    found = []
    for row in rows:
        if len(row.fields) > 1 and row.fields[0] in tuple(_COMMENTS):
            row = row._replace(fields=[row.fields[0] + row.fields[1], *row.fields[2:]])
        if any(map(str.strip, row.fields)):
            found.append(row)
    return found


def _beyond(lines: Sequence[str], delimiter: str, width: int) -> tuple[list[Row], int]:
    """Read the lines behind: rows with words, and a count of others."""
    between, around = (r"\s+", r"\s*") if delimiter == " " else (f" *{re.escape(delimiter)} *", " *")
    plain = re.compile(around + between.join([_PLAIN] * max(width, 1)) + around)
    rest = range(_LOOKED_AT, len(lines))
    odd = [i for i in rest if plain.fullmatch(lines[i]) is None]
    rows = [row._replace(first=i + 1, last=i + 1) for i in odd for row in rows_of([lines[i]], delimiter)]
    return _filled(rows), len(rest) - len(odd)


def _columns(data: Sequence[Row], delimiter: str, plain: int) -> tuple[int, ...]:
    """Find columns of numbers; `plain` further rows hold numbers only."""
    table = enumerate(zip(*(row.fields for row in data), strict=True))
    return tuple(
        i for i, fields in table if 2 * _meant(fields, delimiter) + plain > sum(map(bool, map(str.strip, fields)))
    )


def _meant(fields: Sequence[str], delimiter: str) -> int:
    return sum(is_meant(field, delimiter) for field in fields)


def _with_first(table: _Table) -> _Table:
    """Add first rows in which most samples are lost to the data."""
    before, data = list(table.before), list(table.data)
    lost = {
        row.fields[i].strip() for row in data for i in table.columns if not is_meant(row.fields[i], table.delimiter)
    }
    while before:
        fields = [before[-1].fields[i] for i in table.columns]
        words = {field.strip() for field in fields if not is_meant(field, table.delimiter)}
        if not _meant(fields, table.delimiter) or not words <= lost | {""}:
            break
        data.insert(0, before.pop())
    return replace(table, before=tuple(before), data=tuple(data))


def _layout(table: _Table, lines: Sequence[str]) -> Layout:
    data, delimiter = table.data, table.delimiter
    header, width = _header(table.before), len(data[0].fields)
    columns, above = _named(table, header) if header else ((), None)
    points, listed = _of_points(lines[: data[0].first - 1], delimiter, width)
    if points and not any(map(is_name, columns)):
        header, columns, above = None, points, listed
    between = [row for row in table.before if header is not None and row.first > header.last]
    noted = header is not None and _is_comment(header)
    units = next((row for row in between if _is_of_units(row)), None)
    stated = list(map(str.strip, units.fields)) if units else [""] * width
    # Some writers leave it to the unit to say which column has the times.
    pairs = zip(columns, stated, strict=False)
    whole = tuple("t" if not name and read_unit(unit) in TIMES else name for name, unit in pairs)
    kept = bool(columns) and above is header and not noted and whole == columns
    named, columns = bool(columns), whole
    names = None if kept else columns or _USUAL.get(width, tuple(f"column {i + 1}" for i in range(width)))
    skip = (header.first - 1, data[0].first - 1 - header.last) if kept and header else (data[0].first - 1, 0)
    comma = delimiter != "," and any(has_decimal_comma(field) for row in data for field in row.fields)
    every, numeric = names or columns, table.columns
    words = dict.fromkeys(word for i in numeric for word in _words(data, i, delimiter, every[i]))
    passed = [row for row in between if row is not units] if named and header else list(table.before)
    lost = tuple((word,) for word in words)
    head = lines[: skip[0]]
    return Layout(
        Reading(delimiter=delimiter, decimal="," if comma else ".", skip=skip, names=names, missing=lost),
        columns=tuple(every[i] for i in numeric),
        remarks=_passed(passed, lambda row: any(is_meant(row.fields[i], delimiter) for i in numeric)),
        named_in=above.first if above and named and not kept else 0,
        rate=stated_rate(head),
        length=next((read_unit(text) for _, name, text in _pairs(head) if _UNIT_NAME.fullmatch(name)), ""),
        units=dict(zip(every, stated, strict=True)) if units else {},
    )


def _is_comment(row: Row) -> bool:
    return row.fields[0].lstrip().startswith(tuple(_COMMENTS))


def _header(before: Sequence[Row]) -> Row | None:
    """Find the first row with most of the usual names; a comment or numbers only with one."""
    best, most = None, -1
    for row in before:
        usual = sum(is_name(field.lstrip(_COMMENTS)) for field in row.fields)
        words = not _is_comment(row) and not any(map(is_number, row.fields))
        if usual > most and not _is_of_units(row) and (usual or words):
            best, most = row, usual
    # "seconds" names a column where no row above does.
    words = [row for row in before if not _is_comment(row) and not any(map(is_number, row.fields))]
    return best or next((row for row in words if not all(map(read_unit, filter(None, row.fields)))), None)


def _named(table: _Table, header: Row) -> tuple[tuple[str, ...], Row]:
    """Make distinct names, with points of rows above where needed."""
    below = tuple(field.lstrip(_COMMENTS).strip() for field in header.fields)
    if len(set(below)) == len(below):
        return below, header
    above = [row for row in table.before if row.last < header.first and not _meant(row.fields, table.delimiter)]
    # A point is named once, over the first of its columns.
    points = [[text.lstrip(_COMMENTS).strip() for text in row.fields] for row in reversed(above)]
    levels = [
        (row, list(accumulate(names, lambda point, name: name or point)))
        for row, names in zip(reversed(above), points, strict=True)
    ]
    # One row may be enough; else those that tell more columns apart than the ones below.
    for row, level in levels:
        if len(set(names := _joined(level, below))) == len(names):
            return names, row
    names = below
    for row, level in levels:
        if len(set(more := _joined(level, names))) > len(set(names)):
            names = more
        if len(set(names)) == len(names):
            return names, row
    return (), header


def _joined(above: Sequence[str], below: Sequence[str]) -> tuple[str, ...]:
    pairs = zip(above, below, strict=True)
    return tuple(name if name and is_clock(name) else f"{point} {name}".strip() for point, name in pairs)


def _of_points(lines: Sequence[str], delimiter: str, width: int) -> tuple[tuple[str, ...], Row | None]:
    """Name columns by a line that lists their points."""
    for row in rows_of(lines, delimiter):
        key, *points = [field.strip() for field in row.fields if field.strip()] or [""]
        for axes in ("xyz", "xy"):
            before = width - len(axes) * len(points)
            if points and _POINTS.fullmatch(key) and 0 <= before <= 2:
                names = [f"{point} {axis}" for point in points for axis in axes]
                return (*[(), ("t",), ("frame", "t")][before], *names), row
    return (), None


def _is_of_units(row: Row) -> bool:
    stated = [field.lstrip(_COMMENTS) for field in row.fields if field.lstrip(_COMMENTS).strip()]
    if any(is_name(field) and not read_unit(field) for field in stated):
        return False
    return 2 * sum(bool(read_unit(field)) for field in stated) >= max(len(stated), 1)


def _words(data: Sequence[Row], column: int, delimiter: str, name: str) -> list[str]:
    """List words that stand for lost samples in a column of numbers."""
    words = []
    for row in data:
        field = row.fields[column].strip()
        if not field or is_plain(field, delimiter):
            continue
        if field != name:
            try:
                require_word(field)
            except ValueError as error:
                raise ValueError(f"row {row.last}, column {shown(name)}: {error}") from None
        words.append(field)
    return words


def _passed(rows: Sequence[Row], with_numbers: Callable[[Row], bool]) -> tuple[str, ...]:
    """Remark on rows as wide as the data, neither header nor units."""
    numbers = [row for row in rows if with_numbers(row)]
    remarks = []
    if numbers:
        among = f", and {len(numbers) - 1} more do," if len(numbers) > 1 else ""
        remarks.append(
            f"row {numbers[0].first} has numbers{among} but is taken for a line behind the header, not for data"
        )
    for row in (row for row in rows if row not in numbers):
        remarks.append(f"row {row.first}, {shown(', '.join(row.fields))}, is taken for a comment")
    return tuple(remarks)


# Loggers write the name of the run before a colon.
TIME = re.compile(
    r"(.*: *)?((t|time|zeit|temps|tid|tiempo|tempo|seconds?|sek|timestamp)\b.*"
    r"|(t|time|timestamp)_(s|ms|us|min|h|hr|sec\w*|min\w*|hour\w*))",
    re.IGNORECASE | re.DOTALL,
)
# From one row to the next.
SPACING = re.compile(r"(d|delta|\u0394|\u2206)[\s_]?t(ime)?|time[\s_]?(step|interval|diff\w*)|interval", re.IGNORECASE)
FRAME = re.compile(r"(image|picture|bild|slice)\b.*|.*frame.*", re.IGNORECASE | re.DOTALL)
COUNT = re.compile(r"(row|index|nr|no|#|sample|unnamed)\b.*|", re.IGNORECASE | re.DOTALL)
AXIS = re.compile(r"(?:^|(?<=[\s_.\-]))([xyzXYZ])(?=[\s_.\-]|\d|$)")
_LETTER = re.compile(r"([xyz])\w*", re.IGNORECASE)
_CENTRE = re.compile(r"(?:c|pos|cent\w*|mid)([xyz])\d*", re.IGNORECASE)
LENGTHS = ("m", "cm", "mm", "um", "km", "in", "ft", "px")
TIMES = ("s", "ms", "us", "ns", "min", "h", "frame")
FULL_TURN = {"rad": 6.283185307179586, "deg": 360.0, "turn": 1.0}

# As people spell what the table of units has.
_WORDS = {
    "px": "pixel pixels pix",
    "deg": "° degree degrees",
    "rad": "radian radians",
    "turn": "turns rev revs revolution revolutions",
    "s": "sec secs second seconds sek sekunde sekunden",
    "ms": "msec msecs millisecond milliseconds",
    "ns": "nsec nanosecond nanoseconds",
    "us": "µs μs usec microsecond microseconds",
    "min": "mins minute minutes",
    "h": "hr hrs hour hours stunden",
    "m": "meter meters metre metres",
    "cm": "centimeter centimeters centimetre centimetres",
    "mm": "millimeter millimeters millimetre millimetres",
    "um": "µm μm micron microns micrometer micrometers micrometre micrometres",
    "km": "kilometer kilometers kilometre kilometres",
    "in": 'inch inches " ″',
    "ft": "foot feet ' ′",
    "frame": "frames",
}
_SPELT = {word: unit for unit, words in _WORDS.items() for word in words.split()}
_BRACKETS = re.compile(r"\[\s*([^\]]*?)\s*\]|\(\s*([^)]*?)\s*\)")
# Behind a stroke, as in t/ms, a comma, an underscore or "in"; behind a blank where one letter might be a label.
_TOKENS = "|".join(["[cm]?m_s2?", "px_s", *sorted({*LENGTHS, *TIMES, *FULL_TURN, "N", *filter(str.isalpha, _SPELT)})])
_BEHIND = re.compile(rf"(?:\s*/\s*|\s*,\s*|_|\s+in\s+)({_TOKENS})(?=_|$)|\s({_TOKENS})$", re.IGNORECASE)
# Rather a unit than a word on what is measured: "(yd)" and not "(left)". A capital is a label.
_LIKE_UNIT = re.compile(r"[a-zµμ°\"'′″]|[A-Za-zµμ°]{2,3}|[a-zµμ]+/[a-z]+\S*")
# Units of length, time and angle that the table lacks, as words.
_FOREIGN = re.compile(
    r"(yard|mile|nano(?!sec)\w+|deci\w+|day|week|month|year|tick|arc(min|sec)|milliradian|point|count|sample|field)s?|angstrom"
    r"|grad|mrad|gon",
    re.IGNORECASE,
)
# Velocities, accelerations, forces and momenta by their letter, other quantities by their name.
_OTHER = re.compile(
    r"(?:^|[\s_.\-])(?:[vapF]_?\{?[xyz]?\}?|v[\dnt]|(?i:speed|vel\w*|acc\w*|force|likelihood|score|conf\w*|step|omega|error)"
    r"|pixel[xy])$"
)


_QUANTITIES = {
    Unit.parse(unit).dimension: what
    for unit, what in {
        "m/s": "a velocity",
        "px/s": "a velocity",
        "m/s^2": "an acceleration",
        "N": "a force",
        "rad": "an angle",
        "rad/s": "an angular velocity",
        "rad/s^2": "an angular acceleration",
        "s": "a time",
        "Hz": "a frequency",
        "kg": "a mass",
    }.items()
}
# Velocity and speed, acceleration, force, momentum.
_LETTERS = {"v": "a velocity", "s": "a velocity", "a": "an acceleration", "f": "a force", "p": "a momentum"}


@dataclass(frozen=True)
class Headings:
    """Names of columns, and the units in a row of their own."""

    units: Mapping[str, str] = field(default_factory=dict)  # name -> text of that row; empty where there is none

    def unit(self, name: str) -> str:
        """The unit that is stated, as the table spells it, or ""."""
        return _stated(name)[0] or read_unit(self.units.get(name, ""))

    def require_known(self, name: str, what: str, among: tuple[str, ...]) -> None:
        """Refuse a column with an unknown unit, or one of another quantity."""
        unit, unknown = self.unit(name), _stated(name)[1] or self.units.get(name, "")
        if unit in among or not (unit or unknown):
            return
        raise ValueError(
            f"column {shown(name)}: {shown(unit or unknown)} is no unit of {what} that is known, expected "
            f"{', '.join(among)}"
        )

    def quantity(self, name: str) -> str:
        """Name the quantity of a column that is no place; else ""."""
        unit, stem = self.unit(name), core(name)
        if unit:
            return _QUANTITIES.get(Unit.parse(unit).dimension, "" if unit in LENGTHS else f"in {unit}")
        if is_clock(name) or COUNT.fullmatch(name.strip()):
            return "a count of rows or times"
        found = _OTHER.search(stem)
        word = found[0].strip(" _.-") if found else ""
        return next((what for letter, what in _LETTERS.items() if word.lower().startswith(letter)), "")

    def may_be_position(self, name: str) -> bool:
        """Whether a column may be a place, by its name and unit."""
        unit = self.unit(name)
        return (
            unit in LENGTHS
            if unit
            else not (is_clock(name) or COUNT.fullmatch(name.strip()) or _OTHER.search(core(name)))
        )


def axis_of(name: str) -> tuple[str, str]:
    """Split a name into axis, "" without one, and point."""
    point = core(name)
    found = AXIS.search(point) or _LETTER.fullmatch(point) or _CENTRE.fullmatch(point)
    if not found:
        return "", point
    return found[1].lower(), (point[: found.start(1)] + point[found.end(1) :]).strip(" _.-")


def core(name: str) -> str:
    """A name without its unit."""
    return _BEHIND.sub("", _BRACKETS.sub("", name)).strip(" _")


def is_clock(name: str) -> bool:
    """Whether a column holds times or numbers of frames, by its name."""
    return any(pattern.fullmatch(name.strip()) for pattern in (TIME, FRAME)) or is_spacing(name)


def is_spacing(name: str) -> bool:
    """Whether a column holds the times from one row to the next."""
    return SPACING.fullmatch(core(name)) is not None


def is_name(text: str) -> bool:
    """Whether a text names what a column of a recording usually holds."""
    text = text.strip()
    clock = is_clock(text) or (text and COUNT.fullmatch(text))
    return bool(clock or AXIS.search(core(text)) or _stated(text)[0])


def read_unit(text: str) -> str:
    """Read a unit, spelt as in the table of units, or ""."""
    text = re.sub(r"^in\s+", "", text.strip().strip("[]()").strip().replace("²", "^2"))
    for part in (text, text.partition(",")[0].strip(), text.partition(" ")[0]):
        lower = part.lower() if len(part) > 1 else part
        for unit in (_SPELT.get(lower, part), lower):
            if unit and not unit[0].isdigit() and is_unit(unit):
                return unit
    return ""


def _stated(name: str) -> tuple[str, str]:
    """The unit that a name states, or the word in its place."""
    unknown = ""
    for square, round_ in _BRACKETS.findall(name):
        if unit := read_unit(square or round_):
            return unit, ""
        word = square or (round_ if _LIKE_UNIT.fullmatch(round_) or _FOREIGN.fullmatch(round_) else "")
        unknown = unknown or word
    clock = TIME.fullmatch(name.strip()) is not None
    for found in _BEHIND.finditer(name):
        text, alone = found.group(1) or found.group(2), found.group(1) is None
        text = text.replace("_s", "/s").replace("s2", "s^2")
        # A letter may be a label; x_min is the least x, and t_in when something came in.
        label = len(text) == 1 and (alone or (text not in "msh" and text != "N"))
        if label or text in (("in",) if clock else ("min", "h")):
            continue
        if unit := read_unit(text):
            return unit, ""
    # "seconds", as the whole name.
    return _SPELT.get(name.strip().lower(), "") if name.strip().isalpha() else "", unknown
