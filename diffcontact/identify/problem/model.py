"""The code of a run, apart from its numbers: what decides whether two runs share a compilation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any

from jax import Array

from diffcontact.arguments import placed
from diffcontact.identify.problem.disturbance import Disturbed, disturbed
from diffcontact.identify.problem.observations import Problem
from diffcontact.identify.problem.parameters import Block, insert


@dataclass(frozen=True, eq=False)
class Model:
    """Everything about a run that is code, not numbers: static under jit, compared by the functions it holds.

    `impacts` percussions of the contacts `heard` (None: all) are compared with measured times, none where it is 0. The
    trajectory lists at least `listed` of them.
    """

    system: Any
    scheme: Any
    substeps: int
    observe: Any
    initial: Any
    view: tuple[Block, ...]
    clock: Any = None
    tied: tuple[tuple[str, Any], ...] = ()
    impacts: int = 0
    heard: tuple[int, ...] | None = None
    listed: int = 0

    def parameters(self, z: Array, fixed: dict[str, Any]) -> dict[str, Any]:
        """What the run's functions are given: fixed and free parameters, and those tied to them; traceable."""
        params = Disturbed.of(insert(self.view, z, fixed))
        for name, function in self.tied:
            params[name] = function(params)
        return params

    @property
    def lists(self) -> bool:
        """Whether trajectories list percussions: then the number of substeps has to be known when compiling."""
        return bool(self.impacts or self.listed)

    def counted(self) -> tuple[Model, Array | None]:
        """The code for any number of substeps, and the number (), known when running: one compilation serves all.

        Where percussions are listed: the model itself, and None.
        """
        if self.lists:
            return self, None
        return replace(self, substeps=1), placed(self.substeps)

    def _identity(self):
        functions = self.system, self.scheme, self.observe, self.initial, self.clock
        numbers = self.substeps, self.impacts, self.heard, self.listed
        return (*map(_handle, functions), *numbers, self.view, *((name, _handle(tie)) for name, tie in self.tied))

    def __hash__(self):
        return hash(self._identity())

    def __eq__(self, other):
        return isinstance(other, Model) and self._identity() == other._identity()


def share_code(
    problems: Sequence[Problem], view: tuple[Block, ...], tied: tuple[tuple[str, Any], ...] = (), listed: int = 0
) -> list[Model]:
    """One model per problem, where functions made alike (a lambda in a loop, say) become one and the same object.

    A number of substeps that is left open begins at 1.
    """
    known: dict[Any, Any] = {}

    def first_alike(function):
        return known.setdefault(_code(function), function)

    return [
        Model(
            system=disturbed(problem.system),
            scheme=problem.scheme,
            substeps=1 if isinstance(problem.substeps, str) else problem.substeps,
            observe=first_alike(problem.observations.observe),
            initial=first_alike(problem.initial),
            view=view,
            clock=first_alike(problem.clock),
            tied=tied,
            listed=listed,
        )
        for problem in problems
    ]


def _code(function: Any) -> Any:
    """What makes two functions of one moment interchangeable: the same code over the same closure and defaults."""
    if not isinstance(function, FunctionType):
        return id(function)
    cells = tuple(id(cell.cell_contents) for cell in function.__closure__ or ())
    defaults = tuple(map(id, function.__defaults__ or ()))
    keywords = tuple((name, id(value)) for name, value in (function.__kwdefaults__ or {}).items())
    return function.__code__, id(function.__globals__), cells, defaults, keywords


def _handle(value: Any) -> Any:
    """The value itself where it can be hashed, its identity otherwise (a system that holds arrays)."""
    try:
        hash(value)
    except TypeError:
        return id(value)
    return value
