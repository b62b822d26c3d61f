"""Files: read as text, written so that they are either whole or not there, and errors that name them."""

from __future__ import annotations

import errno
import io
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


def read_bytes(path: str | Path) -> bytes:
    """The content of a file.

    Raises:
        OSError: it cannot be read; names the file whatever the reason.
    """
    with named(path):
        return Path(path).read_bytes()


def read_text(path: str | Path, *, expected: str, content: bytes | None = None, encoding: str = "UTF-8") -> str:
    """The text of a file, with or without a byte order mark.

    Args:
        path: of the file.
        expected: what it should be, for the message.
        content: its bytes, where they have been read already.
        encoding: of the text.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no text in that encoding.
    """
    content = read_bytes(path) if content is None else content
    try:
        text = content.decode("utf-8-sig" if encoding == "UTF-8" else encoding)
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: byte {error.start} is no {encoding} text, expected {expected}") from None
    if "\0" in text:
        # Every other byte of an English text in UTF-16.
        row = text.count("\n", 0, text.index("\0")) + 1
        raise ValueError(f"{path}: row {row}: a null byte, expected {expected} in {encoding}")
    return text


def require_writable(folder: str | Path) -> None:
    """Refuse a folder in which no file could be written, before hours are spent on what should go there.

    Raises:
        OSError: a part of its path is a file, or must not be written to.
    """
    folder = Path(folder)
    there = next((part for part in (folder, *folder.parents) if part.exists()), Path())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(there))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "Permission denied", str(there))


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Errors of the system within are those of a file: a full disk does not say which.

    Example:
        >>> with named("runs.h5"):
        ...     raise OSError(errno.ENOSPC, "No space left on device")
        Traceback (most recent call last):
        OSError: [Errno 28] No space left on device: 'runs.h5'
    """
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from error


def write_atomically(path: str | Path, text: str) -> None:
    """Write a text file so that an interruption leaves the old file or none, never half of one.

    The text goes to a temporary file in the same folder, which then takes the name in one operation.

    Args:
        path: of the file; its folder is made if need be.
        text: its content, UTF-8.

    Raises:
        OSError: the folder or the file cannot be written.

    Example:
        >>> folder = tempfile.mkdtemp()
        >>> write_atomically(Path(folder, "result.json"), "{}")
        >>> os.listdir(folder)
        ['result.json']
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with named(path):
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            # The name of a file may hold bytes that are no text: they must not cost the result that names it.
            with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as stream:
                stream.write(text)
            # mkstemp makes files private; a report is as readable as any other file.
            os.chmod(temporary, 0o666 & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def put(handle: int, content: bytes, at: int) -> None:
    """Write bytes at a place of an open file, all of them.

    Raises:
        OSError: some cannot be written, as on a full disk.
    """
    left = memoryview(content)
    while left:
        written = os.pwrite(handle, left, at)
        at, left = at + written, left[written:]


class SparseFile(io.RawIOBase):
    """A file in memory that takes room only for what was written; between that it is zero.

    Example:
        >>> file = SparseFile()
        >>> file.seek(10**12), file.write(b"end"), file.seek(10**12 - 1), file.read(4)
        (1000000000000, 3, 999999999999, b'\\x00end')
    """

    def __init__(self):
        self._parts: list[tuple[int, bytes]] = []
        self._at = self._size = 0

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def truncate(self, size: int | None = None) -> int:
        self._size = self._at if size is None else size
        return self._size

    def write(self, content) -> int:
        part = bytes(content)
        self._parts.append((self._at, part))
        self._at += len(part)
        self._size = max(self._size, self._at)
        return len(part)

    def readinto(self, buffer) -> int:
        begin, end = self._at, max(min(self._at + len(buffer), self._size), self._at)
        found = bytearray(end - begin)
        for at, part in self._parts:
            first, last = max(at, begin), min(at + len(part), end)
            if first < last:
                found[first - begin : last - begin] = part[first - at : last - at]
        buffer[: len(found)] = found
        self._at = end
        return len(found)

    def seekable(self) -> bool:
        return True

    readable = writable = seekable

    def copy_to(self, handle: int) -> None:
        """Write it to an open file, which stays empty where this one is."""
        os.ftruncate(handle, self._size)
        for at, part in self._parts:
            put(handle, part[: max(self._size - at, 0)], at)
        os.fsync(handle)


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """One process at a time, of those that ask for it; on a file system without locks all of them."""
    import fcntl

    handle = None
    try:
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        pass
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def lock(file: IO[bytes]) -> bool:
    """Whether no other process has locked the file this way; if none has, this one now has until it closes it.

    HDF5's own locks are of another kind and stay free, for those who read it. On a file system without locks: True.
    """
    import fcntl

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN)
    return True


def _umask() -> int:
    # There is no way to read it but to set it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
