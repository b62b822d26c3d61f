"""Store an ensemble's outputs, chunk by chunk: arrays in memory, or an HDF5 file.

parameters/...   what the lanes differ in, (n, ...)
fixed/...        what they have in common
outputs/...      what the run gave, (n, ...)
checksum         (chunks,) CRC-32 of a chunk's outputs, one dataset after the other in the order of their names
done             (chunks,) 1 where a chunk's outputs are there
"""

from __future__ import annotations

import errno
import hashlib
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import jax
import numpy as np
from numpy.typing import NDArray

from diffcontact.host.files import (
    SparseFile,
    alone_in,
    lock,
    named,
    open_in_place,
    put,
    remove_leftovers,
    replacing,
    require_no_link,
)

_ANEW = "expected a whole file, or a name that is not taken"
# Number of differences from another ensemble that an error tells.
_TOLD = 3


class Arrays:
    """Keep outputs in memory; `done` (chunks,) is False at first."""

    def __init__(self, outputs: Any, chunk: int, count: int):
        self._outputs = jax.tree.map(lambda x: np.empty(x.shape, x.dtype), outputs)
        self._chunk = chunk
        self.done = np.zeros(-(-count // chunk), bool)

    def write(self, number: int, values: Any) -> None:
        """Put a chunk's outputs there, without lanes beyond the last."""
        for output, value in zip(jax.tree.leaves(self._outputs), jax.tree.leaves(values), strict=True):
            here = output[number * self._chunk : (number + 1) * self._chunk]
            here[...] = value[: here.shape[0]]

    def outputs(self) -> Any:
        return self._outputs

    def close(self) -> None:
        """Close nothing."""


class Store:
    """Open or make the file of one ensemble.

    A chunk counts as done only when its mark is set after its outputs and their checksum, and all datasets have their
    full length and their place in the file from the beginning, so that writing changes nothing but numbers: a run that
    is killed, or whose disk is full, whenever that is, leaves a file that can be read and resumed. It may be read while
    it is written, by one process at a time.

    HDF5 lays the file out, in memory, and says where each dataset lies in it. It writes nothing to the disk: it does
    not survive a write that fails.

    Args:
        batch: pytree of arrays (n, ...), the parameters.
        fixed: pytree of arrays, common to all lanes.
        outputs: pytree of (n, ...) shapes and dtypes.
        chunk: lanes in a chunk.

    Attributes:
        done: (chunks,) bool, which of them the file held when it was opened.

    Raises:
        ValueError: the file holds another ensemble, or is damaged or in use; two arrays have one name.
        OSError: it cannot be made, read or written.
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
        self._structure, self._chunk = jax.tree.structure(outputs), chunk
        self._count = jax.tree.leaves(batch)[0].shape[0]
        inputs = self._datasets("parameters", batch) | self._datasets("fixed", fixed)
        self._inputs = {name: np.asarray(leaf) for name, leaf in inputs.items()}
        chunks = -(-self._count // chunk)
        self._outputs = self._datasets("outputs", outputs)
        self._marks = {
            "checksum": jax.ShapeDtypeStruct((chunks,), np.uint32),
            "done": jax.ShapeDtypeStruct((chunks,), np.uint8),
        }
        self._identity = digest(batch, fixed, outputs, chunk)
        self._make()
        self._offsets = self._places()
        self._file = open_in_place(self._path)
        try:
            if not lock(self._file):
                raise self._refusal("another process is writing it, expected it to be done")
            self.done = self._whole()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let other processes write it."""
        self._file.close()

    def _refusal(self, what: str) -> ValueError:
        return ValueError(f"ensemble(store={str(self._path)!r}): {what}")

    def _datasets(self, folder: str, tree: Any) -> dict[str, Any]:
        """Name the leaves by their datasets, each of which holds one leaf alone."""
        found, places = {}, set()
        for name, leaf in _named(tree):
            # As HDF5 reads it.
            place = tuple(part for part in name.split("/") if part not in ("", "."))
            if not place or any(place[: len(other)] == other[: len(place)] for other in places):
                raise self._refusal(
                    f"{folder} holds {name!r} twice, as itself or as a folder; expected keys that differ where their "
                    "parts are joined by a slash"
                )
            places.add(place)
            found[f"{folder}/{name}"] = leaf
        return found

    def _make(self) -> None:
        """Make the file without any outputs, unless it is there."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with alone_in(self._path.parent) as alone:
            require_no_link(self._path)
            if alone:
                remove_leftovers(self._path)
            if self._path.exists():
                return
            with replacing(self._path) as file:
                self._layout().copy_to(file.fileno())

    def _layout(self) -> SparseFile:
        """Lay the file out by HDF5, with the parameters in it and room for the outputs."""
        # In one piece and with its place in the file, of which an empty part takes no room on the disk.
        placed = self._h5.h5p.create(self._h5.h5p.DATASET_CREATE)
        placed.set_alloc_time(self._h5.h5d.ALLOC_TIME_EARLY)
        placed.set_fill_time(self._h5.h5d.FILL_TIME_NEVER)
        # Without the time of day: the same ensemble is the same file, byte for byte.
        timeless = self._h5.h5p.create(self._h5.h5p.GROUP_CREATE)
        timeless.set_obj_track_times(False)
        layout = SparseFile()
        # Of the oldest format that has checksums of its own: of what says where the numbers are.
        with self._h5.File(layout, "w", libver=("v108", "v108")) as file:
            file.attrs["identity"] = np.bytes_(self._identity)
            for folder in sorted({name.partition("/")[0] for name in (*self._inputs, *self._outputs)}):
                self._h5.h5g.create(file.id, folder.encode(), gcpl=timeless)
            for name, leaf in self._inputs.items():
                file.create_dataset(name, data=leaf)
            for name, leaf in (self._outputs | self._marks).items():
                file.create_dataset(name, shape=leaf.shape, dtype=leaf.dtype, dcpl=placed)
        return layout

    def _places(self) -> dict[str, int]:
        """Return where each dataset begins, after a look at everything but the outputs."""
        if self._path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(self._path))
        try:
            # Without HDF5's lock: somebody who looks at the file meanwhile must not end a run of hours.
            with self._h5.File(self._path, "r", locking=False) as file:
                held = file.attrs.get("identity")
                if not isinstance(held, bytes | str) or held not in (self._identity, self._identity.encode()):
                    raise self._refusal(
                        f"holds another ensemble ({self._otherwise(file)}); expected the same one, to be resumed, or a "
                        "name that is not taken"
                    )
                for name in (*self._inputs, *self._outputs, *self._marks):
                    if name not in file:
                        raise self._refusal(f"{name} is missing; {_ANEW}")
                for name, leaf in self._inputs.items():
                    if file[name].shape != leaf.shape or file[name][()].tobytes() != leaf.tobytes():
                        raise self._refusal(f"{name} is damaged: it is not what the ensemble began with; {_ANEW}")
                return {
                    name: self._place(file[name], name, leaf) for name, leaf in (self._outputs | self._marks).items()
                }
        except PermissionError as denied:
            raise PermissionError(denied.errno, os.strerror(errno.EACCES), str(self._path)) from denied
        except KeyError as missing:
            raise self._refusal(f"damaged: {missing.args[0]}; {_ANEW}") from missing
        except (OSError, RuntimeError, TypeError, AttributeError) as broken:
            raise self._refusal(f"not an HDF5 file, or a damaged one ({broken})") from broken

    def _otherwise(self, file) -> str:
        """Say what differs in the file of another ensemble, or in one of something else."""
        leaves, found = self._inputs | self._outputs, []
        for name, leaf in leaves.items():
            held = file.get(name)
            if getattr(held, "shape", None) is None:
                found.append(f"without {name}")
            elif (held.shape, held.dtype) != (leaf.shape, leaf.dtype):
                found.append(f"{name} is {held.dtype} {held.shape}, not {leaf.dtype} {leaf.shape}")
            elif name in self._inputs and held[()].tobytes() != leaf.tobytes():
                found.append(f"{name} has other values")
        names: list[str] = []
        file.visit(names.append)
        known = leaves.keys() | self._marks.keys()
        found += [f"with {name}" for name in names if name not in known and hasattr(file.get(name), "shape")]
        # What comes out differs because of what went in.
        found.sort(key=lambda told: "outputs/" in told)
        more = f" and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
        return ", ".join(found[:_TOLD]) + more if found else f"its chunks are not of {self._chunk} lanes"

    def _place(self, dataset, name: str, leaf) -> int:
        held = [getattr(dataset, what, None) for what in ("dtype", "shape", "chunks")]
        if held != [leaf.dtype, leaf.shape, None]:
            raise self._refusal(f"{name} is damaged: {held[0]} {held[1]}, expected {leaf.dtype} {leaf.shape}; {_ANEW}")
        return dataset.id.get_offset() or 0

    def _whole(self) -> NDArray:
        """Return (chunks,) bool, which chunks are there, each as it was written."""
        chunks = self._marks["done"].shape[0]
        done = np.frombuffer(self._read("done", 0, chunks), np.uint8)
        checksums = np.frombuffer(self._read("checksum", 0, chunks), np.uint32)
        if done.size != chunks or checksums.size != chunks or np.any(done > 1):
            raise self._refusal(f"the marks of its chunks are damaged; {_ANEW}")
        for number in np.flatnonzero(done).tolist():
            first = number * self._chunk
            last = min(first + self._chunk, self._count)
            if checksum(self._read(name, first, last) for name in self._outputs) != checksums[number]:
                raise self._refusal(
                    f"chunk {number} (lanes {first} to {last - 1}) is damaged: it is not what was written; "
                    f"expected a whole file; with done[{number}] = 0 in it the chunk is run again"
                )
        return done.astype(bool)

    def _read(self, name: str, first: int, last: int) -> bytes:
        row, begin = self._row(name)
        return os.pread(self._file.fileno(), (last - first) * row, begin + first * row)

    def _row(self, name: str) -> tuple[int, int]:
        """Return the bytes in a row of a dataset, and the place of the first row."""
        leaf = (self._outputs | self._marks)[name]
        return int(np.prod(leaf.shape[1:])) * np.dtype(leaf.dtype).itemsize, self._offsets[name]

    def write(self, number: int, values: Any) -> None:
        """Write a chunk's outputs without lanes beyond the last, then their checksum, then its mark."""
        first = number * self._chunk
        last = min(first + self._chunk, self._count)
        parts = {
            f"outputs/{name}": np.asarray(value[: last - first], self._outputs[f"outputs/{name}"].dtype).tobytes()
            for name, value in _named(values)
        }
        with named(self._path):
            for name, part in parts.items():
                self._put(name, first, part)
            # On the disk before the mark is: else a power cut could leave the mark alone.
            os.fsync(self._file.fileno())
            self._put("checksum", number, np.uint32(checksum(parts[name] for name in self._outputs)).tobytes())
            self._put("done", number, b"\1")

    def _put(self, name: str, first: int, content: bytes) -> None:
        row, begin = self._row(name)
        put(self._file.fileno(), content, begin + first * row)

    def outputs(self) -> Any:
        """Map all outputs into memory, read-only: unread ones take none."""
        return jax.tree.unflatten(self._structure, [self._mapped(*pair) for pair in self._outputs.items()])

    def _mapped(self, name: str, leaf) -> NDArray:
        if 0 in leaf.shape:
            return np.empty(leaf.shape, leaf.dtype)
        return np.asarray(np.memmap(self._path, leaf.dtype, "r", self._offsets[name], leaf.shape))


def checksum(parts: Iterable[bytes]) -> int:
    """Return the CRC-32 of all parts, one after the other."""
    found = 0
    for part in parts:
        found = zlib.crc32(part, found)
    return found


def digest(*parts) -> str:
    """Return the SHA-256 of names, shapes, dtypes and known values of pytrees.

    Example:
        >>> digest({"a": 1.0}) == digest({"a": np.array(1.0)}), digest({"a": 1.0}) == digest({"b": 1.0})
        (True, False)
    """
    found = hashlib.sha256()
    for part in parts:
        for name, leaf in _named(part):
            leaf = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else np.asarray(leaf)
            found.update(f"{name} {leaf.shape} {leaf.dtype}|".encode())
            found.update(leaf.tobytes() if isinstance(leaf, np.ndarray) else b"")
    return found.hexdigest()


def _named(tree) -> list[tuple[str, Any]]:
    """List leaves with their paths, joined by slashes; two may have the same path."""
    paths = jax.tree_util.tree_leaves_with_path(tree)
    return [(jax.tree_util.keystr(path, simple=True, separator="/") or "value", leaf) for path, leaf in paths]
