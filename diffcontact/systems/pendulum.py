"""Model a pendulum, or whatever else swings about an axis."""

from __future__ import annotations

from functools import lru_cache

import jax.numpy as jnp

from diffcontact.system import System
from diffcontact.systems import drawings


@lru_cache(maxsize=1)
def pendulum() -> System:
    r"""Make a body that swings about a fixed axis, by any angle.

    The angle q = (theta,) [rad] is all that a camera or a rotary encoder sees, so that everything is per unit of the
    moment of inertia I about the axis::

        theta'' = -stiffness sin(theta - rest) - damping theta' - drag |theta'| theta'

    with stiffness = m g l / I [1/s^2], which is g / l of a point on a thread. Nothing touches it.

    Params of the system, all (): `stiffness` [1/s^2], `rest` [rad] the angle at which it hangs, `damping` [1/s] and
    `drag` [1], viscous and of the air.

    Returns:
        A `System` with d = 1 and c = 0.

    Example:
        A swing by 2 rad lasts 1.33 times as long as a small one, 4 K(sin^2 1) / 2 pi.

        >>> import jax.numpy as jnp, diffcontact as dc
        >>> params = dict(stiffness=1.0, rest=0.0, damping=0.0, drag=0.0)
        >>> times = jnp.linspace(0.0, 8.349753, 401)
        >>> run = dc.simulate(dc.systems.pendulum(), params, jnp.array([2.0]), jnp.zeros(1), times)
        >>> print(run.q[0], run.q[200].round(4), run.q[400].round(4))
        [2.] [-2.] [2.]
    """

    def force(t, q, u, params):
        del t
        pull = params["stiffness"] * jnp.sin(q - params["rest"])
        return -pull - (params["damping"] + params["drag"] * jnp.abs(u)) * u

    return System(
        gap=lambda t, q, params: jnp.zeros(0, q.dtype),
        force=force,
        mass=lambda q, params: jnp.ones_like(q),
        restitution=lambda params: jnp.zeros(0),
        draw=drawings.pendulum(),
    )
