"""What the command line needs before jax is imported: Ctrl-C meanwhile ends with code 130 and no traceback.

`python -m diffcontact` imports the package before it runs a line of its own, and most of a second of that is jax.
"""

from __future__ import annotations

import os
import signal
import sys
import threading

EXIT_CODE = 130


def _is_command() -> bool:
    """Whether the package is imported to run its command line."""
    # While Python looks for what -m names, that is what the process is called.
    called = os.path.basename(sys.argv[0]) if sys.argv else ""
    return called in ("-m", "diffcontact")


def _ours() -> bool:
    """Whether Ctrl-C is ours to handle: not in a program that has a say in it, nor where a shell ignores it."""
    return (
        _is_command()
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def _end(number, frame) -> None:
    del number, frame
    os._exit(EXIT_CODE)


def over() -> None:
    """The import is done: from now on an interruption is an exception as ever."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


if _ours():
    signal.signal(signal.SIGINT, _end)
if _is_command():
    # XLA reads this when it is loaded. It complains, on stderr, of names for processor features that it has itself
    # written into the programs that `commands.cache` keeps.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
