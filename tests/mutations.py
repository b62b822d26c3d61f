"""Single wrong changes to the package, and whether its tests see them. Run by hand: it takes hours.

    python tests/mutations.py [--only NUMBER ...] [--package qp ...] [--tier default|full|all] [--near]
                              [--workers N] [--cache FOLDER] [--json FILE]

Each mutation is made in a copy of the checkout. There the tests that mirror the changed file run first, then those of
its package, then the rest of the tier. The first failing test is named. The exit code is 1 where fewer than 90 % of
the mutations are seen, and 2 where the table no longer fits the code or the unchanged tests fail.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "diffcontact"
# The share of the mutations that a tier has to see.
WANTED = 0.9
# A stage of tests that takes longer counts as seen: the change has made something endless [s].
LIMIT = 3 * 3600.0


class Mutation(NamedTuple):
    """A wrong change: in a file of the package, a text that occurs there once, and what replaces the text."""

    number: int
    package: str
    file: str
    text: str
    replacement: str
    broken: str

    @property
    def path(self) -> str:
        """Relative to the checkout."""
        return f"{PACKAGE}/{self.file}"


MUTATIONS = tuple(Mutation(**row) for row in tomllib.loads((ROOT / "tests" / "mutations.toml").read_text())["mutation"])


@dataclass(frozen=True)
class Result:
    """What the tests made of a mutation.

    Args:
        number, package, file, broken: of the mutation.
        outcome: "seen", "unseen", or what the change ended in before a test could fail: "import", "crash", "endless".
        test: the first that failed.
        stage: the tests among which it is.
        seconds: wall time.
    """

    number: int
    package: str
    file: str
    broken: str
    outcome: str
    test: str
    stage: str
    seconds: float

    @property
    def seen(self) -> bool:
        return self.outcome != "unseen"


def misfits(mutations: Sequence[Mutation] = MUTATIONS, root: Path = ROOT) -> list[str]:
    """The rows that no longer apply, in words."""
    told = []
    for one in mutations:
        file = root / one.path
        count = file.read_text().count(one.text) if file.exists() else 0
        if count != 1:
            there = f"{one.text!r} is there {count} times" if file.exists() else "no such file"
            told.append(
                f"row {one.number}, {one.path}: {there}, expected once: "
                f"give the row the place where now '{one.broken}' could happen, or another change of this package"
            )
    return told


def expression(tier: str, root: Path = ROOT) -> str:
    """The marker expression of a tier: what pyproject.toml has, what it leaves out first, or nothing.

    Example:
        >>> expression("all")
        ''
    """
    options = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["addopts"]
    words = shlex.split(options)
    default = words[words.index("-m") + 1] if "-m" in words else ""
    left_out = re.findall(r"not (\w+)", default)
    return {"default": default, "full": left_out[0] if left_out else "", "all": ""}[tier]


def stages(mutation: Mutation, root: Path, near: bool) -> Iterator[tuple[str, list[str]]]:
    """Names of stages and their paths: the file's own tests, those of its folders up to its package, all others."""
    parts = Path(mutation.file).with_suffix("").parts
    for n in range(len(parts) - 1, -1, -1):
        folder, name = root.joinpath("tests", *parts[:n]), parts[n]
        found = [*([folder / name] if (folder / name).is_dir() else []), *sorted(folder.glob(f"test_{name}*.py"))]
        paths = [str(path.relative_to(root)) for path in found]
        own = n == len(parts) - 1
        if own or paths:
            yield ("module", [mutation.path, *paths]) if own else ("package", paths)
    if not near:
        yield "rest", ["tests", PACKAGE]


class Copies:
    """Copies of the checkout in which tests run, one for each worker.

    Args:
        tier: of the tests.
        near: whether to stop after the tests of the package.
        cache: a folder for compiled programs, or None.
        workers: how many copies.
        scratch: where they are.
    """

    def __init__(self, tier: str, near: bool, cache: Path | None, workers: int, scratch: Path):
        self.marker, self.near, self.cache, self.scratch = expression(tier), near, cache, scratch
        self.running: set[subprocess.Popen] = set()
        self.over = False
        self.free: SimpleQueue[int] = SimpleQueue()
        for number in range(workers):
            self.free.put(number)
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
        self.files = [name for name in listed.stdout.split("\0") if name and (ROOT / name).is_file()]

    def run(self, mutation: Mutation | None) -> Result:
        """What the tests make of a mutation, or of the unchanged checkout."""
        worker = self.free.get()
        try:
            begin = time.monotonic()
            outcome, test, stage = self._looked_at(mutation, self.scratch / f"copy-{worker}", worker)
            known = (0, "", "", "nothing") if mutation is None else (*mutation[:3], mutation.broken)
            return Result(*known, outcome, test, stage, round(time.monotonic() - begin, 1))
        finally:
            self.free.put(worker)

    def _looked_at(self, mutation: Mutation | None, copy: Path, worker: int) -> tuple[str, str, str]:
        shutil.rmtree(copy, ignore_errors=True)
        for name in self.files:
            place = copy / name
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, place)
        environment = self._environment(copy, worker)
        if mutation is None:
            plan = iter([("rest", ["tests", PACKAGE])])
        else:
            file = copy / mutation.path
            file.write_text(file.read_text().replace(mutation.text, mutation.replacement))
            name = mutation.path.removesuffix(".py").replace("/", ".")
            code = f"import {PACKAGE}, {name}; assert {PACKAGE}.__file__.startswith({str(copy)!r}), {PACKAGE}.__file__"
            returned, output = self._process([sys.executable, "-c", code], copy, environment)
            if returned != 0:
                return "import", output.strip().rpartition("\n")[2], "import"
            plan = stages(mutation, copy, self.near)
        # In a copy with a mutation the table does not fit the code, which is no test of the change.
        done = ["tests/test_mutations.py"]
        for stage, paths in plan:
            options = ["-x", "-q", "-n", "0", "-rfE", "--tb=short", "--no-header", "-m", self.marker]
            # The tests of the kernel keep its code there from one run to the next.
            options += ["-o", f"cache_dir={self.scratch / f'pytest-{worker}'}", *(f"--ignore={path}" for path in done)]
            command = [sys.executable, "-m", "pytest", *options, *paths]
            returned, output = self._process(command, copy, environment)
            done += paths
            # 5: none of the tests is of this tier.
            if returned not in (0, 5):
                return *_failure(returned, output), stage
        return "unseen", "", ""

    def _environment(self, copy: Path, worker: int) -> dict[str, str]:
        environment = os.environ | {"PYTHONPATH": str(copy), "COLUMNS": "300"}
        data = ROOT.parent / "shared" / "data"
        if data.is_dir():
            environment.setdefault("DIFFCONTACT_DATA", str(data))
        kept = "off" if self.cache is None else str(self.cache.resolve() / str(worker))
        environment |= {"DIFFCONTACT_CACHE": kept, "DIFFCONTACT_TEST_CACHE": kept}
        if self.cache is not None:
            # Each worker has a folder of its own: what one writes the other might read by halves.
            environment |= {"JAX_COMPILATION_CACHE_DIR": kept, "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0.2"}
        return environment

    def _process(self, command: list[str], folder: Path, environment: dict[str, str]) -> tuple[int | None, str]:
        """The exit status, None where it took too long, and what was printed."""
        if self.over:
            raise InterruptedError("no further tests begin")
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.running.add(process)
        try:
            output, _ = process.communicate(timeout=LIMIT)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            return None, ""
        finally:
            self.running.discard(process)
            stop(process)

    def stop(self) -> None:
        """End what runs, and begin nothing more."""
        self.over = True
        for process in list(self.running):
            stop(process)


