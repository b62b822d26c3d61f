"""Units of a scene, and numbers as people spell them.

Units are products and powers of an explicit table:

value in SI = factor * value in the unit            mm -> 1e-3 m, deg -> pi/180 rad, g/s^2 -> 1e-3 kg/s^2
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import did_you_mean, shown

# name -> (factor to SI, powers of length, mass, time, angle); counts are numbers, a pixel is a length of its own, a
# frame of a film a time of its own. An angle is no number: 5 Hz, as a spin, might be 5 rad/s or 5 turns a second.
_BASE: dict[str, tuple[float, dict[str, int]]] = {
    **{"1": (1.0, {}), "%": (1e-2, {}), "px": (1.0, {"px": 1}), "frame": (1.0, {"frame": 1})},
    **{name: (size, {"rad": 1}) for name, size in {"rad": 1.0, "deg": math.pi / 180, "turn": 2 * math.pi}.items()},
    **{name: (size, {"m": 1}) for name, size in {"m": 1.0, "um": 1e-6, "mm": 1e-3, "cm": 1e-2, "km": 1e3}.items()},
    **{name: (size, {"m": 1}) for name, size in {"in": 0.0254, "ft": 0.3048}.items()},
    **{name: (size, {"kg": 1}) for name, size in {"kg": 1.0, "g": 1e-3, "mg": 1e-6}.items()},
    **{name: (size, {"s": 1}) for name, size in {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}.items()},
    **{name: (size, {"s": 1}) for name, size in {"min": 60.0, "h": 3600.0}.items()},
    **{"Hz": (1.0, {"s": -1}), "rpm": (2 * math.pi / 60.0, {"rad": 1, "s": -1})},
    **{name: (size, {"kg": 1, "m": 1, "s": -2}) for name, size in {"N": 1.0, "mN": 1e-3}.items()},
    "J": (1.0, {"kg": 1, "m": 2, "s": -2}),
}
_FACTOR = re.compile(r"([^\s*/^]+)(?:\^(-?[0-9]+))?")
_LARGEST_FACTOR = 1e30


@dataclass(frozen=True)
class Unit:
    """A unit with its factor to SI and its dimension."""

    symbol: str  # as written; "1" for a plain number
    factor: float  # value in SI over value in this unit
    dimension: tuple[tuple[str, int], ...]  # sorted (base unit, power) pairs

    @classmethod
    def parse(cls, text: str, local: Mapping[str, Unit] | None = None) -> Unit:
        """Read a product of table entries and integer powers, as `kg*m/s^2`; `local` has other meanings."""
        symbol = text.strip() or "1"
        factor, powers = 1.0, {}
        for operator, part in re.findall(r"([*/]?)([^*/]*)", f"*{symbol}")[:-1]:
            found = _FACTOR.fullmatch(part.strip())
            if found is None or found.group(1) not in _BASE:
                raise ValueError(f"unknown unit {shown(symbol)}; {did_you_mean(part.strip(), _BASE)}")
            written = found.group(2) or "1"
            # One digit: beyond it there is no quantity, and soon no number.
            if len(written.lstrip("-")) > 1:
                raise ValueError(f"unit {shown(symbol)}: power {shown(written)[1:-1]}, expected at most 9")
            power = int(written) * (-1 if operator == "/" else 1)
            known = (local or {}).get(found.group(1))
            scale, dimension = (known.factor, dict(known.dimension)) if known else _BASE[found.group(1)]
            factor *= scale**power
            for base, exponent in dimension.items():
                powers[base] = powers.get(base, 0) + power * exponent
        if not 1 / _LARGEST_FACTOR <= factor <= _LARGEST_FACTOR:
            raise ValueError(f"unit {shown(symbol)}: {factor:g} in SI, expected at most {_LARGEST_FACTOR:g} from 1")
        return cls(symbol, factor, tuple(sorted((base, p) for base, p in powers.items() if p)))


def _takes(read: Callable[[str], Any], text: str) -> bool:
    try:
        read(text)
    except ValueError:
        return False
    return True


def is_unit(text: str) -> bool:
    """Tell whether `Unit.parse` accepts a text, without its slow message."""
    for part in re.split(r"[*/]", text.strip() or "1"):
        found = _FACTOR.fullmatch(part.strip())
        if found is None or found.group(1) not in _BASE:
            return False
    return _takes(Unit.parse, text)


def factor(text: str, expected: str, local: Mapping[str, Unit] | None = None) -> float:
    """Factor from the unit `text` to the unit `expected`; `local` as in `Unit.parse`."""
    given, wanted = Unit.parse(text, local), Unit.parse(expected, local)
    if given.dimension != wanted.dimension:
        missing = ""
        if given.dimension == tuple((base, power) for base, power in wanted.dimension if base != "rad"):
            as_in = ", ".join(repr(wanted.symbol.replace("rad", angle)) for angle in ("rad", "deg", "turn"))
            missing = f": of no angle, expected as in {as_in}"
        raise ValueError(f"unit {shown(given.symbol)} cannot be converted to {wanted.symbol!r}{missing}")
    return given.factor / wanted.factor


# Beyond them squares, and products of a few, leave the range of a float64 (1e-308 to 1e308).
SMALLEST, LARGEST = 1e-40, 1e40
SIZES = f"0 or a size from {SMALLEST:g} to {LARGEST:g}"

_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_MOMENT = re.compile(r"(?:(\d{4}-\d\d-\d\d)[T ])?(\d{1,3}):([0-5]\d):([0-5]\d(?:[.,]\d+)?)Z?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def number(text: str) -> float:
    """Read a number; `float` would accept 2_00.1, nan and foreign digits. Errors end a message."""
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{shown(text.strip())} is not a number") from None
    if not text.isascii() or "_" in text:
        raise ValueError(f"{shown(text.strip())} is not a number")
    if not sizable(value):
        finite = _NOT_FINITE.fullmatch(text.strip()) is None
        raise ValueError(f"{shown(text.strip())}, expected {SIZES if finite else 'a finite number'}")
    return value


def moment(text: str) -> float:
    """Seconds of a clock time, since midnight or, dated, since 1970."""
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{shown(text.strip())} is no time of a clock")
    days = (date.fromisoformat(found[1]) - date(1970, 1, 1)).days if found[1] else 0
    return 86400.0 * days + 3600 * int(found[2]) + 60 * int(found[3]) + float(found[4].replace(",", "."))


def is_number(text: str) -> bool:
    """Whether `number` takes a text."""
    return _takes(number, text)


def whole(text: str) -> int:
    """The whole number that a text spells, of 18 digits at most."""
    if _WHOLE.fullmatch(text.strip()) is None:
        raise ValueError(f"{shown(text.strip())} is not a whole number")
    return int(text)


RANGE = "LOW:HIGH:COUNT"


def read_values(at: str, text: str, most: int) -> NDArray:
    """Read LOW:HIGH:COUNT, at most `most`; errors begin with `at`."""
    try:
        low, high, count = text.split(":")
        low, high, count = number(low), number(high), whole(count)
    except ValueError:
        low, high, count = 0.0, 0.0, 0
    if count < 2:
        raise ValueError(f"{at}: {shown(text.strip())}, expected {RANGE}, two numbers and a count of at least 2")
    if count > most:
        raise ValueError(f"{at}: {count} values, expected at most {most}")
    return np.linspace(low, high, count)


def sizable(value: float) -> bool:
    """Tell whether a number is 0 or can be squared."""
    return value == 0.0 or SMALLEST <= abs(value) <= LARGEST


_PLAIN = r"[+-]?(\d+([.,]\d*)?|[.,]\d+)([eE][+-]?\d+)?"
_NUMBER = re.compile(rf"\s*{_PLAIN}\s*")
_COMMA = re.compile(r"\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*")
# As typesetting has them: hyphens, dashes, minus signs, a wide one.
_MINUS = "\u2010\u2011\u2012\u2013\u2014\u2212\ufe63\uff0d"
_SIGNED = re.compile(rf"[{_MINUS}]\s*{_PLAIN}")
# In groups of three, as 1,234.5 and 12'345 and, with blanks that keep a line together, 1 234,5.
_GROUPED = re.compile(r"[+-]?\d{1,3}([,.' \u2019\u00a0\u2009\u202f])\d{3}(\1\d{3})*([.,]\d*)?")
_MEASURED = re.compile(rf"{_PLAIN}\s*(?P<unit>[^\d\s]\S*)")
# Behind # spreadsheets write errors, as #DIV/0!
_DIGIT = re.compile(r"[^#]*\d")


def is_plain(field: str, delimiter: str) -> bool:
    """Tell whether a field is a readable number, by its delimiter."""
    if ":" in field and delimiter != ":":
        return _takes(moment, field)
    return bool(_NUMBER.fullmatch(field)) and not (delimiter == "," and "," in field)


def has_decimal_comma(field: str) -> bool:
    """Tell whether a field is a number with a decimal comma."""
    return bool(_COMMA.fullmatch(field))


def is_meant(field: str, delimiter: str) -> bool:
    """Whether a field is a number for whoever wrote it."""
    return is_plain(field, delimiter) or _mistake(field.strip()) != ""


def require_word(field: str) -> None:
    """Refuse a field with digits that cannot be read, and say what is wrong with them."""
    if _DIGIT.match(field):
        raise ValueError(f"{shown(field)} {_mistake(field) or 'is not a number, expected one or an empty field'}")


def _mistake(text: str) -> str:
    """What keeps a number from being read, or ""."""
    if _SIGNED.fullmatch(text):
        return f"begins with U+{ord(text[0]):04X}, expected the minus sign '-'"
    if _NUMBER.fullmatch(text):
        return "has a comma in a text whose fields are between commas, expected a point"
    if _GROUPED.fullmatch(text):
        return "has a separator of thousands, expected digits alone"
    measured = _MEASURED.fullmatch(text)
    if measured and is_unit(measured["unit"]):
        return f"has the unit {measured['unit']!r}, expected it in the header"
    return ""
