import gc
import os
import time
from pathlib import Path

# XLA says at length, of programs that are kept, that it prefers other instructions here.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jax
import numpy as np
import pytest
from budget import Budget

from diffcontact.commands import cache
from diffcontact.numerics.compilation import clear_caches

# Nearly all of the tests' time is compilation, and half of that is optimisation, which they do without. Older and newer
# releases may not know these flags, and XLA ends the process on a flag that it does not know.
if jax.__version_info__[:2] == (0, 10):
    # Two workers have no use for code generation in parallel.
    quick = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
    quick += " --xla_cpu_parallel_codegen_split_count=1"
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {quick}".strip()

# Nor for threads of numpy, which wait for their next piece of work by counting. The workers begin after this.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

ROOT = Path(__file__).resolve().parents[1]
BEGAN = time.monotonic()

# Programs are kept from one run of the tests to the next, and for the other worker: it only traces them.
PROGRAMS = os.environ.setdefault("DIFFCONTACT_TEST_CACHE", os.environ.get("DIFFCONTACT_CACHE") or f"{ROOT}/.jax_cache")
if PROGRAMS != "off":
    jax.config.update("jax_compilation_cache_dir", PROGRAMS)
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.2)
# Commands keep theirs in the user's folder; tests must not. Workers, too, have this environment.
os.environ["DIFFCONTACT_CACHE"] = "off"

# Tracing makes millions of small objects that live on: looking through them for cycles takes a fifth of the time.
gc.set_threshold(100_000, 50, 10)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Whose examples take seconds and more to compile; tests of the default tier claim the same of smaller programs.
LONG_EXAMPLES = [
    ROOT / "diffcontact" / f"{name}.py"
    for name in (
        *("certify/certificate", "ensemble/run", "hypotheses", "schemes/event_timed/step", "sensitivity", "trajectory"),
        *("identify/experiment/design", "identify/fit", "identify/impact_law", "identify/intervals/profile"),
        *(f"systems/{name}" for name in ("balls", "bouncing_ball", "carts", "constrained", "mechanism")),
    )
]
# Examples that need more than the library does.
NEED = {ROOT / "diffcontact" / "systems" / "mechanism.py": "mujoco"}

# What only runs on demand: the purpose of a test, not its time, says where it belongs.
TIERS = ("full", "studies")


def pytest_configure(config):
    if PROGRAMS != "off" and not hasattr(config, "workerinput"):
        cache._trim(Path(PROGRAMS), 2**30)
    config.pluginmanager.register(Budget(config), "budget")


def pytest_ignore_collect(collection_path, config):
    """What the default suite leaves out whole is not imported: that takes many seconds and compiles programs."""
    if config.option.markexpr != "not full and not studies" or collection_path.suffix != ".py":
        return None
    studies = ROOT / "tests" / "experiments" in collection_path.parents
    full = collection_path.match("test_*.py") and "\npytestmark = pytest.mark.full\n" in collection_path.read_text()
    return True if studies or full else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """What is in `tests/experiments` is of the tier `studies`; modules take turns: DIFFCONTACT_TEST_TURN, a number.

    Every second module comes first when that number is even, the others when it is odd.
    """
    for item in items:
        if ROOT / "tests" / "experiments" in item.path.parents:
            item.add_marker("studies")
        elif item.path in LONG_EXAMPLES:
            item.add_marker("full")
    if turn := os.environ.get("DIFFCONTACT_TEST_TURN"):
        modules = sorted({item.path for item in items if _tier(item)})
        modules = [*modules[int(turn) % 2 :: 2], *modules[(int(turn) + 1) % 2 :: 2]]
        items.sort(key=lambda item: modules.index(item.path) if item.path in modules else -1)


def pytest_runtest_setup(item):
    """None of a tier begins after DIFFCONTACT_TEST_SECONDS, where those are given."""
    if needed := NEED.get(item.path):
        pytest.importorskip(needed, reason=f"this example needs {needed}")
    limit = os.environ.get("DIFFCONTACT_TEST_SECONDS")
    if limit and _tier(item) and time.monotonic() - BEGAN > float(limit):
        pytest.skip(f"the {limit} s are over")


def _tier(item):
    return any(item.get_closest_marker(tier) for tier in TIERS)


# Each compiled program holds some memory mappings; Linux allows a process 65 530 of them, and XLA crashes there.
MAPPINGS = 20_000


@pytest.fixture(autouse=True, scope="module")
def _few_mappings():
    """Forget compiled programs, after a module, when they have become many."""
    yield
    _forget_where_many()


def pytest_runtest_teardown(item):
    """Tests of a tier compile so much that the end of their module would be too late."""
    if _tier(item):
        _forget_where_many()


def _forget_where_many():
    mappings = Path("/proc/self/maps")
    if mappings.exists() and mappings.read_bytes().count(b"\n") > MAPPINGS:
        clear_caches()


def _folder(variable, default):
    folder = Path(os.environ.get(variable, default))
    if not folder.is_dir():
        pytest.skip(f"{folder} is absent: set {variable} to the folder that holds it")
    return folder


@pytest.fixture(scope="session")
def reference():
    """The folder with event-exact states, QP solutions and other simulators' values: the project's own."""
    return _folder("DIFFCONTACT_REFERENCE", ROOT / "tests" / "reference")


@pytest.fixture(scope="session")
def data():
    """The folder with real measurements, which are not part of the project."""
    return _folder("DIFFCONTACT_DATA", ROOT.parent / "shared" / "data")


@pytest.fixture(scope="session")
def cluster():
    """Two of Dask's workers on this machine, each a process that is begun anew when it ends."""
    distributed = pytest.importorskip("distributed", reason="distributed is not installed")
    with distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture
def rng():
    return np.random.default_rng(0)
