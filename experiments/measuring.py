"""What studies have in common: options, measured data, processes of their own, seconds, and what is printed."""

from __future__ import annotations

import argparse
import importlib.util
import multiprocessing
import os
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np


def options(
    arguments: Sequence[str] | None, smoke: str, place: tuple[str, Path | None] | None = None, **more
) -> argparse.Namespace:
    """`--smoke`, a place that may be named first, and others: each by its default, or by argparse's settings."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--smoke", action="store_true", help=smoke)
    if place is not None:
        parser.add_argument(place[0], nargs="?", type=Path, default=place[1])
    for name, given in more.items():
        settings = given if isinstance(given, dict) else {"type": type(given), "default": given}
        parser.add_argument(f"--{name}", **settings)
    return parser.parse_args(arguments)


def data(name: str = "") -> Path:
    """A folder of measured data: within DIFFCONTACT_DATA, or beside the project."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    return Path(os.environ.get("DIFFCONTACT_DATA", beside)) / name


def installed(*names: str) -> bool:
    """Whether all of these packages are there."""
    try:
        return all(importlib.util.find_spec(name) is not None for name in names)
    except ModuleNotFoundError:
        return False


def machine() -> str:
    """The processor, how many of it this process may use, and how many processes ask for them now."""
    name = platform.processor() or platform.machine()
    if (listed := Path("/proc/cpuinfo")).is_file():
        names = [line.partition(":")[2].strip() for line in listed.read_text().splitlines() if "model name" in line]
        name = names[0] if names else name
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return f"{name}, {cores} cores, load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else f"{name}, {cores}"


def clock() -> float:
    """Seconds: of this process's processors where these do the work."""
    return time.process_time() if jax.default_backend() == "cpu" else time.perf_counter()


def timed(call: Callable, limit: float) -> tuple[float, Any]:
    """Median time of a call, and what it returns: one to warm up, then as many as fit in the limit, five at most."""
    begin, spent = time.perf_counter(), []
    result = jax.block_until_ready(call())
    while not spent or (len(spent) < 5 and time.perf_counter() - begin < limit):
        before = clock()
        jax.block_until_ready(call())
        spent.append(clock() - before)
    return float(np.median(spent)), result


def bounded(task: Callable, arguments: tuple, dtype: str, patience: float) -> Iterator:
    """What the generator task(*arguments) yields in a process of its own with JAX in that precision; it is stopped
    where the next result takes longer than `patience` seconds."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(theirs, task, arguments, dtype), daemon=True)
    process.start()
    theirs.close()
    try:
        while ours.poll(patience):
            result = ours.recv()
            if result is None:
                return
            yield result
        yield f"stopped: no result in {patience:.0f} s"
    except EOFError:
        yield "stopped: the process ended"
    finally:
        process.terminate()
        process.join()


def _send(connection, task, arguments, dtype) -> None:
    jax.config.update("jax_enable_x64", dtype == "float64")
    for result in task(*arguments):
        connection.send(result)
    connection.send(None)


@dataclass(frozen=True)
class Report:
    """Lines that are printed as they come and written to a file in the end; it begins with what is measured on."""

    lines: list[str] = field(default_factory=list)

    def __post_init__(self):
        time_of = "processor time" if jax.default_backend() == "cpu" else "time"
        device = jax.devices()[0].device_kind
        self(f"{machine()}; {device}, {time_of}, XLA_FLAGS={os.environ.get('XLA_FLAGS', '')}")

    def __call__(self, *lines: str) -> None:
        print(*lines, sep="\n", flush=True)
        self.lines.extend(lines)

    def write(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(self.lines) + "\n")


def picture(folder: Path, name: str, draw, panels: int) -> None:
    """Write FOLDER/NAME.png, or say why not."""
    try:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot
    except ImportError:
        print(f"no {name}.png: matplotlib is not installed")
        return
    folder.mkdir(parents=True, exist_ok=True)
    figure, axes = pyplot.subplots(panels, 1, figsize=(7, 3 * panels), layout="constrained", squeeze=False)
    draw(axes[:, 0])
    figure.savefig(folder / f"{name}.png", dpi=120)
    pyplot.close(figure)
    print(f"picture: {folder / f'{name}.png'}")


def bars(axis, cases: list[tuple], shown: list[tuple], label: str) -> None:
    """Bars of (case, name, height), the names side by side in each case; `label` is filled with the case."""
    names = list(dict.fromkeys(name for _, name, _ in shown))
    for i, name in enumerate(names):
        own = [(cases.index(case) + (i - len(names) / 2) * 0.8 / len(names), y) for case, of, y in shown if of == name]
        axis.bar(*np.transpose(own), 0.8 / len(names), align="edge", label=name)
    axis.set_xticks(range(len(cases)), [label.format(*case) for case in cases], fontsize=7)
