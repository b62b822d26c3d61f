"""Runs, the preparations that make them from columns, and the plain one: columns are coordinates."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

import numpy as np
from numpy.polynomial.polynomial import polyfit
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from diffcontact.drawing import Draw
from diffcontact.host.messages import printable
from diffcontact.scene.keys import Kinds, Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation.knee import FEWEST, knee

# Not 0: there bodies rest on each other, and a fit that starts there sees no effect of e.
RESTITUTION_STARTS = (0.05, 0.95)

# Kind -> (the [preparation] table, the `ReadySystem`) -> `Preparation`.
PREPARATIONS = Kinds("how columns become coordinates")


@dataclass(frozen=True, eq=False)
class PreparedRun:
    """One run as the fit sees it, in the system's units."""

    times: NDArray  # (n,)
    values: NDArray  # (n, k) measured values of the k channels, NaN where missing
    start: Mapping[str, Any]  # name -> starting value that the data suggest
    # name -> value that the system takes from the measurements as it is, such as a measured force
    given: Mapping[str, NDArray] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)  # findings of the preparation for the report: name -> text
    part: str = ""  # which part of the file it is; empty: all of it
    impacts: NDArray | None = None  # times at which impacts were heard, or None
    draw: Draw | None = None  # how this run looks, in place of the system's own picture, or None
    path: str = ""  # of the file it came from
    sha256: str = ""  # of the file

    @property
    def label(self) -> str:
        """The file, and which part of it, for messages and headings."""
        return printable(f"{self.path}, {self.part}" if self.part else self.path)


@dataclass(frozen=True, eq=False, kw_only=True)
class Preparation:
    """Conversion of columns to runs, as a scene names it."""

    # (times (n,) in the system's unit, name -> (n,) column) -> runs, without path and hash
    runs: Callable[[NDArray, Mapping[str, NDArray]], Iterable[PreparedRun]]
    columns: tuple[str, ...]  # names of the columns it needs
    channels: tuple[str, ...]  # one label per observed coordinate
    description: str  # of what it does, for the report
    suggests: tuple[str, ...] = ("q0", "u0")  # names of the starting values that it finds
    gives: tuple[str, ...] = ()  # names of the values that the system takes from the measurements as they are
    angles: int = 0  # how many of the channels, the last ones, are angles
    angle_noise: float = 0.0  # one standard deviation of a measured angle [rad]
    hears: bool = False  # whether times of impacts are measured, so that the scene's noise is one of times
    down: bool = False  # whether the channels grow downwards, as the rows of a picture do
    # whether they grow the other way than the system's coordinates: heights, where these go down
    reversed: bool = False
    # (trajectory, params) -> (n, k) the channels, or None where they are the system's own coordinates
    observe: Callable[[Any, Any], Any] | None = None
    length: str = "m"  # with `observe`, the unit of lengths, or of all where all are angles

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        """Prepare one file, which may hold several runs; errors name the file."""
        try:
            found = tuple(self.runs(times, measurements.columns))
        except ValueError as error:
            raise ValueError(f"{measurements.path}: {error}") from None
        return tuple(replace(run, path=measurements.path, sha256=measurements.sha256) for run in found)


# A measured quaternion is of length 1 but for the digits with which it was written.
OFF_LENGTH = 0.01
_CURVES = {"line": 1, "parabola": 2}


