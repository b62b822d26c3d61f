"""Read TOML tables; messages name file and key of every mistake."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import did_you_mean, shown
from diffcontact.scene.units import SIZES, Unit, factor, sizable

# Of a table like `noise = { value = 0.1, unit = "mm" }`.
QUANTITY_KEYS = {"value": "a number", "unit": "of it, the system's by default"}

_REQUIRED: Any = object()


class MistakesError(ValueError):
    """Several mistakes of one file: a line each."""

    def __init__(self, lines: Sequence[str]):
        super().__init__("\n".join(lines))
        self.lines = tuple(lines)


def gathered(*reads: Callable[[], Any]) -> list[Any]:
    """What each of these returns; a `MistakesError` of all that raise, the error itself of one."""
    found, mistakes = [], []
    for read in reads:
        try:
            found.append(read())
        except ValueError as error:
            mistakes.append(error)
    raise_all(mistakes)
    return found


def raise_all(mistakes: Sequence[ValueError]) -> None:
    """Raise the only one, or a `MistakesError` of several."""
    if len(mistakes) == 1:
        raise mistakes[0]
    if mistakes:
        raise MistakesError([line for error in mistakes for line in getattr(error, "lines", [str(error)])])


class Table:
    """Typed access to the keys of a table of a scene.

    `file` and `path`, the tables that lead here, begin every message; `units` have a meaning of their own in this
    document, such as a pixel of known length.
    """

    def __init__(
        self, data: Mapping[str, Any], file: str, path: tuple[str, ...] = (), units: Mapping[str, Unit] | None = None
    ):
        self.data, self.file, self.path, self.units = data, file, path, dict(units or {})

    def __contains__(self, key: str) -> bool:
        return key in self.data

    def expect(self, *known: str) -> None:
        """Refuse every key that is not among the known ones."""
        wrong = [self.fail(key, f"unknown key; {did_you_mean(key, known)}") for key in self.data if key not in known]
        raise_all(wrong)

    def fail(self, key: str, message: str) -> ValueError:
        """The error for a key, ready to be raised."""
        return ValueError(f"{self.at(key)}: {message}")

    def at(self, key: str) -> str:
        """File and dotted path of a key."""
        return f"{self.file}: {'.'.join((*self.path, key if len(key) < 80 else shown(key)))}"

    def get(self, key: str, kind: type | tuple[type, ...], expected: str, default: Any = _REQUIRED) -> Any:
        """Value of a key, of a certain type; a bool is no number."""
        if key not in self.data:
            if default is _REQUIRED:
                raise self.fail(key, f"missing, expected {expected}")
            return default
        value = self.data[key]
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise self.fail(key, f"{shown(value)}, expected {expected}")
        return value

    def table(self, key: str, default: Any = _REQUIRED) -> Table:
        """A table within."""
        value = self.get(key, Mapping, "a table", default)
        return Table(value, self.file, (*self.path, key), self.units)

    def text(self, key: str, default: Any = _REQUIRED) -> str:
        """A string."""
        return self.get(key, str, "a text", default)

    def flag(self, key: str, default: Any = _REQUIRED) -> bool:
        """true or false."""
        return self.get(key, bool, "true or false", default)

    def file_name(self, key: str, default: Any = _REQUIRED) -> str:
        """The name of a file or folder."""
        return self.file_names(key, (self.text(key, default),))[0]

    def number(self, key: str, default: Any = _REQUIRED, *, above: float | None = None) -> float:
        """A finite number."""
        (value,) = self._floats(key, [self.get(key, (int, float), "a number", default)])
        if not np.isfinite(value):
            raise self.fail(key, f"{value}, expected a finite number")
        if above is not None and not value > above:
            raise self.fail(key, f"{value}, expected above {above:g}")
        return value

    def integer(self, key: str, default: Any = _REQUIRED, *, least: float = -np.inf, most: int = 10**6) -> int:
        """A whole number within bounds."""
        value = self.get(key, int, "a whole number", default)
        if not least <= value <= most:
            bound = f"at least {least}" if value < least else f"at most {most}"
            raise self.fail(key, f"{shown(value)}, expected {bound}")
        return value

    def numbers(self, key: str, default: Any = _REQUIRED) -> NDArray:
        """Number or (nested) list of numbers as an array, with inf."""
        expected = "a number or a list of numbers"
        value = self.get(key, (int, float, list), expected, default)
        leaves = [value]
        while any(isinstance(leaf, list) for leaf in leaves):
            leaves = [part for leaf in leaves for part in (leaf if isinstance(leaf, list) else [leaf])]
        if any(isinstance(leaf, bool) or not isinstance(leaf, int | float) for leaf in leaves):
            raise self.fail(key, f"{shown(value)}, expected {expected}")
        self._floats(key, leaves)
        try:
            return np.asarray(value, float)
        except ValueError:
            raise self.fail(key, f"{shown(value)}, expected {expected}, as long as each other") from None

    def _floats(self, key: str, values: Iterable[int | float]) -> list[float]:
        """Numbers as floats that can be squared, or infinite."""
        floats = []
        for value in values:
            # A whole number may have more digits than a float has room for.
            number = float(value) if isinstance(value, float) or value.bit_length() < 1000 else np.nan
            if not (sizable(number) or np.isinf(number)):
                raise self.fail(key, f"{shown(value)}, expected {'a number' if value != value else SIZES}")
            floats.append(number)
        return floats

    def names(self, key: str) -> tuple[str, ...]:
        """A list of strings, at least one and none of them twice."""
        value = self.get(key, list, "a list of names")
        if not value or not all(isinstance(name, str) for name in value):
            raise self.fail(key, f"{shown(value)}, expected a list of names")
        for i, name in enumerate(value):
            if name in value[:i]:
                raise self.fail(key, f"{shown(name)} is there twice, expected every name once")
        return tuple(value)

    def file_names(self, key: str, names: tuple[str, ...] | None = None) -> tuple[str, ...]:
        """A list of names of files."""
        names = self.names(key) if names is None else names
        for name in names:
            if not name.strip() or "\0" in name:
                raise self.fail(key, f"{shown(name)}, expected the name of a file or folder")
        return names

    def choice(self, key: str, known: Iterable[str], default: Any = _REQUIRED) -> str:
        """One of the known names."""
        value, known = self.text(key, default), tuple(known)
        if value not in known:
            raise self.fail(key, f"no such {key} {shown(value)}; {did_you_mean(value, known)}")
        return value

    def factor(self, key: str, wanted: str, default: str = "") -> float:
        """Factor from the unit at the key, or the default."""
        unit = self.text(key, default or wanted)
        try:
            return factor(unit, wanted, self.units)
        except ValueError as error:
            raise self.fail(key, f"{error}{self._missing_scale(unit, wanted)}") from None

    def _missing_scale(self, unit: str, wanted: str) -> str:
        """Name the key that gives pixels a length or frames a duration."""
        try:
            given, other = (dict(Unit.parse(text, self.units).dimension) for text in (unit, wanted))
        except ValueError:
            return ""
        if "px" in given and "px" not in other:
            return "; data.scale = { value = 0.5, unit = 'mm/px' } would say how long a pixel is"
        if "frame" in given and "frame" not in other:
            return "; data.rate = 240 would say that there are 240 frames a second"
        return ""

    def quantity(self, key: str, unit: str, default: Any = _REQUIRED, *, zero: bool = False) -> float:
        """Read `{value, unit}` in `unit`, above 0, or also 0."""
        if key not in self.data and default is not _REQUIRED:
            return default
        entry = self.table(key)
        entry.expect(*QUANTITY_KEYS)
        value = entry.number("value") * entry.factor("unit", unit)
        if value < 0 or (value == 0 and not zero):
            raise self.fail(key, f"{value} {unit}, expected {'at least' if zero else 'above'} 0")
        return value


@dataclass(frozen=True)
class Kind:
    """A kind of table: its reader, and key -> meaning."""

    read: Callable[..., Any]
    keys: Mapping[str, str]

    def __call__(self, table: Table, *more: Any) -> Any:
        """Read a table that has no other keys."""
        table.expect(*self.keys)
        return self.read(table, *more)


class Kinds(dict[str, Kind]):
    """Kinds of one table by name; `what` explains the key `kind`."""

    def __init__(self, what: str):
        super().__init__()
        self.what = what

    def add(self, name: str, **keys: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Register a function under a name, with the meaning of each key."""

        def registered(read):
            self[name] = Kind(read, {"kind": self.what, **keys})
            return read

        return registered
