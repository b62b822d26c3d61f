"""Write Coulomb's law in one unit, verify it, smooth it for Newton's method, and differentiate it at the modes.

Where modes do not change, the law is F(r, w, mu) = 0 with w = H u + h and M (u - v) = H^T r, that is

    open     r = 0
    stick    w = 0
    slip     w_N = 0,    B = mu P e,    e = z/|z|,    z = B - rho w_T

and all of it is linear in the tangents. Of rows that are held at w = 0 and depend on each other a largest independent
subset is held, and the reactions go on being shared evenly (`Sharing`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import custom_jvp_all_orders, where_wanted
from diffcontact.numerics.linear import length
from diffcontact.qp.rows import independent_slots, inverse_length, members


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Contacts:
    """Hold c contacts of k tangential directions; reactions and velocities are (c, 1 + k), normal first.

    Between reactions and velocities is the relation w = W r + q.

    The rows of a contact are whitened by the mass, scaled so that its normal row has length one, and its tangential
    rows are turned into the eigenbasis of what the normal row leaves of them. Coulomb's law is the same before and
    after, and in any unit: in the unit of velocities and reactions their squares are numbers of a float, however light
    the bodies.

    A contact that slips in a known direction d is one without friction that pushes obliquely, along N - mu d^T S.

    Args:
        root: L with M = L L^T.
        rows: (c, 1 + k, d) L^-1 H, scaled and turned. Zero where switched off.
        pushes: (c, 1 + k, d) what the reactions push along: the rows, but of contacts whose slip is known.
        scale: (c,) factor of the rows and velocities of a contact.
        springs: (c, 1 + k) compliance of the springs on which dependent rows share their load: equal ones, as the rows
            are given; with known slips those of the rows, as in the motion.
        compliance: (c, 1 + k) of the springs that carry the contacts; zero of rigid ones.
        turn: (c, k, k) rotation of its tangential directions.
        W: (c, 1 + k, c, 1 + k) Delassus matrix, of rows and pushes.
        measure: () the unit of velocities and reactions, a power of two.
        q: (c, 1 + k) velocities without reactions; a contact that is switched off moves away as fast as any.
        friction: (c,) mu.
        unit: () the largest of |q|, from 1/2 to 1 where one is not zero.
        noise: () the rounding of q.
    """

    root: jax.Array
    rows: jax.Array
    pushes: jax.Array
    scale: jax.Array
    springs: jax.Array
    compliance: jax.Array
    turn: jax.Array
    W: jax.Array
    measure: jax.Array
    q: jax.Array
    friction: jax.Array
    unit: jax.Array
    noise: jax.Array

    @classmethod
    def of(cls, mass, H, h, friction, v, on, along=None) -> Contacts:
        """Prepare rows H (c, 1 + k, d) and offsets h (c, 1 + k), both zero unless `on` (c,).

        Args:
            along: None, or (c, k) directions of length one of known slips, zero of contacts whose slip is not known.
        """
        shape = H.shape
        if along is not None:
            known = jnp.any(along != 0, axis=1)
            oblique = H[:, 0] - friction[:, None] * jnp.einsum("ck,ckd->cd", along, H[:, 1:])
            only_normal = (jnp.arange(shape[1]) == 0)[None] | ~known[:, None]
            H, h = jnp.where(only_normal[:, :, None], H, 0), jnp.where(only_normal, h, 0)
            friction = jnp.where(known, 0, friction)
        root, rows, scale = whitened(mass, H)
        q = scale[:, None] * (jnp.einsum("cid,d->ci", H, v) + h)
        size = scale[:, None] * (jnp.einsum("cid,d->ci", jnp.abs(H), jnp.abs(v)) + jnp.abs(h))
        turn = _eigenbasis(rows)
        rows = jnp.concatenate([rows[:, :1], jnp.einsum("cij,cjd->cid", turn, rows[:, 1:])], axis=1)
        pushes, springs = rows, jnp.broadcast_to(scale[:, None] ** 2, shape[:2])
        if along is not None:
            springs = jnp.sum(rows * rows, axis=2)
            oblique = scale[:, None] * linear.whiten(root, oblique.T).T
            pushes = rows.at[:, 0].set(jnp.where(known[:, None], oblique, rows[:, 0]))
        q = jnp.concatenate([q[:, :1], jnp.einsum("cij,cj->ci", turn, q[:, 1:])], axis=1)
        q = jnp.where(on[:, None], q, 0)
        measure = _power_of_two(jnp.max(jnp.abs(q)))
        q, size = q / measure, size / measure
        unit = jnp.max(jnp.abs(q))
        away = jnp.where((jnp.arange(shape[1]) == 0) & (unit > 0), unit, 0)
        return cls(
            root=root,
            rows=rows,
            pushes=pushes,
            scale=scale,
            springs=springs,
            compliance=jnp.zeros_like(q),
            turn=turn,
            W=jnp.einsum("cid,ejd->ciej", rows, pushes),
            measure=measure,
            q=jnp.where(on[:, None], q, away[None, :]),
            friction=friction,
            unit=unit,
            noise=4 * jnp.finfo(q.dtype).eps * jnp.max(size),
        )

    def blocks(self):
        """Return each contact's own part of W (c, 1 + k, 1 + k)."""
        each = jnp.arange(self.q.shape[0])
        return self.W[each, :, each, :]

    def on_springs(self) -> Contacts:
        """Return the contacts on springs that give way by a root of the rounding of W, so that no rows depend."""
        compliance = jnp.finfo(self.q.dtype).eps ** 0.5 * self.springs
        W = self.W + jnp.diag(compliance.reshape(-1)).reshape(self.W.shape)
        return replace(self, W=W, compliance=compliance)

    def velocities(self, reactions):
        return self.response(reactions) + self.compliance * reactions + self.q

    def response(self, reactions):
        return self.along(self.step(reactions))

    def along(self, way):
        """Return the change (c, 1 + k) of the velocities by a way (d,) of L^T u."""
        return jnp.einsum("cid,d->ci", self.rows, way)

    def step(self, reactions):
        """Return the way L^-1 H^T r (d,) that reactions lead, in their unit."""
        return jnp.einsum("cid,ci->d", self.pushes, reactions)

    def strides(self):
        """Compare velocities with reactions (c, 1 + k): 1/W_NN, and 1 over the mean of W_TT."""
        diagonal = jnp.diagonal(self.blocks(), axis1=1, axis2=2)
        tangential = jnp.broadcast_to(jnp.mean(diagonal[:, 1:], axis=1, keepdims=True), diagonal[:, 1:].shape)
        both = jnp.concatenate([diagonal[:, :1], tangential], axis=1)
        # Reactions along a row that is zero, or far shorter than the normal one, are compared as if it were not.
        return 1 / jnp.where(both > 1e-6, both, 1)

    def original(self, reactions):
        """Return reactions (c, 1 + k) in the directions and the unit of the given rows."""
        tangential = jnp.einsum("cij,ci->cj", self.turn, reactions[:, 1:])
        return self.measure * self.scale[:, None] * jnp.concatenate([reactions[:, :1], tangential], axis=1)


