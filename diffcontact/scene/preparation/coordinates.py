"""One column per coordinate, taken as it is; of bodies in space also the four of a quaternion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.polynomial.polynomial import polyfit
from numpy.typing import NDArray
from scipy.spatial.transform import Rotation

from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import ReadySystem
from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation.run import Preparation, PreparedRun


@dataclass(frozen=True)
class Coordinates(Preparation):
    """One column per coordinate, taken as it is, and for discs that turn one per angle.

    Starting positions and velocities come from straight lines through the first samples. An angle counts from the x
    axis towards the y axis; one that is written modulo a turn is followed beyond it, as long as a disc turns by less
    than half a turn from one sample to the next.
    """

    names: tuple[str, ...]
    scale: float
    first_samples: int
    angle_names: tuple[str, ...] = ()
    angle_scale: float = 1.0
    angle_sigma: float = 0.0

    KEYS: ClassVar[Mapping[str, str]] = {
        "columns": "one for each coordinate of the system, in its order",
        "unit": 'of all of them, the system\'s by default: "mm"',
        "first_samples": "straight lines through so many (10) give the starting positions and velocities",
        "angles": "one column for each disc that spins",
        "angle_unit": 'of these: "rad" (default), "deg"',
        "angle_noise": "{ value, unit }: one standard deviation of an angle",
    }

    @classmethod
    def from_table(cls, table: Table, ready: ReadySystem) -> Coordinates:
        """Read the scene's [preparation] table."""
        table.expect("kind", *cls.KEYS)
        count = table.integer("first_samples", default=10, least=2)
        names, scale = table.names("columns"), table.factor("unit", ready.length)
        if "angles" not in table:
            for key in ("angle_unit", "angle_noise"):
                if key in table:
                    raise table.fail(key, "without preparation.angles, expected the columns of the angles with it")
            return cls(names, scale, count)
        angles = table.names("angles")
        if ready.turned is None:
            raise table.fail("angles", "of what has none, expected balls in 2 dimensions with spin = true")
        if ready.turned.columns != 1:
            raise table.fail("angles", "of what turns in space, expected the preparation 'poses' with quaternions")
        if 2 * len(angles) != len(names):
            raise table.fail("angles", f"{len(angles)} columns, expected {len(names) // 2}, one for each disc")
        sigma = table.quantity("angle_noise", "rad")
        return cls(names, scale, count, angles, table.factor("angle_unit", "rad"), sigma)

    @property
    def suggests(self) -> tuple[str, ...]:
        return ("q0", "u0", "angle0", "spin0") if self.angle_names else ("q0", "u0")

    @property
    def angles(self) -> int:
        return len(self.angle_names)

    @property
    def angle_noise(self) -> float:
        return self.angle_sigma

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names + self.angle_names

    @property
    def channels(self) -> tuple[str, ...]:
        return self.columns

    @property
    def description(self) -> str:
        followed = ", angles followed beyond full turns" if self.angle_names else ""
        return f"each coordinate is one column{followed}"

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        places = [self.scale * measurements.columns[name] for name in self.names]
        angles = [followed(self.angle_scale * measurements.columns[name]) for name in self.angle_names]
        values, d = np.stack(places + angles, axis=-1), len(self.names)
        at, rate = _starts(times, values, self.columns, self.first_samples, 1, measurements.path)
        start = {"q0": at[:d], "u0": rate[:d]}
        if self.angle_names:
            start |= {"angle0": at[d:], "spin0": rate[d:]}
        return (PreparedRun(measurements.path, times, values, start, sha256=measurements.sha256),)


def followed(angle: NDArray) -> NDArray:
    """An angle without its jumps by full turns; NaN where it is missing."""
    seen = np.isfinite(angle)
    followed = angle.copy()
    followed[seen] = np.unwrap(angle[seen])
    return followed


# A measured quaternion is of length 1 but for the digits with which it was written.
_LENGTH = 0.01
_SPACE = 3
_CURVES = {"line": 1, "parabola": 2}


