"""What is left of a step with more events than it resolves."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact import qp
from diffcontact.schemes.event_timed.impacts import matters
from diffcontact.status import Status
from diffcontact.system import acceleration, contacts, displaced

# Newton's corrections after a motion along tangents: O(s^2), O(s^4), ... for curved contacts, none for flat ones.
CORRECTIONS = 4


def remainder(system, params, t, s, q: Array, u: Array, slow: Array, fastest: Array):
    """What is left of a step with more percussions than it resolves: one inelastic step, feasible and dissipative.

    The velocity projection of S1 eq. (11)-(15), with the contacts taken at (t, q), and the way by the mean of both
    velocities, so that free flight under a constant force is exact. With v_i = G_i v + dg_i/dt::

        u' = argmin 1/2 |v - (u + s a)|_M^2        subject to    s v_i + max(2 max(g_i, 0) + s u_i, 0) >= 0
        x  = argmin 1/2 |y - s (u + u') / 2|_M^2   subject to    G_i y + s dg_i/dt + max(g_i, 0) >= 0
        q' = q + x,                                moved (M-orthogonally) to where no gap is negative

    While walls stand still v = 0 is feasible, so that no energy is made; what curvature asks for moves q' alone.

    Returns:
        q', u', impulse (c,), status, whether a contact was stopped that should have bounced, so fast that it `matters`,
        and the coordinates (d,) of those that were stopped: bodies that rattle to rest without a force that closes the
        gaps end a hair apart.
    """
    wanted = s * (u + s * acceleration(system, params, t, q, u))

    def move(carry, number):
        # As displacements: over no time at all, rounding of a closed gap must not become a velocity.
        x, jump = carry
        velocity, way = number == 0, number == 1
        there = contacts(system, params, jnp.where(velocity | way, t, t + s), x)
        closing, drift = jnp.maximum(there.gap, 0.0), s * there.drift
        room = jnp.where(way, closing + drift, there.gap)
        room = jnp.where(velocity, drift + jnp.maximum(2 * closing + s * there.velocity(u), 0.0), room)
        target = jnp.where(velocity, wanted, jnp.where(way, (s * u + jump) / 2, 0.0))
        step = qp.project(system.mass(x, params), there.normals, room, target)
        after = displaced(system, params, x, jnp.where(velocity, 0.0, step.u))
        return (after, jnp.where(velocity, step.u, jump)), (there, step.u, step.multipliers, step.status)

    still = jnp.zeros_like(wanted)
    (x, _), (visited, steps, multipliers, status) = lax.scan(move, (q, still), jnp.arange(2 + CORRECTIONS))
    here = jax.tree.map(lambda x: x[0], visited)
    moves = jnp.abs(s) > jnp.finfo(q.dtype).tiny
    length = jnp.where(moves, s, 1.0)
    w, impulse = jnp.where(moves, steps[0] / length, u), jnp.where(moves, multipliers[0] / length, 0.0)
    # Against the largest: bodies that rattle to rest between each other have no acceleration of their own.
    approach = -here.velocity(u)
    bounced = (impulse > 0) & (approach > jnp.max(jnp.where(impulse > 0, slow, 0.0)))
    bounced = bounced & matters(here, approach, 0, fastest)
    stopped = jnp.any((jnp.abs(here.normals) > 0) & (impulse > 0)[:, None], axis=0)
    return x, w, impulse, status[jnp.argmax(status != Status.OK)], jnp.any(bounced), stopped
