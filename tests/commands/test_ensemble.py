"""`diffcontact ensemble`: a scene at every point of a grid, into one file."""

import sys

import h5py
import numpy as np
import pytest
from command_line import BALL, assert_one_line, write
from tables import cases

from diffcontact.commands.cli import main
from diffcontact.ensemble.tasks import LostChunkError
from diffcontact.scene.study import read_study

pytestmark = pytest.mark.full


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
        # One of the velocities is zero: rounding of the 10 m/s that cancel.
        np.testing.assert_allclose(held["outputs/u"][:, -1, 0], 10 * left - 10 * e * t, rtol=1e-12, atol=1e-13)
        np.testing.assert_allclose(held["outputs/impulse"][:].sum(axis=(1, 2)), 10 * (1 + e) * t, rtol=1e-12)
    # The same again finds it done; another scene does not touch it.
    before = (tmp_path / "runs.h5").read_bytes()
    assert ensemble(tmp_path, *grid) == 0
    assert "6 of 6 lanes are fine" in capsys.readouterr().out
    assert ensemble(tmp_path, *grid, scene=BALL.replace("value = 10 ", "value = 9.81 ")) == 2
    assert_one_line(capsys, "runs.h5'): holds another ensemble")
    assert (tmp_path / "runs.h5").read_bytes() == before


FLIGHT = """
system = { kind = "balls", count = 1, dimension = 2, planes = [[0, 1]], air = true }
data = { time = "t", noise = { value = 1, unit = "mm" } }
preparation = { kind = "coordinates", columns = ["x", "y"] }
[parameters]
mass = { value = 1 }
radius = { value = 0 }
restitution = { value = 0.8 }
plane_offset = { value = 0 }
gravity = { value = [0, 0] }
damping = { value = 2 }
drag = { value = 0 }
q0 = { value = [0, 1] }
u0 = { value = [5, 0] }
"""


def test_another_system_with_the_same_parameters_is_another_ensemble(tmp_path, capsys):
    """A plane that leans has the same parameters by name and shape: its motions are not those of one that does not."""
    grid = ("--vary", "damping=1:4:2", "--times", "0:1:3")
    assert ensemble(tmp_path, *grid, scene=FLIGHT) == 0
    before = (tmp_path / "runs.h5").read_bytes()
    capsys.readouterr()
    assert ensemble(tmp_path, *grid, scene=FLIGHT.replace("[[0, 1]]", "[[0.3, 1]]")) == 2
    assert_one_line(capsys, "runs.h5'): holds another ensemble")
    assert (tmp_path / "runs.h5").read_bytes() == before


@pytest.mark.parametrize("times", [5, 17])
def test_the_steps_of_an_ensemble_are_as_short_as_those_of_one_motion(tmp_path, times):
    """Whatever the times that are asked for: what is damped comes to within a tenth of the noise of where it does."""
    assert ensemble(tmp_path, "--vary", "damping=1:4:12", "--times", f"0:2:{times}", scene=FLIGHT) == 0
    with h5py.File(tmp_path / "runs.h5") as held:
        t, c = held["fixed/t"][:], held["parameters/damping"][:][:, None]
        np.testing.assert_allclose(held["outputs/q"][:, :, 0], 5 / c * (1 - np.exp(-c * t)), atol=1e-4)
        assert np.all(held["outputs/status"][:] == 0)
        assert np.all(held["outputs/error"][:] <= 1e-4)


def test_lanes_that_may_be_wrong_end_with_the_code_for_it(tmp_path, capsys):
    """One step of ten seconds from time to time, as the scene asks: bounces come and go within it."""
    thrown = FLIGHT.replace("[0, 0]", "[0, -9.81]") + "[fit]\nsubsteps = 1\n"
    assert ensemble(tmp_path, "--vary", "restitution=0.5:0.9:2", "--times", "0:40:5", scene=thrown) == 3
    assert "0 of 2 lanes are fine; 2 TOO_COARSE" in capsys.readouterr().out


TIED = """
system = { kind = "balls", count = 2, dimension = 1 }
data = { time = "t", noise = { value = 1, unit = "mm" } }
preparation = { kind = "coordinates", columns = ["a", "b"] }
[parameters]
mass = { value = [1, 1] }
radius = { free = false }
gravity = { value = 0 }
restitution = { value = 1 }
q0 = { value = [0, 1] }
u0 = { value = [1, 0] }
[ties]
"mass[1]" = "2 * mass[0]"
"radius[0]" = "0.05 * restitution"
"radius[1]" = "0.05 * restitution"
"""


