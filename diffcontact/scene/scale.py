"""Lengths in pixels: how long a pixel is, and what it does to a fit that this is known to some per cent only.

    [data]
    scale = { value = 0.52, sigma = 0.01, unit = "mm/px" }

Wherever the scene then says px it says so many millimetres. Without `sigma` that is all. With it, the scale is one more
parameter, shared by all runs, with a normal prior: the fit compares positions over the scale with what was measured, so
that its uncertainty is in every error bar, and data that know better, as by a known gravity, may correct it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from diffcontact.identify import Normal, Positive
from diffcontact.scene.keys import Table
from diffcontact.scene.parameters import Parameter

NAME, UNIT = "scale", "m/px"
_PIXEL = re.compile(r"\bpx\b")
KEYS = {
    "value": "how long a pixel is",
    "sigma": "its standard deviation; with it the scale is fitted, with that prior",
    "unit": '"mm/px"; "m/px" by default',
}


@dataclass(frozen=True)
class Scaled:
    """How a trajectory looks in a film whose scale is a parameter, in metres at the stated scale.

    Attributes:
        observe: (trajectory, params) -> (n, k) as it would look at the stated scale.
        stated: the scale that the measured positions were multiplied with [m/px].
        lengths: how many of the k channels, the first ones, are lengths.
    """

    observe: Callable[[Any, Any], Any]
    stated: float
    lengths: int

    def __call__(self, trajectory: Any, params: Mapping[str, Any]) -> Any:
        seen = self.observe(trajectory, params)
        stretch = self.stated / params[NAME]
        return seen.at[:, : self.lengths].multiply(stretch)


def require_pixels(data: Table, scene: Table) -> None:
    """Refuse a scale in a scene in which nothing is in pixels: it would count for nothing.

    Raises:
        ValueError: one line that names the key.
    """
    if not any(_PIXEL.search(unit) for unit in _units(scene.data)):
        raise data.fail(NAME, "of a scene without a unit in px, expected one, as unit = 'px' in [preparation]")


def _units(tree: Any, key: str = "") -> Iterator[str]:
    """Every unit that stands in a document, but for that of the scale itself."""
    if isinstance(tree, Mapping):
        for name, part in tree.items():
            if name != NAME:
                yield from _units(part, name)
    elif isinstance(tree, str) and key.endswith("unit"):
        yield tree


def read_scale(data: Table) -> tuple[float, Parameter | None] | None:
    """How long a pixel is [m], and the parameter that it is where it is uncertain; None: the scene does not say.

    Raises:
        ValueError: one line that names the key.
    """
    if NAME not in data:
        return None
    table = data.table(NAME)
    table.expect(*KEYS)
    factor, value = table.factor("unit", UNIT), table.number("value")
    if not value > 0:
        raise table.fail("value", f"{value}, expected above 0")
    if "sigma" not in table:
        return value * factor, None
    sigma = table.number("sigma")
    if not 0 < sigma < value:
        raise table.fail("sigma", f"{sigma}, expected above 0 and below the value {value}")
    parameter = Parameter(
        name=NAME,
        at=table.at("value"),
        unit=table.text("unit", UNIT),
        factor=factor,
        value=np.asarray(value * factor),
        domain=Positive(),
        prior=Normal(value * factor, sigma * factor),
        per_run=False,
    )
    return value * factor, parameter
