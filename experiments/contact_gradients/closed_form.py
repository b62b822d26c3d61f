"""The exact motions a second time, by other means: formulas in double precision, derivatives by complex steps.

Where `exact.py` looks for what comes next, here the course of events is known, and each motion is a formula; where it
takes differences in fifty digits, here the parameters are complex, with an imaginary part of 1e-30 each in turn, so
that nothing is subtracted. The pendulum is integrated by DOP853 with its variational equations (`event_exact.py`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .scene import Problem, seen

STEP = 1e-30


def solution(problem: Problem) -> list[tuple[np.ndarray, np.ndarray]]:
    """State and Jacobian for each time."""
    if problem.name == "pendulum":
        return _pendulum(problem)
    motion, theta = MOTIONS[problem.name], np.array(problem.theta, complex)
    found = []
    for time in problem.times:
        columns = [
            np.array(seen(problem, motion(problem.at(theta + 1j * STEP * unit), time)), complex)
            for unit in np.eye(len(theta))
        ]
        found.append((columns[0].real, np.array(columns).T.imag / STEP))
    return found


def _norm(x):
    """The length of what may be complex, and differentiable."""
    return np.sqrt(np.sum(x * x))


def _array(x) -> np.ndarray:
    return np.array(x, complex)


def _at(position, velocity, spin, quaternion=None) -> dict:
    """One body's motion."""
    turned = np.array([1, 0, 0, 0]) if quaternion is None else quaternion
    return {"position": [position], "velocity": [velocity], "spin": [spin], "quaternion": [turned]}


# One ball on a floor.

UP = np.array([0.0, 1.0, 0.0])


def on_floor(scene: dict, time: float) -> dict:
    """Flights of length 2 v / g; a bounce that rubs by Walton's law; then it slides, and rolls when its slip ends."""
    body, plane = scene["bodies"][0], scene["planes"][0]
    x, v, w = (_array(body[name]) for name in ("position", "velocity", "spin"))
    gravity, e, mu, r = _array(scene["gravity"]), scene["restitution"], scene["friction"], body["radius"]
    # In the frame of the plate.
    x, v = x - UP * (plane["offset"] + r), v - UP * plane["speed"]
    # Of a sphere that turns an impulse changes the slip by so much more than the velocity.
    turns = 0 if body["inertia"] is None else body["mass"] * r**2 / body["inertia"]
    g, left = -gravity[1], time

    def rub(v, w, impulse):
        """The slip s = v_T - r w x n loses the impulse, or what stops it, whichever is less."""
        slip = v - UP * v[1] - r * np.cross(w, UP)
        size = _norm(slip)
        if size == 0:
            return v, w, True
        stopping = size / (1 + turns)
        grips = stopping.real <= np.real(impulse)
        push = -(stopping if grips else impulse) * slip / size
        return v + push, w - (turns / r) * np.cross(UP, push), grips

    while x[1].real > 1e-12 or v[1].real > 1e-14:
        hit = np.sqrt(v[1] ** 2 + 2 * g * x[1])
        flight = (v[1] + hit) / g
        if flight.real > left:
            break
        x, v = x + v * flight + gravity * flight**2 / 2, v + gravity * flight
        x = x * (1 - UP)
        v = v * (1 - UP) + e * hit * UP
        v, w, _ = rub(v, w, mu * (1 + e) * hit)
        left = left - flight
    else:
        along = gravity * (1 - UP)
        x, v = x * (1 - UP), v * (1 - UP)
        start = v
        v, w, grips = rub(v, w, mu * g * left)
        # Until then it slows down evenly.
        slides = left if not grips or mu == 0 else _norm(v - start) / (mu * g)
        x = x + (start + v) / 2 * slides + v * (left - slides) + along * left**2 / 2
        return _at(x + UP * (r + plane["offset"] + plane["speed"] * time), v + along * left + UP * plane["speed"], w)
    x, v = x + v * left + gravity * left**2 / 2, v + gravity * left
    return _at(x + UP * (r + plane["offset"] + plane["speed"] * time), v + UP * plane["speed"], w)


