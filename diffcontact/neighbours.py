"""Which contacts a step looks at: all of a system's, or those that its neighbour list finds.

A system with few contacts looks at all of them. One with too many keeps a neighbour list: before each step it says
which contacts may close within it, and afterwards whether these were enough. The whole protocol::

    listed = system.neighbours(params, t, h, q, u)            found anew before each step
    after, info = scheme.step(listed, params, t, h, state)    a scheme sees a `System` like any other
    status = listed.overlooked(q, after.q)                    whether another contact may have closed
    impulse = listed.reported(info.impulse)                   as the trajectory of the whole system tells it
    larger = system.larger(status)                            with more places, or with a longer reach

`AllContacts` is the trivial implementation; `systems.cell_list_balls` has the other one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array
from jax.core import Tracer

from diffcontact.status import Status

# A list doubles each time: more would be a mistake in the input.
ENLARGEMENTS = 6


class AllContacts:
    """A system that looks at all its contacts in every step: the base of `System` and of `ParticleLine`.

    Example:
        >>> import diffcontact as dc
        >>> ball = dc.systems.balls(1, 1)
        >>> ball.neighbours({}, 0.0, 0.1, jnp.zeros(1), jnp.zeros(1)) is ball, ball.larger()
        (True, None)
    """

    @property
    def numbers(self) -> Array | None:
        """(c,) int, by which numbers the whole system knows these contacts; None where they are all, in order.

        Increasing, and the largest integer where a place of the list is free.
        """
        return None

    def neighbours(self, params, t, h, q: Array, u: Array) -> Any:
        """The system of the contacts that may close in the step of length h from (t, q, u)."""
        del params, t, h, q, u
        return self

    def overlooked(self, q: Array, after: Array) -> Array:
        """() OK, or the `Status` of a step from q to `after` in which a contact beside these may have closed."""
        del q, after
        return jnp.zeros((), int)

    def reported(self, impulse: Array) -> Array:
        """The impulses (c,) of these contacts as a trajectory of the whole system tells them [N s]."""
        return impulse

    def larger(self, status: Status = Status.NEIGHBOURS_FULL) -> Any:
        """The same system with what this status says was too small enlarged; None where there is nothing to enlarge."""
        del status
        return None


def taken(numbers: Array) -> Array:
    """(c,) bool, which places of a list hold a contact."""
    return numbers < jnp.iinfo(numbers.dtype).max


def carried_over(values: Array, earlier: Array, numbers: Array) -> Array:
    """(c,) values of the contacts numbered `earlier`, put where the same contacts are in `numbers`; elsewhere zero.

    Example:
        >>> import jax
        >>> jax.jit(carried_over)(jnp.array([1.0, 2.0, 3.0]), jnp.array([2, 5, 7]), jnp.array([5, 6, 7])).tolist()
        [2.0, 0.0, 3.0]
    """
    place = jnp.minimum(jnp.searchsorted(earlier, numbers), earlier.size - 1)
    return jnp.where(taken(numbers) & (earlier[place] == numbers), values[place], 0)


def with_room(run: Callable[[Any], Any], system: Any) -> Any:
    """`run(system)`, and again with a larger neighbour list as long as the result's status asks for one.

    The list's length is a shape, so that inside transformations there is no second run.

    Args:
        run: of a system, whose result has a `status` ().
        system: where to begin.

    Returns:
        The last result, after at most `ENLARGEMENTS` runs.
    """
    for _ in range(ENLARGEMENTS):
        found = run(system)
        larger = None if isinstance(found.status, Tracer) else system.larger(Status(int(found.status)))
        if larger is None:
            break
        system = larger
    return found
