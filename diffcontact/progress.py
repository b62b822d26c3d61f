"""A sign of life during a fit."""

from __future__ import annotations

import sys
import time

# In a log, a line this often is enough [s].
_PAUSE = 10.0


class FitProgress:
    """Called with iteration and cost: rewrites one line on a terminal's stderr, or adds one to stdout now and then.

    The terminal's line is wiped at the end, and a log gets none on stderr: what stays there is errors only.

    Example:
        >>> with FitProgress() as progress:
        ...     progress(0, 12.5)
    """

    def __init__(self):
        self._live = sys.stderr.isatty()
        self._begin = self._shown = time.monotonic()

    def __enter__(self) -> FitProgress:
        self._rewrite("compiling the simulation and its derivatives ...")
        return self

    def __call__(self, iteration: int, cost: float) -> None:
        now = time.monotonic()
        text = f"iteration {iteration}, cost {cost:.6g}, {now - self._begin:.0f} s"
        self._rewrite(text)
        if not self._live and now - self._shown >= _PAUSE:
            print(text, flush=True)
            self._shown = now

    def __exit__(self, *exception) -> None:
        self._rewrite("")

    def _rewrite(self, text: str) -> None:
        if self._live:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
