"""Coulomb's law of very many contacts as a fixed point, found by Anderson's acceleration of projected steps.

A projected step goes against the contact velocities w, normal ones first, and then only as far as the law allows::

    P' = max(P - rho w_N, 0),      B' = the vector nearest to B - rho w_T with |B'| <= mu P'

which has Coulomb's law as its fixed points, and no other. Anderson's acceleration extrapolates from the last steps to
where steps would vanish. On linear equations that is GMRES with a short memory. A heap of a thousand spheres takes a
hundred to three hundred products by the rows; Nesterov's method, restarted, takes three times as many, and thousands
where balls are wedged.

Far from a solution, with large friction, the extrapolation can go round in circles. Then some plain steps are made
from where the shortest one was, more of them each time. Reactions of jammed balls drift, always by the same short step,
until a contact slips or opens. So now and then a step is made 2, 4, ... times as long, while what remains hardly grows.

The law with b_i + mu |w_T| of De Saxce has the same solutions, and verifies them. As a fixed point it is worse: its
offset has a kink where a contact sticks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import where_any, where_wanted
from diffcontact.qp.friction.law import length, natural_map, onto_cone
from diffcontact.qp.many.vectors import largest
from diffcontact.qp.rows import NONE, BodyRows, both


@dataclass(frozen=True)
class UnitContacts:
    """Hold the rows H (1 + k, c, n m), normal first, of c contacts between n bodies; W = H M^-1 H^T.

    Contacts come last, bodies first: what a contact adds to a body is scattered and gathered as one slice, which XLA on
    a CPU does twice as fast as m numbers.

    Args:
        bodies: (2, c) the two bodies of each contact; n where there is none.
        entries: (2, m, 1 + k, c) the rows' entries for them.
        inverse: (n + 1, m) diagonal of M^-1, zero for the last body, which stands for none.
    """

    bodies: jax.Array
    entries: jax.Array
    inverse: jax.Array

    @classmethod
    def of(cls, rows: tuple[BodyRows, ...], scale, mass) -> UnitContacts:
        """Scale 1 + k rows (c, d) of each contact by (1 + k, c), for a mass (d,)."""
        count = rows[0].count
        bodies = jnp.where(rows[0].bodies == NONE, count, rows[0].bodies).T.astype(jnp.int32)
        entries = jnp.stack([both(one).normals for one in rows], axis=-1).transpose(1, 2, 3, 0)
        return cls(bodies, entries * scale[None, None], jnp.pad((1 / mass).reshape(count, -1), ((0, 1), (0, 0))))

    def part(self, place, there) -> UnitContacts:
        """Select the contacts at the places (k,), zero unless `there` (k,)."""
        return replace(
            self, bodies=self.bodies[:, place], entries=jnp.where(there[None, None, None], self.entries[..., place], 0)
        )

    def response(self, reactions):
        return self.product(self.motion(reactions))

    def product(self, motion):
        """Return H motion (1 + k, c) of a motion (n + 1, m) of the bodies."""
        sides = zip(self.bodies, self.entries, strict=True)
        return sum(jnp.sum(entries * motion[bodies].T[:, None], axis=0) for bodies, entries in sides)

    def motion(self, reactions):
        """Return M^-1 H^T r (n + 1, m)."""
        pushes = jnp.zeros_like(self.inverse)
        for bodies, entries in zip(self.bodies, self.entries, strict=True):
            pushes = pushes.at[bodies].add(jnp.sum(entries * reactions[None], axis=1).T)
        return self.inverse * pushes


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
