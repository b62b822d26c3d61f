"""The study of rattling worlds, in its smoke mode."""

import pytest
import rattling


@pytest.mark.studies
def test_smoke():
    (row,) = rattling.main(["--smoke"])
    assert row.off.size >= 12
    assert row.count(told=False, wrong=True) == 0
    assert row.count(told=False, wrong=False) > row.count(told=True, wrong=False)
