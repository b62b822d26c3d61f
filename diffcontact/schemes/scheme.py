"""What a step map is: a pure function from the state at t to the state at t + h."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from diffcontact.schemes.monitor import Truncation, truncation_of_step
from diffcontact.system import ParticleLine, System


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """What is carried from step to step: position q (d,) [m] and velocity u (d,) [m/s], its right limit."""

    q: Array
    u: Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Info:
    """What a step reports and does not carry.

    Attributes:
        impulse: (c,) per contact [N s]; friction: (c, k) where contacts rub; joints: (j, k) of friction in joints.
        status: () of the step.
        percussions, pieces: from a scheme that puts impacts at their own times, its `Percussion`s and the `Beginning`s
            of its pieces of motion (m, ...), where they are asked for.
        truncation: that of the step, added in `stepping`.
    """

    impulse: Array
    status: Array
    percussions: Any = None
    friction: Array | None = None
    pieces: Any = None
    truncation: Truncation | None = None
    joints: Array | None = None


class Scheme(ABC):
    """A step map, and what it says about itself. Subclasses are frozen dataclasses: hashable, static under jit.

    Attributes:
        systems: the kinds of systems that it steps.
        inelastic: whether it is for restitution 0 only.
        rubs: whether it steps systems whose contacts rub, and those with a `rate`.
        speed_dependent: whether it steps systems whose restitution or friction depends on the speed of approach.
        flows: whether it knows Poisson's and Stronge's law of impacts with friction.
        glues: whether it steps systems whose contacts hold back; its states then have an `adhesion`.
        keeps: the names (`jax.ad_checkpoint.checkpoint_name`) of what reverse mode keeps of each step; the rest of the
            step is computed again.
        in_kernels: whether a step of a few bodies is compiled as one kernel (`numerics.one_kernel`).

    Example:
        >>> import diffcontact as dc
        >>> dc.CatchingUp().inelastic, dc.EventTimed().inelastic
        (True, False)
    """

    systems: ClassVar[tuple[type, ...]] = (System,)
    inelastic: ClassVar[bool] = False
    rubs: ClassVar[bool] = False
    speed_dependent: ClassVar[bool] = False
    flows: ClassVar[bool] = False
    glues: ClassVar[bool] = False
    keeps: ClassVar[tuple[str, ...]] = ()
    in_kernels: ClassVar[bool] = False

    @abstractmethod
    def init(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, q: Array, u: Array) -> Any:
        """What the first step of length h needs; at least the attributes `q` and `u`."""

    @abstractmethod
    def step(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, state: Any) -> tuple[Any, Info]:
        """From the state at t to the state at t + h."""

    def truncated(
        self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, before: Any, after: Any, impulse: Array
    ) -> Truncation | None:
        """Tell what a step from one state to another may have missed, impulse (c,) [N s]; None where states know it.

        By default that of a scheme of first order.
        """
        return truncation_of_step(system, params, t, h, before, after, impulse)

    def conclude(self, system: Any, params: Any, state: Any) -> Array:
        """() status of the motion as a whole, from the state at its end; fine unless the scheme knows better."""
        return jnp.zeros((), jnp.int32)

    def require(self, system: System | ParticleLine) -> None:
        """Refuse a system of a kind that this scheme does not step.

        Raises:
            ValueError: it is none of `systems`.

        Example:
            >>> import diffcontact as dc
            >>> dc.PercussionFriction().require(dc.systems.balls(1, 1))
            Traceback (most recent call last):
            ...
            ValueError: scheme: PercussionFriction steps a ParticleLine, got a Balls
        """
        if not isinstance(system, self.systems):
            kinds = " or a ".join(kind.__name__ for kind in self.systems)
            raise ValueError(f"scheme: {type(self).__name__} steps a {kinds}, got a {type(system).__name__}")
        if not isinstance(system, System):
            return
        optional = system.optional
        others = [f"steps no System with {name}=..." for name in ("slip", "rate", "joint_slip") if name in optional]
        for refused, what, instead in (
            (system.speed_dependent and not self.speed_dependent, "takes no restitution that depends on the speed", ""),
            (system.friction_by_speed and not self.speed_dependent, "takes no friction that depends on the speed", ""),
            (system.flows and not self.flows, f"takes no System with impact_law={system.impact_law!r}", ""),
            ("adhesion" in optional and not self.glues, "steps no System with adhesion=...", "VelocityProjection"),
            (others and not self.rubs, "".join(others[:1]), "EventTimed or VelocityProjection"),
        ):
            if refused:
                raise ValueError(f"scheme: {type(self).__name__} {what}; take {instead or 'EventTimed'}")
