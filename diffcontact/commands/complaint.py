"""How a command ends: exit code, and lines on stderr."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

import numpy as np

from diffcontact.host.files import write_aside
from diffcontact.host.messages import one_line, say
from diffcontact.scene.keys import MistakesError


class ExitCode(IntEnum):
    """How a command ended, for the shell."""

    DONE = 0
    BROKEN = 1
    BAD_INPUT = 2
    NOT_CONVERGED = 3
    INTERRUPTED = 130


def complain(error: Exception | str) -> ExitCode:
    """Say on stderr what is wrong, one line for each mistake."""
    if isinstance(error, OSError) and error.filename is not None:
        error = f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        error = f"not enough memory: {error}, expected something smaller"
    say(*map(one_line, error.lines if isinstance(error, MistakesError) else [str(error)]), error=True)
    return ExitCode.BAD_INPUT


def unforeseen(error: Exception) -> ExitCode:
    """Report a failure of the program, and keep the traceback."""
    text = "".join(traceback.format_exception(error))
    try:
        written = write_aside("traceback.txt", "\n".join((sys.version, str(sys.argv), "", text)))
        kept = f"the traceback is in {written}"
    except OSError as failure:
        kept = f"the traceback could not be written ({failure.strerror}): {text[-2000:]}"
    told = f"an error of diffcontact, not of the input: {type(error).__name__}; please report it, {kept}"
    say(one_line(told), error=True)
    return ExitCode.BROKEN


@contextmanager
def about(file: str | Path) -> Iterator[None]:
    """Begin the message of a ValueError within with the file's name."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"{file}: {str(error).lower()} in the linear algebra; expected times, values and units of an ordinary size"
        ) from error
    except ValueError as error:
        if str(error).startswith(f"{file}: "):
            raise
        raise ValueError(f"{file}: {error}") from error
