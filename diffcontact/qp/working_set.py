"""Find the rows that hold as equalities at a projection, where most of many rows never can.

Only the rows nearest to violation are candidates for the active-set method. The others are checked afterwards, and as
long as one of them is violated the method is run again with it among the candidates.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import any_lane, in_lanes, once, select, where_any
from diffcontact.qp.active_set import solve_dual
from diffcontact.qp.rows import (
    Rows,
    delassus,
    dense,
    dependence_tolerance,
    inverse_length,
    magnitudes,
    members,
    part,
    product,
    spread,
    squared_lengths,
    switched,
    transposed_magnitudes,
    transposed_product,
    whitened,
)
from diffcontact.status import Status

# Every round of candidates increases the dual objective, so that they end; many mean that rounding decides.
ROUNDS = 40

# Expected roundings by which a solution may miss the conditions of optimality. Dependent rows miss them by twice the
# rounding at most. Rows at a small angle that count as dependent miss them by more; the miss over the angle is the
# error of u: with a hundred roundings it was half of u.
RIGHT = 8

# Roundings from which rows contradict each other, and to which the least violation is found.
EXPLAINED = 100

# Relaxed rows have the weight eps ** SOFTNESS on the dual's diagonal.
SOFTNESS = 1 / 4

# Share of the terms of G^T y that multipliers may leave where they prove a contradiction. Masses from 1e-6 to 1e6
# spoil four of a hundred problems that have a solution: with this share no such problem is called contradictory.
LEFT_OVER = 1 / 32

# The verdict on a row whose value is not finite, beyond every status.
NOT_FINITE = max(Status) + 1

# The stages: as asked; relaxed, from v and from point to point, where rows contradict each other; with the slack that
# they need; done.
PLAIN, RELAXED, CLOSER, SLACKENED, DONE = range(5)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WorkingSet:
    """Hold what holds at the solution of a projection.

    Args:
        working: (c,) bool, independent rows that hold as equalities.
        multipliers: (c,) >= 0, zero off the working set.
        step: (d,) M^-1 G^T multipliers, the way from v to u.
        slack: (c,) >= 0, relaxation of contradictory rows, to be added to b.
        status: () int, a `Status`.
    """

    working: jax.Array
    multipliers: jax.Array
    step: jax.Array
    slack: jax.Array
    status: jax.Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Round:
    """Carry the state from one active-set run to the next, for scaled rows.

    Args:
        stage: () int, what to do next.
        value: (c,) the rows' values at the present point.
        working: (c,) bool, the working set found last.
        multipliers: (c,) those of the working set.
        step: (d,) M^-1 G^T multipliers, the way from v to the present point.
        slack: (c,) >= 0, the relaxation of the rows.
        number: () int, of runs.
    """

    stage: jax.Array
    value: jax.Array
    working: jax.Array
    multipliers: jax.Array
    step: jax.Array
    slack: jax.Array
    number: jax.Array


def candidate_count(count, rank):
    """Choose how many rows are candidates: all that can be active, and some competitors."""
    wanted = max(rank + rank // 3, 16)
    return count if count <= 3 * wanted // 2 else wanted


def reduced_candidate_count(size):
    """Choose a first number of candidates below `size`, and its most violated or working rows.

    Seldom do as many rows become active as are independent. With three fifths a step of ten spheres, or of 64, takes
    two thirds of the time.
    """
    few = 3 * size // 5
    return few, 3 * few // 4


# Compiled by itself so that it is traced once, however many places of a program call it.
@jax.jit
def find_working_set(mass, G, b, v) -> WorkingSet:
    """Find a projection's working set, and the least relaxation that permits one.

    Where the rows contradict each other they are relaxed by the r >= 0 of least sum of squares (in the rows' unit) that
    makes room for a point. These are the violations that are left when the steps from point to point

        argmin_s 1/2 s^T M s + 1/(2 weight) sum_i min(w_i + G_i s, 0)^2,    w the rows' values at the present point,

    no longer let a row give way. The status is OK only if the conditions of optimality have been verified, with the
    rows as they are. Arguments as of `project`.

    Reference:
        R. T. Rockafellar, Monotone operators and the proximal point algorithm, SIAM J. Control Optim. 14 (1976).
    """
    on = b != jnp.inf
    offset = jnp.where(on, b, 0)
    # The rounding of G v + b, row by row; a violation below it cannot be told from none.
    noise = jnp.where(on, 16 * jnp.finfo(b.dtype).eps * (magnitudes(G, v) + jnp.abs(offset)), 0)
    value = jnp.where(on, product(G, v) + offset, jnp.inf)

    G = switched(G, on)
    if v.size == 1 < b.size:
        # In closed form: nothing that a branch would save.
        return _one_coordinate(_ScaledRows.of(mass, G, value, noise))

    def violated():
        if b.size == 1:
            return _one_row(mass, dense(G)[0], value[0], noise[0])
        return _several_rows(_ScaledRows.of(mass, G, value, noise))

    def nothing():
        zeros = jnp.zeros_like(b)
        return WorkingSet(zeros > 0, zeros, jnp.zeros_like(v), zeros, jnp.asarray(int(Status.OK), jnp.int32))

    # A value that is not a number, or infinitely negative, is looked at as well.
    return where_any(jnp.any(on & ~(value + noise >= 0)), violated, nothing)


def _one_row(mass, row, value, noise) -> WorkingSet:
    """Hold a single row (d,) if it is violated; it contradicts if it is zero besides."""
    root = linear.root_of_mass(mass)
    column = linear.unwhiten(root, linear.whiten(root, row))
    square = row @ column
    violated = value < -noise
    # Of a mass without a factor in this precision nothing can be said: u = v.
    works = violated & (square > 0) & jnp.all(jnp.isfinite(column))
    multiplier = jnp.where(works, -value / jnp.where(works, square, 1), 0)
    slack = jnp.where(violated & ~works, -value, 0)
    status = jnp.where(slack > 1e3 * noise, Status.INFEASIBLE, Status.OK)
    unknown = jnp.isnan(value + noise) | (violated & ~jnp.isfinite(square))
    status = jnp.where(unknown, Status.ILL_CONDITIONED, status).astype(jnp.int32)
    return WorkingSet(works[None], multiplier[None], multiplier * jnp.where(works, column, 0), slack[None], status)


def _one_coordinate(rows) -> WorkingSet:
    unit = rows.take(slice(None))[:, 0]
    explained = RIGHT * rows.tolerance
    weight = (jnp.min(rows.scale) / rows.scale) ** 2
    x, working = nearest_in_interval(unit, rows.w0, rows.tolerance, explained, weight)
    value = rows.w0 + unit * x
    slack = jnp.where(jnp.any(value < -explained), jnp.maximum(rows.noise - value, 0), 0)
    multipliers, step = jnp.where(working, jnp.abs(x), 0), linear.unwhiten(rows.root, x[None])
    zero = jnp.zeros((), jnp.int32)
    return rows.result(_Round(zero + DONE, value, working, multipliers, step, slack, zero))


@dataclass(frozen=True)
class _ScaledRows:
    """Hold the rows of a projection, each scaled to length one in the metric M^-1.

    Args:
        G: (c, d) before scaling; zero where switched off.
        root: L with M = L L^T.
        scale: (c,).
        w0: (c,) values at v; +inf switches a row off.
        noise: (c,) their rounding.
        tolerance: (c,) violations up to here are rounding.
        softness: (c,) increase of the dual's diagonal that relaxes contradictory rows.
    """

    G: Rows
    root: jax.Array
    scale: jax.Array
    w0: jax.Array
    noise: jax.Array
    tolerance: jax.Array
    softness: jax.Array

    @classmethod
    def of(cls, mass, G, value, noise):
        root, eps = linear.root_of_mass(mass), jnp.finfo(value.dtype).eps
        scale = inverse_length(squared_lengths(mass, root, G))
        w0, noise = value * scale, noise * scale
        # Multipliers of unit rows are about as large as the violations; their rounding comes back as values.
        tolerance = noise + 16 * eps * jnp.maximum(jnp.max(-w0), 0)
        # A weight on the diagonal of the dual is a penalty 1/weight on the squared violation of the row. The smaller it
        # is, the fewer steps it takes to the least violation, and the less exact each of them is.
        least = 16 * dependence_tolerance(value.shape[0], float(eps))
        softness = jnp.maximum(float(eps) ** SOFTNESS * (scale / jnp.max(scale)) ** 2, least)
        return cls(G, root, scale, w0, noise, tolerance, softness)

    def take(self, rows):
        """Return rows L^-1 G_i (k, d), scaled, with the Delassus matrix as inner products."""
        return whitened(self.root, part(self.G, rows), self.scale[rows])

    def unrefuted(self, state):
        """Tell whether the violations left do not prove that the rows contradict each other.

        Those of least sum of squares do, as Farkas multipliers: y = violation / weight >= 0 has G^T y = 0 and y b < 0.
        Where rounding has spoilt the metric, they are not the least, and G^T y is far from zero.
        """
        weight = jnp.where(state.slack > 0, self.scale / self.softness, 0)
        violation = jnp.where(state.slack > 0, state.value, 0)
        left = transposed_product(self.G, weight * violation)
        terms = transposed_magnitudes(self.G, weight * (jnp.abs(violation) + EXPLAINED * self.tolerance))
        return jnp.any(jnp.abs(left) > LEFT_OVER * terms)

    def verdict(self, state):
        """Return the status, from the conditions of optimality; NOT_FINITE beyond."""
        # Of nearly dependent rows the multipliers are known to few digits, of which their sum loses none.
        negative = -(float(jnp.finfo(self.w0.dtype).eps) ** (1 / 3)) * state.multipliers
        missed = jnp.where(state.working, jnp.maximum(jnp.abs(state.value), negative), -state.value)
        slackened = state.slack > RIGHT * self.tolerance
        explained = jnp.where(jnp.any(slackened), EXPLAINED, RIGHT) * self.tolerance
        verdict = jnp.where(missed <= explained, int(Status.OK), int(Status.ILL_CONDITIONED))
        verdict = jnp.where(slackened, int(Status.INFEASIBLE), verdict)
        return jnp.max(jnp.where(missed < jnp.inf, verdict, NOT_FINITE))

    def result(self, state, unrefuted=False) -> WorkingSet:
        """Return the last round's result, verified; ILL_CONDITIONED where a contradiction is `unrefuted`."""
        verdict = self.verdict(state)
        # Of a mass without a factor in this precision nothing can be said: u = v.
        finite, ill = verdict < NOT_FINITE, int(Status.ILL_CONDITIONED)
        doubtful = unrefuted & (verdict == int(Status.INFEASIBLE))
        return WorkingSet(
            working=state.working & finite,
            multipliers=jnp.where(finite, jnp.maximum(state.multipliers * self.scale, 0), 0),
            step=jnp.where(finite, state.step, 0),
            slack=state.slack / self.scale,
            status=jnp.where(doubtful, ill, jnp.minimum(verdict, ill)).astype(jnp.int32),
        )


def _several_rows(rows) -> WorkingSet:
    count = rows.w0.shape[0]
    size = candidate_count(count, min(rows.G.shape))
    few, asking = reduced_candidate_count(size)
    # In tolerances: a row that is violated less by more than the rounding of relaxed multipliers tells.
    noticeable = 2 * float(jnp.finfo(rows.w0.dtype).eps) ** (SOFTNESS - 1 / 2)

    def solved(unit, chosen, state):
        """Solve among chosen rows: working set, multipliers, step, values (c,), and whether these do not do."""
        closer = state.stage == CLOSER
        relaxed = (state.stage == RELAXED) | closer
        origin = jnp.where(closer, state.value, rows.w0)
        soft = jnp.where(relaxed, rows.softness[chosen], 0)
        working, multipliers, step = _solve(rows, unit, chosen, (origin + state.slack)[chosen], soft, relaxed)
        step = linear.unwhiten(rows.root, step)
        value = origin + rows.scale * product(rows.G, step)
        # As asked, no chosen row must be violated; of relaxed ones, none may be violated noticeably less than before.
        bound = jnp.where(closer, value, 0) - jnp.where(closer, noticeable, EXPLAINED) * rows.tolerance
        wrong = jnp.any((jnp.where(closer, state.value, value) < bound)[chosen])
        return working, multipliers, step, value, wrong

    def among(size, state):
        """Solve among the rows nearest to violation; tell whether another one is violated."""
        # Single precision is enough to choose by.
        _, chosen = lax.top_k(jnp.where(state.working, jnp.inf, -state.value).astype(jnp.float32), size)
        working, multipliers, step, value, wrong = solved(rows.take(chosen), chosen, state)
        # Relaxed rows stay violated as long as they are in the working set.
        left_out = jnp.any((value + state.slack < -2 * rows.tolerance) & ~members(chosen, count))
        return (spread(chosen, working, count), spread(chosen, multipliers, count), step, value, wrong), left_out

    # Where all rows are candidates, what they are is the same in every round.
    everything = rows.take(slice(None)) if size == count else None

    def run(state):
        if everything is None:
            # Lanes that need few candidates go first, then those that need many: no lane's rounding depends on another.
            asked = jnp.sum(state.working | (state.value < -rows.tolerance))
            # A row seldom becomes active that is farther away than the largest violation.
            near = jnp.sum(state.value < jnp.max(-state.value))
            many = (asked > asking) | (near > few) | (state.stage == RELAXED) | (state.stage == CLOSER)
            few_first = any_lane(~many & (state.stage != DONE))
            found, left_out = lax.cond(few_first, partial(among, few), partial(among, size), state)
            return select(many != few_first, after(state, found, left_out), state)
        return after(state, solved(everything, slice(None), state), jnp.asarray(False))

    def after(state, found, left_out):
        working, multipliers, step, value, wrong = found
        plain, closer = state.stage == PLAIN, state.stage == CLOSER
        contradiction = plain & wrong
        again = ((left_out & ~contradiction) | (closer & wrong)) & (state.number < ROUNDS)
        # At the point found the slackened rows hold: no margin is needed but rounding.
        slack = jnp.where(closer & ~again, jnp.maximum(rows.noise - value, 0), state.slack)
        following = jnp.where(plain & ~wrong, DONE, state.stage + 1)
        stage = jnp.where(again, state.stage, following).astype(jnp.int32)
        return _Round(stage, value, working, multipliers, step, slack, state.number + 1)

    zero, none = jnp.zeros((), jnp.int32), jnp.zeros_like(rows.w0)
    nowhere = jnp.zeros(rows.G.shape[1], none.dtype)
    start = _Round(zero + PLAIN, rows.w0, none > 0, none, nowhere, none, zero)
    state = lax.while_loop(lambda state: state.stage != DONE, once(run), in_lanes(start, rows.G))
    return rows.result(state, rows.unrefuted(state))


def _solve(rows, unit, chosen, start, soft, relaxed):
    """Solve the dual of the chosen rows: working set, multipliers, and whitened step (d,)."""
    found = solve_dual(delassus(unit) + jnp.diag(soft), start, rows.tolerance[chosen], min(rows.G.shape), relaxed)
    multipliers = jnp.where(found.working, found.point, 0)
    step = transposed_product(unit, multipliers)
    # One step of iterative refinement. The step is corrected, not computed anew: large multipliers cancel in it.
    correction = -found.swept(start + soft * multipliers + product(unit, step))
    return found.working, multipliers + correction, step + transposed_product(unit, correction)


# So often is a bracket halved until a number of double precision is left.
HALVINGS = 64


def nearest_in_interval(direction, start, tolerance, rounding, weight):
    """Find the x nearest to 0 with sign_i x + start_i >= 0 for all rows.

    Where rows contradict each other, x minimises sum_i weight_i min(sign_i x + start_i, 0)^2. Returns x, and (c,) bool:
    the row that pushes, none where x is 0.

    Args:
        direction: (c,) whose signs are taken; 0 for a row that x does not move.
        start: (c,) values at x = 0; +inf switches a row off.
        tolerance: (c,) a row that is violated by less does not push.
        rounding: (c,) rows that are still violated by more at x contradict each other.
        weight: (c,) > 0.
    """
    sign = jnp.sign(direction)
    low = jnp.max(jnp.where(sign > 0, -start, -jnp.inf))
    high = jnp.min(jnp.where(sign < 0, start, jnp.inf))
    violated = (start < -tolerance) & (sign != 0)
    most = jnp.argmin(jnp.where(violated, start, jnp.inf))
    x = jnp.where(violated[most], -sign[most] * start[most], 0)
    contradiction = (low > high) & jnp.any(sign * x + start < -rounding)

    def least_violating():
        pull = weight * sign

        def halve(_, ends):
            middle = (ends[0] + ends[1]) / 2
            too_low = jnp.sum(pull * jnp.minimum(sign * middle + jnp.where(sign == 0, 0, start), 0)) < 0
            return jnp.where(too_low, middle, ends[0]), jnp.where(too_low, ends[1], middle)

        ends = lax.fori_loop(0, HALVINGS, once(halve), (high, low))
        return jnp.where(contradiction, (ends[0] + ends[1]) / 2, x)

    x = lax.cond(any_lane(contradiction), once(least_violating), lambda: x)
    pushing = jnp.where(violated & (sign * x > 0), start, jnp.inf)
    most = jnp.argmin(pushing)
    return x, (jnp.arange(start.size) == most) & (pushing[most] < 0)
