"""`python -m diffcontact ensemble`: a scene's motion on a grid of parameters.

restitution=0.5:0.9:1000    1000 values from 0.5 to 0.9, both included, in the unit that the scene gives
radius=4:6:3                all elements of a vector alike, as a single number in the scene is for all of them
q0[1]=20:40:5               one element of it, counted from 0
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.commands.options import add_scene, count, parse_times, path
from diffcontact.commands.outcome import ExitCode, about, file_of
from diffcontact.ensemble import ensemble
from diffcontact.host.files import require_writable
from diffcontact.host.messages import did_you_mean, say, shown
from diffcontact.host.progress import stage
from diffcontact.scene.document import Scene, read_scene
from diffcontact.scene.parameters import followed
from diffcontact.scene.study import require_possible, setting, tolerance
from diffcontact.scene.units import RANGE, read_values
from diffcontact.simulate import OF_THE_STEP, change, judged, simulate
from diffcontact.status import Status
from diffcontact.trajectory import Trajectory

HELP = "simulate a scene for many values of its parameters"
EXAMPLE = "ensemble out/demo/carts.toml --vary restitution=0.5:0.9:1000 --out out/runs.h5"

_VARIED = re.compile(r"\s*(\w+)\s*(?:\[\s*([0-9]{1,9})\s*\])?\s*=(.*)")
# Above it there is no memory for the parameters and no disk for the motions.
_MOST_LANES = 10**7
# Of an ensemble, so many lanes tell how many steps all of them take: no more than that in all.
_ASKED, _MOST_STEPS = 9, 2**16
# For a scheduler to answer [s].
_PATIENCE = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE [--data FILE ...] --vary NAME=VALUES ... --out PLACE [--times ...] [--chunk N] [--dask ADDRESS]"""
    add_scene(parser)
    parser.add_argument(
        "--vary",
        action="append",
        required=True,
        metavar=f"NAME={RANGE}",
        help="COUNT values of a parameter, or of its element NAME[0], from LOW to HIGH; several --vary form a grid",
    )
    parser.add_argument(
        "--out",
        type=path,
        required=True,
        metavar="PLACE",
        help="folder for runs.h5, or an HDF5 file; one that is there already is resumed",
    )
    parser.add_argument("--times", metavar=RANGE, help="when; default: at the times of the first run")
    parser.add_argument("--chunk", type=count, metavar="N", help="lanes at once; default: 256 for each CPU device")
    parser.add_argument(
        "--dask",
        metavar="ADDRESS",
        help="of a scheduler, as tcp://HOST:8786, whose workers take the chunks; needs distributed",
    )
    parser.set_defaults(interrupted="the same command goes on from there")


def run(options: argparse.Namespace) -> ExitCode:
    """Simulate the scene for all combinations of the values."""
    variations = [parse_variation(text) for text in options.vary]
    times = parse_times(options.times)
    with _workers(options.dask) as executor:
        return _vary(options, variations, times, executor)


@contextmanager
def _workers(address: str | None) -> Iterator[Any]:
    """The executor of Dask's workers, if they are wanted."""
    if address is None:
        yield None
        return
    at = f"--dask {shown(address)}"
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port, normalize_address
    except ImportError as missing:
        raise ModuleNotFoundError(f"{at}: needs distributed, pip install 'diffcontact[dask]'") from missing
    # A worker that died is the executor's to tell; its log would be further lines on stderr.
    logging.getLogger("distributed.client").disabled = True
    try:
        # Before there is a client: it would wait for itself at the end.
        get_address_host_port(normalize_address(address), strict=True)
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"{at}: {error}; expected the address of a scheduler, as tcp://HOST:8786") from error
    with client:
        workers: Any = client.nthreads()
        say(f"{len(workers)} workers of {address}")
        yield client.get_executor()


@dataclass(frozen=True, eq=False)
class Variation:
    """The values of one parameter, or of one element of it."""

    text: str  # as it was given, for messages
    name: str  # of the parameter
    element: int | None  # of it, or None: all alike
    values: NDArray  # (count,), in the scene's unit

    @property
    def label(self) -> str:
        """What is varied: restitution, or q0[1]."""
        return self.name if self.element is None else f"{self.name}[{self.element}]"


