import os

import pytest


@pytest.fixture(autouse=True)
def _in_jax(monkeypatch):
    """The projection in JAX is the reference: it is tested here wherever the kernel is installed too."""
    monkeypatch.setenv("DIFFCONTACT_KERNEL", os.environ.get("DIFFCONTACT_KERNEL", "jax"))
