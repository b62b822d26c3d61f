"""Reactions by exact local solves, contact by contact, each round of them followed by Newton's step on all contacts."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import in_lanes, once
from diffcontact.qp.friction.law import assemble, linearised, natural_map
from diffcontact.qp.friction.one_contact import solve_contact

# Contacts turn over their modes in a few passes, or cycle.
PASSES = 25

# Of Newton's step the fraction is taken that leaves least; with none of them the pass was its local solves.
FRACTIONS = (1.0, 0.5, 0.2, 0.05)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Reactions:
    """What the passes carry.

    Args:
        r: (c, 1 + k) reactions in the unit of `Contacts`.
        residual: () natural map, relative; the smallest that was met.
        number: () int, of passes.
    """

    r: jax.Array
    residual: jax.Array
    number: jax.Array


def wanted(dtype):
    """The residual that passes go on to reach: rounding."""
    return 50 * jnp.finfo(dtype).eps


def accepted(dtype):
    """The residual up to which reactions count as a solution: two thirds of the digits."""
    return jnp.finfo(dtype).eps ** (2 / 3)


def residual(contacts, r):
    """Natural map (c, 1 + k) as velocities; its largest entry beyond rounding, relative to the largest of q."""
    stride = 1 / jnp.maximum(jnp.trace(contacts.blocks(), axis1=1, axis2=2), 1)
    left = natural_map(r, contacts.velocities(r), contacts.friction, stride) / stride[:, None]
    noise = contacts.noise + 16 * jnp.finfo(r.dtype).eps * jnp.max(jnp.abs(r))
    largest = jnp.maximum(jnp.max(jnp.abs(left)) - noise, 0)
    return left, jnp.where(largest > 0, largest / jnp.where(contacts.unit > 0, contacts.unit, 1), 0)


def improve(contacts, r, running):
    """Passes from the reactions r on, until rounding is what is left.

    Args:
        contacts: `Contacts`.
        r: (c, 1 + k).
        running: () bool, whether there is anything to do.
    """
    enough = wanted(r.dtype)

    def one_more(found):
        stepped = _newton(contacts, found.r)
        better = residual(contacts, stepped)[1] < 0.5 * found.residual
        r = jnp.where(better, stepped, sweep(contacts, stepped, 4))
        return Reactions(r=r, residual=residual(contacts, r)[1], number=found.number + 1)

    def unfinished(found):
        return running & (found.residual > enough) & (found.number < PASSES)

    start = Reactions(r=r, residual=residual(contacts, r)[1], number=jnp.zeros((), jnp.int32))
    return lax.while_loop(unfinished, once(one_more), in_lanes(start, start.residual))


def sweep(contacts, r, iterations):
    """Each contact solved exactly in turn, with what the others do at that moment (Gauss-Seidel).

    Reference:
        M. Jean, The non-smooth contact dynamics method, Comput. Methods Appl. Mech. Eng. 177 (1999).
    """
    blocks = contacts.blocks()

    def one(i, state):
        r, step = state
        rows = contacts.rows[i]
        alone = rows @ step + contacts.q[i] - blocks[i] @ r[i]
        new = solve_contact(blocks[i], alone, contacts.friction[i], iterations)
        return r.at[i].set(new), step + (new - r[i]) @ rows

    return lax.fori_loop(0, r.shape[0], one, in_lanes((r, contacts.step(r)), contacts.q))[0]


def _newton(contacts, r):
    """The best of some fractions of Newton's step on the modes of r, or r where none is better."""
    w = contacts.velocities(r)
    eps = jnp.finfo(r.dtype).eps
    width = eps * (contacts.unit + eps)
    F, by_reaction, by_velocity = linearised(contacts, r, w, contacts.strides(), width)
    # Where rows depend on each other, a little compliance makes the step unique; what it leaves the next pass takes.
    count, size = r.shape
    compliance = accepted(r.dtype) * jnp.eye(count * size, dtype=r.dtype).reshape(count, size, count, size)
    matrix = assemble(by_reaction, by_velocity, contacts.W + compliance)
    dr = linear.solve(matrix, -jnp.ravel(F)).reshape(r.shape)
    dr = jnp.where(jnp.all(jnp.isfinite(dr)), dr, 0)

    def left(fraction):
        return jnp.sum(residual(contacts, r + fraction * dr)[0] ** 2)

    fractions = jnp.asarray((0.0, *FRACTIONS), r.dtype)
    return r + fractions[jnp.argmin(jax.vmap(left)(fractions))] * dr
