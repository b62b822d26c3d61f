"""`python -m diffcontact doctor`: is this installation sound?

Versions, devices, precision, a known defect of one jax release, and the speed. With `--bench`: this device against
closed forms, then a table of projections, trajectories, gradients and steps of fits, in batches of one to as many as
the device is for; times are medians of three runs after the one that compiles.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact import qp
from diffcontact.commands import cache
from diffcontact.commands.outcome import ExitCode
from diffcontact.host.messages import say
from diffcontact.host.progress import stage
from diffcontact.host.versions import versions
from diffcontact.numerics.batching import side_by_side
from diffcontact.qp import kernel
from diffcontact.schemes import VelocityProjection
from diffcontact.simulate import simulate
from diffcontact.systems import balls

HELP = "show versions, devices, precision and speed, and whether the installation is sound"
EXAMPLE = "doctor --bench"

_BATCH, _STEPS = 40_000, 1_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """--bench."""
    parser.add_argument("--bench", action="store_true", help="correctness and speed of this device, some minutes")


def run(options: argparse.Namespace) -> ExitCode:
    """Examine the installation, and the device where that is asked for."""
    code = doctor()
    return ExitCode.BROKEN if options.bench and not bench() else code


def doctor() -> ExitCode:
    """Print versions, devices and tests; BROKEN where one failed."""
    for name, version in versions().items():
        say(f"{name:12} {version}")
    say(f"{'devices':12} {', '.join(str(device) for device in jax.devices())}")
    say(f"{'projection':12} {kernel.described()}")
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
    # Elastic impacts keep the energy; each step may round it, a few operations at a time.
    sound = impacts > 0 and abs(energy) < 10 * _STEPS * float(jnp.finfo(dtype).eps)
    say(f"{'energy':12} changed by {energy:.1e} of itself: {'sound' if sound else 'BROKEN'}")
    return ExitCode.DONE if sound and not wrong else ExitCode.BROKEN


def wrong_matrix_products() -> int:
    """Count wrong results among 40 000 matrix-vector products.

    jax 0.10.2 gets them wrong on the CPU, silently, beyond row 16384 (float64) or 32768 (float32): jax issue 39103.
    """
    rng = np.random.default_rng(0)
    dtype = jnp.result_type(float)
    matrix, rows = rng.normal(size=(3, 3)).astype(dtype), rng.normal(size=(_BATCH, 3)).astype(dtype)
    found = np.asarray(jax.jit(jax.vmap(lambda row: jnp.sum((matrix @ row) ** 2)))(rows))
    expected = np.sum((rows.astype(float) @ matrix.astype(float).T) ** 2, axis=1)
    # Some twenty rounded operations on numbers of order one to ten; a wrong row is off by as much as it is large.
    return int(np.sum(np.abs(found - expected) > 1e3 * np.finfo(dtype).eps * (1.0 + expected)))


def _reference_simulation() -> tuple[float, float, int, float]:
    """Simulate two balls: seconds, seconds again, impacts, energy change."""
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


_HEIGHT, _GRAVITY, _BOUNCE, _END = 1.0, 9.81, 0.8, 1.5


def bench(most: int | None = None) -> bool:
    """Print errors and speeds in batches of up to `most` copies; whether every check held."""
    device, errors = jax.devices()[0], list(_errors())
    say(f"{'device':30} {device.platform}, {device.device_kind}; {jnp.result_type(float)}")
    for name, error, tolerance in errors:
        say(f"{name:30} error {error:.1e} of {tolerance:.0e} allowed: {'right' if error <= tolerance else 'WRONG'}")
    most = side_by_side(device.platform).bench if most is None else most
    say("", f"{'':30} {'copies':>7} {'compile [s]':>12} {'run [ms]':>10} {'per second':>12}")
    for name, unit, run, lanes in _cases(most):
        _row(name, unit, run, lanes)
    return all(error <= tolerance for _, error, tolerance in errors)


def _row(name: str, per_lane: int, run: Callable, lanes: Any) -> None:
    """One line of the table; `per_lane` things happen in each lane."""
    count = jax.tree.leaves(lanes)[0].shape[0]
    seconds = []
    for _ in range(4):
        begin = time.perf_counter()
        jax.block_until_ready(run(lanes))
        seconds.append(time.perf_counter() - begin)
    median = float(np.median(seconds[1:]))
    compilation = max(seconds[0] - median, 0.0)
    say(f"{name:30} {count:7d} {compilation:12.1f} {1e3 * median:10.2f} {count * per_lane / median:12.3g}")


def _errors() -> Iterator[tuple[str, float, float]]:
    """(what, its error, the error that rounding explains)."""
    for kind in dict.fromkeys((jnp.result_type(float), jnp.dtype(jnp.float32))):
        problems, u = _projections(256)
        found = jax.jit(jax.vmap(qp.project))(*(x.astype(kind) for x in problems))
        # Whitened rows have a condition of some hundreds.
        error = float(np.max(np.abs(np.asarray(found.u) - u)))
        yield f"projection, {kind}", error if not np.any(found.status) else np.inf, 1e4 * float(jnp.finfo(kind).eps)
    eps = float(jnp.finfo(float).eps)
    theta = jnp.array([_HEIGHT, _BOUNCE])
    state, jacobian = (np.asarray(f(theta)) for f in (jax.jit(_bounced), jax.jit(jax.jacfwd(_bounced))))
    truth, slope = (np.asarray(f(theta)) for f in (_exactly, jax.jacfwd(_exactly)))
    # A hundred steps, and derivatives of some ten.
    yield "EventTimed, state", float(np.max(np.abs(state - truth))), 1e3 * eps
    yield "EventTimed, derivative", float(np.max(np.abs(jacobian - slope))), 1e4 * eps
    back = np.asarray(jax.jit(jax.jacrev(_bounced))(theta))
    yield "EventTimed, reverse mode", float(np.max(np.abs(back - slope))), 1e4 * eps


def _cases(most: int) -> Iterator[tuple[str, int, Callable, Any]]:
    """(name, how much one lane is, run, lanes) of every row."""
    project, improve = jax.jit(jax.vmap(qp.project)), jax.jit(jax.vmap(_improved))
    forward, gradient = jax.jit(jax.vmap(_settled)), jax.jit(jax.vmap(jax.grad(_settled)))

    def guesses(count):
        return jnp.tile(jnp.array([_HEIGHT, _BOUNCE]), (count, 1)) + 0.01 * _numbers(count, 2)

    for name, unit, run, lanes in (
        ("projections (12 x 6)", 1, lambda lanes: project(*lanes).u, lambda count: _projections(count)[0]),
        ("10 spheres, steps", _SPHERE_STEPS, forward, lambda count: _numbers(count, 30)),
        ("10 spheres, steps of gradients", _SPHERE_STEPS, gradient, lambda count: _numbers(count, 30)),
        ("fits, Gauss-Newton steps", 1, improve, guesses),
    ):
        for count in (1, 64, 1024, 16_384, 65_536):
            if count <= most:
                yield name, unit, run, lanes(count)


def _numbers(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).uniform(-1, 1, shape))


def _projections(count: int) -> tuple[tuple[jax.Array, ...], np.ndarray]:
    """Projections (mass, G, b, v) and their solutions u, chosen first."""
    rng = np.random.default_rng(0)
    rows, u = rng.normal(size=(count, 12, 6)), rng.normal(size=(count, 6))
    mass = 10 ** rng.uniform(-0.5, 0.5, (count, 6))
    multipliers, room = rng.uniform(0.5, 1.0, (count, 12)), rng.uniform(0.5, 1.0, (count, 12))
    multipliers[:, 4:], room[:, :4] = 0.0, 0.0
    v = u - np.einsum("ncd,nc->nd", rows, multipliers) / mass
    b = room - np.einsum("ncd,nd->nc", rows, u)
    return tuple(jnp.asarray(x) for x in (mass, rows, b, v)), u


def _ball(theta) -> Any:
    """A ball dropped from theta[0] with e = theta[1], a hundred steps."""
    params = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-_GRAVITY]), "restitution": theta[1]}
    return simulate(balls(1, 1, box=(0.0, jnp.inf)), params, theta[:1], jnp.zeros(1), jnp.linspace(0.0, _END, 101))


def _bounced(theta) -> jax.Array:
    run = _ball(theta)
    return jnp.stack([run.q[-1, 0], run.u[-1, 0]])


def _closed(theta, t) -> jax.Array:
    """Its height in closed form, before the third impact."""
    speed = jnp.sqrt(2 * _GRAVITY * theta[0])
    first = speed / _GRAVITY
    second = first * (1 + 2 * theta[1])
    after = [theta[1] ** k * speed * (t - at) - _GRAVITY * (t - at) ** 2 / 2 for k, at in ((1, first), (2, second))]
    return jnp.where(t < first, theta[0] - _GRAVITY * t**2 / 2, jnp.where(t < second, *after))


def _exactly(theta) -> jax.Array:
    """Height and velocity at the end, in closed form."""
    return jnp.stack(jax.jvp(lambda t: _closed(theta, t), (_END,), (1.0,)))


def _improved(theta) -> jax.Array:
    """Take one Gauss-Newton step from theta to the true motion."""
    J, r = jax.jacfwd(_misfit)(theta), _misfit(theta)
    return theta - jnp.linalg.solve(J.T @ J, J.T @ r)


def _misfit(theta) -> jax.Array:
    return _ball(theta).q[:, 0] - _closed(np.array([_HEIGHT, _BOUNCE]), jnp.linspace(0.0, _END, 101))


_SPHERE_STEPS = 100
_SPHERES = balls(10, 3, box=(0.0, 1.0))


def _settled(u0) -> jax.Array:
    """Sum of squared positions of ten falling spheres after 100 steps."""
    params = {
        "mass": jnp.ones(10),
        "radius": jnp.full(10, 0.1),
        "gravity": jnp.array([0.0, 0.0, -9.81]),
        "restitution": 0.0,
    }
    grid = np.stack(np.meshgrid([0.2, 0.5, 0.8], [0.2, 0.5, 0.8], [0.15, 0.45], indexing="ij"), -1).reshape(-1, 3)
    times = jnp.linspace(0.0, 0.5, _SPHERE_STEPS + 1)
    run = simulate(_SPHERES, params, jnp.asarray(grid[:10].ravel()), u0, times, scheme=VelocityProjection())
    return jnp.sum(run.q[-1] ** 2)
