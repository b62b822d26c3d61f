"""Ctrl-C at any moment of a command: exit code 130 and no traceback."""

import os
import signal
import subprocess
import sys
import time

import pytest

from diffcontact import __main__ as entry
from diffcontact import interruption

ROOT = os.path.dirname(os.path.dirname(__file__))


@pytest.fixture(autouse=True)
def _interruptible():
    """What runs in the background may have been told to ignore interruptions, and its children with it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("delay", [0.0, 0.1, 0.3, 0.6])
@pytest.mark.parametrize("called", [["-m", "diffcontact", "doctor"], ["diffcontact", "doctor"]])
def test_an_interruption_while_the_package_is_imported(tmp_path, called, delay):
    if called[0] == "diffcontact":
        # What pip makes of an entry point.
        script = tmp_path / "diffcontact"
        script.write_text("import sys\nfrom diffcontact.__main__ import command\nsys.exit(command())\n")
        called = [str(script), *called[1:]]
    # Python says what it has imported: the first line of ours is the moment from which on we can do something.
    process = subprocess.Popen(
        [sys.executable, "-X", "importtime", *called],
        env=os.environ | {"PYTHONPATH": ROOT},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        told = []
        for line in process.stderr:
            told.append(line)
            if "diffcontact.interruption" in line:
                time.sleep(delay)
                process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert any("diffcontact.interruption" in line for line in told)
    assert not [line for line in told if "Traceback" in line or "KeyboardInterrupt" in line]


def test_other_programs_keep_their_own_ways():
    # This process is pytest.
    assert signal.getsignal(signal.SIGINT) is not interruption._end
    assert not interruption._ours()


def _ended(monkeypatch, main):
    """How the process would end, and the exit code; `main` is what the command does."""

    def left(code):
        raise SystemExit("at once", code)

    monkeypatch.setattr(entry, "main", main)
    monkeypatch.setattr(os, "_exit", left)
    with pytest.raises(SystemExit) as end:
        entry.command()
    return end.value.args


def test_an_interrupted_command_does_not_wait_for_what_still_compiles(monkeypatch):
    def again():
        raise KeyboardInterrupt

    assert _ended(monkeypatch, lambda: 130) == ("at once", 130)
    # A second time, while the first is told.
    assert _ended(monkeypatch, again) == ("at once", 130)


def test_an_interruption_after_the_command_changes_nothing(monkeypatch):
    assert _ended(monkeypatch, lambda: 3) == (3,)
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
