"""What an experimenter can choose, within which bounds and at what price: settings of controls.

A setting is a dictionary control -> value. A control is a parameter of the problem (a height of fall, an angle), an
element of one (`u0[1]`), or one of four that every recording has:

| control      | unit | what it is                                       |
|--------------|------|--------------------------------------------------|
| `frame_rate` | 1/s  | samples a second, evenly spaced                  |
| `duration`   | s    | from the first sample to the last                |
| `runs`       |      | how often it is repeated                         |
| `channels`   |      | which of the channels are seen, a tuple of them  |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import is_count
from diffcontact.host.messages import did_you_mean
from diffcontact.identify.problem.parameters import Interval

FRAME_RATE, DURATION, RUNS, CHANNELS = "frame_rate", "duration", "runs", "channels"
RECORDING = (FRAME_RATE, DURATION, RUNS, CHANNELS)

Setting = dict[str, Any]
Cost = Callable[[Setting], float]


@dataclass(frozen=True, eq=False)
class Controls:
    """The controls with their domains, and what settings cost.

    Attributes:
        continuous: those that vary in an interval, log where it says so.
        choices: those that take one of a few values.
        cost: of a setting; None: they cost nothing.
        budget: the most that a setting may cost.
    """

    continuous: Mapping[str, Interval]
    choices: Mapping[str, tuple]
    cost: Cost | None = None
    budget: float = np.inf

    @classmethod
    def of(
        cls,
        controls: Mapping[str, Any],
        elements: Mapping[str, tuple[int, ...]],
        channels: int,
        cost: Cost | None,
        budget: float,
    ) -> Controls:
        """Check what a user gave; `elements` are the shapes of all numbers that can be set, by name.

        Raises:
            ValueError: no control, an unknown one, an interval without ends, values of the wrong kind.
        """
        if not controls:
            raise ValueError("design(controls): empty, expected at least one control with its interval or values")
        if not budget > 0:
            raise ValueError(f"design(budget): {budget!r}, expected above 0")
        if cost is None and np.isfinite(budget):
            raise ValueError("design(budget): without a cost; expected cost, a function of a setting")
        continuous, choices = {}, {}
        for name, domain in controls.items():
            if name not in elements and name not in RECORDING:
                raise ValueError(
                    f"design(controls): no parameter {name!r}; {did_you_mean(name, [*elements, *RECORDING])}"
                )
            if isinstance(domain, Interval) and name == RUNS:
                choices[name] = tuple(range(int(np.ceil(domain.low)), int(np.floor(domain.high)) + 1))
            elif isinstance(domain, Interval) and name != CHANNELS:
                continuous[name] = _finite(name, domain, elements.get(name, ()))
            elif isinstance(domain, Sequence | np.ndarray) and len(domain) > 0 and not isinstance(domain, str):
                choices[name] = tuple(domain)
            else:
                raise ValueError(f"design(controls): {name!r} is {domain!r}, expected an Interval or a list of values")
        for name, values in choices.items():
            _require_values(name, values, elements.get(name, ()), channels)
        for name in (FRAME_RATE, DURATION):
            if name in continuous and not continuous[name].low > 0 and name not in elements:
                raise ValueError(f"design(controls): {name!r} is {continuous[name]}, expected low above 0")
        return cls(continuous, choices, cost, float(budget))

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.continuous, *self.choices)

    def price(self, setting: Setting) -> float:
        """What a setting costs."""
        return 0.0 if self.cost is None else float(self.cost(setting))

    def affordable(self, setting: Setting) -> bool:
        return self.price(setting) <= self.budget

    def at(self, places: NDArray, chosen: Mapping[str, Any]) -> Setting:
        """The setting at places (c,) in the unit cube of the continuous controls, with these choices."""
        setting = {}
        for (name, domain), x in zip(self.continuous.items(), places, strict=True):
            low, high = float(domain.low), float(domain.high)
            setting[name] = float(low * (high / low) ** x) if domain.log else float(low + (high - low) * x)
        return setting | dict(chosen)

    def scan(self, candidates: int, seed: int) -> list[Setting]:
        """About so many settings, spread over all that is possible: a grid, or a Sobol set in many dimensions.

        Example:
            >>> two = Controls({"height": Interval(0.5, 1.5)}, {"runs": (1, 2)})
            >>> [(s["height"], s["runs"]) for s in two.scan(6, seed=0)]
            [(0.5, 1), (0.5, 2), (1.0, 1), (1.0, 2), (1.5, 1), (1.5, 2)]
        """
        chosen = [dict(zip(self.choices, values, strict=True)) for values in product(*self.choices.values())]
        each, count = max(candidates // len(chosen), 1), len(self.continuous)
        a_side = int(np.floor(each ** (1 / count) + 1e-9)) if count else 1
        if count and a_side < 3:
            from scipy.stats import qmc  # takes almost a second to import

            places = np.atleast_2d(qmc.Sobol(count, rng=seed).random_base2(max(int(np.log2(each)), 1)))
        else:
            places = np.array(list(product(np.linspace(0.0, 1.0, max(a_side, 2)), repeat=count)))
        return [self.at(place, choice) for place in places for choice in chosen]


def _finite(name: str, domain: Interval, shape: tuple[int, ...]) -> Interval:
    if shape or np.ndim(domain.low) or np.ndim(domain.high):
        raise ValueError(f"design(controls): {name!r} has shape {shape}; expected its elements, as '{name}[0]'")
    if not (np.isfinite(domain.low) and np.isfinite(domain.high)):
        raise ValueError(f"design(controls): {name!r} is {domain}, expected finite bounds")
    return domain


def _require_values(name: str, values: tuple, shape: tuple[int, ...], channels: int) -> None:
    for value in values:
        if name == CHANNELS:
            right = len(value) > 0 and all(is_count(k, 0) and k < channels for k in value)
            expected = f"tuples of channels from 0 to {channels - 1}"
        elif name == RUNS:
            right, expected = is_count(value, 1), "whole numbers of at least 1"
        else:
            array = np.asarray(value, float)
            right, expected = array.shape == shape and bool(np.all(np.isfinite(array))), f"finite, of shape {shape}"
            right = right and (name not in (FRAME_RATE, DURATION) or bool(np.all(array > 0)))
        if not right:
            raise ValueError(f"design(controls): {name!r} has a value {value!r}, expected {expected}")
