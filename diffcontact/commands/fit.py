"""`python -m diffcontact fit`: fit a study and write its files."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diffcontact.commands.options import add_scene, path
from diffcontact.commands.outcome import (
    ExitCode,
    about,
    as_json,
    complain,
    is_result,
    require_own,
    results_folder,
    written_all_the_same,
)
from diffcontact.host.files import require_writable
from diffcontact.host.messages import say
from diffcontact.identify import FitResult, LawComparison, compare_laws
from diffcontact.identify.annotations import annotated_report
from diffcontact.identify.reporting import Labels
from diffcontact.identify.verdict.reasons import NO, Words
from diffcontact.report import Channel, Report, is_page, page
from diffcontact.report.content import INTERVAL, short, text_table
from diffcontact.scene.parameters import Parameter
from diffcontact.scene.spread import (
    doubts,
    fit_each,
    read_conditions,
    rows_of,
    spread_document,
    spread_report,
    together,
)
from diffcontact.scene.study import Study, read_study, without_unit
from diffcontact.systems.laws import LAWS

HELP = "fit the parameters of a scene to measured runs"
EXAMPLE = "fit out/demo/carts.toml --data RUN1.csv RUN2.csv --out out/mine"
# A fit of so many rows takes a minute.
_LONG = 50_000
# A table of more rows is not printed.
_ROWS = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE [--data FILE ...] [--out DIR] [--strict] [--laws] [--as-written] [--conditions CSV]"""
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
        "--as-written",
        action="store_true",
        help="set no term free that the scene holds, whatever the residuals say; as [fit] terms = 'as written'",
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
    study = study.as_written() if options.as_written else study
    folder = results_folder(options.out, study.scene)
    if study.spread:
        return _spread(study, folder, options.conditions)
    if options.conditions is not None:
        raise ValueError(f"{study.scene.file}: parameters: --conditions goes with a parameter that has spread = true")
    return fit_and_report(study, folder, options.strict, options.laws)


def _spread(study: Study, folder: Path, conditions: Path | None) -> ExitCode:
    """Fit every run, print mean and spread, write both files."""
    labels = short([run.label for run in study.runs])
    known = {} if conditions is None else read_conditions(conditions, labels)
    _require_own(folder)
    say(f"{study.scene.title}: {len(labels)} runs, {study.samples} samples, one by one")
    with about(study.scene.file):
        fits = fit_each(study)
        found = together(study, fits, known)
    document = spread_document(study, fits, found)
    pages = {"result.json": lambda: as_json(document), "report.html": lambda: page(spread_report(study, fits, found))}
    with written_all_the_same(folder, pages):
        rows = [row for one in found for row in rows_of(one)]
        say("", *text_table(rows, INTERVAL, "").splitlines(), "", *(f"- {told}" for told in doubts(fits)))
    return ExitCode.DONE if document["converged"] else ExitCode.NOT_CONVERGED


def fit_and_report(study: Study, folder: Path, strict: bool = False, laws: bool = False) -> ExitCode:
    """Fit, print verdict and table, write `result.json` and `report.html` into the folder.

    BAD_INPUT, with one line on stderr, where the data cannot see a free parameter; the files name it.
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
        study, result = study.selected()
        compared = compare_laws(result) if laws and result.converged else None
    document = result_document(study, result)
    if laws:
        document["laws"] = None if compared is None else {**compared.to_dict(), "unit_of_speed": study.unit_of_speed}
    texts = {
        "result.json": lambda: as_json(document),
        "report.html": lambda: page(result_report(study, result, document, compared)),
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
    """Rows with the names of runs; of many, those that runs share."""
    words = Words(runs=short([run.label for run in study.runs]), own=study.per_run)
    rows = [{**row, "name": words.told(row["name"])} for row in rows]
    shared = [row for row in rows if row["name"].partition("[")[0] not in study.per_run]
    if len(rows) <= _ROWS or not shared:
        return rows
    say(f"{len(rows) - len(shared)} estimates of single runs are in result.json and in the report")
    return shared


def _require_own(folder: Path) -> None:
    require_writable(folder)
    require_own(folder / "result.json", is_result, "--out DIR")
    require_own(folder / "report.html", is_page, "--out DIR")


def _much(study: Study) -> str:
    """Warn of records whose fit takes minutes and gigabytes."""
    longest = max(run.times.size for run in study.runs)
    if longest <= _LONG:
        return ""
    every = -(-longest // _LONG) * study.scene.reading.every
    return (
        f"; {longest} rows are many, and each is simulated with its derivatives: data.every = {every} in the scene "
        f"uses one row in {every}"
    )


def result_document(study: Study, result: FitResult) -> dict[str, Any]:
    """The content of result.json, in the scene's units."""
    document = result.to_dict()
    for name, entry in document["parameters"].items():
        parameter = study.scene.parameters[name.partition("[")[0]]
        for key in ("value", "stderr", "stderr_plain"):
            entry[key] = _in_unit(entry[key], parameter)
        entry["interval95"] = [_in_unit(bound, parameter) for bound in entry["interval95"]]
        entry["unit"] = parameter.unit
    quantities = {name: study.scene.ready.quantities[name].unit for name in study.scene.parameters}
    return document | study.provenance() | {"quantities": quantities, "window": study.scene.reading.window}


