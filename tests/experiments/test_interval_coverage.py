import interval_coverage
import numpy as np


def test_intervals_cover_and_medians_are_unbiased():
    found = interval_coverage.main(["--smoke"])
    assert set(found) == {("ball", 0.0), ("ball", 0.9)}
    for result in found.values():
        assert result.names == ("e", "g", "q0[0]", "u0[0]")
        # 40 intervals, of which 95 % hold the truth: 38 +- 1.4 were they independent; four parameters of a fit are not.
        assert result.covered.mean() >= 0.8
        assert np.all(np.abs(result.bias) < 4)


def test_restitution_friction_and_unseen_spin_of_a_disc_are_covered():
    """200 replicas: 96.5, 93.5 and 97.5 %."""
    result = interval_coverage.cover(interval_coverage.CASES["disc"](), 0.0, 20)
    assert result.names == ("restitution", "friction", "u0[0]", "u0[1]", "u0[2]")
    # 100 intervals, of which 95 % hold the truth; five parameters of a fit are not independent.
    assert result.covered.mean() >= 0.85
    assert np.all(np.abs(result.bias) < 4)


def test_restitution_friction_and_unseen_spin_of_a_tossed_box_are_covered():
    """200 replicas: 95, 94 and 96 %."""
    result = interval_coverage.cover(interval_coverage.CASES["toss"](), 0.0, 20)
    assert result.names == ("restitution", "friction", "u0[0]", "u0[1]", "u0[2]")
    # 100 intervals, of which 95 % hold the truth; five parameters of a fit are not independent.
    assert result.covered.mean() >= 0.85
    assert np.all(np.abs(result.bias) < 4)
