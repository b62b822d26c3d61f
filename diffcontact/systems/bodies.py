r"""Rigid bodies of many shapes among planes and fixed balls, in the plane and in space: gaps, slips and forces.

They touch planes, fixed balls, and each other where one of the two is a ball.

Of a contact with the unit vector d from the first surface to the second, both of which have an arm from their centre to
where they touch::

             .  arm_i      slip of two bodies, the second on the first    v_j + w_j x arm_j - v_i - w_i x arm_i
        (i)---->|d         slip of a body on a plane                      v_i + w_i x arm_i - belt
             '  |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact import drawing
from diffcontact.arguments import is_count
from diffcontact.shapes import Ball, Box, Ellipse, Ellipsoid, Shape, outline
from diffcontact.system import System
from diffcontact.systems import laws, poses
from diffcontact.systems.poses import SPACE, tangents
from diffcontact.systems.surroundings import Surroundings, described, numbered, param, require_callable, unit


class Touch(NamedTuple):
    """All contacts of rigid bodies, at one place.

    Attributes:
        first, second: (c,) numbers of the two surfaces, static.
        gap: (c,) [m].
        direction: (c, m) unit vectors from the first to the second.
        arms: (c, m) of the first, (c, m) of the second [m].
    """

    first: np.ndarray
    second: np.ndarray
    gap: Array
    direction: Array
    arms: tuple[Array, Array]


@dataclass(frozen=True)
class Solids(Surroundings):
    """The surfaces of rigid bodies and of what is around them.

    Each has a number: the bodies, then the fixed balls, then the planes. A contact is a pair of numbers, the first of
    them a body's; one body and one plane have a contact for each spot of the body's shape.

    Args:
        shapes, pairs: as in `bodies`.
    """

    maker: ClassVar[str] = "bodies"

    shapes: tuple[Shape, ...] | Callable
    pairs: bool = True

    @property
    def coordinates(self) -> int:
        """How many coordinates a body has."""
        return {2: 3, 3: 7}[self.dimension]

    @property
    def velocities(self) -> int:
        """How many velocities a body has."""
        return {2: 3, 3: 6}[self.dimension]

    def of(self, params) -> tuple[Shape, ...]:
        """The shapes.

        Raises:
            ValueError: what was given is none, not of this dimension, or two of them cannot meet.
        """
        if not callable(self.shapes):
            return self.shapes
        found = tuple(self.shapes(params))
        _require(found, self)
        return found

    def spheres(self, shapes: tuple[Shape, ...]) -> int:
        """How many bodies and fixed balls there are."""
        return len(shapes) + self.fixed

    def meeting(self, shapes: tuple[Shape, ...]) -> tuple[np.ndarray, np.ndarray]:
        """The numbers (p,) of the bodies and fixed balls that meet, i < j."""
        first, second = np.triu_indices(len(shapes), 1, self.spheres(shapes))
        if not self.pairs:
            apart = second >= len(shapes)
            first, second = first[apart], second[apart]
        return first, second

    def surfaces(self, shapes: tuple[Shape, ...], planes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The numbers (c,) of the two surfaces of each contact, and the number (c,) of the spot where one is a plane.

        In the order of `bodies`; there are so many planes. Spots are counted through all bodies.
        """
        blocks, begin = [np.zeros((3, 0), int)], 0
        for body, shape in enumerate(shapes):
            spots = shape.spots(self.dimension).points.shape[0]
            plane, spot = np.indices((planes, spots)).reshape(2, -1)
            blocks.append(np.stack([np.full_like(spot, body), self.spheres(shapes) + plane, begin + spot]))
            begin += spots
        first, second = self.meeting(shapes)
        blocks.append(np.stack([first, second, np.full_like(first, -1)]))
        first, second, spot = np.concatenate(blocks, axis=1)
        return first, second, spot

    def radii(self, shapes, params, dtype) -> Array:
        """(spheres,) radii of the balls among the bodies, and of the fixed balls; zero of other bodies [m]."""
        own = [shape.radius if isinstance(shape, Ball) else 0.0 for shape in shapes]
        return self.with_fixed_radii(jnp.stack([jnp.asarray(radius, dtype) for radius in own]), params)

    def centres(self, q: Array, params) -> Array:
        """(spheres, m) of the bodies and the fixed balls [m]."""
        return self.with_fixed_centres(poses.of_bodies(q, self.dimension)[:, : self.dimension], params)

    def touch(self, t, q: Array, params) -> Touch:
        """All contacts, in the order of `bodies`."""
        shapes, dtype = self.of(params), q.dtype
        normals, offsets = self.inclined(t, params, dtype)
        first, second, spot = self.surfaces(shapes, len(offsets))
        on_plane = spot >= 0
        planes = second[on_plane] - self.spheres(shapes)
        gap, direction, arm = self._on_planes(shapes, q, first[on_plane], spot[on_plane], normals[planes])
        blocks = [(gap - offsets[planes], -direction, arm, jnp.zeros_like(arm))]
        if not np.all(on_plane):
            blocks.append(self._between(shapes, q, params, first[~on_plane], second[~on_plane]))
        gap, direction, *arms = (jnp.concatenate(parts) for parts in zip(*blocks, strict=True))
        return Touch(first, second, gap, direction, (arms[0], arms[1]))

    def _on_planes(self, shapes, q, body, spot, normal):
        """Distances (c,) of the spots of these numbers (c,) from the origin along the planes' normals (c, m), these,
        and the arms (c, m) to where they touch."""
        dtype, pose = q.dtype, poses.of_bodies(q, self.dimension)
        spots = [shape.spots(self.dimension) for shape in shapes]
        points = jnp.concatenate([jnp.asarray(each.points, dtype) for each in spots])[spot]
        turned = poses.rotation(pose)[body]
        arm = poses.turn(turned, points)
        if any(each.axes is not None for each in spots):
            axes = [each.points * 0 if each.axes is None else each.axes for each in spots]
            axes = jnp.concatenate([jnp.asarray(each, dtype) for each in axes])[spot]
            # A n over its length is zero where A is.
            _, towards = unit(axes * poses.turn(turned.swapaxes(1, 2), normal))
            arm = arm - poses.turn(turned, axes * towards)
        centre = pose[body, : self.dimension]
        return jnp.sum(normal * (centre + arm), axis=1), normal, arm

    def _between(self, shapes, q, params, first, second):
        """Gaps, directions and arms of the contacts between bodies and balls of these numbers (c,)."""
        dtype, centre = q.dtype, self.centres(q, params)
        radius = self.radii(shapes, params, dtype)
        distance, direction = unit(centre[second] - centre[first])
        gap = distance - radius[first] - radius[second]
        arms = [radius[first][:, None] * direction, -radius[second][:, None] * direction]
        turned = poses.rotation(poses.of_bodies(q, self.dimension))
        for number, shape in enumerate(shapes):
            here = (first == number) | (second == number)
            if isinstance(shape, Ball) or not np.any(here):
                continue
            # The other one is a ball, before or behind it.
            (at,) = np.nonzero(here)
            before = first[at] == number
            ball, sign = np.where(before, second[at], first[at]), np.where(before, 1.0, -1.0).astype(dtype)
            turns = jnp.broadcast_to(turned[number], (at.size, *turned.shape[1:]))
            found = jax.vmap(shape.nearest)(poses.turn(turns.swapaxes(1, 2), centre[ball] - centre[number][None]))
            outwards, own = poses.turn(turns, found.outwards), poses.turn(turns, found.foot)
            both = own, -radius[ball][:, None] * outwards
            gap = gap.at[at].set(found.distance - radius[ball])
            direction = direction.at[at].set(sign[:, None] * outwards)
            for k, order in enumerate((both, both[::-1])):
                arms[k] = arms[k].at[at].set(jnp.where(before[:, None], *order))
        return gap, direction, arms[0], arms[1]

    def gap(self, t, q: Array, params) -> Array:
        """(c,) the gaps of all contacts [m]."""
        return self.touch(t, q, params).gap

    def slip(self, t, q: Array, u: Array, params) -> Array:
        """(c, k) slip velocities [m/s], along `poses.tangents`."""
        affine = self._rows(t, q, params)[:, 1:]
        return jnp.sum(affine[..., :-1] * u[None, None], axis=2) + affine[..., -1]

    def rows(self, t, q: Array, params) -> Array:
        """(c, 1 + k, d + 1) as `System.rows`."""
        affine = self._rows(t, q, params)
        t = jnp.asarray(t, q.dtype)
        drift = jax.jvp(lambda t: self.gap(t, q, params), (t,), (jnp.ones_like(t),))[1]
        return affine.at[:, 0, -1].set(drift)

    def _rows(self, t, q: Array, params) -> Array:
        """As `rows`, but for the drift of the gaps."""
        found, shapes = self.touch(t, q, params), self.of(params)
        wall, dtype = found.second >= self.spheres(shapes), q.dtype
        # The slip on a wall is that of the body, the other ones are of the second body on the first.
        towards = tangents(found.direction, wall)
        sign = np.where(wall, -1.0, 1.0).astype(dtype)[:, None]
        axes = jnp.stack([found.direction, *(sign * axis for axis in towards)], axis=1)
        rows = jnp.zeros((), dtype)
        for side, body, arm in zip((-1.0, 1.0), (found.first, found.second), found.arms, strict=True):
            block = jnp.concatenate([axes, _moments(arm, axes)], axis=2)
            own = (side * (body[:, None] == np.arange(len(shapes)))).astype(dtype)
            rows = rows + own[:, None, :, None] * block[:, :, None, :]
        rows = jnp.pad(rows.reshape(*axes.shape[:2], block.shape[2] * len(shapes)), ((0, 0), (0, 0), (0, 1)))
        if self.belt is None:
            return rows
        running = self.running(t, params, self._walls(t, params), dtype)
        running = jnp.where(wall[:, None], running[np.where(wall, found.second - self.spheres(shapes), 0)], 0)
        return rows.at[:, 1:, -1].set(-jnp.stack([jnp.sum(axis * running, axis=1) for axis in towards], axis=1))

    def _walls(self, t, params) -> int:
        return self.inclined(t, params, jnp.zeros(()).dtype)[1].size

    def coefficients(self, name: str, params):
        """() or (c,) the coefficient by this name of all contacts."""
        if self.materials is None:
            return params[name]
        shapes = self.of(params)
        first, second, _ = self.surfaces(shapes, len(self.materials) - self.spheres(shapes))
        return self.coefficients_between(name, params, first, second)

    def inertia(self, params, dtype) -> Array:
        """Inertia of the bodies about their centres [kg m^2]: `params["inertia"]`, or that of homogeneous ones.

        (count,) in a plane. In space (count,) of bodies for which all axes are alike, (count, 3) principal moments, or
        (count, 3, 3).
        """
        shapes = self.of(params)
        shape = (len(shapes),)
        if "inertia" in params:
            own = jnp.asarray(params["inertia"], dtype)
            allowed = (shape,) if self.dimension == 2 else (shape, (*shape, 3), (*shape, 3, 3))
            if own.shape not in allowed:
                expected = " or ".join(map(str, allowed))
                raise ValueError(f"params['inertia']: expected shape {expected}, got {own.shape}")
            return own
        each = [jnp.asarray(one.inertia(self.dimension), dtype) for one in shapes]
        most = max(one.ndim for one in each)
        if most > 0:
            each = [one * jnp.ones(3, dtype) if one.ndim == 0 else one for one in each]
        if most > 1:
            each = [jnp.diag(one) if one.ndim == 1 else one for one in each]
        mass = param(params, "mass", shape, dtype)
        return mass.reshape(-1, *[1] * most) * jnp.stack(each)


