"""Follow a smooth path to a solution where local solves and Newton's method find none, from contacts held apart.

Every contact is pulled open by an extra normal velocity z d and its law is rounded off by a width proportional to z.
For large z the solution is unique, all contacts open; for z to 0 it becomes one of the problem itself. Between the two
it is one smooth curve, along which z may also grow for a while. It is followed by its length, each step along the
tangent followed by Newton's method across it. Along the curve the determinant of the bordered Jacobian keeps its sign,
so that a step that lands on another piece of curve goes on in the direction that leads to z = 0.

The curve stays bounded where friction only dissipates, S u + s = 0 and N u + b >= 0 for some u; then there is a
solution to find. It is C. E. Lemke's path, by which such linear problems are solved, for smooth equations.

Reference:
    A. Klarbring, J.-S. Pang, Existence of solutions to discrete semicoercive frictional contact problems, SIAM J.
    Optim. 8 (1998); E. L. Allgower, K. Georg, Introduction to Numerical Continuation Methods (1990), chapters 2, 6, 15.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
from jax import lax

from diffcontact.numerics import linear
from diffcontact.numerics.batching import in_lanes, once
from diffcontact.qp.friction.law import assemble, linearised
from diffcontact.qp.friction.passes import NEAR

# Newton steps along the whole path, and the z at which it has arrived, as a power of the rounding. Most paths need
# thirty steps; some wind about for a thousand, and ties are decided late. Where the first paths lead to nothing,
# further ones are followed for longer, and nearer to their ends.
STEPS = 250
PATIENT_STEPS, NEARER = 1000, 0.7

# Paths that are followed before patience is called for.
IMPATIENT = 3

# Newton steps across the path before the step along it is taken back, and made a quarter as long.
CORRECTIONS = 5

# z at the start, in the unit of the velocities, and the longest step, in log z.
FAR, LONGEST = 3.0, 3.0


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Walk:
    """Carry points (n + 1,) along the path: the reactions, then log z.

    Args:
        trial: (n + 1,) the point under correction.
        reached: (n + 1,) the last point on the path.
        tangent: (n + 1,) there, of length one.
        stride: () the length of the step from there to the trial point.
        corrections: () int, done on the trial point.
        number: () int, of all corrections.
        orientation: () the sign of the determinant along the path.
    """

    trial: jax.Array
    reached: jax.Array
    tangent: jax.Array
    stride: jax.Array
    corrections: jax.Array
    number: jax.Array
    orientation: jax.Array


def follow(contacts, attempt, running):
    """Return the reactions (c, 1 + k) at the end of the path, if `running`.

    Each `attempt`, an int, follows another path.
    """
    shape, dtype = contacts.q.shape, contacts.q.dtype
    n = contacts.q.size
    unit = linear.nonzero(contacts.unit)
    q = contacts.q / unit
    number = jnp.arange(shape[0])
    pull = 1 + 0.6 * jnp.sin(attempt * (2.3 * number + 1.7))
    pull = pull[:, None].astype(dtype) * (jnp.arange(shape[1]) == 0)[None, :]
    rounding = jnp.asarray((0.3, 1.0, 0.1), dtype)[(attempt - 1) % 3]
    patient = attempt > IMPATIENT
    most = jnp.where(patient, PATIENT_STEPS, STEPS)
    near = (jnp.where(patient, NEARER, NEAR) * jnp.log(jnp.finfo(dtype).eps)).astype(dtype)
    strides = contacts.strides()
    scaled = replace(contacts, q=q)

    def equations(point):
        """Return F (n,) and its derivative (n, n + 1)."""
        r, z = point[:n].reshape(shape), jnp.exp(point[n])
        w = scaled.velocities(r) + z * pull

        def at(width):
            return linearised(scaled, r, w, strides, width)

        (F, by_reaction, by_velocity), (widened, *_) = jax.jvp(at, (rounding * z,), (rounding * z,))
        by_log = widened + z * jnp.einsum("cij,cj->ci", by_velocity, pull)
        matrix = assemble(by_reaction, by_velocity, contacts.W)
        return F.reshape(n), jnp.concatenate([matrix, by_log.reshape(n, 1)], axis=1), rounding * z

    last = jnp.arange(n + 1) == n

    def correct(walk):
        F, derivative, width = equations(walk.trial)
        factors = linear.LU.of(jnp.concatenate([derivative, walk.tangent[None]]))
        right = jnp.stack([jnp.append(-F, 0), last.astype(dtype)], axis=1)
        across, tangent = factors.solve(right).T
        sign = factors.sign()
        orientation = jnp.where(walk.number == 0, sign, walk.orientation)
        tangent = tangent * (jnp.where(sign == orientation, 1, -1) / jnp.sqrt(jnp.sum(tangent * tangent)))

        finite = jnp.all(jnp.isfinite(across)) & jnp.all(jnp.isfinite(tangent))
        # Nearer than this the path need not be met: what counts is its end.
        arrived = finite & (jnp.max(jnp.abs(F)) < 0.1 * width)
        strayed = jnp.abs(walk.trial[n] - walk.reached[n]) > 1.5 * LONGEST
        back = ~arrived & (~finite | strayed | (walk.corrections >= CORRECTIONS))
        quick = jnp.where(walk.corrections <= 2, 2.0, jnp.where(walk.corrections == 3, 1.0, 0.7))
        stride = jnp.where(arrived, jnp.minimum(quick * walk.stride, LONGEST), jnp.where(back, 0.25, 1) * walk.stride)
        stride = stride.astype(dtype)
        reached = jnp.where(arrived, walk.trial, walk.reached)
        tangent = jnp.where(arrived, tangent, walk.tangent)
        return Walk(
            trial=jnp.where(arrived | back, reached + stride * tangent, walk.trial + across),
            reached=reached,
            tangent=tangent,
            stride=stride,
            corrections=jnp.where(arrived | back, 0, walk.corrections + 1),
            number=walk.number + 1,
            orientation=orientation,
        )

    def unfinished(walk):
        return running & (walk.reached[n] > near) & (walk.number < most)

    zero = jnp.zeros((), jnp.int32)
    far = jnp.where(last, jnp.log(jnp.asarray(FAR, dtype)), 0)
    start = Walk(far, far, -last.astype(dtype), jnp.asarray(0.3, dtype), zero, zero, jnp.ones((), dtype))
    walk = lax.while_loop(unfinished, once(correct), in_lanes(start, (q, pull)))
    return walk.reached[:n].reshape(shape) * unit
