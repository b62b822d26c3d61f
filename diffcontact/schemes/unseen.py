"""What forces, walls, belts and obstacles do between the times and places that steps ask for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from diffcontact.numerics import mass as mass_matrix
from diffcontact.numerics.batching import where_wanted
from diffcontact.qp.rows import squares, whitened
from diffcontact.system import acceleration

# Where they are looked at beside the times that are asked for: at parts of a step that no oscillation with a whole
# number of periods in it repeats itself at, the golden section and its cube.
PROBES = np.array([5**0.5 - 2, (5**0.5 - 1) / 2])
# The parts of a step that are asked for: by most schemes, or at least known to them, and by Simpson's rule.
ENDS, SIMPSON = (0.0, 1.0), (0.0, 0.5, 1.0)
# Such a share may be unseen, an oscillation in six steps, or in two with Simpson's rule.
MOST_UNSEEN = 1 / 8
# Forces matter where all that is unseen of them might make more than that of the way.
MATTERS = 1 / 32
# What surfaces that hardly move round by, in eps of the largest coordinate.
_ROUNDING = 64
# So deep a straight way may dip into an obstacle, against its length: as a quarter of the radius does in a bowl.
_SHALLOW = 1 / 32
# Where obstacles and blows are looked for on the way: one place in each twelfth of it, so uneven that of up to eight
# waves in a step no more than a quarter is left out.
PLACES = (np.arange(12) + np.arange(1, 13) ** 2 * PROBES[1] % 1) / 12


@partial(jax.tree_util.register_dataclass, data_fields=["missed", "felt"], meta_fields=[])
@dataclass(frozen=True)
class Unseen:
    """How much of the forces that are given as functions of time steps cannot see; not differentiated.

    All that a scheme knows of them is their values at some times of a step. What oscillates as often as steps are
    taken, like a table that shakes at 50 Hz under steps of 20 ms, does not change for it.

    Attributes:
        missed: (d,) the sum over steps of what accelerations differ from the polynomial through the values that are
            asked for, times their lengths [m/s]. felt: (d,) that of these values [m/s]. Of surfaces () how long each
            was the case: see `unseen_surface`.
    """

    missed: Array
    felt: Array

    @classmethod
    def nothing(cls, u: Array) -> Unseen:
        """Before any motion, of the shape of u."""
        return cls(jnp.zeros_like(u), jnp.zeros_like(u))

    def plus(self, other: Unseen) -> Unseen:
        """Both together."""
        return Unseen(self.missed + other.missed, self.felt + other.felt)

    def after(self, given: Callable, t, s, nodes: tuple[float, ...]) -> Unseen:
        """And a piece of s seconds from t.

        Args:
            given: t -> (..., d), of which several are added up.
            nodes: the parts of the piece that they are asked for.
        """
        if not depends_on_time(given, t):
            return self
        length = jnp.abs(lax.stop_gradient(s))
        missed, felt = (length * x.reshape(-1, self.felt.size).sum(axis=0) for x in beside(given, t, s, nodes))
        return self.plus(Unseen(missed, felt))

    @property
    def large(self) -> Array:
        """(d,) whether that is a large share.

        Example:
            >>> def shaken(hertz):
            ...     force = lambda t: jnp.sin(2 * jnp.pi * hertz * t + jnp.ones(1))
            ...     return Unseen.nothing(jnp.zeros(1)).after(force, 0.0, 0.02, ENDS).large
            >>> [jax.jit(shaken)(hertz).item() for hertz in (1.0, 50.0)]
            [False, True]
        """
        return self.missed > MOST_UNSEEN * self.felt


def depends_on_time(given: Callable, t) -> bool:
    """Whether a function of time is none but in name; known when tracing, so that nothing is computed of such."""
    try:
        jax.vmap(given, out_axes=None)(jnp.stack([t, t]))
    except ValueError:
        # So vmap says that what it gives differs from time to time.
        return True
    return False


def beside(given: Callable, t, s, nodes: tuple[float, ...]) -> tuple[Array, Array]:
    """The largest difference from the polynomial through the values at the nodes, and the largest of these values."""
    t, s = lax.stop_gradient((t, s))
    times = t + s * jnp.asarray(np.append(nodes, PROBES), jnp.result_type(t, s))
    values = lax.stop_gradient(jax.vmap(given)(times))
    # What does not depend on time has no rounding then.
    change = values - values[:1]
    told = jnp.tensordot(jnp.asarray(_weights(nodes), values.dtype), change[: len(nodes)], 1)
    return jnp.max(jnp.abs(change[len(nodes) :] - told), axis=0), jnp.max(jnp.abs(values[: len(nodes)]), axis=0)


def _weights(nodes) -> np.ndarray:
    """(probes, nodes) those of the polynomial through values at the nodes."""
    nodes = np.asarray(nodes)
    others = [np.delete(nodes, i) for i in range(nodes.size)]
    return np.stack([np.prod((PROBES[:, None] - x) / (node - x), 1) for node, x in zip(nodes, others, strict=True)], 1)


def given_forces(system, params, q: Array, u: Array) -> Callable:
    """t -> (d,) the acceleration where forces are as they are at the place and with the velocity (q, u) [m/s^2]."""
    params, q, u = lax.stop_gradient((params, q, u))
    return lambda t: acceleration(system, params, t, q, u)


def forces_and_joints(system, params, q: Array, u: Array) -> Callable:
    """t -> (1 or 2, d) accelerations by given forces, and by joints that rub at their bound [m/s^2]."""
    forces = given_forces(system, params, q, u)
    params, q, u = lax.stop_gradient((params, q, u))

    def given(t):
        found = [forces(t)]
        if system.joint_slip is not None:
            rows = jnp.abs(jax.jacfwd(lambda u: system.joint_slip(t, q, u, params))(u))
            bounds = jnp.einsum("j,jkd->d", jnp.asarray(system.joint_friction(t, params), u.dtype), rows)
            found.append(mass_matrix.solve(system.mass(q, params), bounds))
        return jnp.stack(found)

    return given


def hides(off: Array, size: Array, among: Array) -> Array:
    """Whether a surface does much beside what is seen of it, and more than `among` rounds by; of the shape of off."""
    return off > MOST_UNSEEN * size + _ROUNDING * jnp.finfo(among.dtype).eps * jnp.max(jnp.abs(among))


def unseen_surface(off: Array, size: Array, touching: Array, among: Array, s) -> Unseen:
    """For how long a surface is touched that does much beside what is seen of it, and for how long one is; () each [s].

    Not one step, but a share of them: a belt that starts at once does so within one.

    Args:
        off, size: as `beside` gives them.
        touching: which of them are touched.
        among: coordinates whose rounding counts for nothing.
        s: length of the step [s].
    """
    length = jnp.abs(lax.stop_gradient(s)).astype(among.dtype)
    return Unseen(length * jnp.any(touching & hides(off, size, among)), length * jnp.any(touching))


def unseen_walls(system, params, t, s, q: Array, impulse: Array) -> Unseen:
    """That of walls that acted, or might have within s seconds."""
    params, t, q, impulse = lax.stop_gradient((params, t, q, impulse))
    if not depends_on_time(lambda t: system.gap(t, q, params), t):
        return Unseen.nothing(jnp.zeros((), q.dtype))
    now = system.gap(t, q, params)
    off, change = beside(lambda t: system.gap(t, q, params) - now, t, s, SIMPSON)
    return unseen_surface(off, change, (impulse != 0) | (now <= off), q, s)


def unseen_belts(system, params, t, s, q: Array, u: Array, touching: Array) -> Unseen:
    """That of what contacts rub on, against the slip there; touching: (c,)."""
    params, q, u = lax.stop_gradient((params, q, u))

    def slip(t):
        return system.slip(t, q, u, params)

    if not (system.rubs and depends_on_time(slip, t)):
        return Unseen.nothing(jnp.zeros((), u.dtype))
    return unseen_surface(*beside(slip, t, s, SIMPSON), touching[:, None], u, s)


def obstacles_hide(
    system, params, t, h, place: Callable, *, moved: Array | None = None, watched: Array | None = None
) -> Array:
    """() whether the way of a step goes through an obstacle.

    Where gaps are convex each is above its tangents, which schemes know. A washboard whose waves are as long as the way
    of a step is flat to them. What is narrower than a tenth of the way, or shallower than 1/32 of it, may be missed.

    Args:
        place: share of the way, 0 to 1 -> (n,) the place there [m].
        moved: (d,) how far a straight way leads, in the coordinates of u [m]; all gaps may overlap at its end.
        watched: (c,) or, of a smooth motion, the gaps to look at, all the way to its end.
    """
    if system.convex:
        return jnp.array(False)
    params, t, h, moved = lax.stop_gradient((params, t, h, moved))
    q = lax.stop_gradient(place(0.0))
    shares = jnp.asarray(np.append([0.0, 1.0], PLACES), q.dtype)
    # All at one time: what walls do meanwhile is their own matter.
    gaps = lax.stop_gradient(jax.vmap(lambda f: system.gap(t + h, place(f), params))(shares))
    floor = jnp.minimum(jnp.min(gaps[: 2 if watched is None else 1], axis=0), 0.0)
    deepest = jnp.min(gaps, axis=0)
    dips = floor - deepest
    eps, size = jnp.finfo(q.dtype).eps, jnp.max(jnp.abs(q))
    if watched is not None:
        # Of a smooth motion this is the way itself, and no chord. Its events are found to the root of the rounding.
        deep = dips > _SHALLOW * (jnp.max(gaps, axis=0) - deepest) + eps**0.5 * size
        return jnp.any(watched & deep)
    suspect = dips > _ROUNDING * eps * size

    def through():
        mass = system.mass(q, params)
        root, length = mass_matrix.root(mass), jnp.sqrt(moved @ mass_matrix.apply(mass, moved))

        def slope(f):
            rows = whitened(root, system.linearised(params, t + h, place(f))[1])
            return jnp.sqrt(squares(rows, jnp.ones(rows.shape[1], rows.dtype)))

        # A gap may be steep somewhere: the smallest slope tells how deep a place is.
        slopes = jnp.min(jax.vmap(slope)(shares), axis=0)
        return jnp.any(suspect & (dips > _SHALLOW * slopes * length))

    return where_wanted(jnp.any(suspect), through, jnp.zeros((), bool))
