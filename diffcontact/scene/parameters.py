"""Declared parameters: value, unit, bounds, free, per run, prior, by element.

The scale of a film may be one more: in [data] `scale = { value = 0.52, sigma = 0.01, unit = "mm/px" }`, the length of a
pixel. With `sigma` it is fitted, with a normal prior, and shared by all runs: the fit compares positions over the scale
with what was measured. Its uncertainty is then in every error bar, and a known gravity may correct it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import shown
from diffcontact.identify import Interval, Normal, Positive, Real
from diffcontact.scene.keys import Table, gathered
from diffcontact.scene.kinds import Quantity
from diffcontact.scene.measurements import FROM_DATA

KEYS = {
    "value": 'where the fit starts, or what is held: a number, one for each element, or "from data"',
    "unit": "in which the scene gives it and the result reports it; the system's by default",
    "bounds": "[low, high], or that for each element, of what is fitted; by default all that is possible",
    "free": "whether it is fitted (true); a list of true and false for each element",
    "per_run": "whether every run has its own (false)",
    "spread": "whether runs differ in it by chance (false): each has its own, and mean and spread of all are sought",
    "prior": "{ mean, sigma }: what is known of it besides the data, if it is fitted",
}
PRIOR_KEYS = {
    "mean": "in the parameter's unit, one number or one for each element; beyond its bounds by 2 sigma at most",
    "sigma": "its standard deviation, likewise",
}


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter as the scene declares it."""

    name: str  # as the system calls it
    at: str  # file and key, for messages
    unit: str  # in which the scene gives it and the result reports it
    factor: float  # from that unit to SI
    # starting or fixed value [SI]; None: the preparation suggests it, run by run; NaN: it follows from others
    value: NDArray | None
    domain: Interval | Positive | Real | None  # where it may move; None if it is fixed
    prior: Normal | None  # what is known of it besides the data [SI], or None
    per_run: bool  # whether every run has its own
    held: tuple[int, ...] = ()  # flat positions of the elements that stay at their value while the others move
    bounded: bool = False  # whether the scene gives it bounds
    spread: bool = False  # whether runs differ in it by chance


def read_parameters(
    table: Table, quantities: Mapping[str, Quantity], suggested: tuple[str, ...], follow: Collection[str] = ()
) -> dict[str, Parameter]:
    """The parameters of a [parameters] table, in its order.

    `suggested` may start `from data`; of `follow` all elements follow from others, which need no value.
    """
    names = [name for name in table.data if name in quantities]
    # What is spelt otherwise is not missing as well.
    missing = (name for name, quantity in quantities.items() if name not in table and not quantity.optional)
    missing = missing if len(names) == len(table.data) else ()
    # In the order of the scene: it is the order of the table of results.
    read = gathered(
        lambda: table.expect(*quantities),
        *(
            lambda name=name: _parameter(name, table.table(name), quantities[name], suggested, name in follow)
            for name in names
        ),
        *(partial(table.get, name, Mapping, "a table with value, unit, bounds, free, per_run") for name in missing),
    )
    return dict(zip(names, read[1:], strict=False))


def _parameter(name: str, table: Table, quantity: Quantity, suggested: tuple[str, ...], follows: bool) -> Parameter:
    table.expect(*KEYS)
    factor = table.factor("unit", quantity.unit)
    free, domain = _free(table, quantity), _domain(table, factor, quantity)
    spread = table.flag("spread", False)
    for key, given in (("bounds", "bounds" in table), ("spread", spread), ("prior", "prior" in table)):
        if given and not free.any():
            raise table.fail(key, "of a parameter that is not free, expected none")
    return Parameter(
        name=name,
        at=f"{table.file}: {'.'.join(table.path)}",
        unit=table.text("unit", quantity.unit).strip() or "1",
        factor=factor,
        # NaN until it is known what it follows from.
        value=np.full(quantity.shape, np.nan)
        if follows and "value" not in table
        else _value(name, table, factor, quantity, suggested),
        domain=domain if free.any() else None,
        prior=_prior(table, factor, quantity, free, domain),
        per_run=table.flag("per_run", False) or spread,
        held=tuple(np.flatnonzero(~free).tolist()) if free.any() else (),
        bounded="bounds" in table,
        spread=spread,
    )


def _free(table: Table, quantity: Quantity) -> NDArray:
    written = table.data.get("free", True)
    if not isinstance(written, list):
        return np.full(quantity.shape, table.flag("free", True))
    free = np.asarray(written, object)
    if free.shape != quantity.shape or not all(isinstance(one, bool) for one in free.flat):
        several = f"{np.prod(quantity.shape, dtype=int)} of them, one for each element"
        elements = several if quantity.shape else "nothing else where there is one element"
        raise table.fail("free", f"{shown(written)}, expected true or false, or {elements}")
    return free.astype(bool)


