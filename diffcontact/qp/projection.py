"""The projection that every step of every simulation is made of, and its equality form."""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.typing import ArrayLike

from diffcontact.arguments import real_arrays
from diffcontact.numerics import mass as mass_matrix
from diffcontact.numerics.batching import where_wanted
from diffcontact.numerics.matmul_precision import full_precision_matmul
from diffcontact.qp import native
from diffcontact.qp.equality import hold_rows, settle
from diffcontact.qp.held_rows import independent
from diffcontact.qp.native import find_working_set
from diffcontact.qp.rows.body_rows import (
    BodyRows,
    check_bodies,
    dense,
    magnitudes,
    product,
    squares,
    switched,
    take,
    transposed_magnitudes,
    transposed_product,
)
from diffcontact.qp.rows.metric import inverse_length, whitened_rows
from diffcontact.qp.rows.slots import free_slots, members, slots_of
from diffcontact.qp.working_set import EXPLAINED
from diffcontact.status import Status

# The name that `jax.checkpoint` knows a projection's working set by: kept, it need not be found again in reverse mode.
WORKING_SET = "working set of a projection"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Projection:
    """A projected velocity.

    Args:
        u: (d,) the projection.
        multipliers: (c,) with M (u - v) = G^T multipliers; >= 0 from `project`.
        active: (c,) bool, the working set: independent rows that hold as equalities.
        status: () int, a `diffcontact.status.Status`; 0 is fine.
    """

    u: jax.Array
    multipliers: jax.Array
    active: jax.Array
    status: jax.Array


