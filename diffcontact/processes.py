"""The processes of a distributed computation: everything that one of them has, to all of them."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils


def gathered(values: Any) -> list[Any]:
    """The values of every process, in the order of the processes, bit for bit; every process must call it.

    Args:
        values: pytree of numpy arrays, of the same structure, shapes and dtypes in all processes.

    Example:
        >>> gathered({"status": np.array([0, 1])})  # of the only process there is
        [{'status': array([0, 1])}]
    """
    if jax.process_count() == 1:
        return [values]
    leaves, structure = jax.tree.flatten(values)
    # As bytes: one message whatever the dtypes are, and no number is converted on the way.
    message = np.concatenate([np.ascontiguousarray(leaf).reshape(-1).view(np.uint8) for leaf in leaves])
    ends = np.cumsum([leaf.nbytes for leaf in leaves])[:-1]
    return [
        jax.tree.unflatten(
            structure,
            [part.view(leaf.dtype).reshape(leaf.shape) for part, leaf in zip(np.split(row, ends), leaves, strict=True)],
        )
        for row in multihost_utils.process_allgather(message)
    ]
