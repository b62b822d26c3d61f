"""Numbers as a file or an option spells them: digits 0 to 9, a point, an exponent, and a size that can be squared."""

from __future__ import annotations

import re
from datetime import date

from diffcontact.host.messages import shown

# Beyond them squares, and products of a few, leave the range of a float64 (1e-308 to 1e308).
SMALLEST, LARGEST = 1e-40, 1e40
SIZES = f"0 or a size from {SMALLEST:g} to {LARGEST:g}"

_WHOLE = re.compile(r"[+-]?\d{1,18}", re.ASCII)
_MOMENT = re.compile(r"(?:(\d{4}-\d\d-\d\d)[T ])?(\d{1,3}):([0-5]\d):([0-5]\d(?:[.,]\d+)?)Z?", re.ASCII)
_NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)


def number(text: str) -> float:
    """The number that a text spells; Python's `float` would take 2_00.1, nan and the digits of every script.

    Raises:
        ValueError: what it is instead, or what was expected, for the end of a message.

    Example:
        >>> number(" -1.5e3 ")
        -1500.0
        >>> number("2_00.1")
        Traceback (most recent call last):
        ValueError: '2_00.1' is not a number
        >>> number("nan")
        Traceback (most recent call last):
        ValueError: 'nan', expected a finite number
    """
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
    """Seconds that a text spells as hours, minutes and seconds, since midnight or, with a date, since 1970.

    Raises:
        ValueError: it spells none.

    Example:
        >>> moment("00:01:02,5"), moment("1970-01-02T00:00:00.25Z")
        (62.5, 86400.25)
    """
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{shown(text.strip())} is no time of a clock")
    days = (date.fromisoformat(found[1]) - date(1970, 1, 1)).days if found[1] else 0
    return 86400.0 * days + 3600 * int(found[2]) + 60 * int(found[3]) + float(found[4].replace(",", "."))


def is_number(text: str) -> bool:
    """Whether `number` takes a text.

    Example:
        >>> is_number("-1.5e3"), is_number("-"), is_number("nan")
        (True, False, False)
    """
    try:
        number(text)
    except ValueError:
        return False
    return True


def whole(text: str) -> int:
    """The whole number that a text spells, of 18 digits at most.

    Raises:
        ValueError: as `number`.

    Example:
        >>> whole("250")
        250
    """
    if _WHOLE.fullmatch(text.strip()) is None:
        raise ValueError(f"{shown(text.strip())} is not a whole number")
    return int(text)


def sizable(value: float) -> bool:
    """Whether a number is 0 or of a size that can be squared; NaN is not.

    Example:
        >>> sizable(0.0), sizable(-9.81), sizable(1e300), sizable(1e-320), sizable(float("nan"))
        (True, True, False, False, False)
    """
    return value == 0.0 or SMALLEST <= abs(value) <= LARGEST