@full_precision_matmul
def project(mass: ArrayLike, G: ArrayLike | BodyRows, b: ArrayLike, v: ArrayLike) -> Projection:
    """Project v onto all constraints, in the metric of the mass.

        argmin_u 1/2 (u-v)^T M (u-v)    subject to    G u + b >= 0

    Pure: jit, vmap, jvp and vjp in every argument. The derivative holds the working set W (`Projection.active`) fixed.
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
        A Projection. Where no u satisfies all rows the status is INFEASIBLE, and u is the projection of v onto the rows
        relaxed by the violation of least sum of squares. It is finite, and so are the derivatives. Where the conditions
        of optimality are missed by more than rounding explains, or rows by what proves no contradiction, the status is
        ILL_CONDITIONED.

        Rounding is 16 eps of a row's terms plus 16 eps of the largest violation of any row at v, in the unit in which
        rows have length one. A row that is violated by less than that does not push; one that is missed at u by up to
        8 times that leaves the status OK. In single precision these are 2e-6 and 1.5e-5 of each, though the rows may
        have nothing to do with each other: u >= 10 and u <= 0 are OK from v = -1e6. Problems of very different scales
        belong apart, or in float64. With status OK u is the projection onto rows that are moved by no more than that,
        and the derivative is that of the working set there: at angles of 0.002 in single precision, and of 1e-7 in
        double, it may lack a row with half of all the load. Where u rests on rows at a small angle to each other, this
        over the angle is the error of u: at angles of 0.001 that was 4e-3 of u in single precision, in one of ten
        thousand problems, and at 1e-5 it was 1e-7 of u in double. The kernel, which adds 16 eps of double precision of
        the largest multiplier, was off by 1e-5 there.

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
    u, multipliers = settle(mass, G, b + found.slack, v, found.working, found.step, found.multipliers)
    status = jnp.where(jnp.all(jnp.isfinite(u)), found.status, Status.NOT_FINITE).astype(jnp.int32)
    return Projection(u=u, multipliers=multipliers, active=found.working, status=status)


@full_precision_matmul
def hold(mass: ArrayLike, G: ArrayLike | BodyRows, b: ArrayLike, v: ArrayLike, active: ArrayLike) -> Projection:
    """The point nearest to v, in the metric of the mass, that satisfies the active rows as equalities.

        argmin_u 1/2 (u-v)^T M (u-v)    subject to    G_i u + b_i = 0  where active_i

    Args:
        mass: (d,) diagonal of M, or (d, d), symmetric positive definite [kg].
        G: (c, d) constraint rows, or `BodyRows`.
        b: (c,) offsets; not read where a row is not active.
        v: (d,) the point to project.
        active: (c,) bool. Has no derivative.

    Returns:
        A Projection whose multipliers have either sign and whose `active` is the independent part of the rows asked
        for: of rows that depend on each other a largest independent subset is held, and zero rows are not. Where
        those left out contradict those that are held the status is INFEASIBLE; which are held is no choice by least
        violation. It is ILL_CONDITIONED where another row is missed by more than rounding explains, or the mass is not
        positive definite in this precision, and NOT_FINITE where u or an active row is not.

    Raises:
        ValueError: shapes that do not fit.

    Example:
        >>> import numpy as np
        >>> one, row = np.array([1.0]), np.array([[1.0]])
        >>> jax.jit(hold)(one, row, np.array([0.0]), np.array([2.0]), np.array([True])).multipliers.tolist()
        [-2.0]
    """
    mass, G, b, v = _checked(mass, G, b, v)
    active = jnp.asarray(active, bool)
    if active.shape != b.shape:
        raise ValueError(f"active has the shape {active.shape}; expected {b.shape}, one entry per row of G")
    if 0 in G.shape:
        return _unconstrained(b, v, Status.OK)

    fixed = lax.stop_gradient((mass, G, b, v))
    if native.ready():
        from diffcontact.qp.native.primitive import hold as by_kernel

        step, multipliers, taken = by_kernel(fixed[0], fixed[1], product(fixed[1], fixed[3]) + fixed[2], active)
        u, multipliers = settle(mass, G, b, v, taken, step, multipliers)
    else:
        slots = where_wanted(jnp.any(active), lambda: independent(*fixed[:2], active), free_slots(min(G.shape)))
        u, multipliers = hold_rows(mass, G, b, v, slots)
        taken = members(slots, b.shape[0])
    status = _held_status(*fixed, active, taken, lax.stop_gradient(u))
    return Projection(u=u, multipliers=multipliers, active=taken, status=status)


def _held_status(mass, G, b, v, active, taken, u):
    """() what became of `hold`; nothing of it is computed where it is not asked for, as in the schemes."""
    root, G, b = mass_matrix.root(mass), switched(G, active), jnp.where(active, b, 0)
    square = squares(G, 1 / mass) if mass.ndim == 1 else jnp.sum(whitened_rows(root, dense(G)) ** 2, axis=1)
    at_v, at_u = (product(G, x) + b for x in (v, u))
    # As in `project`: of the rows' terms, and of the largest value at v, in the unit in which rows have length one.
    unit = jnp.sqrt(square) * jnp.max(jnp.abs(at_v) * inverse_length(square))
    terms = magnitudes(G, jnp.abs(u) + jnp.abs(v)) + jnp.abs(b) + unit
    explained = EXPLAINED * 16 * jnp.finfo(b.dtype).eps
    missed = active & ~(jnp.abs(at_u) <= explained * terms)
    left_out = missed & ~taken

    def refuted():
        """Whether the left-out row that is missed most is a sum of those held, with another offset than theirs."""
        worst = jnp.argmax(jnp.where(left_out, jnp.abs(at_u), -1))
        row, held = take(G, worst[None])[0], switched(G, taken)
        slots = slots_of(taken, min(G.shape))
        _, parts = hold_rows(mass, held, jnp.zeros_like(b), mass_matrix.solve(mass, row), slots)
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
    return Projection(u=v, multipliers=nothing, active=nothing > 0, status=jnp.asarray(status, jnp.int32))


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
    if b.shape != (count,):
        raise ValueError(f"b has the shape {b.shape}; expected ({count},), one entry per row of G")
    if v.shape != (dimension,):
        raise ValueError(f"v has the shape {v.shape}; expected ({dimension},), one entry per column of G")
    return mass, G, b, v