@dataclass(frozen=True)
class Bodies(System):
    """The System of all contacts of rigid bodies: what `bodies` returns.

    Args:
        solids: what may touch.
        law: of restitution, one of `laws.LAWS` by name.
        friction_law: one of `laws.FRICTION_LAWS` by name.
    """

    solids: Solids = field(kw_only=True)
    law: str = field(default="constant", kw_only=True)
    friction_law: str = field(default="constant", kw_only=True)


def _require(shapes: Any, solids: Solids) -> None:
    """Refuse what are no shapes of this dimension, and pairs of shapes whose contact is not known.

    Raises:
        ValueError: it names the shape.
    """
    if not shapes:
        raise ValueError("bodies(shapes=()): expected at least one shape")
    for number, shape in enumerate(shapes):
        if not (isinstance(shape, Shape) and shape.fits(solids.dimension)):
            expected = f"a shape in {solids.dimension} dimensions"
            raise ValueError(f"bodies(shapes=...): shapes[{number}]: expected {expected}, got {shape!r}")
    for i, j in zip(*solids.meeting(shapes), strict=True):
        pair = shapes[i], shapes[j] if j < len(shapes) else Ball(1.0)
        if not any(isinstance(one, Ball) for one in pair):
            raise ValueError(
                f"bodies(shapes=...): contacts of shapes[{i}] with shapes[{j}], {_named(pair[0])} with "
                f"{_named(pair[1])}, are not covered: one of two that meet is a Ball; pairs=False for bodies that "
                "never meet"
            )
        for number, one in zip((i, j), pair, strict=True):
            if not one.meets_balls:
                raise ValueError(
                    f"bodies(shapes=...): contacts of shapes[{number}], {_named(one)}, with balls are not covered; "
                    "those of Box, Polygon and Ball are"
                )


