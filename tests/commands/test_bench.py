"""What `doctor --bench` says of a device."""

import jax.numpy as jnp
import pytest

from diffcontact.commands import bench


@pytest.mark.parametrize(("error", "verdict"), [(1e-13, "right"), (1e-11, "WRONG"), (float("nan"), "WRONG")])
def test_a_device_that_computes_wrongly_is_named(monkeypatch, capsys, error, verdict):
    monkeypatch.setattr(bench, "_errors", lambda: iter([("projection", error, 1e-12), ("other", 0.0, 1e-12)]))
    monkeypatch.setattr(bench, "_cases", lambda most: iter(()))
    assert bench.bench() == (verdict == "right")
    assert f"allowed: {verdict}" in capsys.readouterr().out


def test_a_row_tells_how_many_in_a_second(capsys):
    bench._row("doubled", 5, lambda x: 2 * x, jnp.ones((64, 3)))
    name, copies, compilation, milliseconds, speed = capsys.readouterr().out.split()
    assert (name, copies) == ("doubled", "64")
    assert float(compilation) >= 0
    assert float(speed) == pytest.approx(64 * 5 / (1e-3 * float(milliseconds)), rel=0.5)


def test_the_closed_form_is_a_bounce(rng):
    """Continuous at the second impact, with e between the speeds before and after."""
    theta = jnp.array([bench._HEIGHT, bench._BOUNCE])
    y, u = bench._exactly(theta)
    assert y > 0
    # Energy after two bounces: e^4 of that at the beginning.
    energy = u**2 / 2 + bench._GRAVITY * y
    assert energy == pytest.approx(bench._BOUNCE**4 * bench._GRAVITY * bench._HEIGHT, rel=1e-12)


@pytest.mark.full
def test_this_device_is_right(capsys):
    assert bench.bench(1)
    said = capsys.readouterr().out
    assert "WRONG" not in said
    assert said.count("10 spheres") == 2
