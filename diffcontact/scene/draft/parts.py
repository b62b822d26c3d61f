"""A draft of a scene, and the parts that all drafts have: units, scales, names of columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from numpy.typing import NDArray

from diffcontact.scene.draft.survey import Column, Survey
from diffcontact.scene.draft.toml import quoted_names
from diffcontact.scene.units import factor

# Drag of a ball in air [1/m]: rho C_d A / 2 m is 0.003 for steel, 0.02 for a tennis ball, 0.14 in table tennis.
_DRAG, _DRAG_SIGMA = 0.03, 0.05

# Lengths and times of a film whose scale and rate nobody stated.
PIXEL, RATE = 1.0, 30


@dataclass(frozen=True)
class Draft:
    """A scene's parts as TOML, what it takes the recording for, and the columns whose noise it needs."""

    what: str
    system: tuple[str, ...]
    data: tuple[str, ...]
    preparation: tuple[str, ...]
    parameters: tuple[str, ...]
    more: tuple[str, ...] = ()
    columns: tuple[Column, ...] = ()


def metric_keys(survey: Survey, columns: Sequence[Column]) -> list[str]:
    """Keys that a system in metres and seconds needs of a film in pixels and frames."""
    keys = []
    if any(column.unit == "px" for column in columns):
        keys.append(f'scale = {{ value = {PIXEL:g}, unit = "mm/px" }}  # a guess: no length is right until this is')
    if survey.time_unit == "frame":
        guess = (RATE, "a guess: frames a second; no time is right until this is")
        rate, why = survey.rate or guess
        keys.append(f"rate = {rate:g}  # {why}")
    return keys


def drag_key(metre: float = 1.0, unit: str = "m") -> str:
    """The drag of a ball nobody knows anything of, free: held at zero it would make e too small and too sure.

    Args:
        metre: how many units a metre has.
        unit: of lengths.
    """
    mean, sigma = (f"{value / metre:.2g}" for value in (_DRAG, _DRAG_SIGMA))
    return f'drag = {{ value = {mean}, unit = "1/{unit}", prior = {{ mean = {mean}, sigma = {sigma} }} }}'


def metres(column: Column) -> float:
    """How long the unit of a column is, as the draft will say."""
    return PIXEL * 1e-3 if column.unit == "px" else factor(column.unit, "m")


def seconds(survey: Survey) -> NDArray:
    """(n,) the times, as the draft will have them."""
    return survey.times * second(survey)


def second(survey: Survey) -> float:
    """How long the unit of the times is, as the draft will say [s]."""
    rate, _ = survey.rate or (RATE, "")
    return 1.0 / rate if survey.time_unit == "frame" else factor(survey.time_unit, "s")


def unit_key(columns: Sequence[Column]) -> str:
    """The unit of the columns, one for all."""
    guess = "  # a guess" if columns[0].guessed else ""
    return f'unit = "{columns[0].unit}"{guess}'


def names_of(columns: Sequence[Column]) -> str:
    """A TOML list."""
    return quoted_names([column.name for column in columns])
