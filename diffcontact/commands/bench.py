"""`python -m diffcontact doctor --bench`: is this device right, and how fast is it?

Correctness against closed forms first, then a table: projections, trajectories, gradients and steps of fits, in batches
of one to as many as the device is for. The times are medians of three runs after the one that compiles.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact import qp
from diffcontact.host.messages import say
from diffcontact.numerics.devices import side_by_side
from diffcontact.schemes import VelocityProjection
from diffcontact.simulate import simulate
from diffcontact.systems import balls

_HEIGHT, _GRAVITY, _BOUNCE, _END = 1.0, 9.81, 0.8, 1.5


def bench(most: int | None = None) -> bool:
    """Print what was found.

    Args:
        most: copies in the largest batch; None: what suits the device.

    Returns:
        Whether every correctness check held.
    """
    device = jax.devices()[0]
    say(f"{'device':30} {device.platform}, {device.device_kind}; {jnp.result_type(float)}")
    sound = True
    for name, error, tolerance in _errors():
        right = error <= tolerance
        sound &= right
        say(f"{name:30} error {error:.1e} of {tolerance:.0e} allowed: {'right' if right else 'WRONG'}")
    most = side_by_side(device.platform).bench if most is None else most
    say("", f"{'':30} {'copies':>7} {'compile [s]':>12} {'run [ms]':>10} {'per second':>12}")
    for name, unit, run, lanes in _cases(most):
        _row(name, unit, run, lanes)
    return sound


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
    batches = [count for count in (1, 64, 1024, 16_384, 65_536) if count <= most]
    project = jax.jit(jax.vmap(qp.project))
    for count in batches:
        problems, _ = _projections(count)
        yield "projections (12 x 6)", 1, lambda lanes: project(*lanes).u, problems
    forward = jax.jit(jax.vmap(_settled))
    gradient = jax.jit(jax.vmap(jax.grad(_settled)))
    for count in batches:
        yield "10 spheres, steps", _STEPS, forward, _speeds(count)
    for count in batches:
        yield "10 spheres, steps of gradients", _STEPS, gradient, _speeds(count)
    improve = jax.jit(jax.vmap(_improved))
    for count in batches:
        thetas = jnp.tile(jnp.array([_HEIGHT, _BOUNCE]), (count, 1)) + 0.01 * _numbers(count, 2)
        yield "fits, Gauss-Newton steps", 1, improve, thetas


def _numbers(*shape: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).uniform(-1, 1, shape))


def _projections(count: int) -> tuple[tuple[jax.Array, ...], np.ndarray]:
    """(mass, G, b, v) of so many projections with 12 rows in 6 dimensions, and their solutions u, chosen first."""
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
    params = {
        "mass": jnp.ones(1),
        "radius": jnp.zeros(1),
        "gravity": jnp.array([-_GRAVITY]),
        "restitution": theta[1],
    }
    return simulate(balls(1, 1, box=(0.0, jnp.inf)), params, theta[:1], jnp.zeros(1), jnp.linspace(0.0, _END, 101))


def _bounced(theta) -> jax.Array:
    run = _ball(theta)
    return jnp.stack([run.q[-1, 0], run.u[-1, 0]])


def _exactly(theta) -> jax.Array:
    """The same in closed form: two impacts before 1.5 s."""
    speed = jnp.sqrt(2 * _GRAVITY * theta[0])
    left = _END - speed / _GRAVITY - 2 * theta[1] * speed / _GRAVITY
    again = theta[1] ** 2 * speed
    return jnp.stack([again * left - _GRAVITY * left**2 / 2, again - _GRAVITY * left])


def _improved(theta) -> jax.Array:
    """A step of a fit of height and e to the positions of the ball that was dropped from 1 m with e = 0.8."""
    J, r = jax.jacfwd(_misfit)(theta), _misfit(theta)
    return theta - jnp.linalg.solve(J.T @ J, J.T @ r)


def _misfit(theta) -> jax.Array:
    t = jnp.linspace(0.0, _END, 101)
    speed = np.sqrt(2 * _GRAVITY * _HEIGHT)
    fall, flight = speed / _GRAVITY, 2 * _BOUNCE * speed / _GRAVITY
    free = _HEIGHT - _GRAVITY * t**2 / 2
    first, second = (
        _BOUNCE**k * speed * (t - at) - _GRAVITY * (t - at) ** 2 / 2 for k, at in ((1, fall), (2, fall + flight))
    )
    seen = jnp.where(t < fall, free, jnp.where(t < fall + flight, first, second))
    return _ball(theta).q[:, 0] - seen


_STEPS = 100
_SPHERES = balls(10, 3, box=(0.0, 1.0))


def _speeds(count: int) -> jax.Array:
    return _numbers(count, 30)


def _settled(u0) -> jax.Array:
    """The sum of squares of where ten spheres are that fall into a box, after 100 steps."""
    params = {
        "mass": jnp.ones(10),
        "radius": jnp.full(10, 0.1),
        "gravity": jnp.array([0.0, 0.0, -9.81]),
        "restitution": 0.0,
    }
    grid = np.stack(np.meshgrid([0.2, 0.5, 0.8], [0.2, 0.5, 0.8], [0.15, 0.45], indexing="ij"), -1).reshape(-1, 3)
    times = jnp.linspace(0.0, 0.5, _STEPS + 1)
    run = simulate(_SPHERES, params, jnp.asarray(grid[:10].ravel()), u0, times, scheme=VelocityProjection())
    return jnp.sum(run.q[-1] ** 2)
