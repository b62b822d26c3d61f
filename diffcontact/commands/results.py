"""The files of a command's results: written whatever happens to the printing, elsewhere where there is no room."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from diffcontact.host.files import write_aside, write_atomically
from diffcontact.host.messages import say


@contextmanager
def written_all_the_same(folder: Path, texts: Mapping[str, Callable[[], str]]) -> Iterator[None]:
    """What is printed within comes first, then the files, also where the terminal was closed meanwhile.

    So neither a full disk nor a closed terminal costs the results. A file for which there is no room in the folder
    goes among the temporary ones.

    Args:
        folder: made if need be.
        texts: name of each file -> its content, each made when those before it are written.

    Raises:
        OSError: the first file that is not where it should be, and where it is kept.
    """
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
    """The error, with a word on where the content is."""
    try:
        place = f"kept as {write_aside(path.name, content)}"
    except OSError:
        place = "and no room among the temporary files; expected another place: --out"
    return OSError(error.errno, f"{error.strerror}; {place}", str(error.filename or path))
