"""What an impact does to the velocity."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact import qp
from diffcontact.mass import solve
from diffcontact.status import Status
from diffcontact.system import acceleration, contacts


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["time", "contact", "impulse", "before", "after", "slow"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Percussion:
    """What happened at one impact, or at many (each field with a leading axis).

    Attributes:
        time: () when [s].
        contact: () int, the contact that closed; -1 where there was no percussion.
        impulse: (c,) of every contact that took part [N s].
        before, after: (c,) gap velocities [m/s].
        slow: (c,) approach velocity below which that step takes an impact as inelastic [m/s].
    """

    time: Array
    contact: Array
    impulse: Array
    before: Array
    after: Array
    slow: Array


def no_percussion(t, impulse: Array) -> Percussion:
    """The padding of a list of percussions."""
    none = jnp.zeros_like(impulse)
    return Percussion(jnp.zeros_like(t), jnp.array(-1, jnp.int32), none, none, none, none)


def percussion(system, params, t, q: Array, u: Array, contact, closed: Array, slow: Array, alone):
    r"""The jump of the velocity at an impact: u+ (d,), status and the `Percussion`.

    One projection over the closed contacts that the impact can reach (through the Delassus matrix G M^-1 G^T)::

        u+ = argmin 1/2 |u - u-|_M^2      subject to      v_i(u) >= -e_i v_i(u-)

    with v(u) = G u + dg/dt. For one e this is u+ = -e u- + (1 + e) Proj_M(T_K(q), u-) (S3 eq. 2): substitute
    u = -e u- + (1 + e) z. A contact that approaches at less than `slow` does not bounce (e_i = 0), so a Zeno
    sequence ends in rest.

    The kinetic energy (relative to moving walls) changes by D = 1/2 sum_i lambda_i (1 - e_i) v_i-. With one e,
    sum lambda_i v_i- <= 0 since (1 + e) lambda . v- = -lambda . A lambda, so D <= 0; setting e_i = 0 where
    -slow <= v_i- <= 0 only adds non-positive terms. With one e per contact D may be positive: a contact that
    *separates* (v_i- > 0) is loaded by its neighbours. Then u+ is blended with the solution for e = min_i e_i,
    whose D is <= 0: D is convex along the blend, so the smallest weight that brings the chord to zero suffices.

    Args:
        t, q, u: time, place and velocity of the impact.
        contact: the contact that closes.
        closed: (c,) contacts closed there.
        slow: (c,) approach velocity below which nothing bounces [m/s].
        alone: whether only the contacts coupled to `contact` take part; independent simultaneous impacts then
            keep each its own time, and with it its derivative.

    Source: S3 eq. (2); S1 section 4.
    """
    mass = system.mass(q, params)
    here = contacts(system, params, t, q)
    before = here.velocity(u)
    restitution = jnp.asarray(system.restitution(params), q.dtype)
    taking_part = closed & (_coupled(mass, here.normals, contact) | ~alone)
    soft = (before <= 0) & (before >= -slow)

    def strike(e):
        bound = jnp.where(taking_part, here.drift + jnp.where(soft, 0.0, e) * before, jnp.inf)
        hit = qp.project(mass, here.normals, bound, u)
        return hit.u, hit.multipliers, hit.status

    def report(after, impulse):
        return Percussion(t, contact.astype(jnp.int32), impulse, before, here.velocity(after), slow)

    after, impulse, status = strike(restitution)
    if restitution.ndim == 0:
        return after, status, report(after, impulse)

    def gain(u_after, impulse):
        return impulse @ (before + here.velocity(u_after)) / 2

    least, least_impulse, _ = strike(jnp.min(jnp.where(taking_part, restitution, 1.0)))
    rise, fall = gain(after, impulse), gain(least, least_impulse)
    spread = rise - fall
    weight = jnp.where(rise > 0, rise / jnp.where(spread > 0, spread, 1.0), 0.0)
    after, impulse = after + weight * (least - after), impulse + weight * (least_impulse - impulse)
    return after, status, report(after, impulse)


def _coupled(mass, normals: Array, contact) -> Array:
    """(c,) contacts whose impulse changes the gap velocity of `contact`, directly or through others."""
    mass, normals = lax.stop_gradient((mass, normals))
    delassus = normals @ solve(mass, normals.T)
    size = jnp.sqrt(jnp.diagonal(delassus))
    touches = jnp.abs(delassus) > jnp.finfo(normals.dtype).eps ** 0.75 * size[:, None] * size[None, :]

    def spread(carry):
        reached, _ = carry
        return reached | jnp.any(touches & reached[None, :], axis=1), reached

    start = jnp.arange(normals.shape[0]) == contact
    return lax.while_loop(lambda c: jnp.any(c[0] != c[1]), spread, (start, jnp.zeros_like(start)))[0]


# Newton's corrections after a motion along tangents: O(s^2), O(s^4), ... for curved contacts, none for flat ones.
CORRECTIONS = 4


def remainder(system, params, t, s, q: Array, u: Array, slow: Array):
    """What is left of a step with more percussions than it resolves: one inelastic step, feasible and dissipative.

    The velocity projection of S1 eq. (11)-(15), with the contacts taken at (t, q)::

        u' = argmin 1/2 |v - (u + s a)|_M^2    subject to    max(g_i, 0) + s (G_i v + dg_i/dt) >= 0
        q' = q + s u',                         moved (M-orthogonally) to where no gap is negative

    While walls stand still v = 0 is feasible, so that no energy is made; what curvature asks for moves q' alone.

    Returns:
        q', u', impulse (c,), status, and whether a contact was stopped that should have bounced.
    """
    near = contacts(system, params, t, q)
    wanted = s * (u + s * acceleration(system, params, t, q, u))

    def move(x, number):
        # As displacements: over no time at all, rounding of a closed gap must not become a velocity.
        there = contacts(system, params, t + s, x)
        begins = number == 0
        normals = jnp.where(begins, near.normals, there.normals)
        room = jnp.where(begins, jnp.maximum(near.gap, 0.0) + s * near.drift, there.gap)
        room = jnp.where(jnp.isfinite(near.gap), room, jnp.inf)
        step = qp.project(system.mass(x, params), normals, room, jnp.where(begins, wanted, 0.0))
        return x + step.u, (step.u, step.multipliers, step.status)

    x, (steps, multipliers, status) = lax.scan(move, q, jnp.arange(1 + CORRECTIONS))
    moves = jnp.abs(s) > jnp.finfo(q.dtype).tiny
    length = jnp.where(moves, s, 1.0)
    w, impulse = jnp.where(moves, steps[0] / length, u), jnp.where(moves, multipliers[0] / length, 0.0)
    # Against the largest: bodies that rattle to rest between each other have no acceleration of their own.
    bounced = (impulse > 0) & (near.velocity(u) < -jnp.max(slow))
    return x, w, impulse, status[jnp.argmax(status != Status.OK)], jnp.any(bounced)
