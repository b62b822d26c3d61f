"""Rigid bodies of many shapes among planes and fixed balls, in the plane and in space."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import jax.numpy as jnp

from diffcontact.arguments import is_count
from diffcontact.shapes import Shape
from diffcontact.systems import drawings, laws, poses

# Registers what is refused of bodies.
from diffcontact.systems import required as required
from diffcontact.systems.solids import Bodies, Solids, require
from diffcontact.systems.spin import SPACE
from diffcontact.systems.surroundings import numbered, param, require_callable


def bodies(
    shapes: Sequence[Shape] | Shape | Callable,
    dimension: int,
    planes: Callable | None = None,
    *,
    fixed: int = 0,
    materials: Sequence[int] | None = None,
    belt: Callable | None = None,
    pairs: bool = True,
    restitution: str = "constant",
    friction: str = "constant",
    impact_law: str = "newton",
) -> Bodies:
    r"""Make rigid bodies that fall, tumble, slide and roll, with Coulomb friction.

    In a plane q = (x, y, angle) for each body and u alike. In space q = (centre (3), unit quaternion w x y z), from the
    body's frame to the world's, and u = (velocity (3), angular velocity (3)), both along the world's axes::

        m v' = m g + ...,      d/dt (R J R^T w) = ...,      R = R(quaternion),   J the inertia in the body's frame

    so that the mass matrix turns with the body, M = diag(m, R J R^T), and the force has the gyroscopic torque
    -w x (R J R^T w). The centre is the centre of mass, where gravity acts.

    Contacts, each with its gap [m] and its slip [m/s], in this order::

        planes      each vertex of a Polygon, Polyhedron or Box, or the nearest point of an Ellipse, Ellipsoid or Ball:
                    n_k . (centre + arm) - offset_k      (body-major, then plane, then vertex)
        pairs       distance of surfaces     i < j, the fixed balls numbered after the bodies; not two fixed ones

    Of two that meet one must be a ball. Balls meet balls, boxes and convex polygons: with the nearest point of the
    whole outline or surface, a face, an edge or a vertex. Contacts of two other shapes, and of polyhedra, ellipses and
    ellipsoids with balls, are not covered, and refused. With `pairs=False` bodies pass through each other.

    Params: `mass` (count,) [kg], `gravity` (dimension,) [m/s^2] as an acceleration vector, `restitution` and `friction`
    () or (c,), of compliant bodies `tangential_compliance`, and may have `tangential_restitution`, e_t; with k
    materials each of them is (k, k), symmetric, for each pair. `inertia` [kg m^2] is (count,) in a plane; in space
    (count, 3), moments along the body's axes, (count, 3, 3), a symmetric matrix in the body's frame, or (count,) where
    all axes are alike (a cube), which is quicker. Without it, bodies are homogeneous. With fixed balls, `fixed_centre`
    (fixed, dimension) and `fixed_radius` (fixed,) [m].

    The slip on a plane is that of the body's material point, in a plane along (n_y, -n_x), x on a floor, in space along
    x and y there; that of two bodies i < j is that of j on i. Planes tilt about lines in them. Contacts resist neither
    rolling nor pivoting. A face that lies on a plane has a contact at each vertex, which share its load evenly; where
    it slides and pivots the motion depends on that (`EventTimed`).

    Args:
        shapes: one for each body, or `shapes(params) -> sequence` where their lengths are to be differentiated or
            fitted; `dc.shapes` has them.
        dimension: 2 or 3.
        planes: None, or `planes(t, params) -> (normals (p, dimension), offsets (p,))`, unit normals towards the bodies
            and the planes' distances from the origin along them [m]; they may tilt and move.
        fixed: number of fixed balls.
        materials: None, or the material's number of each body, of each fixed ball and of each plane, in this order.
        belt: None, or `belt(t, params) -> (p, dimension)`, how fast the planes' surfaces run [m/s], what is normal to
            them not read.
        pairs: whether bodies meet each other.
        restitution: how it depends on the speed of approach, one of `systems.laws.LAWS` by name; with `EventTimed`
            only.
        friction: how it does, one of `systems.laws.FRICTION_LAWS` by name; likewise.
        impact_law: as in `System`.

    Returns:
        A `System`; equal arguments return the same one.

    Raises:
        ValueError: for shapes of another dimension, for pairs of them that are not covered, for what should be a
            function and is none, and materials that are not numbers from 0 for each surface.

    Source: design section 9; for the equations of motion H. Goldstein, Classical Mechanics, chapter 5.

    Example:
        A rod that leans by 30 degrees, with its lower end on the floor:

        >>> import jax, jax.numpy as jnp, numpy as np, diffcontact as dc
        >>> floor = lambda t, params: (jnp.array([[0.0, 1.0]]), jnp.zeros(1))
        >>> rod = dc.systems.bodies(dc.shapes.Box(1.0, 0.02), 2, floor)
        >>> params = dict(mass=np.ones(1), gravity=np.array([0.0, -9.81]), restitution=0.5, friction=0.3)
        >>> pose = np.array([0.0, 0.2587, np.pi / 6])
        >>> print(np.round(jax.jit(rod.gap)(0.0, pose, params), 4) + 0.0)  # m
        [0.     0.0174 0.5    0.5174]

        The slip of each vertex where it turns at 10 rad/s about its centre:

        >>> print(np.ravel(jax.jit(rod.slip)(0.0, np.zeros(3), np.array([0.0, 0.0, 10.0]), params)))
        [ 0.1 -0.1  0.1 -0.1]
    """
    if dimension not in (2, 3):
        raise ValueError(f"bodies(dimension={dimension!r}): expected 2 or 3")
    if not is_count(fixed, 0):
        raise ValueError(f"bodies(fixed={fixed!r}): expected an integer of at least 0")
    require_callable("bodies", planes=planes, belt=belt)
    if belt is not None and planes is None:
        raise ValueError("bodies(belt=...): expected planes=... with it")
    laws.named(restitution, "bodies")
    laws.require_friction(friction, "bodies")
    given = shapes if callable(shapes) else ((shapes,) if isinstance(shapes, Shape) else tuple(shapes))
    solids = Solids(
        given,
        bool(pairs),
        dimension=int(dimension),
        planes=planes,
        fixed=int(fixed),
        materials=numbered("bodies", materials),
        belt=belt,
    )
    if not callable(given):
        require(given, solids)
    return _bodies(solids, restitution, friction, impact_law)


@lru_cache(maxsize=128)
def _bodies(solids: Solids, law: str, friction_law: str, impact_law: str) -> Bodies:
    def mass(q, params):
        return _mass(solids, q, params)

    def force(t, q, u, params):
        del t
        return _force(solids, q, u, params)

    def e_t(params):
        name = "tangential_restitution"
        return solids.coefficients(name, params) if name in params else 0.0

    return Bodies(
        solids.gap,
        force,
        mass,
        laws.restitution(law, solids.coefficients),
        slip=solids.slip,
        friction=laws.friction(friction_law, solids.coefficients),
        tangential_restitution=e_t,
        **laws.of_impact(impact_law, solids.coefficients),
        rows=solids.rows,
        draw=drawings.bodies(solids),
        solids=solids,
        law=law,
        friction_law=friction_law,
        **(SPACE if solids.dimension == 3 else {}),
    )


def _mass(solids: Solids, q, params):
    """M(q): (d,) where it does not depend on how bodies are turned, or (d, d), a block for each body."""
    inertia = solids.inertia(params, q.dtype)
    count, m = len(inertia), solids.dimension
    mass = jnp.broadcast_to(param(params, "mass", (count,), q.dtype)[:, None], (count, m))
    if inertia.ndim == 1:
        turning = jnp.broadcast_to(inertia[:, None], (count, solids.velocities - m))
        return jnp.concatenate([mass, turning], axis=1).ravel()
    zero = jnp.zeros((count, 3, 3), q.dtype)
    straight = mass[:, :, None] * jnp.eye(3, dtype=q.dtype)[None]
    turned = _turned(inertia, poses.rotation(poses.of_bodies(q, 3)))
    blocks = jnp.concatenate([jnp.concatenate([straight, zero], 2), jnp.concatenate([zero, turned], 2)], 1)
    if count == 1:
        return blocks[0]
    apart = jnp.eye(count, dtype=q.dtype)[:, None, :, None] * blocks[:, :, None, :]
    return apart.reshape(6 * count, 6 * count)


def _turned(inertia, rotation):
    """(count, 3, 3) R J R^T, symmetric to the last bit."""
    if inertia.ndim == 2:
        turned = jnp.sum(rotation[:, :, None, :] * rotation[:, None, :, :] * inertia[:, None, None, :], axis=3)
    else:
        half = jnp.sum(rotation[:, :, None, :, None] * inertia[:, None, None, :, :], axis=3)
        turned = jnp.sum(half * rotation[:, None, :, :], axis=3)
    return (turned + turned.swapaxes(1, 2)) / 2


def _force(solids: Solids, q, u, params):
    inertia = solids.inertia(params, q.dtype)
    mass = param(params, "mass", (len(inertia),), q.dtype)
    weight = mass[:, None] * param(params, "gravity", (solids.dimension,), q.dtype)[None]
    torque = jnp.zeros((len(inertia), solids.velocities - solids.dimension), q.dtype)
    if inertia.ndim > 1:
        turned = _turned(inertia, poses.rotation(poses.of_bodies(q, 3)))
        w = u.reshape(-1, 6)[:, 3:]
        torque = -jnp.cross(w, poses.turn(turned, w))
    return jnp.concatenate([weight, torque], axis=1).ravel()
