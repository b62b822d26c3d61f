"""Parameters that may be missing: whether one is given, and not under a name that is misspelled."""

from __future__ import annotations

import difflib
from typing import Any

# Those of all ready-made systems.
OPTIONAL = (
    "tangential_restitution",
    "rolling_friction",
    "pivoting_friction",
    "inertia",
    "damping",
    "magnus_saturation",
    "reference_speed",
)
# Above it two names have so many letters in common that one is the other, misspelled.
_ALIKE = 0.8


def given(name: str, params: Any) -> bool:
    """Whether params have the optional parameter by this name.

    Params may hold what belongs to somebody else. But where this one is missing, and a name that nobody here knows is
    all but the same, it was meant, and would be left out silently.

    Args:
        name: one of `OPTIONAL`.
        params: by name.

    Raises:
        ValueError: it is there misspelled.

    Example:
        >>> given("inertia", {"inertia": 1.0}), given("inertia", {"mass": 1.0, "inertia_of_rotor": 1.0})
        (True, False)
        >>> given("inertia", {"mass": 1.0, "intertia": 1.0})
        Traceback (most recent call last):
        ...
        ValueError: params['intertia']: no parameter of this system, did you mean 'inertia'?
    """
    if name in params:
        return True
    others = {key.lower(): key for key in params if isinstance(key, str) and key not in OPTIONAL}
    # The same with a word more is a name of its own.
    others = {low: key for low, key in others.items() if not (low.startswith(f"{name}_") or low.endswith(f"_{name}"))}
    if near := difflib.get_close_matches(name, others, n=1, cutoff=_ALIKE):
        raise ValueError(f"params[{others[near[0]]!r}]: no parameter of this system, did you mean {name!r}?")
    return False
