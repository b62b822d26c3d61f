"""Run a function over a batch of parameters: in chunks, on all devices and processes, streamed to a file."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing, nullcontext, suppress
from os import PathLike
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import multihost_utils

from diffcontact.arguments import is_count
from diffcontact.ensemble.store import Arrays, Store, digest
from diffcontact.ensemble.tasks import Conditions, LostChunkError, Task, dealt, require_executor, vectorised
from diffcontact.host.messages import say
from diffcontact.host.messages import shown as brief
from diffcontact.host.progress import shown, stage
from diffcontact.numerics.batching import side_by_side
from diffcontact.status import Status


def ensemble(
    run: Callable[[Any], Any],
    batch: Any,
    *,
    chunk: int | None = None,
    progress: bool = False,
    store: str | Path | None = None,
    fixed: Any = None,
    executor: Any = None,
) -> Any:
    """Run a function for every lane of a batch, vectorised.

    Chunk after chunk goes to all devices that jax sees and comes back to the host, so that the devices' memory holds
    one chunk whatever the batch is. It compiles once: the last chunk is filled up with its last lane.

    With several processes (each calls `jax.distributed.initialize` first, and then this with the same arguments) the
    chunks are dealt out, one at a time to each, and their outputs gathered; as the chunks are the same whatever the
    number of processes, so are the numbers, bit for bit, on devices of the same kind and number in each. On CPUs the
    processes talk through gloo, which is jax's default (`jax_cpu_collectives_implementation`).

    With an executor the chunks are its tasks: threads, processes that were spawned, the workers of Dask, Ray, mpi4py
    or submitit. They compute as this process does (double precision, number and kind of devices, versions), so that
    the numbers are the same, bit for bit, on processors of the same kind. Only this process writes the store.

    Args:
        run: params -> any pytree of arrays; pure. A lane that fails says so in its output (`Trajectory.status`).
        batch: pytree of arrays with a common leading axis (n, ...), what `run` is given without it.
        chunk: lanes that one process takes at once, rounded up to a multiple of the number of its devices; None: 256
            a CPU, 16 384 an accelerator.
        progress: show a bar on a terminal's stderr, and at the end say on stdout how many lanes are fine and what is
            wrong with the others.
        store: an HDF5 file (needs h5py) that takes the batch (`parameters/...`) and each chunk's outputs
            (`outputs/...`) as they come. If it is there already, of the same batch, what it holds is not run again:
            the outputs are the same, bit for bit, as without the interruption, and each chunk is compared with the
            checksum that was written with it. It cannot see that `run` was changed, other than by `fixed`. Of several
            processes the first one writes it.
        fixed: pytree of arrays that goes into the store beside the batch (`fixed/...`), and is compared with what is
            there: what `run` has besides its parameters, the same in every lane. `run` is not given it.
        executor: where the chunks are run instead of here: has `submit(function, *arguments)`, which gives a future
            with `result()`, as in `concurrent.futures`. Two tasks a worker are under way at a time, 16 where the
            number of workers is not known. `run` travels by cloudpickle, or, without it, by pickle, which knows
            functions of a module only; a worker has a module as it was when it imported it. A task whose worker dies
            is retried if the executor does that (Dask does).

    Returns:
        The outputs of `run`, each with a leading axis (n, ...), as numpy arrays, in every process. With a store those
        of the first process are mapped from the file, read-only, and take memory only where they are looked at.

    Raises:
        ValueError: a run that is no function or gives no arrays; a batch, or what is fixed, of other than numbers; no
            lanes, leading axes that differ, a chunk below 1; a store of another batch or of other outputs, one that is
            damaged or that another process writes, or in which two arrays would have one name; processes that were
            given different batches; an executor that is none, forks or comes on top of several processes; a run that
            cannot be sent to a worker.
        RuntimeError: a chunk was lost by the executor, as where a worker died, or cannot compute as this process does;
            the message names the chunk. All that were brought are in the store, and the same call goes on from there.
        OSError: the store cannot be read or written, as on a full disk; what it holds is kept, and can be resumed.
        ModuleNotFoundError: `store` without h5py; a lambda or a function within a function on an executor, without
            cloudpickle.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
        >>> fixed = dict(mass=jnp.ones(1), radius=jnp.zeros(1), gravity=jnp.array([-9.81]))
        >>> def final_height(p):
        ...     return dc.simulate(ball, {**fixed, **p}, [1.0], [0.0], jnp.linspace(0.0, 1.0, 11)).q[-1, 0]
        >>> heights = dc.ensemble(final_height, {"restitution": jnp.array([0.5, 0.8])}, chunk=2)
        >>> [f"{height:.4f}" for height in heights]
        ['0.0613', '0.4680']

        The same by threads:

        >>> from concurrent.futures import ThreadPoolExecutor
        >>> batch = {"restitution": jnp.array([0.5, 0.8])}
        >>> with ThreadPoolExecutor(2) as workers:
        ...     np.array_equal(dc.ensemble(final_height, batch, chunk=2, executor=workers), heights)
        True
    """
    _require_arguments(run, batch, store, fixed)
    count, devices = _lanes(batch), tuple(jax.local_devices())
    task = None
    if executor is not None:
        require_executor(executor)
        task = Task(run, Conditions.here(devices))
    batch = jax.tree.map(np.asarray, batch)
    chunk = _chunk(chunk, count, devices)
    shapes = _shapes(run, batch, count)
    results = _results(store, batch, fixed, shapes, chunk)
    missing = np.flatnonzero(~results.done)
    before = max(count - missing.size * chunk, 0)

    def lanes(number):
        return _lanes_of(number, batch, chunk, count)

    if task is None:
        done = _by_processes(vectorised(run, devices), missing, lanes)
    else:
        done = _by_executor(executor, task, missing, lanes, shapes, chunk, store)
    told = progress and jax.process_index() == 0
    with shown() if told else nullcontext(), stage("lanes", count, before) as at, closing(results), closing(done):
        for written, (number, values) in enumerate(done, 1):
            results.write(number, values)
            at(min(before + written * chunk, count))
        outputs = results.outputs()
    if told and (said := summary(outputs)):
        say(said)
    return outputs


def summary(outputs: Any) -> str:
    """Say how many lanes are fine, and what is wrong with others, by `status` (n,).

    Empty where the outputs hold no status.
    """
    leaves = jax.tree_util.tree_leaves_with_path(outputs)
    named = (leaf for path, leaf in leaves if path and jax.tree_util.keystr(path[-1:], simple=True) == "status")
    status = next((leaf for leaf in named if leaf.ndim == 1 and np.isin(leaf, list(Status)).all()), None)
    if status is None:
        return ""
    parts = [f"{np.sum(status == Status.OK)} of {status.size} lanes are fine"]
    for code in np.unique(status[status != Status.OK]):
        which = np.flatnonzero(status == code)
        told = ", ".join(map(str, which[:5])) + (", ..." if which.size > 5 else "")
        parts.append(f"{which.size} {Status(int(code)).name} (lanes {told}): {Status(int(code)).message}")
    return "; ".join(parts)


def _require_arguments(run, batch, store, fixed) -> None:
    if not callable(run):
        raise ValueError(f"ensemble(run={brief(run)}): expected a function of the parameters of one lane")
    if not (store is None or isinstance(store, str | PathLike)):
        raise ValueError(f"ensemble(store={brief(store)}): expected the name of a file, or None")
    for what, tree in (("batch", batch), ("fixed", fixed)):
        for path, leaf in jax.tree_util.tree_leaves_with_path(tree):
            if not _is_number(leaf):
                name = what + jax.tree_util.keystr(path)
                raise ValueError(f"ensemble({what}): {name}: expected numbers, got {brief(leaf)}")


def _is_number(leaf) -> bool:
    """Tell whether numpy knows a leaf as numbers or truth values."""
    try:
        dtype = getattr(leaf, "dtype", None) or np.asarray(leaf).dtype
    except (TypeError, ValueError):
        return False
    return jnp.issubdtype(dtype, np.bool_) or jnp.issubdtype(dtype, np.number)


def _lanes(batch) -> int:
    """Return the common length of the leading axes."""
    leaves = jax.tree_util.tree_leaves_with_path(batch)
    if not leaves:
        raise ValueError("ensemble(batch): empty, expected at least one array")
    lengths = {jax.tree_util.keystr(path): np.shape(leaf)[:1] for path, leaf in leaves}
    for name, length in lengths.items():
        if length == () or length == (0,) or length != next(iter(lengths.values())):
            told = ", ".join(f"{name or 'batch'} {length or 'none'}" for name, length in lengths.items())
            raise ValueError(f"ensemble(batch): expected a common leading axis of at least 1, got {told}")
    return next(iter(lengths.values()))[0]


def _chunk(chunk, count, devices) -> int:
    """Choose lanes at once, as many for every device."""
    if chunk is None:
        chunk = side_by_side(devices[0].platform).ensemble * len(devices)
    if not is_count(chunk, 1):
        raise ValueError(f"ensemble(chunk={chunk!r}): expected an integer of at least 1, or None")
    return -(-min(int(chunk), count) // len(devices)) * len(devices)


def _lanes_of(number, batch, chunk, count):
    """Select a chunk's lanes; beyond the last lane comes the last again."""
    index = np.minimum(np.arange(number * chunk, (number + 1) * chunk), count - 1)
    return jax.tree.map(lambda x: x[index], batch)


