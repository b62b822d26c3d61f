"""An ensemble's file: parameters and outputs of every lane in HDF5, written chunk by chunk."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np


class Store:
    """The file of one ensemble.

    All datasets have their full length from the beginning, and a chunk counts as done only when its mark is set after
    its outputs: a run that is killed leaves a file that can be read and resumed.

    Args:
        path: of the file; it is made if it is not there.
        batch: pytree of arrays (n, ...), the parameters.
        outputs: pytree of arrays (n, ...), for their names, shapes and dtypes.
        chunk: lanes in a chunk.

    Raises:
        ValueError: the file holds another ensemble, or is none.
        ModuleNotFoundError: h5py is not installed.
    """

    def __init__(self, path: str | Path, batch: Any, outputs: Any, chunk: int):
        try:
            import h5py
        except ImportError as missing:
            raise ModuleNotFoundError(
                f"ensemble(store={str(path)!r}): needs h5py, pip install 'diffcontact[ensemble]'"
            ) from missing
        self._open: Any = h5py.File
        self._path = Path(path)
        self._names, self._structure = _named(outputs), jax.tree.structure(outputs)
        count = jax.tree.leaves(batch)[0].shape[0]
        identity = _identity(batch, outputs, chunk)
        if not self._path.exists():
            self._create(batch, identity, -(-count // chunk))
        try:
            with self._open(self._path, "r") as file:
                held = file.attrs.get("identity")
                self._done = np.asarray(file["done"]) if "done" in file else None
        except OSError as broken:
            raise ValueError(f"ensemble(store={str(path)!r}): not an HDF5 file ({broken})") from broken
        if held != identity or self._done is None:
            raise ValueError(
                f"ensemble(store={str(path)!r}): holds another ensemble (parameters, outputs or chunk differ); "
                "expected the same one, to be resumed, or a name that is not taken"
            )

    def _create(self, batch, identity: str, chunks: int) -> None:
        # Under another name until it is whole.
        new = self._path.with_name(f".{self._path.name}.new")
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._open(new, "w") as file:
            file.attrs["identity"] = identity
            for name, leaf in _named(batch).items():
                file[f"parameters/{name}"] = leaf
            for name, leaf in self._names.items():
                file.create_dataset(f"outputs/{name}", shape=leaf.shape, dtype=leaf.dtype)
            file["done"] = np.zeros(chunks, np.uint8)
        os.replace(new, self._path)

    def holds(self, number: int) -> bool:
        """Whether that chunk is done."""
        assert self._done is not None
        return bool(self._done[number])

    def read(self, lanes: slice):
        """The outputs of some lanes."""
        with self._open(self._path, "r") as file:
            return jax.tree.unflatten(self._structure, [file[f"outputs/{name}"][lanes] for name in self._names])

    def write(self, number: int, lanes: slice, outputs) -> None:
        """Put a chunk's outputs there, then its mark."""
        with self._open(self._path, "r+") as file:
            for name, value in _named(outputs).items():
                file[f"outputs/{name}"][lanes] = value
            file.flush()
            file["done"][number] = 1


def _named(tree) -> dict[str, np.ndarray]:
    """Leaves by their path in the tree, a slash between its parts."""
    paths = jax.tree_util.tree_leaves_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator="/") or "value": leaf for path, leaf in paths}


def _identity(batch, outputs, chunk: int) -> str:
    """SHA-256 of what an ensemble is made of, but for the code of its run."""
    digest = hashlib.sha256(str(chunk).encode())
    for name, leaf in _named(batch).items():
        digest.update(f"{name} {leaf.shape} {leaf.dtype}".encode())
        digest.update(np.ascontiguousarray(leaf).tobytes())
    for name, leaf in _named(outputs).items():
        digest.update(f"{name} {leaf.shape} {leaf.dtype}".encode())
    return digest.hexdigest()
