"""A scene and its runs as a problem of identification."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from diffcontact import identify
from diffcontact.drawing import Draw
from diffcontact.host.progress import stage
from diffcontact.host.versions import versions
from diffcontact.identify import FitResult, Observations, Problem
from diffcontact.identify.estimate import FreedTerm
from diffcontact.identify.objective import Progress
from diffcontact.identify.observations import Impacts
from diffcontact.identify.parameters import Normal
from diffcontact.identify.verdict.explanations import wanted_term
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.report.content import short
from diffcontact.scene.document import Scene, read_scene
from diffcontact.scene.kinds import Quantity
from diffcontact.scene.measurements import FROM_DATA
from diffcontact.scene.parameters import Parameter, followed, free_elements, possible, tied_start
from diffcontact.scene.preparation import PreparedRun
from diffcontact.scene.units import RANGE
from diffcontact.system import System

# What shorter steps may change: this part of the noise; this much where the noise is one of times.
_PART_OF_NOISE, _TOLERANCE = 0.1, 1e-6
# What reasons say of arguments of `fit`, and what a scene says.
PHRASES = (
    (
        r"State the noise as it is, or noise='estimated'",
        'State the noise as it is ([data] noise), or [fit] noise = "rough"',
    ),
    (r"loss='(\w+)'", r'[fit] loss = "\1"'),
    (r"an f_scale of", "[fit] f_scale of"),
    (r"to flag those samples as missing", "to leave those samples empty in the file"),
    (r"a noise for every sample, `noise` of shape \(n, k\),", "another [data] noise or a [data] window"),
    (r"a shorter window", "a shorter [data] window"),
    (r"starts=(\d+)", r"[fit] starts = \1"),
    (r"(?i)(more starts)(?! \()", r"\1 ([fit] starts = 20)"),
    (r"a law of the speed, restitution\(params, speed\)", '[system] restitution = "power", or fit with --laws'),
    (r"\(e that depends on speed, or one per contact\)", '([system] restitution = "power", or fit with --laws)'),
    (r"Use identify.profile", "From Python, identify.profile gives them"),
    (r"Hold it, or tie it", "Hold it (free = false), or tie it ([ties])"),
    (r"set it free", "set it free (free = true)"),
)


@dataclass(frozen=True, eq=False)
class Study:
    """A scene with its runs."""

    scene: Scene  # what is to be found
    runs: tuple[PreparedRun, ...]  # in the order of the files
    # start: parameters by name [SI]; those of each run on its own have a leading axis that counts the runs
    start: Mapping[str, NDArray]
    # given: what the system takes from the measurements as it is, by name, with a leading axis that counts the runs
    given: Mapping[str, NDArray]
    longest: int = 0  # samples of the longest of all runs that share a compilation

    @property
    def per_run(self) -> tuple[str, ...]:
        """Names of the parameters that every run keeps to itself."""
        return tuple(name for name, parameter in self.scene.parameters.items() if parameter.per_run)

    @property
    def spread(self) -> tuple[str, ...]:
        """Names of the parameters in which runs differ by chance."""
        return tuple(name for name, parameter in self.scene.parameters.items() if parameter.spread)

    def alone(self, i: int) -> Study:
        """Run i as a study of its own."""
        own = {name: value[i : i + 1] if name in self.per_run else value for name, value in self.start.items()}
        given = {name: value[i : i + 1] for name, value in self.given.items()}
        longest = max(run.times.size for run in self.runs)
        return replace(self, runs=self.runs[i : i + 1], start=own, given=given, longest=longest)

    @property
    def unit_of_speed(self) -> str:
        """In which the system's speeds are."""
        ready = self.scene.ready
        return ready.length if "/" in ready.length else f"{ready.length}/{ready.time}"

    def params(self, i: int) -> dict[str, NDArray]:
        """Parameters of the system's functions in run i, at the start."""
        start = {name: value[i] if name in self.per_run else value for name, value in self.start.items()}
        return start | {name: value[i] for name, value in self.given.items()}

    def provenance(self) -> dict[str, Any]:
        """What was fitted, for result.json: scene, system, runs, versions and hashes."""
        return {
            "scene": self.scene.file,
            "system": self.scene.system,
            "law": self.scene.ready.law,
            "runs": [run.label for run in self.runs],
            "versions": versions(),
            "data_sha256": {run.path: run.sha256 for run in self.runs},
        }

    @property
    def samples(self) -> int:
        """How many numbers were measured."""
        return sum(int(np.isfinite(run.values).sum()) if run.impacts is None else run.impacts.size for run in self.runs)

    def task(self) -> Task:
        """What `diffcontact.fit` is asked."""
        scene = self.scene
        elements = free_elements(self.start, scene.parameters, scene.ties)
        if not elements.free:
            raise ValueError(f"{scene.file}: parameters: none is free, expected at least one")
        names = tuple(map(without_unit, scene.preparation.channels))

        def seen(run: PreparedRun) -> Observations:
            if run.impacts is None:
                return Observations(run.times, run.values, scene.noises, scene.ready.observe, channels=names)
            # The noise is that of the times; no height is measured that could have one.
            return Observations(run.times, run.values, 1.0, scene.ready.observe, Impacts(run.impacts, scene.noise))

        problems = [
            Problem(
                scene.ready.system,
                seen(run),
                scene.ready.initial,
                substeps=scene.substeps,
                per_run=(*elements.per_run, *self.given),
                longest=self.longest,
            )
            for run in self.runs
        ]
        known = {**self._left_out, **elements.params, **self.given}
        return Task(problems, known, elements.free, {"priors": elements.priors, "tied": elements.tied})

    def fit(self, progress: Progress | None = None) -> FitResult:
        """Find the free parameters; see `diffcontact.fit`. Terms are set free as `selected` has it."""
        return self.selected(progress)[1]

    def selected(self, progress: Progress | None = None) -> tuple[Study, FitResult]:
        """Fit the model that the residuals ask for; return study and fit.

        A held term that the residuals certainly ask for is set free with a prior, and the fit goes on. Rao's score test
        decides, with one false alarm in a thousand fits (`verdict.explanations`). A term whose fit does not lower
        Schwarz's criterion stays as it was. `[fit] terms = "as written"` sets none free. `FitResult.freed` and the
        verdict name those that are.
        """
        study, freed = self, ()
        result = study._as_written(progress)
        while study.scene.selects and result.converged and (wanted := wanted_term(result.evidence, study._held)):
            there, term = wanted
            more = study._with_free(result, there.value, term)
            again = more._as_written(progress)
            if not again.converged or identify.compare(again, result).bic >= 0:
                break
            study, freed = more, (*freed, term)
            result = replace(again, freed=freed)
        units = {name: (known.unit, known.factor) for name, known in study.scene.parameters.items()}
        with stage("verdict"):
            return study, result.judged(units, short([run.label for run in self.runs]), PHRASES)

    def as_written(self) -> Study:
        """This study, in which no held term is set free."""
        return replace(self, scene=replace(self.scene, selects=False))

    def _as_written(self, progress: Progress | None) -> FitResult:
        task = self.task()
        return identify.fit(task.problems, task.params, task.free, **task.known, progress=progress, **self.scene.fit)

    @property
    def _terms(self) -> dict[str, Quantity]:
        return {name: quantity for name, quantity in self.scene.ready.quantities.items() if quantity.term}

    @property
    def _left_out(self) -> dict[str, NDArray]:
        return {name: np.zeros(one.shape) for name, one in self._terms.items() if name not in self.scene.parameters}

    @property
    def _held(self) -> dict[str, tuple[float, float]]:
        """Held terms that may be set free, with their possible ranges."""
        parameters, tied = self.scene.parameters, {tie.name for tie in self.scene.ties}
        held = {
            name: quantity
            for name, quantity in self._terms.items()
            if (name not in parameters or parameters[name].domain is None) and name not in tied
        }
        return {
            name + "".join(f"[{i}]" for i in place): (quantity.low, quantity.high)
            for name, quantity in held.items()
            for place in np.ndindex(quantity.shape)
        }

    def _with_free(self, result: FitResult, value: float, term: FreedTerm) -> Study:
        """This study at an estimate, with one more term free."""
        name, _, place = term.name.rstrip("]").partition("[")
        quantity = self.scene.ready.quantities[name]
        at = int(np.ravel_multi_index([int(i) for i in place.split("][")], quantity.shape)) if place else 0
        written = self.scene.parameters.get(name)
        known = written or Parameter(
            name, f"{self.scene.file}: parameters.{name}", quantity.unit, 1.0, None, None, None, False
        )
        size = int(np.prod(quantity.shape, dtype=int))
        parameter = replace(
            known,
            domain=possible(quantity),
            prior=Normal(term.held, term.sigma),
            held=tuple(i for i in range(size) if i != at),
        )
        start = {name: np.asarray(result.params[name], float).reshape(old.shape) for name, old in self.start.items()}
        start[name] = np.array(self.start.get(name, self._left_out.get(name)))
        start[name].reshape(-1, size)[:, at] = value
        scene = replace(self.scene, parameters={**self.scene.parameters, name: parameter})
        return replace(self, scene=scene, start=start)


