"""Benchmarks and studies in their smoke modes: what they find, and what they leave behind."""

import re

import bench_qp
import bench_scaling
import bench_simulators
import by_hand
import compare_fits
import convergence
import crowds
import cube
import elbow
import ellipse
import numpy as np
import pictures
import pingpong
import pytest
import starts
from fitting import measured


def test_the_projection_is_measured(tmp_path, capsys):
    rows = bench_qp.main(["--smoke", "--out", str(tmp_path)])
    assert {(row.method, row.what) for row in rows} >= {("project", "forward"), ("project", "vjp"), ("project", "jvp")}
    # Solvers that stop at a tolerance of their own (proxsuite at 1e-9) are not asked for more.
    assert all(row.error < (1e-12 if row.method == "project" else 1e-6) and row.microseconds > 0 for row in rows)
    assert "us/problem" in capsys.readouterr().out
    assert (tmp_path / "bench_qp.txt").read_text().count("project") >= 3
    assert (tmp_path / "bench_qp.png").stat().st_size > 0


def test_simulators_are_measured_without_those_that_are_not_there(tmp_path, capsys):
    rows = bench_simulators.main(["--smoke", "--out", str(tmp_path)])
    assert [row.what for row in rows] == ["forward", "gradient"]
    assert all(row.speed > 0 and row.memory > 0 and not row.note for row in rows)
    # One free step after another: feasible to rounding, and symplectic Euler loses energy in free fall.
    assert all(row.penetration == 0 and row.gained < 1e-12 for row in rows)
    assert all(row.contacts == 0 and row.residual < 1e-10 for row in rows)
    assert "steps/s" in capsys.readouterr().out
    assert "VelocityProjection" in (tmp_path / "simulators.txt").read_text()
    assert (tmp_path / "speed.png").stat().st_size > 0


def test_a_step_that_no_contact_explains_has_a_residual():
    balls, h = bench_simulators.Balls(1), bench_simulators.STEP
    q = np.tile([0.5, 0.5, 0.1], (2, 1))
    assert bench_simulators.residual(balls, q, np.zeros((2, 3))) < 1e-12
    # Half of gravity is missing where no contact is near, and something pulls.
    hovers = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -h * 9.81 / 2]])
    np.testing.assert_allclose(bench_simulators.residual(balls, q + np.array([0, 0, 0.3]), hovers), 0.5, rtol=1e-9)
    np.testing.assert_allclose(bench_simulators.residual(balls, q, 4 * hovers), 1.0, rtol=1e-9)


def test_who_is_faster_is_said_both_ways():
    row, *others = (
        bench_simulators.Row("ball", 1, name, "float32", "forward", speed=speed)
        for name, speed in (("VelocityProjection", 10.0), ("slow", 2.0), ("fast", 40.0), ("left out", np.nan))
    )
    one, other = bench_simulators.ratios([row, *others])
    assert one.endswith("is 5 times as fast as slow")
    assert other.endswith("is slower: fast is 4 times as fast")


def test_commands_find_what_a_fit_by_hand_finds(data):
    measured(data, "airtrack_carts", "A2_1.csv")
    rows = by_hand.main([str(data), "--smoke"])
    assert [row.name for row in rows] == ["ball1_3 restitution", "A2_1 restitution", "A2_1 mass_ratio"]
    for row in rows:
        assert row.agrees, row


def test_differences_find_what_exact_jacobians_find_with_more_simulations():
    rows = compare_fits.main(["--smoke"])["ball"]
    ours, theirs = rows["diffcontact"], rows["differences"]
    assert (ours.arrived, theirs.arrived) == (1, 1)
    assert ours.misfit <= theirs.misfit * (1 + 1e-6)
    assert ours.error < 0.01  # six bounces with 1 % noise give e to 2e-3
    # Each Jacobian by differences takes as many simulations as there are parameters.
    assert theirs.evaluations > 2 * ours.evaluations


def test_bad_starts_reach_the_global_optimum():
    assert starts.main(["--smoke"])["ball"]["automatic"][0] == 6


def test_states_converge_and_derivatives_through_impacts_have_a_wrong_limit():
    tables = {scheme: rows for scheme, found in convergence.main(smoke=True).items() for rows in found.values()}
    assert len(tables) == 4
    for scheme, rows in tables.items():
        # First order; the impact falls differently into the step at each h.
        assert rows[1].state < 0.7 * rows[0].state, scheme
    for scheme in ("VelocityProjection", "CatchingUp", "ElasticProjection"):
        assert all(row.jacobian > 0.1 for row in tables[scheme])


@pytest.mark.parametrize(("scene", "friction"), [("scopi", "0"), ("column", "0"), ("heap", "0.5")])
def test_a_heap_keeps_its_bounds(scene, friction, tmp_path):
    options = [] if friction == "0" else ["--friction", friction, "--out", str(tmp_path)]
    rows = crowds.main(["--scene", scene, "--smoke", *options])
    for row in rows:
        # Of the largest violation, or with friction of the fastest approach; the overlap is h times that.
        assert row["residual"] <= 1.01e-6
        assert row["overlap"] < 1e-6
    assert rows[-1]["contacts"] > 0


def test_billiards_bounce_without_overlap():
    rows = crowds.main(["--scene", "billiards", "--side", "3", "--steps", "400"])
    # EventTimed's positions are exact to rounding of lengths of 1 m over radii of 0.03 m.
    assert max(row["overlap"] for row in rows) < 1e-10


def test_the_table_of_scaling(tmp_path):
    found = bench_scaling.main(["--smoke", "--out", str(tmp_path)])
    assert [row[0] for row in found["balls"]] == [8, 18]
    assert (tmp_path / "scaling.png").stat().st_size > 0


def test_a_picture_is_made_and_all_that_are_made_are_in_the_gallery(tmp_path):
    (file,) = pictures.main(["spring", "--out", str(tmp_path)])
    assert file.read_bytes()[:4] == b"\x89PNG"
    assert {path.stem for path in (pictures.HERE / "pictures").iterdir()} == set(pictures.PICTURES)
    with pytest.raises(SystemExit):
        pictures.main(["sprung", "--out", str(tmp_path)])


@pytest.mark.parametrize("study", [cube, elbow, ellipse, pingpong], ids=lambda study: study.__name__)
def test_without_data_a_study_says_so(study, tmp_path, capsys):
    assert not study.main([str(tmp_path / "tosses.npz")])
    assert re.search("nothing to do|skipped: no index.csv in", capsys.readouterr().out)
