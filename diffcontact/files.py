"""Files that are either whole or not there."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path


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
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as stream:
            stream.write(text)
        # mkstemp makes files private; a report is as readable as any other file.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _umask() -> int:
    # There is no way to read it but to set it.
    mask = os.umask(0)
    os.umask(mask)
    return mask
