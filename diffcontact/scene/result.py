"""What was found in a study, in the units of its scene: for result.json and for the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from diffcontact.identify import FitResult
from diffcontact.report import FittedRun, Report
from diffcontact.scene.document import Parameter
from diffcontact.scene.study import Study
from diffcontact.scene.units import factor
from diffcontact.versions import versions


def result_document(study: Study, result: FitResult) -> dict[str, Any]:
    """What goes into result.json: `FitResult.to_dict` in the scene's units, with versions and hashes of the data."""
    document = result.to_dict()
    for name, entry in document["parameters"].items():
        parameter = study.scene.parameters[name.partition("[")[0]]
        for key in ("value", "stderr", "stderr_plain"):
            entry[key] = _in_unit(entry[key], parameter)
        entry["interval95"] = [_in_unit(bound, parameter) for bound in entry["interval95"]]
        entry["unit"] = parameter.unit
    return document | {
        "scene": study.scene.file,
        "runs": [run.label for run in study.runs],
        "versions": versions(),
        "data_sha256": {run.path: run.sha256 for run in study.runs},
    }


def estimates(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The parameters of a result document as rows of a table."""
    return [{"name": name, **entry} for name, entry in document["parameters"].items()]


def result_report(study: Study, result: FitResult, document: Mapping[str, Any]) -> Report:
    """What goes into report.html.

    Args:
        study: what was fitted.
        result: what came out, with trajectories.
        document: of `result_document`.
    """
    scene = study.scene
    return Report(
        title=scene.title,
        converged=result.converged,
        message=result.message,
        estimates=estimates(document),
        channels=scene.preparation.channels,
        length=scene.length,
        scale=1.0 / factor(scene.length, scene.ready.length),
        time=scene.ready.time,
        runs=[
            FittedRun(
                run.label, run.notes, run.times, run.values, np.asarray(scene.ready.observe(motion, result.params))
            )
            for run, motion in zip(study.runs, result.trajectories, strict=True)
        ],
        method=_method(study, result, document),
    )


def _method(study: Study, result: FitResult, document: Mapping[str, Any]) -> dict[str, str]:
    scene = study.scene
    fixed = ", ".join(
        f"{name} = {np.asarray(study.start[name]).tolist()} (SI)"
        for name, parameter in scene.parameters.items()
        if parameter.domain is None
    )
    known = ", ".join(
        f"{name} = {parameter.prior.mean:g} +- {parameter.prior.sigma:g} (SI)"
        for name, parameter in scene.parameters.items()
        if parameter.prior is not None
    )
    options = "".join(f", {name} {value}" for name, value in scene.fit.items())
    return {
        "Model": f"{scene.kind}: {scene.ready.law} inside a step (EventTimed), derivatives of the whole simulation "
        "exact; see diffcontact.systems.",
        "Preparation": scene.preparation.description,
        "Fixed": fixed or "nothing",
        "Known besides the data": known or "nothing",
        "Every run its own": ", ".join(study.per_run) or "nothing",
        "Fit": f"bounded least squares (trust-region Levenberg-Marquardt{options}), {result.iterations} Jacobians, "
        f"cost {result.cost:.6g} with a noise of {scene.noise:g} {scene.ready.length}, {result.dof} "
        "degrees of freedom.",
        "Error bars": result.error_bars,
        "Versions": ", ".join(f"{name} {version}" for name, version in document["versions"].items()),
        "Data (SHA-256)": "; ".join(f"{path} {digest}" for path, digest in document["data_sha256"].items()),
    }


def _in_unit(value: float | None, parameter: Parameter) -> float | None:
    return None if value is None else value / parameter.factor
