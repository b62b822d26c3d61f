"""Follow the central path of Coulomb's law to its end, an interior-point method for many contacts at once.

In x = (mu P, B) and y = (w_N/mu + s, w_T) the law of a contact is a complementarity in Lorentz's cone K:

    x in K,    y in K,    x o y = 0,    x o y = (x . y, x_N y_T + y_N x_T),    s = |w_T| (De Saxce)

With A and p, which are W and q in this unit, all equations are y = A x + p + s n and x o y = 0. The norm has a kink
where a contact sticks, at which Newton's method cycles. The following s has no kink inside of K:

    s(y) = sqrt((y_N^2 + |y_T|^2)/2)

It has the same solutions. Where a contact slips, y is on the boundary of K, and there s is the norm. Where a contact
sticks, y and s are zero. Where it is open, x is zero, and y_N > |y_T| says w_N/mu = y_N - s > 0.

The path x o y = (gap, 0) is followed to gap = 0 in Nesterov and Todd's scaling, with Mehrotra's predictor and
corrector. Each step factors one matrix of all reactions. The path may turn back where large friction is strongly
coupled with the normal rows. Then no step leads on, and another start is tried.

Reference:
    V. Acary, P. Armand, H. Minh Nguyen, M. Shpakovych, Second-order cone programming for frictional contact mechanics
    using interior point algorithm, Optim. Methods Softw. 39 (2024); L. Vandenberghe, The CVXOPT linear and quadratic
    cone program solvers (2010), sections 4 to 7.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import in_lanes, once
from diffcontact.numerics.linear import length
from diffcontact.qp.friction.law import Modes, assemble, frozen
from diffcontact.qp.friction.passes import NEAR, compliance, residual

# Steps in all, and steps without a better residual after which the path is left.
STEPS, PATIENCE = 40, 6


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Iterate:
    """Carry a point inside of the cones.

    Args:
        x, y: (c, 1 + k) both in the interior of K.
        best: (c, 1 + k) the reactions of the least residual so far, `left` ().
        number, since: () int, of steps, and of steps since then.
    """

    x: jax.Array
    y: jax.Array
    best: jax.Array
    left: jax.Array
    number: jax.Array
    since: jax.Array


def follow(contacts, attempt, running):
    """Return the reactions (c, 1 + k) at the end of the path, if `running`.

    Each `attempt`, an int, starts elsewhere.
    """
    shape, dtype = contacts.q.shape, contacts.q.dtype
    (count, size), n = shape, contacts.q.size
    normal = jnp.arange(size) == 0
    n_axis = normal.astype(dtype)[None]
    # Without friction K is a half-line: in Lorentz's cone, with nothing that moves along the tangents.
    rubs = contacts.friction > 0
    mu = jnp.where(rubs, contacts.friction, 1)[:, None]
    scale = jnp.where(normal[None], 1 / mu, rubs[:, None].astype(dtype))
    A = scale[:, :, None, None] * contacts.W * scale[None, None]
    unit = linear.nonzero(contacts.unit)
    p = scale * contacts.q / unit
    near = jnp.finfo(dtype).eps ** NEAR
    each = jnp.arange(count)

    def advance(at):
        x, y = at.x, at.y
        s = jnp.sqrt(jnp.sum(y * y, axis=1, keepdims=True) / 2)
        missed = y - (jnp.einsum("cief,ef->ci", A, x) + p + s * n_axis)
        by_y = jnp.eye(size, dtype=dtype)[None] - n_axis[:, :, None] * (y / (2 * s))[:, None, :]
        scaling = Scaling.of(x, y)
        matrix = A.at[each, :, each, :].add(by_y @ scaling.square())
        factors = linear.LU.of(matrix.reshape(n, n))

        def step(wanted, missed):
            """Return dx, dy with W^2 dx + dy = wanted, and by_y dy - A dx = -missed."""
            right = missed + jnp.einsum("cij,cj->ci", by_y, wanted)
            dx = factors.solve(right.reshape(n)).reshape(shape)
            return dx, wanted - jnp.einsum("cij,cj->ci", scaling.square(), dx)

        gap = jnp.sum(x * y) / count
        dx, dy = step(-y, missed)
        far = jnp.minimum(1, jnp.minimum(_room(x, dx), _room(y, dy)))
        left = jnp.sum((x + far * dx) * (y + far * dy)) / count
        # Not nearer to the boundary than the equation is met.
        centre = jnp.clip((left / gap) ** 3, 1e-4, 0.9) * gap
        centre = jnp.maximum(centre, jnp.minimum(gap, 0.01 * jnp.sum(jnp.abs(x * missed)) / count))
        curved = jnp.where(far > 0.1, _product(scaling.times(dx), scaling.over(dy)), 0)
        wanted = scaling.times(_quotient(scaling.times(x), centre * n_axis - curved)) - y
        dx, dy = step(wanted, missed)
        stride = jnp.minimum(1, (0.9 + 0.09 * far) * jnp.minimum(_room(x, dx), _room(y, dy)))
        x, y = x + stride * dx, y + stride * dy
        r = unit * scale * x
        remains = residual(contacts, r)[1]
        better = remains < at.left
        return Iterate(
            x=x,
            y=y,
            best=jnp.where(better, r, at.best),
            left=jnp.where(better, remains, at.left),
            number=at.number + 1,
            since=jnp.where(jnp.isfinite(remains), jnp.where(remains < 0.9 * at.left, 0, at.since + 1), PATIENCE),
        )

    def unfinished(at):
        return running & (at.left > near) & (at.number < STEPS) & (at.since < PATIENCE)

    elsewhere = 10 ** jnp.where(attempt > 1, jnp.sin(attempt * (2.3 * each + 1.7)), 0).astype(dtype)[:, None]
    zero, worst = jnp.zeros((), jnp.int32), jnp.asarray(jnp.inf, dtype)
    start = Iterate(elsewhere * mu * n_axis, n_axis / mu, jnp.zeros(shape, dtype), worst, zero, zero)
    end = lax.while_loop(unfinished, once(advance), in_lanes(start, (p, contacts.W)))
    return jnp.where(running, _rounded(contacts, end.best, end.left), end.best)


def _rounded(contacts, r, left):
    """Return r (c, 1 + k) with loads that are nearly zero at zero, and one of Newton's steps at the modes.

    At a tie, where rounding decides whether a contact opens or slips, load and velocity both end at the root of their
    product. Loads that are this small are none; a contact slips if it does so by more than what it lacks to its bound.
    """
    stride, w = contacts.strides(), contacts.velocities(r)
    closed = r[:, 0] > jnp.sqrt(left) * jnp.max(jnp.abs(r))
    lacks = contacts.friction * r[:, 0] - length(r[:, 1:])
    modes = Modes(closed=closed, slip=closed & ((lacks < length(stride[:, 1:] * w[:, 1:])) | (contacts.friction == 0)))
    held = modes.held(r.shape[1])
    near = modes.apply(r, w, contacts.friction, stride)
    w = contacts.velocities(near)
    by_reaction, by_velocity, _ = frozen(contacts.rows, near, w, contacts.friction, modes, held)
    matrix = assemble(by_reaction, by_velocity, contacts.W + compliance(r))
    rounded = near - linear.solve(matrix, jnp.where(held, w, 0).reshape(-1)).reshape(r.shape)
    return jnp.where(residual(contacts, rounded)[1] < jnp.sqrt(left), rounded, r)


@dataclass(frozen=True)
class Scaling:
    """Hold W (c, 1 + k, 1 + k) of Nesterov and Todd, W x = W^-1 y, as its root's axis w and its size."""

    axis: jax.Array
    size: jax.Array

    @classmethod
    def of(cls, x, y) -> Scaling:
        long_x, long_y = _root(x)[:, None], _root(y)[:, None]
        x, y = x / long_x, y / long_y
        cosine = jnp.sqrt((1 + jnp.sum(x * y, axis=1, keepdims=True)) / 2)
        return cls((y + _mirrored(x)) / (2 * cosine), jnp.sqrt(long_y / long_x))

    def square(self):
        """Return W^2 = size^2 (2 w w^T - J), J = diag(1, -1, ...)."""
        J = jnp.diag(_mirrored(jnp.ones_like(self.axis[:1]))[0])
        return self.size[:, :, None] ** 2 * (2 * self.axis[:, :, None] * self.axis[:, None, :] - J[None])

    def times(self, v):
        return self.size * _boosted(self.axis, v)

    def over(self, v):
        return _boosted(_mirrored(self.axis), v) / self.size


