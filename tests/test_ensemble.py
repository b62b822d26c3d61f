"""Batches in chunks: the same numbers whatever the chunk, the devices or an interruption."""

import os
import socket
import subprocess
import sys

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.ensemble import store as stores
from diffcontact.ensemble.run import summary

BATCH = {"a": np.linspace(0.0, 1.0, 10), "b": np.arange(30.0).reshape(10, 3)}


def _run(p):
    return {
        "sum": p["a"] + jnp.sum(p["b"]),
        "powers": p["a"] ** np.arange(1.0, 4.0),
        "lane": p["b"][0].astype(int),
        "large": p["a"] > 0.5,
        "single": p["a"].astype(jnp.float32),
        "nothing": p["b"][:0],
    }


def _same(one, other):
    assert jax.tree.structure(one) == jax.tree.structure(other)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def _content(file):
    """Every dataset of an HDF5 file, and the attributes."""
    found = {}
    with h5py.File(file) as held:
        held.visititems(lambda name, node: found.update({name: node[...]} if isinstance(node, h5py.Dataset) else {}))
        return found | {f"@{name}": np.asarray(value) for name, value in held.attrs.items()}


def _python(code, *arguments, **variables):
    """A process that can import this file."""
    here = os.path.dirname(__file__)
    variables |= {"PYTHONPATH": os.pathsep.join([here, os.path.dirname(here)]), "JAX_PLATFORMS": "cpu"}
    return subprocess.Popen([sys.executable, "-c", code, *map(str, arguments)], env=os.environ | variables)


@pytest.mark.parametrize("chunk", [None, 3, 1000])
def test_chunks_change_nothing(chunk):
    out = dc.ensemble(_run, BATCH, chunk=chunk)
    np.testing.assert_allclose(out["sum"], BATCH["a"] + BATCH["b"].sum(1), rtol=1e-15)
    np.testing.assert_allclose(out["powers"], BATCH["a"][:, None] ** [1, 2, 3], rtol=1e-14)
    assert out["lane"].tolist() == list(range(0, 30, 3))


def test_a_second_ensemble_of_the_same_run_compiles_nothing(caplog):
    dc.ensemble(_run, BATCH, chunk=3)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        dc.ensemble(_run, jax.tree.map(lambda x: x + 1, BATCH), chunk=3)
    assert not [record for record in caplog.records if "Compiling" in record.getMessage()]


def test_an_interrupted_ensemble_is_resumed_and_gives_the_same(tmp_path, monkeypatch):
    whole = dc.ensemble(_run, BATCH, chunk=3)
    file = tmp_path / "runs.h5"
    write = stores.Store.write

    def interrupted(self, number, values):
        if number == 2:
            raise KeyboardInterrupt
        write(self, number, values)

    monkeypatch.setattr(stores.Store, "write", interrupted)
    with pytest.raises(KeyboardInterrupt):
        dc.ensemble(_run, BATCH, chunk=3, store=file)
    monkeypatch.undo()
    with h5py.File(file) as held:
        assert held["done"][:].tolist() == [1, 1, 0, 0]
        np.testing.assert_array_equal(held["parameters/b"], BATCH["b"])
    written = []
    monkeypatch.setattr(stores.Store, "write", lambda *call: (written.append(call[1]), write(*call)))
    _same(dc.ensemble(_run, BATCH, chunk=3, store=file), whole)
    assert written == [2, 3]
    with h5py.File(file) as held:
        np.testing.assert_array_equal(held["outputs/powers"], whole["powers"])
        assert held["done"][:].tolist() == [1, 1, 1, 1]


# A store of which one chunk is done, so that three are left to two processes; then what both must refuse.
TWO = """
import sys, jax, numpy as np, pytest, test_ensemble, diffcontact as dc
jax.config.update("jax_enable_x64", True)
index, port, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
jax.distributed.initialize(f"localhost:{port}", num_processes=2, process_id=index)
run, batch, store = test_ensemble._run, test_ensemble.BATCH, f"{folder}/two.h5"
plain = dc.ensemble(run, batch, chunk=3)
stored = dc.ensemble(run, batch, chunk=3, store=store, progress=True)
for name, value in plain.items():
    np.testing.assert_array_equal(value, stored[name])
np.savez(f"{folder}/{index}.npz", **stored)
with pytest.raises(ValueError, match="holds another ensemble" if index == 0 else "refused by the first process"):
    dc.ensemble(run, batch, chunk=2, store=store)
with pytest.raises(ValueError, match="differs between the processes"):
    dc.ensemble(run, {**batch, "a": batch["a"] + index}, chunk=3)
"""


