"""Chunks on an executor: the same bytes as here, whatever carries them and whatever dies on the way."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
import time
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.ensemble import tasks

BATCH = {"a": np.linspace(0.1, 1.0, 10), "b": np.arange(30.0).reshape(10, 3)}


def _run(p):
    """One third differs between the precisions, random numbers between the generators."""
    noise = jax.random.normal(jax.random.key(p["b"][0].astype(int)), (2,))
    return {"third": p["a"] / 3 + jnp.sum(p["b"]), "noise": noise, "lane": p["b"][0].astype(int)}


def _negative(a):
    return -a


def _end_of_worker(p):
    """Here it can be traced; a worker that takes it up ends as by a signal, if it finds the file of its name."""
    if multiprocessing.parent_process() is not None:
        os.kill(os.getpid(), signal.SIGKILL)
    return _run(p)


class Here:
    """The least that is an executor: computes at once, what has been through pickle, as on another machine."""

    def __init__(self):
        self.submitted = self.taken = self.most = 0

    def submit(self, function, *arguments):
        self.submitted += 1
        self.most = max(self.most, self.submitted - self.taken)
        function, arguments = pickle.loads(pickle.dumps((function, arguments)))
        executor = self

        class Result:
            def result(self):
                executor.taken += 1
                return function(*arguments)

        return Result()


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of the file without an executor."""
    file = tmp_path_factory.mktemp("whole") / "runs.h5"
    dc.ensemble(_run, BATCH, chunk=3, store=file)
    return file.read_bytes()


