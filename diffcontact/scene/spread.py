"""Many runs of one experiment: single fits, mean and spread.

A scene says `spread = true` of a parameter. Runs that share no free parameter are fitted one by one, so that hundreds
take minutes; where they share one, all are fitted together. See `identify.spread`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.messages import one_line
from diffcontact.host.progress import stage
from diffcontact.identify import FitResult, Spread, spread
from diffcontact.identify.spread import Value
from diffcontact.identify.verdict.between_runs import one_recording_twice
from diffcontact.identify.verdict.reasons import NO, YES
from diffcontact.report import Numbers, Report
from diffcontact.report.content import INTERVAL, estimates_of, short
from diffcontact.scene.parameters import Parameter
from diffcontact.scene.study import Study

# So many recordings are compared in pairs within seconds.
_COMPARED = 60


class RunFit(NamedTuple):
    """A run, and its place in a fit or the reason without one."""

    label: str
    result: FitResult | None
    place: int = 0
    failed: str = ""


def fit_each(study: Study) -> list[RunFit]:
    """Fit every run alone, or all that share a free parameter.

    A run that cannot be fitted, or whose fit does not converge, says so and holds up no other.
    """
    labels = short([run.label for run in study.runs])
    free = [parameter for parameter in study.scene.parameters.values() if parameter.domain is not None]
    if not all(parameter.per_run for parameter in free):
        joint = study.as_written().fit()
        return [RunFit(label, joint, i) for i, label in enumerate(labels)]
    found = []
    with stage("runs", total=len(labels)) as at_run:
        for i, label in enumerate(labels):
            at_run(i)
            try:
                result = study.alone(i).as_written().fit()
                failed = "" if result.converged else one_line(result.message)
            except ValueError as error:
                result, failed = None, one_line(str(error))
            found.append(RunFit(label, None if failed else result, 0, failed))
    fitted = [run for run in found if run.result is not None]
    if len(fitted) <= _COMPARED and (same := one_recording_twice([run.result for run in fitted if run.result])):
        first, second = (fitted[i].label for i in same)
        raise ValueError(
            f"{second} is of the same recording as {first}, whole or in part: expected every recording once"
        )
    return found


def read_conditions(path: Path, labels: Sequence[str]) -> dict[str, NDArray]:
    """Read conditions (n,) of the runs from a CSV, by name; `run` is a file, with or without its ending."""
    with path.open(newline="", encoding="utf-8-sig") as file:
        table = csv.DictReader(file)
        names = [name for name in table.fieldnames or () if name != "run"]
        if "run" not in (table.fieldnames or ()) or not names:
            raise ValueError(f"{path}: columns {', '.join(table.fieldnames or ())}, expected run and a condition")
        rows: dict[str, dict[str, float]] = {}
        for number, row in enumerate(table, 2):
            try:
                rows[Path(row["run"] or "").stem] = {name: float(row[name] or "") for name in names}
            except (TypeError, ValueError):
                told = {name: row[name] for name in names}
                raise ValueError(f"{path}: line {number}: {told}, expected a number for each condition") from None
    for label in labels:
        if Path(label).stem not in rows:
            raise ValueError(f"{path}: no row for the run {label!r}, expected one; there is {', '.join(rows)}")
    return {name: np.array([rows[Path(label).stem][name] for label in labels]) for name in names}


class Together(NamedTuple):
    """One element in all runs, in the scene's unit, and its spread."""

    name: str
    parameter: Parameter
    rows: list[dict[str, Any]]
    found: Spread


