"""Tracks of one film, each with times of its own, as rows that they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from diffcontact.scene.recordings.sheet import Row


class Sample(NamedTuple):
    """Where a track was at a time [s]: the line that says so, and its fields by the position of their column."""

    line: int
    time: float
    fields: Mapping[int, str]


def joined(tracks: Sequence[Sequence[Sample]], width: int, decimal: str) -> list[Row]:
    """Rows of a time and `width` columns, those of all tracks; a track that has no such time has empty fields.

    Tracks with the same times share row for row, so that times that were rounded, and are there twice, stay two rows.
    Of other tracks a time tells which samples belong together.

    Raises:
        ValueError: a time that is there twice in such a track.

    Example:
        >>> first = [Sample(3, 0.0, {1: "5"}), Sample(4, 0.5, {1: "6"})]
        >>> [row.fields for row in joined([first, [Sample(7, 0.5, {2: "8"})]], 2, ",")]
        [['0,0', '5', ''], ['0,5', '6', '8']]
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
        for position, field in sample.fields.items():
            fields[position] = field
    return Row(line, line, fields)
