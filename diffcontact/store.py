"""Where an ensemble's outputs go, chunk by chunk: arrays in memory, or an HDF5 file.

parameters/...   what the lanes differ in, (n, ...)
fixed/...        what they have in common
outputs/...      what the run gave, (n, ...)
done             (chunks,) 1 where a chunk's outputs are there
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np


class Arrays:
    """Outputs in memory.

    Args:
        outputs: pytree of (n, ...) shapes and dtypes.
        chunk: lanes in a chunk.
        count: n.

    Attributes:
        done: (chunks,) bool, which of them were there from the beginning: none.
    """

    def __init__(self, outputs: Any, chunk: int, count: int):
        self._outputs = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), outputs)
        self._chunk = chunk
        self.done = np.zeros(-(-count // chunk), bool)

    def write(self, number: int, values: Any) -> None:
        """Put a chunk's outputs there; what is beyond the last lane is left out."""
        for output, value in zip(jax.tree.leaves(self._outputs), jax.tree.leaves(values), strict=True):
            here = output[number * self._chunk : (number + 1) * self._chunk]
            here[...] = value[: here.shape[0]]

    def outputs(self) -> Any:
        """All outputs."""
        return self._outputs


class Store:
    """The file of one ensemble, which may be there already.

    A chunk counts as done only when its mark is set after its outputs, and all datasets have their full length and
    their place in the file from the beginning, so that writing changes nothing but numbers: a run that is killed,
    whenever that is, leaves a file that can be read and resumed. It may be read while it is written.

    Args:
        path: of the file; it is made if it is not there.
        batch: pytree of arrays (n, ...), the parameters.
        fixed: pytree of arrays, what all lanes share.
        outputs: pytree of (n, ...) shapes and dtypes.
        chunk: lanes in a chunk.

    Attributes:
        done: (chunks,) bool, which of them the file held when it was opened.

    Raises:
        ValueError: the file holds another ensemble, or is none.
        ModuleNotFoundError: h5py is not installed.
    """

    def __init__(self, path: str | Path, batch: Any, fixed: Any, outputs: Any, chunk: int):
        try:
            import h5py
        except ImportError as missing:
            raise ModuleNotFoundError(
                f"ensemble(store={str(path)!r}): needs h5py, pip install 'diffcontact[ensemble]'"
            ) from missing
        self._h5: Any = h5py
        self._path = Path(path)
        self._names, self._structure = _named(outputs), jax.tree.structure(outputs)
        self._chunk = chunk
        count = jax.tree.leaves(batch)[0].shape[0]
        identity = digest(batch, fixed, outputs, chunk)
        if not self._path.exists():
            self._create(batch, fixed, identity, -(-count // chunk))
        try:
            with self._open("r") as file:
                held = file.attrs.get("identity")
                done = np.asarray(file["done"], bool) if "done" in file else None
        except OSError as broken:
            raise ValueError(f"ensemble(store={str(path)!r}): not an HDF5 file ({broken})") from broken
        if held != identity or done is None:
            raise ValueError(
                f"ensemble(store={str(path)!r}): holds another ensemble (parameters, what is fixed, outputs or chunk "
                "differ); expected the same one, to be resumed, or a name that is not taken"
            )
        self.done = done

    def _open(self, mode: str):
        # Without HDF5's lock: somebody who looks at the file meanwhile must not end a run of hours.
        return self._h5.File(self._path, mode, locking=False)

    def _create(self, batch, fixed, identity: str, chunks: int) -> None:
        # In one piece and with its place in the file, of which an empty part takes no room on the disk.
        placed = self._h5.h5p.create(self._h5.h5p.DATASET_CREATE)
        placed.set_alloc_time(self._h5.h5d.ALLOC_TIME_EARLY)
        placed.set_fill_time(self._h5.h5d.FILL_TIME_NEVER)
        # Under another name until it is whole.
        new = self._path.with_name(f".{self._path.name}.new")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._h5.File(new, "w") as file:
            file.attrs["identity"] = identity
            for folder, tree in (("parameters", batch), ("fixed", fixed)):
                for name, leaf in _named(tree).items():
                    file[f"{folder}/{name}"] = leaf
            for name, leaf in self._names.items():
                file.create_dataset(f"outputs/{name}", shape=leaf.shape, dtype=leaf.dtype, dcpl=placed)
            file["done"] = np.zeros(chunks, np.uint8)
        os.replace(new, self._path)

    def write(self, number: int, values: Any) -> None:
        """Put a chunk's outputs there, without what is beyond the last lane, then its mark."""
        with self._open("r+") as file:
            for name, value in _named(values).items():
                output, first = file[f"outputs/{name}"], number * self._chunk
                output[first : first + self._chunk] = value[: output.shape[0] - first]
            file.flush()
            file["done"][number] = 1

    def outputs(self) -> Any:
        """All outputs, mapped into memory, read-only: what nobody looks at takes none."""
        with self._open("r") as file:
            offsets = [file[f"outputs/{name}"].id.get_offset() for name in self._names]
        return jax.tree.unflatten(
            self._structure, [self._mapped(*pair) for pair in zip(self._names.values(), offsets, strict=True)]
        )

    def _mapped(self, leaf, offset):
        if 0 in leaf.shape:
            return np.empty(leaf.shape, leaf.dtype)
        return np.asarray(np.memmap(self._path, leaf.dtype, "r", offset, leaf.shape))


def digest(*parts) -> str:
    """SHA-256 of names, shapes, dtypes and, where there are any, values of some pytrees.

    Example:
        >>> digest({"a": 1.0}) == digest({"a": np.array(1.0)}), digest({"a": 1.0}) == digest({"b": 1.0})
        (True, False)
    """
    found = hashlib.sha256()
    for part in parts:
        for name, leaf in _named(part).items():
            leaf = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else np.asarray(leaf)
            found.update(f"{name} {leaf.shape} {leaf.dtype}|".encode())
            found.update(leaf.tobytes() if isinstance(leaf, np.ndarray) else b"")
    return found.hexdigest()


def _named(tree) -> dict[str, Any]:
    """Leaves by their path in the tree, a slash between its parts."""
    paths = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/") or "value": leaf for path, leaf in paths}
