"""Model a row of particles with springs, dashpots and dry friction, alone or driven by a measured force."""

from __future__ import annotations

from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from diffcontact.arguments import is_count
from diffcontact.system import ParticleLine
from diffcontact.systems import drawings


def particle_line(count: int = 1, driven: bool = False) -> ParticleLine:
    r"""Make particles on a rough floor, each tied to the one before by a spring and a dashpot, the first to a wall.

    ::

        |                                               with q relative to the rest positions,
        |--k_0,c_0--[m_0]--k_1,c_1--[m_1]-- ... --> p   link i is stretched by (q_i - rest_i) - (q_{i-1} - rest_{i-1})
        |____________/////___________/////__________    K = B^T diag(k) B,   V = B^T diag(c) B,   B q = stretches

    The law of S4 (1.4)-(1.7) without percussions: M du/dt + V u + K (q - rest) = f + p with the friction f of at most
    gamma nu_i on each particle, opposite to its velocity while it slips.

    Params of the system: `mass`, `stiffness` k, `damping` c, `normal` nu, `rest`, each () for all alike or (count,);
    `gamma` (). Where `driven`, the force p on the last particle is interpolated linearly from `drive` (m,) at the times
    `drive_times` (m,) [s], increasing; it is constant before the first and after the last.

    Units: mass in kg, k in N/m, c in N s/m, gamma nu in N: a friction coefficient with a normal reaction in N, or a
    friction force with the number 1. Divided by the mass throughout it is all the motion of one particle can show:
    mass 1, gamma nu in m/s^2.

    Args:
        count: number of particles, 1 and up.
        driven: whether a measured force acts on the last one.

    Returns:
        A `ParticleLine`; equal arguments return the same one.

    Raises:
        ValueError: for counts below 1.

    Source: S4 section 1; its chains are of this kind.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> params = dict(mass=1.0, stiffness=0.0, damping=0.0, normal=9.81, rest=0.0, gamma=0.2)
        >>> slide = dc.simulate(dc.systems.particle_line(), params, [0.0], [1.0], [0.0, 0.25, 1.0])
        >>> print(f"{slide.q[-1, 0]:.4f} {1.0 / (2 * 0.2 * 9.81):.4f}")  # it stops after u^2 / (2 gamma g)
        0.2548 0.2548
    """
    if not is_count(count, 1):
        raise ValueError(f"particle_line(count={count!r}): expected an integer of at least 1")
    return _particle_line(int(count), bool(driven))


@lru_cache(maxsize=32)
def _particle_line(count: int, driven: bool) -> ParticleLine:
    stretch = np.eye(count) - np.eye(count, k=-1)

    def each(value):
        return jnp.broadcast_to(jnp.asarray(value), (count,))

    def links(value):
        B = jnp.asarray(stretch)
        return B.T @ (each(value)[:, None] * B)

    def load(t, params):
        at_rest = links(params["stiffness"]) @ each(params["rest"])
        if not driven:
            return at_rest
        return at_rest.at[-1].add(jnp.interp(t, params["drive_times"], params["drive"]))

    return ParticleLine(
        mass=lambda params: each(params["mass"]),
        damping=lambda params: links(params["damping"]),
        stiffness=lambda params: links(params["stiffness"]),
        load=load,
        friction=lambda params: params["gamma"],
        normal=lambda t, params: each(params["normal"]),
        percussion_times=(),
        percussions=lambda params: jnp.zeros(0),
        draw=drawings.particle_line(count),
    )
