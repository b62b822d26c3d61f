"""What a command may write over: what it wrote itself. A recording, a scene and what others wrote stay.

Each is asked for before anything is simulated.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

from diffcontact.host.files import read_bytes
from diffcontact.host.messages import shown
from diffcontact.scene.document import Scene

_RESULT, _DESIGN = re.compile(rb'\{\s*"converged":'), re.compile(rb'\{\s*"sentence":')


def require_own(file: Path, own: Callable[[bytes], object], option: str) -> None:
    """Refuse a file that is there and is another one than this command writes.

    Args:
        file: where the command is about to write.
        own: whether a content is of its own kind.
        option: how another place is said.

    Raises:
        OSError: it is there and not its own, or cannot be read.

    Example:
        >>> import tempfile
        >>> file = Path(tempfile.mkdtemp(), "result.json")
        >>> require_own(file, is_result, "--out DIR")
        >>> _ = file.write_text("mine")
        >>> require_own(file, is_result, "--out DIR")
        Traceback (most recent call last):
        FileExistsError: [Errno 17] exists already and is not of this command, expected another place: --out DIR: ...
    """
    if not os.path.lexists(file):
        return
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    # What is no file, as a pipe, would wait for somebody who writes it; a link leads to what is somebody else's.
    if file.is_symlink() or not (file.is_file() and own(read_bytes(file))):
        told = f"exists already and is not of this command, expected another place: {option}"
        raise FileExistsError(errno.EEXIST, told, str(file))


def results_folder(out: Path | None, scene: Scene) -> Path:
    """Where results go: as the command line says, else as the scene does.

    A scene may be somebody else's. So what it says is taken only within the current folder or that of the scene; of
    links on the way nothing is asked, they are this user's own.

    Args:
        out: the folder of --out, or None.
        scene: that was read.

    Raises:
        ValueError: the scene's folder is elsewhere.
    """
    if out is not None:
        return out
    folder, around = _absolute(scene.folder), (Path.cwd(), _absolute(Path(scene.file).parent))
    if not any(folder.is_relative_to(place) for place in around):
        raise ValueError(
            f"{scene.file}: output.folder: {shown(str(scene.folder))} is neither in the current folder nor in that of "
            "the scene, expected one within, or --out"
        )
    return scene.folder


def _absolute(path: Path) -> Path:
    return Path(os.path.abspath(path))


def is_result(content: bytes) -> bool:
    """Whether it is what `fit` found."""
    return _RESULT.match(content) is not None


def is_design(content: bytes) -> bool:
    """Whether it is what `design` found."""
    return _DESIGN.match(content) is not None
