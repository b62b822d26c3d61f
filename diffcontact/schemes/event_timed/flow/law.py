r"""The laws of one contact that is struck alone: Poisson's, Stronge's, and Stronge's with a tangential compliance.

An impact is a flow of the contact's velocity over the normal impulse P that accumulates, with Coulomb's friction at
every moment, in two phases. Compression ends where the approach does, v_N = 0. Restitution ends by the law::

    Poisson     P_restitution = e P_compression
    Stronge     W_restitution = -e^2 W_compression,      W = integral of v_N dP, the work of the normal force

Compression ends even where slip presses the contact together for a while (tangential impacts, Painleve's paradox):
while the approach lasts the energy falls, until the slip has ended. There is no end where no impulse moves the contact
apart (a wedge). In space a slip that turns may press the contact together once more while it restores; where the body
still approaches when Poisson's impulse is used up, that is no end either.

Of a contact that springs sideways as well see `compliant`.

Source: E. J. Routh (1905); J. B. Keller, J. Appl. Mech. 53 (1986); W. J. Stronge, Proc. R. Soc. A 431 (1990); Y. Wang,
M. T. Mason, J. Appl. Mech. 59 (1992).
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics.batching import entangled, select
from diffcontact.schemes.event_timed.flow import compliant, keller, routh
from diffcontact.schemes.event_timed.flow.phase import APPROACH, IMPULSE, WORK, Contact, Goal, Reached
from diffcontact.status import Status


class Bounce(NamedTuple):
    """What an impact does to the contact.

    Attributes:
        compression: (1 + k,) impulses (P, B) until the approach is over: the impact of e = 0 [N s].
        impulse: (1 + k,) of the whole impact [N s].
        work: (2,) of the normal force in both phases [J].
        status: () OK, or NO_FRICTION where the flow has no end; then both impulses are those without friction.
    """

    compression: Array
    impulse: Array
    work: Array
    status: Array


def bounce(W: Array, w: Array, friction: Array, e: Array, law: str, compliance: Array | float = 0.0) -> Bounce:
    """The impact of one contact.

    Args:
        W: (1 + k, 1 + k) what impulses (P, B) change its velocity by [1/kg]; k = 1 in a plane, 2 in space.
        w: (1 + k,) its velocity (v_N, v_T) before; v_N < 0, or nothing happens [m/s].
        friction: () mu.
        e: () restitution.
        law: "poisson", "stronge" or "compliant".
        compliance: () eta^2 of a contact that is compliant.

    Example:
        A rod's end that slips, stops and sticks during compression: with e = 0 it would stay at rest.

        >>> import jax, numpy as np
        >>> W = np.array([[2.0, 1.0], [1.0, 3.0]])
        >>> struck = jax.jit(bounce, static_argnums=4)(W, np.array([-1.0, 0.1]), 0.5, 0.5, "poisson")
        >>> np.asarray(struck.impulse).round(4).tolist()
        [0.93, -0.3433]
    """
    approaches = w[0] < 0
    W = jnp.where(W[0, 0] > 0, W, jnp.eye(w.size, dtype=w.dtype))
    before = jnp.where(approaches, w, -jnp.eye(w.size, dtype=w.dtype)[0])
    smooth = jnp.zeros_like(w).at[0].set(-before[0] / W[0, 0])
    if law == "compliant":
        compression, impulse, work, found = _sprung(W, before, friction, e, jnp.asarray(compliance, w.dtype))
    else:
        compression, impulse, work, found = _flow(Contact(W, friction), before, e, law)
    found = found & jnp.all(jnp.isfinite(impulse))
    compression, impulse = select(found, (compression, impulse), (smooth, (1 + e) * smooth))
    nothing = jnp.zeros_like(w)
    return Bounce(
        compression=jnp.where(approaches, compression, nothing),
        impulse=jnp.where(approaches, impulse, nothing),
        work=jnp.where(approaches & found, work, nothing[:2]),
        status=jnp.where(found | ~approaches, Status.OK, Status.NO_FRICTION).astype(jnp.int32),
    )


def _sprung(W: Array, before: Array, friction: Array, e: Array, compliance: Array):
    """Impulses (1 + k,) of e = 0 and of the whole impact, the work (2,), and whether the law holds."""
    compression, _ = compliant.impulses(W, before, friction, jnp.zeros_like(e), compliance)
    impulse, found = compliant.impulses(W, before, friction, e, compliance)
    work = jnp.stack([-jnp.ones_like(e), e**2]) * before[0] ** 2 / (2 * W[0, 0])
    return compression, impulse, work, found


def _flow(contact: Contact, before: Array, e: Array, law: str):
    """As `_sprung`, by Poisson's or Stronge's law."""
    # Hardly above zero, so that what ends with no work at all has its derivative.
    some = e + jnp.finfo(before.dtype).tiny ** 0.25

    kind = jnp.int32(IMPULSE if law == "poisson" else WORK)

    def phase(carry, _):
        begin, goal = carry
        end, fine = _to_goal(contact, begin, goal)
        rest = jnp.where(goal.kind == APPROACH, 0.0, end.w[0])
        end = end._replace(w=jnp.concatenate([rest[None], end.w[1:]]))
        target = some * end.r[0] if law == "poisson" else -(some**2) * end.work
        return (end.w, Goal(kind, target)), (end, fine & (end.w[0] >= -small * jnp.abs(before[0])))

    small = jnp.finfo(before.dtype).eps ** 0.75
    first = entangled((before, jnp.zeros_like(before[0])), (contact, some))
    _, (ends, fine) = lax.scan(phase, (first[0], Goal(jnp.int32(APPROACH), first[1])), length=2)
    return ends.r[0], ends.r[0] + ends.r[1], ends.work, jnp.all(fine)


def _to_goal(contact: Contact, start: Array, goal: Goal) -> tuple[Reached, Array]:
    """The end of a phase that starts with this velocity, and whether there is one."""
    begin = Reached.start(start)
    if start.size == 2:
        return routh.to_goal(contact, start, begin, goal)
    turned, found, sufficed = keller.to_goal_or_straight(contact, start, goal)
    end, reached = routh.to_goal(contact, start, turned, goal)
    return select(found, turned, end), sufficed & (found | reached)
