"""Messages: how they are printed, a value shown short, and what a wrong name was perhaps meant to be."""

from __future__ import annotations

import difflib
import reprlib
import sys
from collections.abc import Iterable
from typing import Any

# More names than this are not listed.
_MOST = 25
# Two names are near if this part of their letters is common to both; of two letters, as in q0, one is enough.
_NEAR, _NEAR_IF_SHORT = 0.6, 0.5


def did_you_mean(name: str, known: Iterable[str], listed: str = "known are") -> str:
    """What a wrong name was perhaps meant to be, or the right ones; capitals make no difference."""
    known = tuple(known)
    folded = {one.lower(): one for one in known}
    cutoff = _NEAR if len(name) > 2 else _NEAR_IF_SHORT
    near = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=cutoff)
    if near:
        return f"did you mean {shown(folded[near[0]])}?"
    return f"{listed} {', '.join(map(shown, known[:_MOST])) or 'nothing'}"


def say(*lines: str, error: bool = False) -> None:
    """Print lines; names and titles that they quote begin no line and do not speak to the terminal."""
    text = "\n".join(map(printable, lines))
    if error:
        print(text, file=sys.stderr, flush=True)
    else:
        print(text, flush=True)


def printable(text: str) -> str:
    """A text in one line without control characters: ends of lines and tabs as spaces, others as Python writes them.

    Example:
        >>> printable("height\\t[mm]\\r\\n"), printable("\\x1b[31mred\\u202e")
        ('height [mm]  ', '\\\\x1b[31mred\\\\u202e')
    """
    if text.isprintable():
        return text

    def harmless(letter: str) -> str:
        # Joiners are part of how words are spelled, in Persian for instance.
        if letter.isprintable() or letter in "\u200c\u200d":
            return letter
        return " " if letter.isspace() else letter.encode("unicode_escape").decode("ascii")

    return "".join(map(harmless, text))


def one_line(text: str) -> str:
    """A text on one line, whatever names it quotes: the headers of spreadsheets have line breaks."""
    return " ".join(printable(text).split())


def shown(value: Any) -> str:
    """A value as messages show it: short, whatever it is."""
    return _SHORT.repr(value)


class _Short(reprlib.Repr):
    def __init__(self):
        super().__init__()
        self.maxstring = self.maxother = 80
        self.maxlong, self.maxlevel = 40, 4

    def repr_int(self, x: int, level: int) -> str:
        # Python refuses to write out a number of more than 4300 digits.
        return super().repr_int(x, level) if x.bit_length() < 10_000 else f"a number of {x.bit_length()} bits"


_SHORT = _Short()
