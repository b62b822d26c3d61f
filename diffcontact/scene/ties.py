"""Parameters that follow from others, and those of which some elements are free: what a fit is given for them.

    [ties]
    "radius[1]" = "radius[0]"
    "mass[1]" = "1.06 * mass[0]"
    later_restitution = "restitution"          every element follows the one number

The fit knows a free element as a parameter of its own, "mass[0]", or "u0[:,1]" where every run has one, and puts the
array together from them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import did_you_mean, shown
from diffcontact.identify import Interval, Normal, Positive, Real
from diffcontact.scene.keys import Table
from diffcontact.scene.parameters import Parameter
from diffcontact.scene.units import number

_INDEX = r"\s*[0-9]{1,9}\s*"
_NAME = rf"([A-Za-z_]\w*)(?:\[({_INDEX}(?:,{_INDEX})*)\])?"
_TARGET = re.compile(_NAME)
_SOURCE = re.compile(rf"(?:([^*]+)\*\s*)?{_NAME}")


@dataclass(frozen=True)
class Tie:
    """Element `at` of parameter `name` is `factor` times element `of` of `source`; both are flat positions."""

    name: str
    at: int
    factor: float
    source: str
    of: int


@dataclass(frozen=True)
class Assembled:
    """A parameter put together, run by run, from its free elements and those that follow from others.

    Attributes:
        name: of the parameter; the elements that neither are free nor follow stay as they are.
        pieces: (flat position, name as the fit knows it) of each free element.
        ties: (flat position, factor, parameter that the fit knows, flat position there) of each that follows.
    """

    name: str
    pieces: tuple[tuple[int, str], ...]
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

    Raises:
        ValueError: one line that names the key.
    """
    ties: list[Tie] = []
    for key in table.data:
        target, source = _TARGET.fullmatch(key.strip()), _SOURCE.fullmatch(table.text(key).strip())
        if target is None or source is None:
            raise table.fail(key, f'{shown(table.text(key))}, expected a tie like "mass[1]" = "1.06 * mass[0]"')
        factor = _factor(table, key, source.group(1))
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
    _require_one_step(table, ties)
    _require_nothing_lost(table, ties, parameters, shapes)
    return tuple(ties)


def wholly_tied(table: Table, shapes: Mapping[str, tuple[int, ...]]) -> set[str]:
    """Names of the parameters whose elements are all in a [ties] table; what is wrong with it `read_ties` tells."""
    found = [target for key in table.data if (target := _TARGET.fullmatch(key.strip()))]
    single = Counter(target.group(1) for target in found if target.group(2))
    whole = {target.group(1) for target in found if not target.group(2)}
    return whole | {name for name, count in single.items() if count == int(np.prod(shapes.get(name, (0,)), dtype=int))}


def _factor(table: Table, key: str, written: str | None) -> float:
    if written is None:
        return 1.0
    try:
        return number(written)
    except ValueError as error:
        raise table.fail(key, f"{error}, in {shown(table.text(key))}") from None


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


def _require_one_step(table: Table, ties: list[Tie]) -> None:
    tied = [(tie.name, tie.at) for tie in ties]
    for tie in ties:
        if (tie.source, tie.of) in tied:
            raise table.fail(tie.name, f"follows from element {tie.of} of {tie.source}, which follows itself")
        if tied.count((tie.name, tie.at)) > 1:
            raise table.fail(tie.name, f"element {tie.at} follows from two others, expected one")


def _require_nothing_lost(
    table: Table, ties: list[Tie], parameters: Mapping[str, Parameter], shapes: Mapping[str, tuple[int, ...]]
) -> None:
    """Refuse bounds and a prior of what follows wherever it is free: a fit has no place for them."""
    for name in dict.fromkeys(tie.name for tie in ties):
        parameter = parameters[name]
        still = {*parameter.held, *(tie.at for tie in ties if tie.name == name)}
        if parameter.domain is None or len(still) < np.prod(shapes[name], dtype=int):
            continue
        for key, given in (("prior", parameter.prior is not None), ("bounds", parameter.bounded)):
            if given:
                raise table.fail(name, f"follows wherever it is free, so its {key} would not count; expected no {key}")


def tied_start(start: Mapping[str, NDArray], ties: tuple[Tie, ...], parameters: Mapping[str, Parameter]) -> dict:
    """The starting values with the ties held."""
    own = {name for name, parameter in parameters.items() if parameter.per_run}
    held = followed({name: value if name in own else value[None] for name, value in start.items()}, ties)
    return {name: value if name in own else value[0] for name, value in held.items()}


def followed(values: Mapping[str, NDArray], ties: tuple[Tie, ...]) -> dict[str, NDArray]:
    """Values (lanes or 1, ...) with the ties held; what follows from lanes that differ has as many.

    Example:
        >>> tie = Tie("radius", 1, 0.5, "radius", 0)
        >>> followed({"radius": np.array([[4.0, 1.0], [6.0, 1.0]])}, (tie,))["radius"].tolist()
        [[4.0, 2.0], [6.0, 3.0]]
    """
    values = {name: np.array(value) for name, value in values.items()}
    for tie in ties:
        source, target = values[tie.source], values[tie.name]
        if len(source) > len(target):
            target = values[tie.name] = np.repeat(target, len(source), axis=0)
        target.reshape(len(target), -1)[:, tie.at] = tie.factor * source.reshape(len(source), -1)[:, tie.of]
    return values


