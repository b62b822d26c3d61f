r"""What contacts do, and the reaction in given modes: one linear system for accelerations, velocities and impacts.

    M (u - v) = R^T z,   w = R u + b
    open    z = 0
    stick   w = 0
    slip    w_N = 0,     z_T = -mu z_N d,     d the direction of the slip

with w = (w_N, w_T) and z = (z_N, z_T) of each contact. Without friction (k = 0) a contact is open or held.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact import qp
from diffcontact.numerics import linear
from diffcontact.numerics.batching import where_wanted
from diffcontact.numerics.linear import length
from diffcontact.qp.friction.coulomb import on_springs
from diffcontact.schemes.event_timed.contacts import unit

OPEN, STICK, SLIP = range(3)


class Reaction(NamedTuple):
    """A velocity or acceleration u (d,) and what led to it, z (c, 1 + k), in modes (c,) with directions (c, k)."""

    u: Array
    z: Array
    modes: Array
    direction: Array


def react(mass, rows, b, v, modes, mu, direction, follows=None) -> tuple[Array, Array]:
    """The velocity, or acceleration, and the reaction of contacts that stay in their modes.

    Of rows that depend on each other (a box that lies flat) the reaction is the one of least norm.

    Args:
        mass: (d,) or (d, d).
        rows: (c, 1 + k, d), b: (c, 1 + k).
        v: (d,) without contacts.
        modes: (c,) int, no derivative; direction: (c, k) of length one where a contact slips.
        mu: (c,).
        follows: None, or (c,) contacts whose direction is that of w_T, as in an impact. A slip in space then turns as
            the inputs change: one of Newton's steps from the solution has the derivative.
    """
    count, each, size = rows.shape
    follows = None if each < 3 else follows
    # No more than a few contacts beyond the degrees of freedom are held: only their rows cost anything.
    room = most_held(count, size)
    picked = None if room == count else first_of(modes != OPEN, room)
    if picked is not None:
        rows, b, modes, mu, direction = (x[picked] for x in (rows, b, modes, mu, direction))
        follows = None if follows is None else follows[picked]
    H = rows.reshape(room * each, size)
    moved = linear.solve_mass(mass, H.T)
    A = H @ moved
    sticks, closed = (modes == STICK)[:, None], (modes != OPEN)[:, None]
    held = jnp.concatenate([closed, jnp.broadcast_to(sticks, (room, each - 1))], axis=1).reshape(-1)
    # A direction in which nothing moves has no friction.
    held = held & (jnp.diagonal(A) > 0)
    system = jnp.where(held[:, None], A, jnp.eye(held.size, dtype=v.dtype))
    if each > 1:
        # z_T + mu z_N d = 0: the normal entries of each contact's own tangential rows.
        law = jnp.where(modes == SLIP, mu, 0.0)[:, None] * direction
        law = jnp.concatenate([jnp.zeros_like(law[:, :1]), law], axis=1).reshape(-1)
        own = (jnp.arange(held.size) // each * each)[:, None] == jnp.arange(held.size)[None, :]
        system = system + jnp.where(own, law[:, None], 0.0)
    free = H @ v + b.reshape(-1)
    z = solve(system, jnp.where(held, -free, 0.0), held)
    if follows is not None:
        z = _turned(system, A, free, z, held, jnp.where(modes == SLIP, mu, 0.0), direction, follows & (modes == SLIP))
    spread = z.reshape(room, each)
    if picked is not None:
        spread = jnp.zeros((count, each), v.dtype).at[picked].set(spread)
    return v + moved @ z, spread


def first_of(those: Array, count: int) -> Array:
    """The numbers of the first `count`, those first, in order."""
    rank = jnp.where(those, jnp.cumsum(those) - 1, jnp.sum(those) + jnp.cumsum(~those) - 1)
    return jnp.argmax(rank[None] == jnp.arange(count)[:, None], axis=1)


def most_held(count: int, size: int) -> int:
    """How many of `count` contacts may be held at once, of bodies with `size` velocities."""
    return min(count, size + 4)


def _turned(system, A, free, z, held, mu, direction, follows) -> Array:
    """z after one of Newton's steps on its equations, with the directions of slips that follow w_T."""
    room, each = direction.shape[0], direction.shape[1] + 1

    def slip(z):
        return (A @ z + free).reshape(room, each)[:, 1:]

    # A slip that is rounding has no direction to follow, as that of a joint between bodies that others hold; one that
    # friction has turned round has none either: it ends.
    rounding = jnp.finfo(z.dtype).eps ** 0.75 * jnp.max(jnp.abs(free), initial=0.0)
    follows = follows & (jnp.sum(slip(lax.stop_gradient(z)) * lax.stop_gradient(direction), axis=1) > rounding)

    def along(z):
        return jnp.where(follows[:, None], unit(jnp.where(follows[:, None], slip(z), direction), direction), direction)

    def left(z, along):
        law = jnp.concatenate([jnp.zeros((room, 1), z.dtype), mu[:, None] * along], axis=1)
        friction = z + (law * z.reshape(room, each)[:, :1]).reshape(-1)
        return jnp.where(held, A @ z + free, friction)

    found = lax.stop_gradient(z)
    turning = jax.jacfwd(along)(found)
    pushes = jnp.where(held, 0.0, jnp.repeat(found.reshape(room, each)[:, 0] * mu, each)).reshape(room, each)[:, 1:]
    slope = jnp.concatenate([jnp.zeros((room, 1, room * each), z.dtype), pushes[:, :, None] * turning], axis=1)
    slope = lax.stop_gradient(system + slope.reshape(room * each, room * each))
    return found - solve(slope, left(found, along(found)), held)


