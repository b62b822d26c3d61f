"""The benchmark beside other simulators, in its smoke mode: without them."""

import bench_simulators
import numpy as np


def test_smoke(tmp_path, capsys):
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
    rests = np.zeros((2, 3))
    assert bench_simulators.residual(balls, q, rests) < 1e-12
    # Half of gravity is missing where no contact is near, and something pulls.
    hovers = np.array([[0.0, 0.0, 0.0], [0.0, 0.0, -h * 9.81 / 2]])
    np.testing.assert_allclose(bench_simulators.residual(balls, q + np.array([0, 0, 0.3]), hovers), 0.5, rtol=1e-9)
    np.testing.assert_allclose(bench_simulators.residual(balls, q, 4 * hovers), 1.0, rtol=1e-9)


def test_who_is_faster_is_said_both_ways():
    row = bench_simulators.Row("ball", 1, "VelocityProjection", "float32", "forward", speed=10.0)
    others = [
        bench_simulators.Row("ball", 1, name, "float32", "forward", speed=speed)
        for name, speed in (("slow", 2.0), ("fast", 40.0), ("left out", np.nan))
    ]
    lines = bench_simulators.ratios([row, *others])
    assert len(lines) == 2
    assert lines[0].endswith("is 5 times as fast as slow")
    assert lines[1].endswith("is slower: fast is 4 times as fast")