def parse_variation(text: str) -> Variation:
    """Read NAME=LOW:HIGH:COUNT or NAME[ELEMENT]=LOW:HIGH:COUNT."""
    found = _VARIED.fullmatch(text)
    if found is None:
        raise ValueError(f"--vary {shown(text)}: expected NAME={RANGE} or NAME[ELEMENT]={RANGE}")
    name, element, values = found.groups()
    element = None if element is None else int(element)
    return Variation(text, name, element, read_values(f"--vary {shown(text)}", values, _MOST_LANES))


def _vary(
    options: argparse.Namespace, variations: Sequence[Variation], times: NDArray | None, executor: Any
) -> ExitCode:
    """Simulate all combinations of values into an HDF5 file.

    The other parameters have the scene's values, and those of its first run where they come from measurements. The
    file holds, in the system's units (SI; px and frames for films), `parameters/NAME` (n, ...) for what varies and what
    follows from it, `fixed/NAME` for all else, `fixed/t` (m,), and `outputs/q`, `u` (n, m, d), `impulse` (n, m - 1, c)
    and `status` (n,). The last of the variations is the one that changes from lane to lane. Steps are as short as
    `simulate` takes them for the scene; `outputs/error` (n,) is what half as many steps change.
    """
    out = file_of(options.out, "runs.h5")
    require_writable(out.parent)
    document = read_scene(options.scene)
    _require_possible(document, variations)
    whole = {variation.name for variation in variations if variation.element is None}
    params, grid, _ = setting(document, options.scene, options.data, times, whole, "--vary or ")
    batch = _batch(document, variations, params)
    fixed = {name: jnp.asarray(value) for name, value in params.items() if name not in batch}

    def moved(varied, substeps):
        everything = {**fixed, **varied}
        q0, u0 = document.ready.initial(everything)
        with about(document.file):
            return simulate(document.ready.system, everything, q0, u0, grid, substeps=substeps)

    lanes, allowed, given = next(iter(batch.values())).shape[0], tolerance(document), document.substeps
    auto = isinstance(given, str)
    with stage("length of steps"):
        substeps = _enough(moved, batch, grid.size - 1, allowed) if isinstance(given, str) else given

    def run(varied):
        motion = _halved(partial(moved, varied), substeps, allowed) if auto else moved(varied, substeps)
        found = {"q": motion.q, "u": motion.u, "impulse": motion.impulse, "status": motion.status}
        return {**found, "error": motion.error} if auto else found

    sizes = " x ".join(f"{variation.values.size} values of {variation.label}" for variation in variations)
    span = f"{grid.size} times from {grid[0]:g} to {grid[-1]:g} {document.ready.time}"
    say(f"{document.title}: {sizes}, {lanes} lanes; {span}, {substeps} steps from one to the next")
    same = {**fixed, "t": grid, "substeps": substeps, "allowed": allowed, "system": _identity(document)}
    found = ensemble(run, batch, chunk=options.chunk, progress=True, store=out, fixed=same, executor=executor)
    say(f"wrote {out}")
    return ExitCode.DONE if np.all(found["status"] == Status.OK) else ExitCode.NOT_CONVERGED


def _identity(document: Scene) -> NDArray:
    """Hash (32,) of the tables that define the system."""
    stated = {name: document.stated[name] for name in ("system", "data", "preparation")}
    stated["data"] = {key: value for key, value in stated["data"].items() if key != "files"}
    return np.frombuffer(hashlib.sha256(json.dumps(stated, sort_keys=True, default=str).encode()).digest(), np.uint8)


