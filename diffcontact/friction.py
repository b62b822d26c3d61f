r"""Coulomb's law where bodies touch: slip velocities, and what bounds the friction.

Between percussions the reaction of a contact is (lambda, beta) [N], in a percussion (P, B) [N s]::

    M du = f dt + sum_i (N_i^T dlambda_i + S_i^T dbeta_i),        v_N = N u + n0,      v_T = slip(t, q, u) = S u + s0
    |beta_i| <= mu_i lambda_i,        beta_i = -mu_i lambda_i v_T/|v_T|  where it slides
    v_N+ >= -e v_N-,  P >= 0;         |B| <= mu P,       B = -mu P w/|w|  where  w = v_T+ + e_t v_T-  is not zero
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from diffcontact.qp.rows import Rows
from diffcontact.status import Status
from diffcontact.system import Params, System, approach, rate


@partial(jax.tree_util.register_dataclass, data_fields=["tangents", "drift"], meta_fields=[])
@dataclass(frozen=True)
class Slip:
    """The slip velocities of all contacts at (t, q), as they depend on u.

    Attributes:
        tangents: (c, k, d) rows S.
        drift: (c, k) slip velocities at u = 0 [m/s] (moving walls, belts).
    """

    tangents: Array
    drift: Array

    def velocity(self, u: Array) -> Array:
        """(c, k) slip velocities S u + s0 [m/s]."""
        return self.tangents @ u + self.drift


def slips(system: System, params: Params, t, q: Array, size: int) -> Slip:
    """The slip velocities at (t, q) of a system with `size` velocities; without friction, along no direction."""
    if system.slip is None:
        count = jax.eval_shape(lambda q: system.gap(t, q, params), q).shape[0]
        return Slip(jnp.zeros((count, 1, size), q.dtype), jnp.zeros((count, 1), q.dtype))
    slip, t = system.slip, jnp.asarray(t, q.dtype)
    drift, pushforward = jax.linearize(lambda u: slip(t, q, u, params), jnp.zeros(size, q.dtype))
    return Slip(jax.vmap(pushforward, out_axes=2)(jnp.eye(size, dtype=q.dtype)), drift)


def slip_rows(system: System, params: Params, t, q: Array, size: int) -> tuple[tuple[Rows, ...], Array]:
    """The rows S of the slip velocities at (t, q), (c, d) for each of the k directions, and their drift (c, k).

    As `slips`, but sparse where the system brings its own rows: `normals` and `tangents` then go together.
    """
    if system.tangents is None:
        slip = slips(system, params, t, q, size)
        return tuple(slip.tangents[:, k] for k in range(slip.tangents.shape[1])), slip.drift
    assert system.slip is not None
    t = jnp.asarray(t, q.dtype)
    return system.tangents(t, q, params), system.slip(t, q, jnp.zeros(size, q.dtype), params)


def slip_acceleration(system: System, params: Params, t, q: Array, u: Array, a: Array) -> Array:
    """(c, k) derivatives of the slip velocities along the motion [m/s^2]: turning bodies and moving walls included."""
    if system.slip is None:
        return jnp.zeros((*jax.eval_shape(lambda q: system.gap(t, q, params), q).shape, 1), q.dtype)
    slip, t = system.slip, jnp.asarray(t, q.dtype)
    along = jnp.ones_like(t), rate(system, params, q, u), a
    return jax.jvp(lambda t, q, u: slip(t, q, u, params), (t, q, u), along)[1]


def friction_coefficients(system: System, params: Params, count: int, dtype, before: Array | None = None) -> Array:
    """(c,) mu of contacts that last, or in an impact before which the gap velocities are these (c,) [m/s]."""
    mu = stated_friction(system, params, count, dtype, before)
    return jnp.where(mu < 0, 0.0, mu) if system.friction_by_speed else mu


def stated_friction(system: System, params: Params, count: int, dtype, before: Array | None = None) -> Array:
    """(c,) mu as `friction_coefficients`, as the system states it: negative perhaps."""
    if not system.friction_by_speed:
        return _each(system.friction, params, count, dtype)
    assert system.friction is not None
    speed = approach(jnp.zeros(count, dtype) if before is None else before)
    return jnp.broadcast_to(jnp.asarray(system.friction(params, speed), dtype), (count,))


def friction_status(system: System, params: Params, before: Array, taking_part: Array) -> Array:
    """() OK, or NO_FRICTION where a law is negative at the speed of a contact (c,) that takes part in an impact."""
    if not system.friction_by_speed:
        return jnp.zeros((), jnp.int32)
    mu = stated_friction(system, params, before.size, before.dtype, before)
    lawful = jnp.all(~taking_part | (mu >= 0))
    return jnp.where(lawful, Status.OK, Status.NO_FRICTION).astype(jnp.int32)


def tangential_restitutions(system: System, params: Params, count: int, dtype) -> Array:
    """(c,) e_t."""
    return _each(system.tangential_restitution, params, count, dtype)


def tangential_compliances(system: System, params: Params, count: int, dtype) -> Array:
    """(c,) eta^2 = k_n / k_t, 0 where contacts do not spring sideways."""
    return _each(system.tangential_compliance, params, count, dtype)


def _each(function, params, count, dtype):
    value = jnp.zeros((), dtype) if function is None else jnp.asarray(function(params), dtype)
    return jnp.broadcast_to(value, (count,))
