import interval_coverage
import numpy as np
import pytest


@pytest.mark.slow
def test_intervals_cover_and_medians_are_unbiased():
    found = interval_coverage.main(["--smoke"])
    assert set(found) == {("ball", 0.0), ("ball", 0.9)}
    for result in found.values():
        assert result.names == ("e", "g", "q0[0]", "u0[0]")
        # 40 intervals, of which 95 % hold the truth: 38 +- 1.4 were they independent; four parameters of a fit are not.
        assert result.covered.mean() >= 0.8
        assert np.all(np.abs(result.bias) < 4)
