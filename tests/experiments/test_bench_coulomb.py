"""The experiment runs, and solves all of its problems."""

import bench_coulomb


def test_smoke(tmp_path):
    table = bench_coulomb.main(["--smoke", "--out", str(tmp_path)])
    assert "32 problems, 100.00 % solved" in table
    assert "silent 0" in table
    assert (tmp_path / "bench_coulomb.txt").read_text() == table + "\n"
