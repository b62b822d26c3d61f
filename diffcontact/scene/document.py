"""A scene: the TOML document that names system, parameters and measurements.

[system]         kind and options of a ready-made system           -> diffcontact.scene.kinds
                 drive: the column that drives it
[data]           files, noise, scale                               -> diffcontact.scene.parameters
                 times, window, decimal, missing, ...              -> diffcontact.scene.measurements
[preparation]    from columns to the system's coordinates          -> diffcontact.scene.preparation
[parameters.x]   value, unit, bounds, free, per_run, prior         -> diffcontact.scene.parameters
[ties]           parameters that follow from others                -> diffcontact.scene.parameters
[fit]            loss, f_scale, noise, starts, shooting, terms      -> diffcontact.identify.fit
[output]         folder
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.host.files import read_text
from diffcontact.host.messages import shown
from diffcontact.identify import NOISES
from diffcontact.identify.noise import LOSSES, ROBUST
from diffcontact.identify.search import SHOOTING
from diffcontact.scene.keys import Table, gathered
from diffcontact.scene.kinds import KINDS, Quantity, ReadySystem
from diffcontact.scene.measurements import KEYS as READING_KEYS
from diffcontact.scene.measurements import Measurements, Reading, rate_of, read_measurements
from diffcontact.scene.mechanism import named  # noqa: F401, registers its kinds
from diffcontact.scene.parameters import (
    UNIT,
    Parameter,
    Scaled,
    Tie,
    counts_pixels,
    read_parameters,
    read_scale,
    read_ties,
    wholly_tied,
)
from diffcontact.scene.preparation import PREPARATIONS, Preparation, PreparedRun
from diffcontact.scene.units import SIZES, Unit

KEYS = {
    "title": "of the report; the file's name by default",
    "system": "what moves, and its options",
    "data": "the recordings, and how they are read",
    "preparation": "from their columns to the system's coordinates",
    "parameters": "one table for each parameter of the system",
    "ties": "parameters that follow from others",
    "fit": "how the free parameters are found",
    "output": "where the results go",
}
DATA_KEYS = {
    "files": "CSV files, relative to the scene; each is a run or several, and all are fitted jointly",
    "noise": "{ value, unit }: one standard deviation of a sample",
    "scale": "{ value, sigma, unit }: how long a pixel is",
    **READING_KEYS,
}
FIT_KEYS = {
    "loss": f"of the residuals: {', '.join(map(repr, LOSSES))}",
    "f_scale": "beyond so many standard deviations a residual counts as an outlier (1)",
    "starts": "how many starting points are tried (1)",
    "shooting": f"the way from a bad start: {', '.join(map(repr, SHOOTING))}",
    "noise": f"of each channel: {', '.join(map(repr, NOISES))}; see `fit`",
    "terms": "'auto' (default): a held term (free = false) is set free if residuals ask for it; or 'as written'",
    "substeps": "steps from one row to the next, or 'auto' (default): as many as the noise asks for",
}
OUTPUT_KEYS = {"folder": "relative to the current one, in it or in that of the scene; out/SCENE by default"}

_SUBSTEPS = 10**4
_ENDLESS = re.compile(r"[0-9_]{4300}")


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene that has been read, with nothing wrong in it."""

    file: str  # file, title, kind: its name, that of the report, and that of the system
    title: str
    kind: str
    ready: ReadySystem  # the system and its quantities
    # parameters: by name, one for every quantity of the system but those that it leaves out; ties are between them
    parameters: Mapping[str, Parameter]
    ties: tuple[Tie, ...]
    reading: Reading  # how the recordings are read
    # noise: one standard deviation of a sample, in the system's unit of length, or of time where impacts are heard
    noise: float
    length: str  # unit of the measured coordinates, for the report
    length_factor: float  # from it to the system's
    preparation: Preparation  # from columns to coordinates
    fit: Mapping[str, Any]  # options of `diffcontact.fit`, by name
    selects: bool  # whether a fit may set terms free that are held
    substeps: int | str  # steps from one row that is used to the next, or "auto"; see `identify.Problem`
    # files, folder: the runs, relative to the scene's folder, and the folder of the results, to the current one
    files: tuple[Path, ...]
    folder: Path
    stated: Mapping[str, Any]  # the document as it was read, table by table

    @property
    def system(self) -> str:
        """What moves, and in which units."""
        return f"{self.kind}, in {self.ready.length} and {self.ready.time}"

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that a file of measurements must have."""
        drive = self.ready.drive
        time = (self.reading.time,) if self.reading.time else ()
        return (*time, *self.preparation.columns, *((drive.column,) if drive else ()))

    @property
    def noises(self) -> float | NDArray:
        """One standard deviation of a sample, for all channels or each."""
        angles = self.preparation.angles
        lengths = len(self.preparation.channels) - angles
        return np.array([self.noise] * lengths + [self.preparation.angle_noise] * angles) if angles else self.noise

    def read_runs(
        self, path: str | Path, read: Callable[..., Measurements] = read_measurements
    ) -> tuple[PreparedRun, ...]:
        """Read one file of measurements and prepare its run or runs."""
        drive = self.ready.drive
        measurements = read(path, self.columns, self.reading, (drive.column,) if drive else ())
        runs = self.preparation(measurements.times, measurements)
        if measurements.understood:
            told = {"recording": measurements.understood}
            runs = tuple(replace(run, notes={**told, **run.notes}) for run in runs)
        if drive is None:
            return runs
        times, force = measurements.entire[drive.column]
        if not times.size:
            raise ValueError(f"{measurements.path}: column {drive.column!r} is empty, expected what drives the system")
        given = {"drive_times": times, "drive": drive.factor * force}
        return tuple(replace(run, given={**run.given, **given}) for run in runs)


def read_scene(path: str | Path) -> Scene:
    """Read a scene and refuse every key that is wrong, by file and key."""
    path = Path(path)
    text = read_text(path, expected="a TOML document")
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path}: not a TOML document: {error}") from None
    except RecursionError:
        raise ValueError(f"{path}: not a TOML document: lists or tables nested too deep, expected a few") from None
    except ValueError:
        # Python reads no number of more than 4300 digits.
        lines = (i for i, line in enumerate(text.splitlines(), 1) if _ENDLESS.search(line))
        raise ValueError(
            f"{path}: line {next(lines, '?')}: a number of more than 4300 digits, expected {SIZES}"
        ) from None
    return parse_scene(Table(document, str(path)), path.parent)


def parse_scene(table: Table, folder: Path) -> Scene:
    """Check a scene's tables; data files are relative to `folder`."""
    table.expect(*KEYS)
    system, data = table.table("system"), table.table("data")
    ties, fit, output = (table.table(name, {}) for name in ("ties", "fit", "output"))
    kind = system.choice("kind", KINDS)
    ready = KINDS[kind](system)
    (ready, *read), options, substeps, selects, results, *_ = gathered(
        lambda: _of_the_system(table, ready),
        lambda: _fit_options(fit),
        lambda: _substeps(fit),
        lambda: fit.choice("terms", ("auto", "as written"), "auto") == "auto",
        lambda: Path(output.file_name("folder", f"out/{Path(table.file).stem}")),
        lambda: data.expect(*DATA_KEYS),
        lambda: output.expect(*OUTPUT_KEYS),
    )
    scale, data, prepare, reading, noise, parameters = read
    if prepare.angles and prepare.observe is None:
        if ready.turned is None or "angle0" not in parameters:
            raise table.table("parameters").fail("angle0", "missing, expected { value = 'from data' } with angles")
        # Without a sample where nothing was measured, as when a scene is played.
        given = {ready.turned.orientation: (0, ready.turned.columns * ready.turned.count)}
        more = given if ready.turned.orientation else {}
        ready = replace(ready, observe=ready.turned.observe, given={**ready.given, **more})
    if scale is not None and scale[1] is not None:
        parameters[scale[1].name] = scale[1]
        quantity = Quantity(UNIT, low=0.0, positive=True)
        lengths = len(prepare.channels) - prepare.angles
        seen = Scaled(ready.observe, scale[0], lengths)
        ready = replace(ready, quantities={**ready.quantities, scale[1].name: quantity}, observe=seen)
    shapes = {name: ready.quantities[name].shape for name in parameters}
    scene = Scene(
        file=table.file,
        title=table.text("title", Path(table.file).stem),
        kind=kind,
        ready=ready,
        parameters=parameters,
        ties=read_ties(ties, parameters, shapes),
        reading=reading,
        noise=noise,
        length=ready.length if prepare.hears else data.table("noise").text("unit", ready.length),
        length_factor=1.0 if prepare.hears else data.table("noise").factor("unit", ready.length),
        preparation=prepare,
        fit=options,
        selects=selects,
        substeps=substeps,
        files=tuple(folder / name for name in (data.file_names("files") if "files" in data else ())),
        folder=results,
        stated=table.data,
    )
    for i, name in enumerate(scene.columns):
        if name in scene.columns[:i]:
            raise table.fail("preparation", f"column {shown(name)} is used twice, expected every column once")
    return scene