def _require_possible(document: Scene, variations: Sequence[Variation]) -> None:
    """Refuse unknown, impossible and repeated variations."""
    taken: set[tuple[str, int]] = set()
    for variation in variations:
        at, name = f"--vary {shown(variation.text)}", variation.name
        if name not in document.parameters:
            raise ValueError(
                f"{at}: the scene has no parameter {shown(name)}; {did_you_mean(name, document.parameters)}"
            )
        quantity, parameter = document.ready.quantities[name], document.parameters[name]
        size = int(np.prod(quantity.shape))
        if variation.element is not None and not quantity.shape:
            raise ValueError(f"{at}: {name} is a single number, expected it without an element")
        if variation.element is not None and variation.element >= size:
            raise ValueError(f"{at}: element {variation.element} of {name}, expected 0 to {size - 1}")
        if not quantity.allows(variation.values * parameter.factor):
            low, high = variation.values[[0, -1]]
            raise ValueError(f"{at}: {low:g} to {high:g}, expected {quantity.range} (SI)")
        elements = range(size) if variation.element is None else (variation.element,)
        for tie in document.ties:
            if tie.name == name and tie.at in elements:
                leads = f"element {tie.of} of {tie.source}"
                raise ValueError(
                    f"{at}: element {tie.at} of {name} follows {leads} by [ties]; expected that to be varied"
                )
        if taken.intersection((name, element) for element in elements):
            raise ValueError(f"{at}: {variation.label} is varied twice, expected once")
        taken.update((name, element) for element in elements)
    lanes = math.prod(variation.values.size for variation in variations)
    if lanes > _MOST_LANES:
        raise ValueError(f"--vary: {lanes} lanes in all, expected at most {_MOST_LANES}")


def _batch(document: Scene, variations: Sequence[Variation], params: Mapping[str, Any]) -> dict[str, NDArray]:
    """Varied and tied parameters (n, ...) [SI] on the grid."""
    points = np.meshgrid(*(variation.values for variation in variations), indexing="ij")
    batch = {}
    for variation, point in zip(variations, points, strict=True):
        base = np.asarray(params[variation.name], float)
        lanes = batch.setdefault(variation.name, np.repeat(base[None], point.size, axis=0))
        part = lanes if variation.element is None else lanes[:, variation.element]
        part.T[...] = point.ravel() * document.parameters[variation.name].factor
    held = followed(
        {name: batch.get(name, np.asarray(value, float)[None]) for name, value in params.items()}, document.ties
    )
    led = {tie.name: held[tie.name] for tie in document.ties if tie.source in batch}
    for name, lanes in led.items():
        if not document.ready.quantities[name].allows(lanes):
            for lane in lanes:
                require_possible(document.parameters[name], document, lane)
    return batch | led


def _enough(
    run: Callable[[Any, jax.Array], Trajectory], batch: dict[str, NDArray], intervals: int, allowed: float
) -> int:
    """Find an even number of substeps at which halving changes little."""
    lanes = next(iter(batch.values())).shape[0]
    some = np.unique(np.linspace(0, lanes - 1, _ASKED).round().astype(int))
    asked = {name: jnp.asarray(values[some]) for name, values in batch.items()}
    moved, changed = jax.jit(jax.vmap(run, (0, None))), jax.jit(jax.vmap(change))
    number, coarse = 1, moved(asked, jnp.array(1))
    needed = np.where(np.isin(coarse.status, OF_THE_STEP), 0, 2)
    while number == 1 or 2 * number * intervals <= _MOST_STEPS:
        number *= 2
        fine = moved(asked, jnp.array(number))
        right = (np.asarray(changed(coarse, fine)) <= allowed) & (np.asarray(fine.status) == Status.OK)
        needed[(needed == 0) & right] = number
        if np.all(needed):
            break
        coarse = fine
    return int(needed.max()) or number


def _halved(run: Callable[[jax.Array], Trajectory], number: int, allowed: float) -> Trajectory:
    """Simulate with all and half of the substeps, and judge the change."""
    both = jax.lax.map(run, jnp.array([number // 2, number]))
    coarse, fine = jax.tree.map(lambda x: x[0], both), jax.tree.map(lambda x: x[1], both)
    return judged(fine, change(coarse, fine), allowed)
