"""Bodies that hang on rods from each other, exactly: M(q) q'' = f(q, q') between impacts with planes."""

from __future__ import annotations

from decimal import Decimal

import numpy as np

from .decimals import ZERO, dot, extrapolated, root_between, sin_cos, solve, vector

# Pieces of 20 ms extrapolated nine times leave 1e-30 of a double pendulum; between their ends no gap closes and opens.
PIECE, ORDER = Decimal("0.02"), 9


def hang(scene: dict, times: list[Decimal]) -> tuple[list[dict], list[tuple[Decimal, str]]]:
    """The motion at the times, and the events."""
    chain = _Chain(scene)
    t, x = ZERO, vector([*scene["rods"]["angles"], *scene["rods"]["rates"]])
    motions, events = [], []
    for until in times:
        while t < until:
            step = min(PIECE, until - t)
            ahead, s, struck = chain.flow(x, step), step, None
            for body, plane in np.ndindex(chain.count, len(chain.planes)):
                if chain.gap(ahead, body, plane) <= 0:
                    arrival = chain.arrival(x, step, body, plane)
                    s, struck = (arrival, (body, plane)) if arrival < s else (s, struck)
            t, x = t + s, ahead if struck is None else chain.flow(x, s)
            if struck is not None:
                x = chain.percussion(x, *struck)
                events.append((t, f"body {struck[0]} strikes plane {struck[1]}"))
        motions.append(chain.motion(x))
    return motions, events


class _Chain:
    """Angles and their rates, x = (q, q')."""

    def __init__(self, scene: dict):
        if any(plane["speed"] for plane in scene["planes"]):
            raise ValueError("rods and a plane that moves: not covered")
        self.g, self.e = -Decimal(scene["gravity"][1]), Decimal(scene["restitution"])
        self.planes = [(vector(plane["normal"]), Decimal(plane["offset"])) for plane in scene["planes"]]
        self.lengths = vector(scene["rods"]["lengths"])
        self.radius = vector([body["radius"] for body in scene["bodies"]])
        mass = vector([body["mass"] for body in scene["bodies"]])
        self.count = len(mass)
        # What hangs below each joint, and m_ij l_i l_j.
        self.below = [sum(mass[i:], ZERO) for i in range(self.count)]
        self.coupling = [
            [self.below[max(i, j)] * self.lengths[i] * self.lengths[j] for j in range(self.count)]
            for i in range(self.count)
        ]

    def mass(self, turns):
        return [
            [self.coupling[i][j] * (turns[i][0] * turns[j][0] + turns[i][1] * turns[j][1]) for j in range(self.count)]
            for i in range(self.count)
        ]

    def rate(self, x):
        q, u = x[: self.count], x[self.count :]
        turns = [sin_cos(angle) for angle in q]
        force = []
        for i, (sine, cosine) in enumerate(turns):
            swung = sum(
                (self.coupling[i][j] * (sine * turns[j][1] - cosine * turns[j][0]) * u[j] ** 2)
                for j in range(self.count)
            )
            force.append(-swung - self.g * self.lengths[i] * self.below[i] * sine)
        return np.concatenate([u, solve(self.mass(turns), force)])

    def flow(self, x, s):
        return extrapolated(self.rate, x, s, 1, ORDER)

    def gap(self, x, body, plane):
        normal, offset = self.planes[plane]
        return dot(normal, self.motion(x)["position"][body]) - offset - self.radius[body]

    def arrival(self, x, step, body, plane):
        """When the gap closes within the step; one that has just closed is open."""
        closing = lambda s: self.gap(self.flow(x, s), body, plane)  # noqa: E731
        begin = step / 1000
        return root_between(closing, begin, step, closing(begin), closing(step))

    def percussion(self, x, body, plane):
        """u+ = u - (1 + e) (n . u) M^-1 n / (n . M^-1 n)."""
        normal, _ = self.planes[plane]
        turns = [sin_cos(angle) for angle in x[: self.count]]
        row = vector(
            [
                self.lengths[i] * (normal[0] * turns[i][1] + normal[1] * turns[i][0]) if i <= body else ZERO
                for i in range(self.count)
            ]
        )
        push = solve(self.mass(turns), row)
        u = x[self.count :]
        return np.concatenate([x[: self.count], u - (1 + self.e) * dot(row, u) / dot(row, push) * push])

    def motion(self, x):
        """Of the bodies in space."""
        place, velocity, places, velocities = vector([0, 0, 0]), vector([0, 0, 0]), [], []
        for i in range(self.count):
            sine, cosine = sin_cos(x[i])
            place = place + self.lengths[i] * vector([sine, -cosine, ZERO])
            velocity = velocity + self.lengths[i] * x[self.count + i] * vector([cosine, sine, ZERO])
            places.append(place)
            velocities.append(velocity)
        none = [vector([0, 0, 0])] * self.count
        return {"position": places, "velocity": velocities, "spin": none, "quaternion": none}
