"""Balls in a box, in any dimension."""

from __future__ import annotations

from functools import lru_cache

import jax.numpy as jnp
import numpy as np

from diffcontact.qp.bodies import BodyRows
from diffcontact.qp.slots import NONE
from diffcontact.system import System
from diffcontact.systems.crowd import Crowd

# Up to so many balls the gradients of the gaps are dense: with sparse ones a step of ten balls takes four fifths of the
# time, and one of a single ball a third more.
FEW = 3


def balls(count: int, dimension: int, box=None, cell=None) -> System:
    """Frictionless balls that collide with each other and with the walls of a box.

    Coordinates are ball-major, q = (q_00, q_01, ..., q_10, ...), d = count * dimension. Gaps [m], in this order::

        low walls   q_ia - r_i - low_a          (ball-major, axis-minor; only with a box)
        high walls  high_a - r_i - q_ia
        pairs       |q_j - q_i| - r_i - r_j     i < j

    Params of the system: `mass` (count,) [kg], `radius` (count,) [m], `gravity` (dimension,) [m/s^2] as an acceleration
    vector, `restitution` () or (c,).

    With `cell` the pairs come from a cell list, without any array of all pairs: thousands of balls with
    `VelocityProjection`, tens with the other schemes. Restitution is a number then, and a trajectory's impulse is per
    ball, (n, count). The list's length is fixed; a run that outgrows it is repeated with a longer one (inside
    transformations its status is NEIGHBOURS_FULL), and no contact is dropped silently.

    Args:
        count: number of balls.
        dimension: of the space they move in, 1 and up.
        box: None, or (low, high), numbers or (dimension,) each [m]; infinite entries leave a side open.
        cell: None for all pairs, or the edge of the list's cells, at least the largest diameter [m].

    Returns:
        A `System`; equal arguments return the same one.

    Raises:
        ValueError: for counts below 1, boxes that are not (low, high) with low < high, and cells that are not positive.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> system = dc.systems.balls(2, 1, box=(0.0, 1.0))
        >>> params = dict(mass=jnp.ones(2), radius=0.1 * jnp.ones(2), gravity=jnp.zeros(1), restitution=1.0)
        >>> print(system.gap(0.0, jnp.array([0.2, 0.7]), params).round(3))
        [0.1 0.6 0.7 0.2 0.3]
    """
    for name, value in (("count", count), ("dimension", dimension)):
        if not (isinstance(value, int | np.integer) and value >= 1):
            raise ValueError(f"balls({name}={value!r}): expected an integer of at least 1")
    if cell is not None and not (np.ndim(cell) == 0 and 0 < float(cell) < np.inf):
        raise ValueError(f"balls(cell={cell!r}): expected a positive length, at least the largest diameter, or None")
    cell = None if cell is None else float(cell)
    if box is None:
        return _balls(int(count), int(dimension), None, cell)
    try:
        low, high = (np.broadcast_to(np.asarray(side, float), (dimension,)) for side in box)
    except ValueError as error:
        raise ValueError(f"balls(box={box!r}): expected (low, high), each a number or {dimension} numbers") from error
    if not np.all(low < high):
        raise ValueError(f"balls(box={box!r}): expected low < high")
    return _balls(int(count), int(dimension), (tuple(low.tolist()), tuple(high.tolist())), cell)


@lru_cache(maxsize=128)
def _balls(count, dimension, box, cell):
    first, second = np.triu_indices(count, k=1)

    def pairs(q):
        """From the first centre of each pair to the second (., m), and how far that is (.,)."""
        centre = q.reshape(count, dimension)
        apart = centre[second] - centre[first]
        squared = jnp.sum(apart**2, axis=1)
        # The norm has no derivative where two centres coincide; keep its gradient finite there.
        return apart, jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1.0)), 0.0)

    # A side that is open for every ball has no gap function at all: an infinite gap has no derivative.
    def gap(t, q, params):
        del t
        centre, radius = q.reshape(count, dimension), params["radius"]
        parts = []
        if box is not None:
            low, high = (np.asarray(side) for side in box)
            parts = [
                (centre - low.astype(q.dtype)[None, :] - radius[:, None]).ravel(),
                (high.astype(q.dtype)[None, :] - radius[:, None] - centre).ravel(),
            ]
        return jnp.concatenate([*parts, pairs(q)[1] - radius[first] - radius[second]])

    def normals(t, q, params):
        del t, params
        apart, distance = pairs(q)
        direction = apart / jnp.where(distance > 0, distance, 1.0)[:, None]
        rows = jnp.stack([-direction, direction], axis=1)
        bodies = np.stack([first, second], axis=1)
        if box is not None:
            ball, inward = np.repeat(np.arange(count), dimension), np.tile(np.eye(dimension), (count, 1))
            walls = np.stack([np.concatenate([inward, -inward]), np.zeros((2 * len(inward), dimension))], axis=1)
            alone = np.stack([np.tile(ball, 2), np.full(2 * len(ball), NONE)], axis=1)
            rows, bodies = jnp.concatenate([walls.astype(q.dtype), rows]), np.concatenate([alone, bodies])
        return BodyRows(jnp.asarray(bodies, jnp.int32), rows, count)

    def force(t, q, u, params):
        del t, q, u
        return (params["mass"][:, None] * jnp.asarray(params["gravity"])[None, :]).ravel()

    def mass(q, params):
        del q
        return jnp.repeat(params["mass"], dimension)

    functions = {"gap": gap, "force": force, "mass": mass, "restitution": lambda params: params["restitution"]}
    if cell is None:
        return System(**functions, normals=normals if count > FEW else None)
    return Crowd(**functions, count=count, dimension=dimension, box=box, cell=cell)
