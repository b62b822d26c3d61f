"""Every line of bad input ends with exit code 2 and one line on stderr; good input writes its files whole."""

import dataclasses
import json
import re

import h5py
import numpy as np
import pytest

from diffcontact.cli import main
from diffcontact.demo import SCENE, TRUTH
from diffcontact.scene.study import Study, read_study

# Everything but the bad input fits together, and nothing is simulated before all input is read: rows need no physics.
ROWS = ["time [s],x1 [mm],y1 [mm],x2 [mm],y2 [mm]"] + [
    f"{0.1 * i:.1f},{-20 + 0.2 * abs(i - 15):.2f},0,{20 + 0.5 * abs(i - 15):.2f},0" for i in range(31)
]


def write(folder, scene=SCENE, rows=ROWS):
    (folder / "carts.toml").write_text(scene)
    (folder / "carts.csv").write_text("\n".join(rows) + "\n")
    return folder / "carts.toml"


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


def assert_one_line(capsys, expected):
    captured = capsys.readouterr().err
    assert captured.count("\n") == 1, captured
    assert captured.endswith("\n")
    assert expected in captured


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
    data = str(demo / "carts.csv")
    assert main(["fit", str(demo / "carts.toml"), "--data", data, data, "--out", str(tmp_path)]) == 0
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


# A ball that falls 5 m with g = 10 m/s^2, y downwards: everything is in the scene, nothing was measured.
BALL = """
title = "A falling ball"

[system]
kind = "bouncing ball"
length = "m"
time = "s"

[data]
time = "t"
time_unit = "ms"
noise = { value = 1, unit = "mm" }

[preparation]
kind = "bounces"
column = "y"
unit = "m"

[parameters]
restitution = { value = 0.5 }
gravity = { value = 10 }
drag = { value = 0 }
floor = { value = 500, unit = "cm" }
floor_drift = { value = 0 }
q0 = { value = 0, unit = "cm" }
u0 = { value = 0 }
"""


def ensemble(folder, *options, scene=BALL):
    (folder / "ball.toml").write_text(scene)
    return main(["ensemble", str(folder / "ball.toml"), "--out", str(folder / "runs.h5"), *options])


def test_an_ensemble_is_the_scene_at_every_point_of_the_grid(tmp_path, capsys):
    grid = ("--vary", "q0[0]=0:-220:2", "--vary", "restitution=0.5:0.9:3", "--times", "0:1500:7", "--chunk", "4")
    assert ensemble(tmp_path, *grid) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert "2 values of q0[0] x 3 values of restitution, 6 lanes; 7 times from 0 to 1.5 s" in printed.out
    assert "6 of 6 lanes are fine" in printed.out
    with h5py.File(tmp_path / "runs.h5") as held:
        height, e = 5 - held["parameters/q0"][:, 0], held["parameters/restitution"][:]
        np.testing.assert_allclose(height, [5, 5, 5, 7.2, 7.2, 7.2], rtol=1e-15)
        np.testing.assert_allclose(e, [0.5, 0.7, 0.9] * 2, rtol=1e-15)
        np.testing.assert_allclose(held["fixed/t"], np.linspace(0, 1.5, 7), rtol=1e-15)
        assert held["fixed/floor"][()] == 5
        # It hits the floor at t, g t = sqrt(2 g height), and bounces once.
        t, left = np.sqrt(height / 5), 1.5 - np.sqrt(height / 5)
        np.testing.assert_allclose(held["outputs/q"][:, -1, 0], 5 - 10 * e * t * left + 5 * left**2, rtol=1e-12)
        np.testing.assert_allclose(held["outputs/u"][:, -1, 0], 10 * left - 10 * e * t, rtol=1e-12)
        np.testing.assert_allclose(held["outputs/impulse"][:].sum(axis=(1, 2)), 10 * (1 + e) * t, rtol=1e-12)
    # The same again finds it done; another scene does not touch it.
    before = (tmp_path / "runs.h5").read_bytes()
    assert ensemble(tmp_path, *grid) == 0
    assert "6 of 6 lanes are fine" in capsys.readouterr().out
    assert ensemble(tmp_path, *grid, scene=BALL.replace("value = 10 ", "value = 9.81 ")) == 2
    assert_one_line(capsys, "runs.h5'): holds another ensemble")
    assert (tmp_path / "runs.h5").read_bytes() == before


