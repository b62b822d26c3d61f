"""Solve Coulomb's friction at very many contacts between bodies, matrix-free."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from diffcontact.arguments import require_shapes
from diffcontact.numerics.batching import full_precision_matmul
from diffcontact.numerics.linear import nonzero
from diffcontact.qp.many.anderson import ITERATIONS, ManyContacts, UnitContacts
from diffcontact.qp.many.vectors import solved_among, stated_tolerance
from diffcontact.qp.reaction import Reaction
from diffcontact.qp.rows import BodyRows, inverse_length, magnitudes, product, squares, switched, transposed_product
from diffcontact.status import Status

# Sizes in which contacts that may push are brought together, as shares of all: in a settled heap a sixth may push.
SIZES = 11 / 64, 12 / 64, 16 / 64, 24 / 64
# Number of contacts up to which contacts that cannot push are worked on, too.
BROUGHT_TOGETHER_ABOVE = 256
# A contact may push if it does, or closes, or opens more slowly than this share of the fastest approach. Heaps take a
# sixth more iterations with 0.05, and as many with 0.15 among more contacts.
SLOWLY = 0.07
# Reactions as large as these, in the unit of the largest violation, are no sign of a contradiction in any precision: a
# sphere under a thousand others has them. Single precision may hide violations of 1e-4 of the largest behind them.
LARGEST = 1e3
# Contacts that may push are worked on until the residual has come down to this share; then all are looked at again.
EACH_ROUND = 0.02
# Single precision, in which a step takes half the time, brings the residual down to this share, or to this number of
# roundings of the reactions, within this number of steps; the rest is left to double precision.
SINGLE_REDUCTION, SINGLE_ROUNDINGS, SINGLE_STEPS = 1e-6, 64, 500


@full_precision_matmul
def coulomb_many(
    mass: ArrayLike,
    normals: BodyRows,
    tangents: tuple[BodyRows, ...],
    b: ArrayLike,
    s: ArrayLike,
    friction: ArrayLike,
    v: ArrayLike,
    *,
    reactions: ArrayLike | None = None,
    tolerance: float | None = None,
    iterate: bool = True,
) -> Reaction:
    """The velocity u and the impulses P, B of c contacts that obey Coulomb's law, to a stated residual.

        M (u - v) = N^T P + S^T B
        w_N = N u + b >= 0,  P >= 0,  P w_N = 0
        |B| <= mu P,         B = -mu P w_T/|w_T| where w_T = S u + s is not zero

    What `coulomb` solves exactly among few contacts. Normal rows are scaled to length one, and tangential ones so that
    their mean square is one; mu is changed with them. There it iterates until

        max |r - Proj_K(r - rho (w_N + mu |w_T|, w_T))| / rho  <=  tolerance * max_i |min(w_N,i(v), 0)|,   rho = 0.4,

    for r = (P, B) and the cone K = {|B| <= mu P}, which is zero exactly at the solution. Pure: jit and vmap. It has no
    derivative, and says so where one is asked for: take `coulomb`, or no cell list.

    A heap of a thousand spheres takes some two hundred products by the rows a step. Bodies that are wedged between
    obstacles, with more sticking contacts than they have freedom and gaps that do not quite fit, have reactions that
    drift, and may end at the iteration limit with a residual of 1e-5.

    Args:
        mass: (d,) diagonal of M [kg].
        normals: `BodyRows` (c, d), N.
        tangents: k = 1 or 2 `BodyRows` (c, d) between the same bodies, the rows of S for each direction.
        b: (c,) offsets of the normal velocities [m/s]; +inf switches a contact off.
        s: (c, k) offsets of the slip velocities [m/s].
        friction: (c,) coefficients mu >= 0.
        v: (d,) the velocity without contacts [m/s].
        reactions: (c, 1 + k) impulses to start from, normal ones first, for instance the last step's [N s].
        tolerance: of the residual; None: 1e-6 in double precision, 64 eps in single.
        iterate: False leaves mu |w_T| out, which makes the problem convex and opens contacts that slip:
            N u + b >= mu |w_T| there.

    Returns:
        A `Reaction`. Its status is ITERATION_LIMIT where the residual was not reached, as where rows
        contradict each other; NOT_FINITE where input or result is not finite.

    Raises:
        ValueError: rows that are not `BodyRows`, shapes that do not fit, a tolerance that is not positive.
        NotImplementedError: a derivative is asked for.

    Reference:
        D. G. Anderson, J. ACM 12 (1965); P. Alart, A. Curnier, Comput. Methods Appl. Mech. Eng. 92 (1991), for the
        step; V. Acary, F. Cadoux, C. Lemarechal, J. Malick, ZAMM 91 (2011), for the residual. The convex problem: M.
        Anitescu, Math. Program. 105 (2006); A. Tasora, M. Anitescu, Comput. Methods Appl. Mech. Eng. 200 (2011).

    Example:
        A puck that hits the floor obliquely slips, with friction 0.5.

        >>> import numpy as np
        >>> floor = BodyRows(np.array([[-1, 0]]), np.array([[[0.0, 1.0]]]), 1)
        >>> along = BodyRows(np.array([[-1, 0]]), np.array([[[1.0, 0.0]]]), 1)
        >>> given = np.ones(2), floor, (along,), np.zeros(1), np.zeros((1, 1)), np.array([0.5]), np.array([3.0, -2.0])
        >>> hit = jax.device_get(jax.jit(coulomb_many)(*given))
        >>> print(f"{hit.u[0]:.4f} {hit.normal[0]:.4f} {hit.tangential[0, 0]:.4f}")
        2.0000 2.0000 -1.0000
    """
    mass, b, s, friction, v, start = _checked(mass, normals, tangents, b, s, friction, v, reactions)
    problem = mass, normals, tangents, b, s, friction, v
    return _without_derivative(problem, start, stated_tolerance(tolerance, v.dtype), iterate)


@partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def _without_derivative(problem, start, tolerance, coulomb) -> Reaction:
    mass, normals, tangents, b, s, friction, v = problem
    # An offset that is NaN is no contact that is off.
    on = b != jnp.inf
    rows = tuple(switched(one, on) for one in (normals, *tangents))
    reactions, status = _reactions(mass, rows, jnp.where(on, b, 0), s, friction, v, start, on, tolerance, coulomb)
    u = v + sum(transposed_product(one, r) for one, r in zip(rows, reactions, strict=True)) / mass
    unknown = jnp.any(on & jnp.isnan(b + jnp.sum(s, axis=1) + friction))
    status = jnp.where(jnp.all(jnp.isfinite(u)) & ~unknown, status, Status.NOT_FINITE).astype(jnp.int32)
    return Reaction(u, reactions[0], reactions[0] > 0, status, reactions[1:].T)


@_without_derivative.defjvp
def _no_derivative(*_):
    raise NotImplementedError(
        "friction at the contacts of a neighbour list has no derivative; take balls without a cell list"
    )


def _reactions(mass, rows, b, s, friction, v, start, on, tolerance, coulomb):
    """Return the impulses (1 + k, c) and a status, from a start (c, 1 + k)."""
    # In units of the heaviest mass and of the largest violation: single precision has 38 decades only.
    heaviest = jnp.max(mass)
    mass = mass / heaviest
    square = [squares(one, 1 / mass) for one in rows]
    normal, tangential = inverse_length(square[0]), inverse_length(sum(square[1:]) / len(square[1:]))
    scale = jnp.stack([normal, *[tangential] * len(square[1:])])
    offset = jnp.concatenate([b[None], s.T])
    free = jnp.where(on[None], scale * (jnp.stack([product(one, v) for one in rows]) + offset), 0)
    largest = jnp.max(-free[0], initial=0.0)
    unit = nonzero(largest)
    # Rounding of G v + b is no violation.
    size = jnp.stack([magnitudes(one, v) for one in rows]) + jnp.abs(offset)
    noise = 16 * jnp.finfo(b.dtype).eps * jnp.max(jnp.where(on[None], scale * size, 0), initial=0.0)
    contacts = ManyContacts(free / unit, UnitContacts.of(rows, scale, mass), friction * normal / tangential, coulomb)
    enough = (tolerance * largest + noise) / unit
    in_newton_seconds = unit * heaviest * scale
    r = contacts.admissible(jnp.where(on[None], start.T / in_newton_seconds, 0))
    if on.size > BROUGHT_TOGETHER_ABOVE and r.dtype != jnp.float32:
        r = _approached(contacts, r, on, enough)
    r, residual = _in_rounds(contacts, r, on, enough, ITERATIONS)
    # Rows that contradict each other have reactions without end, in whose rounding the contradiction is lost.
    eps = jnp.finfo(b.dtype).eps
    lost = eps * jnp.max(jnp.abs(r), initial=0.0) > jnp.maximum(enough, LARGEST * eps)
    return r * in_newton_seconds, jnp.where((residual <= enough) & ~lost, Status.OK, Status.ITERATION_LIMIT)


def _approached(contacts: ManyContacts, r, on, enough):
    """Approach the reactions from r as far as single precision sees."""
    single, begin = contacts.astype(jnp.float32), r.astype(jnp.float32)
    rounding = SINGLE_ROUNDINGS * jnp.finfo(jnp.float32).eps * jnp.max(begin, initial=0.0)
    residual = single.residual(begin, single.velocities(begin))
    goal = jnp.maximum(jnp.maximum(SINGLE_REDUCTION * residual, rounding), enough.astype(jnp.float32))
    found, _ = _in_rounds(single, begin, on, goal, SINGLE_STEPS)
    # What overflowed tells nothing, and what rounding moved out of the cone has to go back.
    return contacts.admissible(jnp.where(jnp.all(jnp.isfinite(found)), found.astype(r.dtype), r))


def _in_rounds(contacts: ManyContacts, r, on, enough, iterations: int):
    """Iterate from r, in rounds; return reactions and their residual among all contacts.

    Most contacts of a list will not push. The iterations leave them out, and they are looked at afterwards.
    """
    few, sizes = on.size <= BROUGHT_TOGETHER_ABOVE, [int(on.size * part) for part in SIZES]

    def next_goal(residual):
        return jnp.where(EACH_ROUND * residual > 10 * enough, EACH_ROUND * residual, enough / 2)

    def round(carry):
        r, w, _, goal, spent = carry
        may_push = on & ((r[0] > 0) | (contacts.opening(w) < SLOWLY))
        solve = lambda contacts, r: contacts.solved(r, goal)  # noqa: E731
        r, number = solve(contacts, r) if few else solved_among(solve, contacts, r, may_push, sizes)
        w = contacts.velocities(r)
        # A projected step is shorter than the residual, seldom by more than half.
        goal = jnp.where(goal > enough, next_goal(goal), goal / 2)
        return r, w, contacts.residual(r, w), goal, spent + jnp.maximum(number, 1)

    def not_enough(carry):
        return (carry[2] > enough) & (carry[4] < iterations)

    w = contacts.velocities(r)
    residual, none = contacts.residual(r, w), jnp.zeros((), jnp.int32)
    goal = enough / 2 if few else next_goal(residual)
    r, _, residual, _, _ = lax.while_loop(not_enough, round, (r, w, residual, goal, none))
    return r, residual


def _checked(mass, normals, tangents, b, s, friction, v, reactions):
    for name, rows in (("normals", normals), *((f"tangents[{i}]", rows) for i, rows in enumerate(tangents))):
        if not isinstance(rows, BodyRows):
            raise ValueError(f"{name}: expected BodyRows, got {type(rows).__name__}; for dense rows take coulomb")
        if rows.shape != normals.shape or rows.count != normals.count:
            raise ValueError(f"{name} has the shape {rows.shape}; expected that of normals, {normals.shape}")
    (count, dimension), k = normals.shape, len(tangents)
    if k not in (1, 2):
        raise ValueError(f"tangents: expected 1 or 2 BodyRows, got {k}")
    start = jnp.zeros((count, 1 + k), normals.dtype) if reactions is None else reactions
    each, body = "one entry per contact", "one entry per column of normals"
    require_shapes(
        mass=(mass, (dimension,), body),
        b=(b, (count,), each),
        s=(s, (count, k), "one entry per row of tangents"),
        friction=(friction, (count,), each),
        v=(v, (dimension,), body),
        reactions=(start, (count, 1 + k), "one entry per row"),
    )
    return tuple(jnp.asarray(given, normals.dtype) for given in (mass, b, s, friction, v, start))
