"""Particles on a line whose dry friction acts under a prescribed normal reaction, with percussions: the law of S4."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.system import AllContacts, System

Params = Any


@dataclass(frozen=True)
class ParticleLine(AllContacts):
    r"""N particles on a line with springs, dashpots and Coulomb friction under a prescribed normal reaction.

    `EventTimed` steps it as a `System` whose joints rub, explicitly: springs that are stiff for the step are told there
    (TOO_COARSE), and `PercussionFriction` takes them.

    The law of S4 (1.4)-(1.7), positions q and velocities u relative to the rest, v = u - E(t) relative to a belt::

        M du + V u dt + K q dt = f dtheta + p dt,      -v+ in N_{nu C}(f),      C = [-gamma, gamma]
        dtheta = dt + sum_k a_k delta_{t_k},           nu(t) >= 0 the density of the normal reaction

    so that friction has a density while sliding, |f_i| <= gamma nu_i, and at each percussion time t_k an atom a_k f.

    Args:
        mass: `mass(params) -> (N,)` [kg].
        damping: `damping(params) -> (N, N)`, V [N s/m].
        stiffness: `stiffness(params) -> (N, N)`, K [N/m].
        load: `load(t, params) -> (N,)`, p [N].
        friction: `friction(params) -> ()`, gamma, the friction coefficient (with nu in newton).
        normal: `normal(t, params) -> (N,)`, nu [N].
        percussion_times: (m,) times t_k [s], increasing; several at one time act in the order of their index.
        percussions: `percussions(params) -> (m,)`, weights a_k >= 0 [s].
        belt: None, or `belt(t, params) -> ()`, transport velocity E [m/s].
        draw: None, or `draw(t, q, params) -> shapes`, what it looks like in reports; see `diffcontact.drawing`.

    Source: S4 (Laghdir, Monteiro Marques), section 1.

    Example:
        >>> import jax.numpy as jnp
        >>> slider = ParticleLine(
        ...     mass=lambda p: jnp.ones(1),
        ...     damping=lambda p: jnp.zeros((1, 1)),
        ...     stiffness=lambda p: jnp.zeros((1, 1)),
        ...     load=lambda t, p: jnp.zeros(1),
        ...     friction=lambda p: p["gamma"],
        ...     normal=lambda t, p: 9.81 * jnp.ones(1),
        ...     percussion_times=[0.1],
        ...     percussions=lambda p: jnp.array([0.05]),
        ... )
        >>> slider.percussion_times
        (0.1,)
    """

    mass: Callable[[Params], Array]
    damping: Callable[[Params], Array]
    stiffness: Callable[[Params], Array]
    load: Callable[[Any, Params], Array]
    friction: Callable[[Params], Any]
    normal: Callable[[Any, Params], Array]
    percussion_times: Any
    percussions: Callable[[Params], Array]
    belt: Callable[[Any, Params], Any] | None = None
    draw: Callable[[Any, Any, Params], Any] | None = field(default=None, compare=False, kw_only=True)

    def __post_init__(self):
        for name in ("mass", "damping", "stiffness", "load", "friction", "normal", "percussions"):
            if not callable(getattr(self, name)):
                raise ValueError(f"ParticleLine({name}=...): expected a function, got {getattr(self, name)!r}")
        times = np.asarray(self.percussion_times, float)
        if times.ndim != 1 or not np.all(np.isfinite(times)) or np.any(np.diff(times) < 0):
            raise ValueError(
                f"ParticleLine(percussion_times={self.percussion_times!r}): expected finite times that do not decrease"
            )
        # A tuple, so that equal lines are equal and hash alike.
        object.__setattr__(self, "percussion_times", tuple(times.tolist()))

    @property
    def between_percussions(self) -> System:
        """The `System` without contacts that the line is between percussions: joints with a given friction."""

        def force(t, q, u, params):
            parts = self.load(t, params), self.damping(params), self.stiffness(params)
            load, damping, stiffness = (jnp.asarray(x, q.dtype) for x in parts)
            return load - damping @ u - stiffness @ q

        def slip(t, q, u, params):
            return (u - (0.0 if self.belt is None else jnp.asarray(self.belt(t, params), q.dtype)))[:, None]

        return System(
            gap=lambda t, q, params: jnp.zeros(0, q.dtype),
            force=force,
            mass=lambda q, params: jnp.asarray(self.mass(params), q.dtype),
            restitution=lambda params: 0.0,
            joint_slip=slip,
            joint_friction=lambda t, params: self.friction(params) * jnp.asarray(self.normal(t, params)),
        )
