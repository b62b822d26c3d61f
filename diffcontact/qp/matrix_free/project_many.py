"""The projection onto very many rows between bodies, matrix-free.

The dual active set of `active_set` factors; `conjugate` only multiplies by the sparse rows, so that its memory and the
cost of an iteration grow with their number. It stops at a residual, where the other is exact.

All rows share the lengths of the steps. For separate heaps that costs nothing; but where many balls are wedged at once,
each in a heap of its own, they take thousands of iterations together and some two hundred each: `vmap` over the heaps
keeps them apart. Lengths for each group of touching bodies (sums by group) make an iteration two to four times as
expensive.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.scipy.sparse.linalg import cg

from diffcontact.batching import any_lane
from diffcontact.qp.matrix_free.conjugate_gradients import ITERATIONS, Dual, UnitRows
from diffcontact.qp.projection import SEARCH, Projection
from diffcontact.qp.rows.body_rows import BodyRows, lift, magnitudes, squares, times
from diffcontact.qp.rows.metric import inverse_length
from diffcontact.status import Status

# Rows are worked on in these parts of all places, or all. Of a crowd's places balls that fall take few, a heap about
# half, one that is just packing up a little more.
SIXTEENTHS = 6, 8, 11
# Up to so many rows an iteration takes as long as with fewer; up to MANY, in double precision as in single.
FEW, MANY = 256, 2048


def project_many(mass, G: BodyRows, b, v, *, loads=None, tolerance=None) -> Projection:
    """The point nearest to v that satisfies rows between many bodies, to a stated residual.

        argmin_u 1/2 (u-v)^T M (u-v)    subject to    G u + b >= 0

    With the rows scaled to length one (diagonal of A = G M^-1 G^T), w = G u + b and multipliers l, it iterates until

        max_i |l_i - max(l_i - w_i, 0)|  <=  tolerance * max_i |min(w_i(v), 0)|,

    zero exactly at the solution. Pure: jit, vmap, jvp and vjp in mass, G, b and v; the derivative holds the active rows
    and solves by conjugate gradients, the adjoint too (the iterations themselves are not followed).

    Args:
        mass: (d,) diagonal of M [kg].
        G: `BodyRows` (c, d).
        b: (c,) offsets; +inf switches a row off.
        v: (d,) the point to project.
        loads: (c,) multipliers to start from, for instance the last step's; has no derivative.
        tolerance: of the residual; None: 1e-6 in double precision, 64 eps in single.

    Returns:
        A `Projection`; `active` are the rows with a multiplier, which may depend on each other. Its status is
        ITERATION_LIMIT where the residual was not reached, INFEASIBLE where rows contradict each other.

    Raises:
        ValueError: rows that are not `BodyRows`, shapes that do not fit.

    Reference:
        Z. Dostal, Optimal Quadratic Programming Algorithms, Springer 2009, chapter 5 (which rows are worked on);
        J. J. More, G. Toraldo, On the solution of large quadratic programming problems with bound constraints,
        SIAM J. Optim. 1 (1991) (projected searches); E. Polak, G. Ribiere, Rev. Fr. Inform. Rech. Oper. 3 (1969).

    Example:
        >>> row = BodyRows(jnp.array([[0, -1]]), jnp.array([[[1.0], [0.0]]]), 1)
        >>> floor = project_many(jnp.array([2.0]), row, jnp.array([0.0]), jnp.array([-3.0]))
        >>> print(f"{abs(floor.u[0]):.3f} {floor.multipliers[0]:.3f}")
        0.000 6.000
    """
    if not isinstance(G, BodyRows):
        raise ValueError(f"G: expected BodyRows, got {type(G).__name__}; for dense rows take project")
    count, dimension = G.shape
    expected = {"mass": (dimension,), "b": (count,), "v": (dimension,), "loads": (count,)}
    for name, given in (("mass", mass), ("b", b), ("v", v), ("loads", b if loads is None else loads)):
        if jnp.shape(given) != expected[name]:
            raise ValueError(f"{name} has the shape {jnp.shape(given)}; expected {expected[name]}")
    mass, b, v = (jnp.asarray(given, G.dtype) for given in (mass, b, v))
    on = b < jnp.inf
    G, b = _only(G, on), jnp.where(on, b, 0)
    if tolerance is None:
        tolerance = max(1e-6, 64 * float(jnp.finfo(v.dtype).eps))
    start = jnp.zeros_like(b) if loads is None else loads
    found = _search(*lax.stop_gradient((mass, G, b, v)), lax.stop_gradient(start), on, tolerance)
    multipliers, active, status = checkpoint_name(found, SEARCH)
    u, multipliers = _settle(mass, G, b, v, active, multipliers)
    status = jnp.where(jnp.all(jnp.isfinite(u)), status, Status.NOT_FINITE)
    return Projection(u=u, multipliers=multipliers, active=active, status=status.astype(jnp.int32))


def _search(mass, G, b, v, loads, on, tolerance):
    """The multipliers (c,), the active rows (c,) and the status."""
    # In units of the heaviest mass and of the largest violation: single precision has 38 decades only.
    heaviest = jnp.max(mass)
    mass = mass / heaviest
    scale = inverse_length(squares(G, 1 / mass))
    # Rows that are off have no normals and no value at v: their loads stay zero.
    at_v = jnp.where(on, scale * (times(G, v) + b), 0)
    largest = jnp.max(-at_v, initial=0.0)
    unit = jnp.where(largest > 0, largest, 1)
    # Rounding of G v + b is no violation.
    noise = 16 * jnp.finfo(b.dtype).eps * jnp.max(scale * (magnitudes(G, v) + jnp.abs(b)), initial=0.0)
    dual = Dual(at_v / unit, UnitRows.of(G, scale, mass), tolerance * largest / unit + noise / unit)
    in_newton_seconds = unit * heaviest * scale
    x = jnp.where(on, jnp.maximum(loads / in_newton_seconds, 0), 0)
    in_single = on.size > MANY and x.dtype != jnp.float32
    method = Dual.approached if in_single else Dual.solved
    x, residual = _in_part(method, dual, x, on) if on.size > FEW else dual.solved(x)
    if in_single:
        x, residual = dual.solved(x)
    status = jnp.where(residual <= dual.enough, Status.OK, Status.ITERATION_LIMIT)
    # As in `project`: what rows have to be relaxed by is a contradiction if it is more than rounding.
    status = jnp.where(jnp.finfo(x.dtype).eps * jnp.max(x, initial=0.0) > 1e3 * dual.enough, Status.INFEASIBLE, status)
    # A load within the residual cannot be told from none.
    return x * in_newton_seconds, x > dual.enough, status


def _in_part(method, dual: Dual, x, on):
    """The loads (c,) that a method finds from x, and their residual.

    A row that is switched off costs as much as another: where many are, the others are brought together.
    """
    count, number = on.size, jnp.sum(on)

    def among(size):
        (kept,) = jnp.nonzero(on, size=size, fill_value=count)
        place = jnp.minimum(kept, count - 1)
        found, residual = method(dual.part(place, kept < count), x[place])
        return x.at[kept].set(found, mode="drop"), residual

    sizes = [count * part // 16 for part in SIXTEENTHS]
    # The first of the sizes that is enough, for all lanes of a batch.
    least = sum((any_lane(number > size).astype(int) for size in sizes), jnp.zeros((), int))
    return lax.switch(least, [*(partial(among, size) for size in sizes), lambda: method(dual, x)])


def _only(G: BodyRows, on) -> BodyRows:
    return BodyRows(G.bodies, jnp.where(on[:, None, None], G.normals, 0), G.count)


@jax.custom_jvp
def _settle(mass, G, b, v, active, multipliers):
    """u = v + M^-1 G^T multipliers, and the multipliers, with the derivative that holds the active rows."""
    return v + lift(G, multipliers) / mass, multipliers


@_settle.defjvp
def _settle_jvp(primals, tangents):
    mass, G, b, v, active, multipliers = primals
    u, _ = _settle(*primals)
    dmass, dG, db, dv = tangents[:4]
    held, moved = _only(G, active), _only(BodyRows(G.bodies, dG.normals, G.count), active)
    y = dv + (dmass * (v - u) + lift(moved, multipliers)) / mass
    scale = inverse_length(squares(held, 1 / mass))
    unit = UnitRows.of(held, scale, mass)
    # Redundant rows make A singular; what is added keeps the multipliers finite and does not move u.
    softness = jnp.finfo(b.dtype).eps ** (2 / 3)
    wanted = jnp.where(active, scale * (times(held, y) + times(moved, u) + db), 0)
    enough = float(jnp.finfo(b.dtype).eps ** 0.75)

    def solve(matvec, right):
        return cg(matvec, right, tol=enough, maxiter=ITERATIONS)[0]

    def delassus(x):
        return unit.up(unit.down(x)) + softness * x

    dloads = -scale * lax.custom_linear_solve(delassus, wanted, solve, symmetric=True)
    return (u, multipliers), (y + lift(held, dloads) / mass, dloads)
