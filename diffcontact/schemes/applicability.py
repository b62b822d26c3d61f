"""Which systems a published scheme is for: what is refused at once, and what only a status can say."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from diffcontact.status import Status
from diffcontact.system import System


def require(kind: type, system, scheme) -> None:
    """Refuse a system of another kind than the scheme steps.

    Raises:
        ValueError: `system` is not a `kind`.

    Example:
        >>> import diffcontact as dc
        >>> require(dc.ParticleLine, dc.systems.balls(1, 1), dc.PercussionFriction())
        Traceback (most recent call last):
        ...
        ValueError: scheme: PercussionFriction steps a ParticleLine, got a Balls
    """
    if not isinstance(system, kind):
        raise ValueError(f"scheme: {type(scheme).__name__} steps a {kind.__name__}, got a {type(system).__name__}")


def inelastic_status(system: System, params) -> Array:
    """() OK, or RESTITUTION_IGNORED where a coefficient is above 0 and the scheme takes it as 0.

    Outside transformations `simulate` refuses such a coefficient; inside, its value is not known when tracing.
    """
    bounces = jnp.any(jnp.asarray(system.restitution(params)) > 0)
    return jnp.where(bounces, Status.RESTITUTION_IGNORED, Status.OK).astype(int)