def solve(A: Array, b: Array, held: Array) -> Array:
    """x with A x = b; A may be singular in the rows that are held, which are nudged apart, and x corrected twice."""

    def by(A):
        # What was nudged is corrected below: it decides between solutions only. Corrections leave its third power, and
        # of x along what is singular the rounding over it.
        nudge = jnp.where(held, jnp.finfo(b.dtype).eps ** 0.5 * jnp.diagonal(A), 0.0)
        N = _inverse(A + jnp.diag(nudge))

        def solution(_, b):
            x = N @ b
            for _ in range(2):
                x = x + N @ (b - A @ x)
            return x

        return solution

    fixed = lax.stop_gradient(A)
    return lax.custom_linear_solve(lambda x: A @ x, b, solve=by(fixed), transpose_solve=lambda _, b: by(fixed.T)(_, b))


def _inverse(A: Array) -> Array:
    """A^-1 by Gauss and Jordan, without pivots: in a loop, which lanes go through together."""
    index = jnp.arange(A.shape[0])

    def sweep(j, M):
        row, column = M[j], M[:, j]
        at, pivot = index == j, 1 / row[j]
        swept = jnp.where(at, -1.0, column)[:, None] * (jnp.where(at, 1.0, row) * pivot)[None]
        return jnp.where(at[:, None] | at[None], -swept, M - swept)

    if index.size <= _WRITTEN_OUT:
        for j in range(index.size):
            A = sweep(j, A)
        return A
    return lax.fori_loop(0, index.size, sweep, A)


_WRITTEN_OUT = 2


