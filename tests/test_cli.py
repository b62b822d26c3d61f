"""Every line of bad input ends with exit code 2 and one line on stderr; good input writes its files whole."""

import dataclasses
import json
import re

import numpy as np
import pytest
from command_line import ROWS, assert_one_line, write

from diffcontact.cli import main
from diffcontact.demo import SCENE, TRUTH
from diffcontact.scene.study import Study, read_study


def fit(scene, *options):
    return main(["fit", str(scene), "--out", str(scene.parent / "out"), *options])


def changed(row, text):
    return [*ROWS[: row - 1], text, *ROWS[row:]]


BAD_DATA = {
    "missing column": ([ROWS[0].replace("y2", "z2"), *ROWS[1:]], "carts.csv: no column 'y2 [mm]'; did you mean"),
    "not a number": (changed(7, "0.5,-18,zero,25,0"), "carts.csv: row 7, column 'y1 [mm]': 'zero' is not a number"),
    "times stand still": (changed(7, "0.4,-18,0,25,0"), "carts.csv: row 7, column 'time [s]': 0.4 follows 0.4"),
    "times run back": (changed(7, "0.1,-18,0,25,0"), "carts.csv: row 7, column 'time [s]': 0.1 follows 0.4"),
    "missing time": (changed(7, ",-18,0,25,0"), "carts.csv: row 7, column 'time [s]': the time is missing"),
    "short row": (changed(7, "0.5,-18,0,25"), "carts.csv: row 7 has 4 fields, expected 5"),
    "long row": (changed(7, "0.5,-18,0,25,0,1"), "carts.csv: row 7 has 6 fields, expected 5"),
    "no rows": (ROWS[:1], "carts.csv: 0 rows of data"),
    "no impact": (ROWS[:15], "carts.csv: the distance changes at"),
}


def scene_with(old, new):
    assert SCENE.count(old) == 1
    return SCENE.replace(old, new)


RESTITUTION = 'restitution = { value = "from data", bounds = [0, 1] }'
DISTANCE = 'distance = { value = "from data", unit = "mm", per_run = true }'
MASS = "mass_ratio = { value = 1, bounds = [0.1, 10] }"
Q0 = 'q0 = { value = "from data", unit = "mm", per_run = true }'

BAD_SCENES = {
    "unknown key": (
        "restitution = {",
        "restituton = {",
        "parameters.restituton: unknown key; did you mean 'restitution'",
    ),
    "unknown inner key": (
        MASS,
        MASS.replace("bounds", "bound"),
        "parameters.mass_ratio.bound: unknown key; did you mean 'b",
    ),
    "unknown table": ("[system]", "[sytem]", "sytem: unknown key; did you mean 'system'"),
    "unknown system": ('kind = "carts"', 'kind = "carst"', "system.kind: no such kind 'carst'; did you mean 'carts'"),
    "unknown preparation": (
        'kind = "common line"',
        'kind = "comon line"',
        "preparation.kind: no such kind 'comon line'; did",
    ),
    "missing parameter": (f"{MASS}\n", "", "parameters.mass_ratio: missing"),
    "missing table": ("[data]", "[output]", "data: missing, expected a table"),
    "missing unit table": ('noise = { value = 0.1, unit = "mm" }', "noise = 0.1", "data.noise: 0.1, expected a table"),
    "unit of another kind": (
        DISTANCE,
        DISTANCE.replace('"mm"', '"kg"'),
        "parameters.distance.unit: unit 'kg' cannot be",
    ),
    "unknown unit": ('time_unit = "s"', 'time_unit = "sec"', "data.time_unit: unknown unit 'sec'"),
    "bounds the wrong way round": (
        MASS,
        MASS.replace("[0.1, 10]", "[10, 0.1]"),
        "parameters.mass_ratio.bounds: [10.0, 0.1] are the wrong way round",
    ),
    "start outside its bounds": (
        MASS,
        MASS.replace("value = 1", "value = 11"),
        "parameters.mass_ratio.value: the start 11.0 is outside its bounds [0.1, 10.0]",
    ),
    "suggested start outside its bounds": (
        DISTANCE,
        DISTANCE.replace("per_run", "bounds = [50, 90], per_run"),
        "parameters.distance.value: the start [40.0] (suggested by the data) is outside its bounds [50.0, 90.0]",
    ),
    "restitution outside [0, 1]": (
        RESTITUTION,
        "restitution = { value = 1.2 }",
        "parameters.restitution.value: 1.2, expected within [0, 1]",
    ),
    "bounds beyond what is possible": (
        RESTITUTION,
        RESTITUTION.replace("[0, 1]", "[0, 2]"),
        "parameters.restitution.bounds: [0.0, 2.0] reach beyond what is possible, expected within [0, 1]",
    ),
    "mass of zero": (MASS, "mass_ratio = { value = 0 }", "parameters.mass_ratio.value: 0.0, expected above 0"),
    "negative mass": (MASS, "mass_ratio = { value = -1 }", "parameters.mass_ratio.value: -1.0, expected above 0"),
    "overlap": (Q0, "q0 = { value = [0, 0.03] }", "parameters.q0: gap 0 is -0.01 m at the start of"),
    "wrong shape": (
        Q0,
        "q0 = { value = [0, 1, 2] }",
        "parameters.q0.value: shape (3,), expected a number or shape (2,)",
    ),
    "not suggested": (MASS, 'mass_ratio = { value = "from data" }', "this preparation suggests no mass_ratio"),
    "text for a number": (
        MASS,
        'mass_ratio = { value = "one" }',
        "parameters.mass_ratio.value: 'one', expected a number",
    ),
    "not TOML": ("[system]", "[system", "not a TOML document"),
    "prior without a width": (
        MASS,
        MASS.replace("bounds", "prior = { mean = 1, sigma = 0 }, bounds"),
        "parameters.mass_ratio.prior.sigma: 0.0, expected above 0",
    ),
    "unknown key of a prior": (
        MASS,
        MASS.replace("bounds", "prior = { mean = 1, sigm = 1 }, bounds"),
        "parameters.mass_ratio.prior.sigm: unknown key; did you mean 'sigma'",
    ),
    "prior of a fixed parameter": (
        MASS,
        "mass_ratio = { value = 1, free = false, prior = { mean = 1, sigma = 1 } }",
        "parameters.mass_ratio.prior: of a parameter that is not free",
    ),
    "unknown option of the fit": (
        "[parameters]",
        "[fit]\nlos = 1\n[parameters]",
        "fit.los: unknown key; did you mean 'loss'",
    ),
    "unknown loss": (
        "[parameters]",
        '[fit]\nloss = "hubr"\n[parameters]',
        "fit.loss: no such loss 'hubr'; did you mean 'huber'",
    ),
    "scale of a loss": ("[parameters]", "[fit]\nf_scale = 0\n[parameters]", "fit.f_scale: 0.0, expected above 0"),
    "no start": ("[parameters]", "[fit]\nstarts = 0\n[parameters]", "fit.starts: 0, expected at least 1"),
    "unknown way to shoot": (
        "[parameters]",
        '[fit]\nshooting = "singel"\n[parameters]',
        "fit.shooting: no such shooting 'singel'; did you mean 'single'",
    ),
    "no noise": ("value = 0.1, unit", "value = 0.0, unit", "data.noise: 0.0 m, expected above 0"),
    "no files": ('files = ["carts.csv"]\n', "", "data.files: missing, and no --data was given"),
    "absent file": ('files = ["carts.csv"]', 'files = ["cart.csv"]', "cart.csv: No such file or directory"),
}