def test_an_ensemble_takes_what_it_needs_from_the_first_run(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr("diffcontact.vary.ensemble", lambda run, batch, **options: calls.append((batch, options)))
    scene = write(tmp_path)
    assert main(["ensemble", str(scene), "--vary", "q0[1]=30:50:3", "--out", str(tmp_path / "runs.h5")]) == 0
    ((batch, options),) = calls
    expected = read_study(scene).params(0)
    np.testing.assert_allclose(batch["q0"], [[expected["q0"][0], x] for x in (0.03, 0.04, 0.05)], rtol=1e-12)
    np.testing.assert_allclose(options["fixed"].pop("t"), 0.1 * np.arange(31), rtol=1e-12)
    assert options["fixed"].keys() == expected.keys() - {"q0"}
    for name, value in options["fixed"].items():
        np.testing.assert_array_equal(value, expected[name])
    assert options["store"] == tmp_path / "runs.h5"


def test_an_interrupted_ensemble_says_how_to_go_on(tmp_path, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("diffcontact.vary.ensemble", interrupted)
    assert ensemble(tmp_path, "--vary", "q0=-1:0:3", *TIMES) == 130
    assert_one_line(capsys, "interrupted; the same command goes on from there")


TIMES = ("--times", "0:1000:7")
BAD_ENSEMBLES = {
    "no range": (("--vary", "restitution", *TIMES), "--vary 'restitution': expected NAME=LOW:HIGH:COUNT or NAME[ELE"),
    "half a range": (
        ("--vary", "restitution=0.5:0.9", *TIMES),
        "--vary 'restitution=0.5:0.9': '0.5:0.9', expected LOW",
    ),
    "no number": (("--vary", "restitution=a:0.9:3", *TIMES), "'a:0.9:3', expected LOW:HIGH:COUNT, two numbers and a c"),
    "not finite": (("--vary", "q0=0:inf:3", *TIMES), "'0:inf:3', expected LOW:HIGH:COUNT, two numbers and a count of"),
    "one value": (("--vary", "restitution=0.5:0.9:1", *TIMES), "'0.5:0.9:1', expected LOW:HIGH:COUNT, two numbers an"),
    "half a value": (("--vary", "restitution=0.5:0.9:2.5", *TIMES), "'0.5:0.9:2.5', expected LOW:HIGH:COUNT, two nu"),
    "unknown name": (("--vary", "restituton=0:1:3", *TIMES), "no parameter 'restituton'; did you mean 'restitution'?"),
    "impossible": (("--vary", "restitution=0.5:1.9:3", *TIMES), "0.5 to 1.9, expected within [0, 1] (SI)"),
    "element of a number": (("--vary", "restitution[0]=0:1:3", *TIMES), "restitution is a single number, expected it"),
    "element beyond": (("--vary", "q0[1]=0:1:3", *TIMES), "--vary 'q0[1]=0:1:3': element 1 of q0, expected 0 to 0"),
    "twice": (("--vary", "q0=0:1:3", "--vary", "q0[0]=0:1:3", *TIMES), "--vary 'q0[0]=0:1:3': q0[0] is varied twice"),
    "no times": (("--vary", "q0=0:1:3"), "ball.toml: data.files: missing, and no --data was given; expected a CSV"),
    "times run back": (("--vary", "q0=0:1:3", "--times", "1:0:3"), "--times '1:0:3': from 1 to 0, expected LOW below"),
    "no lanes": (("--vary", "q0=0:1:3", *TIMES, "--chunk", "0"), "ensemble(chunk=0): expected an integer of at least"),
}


@pytest.mark.parametrize("case", BAD_ENSEMBLES)
def test_bad_ensemble(tmp_path, capsys, case):
    options, expected = BAD_ENSEMBLES[case]
    assert ensemble(tmp_path, *options) == 2
    assert_one_line(capsys, expected)
    assert not (tmp_path / "runs.h5").exists()


def test_an_ensemble_without_data_needs_every_value(tmp_path, capsys):
    scene = BALL.replace("value = 500, unit", 'value = "from data", unit')
    assert ensemble(tmp_path, "--vary", "u0=-1:1:2", *TIMES, scene=scene) == 2
    assert_one_line(capsys, "ball.toml: parameters.floor.value: 'from data' without any, expected a number, --vary or")
    scene = BALL.replace("[data]", "bounces = 2\n[data]").replace(
        "[parameters]", "[parameters]\nlater_restitution = {value = 1}"
    )
    assert ensemble(tmp_path, "--vary", "u0=-1:1:2", *TIMES, scene=scene) == 2
    assert_one_line(capsys, "ball.toml: system: takes its apexes from measurements, expected --data")
