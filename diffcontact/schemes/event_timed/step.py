"""EventTimed: every impact at its own time, so that the trajectory's derivative is the true one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import ArrayLike

from diffcontact.particle_line import ParticleLine
from diffcontact.schemes.blows import forces_blow, surfaces_strike
from diffcontact.schemes.event_timed.friction.step import step_with_friction
from diffcontact.schemes.event_timed.frictionless import step_without_friction
from diffcontact.schemes.event_timed.line_slip import glide_timed
from diffcontact.schemes.event_timed.state import TimedState
from diffcontact.schemes.gluing import no_adhesion
from diffcontact.schemes.layers import Layers
from diffcontact.schemes.line import LineState, advance, begin, of_line
from diffcontact.schemes.scheme import Info, Scheme
from diffcontact.schemes.truncation import Truncation, root_of_diagonal
from diffcontact.schemes.unseen import given_forces
from diffcontact.system import System, acceleration


@dataclass(frozen=True)
class EventTimed(Scheme):
    r"""Each percussion at its time of impact inside the step; the default scheme.

    A step is a short composition of two maps::

        step(h) = smooth(h - tau_1 - ... - tau_K) o percussion_K o ... o percussion_1 o smooth(tau_1)

    - `smooth`: free flight and resting contact, of fourth order or second (`smooth_motion.smooth`);
    - `tau`: the first root of a gap along it; the last Newton step carries the derivative (implicit function theorem);
    - `percussion`: u+ = -e u- + (1 + e) Proj_M(T_K(q), u-) (`impacts.percussion`).

    Because tau moves with the parameters, the derivative of the step contains the saltation matrix
    DR + (F+ - DR F-) grad g^T / (grad g . F-) whole, and the derivative of the trajectory converges to the true one.
    The published schemes see an impact at an integer number of steps and lose its second term.

    A contact lets go at the time its reaction vanishes.

    **Accuracy.** Exact to rounding for constant forces at every h; for smooth ones fourth order in state and
    derivative, or second (`order=2`, down to half the work of a step). A force that is not smooth costs the order in
    the steps that it is not smooth in, whatever the order: a jump inside a step leaves an error of h |jump| / 4 or so
    in the velocity, a kink one of h^2; `breaks` put both between steps. Where forces change so much within the steps
    that truncation may come to more than 1/32 of the way of a coordinate the status is TOO_COARSE
    (`truncation.Truncation`), and where forces or belts do much between the times that a step asks for, as often as
    steps are taken (`unseen`), or by one blow (`blows`); a force that is switched within a step and stays is not told,
    but late or early by up to half a step: that is what `breaks` are for. What truncation has made of the motion is
    carried along through its impacts, and TOO_COARSE is also told where an impact, or its being the first of two, lies
    within that (`margins.Margins`): a graze, an impact so slow that it might be none. `simulate(substeps="auto")` keeps
    to an error of one's own. In single precision steps may be too short as well: where rounding takes more than 1/32 of
    a way, or of the fastest motion, the status is ILL_CONDITIONED.

    **Bounces that die away.** A contact that would be closed again within the step does not bounce, so the end of a
    Zeno sequence is found to within O(h).

    - TOO_COARSE: such a bounce is as fast as an eighth of what the bodies have moved with, or would not die away
      (e = 1); a body that would still bounce is struck elsewhere, so that it passes the blow on, or as fast as that and
      no more than eight times as fast as it may still bounce; one that is held, where it would hop and be back within
      the step, is driven into another contact by that (it comes to a ramp so slowly that it would be off it again
      within the step), where it would stay for good.
    - Until a sequence that was left out has ended, about h / (1 - e) after its first bounce, or
      h / (1 - sqrt((1 + e^2) / 2)) where a body rattles between two contacts, a velocity may be off by up to that
      eighth and its derivative by all of it: ask for no time there, or take shorter steps.
    - What a body slides meanwhile stays in the derivative of its place: of blocks that clattered to rest in steps of
      10 ms one in twenty was off by 4 %, one in a hundred by 18 % (2.5 ms: 1 and 5 %).
    - Corners that strike so shortly after each other that what was left out before decides upon their order, some
      10^-5 s, are not told.

    No derivative exists at grazing impacts, at simultaneous impacts of coupled contacts, and when a Zeno sequence ends.

    **Friction** (`System(slip=...)`). Each contact is open, sticks or slips, and the reaction follows from one linear
    system of these modes (`friction`, the package). Impacts are Moreau's with Coulomb's law. Further events are a slip
    that comes to its end, whose time carries its derivative, friction that reaches its bound and a load that vanishes:
    there the acceleration is continuous, and nothing depends on the time to first order. Exact for constant forces and
    flat contacts; all else is of fourth order in state and derivative, but for a slip in space that comes to its end on
    a bent path, whose derivative is of second. With `order=2` given forces of time are integrated to fourth order, all
    else to second (`experiments/friction_orders.py`).

    - NO_FRICTION: there may be no finite reaction, because bodies jam, or slip presses a contact together as fast as
      its load opens it (Painleve's paradox). Friction is left out there. Where it presses faster than that and the
      contact would open by itself, two motions obey the law, with a load and without: one of them is taken.
    - TOO_COARSE: what slips behind bounces that are left out is driven by more than 1/64 of the bodies' fastest motion.
    - TOO_COARSE: a slip in space turns by more than 45 degrees between two events, or passes by zero with more than
      1/64 of its speed, and is faster than 1/1024 of the bodies' fastest motion so far. Below that the derivative may
      be off by a few times that share. A slip that sets out from rest in space turns at once, with what drives it: it
      is TOO_COARSE where friction that is off by that angle makes more than the same share of speed in a step.
    - Contacts whose rows depend on each other share their load evenly, as on equal springs (`qp.coulomb`). The motion
      of a box that lies flat does not depend on it while all corners stick, or slip in one direction with one mu. Where
      it pivots as it slides, or corners rub unlike, it does, and rigid bodies do not tell how: `certify` says so.
    - The derivative at a kink, of a body that rests at the edge of its cone or an impact between grip and slip, is that
      of one side.
    - An impact that would make energy (Newton's law with friction may) is blended with the one without restitution.
      With `System(impact_law="poisson")` or `"stronge"` an impact that one contact takes alone is a flow of its
      velocity over the normal impulse, which makes none (`System`, `impact`); where it has no end the status is
      NO_FRICTION. Impacts of several contacts at once are Moreau's.

    **Rolling and pivoting** (`System(rolling=...)`). Each of these frictions is that of a layer under the contact
    (`schemes.layers`): a rolling that comes to its end is an event like a slip's. In lists of changes of c contacts the
    number of the first of these frictions is that of its contact + c, of the next + 2 c.

    **Adhesion** (`System(adhesion=...)`, see `VelocityProjection`). A further event is an adhesion that is used up: the
    contact lets go, the acceleration jumps, and the time carries its derivative. Where a load turns into a pull on a
    contact that could take up no more, the adhesion is right to second order, whatever the order.

    **A `ParticleLine`.** The events are slip velocities that vanish and friction forces that reach their bound. The
    motion between them is exact but for given forces, which are integrated to fourth order (`line_slip`, `line_flow`).

    Args:
        events: how many percussions one step resolves one by one. What is left of a step with more is taken as
            inelastic: feasible, dissipative, and reported as `Status.TOO_MANY_EVENTS`.
        order: of a `System`'s smooth motion, 4 or 2.
        changes: whether steps with friction tell in which modes they go from event to event; `simulate` sets it.

    Source: design of this library; impact law S3 eq. (2).

    Example:
        >>> import jax, jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.systems.balls(1, 1, box=(0.0, 10.0))
        >>> params = dict(mass=jnp.ones(1), radius=jnp.zeros(1), gravity=-9.81 * jnp.ones(1), restitution=0.8)
        >>> times = jnp.linspace(0.0, 1.0, 11)
        >>> end = lambda height: dc.simulate(ball, params, height * jnp.ones(1), jnp.zeros(1), times).q[-1, 0]
        >>> print(f"{end(1.0):.4f} {jax.jacfwd(end)(1.0):.4f}")  # one impact
        0.4680 1.3865
    """

    systems: ClassVar[tuple[type, ...]] = (System, ParticleLine)
    rubs: ClassVar[bool] = True
    speed_dependent: ClassVar[bool] = True
    flows: ClassVar[bool] = True
    glues: ClassVar[bool] = True

    events: int = 8
    order: int = 4
    changes: bool = field(default=False, repr=False)

    def __post_init__(self):
        if self.order not in (2, 4):
            raise ValueError(f"EventTimed(order={self.order!r}): expected 2 or 4")
        if not (isinstance(self.events, int) and self.events >= 1):
            raise ValueError(f"EventTimed(events={self.events!r}): expected an integer of at least 1")

    def require(self, system: System | ParticleLine) -> None:
        """Refuse a system that this scheme does not step.

        Raises:
            ValueError: it is none, or one whose contacts hold back bodies that turn.

        Example:
            >>> import diffcontact as dc
            >>> dc.EventTimed().require("a ball")
            Traceback (most recent call last):
            ...
            ValueError: scheme: EventTimed steps a System or a ParticleLine, got a str
        """
        super().require(system)
        if isinstance(system, System) and system.adhesion is not None and system.rate is not None:
            raise ValueError(
                "scheme: EventTimed steps no System with adhesion=... and rate=...; take VelocityProjection"
            )

    def init(self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, q: Array, u: Array) -> TimedState | LineState:
        """Position, velocity and speed; a line's percussion at the first time acts at once."""
        if isinstance(system, ParticleLine):
            return begin(system, params, t, h, q, u)
        adhesion = None if system.adhesion is None else no_adhesion(system, params, t, q)
        fastest, settled = jnp.abs(lax.stop_gradient(u)), jnp.full_like(u, -jnp.inf)
        return TimedState(q, u, fastest, settled, Truncation.nothing(q, u), adhesion)

    def step(
        self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, state: Any
    ) -> tuple[TimedState | LineState, Info]:
        """Smooth motion to the next impact, the percussion, and on, until the step is over."""
        if isinstance(system, ParticleLine):
            return advance(system, params, t, h, state, partial(glide_timed, system, params, self.events))
        if _turns_or_rubs(system):
            end, info = self._step_with_friction(system, params, t, h, state)
        else:
            end, info = step_without_friction(system, params, t, h, state, self.events, self.order)
        thrown = surfaces_strike(system, params, t, h, state.q, state.u, end.u, info.impulse)
        weight = root_of_diagonal(system.mass(state.q, params))
        struck = forces_blow(given_forces(system, params, state.q, state.u), t, h, weight)
        known = end.truncation
        return replace(end, truncation=replace(known, blind=known.blind + thrown, blows=known.blows + struck)), info

    def truncated(
        self, system: Any, params: Any, t: ArrayLike, h: ArrayLike, before: Any, after: Any, impulse: Array
    ) -> Truncation | None:
        """That of a line; a System's state knows its own."""
        return of_line(system, params, t, h, before, after) if isinstance(system, ParticleLine) else None

    def conclude(self, system: Any, params: Any, state: Any) -> Array:
        """Whether forces change too much within the steps, or places round too much; see `Truncation`."""
        if isinstance(system, ParticleLine):
            return super().conclude(system, params, state)
        return state.truncation.status(system.mass(state.q, params), state.fastest, state.q, self.order)

    def _step_with_friction(self, system, params, t, h, state: TimedState) -> tuple[TimedState, Info]:
        if system.rolling is None:
            known = state.q, state.u, state.fastest, state.unsettled, state.truncation
            end, info = step_with_friction(system, params, t, h, *known, self.events, self.order, self.changes)
            return TimedState(end.q, end.u, end.fastest, end.unsettled, end.truncation), info
        way = jnp.abs(h) * (state.fastest + jnp.abs(h * acceleration(system, params, t, state.q, state.u)))
        layers = Layers.under(system, params, t, state.q, state.u, way)
        q, u, fastest = (layers.lying(x) for x in (state.q, state.u, state.fastest))
        truncation = jax.tree.map(layers.lying, state.truncation)
        lying = TimedState(q, u, fastest, layers.lying(state.unsettled, -jnp.inf), truncation)
        end, info = self._step_with_friction(layers.system, layers.params, t, h, lying)
        return jax.tree.map(layers.without, end), layers.reported(info)


def _turns_or_rubs(system: System) -> bool:
    """Whether a system needs what only the motion with friction has: slips, or velocities other than q'."""
    return system.rubs or system.rate is not None