def whitened(mass, H):
    """Return the root of the mass, whitened rows (c, 1 + k, d), and their scale (c,)."""
    root = linear.root_of_mass(mass)
    rows = linear.whiten(root, H.reshape(-1, H.shape[2]).T).T.reshape(H.shape)
    scale = inverse_length(jnp.sum(rows[:, 0] * rows[:, 0], axis=1))
    return root, rows * scale[:, None, None], scale


def _power_of_two(x):
    """Return the least power above x >= 0 whose inverse is a number, too; 1 for 0."""
    least = int(jnp.finfo(x.dtype).minexp) + 2
    return jnp.where(x > 0, jnp.ldexp(jnp.ones_like(x), jnp.clip(jnp.frexp(x)[1], least, -least)), 1)


def _eigenbasis(rows):
    """Return rotations (c, k, k) to orthogonal tangential rows once the normal row is eliminated."""
    count, k = rows.shape[0], rows.shape[1] - 1
    if k == 1:
        return jnp.ones((count, 1, 1), rows.dtype)
    normal = rows[:, :1]
    tangential = rows[:, 1:] - jnp.einsum("cid,cjd->cij", rows[:, 1:], normal) * normal
    S = jnp.einsum("cid,cjd->cij", tangential, tangential)
    angle = jnp.arctan2(2 * S[:, 0, 1], S[:, 0, 0] - S[:, 1, 1]) / 2
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([jnp.stack([cos, sin], axis=1), jnp.stack([-sin, cos], axis=1)], axis=1)