def without_unit(column: str) -> str:
    """The name of a column without a unit in brackets."""
    return re.sub(r"\s*\[[^\]]*\]$", "", column) or column


class Task(NamedTuple):
    """The arguments of a fit: problems, starts, domains, priors and ties."""

    problems: list[Problem]
    params: Mapping[str, Any]
    free: Mapping[str, Any]
    known: Mapping[str, Any]


def read_study(scene: str | Path, files: Sequence[str | Path] = ()) -> Study:
    """Read a scene and its runs; starting values must be consistent.

    Args:
        scene: the TOML document.
        files: CSV files, each of one run or several; empty: those that the scene names.
    """
    document = read_scene(scene)
    chosen = tuple(files) or document.files
    if not chosen:
        raise ValueError(
            f"{document.file}: data.files: missing, and no --data was given; expected at least one CSV file"
        )
    runs = _read_runs(document, chosen)
    start = {name: _start(parameter, document, runs) for name, parameter in document.parameters.items()}
    start = tied_start(start, document.ties, document.parameters)
    for name, parameter in document.parameters.items():
        require_possible(parameter, document, start[name])
        _require_within_bounds(parameter, document, start[name])
    given = {name: _stacked([run.given[name] for run in runs]) for name in document.ready.given}
    study = Study(document, runs, start, given)
    if isinstance(document.ready.system, System):
        for i, run in enumerate(runs):
            _require_apart(study, document.ready.system, i, run)
    return study


