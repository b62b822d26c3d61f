"""Functions of a system whose results are changed, so that what they are at their core can still be asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Adapted:
    """A function whose results are changed by another one; equal where both are.

    Example:
        >>> Adapted(sum, abs)([-3, -4])
        7
    """

    function: Callable
    change: Callable[[Any], Any]

    def __call__(self, *args):
        return self.change(self.function(*args))

    @property
    def __signature__(self):
        return inspect.signature(self.function)


def core(function: Callable | None) -> Callable | None:
    """What is left of a function without the changes of its results.

    Example:
        >>> core(Adapted(Adapted(sum, abs), float)) is sum, core(sum) is sum, core(None)
        (True, True, None)
    """
    return core(function.function) if isinstance(function, Adapted) else function