def onto_cone(r, friction):
    """Project r = (P, B) (c, 1 + k) onto the cones |B| <= mu P."""
    P, size = r[:, 0], length(r[:, 1:])
    on_boundary = (P + friction * size) / (1 + friction**2)
    direction = r[:, 1:] / linear.nonzero(size)[:, None]
    boundary = jnp.concatenate([on_boundary[:, None], (friction * on_boundary)[:, None] * direction], axis=1)
    outside = jnp.where((size <= friction * P)[:, None], r, boundary)
    # Without friction the cone is a half-line, and what is not in front of its end is behind it.
    return jnp.where((friction * size <= -P)[:, None], 0, outside)


def natural_map(r, w, friction, stride):
    """Return r - Proj_K(r - rho (w_N + mu |w_T|, w_T)) (c, 1 + k), zero iff r, w obey.

    K is the cone |B| <= mu P. With De Saxce's change of variable the law is one complementarity between K and its dual.
    `stride` (c,) is rho > 0.

    Reference:
        V. Acary, F. Cadoux, C. Lemarechal, J. Malick, A formulation of the linear discrete Coulomb friction problem via
        convex optimization, ZAMM 91 (2011), section 2.
    """
    raised = w[:, 0] + friction * length(w[:, 1:])
    dual = jnp.concatenate([raised[:, None], w[:, 1:]], axis=1)
    return r - onto_cone(r - stride[:, None] * dual, friction)


def smoothed(r, w, friction, stride, width):
    """Round one contact's law off: r - (its bounds on r - rho w), all (1 + k,).

        P = [P - rho_N w_N]_+        B = z R / max(R, |z|),    z = B - rho_T w_T,    R = mu [P - rho_N w_N]_+

    with [x]_+ = (x + sqrt(x^2 + 4 width^2))/2 and max alike, width > 0. Without the rounding this is the function of
    Alart and Curnier, whose Jacobian is that of the modes open, stick and slip. `stride` (1 + k,) is rho.

    Reference:
        P. Alart, A. Curnier, A mixed formulation for frictional contact problems prone to Newton like solution methods,
        Comput. Methods Appl. Mech. Eng. 92 (1991); C. Chen, O. L. Mangasarian, Comput. Optim. Appl. 5 (1996).
    """

    def larger(a, b):
        return (a + b + jnp.sqrt((a - b) ** 2 + 4 * width * width)) / 2

    moved = r - stride * w
    normal, z = larger(moved[0], 0), moved[1:]
    bound = friction * normal
    size = jnp.sqrt(jnp.sum(z * z) + width * width)
    return r - jnp.concatenate([normal[None], z * (bound / larger(bound, size))])


def linearised(contacts, r, w, stride, width):
    """Return `smoothed` F (c, 1 + k), and dF/dr and dF/dw (c, 1 + k, 1 + k)."""

    def value(r, w, friction, stride):
        F = smoothed(r, w, friction, stride, width)
        return F, F

    by_both = jax.vmap(jax.jacfwd(value, argnums=(0, 1), has_aux=True))
    (by_reaction, by_velocity), F = by_both(r, w, contacts.friction, stride)
    return F, by_reaction, by_velocity


def assemble(by_reaction, by_velocity, W):
    """Return the matrix (n, n) of dr -> by_reaction dr + by_velocity W dr, n = c (1 + k)."""
    count, size = by_reaction.shape[:2]
    each = jnp.arange(count)
    matrix = jnp.einsum("cij,cjef->cief", by_velocity, W).at[each, :, each, :].add(by_reaction)
    return matrix.reshape(count * size, count * size)


