"""Project a velocity onto inequalities, as every step of every simulation does, or onto equalities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.typing import ArrayLike

from diffcontact.arguments import real_arrays, require_shapes
from diffcontact.numerics import linear
from diffcontact.numerics.batching import full_precision_matmul, where_wanted
from diffcontact.qp.held_rows import HeldRows, at_slots, independent, settle
from diffcontact.qp.kernel import find_working_set
from diffcontact.qp.rows import (
    BodyRows,
    check_bodies,
    inverse_length,
    magnitudes,
    members,
    product,
    slots_of,
    spread,
    squared_lengths,
    switched,
    take,
    transposed_magnitudes,
    transposed_product,
)
from diffcontact.qp.working_set import EXPLAINED
from diffcontact.status import Status

# The name that `jax.checkpoint` knows a projection's working set by: kept, it need not be found again in reverse mode.
WORKING_SET = "working set of a projection"


@full_precision_matmul
def project(mass: ArrayLike, G: ArrayLike | BodyRows, b: ArrayLike, v: ArrayLike) -> Reaction:
    """Project v onto all constraints, in the metric of the mass.

        argmin_u 1/2 (u-v)^T M (u-v)    subject to    G u + b >= 0

    Pure: jit, vmap, jvp and vjp in every argument. The derivative holds the working set W (`Reaction.active`) fixed.
    At a tie, a row with value zero *and* multiplier zero, the two one-sided derivatives differ: the row counts as
    active if and only if it is in W. A row that the unconstrained v merely touches is not in W; nor are two opposite
    ones, between which u has no room. There both sides have one derivative, that of `hold`, which is for equalities.

    A large batch of large problems is faster on a CPU in chunks, `jax.lax.map(..., batch_size=16)`, than in one vmap.
    The slowest problem of a batch decides how long all take, and the tableaux of a chunk stay in the cache.

    Args:
        mass: (d,) diagonal of M, or (d, d), symmetric positive definite [kg].
        G: (c, d) constraint rows, or `BodyRows` with a diagonal mass; zero and duplicated rows are fine.
        b: (c,) offsets; +inf switches a row off.
        v: (d,) the point to project.

    Returns:
        A Reaction. Where no u satisfies all rows the status is INFEASIBLE, and u is the projection of v onto the rows
        relaxed by the violation of least sum of squares. It is finite, and so are the derivatives. Where the conditions
        of optimality are missed by more than rounding explains, or rows by what proves no contradiction, the status is
        ILL_CONDITIONED.

        Rounding is 16 eps of a row's terms, plus 16 eps of the largest violation of any row at v, rows scaled to length
        one. A row that is violated by less does not push. One that is missed at u by up to 8 times as much leaves the
        status OK. In single precision these are 2e-6 and 1.5e-5: u >= 10 and u <= 0 are OK from v = -1e6. Problems of
        very different scales belong apart, or in float64. Where u rests on rows at a small angle, rounding over the
        angle is the error of u: 4e-3 of u at angles of 0.001 in single precision; 1e-7 of u at 1e-5 in double, and 1e-5
        by the kernel. The derivative may lack a row there.

    Raises:
        ValueError: shapes that do not fit.

    Reference:
        Goldfarb and Idnani (1983); the projection is S3 eq. (2), remark 4.1 of S1.

    Example:
        >>> import jax.numpy as jnp
        >>> floor = project(jnp.array([1.0]), jnp.array([[1.0]]), jnp.array([0.0]), jnp.array([-2.0]))
        >>> floor.u.tolist(), floor.multipliers.tolist()
        ([0.0], [2.0])
    """
    mass, G, b, v = _checked(mass, G, b, v)
    if 0 in G.shape:
        return _unconstrained(b, v, jnp.where(jnp.any(b < 0), Status.INFEASIBLE, Status.OK))
    found = checkpoint_name(find_working_set(*lax.stop_gradient((mass, G, b, v))), WORKING_SET)
    u, multipliers = settle(mass, G, b + found.slack, v, found.working, v + found.step, found.multipliers)
    status = jnp.where(jnp.all(jnp.isfinite(u)), found.status, Status.NOT_FINITE).astype(jnp.int32)
    return Reaction(u=u, normal=multipliers, closed=found.working, status=status)


@full_precision_matmul
def hold(mass: ArrayLike, G: ArrayLike | BodyRows, b: ArrayLike, v: ArrayLike, active: ArrayLike) -> Reaction:
    """Find the point nearest to v, in the metric of the mass, that satisfies the active rows as equalities.

        argmin_u 1/2 (u-v)^T M (u-v)    subject to    G_i u + b_i = 0  where active_i

    Args:
        mass: (d,) diagonal of M, or (d, d), symmetric positive definite [kg].
        G: (c, d) constraint rows, or `BodyRows`.
        b: (c,) offsets; not read where a row is not active.
        v: (d,) the point to project.
        active: (c,) bool. Has no derivative.

    Returns:
        A Reaction whose multipliers have either sign and whose `active` is the independent part of the rows asked
        for: of rows that depend on each other a largest independent subset is held, and zero rows are not. Where
        those left out contradict those that are held the status is INFEASIBLE; which are held is no choice by least
        violation. It is ILL_CONDITIONED where another row is missed by more than rounding explains, or the mass is not
        positive definite in this precision, and NOT_FINITE where u or an active row is not.

    Raises:
        ValueError: shapes that do not fit.

    Example:
        >>> import jax, numpy as np
        >>> one, row = np.array([1.0]), np.array([[1.0]])
        >>> jax.jit(hold)(one, row, np.array([0.0]), np.array([2.0]), np.array([True])).multipliers.tolist()
        [-2.0]
    """
    mass, G, b, v = _checked(mass, G, b, v)
    active = jnp.asarray(active, bool)
    require_shapes(active=(active, b.shape, "one entry per row of G"))
    if 0 in G.shape:
        return _unconstrained(b, v, Status.OK)

    fixed = lax.stop_gradient((mass, G, b, v))
    nothing = jnp.zeros_like(b)

    def independently():
        slots = independent(*fixed[:2], active)
        u, parts = HeldRows.of(*fixed[:2], slots).solve(at_slots(slots, fixed[2]), fixed[3])
        return members(slots, b.size), u, spread(slots, parts, b.size)

    taken, u, multipliers = where_wanted(jnp.any(active), independently, (nothing > 0, fixed[3], nothing))
    u, multipliers = settle(mass, G, b, v, taken, u, multipliers)
    status = _held_status(*fixed, active, taken, lax.stop_gradient(u))
    return Reaction(u=u, normal=multipliers, closed=taken, status=status)


def _held_status(mass, G, b, v, active, taken, u):
    """Return the status of `hold`, computed only where it is asked for."""
    root, G, b = linear.root_of_mass(mass), switched(G, active), jnp.where(active, b, 0)
    square = squared_lengths(mass, root, G)
    at_v, at_u = (product(G, x) + b for x in (v, u))
    # As in `project`: of the rows' terms, and of the largest value at v, in the unit in which rows have length one.
    unit = jnp.sqrt(square) * jnp.max(jnp.abs(at_v) * inverse_length(square))
    terms = magnitudes(G, jnp.abs(u) + jnp.abs(v)) + jnp.abs(b) + unit
    explained = EXPLAINED * 16 * jnp.finfo(b.dtype).eps
    missed = active & ~(jnp.abs(at_u) <= explained * terms)
    left_out = missed & ~taken

    def refuted():
        """Tell whether the left-out row missed most is a sum of held ones, with another offset."""
        worst = jnp.argmax(jnp.where(left_out, jnp.abs(at_u), -1))
        row, held = take(G, worst[None])[0], switched(G, taken)
        slots = slots_of(taken, min(G.shape))
        still, nothing = linear.solve_mass(mass, row), jnp.zeros(slots.size, b.dtype)
        parts = spread(slots, HeldRows.of(mass, held, slots).solve(nothing, still)[1], b.size)
        rest, most = row + transposed_product(held, parts), jnp.abs(row) + transposed_magnitudes(held, parts)
        apart, rounding = at_u[worst] + parts @ at_u, explained * (terms[worst] + jnp.abs(parts) @ terms)
        return jnp.all(jnp.abs(rest) <= explained * most) & (jnp.abs(apart) > rounding)

    contradicts = where_wanted(jnp.any(left_out), refuted, jnp.zeros((), bool))
    positive = jnp.all(jnp.isfinite(1 / (root if root.ndim == 1 else jnp.diagonal(root))))
    unsolved = jnp.any(missed & taken) | (jnp.any(active) & ~positive)
    status = jnp.where(contradicts & ~unsolved, Status.INFEASIBLE, Status.ILL_CONDITIONED)
    status = jnp.where(jnp.any(missed) | unsolved, status, Status.OK)
    finite = jnp.all(jnp.isfinite(at_v)) & jnp.all(jnp.isfinite(v)) & (jnp.all(jnp.isfinite(u)) | ~positive)
    return jnp.where(finite, status, Status.NOT_FINITE).astype(jnp.int32)


def _unconstrained(b, v, status):
    nothing = jnp.zeros_like(b)
    return Reaction(u=v, normal=nothing, closed=nothing > 0, status=jnp.asarray(status, jnp.int32))


def _checked(mass, G, b, v):
    if isinstance(G, BodyRows):
        mass, numbers, b, v = real_arrays(mass=mass, normals=G.normals, b=b, v=v)
        G = replace(G, normals=numbers)
        check_bodies(G)
        if mass.ndim != 1:
            raise ValueError(
                f"mass has the shape {mass.shape}; expected ({G.shape[1]},): rows between bodies need a diagonal"
            )
    else:
        mass, G, b, v = real_arrays(mass=mass, G=G, b=b, v=v)
        if G.ndim != 2:
            raise ValueError(f"G has the shape {G.shape}; expected (c, d): one row per constraint")
    count, dimension = G.shape
    if mass.shape not in ((dimension,), (dimension, dimension)):
        raise ValueError(f"mass has the shape {mass.shape}; expected ({dimension},) or ({dimension}, {dimension})")
    by_row, by_column = "one entry per row of G", "one entry per column of G"
    require_shapes(b=(b, (count,), by_row), v=(v, (dimension,), by_column))
    return mass, G, b, v


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Reaction:
    """Hold a velocity after contact, and the impulses that led to it.

        M (u - v) = N^T normal + S^T tangential

    Without friction N is the matrix G of a projection, and nothing is tangential.

    Args:
        u: (d,) the velocity [m/s].
        normal: (c,) impulses along the rows [N s]; >= 0 but from `hold`.
        closed: (c,) bool, contacts that are closed; of a projection its working set, independent rows that are held.
        status: () int, a `diffcontact.status.Status`; 0 is fine.
        tangential: (c, k) B, |B| <= mu P [N s]; None without friction.
        slip: (c,) bool, contacts that slip; None where it is not known.
    """

    u: jax.Array
    normal: jax.Array
    closed: jax.Array
    status: jax.Array
    tangential: Any = None
    slip: Any = None

    @property
    def multipliers(self) -> jax.Array:
        """Return `normal` (c,) under its name in a projection, M (u - v) = G^T multipliers."""
        return self.normal

    @property
    def active(self) -> jax.Array:
        """Return `closed` (c,) bool under its name in a projection, the working set."""
        return self.closed


Projection = CoulombProjection = Reaction
