"""The projection onto very many rows between bodies: projected conjugate gradients on its dual, matrix-free.

The dual active set of `active_set` factors; this method only multiplies by the sparse rows, so that its memory and the
cost of an iteration grow with their number. It stops at a residual, where the other is exact.

Why not a gradient method, however accelerated: a ball that wedges itself between others gives the dual an eigenvalue of
1e-7 and less, one among hundreds. Conjugate gradients need some iterations more for it, Nesterov's method thousands.

All rows share the lengths of the steps. For separate heaps that costs nothing; but where many balls are wedged at once,
each in a heap of its own, they take thousands of iterations together and some two hundred each: `vmap` over the heaps
keeps them apart. Lengths for each group of touching bodies (sums by group) make an iteration two to four times as
expensive.

What an iteration costs is what it reads and writes. Very many rows are therefore worked on in single precision, around
loads at which the values are known in the caller's; where that is not enough, a last search goes on in the caller's.
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
SIXTEENTHS = 6, 8, 11
# Up to so many rows an iteration takes as long as with fewer; up to MANY, in double precision as in single.
FEW, MANY = 256, 2048
# In single precision: until the residual is so much smaller than it was, or so many steps have been taken.
LESS, ROUND = 1e-4, 1000


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Iterate:
    """What is carried from iteration to iteration.

    Args:
        change: (c,) d of the loads x, from where they are looked at.
        values: (c,) w of the rows at x + d, the gradient of the dual.
        motion: (m, n + 1) D N^T d, what the change does to the bodies.
        direction: (c,) the last conjugate direction.
        slope: (c,) the part of w there that it was begun from, of the rows with a load.
        square: () sum of slope^2, infinite before the first.
        size: () sum of direction^2, or a little more.
        residual: () of the optimality conditions, when last looked at.
        number: () int, of steps.
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
    scale = inverse_length(squares(G, 1 / mass))
    # Rows that are off have no normals and no value at v: their loads stay zero.
    at_v = jnp.where(on, scale * (times(G, v) + b), 0)
    # Rounding of G v + b is no violation.
    noise = 16 * jnp.finfo(b.dtype).eps * jnp.max(scale * (magnitudes(G, v) + jnp.abs(b)), initial=0.0)
    dual = _Dual(at_v, _UnitRows.of(G, scale, mass), tolerance * jnp.max(-at_v, initial=0.0) + noise)
    x = jnp.where(on, jnp.maximum(loads / scale, 0), 0)
    in_single = on.size > MANY and x.dtype != jnp.float32
    method = _Dual.approached if in_single else _Dual.solved
    x, residual = _in_part(method, dual, x, on) if on.size > FEW else dual.solved(x)
    if in_single:
        x, residual = dual.solved(x)
    status = jnp.where(residual <= dual.enough, Status.OK, Status.ITERATION_LIMIT)
    # As in `project`: what rows have to be relaxed by is a contradiction if it is more than rounding.
    status = jnp.where(_eps(x) * jnp.max(x, initial=0.0) > 1e3 * dual.enough, Status.INFEASIBLE, status)
    # A load within the residual cannot be told from none.
    return x * scale, x > dual.enough, status


def _in_part(method, dual: _Dual, x, on):
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


@dataclass(frozen=True)
class _Dual:
    """min_x 1/2 x^T A x + at_v^T x over x >= 0.

    Args:
        at_v: (c,) values of the unit rows at v.
        rows: the `_UnitRows`.
        enough: () the residual that is asked for.
    """

    at_v: jax.Array
    rows: _UnitRows
    enough: jax.Array

    def part(self, place, there) -> _Dual:
        """That of the rows at the places (k,), as far as they are there (k,)."""
        rows = replace(
            self.rows,
            bodies=self.rows.bodies[:, place],
            normals=jnp.where(there[None, None, :], self.rows.normals[:, :, place], 0),
        )
        return replace(self, at_v=jnp.where(there, self.at_v[place], 0), rows=rows)

    def solved(self, x):
        """The loads (c,) where the residual is small enough, or as small as it gets, and it."""
        around = self.around(x, x.dtype)
        end = lax.while_loop(
            lambda state: (state.residual > self.enough) & (state.number < ITERATIONS),
            around.some_steps,
            around.begin(),
        )
        return around.loads(x, end), end.residual

    def approached(self, x):
        """The same, by steps in single precision, which may end before it.

        Whenever the residual has come down by `LESS` the values are computed anew in the caller's precision, and the
        directions kept, until that brings it down no more. (Reliable updates: M. A. Clark et al., Comput. Phys. Comm.
        181 (2010).)
        """

        def more(carry):
            x, begin, _ = carry
            around = self.around(x, jnp.float32)
            goal = jnp.maximum(0.9 * self.enough.astype(jnp.float32), LESS * begin.residual)
            end = lax.while_loop(
                lambda state: (state.residual > goal) & (state.number < begin.number + ROUND), around.some_steps, begin
            )
            x = around.loads(x, end)
            return x, self.around(x, jnp.float32).again(end), begin.residual

        def not_enough(carry):
            _, state, before = carry
            return (state.residual > self.enough) & (state.residual < before / 2)

        begin = self.around(x, jnp.float32).begin()
        x, end, _ = lax.while_loop(not_enough, more, (x, begin, jnp.full_like(begin.residual, jnp.inf)))
        return x, end.residual.astype(x.dtype)

    def around(self, x, dtype) -> _Around:
        """It, as seen from the loads x (c,), for steps in another precision."""
        w = self.at_v + self.rows.up(self.rows.down(x)) + _eps(x) * x
        return _Around(-x.astype(dtype), w.astype(dtype), self.rows.to(dtype))


