"""The table of mutations fits the code, and what the tool makes of it; the tests of the mutations run by hand."""

from pathlib import Path

import pytest
from mutations import MUTATIONS, Mutation, Result, _failure, chosen, expression, misfits, stages, table


def test_every_row_changes_a_text_that_is_there_once():
    assert misfits() == []
    assert len({one.number for one in MUTATIONS}) == len(MUTATIONS) >= 60
    assert len({(one.file, one.text) for one in MUTATIONS}) == len(MUTATIONS)
    for one in MUTATIONS:
        assert one.text != one.replacement
        code = (Path(__file__).parents[1] / one.path).read_text()
        compile(code.replace(one.text, one.replacement), one.path, "exec")


def test_rows_that_no_longer_apply_are_named(tmp_path):
    row = Mutation(7, "qp", "qp/box.py", "a + b", "a - b", "a sign")
    assert "no such file" in misfits([row], tmp_path)[0]
    file = tmp_path / row.path
    file.parent.mkdir(parents=True)
    for code, count in (("c", 0), ("a + b", 1), ("a + b, a + b", 2)):
        file.write_text(code)
        told = misfits([row], tmp_path)
        assert len(told) == (count != 1)
        assert all(f"there {count} times" in one and "row 7" in one for one in told)


@pytest.mark.parametrize(("default", "full"), [("not full and not studies", "full"), ("not slow", "slow")])
def test_tiers_are_those_of_pyproject(tmp_path, default, full):
    options = f"""[tool.pytest.ini_options]\naddopts = "-n auto -m '{default}' --strict-markers"\n"""
    (tmp_path / "pyproject.toml").write_text(options)
    assert [expression(tier, tmp_path) for tier in ("default", "full", "all")] == [default, full, ""]


def test_tests_that_mirror_a_file_come_first(tmp_path):
    for name in ("qp/friction/test_search.py", "qp/test_box.py", "test_qp_arguments.py"):
        (tmp_path / "tests" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "tests" / name).touch()
    row = Mutation(1, "qp", "qp/friction/search.py", "", "", "")
    near = [
        ("module", ["diffcontact/qp/friction/search.py", "tests/qp/friction/test_search.py"]),
        ("package", ["tests/qp/friction"]),
        ("package", ["tests/qp", "tests/test_qp_arguments.py"]),
    ]
    assert list(stages(row, tmp_path, near=True)) == near
    assert list(stages(row, tmp_path, near=False)) == [*near, ("rest", ["tests", "diffcontact"])]


def test_what_fails_first_is_named():
    summary = "=== short test summary info ===\nFAILED tests/test_a.py::test_b[0.5-x] - assert 1 == 2\n1 failed\n"
    assert _failure(1, summary) == ("seen", "tests/test_a.py::test_b[0.5-x]")
    assert _failure(2, "ERROR tests/test_a.py - ImportError: no\n") == ("import", "tests/test_a.py")
    assert _failure(-11, "Fatal Python error\n") == ("crash", "Fatal Python error")
    assert _failure(None, "") == ("endless", "")


def test_only_rows_that_there_are():
    assert [one.number for one in chosen([2, 1], ["qp"])] == [1, 2]
    for wrong in (([1000], None), (None, ["nowhere"])):
        with pytest.raises(ValueError, match="no such"):
            chosen(*wrong)


def test_the_table_counts_by_package():
    results = [
        Result(n, "qp", "qp/box.py", "a sign", outcome, "", "module", 1.0)
        for n, outcome in ((2, "seen"), (1, "unseen"))
    ]
    lines = table(results).splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["1", "2"]
    assert lines[-2:] == ["qp          1 of 2", "all         1 of 2"]
