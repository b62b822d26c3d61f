"""The projection that every step of every simulation is made of, and its equality form."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.batching import any_lane
from diffcontact.qp.active_set import independent_rows, solve_dual
from diffcontact.qp.hold import hold_rows
from diffcontact.qp.tableau import scaled_delassus
from diffcontact.status import Status


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


def project(mass, G, b, v) -> Projection:
    """The point nearest to v, in the metric of the mass, that satisfies all constraints.

        argmin_u 1/2 (u-v)^T M (u-v)    subject to    G u + b >= 0

    Pure: jit, vmap, jvp and vjp in every argument. The derivative holds the working set W fixed, so at a tie (a row with
    value zero *and* multiplier zero, where the two one-sided derivatives differ) a row counts as active exactly if it is
    in W (`Projection.active`); a row that the unconstrained v merely touches is not.

    Args:
        mass: (d,) diagonal of M, or (d, d), symmetric positive definite [kg].
        G: (c, d) constraint rows; zero and duplicated rows are fine.
        b: (c,) offsets; +inf switches a row off.
        v: (d,) the point to project.

    Returns:
        A Projection. Where no u satisfies all rows the status is INFEASIBLE and u is the projection of v onto the rows
        relaxed by the smallest (least squares) violation; it is finite, and so are the derivatives.

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
    if b.shape[0] == 0:
        return Projection(u=v, multipliers=b, active=jnp.zeros(0, bool), status=jnp.asarray(int(Status.OK)))
    working, slack, status = _working_set(*map(lax.stop_gradient, (mass, G, b, v)))
    u, multipliers = hold_rows(mass, G, b + slack, v, working)
    return Projection(u=u, multipliers=jnp.maximum(multipliers, 0), active=working, status=status)


def hold(mass, G, b, v, active) -> Projection:
    """The point nearest to v, in the metric of the mass, that satisfies the active rows as equalities.

        argmin_u 1/2 (u-v)^T M (u-v)    subject to    G_i u + b_i = 0  where active_i

    Args:
        mass: (d,) diagonal of M, or (d, d), symmetric positive definite [kg].
        G: (c, d) constraint rows.
        b: (c,) offsets; not read where a row is not active.
        v: (d,) the point to project.
        active: (c,) bool. Has no derivative.

    Returns:
        A Projection whose multipliers have either sign and whose `active` is the independent part of the rows asked for:
        of rows that depend on each other a largest independent subset is held.

    Raises:
        ValueError: shapes that do not fit.

    Example:
        >>> import jax.numpy as jnp
        >>> one, row = jnp.array([1.0]), jnp.array([[1.0]])
        >>> hold(one, row, jnp.array([0.0]), jnp.array([2.0]), jnp.array([True])).multipliers.tolist()
        [-2.0]
    """
    mass, G, b, v = _checked(mass, G, b, v)
    active = jnp.asarray(active, bool)
    if active.shape != b.shape:
        raise ValueError(f"active has the shape {active.shape}; expected {b.shape}, one entry per row of G")
    ok = jnp.asarray(int(Status.OK))
    if b.shape[0] == 0:
        return Projection(u=v, multipliers=b, active=active, status=ok)

    def independent():
        A, _ = scaled_delassus(lax.stop_gradient(mass), lax.stop_gradient(G), active)
        return independent_rows(A, active, min(G.shape))

    working = lax.cond(any_lane(jnp.any(active)), independent, lambda: active)
    u, multipliers = hold_rows(mass, G, b, v, working)
    return Projection(u=u, multipliers=multipliers, active=working, status=ok)


def _checked(mass, G, b, v):
    mass, G, b, v = map(jnp.asarray, (mass, G, b, v))
    if G.ndim != 2:
        raise ValueError(f"G has the shape {G.shape}; expected (c, d): one row per constraint")
    count, dimension = G.shape
    if mass.shape not in ((dimension,), (dimension, dimension)):
        raise ValueError(f"mass has the shape {mass.shape}; expected ({dimension},) or ({dimension}, {dimension})")
    if b.shape != (count,):
        raise ValueError(f"b has the shape {b.shape}; expected ({count},), one entry per row of G")
    if v.shape != (dimension,):
        raise ValueError(f"v has the shape {v.shape}; expected ({dimension},), one entry per column of G")
    dtype = jnp.result_type(mass, G, b, v)
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = jnp.result_type(float)
    return tuple(x.astype(dtype) for x in (mass, G, b, v))


def _working_set(mass, G, b, v):
    """The working set (c,), the slack (c,) that b needs to be feasible, and the status."""
    on = b < jnp.inf
    finite_b = jnp.where(on, b, 0)
    eps = jnp.finfo(b.dtype).eps
    # The rounding of G v + b, row by row; a violation below it cannot be told from none.
    noise = 16 * eps * (jnp.abs(G) @ jnp.abs(v) + jnp.abs(finite_b))
    value = jnp.where(on, G @ v + finite_b, jnp.inf)

    def search():
        return _search(mass, G, value, noise, on)

    def nothing():
        return jnp.zeros_like(on), jnp.zeros_like(b), jnp.asarray(int(Status.OK))

    return lax.cond(any_lane(jnp.any(value < -noise)), search, nothing)


def _search(mass, G, value, noise, on):
    """Find the working set; where there is none, relax the rows by the least violation and find that of the relaxed ones."""
    A, scale = scaled_delassus(mass, G, on)
    count, rank = G.shape[0], min(G.shape)
    eps = jnp.finfo(A.dtype).eps
    w0 = value * scale
    # Multipliers of unit rows are as large as the violations; their rounding comes back as values.
    tolerance = scale * noise + 16 * eps * jnp.max(jnp.where(on, jnp.abs(w0), 0))
    # min 1/2 sum r_i^2 over the violations r, as a weight on the dual's diagonal; small against A's unit diagonal, yet
    # large enough that the dual of contradicting rows is solved to half the digits.
    ridge = jnp.maximum(jnp.sqrt(eps) * scale**2 / jnp.max(scale**2), 64 * eps)
    identity = jnp.eye(count, dtype=A.dtype)

    def attempt(carry):
        number, slack, _, _ = carry
        relaxing = number == 1
        weight = jnp.where(relaxing, ridge, 0)
        found = solve_dual(A + identity * weight[:, None], w0 + slack, tolerance, jnp.where(relaxing, count, rank))
        violation = jnp.where(found.working & relaxing, found.point * weight, 0)
        # The violations are known to sqrt(eps) of the largest one; the margin keeps the relaxed rows feasible.
        margin = jnp.where(violation > 0, 8 * jnp.sqrt(eps) * jnp.max(violation), 0)
        return number + 1, slack + violation + margin, found.working, found.status

    def again(carry):
        number, _, _, status = carry
        return (number == 0) | (number == 2) | ((number == 1) & (status == Status.INFEASIBLE))

    start = (jnp.zeros((), int), jnp.zeros_like(w0), jnp.zeros_like(on), jnp.asarray(int(Status.OK)))
    _, slack, working, status = lax.while_loop(again, attempt, start)
    # Rows that contradict each other by no more than rounding do not make a problem infeasible.
    contradiction = jnp.any(slack > 1e3 * tolerance)
    status = jnp.where(contradiction, Status.INFEASIBLE, jnp.where(status == Status.INFEASIBLE, Status.OK, status))
    return working, slack / scale, status