def test_ties_are_followed_in_every_lane(tmp_path, capsys):
    options = ("--times", "0:1:3", "--vary", "mass[0]=1:2:2", "--vary", "restitution=0.5:1:2")
    assert ensemble(tmp_path, *options, scene=TIED) == 0
    with h5py.File(tmp_path / "runs.h5") as held:
        np.testing.assert_allclose(held["parameters/mass"][:], [[1, 2], [1, 2], [2, 4], [2, 4]])
        np.testing.assert_allclose(held["parameters/radius"][:, 1], [0.025, 0.05, 0.025, 0.05])
        # Momentum over the first mass: it meets one of twice its mass.
        np.testing.assert_allclose(held["outputs/u"][:, -1] @ [1, 2], 1.0, rtol=1e-12)
    capsys.readouterr()
    assert ensemble(tmp_path, "--times", "0:1:3", "--vary", "mass[1]=1:2:2", scene=TIED) == 2
    assert_one_line(capsys, "element 1 of mass follows element 0 of mass by [ties]; expected that to be varied")


@cases(
    "tie vary told",
    """
    -2 * mass[0] | restitution=0.5:1:2 | ball.toml: parameters.mass.value: [1.0, -2.0] (by [ties]), expected
    0.5 * gravity[0] | gravity=1:-1:3 | ball.toml: parameters.mass.value: [1.0, 0.0] (by [ties]), expected above
    """,
)
def test_a_tied_value_that_is_impossible_is_no_lane(tie, vary, told, tmp_path, capsys):
    scene = TIED.replace("2 * mass[0]", tie)
    assert ensemble(tmp_path, "--times", "0:1:3", "--vary", vary, scene=scene) == 2
    assert_one_line(capsys, told)
    assert not (tmp_path / "runs.h5").exists()


def test_a_tie_to_what_is_varied_is_no_more_impossible_than_its_lanes(tmp_path):
    """The scene itself has a mass of zero here, and no lane has."""
    scene = TIED.replace("2 * mass[0]", "0.5 * gravity[0]")
    assert ensemble(tmp_path, "--times", "0:1:3", "--vary", "gravity=1:2:2", scene=scene) == 0


def test_an_ensemble_takes_what_it_needs_from_the_first_run(tmp_path, monkeypatch):
    calls = []

    def noted(run, batch, **options):
        calls.append((batch, options))
        return {"status": np.zeros(3)}

    monkeypatch.setattr("diffcontact.commands.ensemble.ensemble", noted)
    scene = write(tmp_path)
    assert main(["ensemble", str(scene), "--vary", "q0[1]=30:50:3", "--out", str(tmp_path / "runs.h5")]) == 0
    ((batch, options),) = calls
    expected = read_study(scene).params(0)
    np.testing.assert_allclose(batch["q0"], [[expected["q0"][0], x] for x in (0.03, 0.04, 0.05)], rtol=1e-12)
    np.testing.assert_allclose(options["fixed"].pop("t"), 0.1 * np.arange(31), rtol=1e-12)
    assert options["fixed"].keys() == (expected.keys() - {"q0"}) | {"substeps", "allowed", "system"}
    for name in expected.keys() - {"q0"}:
        np.testing.assert_array_equal(options["fixed"][name], expected[name])
    assert options["store"] == tmp_path / "runs.h5"


def test_dask_gives_the_same_file(tmp_path, capsys, cluster):
    grid = ("--vary", "restitution=0.5:0.9:3", "--times", "0:1500:7")
    assert ensemble(tmp_path, *grid) == 0
    here = (tmp_path / "runs.h5").read_bytes()
    (tmp_path / "runs.h5").unlink()
    assert ensemble(tmp_path, *grid, "--dask", cluster.scheduler_address) == 0
    assert (tmp_path / "runs.h5").read_bytes() == here
    printed = capsys.readouterr()
    assert printed.err == ""
    assert f" workers of {cluster.scheduler_address}\n" in printed.out


def test_what_dask_needs_is_told(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert ensemble(tmp_path, "--vary", "q0=-1:0:3", "--times", "0:1000:7", "--dask", "tcp://localhost:1") == 2
    assert_one_line(capsys, "--dask 'tcp://localhost:1': needs distributed, pip install 'diffcontact[dask]'")
    assert not (tmp_path / "runs.h5").exists()


@pytest.mark.parametrize("address", ["", "here", "http://localhost:1"])
def test_an_address_that_is_none_is_told(tmp_path, capsys, address):
    pytest.importorskip("distributed", reason="distributed is not installed")
    assert ensemble(tmp_path, "--vary", "q0=-1:0:3", "--times", "0:1000:7", "--dask", address) == 2
    assert_one_line(capsys, f"--dask '{address}': ")


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [
        (LostChunkError("chunk 3 (lanes 9 to 11) was lost"), 2, "chunk 3 (lanes 9 to 11) was lost"),
        (KeyboardInterrupt(), 130, "interrupted; the same command goes on from there"),
    ],
)
def test_what_stops_an_ensemble_is_one_line(tmp_path, capsys, monkeypatch, error, code, told):
    def stopped(*_, **__):
        raise error

    monkeypatch.setattr("diffcontact.commands.ensemble.ensemble", stopped)
    assert ensemble(tmp_path, "--vary", "q0=-1:0:3", "--times", "0:1000:7") == code
    assert_one_line(capsys, told)
