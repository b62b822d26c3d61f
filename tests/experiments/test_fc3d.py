import fc3d
import numpy as np
import pytest

# Two contacts in space: W = diag(1, 2, 4) of each, in blocks that are numbered; the second opens by itself.
FILE = """3
2
1
6
6
2
2
2
3 6
3 6
3
2
0 1 2
0 1
0
1 0 0 0 2 0 0 0 4
1
1 0 0 0 2 0 0 0 4
-1 0.5 0.25 3 0 0
0.2 0.3
1
"""


def test_a_file_in_blocks_is_read_and_solved(tmp_path):
    (tmp_path / "two.dat").write_text(FILE)
    ((problem, residual, status, _),) = fc3d.main([str(tmp_path)])
    np.testing.assert_array_equal(problem.W, np.diag([1.0, 2.0, 4.0] * 2))
    assert (problem.name, status.name) == ("two", "OK")
    assert residual < 1e-15
    # A wrong answer is seen.
    assert problem.residual(np.zeros((2, 3))) > 0.1


def test_those_of_siconos_are_solved():
    found = fc3d.main(["--smoke"])
    if not found:
        pytest.skip("the problems are not there")
    assert [(problem.name, status) for problem, _, status, _ in found if status] == []
    # Rounding of numbers that cancel in W.
    assert max(residual for _, residual, _, _ in found) < 1e-10
