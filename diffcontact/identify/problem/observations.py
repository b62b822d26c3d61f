"""What was measured, and the run that is to explain it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import is_count, numbers
from diffcontact.identify.problem.impacts import Impacts


@dataclass(frozen=True, eq=False)
class Observations:
    """Measurements of one run: k channels at n times.

    `observe` says how a simulated trajectory would have been measured.

    The fit makes `(values - observe(trajectory, params)) / noise` small.

    Args:
        times: (n,) increasing times [s], any spacing; the first is that of the initial state.
        values: (n, k) what was measured, NaN where a sample is missing.
        noise: one standard deviation, in the units of `values`: a number, (k,) per channel or (n, k) per sample. Only
            the ratios matter for the estimate; error bars rest on the residuals themselves.
        observe: `observe(trajectory, params) -> (n, k)`, pure and traceable: what the trajectory looks like in the
            channels, for instance `lambda trajectory, params: trajectory.q`.
        impacts: None, or `Impacts`, measured times of impacts: one more channel, behind those of `values`.
        channels: what the k channels are called, in verdicts and on pages; empty: by their numbers.

    Raises:
        ValueError: times that do not increase (which row), shapes that differ, nothing measured, not even impacts,
            noise that is not positive.

    Example:
        >>> heights = [[1.0], [np.nan], [0.8]]
        >>> fall = Observations([0.0, 0.1, 0.2], heights, 1e-3, lambda trajectory, params: trajectory.q)
        >>> fall.present.ravel().tolist()
        [True, False, True]
    """

    times: NDArray
    values: NDArray
    noise: Any
    observe: Callable[[Any, Any], Any]
    impacts: Impacts | None = None
    channels: tuple[str, ...] = ()

    def __post_init__(self):
        times, values, noise = (_numbers(self, name) for name in ("times", "values", "noise"))
        if times.ndim != 1 or times.size < 2:
            raise ValueError(f"Observations(times): shape {times.shape}, expected (n,) with n >= 2")
        wrong = np.flatnonzero(~(np.diff(times) > 0)) + 1
        if not np.all(np.isfinite(times)) or wrong.size:
            row = int(wrong[0]) if wrong.size else int(np.flatnonzero(~np.isfinite(times))[0])
            raise ValueError(
                f"Observations(times): row {row} ({times[row]}) is not after the one before; times must increase"
            )
        if values.ndim != 2 or values.shape[0] != times.size or values.shape[1] == 0:
            raise ValueError(
                f"Observations(values): shape {values.shape}, expected ({times.size}, k) as there are times"
            )
        if np.any(np.isinf(values)):
            raise ValueError(f"Observations(values): row {int(np.argwhere(np.isinf(values))[0, 0])} is infinite")
        if np.all(np.isnan(values)) and self.impacts is None:
            raise ValueError("Observations(values): every sample is missing (NaN)")
        if noise.shape not in ((), values.shape[1:], values.shape):
            raise ValueError(
                f"Observations(noise): shape {noise.shape}, expected (), {values.shape[1:]} or {values.shape}"
            )
        bad = ~(np.broadcast_to(noise, values.shape) > 0) | np.isinf(noise)
        if np.any(bad & ~np.isnan(values)):
            row, channel = map(int, np.argwhere(bad & ~np.isnan(values))[0])
            value = np.broadcast_to(noise, values.shape)[row, channel]
            raise ValueError(
                f"Observations(noise): {value} in channel {channel}, row {row}; expected a positive number"
            )
        if not callable(self.observe):
            raise ValueError(f"Observations(observe): expected a function, got {type(self.observe).__name__}")
        if self.impacts is not None and not isinstance(self.impacts, Impacts):
            raise ValueError(f"Observations(impacts): expected Impacts, got {type(self.impacts).__name__}")
        if self.impacts is not None and self.impacts.times.size > times.size:
            raise ValueError(f"Observations(impacts): {self.impacts.times.size}, expected at most one per time")
        if self.channels and len(self.channels) != values.shape[1]:
            raise ValueError(
                f"Observations(channels): {len(self.channels)} names, expected {values.shape[1]} as values has columns"
            )
        object.__setattr__(self, "channels", tuple(map(str, self.channels)))
        for name, array in (("times", times), ("values", values), ("noise", noise)):
            object.__setattr__(self, name, array)

    @property
    def present(self) -> NDArray:
        """(n, k) True where a sample was measured."""
        return ~np.isnan(self.values)

    @property
    def sigma(self) -> NDArray:
        """(n, k) the noise of each sample; 1 where it is missing."""
        return np.where(self.present, np.broadcast_to(self.noise, self.values.shape), 1.0)


@dataclass(frozen=True, eq=False)
class Problem:
    """One run: its system, its measurements and its initial state.

    Args:
        system: a `System` or `ParticleLine`.
        observations: what was measured.
        initial: `initial(params) -> (q0, u0)`, pure and traceable: the state at the first time.
        scheme: the step map; None is `EventTimed()`.
        substeps: steps per interval between two times; "auto": as many as it takes until halving them changes what is
            observed by less than a tenth of its noise. `fit` looks for that number at its start, once more at the
            estimate, and goes on from there with shorter steps where it has to.
        per_run: names of parameters that this run keeps to itself. In `fit(problems, params, ...)` such a parameter has
            a leading axis with one entry per problem; `initial`, `observe` and the system of problem i see entry i. All
            other parameters are shared.
        clock: None, or `clock(times, params) -> (n,)`, pure and traceable: the system's time of each sample, where the
            recording's clock is not the system's own. `lambda times, params: params["offset"] + times` for a film that
            began at an unknown moment, `times / params["rate"]` for frame numbers at an unknown rate. `initial` is the
            state at the first of them.

    `initial`, `observe`, `clock` and the system's functions are compiled once: what they use besides their arguments
    must not change. Runs, and later fits, whose functions have the same code and refer to the same numbers share the
    compilation, each with its own number of substeps. So new data of the same shape compile nothing.

    Raises:
        ValueError: an argument of the wrong kind.

    Example:
        >>> from diffcontact.systems import balls
        >>> drop = Observations([0.0, 0.1], [[1.0], [0.95]], 1e-3, lambda trajectory, params: trajectory.q)
        >>> Problem(balls(1, 1), drop, lambda params: (params["q0"], params["u0"]), per_run=("q0", "u0")).substeps
        'auto'
    """

    system: Any
    observations: Observations
    initial: Callable[[Any], Any]
    scheme: Any = None
    substeps: int | str = "auto"
    per_run: tuple[str, ...] = ()
    clock: Callable[[Any, Any], Any] | None = None

    def __post_init__(self):
        if not isinstance(self.observations, Observations):
            raise ValueError(f"Problem(observations): expected Observations, got {type(self.observations).__name__}")
        if not callable(self.initial):
            raise ValueError(f"Problem(initial): expected a function, got {type(self.initial).__name__}")
        if self.clock is not None and not callable(self.clock):
            raise ValueError(f"Problem(clock): expected a function or None, got {type(self.clock).__name__}")
        if not (self.substeps == "auto" or is_count(self.substeps, 1)):
            raise ValueError(f"Problem(substeps): {self.substeps!r}, expected 'auto' or an integer of at least 1")
        object.__setattr__(self, "substeps", self.substeps if self.substeps == "auto" else int(self.substeps))
        named = isinstance(self.per_run, Iterable)
        names = (self.per_run,) if isinstance(self.per_run, str) or not named else tuple(self.per_run)
        if not all(isinstance(name, str) for name in names):
            raise ValueError(f"Problem(per_run): {self.per_run!r}, expected names of parameters")
        object.__setattr__(self, "per_run", names)


def _numbers(observations: Observations, name: str) -> NDArray:
    try:
        array = numbers(getattr(observations, name))
    except (TypeError, ValueError):
        raise ValueError(f"Observations({name}): expected an array of numbers") from None
    array.setflags(write=False)
    return array
