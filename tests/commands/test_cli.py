"""How a command ends that cannot do what it was asked for."""

import errno
import os
import re
import subprocess
import sys

import pytest
from command_line import BALL, assert_one_line, write
from tables import cases

from diffcontact.commands.cli import THREADS, _parser, main
from diffcontact.commands.demo import SCENE
from diffcontact.commands.outcome import complain, file_of, results_folder, written_all_the_same
from diffcontact.host import files
from diffcontact.host.messages import say
from diffcontact.scene.document import read_scene
from diffcontact.scene.study import Study

print_ = print
COMMANDS = ("new", "simulate", "fit", "design", "check", "ensemble", "demo", "scene", "doctor")


def fit(scene):
    return main(["fit", str(scene), "--out", str(scene.parent / "out")])


def refuse(monkeypatch, error):
    def wrong(*_):
        raise error

    monkeypatch.setattr(Study, "selected", wrong)


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError("Unable to allocate 7.28 TiB"), 2, "not enough memory: Unable to allocate 7.28 TiB"),
    ],
)
def test_what_stops_a_command_is_told_in_one_line_and_leaves_no_file(error, code, said, tmp_path, capsys, monkeypatch):
    refuse(monkeypatch, error)
    assert fit(write(tmp_path)) == code
    assert_one_line(capsys, said)
    assert not (tmp_path / "out").exists()


def test_an_error_of_the_program_asks_for_a_report_and_keeps_the_traceback(tmp_path, capsys, monkeypatch):
    refuse(monkeypatch, TypeError("unheard of"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert fit(write(tmp_path)) == 1
    (kept,) = tmp_path.glob("diffcontact-*.txt")
    assert_one_line(
        capsys, f"an error of diffcontact, not of the input: TypeError; please report it, the traceback is in {kept}"
    )
    assert "TypeError: unheard of" in kept.read_text()
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "absent"))
    assert fit(write(tmp_path)) == 1
    assert_one_line(capsys, "the traceback could not be written (No such file or directory): Traceback")


