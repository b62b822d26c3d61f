"""`python -m diffcontact demo`: two simulated carts, fitted like measured ones."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import jax.numpy as jnp
import numpy as np

from diffcontact.commands.fit import fit_and_report
from diffcontact.commands.options import path
from diffcontact.commands.outcome import ExitCode, require_own
from diffcontact.host.files import require_writable, write_atomically
from diffcontact.host.messages import say
from diffcontact.host.progress import stage
from diffcontact.scene import read_study
from diffcontact.scene.units import Unit
from diffcontact.simulate import simulate
from diffcontact.systems import carts

HELP = "simulate two carts, fit them, show truth beside estimate"
EXAMPLE = "demo --out out/demo"

TRUTH = {"restitution": 0.8, "mass_ratio": 1.3, "distance": 0.1, "tilt": 5e-3, "sag": 0.0, "drag": 0.03}
_Q0, _U0 = (0.2, 0.9), (0.25, -0.15)
_NOISE, _SEED = 1e-4, 0
_DIRECTION = np.array([0.995, 0.0998749])

SCENE = """\
title = "Two simulated carts"

[system]
kind = "carts"

[data]
files = ["carts.csv"]
time = "time [s]"
time_unit = "s"
noise = { value = 0.1, unit = "mm" }

[preparation]
kind = "common line"
first = ["x1 [mm]", "y1 [mm]"]
second = ["x2 [mm]", "y2 [mm]"]
unit = "mm"

[parameters]
restitution = { value = "from data", bounds = [0, 1] }
mass_ratio = { value = 1, bounds = [0.1, 10] }
distance = { value = "from data", unit = "mm", per_run = true }
tilt = { value = 0, unit = "m/s^2", per_run = true }
sag = { value = 0, unit = "1/s^2", free = false }
drag = { value = 0.01, unit = "1/s", bounds = [0, 1], per_run = true }
q0 = { value = "from data", unit = "mm", per_run = true }
u0 = { value = "from data", unit = "mm/s", per_run = true }
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """[--out DIR]"""
    parser.add_argument("--out", type=path, metavar="DIR", default=Path("out/demo"), help="default: %(default)s")


def run(options: argparse.Namespace) -> ExitCode:
    """Simulate, write `carts.csv` and `carts.toml`, fit them, print truth beside estimate."""
    folder = options.out
    require_writable(folder)
    with stage("simulation"):
        texts = {"carts.csv": measure(), "carts.toml": SCENE}
    for name, text in texts.items():
        # The scene is there to be edited, and stays as it was then.
        require_own(folder / name, text.encode().__eq__, "--out DIR")
    for name, text in texts.items():
        write_atomically(folder / name, text)
    code = fit_and_report(read_study(folder / "carts.toml"), folder)
    found = json.loads((folder / "result.json").read_text(encoding="utf-8"))["parameters"]
    say("", f"{'':14}{'truth':>10}{'estimate':>12}{'stderr':>10}   95 % interval")
    for name, truth in TRUTH.items():
        entry = found.get(name) or found.get(f"{name}[0]")
        if entry is None:
            continue
        truth /= Unit.parse(entry["unit"]).factor
        low, high = entry["interval95"]
        verdict = "holds the truth" if low <= truth <= high else "misses the truth"
        say(f"{name:14}{truth:10.5g}{entry['value']:12.5g}{entry['stderr']:10.2g}   {verdict}")
    return code


def measure() -> str:
    """A CSV of two markers at 250 Hz [mm], noisy and incomplete."""
    times = np.linspace(0.0, 3.0, 751)
    params = {name: jnp.asarray(value) for name, value in TRUTH.items()}
    positions = np.asarray(simulate(carts(), params, jnp.asarray(_Q0), jnp.asarray(_U0), jnp.asarray(times)).q)
    rng = np.random.default_rng(_SEED)
    points = positions[:, :, None] * _DIRECTION
    points = 1e3 * (points + _NOISE * rng.normal(size=points.shape))
    lost = rng.random((times.size, 2)) < 0.02
    rows = ["time [s],x1 [mm],y1 [mm],x2 [mm],y2 [mm]"]
    for t, markers, gone in zip(times, points, lost, strict=True):
        fields = [f"{t:.3f}"]
        for marker, absent in zip(markers, gone, strict=True):
            fields += ["", ""] if absent else [f"{x:.3f}" for x in marker]
        rows.append(",".join(fields))
    return "\n".join(rows) + "\n"
