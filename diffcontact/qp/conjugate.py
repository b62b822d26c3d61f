"""The projection onto very many rows between bodies: projected conjugate gradients on its dual, matrix-free.

The dual active set of `active_set` factors; this method only multiplies by the sparse rows, so that its memory and the
cost of an iteration grow with their number. It stops at a residual, where the other is exact.

Why not a gradient method, however accelerated: a ball that wedges itself between others gives the dual an eigenvalue of
1e-7 and less, one among hundreds. Conjugate gradients need some iterations more for it, Nesterov's method thousands.

All rows share the lengths of the steps. For separate heaps that costs nothing; but where many balls are wedged at once,
each in a heap of its own, they take thousands of iterations together and some two hundred each: `vmap` over the heaps
keeps them apart. Lengths for each group of touching bodies (sums by group) make an iteration two to four times as
expensive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.scipy.sparse.linalg import cg

from diffcontact.batching import any_lane, select
from diffcontact.qp.bodies import BodyRows, lift, magnitudes, squares, times
from diffcontact.qp.projection import SEARCH, Projection
from diffcontact.qp.rows import inverse_length
from diffcontact.qp.slots import NONE
from diffcontact.status import Status

# From a cold start thousands of redundant contacts take some hundreds.
ITERATIONS = 20000
# Steps along conjugate directions before all rows are looked at again, which costs as much as one.
STEPS = 4
# How far to go against the gradient; a search along the way shortens it. Rows that are alike have the eigenvalue 2.
REACH = 0.5
# Rows are worked on in these parts of all places, or all. Of a crowd's places balls that fall take few, a heap about
# half, one that is just packing up a little more.
SIXTEENTHS = 6, 8, 9, 11
# Up to so many rows an iteration takes as long as with fewer.
FEW = 256


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Iterate:
    """What is carried from iteration to iteration.

    Args:
        loads: (c,) x >= 0, multipliers of the unit rows.
        values: (c,) w of the rows there, the gradient of the dual.
        motion: (m, n + 1) D N^T x, what the loads do to the bodies.
        direction: (c,) the last conjugate direction.
        slope: (c,) the part of w there that it was begun from, of the rows with a load.
        square: () sum of slope^2, infinite before the first.
        size: () sum of direction^2, or a little more.
        residual: () of the optimality conditions, when last looked at.
        number: () int, of steps.
    """

    loads: jax.Array
    values: jax.Array
    motion: jax.Array
    direction: jax.Array
    slope: jax.Array
    square: jax.Array
    size: jax.Array
    residual: jax.Array
    number: jax.Array


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
    """The multipliers (c,), the active rows (c,) and the status.

    A row that is switched off costs as much as another: where many are, the others are brought together.
    """
    count, number = on.shape[0], jnp.sum(on)

    def among(size):
        (kept,) = jnp.nonzero(on, size=size, fill_value=count)
        there, place = kept < count, jnp.minimum(kept, count - 1)
        rows = _only(BodyRows(G.bodies[place], G.normals[place], G.count), there)
        multipliers, active, status = _iterate(mass, rows, b[place], v, loads[place], there, tolerance)
        everywhere = (jnp.zeros(count, x.dtype).at[kept].set(x, mode="drop") for x in (multipliers, active))
        return *everywhere, status

    sizes = [count * part // 16 for part in SIXTEENTHS] if count > FEW else []
    everything = partial(_iterate, mass, G, b, v, loads, on, tolerance)
    # The first of the sizes that is enough, for all lanes of a batch.
    least = sum((any_lane(number > size).astype(int) for size in sizes), jnp.zeros((), int))
    return lax.switch(least, [*(partial(among, size) for size in sizes), everything])


def _iterate(mass, G, b, v, loads, on, tolerance):
    """The same, by iterating on all rows."""
    scale = inverse_length(squares(G, 1 / mass))
    # Rows that are off have no normals and no value at v: their loads stay zero.
    at_v = jnp.where(on, scale * (times(G, v) + b), 0)
    # Rounding of G v + b is no violation.
    noise = 16 * jnp.finfo(b.dtype).eps * jnp.max(scale * (magnitudes(G, v) + jnp.abs(b)), initial=0.0)
    enough = tolerance * jnp.max(-at_v, initial=0.0) + noise
    dual = _Dual(at_v, _UnitRows.of(G, scale, mass))
    end = lax.while_loop(
        lambda state: (state.residual > enough) & (state.number < ITERATIONS),
        dual.some_steps,
        dual.begin(jnp.where(on, jnp.maximum(loads / scale, 0), 0)),
    )
    status = jnp.where(end.residual <= enough, Status.OK, Status.ITERATION_LIMIT)
    # As in `project`: what rows have to be relaxed by is a contradiction if it is more than rounding.
    relaxed = dual.soft * jnp.max(end.loads, initial=0.0)
    status = jnp.where(relaxed > 1e3 * enough, Status.INFEASIBLE, status)
    # A load within the residual cannot be told from none.
    return end.loads * scale, end.loads > enough, status


@dataclass(frozen=True)
class _Dual:
    """min_x 1/2 x^T A x + at_v^T x over x >= 0, and the steps that lead there.

    Args:
        at_v: (c,) values of the unit rows at v.
        rows: the `_UnitRows`.
    """

    at_v: jax.Array
    rows: _UnitRows

    @property
    def soft(self):
        """A is known to its rounding only; as much more on its diagonal, and rows that contradict each other by no more
        than rounding have multipliers that are finite."""
        return jnp.finfo(self.at_v.dtype).eps

    def values(self, x, motion):
        """(c,) of the rows at the loads x."""
        return self.at_v + self.rows.up(motion) + self.soft * x

    def residual(self, x, w):
        """() of the optimality conditions, less what rounding of the loads explains."""
        return _largest(jnp.abs(x - jnp.maximum(x - w, 0))) - self.soft * _largest(x)

    def begin(self, x) -> _Iterate:
        """At the loads x (c,)."""
        motion = self.rows.down(x)
        w = self.values(x, motion)
        nothing, zero = jnp.zeros_like(x), jnp.zeros((), x.dtype)
        number = jnp.zeros((), jnp.int32)
        return _Iterate(x, w, motion, nothing, nothing, zero + jnp.inf, zero, self.residual(x, w), number)

    def some_steps(self, state: _Iterate) -> _Iterate:
        """Take loads up where that pays, then work on the rows that have one, and look at the residual."""
        x, w = state.loads, state.values
        # Rows without a load are left alone as long as there is more to gain among the others.
        inside, outside = jnp.where(x > 0, w, 0), jnp.where(x > 0, 0, jnp.minimum(w, 0))
        gain, lost = _sums(inside * jnp.minimum(x / REACH, w), outside**2)
        more = lost > gain
        state = lax.cond(any_lane(more), lambda: select(more, self.opening(state), state), lambda: state)
        state, _ = lax.scan(self.along, state, None, length=STEPS)
        return replace(state, residual=self.residual(state.loads, state.values))

    def opening(self, state: _Iterate) -> _Iterate:
        """One step against the gradient of all rows, as far as no load becomes negative."""
        x = jnp.maximum(state.loads - REACH * state.values, 0)
        direction = state.loads - x
        moved = self.rows.down(direction)
        curvature, across = self.rows.square(moved), jnp.sum(state.values * direction)
        length = jnp.minimum(across / jnp.where(curvature > 0, curvature, 1), 1)
        x, motion = jnp.maximum(state.loads - length * direction, 0), state.motion - length * moved
        return replace(state, loads=x, values=self.values(x, motion), motion=motion)

    def along(self, state: _Iterate, _):
        """One step of conjugate gradients among the rows with a load; those that would pull lose it."""
        slope = jnp.where(state.loads > 0, state.values, 0)
        square, across, alike = _sums(slope * slope, slope * state.direction, slope * state.slope)
        # Of Polak and Ribiere: where rows have lost their load since, the others' directions go on.
        ratio = jnp.maximum(square - alike, 0) / state.square
        ratio = jnp.where(square + ratio * across > 0.1 * square, ratio, 0)
        direction = jnp.where(state.loads > 0, state.values + ratio * state.direction, 0)
        size = square + 2 * ratio * across + ratio**2 * state.size
        moved = self.rows.down(direction)
        curvature = self.rows.square(moved) + self.soft * size
        length = (square + ratio * across) / jnp.where(curvature > 0, curvature, 1)
        ahead = state.loads - length * direction
        cut = _any_below_zero(ahead)
        x, motion = jnp.maximum(ahead, 0), state.motion - length * moved
        motion = lax.cond(any_lane(cut), lambda: jnp.where(cut, self.rows.down(x), motion), lambda: motion)
        square = jnp.where(square > 0, square, jnp.inf)
        w, number = self.values(x, motion), state.number + 1
        return _Iterate(x, w, motion, direction, slope, square, size, state.residual, number), None


def _sums(*values):
    """The sums of several (c,) in one pass; XLA on a CPU takes several for each that is summed by itself."""
    start = (jnp.zeros((), values[0].dtype),) * len(values)
    return lax.reduce(values, start, lambda a, b: tuple(map(jnp.add, a, b)), (0,))


def _largest(values):
    """The largest of the values (c,) and 0; twice as fast as a maximum that has to pass on NaN."""
    return lax.reduce(values, jnp.zeros((), values.dtype), lambda a, b: jnp.where(b > a, b, a), (0,))


def _any_below_zero(values):
    """() whether one of the values (c,) is below zero."""
    return lax.reduce(values, jnp.zeros((), values.dtype), lambda a, b: jnp.where(b < a, b, a), (0,)) < 0


def _only(G: BodyRows, on) -> BodyRows:
    return BodyRows(G.bodies, jnp.where(on[:, None, None], G.normals, 0), G.count)


@dataclass(frozen=True)
class _UnitRows:
    """The unit rows N (c, n m), A = N D N^T with D = M^-1, for products that are repeated.

    Components come first, and everything is done a component at a time: XLA on a CPU scatters numbers three times as
    fast as columns of them.

    Args:
        bodies: (2, c) of each row; n where there is none.
        normals: (2, m, c) the row's entries for them, or (1, m, c) for the second, of which the first's are the
            opposite.
        mass, inverse: (m, n + 1) diagonals of M and of D, zero for the last body, which stands for none.
    """

    bodies: jax.Array
    normals: jax.Array
    mass: jax.Array
    inverse: jax.Array

    @classmethod
    def of(cls, G: BodyRows, scale, mass):
        """Those of the rows G (c, d), times their scale (c,)."""
        bodies = jnp.where(G.bodies == NONE, G.count, G.bodies).T.astype(jnp.int32)
        mass, inverse = (jnp.pad(x.reshape(G.count, -1).T, ((0, 0), (0, 1))) for x in (mass, 1 / mass))
        return cls(bodies, scale[None, None, :] * G.normals.transpose(1, 2, 0), mass, inverse)

    def up(self, motion):
        """(c,) N motion: what the rows see of the bodies' motion (m, n + 1)."""
        seen = 0
        for bodies, normals, sign in self._sides(self.normals):
            for normal, component in zip(normals, motion, strict=True):
                seen = seen + sign * normal * component[bodies]
        return seen

    def down(self, x):
        """(m, n + 1) D N^T x: how loads (c,) move the bodies."""
        nothing, total = jnp.zeros(self.mass.shape[1], x.dtype), 0
        for bodies, pushes, sign in self._sides(self.normals * x[None, None, :]):
            total = total + sign * jnp.stack([nothing.at[bodies].add(push) for push in pushes])
        return self.inverse * total

    def square(self, motion):
        """() motion^T M motion, which is x^T A x where motion = D N^T x."""
        return sum(_sums(*(self.mass * motion**2)))

    def _sides(self, entries):
        """Of the first and of the second side: the bodies (c,), the entries (m, c), their sign."""
        return zip(self.bodies, (entries[0], entries[-1]), (1 if len(entries) == 2 else -1, 1), strict=True)


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
    unit = _UnitRows.of(held, scale, mass)
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
