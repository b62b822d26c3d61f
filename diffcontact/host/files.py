"""Files: read as text, written so that they are either whole or not there, and errors that name them."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

CACHE_VARIABLE = "DIFFCONTACT_CACHE"
# Temporary files end so.
_SUFFIX = ".part"


def read_bytes(path: str | Path) -> bytes:
    """The content of a file; errors name it, whatever the reason."""
    with named(path):
        return Path(path).read_bytes()


def read_text(path: str | Path, *, expected: str, content: bytes | None = None, encoding: str = "UTF-8") -> str:
    """The text of a file, with or without a byte order mark; `expected` is for the message."""
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
    """Refuse a folder in which no file could be written, before hours are spent on one."""
    folder = Path(folder)
    there = next((part for part in (folder, *folder.parents) if part.exists()), Path())
    if not there.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", str(there))
    if not os.access(there, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, "Permission denied", str(there))


@contextmanager
def named(path: str | Path) -> Iterator[None]:
    """Errors of the system within are those of a file: a full disk does not say which."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        raise OSError(number, os.strerror(number), str(path)) from error


def require_no_link(path: str | Path) -> None:
    """Refuse a symbolic link in place of a file: what it leads to is somebody else's."""
    if os.path.islink(path):
        told = "a symbolic link, expected a file, or a name that is not taken"
        raise FileExistsError(errno.EEXIST, told, str(path))


@contextmanager
def replacing(path: str | Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of the old one when the block ends without an error.

    Until then it is a temporary file in the same folder: an interruption leaves the old file or none, never half of
    one.
    """
    path = Path(path)
    require_no_link(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with named(path):
        # Made by O_EXCL: nothing that is there already is opened.
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=_prefix(path), suffix=_SUFFIX)
        try:
            with os.fdopen(handle, "wb", buffering=0) as stream:
                yield stream
            # mkstemp makes files private; a report is as readable as any other file. A mask is only read by setting it.
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def remove_leftovers(path: str | Path) -> None:
    """Remove temporary files of `replacing` that killed processes left; no other process may write now."""
    path = Path(path)
    for name in os.listdir(path.parent):
        # As `mkstemp` makes them: eight random characters, none of them a dot.
        middle = name.removeprefix(_prefix(path)).removesuffix(_SUFFIX)
        if name == f"{_prefix(path)}{middle}{_SUFFIX}" and re.fullmatch("[a-z0-9_]{8}", middle):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path.parent / name)


def write_atomically(path: str | Path, content: str | bytes) -> None:
    """Write bytes or text (UTF-8); an interruption leaves the old file or none, never half of one."""
    with replacing(path) as stream:
        _write(stream, content)


def write_new(path: str | Path, content: str | bytes) -> None:
    """Write a file where there is none: what another program puts there meanwhile stays."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with named(path):
        stream = open(path, "xb", buffering=0)  # noqa: SIM115  (only what was made here may be removed)
        try:
            with stream:
                _write(stream, content)
        except BaseException:
            os.unlink(path)
            raise


def write_aside(name: str, content: str | bytes) -> Path:
    """Write a file that would be lost otherwise among the temporary ones; returns its path."""
    handle, path = tempfile.mkstemp(prefix="diffcontact-", suffix=f"-{name}")
    try:
        with os.fdopen(handle, "wb", buffering=0) as stream:
            _write(stream, content)
    except BaseException:
        os.unlink(path)
        raise
    return Path(path)


def open_in_place(path: str | Path) -> IO[bytes]:
    """An existing file, to be read and changed where it is; no symbolic link."""
    require_no_link(path)
    with named(path):
        # A link that is put there from now on is refused by the system.
        follow = getattr(os, "O_NOFOLLOW", 0)
        return open(path, "r+b", buffering=0, opener=lambda name, flags: os.open(name, flags | follow))


def _write(stream: IO[bytes], content: str | bytes) -> None:
    """All of it: a system may take a part at a time."""
    # The name of a file may hold bytes that are no text: they must not cost the result that names it.
    left = memoryview(content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content)
    while left:
        left = left[stream.write(left) :]


def cache_folder() -> Path | None:
    """Where compiled programs are kept: DIFFCONTACT_CACHE, or a folder where this system keeps caches.

    None where DIFFCONTACT_CACHE is "off", and where this user has no home, as in a container.
    """
    wanted = os.environ.get(CACHE_VARIABLE, "")
    if wanted.lower() == "off":
        return None
    try:
        if wanted:
            return Path(wanted).expanduser()
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "diffcontact"
        caches = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA") or Path.home() / ".cache"
    except RuntimeError:
        return None
    return Path(caches) / "diffcontact"


def put(handle: int, content: bytes, at: int) -> None:
    """Write bytes at a place of an open file, all of them."""
    left = memoryview(content)
    while left:
        written = os.pwrite(handle, left, at)
        at, left = at + written, left[written:]


class SparseFile(io.RawIOBase):
    """A file in memory that takes room only for what was written; between that it is zero."""

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
def alone_in(folder: Path) -> Iterator[bool]:
    """Let one of the processes that ask in at a time; yields whether it is alone, as file systems lock."""
    import fcntl

    handle, alone = None, False
    try:
        handle = os.open(folder, os.O_RDONLY)
        fcntl.flock(handle, fcntl.LOCK_EX)
        alone = True
    except OSError:
        pass
    try:
        yield alone
    finally:
        if handle is not None:
            os.close(handle)


def lock(file: IO[bytes]) -> bool:
    """Lock the file until it is closed; whether no other process has. Without locks: True."""
    import fcntl

    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno not in (errno.EACCES, errno.EAGAIN)
    return True


def _prefix(path: Path) -> str:
    # A name has room for 255 bytes, a character takes up to four.
    return f".{path.name[:40]}."
