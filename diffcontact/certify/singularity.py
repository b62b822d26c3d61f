"""The reasons why a motion may have no derivative."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Singularity(IntEnum):
    """Why a motion may have no derivative; 0 is none.

    Example:
        >>> Singularity.GRAZING.message
        'a contact is hardly touched, or hardly missed: the derivative grows like 1 / velocity and ends at the touch'
    """

    NONE = 0
    GRAZING = 1
    ZENO_END = 2
    SIMULTANEOUS = 3
    THRESHOLD = 4
    UNRESOLVED = 5
    SLOW = 6
    UNLOADED = 7
    AT_THE_END = 8
    CONE_EDGE = 9
    GRIPPED = 10
    SLIP_GRAZES = 11
    NOT_UNIQUE = 12
    UNDETERMINED = 13
    KINK = 14
    STAYED = 15

    @property
    def harmless(self) -> bool:
        """Whether it only says what a derivative does not depend on, and leaves it as it is."""
        return self in (Singularity.NONE, Singularity.GRIPPED, Singularity.NOT_UNIQUE, Singularity.STAYED)

    @property
    def one_sided(self) -> bool:
        """Whether, where it is met exactly, a motion has derivatives of one side only."""
        return self in _ONE_SIDED

    @property
    def message(self) -> str:
        """What happened, and what it means for the derivative."""
        return _MESSAGES[self]


_ONE_SIDED = (
    Singularity.GRAZING,
    Singularity.SIMULTANEOUS,
    Singularity.UNLOADED,
    Singularity.CONE_EDGE,
    Singularity.SLIP_GRAZES,
    Singularity.UNDETERMINED,
    Singularity.KINK,
)

# The worst first.
_MESSAGES = {
    Singularity.SIMULTANEOUS: "coupled contacts are struck at once and their order matters: one-sided derivatives "
    "differ",
    Singularity.UNLOADED: "bodies touch at rest without a load: opening and pressing differ, and so do one-sided "
    "derivatives",
    Singularity.GRAZING: "a contact is hardly touched, or hardly missed: the derivative grows like 1 / velocity and "
    "ends at the touch",
    Singularity.UNDETERMINED: "contacts share load and friction in more than one way, and the motion depends on it: "
    "rigid bodies do not tell",
    Singularity.CONE_EDGE: "an impact leaves at the edge between grip and slip: friction matters on one side only, "
    "and so one-sided derivatives differ",
    Singularity.SLIP_GRAZES: "a slip all but ends, or ends with a vanishing rate: beside it there is a motion that "
    "sticks, or does not",
    Singularity.THRESHOLD: "a small change would turn this bounce into rest, or back",
    Singularity.KINK: "the restitution jumps or has a kink at this speed of approach: one-sided derivatives differ",
    Singularity.ZENO_END: "a bounce too slow to be followed ends in rest: the rest of its Zeno sequence is left out, "
    "O(h)",
    Singularity.SLOW: "a single impact would bounce, but not for a whole step: it is taken as inelastic, O(h)",
    Singularity.AT_THE_END: "an impact falls on the last time: the velocity there may be that before or that after",
    Singularity.UNRESOLVED: "the run itself reports a status, or more percussions than were listed",
    Singularity.GRIPPED: "for information: an impact in the grip; through it nothing depends on the coefficient of "
    "friction",
    Singularity.NOT_UNIQUE: "for information: contacts share load and friction in more than one way; the motion "
    "depends on the sum only, and the impulses of single contacts mean nothing",
    Singularity.STAYED: "for information: bodies that met with e = 0 touch without a load until they are struck "
    "again; with a small e they would have parted, and what the motion becomes may be another one: there "
    "derivatives by e mean nothing",
    Singularity.NONE: "every percussion is clear: the derivative exists and is the one that is computed",
}
WORST = list(_MESSAGES)

# A singularity, its time [s] and its contact.
Found = tuple[Singularity, float, int]


@dataclass(frozen=True)
class Finding:
    """One singularity.

    Attributes:
        singularity: the reason.
        time: when [s].
        contact: the number of the contact, as in `Trajectory.percussions`.
        name: of the contact, in words.
    """

    singularity: Singularity
    time: float
    contact: int
    name: str = ""

    def __str__(self) -> str:
        name = f", {self.name}" if self.name else ""
        return (
            f"{self.singularity.name} (t = {self.time:.6g} s, contact {self.contact}{name}): {self.singularity.message}"
        )
