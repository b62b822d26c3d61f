"""The hopper that learns to jump: its gradient beside differences, and that a few steps already lower the loss."""

import hopper
import numpy as np
import pytest


@pytest.mark.studies
def test_the_gradient_through_contacts_is_that_of_the_simulation_and_lowers_the_loss(capsys):
    pytest.importorskip("mujoco", reason="the model is read by MuJoCo, the extra `mujoco`")
    found = hopper.main(["--smoke", "--substeps", "80"])
    assert np.all(found.statuses == 0)
    assert found.off < 1e-6
    assert np.all(np.diff(found.losses) < 0)
    # Friction at its nominal value is within the range, and the foot does not leave the floor for good.
    assert np.all(found.fine)
    assert np.all(np.abs(found.places) < 1.0)
    assert "copies" in capsys.readouterr().out
