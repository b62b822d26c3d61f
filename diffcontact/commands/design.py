"""`python -m diffcontact design`: what to film next.

u0[1]=-20:20                a parameter's element anywhere in between, in the unit that the scene gives
duration=500:2000           in the scene's unit of time; in the system's where that is the frame
frame_rate=120,240,480      one of these, per second, or per unit of the system's time
u0=[0,40],[40,0]            a whole vector
channels=[0],[0,1]          which channels are seen, counted from 0
"""

from __future__ import annotations

import argparse
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from diffcontact.commands.options import add_scene, count, parse_times, path
from diffcontact.commands.outcome import (
    ExitCode,
    about,
    as_json,
    is_design,
    require_own,
    results_folder,
    written_all_the_same,
)
from diffcontact.host.files import require_writable, write_atomically
from diffcontact.host.messages import did_you_mean, say, shown
from diffcontact.identify import Design, Interval, design
from diffcontact.identify.experiment.design import CHANNELS, DURATION, FRAME_RATE, RECORDING, RUNS
from diffcontact.scene.document import Scene, read_scene
from diffcontact.scene.preparation import PreparedRun
from diffcontact.scene.study import Study, read_study, setting
from diffcontact.scene.units import RANGE, number

HELP = "say what to film next, so that a parameter becomes as certain as possible"
EXAMPLE = "design out/demo/carts.toml --sought restitution --control duration=2:6 --out out/next"

# Of the record as it was, and of the largest velocity at its start.
_SHORTEST, _LONGEST, _SLOWEST, _FASTEST, _SPEED = 0.5, 2.0, 0.5, 2.0, 2.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE [--data FILE ...] [--times ...] [--sought NAME ...] [--control NAME=VALUES ...] [--draws N] [--out DIR]"""
    add_scene(parser)
    parser.add_argument("--times", metavar=RANGE, help="of the run that is varied, where there are no data")
    parser.add_argument("--sought", nargs="+", metavar="NAME", help="parameters; default: all that runs share")
    parser.add_argument(
        "--control",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="LOW:HIGH or VALUE,VALUE,... of a parameter, its element NAME[0], or frame_rate (per second), duration, "
        "runs, channels; default: frame rate, duration and the initial velocities",
    )
    parser.add_argument("--candidates", type=count, default=60, metavar="N", help="how many are scanned, about (60)")
    parser.add_argument("--draws", type=count, default=3, metavar="N", help="of the parameters, for the mean (3)")
    parser.add_argument("--out", type=path, metavar="DIR", help="folder for design.json and design.png")


def run(options: argparse.Namespace) -> ExitCode:
    """Fit the scene's runs, if any, and design the next one."""
    document = read_scene(options.scene)
    out = results_folder(options.out, document)
    require_writable(out)
    require_own(out / "design.json", is_design, "--out DIR")
    # A picture does not say whose it is; ours has the numbers beside it.
    require_own(out / "design.png", lambda _: (out / "design.json").exists(), "--out DIR")
    controls = _controls(options.control, document)
    measured = bool(options.data or document.files)
    study = read_study(options.scene, options.data) if measured else _imagined(document, options)
    with about(document.file):
        found = _designed(study, measured, controls, options)
    with written_all_the_same(out, {"design.json": lambda: as_json(found.to_dict())}):
        say(document.title, "", *str(found).splitlines(), "")
    _draw(found, out / "design.png")
    return ExitCode.DONE


def _controls(texts: Sequence[str], scene: Scene) -> dict[str, Any]:
    """What all --control say, each of something else."""
    found: dict[str, Any] = {}
    for text in texts:
        name, domain = parse_control(text, scene)
        whole = name.partition("[")[0]
        if name in found or whole in found or name in {other.partition("[")[0] for other in found}:
            raise ValueError(f"--control {shown(text)}: {name} is controlled twice, expected once")
        found[name] = domain
    return found


def parse_control(text: str, scene: Scene) -> tuple[str, Any]:
    """Read NAME=LOW:HIGH or NAME=VALUE,VALUE,... in the scene's units."""
    at = f"--control {shown(text)}"
    name, equals, values = (part.strip() for part in text.partition("="))
    if not (name and equals and values):
        raise ValueError(f"{at}: expected NAME=LOW:HIGH or NAME=VALUE,VALUE")
    # To the system's unit; a frame rate is per second.
    parameter, between = scene.parameters.get(name.partition("[")[0]), ":" in values
    factor = _unit_of_durations(scene)[1] if name == DURATION else parameter.factor if parameter else 1.0
    try:
        given = [number(part) for part in values.split(":")] if between else json.loads(f"[{values}]")
        _require_numbers(given)
        if between:
            low, high = given
            Interval(low, high)
    except (ValueError, TypeError) as wrong:
        raise ValueError(f"{at}: {shown(values)}, expected LOW:HIGH or VALUE,VALUE ({wrong})") from None
    if name in (RUNS, CHANNELS):
        return name, Interval(*given) if between else [tuple(v) if isinstance(v, list) else v for v in given]
    for value in given:
        _require_possible(at, name, value, factor, scene, between)
    if between:
        return name, Interval(*(factor * value for value in given))
    return name, [factor * np.asarray(value, float)[()] for value in given]


