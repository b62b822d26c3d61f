"""`python -m diffcontact doctor`: is this installation sound?

Versions, devices, precision, a known defect of one jax release, and the speed.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact.commands import cache
from diffcontact.commands.bench import bench
from diffcontact.commands.complaint import ExitCode
from diffcontact.host.messages import say
from diffcontact.host.progress import stage
from diffcontact.host.versions import versions
from diffcontact.qp import native
from diffcontact.simulate import simulate
from diffcontact.systems import balls

HELP = "show versions, devices, precision and speed, and whether the installation is sound"
EXAMPLE = "doctor --bench"

_BATCH = 40_000
_STEPS = 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--bench."""
    parser.add_argument("--bench", action="store_true", help="correctness and speed of this device, some minutes")


def run(options: argparse.Namespace) -> ExitCode:
    """Examine the installation, and the device where that is asked for."""
    code = doctor()
    if options.bench and not bench():
        return ExitCode.BROKEN
    return code


def doctor() -> ExitCode:
    """Print what was found.

    Returns:
        DONE, or BROKEN where a test failed.
    """
    for name, version in versions().items():
        say(f"{name:12} {version}")
    say(f"{'devices':12} {', '.join(str(device) for device in jax.devices())}")
    say(f"{'projection':12} {native.described()}")
    say(f"{'cache':12} {cache.described()}")
    dtype = jnp.result_type(float)
    say(f"{'precision':12} {dtype}, spacing of numbers at 1: {jnp.finfo(dtype).eps:.3g}")
    with stage("self-test"):
        wrong = wrong_matrix_products()
    verdict = "as numpy has them" if not wrong else "BROKEN: install another jax release (jax issue 39103)"
    say(f"{'self-test':12} {_BATCH} matrix-vector products, {wrong} wrong: {verdict}")
    with stage("simulation"):
        first, again, impacts, energy = _reference_simulation()
    say(f"{'simulation':12} two balls in a box, {_STEPS} steps, {impacts} impacts: {again:.3f} s")
    say(f"{'compilation':12} {first - again:.1f} s")
    sound = impacts > 0 and abs(energy) < _energy_tolerance(dtype)
    say(f"{'energy':12} changed by {energy:.1e} of itself: {'sound' if sound else 'BROKEN'}")
    return ExitCode.DONE if sound and not wrong else ExitCode.BROKEN


def wrong_matrix_products() -> int:
    """How many of 40 000 matrix-vector products, each followed by a sum of squares, differ from numpy's.

    jax 0.10.2 gets them wrong on the CPU, silently, beyond row 16384 (float64) or 32768 (float32): jax issue 39103.

    Example:
        >>> wrong_matrix_products()
        0
    """
    rng = np.random.default_rng(0)
    dtype = jnp.result_type(float)
    matrix, rows = rng.normal(size=(3, 3)).astype(dtype), rng.normal(size=(_BATCH, 3)).astype(dtype)
    found = np.asarray(jax.jit(jax.vmap(lambda row: jnp.sum((matrix @ row) ** 2)))(rows))
    expected = np.sum((rows.astype(float) @ matrix.astype(float).T) ** 2, axis=1)
    # Some twenty rounded operations on numbers of order one to ten; a wrong row is off by as much as it is large.
    return int(np.sum(np.abs(found - expected) > 1e3 * np.finfo(dtype).eps * (1.0 + expected)))


def _reference_simulation() -> tuple[float, float, int, float]:
    """Two elastic balls in a box: seconds of the first and of a later run, impacts, relative change of the energy."""
    system = balls(2, 2, box=(0.0, 1.0))
    params = {"mass": jnp.ones(2), "radius": jnp.full(2, 0.1), "gravity": jnp.zeros(2), "restitution": jnp.ones(())}
    q0 = jnp.array([0.2, 0.2, 0.7, 0.3])
    u0 = jnp.array([1.0, 0.7, -0.9, 0.4])
    times = jnp.linspace(0.0, 5.0, _STEPS + 1)
    seconds = []
    for _ in range(2):
        begin = time.perf_counter()
        trajectory = jax.block_until_ready(simulate(system, params, q0, u0, times))
        seconds.append(time.perf_counter() - begin)
    energy = jnp.sum(trajectory.u[-1] ** 2) / jnp.sum(u0**2) - 1.0
    return seconds[0], seconds[1], int(jnp.sum(trajectory.impulse > 0)), float(energy)


def _energy_tolerance(dtype) -> float:
    # Elastic impacts keep the energy; each step may round it, a few operations at a time.
    return 10 * _STEPS * float(jnp.finfo(dtype).eps)