def _of_the_system(table: Table, ready: ReadySystem) -> tuple:
    """Read everything that is in the system's units."""
    scale = read_scale(table.table("data"))
    units = _units(table, table.table("data"), ready, scale)
    table = Table(table.data, table.file, table.path, units)
    data, preparation, declared = (table.table(name) for name in ("data", "preparation", "parameters"))
    prepare, reading = gathered(lambda: _preparation(preparation, ready), lambda: Reading.from_table(data, ready.time))
    if prepare.observe is not None:
        ready = replace(ready, observe=prepare.observe, length=prepare.length)
    suggested = [name for name in prepare.suggests if name in ready.quantities]
    suggested += [name for name, start in ready.derived.items() if start.source in prepare.suggests]
    follow = wholly_tied(table.table("ties", {}), {name: one.shape for name, one in ready.quantities.items()})
    noise, parameters = gathered(
        lambda: data.quantity("noise", ready.time if prepare.hears else ready.length),
        lambda: read_parameters(declared, ready.quantities, tuple(suggested), follow),
    )
    return ready, scale, data, prepare, reading, noise, parameters


def _units(
    table: Table, data: Table, ready: ReadySystem, scale: tuple[float, Parameter | None] | None
) -> dict[str, Unit]:
    """What px and frame mean in this scene, where it says so."""
    units, rate = {}, rate_of(data)
    if scale is not None:
        if ready.length == "px":
            raise data.fail("scale", "of a system that counts pixels, expected length = 'm' in [system]")
        if not counts_pixels(table.data):
            raise data.fail("scale", "of a scene without a unit in px, expected one, as unit = 'px' in [preparation]")
        units["px"] = Unit("px", scale[0], Unit.parse("m").dimension)
    if rate is not None and ready.time == "frame":
        raise data.fail("rate", "of a system that counts frames, expected time = 's' in [system]")
    if rate is not None:
        units["frame"] = Unit("frame", 1.0 / rate, Unit.parse("s").dimension)
    return units


