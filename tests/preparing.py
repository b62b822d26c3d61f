"""What the tests of preparations share: a preparation as a scene names it, and the runs that it makes of columns."""

from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import KINDS
from diffcontact.scene.measurements import Measurements
from diffcontact.scene.preparation import PREPARATIONS


def preparation(system, table, file="s"):
    """The preparation of a [preparation] table for a [system] table."""
    ready = KINDS[system["kind"]](Table(system, file, ("system",)))
    return PREPARATIONS[table["kind"]](Table(table, file, ("preparation",)), ready)


def prepared(system, table, times, columns, file="run.csv"):
    """The runs of a file with these columns."""
    return preparation(system, table)(times, Measurements(file, columns, "0"))
