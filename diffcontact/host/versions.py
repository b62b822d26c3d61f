"""Versions of everything that a number depends on."""

from __future__ import annotations

import platform
from importlib.metadata import distributions

_PACKAGES = ("diffcontact", "jax", "jaxlib", "numpy", "scipy")


def versions() -> dict[str, str]:
    """Name -> version, of the packages, of Python and of the platform."""
    # A source tree on the path has no metadata.
    packages = {name: next((one.version for one in distributions(name=name)), "not installed") for name in _PACKAGES}
    return packages | {"python": platform.python_version(), "platform": f"{platform.system()} {platform.machine()}"}