def estimates(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parameters of a result document as rows of a table."""
    return [{"name": name, **entry} for name, entry in document["parameters"].items()]


def result_report(
    study: Study, result: FitResult, document: Mapping[str, Any], compared: LawComparison | None = None
) -> Report:
    """The content of report.html, for a fit with trajectories."""
    scene = study.scene
    prepare, sign = scene.preparation, -1.0 if scene.preparation.reversed else 1.0
    names = list(map(without_unit, prepare.channels))
    lengths = len(names) - prepare.angles
    channels = [Channel(name, scene.length, sign / scene.length_factor, prepare.down) for name in names[:lengths]]
    channels += [Channel(name, "deg", 180.0 / np.pi) for name in names[lengths:]]
    labels = Labels(
        title=scene.title,
        channels=channels,
        time=scene.ready.time,
        runs=[run.label for run in study.runs],
        draws=[run.draw for run in study.runs],
        notes=[run.notes for run in study.runs],
        rows=estimates(document),
        method=_method(study, result, document),
    )
    fits, law = {}, next((law.name for law in LAWS.values() if law.coefficients and law.formula in scene.ready.law), "")
    if compared is not None:
        # The first is the one whose impacts are shown: the law that the data support.
        fits = {name: compared.results[name] for name in (compared.best, *compared.results)}
    elif law:
        fits = {law: result}
    laws = {name: fit.evidence for name, fit in fits.items() if fit.converged and fit.objective is not None}
    evidence = result.evidence if result.converged and result.objective is not None else None
    return annotated_report(result, result.verdict, evidence, labels, laws=laws or None, unit=study.unit_of_speed)


def _method(study: Study, result: FitResult, document: Mapping[str, Any]) -> dict[str, str]:
    scene = study.scene
    fixed = ", ".join(
        f"{name} = {_written(study.start[name], parameter)}"
        for name, parameter in scene.parameters.items()
        if parameter.domain is None or parameter.held
    )
    tied = ", ".join(f"{tie.name}[{tie.at}] = {tie.factor:g} {tie.source}[{tie.of}]" for tie in scene.ties)
    measured = scene.ready.time if scene.preparation.hears else scene.ready.length
    known = ", ".join(
        f"{name} = {_written(parameter.prior.mean, parameter, parameter.prior.sigma)}"
        for name, parameter in scene.parameters.items()
        if parameter.prior is not None
    )
    options = "".join(f", {name} {value}" for name, value in scene.fit.items())
    return {
        "Model": f"{scene.kind}: {scene.ready.law} inside a step (EventTimed), derivatives of the whole simulation "
        "exact; see diffcontact.systems.",
        "Preparation": scene.preparation.description,
        "Fixed": fixed or "nothing",
        **({"Tied": tied} if tied else {}),
        "Known besides the data": known or "nothing",
        "Every run its own": ", ".join(study.per_run) or "nothing",
        "Optimiser": f"bounded least squares (trust-region Levenberg-Marquardt{options}), {result.iterations} "
        f"Jacobians, with a noise of {scene.noise:g} {measured}",
        "Versions": ", ".join(f"{name} {version}" for name, version in document["versions"].items()),
        "Data (SHA-256)": "; ".join(f"{path} {digest}" for path, digest in document["data_sha256"].items()),
    }


def _in_unit(value: float | None, parameter: Parameter) -> float | None:
    return None if value is None else value / parameter.factor


def _written(value: Any, parameter: Parameter, sigma: Any = None) -> str:
    """In the scene's unit, numbers that are all alike once."""

    def listed(given):
        numbers = [f"{number:g}" for number in np.ravel(given) / parameter.factor]
        return numbers[0] if len(set(numbers)) == 1 else ", ".join(numbers)

    spread = "" if sigma is None else f" +- {listed(sigma)}"
    return f"{listed(value)}{spread}{'' if parameter.unit == '1' else ' ' + parameter.unit}"
