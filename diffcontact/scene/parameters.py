"""Declared parameters: value, unit, bounds, free, per run, prior, by element.

The scale of a film may be one more: in [data] `scale = { value = 0.52, sigma = 0.01, unit = "mm/px" }`, the length of a
pixel. With `sigma` it is fitted, with a normal prior, and shared by all runs: the fit compares positions over the scale
with what was measured. Its uncertainty is then in every error bar, and a known gravity may correct it.

A parameter, or some of its elements, may follow from another one::

    [ties]
    "radius[1]" = "radius[0]"
    "mass[1]" = "1.06 * mass[0]"
    later_restitution = "restitution"          every element follows the one number

The fit knows a free element as a parameter of its own, "mass[0]", or "u0[:,1]" where every run has one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import did_you_mean, shown
from diffcontact.identify import Interval, Normal, Positive, Real
from diffcontact.scene.keys import Table, gathered
from diffcontact.scene.kinds import Quantity
from diffcontact.scene.measurements import FROM_DATA
from diffcontact.scene.units import number

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


_INDEX = r"\s*[0-9]{1,9}\s*"
_NAME = rf"([A-Za-z_]\w*)(?:\[({_INDEX}(?:,{_INDEX})*)\])?"
_TARGET = re.compile(_NAME)
_SOURCE = re.compile(rf"(?:([^*]+)\*\s*)?{_NAME}")


@dataclass(frozen=True)
class Tie:
    """Element `at` of `name` is `factor` times element `of` of `source`."""

    name: str
    at: int
    factor: float
    source: str
    of: int


@dataclass(frozen=True)
class Assembled:
    """A parameter assembled from free elements and elements that follow."""

    name: str  # of the parameter; the elements that neither are free nor follow stay as they are
    pieces: tuple[tuple[int, str], ...]  # (flat position, name as the fit knows it) of each free element
    # (flat position, factor, parameter that the fit knows, flat position there) of each that follows
    ties: tuple[tuple[int, float, str, int], ...]

    def __call__(self, params: Mapping[str, Any]) -> Any:
        value = jnp.asarray(params[self.name])
        flat = value.ravel()
        for at, piece in self.pieces:
            flat = flat.at[at].set(params[piece])
        for at, factor, source, of in self.ties:
            flat = flat.at[at].set(factor * jnp.ravel(params[source])[of])
        return flat.reshape(value.shape)


def read_ties(
    table: Table, parameters: Mapping[str, Parameter], shapes: Mapping[str, tuple[int, ...]]
) -> tuple[Tie, ...]:
    """The ties of a [ties] table.

    Args:
        table: what follows -> what it follows from.
        parameters: of the scene, by name.
        shapes: of their values.
    """
    ties: list[Tie] = []
    for key in table.data:
        target, source = _TARGET.fullmatch(key.strip()), _SOURCE.fullmatch(table.text(key).strip())
        if target is None or source is None:
            raise table.fail(key, f'{shown(table.text(key))}, expected a tie like "mass[1]" = "1.06 * mass[0]"')
        try:
            factor = number(source.group(1) or "1")
        except ValueError as error:
            raise table.fail(key, f"{error}, in {shown(table.text(key))}") from None
        to = _positions(table, key, target.group(1), target.group(2), parameters, shapes)
        of = _positions(table, key, source.group(2), source.group(3), parameters, shapes)
        if len(of) not in (1, len(to)):
            raise table.fail(key, f"{len(to)} elements follow from {len(of)}, expected one or as many")
        follows, leads = parameters[target.group(1)], parameters[source.group(2)]
        if leads.per_run and not follows.per_run:
            raise table.fail(key, f"{leads.name} differs from run to run, expected {follows.name} with per_run = true")
        ties += [
            Tie(follows.name, i, factor, leads.name, j) for i, j in zip(to, of * (len(to) // len(of)), strict=True)
        ]
    tied = [(tie.name, tie.at) for tie in ties]
    for tie in ties:
        if (tie.source, tie.of) in tied:
            raise table.fail(tie.name, f"follows from element {tie.of} of {tie.source}, which follows itself")
        if tied.count((tie.name, tie.at)) > 1:
            raise table.fail(tie.name, f"element {tie.at} follows from two others, expected one")
    # A fit has no place for bounds and a prior of a parameter that follows wherever it is free.
    for name in dict.fromkeys(tie.name for tie in ties):
        parameter = parameters[name]
        still = {*parameter.held, *(tie.at for tie in ties if tie.name == name)}
        if parameter.domain is None or len(still) < np.prod(shapes[name], dtype=int):
            continue
        for key, given in (("prior", parameter.prior is not None), ("bounds", parameter.bounded)):
            if given:
                raise table.fail(name, f"follows wherever it is free, so its {key} would not count; expected no {key}")
    return tuple(ties)


def wholly_tied(table: Table, shapes: Mapping[str, tuple[int, ...]]) -> set[str]:
    """Names of parameters all of whose elements are tied."""
    found = [target for key in table.data if (target := _TARGET.fullmatch(key.strip()))]
    single = Counter(target.group(1) for target in found if target.group(2))
    whole = {target.group(1) for target in found if not target.group(2)}
    return whole | {name for name, count in single.items() if count == int(np.prod(shapes.get(name, (0,)), dtype=int))}


def _positions(
    table: Table, key: str, name: str, index: str | None, parameters: Mapping[str, Parameter], shapes: Mapping
) -> list[int]:
    if name not in parameters:
        raise table.fail(key, f"no parameter {shown(name)}; {did_you_mean(name, parameters)}")
    shape = shapes[name]
    if index is None:
        return list(range(int(np.prod(shape, dtype=int))))
    place = tuple(map(int, index.split(",")))
    if len(place) != len(shape) or any(i >= n for i, n in zip(place, shape, strict=False)):
        raise table.fail(key, f"element {list(place)} of {name}, whose shape is {shape}")
    return [int(np.ravel_multi_index(place, shape))]


def tied_start(start: Mapping[str, NDArray], ties: tuple[Tie, ...], parameters: Mapping[str, Parameter]) -> dict:
    """The starting values with the ties held."""
    own = {name for name, parameter in parameters.items() if parameter.per_run}
    held = followed({name: value if name in own else value[None] for name, value in start.items()}, ties)
    return {name: value if name in own else value[0] for name, value in held.items()}


def followed(values: Mapping[str, NDArray], ties: tuple[Tie, ...]) -> dict[str, NDArray]:
    """Apply ties to values (lanes or 1, ...)."""
    values = {name: np.array(value) for name, value in values.items()}
    for tie in ties:
        source, target = values[tie.source], values[tie.name]
        if len(source) > len(target):
            target = values[tie.name] = np.repeat(target, len(source), axis=0)
        target.reshape(len(target), -1)[:, tie.at] = tie.factor * source.reshape(len(source), -1)[:, tie.of]
    return values


@dataclass(frozen=True, eq=False)
class FreeElements:
    """Arguments of `diffcontact.fit` for the parameters of a scene."""

    params: Mapping[str, NDArray]
    free: Mapping[str, Any]
    priors: Mapping[str, Normal]
    tied: Mapping[str, Assembled]
    per_run: tuple[str, ...]


def free_elements(
    start: Mapping[str, NDArray], parameters: Mapping[str, Parameter], ties: tuple[Tie, ...]
) -> FreeElements:
    """Split parameters into free elements where only some are free."""
    domains, pieces = _domains(start, parameters, ties), {}
    params, free, priors, per_run = dict(start), {}, {}, [n for n, p in parameters.items() if p.per_run]
    for name, parameter in parameters.items():
        fixed = {*parameter.held, *(tie.at for tie in ties if tie.name == name)}
        if parameter.domain is None:
            continue
        if not fixed:
            free[name] = domains[name]
            priors |= {name: parameter.prior} if parameter.prior else {}
            continue
        pieces[name] = {}
        for i, place in enumerate(np.ndindex(start[name].shape[1 if parameter.per_run else 0 :])):
            if i in fixed:
                continue
            piece = f"{name}[{':,' if parameter.per_run else ''}{','.join(map(str, place))}]"
            pieces[name][i], domain = piece, domains[name]
            params[piece] = start[name][(..., *place)]
            bounded = isinstance(domain, Interval)
            free[piece] = Interval(_at(domain.low, i), _at(domain.high, i)) if bounded else domain
            if parameter.prior:
                priors[piece] = Normal(_at(parameter.prior.mean, i), _at(parameter.prior.sigma, i))
            if parameter.per_run:
                per_run.append(piece)
    tied = {}
    for name in parameters:
        links = []
        for tie in (tie for tie in ties if tie.name == name):
            piece = pieces.get(tie.source, {}).get(tie.of)
            links.append((tie.at, tie.factor, tie.source, tie.of) if piece is None else (tie.at, tie.factor, piece, 0))
        if links or name in pieces:
            tied[name] = Assembled(name, tuple(pieces.get(name, {}).items()), tuple(links))
    return FreeElements(params, free, priors, tied, tuple(per_run))


def _domains(
    start: Mapping[str, NDArray], parameters: Mapping[str, Parameter], ties: tuple[Tie, ...]
) -> dict[str, Any]:
    """Narrow domains so that elements that follow stay within their own."""
    domains = {name: parameter.domain for name, parameter in parameters.items() if parameter.domain is not None}
    for tie in ties:
        source, target = domains.get(tie.source), domains.get(tie.name)
        if source is None or target is None or tie.factor == 0:
            continue
        ends = sorted(_at(bound, tie.at) / tie.factor for bound in (target.low, target.high))
        if _at(source.low, tie.of) >= ends[0] and _at(source.high, tie.of) <= ends[1]:
            continue
        shape = start[tie.source].shape[1 if parameters[tie.source].per_run else 0 :]
        low, high = (np.array(np.broadcast_to(bound, shape), float) for bound in (source.low, source.high))
        low.flat[tie.of], high.flat[tie.of] = max(low.flat[tie.of], ends[0]), min(high.flat[tie.of], ends[1])
        domains[tie.source] = Interval(low[()], high[()])
    return domains


def _at(value: Any, i: int) -> float:
    return float(np.ravel(value)[i]) if np.ndim(value) else float(value)