@PREPARATIONS.add(
    "coordinates",
    columns="one for each coordinate of the system, in its order",
    unit='of all of them, the system\'s by default: "mm"',
    first_samples="straight lines through so many (10) give the starting positions and velocities",
    exclude_contact="{ value, unit }: samples nearer to an impact of two balls are left out",
    angles="one column for each disc that spins",
    angle_unit='of these: "rad" (default), "deg"',
    angle_noise="{ value, unit }: one standard deviation of an angle",
)
def coordinates(table: Table, ready: ReadySystem) -> Preparation:
    """Take one column per coordinate and one per angle of discs.

    Starting positions and velocities come from straight lines through the first samples. An angle counts from the x
    axis towards the y axis. Angles modulo a turn are unwrapped, if a disc turns by less than half a turn between
    samples. Two balls hit each other where two straight lines fit their distance best (`knee`).
    """
    first = table.integer("first_samples", default=10, least=2)
    names, scale = table.names("columns"), table.factor("unit", ready.length)
    exclude = table.quantity("exclude_contact", ready.time, 0.0, zero=True)
    surfaces = getattr(ready.system, "surfaces", None)
    count = 0 if surfaces is None else surfaces.count
    if exclude and count < 2:
        raise table.fail("exclude_contact", "of a system without two balls, expected none")
    angles, angle_scale, sigma = (), 1.0, 0.0
    if "angles" in table:
        angles = table.names("angles")
        if ready.turned is None:
            raise table.fail("angles", "of what has none, expected balls in 2 dimensions with spin = true")
        if ready.turned.columns != 1:
            raise table.fail("angles", "of what turns in space, expected the preparation 'poses' with quaternions")
        if 2 * len(angles) != len(names):
            raise table.fail("angles", f"{len(angles)} columns, expected {len(names) // 2}, one for each disc")
        angle_scale, sigma = table.factor("angle_unit", "rad"), table.quantity("angle_noise", "rad")
    for key in ("angle_unit", "angle_noise"):
        if key in table and not angles:
            raise table.fail(key, "without preparation.angles, expected the columns of the angles with it")

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        places = [scale * columns[name] for name in names]
        values = np.stack(places + [followed(angle_scale * columns[name]) for name in angles], axis=-1)
        at, rate = starts(times, values, names + angles, first, 1)
        d = len(names)
        if exclude:
            bodies = values[:, :d].reshape(times.size, count, -1)
            near = [np.abs(times - impact) < exclude for impact in _impacts(times, bodies)]
            values[np.any(near, axis=0) if near else np.zeros(times.size, bool)] = np.nan
        start = {"q0": at[:d], "u0": rate[:d]} | ({"angle0": at[d:], "spin0": rate[d:]} if angles else {})
        return [PreparedRun(times, values, start)]

    return Preparation(
        runs=runs,
        columns=names + angles,
        channels=names + angles,
        description="each coordinate is one column" + (", angles followed beyond full turns" if angles else ""),
        suggests=("q0", "u0", "angle0", "spin0") if angles else ("q0", "u0"),
        angles=len(angles),
        angle_noise=sigma,
    )


def _impacts(times: NDArray, places: NDArray) -> Iterator[float]:
    """The moment of the impact of each two bodies (n, count, dimension) that hit each other."""
    for i, j in combinations(range(places.shape[1]), 2):
        distance = np.linalg.norm(places[:, i] - places[:, j], axis=1)
        seen = np.isfinite(distance)
        if seen.sum() >= FEWEST:
            try:
                yield knee(times[seen], distance[seen]).time
            except ValueError:
                continue


def followed(angle: NDArray) -> NDArray:
    """Unwrap an angle; NaN where it is missing."""
    seen = np.isfinite(angle)
    followed = angle.copy()
    followed[seen] = np.unwrap(angle[seen])
    return followed


