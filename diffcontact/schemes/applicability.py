"""What a published scheme is not for, and can only say by the status of a step."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics import mass as mass_matrix
from diffcontact.numerics.batching import where_wanted
from diffcontact.qp.rows import difference, magnitudes, product, squares, whitened
from diffcontact.schemes.unseen import PROBES
from diffcontact.status import Status
from diffcontact.system import System, gap_motion


def inelastic_status(system: System, params) -> Array:
    """() OK, or RESTITUTION_IGNORED where a coefficient is above 0 and the scheme takes it as 0.

    Outside transformations `simulate` refuses such a coefficient; inside, its value is not known when tracing.
    """
    bounces = jnp.any(jnp.asarray(system.restitution(params)) > 0)
    if system.tangential_restitution is not None:
        bounces = bounces | jnp.any(jnp.asarray(system.tangential_restitution(params)) != 0)
    return jnp.where(bounces, Status.RESTITUTION_IGNORED, Status.OK).astype(int)


# What flies through a body meets it at an angle, its gap's rate the sine's share of all that makes up that rate. A body
# that has just been let go by a round obstacle or a swinging floor has a share of O(h), and the straight way of a step
# dips O(h^2) below a gap that only opens: that is the error of a first-order scheme and no passage. Flights through the
# edge of a body at less than this angle [rad] are lost with it.
_GRAZING = 1 / 32


def passage_status(system: System, params, t, h, mass, q: Array, after: Array, impulse: Array) -> Array:
    """() OK, or TOO_COARSE where a step passed through a body: a gap closes first, then opens.

    Such a gap is looked at where its two tangents meet. That is the bottom of a gap that is convex along the way, as
    those of balls are, but for what a shallow hit would bend. A contact that is approached at less than 1/32 rad, or
    with that share of its own motion, is grazed and not passed through. Of one that acts, or is closed before or after,
    such as a body that slides round another has, the normal must turn by more than 1/4, too.

    Args:
        t, h: beginning and length of the step [s].
        mass: (d,) or (d, d), the metric.
        q, after: (d,) position at its beginning and end [m].
        impulse: (c,) of the contacts that were seen.
    """
    params, t, h, mass, q, after, impulse = lax.stop_gradient((params, t, h, mass, q, after, impulse))
    way, rounding = (after - q) / h, _rounding(q)
    (first_gap, first_rate), (last_gap, last_rate) = (
        gap_motion(system, params, at, x, way) for at, x in ((t, q), (t + h, after))
    )
    flies = (impulse == 0) & (jnp.abs(first_gap) > rounding) & (jnp.abs(last_gap) > rounding)
    turns = (first_rate < 0) & (last_rate > 0)
    meet = (last_gap - first_gap - h * last_rate) / jnp.where(turns, first_rate - last_rate, 1.0)
    suspect = turns & (first_gap + meet * first_rate <= rounding)

    def lowest():
        gaps = jax.vmap(lambda s: system.gap(t + s, q + s * way, params))(jnp.where(suspect, meet, 0.0))
        before, behind = (system.linearised(params, at, x)[1] for at, x in ((t, q), (t + h, after)))
        steep = -first_rate > _GRAZING * (magnitudes(before, way) + jnp.abs(first_rate - product(before, way)))
        root = mass_matrix.root(mass)
        far = _turned(whitened(root, before), whitened(root, behind))
        return jnp.any(suspect & (jnp.diagonal(gaps) <= rounding) & jnp.where(flies, steep, far))

    passed = where_wanted(jnp.any(suspect), lowest, jnp.zeros((), bool))
    return jnp.where(passed, Status.TOO_COARSE, Status.OK).astype(int)


# By how much a contact's normal may turn [rad]: gamma of S2 lemma 5.2, up to this share of the radius of
# prox-regularity for the way of a step.
_TURN = 0.25

# The jump of a contact may be eps ** -_WEDGED times what all jumps together make of the velocity. Where spheres are
# pressed into a line that they just fill, between walls, jumps double from step to step. At this bound the normals are
# some 3e-5 rad from one line, and within a few more steps rounding decides which sphere is squeezed out, and when.
_WEDGED = 0.25


def curvature_status(
    system: System, params, t, mass, start: Array, x: Array, acts: Callable, impulse: Array, change: Array
) -> Array:
    """() OK, or why contacts that act are not what their tangents are.

    - TOO_COARSE: a normal turns by more than 1/4 on the way of a step. Such a way is longer than a quarter of the
      contact's radius of curvature along it. The angle is that in the metric M^-1 of forces, between the normals at the
      time that the step takes its contacts at; how far other bodies move has no part in it.
    - ILL_CONDITIONED: bodies are wedged in. Impulses that turn with their contacts cancel but for one part in
      eps^(-1/4), 8000 in double precision.

    Args:
        t: time at which the contacts are taken [s].
        mass: (d,) or (d, d), the metric.
        start, x: (n,) where the step comes from, and where it leads to [m].
        acts: () -> (c,) bool, the contacts that act.
        impulse: (c,) theirs [N s].
        change: (d,) what the impulses make of the velocity [m/s].

    Source: S2 lemma 5.2, gamma <= 1/4.
    """
    params, t, mass, start, x, impulse, change = lax.stop_gradient((params, t, mass, start, x, impulse, change))

    most = float(jnp.finfo(x.dtype).eps) ** (-2 * _WEDGED) * (change @ mass_matrix.apply(mass, change))

    def looked_at(acts):
        root = mass_matrix.root(mass)
        before, after = (whitened(root, system.linearised(params, t, at)[1]) for at in (start, x))
        coarse = jnp.any(acts & _turned(before, after))
        if not system.convex:
            # What turns to and fro within the way of a step.
            for share in PROBES:
                within = system.linearised(params, t, start + share * (x - start))[1]
                coarse = coarse | jnp.any(acts & _turned(before, whitened(root, within)))
        moves = _square(difference(after, before)) > 0
        wedged = jnp.any(jnp.where(moves, impulse**2 * _square(before), 0) > most)
        return jnp.where(coarse, Status.TOO_COARSE, jnp.where(wedged, Status.ILL_CONDITIONED, Status.OK)).astype(int)

    def each():
        acting = acts()
        return where_wanted(jnp.any(acting), lambda: looked_at(acting), fine)

    fine, bounds = jnp.asarray(int(Status.OK)), system.turning(params, t, mass, start, x)
    if bounds is None:
        return each()
    sine, square = bounds
    calm = (sine < math.sin(_TURN)) & (impulse @ impulse * square <= most)
    return where_wanted(~calm, each, fine)


def _turned(before, after) -> Array:
    """(c,) whether whitened normals turn by more than `_TURN`."""
    here, there, apart = (_square(rows) for rows in (before, after, difference(after, before)))
    along = (here + there - apart) / 2
    return (along < 0) | (along**2 < math.cos(_TURN) ** 2 * here * there)


def _square(rows) -> Array:
    """(c,) of the length of whitened rows."""
    return squares(rows, jnp.ones(rows.shape[1], rows.dtype))


def _rounding(q):
    """The rounding of a gap [m]."""
    return jnp.finfo(q.dtype).eps ** 0.75 * jnp.max(jnp.abs(q))
