import os

import pytest


@pytest.fixture(scope="session")
def kernel_folder(request):
    """Where tests keep the kernel's code from one run of them to the next: compiling it takes many seconds."""
    return str(request.config.cache.mkdir("kernel"))


@pytest.fixture(autouse=True)
def _in_jax(monkeypatch, kernel_folder):
    """The projection in JAX is the reference: it is tested here wherever the kernel is installed too."""
    monkeypatch.setenv("DIFFCONTACT_KERNEL", os.environ.get("DIFFCONTACT_KERNEL", "jax"))
    monkeypatch.setenv("DIFFCONTACT_CACHE", kernel_folder)
