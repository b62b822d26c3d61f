"""How a scene reads its recordings: what its [data] table says of columns, numbers, times and lost samples."""

from __future__ import annotations

from dataclasses import dataclass

from diffcontact.host.messages import shown
from diffcontact.scene.keys import Table
from diffcontact.scene.units import is_number

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
ENCODINGS = ("UTF-8", "UTF-16", "Latin-1")
FROM_DATA = "from data"
LEAVE_OUT = "leave out"
_LINES = 10**4


@dataclass(frozen=True)
class Reading:
    """How recordings are read.

    Fields are as `KEYS` describes them, but for these.

    Attributes:
        time: "" counts rows.
        time_factor: from `time_unit` to the system's; `rate` and `window` are in that.
        delimiter, decimal, skip, names: None where the scene does not say: a recording whose writer is known by its
            header is read as that writes it, any other as CSV with a header.
        missing: what stands for a lost sample, and groups of numbers that do so together.
    """

    time: str = ""
    time_unit: str = "s"
    time_factor: float = 1.0
    spacing: bool = False
    rate: float | str | None = None
    lost_frames: bool = False
    leave_out: bool = False
    window: tuple[float, float] | None = None
    every: int = 1
    encoding: str = "UTF-8"
    delimiter: str | None = None
    decimal: str | None = None
    skip: tuple[int, int] | None = None
    names: tuple[str, ...] | None = None
    missing: tuple[tuple[str, ...], ...] = ()
    likelihood: float | None = None

    @classmethod
    def from_table(cls, data: Table, time: str) -> Reading:
        """Read the scene's [data] table; `time` is the system's unit of time.

        Raises:
            ValueError: one line that names the key.
        """
        column = data.text("time", "")
        if "time" in data and not column:
            raise data.fail("time", "'', expected the name of a column, or none for rows that count frames")
        unit = data.text("time_unit", time if column else "frame")
        if not column and unit != "frame":
            raise data.fail("time_unit", f"{shown(unit)} without data.time, expected a column of times")
        factor, rate = data.factor("time_unit", time, unit), _rate(data, column)
        if unit == "frame" and rate != FROM_DATA:
            # What a frame lasts says the unit already.
            rate = None
        window = _window(data, factor)
        return cls(
            time=column,
            time_unit=unit,
            time_factor=factor,
            spacing=_of_the_column(data, column, "spacing") and data.flag("spacing", False),
            rate=rate,
            lost_frames=_lost_frames(data, column),
            leave_out=_leave_out(data, column),
            window=window,
            every=data.integer("every", 1, least=1),
            encoding=data.choice("encoding", ENCODINGS, "UTF-8"),
            **_layout(data),
            names=data.names("names") if "names" in data else None,
            missing=_missing(data),
            likelihood=_likelihood(data),
        )


def rate_of(data: Table) -> float | None:
    """The number of rows per second that a [data] table states, or None."""
    if not isinstance(data.data.get("rate"), int | float):
        return None
    rate = data.number("rate")
    if not rate > 0:
        raise data.fail("rate", f"{rate}, expected rows per second, above 0")
    return rate


def _rate(data: Table, column: str) -> float | str | None:
    if "rate" not in data:
        return None
    if data.data["rate"] == FROM_DATA:
        if not column:
            raise data.fail("rate", f"{FROM_DATA!r} without data.time, expected a number of rows per second")
        return FROM_DATA
    rate = rate_of(data)
    if rate is None:
        raise data.fail("rate", f"{shown(data.data['rate'])}, expected rows per second or {FROM_DATA!r}")
    return rate


def _of_the_column(data: Table, column: str, key: str) -> bool:
    """Whether a key is there that says how the column of the times is read."""
    if key in data and not column:
        raise data.fail(key, "without data.time, expected the column of the times with it")
    return key in data


def _lost_frames(data: Table, column: str) -> bool:
    lost = _of_the_column(data, column, "lost_frames") and data.flag("lost_frames", False)
    if lost and data.data.get("rate") == FROM_DATA:
        raise data.fail("lost_frames", f"with data.rate = {FROM_DATA!r}, expected frames a second, or no rate")
    return lost


def _leave_out(data: Table, column: str) -> bool:
    return _of_the_column(data, column, "untimed") and data.choice("untimed", (LEAVE_OUT,)) == LEAVE_OUT


def _likelihood(data: Table) -> float | None:
    if "likelihood" not in data:
        return None
    likelihood = data.number("likelihood")
    if not 0 <= likelihood <= 1:
        raise data.fail("likelihood", f"{likelihood}, expected from 0 to 1")
    return likelihood


def _window(data: Table, factor: float) -> tuple[float, float] | None:
    if "window" not in data:
        return None
    window = data.numbers("window")
    if window.shape != (2,) or not window[0] < window[1]:
        raise data.fail("window", f"{shown(window.tolist())}, expected [from, to] in data.time_unit, from below to")
    return float(window[0] * factor), float(window[1] * factor)


def _layout(data: Table) -> dict:
    delimiter = data.text("delimiter") if "delimiter" in data else None
    if delimiter is not None and (len(delimiter) != 1 or delimiter in '\r\n\0"'):
        raise data.fail("delimiter", f"{shown(delimiter)}, expected one character, no quote and no end of a line")
    decimal = data.choice("decimal", (".", ",")) if "decimal" in data else None
    if decimal == delimiter == ",":
        raise data.fail("decimal", "',' between the fields too, expected another data.delimiter, ';' or '\\t'")
    skip = None
    if "skip" in data:
        written = data.data["skip"] if isinstance(data.data["skip"], list) else [data.data["skip"], 0]
        whole = all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n <= _LINES for n in written)
        if len(written) != 2 or not whole:
            expected = "expected a number of lines before the header, or [before it, after it]"
            raise data.fail("skip", f"{shown(data.data['skip'])}, {expected}")
        skip = (written[0], written[1])
    return {"delimiter": delimiter, "decimal": decimal, "skip": skip}


def _missing(data: Table) -> tuple[tuple[str, ...], ...]:
    if "missing" not in data:
        return ()
    written = data.data["missing"]
    entries = [written] if isinstance(written, str) else list(data.names("missing"))
    groups = []
    for entry in entries:
        words = tuple(entry.split())
        if not words:
            raise data.fail("missing", f"{shown(entry)}, expected a text; an empty field is lost in any case")
        groups.append(words if all(map(is_number, words)) else (entry.strip(),))
    return tuple(groups)
