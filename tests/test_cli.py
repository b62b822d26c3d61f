"""How a command ends that cannot do what it was asked for."""

import errno
import os
import subprocess
import sys

from command_line import assert_one_line, write

from diffcontact.cli import main
from diffcontact.scene.study import Study

print_ = print


def fit(scene):
    return main(["fit", str(scene), "--out", str(scene.parent / "out")])


def test_interruption_leaves_no_file(tmp_path, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Study, "fit", interrupted)
    assert fit(write(tmp_path)) == 130
    assert_one_line(capsys, "interrupted")
    assert not (tmp_path / "out").exists()


def test_an_error_of_the_program_asks_for_a_report_and_keeps_the_traceback(tmp_path, capsys, monkeypatch):
    def wrong(*_):
        raise TypeError("unheard of")

    monkeypatch.setattr(Study, "fit", wrong)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert fit(write(tmp_path)) == 1
    (kept,) = tmp_path.glob("diffcontact-*.txt")
    assert_one_line(
        capsys, f"an error of diffcontact, not of the input: TypeError; please report it, the traceback is in {kept}"
    )
    assert "TypeError: unheard of" in kept.read_text()
    assert not (tmp_path / "out").exists()


def test_a_traceback_that_cannot_be_kept_is_told(tmp_path, capsys, monkeypatch):
    def wrong(*_):
        raise TypeError("unheard of")

    monkeypatch.setattr(Study, "fit", wrong)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    assert fit(write(tmp_path)) == 1
    assert_one_line(capsys, "the traceback could not be written (No such file or directory): Traceback")


def test_too_little_memory_is_told_in_one_line(tmp_path, capsys, monkeypatch):
    def large(*_):
        raise MemoryError("Unable to allocate 7.28 TiB")

    monkeypatch.setattr(Study, "fit", large)
    assert fit(write(tmp_path)) == 2
    assert_one_line(capsys, "not enough memory: Unable to allocate 7.28 TiB")


def test_a_standard_output_that_is_full_is_told(tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("builtins.print", lambda *words, **to: full() if "file" not in to else print_(*words, **to))
    assert fit(write(tmp_path)) == 2
    assert_one_line(capsys, "standard output: No space left on device")


def test_what_few_commands_need_is_not_waited_for():
    """scipy.signal takes half a second."""
    heavy = "{'scipy.signal', 'scipy.stats'}"
    wanted = f"import sys, diffcontact.cli; diffcontact.cli._parser(); print([*{heavy} & {{*sys.modules}}])"
    found = subprocess.run([sys.executable, "-c", wanted], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