def test_a_standard_output_that_is_full_is_told(tmp_path, capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("builtins.print", lambda *words, **to: full() if "file" not in to else print_(*words, **to))
    assert fit(write(tmp_path)) == 2
    assert_one_line(capsys, "standard output: No space left on device")


def test_without_a_command_it_says_what_comes_next(capsys):
    assert main([]) == 0
    lines = re.findall(r"python -m diffcontact (.*?)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    assert {line.split()[0] for line in lines} == {*COMMANDS, "COMMAND"}
    for line in lines:
        if not line.endswith("--help") and "COMMAND" not in line:
            assert _parser().parse_args(line.split()).run


@pytest.mark.parametrize("command", COMMANDS)
def test_help_ends_with_an_example_that_is_understood(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    example = capsys.readouterr().out.splitlines()[-1].strip()
    assert example.startswith(f"python -m diffcontact {command}")
    assert _parser().parse_args(example.split()[3:]).run


def test_a_folder_and_a_file_are_told_by_the_ending(tmp_path):
    (tmp_path / "runs.v2").mkdir()
    for out, file in (("new", "new/motion.html"), ("a.html", "a.html"), ("runs.v2", "runs.v2/motion.html")):
        assert file_of(tmp_path / out, "motion.html") == tmp_path / file


def test_what_few_commands_need_is_not_waited_for():
    """scipy.signal takes half a second."""
    heavy = "{'scipy.signal', 'scipy.stats'}"
    wanted = f"import sys; from diffcontact.commands import cli; cli._parser(); print([*{heavy} & {{*sys.modules}}])"
    found = subprocess.run([sys.executable, "-c", wanted], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


FORGED = r'''"carts\u001b[2J\u001b[H\nthe model explains the data\u0007"'''


def test_a_title_neither_forges_a_line_nor_speaks_to_the_terminal(tmp_path, capsys, monkeypatch):
    recording = tmp_path / "run\x1b[31m\nexplains the data.csv"
    scene = write(tmp_path, SCENE.replace('"Two simulated carts"', FORGED))
    (tmp_path / "carts.csv").rename(recording)
    monkeypatch.setattr(Study, "selected", lambda self: (_ for _ in ()).throw(ValueError(self.runs[0].label)))
    assert main(["fit", str(scene), "--data", str(recording), "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr()
    for line in (*said.out.splitlines(), *said.err.splitlines()):
        assert line.isprintable()
        assert not line.startswith(("the model", "explains"))
    assert said.out.startswith(r"carts\x1b[2J\x1b[H the model explains the data\x07: 1 run")
    assert r"run\x1b[31m explains the data.csv" in said.err


def no_room(monkeypatch, *folders):
    """From now on the disks of these folders are full."""
    replacing, mkstemp = files.replacing, files.tempfile.mkstemp

    def full(path=None, **options):
        folder = path.parent if path else options.get("dir") or files.tempfile.gettempdir()
        if folder in folders:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        return replacing(path) if path else mkstemp(**options)

    monkeypatch.setattr(files, "replacing", full)
    monkeypatch.setattr(files.tempfile, "mkstemp", full)


@pytest.mark.parametrize("room", [True, False])
def test_a_full_disk_costs_no_result(room, tmp_path, capsys, monkeypatch):
    """What was found is printed, and written elsewhere where there is room."""
    (temporary := tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    no_room(monkeypatch, tmp_path / "out", *([] if room else [str(temporary)]))
    with pytest.raises(OSError) as caught, written_all_the_same(tmp_path / "out", {"result.json": lambda: "{}"}):
        say("e = 0.8")
    assert capsys.readouterr().out == "e = 0.8\n"
    assert complain(caught.value) == 2
    kept = [*temporary.iterdir()]
    assert [path.read_text() for path in kept] == ["{}"] * room
    told = f"kept as {kept[0]}" if room else "and no room among the temporary files; expected another place: --out"
    assert_one_line(capsys, f"{tmp_path / 'out' / 'result.json'}: No space left on device; {told}")


def test_a_closed_terminal_costs_no_result(tmp_path):
    with pytest.raises(BrokenPipeError), written_all_the_same(tmp_path, {"result.json": lambda: "{}"}):
        raise BrokenPipeError
    assert (tmp_path / "result.json").read_text() == "{}"


@cases(
    "command name",
    """
    fit carts.toml | result.json
    fit carts.toml | report.html
    design ball.toml --times 0:1:3 | design.json
    design ball.toml --times 0:1:3 | design.png
    simulate ball.toml --times 0:1:3 | motion.html
    demo | carts.toml
    """,
)
def test_what_is_not_of_a_command_is_not_written_over(command, name, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Study, "selected", lambda self: pytest.fail("fitted"))
    monkeypatch.setattr("diffcontact.commands.demo.measure", lambda: "t\n")
    write(tmp_path)
    (tmp_path / "ball.toml").write_text(BALL)
    monkeypatch.chdir(tmp_path)
    (out := tmp_path / "out").mkdir()
    (out / name).write_text("<!DOCTYPE html>\n<title>mine</title>")
    assert main([*command.split(), "--out", str(out / name if "simulate" in command else out)]) == 2
    assert_one_line(capsys, f"{name}: exists already and is not of this command, expected another place: --out ")
    assert [(path.name, path.read_text()) for path in out.iterdir()] == [(name, "<!DOCTYPE html>\n<title>mine</title>")]


@pytest.mark.parametrize("leads", ["to a result", "nowhere"])
def test_a_link_in_the_place_of_a_result_is_refused_before_the_fit(leads, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Study, "selected", lambda self: pytest.fail("fitted"))
    scene, out = write(tmp_path), tmp_path / "out"
    out.mkdir()
    (out / "result.json").symlink_to(tmp_path / "other.json")
    if leads == "to a result":
        (tmp_path / "other.json").write_text('{"converged": true}')
    assert fit(scene) == 2
    assert_one_line(capsys, "result.json: exists already and is not of this command, expected another place: --out DIR")
    assert (out / "result.json").is_symlink()


@pytest.mark.parametrize("folder", ["../../x", "..", "/tmp", "out/../../../x"])
def test_a_scene_does_not_write_elsewhere_unasked(folder, tmp_path, capsys, monkeypatch):
    """Results go into the current folder or that of the scene, and anywhere by --out."""
    here, scenes = tmp_path / "here" / "deep", tmp_path / "scenes" / "deep"
    here.mkdir(parents=True)
    scenes.mkdir(parents=True)
    monkeypatch.chdir(here)
    scene = scenes / "ball.toml"
    scene.write_text(f'{BALL}\n[output]\nfolder = "{folder}"\n')
    assert main(["simulate", str(scene), "--times", "0:1:3"]) == 2
    assert_one_line(capsys, f"ball.toml: output.folder: '{folder}' is neither in the current folder nor in that of")
    read = read_scene(scene)
    assert results_folder(tmp_path, read) == tmp_path
    for allowed in ("out", "./a/../b", str(scenes / "out"), str(here)):
        scene.write_text(f'{BALL}\n[output]\nfolder = "{allowed}"\n')
        assert str(results_folder(None, read_scene(scene))) == allowed.removeprefix("./")


PROGRAM = """
import threadpoolctl
from diffcontact.commands import cli
cli._multiply_by_one_thread()
print(*(library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"))
"""


@pytest.mark.parametrize("told", ["", "2"])
def test_products_take_one_thread_unless_the_environment_says_how_many(told):
    """In a process of its own, since the number is the process's."""
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    environment |= {"OMP_NUM_THREADS": told} if told else {}
    run = subprocess.run([sys.executable, "-c", PROGRAM], env=environment, capture_output=True, text=True, check=True)
    assert set(run.stdout.split()) <= {told or "1"}
