"""Compute a tree of rigid bodies on joints: poses, mass matrix, forces by Kane's equations, constraints of equality.

Each joint carries a frame; frame 0 is the world. A body is fixed to one frame. All frames are computed at once: the
transforms X of the frames relative to their parents are multiplied in pairs, then these products, so that a chain of
length k takes log2(k) steps::

    X_i <- X_p(i) X_i,    p(i) <- p(p(i))      until every p(i) is the world

    hinge   X = C (1 + sin(a) K + (1 - cos(a)) K^2) about its anchor, K the matrix of the cross product with the axis
    slide   X = C (1, a axis)         ball, free   the rotation of a unit quaternion

With J (b, 6, d) the velocities of the centres of mass and the angular velocities, D = diag(m, I) of each body::

    mass    sum J^T D J + diag(armature)
    force   sum J^T (F - D J' u - (0, w x I w)) + joint forces,      J' u by automatic differentiation along the motion

Source: T. R. Kane, D. A. Levinson, Dynamics: Theory and Applications (1985), chapter 6. Parallel products: W. D.
Hillis, G. L. Steele, Data parallel algorithms, Comm. ACM 29 (1986).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.numerics.linear import nonzero
from diffcontact.systems import poses

FREE, BALL, SLIDE, HINGE = range(4)


# The cross product: (a x b)_i = e_ijk a_j b_k.
_CROSS = np.zeros((3, 3, 3))
_CROSS[[0, 1, 2], [1, 2, 0], [2, 0, 1]], _CROSS[[0, 1, 2], [2, 0, 1], [1, 2, 0]] = 1, -1


class Frames(NamedTuple):
    """Hold the homogeneous transforms (n + 1, 4, 4) from all frames to the world."""

    transform: Array

    @property
    def turn(self) -> Array:
        """Return rotations (n + 1, 3, 3) from the frames to the world."""
        return self.transform[:, :3, :3]

    @property
    def place(self) -> Array:
        """Return origins (n + 1, 3) [m]."""
        return self.transform[:, :3, 3]

    def points(self, frame: np.ndarray, local: np.ndarray | Array) -> Array:
        """Return points (k, 3) of these frames (k,) in the world [m]."""
        return self.directions(frame, local) + self.place[frame]

    def directions(self, frame: np.ndarray, local: np.ndarray | Array) -> Array:
        """Return vectors (k, 3) of these frames (k,) along the axes of the world."""
        return dot("kij,kj->ki", self.turn[frame], local)


def dot(subscripts: str, *factors: Any) -> Array:
    """Sum by `einsum` in the last JAX array's precision, not an accelerator's."""
    dtype = jnp.result_type(*(x for x in factors if isinstance(x, Array)))
    return jnp.einsum(subscripts, *(jnp.asarray(x, dtype) for x in factors), precision="highest")


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
        terms: (n + 1, 4, 4, 4) what 1, sin(angle), 1 - cos(angle) and the way are multiplied by in the transform.
        dof_frame, dof_axis, dof_anchor: of each velocity its frame (d,), its axis (d, 3) in the frame `dof_axes` (d,),
            which is the world for the straight velocities of free joints, and a point (d, 3) on the axis.
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
    dof_axes: np.ndarray = field(init=False)
    terms: np.ndarray = field(init=False)
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
        moved = jnp.where(self.kind >= SLIDE, q[self.position] - jnp.asarray(self.rest, q.dtype), 0)
        angle, way = jnp.where(self.kind == HINGE, moved, 0), jnp.where(self.kind == SLIDE, moved, 0)
        terms = jnp.stack([jnp.ones_like(way), jnp.sin(angle), 1 - jnp.cos(angle), way], axis=1)
        transform = dot("nt,ntij->nij", terms, self.terms)
        if self.turning.size:
            transform = transform.at[self.turning].set(self._turned(q))
        parent = self.parent
        while parent.any():
            # Not by `dot`: jaxlib 0.10 does not compile that product under two vmaps, or aborts.
            transform = jnp.sum(transform[parent][..., None] * transform[:, None], axis=2)
            parent = parent[parent]
        return Frames(transform)

    def _turned(self, q: Array) -> Array:
        """Return transforms of ball and free joints in their parents' frames (k, 4, 4)."""
        turn = poses.rotation(jnp.concatenate([jnp.zeros((self.turning.size, 3), q.dtype), q[self.quaternions]], 1))
        anchor = jnp.asarray(self.anchor[self.turning], q.dtype)
        place = anchor - dot("kij,kj->ki", turn, anchor)
        if self.floating.size:
            place = place.at[np.searchsorted(self.turning, self.floating)].set(q[self.places])
        top = jnp.concatenate([turn, place[:, :, None]], axis=2)
        last = jnp.broadcast_to(jnp.array([[[0.0, 0.0, 0.0, 1.0]]], q.dtype), (len(top), 1, 4))
        return dot("kij,kjl->kil", self.terms[self.turning, 0], jnp.concatenate([top, last], axis=1))

    def orientations(self, q: Array) -> Array:
        """Return unit quaternions w x y z from the frames to the world (n + 1, 4)."""
        angle = jnp.where(self.kind == HINGE, q[self.position] - jnp.asarray(self.rest, q.dtype), 0)[:, None] / 2
        own = jnp.concatenate([jnp.cos(angle), jnp.sin(angle) * jnp.asarray(self.axis, q.dtype)], axis=1)
        if self.turning.size:
            own = own.at[self.turning].set(_unit(q[self.quaternions]))
        own, parent = poses.product(jnp.asarray(self.quaternion, q.dtype), own), self.parent
        while parent.any():
            own, parent = poses.product(own[parent], own), parent[parent]
        return own

    def rate(self, q: Array, u: Array) -> Array:
        """Return q' (n,): u itself, and 1/2 quaternion * (0, w), w in the turned frame."""
        moved = jnp.where(self.plain, u[self.source], 0)
        if not self.turning.size:
            return moved
        w = u[self.spins]
        w = jnp.concatenate([jnp.zeros_like(w[:, :1]), w], axis=1)
        return moved.at[self.quaternions].set(poses.product(q[self.quaternions], w) / 2)

    def normalise(self, q: Array) -> Array:
        """Return q (n,) with quaternions of length one."""
        q = jnp.asarray(q)
        return q.at[self.quaternions].set(_unit(q[self.quaternions]))

    def advance(self, q: Array, u: Array, s: Any) -> Array:
        """Return the configuration (n,) after s seconds of one velocity u from q."""
        moved = q + s * jnp.where(self.plain, u[self.source], 0)
        turn = poses.quaternion(s * u[self.spins])
        return moved.at[self.quaternions].set(poses.product(q[self.quaternions], turn))

    def dexpinv(self, theta: Array, u: Array) -> Array:
        """Return theta' (d,) for which `advance`(q, theta, 1) moves with u, as `poses.turning_dexpinv`."""
        zero = jnp.zeros((self.turning.size, 3), u.dtype)
        both = (jnp.concatenate([zero, x[self.spins]], axis=1).ravel() for x in (-theta, u))
        return jnp.asarray(u).at[self.spins].set(poses.turning_dexpinv(*both).reshape(-1, 6)[:, 3:])

    def jacobian(self, frames: Frames, frame: np.ndarray, point: Array) -> Array:
        """Differentiate points (k, 3) in the world and spins of frames (k,) (k, 6, d)."""
        axis = frames.directions(self.dof_axes, self.dof_axis)
        anchor = frames.points(self.dof_frame, self.dof_anchor)
        turns = self.dof_turns[:, None]
        angular, straight = jnp.where(turns, axis, 0), jnp.where(turns, 0, axis)
        moment = dot("dil,kdl->kid", dot("ijl,dj->dil", _CROSS, angular), point[:, None] - anchor[None])
        spins = jnp.broadcast_to(angular.T[None], moment.shape)
        return jnp.where(self.moves[frame][:, None], jnp.concatenate([moment + straight.T[None], spins], axis=1), 0)


