"""The file of an ensemble: killed at any moment, on a full disk, damaged or shared, it is never wrong."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
from test_ensemble import BATCH, _run

import diffcontact as dc

CHUNK = 1


def write(file, batch=BATCH, chunk=CHUNK):
    return dc.ensemble(_run, batch, chunk=chunk, store=file)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The bytes of a file that nothing happened to."""
    file = tmp_path_factory.mktemp("whole") / "runs.h5"
    write(file)
    return file.read_bytes()


def test_the_same_ensemble_is_the_same_file(tmp_path, whole):
    write(tmp_path / "runs.h5")
    assert (tmp_path / "runs.h5").read_bytes() == whole


class Killed(BaseException):
    """Ends a process as a signal does: nothing catches it."""


def room_for(monkeypatch, room, end):
    """From now on a disk with room for so many bytes; a write that goes beyond is cut, and the next one ends in `end`.

    Returns:
        A list that gets the length of every write.
    """
    pwrite, lengths = os.pwrite, []

    def limited(handle, content, at):
        part = bytes(content)[: max(room - sum(lengths), 0)]
        if not part:
            raise end
        lengths.append(pwrite(handle, part, at))
        return lengths[-1]

    monkeypatch.setattr(os, "pwrite", limited)
    return lengths


@pytest.fixture(scope="module")
def length(tmp_path_factory):
    """How many bytes are written in all."""
    with pytest.MonkeyPatch.context() as patch:
        lengths = room_for(patch, 10**6, None)
        write(tmp_path_factory.mktemp("length") / "runs.h5")
    return sum(lengths)


@pytest.mark.parametrize("seed", range(25))
def test_it_may_end_within_any_write(tmp_path, whole, length, seed):
    """Three times, each after some more bytes."""
    file, rng = tmp_path / "runs.h5", np.random.default_rng(seed)
    for _ in range(3):
        with pytest.MonkeyPatch.context() as patch:
            room_for(patch, rng.integers(int(0.8 * length), length), Killed())
            with contextlib.suppress(Killed):
                write(file)
    write(file)
    assert file.read_bytes() == whole
    assert os.listdir(tmp_path) == ["runs.h5"]


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.8, 0.9, 0.99])
def test_a_full_disk(tmp_path, whole, length, part):
    file = tmp_path / "runs.h5"
    with pytest.MonkeyPatch.context() as patch:
        room_for(patch, int(part * length), OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
        with pytest.raises(OSError) as caught:
            write(file)
    assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, str(file))
    # All of the file without outputs, or nothing of it.
    assert os.listdir(tmp_path) == (["runs.h5"] if part >= 0.9 else [])
    write(file)
    assert file.read_bytes() == whole


# In a process of its own, as no file of it may be larger than some bytes: that is a disk which is full for HDF5 too.
LIMITED = """
import resource, sys, jax
from diffcontact import ensemble
jax.config.update("jax_enable_x64", True)
from test_ensemble import BATCH, _run
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    ensemble(_run, BATCH, chunk=1, store=sys.argv[1])
except OSError as error:
    print(error.errno, error.filename)
    sys.exit(2)
"""


def _environment():
    here = os.path.dirname(__file__)
    return os.environ | {"PYTHONPATH": os.pathsep.join([here, os.path.dirname(here)]), "JAX_PLATFORMS": "cpu"}