def _require_possible(at: str, name: str, value: Any, factor: float, scene: Scene, between: bool) -> None:
    """Refuse unknown names, wrong shapes and impossible values, as written."""
    written = shown(json.dumps(value))[1:-1]
    if name in RECORDING:
        if isinstance(value, list) or not value > 0:
            raise ValueError(f"{at}: {written}, expected numbers above 0")
        return
    whole, _, element = name.partition("[")
    if whole not in scene.parameters:
        raise ValueError(f"{at}: no parameter {whole!r}; {did_you_mean(whole, [*scene.parameters, *RECORDING])}")
    quantity = scene.ready.quantities.get(whole)
    if quantity is None:
        return
    shape = () if element else quantity.shape
    if between and shape:
        raise ValueError(f"{at}: {name} is of shape {shape}, expected LOW:HIGH of one element, as {name}[0]")
    if np.shape(np.array(value, object)) != shape:
        raise ValueError(f"{at}: {written}, expected values of shape {shape}")
    if not quantity.allows(factor * np.asarray(value, float)):
        raise ValueError(f"{at}: {written}, expected {quantity.range} (SI)")


def _unit_of_durations(scene: Scene) -> tuple[str, float]:
    """The unit of durations and its factor, but never a frame."""
    reading = scene.reading
    return (scene.ready.time, 1.0) if reading.time_unit == "frame" else (reading.time_unit, reading.time_factor)


def _require_numbers(values: Sequence[Any]) -> None:
    """Refuse what numpy would take for a number: true, a text, null."""
    for value in values:
        if isinstance(value, list):
            _require_numbers(value)
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise ValueError(f"{shown(json.dumps(value))[1:-1]} is not a number")
        else:
            number(repr(value))


def _imagined(scene: Scene, options: argparse.Namespace) -> Study:
    """A study of one unmeasured run, at the scene's values."""
    times = parse_times(options.times)
    if scene.preparation.hears:
        raise ValueError(f"{scene.file}: preparation: of impacts that are heard, expected --data")
    params, grid, _ = setting(scene, options.scene, (), times)
    values = np.zeros((grid.size, len(scene.preparation.channels)))
    given = {name: np.asarray(params.pop(name))[None] for name in scene.ready.given}
    start = {name: value[None] if scene.parameters[name].per_run else value for name, value in params.items()}
    return Study(scene, (PreparedRun(grid, values, {}),), start, given)


def _designed(study: Study, measured: bool, controls: Mapping[str, Any], options: argparse.Namespace) -> Design:
    study, result = study.selected() if measured else (study, None)
    task, scene = study.task(), study.scene
    params = task.params if result is None else {**task.params, **{k: result.params[k] for k in task.params}}
    found = design(
        task.problems,
        params,
        task.free,
        controls or _usual(study, params),
        target=options.sought,
        after=result,
        draws=options.draws,
        candidates=options.candidates,
        **task.known,
    )
    units = {name: (known.unit, known.factor) for name, known in scene.parameters.items()}
    return found.in_units(units | {DURATION: _unit_of_durations(scene)}, scene.ready.time)


def _usual(study: Study, params: Mapping[str, Any]) -> dict[str, Any]:
    """Vary rate, duration and initial velocities around the record."""
    times = study.runs[0].times
    span, rate = float(times[-1] - times[0]), float(1.0 / np.median(np.diff(times)))
    controls: dict[str, Any] = {
        FRAME_RATE: Interval(_SLOWEST * rate, _FASTEST * rate),
        DURATION: Interval(_SHORTEST * span, _LONGEST * span),
    }
    if "u0" in params and "u0" not in {tie.name for tie in study.scene.ties}:
        u0 = np.asarray(params["u0"], float)
        u0 = u0[0] if "u0" in study.per_run else u0
        fastest = _SPEED * float(np.max(np.abs(u0), initial=0.0))
        if fastest > 0:
            controls |= {f"u0[{i}]": Interval(-fastest, fastest) for i in range(u0.size)}
    return controls


def _draw(found: Design, file: Path) -> None:
    """The picture, where matplotlib is there."""
    try:
        figure = found.plot()
    except ImportError as missing:
        say(f"no picture: {missing}")
        return
    picture = io.BytesIO()
    figure.savefig(picture, dpi=110, format="png")
    write_atomically(file, picture.getvalue())
    say(f"wrote {file}")