def _columns(tree: Tree) -> dict[str, np.ndarray]:
    """Derive arrays for each velocity, coordinate and quaternion from the joints."""
    d, n = tree.velocities, tree.coordinates
    dof_frame, dof_axes, source = np.zeros(d, int), np.zeros(d, int), np.zeros(n, int)
    dof_axis, dof_anchor = np.zeros((d, 3)), np.zeros((d, 3))
    dof_turns, plain = np.zeros(d, bool), np.zeros(n, bool)
    turning, quaternions, spins, floating, places = [], [], [], [], []
    for frame in range(1, tree.parent.size):
        kind, q, u = tree.kind[frame], tree.position[frame], tree.velocity[frame]
        if kind == FREE:
            floating.append(frame)
            places.append(q + np.arange(3))
            dof_frame[u : u + 3], dof_axis[u : u + 3] = frame, np.eye(3)
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
        dof_frame[width], dof_axes[width], dof_turns[width] = frame, frame, kind != SLIDE
        dof_anchor[width] = tree.anchor[frame]
    moves = np.zeros((tree.parent.size, d), bool)
    for frame in range(1, tree.parent.size):
        moves[frame] = moves[tree.parent[frame]] | (dof_frame == frame)
    return {
        "dof_frame": dof_frame, "dof_axis": dof_axis, "dof_anchor": dof_anchor, "dof_turns": dof_turns,
        "dof_axes": dof_axes, "terms": _terms(tree), "moves": moves, "source": source, "plain": plain,
        "turning": np.array(turning, int), "quaternions": np.array(quaternions, int).reshape(-1, 4),
        "spins": np.array(spins, int).reshape(-1, 3), "floating": np.array(floating, int),
        "places": np.array(places, int).reshape(-1, 3),
    }  # fmt: skip


