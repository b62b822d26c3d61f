"""Project onto very many rows between bodies, matrix-free.

The dual active set of `active_set` factors. `conjugate_gradients` only multiplies by the sparse rows, so that memory
and the cost of an iteration grow with their number. It stops at a residual, where the other is exact.

All rows share the lengths of the steps, which seldom costs anything. Balls that are wedged at once, each in a heap of
its own, take thousands of iterations together and some two hundred each: `vmap` keeps the heaps apart.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.scipy.sparse.linalg import cg
from jax.typing import ArrayLike

from diffcontact.arguments import real_arrays, require_shapes
from diffcontact.numerics.batching import full_precision_matmul
from diffcontact.numerics.linear import nonzero
from diffcontact.qp.many.conjugate_gradients import ITERATIONS, Dual, UnitRows
from diffcontact.qp.many.vectors import solved_among, stated_tolerance
from diffcontact.qp.projection import WORKING_SET
from diffcontact.qp.reaction import Reaction
from diffcontact.qp.rows import (
    BodyRows,
    along,
    check_bodies,
    inverse_length,
    magnitudes,
    product,
    squares,
    switched,
    transposed_product,
)
from diffcontact.status import Status

# Sizes in which rows that are on are brought together, in sixteenths of all rows. Of a crowd's rows falling balls have
# few on, a heap has about half on, and a heap that is just packing up has a little more on.
SIXTEENTHS = 6, 8, 11
# Number of rows up to which rows that are off are worked on, too. Bringing 99 rows together makes a step of a heap with
# half of its rows on 44 % slower, 224 rows 4 % slower, and 720 rows 9 % faster.
BROUGHT_TOGETHER_ABOVE = 256
# Number of rows up to which the iterations run in double precision. Single precision takes 3 % of the time off 425
# rows and 12 to 37 % off 960 to 7 300 rows, and costs the compilation of a second loop.
SINGLE_PRECISION_ABOVE = 2048


@full_precision_matmul
def project_many(
    mass: ArrayLike,
    G: BodyRows,
    b: ArrayLike,
    v: ArrayLike,
    *,
    multipliers: ArrayLike | None = None,
    tolerance: float | None = None,
) -> Reaction:
    """Find the point nearest to v that satisfies rows between many bodies, to a stated residual.

        argmin_u 1/2 (u-v)^T M (u-v)    subject to    G u + b >= 0

    With the rows scaled to length one (diagonal of A = G M^-1 G^T), w = G u + b and multipliers l, it iterates until

        max_i |l_i - max(l_i - w_i, 0)|  <=  tolerance * max_i |min(w_i(v), 0)|,

    zero exactly at the solution. Pure: jit, vmap, jvp and vjp in mass, G, b and v. The derivative does not follow the
    iterations: it holds the active rows and solves by conjugate gradients, forwards and backwards.

    Args:
        mass: (d,) diagonal of M [kg].
        G: `BodyRows` (c, d).
        b: (c,) offsets; +inf switches a row off.
        v: (d,) the point to project.
        multipliers: (c,) to start from, for instance the last step's; they have no derivative.
        tolerance: of the residual; None: 1e-6 in double precision, 64 eps in single.

    Returns:
        A `Reaction`; `active` are the rows with a multiplier, which may depend on each other. Its status is
        ITERATION_LIMIT where the residual was not reached, INFEASIBLE where rows contradict each other, ILL_CONDITIONED
        where a mass is not positive.

    Raises:
        ValueError: rows that are not `BodyRows`, shapes that do not fit, a tolerance that is not positive.

    Reference:
        Z. Dostal, Optimal Quadratic Programming Algorithms, Springer 2009, chapter 5 (which rows are worked on);
        J. J. More, G. Toraldo, On the solution of large quadratic programming problems with bound constraints,
        SIAM J. Optim. 1 (1991) (projected searches); E. Polak, G. Ribiere, Rev. Fr. Inform. Rech. Oper. 3 (1969).

    Example:
        >>> import numpy as np
        >>> row = BodyRows(np.array([[0, -1]]), np.array([[[1.0], [0.0]]]), 1)
        >>> floor = jax.device_get(jax.jit(project_many)(np.array([2.0]), row, np.array([0.0]), np.array([-3.0])))
        >>> print(f"{abs(floor.u[0]):.3f} {floor.multipliers[0]:.3f}")
        0.000 6.000
    """
    if not isinstance(G, BodyRows):
        raise ValueError(f"G: expected BodyRows, got {type(G).__name__}; for dense rows take project")
    (normals,) = real_arrays(normals=G.normals)
    G = replace(G, normals=normals)
    check_bodies(G)
    tolerance = stated_tolerance(tolerance, G.dtype)
    count, dimension = G.shape
    start = jnp.zeros(count, G.dtype) if multipliers is None else multipliers
    by_row, by_column = ((count,), "one entry per row of G"), ((dimension,), "one entry per column of G")
    require_shapes(mass=(mass, *by_column), b=(b, *by_row), v=(v, *by_column), multipliers=(start, *by_row))
    mass, b, v = (jnp.asarray(given, G.dtype) for given in (mass, b, v))
    # An offset that is NaN is no row that is off.
    on = b != jnp.inf
    G, b = switched(G, on), jnp.where(on, b, 0)
    found = _minimised(*lax.stop_gradient((mass, G, b, v)), lax.stop_gradient(start), on, tolerance)
    working, active, status = checkpoint_name(found, WORKING_SET)
    u, settled = _settle(mass, G, b, v, active, working)
    status = jnp.where(jnp.all(mass > 0), status, Status.ILL_CONDITIONED)
    status = jnp.where(jnp.all(jnp.isfinite(u)) & jnp.all(jnp.isfinite(b)), status, Status.NOT_FINITE)
    return Reaction(u=u, normal=settled, closed=active, status=status.astype(jnp.int32))


def _minimised(mass, G, b, v, start, on, tolerance):
    """Return the multipliers (c,), the active rows (c,) and the status, from a start (c,)."""
    # In units of the heaviest mass and of the largest violation: single precision has 38 decades only.
    heaviest = jnp.max(mass)
    mass = mass / heaviest
    scale = inverse_length(squares(G, 1 / mass))
    # Rows that are off have no normals and no value at v: their multipliers stay zero.
    at_v = jnp.where(on, scale * (product(G, v) + b), 0)
    largest = jnp.max(-at_v, initial=0.0)
    unit = nonzero(largest)
    # Rounding of G v + b is no violation.
    noise = 16 * jnp.finfo(b.dtype).eps * jnp.max(scale * (magnitudes(G, v) + jnp.abs(b)), initial=0.0)
    dual = Dual(at_v / unit, UnitRows.of(G, scale, mass), tolerance * largest / unit + noise / unit)
    in_newton_seconds = unit * heaviest * scale
    x = jnp.where(on, jnp.maximum(start / in_newton_seconds, 0), 0)
    x, residual = _solved(dual, x, on)
    status = jnp.where(residual <= dual.enough, Status.OK, Status.ITERATION_LIMIT)
    # As in `project`: what rows have to be relaxed by is a contradiction if it is more than rounding.
    status = jnp.where(jnp.finfo(x.dtype).eps * jnp.max(x, initial=0.0) > 1e3 * dual.enough, Status.INFEASIBLE, status)
    # A multiplier within the residual cannot be told from none.
    return x * in_newton_seconds, x > dual.enough, status


def _solved(dual: Dual, x, on):
    if on.size <= BROUGHT_TOGETHER_ABOVE:
        return dual.solved(x)
    in_single = on.size > SINGLE_PRECISION_ABOVE and x.dtype != jnp.float32
    method = Dual.approached if in_single else Dual.solved
    x, residual = solved_among(method, dual, x, on, [on.size * part // 16 for part in SIXTEENTHS])
    return dual.solved(x) if in_single else (x, residual)


@jax.custom_jvp
def _settle(mass, G, b, v, active, multipliers):
    """Return u (d,) and the multipliers (c,), with the derivative that holds the active rows."""
    return v + transposed_product(G, multipliers) / mass, multipliers


@_settle.defjvp
@full_precision_matmul
def _settle_jvp(primals, tangents):
    mass, G, b, v, active, multipliers = primals
    u, _ = _settle(*primals)
    dmass, dG, db, dv = tangents[:4]
    held, moved = switched(G, active), switched(along(G, dG), active)
    y = dv + (dmass * (v - u) + transposed_product(moved, multipliers)) / mass
    scale = inverse_length(squares(held, 1 / mass))
    unit = UnitRows.of(held, scale, mass)
    # Redundant rows make A singular; what is added keeps the multipliers finite and does not move u.
    softness = jnp.finfo(b.dtype).eps ** (2 / 3)
    wanted = jnp.where(active, scale * (product(held, y) + product(moved, u) + db), 0)
    enough = float(jnp.finfo(b.dtype).eps ** 0.75)

    def solve(matvec, right):
        return cg(matvec, right, tol=enough, maxiter=ITERATIONS)[0]

    def delassus(x):
        return unit.product(unit.motion(x)) + softness * x

    dmultipliers = -scale * lax.custom_linear_solve(delassus, wanted, solve, symmetric=True)
    return (u, multipliers), (y + transposed_product(held, dmultipliers) / mass, dmultipliers)
