"""Solve several contacts with Coulomb's dry friction at once: the impulses and the velocity after."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from diffcontact.arguments import real_arrays, require_shapes
from diffcontact.numerics import linear
from diffcontact.numerics.batching import full_precision_matmul, in_lanes, once, select, where_any, where_wanted
from diffcontact.numerics.linear import length
from diffcontact.qp.friction import interior, path
from diffcontact.qp.friction.law import Contacts, Modes, Sharing, assemble, frozen, settle, slip_direction, solvable
from diffcontact.qp.friction.passes import accepted, improve, residual, sweep, wanted
from diffcontact.qp.projection import Reaction, project
from diffcontact.status import Status


@full_precision_matmul
def coulomb(
    mass: ArrayLike,
    normals: ArrayLike,
    tangents: ArrayLike,
    b: ArrayLike,
    s: ArrayLike,
    friction: ArrayLike,
    v: ArrayLike,
) -> Reaction:
    """Solve Coulomb's law for the velocity u and the impulses P, B.

        M (u - v) = N^T P + S^T B
        w_N = N u + b >= 0,  P >= 0,  P w_N = 0
        |B| <= mu P,         B = -mu P w_T/|w_T| where w_T = S u + s is not zero

    No convex relaxation: slipping does not open a contact. Pure: jit, vmap, jvp and vjp in every argument, by one
    linear solve at the frozen modes (open, stick, slip). At a tie, a closed contact without a load or a stuck one at
    its bound, the derivatives on the two sides differ, and this is one of them. Where contacts are redundant (a box
    that lies flat) P and B are not unique, and where they slip unlike neither is u. Then they are shared evenly, as on
    equal springs, where that is in the cones: of every y with y^T N = 0 is y^T P = 0. The derivative is that of this
    choice.

    A solution exists where some u has S u + s = 0 and N u + b >= 0, as in impacts of what is at rest otherwise, but it
    need not be unique: large friction with strong coupling of the normal and the tangential rows has several, or none
    elsewhere (jamming, Painleve's paradox). One contact is solved exactly, in closed form where its tangential rows are
    alike and not coupled to the normal one. Up to 16 are solved contact by contact, with Newton's method on the modes,
    from rest; where that ends in no solution, from the end of a path that leads to one. More are solved by an
    interior-point method, with Newton's method on the modes from its end. Each of its twenty steps or so factors one
    matrix of all c (1 + k) reactions. Every solution is verified.

    Args:
        mass: (d,) diagonal of M, or (d, d), symmetric positive definite [kg].
        normals: (c, d) rows N.
        tangents: (c, k, d) rows S, k = 1 or 2 orthonormal directions in the plane of contact.
        b: (c,) offsets of the normal velocities [m/s]; +inf switches a contact off.
        s: (c, k) offsets of the slip velocities [m/s].
        friction: (c,) coefficients mu >= 0.
        v: (d,) the velocity without contacts [m/s].

    Returns:
        A Reaction. Its status is OK where the natural map of the problem's cone complementarity is zero to two
        thirds of the digits or better, relative to velocities and impulses; INFEASIBLE where no u has N u + b >= 0;
        NO_FRICTION where no impulses were found that obey the law, or where it leaves them open. Then u is that of
        `project`, without friction. With input that is not finite, a mass that is not positive definite or a negative
        friction (NOT_FINITE, BAD_MASS, BAD_INPUT) u is v where that is finite. It is finite in any case, and so are the
        derivatives.

    Raises:
        ValueError: shapes that do not fit.

    Reference:
        M. Jean, Comput. Methods Appl. Mech. Eng. 177 (1999); V. Acary, F. Cadoux, C. Lemarechal, J. Malick, ZAMM 91
        (2011); existence: A. Klarbring, J.-S. Pang, SIAM J. Optim. 8 (1998); many contacts: V. Acary, P. Armand, H.
        Minh Nguyen, M. Shpakovych, Optim. Methods Softw. 39 (2024).

    Example:
        A puck that hits the floor obliquely slips, with friction 0.5.

        >>> import jax, numpy as np
        >>> floor, along = np.array([[0.0, 1.0]]), np.array([[[1.0, 0.0]]])
        >>> still, slip = np.zeros(1), np.zeros((1, 1))
        >>> hit = jax.jit(coulomb)(np.ones(2), floor, along, still, slip, np.array([0.5]), np.array([3.0, -2.0]))
        >>> hit.u.tolist(), hit.normal.tolist(), hit.tangential.tolist()
        ([2.0, 0.0], [2.0], [[-1.0]])
    """
    mass, normals, tangents, b, s, friction, v = _checked(mass, normals, tangents, b, s, friction, v)
    status, (mass, normals, tangents, b, s, friction, v) = _admitted(mass, normals, tangents, b, s, friction, v)
    if 0 in normals.shape:
        stuck = jnp.where(jnp.any(b < 0), Status.INFEASIBLE, Status.OK)
        status = jnp.where(status == Status.OK, stuck, status).astype(jnp.int32)
        none = jnp.zeros_like(b)
        return Reaction(v, none, none > 0, status, jnp.zeros_like(s), none > 0)

    on = b < jnp.inf
    H = jnp.where(on[:, None, None], jnp.concatenate([normals[:, None], tangents], axis=1), 0)
    h = jnp.where(on[:, None], jnp.concatenate([b[:, None], s], axis=1), 0)
    step, r, modes, outcome = _solution(*map(lax.stop_gradient, (mass, H, h, friction, v, on)))
    # What is returned instead of a solution has no friction, nor have its derivatives.
    felt = jnp.where(outcome == Status.OK, friction, 0)
    u, r = settle(mass, H, h, felt, v, step, r, modes)
    status = jnp.where(status == Status.OK, outcome, status).astype(jnp.int32)
    return Reaction(u, r[:, 0], modes.closed, status, r[:, 1:], modes.slip)


def _solution(mass, H, h, friction, v, on):
    """Return the way from v (d,), the reactions (c, 1 + k), their modes, and a status."""
    contacts = Contacts.of(mass, H, h, friction, v, on)
    found = search(contacts)
    step = contacts.measure * linear.unwhiten(contacts.root, found.way)
    reactions = contacts.original(found.r)
    solved = (found.residual <= accepted(v.dtype)) & jnp.all(jnp.isfinite(step)) & jnp.all(jnp.isfinite(reactions))
    solved = solved & ~leaves_open(contacts, found)
    # Beside a friction of some 1e8, and beside reactions that cancel, velocities are lost in the rounding of the law's
    # residual.
    w = contacts.along(found.way) + contacts.q
    solved = solved & jnp.all(w[:, 0] >= -(jnp.finfo(v.dtype).eps ** 0.5) * contacts.unit)
    solved = solved & jnp.all(
        ~found.modes.held(w.shape[1]) | (jnp.abs(w) <= 2 * accepted(v.dtype) * contacts.unit + contacts.noise)
    )

    def frictionless():
        best = project(mass, H[:, 0], jnp.where(on, h[:, 0], jnp.inf), v)
        normal = jnp.where(jnp.arange(H.shape[1]) == 0, best.multipliers[:, None], 0)
        status = jnp.where(best.status == Status.OK, Status.NO_FRICTION, best.status).astype(jnp.int32)
        return best.u - v, normal, Modes(closed=best.active, slip=best.active), status

    return where_wanted(~solved, frictionless, (step, reactions, found.modes, jnp.int32(Status.OK)))


def _admitted(mass, normals, tangents, b, s, friction, v):
    """Return the status of the input, and the input; harmless input if it is bad."""
    rest = (mass, normals, tangents, s, friction, v)
    numbers = jnp.all(jnp.asarray([jnp.all(jnp.isfinite(x)) for x in rest])) & ~jnp.any(jnp.isnan(b) | (b == -jnp.inf))
    identity = jnp.ones_like(mass) if mass.ndim == 1 else jnp.eye(mass.shape[0], dtype=mass.dtype)
    root = linear.root_of_mass(lax.stop_gradient(mass))
    positive = jnp.all(jnp.isfinite(root)) & jnp.all((root if root.ndim == 1 else jnp.diagonal(root)) > 0)
    rubs = jnp.all(friction >= 0)
    wrong = jnp.where(~positive, Status.BAD_MASS, jnp.where(~rubs, Status.BAD_INPUT, Status.OK))
    status = jnp.where(numbers, wrong, Status.NOT_FINITE)
    fine = status == Status.OK
    harmless = identity, 0, 0, jnp.inf, 0, 0
    given = zip((mass, normals, tangents, b, s, friction), harmless, strict=True)
    return status, (*(jnp.where(fine, x, other) for x, other in given), jnp.where(jnp.isfinite(v), v, 0))


def _checked(mass, normals, tangents, b, s, friction, v):
    given = real_arrays(mass=mass, normals=normals, tangents=tangents, b=b, s=s, friction=friction, v=v)
    mass, normals, tangents, b, s, friction, v = given
    if normals.ndim != 2:
        raise ValueError(f"normals has the shape {normals.shape}; expected (c, d): one row per contact")
    count, dimension = normals.shape
    if tangents.ndim != 3 or tangents.shape[1] not in (1, 2) or tangents.shape[::2] != (count, dimension):
        raise ValueError(
            f"tangents has the shape {tangents.shape}; expected ({count}, k, {dimension}), k = 1 or 2 rows per contact"
        )
    if mass.shape not in ((dimension,), (dimension, dimension)):
        raise ValueError(f"mass has the shape {mass.shape}; expected ({dimension},) or ({dimension}, {dimension})")
    each = (count,), "one entry per contact"
    require_shapes(
        b=(b, *each),
        s=(s, tangents.shape[:2], "one entry per row of tangents"),
        friction=(friction, *each),
        v=(v, (dimension,), "one entry per column of normals"),
    )
    return given


# Contacts up to which local solves and Newton's method come first, from rest, and then paths from contacts held apart.
# So stacks of boxes with 40 and 96 contacts took 1.6 and 9 s on average, and three of 31 were not solved; the way
# through the interior takes some 10 and 40 ms.
FEW = 16
# Each follows another path; of few contacts the first is from rest.
ATTEMPTS, ATTEMPTS_OF_MANY = 8, 3


class Found(NamedTuple):
    """Hold reactions r (c, 1 + k), the way L^-1 H^T r (d,), residual, and modes."""

    r: Array
    way: Array
    residual: Array
    modes: Modes


def search(contacts) -> Found:
    """Return the best reactions that could be found."""
    found = _found(contacts)
    if contacts.q.shape[0] == 1:
        return found
    shared, way, modes = evenly(contacts, found.r, found.modes)
    left = residual(contacts, shared)[1]
    as_good = left <= jnp.maximum(2 * found.residual, wanted(shared.dtype))
    return select(as_good, Found(r=shared, way=way, residual=left, modes=modes), found)


class OnSprings(NamedTuple):
    """Hold what contacts do on stiff springs: their modes, directions (c, k) of slips, and the way from v (d,).

    `lawful` tells whether that was found, to a root of the rounding. Directions and way are those of rigid contacts in
    these modes, where they obey the law.
    """

    lawful: Array
    modes: Modes
    slips: Array
    step: Array


def on_springs(mass, H, h, friction, v, on, along) -> OnSprings:
    """Return what contacts do on stiff springs, some of them with known directions of slip.

    Of rows that depend on each other springs open those that would pull. Slips by which only springs give way are none.

    Args:
        H, h: rows (c, 1 + k, d) and offsets (c, 1 + k), both zero unless `on` (c,).
        along: (c, k) directions of slips that are known, zero of others.
    """
    contacts = Contacts.of(mass, H, h, friction, v, on, along)
    sprung = contacts.on_springs()
    r, way, left, modes = _found(sprung)
    w = sprung.velocities(r)
    creep = CREEPS * jnp.max(sprung.compliance * jnp.abs(r), initial=0.0)
    shared, rigid, _ = evenly(contacts, r, modes)
    exact = residual(contacts, shared)[1] <= accepted(r.dtype)
    r, way, w = select(exact, (shared, rigid, contacts.along(rigid) + contacts.q), (r, way, w))
    slips = jnp.einsum("cij,ci->cj", contacts.turn, -slip_direction(r, w, contacts.strides()))
    return OnSprings(
        lawful=left <= jnp.finfo(r.dtype).eps ** 0.5,
        modes=replace(modes, slip=modes.slip & ((length(w[:, 1:]) > creep) | (contacts.friction == 0))),
        slips=jnp.where(jnp.any(along != 0, axis=1)[:, None], along, slips),
        step=contacts.measure * linear.unwhiten(contacts.root, way),
    )


def _found(contacts) -> Found:
    if contacts.q.shape[0] == 1:
        # One contact: its exact solution, once more for the digits that cancel in it.
        r = sweep(contacts, sweep(contacts, jnp.zeros_like(contacts.q), 30), 30)
    else:
        r = _together(contacts)
    w, strides = contacts.velocities(r), contacts.strides()
    left = residual(contacts, r)[1]
    modes = Modes.of(r, w, contacts.friction, strides, jnp.where(left <= accepted(r.dtype), left, 0) * contacts.unit)
    r = modes.apply(r, w, contacts.friction, strides)
    return Found(r=r, way=contacts.step(r), residual=residual(contacts, r)[1], modes=modes)


def leaves_open(contacts, found: Found):
    """Tell whether friction leaves loads open, or nearly so.

    An example is a disc in a corner whose walls have mu = 1, and press it as it presses them. Then there is no
    derivative. One contact that slips is not looked at: it is solved exactly.
    """
    several = jnp.sum(found.modes.slip & (contacts.friction > 0)) > 1

    def singular():
        sharing = Sharing.of(contacts.rows, contacts.springs, found.modes)
        w = contacts.along(found.way) + contacts.q
        matrix = _equations(contacts, found.r, w, found.modes, sharing)
        return ~solvable(matrix, jnp.sin(1 + jnp.arange(found.r.size, dtype=found.r.dtype)))

    return where_wanted(several, singular, several & False)


def _equations(contacts, r, w, modes: Modes, sharing: Sharing):
    """Return the matrix (n, n) of a change of the reactions at the modes, n = c (1 + k)."""
    taken = sharing.taken.reshape(r.shape)
    by_reaction, by_velocity, _ = frozen(contacts.rows, r, w, contacts.friction, modes, taken)
    return jnp.where(sharing.dependent[:, None], sharing.even, assemble(by_reaction, by_velocity, contacts.W))


def _together(contacts):
    none = jnp.zeros_like(contacts.q)
    enough = accepted(none.dtype)
    few = contacts.q.shape[0] <= FEW
    attempts = ATTEMPTS if few else ATTEMPTS_OF_MANY

    def attempt(state):
        number, best, left = state
        running = left > enough
        if few:
            away = running & (number > 0)
            start = where_any(away, lambda: path.follow(contacts, number, away), lambda: none)
        else:
            start = interior.follow(contacts, number + 1, running)
        r, remains = improve(contacts, start, running)
        better = running & (remains < left)
        return number + 1, jnp.where(better, r, best), jnp.where(better, remains, left)

    def unfinished(state):
        return (state[2] > enough) & (state[0] < attempts)

    start = (jnp.zeros((), jnp.int32), none, residual(contacts, none)[1])
    return lax.while_loop(unfinished, once(attempt), in_lanes(start, start[2]))[1]


# Where evenly shared reactions are outside the cones they go this far towards them.
FRACTIONS = (1.0, 0.5, 0.25, 0.125)
# Newton's steps: one where slips have known directions, more where these depend on the reactions.
STEPS = 5
# Reactions cancel if they are this many times as long as the way that they lead together: the way then multiplies
# the miss of held rows.
CANCELS = 8
# Times what springs give way, below which a slip is none.
CREEPS = 8
# Roundings of the largest reaction below which a load is zero.
IDLE = 4


def evenly(contacts, r, modes: Modes):
    """Share loads evenly (`Sharing`): reactions (c, 1 + k), the way (d,) and modes.

    The way L^-1 H^T r has more digits than large reactions tell. Where nothing is shared and nothing cancels, r stays.
    Of contacts that share their loads, those without a load are open: of a block in a slot without play the wall that
    does not press it. Closed, that wall would have half of every further load, with a minus.
    """
    sharing = Sharing.of(contacts.rows, contacts.springs, modes)
    taken, dependent, even = sharing.taken.reshape(r.shape), sharing.dependent, sharing.even

    def closer(found, _):
        r, way = found
        w = contacts.along(way) + contacts.q
        rubs = r[:, 1:] - contacts.friction[:, None] * r[:, :1] * slip_direction(r, w, contacts.strides())
        missed = jnp.where(taken, w, 0)
        missed = missed.at[:, 1:].set(jnp.where(modes.slip[:, None], rubs, missed[:, 1:])).reshape(-1)
        missed = jnp.where(dependent, even @ r.reshape(-1), missed)
        change = -linear.solve(_equations(contacts, r, w, modes, sharing), missed).reshape(r.shape)
        return (r + change, way + contacts.step(change)), None

    way = contacts.step(r)

    def shared():
        found, _ = lax.scan(closer, (r, way), length=STEPS)
        return select(jnp.all(jnp.isfinite(found[0])), found, (r, way))

    cancels = jnp.max(jnp.abs(r)) ** 2 > CANCELS**2 * jnp.sum(way * way)
    there, along = where_wanted(jnp.any(dependent) | cancels, shared, (r, way))
    fractions = jnp.asarray((*FRACTIONS, 0), r.dtype)
    candidates = r[None] + fractions[:, None, None] * (there - r)[None]
    normal, tangential = candidates[:, :, 0], candidates[:, :, 1:]
    bound = contacts.friction[None] * normal
    within = jnp.sum(tangential * tangential, axis=2) <= bound * bound
    possible = (normal >= 0) & (within | ~(modes.closed & ~modes.slip)[None])
    chosen = jnp.argmax(jnp.all(possible, axis=1).at[-1].set(True))
    r, way = candidates[chosen], way + fractions[chosen] * (along - way)
    idle = jnp.any(dependent) & modes.closed & (r[:, 0] <= IDLE * jnp.finfo(r.dtype).eps * jnp.max(jnp.abs(r)))
    modes = Modes(closed=modes.closed & ~idle, slip=modes.slip & ~idle)
    return jnp.where(idle[:, None], 0, r), way, modes
