"""A disc that falls on the floor: quick to compile, exact by hand."""

import jax.numpy as jnp
import numpy as np

import diffcontact as dc

# Mass 1, radius 0.1, gravity 10: from 0.3 m it falls for 0.2 s, and P = 2 (1 + e); 1 m/s of slip take B = 1/3 to grip.
DISC = dc.System(
    gap=lambda t, q, p: q[1:2] - 0.1,
    force=lambda t, q, u, p: np.array([0.0, -10.0, 0.0]),
    mass=lambda q, p: np.array([1.0, 1.0, 0.005]),
    restitution=lambda p: p["e"],
    slip=lambda t, q, u, p: (u[0] + 0.1 * u[2])[None, None],
    friction=lambda p: p["mu"],
)
DROP = [0.0, 0.3, 0.0], [1.0, 0.0, 0.0]


def dropped(mu, e, times):
    """(n, 3) places and angles of the disc dropped so, until its second impact (for e = 0.6 at 0.44 s)."""
    friction = min(2 * (1 + e) * mu, 1 / 3)
    after = jnp.maximum(times - 0.2, 0.0)
    height = jnp.where(times < 0.2, 0.3 - 5 * times**2, 0.1 + 2 * e * after - 5 * after**2)
    return jnp.stack([times - friction * after, height, -friction * 0.1 / 0.005 * after], axis=1)