def together(study: Study, fits: Sequence[RunFit], conditions: Mapping[str, NDArray]) -> list[Together]:
    """Find mean and spread of every element that differs by chance."""
    found = []
    for name in study.spread:
        parameter, shape = study.scene.parameters[name], study.start[name].shape[1:]
        for index in np.ndindex(shape):
            rows, used = [], []
            for number, run in enumerate(fits):
                if run.result is None:
                    continue
                place = (run.place, *index)
                value, error = (np.asarray(part[name], float)[place] for part in (run.result.params, run.result.stderr))
                if not (np.isfinite(error) and error > 0):
                    continue
                low, high = np.asarray(run.result.interval95[name], float)[place]
                rows.append(
                    {
                        "run": run.label,
                        "name": name,
                        "value": value / parameter.factor,
                        "stderr": error / parameter.factor,
                        "interval95": [low / parameter.factor, high / parameter.factor],
                        "unit": parameter.unit,
                        "explains": run.result.verdict.explains,
                    }
                )
                used.append(number)
            of_runs = {key: np.asarray(values)[used] for key, values in conditions.items()}
            try:
                both = spread([row["value"] for row in rows], [row["stderr"] for row in rows], of_runs)
            except ValueError as error:
                raise ValueError(f"{study.scene.file}: parameters.{name}.spread: {error}") from None
            found.append(Together(name + "".join(f"[{i}]" for i in index), parameter, rows, both))
    return found


def doubts(fits: Sequence[RunFit]) -> list[str]:
    """What to know of the runs before their mean is used."""
    told = []
    if left := [f"{run.label} ({run.failed})" for run in fits if run.failed]:
        told.append(f"left out, since no fit was found: {'; '.join(left)}")
    wrong = [run.label for run in fits if run.result is not None and run.result.verdict.explains == NO]
    if wrong:
        told.append(
            f"the model does not explain {len(wrong)} of {len(fits)} runs ({', '.join(wrong[:8])}"
            f"{', ...' if len(wrong) > 8 else ''}): the spread holds what that does to them, the mean may be off by it"
        )
    return told


def rows_of(one: Together) -> list[dict[str, Any]]:
    """Mean, spread and slopes of an element, as rows of a table."""
    found, (low, high) = one.found, one.found.spread_interval95
    # The interval of a spread is none of a normal number; half its length is as good as two of these.
    rows = [
        (f"{one.name}, mean", found.mean),
        (f"{one.name}, spread", Value(found.spread, (high - low) / 4, (low, high))),
    ]
    rows += [(f"{one.name} per {condition}", slope) for condition, slope in found.slopes.items()]
    unit = {"unit": one.parameter.unit, "note": ""}
    return [
        {"name": name, "value": known.value, "stderr": known.stderr, "interval95": list(known.interval95), **unit}
        for name, known in rows
    ]


def spread_document(study: Study, fits: Sequence[RunFit], all_of: Sequence[Together]) -> dict[str, Any]:
    """What goes into result.json, in the units of the scene."""
    return {
        "converged": all(run.result is not None for run in fits),
        "parameters": {row.pop("name"): row for one in all_of for row in rows_of(one)},
        "each": {one.name: one.rows for one in all_of},
        "doubts": doubts(fits),
        **study.provenance(),
        "runs": [run.label for run in fits],
    }


def spread_report(study: Study, fits: Sequence[RunFit], all_of: Sequence[Together]) -> Report:
    """Build the page of mean, spread and every run."""
    rows = [(row, one.name, "") for one in all_of for row in rows_of(one)]
    wrong = {NO: "the model does not explain this run"}
    rows += [
        (row | {"note": wrong.get(row["explains"], "")}, one.name, row["run"]) for one in all_of for row in one.rows
    ]
    shown = estimates_of([row for row, _, _ in rows])
    estimates = [
        replace(one, parameter=parameter, run=run) for one, (_, parameter, run) in zip(shown, rows, strict=True)
    ]
    told = doubts(fits)
    numbers = Numbers(
        explains="partly" if told else YES,
        headline=f"was fitted to {len(fits)} runs, one by one",
        reasons=told,
        converged=True,
        message="",
        scope=INTERVAL,
        estimates=estimates,
        correlation=np.eye(0),
        correlated=(),
    )
    method = {
        "Mean and spread": "restricted maximum likelihood over the runs; intervals of the mean by Knapp and Hartung, "
        "of the spread by Q profiles. See diffcontact.identify.spread.",
        "Model": f"{study.scene.kind}: {study.scene.ready.law}",
        "Preparation": study.scene.preparation.description,
    }
    return Report(study.scene.title, (), study.scene.ready.time, (), numbers, method)