def stop(process: subprocess.Popen) -> None:
    """End a process and those that it has begun."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _failure(returned: int | None, output: str) -> tuple[str, str]:
    """The outcome of tests that did not pass, and the first that failed."""
    if returned is None:
        return "endless", ""
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    test = found.group(1) if found else output.strip().rpartition("\n")[2]
    if returned < 0:
        return "crash", test
    # Of what cannot be collected there is no test but the file.
    return ("seen" if returned == 1 and "::" in test else "import"), test


def chosen(only: Sequence[int] | None, packages: Sequence[str] | None) -> list[Mutation]:
    """The rows that were asked for.

    Raises:
        ValueError: there is no such row or package.
    """
    numbers, names = {one.number for one in MUTATIONS}, {one.package for one in MUTATIONS}
    if unknown := sorted(set(only or ()) - numbers):
        raise ValueError(f"--only {unknown[0]}: no such row, expected {min(numbers)} to {max(numbers)}")
    if unknown := sorted(set(packages or ()) - names):
        raise ValueError(f"--package {unknown[0]}: no such package, expected one of {', '.join(sorted(names))}")
    return [one for one in MUTATIONS if one.number in (only or numbers) and one.package in (packages or names)]


def line(result: Result) -> str:
    """A result as the table has it."""
    told = f"{result.number:4}  {result.package:11}  {result.outcome:7}  {result.seconds:7.0f} s  {result.broken}"
    return f"{told}\n{'':37}{result.test}" if result.test else told


def table(results: Sequence[Result]) -> str:
    """All results in order, and how many of each package were seen."""
    lines = [*(line(one) for one in sorted(results, key=lambda one: one.number)), ""]
    for package in (*dict.fromkeys(one.package for one in MUTATIONS), "all"):
        those = [one.seen for one in results if package in (one.package, "all")]
        if those:
            lines.append(f"{package:11} {sum(those)} of {len(those)}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the mutations that were asked for."""
    parser = argparse.ArgumentParser(description="Single wrong changes to the package, and whether its tests see them.")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="rows of the table; default: all")
    parser.add_argument("--package", nargs="+", metavar="NAME", help="packages of the table; default: all")
    parser.add_argument("--tier", choices=("default", "full", "all"), default="default", help="which tests run")
    parser.add_argument("--near", action="store_true", help="stop after the tests of the changed file's package")
    parser.add_argument("--workers", type=int, default=1, help="how many mutations run at a time")
    parser.add_argument("--cache", type=Path, metavar="FOLDER", help="where compiled programs are kept")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where the results are written, after each of them")
    options = parser.parse_args(arguments)
    try:
        rows = chosen(options.only, options.package)
    except ValueError as error:
        parser.error(str(error))
    if told := misfits():
        print("\n".join(told), file=sys.stderr)
        return 2
    results: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="mutations-") as scratch:
        copies = Copies(options.tier, options.near, options.cache, options.workers, Path(scratch).resolve())
        # Tests that fail anyway would see everything.
        if not (options.only or options.package or options.near):
            unchanged = copies.run(None)
            print(f"unchanged: {unchanged.outcome}, {unchanged.seconds:.0f} s {unchanged.test}", flush=True)
            if unchanged.seen:
                return 2
        pool = ThreadPoolExecutor(options.workers)
        try:
            for future in as_completed([pool.submit(copies.run, row) for row in rows]):
                results.append(future.result())
                print(line(results[-1]), flush=True)
                if options.json is not None:
                    options.json.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            copies.stop()
            pool.shutdown()
    print(f"\n{table(results)}")
    return 0 if sum(one.seen for one in results) >= WANTED * len(results) else 1


if __name__ == "__main__":
    # The tests that run are in sessions of their own, and end with the tool only by its own hand.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())
