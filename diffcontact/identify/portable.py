"""Numbers, arrays and containers of them as what strict JSON can hold, and back without loss."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

# What of a document is sealed: what a result is made of again.
_SEALED = ("fit_result", "verdict")
_ARRAY = {"shape", "dtype", "data"}


def encode(value: Any) -> Any:
    """Arrays as their shape, dtype and flat data; what is not finite as its name; dataclasses as dictionaries.

    Example:
        >>> encode({"a": np.array([1.0, np.nan])})
        {'a': {'shape': [2], 'dtype': 'float64', 'data': [1.0, 'nan']}}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {entry.name: encode(getattr(value, entry.name)) for entry in fields(value)}
    if isinstance(value, Mapping):
        return {str(name): encode(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [encode(part) for part in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return _number(float(value))
    array = np.asarray(value)
    data = [_number(x) for x in array.ravel().tolist()]
    return {"shape": list(array.shape), "dtype": str(array.dtype), "data": data}


def decode(value: Any) -> Any:
    """What `encode` was given; tuples come back as lists, dataclasses as dictionaries, jax arrays as numpy ones.

    Example:
        >>> decode(encode({"a": np.array([[1.0, np.inf]]), "b": [None, 2]}))
        {'a': array([[ 1., inf]]), 'b': [None, 2]}
    """
    if isinstance(value, Mapping):
        if set(value) == _ARRAY:
            return np.array([float(x) if isinstance(x, str) else x for x in value["data"]], value["dtype"]).reshape(
                value["shape"]
            )
        return {name: decode(part) for name, part in value.items()}
    if isinstance(value, list):
        return [decode(part) for part in value]
    return float(value) if value in ("nan", "inf", "-inf") else value


def _number(value: Any) -> Any:
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def checksum(document: Mapping[str, Any]) -> str:
    """SHA-256 of what a result is made of again, the same before it was written and after it was read.

    Example:
        >>> written = {"verdict": {"explains": "yes"}, "fit_result": {"cost": 1.5, "names": ("e",)}, "title": "a fit"}
        >>> checksum(written) == checksum(json.loads(json.dumps(written)) | {"title": "another"})
        True
    """
    parts = {name: document.get(name) for name in _SEALED}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