def choose(mass, rows, b, v, mu, on, known, direction, fixed=None) -> tuple[Reaction, Array]:
    """The reaction that obeys the laws of contact, and whether one was found.

        w_N >= 0, complementary to z_N >= 0,    |z_T| <= mu z_N,    z_T = -mu z_N w_T/|w_T| where w_T is not zero

    Without friction it is a projection. With friction modes are tried, first those that all contacts ask for at once,
    later one contact after the other, until none asks for another one. Where that goes in circles, all modes of up to
    four contacts in a plane are tried in turn. In space the search of `qp.coulomb` is asked, and its modes are tried.

    Args:
        on: (c,) contacts that may push.
        known: (c,) contacts whose slip has a `direction` (c, k): they slip, whatever w_T is.
        fixed: None, or whether modes (c,) are given, (), and these.
    """
    if rows.shape[1] == 1:
        found = qp.project(mass, rows[:, 0], jnp.where(on, b[:, 0], jnp.inf), v)
        modes = jnp.where(found.active & (found.multipliers > 0), STICK, OPEN).astype(jnp.int8)
        # What a search has added up depends on its way, and that on other lanes; what modes say does not.
        return Reaction(*react(mass, rows, b, v, modes, mu, direction), modes, direction), found.status == 0
    eps = jnp.finfo(v.dtype).eps
    moved = linear.solve_mass(mass, rows.reshape(-1, rows.shape[2]).T)
    compliance = jnp.sum(rows.reshape(-1, rows.shape[2]) * moved.T, axis=1).reshape(rows.shape[:2])
    stride = 1 / jnp.where(compliance > 0, compliance, jnp.inf)
    mu = jnp.where(jnp.any(compliance[:, 1:] > 0, axis=1), mu, 0.0)
    free = jnp.where(on[:, None], jnp.abs(rows @ v + b), 0.0)
    unit_w = eps**0.75 * jnp.max(free, initial=0.0)

    def search():
        pushing = on[:, None]
        given = mass, jnp.where(pushing[:, :, None], rows, 0.0), jnp.where(pushing, b, 0.0), mu, v, on
        sprung = on_springs(*given, jnp.where(known[:, None], direction, 0.0))
        modes = jnp.where(sprung.modes.closed, jnp.where(sprung.modes.slip, SLIP, STICK), OPEN).astype(jnp.int8)
        return modes, unit(sprung.slips, direction), v + sprung.step, sprung.lawful

    def improve(carry):
        number, modes, way, _, _ = carry
        if not planar:
            modes, way, aim, sought = where_wanted(number == tries, search, (modes, way, v, jnp.array(False)))
        u, z = react(mass, rows, b, v, modes, mu, way, ~known)
        if not planar:
            # Of rows that depend on each other the least reaction may leave the cones where another one does not.
            off = jnp.max(jnp.abs(rows @ (u - aim)), initial=0.0)
            close = sought & (off <= 64 * eps**0.5 * jnp.max(free, initial=0.0))
        found, w = Reaction(u, z, modes, way), rows @ u + b
        closed, slips = modes != OPEN, modes == SLIP
        force = unit_w * stride
        pulls, apart = z[:, 0] < -force[:, 0], length(w[:, 1:])
        wants = jnp.where(closed, ~pulls | (slips & ~known & (mu > 0)), w[:, 0] < -unit_w) & on
        bound, rub = mu * z[:, 0], length(z[:, 1:])
        # A stuck contact beyond its bound sets out against its friction; one that slips keeps to where it goes. What
        # comes into touch slips as it does; if it pulls then, it may still stick, and if it pulls then, it is open.
        reverses = jnp.sum(w[:, 1:] * way, axis=1) < -unit_w
        grips = jnp.where(slips, reverses | pulls, rub <= bound + force[:, 1] * (1 + mu))
        grips = jnp.where(closed, grips, apart <= unit_w) & ~known
        # Of rows that depend on each other the least reaction may pull where another one does not (a disc at rest in a
        # corner): a contact that sticks then slips before it opens.
        strained = (modes == STICK) & pulls & on & (mu > 0) & (number >= _TOGETHER)
        wants, grips = wants | strained, grips & ~strained
        turned = jnp.where((slips | ~closed)[:, None], unit(jnp.where(apart[:, None] > unit_w, w[:, 1:], 0.0), way),
                           unit(-z[:, 1:], way))  # fmt: skip
        turned = jnp.where(known[:, None], direction, turned)
        target = jnp.where(wants, jnp.where(grips, STICK, SLIP), OPEN).astype(jnp.int8)
        target = jnp.where((mu == 0) & wants, SLIP, target).astype(jnp.int8)
        # Where the motion depends on how dependent rows share their load, it is known to a root of the rounding.
        same = jnp.where(number < tries, 64 * eps, 64 * eps**0.5)
        turns = slips & (target == SLIP) & (jnp.max(jnp.abs(turned - way), axis=1) > same)
        differs = (target != modes) | turns
        one = jnp.arange(differs.size) == jnp.argmax(differs)
        change = differs & ((number < _TOGETHER) | (number >= tries) | one)
        done = ~jnp.any(differs)
        if not planar:
            # A direction may return to itself although the friction is along another one.
            off = jnp.where(slips & ~known, length(z[:, 1:] + bound[:, None] * turned), 0.0)
            obeys = jnp.all(off <= eps**0.5 * jnp.max(jnp.abs(bound), initial=0.0))
            number = jnp.where(done & ~obeys & (number < tries), tries - 1, number)
            done = (done & obeys) | close
        done = done | (False if fixed is None else fixed[0])
        modes = jnp.where(change, target, modes)
        way = jnp.where(change[:, None], turned, way)
        if planar:
            # All modes in turn: open, stick, slip to either side.
            code = (number + 1 - tries) >> 2 * jnp.minimum(jnp.cumsum(on) - 1, _FEW) & 3
            each = jnp.where(on, jnp.array([OPEN, STICK, SLIP, SLIP])[code], OPEN).astype(jnp.int8)
            in_turn = number + 1 >= tries
            modes = jnp.where(in_turn, each, modes)
            way = jnp.where(in_turn & ~known[:, None], jnp.where(code == 3, -1.0, 1.0)[:, None].astype(way.dtype), way)
        return number + 1, modes, way, found, done

    start = jnp.where(on, jnp.where(known | (mu == 0), SLIP, STICK), OPEN).astype(jnp.int8)
    if fixed is not None:
        start = jnp.where(fixed[0], fixed[1], start)
    none = Reaction(v, jnp.zeros_like(b), start, direction)
    planar, pushing = rows.shape[1] == 2, jnp.sum(on)
    tries = _IN_PLANE if planar else _IN_SPACE
    more = jnp.where(pushing <= _FEW, 4 ** jnp.minimum(pushing, _FEW), 0) if planar else _TOGETHER
    begin = jnp.zeros((), jnp.int32), start, direction, none, ~jnp.any(start != OPEN)
    *_, found, done = lax.while_loop(lambda c: ~c[4] & (c[0] < tries + more), improve, begin)
    if most_held(*rows.shape[::2]) < rows.shape[0]:
        # Of contacts that nobody had room for the others must have taken the load.
        w = rows[:, 0] @ found.u + b[:, 0]
        done = done & jnp.all((found.modes == OPEN) | (w >= -(eps**0.5) * jnp.max(free, initial=0.0)))
    return found, done & jnp.all(jnp.isfinite(found.u))


# So often all contacts change their modes together, then one at a time. In space the search finds what is left.
_TOGETHER, _IN_PLANE, _IN_SPACE = 12, 80, 20
# Modes of so many contacts in a plane are tried in turn, 4 ** _FEW at most.
_FEW = 4
