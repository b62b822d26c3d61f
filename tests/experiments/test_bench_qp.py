"""The benchmark of the projection, in its smoke mode."""

import bench_qp


def test_smoke(tmp_path, capsys):
    rows = bench_qp.main(["--smoke", "--out", str(tmp_path)])
    assert {(row.method, row.what) for row in rows} >= {("project", "forward"), ("project", "vjp"), ("project", "jvp")}
    # Solvers that stop at a tolerance of their own (proxsuite at 1e-9) are not asked for more.
    assert all(row.error < (1e-12 if row.method == "project" else 1e-6) and row.microseconds > 0 for row in rows)
    assert "us/problem" in capsys.readouterr().out
    assert (tmp_path / "bench_qp.txt").read_text().count("project") >= 3
    assert (tmp_path / "bench_qp.png").stat().st_size > 0
