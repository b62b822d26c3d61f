"""What was measured, and the run that is to explain it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.arguments import is_count, numbers


@dataclass(frozen=True, eq=False)
class Impacts:
    """Measured times of impacts, as from a microphone: a channel of their own.

    The k-th time is compared with the k-th percussion of the simulation, among those of `contacts`. A simulation that
    has fewer puts the missing ones at the end of its record.

    Args:
        times: (m,) increasing, on the clock of the other samples [s]; NaN for an impact that is known to have been
            there and was missed.
        noise: one standard deviation [s]: a number, or (m,).
        contacts: which contacts are heard; None: all.

    Raises:
        ValueError: times that do not increase, noise that is not positive, contacts that are no numbers from 0 on.

    Example:
        >>> Impacts([0.45, np.nan, 1.74], 1e-3).times.size
        3
    """

    times: NDArray
    noise: float | NDArray
    contacts: tuple[int, ...] | None = None

    def __post_init__(self):
        times, noise = (_numbers(self, name) for name in ("times", "noise"))
        known = times[np.isfinite(times)]
        if times.ndim != 1 or known.size == 0 or np.any(np.isinf(times)) or np.any(np.diff(known) <= 0):
            raise ValueError(f"Impacts(times): {times}, expected (m,) increasing times, NaN where one was missed")
        if noise.shape not in ((), times.shape) or not np.all(noise > 0) or np.any(np.isinf(noise)):
            raise ValueError(f"Impacts(noise): {noise}, expected a positive number or {times.size} of them")
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "noise", noise)
        if self.contacts is not None:
            contacts = tuple(self.contacts) if isinstance(self.contacts, Iterable) else (self.contacts,)
            if not contacts or not all(is_count(contact, 0) for contact in contacts):
                raise ValueError(f"Impacts(contacts): {self.contacts!r}, expected numbers of contacts, counted from 0")
            object.__setattr__(self, "contacts", tuple(map(int, contacts)))


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

        def refuse(name: str, told: str) -> None:
            raise ValueError(f"Observations({name}): {told}")

        if times.ndim != 1 or times.size < 2:
            refuse("times", f"shape {times.shape}, expected (n,) with n >= 2")
        wrong = np.flatnonzero(~(np.diff(times) > 0)) + 1
        if not np.all(np.isfinite(times)) or wrong.size:
            row = int(wrong[0]) if wrong.size else int(np.flatnonzero(~np.isfinite(times))[0])
            refuse("times", f"row {row} ({times[row]}) is not after the one before; times must increase")
        if values.ndim != 2 or values.shape[0] != times.size or values.shape[1] == 0:
            refuse("values", f"shape {values.shape}, expected ({times.size}, k) as there are times")
        if np.any(np.isinf(values)):
            refuse("values", f"row {int(np.argwhere(np.isinf(values))[0, 0])} is infinite")
        if np.all(np.isnan(values)) and self.impacts is None:
            refuse("values", "every sample is missing (NaN)")
        if noise.shape not in ((), values.shape[1:], values.shape):
            refuse("noise", f"shape {noise.shape}, expected (), {values.shape[1:]} or {values.shape}")
        bad = ~(np.broadcast_to(noise, values.shape) > 0) | np.isinf(noise)
        if np.any(bad & ~np.isnan(values)):
            row, channel = map(int, np.argwhere(bad & ~np.isnan(values))[0])
            value = np.broadcast_to(noise, values.shape)[row, channel]
            refuse("noise", f"{value} in channel {channel}, row {row}; expected a positive number")
        if not callable(self.observe):
            refuse("observe", f"expected a function, got {type(self.observe).__name__}")
        if self.impacts is not None and not isinstance(self.impacts, Impacts):
            refuse("impacts", f"expected Impacts, got {type(self.impacts).__name__}")
        if self.impacts is not None and self.impacts.times.size > times.size:
            refuse("impacts", f"{self.impacts.times.size}, expected at most one per time")
        if self.channels and len(self.channels) != values.shape[1]:
            refuse("channels", f"{len(self.channels)} names, expected {values.shape[1]} as values has columns")
        object.__setattr__(self, "channels", tuple(map(str, self.channels)))
        for name, array in (("times", times), ("values", values), ("noise", noise)):
            object.__setattr__(self, name, array)

    @classmethod
    def from_frame(
        cls,
        frame: Any,
        columns: Sequence[str],
        noise: Any,
        *,
        time: str | None = None,
        scale: float = 1.0,
        observe: Callable[[Any, Any], Any] | None = None,
        impacts: Impacts | None = None,
    ) -> Observations:
        """Take columns of a table as channels, under their names.

        Args:
            frame: a DataFrame of pandas or polars, a structured array, or a mapping from names to columns.
            columns: one for each channel, in the order of `observe`.
            noise: as `Observations` takes it, in the units of the columns.
            time: the column of the times [s]; None: the index of a DataFrame of pandas.
            scale: what one of the columns' unit is in the system's: 1e-3 for millimetres.
            observe: as `Observations` takes it; None: the coordinates, `trajectory.q`.
            impacts: as `Observations` takes them.

        Raises:
            ValueError: a column that the table lacks, or that holds no numbers; what `Observations` refuses.

        Example:
            >>> table = {"t": [0.0, 0.1, 0.2], "height [mm]": [1000.0, None, 804.0]}
            >>> fall = Observations.from_frame(table, ["height [mm]"], 2.0, time="t", scale=1e-3)
            >>> fall.values.ravel().tolist(), fall.noise.item(), fall.channels
            ([1.0, nan, 0.804], 0.002, ('height [mm]',))
        """
        if isinstance(columns, str):
            columns = [columns]
        index = getattr(frame, "index", None)
        if time is None and (index is None or callable(index)):
            raise ValueError("Observations.from_frame(time): None, expected the column of the times of this table")
        times = index if time is None else _column(frame, time)
        values = [scale * _column(frame, name) for name in columns]
        if not values:
            raise ValueError("Observations.from_frame(columns): none, expected one for each channel")
        times, values, noise = np.asarray(times, float), np.stack(values, axis=1), scale * np.asarray(noise, float)
        return cls(times, values, noise, _coordinates if observe is None else observe, impacts, tuple(columns))

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
        label: what the run is called, in verdicts and on pages; empty: by its number.
        clock: None, or `clock(times, params) -> (n,)`, pure and traceable: the system's time of each sample, where the
            recording's clock is not the system's own. `lambda times, params: params["offset"] + times` for a film that
            began at an unknown moment, `times / params["rate"]` for frame numbers at an unknown rate. `initial` is the
            state at the first of them.
        longest: samples of the longest of all runs that are to share a compilation, those of other fits, too.

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
    label: str = ""
    longest: int = 0

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


def runs(
    system: Any,
    observations: Sequence[Observations] | Mapping[str, Observations],
    params: Mapping[str, Any],
    per_run: Mapping[str, Any] | None = None,
    initial: Callable[[Any], Any] | None = None,
    **options: Any,
) -> tuple[list[Problem], dict[str, Any]]:
    """Take several recordings of one experiment for one fit.

    Each run keeps to itself where it began: without values of their own `q0` and `u0` come from straight lines through
    the first ten samples, of a recording whose channels are the coordinates.

    Args:
        system: the system of all.
        observations: one for each run; under names, the runs are called so.
        params: what runs share, as `fit` takes it.
        per_run: name -> (G, ...) one value for each of the G runs.
        initial: as `Problem` takes it; None: `(params["q0"], params["u0"])`.
        options: of every `Problem`: scheme, substeps, clock.

    Returns:
        The problems and the params, for `fit`; free are the shared ones and, as `Real()`, q0 and u0.

    Raises:
        ValueError: no run; a value per run that is not one for each; a start that the channels do not show.

    Example:
        >>> from diffcontact.systems import balls
        >>> times = np.linspace(0.0, 0.1, 11)
        >>> tables = {name: {"t": times, "y": h - 2.0 * times} for name, h in (("low", 1.0), ("high", 2.0))}
        >>> seen = {name: Observations.from_frame(table, ["y"], 1e-3, time="t") for name, table in tables.items()}
        >>> problems, params = runs(balls(1, 1), seen, {"mass": np.ones(1)})
        >>> [problem.label for problem in problems], params["q0"].round(6).tolist(), params["u0"].round(6).tolist()
        (['low', 'high'], [[1.0], [2.0]], [[-2.0], [-2.0]])
    """
    labels = list(observations) if isinstance(observations, Mapping) else [""] * len(observations)
    seen = list(observations.values()) if isinstance(observations, Mapping) else list(observations)
    if not seen:
        raise ValueError("runs(observations): none, expected at least one recording")
    own = {name: np.asarray(value, float) for name, value in (per_run or {}).items()}
    for name, value in own.items():
        if value.ndim == 0 or len(value) != len(seen):
            raise ValueError(f"runs(per_run): {name!r} has shape {value.shape}, expected {len(seen)} values, one a run")
    if initial is None:
        begun = [_began(one) for one in seen] if not {"q0", "u0"} <= {*own, *params} else []
        for k, name in enumerate(("q0", "u0")):
            if name not in own and name not in params:
                own[name] = np.stack([start[k] for start in begun])
    start = _state if initial is None else initial
    problems = [
        Problem(system, one, start, per_run=tuple(own), label=str(label), **options)
        for label, one in zip(labels, seen, strict=True)
    ]
    return problems, {**params, **own}


def labels_of(problems: Sequence[Problem]) -> list[str]:
    """What runs are called, those without a label by their number."""
    return [problem.label or f"run {i}" for i, problem in enumerate(problems)]


# Samples from whose straight line a run's start is taken.
_FIRST = 10


def _began(seen: Observations) -> NDArray:
    """(2, k) place and velocity at the first time."""
    found = []
    for name, column in zip(seen.channels or range(seen.values.shape[1]), seen.values.T, strict=True):
        rows = np.flatnonzero(~np.isnan(column))[:_FIRST]
        if rows.size < 2 or seen.observe is not _coordinates:
            raise ValueError(
                f"runs(per_run): without q0 and u0, which channel {name} does not show; expected one of each for a run"
            )
        found.append(np.polynomial.polynomial.polyfit(seen.times[rows] - seen.times[0], column[rows], 1))
    return np.array(found).T


# Plain functions: runs that share them share the compiled simulation.
def _coordinates(trajectory: Any, params: Any) -> Any:
    del params
    return trajectory.q


def _state(params: Any) -> Any:
    return params["q0"], params["u0"]


def _column(frame: Any, name: str) -> NDArray:
    """(n,) numbers of a column, NaN where one is missing."""
    known = getattr(frame, "columns", getattr(getattr(frame, "dtype", None), "names", None))
    known = list(frame if known is None else known)
    if name not in known:
        listed = ", ".join(map(repr, known[:8]))
        raise ValueError(f"Observations.from_frame: no column {name!r}; the table has {listed}")
    try:
        return np.asarray(frame[name], float)
    except (TypeError, ValueError):
        raise ValueError(f"Observations.from_frame: column {name!r} does not hold numbers alone") from None


def _numbers(given: Impacts | Observations, name: str) -> NDArray:
    try:
        array = numbers(getattr(given, name))
    except (TypeError, ValueError):
        raise ValueError(f"{type(given).__name__}({name}): expected an array of numbers") from None
    array.setflags(write=False)
    return array
