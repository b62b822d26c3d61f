"""Motions solved event by event, independently of every step map: the truth where there is no closed form.

Between events the smooth motion is integrated by DOP853 to rounding, with its variational equations for the derivative
S = dx/dtheta, x = (q, u). An event is the root of a function b(t, x, theta): a gap that closes, a reaction that
vanishes. Its time answers to theta, and the jump x+ = J(t, x, theta) leaves the saltation, f and f+ the flows before
and after::

    d tau = -(b_x S + b_theta) / (b_t + b_x f),        S+ = J_x (S + f d tau) + J_t d tau + J_theta - f+ d tau

One contact may be closed at a time: it bounces with e > 0, or is slid along with e = 0 while it pushes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

import diffcontact as dc
from diffcontact.numerics.linear import solve_mass
from diffcontact.schemes.event_timed.contacts import bends
from diffcontact.system import acceleration, contacts

FREE = -1


@dataclass(frozen=True)
class Event:
    """What happened: `contact` was struck, or let go, at `time` [s]."""

    time: float
    contact: int
    struck: bool


@dataclass(frozen=True)
class Solution:
    """The state (2 d,) at the end, its derivative (2 d, p), and the events before."""

    state: np.ndarray
    jacobian: np.ndarray
    events: list[Event]


class _Model:
    """Flow, events and jumps of a system as compiled functions of (t, x, theta), each with its tangents."""

    def __init__(self, system: dc.System, unpack: Callable):
        self.system, self.unpack = system, unpack

    def _parts(self, x, theta):
        return self.unpack(theta)[0], *jnp.split(x, 2)

    def reaction(self, held, t, x, theta):
        """Acceleration and multiplier with the contact `held` closed."""
        params, q, u = self._parts(x, theta)
        free = acceleration(self.system, params, t, q, u)
        if held == FREE:
            return free, jnp.ones(())
        row = contacts(self.system, params, t, q).normals[held]
        push = solve_mass(self.system.mass(q, params), row)
        opening = row @ free + bends(self.system, params, t, q, u)[held, 0]
        multiplier = -opening / (row @ push)
        return free + multiplier * push, multiplier

    def flow(self, held, t, x, theta):
        return jnp.concatenate([x[x.size // 2 :], self.reaction(held, t, x, theta)[0]])

    def gap(self, contact, t, x, theta):
        params, q, _ = self._parts(x, theta)
        return self.system.gap(t, q, params)[contact]

    def boundary(self, held, contact, t, x, theta):
        """Positive before the event: the gap that closes, or the multiplier of the contact that is held."""
        return self.reaction(held, t, x, theta)[1] if contact == held else self.gap(contact, t, x, theta)

    def jump(self, held, contact, t, x, theta):
        """The impact law for one contact; nothing where a contact lets go."""
        if contact == held:
            return x
        params, q, u = self._parts(x, theta)
        near = contacts(self.system, params, t, q)
        push = solve_mass(self.system.mass(q, params), near.normals[contact])
        e = jnp.broadcast_to(self.system.restitution_of(params, near.velocity(u)), near.gap.shape)[contact]
        stop = near.velocity(u)[contact] / (near.normals[contact] @ push)
        return jnp.concatenate([q, u - (1 + e) * stop * push])

    def sticks(self, held, contact, t, x, theta):
        """Whether what strikes this contact stays on it: e = 0, and something presses it on."""
        params, q, u = self._parts(x, theta)
        before = contacts(self.system, params, t, q).velocity(u)
        inelastic = np.broadcast_to(self.system.restitution_of(params, before), before.shape)[contact] == 0
        return inelastic and self.reaction(contact, t, self.jump(held, contact, t, x, theta), theta)[1] > 0

    @partial(jax.jit, static_argnums=(0, 1))
    def variation(self, held, t, x, s, theta):
        """Flow (2 d,) and the derivative of S (2 d, p)."""
        along = lambda x, theta: self.flow(held, t, x, theta)  # noqa: E731
        columns = jax.vmap(lambda dx, dtheta: jax.jvp(along, (x, theta), (dx, dtheta))[1], (1, 0), 1)
        return along(x, theta), columns(s, jnp.eye(theta.size))

    @partial(jax.jit, static_argnums=(0, 1, 2))
    def distance(self, held, contact, t, x, theta):
        """Boundary and its rate along the flow."""
        rate = (1.0, self.flow(held, t, x, theta))
        return jax.jvp(lambda t, x: self.boundary(held, contact, t, x, theta), (t, x), rate)

    @partial(jax.jit, static_argnums=(0, 1, 2, 3))
    def saltation(self, held, contact, after, t, x, s, theta):
        """State and S behind the event."""
        before = self.flow(held, t, x, theta)
        _, rate = self.distance(held, contact, t, x, theta)
        x_after = self.jump(held, contact, t, x, theta)
        leaving = self.flow(after, t, x_after, theta)

        def column(dx, dtheta):
            at, along = (x, theta), (dx, dtheta)
            tau = -jax.jvp(lambda x, theta: self.boundary(held, contact, t, x, theta), at, along)[1] / rate
            moved = (tau, dx + before * tau, dtheta)
            return jax.jvp(partial(self.jump, held, contact), (t, x, theta), moved)[1] - leaving * tau

        return x_after, jax.vmap(column, (1, 0), 1)(s, jnp.eye(theta.size))


def event_exact(system: dc.System, unpack: Callable, theta, T: float, tolerance: float = 1e-13) -> Solution:
    """The motion from 0 to T and its derivative by theta.

    Args:
        system, unpack, theta: as in an `ExactProblem`.
        T: end [s].
        tolerance: of DOP853, relative and absolute.

    Raises:
        ValueError: where a second contact closes while one is held.
    """
    model, theta = _Model(system, unpack), jnp.asarray(theta)

    def begin(theta):
        return jnp.concatenate(unpack(theta)[1:])

    x, s = np.asarray(begin(theta)), np.asarray(jax.jacfwd(begin)(theta))
    size = x.size
    watched = range(system.gap(0.0, jnp.asarray(x[: size // 2]), unpack(theta)[0]).size)
    t, held, last, events = 0.0, FREE, None, []

    def rate(t, y, held):
        dx, ds = model.variation(held, t, y[:size], y[size:].reshape(s.shape), theta)
        return np.concatenate([dx, np.ravel(ds)])

    def move(t, y, to, stops=()):
        return solve_ivp(
            rate, (t, to), y, "DOP853", args=(held,), rtol=tolerance, atol=tolerance, events=[*stops] or None
        )

    def stop(contact, since):
        def function(t, y, held):
            # The contact that was just struck leaves from zero: it counts once it is away.
            value, _ = model.distance(held, contact, t, y[:size], theta)
            return 1.0 if contact == last and t - since < 1e-6 else float(value)

        function.terminal, function.direction = True, -1
        return function

    while True:
        y = np.concatenate([x, s.ravel()])
        found = move(t, y, T, [stop(contact, t) for contact in watched])
        hit = [k for k, times in enumerate(found.t_events) if times.size] if found.status == 1 else []
        if not hit:
            return Solution(found.y[:size, -1], found.y[size:, -1].reshape(s.shape), events)
        (contact,) = hit
        # The interpolant that found the event is less exact than the steps: arrive anew, then by Newton's iteration.
        time = float(found.t_events[contact][0])
        y = move(t, y, time).y[:, -1]
        for _ in range(3):
            value, slope = model.distance(held, contact, time, y[:size], theta)
            late = float(value / slope)
            y, time = move(time, y, time - late).y[:, -1] if late else y, time - late
        struck = contact != held
        if struck and held != FREE:
            raise ValueError(f"contact {contact} closes at t = {time:g} while contact {held} is held: not covered")
        stays = struck and model.sticks(held, contact, time, jnp.asarray(y[:size]), theta)
        after = contact if stays else FREE
        jumped = model.saltation(held, contact, after, time, y[:size], y[size:].reshape(s.shape), theta)
        (x, s), held, last, t = (np.asarray(part) for part in jumped), after, contact, time
        events.append(Event(time, contact, struck))
