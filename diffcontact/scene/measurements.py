"""Measured columns from a CSV file, every row checked."""

from __future__ import annotations

import csv
import difflib
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray


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


def read_csv(path: str | Path, columns: Sequence[str], *, time: str, delimiter: str = ",") -> Measurements:
    """Read the named columns of a CSV file with one header line; an empty field is a lost sample.

    Args:
        path: of the file; UTF-8.
        columns: names of the columns that are needed, as the header spells them.
        time: the one of them that must be complete and increase.
        delimiter: between the fields.

    Returns:
        `Measurements`.

    Raises:
        OSError: the file cannot be read.
        ValueError: a column that the header lacks, a row with another number of fields than the header, a field that
            is not a finite number, times that do not increase; names file, row (the header is row 1) and column.

    Example:
        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp(), "fall.csv")
        >>> _ = path.write_text("t [s],y [m]\\n0.0,1.0\\n0.1,\\n")
        >>> read_csv(path, ["t [s]", "y [m]"], time="t [s]").columns["y [m]"].tolist()
        [1.0, nan]
    """
    content = Path(path).read_bytes()
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is no UTF-8 text, expected a CSV file") from None
    # csv counts lines, so a row's number is what an editor shows.
    reader = csv.reader(io.StringIO(text), delimiter=delimiter)
    header = [name.strip() for name in next(reader, [])]
    index = {name: _position(path, name, header) for name in columns}
    values: dict[str, list[float]] = {name: [] for name in columns}
    rows: list[int] = []
    for row in reader:
        if not any(field.strip() for field in row):
            continue
        if len(row) != len(header):
            raise ValueError(
                f"{path}: row {reader.line_num} has {len(row)} fields, expected {len(header)} as the header has"
            )
        rows.append(reader.line_num)
        for name, position in index.items():
            values[name].append(_number(path, reader.line_num, name, row[position]))
    table = {name: np.array(column, float) for name, column in values.items()}
    _check_times(path, rows, time, table[time])
    return Measurements(path=str(path), columns=table, sha256=hashlib.sha256(content).hexdigest())


def _position(path, name: str, header: list[str]) -> int:
    if name in header:
        return header.index(name)
    near = difflib.get_close_matches(name, header, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"the header has {', '.join(map(repr, header)) or 'nothing'}"
    raise ValueError(f"{path}: no column {name!r}; {hint}")


def _number(path, row: int, name: str, field: str) -> float:
    if not field.strip():
        return np.nan
    try:
        value = float(field)
    except ValueError:
        raise ValueError(f"{path}: row {row}, column {name!r}: {field.strip()!r} is not a number") from None
    if np.isinf(value):
        raise ValueError(f"{path}: row {row}, column {name!r}: {field.strip()!r}, expected a finite number")
    return value


def _check_times(path, rows: list[int], name: str, times: NDArray) -> None:
    if times.size < 2:
        raise ValueError(f"{path}: {times.size} rows of data, expected at least 2")
    for i in np.flatnonzero(np.isnan(times)):
        raise ValueError(f"{path}: row {rows[i]}, column {name!r}: the time is missing")
    for i in np.flatnonzero(np.diff(times) <= 0):
        raise ValueError(
            f"{path}: row {rows[i + 1]}, column {name!r}: {times[i + 1]:g} follows {times[i]:g}, "
            "expected times that increase"
        )
