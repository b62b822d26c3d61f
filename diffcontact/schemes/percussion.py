"""When an impact happens, and what it does to the velocity."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array, lax

from diffcontact import qp
from diffcontact.mass import solve
from diffcontact.schemes.flow import Tolerance
from diffcontact.status import Status
from diffcontact.system import acceleration, contacts


def first_impact(begin: tuple[Array, Array], end: tuple[Array, Array], s, watched: Array, tolerance: Tolerance):
    """The contact that closes first within (0, s], and about when.

    Along the step each gap is the cubic with the given values and velocities at both ends: exact for flat contacts
    and constant forces, O(s^4) otherwise. It is cut at its extrema, so that a contact that closes and opens
    again within the step (a thin obstacle) is seen.

    Args:
        begin, end: gaps and gap velocities there, (c,) each [m, m/s].
        s: length of the step [s].
        watched: (c,) contacts to look at (those at rest are kept from overlapping by the smooth motion).
        tolerance: see `Tolerance`.

    Returns:
        time in [0, s] (s where there is none), contact, and whether there is one.
    """
    (g0, v0), (g1, v1) = begin, end
    closed = g0 <= tolerance.gap
    start = jnp.where(closed, 0.0, g0)
    # Cubic in sigma = time / s: start + c1 sigma + c2 sigma^2 + c3 sigma^3.
    c1 = s * v0
    c2 = 3 * (g1 - start) - s * (2 * v0 + v1)
    c3 = 2 * (start - g1) + s * (v0 + v1)

    def gap_at(sigma):
        return start + sigma * (c1 + sigma * (c2 + sigma * c3))

    # Extrema, by the form of the quadratic formula that neither cancels nor divides by zero.
    discriminant = jnp.sqrt(jnp.maximum(c2**2 - 3 * c1 * c3, 0.0))
    stable = -(c2 + jnp.where(c2 >= 0, discriminant, -discriminant))
    tiny = jnp.finfo(g0.dtype).tiny
    extrema = (
        stable / jnp.where(jnp.abs(c3) > tiny, 3 * c3, jnp.inf),
        c1 / jnp.where(jnp.abs(stable) > tiny, stable, jnp.inf),
    )
    inner = [jnp.clip(sigma, 0.0, 1.0) for sigma in (jnp.minimum(*extrema), jnp.maximum(*extrema))]
    nodes = jnp.stack([jnp.zeros_like(g0), *inner, jnp.ones_like(g0)])
    # The end of the step belongs to the step: a contact that is closed there, and approaching, is an impact now.
    at_end = (g1 <= -tolerance.gap) | ((g1 <= tolerance.gap) & (v1 < -tolerance.velocity))
    below = jnp.stack([*(gap_at(sigma) < -tolerance.gap for sigma in inner), at_end])
    crosses = jnp.any(below, axis=0)
    piece = jnp.argmax(below, axis=0)
    columns = jnp.arange(g0.size)
    low, high = nodes[piece, columns], nodes[piece + 1, columns]

    def bisect(bracket, _):
        # Newton where it stays inside the bracket, else bisection; the cubic falls monotonically between the nodes.
        low, high, sigma = bracket
        value, slope = gap_at(sigma), c1 + sigma * (2 * c2 + sigma * 3 * c3)
        low, high = jnp.where(value > 0, sigma, low), jnp.where(value > 0, high, sigma)
        newton = sigma - value / jnp.where(slope < -tiny, slope, -jnp.inf)
        inside = (newton >= low) & (newton <= high) & (slope < -tiny)
        return (low, high, jnp.where(inside, newton, (low + high) / 2)), None

    (_, _, sigma), _ = lax.scan(bisect, (low, high, (low + high) / 2), None, length=12)
    # Closed already and approaching: now. Whatever lies inside a closed contact's first piece is this same impact.
    immediate = closed & (v0 < -tolerance.velocity)
    sigma = jnp.where(immediate, 0.0, sigma)
    sigma = jnp.where(watched & (crosses | immediate), sigma, jnp.inf)
    contact = jnp.argmin(sigma)
    found = sigma[contact] <= 1.0
    return jnp.where(found, sigma[contact], 1.0) * s, contact, found


def percussion(system, params, t, q: Array, u: Array, contact, closed: Array, slow: Array, alone):
    r"""The jump of the velocity at an impact: u+ (d,), impulse (c,) [N s], status.

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

    after, impulse, status = strike(restitution)
    if restitution.ndim == 0:
        return after, impulse, status

    def gain(u_after, impulse):
        return impulse @ (before + here.velocity(u_after)) / 2

    least, least_impulse, _ = strike(jnp.min(jnp.where(taking_part, restitution, 1.0)))
    rise, fall = gain(after, impulse), gain(least, least_impulse)
    spread = rise - fall
    weight = jnp.where(rise > 0, rise / jnp.where(spread > 0, spread, 1.0), 0.0)
    return after + weight * (least - after), impulse + weight * (least_impulse - impulse), status


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
