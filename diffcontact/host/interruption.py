"""What the command line does of Ctrl-C: it ends the command with code 130, one line at most, and no traceback.

Imported as a library the package sets no signal handler and no environment variable. In a process that was started to
run the command, and in no other, there is more to do:

- `python -m diffcontact` imports the package before it runs a line of its own, and most of a second of that is jax.
  Ctrl-C ends the process at once meanwhile.
- Python calls no handler while XLA compiles, for half a minute perhaps. A thread that the signal wakes ends the process
  then, a moment later than a command that is interrupted in Python ends by itself.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator

EXIT_CODE = 130
# How long an interrupted command may take to tidy up [s].
GRACE = 1.0


def _is_command() -> bool:
    """Whether this process was started to run the command line."""
    if not sys.argv:
        return False
    if sys.argv[0] == "-m":
        # While Python looks for the module that -m names, its name is the last word before the module's arguments.
        options = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv) + 1]
        return re.fullmatch(r"(-\w*m)?diffcontact(\.__main__)?", options[-1]) is not None
    return os.path.basename(sys.argv[0]) == "diffcontact"


def _is_ours() -> bool:
    """Whether Ctrl-C is ours to handle: not in a program that has a say in it, nor where a shell ignores it."""
    return (
        threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


def _end(number, frame) -> None:
    os._exit(EXIT_CODE)


def over() -> None:
    """The import is done: from now on an interruption is an exception as ever."""
    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def heeded(line: Callable[[], str]) -> Iterator[None]:
    """End the process soon after an interruption, also while no Python code runs.

    Args:
        line: what is said on stderr then.
    """
    if not _is_ours():
        yield
        return
    woken, wakes = socket.socketpair()
    wakes.setblocking(False)
    done = threading.Event()

    def watch():
        with woken:
            while number := woken.recv(1):
                if number[0] == signal.SIGINT and not done.wait(GRACE):
                    clear = "\r\x1b[K" if os.isatty(2) else ""
                    os.write(2, f"{clear}{line()}\n".encode(errors="replace"))
                    os._exit(EXIT_CODE)

    before = signal.set_wakeup_fd(wakes.fileno(), warn_on_full_buffer=False)
    threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(before)
        wakes.close()


if _is_command():
    if _is_ours():
        signal.signal(signal.SIGINT, _end)
    # XLA reads this when it is loaded. It complains, on stderr, of names for processor features that it has itself
    # written into the programs that `commands.cache` keeps.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
