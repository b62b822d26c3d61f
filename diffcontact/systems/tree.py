r"""A tree of rigid bodies on joints: poses, mass matrix and forces by Kane's equations.

Each joint carries a frame; frame 0 is the world. A body is fixed to one frame. All frames are computed at once: the
transforms X of the frames relative to their parents are multiplied in pairs, then these products, so that a chain of
length k takes log2(k) steps::

    X_i <- X_p(i) X_i,    p(i) <- p(p(i))      until every p(i) is the world

With J (b, 6, d) the velocities of the centres of mass and the angular velocities, M = diag(m, I) of each body::

    mass    sum J^T M J + diag(armature)
    force   sum J^T (F - M J' u - (0, w x I w)) + joint forces,      J' u by automatic differentiation along the motion

Source: T. R. Kane, D. A. Levinson, Dynamics: Theory and Applications (1985), chapter 6. Parallel products: W. D.
Hillis, G. L. Steele, Data parallel algorithms, Comm. ACM 29 (1986).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.systems import poses

FREE, BALL, SLIDE, HINGE = range(4)


class Frames(NamedTuple):
    """Where all frames are.

    Attributes:
        place: (n + 1, 3) origins [m].
        quaternion: (n + 1, 4) unit quaternions w x y z from the frame to the world.
        turn: (n + 1, 3, 3) the same as matrices.
    """

    place: Array
    quaternion: Array
    turn: Array

    def points(self, frame: np.ndarray, local: Any) -> Array:
        """(k, 3) where points (k, 3) of these frames (k,) are in the world [m]."""
        return self.place[frame] + poses.turn(self.turn[frame], jnp.asarray(local, self.place.dtype))


@dataclass(frozen=True, eq=False)
class Tree:
    """Joints, each with its frame, and what they move. All arrays are of numpy and constant.

    Attributes:
        parent: (n + 1,) frame that each frame hangs on; 0 is the world, its own parent.
        place, quaternion: (n + 1, 3), (n + 1, 4) of the frame in its parent while the joint is at rest.
        kind: (n + 1,) FREE, BALL, SLIDE or HINGE; -1 of the world.
        axis, anchor: (n + 1, 3) of the joint, in its frame.
        rest: (n + 1,) the coordinate at which a hinge or slide is at rest [rad, m].
        position, velocity: (n + 1,) the first entry of each joint in q and in u.
        coordinates, velocities: lengths of q and u.
        dof_frame, dof_axis, dof_anchor: of each velocity its frame (d,), and its axis and a point on it, (d, 3), in
            that frame, or the axis in the world where it is `dof_fixed` (d,).
        dof_turns: (d,) whether it is angular.
        moves: (n + 1, d) whether a velocity moves a frame.
        source, plain: (n,) the velocity that each coordinate has, unless it is one of a quaternion's.
        turning, quaternions, spins: frames (k,) with quaternions, entries of these in q (k, 4) and of their angular
            velocities in u (k, 3).
        floating, places: frames (k,) with free joints, and entries of their places in q (k, 3).
    """

    parent: np.ndarray
    place: np.ndarray
    quaternion: np.ndarray
    kind: np.ndarray
    axis: np.ndarray
    anchor: np.ndarray
    rest: np.ndarray
    position: np.ndarray
    velocity: np.ndarray
    coordinates: int
    velocities: int
    dof_frame: np.ndarray = field(init=False)
    dof_axis: np.ndarray = field(init=False)
    dof_anchor: np.ndarray = field(init=False)
    dof_fixed: np.ndarray = field(init=False)
    dof_turns: np.ndarray = field(init=False)
    moves: np.ndarray = field(init=False)
    source: np.ndarray = field(init=False)
    plain: np.ndarray = field(init=False)
    turning: np.ndarray = field(init=False)
    quaternions: np.ndarray = field(init=False)
    spins: np.ndarray = field(init=False)
    floating: np.ndarray = field(init=False)
    places: np.ndarray = field(init=False)

    def __post_init__(self):
        for name, value in _columns(self).items():
            object.__setattr__(self, name, value)

    def frames(self, q: Array) -> Frames:
        """Poses of all frames."""
        place, quaternion = self._own(q)
        parent = self.parent
        while parent.any():
            place = place[parent] + _rotated(quaternion[parent], place)
            quaternion = product(quaternion[parent], quaternion)
            parent = parent[parent]
        turn = poses.rotation(jnp.concatenate([jnp.zeros_like(place), quaternion], axis=1))
        return Frames(place, quaternion, turn)

    def _own(self, q: Array) -> tuple[Array, Array]:
        """Place and quaternion of each frame in its parent's."""
        dtype = q.dtype
        constant = (self.place, self.quaternion, self.axis, self.anchor)
        place, quaternion, axis, anchor = (jnp.asarray(x, dtype) for x in constant)
        moved = jnp.where(self.kind >= SLIDE, q[self.position] - jnp.asarray(self.rest, dtype), 0)
        half = jnp.where(self.kind == HINGE, moved, 0)[:, None] / 2
        turned = jnp.concatenate([jnp.cos(half), jnp.sin(half) * axis], axis=1)
        if self.turning.size:
            given = _unit(q[self.quaternions])
            turned = turned.at[self.turning].set(given)
        along = jnp.where(self.kind == SLIDE, moved, 0)[:, None] * axis
        place = place + _rotated(quaternion, anchor + along - _rotated(turned, anchor))
        if self.floating.size:
            place = place.at[self.floating].set(q[self.places])
        return place, product(quaternion, turned)

    def rate(self, q: Array, u: Array) -> Array:
        """(n,) q': u itself, and 1/2 quaternion * (0, w) with w in the turned frame."""
        moved = jnp.where(self.plain, u[self.source], 0)
        if not self.turning.size:
            return moved
        w = u[self.spins]
        spin = jnp.concatenate([jnp.zeros_like(w[:, :1]), w], axis=1)
        return moved.at[self.quaternions].set(product(q[self.quaternions], spin) / 2)

    def normalise(self, q: Array) -> Array:
        """(n,) q with quaternions of length one."""
        q = jnp.asarray(q)
        return q.at[self.quaternions].set(_unit(q[self.quaternions]))

    def advance(self, q: Array, u: Array, s: Any) -> Array:
        """(n,) where one velocity u leads to from q within s seconds."""
        moved = q + s * jnp.where(self.plain, u[self.source], 0)
        turn = poses.quaternion(s * u[self.spins])
        return moved.at[self.quaternions].set(product(q[self.quaternions], turn))

    def screws(self, frames: Frames) -> tuple[Array, Array]:
        """(d, 3) axes along or about which each velocity moves, and (d, 3) points on these axes [m]."""
        dtype = frames.place.dtype
        own = jnp.asarray(self.dof_axis, dtype)
        axis = jnp.where(self.dof_fixed[:, None], own, poses.turn(frames.turn[self.dof_frame], own))
        return axis, frames.points(self.dof_frame, self.dof_anchor)

    def jacobian(self, frames: Frames, frame: np.ndarray, point: Array) -> Array:
        """(k, 6, d) of the velocities of points (k, 3) in the world that belong to frames (k,), and of their spins."""
        axis, anchor = self.screws(frames)
        moment = jnp.cross(axis[None], point[:, None] - anchor[None])
        turns = self.dof_turns[None, :, None]
        spin = jnp.broadcast_to(jnp.where(turns, axis[None], 0), moment.shape)
        rows = jnp.concatenate([jnp.where(turns, moment, axis[None]), spin], axis=2)
        return jnp.where(self.moves[frame][:, :, None], rows, 0).swapaxes(1, 2)

    def velocities_of(self, frames: Frames, u: Array, frame: np.ndarray, point: Array) -> Array:
        """(k, 3) velocities of points (k, 3) in the world that belong to frames (k,) [m/s]."""
        every = np.arange(self.parent.size)
        twist = self.jacobian(frames, every, frames.place) @ u
        return twist[frame, :3] + jnp.cross(twist[frame, 3:], point - frames.place[frame])