def _preparation(table: Table, ready: ReadySystem) -> Preparation:
    """That of a [preparation] table; it finds what the system needs."""
    prepare = PREPARATIONS[table.choice("kind", PREPARATIONS)](table, ready)
    d = ready.quantities["u0"].shape[0]
    lengths = len(prepare.channels) - prepare.angles
    if lengths != d and prepare.observe is None:
        raise table.fail("kind", f"observes {lengths} coordinates, the system has {d}")
    driven = ("drive_times", "drive") if ready.drive else ()
    for name in ready.given:
        if name not in (*prepare.gives, *driven):
            raise table.fail("kind", f"{table.text('kind')!r} does not find the {name} that the system needs")
    return prepare


def _fit_options(table: Table) -> dict[str, Any]:
    table.expect(*FIT_KEYS)
    known = {"loss": LOSSES, "noise": NOISES, "shooting": SHOOTING}
    options: dict[str, Any] = {key: table.choice(key, names) for key, names in known.items() if key in table}
    if "f_scale" in table:
        options["f_scale"] = table.number("f_scale", above=0.0)
        if options.get("loss", LOSSES[0]) == LOSSES[0]:
            raise table.fail("f_scale", f"of the sum of squares, which knows no outliers; {ROBUST}")
    if "starts" in table:
        options["starts"] = table.integer("starts", least=1)
    return {key: options[key] for key in ("loss", "f_scale", "noise", "starts", "shooting") if key in options}


def _substeps(table: Table) -> int | str:
    written = table.data.get("substeps", "auto")
    if isinstance(written, str) and written != "auto":
        raise table.fail("substeps", f"{shown(written)}, expected 'auto' or a whole number")
    return written if written == "auto" else table.integer("substeps", least=1, most=_SUBSTEPS)
