import os
from pathlib import Path

import jax
import numpy as np
import pytest

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

ROOT = Path(__file__).resolve().parents[1]


def _folder(variable, default):
    folder = Path(os.environ.get(variable, ROOT.parent / "shared" / default))
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent: set {variable} to the folder that holds it")
    return folder


@pytest.fixture(scope="session")
def reference():
    """The folder with event-exact states, QP solutions and other simulators' values."""
    return _folder("DIFFCONTACT_REFERENCE", "reference")


@pytest.fixture(scope="session")
def data():
    """The folder with real measurements, which are not part of the project."""
    return _folder("DIFFCONTACT_DATA", "data")


@pytest.fixture
def rng():
    return np.random.default_rng(0)