@PREPARATIONS.add(
    "poses",
    columns="x, y and z of each body's centre of mass, body by body",
    unit='of all of them, the system\'s by default: "mm"',
    quaternions="w, x, y and z of each body's unit quaternion, body by body, of either sign",
    angle_noise="{ value, unit }: one standard deviation of how a body is turned, about each axis",
    first_samples="lines through so many (10) give the starting positions and velocities",
    first_curve='"line" (default), or "parabola": of positions of bodies in flight',
)
def poses(table: Table, ready: ReadySystem) -> Preparation:
    """Take places of bodies and unit quaternions w x y z.

    A quaternion and its negative are the same rotation, so that its sign does not count. Fitted is the rotation vector
    from the fitted to the measured orientation, zero where they agree. Straight lines through the first samples give
    the state at the first time, or parabolas for the places of bodies in flight. A body turns by less than half a turn
    from the first of these samples to the last.
    """
    turned = ready.turned
    if turned is None or not turned.orientation:
        raise table.fail("kind", "of what does not turn in space, expected bodies in 3 dimensions")
    names, quaternions = table.names("columns"), table.names("quaternions")
    for key, given, each in (("columns", names, 3), ("quaternions", quaternions, turned.columns)):
        if len(given) != each * turned.count:
            what = f"{each} for each of {turned.count} {'body' if turned.count == 1 else 'bodies'}"
            raise table.fail(key, f"{len(given)} names, expected {each * turned.count}, {what}")
    sigma, scale = table.quantity("angle_noise", "rad"), table.factor("unit", ready.length)
    degree = _CURVES[table.choice("first_curve", _CURVES, "line")]
    count = table.integer("first_samples", default=10, least=degree + 1)

    def runs(times: NDArray, columns: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        places = np.stack([scale * columns[name] for name in names], axis=-1)
        turns = np.stack([columns[name] for name in quaternions], axis=-1).reshape(times.size, -1, 4)
        _require_unit_length(times, turns)
        place, velocity = starts(times, places, names, count, degree)
        angles, spins = [], []
        for body, measured in enumerate(turns.swapaxes(0, 1)):
            first = _first(measured.sum(axis=1), quaternions[4 * body], count, 1)
            rotations = Rotation.from_quat(np.roll(measured[first], -1, axis=1))
            # Along the world's axes the rotation vectors of steady turning lie on a straight line.
            off = (rotations * rotations[0].inv()).as_rotvec()
            at, rate = polyfit(times[first] - times[0], off, 1)
            angles.append((Rotation.from_rotvec(at) * rotations[0]).as_rotvec())
            spins.append(rate)
        lost = np.isnan(turns).any(axis=2, keepdims=True)
        off = np.where(lost, np.nan, np.zeros(3)).reshape(times.size, -1)
        start = {"q0": place, "u0": velocity, "angle0": np.concatenate(angles), "spin0": np.concatenate(spins)}
        # Any orientation where none was measured.
        orientation = np.where(lost, [1.0, 0.0, 0.0, 0.0], turns).reshape(times.size, -1)
        return [PreparedRun(times, np.concatenate([places, off], axis=1), start, {turned.orientation: orientation})]

    of = [""] if turned.count == 1 else [f" of body {body}" for body in range(turned.count)]
    return Preparation(
        runs=runs,
        columns=names + quaternions,
        channels=names + tuple(f"turned{body} about {axis}" for body in of for axis in "xyz"),
        description="each coordinate is one column; orientations are compared by the rotation from the fitted to the "
        "measured one, whatever the sign of a quaternion",
        suggests=("q0", "u0", "angle0", "spin0"),
        angles=len(names),
        angle_noise=sigma,
    )


def starts(times: NDArray, values: NDArray, names: Sequence[str], count: int, degree: int) -> tuple[NDArray, NDArray]:
    """Values and slopes (k,) of the columns (n, k) at the start."""
    found = []
    for name, column in zip(names, values.T, strict=True):
        rows = _first(column, name, count, degree)
        found.append(polyfit(times[rows] - times[0], column[rows], degree)[:2])
    at, rate = np.transpose(found)
    return at, rate


def _first(column: NDArray, name: str, count: int, degree: int) -> NDArray:
    first = np.flatnonzero(np.isfinite(column))[:count]
    if first.size <= degree:
        raise ValueError(f"column {name!r} has fewer than {degree + 1} numbers")
    return first


def _require_unit_length(times: NDArray, turns: NDArray) -> None:
    length = np.linalg.norm(turns, axis=2)
    wrong = np.argwhere(np.abs(length - 1) > OFF_LENGTH)
    if wrong.size:
        row, body = wrong[0]
        raise ValueError(
            f"the quaternion of body {body} at t = {times[row]:.6g} has length {length[row, body]:.6g}, expected 1; "
            "are these its columns, w first?"
        )
