"""What a profile is: how the cost rises along one parameter; `profile` finds it."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Profile:
    """The profile of one element.

    Attributes:
        name: of the element.
        interval95: (2,) where the profile leaves the 95 % region; infinite, or the bound, where it does not.
        values: (m,) of the element, sorted.
        rise: (m,) 2 (c(x) - c) / s^2 there, in squared standard errors.
    """

    name: str
    interval95: NDArray
    values: NDArray
    rise: NDArray
