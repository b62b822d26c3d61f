"""Batches in chunks: the same numbers whatever the chunk, the devices or an interruption."""

import os
import subprocess
import sys

import h5py
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact import store as stores

BATCH = {"a": np.linspace(0.0, 1.0, 10), "b": np.arange(30.0).reshape(10, 3)}


def _run(p):
    return {"sum": p["a"] + jnp.sum(p["b"]), "powers": p["a"] ** jnp.arange(1.0, 4.0), "lane": p["b"][0].astype(int)}


def _same(one, other):
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("chunk", [None, 1, 4, 10, 1000])
def test_chunks_change_nothing(chunk):
    out = dc.ensemble(_run, BATCH, chunk=chunk)
    np.testing.assert_allclose(out["sum"], BATCH["a"] + BATCH["b"].sum(1), rtol=1e-15)
    np.testing.assert_allclose(out["powers"], BATCH["a"][:, None] ** [1, 2, 3], rtol=1e-14)
    assert out["lane"].tolist() == list(range(0, 30, 3))


def test_a_second_ensemble_of_the_same_run_compiles_nothing(caplog):
    dc.ensemble(_run, BATCH, chunk=5)
    with jax.log_compiles(), caplog.at_level("WARNING"):
        dc.ensemble(_run, jax.tree.map(lambda x: x + 1, BATCH), chunk=5)
    assert not [record for record in caplog.records if "Compiling" in record.getMessage()]


def test_an_interrupted_ensemble_is_resumed_and_gives_the_same(tmp_path, monkeypatch):
    whole = dc.ensemble(_run, BATCH, chunk=3)
    file = tmp_path / "runs.h5"
    write = stores.Store.write

    def killed(self, number, lanes, outputs):
        if number == 2:
            raise KeyboardInterrupt
        write(self, number, lanes, outputs)

    monkeypatch.setattr(stores.Store, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        dc.ensemble(_run, BATCH, chunk=3, store=file)
    monkeypatch.undo()
    with h5py.File(file, "r+") as held:
        assert held["done"][:].tolist() == [1, 1, 0, 0]
        np.testing.assert_array_equal(held["parameters/b"], BATCH["b"])
        # A mark that only a chunk that is read, not run again, can show.
        held["outputs/lane"][1] = -7
    resumed = dc.ensemble(_run, BATCH, chunk=3, store=file)
    assert resumed["lane"][1] == -7
    resumed["lane"][1] = whole["lane"][1]
    _same(resumed, whole)
    with h5py.File(file) as held:
        np.testing.assert_array_equal(held["outputs/powers"], whole["powers"])
        assert held["done"][:].tolist() == [1, 1, 1, 1]


def test_a_store_of_something_else_is_refused_and_left_alone(tmp_path):
    file = tmp_path / "runs.h5"
    dc.ensemble(_run, BATCH, chunk=5, store=file)
    before = file.read_bytes()
    for change in ({"chunk": 2}, {"batch": {**BATCH, "a": BATCH["a"] + 1e-9}}):
        call = {"batch": BATCH, "chunk": 5, **change}
        with pytest.raises(ValueError, match="holds another ensemble"):
            dc.ensemble(_run, call["batch"], chunk=call["chunk"], store=file)
    assert file.read_bytes() == before
    text = tmp_path / "notes.txt"
    text.write_text("not HDF5")
    with pytest.raises(ValueError, match="not an HDF5 file"):
        dc.ensemble(_run, BATCH, store=text)


def test_a_lane_that_fails_is_told_and_leaves_its_neighbours_alone(capsys):
    wall = dc.System(
        gap=lambda t, q, p: 1.0 - q,
        force=lambda t, q, u, p: jnp.zeros(1),
        mass=lambda q, p: jnp.ones(1),
        restitution=lambda p: 0.5,
    )

    def run(q0):
        return dc.simulate(wall, {}, q0, [2.0], [0.0, 0.5, 1.0])

    out = dc.ensemble(run, np.array([[0.0], [1.5], [0.5]]), progress=True)
    assert out.status.tolist() == [0, dc.Status.OVERLAP, 0]
    np.testing.assert_allclose(out.q[[0, 2], -1, 0], [0.5, 0.25], atol=1e-14)
    told = capsys.readouterr().err
    assert "2 of 3 lanes are fine" in told
    assert "1 OVERLAP (lanes 1)" in told


def test_two_devices_give_what_one_gives(tmp_path):
    # The number of devices is fixed when jax starts.
    code = """
import sys, jax, numpy as np, test_ensemble, diffcontact as dc
jax.config.update("jax_enable_x64", True)
assert jax.device_count() == 2
out = dc.ensemble(test_ensemble._run, test_ensemble.BATCH, chunk=3)
np.savez(sys.argv[1], **out)
"""
    here = os.path.dirname(__file__)
    paths = os.pathsep.join([here, os.path.dirname(here)])
    flags = {"XLA_FLAGS": "--xla_force_host_platform_device_count=2", "PYTHONPATH": paths, "JAX_PLATFORMS": "cpu"}
    file = tmp_path / "two.npz"
    subprocess.run([sys.executable, "-c", code, str(file)], env={**os.environ, **flags}, check=True, timeout=300)
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
