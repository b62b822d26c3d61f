"""Scenes of mechanisms: model files, columns by name, starting states, drafts and fits."""

import json
import re

import jax
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.commands.cli import main
from diffcontact.scene.document import parse_scene, read_scene
from diffcontact.scene.keys import Table

pytest.importorskip("mujoco", reason="mechanism reads files by MuJoCo, the extra `mujoco`")

ARM = """<mujoco><worldbody><body name="upper"><joint name="shoulder" axis="0 -1 0"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.5" mass="1"/><body name="lower" pos="0 0 -.5">
<joint name="elbow" axis="0 -1 0" range="-30 30" damping=".01"/>
<geom type="box" size=".02 .03 .2" pos="0 0 -.2" mass=".5"/>
<site name="tip" pos="0 0 -.4"/></body></body></worldbody></mujoco>"""
# A floating body with an arm on a ball joint and a slide.
FLOATING = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/>
<body name="trunk" pos="0 0 1"><freejoint/><geom name="trunk" size=".1" mass="1"/><site name="a" pos=".1 0 0"/>
<site name="b" pos="0 .1 0"/><body name="arm" pos="0 0 .2" euler="20 30 40">
<joint name="socket" type="ball"/><geom name="arm" size=".05" pos="0 0 .2" mass=".2"/><site name="c" pos=".1 0 .2"/>
<site name="d" pos="0 .1 .2"/><body name="tool" pos="0 0 .4"><joint name="lift" type="slide" axis="0 0 1"/>
<geom name="tool" size=".05" mass=".1"/></body></body></body></worldbody></mujoco>"""
CRANK = """<mujoco><worldbody><body name="crank"><joint name="crank" axis="0 1 0" damping=".05"/>
<geom type="capsule" size=".02" fromto="0 0 0 .3 0 0" mass="1"/><body name="rod" pos=".3 0 0">
<joint name="pin" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 .8 0 0" mass=".5"/></body></body>
<body name="slider" pos="1.1 0 0"><joint name="slider" type="slide" axis="1 0 0" range="-1 -.1"/>
<geom type="box" size=".05 .05 .05" mass="2"/></body></worldbody><contact><exclude body1="rod" body2="slider"/>
<exclude body1="crank" body2="slider"/></contact>
<equality><connect body1="rod" body2="slider" anchor=".8 0 0"/></equality></mujoco>"""
COLUMNS = {"tip": ["x", "", "z"], "shoulder": "angle"}


def scene(model=ARM, columns=COLUMNS, parameters=("q0", "u0"), data=None, **changes):
    system = {"kind": "mechanism", "model": model}
    preparation = {"kind": "named", "columns": columns, "angle_noise": {"value": 1, "unit": "deg"}}
    for key, value in changes.items():
        table = preparation if key in ("columns", "unit", "angle_unit", "angle_noise", "first_samples") else system
        table[key] = value
        if value is None:
            del table[key]
    document = {
        "system": system,
        "data": {"noise": {"value": 1, "unit": "mm"}, "time": "t", **(data or {})},
        "preparation": preparation,
        "parameters": {name: {"value": 0.5} for name in parameters},
        "fit": {},
        "output": {},
    }
    return parse_scene(Table(document, "scene.toml"), None)


def test_lengths_come_first_and_angles_have_a_noise_of_their_own(tmp_path):
    made = scene(angle_unit="deg")
    assert made.preparation.channels == ("x", "z", "angle")
    np.testing.assert_allclose(made.noises, [1e-3, 1e-3, np.pi / 180])
    assert (made.ready.quantities["q0"].unit, made.ready.quantities["damping"].shape) == ("rad", (2,))
    alone = scene(columns={"elbow": "angle"}, angle_noise=None, data={"noise": {"value": 2, "unit": "deg"}})
    np.testing.assert_allclose(alone.noises, np.pi / 90)
    assert alone.ready.length == "rad"
    shared, each = scene(FLOATING, {"trunk": ["x", "y", "z"]}, angle_noise=None), "friction"
    assert shared.ready.quantities[each].shape == ()
    split = scene(FLOATING, {"trunk": ["x", "y", "z"]}, angle_noise=None, each=[each])
    assert split.ready.quantities[each].shape == (len(split.ready.system.names[each]),)


@pytest.mark.parametrize(
    ("line", "changes"),
    [
        ("system.model: mechanism: MuJoCo cannot read 'nowhere.xml'", {"model": "nowhere.xml"}),
        ("system.model: mechanism(contacts=...): geoms that do not touch", {"contacts": [["a", "b"]]}),
        ("system.each: 'mass', expected some of friction, restitution, stop_restitution", {"each": ["mass"]}),
        ("preparation.columns.tp: no joint, body or site of this name; did you mean 'tip'?", {"columns": {"tp": "x"}}),
        ("preparation.columns.tip: 'x', expected a list of columns for x, y and z", {"columns": {"tip": "x"}}),
        ("preparation.columns.tip: ['x'], expected the names of three columns", {"columns": {"tip": ["x"]}}),
        ("preparation.columns: none, expected some of tip", {"columns": {}}),
        ("preparation.angle_noise: of lengths or angles alone", {"columns": {"elbow": "x"}}),
        ("preparation.angle_noise: missing", {"angle_noise": None}),
        ("system.model: mechanism(independent=...): wing: expected some of", {"independent": ["wing"]}),
    ],
)
def test_mistakes_are_named(line, changes):
    with pytest.raises(ValueError, match=f"^scene.toml: {re.escape(line)}"):
        scene(**changes)


def test_a_start_is_what_is_observed_at_first():
    """Of a body that moves freely, an arm that turns in a socket and a tool on it, seen by sites and one slide."""
    names = ("a", "b", "trunk", "c", "d", "arm")
    columns = {name: [f"{name}{axis}" for axis in "xyz"] for name in names} | {"lift": "lift"}
    made = scene(FLOATING, columns, angle_noise=None, first_samples=2)
    system, rng = made.ready.system, np.random.default_rng(0)
    x, u, h = 0.4 * rng.normal(size=10), rng.normal(size=10), 1e-4
    q0, _ = jax.jit(made.ready.initial)({"q0": x, "u0": u})
    observe = jax.jit(lambda s: made.preparation.observe.at(system.advance(q0, u, s, {})))
    seen = np.stack([observe(s) for s in (0.0, h)])
    (run,) = made.preparation.runs(np.array([0.0, h]), dict(zip(made.preparation.columns, seen.T, strict=True)))
    np.testing.assert_allclose(run.start["q0"], x, atol=1e-6)
    np.testing.assert_allclose(run.start["u0"], u, atol=1e-2)


def test_a_loop_starts_where_its_slider_was_seen():
    """Beside the closed form of a crank of 0.3 m and a rod of 0.8 m, which are at a dead point in the file."""
    made = scene(CRANK, {"slider": "way"}, angle_noise=None, independent=["crank"], first_samples=2)
    assert made.ready.quantities["q0"].shape == made.ready.quantities["u0"].shape == (1,)

    def way(angle):
        return 0.3 * np.cos(angle) + np.sqrt(0.64 - (0.3 * np.sin(angle)) ** 2) - 1.1

    q0, _ = jax.jit(made.ready.initial)({"q0": np.array([3.0]), "u0": np.zeros(1)})
    np.testing.assert_allclose(q0[::2], [3.0, way(3.0)], atol=1e-12)
    times = np.array([0.0, 1e-4])
    (run,) = made.preparation.runs(times, {"way": way(1.2 - 2.0 * times)})
    np.testing.assert_allclose(np.abs(run.start["q0"]), 1.2, atol=1e-6)
    np.testing.assert_allclose(run.start["u0"] * np.sign(run.start["q0"]), -2.0, atol=1e-3)


@pytest.mark.full
def test_a_drafted_scene_of_a_model_is_fitted_and_played(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.xml").write_text(ARM)
    system, times = dc.systems.mechanism("arm.xml"), np.linspace(0.0, 2.0, 101)
    truth = {"damping": np.array([0.02, 0.03]), "stop_restitution": 0.5}
    run = dc.simulate(system, truth, [1.0, 0.3], [0.0, 3.0], times, substeps=4)
    rng = np.random.default_rng(0)
    seen = np.asarray(system.observe("shoulder", "tip")(run, {}))
    noise = rng.normal(size=seen.shape)
    rows = np.column_stack([times, np.degrees(seen[:, 0]) + 0.2 * noise[:, 0], 1e3 * seen[:, 1:] + noise[:, 1:]])
    head = "time [s],shoulder [deg],tip x [mm],tip y [mm],tip z [mm]"
    np.savetxt("swings.csv", rows, fmt="%.3f", delimiter=",", header=head, comments="")
    assert main(["new", "arm.xml", "--data", "swings.csv", "--out", "arm.toml"]) == 0
    assert "taken for the mechanism arm.xml" in capsys.readouterr().out
    assert read_scene("arm.toml").preparation.channels[-1] == "shoulder [deg]"
    assert main(["fit", "arm.toml", "--out", "out", "--quiet"]) == 0
    found = json.loads((tmp_path / "out" / "result.json").read_text())["parameters"]
    for name, value in {"stop_restitution": 0.5, "damping[0]": 0.02, "damping[1]": 0.03}.items():
        assert found[name]["value"] == pytest.approx(value, abs=4 * found[name]["stderr"]), name
        assert found[name]["stderr"] < 0.02 * max(value, 0.5)
    assert "polyhedron" in (tmp_path / "out" / "report.html").read_text().lower()
    assert main(["simulate", "arm.toml", "--out", "motion.html", "--quiet"]) == 0


def test_a_draft_takes_columns_by_their_names(tmp_path, monkeypatch, capsys):
    """A hinge is an angle whatever the column says; places may lack an axis."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "arm.xml").write_text(ARM)
    times = np.arange(30) / 30
    rows = np.column_stack([times, np.sin(3 * times), 0.5 * np.cos(3 * times)])
    for name, head in (("mine", "t [s],elbow,tip_x [m]"), ("other", "t [s],wing x [m],wing y [m]")):
        np.savetxt(f"{name}.csv", rows, delimiter=",", header=head, comments="")
    assert main(["new", "arm.xml", "--data", "mine.csv", "--out", "mine.toml"]) == 0
    text = (tmp_path / "mine.toml").read_text()
    for line in ('columns."elbow" = "elbow"', 'columns."tip" = ["tip_x [m]", "", ""]', 'angle_unit = "rad"  # a guess'):
        assert line in text
    assert read_scene("mine.toml").preparation.angles == 1
    assert main(["new", "arm.xml", "--data", "other.csv", "--out", "none.toml"]) == 2
    assert "other.csv: no column has a name of arm.xml, expected some of tip x, " in capsys.readouterr().err
