"""Measured columns from a CSV file in which every row is right."""

from __future__ import annotations

import csv
import hashlib
import io
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from diffcontact.files import read_bytes, read_text
from diffcontact.messages import did_you_mean, shown
from diffcontact.scene.numerals import number


@dataclass(frozen=True, eq=False)
class Measurements:
    """Columns of one file.

    Attributes:
        path: of the file, as it was given.
        columns: name -> (n,) numbers as they stand in the file, NaN where a field is empty.
        sha256: of the file's bytes.
    """

    path: str
    columns: Mapping[str, NDArray]
    sha256: str


def read_csv(
    path: str | Path, columns: Sequence[str], *, time: str, delimiter: str = ",", every: int = 1
) -> Measurements:
    """Read the named columns of a CSV file with one header line; an empty field is a lost sample.

    Lines may end as on any system. Every row must be right, also those that `every` leaves out.

    Args:
        path: of the file; UTF-8.
        columns: names of the columns that are needed, as the header spells them.
        time: the one of them that must be complete and increase.
        delimiter: between the fields.
        every: which rows to keep: 1 all, 10 the first and every tenth after it.

    Returns:
        `Measurements`.

    Raises:
        OSError: the file cannot be read.
        ValueError: a column that the header lacks or has twice, a row with another number of fields than the header, a
            field that is not a finite number, times that do not increase; names file, row (the header is row 1) and
            column.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "fall.csv")
        >>> _ = path.write_text("t [s],y [m]\\n0.0,1.0\\n0.1,\\n")
        >>> read_csv(path, ["t [s]", "y [m]"], time="t [s]").columns["y [m]"].tolist()
        [1.0, nan]
    """
    content = read_bytes(path)
    read_text(path, expected="a CSV file", content=content)
    lines = io.TextIOWrapper(io.BytesIO(content), encoding="utf-8-sig")
    # csv counts lines, so a row's number is what an editor shows.
    reader = csv.reader(lines, delimiter=delimiter)
    try:
        header = [name.strip() for name in next(reader, [])]
        index = {name: _position(path, name, header, delimiter) for name in columns}
        rows, values = _rows(path, reader, header, index)
    except csv.Error as error:
        raise ValueError(f"{path}: row {reader.line_num}: {error}, expected fields between {delimiter!r}") from None
    table = {name: np.frombuffer(column) for name, column in values.items()}
    _require_increasing(path, rows, time, table[time])
    thinned = {name: column[::every].copy() for name, column in table.items()}
    if thinned[time].size < 2:
        raise ValueError(f"{path}: {len(rows)} rows of data, of which one in {every} is 1, expected at least 2")
    return Measurements(path=str(path), columns=thinned, sha256=hashlib.sha256(content).hexdigest())


def _rows(path, reader, header: list[str], index: Mapping[str, int]) -> tuple[array, dict[str, array]]:
    """The number of each row that is not empty, and the columns."""
    rows, values = array("q"), {name: array("d") for name in index}
    wanted = [(name, position, values[name].append) for name, position in index.items()]
    before = reader.line_num
    for row in reader:
        first, before = before + 1, reader.line_num
        if not any(map(str.strip, row)):
            continue
        if len(row) != len(header):
            quoted = f", as a quote holds it together with all up to row {before}" if first < before else ""
            raise ValueError(
                f"{path}: row {first} has {len(row)} fields{quoted}, expected {len(header)} as the header has"
            )
        rows.append(reader.line_num)
        for name, position, append in wanted:
            field = row[position]
            try:
                append(number(field) if field and not field.isspace() else np.nan)
            except ValueError as error:
                empty = "; a lost sample is an empty field" if "nan" in field.lower() else ""
                raise ValueError(f"{path}: row {reader.line_num}, column {shown(name)}: {error}{empty}") from None
    return rows, values


def _position(path, name: str, header: list[str], delimiter: str) -> int:
    if header.count(name) > 1:
        raise ValueError(f"{path}: row 1: column {shown(name)} is there {header.count(name)} times, expected once")
    if name in header:
        return header.index(name)
    other = next((mark for mark in ";\t|," if len(header) == 1 and mark != delimiter and mark in header[0]), "")
    if other:
        hint = f"its fields seem to be between {other!r}, expected {delimiter!r} (data.delimiter)"
    else:
        hint = did_you_mean(name, header, listed="the header has")
    raise ValueError(f"{path}: no column {shown(name)}; {hint}")


def _require_increasing(path, rows: Sequence[int], name: str, times: NDArray) -> None:
    if times.size < 2:
        raise ValueError(f"{path}: {times.size} rows of data, expected at least 2")
    for i in np.flatnonzero(np.isnan(times)).tolist():
        raise ValueError(f"{path}: row {rows[i]}, column {name!r}: the time is missing")
    for i in np.flatnonzero(np.diff(times) <= 0).tolist():
        raise ValueError(
            f"{path}: row {rows[i + 1]}, column {name!r}: {times[i + 1]:g} follows {times[i]:g}, "
            "expected times that increase"
        )
