"""Columns that say how a body is turned: an angle in a plane, or a unit quaternion in space."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

_ANGLE = re.compile(
    r"(?:.*[\s_.\-])?(?:theta|phi|psi|angle|winkel|rot\w*|yaw|heading|orientation)(?:[\s_.\-]*\d+)?", re.IGNORECASE
)
# The letter that names a quaternion's part is its last one, or before the number of the body.
_QUATERNION = re.compile(r"(.*(?:q\w*?|rotation)[\s_.\-]*)([wxyz])([\s_.\-]*\d*)", re.IGNORECASE)
# Quaternions are of length one but for the digits with which they were written.
_LENGTH = 0.01


def is_angle(core: str) -> bool:
    """Whether a column is an angle, by its name without the unit.

    Example:
        >>> [is_angle(name) for name in ("angle", "theta 2", "disc_phi", "x", "photo")]
        [True, True, True, False, False]
    """
    return _ANGLE.fullmatch(core) is not None


def quaternions_in(columns: Mapping[str, NDArray]) -> tuple[tuple[str, ...], ...]:
    """The names of four columns each, w x y z, that are unit quaternions.

    Example:
        >>> turned = np.full(3, 0.5)
        >>> quaternions_in({"t": np.arange(3.0), "qw": turned, "qx": turned, "qy": turned, "qz": -turned})
        (('qw', 'qx', 'qy', 'qz'),)
    """
    groups: dict[tuple[str, str], dict[str, str]] = {}
    for name in columns:
        if found := _QUATERNION.fullmatch(name.strip()):
            groups.setdefault((found[1], found[3]), {})[found[2].lower()] = name
    complete = [tuple(group[axis] for axis in "wxyz") for group in groups.values() if len(group) == 4]
    return tuple(names for names in complete if _are_unit(np.stack([columns[name] for name in names])))


def _are_unit(parts: NDArray) -> bool:
    length = np.sqrt(np.sum(parts * parts, axis=0))
    seen = length[np.isfinite(length)]
    return seen.size > 0 and bool(np.all(np.abs(seen - 1) < _LENGTH))
