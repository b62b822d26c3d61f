"""How a command ends: files over its own ones only, what is printed, lines on stderr, exit code."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from diffcontact.host.files import read_bytes, write_aside, write_atomically
from diffcontact.host.messages import one_line, say, shown
from diffcontact.scene.document import Scene
from diffcontact.scene.keys import MistakesError


class ExitCode(IntEnum):
    """How a command ended, for the shell."""

    DONE = 0
    BROKEN = 1
    BAD_INPUT = 2
    NOT_CONVERGED = 3
    INTERRUPTED = 130


def complain(error: Exception | str) -> ExitCode:
    """Say on stderr what is wrong, one line for each mistake."""
    if isinstance(error, OSError) and error.filename is not None:
        error = f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        error = f"not enough memory: {error}, expected something smaller"
    say(*map(one_line, error.lines if isinstance(error, MistakesError) else [str(error)]), error=True)
    return ExitCode.BAD_INPUT


def unforeseen(error: Exception) -> ExitCode:
    """Report a failure of the program, and keep the traceback."""
    text = "".join(traceback.format_exception(error))
    try:
        written = write_aside("traceback.txt", "\n".join((sys.version, str(sys.argv), "", text)))
        kept = f"the traceback is in {written}"
    except OSError as failure:
        kept = f"the traceback could not be written ({failure.strerror}): {text[-2000:]}"
    told = f"an error of diffcontact, not of the input: {type(error).__name__}; please report it, {kept}"
    say(one_line(told), error=True)
    return ExitCode.BROKEN


@contextmanager
def about(file: str | Path) -> Iterator[None]:
    """Begin the message of a ValueError within with the file's name."""
    try:
        yield
    except np.linalg.LinAlgError as error:
        raise ValueError(
            f"{file}: {str(error).lower()} in the linear algebra; expected times, values and units of an ordinary size"
        ) from error
    except ValueError as error:
        if str(error).startswith(f"{file}: "):
            raise
        raise ValueError(f"{file}: {error}") from error


_RESULT, _DESIGN = re.compile(rb'\{\s*"converged":'), re.compile(rb'\{\s*"sentence":')


def as_json(document: Mapping[str, Any]) -> str:
    """The text of a JSON file."""
    return json.dumps(document, indent=2, allow_nan=False) + "\n"


def require_own(file: Path, own: Callable[[bytes], object], option: str) -> None:
    """Refuse a file whose content is of another kind than `own`."""
    if not os.path.lexists(file):
        return
    if file.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    # What is no file, as a pipe, would wait for somebody who writes it; a link leads to what is somebody else's.
    if file.is_symlink() or not (file.is_file() and own(read_bytes(file))):
        told = f"exists already and is not of this command, expected another place: {option}"
        raise FileExistsError(errno.EEXIST, told, str(file))


def results_folder(out: Path | None, scene: Scene) -> Path:
    """The folder of results: of the command line, else the scene.

    A scene may be somebody else's, so its folder is used only within the current folder or that of the scene.
    """
    if out is not None:
        return out
    # Without following links, which are this user's own.
    folder, *around = (Path(os.path.abspath(path)) for path in (scene.folder, Path.cwd(), Path(scene.file).parent))
    if not any(folder.is_relative_to(place) for place in around):
        raise ValueError(
            f"{scene.file}: output.folder: {shown(str(scene.folder))} is neither in the current folder nor in that of "
            "the scene, expected one within, or --out"
        )
    return scene.folder


def is_result(content: bytes) -> bool:
    """Whether it is what `fit` found."""
    return _RESULT.match(content) is not None


def is_design(content: bytes) -> bool:
    """Whether it is what `design` found."""
    return _DESIGN.match(content) is not None


@contextmanager
def written_all_the_same(folder: Path, texts: Mapping[str, Callable[[], str]]) -> Iterator[None]:
    """Print first, then write files, also after an error; without room, among the temporary files."""
    written, missed = [], None
    try:
        yield
    finally:
        for name, text in texts.items():
            content = text()
            try:
                write_atomically(folder / name, content)
                written.append(folder / name)
            except OSError as error:
                missed = missed or _kept(error, folder / name, content)
    for path in written:
        say(f"wrote {path}")
    if missed is not None:
        raise missed


def _kept(error: OSError, path: Path, content: str) -> OSError:
    try:
        place = f"kept as {write_aside(path.name, content)}"
    except OSError:
        place = "and no room among the temporary files; expected another place: --out"
    return OSError(error.errno, f"{error.strerror}; {place}", str(error.filename or path))


def file_of(out: Path, name: str) -> Path:
    """The single file of `--out`, within a folder by its usual name.

    A name with an ending is the file, any other one and a folder that is there the folder.

    Example:
        >>> str(file_of(Path("out/mine"), "motion.html")), str(file_of(Path("out/ball.html"), "motion.html"))
        ('out/mine/motion.html', 'out/ball.html')
    """
    return out / name if out.is_dir() or not out.suffix else out