def _terms(tree: Tree) -> np.ndarray:
    found = np.zeros((tree.parent.size, 4, 4, 4))
    K = np.einsum("ijl,nj->nil", _CROSS, tree.axis)
    found[:, 0] = np.eye(4)
    for k, turn in ((1, K), (2, K @ K)):
        found[:, k, :3, :3] = turn
        found[:, k, :3, 3] = -np.einsum("nij,nj->ni", turn, tree.anchor)
    found[:, 3, :3, 3] = tree.axis
    C = np.tile(np.eye(4), (tree.parent.size, 1, 1))
    C[:, :3, :3], C[:, :3, 3] = matrices(tree.quaternion), tree.place
    return np.einsum("nij,ntjk->ntik", C, found)


def matrices(quaternion: np.ndarray) -> np.ndarray:
    """Return rotations (k, 3, 3) of unit quaternions (k, 4), in numpy."""
    w, v = quaternion[:, :1, None], quaternion[:, 1:]
    cross = np.einsum("ijl,nj->nil", _CROSS, v)
    return np.eye(3) + 2 * (w * cross + cross @ cross)


class Place(NamedTuple):
    """Hold places (k, 3) and quaternions (k, 4) of axes fixed to frames (k,)."""

    frame: np.ndarray
    place: np.ndarray
    quaternion: np.ndarray


class Body(NamedTuple):
    """Hold bodies that move, as constant arrays of numpy.

    Attributes:
        frame: (b,) that each is fixed to.
        place, quaternion: (b, 3), (b, 4) of its own frame therein.
        principal: (b, 4) quaternions of the principal axes in its own frame.
    """

    frame: np.ndarray
    place: np.ndarray
    quaternion: np.ndarray
    principal: np.ndarray


def _carried(tree: Tree, bodies: Body, q: Array, centre: Array) -> Array:
    """Return velocities of centres of mass and, along principal axes, angular ones (b, 6, d)."""
    frames = tree.frames(q)
    turn = matrices(bodies.quaternion)
    local = dot("bij,bj->bi", turn, centre) + jnp.asarray(bodies.place, q.dtype)
    J = tree.jacobian(frames, bodies.frame, frames.points(bodies.frame, local))
    axes = dot("bij,bjl->bil", frames.turn[bodies.frame], turn @ matrices(bodies.principal))
    return jnp.concatenate([J[:, :3], dot("bil,bid->bld", axes, J[:, 3:])], axis=1)


def mass_matrix(tree: Tree, bodies: Body, q: Array, mass: Array, inertia: Array, centre: Array) -> Array:
    """Return sum J^T D J (d, d), without armature; arguments as of `inertial_force`."""
    J = _carried(tree, bodies, q, centre)
    return dot("bid,bie->de", _momenta(mass, inertia, J), J)


def inertial_force(
    tree: Tree, bodies: Body, q: Array, u: Array, mass: Array, inertia: Array, centre: Array, weight: Array
) -> Array:
    """Return weight, Coriolis, centrifugal and gyroscopic forces (d,).

    The angular velocities w_p = R^T w along the principal axes have R^T w' = w_p', so that D J' u needs no other term.

    Args:
        mass: (b,) [kg], centre: (b, 3) of mass in the body's frame [m].
        inertia: (b, 3) moments [kg m^2] about the principal axes, or (b, 3, 3) along the axes of `bodies.principal`.
        weight: (b, 3) forces on the centres of mass [N].
    """
    J, dJ = jax.jvp(lambda q: _carried(tree, bodies, q, centre), (q,), (tree.rate(q, u),))
    velocity, bent = (dot("bid,d->bi", of, u)[:, :, None] for of in (J, dJ))
    gyroscopic = jnp.cross(velocity[:, 3:, 0], _momenta(mass, inertia, velocity)[:, 3:, 0])
    given = jnp.concatenate([weight, -gyroscopic], axis=1)
    return dot("bid,bi->d", J, given - _momenta(mass, inertia, bent)[:, :, 0])


