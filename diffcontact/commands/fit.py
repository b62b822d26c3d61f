"""`python -m diffcontact fit`: a study from its fit to its files; the demo ends with it too."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from diffcontact.commands.complaint import ExitCode, about, complain
from diffcontact.commands.options import add_scene, path
from diffcontact.commands.output import is_result, require_own, results_folder, written_all_the_same
from diffcontact.host.files import require_writable
from diffcontact.host.messages import say
from diffcontact.identify import compare_laws
from diffcontact.identify.table import INTERVAL, text_table
from diffcontact.identify.verdict.texts import Words
from diffcontact.identify.verdict.verdict import NO
from diffcontact.report import is_page, page
from diffcontact.report.content import short
from diffcontact.scene.result import estimates, result_document, result_report
from diffcontact.scene.spread import (
    doubts,
    fit_each,
    read_conditions,
    rows_of,
    spread_document,
    spread_report,
    together,
)
from diffcontact.scene.study import Study, read_study

HELP = "fit the parameters of a scene to measured runs"
EXAMPLE = "fit out/demo/carts.toml --data RUN1.csv RUN2.csv --out out/mine"
# A fit of so many rows takes a minute.
_LONG = 50_000
# A table of more rows is not printed.
_ROWS = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE [--data FILE ...] [--out DIR] [--strict] [--laws] [--conditions CSV]"""
    add_scene(parser)
    parser.add_argument(
        "--out", type=path, metavar="DIR", help="folder for result.json and report.html; default: as the scene says"
    )
    parser.add_argument(
        "--strict", action="store_true", help="exit with 3 also where the model does not explain the data"
    )
    parser.add_argument(
        "--laws", action="store_true", help="fit it under other laws of impact, too, and say which the data support"
    )
    parser.add_argument(
        "--conditions",
        type=path,
        metavar="CSV",
        help="what was different from run to run, a row for each: on what a parameter with spread = true depends",
    )


def run(options: argparse.Namespace) -> ExitCode:
    """Fit the scene's parameters to its runs."""
    study = read_study(options.scene, options.data)
    folder = results_folder(options.out, study.scene)
    if study.spread:
        return _spread(study, folder, options.conditions)
    if options.conditions is not None:
        raise ValueError(f"{study.scene.file}: parameters: --conditions goes with a parameter that has spread = true")
    return fit_and_report(study, folder, options.strict, options.laws)


def _spread(study: Study, folder: Path, conditions: Path | None) -> ExitCode:
    """Fit every run, print mean and spread, write `result.json` and `report.html` into the folder."""
    labels = short([run.label for run in study.runs])
    known = {} if conditions is None else read_conditions(conditions, labels)
    _require_own(folder)
    say(f"{study.scene.title}: {len(labels)} runs, {study.samples} samples, one by one")
    with about(study.scene.file):
        fits = fit_each(study)
        found = together(study, fits, known)
    document = spread_document(study, fits, found)
    texts = {
        "result.json": lambda: json.dumps(document, indent=2, allow_nan=False) + "\n",
        "report.html": lambda: page(spread_report(study, fits, found)),
    }
    with written_all_the_same(folder, texts):
        rows = [row for one in found for row in rows_of(one)]
        say("", *text_table(rows, INTERVAL, "").splitlines(), "", *(f"- {told}" for told in doubts(fits)))
    return ExitCode.DONE if document["converged"] else ExitCode.NOT_CONVERGED


def fit_and_report(study: Study, folder: Path, strict: bool = False, laws: bool = False) -> ExitCode:
    """Fit, print verdict and table, write `result.json` and `report.html` into the folder.

    Args:
        study: scene and runs.
        folder: made if need be.
        strict: whether a model that does not explain the data counts as not converged.
        laws: whether laws of impact are compared; see `identify.compare_laws`.

    Returns:
        BAD_INPUT, with one line on stderr, where the data cannot see a free parameter (the files are written all the
        same and name it); otherwise DONE or NOT_CONVERGED.

    Raises:
        ValueError: starting values that cannot be simulated.
        OSError: the folder cannot be written, or has files of these names that are no results.
    """
    _require_own(folder)
    runs = f"{len(study.runs)} run{'s' if len(study.runs) > 1 else ''}"
    say(f"{study.scene.title}: {runs}, {study.samples} samples{_much(study)}")
    for file, understood in {run.path: run.notes.get("recording", "") for run in study.runs}.items():
        if understood:
            say(f"{file}: {understood}")
    for run in study.runs:
        if "left out" in run.notes:
            say(f"{run.label}: left out: {run.notes['left out']}")
    with about(study.scene.file):
        result = study.fit()
        compared = compare_laws(result) if laws and result.converged else None
    document = result_document(study, result)
    if laws:
        document["laws"] = None if compared is None else {**compared.to_dict(), "unit_of_speed": study.unit_of_speed}
    texts = {
        "result.json": lambda: json.dumps(document, indent=2, allow_nan=False) + "\n",
        "report.html": lambda: page(result_report(study, result, document)),
    }
    with written_all_the_same(folder, texts):
        rows = estimates(document)
        table = text_table(_few(rows, study), result.scope, result.verdict.taken)
        say("", *str(result.verdict).splitlines(), "", *table.splitlines(), "")
        say(f"cost {result.cost:.6g}, {result.dof} degrees of freedom; {result.message}")
        say(f"error bars {result.error_bars}")
        if compared is not None:
            say("", *str(compared).splitlines(), f"speeds in {study.unit_of_speed}", "")
        elif laws:
            say("laws of impact: nothing to compare, no contact with a constant and free restitution was struck")
    directions = [direction for direction in result.unidentifiable if not set(direction) <= set(result.gripped)]
    if directions:
        unseen = "; ".join(" with ".join(direction) for direction in directions)
        return complain(
            f"{study.scene.file}: parameters: the data cannot see {unseen}, expected runs that show it or free = false "
            "(of single elements: free = [true, false])"
        )
    good = result.converged and not (strict and result.verdict.explains == NO)
    return ExitCode.DONE if good else ExitCode.NOT_CONVERGED


def _few(rows: list[dict], study: Study) -> list[dict]:
    """The rows of a table by the names of the runs, of very many those that runs share; the others are in the files."""
    words = Words(runs=short([run.label for run in study.runs]), own=study.per_run)
    rows = [{**row, "name": words.told(row["name"])} for row in rows]
    shared = [row for row in rows if row["name"].partition("[")[0] not in study.per_run]
    if len(rows) <= _ROWS or not shared:
        return rows
    say(f"{len(rows) - len(shared)} estimates of single runs are in result.json and in the report")
    return shared


def _require_own(folder: Path) -> None:
    """Refuse a folder that cannot be written, or has files of these names that are somebody else's."""
    require_writable(folder)
    require_own(folder / "result.json", is_result, "--out DIR")
    require_own(folder / "report.html", is_page, "--out DIR")


def _much(study: Study) -> str:
    """A word on records so long that their fit takes minutes and gigabytes."""
    longest = max(run.times.size for run in study.runs)
    if longest <= _LONG:
        return ""
    every = -(-longest // _LONG) * study.scene.reading.every
    return (
        f"; {longest} rows are many, and each is simulated with its derivatives: data.every = {every} in the scene "
        f"uses one row in {every}"
    )
