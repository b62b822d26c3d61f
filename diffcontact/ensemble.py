"""One run over a batch of parameters: in chunks, on all devices, streamed to a file and resumed from it."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from diffcontact.progress import LaneProgress
from diffcontact.status import Status
from diffcontact.store import Store

# Lanes that a device takes at once. The slowest lane of a chunk decides how long it takes; on a CPU its arrays should
# stay in the cache, an accelerator wants to be filled.
_LANES = {"cpu": 256}
_LANES_ELSEWHERE = 4096


def ensemble(
    run: Callable[[Any], Any],
    batch: Any,
    *,
    chunk: int | None = None,
    progress: bool = False,
    store: str | Path | None = None,
) -> Any:
    """run(params) for every lane of a batch, vectorised.

    Chunk after chunk goes to all devices that jax sees and comes back to the host, so that the devices' memory holds
    one chunk whatever the batch is. It compiles once: the last chunk is filled up with its last lane.

    Args:
        run: params -> any pytree of arrays; pure. A lane that fails says so in its output (`Trajectory.status`).
        batch: pytree of arrays with a common leading axis (n, ...), what `run` is given without it.
        chunk: lanes at once, rounded up to a multiple of the number of devices; None: 256 a CPU, 4096 an accelerator.
        progress: show a bar on stderr, and at the end how many lanes are fine and what is wrong with the others.
        store: an HDF5 file (needs h5py) that takes the batch (`parameters/...`) and each chunk's outputs
            (`outputs/...`) as they come. If it is there already, of the same batch, what it holds is not run again:
            the outputs are the same, bit for bit, as without the interruption. It cannot see that `run` was changed.

    Returns:
        The outputs of `run`, each with a leading axis (n, ...), as numpy arrays.

    Raises:
        ValueError: no lanes, leading axes that differ, a chunk below 1, a store of another batch or of other outputs.
        ModuleNotFoundError: `store` without h5py.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
        >>> fixed = dict(mass=jnp.ones(1), radius=jnp.zeros(1), gravity=jnp.array([-9.81]))
        >>> def final_height(p):
        ...     return dc.simulate(ball, {**fixed, **p}, [1.0], [0.0], jnp.linspace(0.0, 1.0, 11)).q[-1, 0]
        >>> heights = dc.ensemble(final_height, {"restitution": jnp.array([0.5, 0.8])}, chunk=2)
        >>> [f"{height:.4f}" for height in heights]
        ['0.0613', '0.4680']
    """
    count = _lanes(batch)
    devices = tuple(jax.local_devices())
    if chunk is None:
        chunk = _LANES.get(devices[0].platform, _LANES_ELSEWHERE) * len(devices)
    if not (isinstance(chunk, int) and chunk >= 1):
        raise ValueError(f"ensemble(chunk={chunk!r}): expected an integer of at least 1, or None")
    # No more than there is to do; every device gets the same number.
    chunk = -(-min(chunk, count) // len(devices)) * len(devices)
    batch = jax.tree.map(np.asarray, batch)
    vectorised, sharding = _vectorised(run, devices)
    shapes = jax.eval_shape(run, jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), _canonical(batch)))
    outputs = jax.tree.map(lambda x: np.empty((count, *x.shape), x.dtype), shapes)
    saved = Store(store, batch, outputs, chunk) if store is not None else None
    with LaneProgress(count, progress) as bar:
        for number, first in enumerate(range(0, count, chunk)):
            lanes = slice(first, min(first + chunk, count))
            if saved is not None and saved.holds(number):
                _assign(outputs, lanes, saved.read(lanes))
            else:
                index = np.minimum(np.arange(first, first + chunk), count - 1)
                done = vectorised(jax.device_put(jax.tree.map(lambda x, index=index: x[index], batch), sharding))
                done = jax.tree.map(lambda x, lanes=lanes: np.asarray(x)[: lanes.stop - lanes.start], done)
                _assign(outputs, lanes, done)
                if saved is not None:
                    saved.write(number, lanes, done)
            bar(lanes.stop)
        bar.close(_summary(outputs))
    return outputs


def _lanes(batch) -> int:
    """The common length of the leading axes."""
    leaves = jax.tree_util.tree_leaves_with_path(batch)
    if not leaves:
        raise ValueError("ensemble(batch): empty, expected at least one array")
    lengths = {jax.tree_util.keystr(path): np.shape(leaf)[:1] for path, leaf in leaves}
    for name, length in lengths.items():
        if length == () or length == (0,) or length != next(iter(lengths.values())):
            told = ", ".join(f"{name or 'batch'} {length or 'none'}" for name, length in lengths.items())
            raise ValueError(f"ensemble(batch): expected a common leading axis of at least 1, got {told}")
    return next(iter(lengths.values()))[0]


def _canonical(batch):
    """With the dtypes that jax will give it."""
    return jax.tree.map(lambda x: x.astype(jax.dtypes.canonicalize_dtype(x.dtype), copy=False), batch)


@lru_cache(maxsize=16)
def _vectorised(run, devices):
    """The compiled run over a chunk's lanes, and how a chunk is laid out. Each device loops over its own lanes only."""
    mesh = jax.sharding.Mesh(np.array(devices), ("lanes",))
    spec = PartitionSpec("lanes")
    lanes = jax.vmap(run)
    if len(devices) > 1:
        lanes = jax.shard_map(lanes, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    return jax.jit(lanes), NamedSharding(mesh, spec)


def _assign(outputs, lanes, values) -> None:
    for output, value in zip(jax.tree.leaves(outputs), jax.tree.leaves(values), strict=True):
        output[lanes] = value


def _summary(outputs) -> str:
    """How many lanes are fine, and what is wrong with the others; empty where the outputs hold no status."""
    leaves = jax.tree_util.tree_leaves_with_path(outputs)
    found = [leaf for path, leaf in leaves if path and getattr(path[-1], "name", None) == "status"]
    if not found:
        return ""
    (status, *_) = found
    parts = [f"{np.sum(status == Status.OK)} of {status.size} lanes are fine"]
    for code in np.unique(status[status != Status.OK]):
        which = np.flatnonzero(status == code)
        told = ", ".join(map(str, which[:5])) + (", ..." if which.size > 5 else "")
        parts.append(f"{which.size} {Status(int(code)).name} (lanes {told}): {Status(int(code)).message}")
    return "; ".join(parts)