@pytest.fixture(scope="module")
def spawned():
    """One process, in which jax begins with its defaults: single precision."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor:
        yield executor


@pytest.fixture
def carried(request):
    if request.param == "spawned":
        yield request.getfixturevalue("spawned")
    elif request.param == "threads":
        with ThreadPoolExecutor(2) as executor:
            yield executor
    else:
        yield Here()


@pytest.mark.parametrize("carried", ["threads", pytest.param("spawned", marks=pytest.mark.full), "here"], indirect=True)
def test_an_executor_gives_the_same_bytes(tmp_path, whole, carried):
    file = tmp_path / "runs.h5"
    dc.ensemble(_run, BATCH, chunk=3, store=file, executor=carried)
    assert file.read_bytes() == whole


@pytest.mark.full
def test_single_precision_holds_in_the_worker(spawned, tmp_path):
    files = [tmp_path / name for name in ("here.h5", "there.h5")]
    with jax.enable_x64(False):
        for file, executor in zip(files, (None, spawned), strict=True):
            out = dc.ensemble(_run, BATCH, chunk=3, store=file, executor=executor)
            assert out["third"].dtype == np.float32
    assert files[0].read_bytes() == files[1].read_bytes()


@pytest.mark.full
def test_the_generator_of_random_numbers_holds_in_the_worker():
    def drawn(executor):
        return dc.ensemble(lambda seed: jax.random.normal(jax.random.key(seed)), np.arange(4), executor=executor)

    with jax.default_prng_impl("rbg"), ThreadPoolExecutor(1) as executor:
        here, there = drawn(None), drawn(executor)
    np.testing.assert_array_equal(there, here)
    assert not np.any(here == drawn(None))


def test_what_was_compiled_here_serves_an_executor_too(caplog):
    dc.ensemble(_run, BATCH, chunk=3)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        dc.ensemble(_run, BATCH, chunk=3, executor=Here())
    assert not [record for record in caplog.records if "Compiling" in record.getMessage()]


@pytest.mark.parametrize(("workers", "most"), [(2, 4), (None, 16)])
def test_few_chunks_are_under_way_at_a_time(workers, most):
    executor = Here()
    executor._max_workers = workers
    assert dc.ensemble(_negative, np.arange(30), chunk=1, executor=executor).tolist() == [-i for i in range(30)]
    assert (executor.submitted, executor.most) == (30, most)


@pytest.mark.full
def test_threads_compile_once(monkeypatch):
    """Also where the second thread comes while the first has only just begun."""
    traced, vmap = [], jax.vmap

    def slow(*arguments, **options):
        time.sleep(0.05)
        return vmap(*arguments, **options)

    monkeypatch.setattr(jax, "vmap", slow)

    def run(a):
        traced.append(threading.current_thread())
        time.sleep(0.05)
        return a / 7

    with ThreadPoolExecutor(4) as executor:
        dc.ensemble(run, BATCH["a"], chunk=1, executor=executor)
    # Here for the shapes of what it gives, and in one of the threads.
    assert len(traced) == 2


class Losing(Here):
    """Loses the chunk of one number, and takes no more a while later."""

    def __init__(self, lost, closed):
        super().__init__()
        self.lost, self.closed = lost, closed

    def submit(self, function, *arguments):
        if self.submitted == self.closed:
            raise OSError("closed")
        future = super().submit(function, *arguments)
        if self.submitted - 1 == self.lost:
            future = Future()
            future.set_exception(EOFError("the worker\nwent away"))
        return future


@pytest.mark.parametrize(
    ("lost", "closed", "message", "done"),
    [
        (1, 99, r"chunk 1 \(lanes 3 to 5\) was lost \(EOFError: the worker went away\)", [1, 0, 1, 1]),
        (99, 3, r"chunk 3 \(lanes 9 to 9\) was lost \(OSError: closed\)", [1, 1, 1, 0]),
        (0, 2, r"chunk 0 \(lanes 0 to 2\) was lost", [0, 1, 0, 0]),
    ],
)
def test_a_lost_chunk_is_named_and_run_again(tmp_path, whole, lost, closed, message, done):
    file = tmp_path / "runs.h5"
    with pytest.raises(RuntimeError, match=rf"^ensemble\(executor\): {message}.*; .*runs.h5 has what was done, the s"):
        dc.ensemble(_run, BATCH, chunk=3, store=file, executor=Losing(lost, closed))
    with h5py.File(file) as held:
        assert held["done"][:].tolist() == done
    executor = Here()
    dc.ensemble(_run, BATCH, chunk=3, store=file, executor=executor)
    assert executor.submitted == 4 - sum(done)
    assert file.read_bytes() == whole


class Mistaken(Here):
    """Answers for the chunk of one number with something else: `answer`, of what it gave before and gives now."""

    def __init__(self, number, answer):
        super().__init__()
        self.number, self.answer, self.given = number, answer, []

    def submit(self, function, *arguments):
        self.given.append(super().submit(function, *arguments).result())
        future = Future()
        future.set_result(self.answer(self.given) if self.submitted - 1 == self.number else self.given[-1])
        return future


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda given: given[0], "ValueError: the outputs of chunk 0 came in its place"),
        (lambda given: None, "ValueError: expected what the task returns, got None"),
        (lambda given: given[-1][1], r"ValueError: expected what the task returns, got \[.*"),
    ],
)
def test_what_is_not_this_chunks_is_not_believed(tmp_path, whole, answer, message):
    """Shapes and dtypes of all chunks are the same, so that nothing else tells them apart."""
    file = tmp_path / "runs.h5"
    with pytest.raises(RuntimeError, match=rf"^ensemble\(executor\): chunk 2 \(lanes 6 to 8\) was lost \({message}\)"):
        dc.ensemble(_run, BATCH, chunk=3, store=file, executor=Mistaken(2, answer))
    with h5py.File(file) as held:
        assert held["done"][:].tolist() == [1, 1, 0, 1]
    dc.ensemble(_run, BATCH, chunk=3, store=file)
    assert file.read_bytes() == whole


def test_outputs_of_another_call_are_not_believed():
    earlier = Mistaken(-1, None)
    dc.ensemble(_run, BATCH, chunk=3, executor=earlier)
    with pytest.raises(
        RuntimeError, match=r"chunk 1 \(lanes 3 to 5\) was lost \(ValueError: the outputs of another call"
    ):
        dc.ensemble(_run, BATCH, chunk=3, executor=Mistaken(1, lambda given: earlier.given[1]))


@pytest.mark.full
def test_a_killed_process_is_one_clear_line():
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as executor,
        pytest.raises(RuntimeError, match=r"chunk 0 \(lanes 0 to 2\) was lost \(BrokenProcessPool: ") as caught,
    ):
        dc.ensemble(_end_of_worker, BATCH, chunk=3, executor=executor)
    assert "\n" not in str(caught.value)


@pytest.mark.full
def test_a_killed_worker_of_dask_changes_nothing(tmp_path, cluster):
    mark = tmp_path / "mark"

    def dies_where_the_mark_is(a):
        if a[0] > 0.5:
            with contextlib.suppress(FileNotFoundError):
                mark.unlink()
                os.kill(os.getpid(), signal.SIGKILL)
        return a

    def run(p):
        a = jax.pure_callback(dies_where_the_mark_is, jax.typeof(p["a"]), p["a"], vmap_method="broadcast_all")
        return _run({**p, "a": a})

    files = [tmp_path / name for name in ("here.h5", "there.h5")]
    dc.ensemble(run, BATCH, chunk=1, store=files[0])
    with cluster.get_client() as client:
        client.wait_for_workers(2, timeout=60)
        before = client.run(os.getpid)
        mark.touch()
        dc.ensemble(run, BATCH, chunk=1, store=files[1], executor=client.get_executor())
        assert not mark.exists()
        assert set(before.values()) - set(client.run(os.getpid).values())
    assert files[1].read_bytes() == files[0].read_bytes()


def test_closures_need_cloudpickle(monkeypatch):
    monkeypatch.setattr(tasks, "find_spec", lambda name: None)
    executor, third = Here(), 1 / 3
    with pytest.raises(ModuleNotFoundError, match="needs cloudpickle, pip install cloudpickle"):
        dc.ensemble(lambda a: third * a, BATCH["a"], executor=executor)
    assert executor.submitted == 0
    # Threads need none.
    with ThreadPoolExecutor(1) as threads:
        np.testing.assert_array_equal(dc.ensemble(lambda a: 3 * a, BATCH["a"], executor=threads), 3 * BATCH["a"])


@pytest.mark.full
def test_closures_and_their_arrays_reach_another_process(spawned):
    pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    thirds = np.array([1 / 3, 2 / 3])
    ball = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
    fixed = {"mass": np.ones(1), "radius": np.zeros(1), "gravity": np.array([-9.81])}

    def run(e):
        parameters, scheme = {**fixed, "restitution": e}, dc.ElasticProjection()
        motion = dc.simulate(ball, parameters, [1.0], [0.0], np.linspace(0.0, 1.0, 5), scheme=scheme)
        return {"q": motion.q, "thirds": e * thirds, "status": motion.status}

    here, there = (dc.ensemble(run, np.linspace(0.5, 0.9, 4), chunk=2, executor=one) for one in (None, spawned))
    assert here["status"].tolist() == [0] * 4
    for name in here:
        np.testing.assert_array_equal(here[name], there[name])


def test_what_stays_here_is_refused():
    pytest.importorskip("cloudpickle", reason="cloudpickle is not installed")
    lock = threading.Lock()
    with pytest.raises(ValueError, match=r"cannot be sent to another process \(TypeError: cannot pickle '_thread.lock"):
        dc.ensemble(lambda a: (a, lock)[0], BATCH["a"], executor=Here())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"platform": "tpu"}, "the worker has 0 tpu devices, expected 1 as in the caller"),
        ({"devices": 99}, "the worker has 1 cpu devices, expected 99"),
        ({"kernel": None}, "expected DIFFCONTACT_KERNEL=jax as in the caller"),
        ({"versions": tuple((name, "0.1") for name in "abcd")}, "expected 0.1 as in the caller"),
    ],
)
def test_a_worker_that_computes_otherwise_is_refused(monkeypatch, change, message):
    conditions = tasks.Conditions.here(tuple(jax.local_devices()))
    changed = tasks.Conditions(**{**vars(conditions), **change})
    monkeypatch.setattr(tasks.Conditions, "here", lambda devices: changed)
    with pytest.raises(RuntimeError, match=rf"chunk 0 \(lanes 0 to 9\) was lost \(ValueError: .*{message}"):
        dc.ensemble(_run, BATCH, executor=Here())


def test_outputs_of_another_kind_are_refused(monkeypatch):
    computed = tasks.Task.__call__
    monkeypatch.setattr(tasks.Task, "__call__", lambda *call: [x.astype(np.float32) for x in computed(*call)])
    with pytest.raises(RuntimeError, match=r"chunk 0 \(lanes 0 to 9\) came back as float32 \(10,\), "):
        dc.ensemble(_run, BATCH, executor=Here())


class Hidden:
    """A pool of processes behind an object of one's own."""

    def __init__(self, pool):
        self.submit = pool.submit


@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning", "ignore:This process:DeprecationWarning")
@pytest.mark.full
def test_a_worker_that_was_forked_says_so():
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as forks,
        pytest.raises(RuntimeError, match=r"the worker was forked from a process that uses jax.*expected.*spawn"),
    ):
        dc.ensemble(_run, BATCH, executor=Hidden(forks))


def test_what_is_no_executor_is_refused():
    with pytest.raises(ValueError, match=r"ensemble\(executor='tcp://a:1'\): expected an object with submit"):
        dc.ensemble(_run, BATCH, executor="tcp://a:1")
    with (
        ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as forks,
        pytest.raises(ValueError, match="that forks, in which jax hangs; expected ProcessPoolExecutor"),
    ):
        dc.ensemble(_run, BATCH, executor=forks)
