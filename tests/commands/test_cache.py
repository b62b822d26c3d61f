"""What a command compiled, the next one finds; what is damaged or cannot be written does no harm."""

import os
import subprocess
import sys
from functools import partial

import chex
import jax
import numpy as np
import pytest

from diffcontact.commands import cache
from diffcontact.numerics import compilation


def _doctor(folder):
    # As from a shell: importing jax sets what XLA says, for this process and those that it begins.
    ours = ("JAX_COMPILATION", "TF_CPP_MIN_LOG_LEVEL")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environment |= {cache.VARIABLE: str(folder)}
    command = [sys.executable, "-m", "diffcontact", "doctor"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert not done.stderr
    return done.stdout


# On every commit what is stored is found again, and damage survived, within one process: below.
@pytest.mark.full
def test_a_second_command_compiles_nothing_and_survives_damage(tmp_path):
    folder = tmp_path / "programs"
    assert f"{folder}: 0 programs" in _doctor(folder)
    sizes = {path: path.stat().st_size for path in folder.glob("*-cache")}
    largest = max(sizes, key=sizes.__getitem__)
    largest.write_bytes(largest.read_bytes()[:1000])
    written = {path: path.stat().st_mtime_ns for path in sizes}
    said = _doctor(folder)
    assert "sound" in said
    # Programs are kept that took a tenth of a second to compile: on a busy machine small ones sometimes do, also after
    # they were counted.
    known = {path: path.stat().st_size for path in folder.glob("*-cache")}
    assert any(f"{count} programs" in said for count in range(len(sizes), len(known) + 1))
    assert all(known[path] < sizes[largest] / 10 for path in known.keys() - sizes.keys())
    assert all(path.stat().st_mtime_ns == time for path, time in written.items() if path != largest)


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv(cache.VARIABLE, "OFF")
    assert cache.cache_folder() is None
    assert cache.described() == "off (DIFFCONTACT_CACHE)"
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    assert cache.cache_folder() == tmp_path
    monkeypatch.delenv(cache.VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache.cache_folder() is not None
    if sys.platform.startswith("linux"):
        assert cache.cache_folder() == tmp_path / "diffcontact"


def test_it_is_bounded_and_forgets_what_was_not_used_for_longest(tmp_path):
    for age in range(5):
        path = tmp_path / f"{age}-cache"
        path.write_bytes(bytes(100))
        os.utime(path, (1e9 - age, 1e9 - age))
    cache._trim(tmp_path, 250)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0-cache", "1-cache"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_no_reason_to_fail(tmp_path):
    tmp_path.chmod(0o500)
    _doctor(tmp_path / "programs")


def test_a_file_in_its_place_is_no_reason_to_fail(monkeypatch, tmp_path):
    taken = tmp_path / "taken"
    taken.touch()
    monkeypatch.setenv(cache.VARIABLE, str(taken))
    cache.use_cache()
    assert "0 programs" in cache.described()


def test_what_is_stored_is_not_traced_again(tmp_path, monkeypatch):
    traced = []

    def program(x, y):
        traced.append(x)
        return {"sum": x + y["step"], "twice": 2 * x}

    def found(made_from):
        one = cache.stored(
            tmp_path, made_from, jax.jit(lambda *given: program(*given)), (np.arange(3.0), {"step": np.ones(())})
        )
        assert one is not None
        return one(None)(np.arange(3.0) + 1, {"step": np.full((), 2.0)})

    for made_from, times in (("one", 1), ("one", 1), ("other", 2)):
        chex.assert_trees_all_close(found(made_from), {"sum": np.arange(3.0) + 3, "twice": 2 * np.arange(3.0) + 2})
        assert len(traced) == times
    # Other sources, and a damaged file.
    monkeypatch.setattr(cache, "_surroundings", lambda: ["changed"])
    found("one")
    assert len(traced) == 3
    for path in tmp_path.glob("program-*"):
        path.write_bytes(path.read_bytes()[:100])
    found("one")
    assert len(traced) == 4


def test_what_calls_back_into_python_is_not_stored(tmp_path):
    def program(x):
        jax.debug.callback(lambda: None)
        return x

    assert cache.stored(tmp_path, "callback", jax.jit(program), (np.ones(()),)) is None
    assert not list(tmp_path.iterdir())


def test_a_function_found_by_its_code_is_the_one_that_was_stored(tmp_path, monkeypatch):
    """Two factors are two programs; one that closes over what may change is compiled in each process."""
    monkeypatch.setattr(compilation, "stored", partial(cache.stored, tmp_path))
    scaled = compilation.jit_fast_compile(lambda function, x: function(x), static=("function",))

    def times(factor):
        return lambda x: factor * x

    x = np.ones(1)
    assert [scaled(function=times(factor), x=x).item() for factor in (2.0, 3.0, 2.0)] == [2.0, 3.0, 2.0]
    assert len(list(tmp_path.glob("program-*"))) == 2
    held = object()
    scaled(function=lambda x: (x, held)[0], x=x)
    assert len(list(tmp_path.glob("program-*"))) == 2
