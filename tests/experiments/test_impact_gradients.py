import impact_gradients
import numpy as np


def test_known_derivatives_control_and_heights(tmp_path):
    found = impact_gradients.main(["--smoke", "--out", str(tmp_path)])
    np.testing.assert_allclose(found["floor"], [-1.0, -1.0], atol=1e-12)
    np.testing.assert_allclose(found["exchange"], [1.0, 0.0, 1.0, 0.0], atol=1e-12)
    # Zhong, Han, Olympia Brikis 2022: 1.396542.
    np.testing.assert_allclose(found["best"], 1.396542, atol=1e-6)
    # 24 pieces instead of 480 cost O(1 / 24^2).
    assert found["best"] - 1e-9 < found["history"][-1] < found["best"] + 1e-2
    curves = found["heights"]
    np.testing.assert_allclose(curves["EventTimed"], curves["exact"], atol=1e-11)
    # The others' derivative is another number, not a worse approximation.
    for name in ("ElasticProjection", "soft"):
        assert np.max(np.abs(curves[name][1] - curves["exact"][1])) > 0.5