@pytest.mark.parametrize("size", [pytest.param(100, marks=pytest.mark.full), 3000])
def test_hdf5_itself_meets_the_end_of_the_disk(tmp_path, size):
    file = tmp_path / "runs.h5"
    ended = subprocess.run(
        [sys.executable, "-c", LIMITED, file, str(size)],
        env=_environment(),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (ended.returncode, ended.stdout) == (2, f"{errno.EFBIG} {file}\n"), ended.stderr
    assert os.listdir(tmp_path) == []


def test_the_temporary_file_of_a_killed_ensemble_is_removed_and_no_other(tmp_path, whole):
    """Whether its own file is there or not; a link of such a name goes, and not what it leads to."""
    mine = [".runs.h5.old", ".runs.h5.x7_k2b9q.part", "runs.h5.x7_k2b9q.part", ".other.h5.x7_k2b9q.part", "notes"]
    for name in mine:
        (tmp_path / name).touch()
    leftover = mine.pop(1)
    for _ in range(2):
        write(tmp_path / "runs.h5")
        assert sorted(os.listdir(tmp_path)) == sorted([*mine, "runs.h5"])
        (tmp_path / leftover).symlink_to("notes")


def test_flipped_bits_are_never_taken_for_numbers(tmp_path, whole):
    """Bytes of the file, each with one bit flipped: refused and left alone, or it ends up with the same content."""
    file, rng = tmp_path / "runs.h5", np.random.default_rng(0)
    refused = 0
    expected = content(whole, file)
    for at in rng.permutation(len(whole))[:400]:
        damaged = bytearray(whole)
        damaged[at] ^= 1 << rng.integers(8)
        file.write_bytes(damaged)
        try:
            write(file)
        except ValueError as error:
            refused += str(error).startswith(f"ensemble(store='{file}'): ")
            assert file.read_bytes() == damaged
        else:
            assert content(file.read_bytes(), file) == expected
    # What is left are gaps between the datasets, which hold nothing.
    assert refused > 300


@pytest.mark.parametrize("leads", ["to a file", "nowhere"])
@pytest.mark.parametrize("at", ["runs.h5", ".runs.h5.new"])
def test_a_link_is_not_followed_and_not_replaced(tmp_path, whole, at, leads):
    """Neither in the place of the file, nor where a temporary one of a known name would be."""
    victim, link = tmp_path / "thesis.tex", tmp_path / at
    if leads == "to a file":
        victim.write_text("mine")
    link.symlink_to(victim)
    if at == "runs.h5":
        with pytest.raises(FileExistsError, match="a symbolic link, expected a file"):
            write(tmp_path / "runs.h5")
    else:
        write(tmp_path / "runs.h5")
        assert (tmp_path / "runs.h5").read_bytes() == whole
    assert link.readlink() == victim
    assert victim.read_text() == "mine" if leads == "to a file" else not victim.exists()


def content(file_bytes, file):
    """Names, shapes, dtypes and bytes of all datasets."""
    file.write_bytes(file_bytes)
    found = {}
    with h5py.File(file) as held:
        held.visititems(
            lambda name, node: (
                found.update({name: (node.shape, str(node.dtype), node[()].tobytes())})
                if isinstance(node, h5py.Dataset)
                else None
            )
        )
    return found


def without(name):
    def change(held):
        del held[name]

    return change


def other(name, value):
    def change(held):
        del held[name]
        held[name] = value

    return change


def changed(name, index, value):
    def change(held):
        held[name][index] = value

    return change


DAMAGES = {
    "no outputs": (without("outputs/powers"), "outputs/powers is missing"),
    "no marks": (without("done"), "done is missing"),
    "no checksums": (without("checksum"), "checksum is missing"),
    "no parameters": (without("parameters/a"), "parameters/a is missing"),
    "outputs of another shape": (
        other("outputs/powers", np.zeros((10, 2))),
        r"outputs/powers is damaged: float64 \(10, 2\)",
    ),
    "outputs of another kind": (other("outputs/powers", np.zeros((10, 3), "f4")), "outputs/powers is damaged: float32"),
    "a group for outputs": (
        lambda held: (without("outputs/powers")(held), held.create_group("outputs/powers")),
        "damaged",
    ),
    "few marks": (other("done", np.ones(3, np.uint8)), r"done is damaged: uint8 \(3,\), expected uint8 \(10,\)"),
    "another mark": (changed("done", 4, 7), "the marks of its chunks are damaged"),
    "another first output": (changed("outputs/lane", 0, -7), r"chunk 0 \(lanes 0 to 0\) is damaged"),
    "another output": (changed("outputs/lane", 4, -7), r"chunk 4 \(lanes 4 to 4\) is damaged"),
    "another parameter": (changed("parameters/a", 4, -7.0), "parameters/a is damaged"),
    "another checksum": (changed("checksum", 4, 1), r"chunk 4 \(lanes 4 to 4\) is damaged"),
    "another identity": (lambda held: held.attrs.modify("identity", np.bytes_(b"x")), "holds another ensemble"),
    "no identity": (lambda held: held.attrs.__delitem__("identity"), "holds another ensemble"),
    "an array for identity": (lambda held: held.attrs.__setitem__("identity", np.zeros(3)), "holds another ensemble"),
}


@pytest.mark.parametrize("case", DAMAGES)
def test_a_damaged_file_is_refused_and_left_alone(tmp_path, whole, case):
    change, expected = DAMAGES[case]
    file = tmp_path / "runs.h5"
    file.write_bytes(whole)
    with h5py.File(file, "r+") as held:
        change(held)
    before = file.read_bytes()
    with pytest.raises(ValueError, match=expected):
        write(file)
    assert file.read_bytes() == before


@pytest.mark.parametrize("size", [0, 1, 100, 1000, -1])
def test_a_part_of_a_file_is_refused(tmp_path, whole, size):
    file = tmp_path / "runs.h5"
    file.write_bytes(whole[:size])
    with pytest.raises(ValueError, match="damaged"):
        write(file)
    assert file.read_bytes() == whole[:size]


def test_what_the_message_says_has_a_damaged_chunk_run_again(tmp_path, whole):
    file = tmp_path / "runs.h5"
    file.write_bytes(whole)
    with h5py.File(file, "r+") as held:
        held["outputs/lane"][4] = -7
        held["done"][4] = 0
    write(file)
    assert file.read_bytes() == whole


# Holds the file until it is killed.
WRITER = """
import sys, time, numpy as np, jax, diffcontact as dc
from diffcontact.ensemble.store import Store
jax.config.update("jax_enable_x64", True)
write = Store.write
def slow(*call):
    write(*call)
    print("writing", flush=True)
    time.sleep(600)
Store.write = slow
from test_ensemble import BATCH, _run
dc.ensemble(_run, BATCH, chunk=1, store=sys.argv[1])
"""


def test_there_is_one_writer_and_any_number_of_readers(tmp_path, whole):
    file = tmp_path / "runs.h5"
    writer = subprocess.Popen([sys.executable, "-c", WRITER, file], env=_environment(), stdout=subprocess.PIPE)
    try:
        assert writer.stdout.readline() == b"writing\n"
        with h5py.File(file) as held:
            assert held["done"][:].tolist() == [1] + 9 * [0]
        with pytest.raises(ValueError, match="another process is writing it, expected it to be done"):
            write(file)
    finally:
        writer.send_signal(signal.SIGKILL)
        writer.wait()
        writer.stdout.close()
    write(file)
    assert file.read_bytes() == whole


def test_two_that_begin_at_once_make_one_file(tmp_path, whole):
    """Two processes on one file: each either writes it or is told that another one does."""
    file = tmp_path / "runs.h5"
    code = """
import sys, time, jax, diffcontact as dc
jax.config.update("jax_enable_x64", True)
from test_ensemble import BATCH, _run
while time.time() < float(sys.argv[2]):
    pass
try:
    dc.ensemble(_run, BATCH, chunk=1, store=sys.argv[1])
except ValueError as error:
    sys.exit(0 if "another process is writing it" in str(error) else 1)
"""
    at = str(time.time() + 6)
    several = [subprocess.Popen([sys.executable, "-c", code, file, at], env=_environment()) for _ in range(2)]
    assert [one.wait(timeout=300) for one in several] == [0, 0]
    assert file.read_bytes() == whole
    assert os.listdir(tmp_path) == ["runs.h5"]
