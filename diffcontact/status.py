"""What became of a computation, as data: an integer that survives jit and vmap, with a message a user can act on."""

from __future__ import annotations

from enum import IntEnum

import jax.numpy as jnp


class Status(IntEnum):
    """Outcome of a simulation or projection; 0 is fine.

    A batch never raises for one of its lanes: each lane carries its own integer. Codes are ordered by nothing but
    history; a result keeps the *first* one that happened.

    Example:
        >>> int(Status.OK), bool(Status.OVERLAP)
        (0, True)
        >>> Status(3).name
        'TOO_MANY_EVENTS'
    """

    OK = 0
    OVERLAP = 1
    NOT_FINITE = 2
    TOO_MANY_EVENTS = 3
    INFEASIBLE = 4
    ITERATION_LIMIT = 5
    ILL_CONDITIONED = 6
    RESTITUTION_IGNORED = 7
    PROJECTION_LIMIT = 8
    NEIGHBOURS_FULL = 9
    NEIGHBOURS_MISSED = 10
    TOO_COARSE = 11
    BAD_INPUT = 12
    BAD_TIMES = 13
    BAD_MASS = 14
    BAD_RESTITUTION = 15
    NO_DERIVATIVE = 16
    COUPLED_IMPACTS = 17
    NO_FRICTION = 18
    UNEVEN_STEPS = 19

    @property
    def message(self) -> str:
        """The cause, and the knob to turn."""
        return _MESSAGES[self]


_MESSAGES = {
    Status.OK: "fine",
    Status.OVERLAP: "the initial position overlaps: some gap is negative; move q0 until gap(t0, q0) >= 0",
    Status.NOT_FINITE: "a position, velocity or impulse is not finite; check parameters and forces, or take smaller "
    "steps",
    Status.TOO_MANY_EVENTS: "more percussions in one step than the scheme resolves one by one; the rest of that step "
    "was left out, or its impacts were taken as inelastic; raise EventTimed(events=...) or take smaller steps",
    Status.INFEASIBLE: "no velocity or position satisfies all constraints; the least violating one was returned",
    Status.ITERATION_LIMIT: "a projection stopped at its iteration limit; constraints may be nearly dependent",
    Status.ILL_CONDITIONED: "the mass matrix or the active rows are too badly scaled, or constraints too nearly "
    "dependent, for this precision, or steps so short that places round by what they move; use float64",
    Status.RESTITUTION_IGNORED: "this scheme has no restitution and took a coefficient above 0 as 0; use EventTimed or "
    "ElasticProjection, or set the restitution to 0",
    Status.PROJECTION_LIMIT: "no nearest admissible position was found: the predicted one lies too deep, beyond the "
    "radius of curvature of the constraints; take smaller steps",
    Status.NEIGHBOURS_FULL: "more neighbours than the cell list has places for, so that contacts may be missing; "
    "outside transformations simulate repeats the run with larger lists, inside take system.larger()",
    Status.NEIGHBOURS_MISSED: "a ball moved further in a step than was thought, so that contacts may be missing; "
    "outside transformations simulate repeats the run with twice the reach, inside take "
    "system.larger(Status.NEIGHBOURS_MISSED)",
    Status.TOO_COARSE: "the steps are too long for what happens in them: forces, walls or belts change too much within "
    "one, a bounce that matters was shorter than they resolve and taken as inelastic, a body was passed through, a "
    "curved contact was met with a step that is not short against its radius of curvature, or the error may change "
    "whether an impact happens or which comes first; give more times, or "
    'substeps="auto" with a tolerance',
    Status.BAD_INPUT: "a parameter is out of its range (a negative radius, say), and nothing was simulated; called "
    "outside transformations, simulate names it",
    Status.BAD_TIMES: "times that do not increase, or are not finite: nothing was simulated",
    Status.BAD_MASS: "a mass that is not positive (or not symmetric positive definite): nothing was simulated",
    Status.BAD_RESTITUTION: "a restitution outside [0, 1]: nothing was simulated; or, of a restitution that depends on "
    "the speed, an impact was so fast that its law left [0, 1], and the nearest of 0 and 1 was taken",
    Status.NO_DERIVATIVE: "the motion is finite, but a derivative is not: that of a gap at the start, or the one asked "
    "for; look for a norm or root of zero, or a where around one, in the system's functions; or the motion is at a tie "
    "where one-sided derivatives differ: certify says where",
    Status.COUPLED_IMPACTS: "two impacts that act on each other came in one step, and what this scheme makes of them "
    "is not the impact law; take smaller steps, or EventTimed where bodies touch",
    Status.NO_FRICTION: "no impulses were found that obey Coulomb's law, and friction was left out: contacts jam, or "
    "slip presses them together (Painleve's paradox): lower the friction; or a compliant contact was struck off its "
    'centre, for which there is no such law: take impact_law="stronge"',
    Status.UNEVEN_STEPS: "steps changed their length amid an impact, which this scheme then makes as much too fast or "
    "too slow; give equidistant times, or take EventTimed",
}


def stands_still(initial):
    """Whether nothing can be simulated from this initial status: the lane stays where it starts.

    Example:
        >>> import numpy as np
        >>> stands_still(np.array([Status.OK, Status.OVERLAP, Status.BAD_MASS])).tolist()
        [False, False, True]
    """
    return (initial != Status.OK) & (initial != Status.OVERLAP) & (initial != Status.NO_DERIVATIVE)


def first(earlier, later):
    """The first status that is not OK, elementwise and traceable."""
    return jnp.where(earlier == Status.OK, later, earlier)
