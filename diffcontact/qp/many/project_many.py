"""Project onto very many rows between bodies, matrix-free.

The dual active set of `active_set` factors. `Dual` only multiplies by the sparse rows, so that memory
and the cost of an iteration grow with their number. It stops at a residual, where the other is exact.

All rows share the lengths of the steps, which seldom costs anything. Balls that are wedged at once, each in a heap of
its own, take thousands of iterations together and some two hundred each: `vmap` keeps the heaps apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.scipy.sparse.linalg import cg
from jax.typing import ArrayLike

from diffcontact.arguments import real_arrays, require_shapes
from diffcontact.numerics.batching import full_precision_matmul, where_wanted
from diffcontact.numerics.linear import nonzero
from diffcontact.qp.many.rows import BROUGHT_TOGETHER_ABOVE, UnitRows, largest, solved_among, stated_tolerance, sums
from diffcontact.qp.projection import WORKING_SET, Reaction
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


# From multipliers of zero thousands of redundant contacts take some hundreds.
ITERATIONS = 20000
# Conjugate steps before all rows are looked at again, which costs as much as one of them.
CONJUGATE_STEPS = 4
# The length of a step against the gradient, which an exact line search shortens. The dual's largest eigenvalue is 1
# for one row and 2 for a pair of equal ones.
GRADIENT_STEP = 0.5
# The values are computed anew in the caller's precision once the residual in single precision has come down by the
# factor, or after the number of steps.
SINGLE_REDUCTION, SINGLE_STEPS = 1e-4, 1000


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Iterate:
    """Carry the state from iteration to iteration; the multipliers are x + d with x fixed.

    Args:
        change: (c,) d.
        values: (c,) w of the rows at x + d, the gradient of the dual.
        motion: (m, n + 1) M^-1 N^T d, how the change moves the bodies.
        direction: (c,) the last conjugate direction.
        slope: (c,) w where that direction began, of the rows with a multiplier.
        square: () sum of slope^2, infinite before the first step.
        size: () sum of direction^2, or a little more.
        residual: () of the optimality conditions, when last looked at.
        number: () int, of conjugate steps.
    """

    change: jax.Array
    values: jax.Array
    motion: jax.Array
    direction: jax.Array
    slope: jax.Array
    square: jax.Array
    size: jax.Array
    residual: jax.Array
    number: jax.Array


@dataclass(frozen=True)
class Dual:
    """Hold the dual of a projection, min_x 1/2 x^T A x + at_v^T x over x >= 0; conjugate gradients solve it.

    Why not a gradient method, however accelerated? A ball wedged between others gives the dual one eigenvalue of 1e-7
    or less among hundreds. Conjugate gradients need some iterations more for it, Nesterov's method thousands.

    What an iteration costs is what it reads and writes. With very many rows the iterations therefore run in single
    precision. They work on the change of the multipliers, while the values at the multipliers themselves are computed
    in the caller's precision. Where that does not reach the residual, last iterations in the caller's precision do.

    Args:
        at_v: (c,) values of the unit rows at v.
        rows: the unit rows N, A = N M^-1 N^T.
        enough: () the residual that is asked for.
    """

    at_v: jax.Array
    rows: UnitRows
    enough: jax.Array

    def part(self, place, there) -> Dual:
        return replace(self, at_v=jnp.where(there, self.at_v[place], 0), rows=self.rows.part(place, there))

    def solved(self, x):
        """Iterate from the multipliers x (c,) until `enough` or rounding; multipliers and residual."""
        shifted = self.shifted(x, x.dtype)

        def steps(state):
            state = shifted.steps(state)
            # What steps have added up is rounded: a residual counts that is computed anew.
            return where_wanted(state.residual <= self.enough, lambda: shifted.afresh(state), state)

        end = lax.while_loop(
            lambda state: (state.residual > self.enough) & (state.number < ITERATIONS), steps, shifted.begin()
        )
        return shifted.multipliers(x, end), end.residual

    def approached(self, x):
        """Iterate as `solved` in single precision, perhaps not down to `enough`.

        Once the residual has come down by `SINGLE_REDUCTION` the values are computed anew in the caller's precision and
        the directions kept. This ends when it no longer halves the residual.

        Source: reliable updates, M. A. Clark et al., Comput. Phys. Comm. 181 (2010).
        """

        def more(carry):
            x, begin, _ = carry
            shifted = self.shifted(x, jnp.float32)
            goal = jnp.maximum(0.9 * self.enough.astype(jnp.float32), SINGLE_REDUCTION * begin.residual)
            end = lax.while_loop(
                lambda state: (state.residual > goal) & (state.number < begin.number + SINGLE_STEPS),
                shifted.steps,
                begin,
            )
            x = shifted.multipliers(x, end)
            return x, self.shifted(x, jnp.float32).again(end), begin.residual

        def not_enough(carry):
            _, state, before = carry
            return (state.residual > self.enough) & (state.residual < before / 2)

        begin = self.shifted(x, jnp.float32).begin()
        x, end, _ = lax.while_loop(not_enough, more, (x, begin, jnp.full_like(begin.residual, jnp.inf)))
        return x, end.residual.astype(x.dtype)

    def shifted(self, x, dtype) -> _Shifted:
        """Return the dual of a change d from x (c,), in another precision."""
        w = self.at_v + self.rows.product(self.rows.motion(x)) + _eps(x) * x
        return _Shifted(-x.astype(dtype), w.astype(dtype), self.rows.to(dtype))


@dataclass(frozen=True)
class _Shifted:
    """Hold the dual of a change d from multipliers x, with d >= `floor` = -x (c,).

    The values at x, `values_there` (c,), are known to the caller's precision; only what d adds to them is rounded.
    """

    floor: jax.Array
    values_there: jax.Array
    rows: UnitRows

    @property
    def soft(self):
        """Return the addition to the diagonal of A: its rounding.

        With it rows that contradict each other by no more than rounding have finite multipliers.
        """
        return _eps(self.floor)

    def values(self, d, motion):
        """Return the rows' values (c,) at x + d, where `motion` is that of d."""
        return self.values_there + self.rows.product(motion) + self.soft * d

    def residual(self, d, w):
        """Return the residual of optimality, less what rounding of the change explains."""
        return largest(jnp.abs(jnp.minimum(d - self.floor, w))) - self.soft * largest(jnp.abs(d))

    def multipliers(self, x, state: _Iterate):
        return jnp.where(state.change > self.floor, jnp.maximum(x + state.change, 0), 0)

    def begin(self) -> _Iterate:
        none, zero = jnp.zeros_like(self.floor), jnp.zeros((), self.floor.dtype)
        still, number = jnp.zeros_like(self.rows.mass), jnp.zeros((), jnp.int32)
        return self.again(_Iterate(none, none, still, none, none, zero + jnp.inf, zero, zero, number))

    def again(self, state: _Iterate) -> _Iterate:
        """Restart at x, with the directions of a state that led there."""
        none, w = jnp.zeros_like(self.floor), self.values_there
        still = jnp.zeros_like(state.motion)
        return replace(state, change=none, values=w, motion=still, residual=self.residual(none, w))

    def afresh(self, state: _Iterate) -> _Iterate:
        """Compute motion, values and residual anew from the change."""
        motion = self.rows.motion(state.change)
        w = self.values(state.change, motion)
        return replace(state, motion=motion, values=w, residual=self.residual(state.change, w))

    def steps(self, state: _Iterate) -> _Iterate:
        """Make a gradient step if it pays, then conjugate steps, and the residual."""
        x, w = state.change - self.floor, state.values
        # Rows without a multiplier are left alone as long as there is more to gain among the others.
        inside, outside = jnp.where(x > 0, w, 0), jnp.where(x > 0, 0, jnp.minimum(w, 0))
        gain, lost = sums(inside * jnp.minimum(x / GRADIENT_STEP, w), outside**2)
        more = lost > gain
        state = where_wanted(more, lambda: self.gradient_step(state), state)
        state, _ = lax.scan(self.conjugate_step, state, None, length=CONJUGATE_STEPS)
        return replace(state, residual=self.residual(state.change, state.values))

    def gradient_step(self, state: _Iterate) -> _Iterate:
        """Step against the gradient of all rows, until a multiplier reaches zero."""
        direction = state.change - jnp.maximum(state.change - GRADIENT_STEP * state.values, self.floor)
        moved = self.rows.motion(direction)
        curvature, across = self.rows.square(moved), jnp.sum(state.values * direction)
        length = jnp.minimum(across / nonzero(curvature), 1)
        d, motion = jnp.maximum(state.change - length * direction, self.floor), state.motion - length * moved
        return replace(state, change=d, values=self.values(d, motion), motion=motion)

    def conjugate_step(self, state: _Iterate, _):
        """Make one conjugate step among rows with a multiplier; rows that pull lose it."""
        slope = jnp.where(state.change > self.floor, state.values, 0)
        square, across, alike = sums(slope * slope, slope * state.direction, slope * state.slope)
        # Of Polak and Ribiere: where rows have lost their multiplier since, the others' directions go on.
        ratio = jnp.maximum(square - alike, 0) / state.square
        # Behind a minimum among fewer rows the ratio is rounding, and nothing of the gradient would be left beside it.
        follows = (square + ratio * across > 0.1 * square) & (_eps(slope) * ratio**2 * state.size <= square)
        ratio = jnp.where(follows, ratio, 0)
        direction = jnp.where(state.change > self.floor, state.values + ratio * state.direction, 0)
        size = square + 2 * ratio * across + ratio**2 * state.size
        moved = self.rows.motion(direction)
        curvature = self.rows.square(moved) + self.soft * size
        length = (square + ratio * across) / nonzero(curvature)
        ahead = state.change - length * direction
        cut = jnp.any(ahead < self.floor)

        def bent():
            # Where the first multiplier is zero it stays so while the others go on, as long as the dual gains by it:
            # rows that depend on each other have a direction of no curvature, and a length without a bound.
            d = jnp.maximum(ahead, self.floor)
            motion = self.rows.motion(d)
            way, change = d - state.change, motion - state.motion
            gains = sums(state.values * way)[0] + (self.rows.square(change) + self.soft * sums(way * way)[0]) / 2 <= 0
            falls = direction > 0
            first = jnp.min((state.change - self.floor) / jnp.where(falls, direction, 1), initial=jnp.inf, where=falls)
            short = jnp.maximum(state.change - first * direction, self.floor)
            return jnp.where(gains, d, short), jnp.where(gains, motion, state.motion - first * moved)

        d, motion = where_wanted(cut, bent, (ahead, state.motion - length * moved))
        square = jnp.where(square > 0, square, jnp.inf)
        w, number = self.values(d, motion), state.number + 1
        return _Iterate(d, w, motion, direction, slope, square, size, state.residual, number), None


def _eps(x):
    return jnp.finfo(x.dtype).eps
