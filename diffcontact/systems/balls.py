"""Model balls among walls and fixed balls, on a line, in a plane and in space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffcontact.arguments import is_count
from diffcontact.drawing import Ball, Drawing, Shape, Wall
from diffcontact.systems import laws
from diffcontact.systems.cell_list_balls import CellListBalls
from diffcontact.systems.surfaces import Balls, Surfaces, moments_of_inertia, resisting, rubbing
from diffcontact.systems.surroundings import described, numbered, of_the_air, param, require_callable

# Number of balls up to which the gradients of the gaps are dense. Sparse gradients take four fifths of the time of a
# step of ten balls, and a third more of a step of one ball.
DENSE_GRADIENTS_UP_TO = 3


def balls(
    count: int,
    dimension: int,
    box: Any = None,
    cell: float | None = None,
    *,
    planes: Callable | None = None,
    radius: Callable | None = None,
    fixed: int = 0,
    materials: Sequence[int] | None = None,
    spin: bool = False,
    belt: Callable | None = None,
    air: bool = False,
    resistance: bool = False,
    restitution: str = "constant",
    friction: str = "constant",
) -> Balls:
    """Make balls that collide with each other, boxes, planes and fixed balls.

    Coordinates are ball-major, q = (q_00, q_01, ..., q_10, ...), d = count * dimension. Gaps [m], in this order::

        low sides   q_ia - r_i - low_a          (ball-major, axis-minor; only with a box)
        high sides  high_a - r_i - q_ia
        planes      n_k . q_i - offset_k - r_i  (ball-major, plane-minor)
        pairs       |q_j - q_i| - r_i - r_j     i < j, the fixed balls numbered after the others; not two fixed ones

    Params of the system: `mass` (count,) [kg], `radius` (count,) [m], on a line at most one of them 0, `gravity`
    (dimension,) [m/s^2] as an acceleration vector, `restitution` () or (c,); with fixed balls `fixed_centre` (fixed,
    dimension) and `fixed_radius` (fixed,) [m]; with k materials `restitution` (k, k), symmetric, for each pair of them.

    With `spin` they turn and rub, by Coulomb's law: discs in a plane with q = (x, y, angle) each and u alike, spheres
    in space with q = (centre (3), unit quaternion w x y z), u = (velocity (3), angular velocity (3), along fixed axes).
    Params then have `friction`, mu, may have `tangential_restitution`, e_t, both like `restitution`, and `inertia`
    (count,) [kg m^2], for homogeneous balls m r^2 / 2 and 2/5 m r^2 without it; gravity acts at the centres. The slip
    on a wall is that of the ball, in a plane along (n_y, -n_x), x on a floor, in space along x and y there; that of two
    balls i < j is that of j on i, in a plane along (-n_y, n_x), n from i to j, in space along two that follow n. Fixed
    balls do not turn, and planes tilt about lines in them.

    With `resistance` contacts resist rolling and pivoting, too: their load times r times `rolling_friction` bounds the
    moment against rolling, and times `pivoting_friction` that against spin about the normal, of spheres; both are like
    `friction`, 0 where params have none of them. r is the radius, of two balls r_i r_j / (r_i + r_j), and what rolls is
    their relative angular velocity. A sphere that rolls at v on a level table stops after v^2 / (2 5/7 mu_r g), its
    pivoting after 2 r w / (5 mu_p g). Impacts have these moments, too.

    With `air` they fly through it, or glide on it: params then have `drag` [1/m], rho C_d A / 2 m, of balls that spin
    `magnus` [1], and may have `damping` [1/s], that of a film of air, `dry_friction` [m/s^2], the deceleration by a
    table on which they glide (slower than 1 mm/s they creep), and `magnus_saturation` [m], by which the side
    force levels off (`systems.surroundings`); each is () or (count,)::

        dv/dt = gravity - damping v - drag |v| v - dry_friction v / |v|
                + magnus w x v / (1 + magnus_saturation |w| / |v|)

    With `cell` the pairs come from a cell list, without any array of all pairs: some tens to thousands of balls with
    `VelocityProjection`, tens with the other schemes. Restitution is a number then, or the table of materials, and a
    trajectory's impulse is per ball, (n, count). The list's length is fixed; a run that outgrows it is repeated with a
    longer one (inside transformations its status is NEIGHBOURS_FULL), and no contact is dropped silently.

    Args:
        count: number of balls.
        dimension: of the space they move in, 1, 2 or 3.
        box: None, or (low, high), numbers or (dimension,) each [m]; infinite entries leave a side open. Or, for sides
            that move or that are to be differentiated, a function `box(t, params) -> (low, high)`.
        cell: None for all pairs, or the edge of the list's cells, at least the largest diameter [m].
        planes: None, or `planes(t, params) -> (normals (p, dimension), offsets (p,))`, unit normals towards the balls
            and the planes' distances from the origin along them [m]; they may tilt and move.
        radius: None for `params["radius"]`, or `radius(t, params) -> (count,)` of balls that grow or shrink [m].
        fixed: number of fixed balls.
        materials: None, or the material's number of each ball, of each fixed ball, of the low sides, of the high sides
            and of the planes, in this order.
        spin: whether the balls turn, and their contacts rub; in 2 and 3 dimensions.
        belt: None, or `belt(t, params) -> (walls, dimension)`, how fast the surfaces of the low sides, the high sides
            and the planes run [m/s], what is normal to them not read; for balls that spin.
        air: whether the air slows the balls down, and bends the paths of those that spin.
        resistance: whether the contacts of balls that spin resist rolling and pivoting.
        restitution: how it depends on the speed of approach, one of `systems.laws.LAWS` by name. Its params are like
            `restitution`, a table for materials too; with `EventTimed` only.
        friction: how it does, of balls that spin, one of `systems.laws.FRICTION_LAWS` by name; likewise.

    Returns:
        A `System`; equal arguments return the same one.

    Raises:
        ValueError: for counts below 1, a dimension above 3, boxes that are not (low, high) with low < high, and cells
            that are not positive; for what should be a function and is none, and materials that are not numbers from 0
            for each surface.

    Example:
        >>> import jax, jax.numpy as jnp, numpy as np, diffcontact as dc
        >>> system = dc.systems.balls(2, 1, box=(0.0, 1.0))
        >>> params = dict(mass=np.ones(2), radius=0.1 * np.ones(2), gravity=np.zeros(1), restitution=1.0)
        >>> print(np.round(jax.jit(system.gap)(0.0, np.array([0.2, 0.7]), params), 3))
        [0.1 0.6 0.7 0.2 0.3]

        A piston at 1 m/s hits a ball at rest, e = 1:

        >>> piston = dc.systems.balls(1, 1, box=lambda t, params: (t, 10.0))
        >>> params = dict(mass=np.ones(1), radius=0.1 * np.ones(1), gravity=np.zeros(1), restitution=1.0)
        >>> np.round(dc.simulate(piston, params, [0.5], [0.0], [0.0, 0.3, 0.6]).u, 3).tolist()
        [[0.0], [0.0], [2.0]]

        A disc of radius 0.1 m that spins on the floor at 20 rad/s slips there at 2 m/s:

        >>> disc = dc.systems.balls(1, 2, planes=lambda t, params: (jnp.array([[0.0, 1.0]]), jnp.zeros(1)), spin=True)
        >>> params = dict(mass=np.ones(1), radius=0.1 * np.ones(1), friction=0.3)
        >>> jax.jit(disc.slip)(0.0, np.array([0.0, 0.1, 0.0]), np.array([0.0, 0.0, 20.0]), params).tolist()
        [[2.0]]

        A table-tennis ball that flies at 10 m/s, with topspin: the air pushes it back and down:

        >>> ball = dc.systems.balls(1, 3, spin=True, air=True)
        >>> params = dict(mass=np.array([2.7e-3]), gravity=np.zeros(3), drag=0.12, magnus=0.004)
        >>> u = np.array([10.0, 0.0, 0.0, 0.0, 100.0, 0.0])
        >>> print(np.asarray(jax.jit(ball.force)(0.0, np.zeros(7), u, params)).round(4) / 2.7e-3)
        [-12.   0.  -4.   0.   0.   0.]
    """
    for name, value, least in (("count", count, 1), ("fixed", fixed, 0)):
        if not is_count(value, least):
            raise ValueError(f"balls({name}={value!r}): expected an integer of at least {least}")
    if not (is_count(dimension, 1) and dimension <= 3):
        raise ValueError(f"balls(dimension={dimension!r}): expected an integer from 1 to 3")
    if cell is not None and not _is_length(cell):
        raise ValueError(f"balls(cell={cell!r}): expected a positive length, at least the largest diameter, or None")
    require_callable("balls", planes=planes, radius=radius, belt=belt)
    if spin and dimension not in (2, 3):
        raise ValueError(f"balls(dimension={dimension}, spin=True): expected dimension 2 or 3")
    if belt is not None and not (spin and (box is not None or planes is not None)):
        raise ValueError("balls(belt=...): expected spin=True and walls, box=... or planes=..., with it")
    if resistance and (not spin or cell is not None):
        raise ValueError("balls(resistance=True): expected spin=True, and no cell, with it")
    laws.named(restitution, "balls")
    laws.require_friction(friction, "balls")
    if friction != "constant" and (not spin or cell is not None):
        raise ValueError(f"balls(friction={friction!r}): expected spin=True, and no cell, with it")
    surfaces = Surfaces(
        int(count),
        box if box is None or callable(box) else _standing(box, dimension),
        radius,
        bool(spin),
        dimension=int(dimension),
        planes=planes,
        fixed=int(fixed),
        materials=numbered("balls", materials),
        belt=belt,
    )
    return _balls(surfaces, None if cell is None else float(cell), bool(air), bool(resistance), restitution, friction)


def _is_length(value) -> bool:
    return np.ndim(value) == 0 and np.asarray(value).dtype.kind in "iuf" and bool(0 < value < np.inf)


def _standing(box, dimension):
    try:
        low, high = (np.broadcast_to(np.asarray(side, float), (dimension,)) for side in box)
    except (TypeError, ValueError) as error:
        raise ValueError(f"balls(box={box!r}): expected (low, high), each a number or {dimension} numbers") from error
    if not np.all(low < high):
        raise ValueError(f"balls(box={box!r}): expected low < high")
    return tuple(low.tolist()), tuple(high.tolist())


@lru_cache(maxsize=128)
def _balls(surfaces: Surfaces, cell: float | None, air: bool, resistance: bool, law: str, friction_law: str) -> Balls:
    count, dimension, spin = surfaces.count, surfaces.dimension, surfaces.spin

    def force(t, q, u, params):
        mass, gravity = (param(params, *of, q.dtype) for of in (("mass", (count,)), ("gravity", (dimension,))))
        acceleration = jnp.broadcast_to(gravity[None, :], (count, dimension))
        if air:
            acceleration += of_the_air(u.reshape(count, -1), dimension, params)
        felt = mass[:, None] * acceleration
        return (jnp.pad(felt, ((0, 0), (0, surfaces.velocities - dimension))) if spin else felt).ravel()

    def mass(q, params):
        mass = param(params, "mass", (count,), q.dtype)
        if not spin:
            return jnp.repeat(mass, dimension)
        inertia = moments_of_inertia(surfaces, mass, params)
        angular = surfaces.velocities - dimension
        each = [jnp.repeat(of[:, None], many, axis=1) for of, many in ((mass, dimension), (inertia, angular))]
        return jnp.concatenate(each, axis=1).ravel()

    def coefficient(name):
        return partial(surfaces.coefficients, name)

    functions = {"gap": surfaces.gap, "force": force, "mass": mass, "draw": _drawing(surfaces)}
    functions["restitution"] = laws.restitution(law, surfaces.coefficients)
    if spin:
        functions |= rubbing(surfaces, surfaces.facing, coefficient)
        functions["friction"] = laws.friction(friction_law, surfaces.coefficients)
    if resistance:
        functions |= resisting(surfaces, surfaces.facing, coefficient)
    if cell is not None:
        return CellListBalls(**functions, surfaces=surfaces, law=law, built=functions, cell=cell)
    if count > DENSE_GRADIENTS_UP_TO:
        functions["normals"] = surfaces.gradients
    else:
        functions.pop("tangents", None)
    return Balls(**functions, surfaces=surfaces, law=law, friction_law=friction_law)


def _drawing(surfaces: Surfaces) -> Drawing:
    """Draw balls, fixed balls, the sides of the box and the planes; up is against gravity."""
    count, dimension = surfaces.count, surfaces.dimension

    def shapes(t, q, params):
        radius, own = surfaces.radii(t, params, q.dtype), q.reshape(count, -1)
        turn = own[:, dimension:] if surfaces.spin else None
        drawn: list[Shape] = [
            Ball(own[:, :dimension], radius[:count], turn[:, 0] if dimension == 2 and turn is not None else turn)
        ]
        if surfaces.fixed:
            drawn.append(Ball(surfaces.centres(q, params)[count:], radius[count:]))
        walls = []
        if surfaces.box is not None:
            low, high = surfaces.sides(t, params, q.dtype)
            axes = np.eye(dimension)
            walls += [*zip(axes, low, strict=True), *zip(-axes, -high, strict=True)]
        if surfaces.planes is not None:
            walls += [*zip(*surfaces.inclined(t, params, q.dtype), strict=True)]
        return (*drawn, *(Wall(jnp.asarray(normal), offset) for normal, offset in walls))

    return Drawing(shapes, *described(dimension, surfaces.spin, lambda params: count, "ball"))
