r"""Stronge's bilinear law of one contact with a tangential compliance: the surface springs sideways while it is struck.

The contact is a normal spring k_n, which restores e^2 of the work that it took, and a tangential one k_t in series with
Coulomb's slider. Where normal and tangential directions do not couple, W_NT = 0, and the slip keeps its line, the load
is known beforehand as a function of an angle phi from 0 to pi that passes pi/2 where compression ends::

    F = F_0 sin phi,      dt = dphi / Omega in compression, e dphi / Omega in restitution,     Omega = sqrt(k_n W_NN)

With y = |v_T| / |v_N-|, f the force of the tangential spring over F_0, tau = Omega t, rho = W_TT / W_NN and the ratio
of stiffnesses eta^2 = k_n / k_t::

    dy/dtau = -rho f                                          |f| <= mu sin phi
    sticks     df/dtau = y / eta^2                            y and f are sines and cosines of sqrt(rho) tau / eta
    slips      f = s mu sin phi, s = +-1                      as long as the slider moves, s (y - eta^2 df/dtau) > 0

The end of a slip is a closed form, that of a stick a root of two sines. Without a compliance, eta = 0, this is
Coulomb's impact, which reverses no slip. A spring that is loaded when the normal force ends has lost its energy.

Source: W. J. Stronge, R. James, B. Ravani, Phil. Trans. R. Soc. A 359 (2001) 2447; of elastic spheres N. Maw, J. R.
Barber, J. N. Fawcett, Wear 38 (1976) 101.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from diffcontact.numerics.linear import length, nonzero

# Slips and sticks in turn, of each this many at most: two of a solid sphere, some ten where eta^2 is 0.01 rho.
ROUNDS = 12
# Where the end of a stick is looked for, and how often its interval is halved before Newton's two steps.
_PLACES, _HALVINGS = 64, 24


class _Node(NamedTuple):
    """Where a stick or a slip begins: phi, the spring's force f, the slip y, the sign s of a slip; all ()."""

    phi: Array
    f: Array
    y: Array
    sign: Array


class _Springs(NamedTuple):
    """rho, mu, e and eta^2; all ()."""

    rho: Array
    friction: Array
    e: Array
    compliance: Array

    def pace(self, phi: Array) -> Array:
        """() dtau/dphi."""
        return jnp.where(phi < jnp.pi / 2, 1.0, self.e)

    def elapsed(self, phi: Array) -> Array:
        """() tau."""
        return jnp.where(phi < jnp.pi / 2, phi, jnp.pi / 2 + self.e * (phi - jnp.pi / 2))

    def slip(self, at: _Node) -> _Node:
        """The end of a slip: the slider's speed is linear in cos phi, in compression and in restitution."""
        rho, mu, e = self.rho, self.friction, self.e
        early, cos = at.phi < jnp.pi / 2, jnp.cos(at.phi)
        # s y - eta^2 df/dtau is `level` where phi = pi/2.
        level = at.sign * at.y - rho * mu * self.pace(at.phi) * cos
        stops = early & (level < 0)
        slopes = mu * (rho - self.compliance), mu * (rho * e**2 - self.compliance)
        stops_late = ~stops & (level > 0) & (e * level < slopes[1])
        numerator = jnp.where(stops, -level, jnp.where(stops_late, -e * level, 0.0))
        slope = jnp.where(stops, slopes[0], jnp.where(stops_late, slopes[1], 1.0))
        found = numerator / slope
        inside = (stops | stops_late) & (found < cos) & (found > -1)
        ends = jnp.arccos(jnp.where(inside, found, 0.0))
        phi = jnp.where(inside, ends, jnp.where(stops | stops_late, at.phi, jnp.pi))
        lost = self.pace(at.phi) * cos - self.pace(phi) * jnp.cos(phi)
        f = jnp.where(phi < jnp.pi, at.sign * mu * jnp.sin(phi), 0.0)
        return _Node(phi, f, at.y - at.sign * rho * mu * lost, at.sign)

    def stuck(self, at: _Node, phi: Array) -> tuple[Array, Array]:
        """f and y at phi of what sticks from `at` on."""
        rate, span = jnp.sqrt(self.rho / self.compliance), self.elapsed(phi) - self.elapsed(at.phi)
        cos, sin = jnp.cos(rate * span), jnp.sin(rate * span)
        f = at.f * cos + at.y * sin / (self.compliance * rate)
        return f, at.y * cos - at.f * self.rho * sin / rate

    def stick(self, at: _Node) -> _Node:
        """The end of a stick, where the spring's force reaches the bound of friction."""
        still, begin = lax.stop_gradient((self, at))
        places = begin.phi + (jnp.pi - begin.phi) * jnp.arange(1, _PLACES + 1) / _PLACES
        forces = still.stuck(begin, places)[0]
        # The bound comes down to zero with the load.
        over = (jnp.abs(forces) >= still.friction * jnp.sin(places)) | (jnp.arange(_PLACES) == _PLACES - 1)
        first = jnp.argmax(over)
        sign = jnp.where(forces[first] < 0, -1.0, 1.0)
        low = jnp.where(first > 0, places[first - 1], begin.phi)

        def room(springs, node, phi):
            return springs.friction * jnp.sin(phi) - sign * springs.stuck(node, phi)[0]

        def halved(_, ends):
            low, high = ends
            middle = (low + high) / 2
            beyond = room(still, begin, middle) < 0
            return jnp.where(beyond, low, middle), jnp.where(beyond, middle, high)

        phi = lax.fori_loop(0, _HALVINGS, halved, (low, places[first]))[1]
        for _ in range(2):
            y = self.stuck(at, phi)[1]
            slope = self.friction * jnp.cos(phi) - sign * self.pace(phi) * y / self.compliance
            step = room(self, at, phi) / jnp.where(slope < 0, slope, 1.0)
            phi = phi - jnp.where(slope < 0, step, 0.0)
        return _Node(phi, *self.stuck(at, phi), sign)