def stick_slip(scene: dict, time: float) -> dict:
    """A block that slides, sticks, and slides as soon as the force overcomes friction, forth and back."""
    body, force, rate = scene["bodies"][0], scene["drive"]["force"][0], scene["drive"]["frequency"]
    x, v, start = body["position"][0], body["velocity"][0], 0.0
    bound, push = -scene["friction"] * scene["gravity"][1], force / body["mass"]
    cycle, begins, way = 2 * np.pi / rate, np.arcsin(bound / push) / rate, 1

    def slides(t):
        s = t - start
        moved = (np.cos(rate * start) * s - (np.sin(rate * t) - np.sin(rate * start)) / rate) * push / rate
        gained = (np.cos(rate * start) - np.cos(rate * t)) * push / rate
        return x + v * s - way * bound * s**2 / 2 + moved, v - way * bound * s + gained

    def there(x, v):
        return _at(_array([x, body["radius"], 0]), _array([v, 0, 0]), np.zeros(3))

    # It is fastest when the force sinks below the bound again, and stops behind that.
    stop = cycle / 2 - begins + cycle / 10
    while True:
        for _ in range(60):
            stop = stop - slides(stop)[1] / (push * np.sin(rate * stop) - way * bound)
        if stop.real > time:
            return there(*slides(time))
        x, v = slides(stop)[0], 0.0
        half = int(np.ceil(2 * (stop.real - begins.real) / cycle.real))
        start, way = begins + half * cycle / 2, (-1) ** half
        if start.real > time:
            return there(x, 0.0)
        stop = start + cycle / 2 - 2 * begins + cycle / 10


# Two balls and more.


def cradle(scene: dict, time: float) -> dict:
    """Along a line: whoever is next."""
    bodies, e = scene["bodies"], scene["restitution"]
    x, u = (_array([body[name][0] for body in bodies]) for name in ("position", "velocity"))
    mass, radius = (_array([body[name] for body in bodies]) for name in ("mass", "radius"))
    left, along = time, np.eye(1, 3)
    while True:
        with np.errstate(divide="ignore", invalid="ignore"):
            meets = (np.diff(x) - radius[1:] - radius[:-1]) / -np.diff(u)
        meets = np.where(np.diff(u).real < 0, meets, np.inf)
        k = int(np.argmin(meets.real))
        s = min(meets[k], left, key=np.real)
        x, left = x + s * u, left - s
        if left == 0:
            none = [np.zeros(4)] * len(x)
            return {
                "position": x[:, None] * along,
                "velocity": u[:, None] * along,
                "spin": none,
                "quaternion": none,
            }
        impulse = (1 + e) * (u[k] - u[k + 1]) / (1 / mass[k] + 1 / mass[k + 1])
        u[k], u[k + 1] = u[k] - impulse / mass[k], u[k + 1] + impulse / mass[k + 1]


def discs(scene: dict, time: float) -> dict:
    """One collision; both slip, or both are rolled off each other."""
    first, second = scene["bodies"]
    x, v, w = ([_array(body[name]) for body in (first, second)] for name in ("position", "velocity", "spin"))
    radius, mass, inertia = ([body[name] for body in (first, second)] for name in ("radius", "mass", "inertia"))
    apart, away, reach = x[1] - x[0], v[1] - v[0], sum(radius)
    a, b, c = np.sum(away * away), np.sum(apart * away), np.sum(apart * apart) - reach**2
    s = (-b - np.sqrt(b**2 - a * c)) / a
    if s.real < time:
        x = [x[i] + s * v[i] for i in range(2)]
        n = (x[1] - x[0]) / reach
        across = np.cross([0, 0, 1], n)
        slip = np.sum(away * across) - radius[0] * w[0][2] - radius[1] * w[1][2]
        light = 1 / mass[0] + 1 / mass[1]
        normal = -(1 + scene["restitution"]) * np.sum(away * n) / light
        grip = -slip / (light + radius[0] ** 2 / inertia[0] + radius[1] ** 2 / inertia[1])
        bound = scene["friction"] * normal
        rub = grip if abs(grip.real) <= bound.real else -np.sign(slip.real) * bound
        for i, sign in enumerate((-1, 1)):
            v[i] = v[i] + sign * (normal * n + rub * across) / mass[i]
            w[i] = w[i] - radius[i] * rub / inertia[i] * np.array([0, 0, 1])
            x[i] = x[i] + (time - s) * v[i]
    else:
        x = [x[i] + time * v[i] for i in range(2)]
    return {"position": x, "velocity": v, "spin": w, "quaternion": [np.zeros(4)] * 2}


# A box on its corners.


def _turn(rotation) -> np.ndarray:
    """The rotation matrix of a rotation vector (Rodrigues)."""
    angle = _norm(rotation)
    if angle == 0:
        return np.eye(3)
    x, y, z = rotation / angle
    K = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return np.eye(3) + np.sin(angle) * K + (1 - np.cos(angle)) * K @ K


def _quaternion(R) -> np.ndarray:
    """Of a rotation by less than half a turn."""
    w = np.sqrt(1 + np.trace(R)) / 2
    return np.array([w, *(np.array([R[2, 1] - R[1, 2], R[0, 2] - R[2, 0], R[1, 0] - R[0, 1]]) / (4 * w))])


