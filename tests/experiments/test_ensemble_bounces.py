"""The ensemble of bouncing balls, in its smoke mode."""

import ensemble_bounces
import numpy as np


def test_smoke(capsys):
    found = ensemble_bounces.main(["--smoke"])
    assert found.errors.shape == (150,)
    assert not found.outputs["status"].any()
    # Constant forces: every impact is exact, and up to a dozen of them in a row multiply what rounding does.
    assert found.moving.any()
    assert np.all(found.errors[found.moving] < 1e-10)
    # Rest begins with the bounce that is over within a step of h: it would have reached g h^2 / 8.
    step = ensemble_bounces.DURATION / ensemble_bounces.STEPS
    assert np.all(found.errors[~found.moving] <= ensemble_bounces.GRAVITY * step**2)
    assert "150 of 150 lanes are fine" in capsys.readouterr().out
