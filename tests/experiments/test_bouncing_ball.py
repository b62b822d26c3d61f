"""The bouncing ball's scene: restitution from pixels, measured and simulated."""

import itertools

import jax.numpy as jnp
import numpy as np
from fitting import fitted, measured, write_csv

import diffcontact as dc

NAMES = ("ball1_3", "ball1_4")
TRUTH = {
    "restitution": 0.7,
    "later_restitution": 0.75,
    "gravity": 9.0,
    "drag": 4e-5,
    "floor": 800.0,
    "floor_drift": 0.4,
}


def film(data, name):
    return measured(data, "bouncing_ball_video", f"{name}.csv")


def simulated(path, rng):
    """24 pictures a second in a file of 30, a colour tracker that loses the ball, and flags that say nothing of it."""
    params = {name: jnp.asarray(value) for name, value in TRUTH.items()}
    params |= {"later_restitution": jnp.array([0.75, 0.7, 0.7]), "apexes": jnp.array([18.0, 33.0, 46.0])}
    falling = np.asarray(
        dc.simulate(
            dc.systems.bouncing_ball(4), params, jnp.array([150.0]), jnp.array([5.0]), jnp.arange(46, dtype=float)
        ).q[:, 0]
    )
    y = np.concatenate([np.full(10, 148.0), falling])
    y = np.round(y + rng.normal(size=y.size))
    shown = np.repeat(np.arange(y.size), np.where(np.arange(y.size) % 4 == 1, 2, 1))
    rows = y[shown]
    rows[[26, 27, 28]] = 30.0
    rows[38] += 40.0
    nothing = np.zeros(rows.size)
    header = "row,y_px_down,duplicate_frame,outlier"
    return write_csv(path, header, np.arange(rows.size, dtype=float), rows, nothing, nothing)


def test_two_measured_films_of_one_ball_agree(data, tmp_path):
    found = {name: fitted("bouncing_ball.toml", [film(data, name)], tmp_path / name) for name in NAMES}
    first = [found[name]["restitution"] for name in NAMES]
    assert all(0.74 < e["value"] < 0.8 for e in first)
    assert abs(first[0]["value"] - first[1]["value"]) < 2 * np.hypot(first[0]["stderr"], first[1]["stderr"])
    assert found["ball1_3"]["gravity[0]"]["unit"] == "px/frame^2"


def test_two_measured_films_jointly(data, tmp_path):
    found = fitted("bouncing_ball.toml", [film(data, name) for name in NAMES], tmp_path)
    assert 0.74 < found["restitution"]["value"] < 0.8
    assert {"later_restitution[0,0]", "later_restitution[1,0]"} <= found.keys()


def test_without_flags_false_detections_and_repeated_frames_do_no_harm(data, tmp_path):
    header, *rows = film(data, "ball1_4").read_text().splitlines()
    assert header.endswith("duplicate_frame,outlier")
    cleared = [",".join([*row.split(",")[:-2], "0", "0"]) for row in rows]
    assert sum(row != other for row, other in itertools.zip_longest(rows, cleared)) > 10
    (tmp_path / "cleared.csv").write_text("\n".join([header, *cleared]) + "\n")
    found = fitted("bouncing_ball.toml", [tmp_path / "cleared.csv"], tmp_path)["restitution"]
    assert 0.74 < found["value"] < 0.8


def test_a_simulated_film(tmp_path, rng):
    found = fitted("bouncing_ball.toml", [simulated(tmp_path / "film.csv", rng)], tmp_path)
    # One draw of the noise: within four standard errors, and these are small.
    for name, key, largest in (
        ("restitution", "restitution", 0.015),
        ("later_restitution", "later_restitution[0,0]", 0.015),
        ("gravity", "gravity[0]", 0.1),
        ("floor_drift", "floor_drift[0]", 0.2),
    ):
        assert abs(found[key]["value"] - TRUTH[name]) < 4 * found[key]["stderr"], key
        assert found[key]["stderr"] < largest, key
