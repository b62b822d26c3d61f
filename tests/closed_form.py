"""Motions in closed form in place of simulations: what a fit and its statistics do, without compiling anything.

Within `replaced()` the residuals of a falling, a dragged and a bouncing body (`falling`, `dragged`, `bouncing`) come
from formulas, and their derivatives from complex steps, exact to rounding. All else is the library's own code. Systems
are told by their gap function, so that a law of restitution may be exchanged; others are simulated as ever.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from bouncing import BALL
from dragged import DRAGGED
from falling import FALLING

from diffcontact import Status, Trajectory, VelocityProjection
from diffcontact.identify import objective, residual
from diffcontact.identify.experiment import design as lanes
from diffcontact.identify.impact_law import _SLOPE, _Law
from diffcontact.identify.verdict import evidence as held
from diffcontact.schemes.event_timed.events import Percussion
from diffcontact.system import takes_two
from diffcontact.systems.laws import LAWS

STEP = 1e-30


def fallen(system, p, q, u, t):
    """h = q + u t - g t^2 / 2, and to first order what a resistance takes of it.

    Steps of a length h of a scheme of first order leave -g t h / 2.
    """
    c, g, steps = p.rate, p["g"], np.append(0.0, np.cumsum(np.diff(t) ** 2)) / 2 * p.per_step
    heights = q + u * t - g * (t**2 / 2 + steps) - c * (u * t**2 / 2 - g * t**3 / 6)
    return heights, u - g * t - c * (u * t - g * t**2 / 2), np.zeros(t.size - 1), [], Status.OK


def dragged(system, p, q, u, t):
    """u' = w - k u, by functions that are smooth at k = 0; a tilt pulls as a weight does."""
    w, x = p["weight"] / p["mass"] + p.get("tilt", 0.0), (p["drag"] / p["mass"] + p.rate) * t
    small = np.abs(x) < 1e-4
    safe = np.where(small, 1.0, x)
    first = np.where(small, 1 - x / 2 + x**2 / 6, (1 - np.exp(-safe)) / safe)
    second = np.where(small, 0.5 - x / 6 + x**2 / 24, (1 - first) / safe)
    places = q + u * t * first + w * t**2 * second
    return places, u * np.exp(-x) + w * t * first, np.zeros(t.size - 1), [], Status.OK


def restitution(law, p, speed):
    """e at a speed of approach; of what a verdict adds to a constant in numpy, which compiles nothing."""
    if isinstance(law, _Law) and law.name not in LAWS:
        return law.constant(p) + p[law.name] * (speed if law.name == _SLOPE else 1.0)
    return np.ravel(law(p, np.array([speed])) if takes_two(law) else law(p))[0]


def bounced(system, p, q, u, t):
    """Flights put end to end; where one is over at once, or after a hundred of them, it lies."""
    g, c, start, n, clock = p["g"], p.rate, t[0] * 0, t.size, np.real(t)
    heights, speeds, impulse, hits = np.zeros(n, complex), np.zeros(n, complex), np.zeros(n - 1), []
    kick = [] if p.kick is None or not np.any(p.kick[2:]) else [np.asarray(p.kick)]
    status = Status.OVERLAP if np.real(q) < 0 else Status.OK

    def height(s):
        return q + u * s - g * s**2 / 2 - (c and c * (u * s**2 / 2 - g * s**3 / 6))

    def speed(s):
        return u - g * s - (c and c * (u * s - g * s**2 / 2))

    while True:
        root = u * u + 2 * g * q
        lands = g.real > 0 and root.real >= 0
        flight = (u + np.sqrt(root + 0j)) / g if lands else np.inf
        for _ in range(2 if lands and c else 0):
            flight = flight - height(flight) / speed(flight)
        if kick and (start + flight).real > kick[0][0]:
            flight, lands = kick[0][0] - start, False
        i = int(np.searchsorted(clock, start.real))
        heights[i:], speeds[i:] = height(t[i:] - start), speed(t[i:] - start)
        if not (start + flight).real <= clock[-1]:
            break
        start, q, u = start + flight, height(flight), speed(flight)
        if not lands:
            u = u + kick.pop()[2]
            continue
        q, before, u = q * 0, u, -restitution(system.restitution, p, -u) * u
        i = int(np.searchsorted(clock, start.real))
        impulse[max(i - 1, 0)] += (u - before).real
        hits.append((start, before, u))
        if u.real < 1e-9 or len(hits) > 100:
            heights[i:] = speeds[i:] = 0.0
            impulse[i:] += 1e-9
            break
    return heights, speeds, impulse, hits, status


MOTIONS = {BALL.gap: bounced, FALLING.gap: fallen, DRAGGED.gap: dragged}


def listed(hits, count, end) -> Percussion:
    """The first so many impacts."""
    hits = hits[:count]
    at, before, after = (np.array([hit[i] for hit in hits] + [0j] * (count - len(hits))) for i in range(3))
    pad, none = np.arange(count) >= len(hits), np.zeros((count, 1))
    return Percussion(
        *(np.where(pad, end, at), np.where(pad, -1, 0), (after - before)[:, None], before[:, None], after[:, None]),
        *(none, none > 0, none, before[:, None], (after - before)[:, None], none.astype(int)),
    )


def parameters(model, z, fixed):
    p = model.parameters(z, {name: np.asarray(value) for name, value in fixed.items()})
    p.rate = 0.0 if p.rate is None else p.rate
    return p


