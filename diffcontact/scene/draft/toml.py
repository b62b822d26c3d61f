"""Texts as TOML writes them, whatever they hold."""

from __future__ import annotations

import json
from collections.abc import Sequence


def quoted(text: str) -> str:
    """A TOML string.

    Example:
        >>> print(quoted("t\\n[s]"))
        "t\\n[s]"
    """
    # JSON's escapes are TOML's, which has one more.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def quoted_names(names: Sequence[str]) -> str:
    """A TOML list."""
    return f"[{', '.join(map(quoted, names))}]"