@dataclass(frozen=True)
class _Around:
    """The dual as seen from loads x, and the steps that lead to its minimum over x + d >= 0.

    Its values are known there; what is rounded is what changes.

    Args:
        floor: (c,) -x, which d is not below.
        values_there: (c,) of the rows at x.
        rows: the `_UnitRows`.
    """

    floor: jax.Array
    values_there: jax.Array
    rows: _UnitRows

    @property
    def soft(self):
        """A is known to its rounding only; as much more on its diagonal, and rows that contradict each other by no more
        than rounding have multipliers that are finite."""
        return _eps(self.floor)

    def values(self, d, motion):
        """(c,) of the rows at x + d."""
        return self.values_there + self.rows.up(motion) + self.soft * d

    def residual(self, d, w):
        """() of the optimality conditions, less what rounding of the change explains."""
        return _largest(jnp.abs(jnp.minimum(d - self.floor, w))) - self.soft * _largest(jnp.abs(d))

    def loads(self, x, state: _Iterate):
        """(c,) x + d."""
        return jnp.where(state.change > self.floor, jnp.maximum(x + state.change, 0), 0)

    def begin(self) -> _Iterate:
        """At x, with no direction."""
        none, zero = jnp.zeros_like(self.floor), jnp.zeros((), self.floor.dtype)
        still, number = jnp.zeros_like(self.rows.mass), jnp.zeros((), jnp.int32)
        return self.again(_Iterate(none, none, still, none, none, zero + jnp.inf, zero, zero, number))

    def again(self, state: _Iterate) -> _Iterate:
        """At x, with the directions of a state that led there."""
        none, w = jnp.zeros_like(self.floor), self.values_there
        still = jnp.zeros_like(state.motion)
        return replace(state, change=none, values=w, motion=still, residual=self.residual(none, w))

    def some_steps(self, state: _Iterate) -> _Iterate:
        """Take loads up where that pays, then work on the rows that have one, and look at the residual."""
        x, w = state.change - self.floor, state.values
        # Rows without a load are left alone as long as there is more to gain among the others.
        inside, outside = jnp.where(x > 0, w, 0), jnp.where(x > 0, 0, jnp.minimum(w, 0))
        gain, lost = _sums(inside * jnp.minimum(x / REACH, w), outside**2)
        more = lost > gain
        state = lax.cond(any_lane(more), lambda: select(more, self.opening(state), state), lambda: state)
        state, _ = lax.scan(self.along, state, None, length=STEPS)
        return replace(state, residual=self.residual(state.change, state.values))

    def opening(self, state: _Iterate) -> _Iterate:
        """One step against the gradient of all rows, as far as no load becomes negative."""
        direction = state.change - jnp.maximum(state.change - REACH * state.values, self.floor)
        moved = self.rows.down(direction)
        curvature, across = self.rows.square(moved), jnp.sum(state.values * direction)
        length = jnp.minimum(across / jnp.where(curvature > 0, curvature, 1), 1)
        d, motion = jnp.maximum(state.change - length * direction, self.floor), state.motion - length * moved
        return replace(state, change=d, values=self.values(d, motion), motion=motion)

    def along(self, state: _Iterate, _):
        """One step of conjugate gradients among the rows with a load; those that would pull lose it."""
        slope = jnp.where(state.change > self.floor, state.values, 0)
        square, across, alike = _sums(slope * slope, slope * state.direction, slope * state.slope)
        # Of Polak and Ribiere: where rows have lost their load since, the others' directions go on.
        ratio = jnp.maximum(square - alike, 0) / state.square
        ratio = jnp.where(square + ratio * across > 0.1 * square, ratio, 0)
        direction = jnp.where(state.change > self.floor, state.values + ratio * state.direction, 0)
        size = square + 2 * ratio * across + ratio**2 * state.size
        moved = self.rows.down(direction)
        curvature = self.rows.square(moved) + self.soft * size
        length = (square + ratio * across) / jnp.where(curvature > 0, curvature, 1)
        ahead = state.change - length * direction
        cut = _any(ahead < self.floor)
        d, motion = jnp.maximum(ahead, self.floor), state.motion - length * moved
        motion = lax.cond(any_lane(cut), lambda: jnp.where(cut, self.rows.down(d), motion), lambda: motion)
        square = jnp.where(square > 0, square, jnp.inf)
        w, number = self.values(d, motion), state.number + 1
        return _Iterate(d, w, motion, direction, slope, square, size, state.residual, number), None


def _eps(x):
    return jnp.finfo(x.dtype).eps


def _sums(*values):
    """The sums of several (c,) in one pass; XLA on a CPU takes several for each that is summed by itself."""
    start = (jnp.zeros((), values[0].dtype),) * len(values)
    return lax.reduce(values, start, lambda a, b: tuple(map(jnp.add, a, b)), (0,))


def _largest(values):
    """The largest of the values (c,) and 0; twice as fast as a maximum that has to pass on NaN."""
    return lax.reduce(values, jnp.zeros((), values.dtype), lambda a, b: jnp.where(b > a, b, a), (0,))


def _any(values):
    """() whether one of the values (c,) holds."""
    return lax.reduce(values, jnp.asarray(False), jnp.logical_or, (0,))


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

    def to(self, dtype) -> _UnitRows:
        """They in another precision."""
        return replace(self, **{name: getattr(self, name).astype(dtype) for name in ("normals", "mass", "inverse")})

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
