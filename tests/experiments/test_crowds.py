"""The crowds' scenes in small: no overlap, and the residual that the projection names."""

import bench_scaling
import crowds
import pytest


@pytest.mark.parametrize("scene", ["scopi", "column"])
def test_a_heap_keeps_its_bounds(scene):
    rows = crowds.main(["--scene", scene, "--smoke"])
    for row in rows:
        # The projection's residual is 1e-6 of the largest violation, and the overlap h times that.
        assert row["residual"] <= 1.01e-6
        assert row["overlap"] < 1e-6
    assert rows[-1]["contacts"] > 0


def test_a_heap_with_friction_keeps_its_bounds(tmp_path):
    rows = crowds.main(["--scene", "heap", "--smoke", "--friction", "0.5", "--out", str(tmp_path)])
    for row in rows:
        # Of Coulomb's law, relative to the fastest approach.
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
