"""What `fit` writes and prints; `test_bad_commands` has what it refuses."""

import json
import re

import numpy as np
import pytest
from command_line import assert_one_line, write

from diffcontact.commands.cli import main
from diffcontact.commands.demo import SCENE
from diffcontact.scene.study import Study, read_study


def fit(scene, *options):
    return main(["fit", str(scene), "--out", str(scene.parent / "out"), *options])


RESTITUTION = 'restitution = { value = "from data", bounds = [0, 1] }'
DISTANCE = 'distance = { value = "from data", unit = "mm", per_run = true }'


def test_nothing_free(tmp_path, capsys):
    unbounded = re.sub(r", bounds = \[.*?\]", "", SCENE.partition("[parameters]")[2])
    scene = re.sub(r"(\w+ = \{.*?)(, free = false)? \}", r"\1, free = false }", unbounded)
    assert fit(write(tmp_path, scene=SCENE.partition("[parameters]")[0] + "[parameters]" + scene)) == 2
    assert_one_line(capsys, "carts.toml: parameters: none is free")


def test_a_fit_that_cannot_begin_names_the_scene(tmp_path, capsys, monkeypatch):
    def refused(*_):
        raise ValueError("fit(params): at the starting values")

    monkeypatch.setattr(Study, "selected", refused)
    assert fit(write(tmp_path)) == 2
    assert_one_line(capsys, "carts.toml: fit(params): at the starting values")


def test_many_rows_are_told_and_can_be_thinned(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("diffcontact.commands.fit._LONG", 10)
    monkeypatch.setattr(Study, "selected", lambda *_: pytest.fail("stop"))
    scene = write(tmp_path)
    with pytest.raises(pytest.fail.Exception):
        fit(scene)
    told = capsys.readouterr().out
    assert (
        "; 31 rows are many, and each is simulated with its derivatives: data.every = 4 in the scene uses one row in 4"
        in told
    )
    scene.write_text(SCENE.replace("[data]", "[data]\nevery = 4"))
    assert read_study(scene).runs[0].times.tolist() == pytest.approx([0.4 * i for i in range(8)])


# The rest simulates: all of it with the demo's scene and number of samples, so that it is compiled once.


@pytest.mark.full
def test_a_parameter_that_the_data_cannot_see_is_named(demo, tmp_path, capsys):
    header, *rows = (demo / "carts.csv").read_text().splitlines()
    jitter = 0.1 * np.random.default_rng(1).normal(size=(len(rows), 2))  # mm, as the scene's noise
    apart = [
        f"{row.split(',')[0]},{j - i},0,{1000 + i + k},0"
        for i, (row, (j, k)) in enumerate(zip(rows, jitter, strict=True))
    ]
    preparation = 'kind = "coordinates"\ncolumns = ["x1 [mm]", "x2 [mm]"]\nunit = "mm"\n'
    scene = re.sub(r'kind = "common line".*?unit = "mm"\n', preparation, SCENE, flags=re.DOTALL)
    scene = scene.replace(RESTITUTION, RESTITUTION.replace('"from data"', "0.5"))
    scene = scene.replace(DISTANCE, DISTANCE.replace('"from data"', "100"))
    assert fit(write(tmp_path, scene=scene, rows=[header, *apart])) == 2
    assert_one_line(capsys, "carts.toml: parameters: the data cannot see restitution")
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert {"restitution": pytest.approx(1.0)} in result["unidentifiable"]
    assert result["parameters"]["restitution"]["note"] == "not seen by the data"
    assert result["parameters"]["restitution"]["stderr"] is None


@pytest.mark.full
def test_laws_are_compared_below_the_table(demo, tmp_path, capsys):
    """The demo's bumpers have one restitution: no law of the speed does better."""
    assert main(["fit", str(demo / "carts.toml"), "--laws", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "a constant restitution is supported" in printed
    assert "speeds in m/s" in printed
    laws = json.loads((tmp_path / "result.json").read_text())["laws"]
    assert (laws["best"], laws["given"], laws["unit_of_speed"]) == ("constant", "constant", "m/s")
    assert set(laws["fits"]) == {"constant", "linear", "power", "viscoelastic", "sticking"}


SPREAD = ("bounds = [0, 1]", "bounds = [0, 1], spread = true")


def runs_of(demo, folder, count, speeds):
    """Recordings of the demo's carts with noise of their own, and a table of their speeds."""
    header, *rows = (demo / "carts.csv").read_text().splitlines()
    rng, files = np.random.default_rng(0), []
    for number in range(count):
        cells = np.array([[field or "nan" for field in row.split(",")] for row in rows], float)
        cells[:, 1:] += 0.3 * rng.normal(size=cells[:, 1:].shape)
        # The shorter run shares the program of the longer one.
        lines = [",".join("" if np.isnan(x) else f"{x:.6g}" for x in row) for row in cells[: len(cells) - number]]
        (file := folder / f"run{number}.csv").write_text("\n".join([header, *lines]) + "\n")
        files.append(str(file))
    (folder / "speeds.csv").write_text("\n".join(["run,speed", *(f"run{i},{x}" for i, x in enumerate(speeds))]) + "\n")
    return files


def spread_scene(demo, folder):
    text = (demo / "carts.toml").read_text()
    assert SPREAD[0] in text
    (scene := folder / "carts.toml").write_text(text.replace(*SPREAD, 1))
    return str(scene)


@pytest.mark.full
def test_runs_with_a_spread_are_fitted_one_by_one(demo, tmp_path, capsys):
    files, scene = runs_of(demo, tmp_path, 3, [1, 2, 3]), spread_scene(demo, tmp_path)
    assert main(["fit", scene, "--data", *files, "--out", str(tmp_path / "out")]) in (0, 3)
    document = json.loads((tmp_path / "out" / "result.json").read_text())
    mean, each = document["parameters"]["restitution, mean"], document["each"]["restitution"]
    assert [row["run"] for row in each] == ["run0.csv", "run1.csv", "run2.csv"]
    low, high = mean["interval95"]
    # They differ by their noise alone.
    assert all(low - 3 * row["stderr"] <= row["value"] <= high + 3 * row["stderr"] for row in each)
    assert "restitution, spread" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("run,speed\nrun0,1\n", "no row for the run 'run1.csv', expected one; there is run0"),
        ("name,speed\nrun0,1\n", "columns name, speed, expected run and a condition"),
        ("run,speed\nrun0,fast\n", "line 2: {'speed': 'fast'}, expected a number for each condition"),
    ],
)
def test_conditions_that_cannot_be_used_are_refused_before_anything_is_fitted(
    demo, tmp_path, capsys, monkeypatch, table, message
):
    monkeypatch.setattr(Study, "selected", lambda *_: pytest.fail("fitted"))
    files, scene = runs_of(demo, tmp_path, 2, [1, 2]), spread_scene(demo, tmp_path)
    (tmp_path / "speeds.csv").write_text(table)
    assert main(["fit", scene, "--data", *files, "--conditions", str(tmp_path / "speeds.csv")]) == 2
    assert_one_line(capsys, message)


def test_conditions_go_with_a_spread(demo, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Study, "selected", lambda *_: pytest.fail("fitted"))
    (tmp_path / "speeds.csv").write_text("run,speed\ncarts,1\n")
    assert main(["fit", str(demo / "carts.toml"), "--conditions", str(tmp_path / "speeds.csv")]) == 2
    assert_one_line(capsys, "--conditions goes with a parameter that has spread = true")