def _columns(tree: Tree) -> dict[str, np.ndarray]:
    """What follows from the joints for each velocity, each coordinate and each quaternion."""
    d, n = tree.velocities, tree.coordinates
    dof_frame, source = np.zeros(d, int), np.zeros(n, int)
    dof_axis, dof_anchor = np.zeros((d, 3)), np.zeros((d, 3))
    dof_turns, dof_fixed, plain = np.zeros(d, bool), np.zeros(d, bool), np.zeros(n, bool)
    turning, quaternions, spins, floating, places = [], [], [], [], []
    for frame in range(1, tree.parent.size):
        kind, q, u = tree.kind[frame], tree.position[frame], tree.velocity[frame]
        if kind == FREE:
            floating.append(frame)
            places.append(q + np.arange(3))
            dof_frame[u : u + 3], dof_axis[u : u + 3], dof_fixed[u : u + 3] = frame, np.eye(3), True
            source[q : q + 3], plain[q : q + 3] = u + np.arange(3), True
            q, u = q + 3, u + 3
        if kind in (FREE, BALL):
            turning.append(frame)
            quaternions.append(q + np.arange(4))
            spins.append(u + np.arange(3))
            dof_axis[u : u + 3] = np.eye(3)
        else:
            dof_axis[u], source[q], plain[q] = tree.axis[frame], u, True
        width = slice(u, u + (3 if kind in (FREE, BALL) else 1))
        dof_frame[width], dof_anchor[width], dof_turns[width] = frame, tree.anchor[frame], kind != SLIDE
    moves = np.zeros((tree.parent.size, d), bool)
    for frame in range(1, tree.parent.size):
        moves[frame] = moves[tree.parent[frame]] | (dof_frame == frame)
    return {
        "dof_frame": dof_frame, "dof_axis": dof_axis, "dof_anchor": dof_anchor, "dof_turns": dof_turns,
        "dof_fixed": dof_fixed, "moves": moves, "source": source, "plain": plain,
        "turning": np.array(turning, int), "quaternions": np.array(quaternions, int).reshape(-1, 4),
        "spins": np.array(spins, int).reshape(-1, 3), "floating": np.array(floating, int),
        "places": np.array(places, int).reshape(-1, 3),
    }  # fmt: skip


