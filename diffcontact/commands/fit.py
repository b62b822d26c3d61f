"""`python -m diffcontact fit`: a study from its fit to its files; the demo ends with it too."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from diffcontact.commands.complaint import ExitCode, about, complain
from diffcontact.commands.options import add_scene, path
from diffcontact.files import require_writable, write_atomically
from diffcontact.identify.table import text_table
from diffcontact.progress import FitProgress
from diffcontact.report import page
from diffcontact.scene.result import estimates, result_document, result_report
from diffcontact.scene.study import Study, read_study

HELP = "fit the parameters of a scene to measured runs"
# A fit of so many rows takes a minute.
_LONG = 50_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE [--data FILE ...] [--out DIR]"""
    add_scene(parser)
    parser.add_argument(
        "--out", type=path, metavar="DIR", help="where result.json and report.html go; default: as the scene says"
    )


def run(options: argparse.Namespace) -> ExitCode:
    """Fit the scene's parameters to its runs."""
    study = read_study(options.scene, options.data)
    return fit_and_report(study, options.out or study.scene.folder)


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
    require_writable(folder)
    runs = f"{len(study.runs)} run{'s' if len(study.runs) > 1 else ''}"
    print(f"{study.scene.title}: {runs}, {study.samples} samples{_much(study)}", flush=True)
    with FitProgress() as progress, about(study.scene.file):
        result = study.fit(progress)
    document = result_document(study, result)
    # First the files: a terminal that is closed meanwhile must not cost them.
    texts = {
        "result.json": json.dumps(document, indent=2, allow_nan=False) + "\n",
        "report.html": page(result_report(study, result, document)),
    }
    for name, text in texts.items():
        write_atomically(folder / name, text)
    print(f"\n{text_table(estimates(document))}\n")
    print(f"cost {result.cost:.6g}, {result.dof} degrees of freedom; {result.message}\nerror bars {result.error_bars}")
    for name in texts:
        print(f"wrote {folder / name}")
    if result.unidentifiable:
        unseen = "; ".join(" with ".join(direction) for direction in result.unidentifiable)
        return complain(
            f"{study.scene.file}: parameters: the data cannot see {unseen}, expected runs that show it or free = false"
        )
    return ExitCode.DONE if result.converged else ExitCode.NOT_CONVERGED


def _much(study: Study) -> str:
    """A word on records so long that their fit takes minutes and gigabytes."""
    longest = max(run.times.size for run in study.runs)
    if longest <= _LONG:
        return ""
    every = -(-longest // _LONG) * study.scene.every
    return (
        f"; {longest} rows are many, and each is simulated with its derivatives: data.every = {every} in the scene "
        f"uses one row in {every}"
    )