def _shapes(run, batch, count):
    """Return shapes and dtypes (n, ...) of the outputs; jax decides how wide a number is."""
    lane = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], jax.dtypes.canonicalize_dtype(x.dtype)), batch)
    try:
        shapes = jax.eval_shape(run, lane)
    except Exception as error:
        # Which one it is for a result that is no array depends on where in a tree it is.
        _require_arrays(run, lane, error)
        raise
    if not jax.tree.leaves(shapes):
        raise ValueError(f"ensemble(run): expected it to return at least one array, got {brief(shapes)}")
    return jax.tree.map(lambda x: jax.ShapeDtypeStruct((count, *x.shape), x.dtype), shapes)


def _require_arrays(run, lane, error: Exception) -> None:
    """Refuse a run that returns no arrays; one that failed raises its own error."""
    returned = []
    with suppress(Exception):
        jax.eval_shape(lambda params: returned.append(run(params)), lane)
    for path, leaf in jax.tree_util.tree_leaves_with_path(returned[:1]):
        if not isinstance(leaf, jax.Array) and not _is_number(leaf):
            name = "its result" + jax.tree_util.keystr(path[1:])
            raise ValueError(f"ensemble(run): {name}: expected an array, got {brief(leaf)}") from error


def _by_processes(run, missing, lanes) -> Generator[tuple[int, Any], None, None]:
    """Yield each chunk's number and outputs, dealt out to the processes that jax knows."""
    processes = jax.process_count()
    for begin in range(0, missing.size, processes):
        numbers = missing[begin : begin + processes]
        # A process for which none is left does the last one too: all take part in the gathering.
        mine = numbers[min(jax.process_index(), numbers.size - 1)]
        yield from zip(numbers, gathered(run(lanes(mine))), strict=False)


