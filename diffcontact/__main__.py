"""`python -m diffcontact`, and what `diffcontact` on the command line calls."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from typing import NoReturn

from diffcontact.host.interruption import EXIT_CODE


def command() -> NoReturn:
    """Run the command that this process was started for, and end the process with its exit code."""
    try:
        # Here, where an interruption is caught: the commands take a second to import.
        from diffcontact.commands.cli import main

        code = main()
        # The command is over: an interruption could only spoil its end.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    except KeyboardInterrupt:
        code = EXIT_CODE
    if code == EXIT_CODE:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    """End at once: threads of XLA may still compile, and to take down what they work with is a segmentation fault."""
    for stream in (sys.stdout, sys.stderr):
        # Nobody may listen any more.
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    command()
