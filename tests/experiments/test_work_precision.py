"""Work and precision beside other simulators, in the smoke mode: without them."""

import work_precision


def test_smoke(tmp_path, capsys):
    coarse, fine = work_precision.main(["--smoke", "--out", str(tmp_path)])
    # First order in the state, a quarter and some; in the Jacobian no convergence at all.
    assert fine.state[1] < 0.5 * coarse.state[1]
    assert fine.jacobian[1] > 0.1
    assert "Jac. [ms]" in capsys.readouterr().out
    assert "ElasticProjection" in (tmp_path / "work_precision.txt").read_text()
    assert (tmp_path / "work_precision.png").stat().st_size > 0
