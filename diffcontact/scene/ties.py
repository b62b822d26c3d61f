"""Tied parameters and free elements, as a fit knows them.

    [ties]
    "radius[1]" = "radius[0]"
    "mass[1]" = "1.06 * mass[0]"
    later_restitution = "restitution"          every element follows the one number

The fit knows a free element as a parameter of its own, "mass[0]", or "u0[:,1]" where every run has one.
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
from diffcontact.identify import Interval, Normal
from diffcontact.scene.keys import Table
from diffcontact.scene.parameters import Parameter
from diffcontact.scene.units import number

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