def _by_executor(executor, task, missing, lanes, shapes, chunk, store) -> Generator[tuple[int, Any], None, None]:
    """Yield each chunk's number and outputs, dealt out to an executor's workers."""
    expected, structure = jax.tree.flatten(shapes)

    def told(number):
        return f"chunk {number} (lanes {number * chunk} to {min((number + 1) * chunk, expected[0].shape[0]) - 1})"

    try:
        for number, outputs in dealt(executor, task, ((n, lanes(n)) for n in missing.tolist()), told):
            if [(x.dtype, x.shape) for x in outputs] != [(x.dtype, (chunk, *x.shape[1:])) for x in expected]:
                got = ", ".join(f"{x.dtype} {x.shape}" for x in outputs)
                raise LostChunkError(
                    f"ensemble(executor): {told(number)} came back as {got}, unlike what `run` gives here"
                )
            yield number, jax.tree.unflatten(structure, outputs)
    except LostChunkError as lost:
        if store is None:
            raise
        raise LostChunkError(f"{lost}; {store} has what was done, the same call goes on from there") from lost.__cause__


def _results(store, batch, fixed, shapes, chunk) -> Arrays | Store:
    """Choose the store in the first process, else arrays, with what is already done."""
    count, first = jax.tree.leaves(batch)[0].shape[0], jax.process_index() == 0
    call = (batch, fixed, shapes, chunk)
    try:
        results = Store(store, *call) if store is not None and first else Arrays(shapes, chunk, count)
    except (ValueError, OSError, ModuleNotFoundError):
        _agree(store, call, refused=True)
        raise
    _agree(store, call, refused=False)
    if jax.process_count() > 1:
        results.done = gathered({"done": results.done})[0]["done"]
        for number in np.flatnonzero(results.done).tolist():
            held = gathered(_lanes_of(number, results.outputs(), chunk, count))[0]
            if not first:
                results.write(number, held)
    return results


def _agree(store, call, *, refused: bool) -> None:
    """Raise in all processes the error of one: others would wait in the next gathering."""
    if jax.process_count() == 1:
        return
    alike = np.frombuffer(bytes.fromhex(digest(*call)), np.uint8)
    told = gathered({"alike": alike, "refused": np.array(refused)})
    if told[0]["refused"] and not refused:
        raise ValueError(f"ensemble(store={str(store)!r}): refused by the first process, whose error says why")
    if not all(np.array_equal(one["alike"], alike) for one in told):
        raise ValueError("ensemble(batch): differs between the processes, expected the same arguments in each")


def gathered(values: Any) -> list[Any]:
    """Collect the values of every process, bit for bit, in the order of processes.

    Every process must call it, with the same structure, shapes and dtypes.

    Example:
        >>> gathered({"status": np.array([0, 1])})  # of the only process there is
        [{'status': array([0, 1])}]
    """
    if jax.process_count() == 1:
        return [values]
    leaves, structure = jax.tree.flatten(values)
    # As bytes: one message whatever the dtypes are, and no number is converted on the way.
    message = np.concatenate([np.ascontiguousarray(leaf).reshape(-1).view(np.uint8) for leaf in leaves])
    ends = np.cumsum([leaf.nbytes for leaf in leaves])[:-1]
    return [
        jax.tree.unflatten(
            structure,
            [part.view(leaf.dtype).reshape(leaf.shape) for part, leaf in zip(np.split(row, ends), leaves, strict=True)],
        )
        for row in multihost_utils.process_allgather(message)
    ]
