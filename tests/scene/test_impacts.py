"""Tables of velocities before and after impacts, in closed form."""

import numpy as np
import pytest
from preparing import prepared
from tables import cases

from diffcontact.scene.draft import draft, survey

COUNT, RHO, E, MU = 40, 0.02, 0.6, 0.15


def body(rng, signs=(1.0, 1.0)):
    """Impacts of a body that slides all through them: rows of velocities, spins [rad/s] and levers [m], by name."""
    levers = np.stack([0.01 * rng.normal(size=COUNT), 0.03 + 0.002 * rng.normal(size=COUNT)])
    before = np.stack([3 + rng.random(COUNT), -2 - rng.random(COUNT), 9 * rng.normal(size=COUNT)])
    # It slides along +x: the impulse is P (-mu, 1) with P from v_N+ = -e v_N-.
    moment = (levers[0] - MU * levers[1]) / RHO**2
    P = -(1 + E) * (before[1] + levers[0] * before[2]) / (1 + levers[0] * moment)
    after = before + P * np.stack([-MU + 0 * P, 1 + 0 * P, moment])
    names = ("vx", "vy", "spin")
    columns = {f"{name} before": row for name, row in zip(names, before, strict=True)}
    columns |= {f"{name} after": row for name, row in zip(names, after, strict=True)}
    return columns | dict(zip(("arm n", "arm t"), levers * np.array(signs)[:, None], strict=True))


def impacts(of, columns, before, after, **keys):
    table = {"kind": "impacts", "before": list(before), "after": list(after), **keys}
    return prepared({"kind": "impact", "of": of}, table, np.arange(float(COUNT)), columns, "table.csv")


@pytest.mark.parametrize("signs", [(1.0, 1.0), (-1.0, 1.0), (1.0, -1.0)])
def test_each_row_is_a_run_whichever_way_levers_count(rng, signs):
    columns = body(rng, signs)
    columns["bad"] = (np.arange(COUNT) == 3) * 1.0
    columns["vy after"][7] = np.nan
    pairs = [[f"{name} {when}" for name in ("vx", "vy")] for when in ("before", "after")]
    turning = {"spin": ["spin before", "spin after"], "levers": ["arm n", "arm t"], "flagged": "bad"}
    runs = impacts("body", columns, *pairs, gyration={"value": RHO, "unit": "m"}, **turning)
    assert [run.part for run in runs[:4]] == ["impact 1", "impact 2", "impact 3", "impact 5"]
    assert len(runs) == COUNT - 2
    run = runs[0]
    np.testing.assert_allclose(
        run.values[0], [columns["vx before"][0], columns["vy before"][0], RHO * columns["spin before"][0]]
    )
    np.testing.assert_allclose(run.given["levers"], np.array([columns["arm n"][0], columns["arm t"][0]]) * signs / RHO)
    assert run.start["restitution"] == pytest.approx(E, abs=1e-9)
    assert run.notes["impacts"] == "38 of 40 rows"


@pytest.mark.parametrize("signs", [(-1.0, 1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, -1.0)])
def test_a_ball_comes_from_above_whatever_its_axis_and_with_speeds_alone(rng, signs):
    speed = 1 + rng.random(COUNT)
    columns = {"v": signs[0] * speed, "w": signs[1] * 0.7 * speed}
    runs = impacts("ball", columns, "v", "w")
    np.testing.assert_allclose([run.values[:, 0] for run in runs], np.stack([-speed, 0.7 * speed], axis=1))


@pytest.mark.parametrize("way", [1.0, -1.0])
def test_the_first_cart_comes_from_behind(rng, way):
    speed = 1 + rng.random(COUNT)
    columns = {"a": way * speed, "b": 0 * speed, "c": way * 0.1 * speed, "d": way * 0.9 * speed}
    runs = impacts("carts", columns, "ab", "cd")
    assert all(run.values[0, 0] > run.values[0, 1] for run in runs)
    assert runs[0].start["restitution"] == pytest.approx(0.8)


def test_a_table_in_which_nothing_approaches_is_refused():
    columns = {"v": np.full(COUNT, np.nan), "w": np.ones(COUNT)}
    with pytest.raises(ValueError, match=r"table\.csv: columns 'v': nothing approaches in any row, expected impacts"):
        impacts("ball", columns, "v", "w")


def written(folder, columns):
    path = folder / "table.csv"
    rows = zip(*columns.values(), strict=True)
    path.write_text("\n".join([",".join(columns), *(",".join(f"{x:.6g}" for x in row) for row in rows)]) + "\n")
    return path


@cases(
    "names of",
    """
    v before [m/s],v after [m/s] | a ball
    speed_in (m/s),speed_out (m/s) | a ball
    v1_pre,v2_pre,v1_post,v2_post | two carts
    vx vorher [cm/s],vy vorher [cm/s],vx nachher [cm/s],vy nachher [cm/s] | a ball
    """,
)
def test_velocities_before_and_after_are_a_table_of_impacts(tmp_path, rng, names, of):
    speed = 1 + rng.random(COUNT)
    columns = names.split(",")
    rows = {2: [speed, -0.7 * speed], 4: [speed, 0 * speed, 0.1 * speed, 0.9 * speed]}[len(columns)]
    if "vx" in names:
        rows = [0.2 * speed, -speed, 0.2 * speed, 0.7 * speed]
    what, scene = draft(survey(written(tmp_path, dict(zip(columns, rows, strict=True)))), tmp_path, "s.toml")
    assert what == f"a table of impacts, each of {of}"
    assert ("vy vorher [cm/s]" in scene) == ("vx" in names)


def test_levers_are_found_by_what_they_do_to_the_spin(tmp_path, rng):
    columns = body(rng)
    units = {"vx": "m/s", "vy": "m/s", "spin": "rad/s", "arm": "m"}
    columns = {f"{name} [{units[name.split()[0]]}]": column for name, column in columns.items()}
    columns = {
        "x [m]": rng.random(COUNT),
        "y [m]": 0.02 + 0.001 * rng.random(COUNT),
        **columns,
        "flagged": np.zeros(COUNT),
    }
    what, scene = draft(survey(written(tmp_path, columns)), tmp_path, "s.toml")
    assert what == "a table of impacts, each of a body"
    assert 'levers = ["arm n [m]", "arm t [m]"]' in scene
    assert 'flagged = "flagged"' in scene
    assert 'gyration = { value = 20, unit = "mm" }' in scene