def solvable(matrix, right):
    """Tell whether matrix x = right (n,) has a solution that is not all cancellation."""
    x = linear.solve(matrix, right)
    largest = jnp.finfo(right.dtype).eps ** -0.75 * jnp.max(jnp.abs(right))
    return jnp.all(jnp.isfinite(x)) & (jnp.max(jnp.abs(x)) <= largest)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Modes:
    """Hold contact modes (c,): open if not closed, stick if closed without slip."""

    closed: jax.Array
    slip: jax.Array

    @classmethod
    def of(cls, r, w, friction, stride, error=0.0) -> Modes:
        """Read the modes of reactions r and velocities w (c, 1 + k), up to rounding.

        At a tie, a closed contact without a load or a stuck one at its bound, rounding decides between open and closed,
        and stick is preferred to slip. Without friction contacts slip. `error` is what the velocities are wrong by.
        """
        closed = r[:, 0] > stride[:, 0] * w[:, 0]
        # Slip at less than a thousand roundings of what is compared is none, nor is slip at less than its own error.
        # How fast open contacts go apart, of which a wall far away does by gap / h, is no part of it.
        compared = jnp.max(jnp.abs(r)) + jnp.max(jnp.where(closed[:, None], jnp.abs(w), 0))
        margin = 1e3 * jnp.finfo(r.dtype).eps * compared + 8 * error
        excess = length(r[:, 1:] - stride[:, 1:] * w[:, 1:]) - friction * r[:, 0]
        return cls(closed=closed, slip=closed & ((excess > margin) | (friction == 0)))

    def held(self, size):
        """Return (c, size) bool, rows that hold their velocity: all in stick, normal in slip."""
        return self.closed[:, None] & ((jnp.arange(size) == 0)[None] | ~self.slip[:, None])

    def apply(self, r, w, friction, stride):
        """Return the reactions (c, 1 + k) nearest to r that are in the modes."""
        normal = jnp.where(self.closed, jnp.maximum(r[:, 0], 0), 0)
        bound = friction * normal
        slipping = bound[:, None] * slip_direction(r, w, stride)
        size = length(r[:, 1:])
        sticking = r[:, 1:] * jnp.where(size > bound, bound / linear.nonzero(size), 1)[:, None]
        return jnp.concatenate([normal[:, None], jnp.where(self.slip[:, None], slipping, sticking)], axis=1)


def slip_direction(r, w, stride):
    """Return the direction of friction (c, k), against the slip, of length one or zero."""
    z = r[:, 1:] - stride[:, 1:] * w[:, 1:]
    size = length(z)
    return z / linear.nonzero(size)[:, None]


class Sharing(NamedTuple):
    """Say which of n = c (1 + k) rows hold their velocity, and how dependent rows share.

    A box that lies flat on four corners has one load too many. On equal springs with N u = -(load / stiffness) the
    loads are what they are at corners of a rigid body: where a combination of rows is zero, y^T N = 0, so is that of
    the loads, y^T P = 0. Where friction presses nothing that is the split of least norm. Where it does, as of a box
    that slides and pivots, the motion depends on the split, and rigid bodies do not tell it.

    Attributes:
        taken: (n,) bool, a largest independent subset of the held rows.
        dependent: (n,) bool, held rows that depend on it.
        even: (n, n) rows E, zero off dependent j: (E r)_j = 0 where reactions r are shared as by the springs.
    """

    taken: Array
    dependent: Array
    even: Array

    @classmethod
    def of(cls, rows, springs, modes: Modes) -> Sharing:
        """Choose the shares of whitened rows (c, 1 + k, d) at the modes, on springs of that compliance (c, 1 + k)."""
        count, size = rows.shape[:2]
        present = (modes.held(size) & jnp.any(rows != 0, axis=2)).reshape(-1)
        flat = jnp.where(present[:, None], rows.reshape(count * size, -1), 0)
        unit = lax.stop_gradient(flat * inverse_length(jnp.sum(flat * flat, axis=1))[:, None])
        taken = members(independent_slots(unit, present), present.size)
        dependent = present & ~taken

        def combined():
            own = jnp.where(taken[:, None], flat, 0)
            gram = own @ own.T + jnp.diag((~taken).astype(flat.dtype))
            # flat = X^T own, row by row: what is left of a row by these is zero.
            left = jnp.eye(present.size, dtype=flat.dtype) - linear.solve_positive(gram, own @ flat.T).T
            return jnp.where(dependent[:, None], left * springs.reshape(-1)[None, :], 0)

        nothing = jnp.zeros((present.size, present.size), flat.dtype)
        return cls(taken, dependent, where_wanted(jnp.any(dependent), combined, nothing))


@custom_jvp_all_orders
def settle(mass, H, h, friction, v, step, r, modes):
    """Return u = v + step, and the reactions r, with the derivative at the modes.

    Args:
        H: (c, 1 + k, d) rows, zero where switched off.
        h, r: (c, 1 + k) offsets; reactions, whose own derivative is not followed.
        friction: (c,) mu.
        v, step: (d,) velocity before, and M^-1 H^T r.
    """
    return v + step, r


