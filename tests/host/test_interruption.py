"""Ctrl-C at any moment of a command: exit code 130 and no traceback. A library leaves signals as they are."""

import os
import signal
import subprocess
import sys
import time

import pytest

from diffcontact import __main__ as entry
from diffcontact.host import interruption

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


@pytest.fixture(autouse=True)
def _interruptible():
    """What runs in the background may have been told to ignore interruptions, and its children with it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


MODULE, SCRIPT = ["-m", "diffcontact", "doctor"], ["diffcontact", "doctor"]


@pytest.mark.parametrize(("called", "delay"), [*((MODULE, delay) for delay in (0.0, 0.1, 0.3)), (SCRIPT, 0.1)])
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
            if "diffcontact.host.interruption" in line:
                time.sleep(delay)
                process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
    assert any("diffcontact.host.interruption" in line for line in told)
    assert not [line for line in told if "Traceback" in line or "KeyboardInterrupt" in line]


_LIBRARY = """
import os, signal, sys
import jax, jax.numpy
def seen():
    return dict(os.environ), {number: signal.getsignal(number) for number in signal.valid_signals()}
before = seen()
import diffcontact
assert seen() == before
"""


def test_an_import_sets_no_signal_handler_and_no_environment_variable(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "__init__.py").write_text(_LIBRARY)
    (tmp_path / "other" / "__main__.py").write_text("")
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    environment["PYTHONPATH"] = os.pathsep.join([ROOT, str(tmp_path)])
    # Another program that is started by -m, with our name among its arguments.
    called = [sys.executable, "-m", "other", "diffcontact"]
    subprocess.run(called, env=environment, check=True)


@pytest.mark.parametrize(
    ("interpreter", "arguments", "ours"),
    [
        (["-m", "diffcontact"], ["fit"], True),
        (["-Im", "diffcontact"], [], True),
        (["-mdiffcontact"], ["fit"], True),
        (["-m", "pytest"], ["diffcontact"], False),
        (["-m", "diffcontact.other"], [], False),
    ],
)
def test_only_a_process_of_the_command_is_ours(monkeypatch, interpreter, arguments, ours):
    monkeypatch.setattr(sys, "orig_argv", ["python", *interpreter, *arguments])
    monkeypatch.setattr(sys, "argv", ["-m", *arguments])
    assert interruption._is_command() is ours


_BUSY = """
import hashlib
from diffcontact.host import interruption
with interruption.heeded(lambda: "interrupted; all is well"):
    print("begun", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"in", b"C", 10**9)
"""


def test_an_interruption_while_no_python_runs():
    """As when XLA compiles: Python would call its handler when that is over."""
    process = subprocess.Popen(
        [sys.executable, "-c", _BUSY],
        env=os.environ | {"PYTHONPATH": ROOT},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    # Until the digest is under way.
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert process.returncode == 130
    assert told == "interrupted; all is well\n"


def test_signals_are_as_before_when_the_command_is_over():
    with interruption.heeded(lambda: ""):
        pass
    assert signal.set_wakeup_fd(-1) == -1


def _ended(monkeypatch, main):
    """How the process would end, and the exit code; `main` is what the command does."""

    def left(code):
        raise SystemExit("at once", code)

    monkeypatch.setattr("diffcontact.commands.cli.main", main)
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
