r"""One piece of motion in known modes: a jump of the velocity, and an explicit Runge-Kutta method on the accelerations.

Everything that is solved is one linear system, M (y - v) = R^T z with R y + b = 0 in given modes (`modes.react`), asked
at one place after the other::

    JUMP, LESS       of the velocity at the beginning, b = r + (e, e_t) v-; and with less restitution, for a blend
    STAGE            q_i = q + s sum_j a_ij q'_j,   u_i = u+ + s sum_j a_ij u'_j,   u'_i from v = M^-1 f and b = bend
    PLACE            the displacement onto the gaps that are held, b = gap: Newton's steps
    VELOCITY         the velocity in its modes, b = r
    REACTION         the acceleration at the end, whose loads tell when a mode ends

The corrections at the end are of the size of the method's error and keep its order. What nobody needs is skipped: in
free flight nothing is solved.

Source: E. Hairer, S. P. Norsett, G. Wanner, Solving Ordinary Differential Equations I, section II.1; order 6: J. C.
Butcher, J. Austral. Math. Soc. 4 (1964).
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import computed_again, entangled, where_wanted
from diffcontact.numerics.linear import length, nonzero
from diffcontact.schemes.event_timed.contacts import Law, Place, bends, free_acceleration, unit
from diffcontact.schemes.event_timed.flow import bounce
from diffcontact.schemes.event_timed.modes import OPEN, SLIP, react
from diffcontact.system import rate

# Matrix, weights and nodes of each order.
TABLEAUS = {
    2: ([[0, 0], [1, 0]], [1 / 2, 1 / 2], [0, 1]),
    4: (
        [[0] * 4, [1 / 2, 0, 0, 0], [0, 1 / 2, 0, 0], [0, 0, 1, 0]],
        [1 / 6, 1 / 3, 1 / 3, 1 / 6],
        [0, 1 / 2, 1 / 2, 1],
    ),
    6: (
        [
            [0] * 7,
            [1 / 3, *[0] * 6],
            [0, 2 / 3, *[0] * 5],
            [1 / 12, 1 / 3, -1 / 12, *[0] * 4],
            [-1 / 16, 9 / 8, -3 / 16, -3 / 8, *[0] * 3],
            [0, 9 / 8, -3 / 8, -3 / 4, 1 / 2, 0, 0],
            [9 / 44, -9 / 11, 63 / 44, 18 / 11, 0, -16 / 11, 0],
        ],
        [11 / 120, 0, 27 / 40, 27 / 40, -4 / 15, -4 / 15, 11 / 120],
        [0, 1 / 3, 2 / 3, 1 / 3, 1 / 2, 1 / 2, 1],
    ),
}  # fmt: skip
JUMP, LESS, STAGE, PLACE, VELOCITY, REACTION = range(6)
# Newton's steps onto the gaps that are held: from O(s^3) of the lowest order to rounding.
_PLACES = 3


class Jump(NamedTuple):
    """A jump of the velocity, as integers and directions: all that its equations need.

    Attributes:
        modes: (c,), direction: (c, k) in the jump.
        bounce: (c,) contacts to which restitution applies.
        flows: () whether one contact takes it alone, by a law that is a flow over its impulse (Poisson's, Stronge's).
        blended: () whether it is blended with the jump of `less` restitution, whose modes these are.
    """

    modes: Array
    direction: Array
    bounce: Array
    flows: Array
    blended: Array
    less_modes: Array
    less_direction: Array

    @classmethod
    def nothing(cls, count: int, directions: int, dtype) -> Jump:
        modes, direction = jnp.zeros(count, jnp.int8), jnp.zeros((count, directions), dtype)
        no = jnp.array(False)
        return cls(modes, direction, modes > 0, no, no, modes, direction)


class Piece(NamedTuple):
    """A jump and the smooth motion behind it: all that their equations need, and nothing that has a derivative.

    Attributes:
        jump: see `Jump`.
        modes: (c,), direction: (c, k) of the motion.
        s: () its length [s]; event: () the number that is zero where it ends, -1 where it ends with the step.
        last: () whether it ends with the step; used: () whether there is such a piece.
    """

    jump: Jump
    modes: Array
    direction: Array
    s: Array
    event: Array
    last: Array
    used: Array

    @property
    def timed(self) -> Array:
        """() whether the motion depends on the time of its end to first order: where a gap closes or a slip ends.

        Where a contact lets go or starts to slip the acceleration is continuous.
        """
        count = self.modes.size
        if not count:
            return jnp.array(False)
        kind, slips = self.event // count, self.modes[self.event % count] == SLIP
        return (self.event >= 0) & ((kind == 0) | ((kind == 2) & slips))


class Record(NamedTuple):
    """A piece and the state (t, left, q, u) where it begins, in two arrays: numbers (f,) and codes (c,)."""

    numbers: Array
    codes: Any

    @classmethod
    def of(cls, piece: Piece, state) -> Record:
        """As it is; codes of up to 53."""
        jump, (t, left, q, u) = piece.jump, state
        codes = piece.modes + 3 * jump.modes + 9 * jump.less_modes + 27 * jump.bounce.astype(jnp.int8)
        flags = jump.flows + 2 * jump.blended + 4 * piece.last + 8 * piece.used
        real = jnp.stack([x.astype(u.dtype) for x in (piece.event, flags, t, left, piece.s)])
        ways = (x.reshape(-1) for x in (jump.direction, jump.less_direction, piece.direction))
        return cls(jnp.concatenate([real, q, u, *ways]), codes.astype(jnp.int8))

    @classmethod
    def moved(cls, longer, state, like: Record) -> Record:
        """Its tangent, by those of the length and of the state where it begins."""
        t, left, q, u = state
        real = jnp.stack([jnp.zeros_like(t), jnp.zeros_like(t), t, left, longer])
        rest = jnp.zeros(like.numbers.size - real.size - q.size - u.size, u.dtype)
        return cls(jnp.concatenate([real, q, u, rest]), np.zeros(like.codes.shape, jax.dtypes.float0))

    def read(self, places: int, size: int) -> tuple[Piece, tuple[Array, ...]]:
        """The piece and the state, of so many places and velocities."""
        real, q, u, ways = jnp.split(self.numbers, np.cumsum([5, places, size]))
        (event, flags), (t, left, s) = real[:2].astype(jnp.int32), real[2:]
        codes, flags = self.codes, (flags // 2 ** jnp.arange(4)) % 2 == 1
        modes = [codes // 3**n % 3 for n in range(3)]
        across = ways.size // (3 * codes.size) if codes.size else 0
        one, less, way = lax.stop_gradient(ways).reshape(3, codes.size, across)
        jump = Jump(modes[1], one, codes >= 27, flags[0], flags[1], modes[2], less)
        return Piece(jump, modes[0], way, s, event, flags[2], flags[3]), (t, left, q, u)


class Motion(NamedTuple):
    """The end of a piece: q (n,), u (d,), the impulses (c, 1 + k) of its contacts [N s]; and where they were asked for
    its rates there, q' (n,) and the acceleration a (d,), and the loads and frictions (c, 1 + k) [N].
    """

    q: Array
    u: Array
    impulse: Array
    way: Array
    a: Array
    load: Array


class _Registers(NamedTuple):
    """What is known after some problems.

    Attributes:
        slopes: (stages + 1, n + d) rates of (q, u) at the stages and at the end.
        shift: (n + d,) what jumps and corrections have added.
        impulse: (c, 1 + k) of the jump, then of the motion as well; load: (c, 1 + k) the last reaction.
        first: (c, k) slips in space at the beginning.
    """

    slopes: Array
    shift: Array
    impulse: Array
    load: Array
    first: Array


def move(system, params, tableau: Any, t, s, q, u, piece: Piece, ends, search: bool = False) -> Motion:
    """A jump at (t, q, u), and s seconds of motion without any event.

    Args:
        tableau: one of `TABLEAUS`.
        piece: what jumps, and the modes of the motion.
        ends: () whether the rates at the end are asked for.
        search: whether the jump has been made, and nothing is differentiated.
    """
    A, weights, nodes = (np.array(x, float) for x in tableau)
    stages, (count, across), jump = nodes.size, piece.direction.shape, piece.jump
    held, charted = jnp.any(piece.modes != OPEN), system.dexpinv is not None
    # Places are integrated as they are, or where rotations are known as vectors theta from q (Munthe-Kaas).
    start = jnp.concatenate([jnp.zeros_like(u) if charted else q, u])
    places_of = start.size - u.size

    def slope_of(place, w):
        return system.dexpinv(place, w, params) if charted else rate(system, params, place, w)

    def place_of(place):
        return system.advance(q, place, 1.0, params) if charted else place

    again = (lambda f: f) if search else partial(jax.checkpoint, prevent_cse=False)

    def answer(so_far: _Registers, level, time, x, w, mass, free):
        """What is asked at this level, and its reaction; how much of a jump; slip speeds."""
        here = Place.at(system, params, time, x, u.size)._replace(mass=mass)
        jumps, less, places = level <= LESS, level == LESS, level == PLACE
        bend, before = bends(system, params, time, x, w), here.velocity(u)
        law = Law.of(system, params, jnp.where(jumps, before[:, 0], 0.0))
        struck = (
            here.drift + jnp.where((jump.bounce & jumps)[:, None], restitution(law, jump, less, across), 0) * before
        )
        gap = jnp.concatenate([here.gap[:, None], jnp.zeros_like(here.drift[:, 1:])], axis=1)
        accelerates = (level == STAGE) | (level == REACTION)
        b = jnp.where(accelerates, bend, jnp.where(places, gap, struck))
        v = jnp.where(accelerates, free, jnp.where(places, 0.0, jnp.where(jumps, u, w)))
        modes = jnp.where(jumps, jnp.where(less, jump.less_modes, jump.modes), piece.modes)
        # Of a place only the gap is asked for.
        modes = jnp.where(places & (modes != OPEN), SLIP, modes)
        way, first = piece.direction, so_far.first
        if across > 1:
            slip = here.velocity(w)[:, 1:]
            first = jnp.where(jumps | (time == t), slip, first)
            way = _along(way, first, slip)
        way = jnp.where(jumps, jnp.where(less, jump.less_direction, jump.direction), way)
        follows = jnp.broadcast_to(jumps, modes.shape)
        y, z = react(mass, here.rows, b, v, modes, jnp.where(places, 0.0, law.mu), way, follows)
        if system.flows:
            contact = jnp.argmax(jump.modes != OPEN)
            flow = lambda: flowed(system, here, u, law, contact, jump.bounce[contact])[:2]  # noqa: E731
            y, z = where_wanted((level == JUMP) & jump.flows, flow, (y, z))
        return y, z, jnp.where(less, blend_weight(here, before, (w, so_far.impulse), (y, z)), 1.0), first

    def ask(so_far: _Registers, at):
        (row, this), (node, level, weight) = at[:-3].reshape(2, -1), at[-3:]
        time, stage, jumps, corrects = t + node * s, level == STAGE, level <= LESS, level == VELOCITY
        theta, w = jnp.split(start + s * (row @ so_far.slopes) + so_far.shift, [places_of])
        x = place_of(theta)
        mass = system.mass(x, params)
        free = free_acceleration(system, params, time, x, w, mass)
        flying = free, jnp.zeros_like(so_far.load), jnp.ones_like(t), so_far.first
        solved = again(lambda: answer(so_far, level, time, x, w, mass, free))
        y, z, blend, first = where_wanted(held | jumps, solved, flying) if count else flying
        slope = jnp.concatenate([slope_of(theta, w), y])
        slopes = jnp.where(this[:, None] > 0, slope, so_far.slopes)
        if not count:
            return so_far._replace(slopes=slopes)
        step = y if system.rate is None else slope_of(theta, y) - slope_of(theta, jnp.zeros_like(y))
        push = jnp.where(jumps, blend, jnp.where(corrects, 1.0, 0.0)) * (y - w)
        added = jnp.where(jumps, blend * (z - so_far.impulse), jnp.where(stage, weight * s, corrects) * z)
        shift = so_far.shift + jnp.concatenate([jnp.where(level == PLACE, step, 0.0), push])
        return _Registers(slopes, shift, so_far.impulse + added, z, first)

    none = jnp.zeros((count, 1 + across), u.dtype)
    still = jnp.zeros_like(start)
    begin = _Registers(
        jnp.zeros((stages + 1, start.size), u.dtype), still, none, none, none[: count * (across > 1), 1:]
    )
    wants = jnp.stack([jnp.any(jump.modes != OPEN), jump.blended, jnp.array(True), held, held, jnp.asarray(ends)])

    def one(so_far, at):
        return where_wanted(at[0], again(lambda: ask(so_far, at[1])), so_far), None

    schedule, levels = _schedule(A, weights, nodes, bool(count), u.dtype)
    if search:
        number = len(levels) - jnp.where(held, jnp.where(ends, 0, 1), 2 + _PLACES) if count else stages
        first = 2 if count else 0
        end = lax.fori_loop(first, number, lambda i, r: ask(r, schedule[i]), begin)
    else:
        begin = entangled(begin, (params, t, s, q, u))
        end = lax.scan(computed_again(one), begin, (wants[levels], schedule))[0]
    x, w = jnp.split(start + s * (jnp.asarray(weights, u.dtype) @ end.slopes[:-1]) + end.shift, [places_of])
    x, (way, a) = place_of(x), jnp.split(end.slopes[-1], [places_of])
    if charted:
        way = rate(system, params, x, w)
    return Motion(x, w, end.impulse, way, a, end.load)


def _schedule(A, weights, nodes, contact: bool, dtype):
    """The problems in order: how slopes are weighed before, which slope this is, when, what is asked for, what it
    weighs; and what is asked for again."""
    stages = nodes.size
    after = np.array([PLACE] * _PLACES + [VELOCITY, REACTION])
    levels = np.concatenate([[JUMP, LESS], np.full(stages, STAGE), after])
    rows = np.concatenate([np.zeros((2, stages)), A, np.tile(weights, (after.size, 1))])
    rows = np.concatenate([rows, np.zeros((len(rows), 1))], axis=1)
    times = np.concatenate([np.zeros(2), nodes, np.ones(after.size)])
    kept = np.eye(stages + 1)[np.concatenate([[0, 0], np.arange(stages), np.full(after.size, stages)])]
    kept[(levels != STAGE) & (levels != REACTION)] = 0
    weigh = kept[:, :-1] @ weights
    of = slice(None) if contact else levels == STAGE
    return jnp.asarray(np.column_stack([rows, kept, times, levels, weigh])[of], dtype), levels[of]


def _along(direction: Array, first: Array, slip: Array) -> Array:
    """(c, k) where slips go that are these now, and were `first` at the beginning, along `direction`.

    A slip that has lost most of its speed keeps its first direction, which has a derivative if it moved then.
    """
    before = unit(first, direction)
    moved = length(before - direction) < jnp.finfo(slip.dtype).eps ** 0.5
    before = jnp.where(moved[:, None], before, direction)
    forward, size = jnp.sum(slip * direction, axis=1), length(slip)
    steady = lax.stop_gradient((length(first) > 0) & (forward > length(first) / 4))
    return jnp.where(steady[:, None], slip / jnp.where(steady, size, 1.0)[:, None], before)


def restitution(law: Law, jump: Jump, less, across: int) -> Array:
    """(c, 1 + k) by which an impact turns velocities round: e and e_t, or with `less` what makes no energy."""
    least = jnp.min(jnp.where(jump.bounce, law.e, 1.0), initial=1.0) if across == 0 else 0.0
    e, e_t = jnp.where(less, least, law.e), jnp.where(less, 0.0, law.e_t)
    return jnp.concatenate([e[:, None], jnp.broadcast_to(e_t[:, None], (e.size, across))], axis=1)


def flowed(system, place: Place, u, law: Law, contact, whole) -> tuple[Array, Array, Array]:
    """The velocity behind an impact that one contact takes alone as a flow over its impulse, its impulses (c, 1 + k),
    and its status; or with the compression alone."""
    rows = place.rows[contact]
    moved, before = linear.solve_mass(place.mass, rows.T), place.velocity(u)[contact]
    mu, e, compliance = (x[contact] for x in (law.mu, law.e, law.compliance))
    found = bounce(rows @ moved, before, mu, e, system.impact_law, compliance)
    impulse = jnp.where(whole, found.impulse, found.compression)
    this = (jnp.arange(place.gap.size) == contact)[:, None]
    return u + moved @ impulse, jnp.where(this, impulse[None], 0.0), found.status


def gain(place: Place, before, hit) -> Array:
    """() kinetic energy that a jump (u, z) makes, relative to moving walls, beyond rounding [J]."""
    (u, z), eps = hit, jnp.finfo(before.dtype).eps
    after = place.velocity(u)
    rounding = 16 * eps * jnp.sum(jnp.abs(z) * (jnp.abs(before) + jnp.abs(after)))
    return (jnp.sum(z * (before + after)) - lax.stop_gradient(rounding)) / 2


def blend_weight(place: Place, before, hit, less) -> Array:
    """() how much of a jump of less restitution makes that none makes energy, which is convex along the blend."""
    rise, fall = gain(place, before, hit), gain(place, before, less)
    spread = rise - fall
    return jnp.where((rise > 0) & (spread > 0), rise / nonzero(spread), 0.0)
