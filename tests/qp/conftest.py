import os

import jax
import pytest

from diffcontact.qp import kernel as native


@pytest.fixture(scope="session")
def kernel_folder(request, tmp_path_factory):
    """Where tests keep the kernel's code from one run of them to the next: compiling it takes many seconds."""
    kept = getattr(request.config, "cache", None)
    return str(tmp_path_factory.mktemp("kernel") if kept is None else kept.mkdir("kernel"))


@pytest.fixture(autouse=True)
def _in_jax(monkeypatch, kernel_folder):
    """The projection in JAX is the reference: it is tested here wherever the kernel is installed too."""
    monkeypatch.setenv("DIFFCONTACT_KERNEL", os.environ.get("DIFFCONTACT_KERNEL", "jax"))
    monkeypatch.setenv("DIFFCONTACT_CACHE", kernel_folder)


@pytest.fixture(scope="module", params=["jax", pytest.param("native", marks=pytest.mark.full)])
def kernel(request, kernel_folder):
    """What searches while a module's tables are computed: decided where a program is traced."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DIFFCONTACT_CACHE", kernel_folder)
        patch.setenv(native.VARIABLE, request.param)
        if request.param == "native":
            pytest.importorskip("numba")
            assert native.unavailable() is None
            jax.clear_caches()
        yield request.param
    if request.param == "native":
        jax.clear_caches()
