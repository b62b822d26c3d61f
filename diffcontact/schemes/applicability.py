"""What a published scheme is not for, and can only say by the status of a step."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact import mass as mass_matrix
from diffcontact.batching import any_lane
from diffcontact.status import Status
from diffcontact.system import System, contacts, gap_motion


def inelastic_status(system: System, params) -> Array:
    """() OK, or RESTITUTION_IGNORED where a coefficient is above 0 and the scheme takes it as 0.

    Outside transformations `simulate` refuses such a coefficient; inside, its value is not known when tracing.
    """
    bounces = jnp.any(jnp.asarray(system.restitution(params)) > 0)
    if system.tangential_restitution is not None:
        bounces = bounces | jnp.any(jnp.asarray(system.tangential_restitution(params)) != 0)
    return jnp.where(bounces, Status.RESTITUTION_IGNORED, Status.OK).astype(int)


def passage_status(system: System, params, t, h, q: Array, after: Array, impulse: Array) -> Array:
    """() OK, or TOO_COARSE where a step passed through a body: a gap that no impulse opens closes first, then opens.

    Such a gap is looked at where its two tangents meet. That is the bottom of a gap that is convex along the way, as
    those of balls are, but for what a shallow hit would bend.

    Args:
        t, h: beginning and length of the step [s].
        q, after: (d,) position at its beginning and end [m].
        impulse: (c,) of the contacts that were seen.
    """
    params, t, h, q, after, impulse = lax.stop_gradient((params, t, h, q, after, impulse))
    way, rounding = (after - q) / h, _rounding(q)
    (first_gap, first_rate), (last_gap, last_rate) = (
        gap_motion(system, params, at, x, way) for at, x in ((t, q), (t + h, after))
    )
    unseen = (impulse == 0) & (jnp.abs(first_gap) > rounding) & (jnp.abs(last_gap) > rounding)
    turns = unseen & (first_rate < 0) & (last_rate > 0)
    meet = (last_gap - first_gap - h * last_rate) / jnp.where(turns, first_rate - last_rate, 1.0)
    suspect = turns & (first_gap + meet * first_rate <= rounding)

    def lowest():
        gaps = jax.vmap(lambda s: system.gap(t + s, q + s * way, params))(jnp.where(suspect, meet, 0.0))
        return jnp.any(suspect & (jnp.diagonal(gaps) <= rounding))

    passed = lax.cond(any_lane(jnp.any(suspect)), lowest, lambda: jnp.zeros((), bool))
    return jnp.where(passed, Status.TOO_COARSE, Status.OK).astype(int)


# gamma of S2 lemma 5.2: up to this share of the radius of prox-regularity.
_SHARE = 0.25


def curvature_status(system: System, params, t, mass, start: Array, x: Array, multipliers: Array) -> Array:
    """() OK, or TOO_COARSE where the way d = start - x of a step is longer than eta / 4 at a contact that acts.

    The radius of curvature along d is, in the metric M, |G|_{M^-1} |d|^2_M / D^2 g(d, d), with
    D^2 g(d, d) / 2 = g(start) - g(x) - G d; the curvature of a convex set does not count.

    Args:
        t: time at which the contacts are taken [s].
        mass: (d,) or (d, d), the metric.
        start, x: (d,) where the step comes from, and where it was projected to [m].
        multipliers: (c,) positive for the contacts that act.

    Source: S2 lemma 5.2, gamma <= 1/4.
    """
    params, t, mass, start, x, multipliers = lax.stop_gradient((params, t, mass, start, x, multipliers))
    acts = jnp.any(multipliers > 0)

    def bent():
        here, way = contacts(system, params, t, x), start - x
        bend = 2 * (system.gap(t, start, params) - here.gap - here.normals @ way)
        slope = jnp.linalg.norm(mass_matrix.whiten(mass_matrix.root(mass), here.normals.T), axis=0)
        limit = _SHARE * slope * jnp.sqrt(way @ mass_matrix.apply(mass, way))
        # At rest there is no way, and its bend is rounding.
        return jnp.any((multipliers > 0) & (bend > limit + _rounding(x)))

    coarse = lax.cond(any_lane(acts), bent, lambda: jnp.zeros((), bool))
    return jnp.where(coarse, Status.TOO_COARSE, Status.OK).astype(int)


def _rounding(q):
    """The rounding of a gap [m]."""
    return jnp.finfo(q.dtype).eps ** 0.75 * (1 + jnp.max(jnp.abs(q)))
