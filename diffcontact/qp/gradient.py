"""The projection onto very many rows between bodies: an accelerated gradient method on its dual, matrix-free.

The dual active set of `active_set` factors; this method only multiplies by the sparse rows, so that its memory and the
cost of an iteration grow with their number. It stops at a residual, where the other is exact.

Momentum and bound are common to all rows. One for each island, for each group of touching bodies, was tried: forty
separate heaps of 27 spheres then take up to 35 % fewer iterations, each of which costs two to four times as much, for
the sums over islands.
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

# From a cold start thousands of redundant contacts take some hundreds; discs of one size, packed between walls that
# press on them, were seen to take more than 5000.
ITERATIONS = 20000
# Looking at the residual costs as much as a tenth of an iteration.
LOOK_EVERY = 10
# Rows are worked on in these parts of all places, or all. Of a crowd's places balls that fall take some, a heap half,
# one that is just packing up a little more.
EIGHTHS = 2, 4, 5


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Iterate:
    """What is carried from iteration to iteration.

    Args:
        loads: (c,) multipliers of the unit rows.
        values: (c,) of the rows there.
        ahead, slope: (c,) the same further along the last move, where the next step starts.
        theta: () Nesterov's, 1 after a restart.
        bound: () of the largest eigenvalue of A, as far as it was met.
        residual: () of the optimality conditions, when last looked at.
        number: () int.
    """

    loads: jax.Array
    values: jax.Array
    ahead: jax.Array
    slope: jax.Array
    theta: jax.Array
    bound: jax.Array
    residual: jax.Array
    number: jax.Array


def project_many(mass, G: BodyRows, b, v, *, loads=None, tolerance=None) -> Projection:
    """The point nearest to v that satisfies rows between many bodies, to a stated residual.

        argmin_u 1/2 (u-v)^T M (u-v)    subject to    G u + b >= 0

    With the rows scaled to length one (diagonal of A = G M^-1 G^T), w = G u + b and multipliers l, it iterates until

        max_i |l_i - max(l_i - w_i, 0)|  <=  tolerance * max_i |min(w_i(v), 0)|,

    zero exactly at the solution. Pure: jit, vmap, jvp and vjp in mass, G, b and v; the derivative holds the rows with
    l_i > 0 and solves by conjugate gradients, the adjoint too (the iterations themselves are not followed).

    Args:
        mass: (d,) diagonal of M [kg].
        G: `BodyRows` (c, d).
        b: (c,) offsets; +inf switches a row off.
        v: (d,) the point to project.
        loads: (c,) multipliers to start from, for instance the last step's; has no derivative.
        tolerance: of the residual; None: 1e-6 in double precision, 64 eps in single.

    Returns:
        A `Projection`; `active` are the rows with a multiplier above zero, which may depend on each other. Its status
        is ITERATION_LIMIT where the residual was not reached.

    Raises:
        ValueError: rows that are not `BodyRows`, shapes that do not fit.

    Reference:
        B. O'Donoghue, E. Candes, Adaptive restart for accelerated gradient schemes, Found. Comput. Math. 15 (2015);
        H. Mazhar, T. Heyn, D. Negrut, A. Tasora, Using Nesterov's method to accelerate multibody dynamics with
        friction and contact, ACM Trans. Graph. 34 (2015).

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
    multipliers, reached = checkpoint_name(found, SEARCH)
    active = multipliers > 0
    u, multipliers = _settle(mass, G, b, v, active, multipliers)
    status = jnp.where(reached, Status.OK, Status.ITERATION_LIMIT)
    status = jnp.where(jnp.all(jnp.isfinite(u)), status, Status.NOT_FINITE)
    return Projection(u=u, multipliers=multipliers, active=active, status=status.astype(jnp.int32))