def _named(shape: Shape) -> str:
    name = type(shape).__name__
    return f"{'an' if name[0] in 'AEIOU' else 'a'} {name}"


def _moments(arm: Array, axes: Array) -> Array:
    """(c, j, 1 or 3) by which angular velocities move the points at arms (c, m) along axes (c, j, m)."""
    arm = arm[:, None]
    if axes.shape[2] == 2:
        return arm[..., :1] * axes[..., 1:] - arm[..., 1:] * axes[..., :1]
    return jnp.cross(arm, axes)


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
        _require(given, solids)
    return _bodies(solids, restitution, friction, impact_law)


@lru_cache(maxsize=128)
def _bodies(solids: Solids, law: str, friction_law: str, impact_law: str) -> Bodies:
    def mass(q, params):
        return _mass(solids, q, params)

    def force(t, q, u, params):
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
        draw=_drawing(solids),
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


def _drawing(solids: Solids) -> drawing.Drawing:
    """Draw bodies by their shapes, fixed balls and planes; up is against gravity."""
    dimension = solids.dimension

    def shapes(t, q, params):
        placed = zip(solids.of(params), poses.of_bodies(q, dimension), strict=True)
        drawn = [one for shape, pose in placed for one in _drawn(shape, pose, dimension)]
        if solids.fixed:
            drawn.append(drawing.Ball(jnp.asarray(params["fixed_centre"]), jnp.asarray(params["fixed_radius"])))
        return (*drawn, *(drawing.Wall(*each) for each in zip(*solids.inclined(t, params, q.dtype), strict=True)))

    return drawing.Drawing(shapes, *described(dimension, True, lambda params: len(solids.of(params)), "body"))


def _drawn(shape, pose, dimension: int) -> list[drawing.Shape]:
    centre, turn = pose[:dimension], pose[2] if dimension == 2 else pose[dimension:]
    if isinstance(shape, Ball):
        return [drawing.Ball(centre[None], jnp.asarray(shape.radius)[None], turn[None])]
    if isinstance(shape, Ellipse):
        return [drawing.Ellipse(centre, jnp.asarray(shape.semi_axes), turn)]
    if isinstance(shape, Ellipsoid):
        lines = outline(shape)
        rings = np.split(lines.vertices, 3)
        return [drawing.Line(poses.placed(np.concatenate([ring, ring[:1]]), pose)) for ring in rings]
    corners = jnp.asarray(shape.vertices)
    if dimension == 2:
        return [drawing.Polygon(corners[np.array(shape.faces[0])] if isinstance(shape, Box) else corners, centre, turn)]
    return [drawing.Polyhedron(corners, centre, turn, shape.faces)]
