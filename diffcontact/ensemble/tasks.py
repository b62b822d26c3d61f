"""Compute chunks of an ensemble as tasks, here or wherever an executor takes them, a few at a time.

A task has the same numbers in another process as here: it takes along what they depend on besides its arguments.
"""

from __future__ import annotations

import os
import pickle
import platform
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from importlib import import_module
from importlib.util import find_spec
from threading import Event, Lock
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from diffcontact.host.messages import shown
from diffcontact.host.versions import versions
from diffcontact.qp import kernel

# Tasks under way at a time: for each worker, so that none waits for the caller, and where their number is not known.
_EACH, _UNKNOWN = 2, 16
# Settings of the computation, by their names in `jax` and, after jax_, in `jax.config`.
_SETTINGS = ("enable_x64", "default_matmul_precision", "default_prng_impl", "threefry_partitionable")
# One thread makes a function for all threads: an `lru_cache` alone lets two threads make it at once.
_MAKING = Lock()


# A process that was forked since has JAX's locks without the threads that hold them: it would wait for ever.
_IMPORTED_BY = os.getpid()
_FORKED = (
    "the worker was forked from a process that uses jax, in which jax hangs; expected workers that are spawned, as of "
    "ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))"
)


class LostChunkError(RuntimeError):
    """An executor did not bring a chunk's outputs."""


@lru_cache(maxsize=16)
def vectorised(run: Callable[[Any], Any], devices: tuple[Any, ...]) -> Callable[[Any], Any]:
    """Compile the run over a chunk's lanes, from numpy arrays to numpy arrays.

    Each device loops over its own part of the lanes only; all parts have the same length.
    """
    mesh = jax.sharding.Mesh(np.array(devices), ("lanes",))
    spec = PartitionSpec("lanes")
    lanes = jax.vmap(run)
    if len(devices) > 1:
        lanes = jax.shard_map(lanes, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
    compiled, sharding = jax.jit(lanes), NamedSharding(mesh, spec)

    def compute(chunk):
        return jax.tree.map(np.asarray, compiled(jax.device_put(chunk, sharding)))

    return _first_alone(compute)


def _first_alone(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Let other threads wait for the function's first call, in which it compiles."""
    first, called = Lock(), Event()

    def call(argument):
        with first:
            if not called.is_set():
                done = function(argument)
                called.set()
                return done
        return function(argument)

    return call


@dataclass(frozen=True)
class Conditions:
    """Hold what a compiled function's numbers depend on besides its arguments.

    Attributes:
        platform: of the devices, as "cpu".
        devices: how many a chunk is spread over.
        kernel: whether projections are the native kernel's.
        versions: of the packages that make the numbers, and of Python, whose functions are sent.
        settings: name and value of jax's own.
    """

    platform: str
    devices: int
    kernel: bool
    versions: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, Any], ...]

    @classmethod
    def here(cls, devices: tuple[Any, ...]) -> Conditions:
        """Read the conditions of this thread; another one's may differ."""
        settings = tuple((name, getattr(jax.config, f"jax_{name}")) for name in _SETTINGS)
        return cls(devices[0].platform, len(devices), kernel.ready(), _versions(), settings)

    @contextmanager
    def held(self) -> Iterator[tuple[Any, ...]]:
        """Hold the conditions in this thread and give the devices; ValueError where one is missing."""
        for (name, there), (_, here) in zip(self.versions, _versions(), strict=True):
            if there != here:
                raise ValueError(f"the worker has {name} {here}, expected {there} as in the caller")
        with ExitStack() as stack:
            for name, value in self.settings:
                stack.enter_context(getattr(jax, name)(value))
            devices = _devices(self.platform)[: self.devices]
            if len(devices) < self.devices:
                told = f"{len(devices)} {self.platform} devices, expected {self.devices} as in the caller"
                raise ValueError(f"the worker has {told}")
            if kernel.ready() != self.kernel:
                wanted = "native" if self.kernel else "jax"
                raise ValueError(f"the worker projects otherwise; expected {kernel.VARIABLE}={wanted} as in the caller")
            yield devices


@lru_cache(maxsize=1)
def _versions() -> tuple[tuple[str, str], ...]:
    found = versions()
    python = ".".join(platform.python_version_tuple()[:2])
    return (*((name, found[name]) for name in ("diffcontact", "jax", "jaxlib")), ("Python", python))


def _devices(platform: str) -> tuple[Any, ...]:
    try:
        return tuple(jax.local_devices(backend=platform))
    except RuntimeError:
        return ()


@dataclass(frozen=True, eq=False)
class Task:
    """Map a chunk's lanes to the leaves of its outputs, here or, pickled, elsewhere.

    The run travels by cloudpickle, which knows lambdas and functions within functions, or by pickle, which knows those
    of a module only. jax's arrays in it travel as numpy's do. `name` tells this call from any other.
    """

    run: Callable[[Any], Any]
    conditions: Conditions
    name: str = field(default_factory=lambda: uuid.uuid4().hex, repr=False)

    def __call__(self, lanes: Any) -> list[np.ndarray]:
        with self.conditions.held() as devices:
            with _MAKING:
                compute = vectorised(self.run, devices)
            return jax.tree.leaves(compute(lanes))

    @cached_property
    def packed(self) -> bytes:
        """Pickle the run for another process.

        Raises:
            ModuleNotFoundError: it needs cloudpickle, which is not installed.
            ValueError: it holds something that stays in this process, as an open file.
        """
        knows_more = find_spec("cloudpickle") is not None
        try:
            return (import_module("cloudpickle") if knows_more else pickle).dumps(self.run)
        except Exception as error:
            what = f"ensemble(run={shown(self.run)}): cannot be sent to another process ({_line(error)})"
            if knows_more:
                raise ValueError(what) from error
            raise ModuleNotFoundError(f"{what}; needs cloudpickle, pip install cloudpickle") from error

    def __reduce__(self):
        return _Packed, (self.conditions, self.packed)

    def __dask_tokenize__(self) -> str:
        # Dask answers a task that it knows by name with what it has: a chunk that was lost would be lost for ever.
        return self.name


