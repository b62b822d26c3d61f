"""Numbers and texts as a page of HTML can hold them."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
from numpy.typing import NDArray


def packed(rows: NDArray, double: bool = False) -> dict[str, Any]:
    """Rows (n, w) or (n,) as base64 of little-endian single precision, NaN included; what lies on one row is a list.

    Args:
        rows: numbers.
        double: whether double precision is needed, as for times that count from long ago.

    Example:
        >>> packed(np.array([1.0, 2.0]))
        {'width': 1, 'base64': 'AACAPwAAAEA='}
        >>> packed(np.array([[1.0, 2.5]]))
        {'width': 2, 'values': [1.0, 2.5]}
    """
    rows = np.asarray(rows, float)
    width = 1 if rows.ndim == 1 else rows.shape[1]
    if rows.ndim == 2 and len(rows) == 1:
        return {"width": width, "values": [_number(x) for x in rows[0]]}
    text = base64.b64encode(np.ascontiguousarray(rows, "<f8" if double else "<f4").tobytes()).decode("ascii")
    return {"width": width, "base64": text, **({"double": True} if double else {})}


def unpacked(field: dict[str, Any]) -> NDArray:
    """(n, w) what `packed` was given, in its precision."""
    if "values" in field:
        return np.array([[np.nan if x is None else float(x) for x in field["values"]]], np.float32)
    numbers = np.frombuffer(base64.b64decode(field["base64"]), "<f8" if field.get("double") else "<f4")
    return numbers.reshape(-1, field["width"])


def script_json(document: Any) -> str:
    """JSON that can stand in a <script>, whatever its texts are: nothing in it ends the element or begins a comment.

    Example:
        >>> script_json({"title": "</script><!--"})
        '{"title":"\\\\u003c/script\\\\u003e\\\\u003c!--"}'
    """
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _number(x: float) -> float | str | None:
    """Infinities are written as texts that JavaScript's Number() reads; NaN is null."""
    if np.isnan(x):
        return None
    return float(f"{x:.9g}") if np.isfinite(x) else ("Infinity" if x > 0 else "-Infinity")