def setting(
    document: Scene,
    scene: str | Path,
    files: Sequence[str | Path],
    times: NDArray | None,
    given: Collection[str] = (),
    others: str = "",
) -> tuple[dict[str, NDArray], NDArray, Draw | None]:
    """Parameters (SI), times and picture of a scene's first run; times (m,) are in the scene's unit."""
    grid = None if times is None else document.reading.time_factor * times
    if files or document.files:
        study = read_study(scene, files)
        first = study.runs[0]
        return study.params(0), first.times if grid is None else grid, first.draw
    if grid is None:
        raise ValueError(
            f"{document.file}: data.files: missing, and no --data was given; expected a CSV file, or --times {RANGE}"
        )
    params: dict[str, NDArray] = {}
    for name, shape in document.ready.given.items():
        # Without elements it needs no measurement: the turning points before the first of one bounce.
        if shape is None or 0 not in shape:
            raise ValueError(f"{document.file}: system: takes its {name} from measurements, expected --data")
        params[name] = np.zeros(shape)
    for name, parameter in document.parameters.items():
        if parameter.value is None and name not in given:
            raise ValueError(f"{parameter.at}.value: {FROM_DATA!r} without any, expected a number, {others}--data")
        params[name] = np.zeros(document.ready.quantities[name].shape) if parameter.value is None else parameter.value
    held = followed({name: value[None] for name, value in params.items()}, document.ties)
    params = {name: value[0] for name, value in held.items()}
    later = {*given, *(tie.name for tie in document.ties if tie.source in given)}
    for name, parameter in document.parameters.items():
        if name not in later:
            require_possible(parameter, document, params[name])
    return params, grid, None


