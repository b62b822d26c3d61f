"""Sister runs: what `fit` found of other recordings by a scene of the same kind, in its result.json."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from diffcontact.identify import FitResult
from diffcontact.identify.intervals.recordings import one_recording_twice
from diffcontact.identify.intervals.sisters import require_single_runs
from diffcontact.scene.study import Study


class Sisters(NamedTuple):
    """Results of sister runs, and what each is called."""

    results: Sequence[FitResult]
    labels: Sequence[str]


NONE = Sisters((), ())


def read_sisters(paths: Sequence[Path], study: Study) -> Sisters:
    """The results of sister runs, none of them of this run or there twice.

    A recording that counted as two runs would seem to show how well runs agree. A parameter of another system, under
    another law or in other units, is another quantity, whatever it is called. Results that `FitResult.save` wrote tell
    none of it.

    Raises:
        OSError: a file that cannot be read.
        ValueError: a file that holds no result; too few runs, or several in one; a recording that is there already; a
            fit of another system, under another law, of other parameters, or one that did not converge.
    """
    if not paths:
        return NONE
    sisters = [FitResult.load(path) for path in paths]
    require_single_runs([len(study.runs), *(len(sister.residuals) for sister in sisters)])
    known = [("the run that is fitted", {run.sha256 for run in study.runs}, study.scene.reading.window)]
    names = study.common(study.free_names())
    for path, sister in zip(paths, sisters, strict=True):
        document = json.loads(path.read_text(encoding="utf-8"))
        system = document.get("system", study.scene.system)
        if system != study.scene.system:
            raise ValueError(f"{path}: is a fit of {system}, expected one of {study.scene.system}, as the scene is")
        _require_alike(path, sister, document, names, study)
        digests, window = set(document.get("data_sha256", {}).values()), document.get("window")
        for other, has, at in known:
            if digests & has and _overlap(window, at):
                raise ValueError(f"{path}: is of the same recording as {other}, expected every run once")
        known.append((str(path), digests, window))
    if same := one_recording_twice(sisters):
        raise ValueError(
            f"{paths[same[1]]}: is of the same recording as {paths[same[0]]}, whole or in part, expected every run once"
        )
    return Sisters(sisters, [str(path) for path in paths])


def _require_alike(path: Path, sister: FitResult, document: Mapping[str, Any], names: Sequence[str], study: Study):
    """Refuse a fit whose parameters are no other estimates of those of the scene, names (P,)."""
    scene = study.scene
    if (law := document.get("law", scene.ready.law)) != scene.ready.law:
        raise ValueError(f"{path}: is a fit under the law {law}; expected {scene.ready.law}, as the scene has it")
    if not sister.converged:
        raise ValueError(f"{path}: the fit did not converge, {sister.message}; expected one with an estimate")
    for name in names:
        if name not in sister.names:
            raise ValueError(
                f"{path}: is a fit of {', '.join(sister.names)}, expected {name} among them, which the scene fits; "
                "what a run has to itself wants per_run = true in the scene"
            )
        quantity = name.partition("[")[0]
        own = scene.ready.quantities[quantity].unit
        if (unit := document.get("quantities", {}).get(quantity, own)) != own:
            raise ValueError(f"{path}: {quantity} is in {unit}, expected {own}, as the scene's system has it")


def _overlap(one: Sequence[float] | None, other: Sequence[float] | None) -> bool:
    """Whether two windows of one record have a time in common; None is all of it."""
    return one is None or other is None or (one[0] < other[1] and other[0] < one[1])
