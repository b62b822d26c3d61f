"""Read the names of columns: time, frame, axis, unit."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from diffcontact.host.messages import shown
from diffcontact.scene.units import Unit, is_unit

# Loggers write the name of the run before a colon.
TIME = re.compile(
    r"(.*: *)?((t|time|zeit|temps|tid|tiempo|tempo|seconds?|sek|timestamp)\b.*"
    r"|(t|time|timestamp)_(s|ms|us|min|h|hr|sec\w*|min\w*|hour\w*))",
    re.IGNORECASE | re.DOTALL,
)
# From one row to the next.
SPACING = re.compile(r"(d|delta|\u0394|\u2206)[\s_]?t(ime)?|time[\s_]?(step|interval|diff\w*)|interval", re.IGNORECASE)
FRAME = re.compile(r"(image|picture|bild|slice)\b.*|.*frame.*", re.IGNORECASE | re.DOTALL)
COUNT = re.compile(r"(row|index|nr|no|#|sample|unnamed)\b.*|", re.IGNORECASE | re.DOTALL)
AXIS = re.compile(r"(?:^|(?<=[\s_.\-]))([xyzXYZ])(?=[\s_.\-]|\d|$)")
_LETTER = re.compile(r"([xyz])\w*", re.IGNORECASE)
_CENTRE = re.compile(r"(?:c|pos|cent\w*|mid)([xyz])\d*", re.IGNORECASE)
LENGTHS = ("m", "cm", "mm", "um", "km", "in", "ft", "px")
TIMES = ("s", "ms", "us", "ns", "min", "h", "frame")
FULL_TURN = {"rad": 6.283185307179586, "deg": 360.0, "turn": 1.0}

# As people spell what the table of units has.
_WORDS = {
    "px": "pixel pixels pix",
    "deg": "° degree degrees",
    "rad": "radian radians",
    "turn": "turns rev revs revolution revolutions",
    "s": "sec secs second seconds sek sekunde sekunden",
    "ms": "msec msecs millisecond milliseconds",
    "ns": "nsec nanosecond nanoseconds",
    "us": "µs μs usec microsecond microseconds",
    "min": "mins minute minutes",
    "h": "hr hrs hour hours stunden",
    "m": "meter meters metre metres",
    "cm": "centimeter centimeters centimetre centimetres",
    "mm": "millimeter millimeters millimetre millimetres",
    "um": "µm μm micron microns micrometer micrometers micrometre micrometres",
    "km": "kilometer kilometers kilometre kilometres",
    "in": 'inch inches " ″',
    "ft": "foot feet ' ′",
    "frame": "frames",
}
_SPELT = {word: unit for unit, words in _WORDS.items() for word in words.split()}
_BRACKETS = re.compile(r"\[\s*([^\]]*?)\s*\]|\(\s*([^)]*?)\s*\)")
# Behind a stroke, as in t/ms, a comma, an underscore or "in"; behind a blank where one letter might be a label.
_TOKENS = "|".join(["[cm]?m_s2?", "px_s", *sorted({*LENGTHS, *TIMES, *FULL_TURN, "N", *filter(str.isalpha, _SPELT)})])
_BEHIND = re.compile(rf"(?:\s*/\s*|\s*,\s*|_|\s+in\s+)({_TOKENS})(?=_|$)|\s({_TOKENS})$", re.IGNORECASE)
# Rather a unit than a word on what is measured: "(yd)" and not "(left)". A capital is a label.
_LIKE_UNIT = re.compile(r"[a-zµμ°\"'′″]|[A-Za-zµμ°]{2,3}|[a-zµμ]+/[a-z]+\S*")
# Units of length, time and angle that the table lacks, as words.
_FOREIGN = re.compile(
    r"(yard|mile|nano(?!sec)\w+|deci\w+|day|week|month|year|tick|arc(min|sec)|milliradian|point|count|sample|field)s?|angstrom"
    r"|grad|mrad|gon",
    re.IGNORECASE,
)
# Velocities, accelerations, forces and momenta by their letter, other quantities by their name.
_OTHER = re.compile(
    r"(?:^|[\s_.\-])(?:[vapF]_?\{?[xyz]?\}?|v[\dnt]|(?i:speed|vel\w*|acc\w*|force|likelihood|score|conf\w*|step|omega|error)"
    r"|pixel[xy])$"
)


_QUANTITIES = {
    Unit.parse(unit).dimension: what
    for unit, what in {
        "m/s": "a velocity",
        "px/s": "a velocity",
        "m/s^2": "an acceleration",
        "N": "a force",
        "rad": "an angle",
        "rad/s": "an angular velocity",
        "rad/s^2": "an angular acceleration",
        "s": "a time",
        "Hz": "a frequency",
        "kg": "a mass",
    }.items()
}
# Velocity and speed, acceleration, force, momentum.
_LETTERS = {"v": "a velocity", "s": "a velocity", "a": "an acceleration", "f": "a force", "p": "a momentum"}


@dataclass(frozen=True)
class Headings:
    """Names of columns, and the units in a row of their own."""

    units: Mapping[str, str] = field(default_factory=dict)  # name -> text of that row; empty where there is none

    def unit(self, name: str) -> str:
        """The unit that is stated, as the table spells it, or ""."""
        return _stated(name)[0] or read_unit(self.units.get(name, ""))

    def require_known(self, name: str, what: str, among: tuple[str, ...]) -> None:
        """Refuse a column with an unknown unit, or one of another quantity."""
        unit, unknown = self.unit(name), _stated(name)[1] or self.units.get(name, "")
        if unit in among or not (unit or unknown):
            return
        raise ValueError(
            f"column {shown(name)}: {shown(unit or unknown)} is no unit of {what} that is known, expected "
            f"{', '.join(among)}"
        )

    def quantity(self, name: str) -> str:
        """Name the quantity of a column that is no place; else ""."""
        unit, stem = self.unit(name), core(name)
        if unit:
            return _QUANTITIES.get(Unit.parse(unit).dimension, "" if unit in LENGTHS else f"in {unit}")
        if is_clock(name) or COUNT.fullmatch(name.strip()):
            return "a count of rows or times"
        found = _OTHER.search(stem)
        word = found[0].strip(" _.-") if found else ""
        return next((what for letter, what in _LETTERS.items() if word.lower().startswith(letter)), "")

    def may_be_position(self, name: str) -> bool:
        """Whether a column may be a place, by its name and unit."""
        unit = self.unit(name)
        return (
            unit in LENGTHS
            if unit
            else not (is_clock(name) or COUNT.fullmatch(name.strip()) or _OTHER.search(core(name)))
        )


def axis_of(name: str) -> tuple[str, str]:
    """Split a name into axis, "" without one, and point."""
    point = core(name)
    found = AXIS.search(point) or _LETTER.fullmatch(point) or _CENTRE.fullmatch(point)
    if not found:
        return "", point
    return found[1].lower(), (point[: found.start(1)] + point[found.end(1) :]).strip(" _.-")


def core(name: str) -> str:
    """A name without its unit."""
    return _BEHIND.sub("", _BRACKETS.sub("", name)).strip(" _")


def is_clock(name: str) -> bool:
    """Whether a column holds times or numbers of frames, by its name."""
    return any(pattern.fullmatch(name.strip()) for pattern in (TIME, FRAME)) or is_spacing(name)


def is_spacing(name: str) -> bool:
    """Whether a column holds the times from one row to the next."""
    return SPACING.fullmatch(core(name)) is not None


def is_name(text: str) -> bool:
    """Whether a text names what a column of a recording usually holds."""
    text = text.strip()
    clock = is_clock(text) or (text and COUNT.fullmatch(text))
    return bool(clock or AXIS.search(core(text)) or _stated(text)[0])


def read_unit(text: str) -> str:
    """Read a unit, spelt as in the table of units, or ""."""
    text = re.sub(r"^in\s+", "", text.strip().strip("[]()").strip().replace("²", "^2"))
    for part in (text, text.partition(",")[0].strip(), text.partition(" ")[0]):
        lower = part.lower() if len(part) > 1 else part
        for unit in (_SPELT.get(lower, part), lower):
            if unit and not unit[0].isdigit() and is_unit(unit):
                return unit
    return ""


def _stated(name: str) -> tuple[str, str]:
    """The unit that a name states, or the word in its place."""
    unknown = ""
    for square, round_ in _BRACKETS.findall(name):
        if unit := read_unit(square or round_):
            return unit, ""
        word = square or (round_ if _LIKE_UNIT.fullmatch(round_) or _FOREIGN.fullmatch(round_) else "")
        unknown = unknown or word
    clock = TIME.fullmatch(name.strip()) is not None
    for found in _BEHIND.finditer(name):
        text, alone = found.group(1) or found.group(2), found.group(1) is None
        text = text.replace("_s", "/s").replace("s2", "s^2")
        # A letter may be a label; x_min is the least x, and t_in when something came in.
        label = len(text) == 1 and (alone or (text not in "msh" and text != "N"))
        if label or text in (("in",) if clock else ("min", "h")):
            continue
        if unit := read_unit(text):
            return unit, ""
    # "seconds", as the whole name.
    return _SPELT.get(name.strip().lower(), "") if name.strip().isalpha() else "", unknown