def accuracy(document: Scene) -> dict[str, Any]:
    """Arguments of `simulate` for the steps of a scene."""
    if isinstance(document.substeps, str):
        return {"substeps": document.substeps, "tolerance": tolerance(document)}
    return {"substeps": document.substeps}


def tolerance(document: Scene) -> float:
    """Allowed change by shorter steps, in the system's units."""
    return _TOLERANCE if document.preparation.hears else _PART_OF_NOISE * document.noise


def _read_runs(document: Scene, files: Sequence[str | Path]) -> tuple[PreparedRun, ...]:
    """Read all files; the same bytes twice are refused."""
    runs: list[PreparedRun] = []
    for path in files:
        found = document.read_runs(path)
        for run in runs:
            if run.sha256 == found[0].sha256:
                raise ValueError(f"{path}: holds the same bytes as {run.path}, expected every run once")
        runs.extend(found)
    return tuple(runs)


def _start(parameter: Parameter, scene: Scene, runs: Sequence[PreparedRun]) -> NDArray:
    """Starting value in SI, with an axis of runs if per run."""
    name, value = parameter.name, parameter.value
    if value is not None:
        return np.array(np.broadcast_to(value, (len(runs), *value.shape)) if parameter.per_run else value)
    known = {other: given.value for other, given in scene.parameters.items() if given.value is not None}
    derived = scene.ready.derived.get(name)
    found = [
        derived.value(run.start[derived.source], known) if derived and name not in run.start else run.start[name]
        for run in runs
    ]
    each = np.stack([np.asarray(one, float) for one in found])
    return each if parameter.per_run else each.mean(axis=0)


def _stacked(arrays: Sequence[NDArray]) -> NDArray:
    """Stack arrays of runs, shorter ones continued at their last step."""
    longest = max(array.shape[0] for array in arrays)
    more = [[(0, longest - len(array))] + [(0, 0)] * (array.ndim - 1) for array in arrays]
    return np.stack([np.pad(array, width, mode="edge") for array, width in zip(arrays, more, strict=True)])


def require_possible(parameter: Parameter, scene: Scene, value: NDArray) -> None:
    """Refuse a value [SI] that physics does not allow."""
    quantity = scene.ready.quantities[parameter.name]
    if not quantity.allows(value):
        written = _written(parameter, scene, value)
        raise ValueError(f"{parameter.at}.value: {written}, expected {quantity.range} (SI)")


def _require_within_bounds(parameter: Parameter, scene: Scene, start: NDArray) -> None:
    if parameter.domain is None:
        return
    low, high = (np.asarray(bound, float) for bound in (parameter.domain.low, parameter.domain.high))
    moves = np.ones(scene.ready.quantities[parameter.name].shape, bool)
    moves.flat[list(parameter.held)] = False
    if not np.all((low <= start) & (start <= high) | ~moves):
        bounds = [(low / parameter.factor).tolist(), (high / parameter.factor).tolist()]
        written = _written(parameter, scene, start)
        raise ValueError(f"{parameter.at}.value: the start {written} is outside its bounds {bounds}")


def _written(parameter: Parameter, scene: Scene, value: NDArray) -> str:
    numbers = np.vectorize(lambda x: float(f"{x:.12g}"), otypes=[float])(value / parameter.factor).tolist()
    if any(tie.name == parameter.name for tie in scene.ties):
        return f"{numbers} (by [ties])"
    return f"{numbers} (suggested by the data)" if parameter.value is None else str(numbers)


def _require_apart(study: Study, system: System, i: int, run: PreparedRun) -> None:
    """Refuse overlapping bodies: no impact law holds there."""
    ready, params = study.scene.ready, study.params(i)
    gap = np.asarray(_gaps_at_start(ready.initial, system, run.times[0], params))
    if gap.size and gap.min() < 0:
        worst, length = int(gap.argmin()), ready.length
        raise ValueError(
            f"{study.scene.parameters['q0'].at}: gap {worst} is {gap[worst]:.6g} {length} at the start of {run.label}, "
            f"so two bodies overlap by {-gap[worst]:.6g} {length}; expected at least 0"
        )


@partial(jit_fast_compile, work=lambda *_, **__: 0, static=("initial", "system"))
def _gaps_at_start(initial, system, time, params):
    return system.gap(time, initial(params)[0], params)
