"""A sign of life during a fit or an ensemble."""

from __future__ import annotations

import sys
import time

# In a log, a line this often is enough [s].
_PAUSE = 10.0


class _Line:
    """One line on a terminal's stderr that is rewritten; nothing anywhere else."""

    def __init__(self):
        self._live = sys.stderr.isatty()
        self._begin = self._shown = time.monotonic()

    def _rewrite(self, text: str) -> None:
        if self._live:
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


class FitProgress(_Line):
    """Called with iteration and cost: rewrites one line on a terminal's stderr, or adds one to stdout now and then.

    The terminal's line is wiped at the end, and a log gets none on stderr: what stays there is errors only.

    Example:
        >>> with FitProgress() as progress:
        ...     progress(0, 12.5)
    """

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


class LaneProgress(_Line):
    """Called with the number of lanes that are done: rewrites one line on a terminal's stderr; silent unless `shown`.

    What stays is the last line, on stdout.

    Args:
        count: of all lanes.
        shown: whether to say anything.
        before: lanes that were done already, which tell nothing of how long the others take.

    Example:
        >>> with LaneProgress(100, shown=True) as progress:
        ...     progress(50)
        ...     progress.close("100 of 100 lanes are fine")
        100 of 100 lanes are fine
    """

    def __init__(self, count: int, shown: bool, before: int = 0):
        super().__init__()
        self._count, self._wanted, self._before = count, shown, before
        self._live = self._live and shown

    def __enter__(self) -> LaneProgress:
        self._rewrite("compiling ...")
        return self

    def __call__(self, done: int) -> None:
        spent = time.monotonic() - self._begin
        left = spent * (self._count - done) / (done - self._before)
        self._rewrite(f"{done} of {self._count} lanes, {spent:.0f} s, {left:.0f} s to go")

    def close(self, summary: str) -> None:
        """Say how it went."""
        self._rewrite("")
        if self._wanted and summary:
            print(summary, flush=True)

    def __exit__(self, *exception) -> None:
        self._rewrite("")