def tumbles(scene: dict, time: float) -> dict:
    """From corner to corner: the lowest one that arrives, its time by Newton's iteration."""
    body, gravity = scene["bodies"][0], _array(scene["gravity"])
    x, v, w = (_array(body[name]) for name in ("position", "velocity", "spin"))
    R, left, e, mu = _turn(_array(body["orientation"])), time, scene["restitution"], scene["friction"]
    signs = {(sx, sy, sz * (body["half"][2] != 0)) for sx in (-1, 1) for sy in (-1, 1) for sz in (-1, 1)}
    corners = [np.array(sign) * _array(body["half"]) for sign in sorted(signs)]
    while True:
        first, struck = left, None
        for corner in corners:
            s = _arrival(corner, x, v, w, R, gravity, left)
            first, struck = (s, corner) if s.real < np.real(first) else (first, struck)
        x, v, R = x + v * first + gravity * first**2 / 2, v + gravity * first, _turn(w * first) @ R
        if struck is None:
            return _at(x, v, w, _quaternion(R))
        left, arm = left - first, R @ struck
        lever = np.array([np.cross(unit, arm) for unit in np.eye(3)])
        response = np.eye(3) / body["mass"] + lever @ lever.T / body["inertia"]
        impulse = _rubbed(response, v + np.cross(w, arm), e, mu)
        v, w = v + impulse / body["mass"], w + np.cross(arm, impulse) / body["inertia"]


def _arrival(corner, x, v, w, R, gravity, left):
    """When this corner is on the floor, or `left`."""

    def height(s):
        arm = _turn(w * s) @ R @ corner
        return (x + v * s + gravity * s**2 / 2 + arm)[1], (v + gravity * s + np.cross(w, arm))[1]

    samples = np.linspace(0, np.real(left), 80)[1:]
    heights = np.array([height(s)[0].real for s in samples])
    falls = np.flatnonzero((heights[:-1] > 0) & (heights[1:] <= 0))
    if not falls.size:
        return left
    s = samples[falls[0]] + 0j
    for _ in range(40):
        value, slope = height(s)
        s = s - value / slope
    return s


def _rubbed(response, velocity, e, mu) -> np.ndarray:
    """Moreau's law: grip, or the one slip of all directions that is rubbed against itself."""
    impulse = np.linalg.solve(response, -e * velocity[1] * UP - velocity)
    if _norm(impulse * (1 - UP)).real <= np.real(mu * impulse[1]):
        return impulse

    def against(angle):
        """The impulse against a slip in this direction, and the slip then: along the direction, and aside."""
        sine, cosine = np.sin(angle), np.cos(angle)
        cone = np.array([-mu * cosine, 1, -mu * sine])
        impulse = -(1 + e) * velocity[1] / (response @ cone)[1] * cone
        after = velocity + response @ impulse
        return impulse, after[0] * cosine + after[2] * sine, after[2] * cosine - after[0] * sine

    # Off the axes, where the roots of a motion in a plane are.
    angles = np.linspace(-3.1, 2 * np.pi - 3.1, 721)
    aside = np.array([against(angle)[2].real for angle in angles])
    turns = [k for k in np.flatnonzero(aside[:-1] * aside[1:] <= 0) if against(angles[k])[1].real > 0]
    angle = angles[turns[0]] + 0j
    for _ in range(30):
        slope = (against(angle + 1e-5)[2] - against(angle - 1e-5)[2]) / 2e-5
        angle = angle - against(angle)[2] / slope
    return against(angle)[0]


MOTIONS: dict[str, Callable] = {
    **dict.fromkeys(("bounce", "moving_plate", "landing", "disc_bounce", "sphere_bounce"), on_floor),
    **dict.fromkeys(("disc_rolls", "sphere_rolls", "block_stops", "zeno"), on_floor),
    **{"cradle": cradle, "discs": discs, "stick_slip": stick_slip},
    **dict.fromkeys(("box_tumbles", "cube_tumbles"), tumbles),
}


def _pendulum(problem: Problem) -> list[tuple[np.ndarray, np.ndarray]]:
    import jax
    import jax.numpy as jnp
    from event_exact import event_exact

    from .peers.ours import model

    system, unpack, outputs = model(problem)
    theta, found = jnp.array(problem.theta), []
    for time in problem.times:
        solved = event_exact(system, unpack, theta, time)
        q, u = jnp.split(solved.state, 2)
        by_state = jnp.hstack(jax.jacfwd(lambda q, u: outputs(q, u, theta), (0, 1))(q, u))
        by_theta = jax.jacfwd(lambda theta, q=q, u=u: outputs(q, u, theta))(theta)
        found.append((np.array(outputs(q, u, theta)), np.array(by_state @ solved.jacobian + by_theta)))
    return found


def disagreement(problem: Problem) -> float:
    """The largest difference from the problem's exact answers, of the largest entry of a state or a Jacobian."""
    found = 0.0
    for (state, jacobian), exact in zip(solution(problem), problem.exact, strict=True):
        for ours, theirs in ((state, exact["state"]), (jacobian, exact["jacobian"])):
            theirs = np.array(theirs)
            found = max(found, np.abs(ours - theirs).max() / np.abs(theirs).max())
    return float(found)
