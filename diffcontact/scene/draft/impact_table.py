"""A table of impacts: which of its columns are velocities before and after them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations

import numpy as np
from numpy.typing import NDArray

from diffcontact.scene.draft.headings import Headings, axis_of, core
from diffcontact.scene.units import factor

_WHEN = re.compile(
    r"(?:^|(?<=[\s_.\-]))(?:(before|pre|vorher|initial|in|minus)|(after|post|nachher|final|out|plus))(?=[\s_.\-]|$)",
    re.IGNORECASE,
)
# What a velocity after impacts is off a multiple of that before, beside it, at most; and a change of spin off a moment.
_OFF = 0.5
_FEWEST = 5


@dataclass(frozen=True, eq=False)
class Pair:
    """A quantity before and after impacts: names, unit, values (n,) each, and along which axis it is."""

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
    """Pairs of velocities and spins, and other columns of lengths, of a table of impacts."""

    velocities: tuple[Pair, ...]
    spins: tuple[Pair, ...]
    lengths: Mapping[str, tuple[str, NDArray]]
    flagged: str = ""


def impact_table(columns: Mapping[str, NDArray], headings: Headings, flagged: str) -> ImpactTable | None:
    """The table, or None: no velocity has a column before and one after."""
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
            pairs[what].append(Pair(names["before"], names["after"], unit, values, _axis(stem)))
    if not pairs["a velocity"] or len(next(iter(columns.values()))) < _FEWEST:
        return None
    lengths = {name: (unit, columns[name]) for name in columns if (unit := headings.unit(name)) in ("m", "cm", "mm")}
    return ImpactTable(tuple(pairs["a velocity"]), tuple(pairs["an angular velocity"]), lengths, flagged)


def _axis(stem: str) -> str:
    """That of a velocity, as in vx or "v y"."""
    return axis_of(stem)[0] or (stem[-1].lower() if re.fullmatch(r"[vu][xyz]", stem, re.IGNORECASE) else "")


def scatter(pairs: tuple[Pair, ...]) -> float:
    """By how much velocities are off a linear function of those before, of each of the two as much [m/s]."""
    before, after = (np.stack([pair.values[i] for pair in pairs], axis=1) for i in (0, 1))
    good = np.all(np.isfinite(before) & np.isfinite(after), axis=1)
    slopes = np.linalg.lstsq(before[good], after[good], rcond=None)[0]
    off = np.abs(after[good] - before[good] @ slopes)
    size = np.sqrt(1 + np.sum(slopes**2, axis=0))
    return factor(pairs[0].unit, "m/s") * max(1.4826 * float(np.median(off / size)), 1e-6)


def levers_of(table: ImpactTable, along: Pair, normal: Pair) -> tuple[tuple[tuple[str, str], str], float] | None:
    """The columns, normal and tangential, by which a change of spin is the moment of that of velocity, and their unit;
    and the radius of gyration [m]. None where no two are.
    """
    speeds = [factor(pair.unit, "m/s") * (pair.values[1] - pair.values[0]) for pair in (normal, along)]
    spin = factor(table.spins[0].unit, "rad/s") * (table.spins[0].values[1] - table.spins[0].values[0])
    best, least = None, _OFF
    for names in permutations(table.lengths, 2):
        units = [table.lengths[name][0] for name in names]
        arms = [factor(units[0], "m") * table.lengths[name][1] for name in names]
        moments = np.stack([arm * speed for arm, speed in zip(arms, speeds, strict=True)], axis=1)
        good = np.isfinite(spin) & np.all(np.isfinite(moments), axis=1)
        if units[0] != units[1] or good.sum() < _FEWEST:
            continue
        slopes, *_ = np.linalg.lstsq(moments[good], spin[good], rcond=None)
        off = float(np.std(spin[good] - moments[good] @ slopes) / max(np.std(spin[good]), 1e-300))
        if off < least and np.all(slopes != 0):
            best, least = ((names, units[0]), float(np.mean(np.abs(slopes)) ** -0.5)), off
    return best
