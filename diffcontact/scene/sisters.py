"""Sister runs: what `fit` found of other recordings by a scene of the same kind, in its result.json."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from diffcontact.identify import FitResult
from diffcontact.identify.intervals.recordings import one_recording_twice
from diffcontact.identify.intervals.sisters import require_single_runs
from diffcontact.scene.study import Study


def read_sisters(paths: Sequence[Path], study: Study) -> list[FitResult]:
    """The results of sister runs, none of them of this run or there twice.

    A recording that counted as two runs would seem to show how well runs agree. A parameter of another system, or in
    other units, is another quantity, whatever it is called. Results that `FitResult.save` wrote tell neither.

    Raises:
        OSError: a file that cannot be read.
        ValueError: a file that holds no result; too few runs, or several in one; a recording that is there already; a
            fit of another system.
    """
    if not paths:
        return []
    sisters = [FitResult.load(path) for path in paths]
    require_single_runs([len(study.runs), *(len(sister.residuals) for sister in sisters)])
    known = [("the run that is fitted", {run.sha256 for run in study.runs}, study.scene.reading.window)]
    for path in paths:
        document = json.loads(path.read_text(encoding="utf-8"))
        system = document.get("system", study.scene.system)
        if system != study.scene.system:
            raise ValueError(f"{path}: is a fit of {system}, expected one of {study.scene.system}, as the scene is")
        digests, window = set(document.get("data_sha256", {}).values()), document.get("window")
        for other, has, at in known:
            if digests & has and _overlap(window, at):
                raise ValueError(f"{path}: is of the same recording as {other}, expected every run once")
        known.append((str(path), digests, window))
    if same := one_recording_twice(sisters):
        raise ValueError(
            f"{paths[same[1]]}: is of the same recording as {paths[same[0]]}, whole or in part, expected every run once"
        )
    return sisters


def _overlap(one: Sequence[float] | None, other: Sequence[float] | None) -> bool:
    """Whether two windows of one record have a time in common; None is all of it."""
    return one is None or other is None or (one[0] < other[1] and other[0] < one[1])