def _momenta(mass: Array, inertia: Array, velocity: Array) -> Array:
    """Return D times velocities (b, 6, k)."""
    w = velocity[:, 3:]
    spins = inertia[:, :, None] * w if inertia.ndim == 2 else dot("bij,bjk->bik", inertia, w)
    return jnp.concatenate([mass[:, None, None] * velocity[:, :3], spins], axis=1)


def _unit(quaternion: Array) -> Array:
    """Normalise quaternions (k, 4); zero stays zero."""
    squared = jnp.sum(quaternion**2, axis=1, keepdims=True)
    return quaternion / jnp.sqrt(nonzero(squared))


@dataclass(frozen=True, eq=False)
class Equalities:
    """Hold constraints phi(q) = 0 between frames and joints of a tree, as constant arrays.

    Attributes:
        frames: (k, 2) frames whose points `local` (k, 2, 3) stay together.
        welded: (w, 2) frames whose bodies' orientations, `own` (w, 2, 4), differ by `turned` (w, 4).
        weights: (p, 2, n) of q - `rest` in two sums; the first is the polynomial `terms` (p, 5) of the second.
        rows: (m,) those rows of phi that do not follow from the others.
    """

    frames: np.ndarray
    local: np.ndarray
    welded: np.ndarray
    own: np.ndarray
    turned: np.ndarray
    weights: np.ndarray
    rest: np.ndarray
    terms: np.ndarray
    rows: np.ndarray

    def off(self, tree: Tree, q: Array) -> Array:
        """Return phi (m,): distances [m], vector parts of quaternions, and coordinates [m or rad]."""
        parts = [jnp.zeros(0, q.dtype)]
        if len(self.frames):
            at = tree.frames(q)
            one, other = (at.points(self.frames[:, i], self.local[:, i]) for i in range(2))
            parts.append((one - other).ravel())
        if len(self.welded):
            of = tree.orientations(q)
            one, other = (poses.product(of[self.welded[:, i]], jnp.asarray(self.own[:, i], q.dtype)) for i in range(2))
            back = other * jnp.array([[1.0, -1.0, -1.0, -1.0]], q.dtype)
            parts.append(poses.product(back, poses.product(one, jnp.asarray(self.turned, q.dtype)))[:, 1:].ravel())
        if len(self.weights):
            moved = dot("pin,n->pi", self.weights, q - jnp.asarray(self.rest, q.dtype))
            powers = jnp.stack([moved[:, 1] ** n for n in range(self.terms.shape[1])], axis=1)
            parts.append(moved[:, 0] - dot("pn,pn->p", powers, self.terms))
        return jnp.concatenate(parts)[self.rows]


def coordinates(
    found: Equalities, tree: Tree, start: np.ndarray, wanted: np.ndarray | None
) -> tuple[Equalities, np.ndarray]:
    """Drop rows that follow from others, and choose independent velocities (d - m,).

    Args:
        start: (n,) the configuration of the file; ranks are those a little aside, where it is at no dead point.
        wanted: velocities (d - m,), or None for the least constrained ones; ValueError if some follow from others.
    """

    def slope(start, aside):
        there = tree.advance(start, aside, 1.0)
        return jax.jacfwd(lambda u: found.off(tree, tree.advance(there, u, 1.0)))(jnp.zeros_like(aside))

    number = np.arange(tree.velocities, dtype=float)
    J = np.asarray(jax.jit(slope)(start, 0.05 * np.cos(number)))
    rows = np.sort(pivots(J.T))
    open_ = np.setdiff1d(number, [] if wanted is None else wanted).astype(int)
    others = open_[pivots(J[np.ix_(rows, open_)])]
    kept = np.setdiff1d(number, others).astype(int)
    if others.size < rows.size or (wanted is not None and kept.size != len(wanted)):
        count = tree.velocities - rows.size
        raise ValueError(
            f"expected {count} velocities that give all others, got {0 if wanted is None else len(wanted)}"
        )
    return replace(found, rows=found.rows[rows]), kept


def pivots(A: np.ndarray, tolerance: float = 1e-4) -> np.ndarray:
    """Return columns of A (m, n) that span all, the longest first, by Gram-Schmidt.

    Shorter columns are rounding. The tolerance is that of single precision, with a margin of a hundred.
    """
    left, found = np.array(A, float), []
    size = np.max(np.linalg.norm(left, axis=0), initial=0.0)
    for _ in range(min(A.shape)):
        lengths = np.linalg.norm(left, axis=0)
        longest = int(np.argmax(lengths))
        if lengths[longest] <= tolerance * size:
            break
        found.append(longest)
        axis = left[:, longest] / lengths[longest]
        left -= np.outer(axis, axis @ left)
    return np.array(found, int)