def seen(motion, model, z, fixed, samples, substeps=None):
    """Residuals (n, k), complex, and the trajectory at z (P_i,)."""
    p = parameters(model, z, fixed)
    p.per_step = isinstance(model.scheme, VelocityProjection) / (model.substeps if substeps is None else int(substeps))
    (q,), (u,) = (np.asarray(part) for part in model.initial(p))
    clock = np.asarray(samples.times)
    times = clock if model.clock is None else np.asarray(model.clock(clock, p))
    places, speeds, impulse, hits, status = motion(model.system, p, q + 0j, u + 0j, times - times[0] + 0j)
    if np.any(np.diff(np.real(times)) <= 0):
        status, places, speeds = Status.BAD_TIMES, np.full_like(places, q), np.full_like(speeds, u)
    elif not np.all(np.isfinite(places)):
        status = Status.NOT_FINITE
    if not np.iscomplexobj(z):
        times, places, speeds = np.real(times), np.real(places), np.real(speeds)
        hits = [tuple(np.real(part) for part in hit) for hit in hits]
    hits = [(times[0] + at, *rest) for at, *rest in hits]
    count = max(model.impacts, model.listed)
    percussions = listed(hits, count, times[-1]) if count else None
    trajectory = Trajectory(
        times, places[:, None], speeds[:, None], impulse[:, None], np.int32(status), percussions=percussions
    )
    channels = np.asarray(model.observe(trajectory, p))
    if model.impacts:
        at = listed(hits, model.impacts, times[-1]).time
        i = np.clip(np.searchsorted(np.real(times), np.real(at)), 1, times.size - 1)
        moments = clock[i] + (at - times[i]) * (clock[i] - clock[i - 1]) / (times[i] - times[i - 1])
        channels = np.column_stack([channels, moments[np.asarray(samples.impact)]])
    present, values, sigma = (np.asarray(part) for part in (samples.present, samples.values, samples.sigma))
    return np.where(present, (values - channels) / sigma, 0.0), trajectory


def of_floats(trajectory):
    def floats(part):
        return np.real(part) if isinstance(part, np.ndarray) and np.iscomplexobj(part) else part

    listed = trajectory.percussions
    parts = {name: floats(value) for name, value in vars(trajectory).items()}
    parts["percussions"] = listed and Percussion(**{name: floats(value) for name, value in vars(listed).items()})
    return Trajectory(**parts)


def linearised(motion, model, z, fixed, samples, substeps=None):
    """J (n, k, P_i), r (n, k) and the trajectory, by complex steps."""
    z = np.asarray(z, float)
    with np.errstate(all="ignore"):
        parts = [seen(motion, model, z + 1j * STEP * row, fixed, samples, substeps) for row in np.eye(z.size)]
        r, trajectory = seen(motion, model, z, fixed, samples, substeps)
    J = np.stack([np.imag(part) / STEP for part, _ in parts], axis=-1)
    return J, np.real(r), of_floats(trajectory)


def dispatched(simulated, closed):
    """The function that takes the closed form where there is one."""

    def either(model, z, fixed, samples, *substeps):
        motion = MOTIONS.get(getattr(model.system, "gap", None))
        if motion is None:
            return simulated(model, z, fixed, samples, *substeps)
        return closed(motion, model, z, fixed, samples, *substeps)

    either.programs = simulated.programs
    return either


def evaluated(motion, model, z, fixed, samples, substeps=None):
    with np.errstate(all="ignore"):
        r, trajectory = seen(motion, model, np.asarray(z, float), fixed, samples, substeps)
    return np.real(r), of_floats(trajectory)


def begun(motion, model, z, fixed, times):
    z = np.asarray(z, float)
    p = parameters(model, z, fixed)
    with np.errstate(all="ignore"):
        moved = [model.initial(parameters(model, z + 1j * STEP * row, fixed)) for row in np.eye(z.size)]
        slopes = tuple(np.stack([np.imag(state[i]) / STEP for state in moved], axis=-1) for i in range(2))
        clock = None if model.clock is None else np.asarray(model.clock(np.asarray(times), p))
        return residual.Beginning(p, tuple(map(np.asarray, model.initial(p))), slopes, clock)


def observed(motion, model, z, fixed, trajectory):
    with np.errstate(all="ignore"):
        return np.asarray(model.observe(trajectory, parameters(model, np.asarray(z, float), fixed)))


def candidates(motion, model, z, fixed, samples):
    """What `design` asks of lanes that differ in everything: r, J, status and impulses."""
    found = []
    for i in range(len(z)):
        lane = residual.Samples(*(part if part is None else part[i] for part in vars(samples).values()))
        J, r, trajectory = linearised(motion, model, z[i], {name: part[i] for name, part in fixed.items()}, lane)
        found.append((r, J, trajectory.status, trajectory.impulse))
    return [np.stack(part) for part in zip(*found, strict=True)]


@contextmanager
def replaced() -> Iterator[None]:
    """Within it nothing that has a closed form is simulated."""
    with pytest.MonkeyPatch.context() as patch:
        closed = {"linearise": linearised, "beginning": begun, "observed": observed, "evaluate": evaluated}
        for name, function in closed.items():
            patch.setattr(residual, name, dispatched(getattr(residual, name), function))
        for module, name in (
            (objective, "linearise"),
            (objective, "evaluate"),
            (held, "linearise"),
            (lanes, "evaluate"),
        ):
            patch.setattr(module, name, getattr(residual, name))
        patch.setattr(lanes, "_look", dispatched(lanes._look, candidates))
        yield