class Body(NamedTuple):
    """Bodies that move: constant arrays of numpy.

    Attributes:
        frame: (b,) that each is fixed to.
        place, quaternion: (b, 3), (b, 4) of its own frame therein.
        principal: (b, 4) quaternions of the principal axes in its own frame.
    """

    frame: np.ndarray
    place: np.ndarray
    quaternion: np.ndarray
    principal: np.ndarray


def _carried(tree: Tree, bodies: Body, q: Array, centre: Array) -> tuple[Array, Array]:
    """(b, 6, d) Jacobians of the bodies at their centres of mass, and (b, 3, 3) their principal axes."""
    frames = tree.frames(q)
    own = jnp.asarray(bodies.quaternion, q.dtype)
    local = jnp.asarray(bodies.place, q.dtype) + _rotated(own, centre)
    axes = product(frames.quaternion[bodies.frame], product(own, jnp.asarray(bodies.principal, q.dtype)))
    turn = poses.rotation(jnp.concatenate([local, axes], axis=1))
    return tree.jacobian(frames, bodies.frame, frames.points(bodies.frame, local)), turn


def mass_matrix(tree: Tree, bodies: Body, q: Array, mass: Array, inertia: Array, centre: Array) -> Array:
    """(d, d) sum J^T M J, without armature. Arguments as of `inertial_force`."""
    J, axes = _carried(tree, bodies, q, centre)
    spin = _in_axes(axes, J[:, 3:])
    heavy = jnp.concatenate([mass[:, None, None] * J[:, :3], inertia[:, :, None] * spin], axis=1)
    light = jnp.concatenate([J[:, :3], spin], axis=1)
    return heavy.reshape(-1, tree.velocities).T @ light.reshape(-1, tree.velocities)


def inertial_force(
    tree: Tree, bodies: Body, q: Array, u: Array, mass: Array, inertia: Array, centre: Array, weight: Array
) -> Array:
    """(d,) weight, Coriolis, centrifugal and gyroscopic forces.

    Args:
        tree, bodies: what moves.
        q, u: (n,), (d,).
        mass: (b,) [kg], inertia: (b, 3) principal moments [kg m^2], centre: (b, 3) of mass in the body's frame [m].
        weight: (b, 3) forces on the centres of mass [N].
    """
    (J, axes), (dJ, _) = jax.jvp(lambda q: _carried(tree, bodies, q, centre), (q,), (tree.rate(q, u),))
    bias, spin = dJ @ u, _in_axes(axes, J[:, 3:])
    w = spin @ u
    turned = _in_axes(axes, bias[:, 3:, None])[:, :, 0]
    torque = -inertia * turned - jnp.cross(w, inertia * w)
    force = weight - mass[:, None] * bias[:, :3]
    rows = jnp.concatenate([J[:, :3], spin], axis=1)
    return jnp.concatenate([force, torque], axis=1).ravel() @ rows.reshape(-1, u.size)


def _in_axes(axes: Array, columns: Array) -> Array:
    """(b, 3, k) columns along the principal axes (b, 3, 3) of each body."""
    return jnp.sum(axes[:, :, :, None] * columns[:, :, None, :], axis=1)


def product(a: Array, b: Array) -> Array:
    """(k, 4) products of quaternions w x y z."""
    s, v, r, w = a[:, :1], a[:, 1:], b[:, :1], b[:, 1:]
    real = s * r - jnp.sum(v * w, axis=1, keepdims=True)
    return jnp.concatenate([real, s * w + r * v + jnp.cross(v, w)], axis=1)


def _rotated(quaternion: Array, vector: Array) -> Array:
    """(k, 3) vectors turned by unit quaternions (k, 4)."""
    s, v = quaternion[:, :1], quaternion[:, 1:]
    return vector + 2 * jnp.cross(v, jnp.cross(v, vector) + s * vector)


def _unit(quaternion: Array) -> Array:
    """(k, 4) of length one; zero stays zero."""
    squared = jnp.sum(quaternion**2, axis=1, keepdims=True)
    return quaternion / jnp.sqrt(jnp.where(squared > 0, squared, 1.0))
