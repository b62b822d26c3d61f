"""Model two riders on an air track."""

from __future__ import annotations

from functools import lru_cache

import jax.numpy as jnp

from diffcontact.system import System
from diffcontact.systems import drawings, laws


def carts(*, restitution: str = "constant") -> System:
    """Make two riders on one track that collide through their bumpers.

    Positions q = (x_1, x_2) [m] are along the track, the second rider is ahead. Only the ratio of the masses can be
    seen in the motion, so everything is per unit mass of the second rider, M = diag(r, 1) with r = `mass_ratio`::

        gap      g(q) = x_2 - x_1 - distance                                                 [m]
        force    f_i = m_i (tilt - sag x_i) - drag u_i                                       [m/s^2]

           m_1 = r                m_2 = 1
        [   o   ]~<-- distance -->~[   o   ]        o: the marker, ~: the bumper
        =====x_1======================x_2=====  -> x, u

    Params of the system, all () [unit], and those of the law of restitution besides:
        `restitution` [1] e of the two bumpers, `mass_ratio` [1] first rider over second, `distance` [m] between the
        markers while the bumpers touch, `tilt` [m/s^2] the downhill acceleration at x = 0, `sag` [1/s^2] how fast it
        falls along the track (g times the curvature of a track that sags between its feet), `drag` [1/s] of the air
        film, linear in the velocity and the same for both riders.

    Args:
        restitution: how it depends on the speed of approach, one of `systems.laws.LAWS` by name.

    Returns:
        A `System` with d = 2 and c = 1; equal arguments return the same one.

    Raises:
        ValueError: no such law.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> params = dict(restitution=0.5, mass_ratio=1.0, distance=0.1, tilt=0.0, sag=0.0, drag=0.0)
        >>> q0, u0, times = jnp.array([0.0, 0.2]), jnp.array([1.0, 0.0]), jnp.array([0.0, 0.2])
        >>> print(*(f"{u:.3f}" for u in dc.simulate(dc.systems.carts(), params, q0, u0, times).u[-1]))
        0.250 0.750
    """
    laws.named(restitution, "carts")
    return _carts(restitution)


@lru_cache(maxsize=16)
def _carts(law: str) -> System:
    def gap(t, q, params):
        del t
        return (q[1] - q[0] - params["distance"])[None]

    def mass(q, params):
        return jnp.stack([jnp.asarray(params["mass_ratio"], q.dtype), jnp.ones((), q.dtype)])

    def force(t, q, u, params):
        del t
        return mass(q, params) * (params["tilt"] - params["sag"] * q) - params["drag"] * u

    return System(gap=gap, force=force, mass=mass, restitution=laws.restitution(law), draw=drawings.carts())
