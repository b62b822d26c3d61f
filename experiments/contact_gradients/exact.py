"""The exact motion of a scene, event by event in fifty digits, and its derivative.

There is no time step. Between events accelerations are constant, so that gaps to planes are quadratic in time, and so
are distances of balls that fly; where the drive acts, and of the corners of a box, roots are searched. An event is an
impact, the end of a slip, or the beginning of one. The derivative is a central difference of the whole motion, 1e-18
wide: what it is off by, 1e-36 times a third derivative, is far below double precision. It knows of no saltation.

Not covered, and refused: what lies and is struck, and more than one body that lies or hangs in any other way.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from .chain import hang
from .decimals import ONE, ZERO, cross, dot, falls_through, first_fall, length, sin_cos, solve, vector
from .scene import Problem, seen

# Half the width of a difference; a derivative that is smaller than the bound is zero by structure.
STEP, STRUCTURE = Decimal("1e-18"), Decimal("1e-25")
# What rebounds slower than this lies [m/s]: endless bounces end. What is left of them is 1e-22, and so of a derivative.
REST = Decimal("1e-22")
SLIPS, STICKS = "slips", "sticks"


def solution(problem: Problem) -> list[dict]:
    """For each time the state, the Jacobian and its structural zeros, as `Problem.exact` has them; and the events
    before it."""
    theta = [Decimal(x) for x in problem.theta]
    states, events = outputs(problem, theta)
    columns = []
    for k in range(len(theta)):
        above, below = ([x + sign * STEP * (i == k) for i, x in enumerate(theta)] for sign in (1, -1))
        columns.append((outputs(problem, above)[0] - outputs(problem, below)[0]) / (2 * STEP))
    jacobian = np.moveaxis(np.array(columns), 0, -1)
    return [
        {
            "time": float(time),
            "events": _told([(t, what) for t, what in events if t < Decimal(time)]),
            "state": [float(x) for x in state],
            "jacobian": [[float(x) if abs(x) > STRUCTURE else 0.0 for x in row] for row in rows],
            "zero": [[int(abs(x) <= STRUCTURE) for x in row] for row in rows],
        }
        for time, state, rows in zip(problem.times, states, jacobian, strict=True)
    ]


def _told(events: list[tuple[Decimal, str]]) -> list[str]:
    """Six of them, and how many more."""
    more = [f"and {len(events) - 6} more"] if len(events) > 6 else []
    return [f"{float(t):.6f} {what}" for t, what in events[:6]] + more


def outputs(problem: Problem, theta: Sequence[Decimal]) -> tuple[np.ndarray, list[tuple[Decimal, str]]]:
    """The outputs at all times (n, m), and the events."""
    scene, times = problem.at(theta), [Decimal(time) for time in problem.times]
    if "rods" in scene:
        motions, events = hang(scene, times)
    else:
        world = _World(scene)
        motions = [world.go_on(until) for until in times]
        events = world.events
    return np.array([seen(problem, motion) for motion in motions]), events


class _World:
    """Bodies that move from event to event."""

    def __init__(self, scene: dict[str, Any]):
        self.gravity, self.e, self.mu = vector(scene["gravity"]), scene["restitution"], scene["friction"]
        self.planes = [(vector(p["normal"]), Decimal(p["offset"]), Decimal(p["speed"])) for p in scene["planes"]]
        drive = scene.get("drive")
        self.drive = None if drive is None else (vector(drive["force"]), Decimal(drive["frequency"]))
        bodies = scene["bodies"]
        self.mass = [Decimal(body["mass"]) for body in bodies]
        # One over the moment of inertia.
        self.ease = [ZERO if body["inertia"] is None else 1 / Decimal(body["inertia"]) for body in bodies]
        self.radius = [None if "half" in body else Decimal(body["radius"]) for body in bodies]
        self.corners = [_corners(body["half"]) if "half" in body else [] for body in bodies]
        self.x, self.v, self.w = (
            [vector(body.get(name, (0, 0, 0))) for body in bodies] for name in ("position", "velocity", "spin")
        )
        self.turned = [_quaternion(vector(body.get("orientation", (0, 0, 0)))) for body in bodies]
        self.t, self.events = ZERO, []
        # The body that lies: its number, the plane's, and whether it slips.
        self.lies: tuple[int, int, str] | None = None
        for i in range(len(bodies)):
            for k in range(len(self.planes)):
                if self.radius[i] is not None and abs(self.gap(i, k)) < REST and self.approach(i, k) == 0:
                    self.lie(i, k)

    # Where it is.

    def gap(self, i, k):
        normal, offset, speed = self.planes[k]
        return dot(normal, self.x[i]) - offset - speed * self.t - self.radius[i]

    def approach(self, i, k):
        return dot(self.planes[k][0], self.v[i]) - self.planes[k][2]

    def slip(self, i, k):
        normal = self.planes[k][0]
        v = self.v[i] + cross(self.w[i], -self.radius[i] * normal)
        return v - dot(v, normal) * normal

    def load(self, i, k, t):
        """The normal force, and the force along the plane, of what lies on it."""
        normal = self.planes[k][0]
        force = self.mass[i] * self.gravity
        if self.drive is not None:
            force = force + self.drive[0] * sin_cos(self.drive[1] * t)[0]
        return -dot(force, normal), force - dot(force, normal) * normal

    def ease_along(self, i):
        """What a force along the plane does to the slip of a ball, per newton."""
        return 1 / self.mass[i] + self.ease[i] * self.radius[i] ** 2

    # How it goes on.

    def go_on(self, until: Decimal) -> dict[str, list]:
        """To a time, through all events before it."""
        while True:
            found = [event for event in self.coming(until - self.t) if event is not None]
            if not found:
                break
            after, happens = min(found, key=lambda event: event[0])
            self.flow(after)
            happens()
        self.flow(until - self.t)
        return {"position": self.x, "quaternion": self.turned, "velocity": self.v, "spin": self.w}

    def coming(self, rest):
        """(after, what then happens) for every event that is coming."""
        for i in range(len(self.mass)):
            for k in range(len(self.planes)):
                if self.lies is None or self.lies[0] != i:
                    yield from self.landings(i, k, rest)
        for i in range(len(self.mass)):
            for j in range(i + 1, len(self.mass)):
                yield self.meeting(i, j, rest)
        yield self.change(rest)

    def landings(self, i, k, rest):
        normal, offset, speed = self.planes[k]
        if self.radius[i] is not None:
            s = falls_through(dot(normal, self.gravity) / 2, self.approach(i, k), self.gap(i, k))
            yield None if s is None or s >= rest else (s, lambda: self.strike(i, k, -self.radius[i] * normal))
        for corner in self.corners[i]:

            def height(s, corner=corner):
                arm = _rotated(_product(_quaternion(self.w[i] * s), self.turned[i]), corner)
                centre = self.x[i] + self.v[i] * s + self.gravity * s * s / 2
                return dot(normal, centre + arm) - offset - speed * (self.t + s)

            s = first_fall(height, rest)
            if s is not None:
                yield s, lambda corner=corner: self.strike(i, k, _rotated(self.turned[i], corner))

    def meeting(self, i, j, rest):
        if self.radius[i] is None or self.radius[j] is None:
            return None
        apart, away = self.x[j] - self.x[i], self.v[j] - self.v[i]
        reach = self.radius[i] + self.radius[j]
        s = falls_through(dot(away, away), 2 * dot(apart, away), dot(apart, apart) - reach * reach)
        if s is None or s >= rest:
            return None
        if self.lies is not None:
            raise ValueError("a body that lies is struck: not covered")
        return s, lambda: self.collide(i, j)

    def change(self, rest):
        """The end of a slip, or its beginning."""
        if self.lies is None:
            return None
        i, k, mode = self.lies
        if mode == STICKS:
            if self.drive is None:
                return None

            def reserve(s):
                normal, along = self.load(i, k, self.t + s)
                needed = along / self.mass[i] / self.ease_along(i)
                return (self.mu * normal) ** 2 - dot(needed, needed)

            s = first_fall(reserve, rest)
            return None if s is None else (s, lambda: self.lie(i, k, starts=True))
        slip = self.direction

        def left(s):
            at = self.moved(s)
            v = at[1][i] + cross(at[2][i], -self.radius[i] * self.planes[k][0])
            return dot(v, slip)

        if self.drive is None:
            rate = left(ONE) - left(ZERO)
            s = -left(ZERO) / rate if rate < 0 else None
            s = s if s is not None and s < rest else None
        else:
            s = first_fall(left, rest)
        return None if s is None else (s, lambda: self.stop(i, k))

    def moved(self, s):
        """(x, v, w) after s, on the way as it is now."""
        x = [x + v * s + self.gravity * s * s / 2 for x, v in zip(self.x, self.v, strict=True)]
        v, w = [v + self.gravity * s for v in self.v], list(self.w)
        if self.lies is not None:
            i, k, mode = self.lies
            normal = self.planes[k][0]
            # What is constant of the force along the plane, and what swings.
            press, along = self.load(i, k, ZERO)
            along, swing = along / self.mass[i], ZERO * along
            if self.drive is not None:
                swing = self.drive[0] / self.mass[i]
            if mode == STICKS:
                hold = self.ease[i] * self.radius[i] ** 2 / self.ease_along(i)
                along, swing = along * hold, swing * hold
                turning = cross(-self.radius[i] * normal, along - along / hold) if hold else ZERO * along
                rub = turning * self.mass[i]
            else:
                rub = -self.mu * press * self.direction
                along = along + rub / self.mass[i]
                rub = cross(-self.radius[i] * normal, rub)
            x[i], v[i] = self.x[i] + self.v[i] * s + along * s * s / 2, self.v[i] + along * s
            w[i] = self.w[i] + self.ease[i] * rub * s
            if self.drive is not None and np.any(swing != 0):
                rate = self.drive[1]
                (sine, cosine), (sine0, cosine0) = sin_cos(rate * (self.t + s)), sin_cos(rate * self.t)
                v[i] = v[i] + swing / rate * (cosine0 - cosine)
                x[i] = x[i] + swing / rate * (cosine0 * s - (sine - sine0) / rate)
        return x, v, w

    def flow(self, s):
        x, v, w = self.moved(s)
        if any(self.corners):
            self.turned = [_product(_quaternion(w * s), q) for w, q in zip(self.w, self.turned, strict=True)]
        self.t, self.x, self.v, self.w = self.t + s, x, v, w

    # What happens.

    def lie(self, i, k, starts=False):
        """Slips along what it has, or along the force that overcomes friction; sticks otherwise."""
        slip = self.slip(i, k)
        if length(slip) > REST and not starts:
            self.lies, self.direction = (i, k, SLIPS), slip / length(slip)
            if self.mu == 0:
                # Nothing ever ends it; the direction is not read.
                self.direction = slip
            return
        press, along = self.load(i, k, self.t)
        needed = along / self.mass[i] / self.ease_along(i)
        if starts or length(needed) > self.mu * press:
            self.lies, self.direction = (i, k, SLIPS), along / length(along)
            self.note("slips")
        else:
            self.lies = (i, k, STICKS)

    def stop(self, i, k):
        """A slip ends: what is left of it is taken away."""
        self.note("slip ends")
        normal, slip = self.planes[k][0], self.slip(i, k)
        impulse = -slip / self.ease_along(i)
        self.v[i] = self.v[i] + impulse / self.mass[i]
        self.w[i] = self.w[i] + self.ease[i] * cross(-self.radius[i] * normal, impulse)
        self.lie(i, k)

    def strike(self, i, k, arm):
        normal, _, speed = self.planes[k]
        velocity = self.v[i] + cross(self.w[i], arm) - speed * normal
        impulse = percussion(normal, velocity, _response(1 / self.mass[i], self.ease[i], arm), self.e, self.mu)
        self.push(i, arm, impulse)
        self.note(f"body {i} strikes plane {k}")
        if self.radius[i] is not None and self.approach(i, k) < REST:
            self.v[i] = self.v[i] - self.approach(i, k) * normal
            self.lie(i, k)

    def collide(self, i, j):
        normal = (self.x[j] - self.x[i]) / length(self.x[j] - self.x[i])
        arms = self.radius[i] * normal, -self.radius[j] * normal
        velocity = self.v[j] + cross(self.w[j], arms[1]) - self.v[i] - cross(self.w[i], arms[0])
        response = sum(_response(1 / self.mass[b], self.ease[b], arm) for b, arm in zip((i, j), arms, strict=True))
        impulse = percussion(normal, velocity, response, self.e, self.mu)
        self.push(j, arms[1], impulse)
        self.push(i, arms[0], -impulse)
        self.note(f"bodies {i} and {j} meet")

    def push(self, i, arm, impulse):
        self.v[i] = self.v[i] + impulse / self.mass[i]
        self.w[i] = self.w[i] + self.ease[i] * cross(arm, impulse)

    def note(self, what):
        self.events.append((self.t, what))


def percussion(normal, velocity, response, e, mu) -> np.ndarray:
    """The impulse at one contact by Moreau's law: v_N+ = -e v_N-, and what slips is rubbed against its slip after.

    Args:
        normal: (3,) towards the body.
        velocity: (3,) of the body's point before.
        response: (3, 3) what an impulse does to it.
        e, mu: coefficients.
    """
    leaving = -e * dot(normal, velocity) * normal
    grip = solve(response, leaving - velocity)
    press = dot(grip, normal)
    if length(grip - press * normal) <= mu * press:
        return grip
    along = velocity - dot(velocity, normal) * normal
    along = along / length(along)
    across = cross(normal, along)

    def slipping(turn, sign):
        """The impulse against a slip that is turned from the one before, and the slip then."""
        direction = sign * (along + turn * across)
        cone = normal - mu * direction / length(direction)
        pressing = -(1 + e) * dot(normal, velocity) / dot(normal, response @ cone)
        return pressing * cone, velocity + pressing * (response @ cone), direction

    def aside(turn, sign):
        _, after, direction = slipping(turn, sign)
        return dot(after, cross(normal, direction))

    for sign in (1, -1):
        turn, before = ZERO, Decimal("0.001")
        at, at_before = aside(turn, sign), aside(before, sign)
        for _ in range(30):
            if at == at_before or abs(at) < Decimal("1e-46"):
                break
            turn, before = turn - at * (turn - before) / (at - at_before), turn
            at, at_before = aside(turn, sign), at
        impulse, after, direction = slipping(turn, sign)
        if dot(after, direction) > 0:
            return impulse
    raise ArithmeticError("no slip obeys Coulomb's law")


def _response(lightness, ease, arm) -> np.ndarray:
    """(3, 3): velocity of a body's point by an impulse there."""
    columns = [lightness * unit + ease * cross(cross(arm, unit), arm) for unit in np.eye(3, dtype=int)]
    return np.array([vector(column) for column in columns]).T


def _corners(half) -> list[np.ndarray]:
    """The eight of a box, or the four of a plate that has no thickness."""
    found = {tuple((2 * s - 1) * h for s, h in zip(sign, vector(half), strict=True)) for sign in np.ndindex(2, 2, 2)}
    return [vector(corner) for corner in sorted(found)]


def _quaternion(rotation) -> np.ndarray:
    """w x y z of a rotation vector."""
    angle = length(rotation)
    if angle == 0:
        return vector([1, 0, 0, 0])
    sine, cosine = sin_cos(angle / 2)
    return vector([cosine, *(rotation / angle * sine)])


def _product(a, b) -> np.ndarray:
    return vector([a[0] * b[0] - dot(a[1:], b[1:]), *(a[0] * b[1:] + b[0] * a[1:] + cross(a[1:], b[1:]))])


def _rotated(q, x) -> np.ndarray:
    return x + 2 * cross(q[1:], cross(q[1:], x) + q[0] * x)
