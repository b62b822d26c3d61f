"""What is known of parameters besides the data: further rows of the residual."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.identify.problem.parameters import Domain, FreeParameters

# A measurement may be beyond what is possible, by its error: by so many of its standard deviations.
_BEYOND = 2.0


@dataclass(frozen=True)
class Normal:
    """Normal prior of a parameter: `mean` and standard deviation `sigma`.

    Both are numbers or arrays that broadcast to the shape of the parameter.

    What was measured elsewhere may lie beyond the parameter's bounds, as a restitution of 1.01, but by two standard
    deviations at most.

    Raises:
        ValueError: a standard deviation that is not positive, a mean that is not finite.

    Example:
        >>> Normal(9.81, 0.01)
        Normal(mean=9.81, sigma=0.01)
    """

    mean: Any
    sigma: Any

    def __post_init__(self):
        mean, sigma = np.asarray(self.mean, float), np.asarray(self.sigma, float)
        if not (np.all(np.isfinite(mean)) and np.all(np.isfinite(sigma)) and np.all(sigma > 0)):
            raise ValueError(f"{self}: expected a finite mean and a positive finite sigma")

    def contradicts(self, domain: Domain) -> NDArray:
        """Where the mean is beyond the bounds of a domain by more than two standard deviations.

        Example:
            >>> from diffcontact.identify import Interval
            >>> Normal([0.5, 1.01, 3.0], 0.1).contradicts(Interval(0.0, 1.0)).tolist()
            [False, False, True]
        """
        mean, room = np.asarray(self.mean, float), _BEYOND * np.asarray(self.sigma, float)
        return (mean < np.asarray(domain.low) - room) | (mean > np.asarray(domain.high) + room)


class Priors:
    """Rows (parameter - mean) / sigma as functions of theta; a per-run parameter has one prior per run, or one for all.

    Raises:
        ValueError: a name that is not free, a shape that does not fit, a mean far beyond the parameter's bounds.
    """

    def __init__(self, priors: Mapping[str, Normal], parameters: FreeParameters):
        self.parameters = parameters
        # Element by element of theta; an infinite sigma is no prior.
        mean = {name: np.zeros(np.shape(value)) for name, value in parameters.split(parameters.start).items()}
        sigma = {name: np.full(value.shape, np.inf) for name, value in mean.items()}
        for name, prior in priors.items():
            if name not in mean:
                raise ValueError(f"fit(priors): {name!r} is not free; free are {', '.join(map(repr, mean))}")
            if not isinstance(prior, Normal):
                raise ValueError(f"fit(priors): {name!r} is {prior!r}, expected Normal(mean, sigma)")
            try:
                mean[name], sigma[name] = (
                    np.broadcast_to(part, mean[name].shape) for part in (prior.mean, prior.sigma)
                )
            except ValueError:
                shape = mean[name].shape
                raise ValueError(f"fit(priors): {prior} of {name!r} does not broadcast to its shape {shape}") from None
            if np.any(prior.contradicts(domain := parameters.free[name])):
                raise ValueError(
                    f"fit(priors): {prior} of {name!r} is beyond its bounds {domain} by more than {_BEYOND:g} sigma, "
                    "expected within"
                )
        everything = [np.concatenate([np.ravel(part) for part in parts.values()]) for parts in (mean, sigma)]
        self.index = np.flatnonzero(np.isfinite(everything[1]))
        self.mean, self.sigma = (part[self.index] for part in everything)

    @property
    def count(self) -> int:
        """How many elements of theta have a prior."""
        return self.index.size

    def around(self, mean: NDArray) -> Priors:
        """Priors of the same elements and widths around other means (count,)."""
        other = copy(self)
        other.mean = mean
        return other

    def among(self, parameters: FreeParameters) -> Priors:
        """The same priors where other parameters are free: those of parameters that still are."""
        names = [self.parameters.names[j] for j in self.index]
        still = np.array([name in parameters.names for name in names], bool)
        other = copy(self)
        other.parameters = parameters
        other.index = np.array([parameters.names.index(name) for name in names if name in parameters.names], int)
        other.mean, other.sigma = self.mean[still], self.sigma[still]
        return other

    def rows(self, theta: NDArray) -> tuple[NDArray, NDArray]:
        """Rows f (count,) of the priors at theta (P,), and their Jacobian J (count, P)."""
        J = np.zeros((self.count, theta.size))
        J[np.arange(self.count), self.index] = self.parameters.slopes(theta)[self.index] / self.sigma
        return (self.parameters.values(theta)[self.index] - self.mean) / self.sigma, J

    def information(self, theta: NDArray) -> NDArray:
        """(P,) what the priors add to the diagonal of J^T J."""
        J = self.rows(theta)[1]
        return np.sum(J**2, axis=0)