@pytest.mark.full
def test_two_processes_give_what_one_gives(tmp_path, monkeypatch):
    whole = dc.ensemble(_run, BATCH, chunk=3, store=tmp_path / "one.h5")
    (tmp_path / "two.h5").write_bytes((tmp_path / "one.h5").read_bytes())
    with h5py.File(tmp_path / "two.h5", "r+") as held:
        held["done"][[0, 1, 3]] = 0
        for output in held["outputs"].values():
            output[:6] = 0
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    both = [_python(TWO, index, port, tmp_path) for index in range(2)]
    try:
        assert [one.wait(timeout=300) for one in both] == [0, 0]
    finally:
        for one in both:
            one.kill()
    for index in range(2):
        with np.load(tmp_path / f"{index}.npz") as found:
            _same(dict(found), whole)
    _same(_content(tmp_path / "two.h5"), _content(tmp_path / "one.h5"))


def test_what_is_fixed_is_stored_and_compared(tmp_path):
    file = tmp_path / "runs.h5"
    dc.ensemble(_run, BATCH, store=file, fixed={"gravity": 9.81})
    assert _content(file)["fixed/gravity"] == 9.81
    with pytest.raises(ValueError, match="holds another ensemble"):
        dc.ensemble(_run, BATCH, store=file, fixed={"gravity": 9.8})


def test_a_store_of_something_else_is_refused_and_left_alone(tmp_path):
    file = tmp_path / "runs.h5"
    dc.ensemble(_run, BATCH, chunk=5, store=file)
    before = file.read_bytes()
    longer = {name: np.concatenate([part, part]) for name, part in BATCH.items()}
    for change, told in (
        ({"chunk": 2}, "its chunks are not of 2 lanes"),
        ({"batch": {**BATCH, "a": BATCH["a"] + 1e-9}}, "parameters/a has other values"),
        ({"batch": longer}, r"parameters/a is float64 \(10,\), not float64 \(20,\), .* and \d more"),
        ({"fixed": {"g": 9.81}}, "without fixed/g"),
    ):
        call = {"batch": BATCH, "chunk": 5, "fixed": None, **change}
        with pytest.raises(ValueError, match=rf"holds another ensemble \({told}\)"):
            dc.ensemble(_run, call["batch"], chunk=call["chunk"], fixed=call["fixed"], store=file)
    with pytest.raises(ValueError, match="with parameters/b"):
        dc.ensemble(lambda batch: batch["a"], {"a": BATCH["a"]}, chunk=5, store=file)
    assert file.read_bytes() == before
    text = tmp_path / "notes.txt"
    text.write_text("not HDF5")
    with pytest.raises(ValueError, match="not an HDF5 file"):
        dc.ensemble(_run, BATCH, store=text)


def test_names_that_meet_in_the_store_are_refused(tmp_path):
    """Both would be one dataset, and what differs in the other one would not be seen."""
    file = tmp_path / "runs.h5"
    both = {"a/b": np.ones(3), "a": {"b": np.zeros(3)}}
    calls = {
        "parameters": {"run": lambda p: p["a/b"] + p["a"]["b"], "batch": both},
        "fixed": {"run": lambda p: p, "batch": np.zeros(3), "fixed": both},
        "outputs": {"run": lambda p: {"a/b": p, "a": {"b": 2 * p}}, "batch": np.ones(3)},
    }
    for folder, call in calls.items():
        with pytest.raises(ValueError, match=rf"^ensemble\(store=.*\): {folder} holds 'a/b' twice, .*") as caught:
            dc.ensemble(**call, store=file)
        assert "\n" not in str(caught.value)
        assert not file.exists()
    # What HDF5 reads as one; an array that would be a folder, too; no name at all.
    for keys in ({"a//b": 0.0, "a": {"b": 1.0}}, {"a": 0.0, "a/b": 1.0}, {".": 1.0}):
        with pytest.raises(ValueError, match="twice, as itself or as a folder"):
            dc.ensemble(lambda p: p, np.zeros(3), fixed=keys, store=file)
    # In memory nothing has a name.
    np.testing.assert_array_equal(dc.ensemble(calls["parameters"]["run"], both), 1.0)


def test_a_slash_alone_is_none_of_the_stores_business(tmp_path):
    batch = {"a/b": np.ones(3), "a": {"c": np.zeros(3)}}
    for _ in range(2):
        out = dc.ensemble(lambda p: p["a/b"] + p["a"]["c"], batch, store=tmp_path / "runs.h5")
        np.testing.assert_array_equal(out, 1.0)


