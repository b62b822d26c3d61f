"""The projection of a position onto the admissible set, which need not be convex: the core of S2 and S3."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from diffcontact import qp
from diffcontact.numerics import linear
from diffcontact.numerics.batching import where_wanted
from diffcontact.numerics.linear import apply_mass, solve_mass
from diffcontact.status import Status, first
from diffcontact.system import contacts

# Each pass shrinks the error by about (distance to the set) * (curvature of its boundary), which is O(h) in a
# simulation: a handful of passes is usual. A projection that needs more than this has a factor above 0.75.
_PASSES = 100


class ProjectedPosition(NamedTuple):
    """The projection w + shift of a position w onto the admissible set.

    Attributes:
        shift: (d,) from the point w to its projection, exactly zero where w is admissible [m].
        multipliers: (c,) >= 0 with M shift = G(w + shift)^T multipliers [kg m].
        status: () PROJECTION_LIMIT where no local projection was reached.
    """

    shift: Array
    multipliers: Array
    status: Array


def project_position(system, params, t, mass, start: Array, w: Array) -> ProjectedPosition:
    r"""Find the point of C(t) = {x : g_i(t, x) >= 0} nearest to w, locally.

    The constraints are linearised, the linear problem is solved, and again from its solution until it stays::

        x_{k+1} = argmin 1/2 |x - w|_M^2     subject to     g_i(t, x_k) + <grad g_i(t, x_k), x - x_k> >= 0

    A fixed point satisfies the first-order conditions: M (x - w) in the normal cone. Where C(t) is eta-prox-regular and
    w nearer to it than eta, it is *the* projection. The iteration is not differentiated. One more step is: Newton's on
    these conditions, with the curvature H = sum_i multiplier_i D^2 g_i of the Lagrangian::

        x = argmin 1/2 |x - w|_M^2 - 1/2 <x - x_k, H (x - x_k)>
            subject to     g_i(t, x_k) + <grad g_i(t, x_k), x - x_k> = 0,     i active

    Args:
        t: time at which the set is taken [s].
        mass: (d,) or (d, d), the metric.
        start: (d,) where the first linearisation is made; decides which of several local projections is meant.
        w: (d,) the point to project.

    Source: S2 eq. (26), S3 eq. (7); prox-regularity S2 definition 2.5.
    """
    nothing = ProjectedPosition(jnp.zeros_like(w), jnp.zeros_like(system.gap(t, w, params)), jnp.zeros((), int))
    outside = jnp.any(system.gap(t, w, params) < 0)

    def project():
        return _newton(system, params, t, mass, w, _settle(system, *lax.stop_gradient((params, t, mass, start, w))))

    return where_wanted(outside, project, nothing)


def _settle(system, params, t, mass, start, w):
    """Linearise until the point stays: x, multipliers (c,), active (c,), status."""
    # The Newton step squares what is left; inactive constraints are violated by its square times their curvature.
    tolerance = jnp.finfo(w.dtype).eps ** 0.75

    def length(x):
        """In the metric, in which places and angles can be added."""
        return jnp.sqrt(jnp.sum(x * apply_mass(mass, x)))

    def linearise(carry):
        x, _, _, _, _, count = carry
        here = contacts(system, params, t, x)
        solution = qp.project(mass, here.normals, here.gap + here.normals @ (w - x), jnp.zeros_like(w))
        moved = length(w + solution.u - x)
        return w + solution.u, moved, solution.multipliers, solution.active, solution.status.astype(int), count + 1

    def unfinished(carry):
        x, moved, _, _, _, count = carry
        return (moved > tolerance * (length(x) + length(w))) & (count < _PASSES)

    shape = jax.eval_shape(lambda: system.gap(t, w, params))
    idle = jnp.zeros(shape.shape, bool)
    begin = (start, jnp.full((), jnp.inf, w.dtype), idle.astype(w.dtype), idle, jnp.zeros((), int), 0)
    end = lax.while_loop(unfinished, linearise, begin)
    x, _, multipliers, active, status, _ = end
    return x, multipliers, active, first(status, jnp.where(unfinished(end), Status.PROJECTION_LIMIT, Status.OK))


def _newton(system, params, t, mass, w, settled) -> ProjectedPosition:
    """The step that carries the derivative, from a point that the iteration has settled on."""
    x, multipliers, active, status = settled
    metric = mass if mass.ndim == 2 else jnp.diag(mass)

    def lagrangian(x):
        return multipliers @ jnp.where(active, system.gap(t, x, params), 0.0)

    curvature = lax.stop_gradient(jax.hessian(lagrangian)(x))
    # Beyond the radius of curvature the point is no minimiser; the plain linear step keeps the numbers finite there.
    regular = jnp.all(jnp.isfinite(linear.cholesky(lax.stop_gradient(metric) - curvature)))
    curvature = jnp.where(regular, curvature, 0.0)
    here = contacts(system, params, t, x)
    target = -solve_mass(metric - curvature, curvature @ (x - w))
    held = qp.hold(metric - curvature, here.normals, here.gap + here.normals @ (w - x), target, active)
    status = first(status, jnp.where(regular, Status.OK, Status.PROJECTION_LIMIT))
    return ProjectedPosition(held.u, jnp.maximum(held.multipliers, 0.0), status)
