"""Versions of everything that a number depends on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

_PACKAGES = ("diffcontact", "jax", "jaxlib", "numpy", "scipy")


def versions() -> dict[str, str]:
    """Name -> version, of the packages, of Python and of the platform."""
    packages = {name: _version(name) for name in _PACKAGES}
    return packages | {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        # A source tree on the path, without metadata.
        return "not installed"
