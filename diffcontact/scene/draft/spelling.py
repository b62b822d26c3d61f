"""Numbers as people and programs spell them: those that are read, and those that must not be taken for lost samples."""

from __future__ import annotations

import re

from diffcontact.host.messages import shown
from diffcontact.scene.numerals import moment
from diffcontact.scene.units import is_unit

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
    """Whether a field is a number that can be read; the numbers of a comma-separated text have no commas.

    Example:
        >>> is_plain("-1,5", ";"), is_plain("-1,5", ","), is_plain("1,234.5", ";")
        (True, False, False)
    """
    if ":" in field and delimiter != ":":
        return _is_moment(field)
    return bool(_NUMBER.fullmatch(field)) and not (delimiter == "," and "," in field)


def _is_moment(field: str) -> bool:
    try:
        moment(field)
    except ValueError:
        return False
    return True


def has_decimal_comma(field: str) -> bool:
    """Whether a field is a number with a comma for its decimal point.

    Example:
        >>> has_decimal_comma("-1,5"), has_decimal_comma("1.5")
        (True, False)
    """
    return bool(_COMMA.fullmatch(field))


def is_meant(field: str, delimiter: str) -> bool:
    """Whether a field is a number for whoever wrote it.

    Example:
        >>> [is_meant(text, ";") for text in ("1,234.5", "\\u22121.5", "3 mm", "-", "2026-01-02", "1A")]
        [True, True, True, False, False, False]
    """
    return is_plain(field, delimiter) or _mistake(field.strip()) != ""


def require_word(field: str) -> None:
    """Refuse what stands in a column of numbers, is none that can be read, and yet no word for a lost sample.

    Raises:
        ValueError: it has digits; the end of a message says what is wrong with them.

    Example:
        >>> require_word("not found")
        >>> require_word("1,234.5")
        Traceback (most recent call last):
        ValueError: '1,234.5' has a separator of thousands, expected digits alone
    """
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
