"""A study from its fit to its files: what `python -m diffcontact fit` does, and the demo after it."""

from __future__ import annotations

import json
import sys
from enum import IntEnum
from pathlib import Path

from diffcontact.files import write_atomically
from diffcontact.identify.table import text_table
from diffcontact.progress import FitProgress
from diffcontact.report import page
from diffcontact.scene.study import Study, estimates, result_document


class ExitCode(IntEnum):
    """How a command ended, for the shell."""

    DONE = 0
    BROKEN = 1
    BAD_INPUT = 2
    NOT_CONVERGED = 3
    INTERRUPTED = 130


def fit_and_report(study: Study, folder: Path) -> ExitCode:
    """Fit, print the table, write `result.json` and `report.html` into the folder.

    Args:
        study: scene and runs.
        folder: made if need be.

    Returns:
        BAD_INPUT, with one line on stderr, where the data cannot see a free parameter (the files are written all the
        same and name it); otherwise DONE or NOT_CONVERGED.

    Raises:
        ValueError: starting values that cannot be simulated.
        OSError: the folder cannot be written.
    """
    runs = f"{len(study.runs)} run{'s' if len(study.runs) > 1 else ''}"
    print(f"{study.scene.title}: {runs}, {study.samples} samples", flush=True)
    with FitProgress() as progress:
        result = study.fit(progress)
    document = result_document(study, result)
    print(f"\n{text_table(estimates(document))}\n")
    print(f"cost {result.cost:.6g}, {result.dof} degrees of freedom; {result.message}\nerror bars {result.error_bars}")
    for name, text in (
        ("result.json", json.dumps(document, indent=2, allow_nan=False) + "\n"),
        ("report.html", page(study, result, document)),
    ):
        write_atomically(folder / name, text)
        print(f"wrote {folder / name}")
    if result.unidentifiable:
        unseen = "; ".join(" with ".join(direction) for direction in result.unidentifiable)
        return complain(
            f"{study.scene.file}: parameters: the data cannot see {unseen}, expected runs that show it or free = false"
        )
    return ExitCode.DONE if result.converged else ExitCode.NOT_CONVERGED


def complain(error: Exception | str) -> ExitCode:
    """Say on one line of stderr what is wrong with the input."""
    if isinstance(error, OSError) and error.filename is not None:
        error = f"{error.filename}: {error.strerror}"
    print(" ".join(str(error).split()), file=sys.stderr)
    return ExitCode.BAD_INPUT
