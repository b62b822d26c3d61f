"""Model a ball that bounces on a floor, as a camera sees it."""

from __future__ import annotations

from functools import lru_cache

import jax.numpy as jnp

from diffcontact.arguments import is_count
from diffcontact.system import System
from diffcontact.systems import drawings, laws


def bouncing_ball(bounces: int = 1, *, restitution: str = "constant") -> System:
    r"""Make a ball that falls on a floor line and bounces, each bounce with a restitution of its own.

    The position q = (y,) is measured downwards, as in a picture. In a film of a ball that comes nearer, the floor under
    it sinks in the picture; restitution loses as the ball slows down::

        gap      g_k(t, q) = floor + floor_drift t - y      between the turning points apex_{k-1} and apex_k
        force    f = gravity - drag |u| u                   per unit mass
        impact   w+ = -e_k w-,    w = u - floor_drift

    The floor of bounce k is there from the turning point before it to the one after it, the last one for good; the gap
    of the others is open whatever the ball does. So there are as many constraints as bounces, one at a time.

    Params of the system: `restitution` () [1] of the first bounce, `later_restitution` (bounces - 1,) [1] of the
    others, `gravity` () [m/s^2], `drag` () [1/m] of the air, `floor` () [m] and `floor_drift` () [m/s], the floor at
    t = 0 and its velocity, `apexes` (bounces - 1,) [s], increasing: a time in each flight between two bounces. In
    pictures, lengths are pixels and times are frames. With a law of the speed of approach, all bounces have the same
    one: its params, all (), in place of `later_restitution`.

    Args:
        bounces: how many have a restitution of their own, 1 and up; all that follow have that of the last one.
        restitution: how it depends on the speed of approach, one of `systems.laws.LAWS` by name.

    Returns:
        A `System` with d = 1 and c = bounces; equal arguments return the same one.

    Raises:
        ValueError: for bounces below 1; no such law.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> params = dict(restitution=0.8, later_restitution=jnp.array([0.5]), gravity=10.0, drag=0.0)
        >>> params |= dict(floor=5.0, floor_drift=0.0, apexes=jnp.array([1.8]))
        >>> ball = dc.systems.bouncing_ball(2)
        >>> run = dc.simulate(ball, params, [0.0], [0.0], [0.0, 0.5, 1.5, 2.5, 3.0])  # bounces at 1 s and 2.6 s
        >>> print(run.u[:, 0].round(4))
        [ 0.  5. -3.  7.  0.]
    """
    if not is_count(bounces, 1):
        raise ValueError(f"bouncing_ball(bounces={bounces!r}): expected an integer of at least 1")
    laws.named(restitution, "bouncing_ball")
    return _bouncing_ball(int(bounces), restitution)


@lru_cache(maxsize=16)
def _bouncing_ball(bounces: int, law: str) -> System:
    def gap(t, q, params):
        height = params["floor"] + params["floor_drift"] * t - q[0]
        flight = jnp.sum(t >= jnp.asarray(params["apexes"])) if bounces > 1 else 0
        # Any positive number would do for a floor that is not there.
        return jnp.where(jnp.arange(bounces) == flight, height, 1.0 + jnp.abs(height))

    def force(t, q, u, params):
        del t, q
        return params["gravity"] - params["drag"] * jnp.abs(u) * u

    def of_each(params):
        first = jnp.asarray(params["restitution"])[None]
        return jnp.concatenate([first, params["later_restitution"]]) if bounces > 1 else first

    restitution = of_each if law == "constant" else laws.restitution(law)
    return System(
        gap=gap,
        force=force,
        mass=lambda q, params: jnp.ones_like(q),
        restitution=restitution,
        draw=drawings.bouncing_ball(),
    )
