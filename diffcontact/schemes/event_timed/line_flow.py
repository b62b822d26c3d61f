"""The motion of a particle line while every particle keeps its mode: slip forwards, slip backwards, or stick.

In fixed modes the law is linear,

    m_i du_i/dt = (p - V u - K q)_i - mode_i gamma nu_i     where mode_i = +1 or -1,       u_i = E(t)  where mode_i = 0

and is solved by the matrix exponential: stable at any step, however stiff springs and dashpots are. It is exact while
given forces, normal reactions and the belt's acceleration are quadratic in time; else O(s^5) per piece (Simpson's
nodes).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.scipy.linalg import expm

from diffcontact.particle_line import ParticleLine
from diffcontact.schemes.line import belt, read

# Where the motion is looked at: the ends of its quarters, which one exponential serves; Boole's weights on them.
QUARTERS = 4
BOOLE = (7 / 90, 32 / 90, 12 / 90, 32 / 90, 7 / 90)
# The exponential's argument may have a norm of 5 * 2^SQUARINGS: steps of 10^7 times the shortest time scale.
SQUARINGS = 24


class Way(NamedTuple):
    """A smooth piece at the ends of its quarters: times, q and u, each (5, ...)."""

    t: Array
    q: Array
    u: Array


def pull(line: ParticleLine, params, t, q: Array, u: Array) -> Array:
    """(N,) p - V u - K q - m dE/dt: the force that friction has to balance for a particle to stick [N]."""
    mass, damping, stiffness, load = read(
        q.dtype, line.mass(params), line.damping(params), line.stiffness(params), line.load(t, params)
    )
    return load - damping @ u - stiffness @ q - mass * belt_acceleration(line, params, t, q.dtype)


def friction_bound(line: ParticleLine, params, t, dtype) -> Array:
    """(N,) gamma nu(t), the bound of the friction force [N]."""
    gamma, normal = read(dtype, line.friction(params), line.normal(t, params))
    return gamma * normal


def belt_acceleration(line: ParticleLine, params, t, dtype) -> Array:
    """() dE/dt [m/s^2]."""
    t = jnp.asarray(t, dtype)
    return jax.jvp(lambda t: jnp.asarray(belt(line, params, t), dtype), (t,), (jnp.ones_like(t),))[1]


def flow(line: ParticleLine, params, t, s, q: Array, u: Array, modes: Array) -> Way:
    """The motion over s seconds in fixed modes.

    With z = (q, u / omega, x, x sigma, x sigma^2) and sigma = time / s the law is dz/dsigma = A z; one exponential of
    A / 4 advances by a quarter. The frequency omega and the length x balance the norms of A's blocks, in any unit; they
    cancel out of the result.

    Args:
        s: length of the motion [s]; it may be zero.
        q, u: (N,) at its begin.
        modes: (N,) int: +1, -1 slip, 0 stick.
    """
    count, dtype = q.size, q.dtype
    mass, damping, stiffness = read(dtype, line.mass(params), line.damping(params), line.stiffness(params))
    slips = modes != 0

    def forcing(time):
        """(N,) acceleration by all that does not depend on q and u."""
        load = jnp.asarray(line.load(time, params), dtype)
        sliding = (load - modes * friction_bound(line, params, time, dtype)) / mass
        return jnp.where(slips, sliding, belt_acceleration(line, params, time, dtype))

    first, middle, last = forcing(t), forcing(t + s / 2), forcing(t + s)
    forces = jnp.stack([first, 4 * middle - 3 * first - last, 2 * first - 4 * middle + 2 * last], axis=1)
    per_mass = jnp.where(slips, 1.0 / mass, 0.0)[:, None]
    spring = jnp.max(jnp.sum(jnp.abs(per_mass * stiffness), axis=1))
    quarter = s / QUARTERS
    once = 1 / jnp.where(quarter > 0, quarter, 1.0)
    omega = lax.stop_gradient(jnp.where(spring > 0, jnp.sqrt(jnp.where(spring > 0, spring, 1.0)), once))
    driven = lax.stop_gradient(jnp.max(jnp.abs(quarter / omega * forces)))
    x = jnp.where(driven > 0, QUARTERS * driven, 1.0)
    block = jnp.zeros((2 * count + 3, 2 * count + 3), dtype)
    block = block.at[:count, count:-3].set(quarter * omega * jnp.eye(count, dtype=dtype))
    block = block.at[count:-3, :count].set(-quarter / omega * per_mass * stiffness)
    block = block.at[count:-3, count:-3].set(-quarter * per_mass * damping)
    block = block.at[count:-3, -3:].set(quarter / omega * forces / x)
    # d sigma = 1, d sigma^2 = 2 sigma.
    block = block.at[-2, -3].set(1 / QUARTERS).at[-1, -2].set(2 / QUARTERS)
    step = expm(block, max_squarings=SQUARINGS)

    def go(z, _):
        z = step @ z
        return z, z

    begin = jnp.concatenate([q, u / omega, jnp.stack([x, jnp.zeros_like(x), jnp.zeros_like(x)])])
    z = jnp.concatenate([begin[None], lax.scan(go, begin, None, length=QUARTERS)[1]])
    times = t + s * jnp.arange(QUARTERS + 1, dtype=dtype) / QUARTERS
    carried = jax.vmap(lambda time: jnp.asarray(belt(line, params, time), dtype))(times)
    return Way(times, z[:, :count], jnp.where(slips, omega * z[:, count:-3], carried[:, None]))


def friction(line: ParticleLine, params, way: Way, modes: Array) -> Array:
    """(N,) impulse of friction over a piece [N s], by Boole's rule."""

    def force(t, q, u):
        sliding = -modes * friction_bound(line, params, t, q.dtype)
        return jnp.where(modes != 0, sliding, -pull(line, params, t, q, u))

    weights = jnp.asarray(BOOLE, way.q.dtype)
    return (way.t[-1] - way.t[0]) * (weights @ jax.vmap(force)(*way))
