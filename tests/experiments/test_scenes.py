"""Scenes of `experiments/` through the command line: on measured files, and on simulated ones whose truth is known."""

import itertools
import json

import jax.numpy as jnp
import numpy as np
import pytest
from fitting import EXPERIMENTS, fitted, holds, measured, write_csv

import diffcontact as dc
from diffcontact.commands.cli import main
from diffcontact.scene import read_study
from diffcontact.scene.document import read_scene


def reasons(folder):
    return " ".join(json.loads((folder / "result.json").read_text())["verdict"]["reasons"])


def near(found, truths, errors):
    """Whether estimates are within four of their standard errors, one draw of the noise, and these are small."""
    for (name, truth), error in zip(truths.items(), errors, strict=True):
        assert abs(found[name]["value"] - truth) < 4 * found[name]["stderr"], name
        assert found[name]["stderr"] < error, name


@pytest.mark.parametrize("scene", sorted(path.name for path in EXPERIMENTS.glob("*.toml")))
def test_every_scene_is_one(scene):
    assert read_scene(EXPERIMENTS / scene).title


# Air hockey: rebounds from a cushion among hits by the hand. Velocities along the cushion and towards it [m/s]; fast
# ones along it slip.
E, MU, E_T, DAMPING = 0.65, 0.25, 0.6, 0.1
REBOUNDS = ((1.8, -1.6), (-1.6, -1.2), (0.4, -2.0), (2.0, -1.4), (-0.9, -2.4), (1.2, -0.9))


def glided(x, v, t):
    return x + v * -np.expm1(-DAMPING * t) / DAMPING, v * np.exp(-DAMPING * t)


def played(path, rng):
    """A puck that comes to the cushion, in closed form, and is stopped and put back by hand after each rebound."""
    step, places = 1 / 118, []
    for along, towards in REBOUNDS:
        x, v = np.array([0.9, 0.45]), np.array([along, towards])
        # The centre is at 0.03 m when the puck touches.
        hit = -np.log1p(-DAMPING * (x[1] - 0.03) / -v[1]) / DAMPING
        at, before = glided(x, v, hit)
        normal = -(1 + E) * before[1]
        rub = -np.sign(before[0]) * min(MU * normal, (1 + E_T) * abs(before[0]) / 3)
        after = np.array([before[0] + rub, -E * before[1]])
        for t in np.arange(0.0, 1.6 * hit, step):
            places.append(glided(x, v, t)[0] if t < hit else glided(at, after, t - hit)[0])
        last = places[-1]
        places += [last + (np.array([0.9, 0.45]) - last) * part for part in np.linspace(0.1, 1.0, 20) ** 2]
    seen = np.array(places) + 1e-3 * rng.normal(size=(len(places), 2))
    return write_csv(path, "time [s],x [m],y [m]", step * np.arange(len(places)), *seen.T)


def test_rebounds_are_runs_and_hits_by_the_hand_are_none(tmp_path, rng):
    file = played(tmp_path / "puck.csv", rng)
    runs = read_study(EXPERIMENTS / "air_hockey.toml", [file]).runs
    for run, start in zip(runs, REBOUNDS, strict=True):
        # 1 mm of noise in ten samples: 0.05 m/s; the damping takes 4 % away on the way.
        np.testing.assert_allclose(run.start["u0"], start, atol=0.3)
        assert "bounce near t = " in run.label
    found = fitted("air_hockey.toml", [file], tmp_path / "out")
    near(found, {"restitution": E, "friction": MU, "tangential_restitution": E_T}, [0.1] * 3)


def test_the_measured_puck(data, tmp_path):
    found = fitted("air_hockey.toml", [measured(data, "pucks", "air_hockey.csv")], tmp_path)
    # By hand, a straight line on each side: 0.38 to 0.73 for these, half of them from 0.54 to 0.67.
    assert found["restitution"]["value"] == pytest.approx(0.58, abs=0.06)
    assert 0.1 < found["friction"]["value"] < 0.5
    assert "the runs differ by more than their own errors" in reasons(tmp_path)


@pytest.fixture
def runs(data):
    return measured(data, "airtrack_carts", "A2_1.csv").parent


def test_six_runs_of_carts_jointly_agree_with_the_scales(runs, tmp_path):
    found = fitted("airtrack.toml", sorted(runs.glob("A2_*.csv"))[:6], tmp_path)["mass_ratio"]
    weighed, (low, high) = 0.1817 / 0.1831, found["interval95"]
    assert abs(found["value"] / weighed - 1) < 0.02
    assert low < weighed < high
    # Narrower than +-4 %, and no narrower than the scatter of the runs allows (0.02 between runs, six of them).
    assert 0.01 < (high - low) / 2 < 0.04