@pytest.mark.full
def test_a_lane_that_overlaps_is_told_and_leaves_its_neighbours_alone(capsys):
    wall = zoo.system(gap=lambda t, q, p: 1.0 - q, force=lambda t, q, u, p: np.ones(1), restitution=0.5)

    def run(q0):
        return dc.simulate(wall, {}, q0, [2.0], [0.0, 0.5, 1.0])

    out = dc.ensemble(run, np.array([[0.0], [1.5], [0.5]]), progress=True)
    assert out.status.tolist() == [0, dc.Status.OVERLAP, 0]
    assert np.all(out.impulse[[0, 2]].sum(axis=1) > 0)  # the neighbours have work of their own
    without = dc.ensemble(run, np.array([[0.0], [-5.0], [0.5]]))
    _same(*(jax.tree.map(lambda x: x[[0, 2]], result) for result in (out, without)))
    told = capsys.readouterr().out
    assert "2 of 3 lanes are fine" in told
    assert "1 OVERLAP (lanes 1)" in told


def test_the_summary_counts_each_status_by_itself():
    status = np.array([0, dc.Status.OVERLAP, 0, dc.Status.TOO_COARSE, dc.Status.OVERLAP])
    told = summary({"status": status})
    assert told.startswith("2 of 5 lanes are fine; 2 OVERLAP (lanes 1, 4): ")
    assert "; 1 TOO_COARSE (lanes 3): " in told
    # Numbers of another kind are no status.
    assert summary({"status": np.array([0, 10**6])}) == summary({"state": status}) == ""


@pytest.mark.full
def test_two_devices_give_what_one_gives(tmp_path):
    # The number of devices is fixed when jax starts.
    code = """
import sys, jax, numpy as np, test_ensemble, diffcontact as dc
jax.config.update("jax_enable_x64", True)
assert jax.device_count() == 2
out = dc.ensemble(test_ensemble._run, test_ensemble.BATCH, chunk=3)
np.savez(sys.argv[1], **out)
"""
    file = tmp_path / "two.npz"
    assert _python(code, file, XLA_FLAGS="--xla_force_host_platform_device_count=2").wait(timeout=300) == 0
    one = dc.ensemble(_run, BATCH, chunk=3)
    with np.load(file) as two:
        for name, value in one.items():
            # Compiled for lanes by themselves and by twos: the last digit may differ.
            np.testing.assert_allclose(two[name], value, rtol=1e-15)


@pytest.mark.parametrize(
    ("batch", "chunk", "message"),
    [
        ({}, None, "empty"),
        ({"a": np.zeros(3), "b": np.zeros(2)}, None, r"\['a'\] \(3,\), \['b'\] \(2,\)"),
        ({"a": np.zeros(3), "b": 1.0}, None, r"\['b'\] none"),
        (np.zeros((0, 2)), None, r"batch \(0,\)"),
        (np.zeros(3), 0, "chunk=0"),
    ],
)
def test_bad_input_is_named(batch, chunk, message):
    with pytest.raises(ValueError, match=message):
        dc.ensemble(lambda p: p, batch, chunk=chunk)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ({"run": None}, r"^ensemble\(run=None\): expected a function of the parameters of one lane$"),
        ({"run": lambda p: "x"}, r"^ensemble\(run\): its result: expected an array, got 'x'$"),
        (
            {"run": lambda p: {"a": p, "b": [p, "x"]}},
            r"^ensemble\(run\): its result\['b'\]\[1\]: expected an array, got ",
        ),
        ({"run": lambda p: None}, r"^ensemble\(run\): expected it to return at least one array, got None$"),
        ({"batch": {"a": np.array(["x"])}}, r"^ensemble\(batch\): batch\['a'\]: expected numbers, got array\(\['x'\]"),
        (
            {"batch": {"a": np.array([None, 1])}},
            r"^ensemble\(batch\): batch\['a'\]: expected numbers, got array\(\[None",
        ),
        ({"batch": "abc"}, r"^ensemble\(batch\): batch: expected numbers, got 'abc'$"),
        ({"store": 3}, r"^ensemble\(store=3\): expected the name of a file, or None$"),
        ({"fixed": {"name": "abc"}}, r"^ensemble\(fixed\): fixed\['name'\]: expected numbers, got 'abc'$"),
        ({"fixed": len}, r"^ensemble\(fixed\): fixed: expected numbers, got <built-in function len>$"),
    ],
)
def test_arguments_of_another_kind_are_named(call, message):
    with pytest.raises(ValueError, match=message) as caught:
        dc.ensemble(**{"run": lambda p: p, "batch": np.zeros(3), **call})
    assert "\n" not in str(caught.value)


def test_what_a_run_raises_itself_is_not_taken_for_its_result():
    with pytest.raises(TypeError, match="unsupported operand"):
        dc.ensemble(lambda p: p + "x", np.zeros(3))


def test_numbers_of_any_kind_make_a_batch():
    batch = {
        "list": np.arange(3),
        "bool": np.array([True, False, True]),
        "jax": np.ones(3),
        "half": jnp.ones(3, "bfloat16"),
    }
    _same(dc.ensemble(lambda p: p, batch, fixed={"a": 1, "b": True, "c": None}), jax.tree.map(np.asarray, batch))
