"""A scene: the TOML document that names a system, its parameters, the measurements and how they are prepared.

[system]         kind and options of a ready-made system           -> diffcontact.scene.kinds
                 drive: the column that drives it
[data]           time column, noise, files, every                  -> diffcontact.scene.measurements
[preparation]    from columns to the system's coordinates          -> diffcontact.scene.preparation
[parameters.x]   value, unit, bounds, free, per_run, prior         one table per parameter of the system
[fit]            loss, f_scale, starts, shooting, substeps         -> diffcontact.identify.fit
[output]         folder
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from diffcontact.files import read_text
from diffcontact.identify import Interval, Normal, Positive, Real
from diffcontact.identify.problem.loss import LOSSES
from diffcontact.identify.search.shooting import SHOOTING
from diffcontact.messages import shown
from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import KINDS, Quantity, ReadySystem
from diffcontact.scene.measurements import read_csv
from diffcontact.scene.numerals import SIZES
from diffcontact.scene.preparation import PREPARATIONS, Preparation, PreparedRun

FROM_DATA = "from data"
_SUBSTEPS = 10**4
_ENDLESS = re.compile(r"[0-9_]{4300}")


@dataclass(frozen=True, eq=False)
class Parameter:
    """A parameter as the scene declares it.

    Attributes:
        name: as the system calls it.
        at: file and key, for messages.
        unit: in which the scene gives it and the result reports it.
        factor: from that unit to SI.
        value: starting or fixed value [SI]; None: the preparation suggests it, run by run.
        domain: where it may move; None if it is fixed.
        prior: what is known of it besides the data [SI], or None.
        per_run: whether every run has its own.
    """

    name: str
    at: str
    unit: str
    factor: float
    value: NDArray | None
    domain: Interval | Positive | Real | None
    prior: Normal | None
    per_run: bool


@dataclass(frozen=True, eq=False)
class Scene:
    """A scene that has been read, with nothing wrong in it.

    Attributes:
        file: its name, for messages.
        title: for the report.
        kind: of the system.
        ready: the system and its quantities.
        parameters: by name, one for every quantity of the system but those that it leaves out.
        time: column of the times.
        time_factor: from its unit to the system's.
        delimiter: between the fields of a CSV row.
        every: which rows of a file are used: 1 all, 10 every tenth.
        noise: one standard deviation of a sample, in the system's unit of length.
        length: unit of the measured coordinates, for the report.
        preparation: from columns to coordinates.
        fit: options of `diffcontact.fit`, by name.
        substeps: steps from one row that is used to the next, or "auto"; see `identify.Problem`.
        files: the runs, relative to the scene's folder.
        folder: where the results go, relative to the current folder.
    """

    file: str
    title: str
    kind: str
    ready: ReadySystem
    parameters: Mapping[str, Parameter]
    time: str
    time_factor: float
    delimiter: str
    every: int
    noise: float
    length: str
    preparation: Preparation
    fit: Mapping[str, Any]
    substeps: int | str
    files: tuple[Path, ...]
    folder: Path

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that a file of measurements must have."""
        drive = self.ready.drive
        return (self.time, *self.preparation.columns, *((drive.column,) if drive else ()))

    def read_runs(self, path: str | Path) -> tuple[PreparedRun, ...]:
        """Read one file of measurements and prepare the run or runs that it holds.

        Raises:
            OSError: the file cannot be read.
            ValueError: one line that names the file, and row or column.
        """
        drive = self.ready.drive
        measurements = read_csv(path, self.columns, time=self.time, delimiter=self.delimiter, every=self.every)
        times = self.time_factor * measurements.columns[self.time]
        runs = self.preparation(times, measurements)
        if drive is None:
            return runs
        force = drive.factor * measurements.columns[drive.column]
        seen = np.isfinite(force)
        if not seen.any():
            raise ValueError(f"{measurements.path}: column {drive.column!r} is empty, expected what drives the system")
        given = {"drive_times": times[seen], "drive": force[seen]}
        return tuple(replace(run, given={**run.given, **given}) for run in runs)