def test_bumpers_that_stick_and_a_run_alone(runs, tmp_path):
    sticks = fitted("airtrack.toml", sorted(runs.glob("A3_*.csv"))[:3], tmp_path / "sticks")["restitution"]
    assert 0 <= sticks["value"] < 0.03
    assert 0.74 < fitted("airtrack.toml", [runs / "A2_1.csv"], tmp_path / "alone")["restitution"]["value"] < 0.82


NAMES = ("ball1_3", "ball1_4")
FILM = {"restitution": 0.7, "gravity": 9.0, "drag": 4e-5, "floor": 800.0, "floor_drift": 0.4}
FILM |= {"later_restitution": np.array([0.75, 0.7, 0.7]), "apexes": np.array([18.0, 33.0, 46.0])}


def film(data, name):
    return measured(data, "bouncing_ball_video", f"{name}.csv")


def filmed(path, rng):
    """24 pictures a second in a file of 30, a colour tracker that loses the ball, and flags that say nothing of it."""
    ball, times = dc.systems.bouncing_ball(4), jnp.arange(46, dtype=float)
    falling = np.asarray(dc.simulate(ball, FILM, [150.0], [5.0], times).q[:, 0])
    y = np.concatenate([np.full(10, 148.0), falling])
    y = np.round(y + rng.normal(size=y.size))
    rows = y[np.repeat(np.arange(y.size), np.where(np.arange(y.size) % 4 == 1, 2, 1))]
    rows[[26, 27, 28]] = 30.0
    rows[38] += 40.0
    nothing = np.zeros(rows.size)
    return write_csv(path, "row,y_px_down,duplicate_frame,outlier", np.arange(float(rows.size)), rows, nothing, nothing)


def test_two_measured_films_of_one_ball_agree(data, tmp_path):
    found = {name: fitted("bouncing_ball.toml", [film(data, name)], tmp_path / name) for name in NAMES}
    first = [found[name]["restitution"] for name in NAMES]
    assert all(0.74 < e["value"] < 0.8 for e in first)
    assert abs(first[0]["value"] - first[1]["value"]) < 2 * np.hypot(first[0]["stderr"], first[1]["stderr"])
    assert found["ball1_3"]["gravity[0]"]["unit"] == "px/frame^2"
    both = fitted("bouncing_ball.toml", [film(data, name) for name in NAMES], tmp_path)
    assert 0.74 < both["restitution"]["value"] < 0.8
    assert {"later_restitution[0,0]", "later_restitution[1,0]"} <= both.keys()


def test_without_flags_false_detections_and_repeated_frames_do_no_harm(data, tmp_path):
    header, *rows = film(data, "ball1_4").read_text().splitlines()
    assert header.endswith("duplicate_frame,outlier")
    cleared = [",".join([*row.split(",")[:-2], "0", "0"]) for row in rows]
    assert sum(row != other for row, other in itertools.zip_longest(rows, cleared)) > 10
    (tmp_path / "cleared.csv").write_text("\n".join([header, *cleared]) + "\n")
    found = fitted("bouncing_ball.toml", [tmp_path / "cleared.csv"], tmp_path)["restitution"]
    assert 0.74 < found["value"] < 0.8


def test_a_simulated_film(tmp_path, rng):
    found = fitted("bouncing_ball.toml", [filmed(tmp_path / "film.csv", rng)], tmp_path)
    truths = {"restitution": 0.7, "later_restitution[0,0]": 0.75, "gravity[0]": 9.0, "floor_drift[0]": 0.4}
    near(found, truths, [0.015, 0.015, 0.1, 0.2])


def test_the_measured_carriage(data, tmp_path):
    found = fitted("carriage.toml", [measured(data, "driven_mass_friction", "run_a3.csv")], tmp_path)
    assert abs(found["mass"]["value"] / 24.7 - 1) < 0.05
    # Beside the author's law F = 10 + 67.4 v + a Stribeck term: by hand, a straight line through it has 17.6 N and
    # 42 N s/m, each within two standard errors or so.
    assert holds(found["gamma"], 17.6)
    assert holds(found["damping"], 42.0)


