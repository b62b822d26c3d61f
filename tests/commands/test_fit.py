"""What `fit` writes and prints; `test_bad_commands` has what it refuses."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from command_line import assert_one_line, write

from diffcontact.commands.cli import main
from diffcontact.commands.demo import SCENE
from diffcontact.identify.portable import checksum
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

    monkeypatch.setattr(Study, "fit", refused)
    assert fit(write(tmp_path)) == 2
    assert_one_line(capsys, "carts.toml: fit(params): at the starting values")


@pytest.mark.parametrize("name", ["result.json", "report.html"])
def test_what_is_no_result_is_not_written_over(tmp_path, capsys, monkeypatch, name):
    monkeypatch.setattr(Study, "fit", lambda *_: pytest.fail("stop"))
    scene = write(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / name).write_text('{"mine": 1}')
    assert fit(scene) == 2
    assert_one_line(capsys, f"{name}: exists already and is not of this command, expected another place: --out DIR")
    assert (tmp_path / "out" / name).read_text() == '{"mine": 1}'


def test_the_result_of_a_sister_is_not_written_over(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("diffcontact.commands.fit.read_sisters", lambda *_: [])
    monkeypatch.setattr(Study, "fit", lambda *_: pytest.fail("stop"))
    sister = tmp_path / "out" / "result.json"
    assert fit(write(tmp_path), "--like", str(sister), "other.json") == 2
    assert_one_line(capsys, f"{sister}: the fit would be written over it, expected another place: --out DIR")


def test_many_rows_are_told_and_can_be_thinned(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("diffcontact.commands.fit._LONG", 10)
    monkeypatch.setattr(Study, "fit", lambda *_: pytest.fail("stop"))
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
def test_fit_of_two_runs_prints_one_table(demo, tmp_path, capsys):
    other = tmp_path / "other.csv"
    # The same run, but for an empty line at the end: the same file twice is refused.
    other.write_text((demo / "carts.csv").read_text() + "\n")
    files = [str(demo / "carts.csv"), str(other)]
    assert main(["fit", str(demo / "carts.toml"), "--data", *files, "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert re.search(r"^restitution +0\.8\d* +0\.000\d+ ", printed.out, re.MULTILINE)
    assert "distance[1]" in json.loads((tmp_path / "result.json").read_text())["parameters"]


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


def test_sister_runs_are_read_before_anything_is_fitted(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Study, "fit", lambda *_: pytest.fail("fitted"))
    scene = write(tmp_path)
    assert fit(scene, "--like", str(tmp_path / "none.json")) == 2
    assert_one_line(capsys, "none.json: No such file")
    (tmp_path / "empty.json").write_text("{}")
    assert fit(scene, "--like", str(tmp_path / "empty.json")) == 2
    # The file that is wrong is named.
    assert_one_line(capsys, "empty.json: FitResult.from_dict: the document has no complete 'fit_result'")


@pytest.mark.full
def test_sister_runs_are_other_runs_of_the_same_system(demo, done, tmp_path, capsys, monkeypatch):
    header, *rows = (demo / "carts.csv").read_text().splitlines()
    others, rng = [], np.random.default_rng(0)
    for number in (1, 2):
        # Noise three times that of the demo makes another recording of it.
        cells = np.array([[field or "nan" for field in row.split(",")] for row in rows], float)
        cells[:, 1:] += 0.3 * rng.normal(size=cells[:, 1:].shape)
        lines = [",".join("" if np.isnan(value) else f"{value:.6g}" for value in row) for row in cells]
        (file := tmp_path / f"run{number}.csv").write_text("\n".join([header, *lines]) + "\n")
        folder = tmp_path / str(number)
        assert main(["fit", str(demo / "carts.toml"), "--data", str(file), "--out", str(folder)]) == 0
        others.append(str(folder / "result.json"))
    monkeypatch.setattr(Study, "fit", lambda *_: done)
    again = ["fit", str(demo / "carts.toml"), "--out", str(tmp_path / "out"), "--like"]
    assert main([*again, *others]) == 0
    capsys.readouterr()
    assert main([*again, *others, str(tmp_path / "out" / "result.json")]) == 2
    assert_one_line(capsys, "out/result.json: is of the same recording as the run that is fitted")
    assert main([*again, *others, others[0]]) == 2
    assert_one_line(capsys, f"1/result.json: is of the same recording as {others[0]}, expected every run once")
    # Two parts of one record are two runs.
    documents = [json.loads(Path(other).read_text()) for other in others]
    parts = []
    for part, (document, window) in enumerate(zip(documents, ([0, 1], [1, 2]), strict=True)):
        same = {"window": window, "data_sha256": documents[0]["data_sha256"]}
        (file := tmp_path / f"part{part}.json").write_text(json.dumps(document | same))
        parts.append(str(file))
    assert main([*again, *parts]) == 0
    capsys.readouterr()
    # A copy of a file whose last line is lost is another file, and no other recording.
    (short := tmp_path / "short.csv").write_text("\n".join([header, *lines[:-1]]) + "\n")
    monkeypatch.undo()
    assert main(["fit", str(demo / "carts.toml"), "--data", str(short), "--out", str(tmp_path / "short")]) == 0
    capsys.readouterr()
    monkeypatch.setattr(Study, "fit", lambda *_: pytest.fail("fitted"))
    assert main([*again, *others, str(tmp_path / "short" / "result.json")]) == 2
    assert_one_line(capsys, f"short/result.json: is of the same recording as {others[1]}, whole or in part")
    document = documents[0]
    (tmp_path / "1" / "result.json").write_text(json.dumps(document | {"system": "bouncing ball, in px and frame"}))
    assert main([*again, *others]) == 2
    assert_one_line(capsys, "is a fit of bouncing ball, in px and frame, expected one of carts, in m and s")
    refused = [
        ({"law": "e = 0"}, "is a fit under the law e = 0; expected M(q) du"),
        ({"quantities": {"restitution": "m"}}, "result.json: restitution is in m, expected 1"),
        ({"fit_result": {**document["fit_result"], "converged": False}}, "result.json: the fit did not converge, "),
        (
            {"fit_result": {**document["fit_result"], "names": [f"k{i}" for i in range(len(done.names))]}},
            "expected restitution among them, which the scene fits",
        ),
    ]
    for wrong, expected in refused:
        other = document | wrong
        (tmp_path / "1" / "result.json").write_text(json.dumps(other | {"checksum": checksum(other)}))
        assert main([*again, *others]) == 2
        assert_one_line(capsys, expected)