def _value(name: str, table: Table, factor: float, quantity: Quantity, suggested: tuple[str, ...]) -> NDArray | None:
    if table.data.get("value") == FROM_DATA:
        if name not in suggested:
            known = ", ".join(suggested) or "none"
            raise table.fail("value", f"this preparation suggests no {name}; it suggests {known}")
        return None
    if isinstance(table.data.get("value"), str):
        raise table.fail("value", f"{shown(table.text('value'))}, expected a number or {FROM_DATA!r}")
    written = table.numbers("value")
    if written.shape not in ((), quantity.shape):
        raise table.fail("value", f"shape {written.shape}, expected a number or shape {quantity.shape}")
    value = np.broadcast_to(written * factor, quantity.shape)
    if not quantity.allows(value):
        raise table.fail("value", f"{shown(written.tolist())}, expected {quantity.range} (SI)")
    return value


def _prior(
    table: Table, factor: float, quantity: Quantity, free: NDArray, domain: Interval | Positive | Real
) -> Normal | None:
    if "prior" not in table:
        return None
    prior = table.table("prior")
    prior.expect(*PRIOR_KEYS)
    known = Normal(*(_known(prior, key, factor, quantity) for key in ("mean", "sigma")))
    if np.any(known.contradicts(domain) & free):
        bounds = [(np.asarray(bound) / factor).tolist() for bound in (domain.low, domain.high)]
        raise prior.fail(
            "mean", f"{shown(prior.data['mean'])} is beyond the bounds {bounds} by more than 2 sigma, expected within"
        )
    return known


def _known(prior: Table, key: str, factor: float, quantity: Quantity) -> float | NDArray:
    if not isinstance(prior.data.get(key), list):
        return prior.number(key, above=0.0 if key == "sigma" else None) * factor
    values = prior.numbers(key)
    if values.shape != quantity.shape or not np.all(np.isfinite(values)) or (key == "sigma" and not np.all(values > 0)):
        above = ", above 0" if key == "sigma" else ""
        raise prior.fail(key, f"{shown(values.tolist())}, expected a number or shape {quantity.shape}, finite{above}")
    return values * factor


def possible(quantity: Quantity) -> Interval | Positive | Real:
    """Where physics allows it."""
    if quantity.positive and np.isinf(quantity.high):
        return Positive()
    return Real() if np.isinf(quantity.low) and np.isinf(quantity.high) else Interval(quantity.low, quantity.high)


def _domain(table: Table, factor: float, quantity: Quantity) -> Interval | Positive | Real:
    if "bounds" not in table:
        return possible(quantity)
    bounds = table.numbers("bounds")
    if bounds.shape not in ((2,), (*quantity.shape, 2)):
        each = ", or that for each element" if quantity.shape else ""
        raise table.fail("bounds", f"{shown(bounds.tolist())}, expected [low, high]{each}")
    low, high = np.moveaxis(bounds * factor, -1, 0)
    if not np.all(low < high):
        raise table.fail("bounds", f"{shown(bounds.tolist())} are the wrong way round, expected low below high")
    if np.any(low < quantity.low) or np.any(high > quantity.high):
        raise table.fail(
            "bounds", f"{shown(bounds.tolist())} reach beyond what is possible, expected {quantity.range} (SI)"
        )
    return Interval(low, high) if bounds.ndim > 1 else Interval(float(low), float(high))


SCALE, UNIT = "scale", "m/px"
_PIXEL = re.compile(r"\bpx\b")
SCALE_KEYS = {
    "value": "how long a pixel is",
    "sigma": "its standard deviation; with it the scale is fitted, with that prior",
    "unit": '"mm/px"; "m/px" by default',
}


@dataclass(frozen=True)
class Scaled:
    """Observation of a film of unknown scale, in metres as stated."""

    observe: Callable[[Any, Any], Any]  # (trajectory, params) -> (n, k) as it would look at the stated scale
    stated: float  # the scale that the measured positions were multiplied with [m/px]
    lengths: int  # how many of the k channels, the first ones, are lengths

    def __call__(self, trajectory: Any, params: Mapping[str, Any]) -> Any:
        seen = self.observe(trajectory, params)
        stretch = self.stated / params[SCALE]
        return seen.at[:, : self.lengths].multiply(stretch)


def counts_pixels(tree: Any, key: str = "") -> bool:
    """Tell whether a document has a unit of pixels besides the scale."""
    if isinstance(tree, Mapping):
        return any(counts_pixels(part, name) for name, part in tree.items() if name != SCALE)
    return isinstance(tree, str) and key.endswith("unit") and _PIXEL.search(tree) is not None


def read_scale(data: Table) -> tuple[float, Parameter | None] | None:
    """Length of a pixel [m] and its parameter if uncertain, or None."""
    if SCALE not in data:
        return None
    table = data.table(SCALE)
    table.expect(*SCALE_KEYS)
    factor, value = table.factor("unit", UNIT), table.number("value", above=0.0)
    if "sigma" not in table:
        return value * factor, None
    sigma = table.number("sigma")
    if not 0 < sigma < value:
        raise table.fail("sigma", f"{sigma}, expected above 0 and below the value {value}")
    parameter = Parameter(
        name=SCALE,
        at=table.at("value"),
        unit=table.text("unit", UNIT),
        factor=factor,
        value=np.asarray(value * factor),
        domain=Positive(),
        prior=Normal(value * factor, sigma * factor),
        per_run=False,
    )
    return value * factor, parameter