def read_scene(path: str | Path) -> Scene:
    """Read a scene and refuse every key that is wrong.

    Raises:
        OSError: the file cannot be read.
        ValueError: one line that names file and key, and what was expected.
    """
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
    """Check a scene's tables; data files are looked up relative to `folder`.

    Raises:
        ValueError: as `read_scene`.

    Example:
        >>> from diffcontact.commands.demo import SCENE
        >>> scene = parse_scene(Table(tomllib.loads(SCENE), "carts.toml"), Path("runs"))
        >>> scene.parameters["distance"].unit, scene.files[0].as_posix()
        ('mm', 'runs/carts.csv')
    """
    table.expect("title", "system", "data", "preparation", "parameters", "fit", "output")
    system, data, preparation = table.table("system"), table.table("data"), table.table("preparation")
    kind = system.choice("kind", KINDS)
    ready = KINDS[kind](system)
    data.expect("files", "time", "time_unit", "delimiter", "every", "noise")
    delimiter = data.text("delimiter", ",")
    if len(delimiter) != 1 or delimiter in '\r\n\0"':
        raise data.fail("delimiter", f"{shown(delimiter)}, expected one character, no quote and no end of a line")
    every = data.integer("every", 1, least=1)
    noise = data.quantity("noise", ready.length)
    if not noise > 0:
        raise data.fail("noise", f"{noise} {ready.length}, expected above 0")
    prepare = PREPARATIONS[preparation.choice("kind", PREPARATIONS)].from_table(preparation, ready)
    _require_match(prepare, ready, preparation)
    output = table.table("output", {})
    output.expect("folder")
    scene = Scene(
        file=table.file,
        title=table.text("title", Path(table.file).stem),
        kind=kind,
        ready=ready,
        parameters=_parameters(table.table("parameters"), ready, _suggested(prepare, ready)),
        time=data.text("time"),
        time_factor=data.factor("time_unit", ready.time),
        delimiter=delimiter,
        every=every,
        noise=noise,
        length=data.table("noise").text("unit", ready.length),
        preparation=prepare,
        fit=_fit_options(table.table("fit", {})),
        substeps=_substeps(table.table("fit", {})),
        files=tuple(folder / name for name in (data.file_names("files") if "files" in data else ())),
        folder=Path(output.file_name("folder", f"out/{Path(table.file).stem}")),
    )
    for i, name in enumerate(scene.columns):
        if name in scene.columns[:i]:
            raise ValueError(
                f"{table.file}: preparation: column {shown(name)} is used twice, expected every column once"
            )
    return scene


def _require_match(prepare: Preparation, ready: ReadySystem, table: Table) -> None:
    d = ready.quantities["q0"].shape[0]
    if len(prepare.channels) != d:
        raise table.fail("kind", f"observes {len(prepare.channels)} coordinates, the system has {d}")
    driven = ("drive_times", "drive") if ready.drive else ()
    for name in ready.given:
        if name not in (*prepare.gives, *driven):
            raise table.fail("kind", f"{table.text('kind')!r} does not find the {name} that the system needs")


def _fit_options(table: Table) -> dict[str, Any]:
    table.expect("loss", "f_scale", "starts", "shooting", "substeps")
    options: dict[str, Any] = {}
    if "loss" in table:
        options["loss"] = table.choice("loss", LOSSES)
    if "f_scale" in table:
        options["f_scale"] = table.number("f_scale")
        if not options["f_scale"] > 0:
            raise table.fail("f_scale", f"{options['f_scale']}, expected above 0")
    if "starts" in table:
        options["starts"] = table.integer("starts", least=1)
    if "shooting" in table:
        options["shooting"] = table.choice("shooting", SHOOTING)
    return options


