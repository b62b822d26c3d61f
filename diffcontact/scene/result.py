"""What was found in a study, in the units of its scene: for result.json and for the report."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from diffcontact.host.versions import versions
from diffcontact.identify import FitResult
from diffcontact.identify.reporting import Labels, fit_report
from diffcontact.report import Channel, Report
from diffcontact.scene.parameters import Parameter
from diffcontact.scene.study import Study, without_unit


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
        "system": study.scene.system,
        "law": study.scene.ready.law,
        "quantities": {name: study.scene.ready.quantities[name].unit for name in study.scene.parameters},
        "window": study.scene.reading.window,
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
    lengths, sign = (
        len(scene.preparation.channels) - scene.preparation.angles,
        -1.0 if scene.preparation.reversed else 1.0,
    )
    channels = [
        Channel(without_unit(name), scene.length, sign / scene.length_factor, scene.preparation.down)
        if number < lengths
        else Channel(without_unit(name), "deg", 180.0 / np.pi)
        for number, name in enumerate(scene.preparation.channels)
    ]
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
    return fit_report(result, result.verdict, labels)


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
