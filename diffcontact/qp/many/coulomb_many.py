"""Solve Coulomb's friction at very many contacts between bodies, matrix-free."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax
from jax.typing import ArrayLike

from diffcontact.arguments import require_shapes
from diffcontact.numerics import linear
from diffcontact.numerics.batching import full_precision_matmul, where_any, where_wanted
from diffcontact.numerics.linear import length, nonzero
from diffcontact.qp.friction.law import natural_map, onto_cone
from diffcontact.qp.many.rows import BROUGHT_TOGETHER_ABOVE, UnitContacts, largest, solved_among, stated_tolerance
from diffcontact.qp.projection import Reaction
from diffcontact.qp.rows import BodyRows, inverse_length, magnitudes, product, squares, switched, transposed_product
from diffcontact.status import Status

# Sizes in which contacts that may push are brought together, as shares of all: in a settled heap a sixth may push.
SIZES = 11 / 64, 12 / 64, 16 / 64, 24 / 64
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


ITERATIONS = 10000
# Steps that are remembered. Heaps take as many iterations with seven as with ten, and a tenth more with five.
MEMORY = 7
# The length of a step times the largest eigenvalue of W that was met; above 2 steps would not converge.
STRIDE = 1.8
# The first guess of this eigenvalue; larger ones are met on the way. Heaps take a tenth fewer iterations than with
# 4.5, and some heaps several times as many with 2.5.
STEEPEST = 3.0
# Accelerated steps fail if one is LONGER times the shortest, or if WINDOW of them do not halve the shortest.
LONGER, WINDOW = 2.0, 20
# Number of plain steps after a failure; it doubles each time.
FIRST_PLAIN = 40
# Iterations after which a longer step is tried, and the growth of the residual that it may cause.
DRIFT, GROWTH = 10, 1.3
# No step is made longer than this.
LONGEST = 2.0**20
# The stride of the natural map by which solutions are verified: with longer ones it would be smaller.
VERIFIED_AT = 0.4


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Iterate:
    """Carry the state from iteration to iteration.

    Args:
        r: (1 + k, c) reactions; w: velocities there; step: the projected step from there.
        largest: () its largest entry as a velocity, what is left of the law; size: () its length.
        moves: (m, (1 + k) c) by how much projected points differed in the iterations remembered; steps: the steps.
        gram: (m, m) inner products of the latter; kept: (m,) bool, which ones are in use.
        best, mark: () the shortest step of late, and what it was when last looked at; since: () int, how long ago.
        nearest: (1 + k, c) the reactions where the step was shortest; shortest: () its length.
        plain, next_plain: () int, how many steps are made as they are yet, and will be made next time.
        steepest: () the largest eigenvalue of W that was met; number: () int, of iterations.
    """

    r: jax.Array
    w: jax.Array
    step: jax.Array
    largest: jax.Array
    size: jax.Array
    moves: jax.Array
    steps: jax.Array
    gram: jax.Array
    kept: jax.Array
    best: jax.Array
    mark: jax.Array
    since: jax.Array
    nearest: jax.Array
    shortest: jax.Array
    plain: jax.Array
    next_plain: jax.Array
    steepest: jax.Array
    number: jax.Array


@dataclass(frozen=True)
class ManyContacts:
    """Hold contacts that rub, in the unit of their rows; reactions and velocities are (1 + k, c).

    Coulomb's law is a fixed point here, found by Anderson's acceleration of projected steps.

    A projected step goes against the contact velocities w, normal ones first, and then only as far as the law allows::

        P' = max(P - rho w_N, 0),      B' = the vector nearest to B - rho w_T with |B'| <= mu P'

    which has Coulomb's law as its fixed points, and no other. Anderson's acceleration extrapolates from the last steps
    to where steps would vanish. On linear equations that is GMRES with a short memory. A heap of a thousand spheres
    takes a hundred to three hundred products by the rows; Nesterov's method, restarted, takes three times as many, and
    thousands where balls are wedged.

    Far from a solution, with large friction, the extrapolation can go round in circles. Then some plain steps are made
    from where the shortest one was, more of them each time. Reactions of jammed balls drift, always by the same short
    step, until a contact slips or opens. So now and then a step is made 2, 4, ... times as long, while what remains
    hardly grows.

    The law with b_i + mu |w_T| of De Saxce has the same solutions, and verifies them. As a fixed point it is worse: its
    offset has a kink where a contact sticks.

    Args:
        free: (1 + k, c) velocities without reactions.
        rows: the rows H, W = H M^-1 H^T.
        friction: (c,) mu, in their unit.
        coulomb: Coulomb's law, or the convex problem, in which slip opens contacts.
    """

    free: jax.Array
    rows: UnitContacts
    friction: jax.Array
    coulomb: bool

    def part(self, place, there) -> ManyContacts:
        free = jnp.where(there[None], self.free[:, place], 0)
        return replace(self, free=free, rows=self.rows.part(place, there), friction=self.friction[place])

    def astype(self, dtype) -> ManyContacts:
        rows = replace(self.rows, entries=self.rows.entries.astype(dtype), inverse=self.rows.inverse.astype(dtype))
        return replace(self, free=self.free.astype(dtype), rows=rows, friction=self.friction.astype(dtype))

    def velocities(self, r):
        return self.rows.response(r) + self.free

    def admissible(self, r):
        """Project r (1 + k, c) into the cones of friction; r where it is inside."""
        if not self.coulomb:
            return onto_cone(r.T, self.friction).T
        normal, tangential = jnp.maximum(r[0], 0), r[1:]
        size, bound = length(tangential.T), self.friction * normal
        shorter = jnp.where(size > bound, bound / linear.nonzero(size), 1)
        return jnp.concatenate([normal[None], tangential * shorter[None]])

    def opening(self, w):
        """Return (c,) numbers that are negative for a contact that begins to push."""
        return w[0] if self.coulomb else w[0] - self.friction * length(w[1:].T)

    def residual(self, r, w):
        """Return the largest entry of the law's natural map, as a velocity."""
        if self.coulomb:
            left = natural_map(r.T, w.T, self.friction, jnp.full_like(self.friction, VERIFIED_AT))
        else:
            left = (r - self.admissible(r - VERIFIED_AT * w)).T
        return jnp.max(jnp.abs(left), initial=0.0) / VERIFIED_AT

    def solved(self, r, enough):
        """Iterate from r until a projected step is shorter than `enough`, or `ITERATIONS`.

        Returns the reactions and the number of steps.
        """
        end = lax.while_loop(
            lambda state: (state.largest > enough) & (state.number < ITERATIONS), self.iterate, self.begin(r)
        )
        return end.r, end.number

    def begin(self, r) -> _Iterate:
        """Start at r, with nothing remembered."""
        none, zero, far = jnp.zeros_like(r), jnp.zeros((), jnp.int32), jnp.asarray(jnp.inf, r.dtype)
        history = jnp.zeros((MEMORY, r.size), r.dtype)
        state = _Iterate(
            r=r,
            w=self.velocities(r),
            step=none,
            largest=far,
            size=far,
            moves=history,
            steps=history,
            gram=jnp.zeros((MEMORY, MEMORY), r.dtype),
            kept=jnp.zeros(MEMORY, bool),
            best=far,
            mark=far,
            since=zero,
            nearest=r,
            shortest=far,
            plain=zero,
            next_plain=zero + FIRST_PLAIN,
            steepest=jnp.asarray(STEEPEST, r.dtype),
            number=zero,
        )
        return self.stepped(state)

    def stepped(self, state: _Iterate) -> _Iterate:
        """Add the projected step from the iterate's reactions."""
        stride = STRIDE / state.steepest
        step = self.admissible(state.r - stride * state.w) - state.r
        size = jnp.sqrt(jnp.sum(step * step))
        return replace(
            state,
            step=step,
            largest=largest(jnp.abs(step)) / stride,
            size=size,
            best=jnp.where(state.plain > 0, size, jnp.minimum(state.best, size)),
            nearest=jnp.where(size < state.shortest, state.r, state.nearest),
            shortest=jnp.minimum(size, state.shortest),
        )

    def iterate(self, state: _Iterate) -> _Iterate:
        """Make one step, accelerated or plain, and learn of W by it."""
        plain = state.plain > 0
        r = state.r + state.step - (self.weights(state) @ state.moves).reshape(state.r.shape)
        # Where accelerated steps have failed the next ones begin at the best place that was met.
        looked = ~plain & (state.since >= WINDOW)
        failed = ~plain & ((state.size > LONGER * state.best) | (looked & (state.best > state.mark / 2)))
        r = jnp.where(failed, state.nearest, self.admissible(r))
        w = self.velocities(r)
        along, across = r - state.r, w - state.w
        drifts = ~failed & (state.number % DRIFT == DRIFT - 1)
        r, w = where_any(drifts, lambda: self.further(state, r, w, drifts), lambda: (r, w))
        steepness = jnp.sqrt(jnp.sum(across * across) / linear.nonzero(jnp.sum(along * along)))
        steeper = steepness > 1.05 * state.steepest
        after = self.stepped(
            replace(
                state,
                r=r,
                w=w,
                plain=jnp.where(failed, state.next_plain, jnp.maximum(state.plain - 1, 0)),
                next_plain=jnp.where(failed, 2, 1) * state.next_plain,
                steepest=jnp.where(steeper, steepness, state.steepest),
                # What was found with longer steps does not compare.
                best=jnp.where(steeper | failed, jnp.inf, state.best),
                shortest=jnp.where(steeper, jnp.inf, state.shortest),
                number=state.number + 1,
            )
        )
        anew = plain | looked | failed | steeper
        after = replace(
            after,
            mark=jnp.where(steeper, jnp.inf, jnp.where(anew, after.best, state.mark)),
            since=jnp.where(anew, 0, state.since + 1),
        )
        return self.remembered(after, state, ~(plain | failed | steeper))

    def further(self, state: _Iterate, r, w, wanted):
        """Lengthen a step by `wanted` () as far as it pays: reactions and velocities.

        Velocities are linear in reactions, so that trying costs no product by the rows, unless a longer one pays.
        """
        along, across = r - state.r, w - state.w
        stride = STRIDE / state.steepest

        def remains(times):
            there = self.admissible(state.r + times * along)
            step = self.admissible(there - stride * (state.w + times * across)) - there
            return jnp.sqrt(jnp.sum(step * step))

        enough = GROWTH * remains(1.0)
        times = lax.while_loop(
            lambda times: wanted & (times < LONGEST) & (remains(2 * times) <= enough),
            lambda times: 2 * times,
            jnp.ones((), r.dtype),
        )

        def longer():
            there = self.admissible(state.r + times * along)
            return there, self.velocities(there)

        return where_wanted(times > 1, longer, (r, w))

    def weights(self, state: _Iterate):
        """Weigh the steps remembered (m,) so that their sum cancels the last step best."""
        both = state.kept[:, None] & state.kept[None, :]
        gram = jnp.where(both, state.gram, 0)
        # Steps that hardly differ tell nothing but rounding.
        softness = jnp.finfo(gram.dtype).eps ** (2 / 3) * jnp.trace(gram)
        diagonal = jnp.where(state.kept & (softness > 0), softness, 1)
        along = jnp.where(state.kept, state.steps @ state.step.ravel(), 0)
        return linear.solve_positive(gram + jnp.diag(diagonal), along)

    def remembered(self, after: _Iterate, before: _Iterate, worth) -> _Iterate:
        """Store the difference to the last iterate if it is `worth` () it."""
        slot, change = before.number % MEMORY, (after.step - before.step).ravel()
        steps = before.steps.at[slot].set(change)
        alike = steps @ change
        return replace(
            after,
            moves=before.moves.at[slot].set((after.r - before.r).ravel() + change),
            steps=steps,
            gram=before.gram.at[slot].set(alike).at[:, slot].set(alike),
            kept=(before.kept & worth).at[slot].set(worth),
        )