def _substeps(table: Table) -> int | str:
    if table.data.get("substeps", "auto") == "auto":
        return "auto"
    if isinstance(table.data["substeps"], str):
        raise table.fail("substeps", f"{shown(table.text('substeps'))}, expected 'auto' or a whole number")
    return table.integer("substeps", least=1, most=_SUBSTEPS)


def _suggested(prepare: Preparation, ready: ReadySystem) -> tuple[str, ...]:
    """Names of the parameters that may start `from data`."""
    derived = (name for name, start in ready.derived.items() if start.source in prepare.suggests)
    return (*(name for name in prepare.suggests if name in ready.quantities), *derived)


def _parameters(table: Table, ready: ReadySystem, suggested: tuple[str, ...]) -> dict[str, Parameter]:
    table.expect(*ready.quantities)
    missing = [name for name, quantity in ready.quantities.items() if name not in table and not quantity.optional]
    if missing:
        raise table.fail(missing[0], "missing, expected a table with value, unit, bounds, free, per_run")
    # In the order of the scene: it is the order of the table of results.
    return {name: _parameter(name, table.table(name), ready.quantities[name], suggested) for name in table.data}


def _parameter(name: str, table: Table, quantity: Quantity, suggested: tuple[str, ...]) -> Parameter:
    table.expect("value", "unit", "bounds", "free", "per_run", "prior")
    factor = table.factor("unit", quantity.unit)
    free, domain = table.flag("free", True), _domain(table, factor, quantity)
    return Parameter(
        name=name,
        at=f"{table.file}: {'.'.join(table.path)}",
        unit=table.text("unit", quantity.unit).strip() or "1",
        factor=factor,
        value=_value(name, table, factor, quantity, suggested),
        domain=domain if free else None,
        prior=_prior(table, factor, free),
        per_run=table.flag("per_run", False),
    )


def _value(name: str, table: Table, factor: float, quantity: Quantity, suggested: tuple[str, ...]) -> NDArray | None:
    if table.data.get("value") == FROM_DATA:
        if name not in suggested:
            known = ", ".join(suggested) or "none"
            raise table.fail("value", f"this preparation suggests no {name}; it suggests {known}")
        return None
    if isinstance(table.data.get("value"), str):
        raise table.fail("value", f"{shown(table.text('value'))}, expected a number or {FROM_DATA!r}")
    written = table.numbers("value")
    if written.shape not in ((), quantity.shape):
        raise table.fail("value", f"shape {written.shape}, expected a number or shape {quantity.shape}")
    value = np.broadcast_to(written * factor, quantity.shape)
    if not quantity.allows(value):
        raise table.fail("value", f"{shown(written.tolist())}, expected {quantity.range} (SI)")
    return value


def _prior(table: Table, factor: float, free: bool) -> Normal | None:
    if "prior" not in table:
        return None
    if not free:
        raise table.fail("prior", "of a parameter that is not free, expected none")
    prior = table.table("prior")
    prior.expect("mean", "sigma")
    mean, sigma = prior.number("mean") * factor, prior.number("sigma") * factor
    if not sigma > 0:
        raise prior.fail("sigma", f"{prior.number('sigma')}, expected above 0")
    return Normal(mean, sigma)


def _domain(table: Table, factor: float, quantity: Quantity) -> Interval | Positive | Real:
    if "bounds" not in table:
        if quantity.positive and np.isinf(quantity.high):
            return Positive()
        return Real() if np.isinf(quantity.low) and np.isinf(quantity.high) else Interval(quantity.low, quantity.high)
    bounds = table.numbers("bounds")
    if bounds.shape != (2,):
        raise table.fail("bounds", f"{shown(bounds.tolist())}, expected [low, high]")
    low, high = bounds * factor
    if not low < high:
        raise table.fail("bounds", f"{shown(bounds.tolist())} are the wrong way round, expected low below high")
    if low < quantity.low or high > quantity.high:
        raise table.fail(
            "bounds", f"{shown(bounds.tolist())} reach beyond what is possible, expected {quantity.range} (SI)"
        )
    return Interval(low, high)