def rolled(path, rng, gamma, curvature=4.3):
    """A ball in a parabola, along which it is a harmonic oscillator with friction, filmed to half a millimetre."""
    params = {"mass": 1.0, "stiffness": 38.0, "damping": 0.0, "gamma": gamma, "normal": 1.0, "rest": 0.002}
    times = np.linspace(0.0, 6.0, 601)
    run = dc.simulate(dc.systems.particle_line(), params, [0.08], [0.0], times)
    x = np.linspace(-0.2, 0.2, 4001)
    way = np.concatenate([[0.0], np.cumsum(np.hypot(np.diff(x), np.diff(curvature * x**2)))])
    x = np.interp(np.asarray(run.q[:, 0]), way - way[2000], x)
    positions = np.stack([x, curvature * x**2]) + 5e-4 * rng.normal(size=(2, times.size))
    return write_csv(path, "t_s,x_m,y_m", times, *positions)


def test_the_measured_ball_in_a_halfpipe(data, tmp_path):
    gamma = fitted("halfpipe.toml", [measured(data, "halfpipe_rolling", "sm_ball_no_mag.csv")], tmp_path)["gamma"]
    assert 0.07 < gamma["value"] < 0.1
    assert gamma["unit"] == "m/s^2"
    # The correlation of the residuals makes it wider than independent samples would.
    assert gamma["stderr"] > 1.5 * gamma["stderr_plain"]


def test_a_simulated_ball_that_comes_to_rest_in_a_halfpipe(tmp_path, rng, capsys):
    run = rolled(tmp_path / "ball.csv", rng, gamma=0.12)
    near(fitted("halfpipe.toml", [run], tmp_path), {"gamma": 0.12, "stiffness": 38.0}, [2e-3, 1.0])
    capsys.readouterr()
    assert main(["check", str(EXPERIMENTS / "halfpipe.toml"), "--data", str(run)]) == 0
    printed = capsys.readouterr().out
    assert "ball.csv, from the start (t = " in printed
    assert "S4 proposition 4.1" in printed


def collided(path, rng, masses=(29.797, 31.638), e=0.88, radii=0.0734):
    """86 pictures of two pucks that grip, in closed form, with 0.2 mm of noise."""
    m1, m2 = masses
    x, v = np.array([[-0.157, 0.056], [0.018, 0.033]]), np.array([[0.60, 0.033], [-0.012, -0.005]])
    times = np.round(0.01 * np.arange(86), 2)
    low, high = 0.0, 0.25
    for _ in range(60):
        middle = (low + high) / 2
        there = glided(x, v, middle)[0]
        low, high = (middle, high) if np.hypot(*(there[1] - there[0])) > radii else (low, middle)
    at, before = glided(x, v, high)
    d = (at[1] - at[0]) / np.hypot(*(at[1] - at[0]))
    t = np.array([-d[1], d[0]])
    slip, reduced = before[1] - before[0], m1 * m2 / (m1 + m2)
    # Discs that grip: a third of the mass is felt along the contact.
    impulse = -reduced * ((1 + e) * (slip @ d) * d + (slip @ t) / 3 * t)
    after = before + np.stack([-impulse / m1, impulse / m2])
    places = [glided(x, v, s)[0] if s < high else glided(at, after, s - high)[0] for s in times]
    seen = 100 * np.reshape(places, (86, 4)) + 0.02 * rng.normal(size=(86, 4))
    return write_csv(path, "time [s],x1 [cm],y1 [cm],x2 [cm],y2 [cm]", times, *seen.T)


def test_a_simulated_collision_of_pucks_bounds_friction_from_below(tmp_path, rng):
    found = fitted("pucks.toml", [collided(tmp_path / "pucks.csv", rng)], tmp_path / "out")
    near(found, {"restitution": 0.88, "mass[1]": 31.638, "damping": DAMPING}, [np.inf] * 3)
    low, high = found["friction"]["interval95"]
    assert 0.03 < low < 0.5
    assert high is None
    told = reasons(tmp_path / "out")
    assert "it gripped, so the data only bound it from below" in told
    assert "mass[1]" not in told


def test_the_measured_collision_of_pucks_contradicts_the_scales(data, tmp_path):
    found = fitted("pucks.toml", [measured(data, "pucks", "collision.csv")], tmp_path)
    assert found["restitution"]["value"] == pytest.approx(0.88, abs=0.02)
    told = reasons(tmp_path)
    assert "the data and the prior of mass[1] are" in told
    assert "friction >= " in told


def test_the_measured_spring_has_no_dry_friction(data, tmp_path):
    found = fitted("spring.toml", [measured(data, "spring_mass", "F1V1.csv")], tmp_path)
    assert 48 < found["stiffness"]["value"] < 50
    # Statically, from the elongation under the weight.
    assert holds(found["stiffness"], 49.47)
    assert found["gamma"]["interval95"][0] == 0
    # At its bound, where the other side of the interval is all that the data say.
    assert found["gamma"]["note"] == "at its bound, interval by its profile"
    assert 0 < found["gamma"]["interval95"][1] < 0.01
