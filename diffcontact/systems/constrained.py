r"""Two-sided constraints: a system in those of its velocities that are independent.

A constraint phi(q) = 0 holds always, with reactions of either sign: a joint that closes a loop, a weld, a gear. Its
velocities J u = 0 give the dependent ones by the independent ones w::

    u = Z(q) w,    q' = rate(q, Z w),    Z^T M Z w' = Z^T (f - M Z' w) + Z^T N^T load

so its reactions J^T lambda, in motion and in impacts, are in none of these equations. Contacts, impacts, friction and
derivatives are those of any system.

Source: R. A. Wehage, E. J. Haug, Generalized coordinate partitioning, J. Mech. Design 104 (1982).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from diffcontact.numerics import linear
from diffcontact.numerics.linear import LU
from diffcontact.system import Params, System, displaced, normalised, rate

S = TypeVar("S", bound=System)
# Newton's steps onto the constraint, and one more: from what a user rounds to rounding.
_STEPS = 2


def constrained(system: S, constraint: Callable[[Array, Params], Array], independent: Sequence[int] | np.ndarray) -> S:
    r"""A system under two-sided constraints, with its independent velocities as its velocities.

    Where phi(q) = 0 always, the velocities u (d,) obey m equations, and d - m of them, w, give the others. The system
    that is returned has the configurations q (n,) of the given one and the velocities w (d - m,). At the end of each
    step Newton's steps in the dependent coordinates take q back to phi = 0.

    Independent velocities must determine the others on the whole way: of a slider and a crank the crank does, the
    slider does not at its dead points. Where they do not the status is TOO_COARSE or NOT_FINITE.

    Args:
        system: of n coordinates and d velocities; its `rate` is linear in u.
        constraint: `constraint(q, params) -> (m,)`, phi, with independent rows.
        independent: (d - m,) the numbers of the velocities that are kept, rising.

    Returns:
        A system of the same class; initial velocities and those of trajectories are w, and its `rate` gives q'.

    Raises:
        ValueError: `independent` are no numbers of velocities; functions that only bodies by themselves have.

    Example:
        A pendulum, as a point in the plane on a rod:

        >>> import jax.numpy as jnp, numpy as np, diffcontact as dc
        >>> point = dc.System(
        ...     gap=lambda t, q, p: q[:1] + 0.5,
        ...     force=lambda t, q, u, p: jnp.array([0.0, -9.81]),
        ...     mass=lambda q, p: jnp.ones(2),
        ...     restitution=lambda p: p["e"],
        ... )
        >>> bob = dc.systems.constrained(point, lambda q, p: q @ q - p["length"] ** 2, independent=[0])
        >>> params = {"length": jnp.array([1.0]), "e": 0.5}
        >>> run = dc.simulate(bob, params, jnp.array([0.6, -0.8]), jnp.zeros(1), np.linspace(0.0, 1.0, 21))
        >>> print(run.status, np.abs(np.sum(run.q**2, axis=1) - 1).max() < 1e-6)
        0 True
    """
    kept = np.asarray(independent, int)
    if kept.ndim != 1 or kept.size == 0 or np.any(np.diff(kept) <= 0) or kept[0] < 0:
        raise ValueError(f"constrained(independent={independent!r}): expected rising numbers of velocities")
    for name in ("normals", "tangents", "adhesion"):
        if getattr(system, name) is not None:
            raise ValueError(f"constrained(system=...): expected no System({name}=...)")
    ties = Ties(system, constraint, tuple(kept.tolist()))

    def along(function):
        return None if function is None else lambda t, q, w, p: function(t, q, ties.complete(q, w, p), p)

    return replace(
        system,
        force=ties.force,
        mass=ties.mass,
        rate=lambda q, w, params: rate(system, params, q, ties.complete(q, w, params)),
        normalise=ties.close,
        advance=None,
        dexpinv=None,
        slip=along(system.slip),
        rolling=along(system.rolling),
        rows=None if system.rows is None else ties.rows,
        joint_slip=along(system.joint_slip),
    )


@dataclass(frozen=True)
class Ties:
    """Constraints phi(q) = 0 (m,) of a system with d velocities, of which `kept` (d - m,) are independent."""

    system: System
    constraint: Callable[[Array, Params], Array]
    kept: tuple[int, ...]

    def _off(self, q: Array, params: Params) -> Array:
        """(m,) phi."""
        return jnp.ravel(self.constraint(q, params))

    def _opening(self, q: Array, u: Array, params: Params) -> Array:
        """(m,) phi' = J u at velocities u (d,)."""
        way = rate(self.system, params, q, u)
        return jax.jvp(lambda q: self._off(q, params), (q,), (way,))[1]

    def _solved(self, q: Array, params: Params) -> tuple[Array, LU, np.ndarray]:
        """J (m, d), the factors of its columns that belong to the dependent velocities, and their numbers (m,)."""
        (size,) = jax.eval_shape(lambda: self.system.mass(q, params)).shape[:1]
        phi, pushforward = jax.linearize(lambda q: self._off(q, params), q)
        others = np.setdiff1d(np.arange(size), self.kept)
        if others.size != phi.size or len(self.kept) + phi.size != size:
            raise ValueError(
                f"constrained: {size} velocities under {phi.size} constraints: expected {size - phi.size} independent "
                f"ones of them, got {list(self.kept)}"
            )
        unit = jnp.eye(size, dtype=q.dtype)
        J = jax.vmap(lambda u: pushforward(rate(self.system, params, q, u)), out_axes=1)(unit)
        return J, LU.of(J[:, others]), others

    def _basis(self, q: Array, params: Params) -> tuple[Array, LU, np.ndarray]:
        """(d, d - m) Z; the factors and the numbers as `_solved`."""
        J, factors, others = self._solved(q, params)
        kept = np.array(self.kept)
        Z = jnp.zeros((J.shape[1], kept.size), q.dtype).at[kept].set(jnp.eye(kept.size, dtype=q.dtype))
        return Z.at[others].set(-factors.solve(J[:, kept])), factors, others

    def complete(self, q: Array, w: Array, params: Params) -> Array:
        """(d,) all velocities, of which w (d - m,) are independent."""
        return self._basis(q, params)[0] @ w

    def rows(self, t, q: Array, params: Params) -> Array:
        """(c, 1 + k, d - m + 1) R Z and r."""
        assert self.system.rows is not None
        affine = self.system.rows(t, q, params)
        return jnp.concatenate([affine[..., :-1] @ self._basis(q, params)[0], affine[..., -1:]], axis=-1)

    def mass(self, q: Array, params: Params) -> Array:
        """(d - m, d - m) Z^T M Z."""
        Z = self._basis(q, params)[0]
        return Z.T @ linear.apply_mass(self.system.mass(q, params), Z)

    def force(self, t, q: Array, w: Array, params: Params) -> Array:
        """(d - m,) Z^T (f - M Z' w); of Z' w the dependent entries solve J Z' w = -J' u."""
        system, (Z, factors, others) = self.system, self._basis(q, params)
        u = Z @ w
        _, bent = jax.jvp(lambda q: self._opening(q, u, params), (q,), (rate(system, params, q, u),))
        turned = jnp.zeros_like(u).at[others].set(-factors.solve(bent))
        return Z.T @ (system.force(t, q, u, params) - linear.apply_mass(system.mass(q, params), turned))

    def close(self, q: Array, params: Params) -> Array:
        """(n,) the configuration with phi = 0 and the same independent coordinates."""

        def newton(q, params):
            J, factors, others = self._solved(q, params)
            step = jnp.zeros(J.shape[1], q.dtype).at[others].set(-factors.solve(self._off(q, params)))
            return normalised(self.system, params, displaced(self.system, params, q, step))

        q = normalised(self.system, params, jnp.asarray(q))
        fixed, known = lax.stop_gradient((q, params))
        found = lax.fori_loop(0, _STEPS, lambda _, q: newton(q, known), fixed)
        # One step from what was found has the derivative of all of them.
        return newton(found + (q - fixed), params)