def _search(mass, G, b, v, loads, on, tolerance):
    """The multipliers (c,), and whether the residual was reached.

    A row that is switched off costs as much as another: where many are, the others are brought together.
    """
    count, number = on.shape[0], jnp.sum(on)

    def among(size):
        (kept,) = jnp.nonzero(on, size=size, fill_value=count)
        there, place = kept < count, jnp.minimum(kept, count - 1)
        rows = _only(BodyRows(G.bodies[place], G.normals[place], G.count), there)
        multipliers, reached = _iterate(mass, rows, b[place], v, loads[place], there, tolerance)
        return jnp.zeros_like(b).at[kept].set(multipliers, mode="drop"), reached

    sizes = [count * eighths // 8 for eighths in EIGHTHS]
    everything = partial(_iterate, mass, G, b, v, loads, on, tolerance)
    # The first of the sizes that is enough, for all lanes of a batch.
    least = sum(any_lane(number > size).astype(int) for size in sizes)
    return lax.switch(least, [*(partial(among, size) for size in sizes), everything])


def _iterate(mass, G, b, v, loads, on, tolerance):
    """The same, by iterating on all rows."""
    scale = inverse_length(squares(G, 1 / mass))
    at_v = jnp.where(on, scale * (times(G, v) + b), 0)
    # Rounding of G v + b is no violation.
    eps = jnp.finfo(b.dtype).eps
    noise = 16 * eps * jnp.max(scale * (magnitudes(G, v) + jnp.abs(b)), initial=0.0)
    enough = tolerance * jnp.max(-at_v, initial=0.0) + noise
    unit = _whitened(G, scale, mass)

    # Rows that are off have no normals and no value at v: their loads stay zero.
    def values(x):
        return at_v + unit.up(unit.down(x))

    def step(state: _Iterate, _):
        x = jnp.maximum(state.ahead - state.slope / state.bound, 0)
        w = values(x)
        # A step along which A is steeper than was known went too far: it is not taken, and the bound grows.
        moved = x - state.ahead
        square = jnp.sum(moved**2)
        steepness = jnp.sum(moved * (w - state.slope)) / jnp.where(square > 0, square, 1.0)
        fine = steepness <= state.bound
        # Where the last move went uphill the momentum is dropped.
        uphill = jnp.sum(moved * (x - state.loads)) < 0
        bound = jnp.where(fine, state.bound, 1.1 * steepness)
        theta = jnp.where(fine & ~uphill, _following(state.theta), 1.0)
        momentum = theta * (1 - theta) / (theta**2 + _following(theta))
        x, w = select(fine, (x, w), (state.loads, state.values))
        # Taken one step ahead here, and not back in the next, they are passed over and copied less often.
        ahead, slope = x + momentum * (x - state.loads), w + momentum * (w - state.values)
        return _Iterate(x, w, ahead, slope, theta, bound, state.residual, state.number + 1), None

    def some(state: _Iterate):
        state, _ = lax.scan(step, state, None, length=LOOK_EVERY)
        return replace(state, residual=residual(state.loads, state.values))

    def residual(x, w):
        return jnp.max(jnp.abs(x - jnp.maximum(x - w, 0)), initial=0.0)

    x = jnp.where(on, jnp.maximum(loads / scale, 0), 0)
    w = values(x)
    # A pair of rows that are alike has the eigenvalue 2.
    bound, one = jnp.full((), 2, b.dtype), jnp.ones((), b.dtype)
    begin = _Iterate(x, w, x, w, one, bound, residual(x, w), jnp.zeros((), jnp.int32))
    end = lax.while_loop(lambda s: (s.residual > enough) & (s.number < ITERATIONS), some, begin)
    return end.loads * scale, end.residual <= enough


def _only(G: BodyRows, on) -> BodyRows:
    return BodyRows(G.bodies, jnp.where(on[:, None, None], G.normals, 0), G.count)


def _following(theta):
    """Nesterov's next theta."""
    return (jnp.sqrt(theta**4 + 4 * theta**2) - theta**2) / 2


@dataclass(frozen=True)
class _UnitRows:
    """The unit rows N (c, n m) in the metric of the mass: A = N N^T.

    Components come first: scattered and gathered one by one, all balls of a component side by side, they take half the
    time.

    Args:
        bodies: (2, c) of each row; 0 where there is none.
        normals: (2, m, c) the row's entries for them; zero where there is none.
        count: n.
    """

    bodies: jax.Array
    normals: jax.Array
    count: int

    def up(self, y):
        """(c,) N y: what the rows see of the bodies' motion y (m, n)."""
        return sum(jnp.sum(self.normals[side] * y[:, self.bodies[side]], axis=0) for side in (0, 1))

    def down(self, x):
        """(m, n) N^T x: what loads (c,) do to the bodies."""
        moved = jnp.zeros((self.normals.shape[1], self.count), x.dtype)
        for side in (0, 1):
            moved = moved.at[:, self.bodies[side]].add(self.normals[side] * x[None, :])
        return moved


def _whitened(G: BodyRows, scale, mass) -> _UnitRows:
    there = (G.bodies != NONE).T
    bodies = jnp.where(there, G.bodies.T, 0)
    root = jnp.sqrt(mass).reshape(G.count, -1).T[:, bodies].swapaxes(0, 1)
    normals = jnp.where(there[:, None], scale[None, None, :] * G.normals.transpose(1, 2, 0) / root, 0)
    return _UnitRows(bodies.astype(jnp.int32), normals, G.count)


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

    def delassus(x):
        # Redundant rows make it singular; what is added keeps the multipliers finite and does not move u.
        return scale * times(held, lift(held, scale * x) / mass) + softness * x

    softness = jnp.finfo(b.dtype).eps ** (2 / 3)
    wanted = jnp.where(active, scale * (times(held, y) + times(moved, u) + db), 0)
    enough = float(jnp.finfo(b.dtype).eps ** 0.75)

    def solve(matvec, right):
        return cg(matvec, right, tol=enough, maxiter=ITERATIONS)[0]

    dloads = -scale * lax.custom_linear_solve(delassus, wanted, solve, symmetric=True)
    return (u, multipliers), (y + lift(held, dloads) / mass, dloads)