def compliant_impulses(W: Array, w: Array, friction: Array, e: Array, compliance: Array) -> tuple[Array, Array]:
    """(1 + k,) the impulse (P, B) of the whole impact, and whether the law holds for this contact.

    It does where no friction acts on the normal direction, and the slip keeps its line: W_NT = 0, W_TT v_T || v_T.

    Args:
        W: (1 + k, 1 + k) what impulses change the contact's velocity by [1/kg].
        w: (1 + k,) its velocity (v_N, v_T) before, v_N < 0 [m/s].
        friction, e, compliance: () mu, e and eta^2.
    """
    slip = length(w[1:])
    way = w[1:] / nonzero(slip)
    pushed = W[1:, 1:] @ way
    # Without a slip any direction will do.
    along = jnp.where(slip > 0, way @ pushed, jnp.trace(W[1:, 1:]) / way.size)
    off = length(W[1:, 0]) + length(pushed - along * way)
    plain = off <= jnp.finfo(w.dtype).eps ** 0.75 * (W[0, 0] + along)
    along = nonzero(along)
    share, ended = slip_left(-slip / w[0], along / W[0, 0], friction, e, compliance)
    impulse = jnp.concatenate([-(1 + e) * w[:1] / W[0, 0], -(1 - share) * w[1:] / along])
    return impulse, (plain & ended) | (friction == 0)


def slip_left(slip: Array, rho: Array, friction: Array, e: Array, compliance: Array) -> tuple[Array, Array]:
    r"""v_T+ / v_T-, the share of its slip that a struck contact leaves with; negative where it is turned round.

    Args:
        slip: () |v_T-| / |v_N-|; where it is zero, the limit.
        rho: () W_TT / W_NN, 7/2 of a solid sphere on a plane.
        friction: () mu.
        e: () restitution.
        compliance: () eta^2 = k_n / k_t.

    Returns:
        The share (), and whether the sequence of slips and sticks came to an end.

    Example:
        A glass sphere, k_t / k_n = (1 - nu) / (1 - nu / 2) = 0.8: its surface springs back, or slips throughout.

        >>> import jax, numpy as np
        >>> share = jax.jit(lambda slip: slip_left(slip, 3.5, 0.1, 1.0, 1.25)[0])
        >>> print(np.round([share(0.01), share(0.3), share(2.0)], 3))
        [ 0.488 -0.472  0.65 ]
    """
    slip = jnp.where(slip > 0, slip, jnp.finfo(slip.dtype).eps)
    rigid = jnp.maximum(1 - friction * rho * (1 + e) / slip, 0.0)
    springs = _Springs(rho, friction, e, nonzero(compliance))
    one, zero = jnp.ones_like(slip), jnp.zeros_like(slip)

    def going(at: _Node, end: _Node, wanted) -> _Node:
        return _Node(*(jnp.where(wanted & (at.phi < jnp.pi), new, old) for new, old in zip(end, at, strict=True)))

    def one_round(carry, _):
        at, slips = carry
        at = going(at, springs.slip(at), slips)
        return (going(at, springs.stick(at), True), jnp.array(True)), None

    begin = _Node(zero, zero, slip, one), slip > friction * springs.compliance
    (end, _), _ = lax.scan(one_round, begin, length=ROUNDS)
    share = jnp.where(compliance > 0, end.y / slip, rigid)
    return share, (compliance == 0) | (end.phi >= jnp.pi * (1 - 1e-6))