@dataclass(frozen=True)
class _Packed:
    """Open the task when it is called: a worker that cannot open it must live to say so."""

    conditions: Conditions
    run: bytes

    def __call__(self, lanes: Any) -> list[np.ndarray]:
        if os.getpid() != _IMPORTED_BY:
            raise RuntimeError(_FORKED)
        with _MAKING:
            task = _opened(self.conditions, self.run)
        return task(lanes)


@lru_cache(maxsize=8)
def _opened(conditions: Conditions, packed: bytes) -> Task:
    """Open one task for all chunks, so that it compiles once."""
    # Where they do not hold, jax's arrays could be read in single precision.
    with conditions.held():
        return Task(pickle.loads(packed), conditions)


@dataclass(frozen=True)
class Ticket:
    """Name the call and the number of a chunk, which come back beside its outputs."""

    call: str
    number: int


def run_chunk(task: Callable[[Any], list[np.ndarray]], ticket: Ticket, lanes: Any) -> tuple[Ticket, list[np.ndarray]]:
    """Compute a chunk; executors call it."""
    return ticket, task(lanes)


def _taken(answer: Any, ticket: Ticket) -> list[np.ndarray]:
    """Return the outputs in an executor's answer; ValueError without any, or for another ticket."""
    if not (isinstance(answer, tuple) and len(answer) == 2 and isinstance(answer[0], Ticket)):
        raise ValueError(f"expected what the task returns, got {shown(answer)}")
    came, outputs = answer
    if came != ticket:
        whose = f"chunk {came.number}" if came.call == ticket.call else "another call"
        raise ValueError(f"the outputs of {whose} came in its place")
    return outputs


def require_executor(executor: Any) -> None:
    """Refuse objects that take no tasks, and processes in which jax would hang."""
    if not callable(getattr(executor, "submit", None)):
        raise ValueError(
            f"ensemble(executor={shown(executor)}): expected an object with submit(function, *arguments), as in "
            "concurrent.futures"
        )
    if jax.process_count() > 1:
        raise ValueError(
            f"ensemble(executor): given to one of {jax.process_count()} processes of jax, expected one alone"
        )
    if isinstance(executor, ProcessPoolExecutor):
        context: Any = getattr(executor, "_mp_context", None)
        if context is not None and context.get_start_method() == "fork":
            raise ValueError(
                "ensemble(executor): a ProcessPoolExecutor that forks, in which jax hangs; expected "
                "ProcessPoolExecutor(mp_context=multiprocessing.get_context('spawn'))"
            )


def dealt(
    executor: Any, task: Task, chunks: Iterable[tuple[int, Any]], told: Callable[[int], str]
) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Yield the chunks' outputs in their order, with a few chunks under way.

    After a failure no chunk is begun, and those under way are waited for, so that nothing that was computed is lost.

    Args:
        executor: has submit(function, *arguments), which gives a future with result().
        chunks: number and lanes of each.
        told: names a chunk in messages, by its number.

    Raises:
        LostChunkError: after all others, of the first chunk that failed, or for which something else came.
        ModuleNotFoundError, ValueError: the task cannot be sent.
    """
    if not isinstance(executor, ThreadPoolExecutor):
        task.packed  # noqa: B018  (raises before anything is begun)
    waiting, under_way, failure = iter(chunks), deque(), None
    try:
        while True:
            while failure is None and len(under_way) < _most(executor) and (chunk := next(waiting, None)) is not None:
                under_way.append((chunk[0], _submitted(executor, task, *chunk)))
            if not under_way:
                break
            number, future = under_way.popleft()
            try:
                outputs = _taken(future.result(), Ticket(task.name, number))
            except Exception as error:
                failure = failure or (number, error)
                continue
            yield number, outputs
    finally:
        for _, future in under_way:
            with suppress(AttributeError):
                future.cancel()
    if failure is not None:
        number, error = failure
        raise LostChunkError(f"ensemble(executor): {told(number)} was lost ({_line(error)})") from error


def _submitted(executor: Any, task: Task, number: int, lanes: Any) -> Any:
    """Return the future of a task, also where the executor takes no more."""
    try:
        return executor.submit(run_chunk, task, Ticket(task.name, number), lanes)
    except Exception as error:
        refused = Future()
        refused.set_exception(error)
        return refused


def _most(executor: Any) -> int:
    """Choose how many tasks may be under way."""
    workers = getattr(executor, "_max_workers", None)
    client = getattr(executor, "_client", executor)
    if hasattr(client, "nthreads"):
        # Dask's workers come and go; where its scheduler has gone, the next task says so.
        with suppress(Exception):
            workers = sum(client.nthreads().values())
    return _EACH * workers if workers else _UNKNOWN


def _line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".removesuffix(": ").split())