@dataclass(frozen=True)
class Poses(Preparation):
    """Places of bodies in space and unit quaternions w x y z, from the body's frame to that of the places.

    A quaternion and its negative are the same rotation; which of them was written is not looked at. What is fitted is
    the rotation vector from the fitted to the measured orientation, zero where they agree. Straight lines through the
    first samples give the state at the first time, or parabolas for the places of bodies in flight. A body turns by
    less than half a turn from the first of these samples to the last.
    """

    names: tuple[str, ...]
    scale: float
    quaternions: tuple[str, ...]
    sigma: float
    first_samples: int
    degree: int
    orientation: str

    suggests = ("q0", "u0", "angle0", "spin0")
    KEYS: ClassVar[Mapping[str, str]] = {
        "columns": "x, y and z of each body's centre of mass, body by body",
        "unit": 'of all of them, the system\'s by default: "mm"',
        "quaternions": "w, x, y and z of each body's unit quaternion, body by body, of either sign",
        "angle_noise": "{ value, unit }: one standard deviation of how a body is turned, about each axis",
        "first_samples": "lines through so many (10) give the starting positions and velocities",
        "first_curve": '"line" (default), or "parabola": of positions of bodies in flight',
    }

    @classmethod
    def from_table(cls, table: Table, ready: ReadySystem) -> Poses:
        """Read the scene's [preparation] table."""
        table.expect("kind", *cls.KEYS)
        turned = ready.turned
        if turned is None or not turned.orientation:
            raise table.fail("kind", "of what does not turn in space, expected bodies in 3 dimensions")
        names, quaternions = table.names("columns"), table.names("quaternions")
        for key, given, each in (("columns", names, _SPACE), ("quaternions", quaternions, turned.columns)):
            if len(given) != each * turned.count:
                what = "body" if turned.count == 1 else "bodies"
                raise table.fail(
                    key, f"{len(given)} names, expected {each * turned.count}, {each} for each of {turned.count} {what}"
                )
        sigma = table.quantity("angle_noise", "rad")
        degree = _CURVES[table.choice("first_curve", _CURVES, "line")]
        first = table.integer("first_samples", default=10, least=degree + 1)
        return cls(names, table.factor("unit", ready.length), quaternions, sigma, first, degree, turned.orientation)

    @property
    def angles(self) -> int:
        return len(self.names)

    @property
    def angle_noise(self) -> float:
        return self.sigma

    @property
    def columns(self) -> tuple[str, ...]:
        return self.names + self.quaternions

    @property
    def channels(self) -> tuple[str, ...]:
        count = len(self.names) // _SPACE
        of = [""] if count == 1 else [f" of body {body}" for body in range(count)]
        return self.names + tuple(f"turned{body} about {axis}" for body in of for axis in "xyz")

    @property
    def description(self) -> str:
        return (
            "each coordinate is one column; orientations are compared by the rotation from the fitted to the measured "
            "one, whatever the sign of a quaternion"
        )

    def __call__(self, times: NDArray, measurements: Measurements) -> tuple[PreparedRun, ...]:
        places = np.stack([self.scale * measurements.columns[name] for name in self.names], axis=-1)
        turns = np.stack([measurements.columns[name] for name in self.quaternions], axis=-1).reshape(times.size, -1, 4)
        _require_unit_length(times, turns, measurements.path)
        place, velocity = _starts(times, places, self.names, self.first_samples, self.degree, measurements.path)
        angles, spins = [], []
        for body, quaternions in enumerate(turns.swapaxes(0, 1)):
            lost = np.isnan(quaternions).any(axis=1)
            name = self.quaternions[4 * body]
            first = _first(np.where(lost, np.nan, 0.0), name, self.first_samples, 1, measurements.path)
            turned = Rotation.from_quat(np.roll(quaternions[first], -1, axis=1))
            # Along the world's axes the rotation vectors of steady turning lie on a straight line.
            off = np.zeros((times.size, 3))
            off[first] = (turned * turned[0].inv()).as_rotvec()
            at, rate = polyfit(times[first] - times[0], off[first], 1)
            angles.append((Rotation.from_rotvec(at) * turned[0]).as_rotvec())
            spins.append(rate)
        lost = np.isnan(turns).any(axis=2, keepdims=True)
        off = np.where(lost, np.nan, np.zeros(3)).reshape(times.size, -1)
        start = {
            "q0": place,
            "u0": velocity,
            "angle0": np.concatenate(angles),
            "spin0": np.concatenate(spins),
        }
        # Any orientation where none was measured.
        orientation = np.where(lost, [1.0, 0.0, 0.0, 0.0], turns).reshape(times.size, -1)
        values, given = np.concatenate([places, off], axis=1), {self.orientation: orientation}
        return (PreparedRun(measurements.path, times, values, start, given, sha256=measurements.sha256),)


def _starts(
    times: NDArray, values: NDArray, names: Sequence[str], count: int, degree: int, path: str
) -> tuple[NDArray, NDArray]:
    """(k,) values and slopes at the first time of polynomials through the first samples of the columns (n, k)."""
    found = []
    for name, column in zip(names, values.T, strict=True):
        rows = _first(column, name, count, degree, path)
        found.append(polyfit(times[rows] - times[0], column[rows], degree)[:2])
    at, rate = np.transpose(found)
    return at, rate


def _first(column: NDArray, name: str, count: int, degree: int, path: str) -> NDArray:
    """The rows of the first `count` samples, enough for a polynomial."""
    first = np.flatnonzero(np.isfinite(column))[:count]
    if first.size <= degree:
        raise ValueError(f"{path}: column {name!r} has fewer than {degree + 1} numbers")
    return first


def _require_unit_length(times: NDArray, turns: NDArray, path: str) -> None:
    length = np.linalg.norm(turns, axis=2)
    wrong = np.argwhere(np.abs(length - 1) > _LENGTH)
    if wrong.size:
        row, body = wrong[0]
        raise ValueError(
            f"{path}: the quaternion of body {body} at t = {times[row]:.6g} has length {length[row, body]:.6g}, "
            "expected 1; are these its columns, w first?"
        )