@settle.defjvp
def _settle_jvp(primals, tangents):
    mass, H, h, friction, v, _, r, modes = primals
    dmass, dH, dh, dfriction, dv = tangents[:5]
    u, r = settle(*primals)
    root, rows, scale = whitened(mass, H)

    force = linear.apply_mass(dmass, v - u) + jnp.einsum("cid,ci->d", dH, r)
    freely = dv + linear.unwhiten(root, linear.whiten(root, force))

    def even(mass, H):
        _, rows, scale = whitened(mass, H)
        sharing = Sharing.of(rows, jnp.broadcast_to(scale[:, None], r.shape), modes)
        return sharing.even, sharing

    (_, sharing), (shifted, _) = jax.jvp(even, (mass, H), (dmass, dH))
    matrix, by_reaction, by_velocity, by_friction = _equations(H, h, friction, u, r, modes, rows, scale, sharing)
    factored = linear.LU.of(matrix)

    # The second pass regains the digits that reactions cost which cancel: those of contacts that face each other.
    dr, du = jnp.zeros_like(r), freely
    for _ in range(2):
        dw = scale[:, None] * (jnp.einsum("cid,d->ci", dH, u) + dh + jnp.einsum("cid,d->ci", H, du))
        missed = jnp.einsum("cij,cj->ci", by_reaction, dr) + jnp.einsum("cij,cj->ci", by_velocity, dw)
        missed = (missed + by_friction * dfriction[:, None]).reshape(-1)
        uneven = sharing.even @ (scale[:, None] * dr).reshape(-1) + shifted @ r.reshape(-1)
        change = factored.solve(jnp.where(sharing.dependent, uneven, missed)).reshape(r.shape)
        dr, du = dr - change, du - linear.unwhiten(root, jnp.einsum("cid,ci->d", rows, change))
    return (u, r), (du, scale[:, None] * dr)


def _equations(H, h, friction, u, r, modes, rows, scale, sharing: Sharing):
    """Return the matrix for dr, dF/dw and dF/dmu, at the velocity u (d,)."""
    reactions, velocities = r / scale[:, None], scale[:, None] * (jnp.einsum("cid,d->ci", H, u) + h)
    taken = sharing.taken.reshape(r.shape)
    by_reaction, by_velocity, by_friction = frozen(rows, reactions, velocities, friction, modes, taken)
    matrix = assemble(by_reaction, by_velocity, jnp.einsum("cid,ejd->ciej", rows, rows))
    matrix = jnp.where(sharing.dependent[:, None], sharing.even * scale.repeat(r.shape[1])[None, :], matrix)
    return matrix, by_reaction, by_velocity, by_friction


def frozen(rows, r, w, friction, modes: Modes, taken):
    """Return dF/dr, dF/dw (c, 1 + k, 1 + k), dF/dmu (c, 1 + k); rows `taken` have w = 0."""
    size = r.shape[1]
    identity = jnp.eye(size - 1, dtype=r.dtype)[None]
    # rho makes velocities and reactions comparable; the derivative does not depend on it.
    diagonal = jnp.sum(rows[:, 1:] * rows[:, 1:], axis=(1, 2)) / (size - 1)
    rho = 1 / jnp.where(diagonal > 1e-6, diagonal, 1)
    z = r[:, 1:] - rho[:, None] * w[:, 1:]
    length_of_z = length(z)
    e = z / linear.nonzero(length_of_z)[:, None]
    bent = jnp.where(length_of_z > 0, friction * r[:, 0] / linear.nonzero(length_of_z), 0)
    across = bent[:, None, None] * (identity - e[:, :, None] * e[:, None, :])
    slip = modes.slip[:, None, None]
    tangential_by_reaction = jnp.where(slip, identity - across, jnp.where(taken[:, 1:, None], 0, identity))
    tangential_by_velocity = jnp.where(slip, rho[:, None, None] * across, jnp.where(taken[:, 1:, None], identity, 0))

    slipping = modes.slip[:, None]
    by_normal = jnp.where(slipping, -friction[:, None] * e, 0)
    by_reaction = _with_normal(~taken[:, 0], by_normal, tangential_by_reaction)
    by_velocity = _with_normal(taken[:, 0], jnp.zeros_like(by_normal), tangential_by_velocity)
    by_friction = jnp.where(slipping, -r[:, :1] * e, 0)
    return by_reaction, by_velocity, jnp.concatenate([jnp.zeros_like(r[:, :1]), by_friction], axis=1)


def _with_normal(normal, by_normal, tangential):
    """Assemble (c, 1 + k, 1 + k) [normal, 0; by_normal, tangential]."""
    top = jnp.concatenate([normal[:, None].astype(by_normal.dtype), jnp.zeros_like(by_normal)], axis=1)
    return jnp.concatenate([top[:, None], jnp.concatenate([by_normal[:, :, None], tangential], axis=2)], axis=1)
