"""Progress is for terminals: what it says there, and that it says nothing elsewhere."""

import io
import time
from contextlib import contextmanager, redirect_stderr

import pytest

from diffcontact.commands import doctor
from diffcontact.commands.cli import main
from diffcontact.host import progress
from diffcontact.host.progress import note, shown, stage


class Stderr(io.StringIO):
    """What is written to a terminal, or to a file."""

    def __init__(self, terminal=True):
        super().__init__()
        self.isatty = lambda: terminal

    @property
    def last_line(self):
        """What the terminal shows on the line of the cursor."""
        return self.getvalue().rpartition("\r")[2].rstrip()


@contextmanager
def stderr(terminal=True):
    """Not a fixture: between a fixture and its test pytest takes stderr back."""
    pytest.importorskip("tqdm")
    with redirect_stderr(Stderr(terminal)) as written:
        yield written


def test_a_stage_says_what_it_does_how_far_it_is_and_how_long_it_takes(monkeypatch):
    monkeypatch.setattr(progress, "_TICK", 0.02)
    with stderr() as written, shown(), stage("replicas", total=200) as at:
        assert "replicas   0 %" in written.getvalue()
        time.sleep(1.2)
        # Nobody reported, and the clock went on.
        assert "00:01, ? to go, compiling" in written.getvalue()
        at(100)
        note("cost 3.5")
        time.sleep(0.2)
        assert "replicas  50 %" in written.getvalue()
        assert "00:01 to go, cost 3.5" in written.getvalue()
    # What it leaves on the terminal is an empty line.
    assert written.last_line == ""


def test_stages_within_stages_are_lines_below_each_other():
    with stderr() as written, shown(), stage("fit", note=""), stage("starts", total=4) as at:
        at(1)
        note("cost 2")
        assert "fit, 00:00" in written.getvalue()
        assert "\nstarts" in written.getvalue().replace("\r", "")
    assert written.last_line == ""


def test_an_interruption_wipes_it():
    with stderr() as written:
        with pytest.raises(KeyboardInterrupt), shown(), stage("fit"), stage("starts", total=4):
            raise KeyboardInterrupt
        assert written.last_line == ""
    assert progress._DISPLAY.get() is None


@pytest.mark.parametrize("way", ["not asked for", "refused", "no terminal"])
def test_it_says_nothing_otherwise(way, capsys):
    def work():
        with stage("starts", total=2) as at:
            at(2)
            note("cost 2")

    with stderr(terminal=way != "no terminal") as written:
        if way == "not asked for":
            work()
        else:
            with shown(way == "no terminal"), shown():
                work()
    assert written.getvalue() == ""
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("quiet", [True, False])
def test_every_command_can_be_quiet(quiet, monkeypatch):
    def run(options):
        with stage("looking around"):
            return 0

    monkeypatch.setattr(doctor, "run", run)
    with stderr() as written:
        assert main(["doctor", *(["--quiet"] if quiet else [])]) == 0
    assert ("looking around" in written.getvalue()) is not quiet