@pytest.mark.parametrize("case", BAD_DATA)
def test_bad_data(tmp_path, capsys, case):
    rows, expected = BAD_DATA[case]
    assert fit(write(tmp_path, rows=rows)) == 2
    assert_one_line(capsys, expected)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("case", BAD_SCENES)
def test_bad_scene(tmp_path, capsys, case):
    old, new, expected = BAD_SCENES[case]
    assert fit(write(tmp_path, scene=scene_with(old, new))) == 2
    assert_one_line(capsys, expected)
    assert not (tmp_path / "out").exists()


def test_nothing_free(tmp_path, capsys):
    scene = re.sub(r"(\w+ = \{.*?)(, free = false)? \}", r"\1, free = false }", SCENE.partition("[parameters]")[2])
    assert fit(write(tmp_path, scene=SCENE.partition("[parameters]")[0] + "[parameters]" + scene)) == 2
    assert_one_line(capsys, "carts.toml: parameters: none is free")


def test_absent_scene(tmp_path, capsys):
    assert fit(tmp_path / "absent.toml") == 2
    assert_one_line(capsys, "absent.toml: No such file or directory")


def test_interruption_leaves_no_file(tmp_path, capsys, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Study, "fit", interrupted)
    assert fit(write(tmp_path)) == 130
    assert_one_line(capsys, "interrupted")
    assert not (tmp_path / "out").exists()


# The rest simulates: all of it with the demo's scene and number of samples, so that it is compiled once.


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    assert main(["demo", "--out", str(folder)]) == 0
    return folder


def test_the_demo_finds_what_it_simulated(demo):
    result = json.loads((demo / "result.json").read_text())
    assert result["converged"] is True
    for name in ("restitution", "mass_ratio"):
        entry = result["parameters"][name]
        # A fixed seed: within four standard errors, and these are small.
        assert abs(entry["value"] - TRUTH[name]) < 4 * entry["stderr"]
        assert entry["stderr"] < 1e-3


def test_result_has_the_schema_and_the_units_of_the_scene(demo):
    result = json.loads((demo / "result.json").read_text())
    assert {"converged", "message", "cost", "dof", "parameters", "versions", "data_sha256"} <= result.keys()
    distance = result["parameters"]["distance[0]"]
    assert {"value", "stderr", "interval95", "unit"} <= distance.keys()
    assert distance["unit"] == "mm"
    assert 99 < distance["interval95"][0] < distance["value"] < distance["interval95"][1] < 101
    assert list(result["data_sha256"]) == [str(demo / "carts.csv")]
    assert "jax" in result["versions"]


def test_the_report_is_self_contained(demo):
    page = (demo / "report.html").read_text()
    assert page.count("<svg") == 2
    assert not re.search(r"(src|href)=|url\(|https?://", page)
    for part in ("restitution", "measured - fitted", "error bars".capitalize(), "SHA-256", "jax"):
        assert part in page
    # The simulated noise was 0.1 mm.
    assert re.search(r"residuals: 0\.(09|1)\d* mm", page)


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


def test_a_fit_that_did_not_converge_says_so(demo, tmp_path, monkeypatch):
    study = read_study(demo / "carts.toml")
    stopped = dataclasses.replace(study.fit(), converged=False, message="stopped after 1 evaluation")
    monkeypatch.setattr(Study, "fit", lambda *_: stopped)
    assert main(["fit", str(demo / "carts.toml"), "--out", str(tmp_path)]) == 3
    assert json.loads((tmp_path / "result.json").read_text())["converged"] is False
    assert "<p class=bad>stopped after 1 evaluation</p>" in (tmp_path / "report.html").read_text()