def _by_run(value: NDArray, parameter: Parameter) -> NDArray:
    """(runs or 1, elements), a view."""
    return value.reshape(len(value) if parameter.per_run else 1, -1)


@dataclass(frozen=True, eq=False)
class FreeElements:
    """What `diffcontact.fit` is given for the parameters of a scene: starts, domains, priors and ties by name."""

    params: Mapping[str, NDArray]
    free: Mapping[str, Any]
    priors: Mapping[str, Normal]
    tied: Mapping[str, Assembled]
    per_run: tuple[str, ...]


def free_elements(
    start: Mapping[str, NDArray], parameters: Mapping[str, Parameter], ties: tuple[Tie, ...]
) -> FreeElements:
    """Whole parameters as they are, and those of which only some elements are free piece by piece."""
    pieces, domains = {}, _within_those_that_follow(start, parameters, ties)
    for name, parameter in parameters.items():
        fixed = {*parameter.held, *(tie.at for tie in ties if tie.name == name)}
        moving = [i for i in range(_size(parameter, start[name])) if i not in fixed]
        if parameter.domain is not None and fixed:
            pieces[name] = {i: _piece(parameter, start[name], i) for i in moving}
    params, free, priors, per_run = dict(start), {}, {}, [n for n, p in parameters.items() if p.per_run]
    for name, parameter in parameters.items():
        if parameter.domain is None:
            continue
        if name not in pieces:
            free[name] = domains[name]
            if parameter.prior:
                priors[name] = parameter.prior
            continue
        for i, piece in pieces[name].items():
            element = _by_run(start[name], parameter)[:, i]
            params[piece] = element if parameter.per_run else element[0]
            free[piece] = _of_element(domains[name], i)
            if parameter.prior:
                priors[piece] = Normal(*(_at(part, i) for part in (parameter.prior.mean, parameter.prior.sigma)))
            if parameter.per_run:
                per_run.append(piece)
    tied = {}
    for name in parameters:
        own = tuple(tie for tie in ties if tie.name == name)
        if own or name in pieces:
            links = tuple((tie.at, tie.factor, *_known_as(tie, pieces)) for tie in own)
            tied[name] = Assembled(name, tuple(pieces.get(name, {}).items()), links)
    return FreeElements(params, free, priors, tied, tuple(per_run))


def _within_those_that_follow(
    start: Mapping[str, NDArray], parameters: Mapping[str, Parameter], ties: tuple[Tie, ...]
) -> dict[str, Any]:
    """The domains of free parameters, as far as what follows from them stays within its own.

    low <= factor source <= high, what of the two is an inner bound of the source.
    """
    domains = {name: parameter.domain for name, parameter in parameters.items() if parameter.domain is not None}
    for tie in ties:
        source, target = domains.get(tie.source), domains.get(tie.name)
        if source is None or target is None or tie.factor == 0:
            continue
        ends = sorted(_at(bound, tie.at) / tie.factor for bound in (target.low, target.high))
        if _at(source.low, tie.of) >= ends[0] and _at(source.high, tie.of) <= ends[1]:
            continue
        low, high = (_elements(bound, start[tie.source], parameters[tie.source]) for bound in (source.low, source.high))
        low[tie.of], high[tie.of] = max(low[tie.of], ends[0]), min(high[tie.of], ends[1])
        shape = start[tie.source].shape[1 if parameters[tie.source].per_run else 0 :]
        domains[tie.source] = Interval(low.reshape(shape)[()], high.reshape(shape)[()])
    return domains


def _elements(bound: Any, start: NDArray, parameter: Parameter) -> NDArray:
    """(elements,) a bound of each, a copy."""
    return np.array(np.broadcast_to(np.ravel(bound), _size(parameter, start)), float)


def _known_as(tie: Tie, pieces: Mapping[str, Mapping[int, str]]) -> tuple[str, int]:
    piece = pieces.get(tie.source, {}).get(tie.of)
    return (tie.source, tie.of) if piece is None else (piece, 0)


def _size(parameter: Parameter, start: NDArray) -> int:
    return _by_run(start, parameter).shape[1]


def _piece(parameter: Parameter, start: NDArray, i: int) -> str:
    shape = start.shape[1:] if parameter.per_run else start.shape
    place = ",".join(map(str, np.unravel_index(i, shape)))
    return f"{parameter.name}[:,{place}]" if parameter.per_run else f"{parameter.name}[{place}]"


def _of_element(domain: Interval | Positive | Real, i: int) -> Interval | Positive | Real:
    return Interval(_at(domain.low, i), _at(domain.high, i)) if isinstance(domain, Interval) else domain


def _at(value: Any, i: int) -> float:
    return float(np.ravel(value)[i]) if np.ndim(value) else float(value)
