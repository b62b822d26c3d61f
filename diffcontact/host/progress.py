"""What takes long says what it does and how long it will still take, on a terminal's stderr.

    with shown():                                         whoever wants to see it; the command line does
        result = dc.fit(problem, params, free, starts=64)

    with stage("replicas", total=200) as at:              whatever takes long
        for i in range(200):
            ...
            at(i + 1)

Without `shown`, and where stderr is no terminal, stages say nothing and cost nothing. Stages within stages are lines
below each other, drawn by tqdm, and gone when they end: what stays on stderr is errors only.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from diffcontact.host.messages import printable

# Between two looks at the clock [s]: who compiles for a minute says nothing of its own.
_TICK = 0.5
_WITH_TOTAL = "{desc} {percentage:3.0f} % |{bar:20}| {elapsed}, {remaining} to go{postfix}"
_WITHOUT = "{desc}, {elapsed}{postfix}"


@contextmanager
def shown(wanted: bool = True) -> Iterator[None]:
    """Show what goes on within, if stderr is a terminal; within another `shown`, that one decides."""
    if _DISPLAY.get() is not None:
        yield
        return
    display = _Terminal() if wanted and sys.stderr.isatty() else _Nothing()
    token = _DISPLAY.set(display)
    try:
        yield
    finally:
        display.close()
        _DISPLAY.reset(token)


@contextmanager
def stage(what: str, total: float | None = None, before: float = 0, note: str = "compiling") -> Iterator[Stage]:
    """A part of the work: what it does, of how much, how much was done before, and a first note."""
    display = _DISPLAY.get() or _Nothing()
    opened = display.open(what, total, before, note)
    try:
        yield opened
    finally:
        display.end(opened)


def note(text: str) -> None:
    """A word on the innermost stage: a cost, an iteration."""
    display = _DISPLAY.get()
    if display is not None:
        display.note(text)


class Stage:
    """An open stage; called with how much of its total is done."""

    def __init__(self, bar: Any = None):
        self.bar, self.done = bar, 0.0

    def __call__(self, done: float) -> None:
        self.done = done
        if self.bar is not None:
            self.bar.set_postfix_str("", refresh=False)
            self.bar.update(done - self.bar.n)


class _Nothing:
    """Where nobody looks."""

    def open(self, what: str, total: float | None, before: float, note: str) -> Stage:
        return Stage()

    def end(self, opened: Stage) -> None:
        pass

    def note(self, text: str) -> None:
        pass

    def close(self) -> None:
        pass


class _Terminal(_Nothing):
    """One line for each open stage; a thread keeps the clocks going."""

    def __init__(self):
        # Only here: whoever shows nothing does without.
        from tqdm import tqdm  # pyright: ignore[reportMissingModuleSource, reportMissingImports]

        self._tqdm, self._open, self._lock = tqdm, [], threading.Lock()
        self._over = threading.Event()
        self._clock = threading.Thread(target=self._tick, daemon=True)
        self._clock.start()

    def open(self, what: str, total: float | None, before: float, note: str) -> Stage:
        with self._lock:
            layout = _WITHOUT if total is None else _WITH_TOTAL
            opened = Stage(
                self._tqdm(
                    desc=printable(what),
                    total=total,
                    initial=before,
                    leave=False,
                    bar_format=layout,
                    dynamic_ncols=True,
                )
            )
            opened.bar.set_postfix_str(note)
            self._open.append(opened)
            return opened

    def end(self, opened: Stage) -> None:
        with self._lock:
            self._open.remove(opened)
            opened.bar.close()

    def note(self, text: str) -> None:
        with self._lock:
            if self._open:
                self._open[-1].bar.set_postfix_str(text)

    def close(self) -> None:
        self._over.set()
        self._clock.join()

    def _tick(self) -> None:
        while not self._over.wait(_TICK):
            with self._lock:
                for opened in self._open:
                    opened.bar.refresh()


_DISPLAY: ContextVar[_Nothing | None] = ContextVar("display", default=None)