def _boosted(w, v):
    along = jnp.sum(w[:, 1:] * v[:, 1:], axis=1, keepdims=True)
    across = v[:, 1:] + w[:, 1:] * (v[:, :1] + along / (1 + w[:, :1]))
    return jnp.concatenate([w[:, :1] * v[:, :1] + along, across], axis=1)


def _mirrored(x):
    return jnp.concatenate([x[:, :1], -x[:, 1:]], axis=1)


def _root(x):
    """Return sqrt(x_N^2 - |x_T|^2) (c,)."""
    size = jnp.sqrt(jnp.sum(x[:, 1:] ** 2, axis=1))
    return jnp.sqrt((x[:, 0] - size) * (x[:, 0] + size))


def _product(x, y):
    return jnp.concatenate([jnp.sum(x * y, axis=1, keepdims=True), x[:, :1] * y[:, 1:] + y[:, :1] * x[:, 1:]], axis=1)


def _quotient(x, right):
    """Return z with x o z = right."""
    size = jnp.sqrt(jnp.sum(x[:, 1:] ** 2, axis=1, keepdims=True))
    square = (x[:, :1] - size) * (x[:, :1] + size)
    normal = jnp.sum(_mirrored(x) * right, axis=1, keepdims=True) / square
    return jnp.concatenate([normal, (right[:, 1:] - normal * x[:, 1:]) / x[:, :1]], axis=1)


def _room(x, dx):
    """Return the largest step () at which x + step dx is in every cone."""
    long = _root(x)[:, None]
    x = x / long
    normal = jnp.sum(_mirrored(x) * dx, axis=1, keepdims=True) / long
    across = dx[:, 1:] / long - (normal + dx[:, :1] / long) / (x[:, :1] + 1) * x[:, 1:]
    outwards = jnp.max(jnp.sqrt(jnp.sum(across * across, axis=1)) - normal[:, 0])
    return jnp.where(outwards > 0, 1 / linear.nonzero(outwards), jnp.inf)
