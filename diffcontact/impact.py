"""The impact law alone: velocities before in, velocities after out."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer

from diffcontact.arguments import placed, real_arrays
from diffcontact.inputs import in_precision, require_inputs
from diffcontact.numerics.batching import where_wanted
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.schemes.event_timed import EventTimed
from diffcontact.schemes.event_timed.contacts import Law, Place, reach
from diffcontact.schemes.event_timed.events import Percussion
from diffcontact.schemes.event_timed.modes import SLIP, choose, react
from diffcontact.schemes.event_timed.motion import Jump, blend_weight, flowed, restitution
from diffcontact.schemes.layers import Layers
from diffcontact.status import Status, first
from diffcontact.system import law_status


def impact(system: Any, params: Any, t: Any, q: Any, u: Any, closed: Any = None) -> Percussion:
    r"""What an impact at (t, q) does to the velocity u: for data that are velocities before and after.

    Newton's law with Coulomb's friction, and Moreau's of several closed contacts::

        M (u+ - u) = N^T P + S^T B,      v_N+ >= -e v_N, complementary to P >= 0
        |B| <= mu P,                     B = -mu P w/|w|  where  w = v_T+ + e_t v_T  is not zero

    Where that would make energy, it is blended with the impact of e = e_t = 0. Of one contact that grips, nothing
    depends on mu; of one that slips, nothing on e_t.

    With `System(impact_law="poisson")` or `"stronge"`, where one closed contact is struck alone, the velocity follows
    Coulomb's law over the normal impulse P that accumulates, and the slip may end or reverse on the way::

        d(v_N, v_T)/dP = W (1, -mu v_T/|v_T|),      W = (N, S) M^-1 (N, S)^T,      compression until v_N = 0
        Poisson   P_restitution = e P_compression
        Stronge   W_restitution = -e^2 W_compression,  of the normal force's work, the integral of v_N dP

    They make no energy; in a plane this is Routh's closed form, in space Keller's equation, integrated to ten digits or
    better, its events exactly timed. Of a contact that has come to stick during compression nothing depends on mu by
    Poisson's law; by Stronge's it does, since the work does. A `"compliant"` contact springs sideways as well, with
    k_n / k_t = `tangential_compliance`, and turns slow slips round (`System`). Pure: jit, vmap, jvp, vjp in params, t,
    q, u.

    Args:
        system: a `System`; without a slip its contacts do not rub.
        params: what its functions are given.
        t: when [s].
        q: (n,) where [m].
        u: (d,) the velocity before [m/s].
        closed: (c,) bool, the contacts that take part; None means those whose gap is zero but for the rounding of
            single precision. Measured positions do not close a gap exactly.

    Returns:
        A `Percussion`: impulses, gap velocities before and after, `jump` = u+ - u; `contact` is the one that approaches
        fastest, -1 where none of the closed ones does. Its `status` is not OK where no impulses were found that obey
        the law.

    Raises:
        ValueError: for inputs of the wrong shape. Outside transformations also where no closed contact approaches.

    Source: O. R. Walton (1993) for spheres; J. J. Moreau (1988); Y. Wang, M. T. Mason, J. Appl. Mech. 59 (1992); W. J.
    Stronge, Proc. R. Soc. A 431 (1990); J. B. Keller, J. Appl. Mech. 53 (1986); of compliant contacts W. J. Stronge, R.
    James, B. Ravani, Phil. Trans. R. Soc. A 359 (2001) 2447.

    Example:
        A ball that spins, e = 0.5, meets the floor obliquely and slips.

        >>> import jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.System(
        ...     gap=lambda t, q, p: q[1:2],
        ...     force=lambda t, q, u, p: jnp.zeros(3),
        ...     mass=lambda q, p: jnp.ones(3),
        ...     restitution=lambda p: 0.5,
        ...     slip=lambda t, q, u, p: jnp.array([[u[0] + u[2]]]),
        ...     friction=lambda p: p["mu"],
        ... )
        >>> hit = dc.impact(ball, {"mu": 0.125}, 0.0, jnp.zeros(3), jnp.array([4.0, -2.0, 0.0]))
        >>> hit.impulse.tolist(), hit.friction.tolist(), (hit.u + hit.jump).tolist()
        ([3.0], [[-0.375]], [3.625, 1.0, -0.375])
    """
    t, q, u = real_arrays(t=t, q=q, u=u)
    require_inputs(system, params, q, u, _interval(t), EventTimed())
    found, smallest = _struck(in_precision(system, q.dtype), params, t, q, u, closed)
    if not isinstance(found.contact, Tracer) and int(found.contact) < 0:
        raise ValueError(f"q, u: expected a closed contact that approaches; the smallest gap is {float(smallest):.6g}")
    return found


def _interval(t):
    """Times that begin with this one; of a number, without a program."""
    return jnp.stack([t, t + 1]) if isinstance(t, Tracer) else placed(np.asarray(t) + np.arange(2, dtype=t.dtype))


@partial(jit_fast_compile, static=("system",))
def _struck(system, params, t, q, u, closed) -> tuple[Percussion, Array]:
    """The percussion, and the smallest gap."""
    place = Place.at(system, params, t, q, u.size)
    gaps, smallest = place.gap, jnp.min(place.gap, initial=jnp.inf)
    if closed is None:
        # A side that is open is infinitely far.
        far = lax.stop_gradient(reach(system, params, t, place, q))
        size = jnp.max(jnp.where(jnp.isfinite(gaps), far + jnp.abs(gaps), 0.0), initial=0.0)
        closed = gaps <= jnp.finfo(jnp.float32).eps ** 0.75 * size
    closed = jnp.broadcast_to(jnp.asarray(closed, bool), gaps.shape)
    if not system.layered:
        return _percussion(system, params, t, q, u, closed, place), smallest
    layers = Layers.under(system, params, t, q, u)
    q, u = layers.lying(q), layers.lying(u)
    place = Place.at(layers.system, layers.params, t, q, u.size)
    # Layers take part where their contact does.
    found = _percussion(layers.system, layers.params, t, q, u, layers.of_all(closed), place)
    return layers.percussion(found), smallest


def _percussion(system, params, t, q, u, closed, place: Place) -> Percussion:
    """That of the contacts (c,) that are closed, at this place."""
    gaps, before = place.gap, place.velocity(u)
    opening = before[:, 0]
    approach = jnp.where(closed, opening, jnp.inf)
    contact = jnp.argmin(approach)
    due = approach[contact] < 0
    law = Law.of(system, params, opening)
    alone = due & system.flows & (jnp.sum(closed) == 1)
    w, z, status = _hit(system, place, u, law, closed & due, contact, alone)
    turns = jnp.where(jnp.any(closed & (law.e_t != 0)) & alone, Status.BAD_RESTITUTION, Status.OK).astype(jnp.int32)
    number = jnp.where(due, contact, -1).astype(jnp.int32)
    none, numbers = jnp.zeros_like(opening), jnp.arange(gaps.size)
    friction = z[:, 1:] if system.rubs else None
    status = first(first(turns, status), law_status(system, params, opening, closed & due))
    return Percussion(
        *(t, number, z[:, 0], opening, place.velocity(w)[:, 0], none, none > 0, q, u, w - u, numbers, friction),
        status=status,
    )


def _hit(system, place: Place, u, law: Law, part, contact, alone) -> tuple[Array, Array, Array]:
    """The velocity behind an impact, its impulses (c, 1 + k), and a status.

    Modes are found without derivatives; in these modes the impact is one linear system.

    Args:
        part: (c,) contacts that take part.
        alone: () whether `contact` takes it alone, as a flow over its impulse.
    """
    before, (count, across) = place.velocity(u), (place.gap.size, place.drift.shape[1] - 1)
    jump = Jump.nothing(count, across, u.dtype)._replace(bounce=part)

    def by_moreau(less):
        back = jnp.where(part[:, None], restitution(law, jump, less, across), 0.0)
        asked = place.mass, place.rows, place.drift + back * before, u
        still = lax.stop_gradient((*asked, law.mu))
        found, fine = choose(*still, part, jnp.zeros_like(part), jump.direction)
        return react(*asked, found.modes, law.mu, found.direction, found.modes == SLIP), fine

    both, fine = lax.map(by_moreau, jnp.array([False, True]))
    hit, least = (jax.tree.map(lambda x, i=i: x[i], both) for i in range(2))
    weight = blend_weight(place, before, hit, least)
    w, z = jax.tree.map(lambda a, b: a + weight * (b - a), hit, least)
    status = jnp.where(fine[0] & ((weight == 0) | fine[1]), Status.OK, Status.NO_FRICTION).astype(jnp.int32)
    if system.flows:
        flow = lambda: flowed(system, place, u, law, contact, jnp.array(True))  # noqa: E731
        w, z, status = where_wanted(alone, flow, (w, z, status))
    return w, z, status
