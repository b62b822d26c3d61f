"""Recordings of motions that contact makes, as trackers write them: right, or with one thing that no model of them has.

Motions are integrated by scipy, not by this library. Each recording has what real ones have: noise whose neighbours are
correlated, rounding, samples that were lost. `make` draws speeds, masses and restitution anew for every seed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.signal import lfilter

G = 9.81


@dataclass(frozen=True)
class Recording:
    """What a tracker wrote, and what is true."""

    text: str  # a CSV
    # truth: name of a parameter of the scene that is drafted -> its value, in that scene's SI units
    truth: Mapping[str, float]


@dataclass(frozen=True)
class Camera:
    """How places (n, k) become columns: when they are looked at, from where, and how well."""

    rate: float  # pictures a second
    noise: float  # one standard deviation, in the column's unit
    digits: int  # behind the point
    perspective: float = 0.0  # by which share lengths grow from one end of the first column's range to the other
    # slips: in what share of the pictures the one before is shown again, and how many are dropped at once somewhere
    slips: tuple[float, int] = (0.0, 0)
    lost: float = 0.01  # the share of the samples
    correlation: float = 0.5  # of the noise of neighbours

    def times(self, rng: np.random.Generator, duration: float) -> tuple[NDArray, NDArray]:
        """(n,) times that are written, and those of the pictures."""
        count = int(duration * self.rate)
        shown = np.arange(count)
        share, dropped = self.slips
        if dropped:
            shown = shown + dropped * (shown >= rng.integers(count // 4, 3 * count // 4))
        again = rng.random(count) < share
        again[0] = False
        shown = np.where(again, np.roll(shown, 1), shown)
        return np.arange(count) / self.rate, shown / self.rate

    def sees(self, rng: np.random.Generator, places: NDArray) -> NDArray:
        """(n, k) columns of places in their unit, NaN where the tracker lost a marker."""
        first = places[:, :1]
        along = (first - first.mean()) / np.ptp(first)
        seen = places.mean(axis=0) + (places - places.mean(axis=0)) * (1 + self.perspective * along)
        rho = self.correlation
        white = rng.normal(size=(len(seen) + 50, seen.shape[1]))
        coloured = np.sqrt(1 - rho**2) * lfilter([1.0], [1.0, -rho], white, axis=0)[50:]
        seen = np.round(seen + self.noise * coloured, self.digits)
        lost = rng.random(len(seen)) < self.lost
        gap = rng.integers(0, len(seen))
        lost[gap : gap + round(len(seen) * self.lost)] = True
        return np.where(lost[:, None], np.nan, seen)


def _camera(fault: str, size: float, share: float, dropped: bool = True, **usual) -> Camera:
    """A camera with its fault: lengths that grow by `share`, or pictures that are dropped or shown again."""
    slips = (0.0, max(round(2 * size), 1)) if dropped else (0.07 * size, 0)
    return Camera(
        **usual,
        perspective=share * size if fault == "perspective" else 0.0,
        slips=slips if fault == "clock" else (0.0, 0),
    )


def written(names: str, times: NDArray, columns: NDArray, digits: int) -> str:
    """A CSV, empty where a sample was lost."""
    rows = (
        ",".join([f"{t:.4f}", *("" if np.isnan(x) else f"{x:.{digits}f}" for x in row)])
        for t, row in zip(times, columns, strict=True)
    )
    return "\n".join([names, *rows]) + "\n"


def moved(
    slope: Callable[[float, NDArray], NDArray],
    start: NDArray,
    times: NDArray,
    gap: Callable[[NDArray], float] | None = None,
    struck: Callable[[NDArray], NDArray] | None = None,
) -> NDArray:
    """(n, 2 d) states at times that do not fall, of a motion that is struck where its gap closes."""
    found, now, y = np.empty((times.size, start.size)), float(times[0]), np.asarray(start, float)

    def closes(t, y):
        return gap(y) if gap else 1.0

    closes.terminal, closes.direction = True, -1
    for _ in range(20):
        run = solve_ivp(
            slope, (now, times[-1] + 1e-6), y, events=closes, max_step=0.02, rtol=1e-8, atol=1e-9, dense_output=True
        )
        rows = (times >= now) & (times <= run.t[-1])
        if rows.any():
            found[rows] = run.sol(times[rows]).T
        if not run.t_events[0].size:
            return found
        y = struck(run.y[:, -1]) if struck else run.y[:, -1]
        # Off the surface by so little that the gap opens.
        now, y = float(run.t[-1]), y + np.concatenate([1e-9 * y[y.size // 2 :], np.zeros(y.size // 2)])
    return found


def _rubbing(v: NDArray, friction: float) -> NDArray:
    return -friction * np.tanh(v / 1e-3)


def _spring(lasting: float, reduced: float, e: float) -> tuple[float, float]:
    """Stiffness and damping of a contact that lasts half a period, with this restitution."""
    loss = -np.log(e) / np.hypot(np.pi, np.log(e))
    omega = np.pi / lasting / np.sqrt(1 - loss**2)
    return reduced * omega**2, 2 * loss * omega * reduced


def _pushed_back(k: float, c: float) -> float:
    """Restitution of a unit mass by a spring and a dashpot that only push."""
    slope = lambda t, y: [y[1], max(-k * y[0] - c * y[1], 0.0)]  # noqa: E731
    return float(solve_ivp(slope, (0.0, 2 * np.pi / np.sqrt(k)), [0.0, -1.0], max_step=1e-3).y[1, -1])


def carts(rng: np.random.Generator, fault: str = "", size: float = 1.0) -> Recording:
    """Two carts on a rail; motion capture, mm.

    Faults: sag, perspective, clock, friction, soft.
    """
    e, ratio, distance = rng.uniform(0.5, 0.95), rng.uniform(0.6, 1.6), 0.1
    tilt, drag = rng.normal(0.0, 0.005), rng.uniform(0.01, 0.05)
    sag = 0.02 * size if fault == "sag" else 0.0
    friction = 0.01 * size if fault == "friction" else 0.0
    masses = np.array([ratio, 1.0])
    k, c = _spring(0.03 * size, ratio / (1 + ratio), e) if fault == "soft" else (0.0, 0.0)
    camera = _camera(fault, size, 0.05, rate=100.0, noise=0.1, digits=2)

    def slope(t, y):
        x, v = y[:2], y[2:]
        a = tilt - sag * (x - 1.0) - drag * v / masses + _rubbing(v, friction)
        depth = distance - (x[1] - x[0])
        push = k * depth + c * (v[0] - v[1]) if k and depth > 0 else 0.0
        return np.array([*v, *(a + np.array([-push, push]) / masses)])

    def hit(y):
        v = y[2:]
        change = (1 + e) * (v[0] - v[1]) / (1 + ratio)
        return np.array([*y[:2], v[0] - change, v[1] + ratio * change])

    times, shown = camera.times(rng, 3.0)
    start = np.array([0.1, rng.uniform(0.6, 0.8), rng.uniform(0.4, 0.6), rng.uniform(-0.2, 0.05)])
    gap = None if k else lambda y: y[1] - y[0] - distance
    places = moved(slope, start, shown, gap, hit)[:, :2]
    columns = camera.sees(rng, 1e3 * places)
    return Recording(
        written("time [s],left [mm],right [mm]", times, columns, 2), {"restitution": e, "mass_ratio": ratio}
    )


def film(rng: np.random.Generator, fault: str = "", size: float = 1.0) -> Recording:
    """A ball dropped on a floor, tracked in a film; pixels downwards, frames.

    Faults: perspective, clock, drag, soft, law.
    """
    e = rng.uniform(0.6, 0.85)
    drag = 0.3 * size if fault == "drag" else rng.uniform(0.0, 0.03)
    metre = rng.uniform(300.0, 500.0)
    fall = rng.uniform(0.9, 1.4)
    bounce = {"first": 0.0}
    k, c = _spring(0.04 * size, 1.0, e) if fault == "soft" else (0.0, 0.0)
    camera = _camera(fault, size, 0.1, False, rate=30.0, noise=0.7, digits=0, correlation=0.3)

    def slope(t, y):
        push = max(-k * y[0] - c * y[1], 0.0) if k and y[0] < 0 else 0.0
        return np.array([y[1], push - G - drag * abs(y[1]) * y[1]])

    def hit(y):
        bounce["first"] = bounce["first"] or -y[1]
        own = e - 0.1 * size * (-y[1] / bounce["first"] - 1) if fault == "law" else e
        return np.array([0.0, -own * y[1]])

    _, shown = camera.times(rng, 2.2)
    held = 0.1 + rng.uniform(0.0, 0.03)
    flying = np.maximum(shown - held, 0.0)
    q = moved(slope, np.array([fall, 0.0]), flying, None if k else lambda y: y[0], hit)[:, :1]
    columns = camera.sees(rng, 60.0 + metre * (fall - q))
    text = "".join(f"{i},{'' if np.isnan(y) else format(y, '.0f')}\n" for i, y in enumerate(columns[:, 0]))
    return Recording("frame,y [px]\n" + text, {"restitution": _pushed_back(k, c) if k else e})


def pucks(rng: np.random.Generator, fault: str = "", size: float = 1.0) -> Recording:
    """Two discs of 35 mm on an air table; video, cm.

    Faults: perspective, clock, drag, friction, tilt, soft.
    """
    e, ratio, distance = rng.uniform(0.6, 0.95), rng.uniform(0.7, 1.4), 0.07
    drag = 0.2 * size if fault == "drag" else 0.0
    friction = 0.05 * size if fault == "friction" else 0.0
    tilt = np.array([0.03 * size if fault == "tilt" else 0.0, 0.0] * 2)
    masses = np.repeat([1.0, ratio], 2)
    k, c = _spring(0.03 * size, ratio / (1 + ratio), e) if fault == "soft" else (0.0, 0.0)
    camera = _camera(fault, size, 0.05, rate=100.0, noise=0.02, digits=3)

    def normal(y):
        n = y[2:4] - y[:2]
        return n / np.hypot(*n), np.hypot(*n) - distance

    def slope(t, y):
        v = y[4:]
        speed = np.repeat(np.maximum(np.hypot(*v.reshape(2, 2).T), 1e-3), 2)
        a = tilt - drag * v - friction * v / speed
        n, open_ = normal(y)
        if k and open_ < 0:
            push = -k * open_ - c * n @ (v[2:] - v[:2])
            a = a + push * np.concatenate([-n, n]) / masses
        return np.concatenate([v, a])

    def hit(y):
        n, v = normal(y)[0], y[4:]
        push = -(1 + e) * n @ (v[2:] - v[:2]) * ratio / (1 + ratio)
        return np.concatenate([y[:4], v + push * np.concatenate([-n, n]) / masses])

    times, shown = camera.times(rng, 1.5)
    start = np.array([0.0, rng.uniform(-0.02, 0.02), rng.uniform(0.25, 0.3), 0.0])
    start = np.concatenate([start, [rng.uniform(0.4, 0.6), 0.02, rng.uniform(-0.1, 0.05), rng.uniform(-0.05, 0.05)]])
    places = moved(slope, start, shown, None if k else lambda y: normal(y)[1], hit)[:, :4]
    columns = camera.sees(rng, 100 * places)
    return Recording(written("time [s],x1 [cm],y1 [cm],x2 [cm],y2 [cm]", times, columns, 3), {"restitution": e})


def oscillator(rng: np.random.Generator, fault: str = "", size: float = 1.0) -> Recording:
    """A mass on a spring; video, mm.

    Faults: perspective, clock, drag, friction.
    """
    stiffness, damping = rng.uniform(20.0, 50.0), rng.uniform(0.05, 0.2)
    drag = 1.0 * size if fault == "drag" else 0.0
    friction = 0.05 * size if fault == "friction" else 0.0
    camera = _camera(fault, size, 0.1, rate=50.0, noise=0.3, digits=1)

    def slope(t, y):
        x, v = y
        return np.array([v, -stiffness * x - damping * v - drag * abs(v) * v + _rubbing(v, friction)])

    times, shown = camera.times(rng, 8.0)
    x = moved(slope, np.array([rng.uniform(0.1, 0.2), 0.0]), shown)[:, :1]
    columns = camera.sees(rng, 300.0 + 1e3 * x)
    return Recording(written("time [s],y [mm]", times, columns, 1), {"stiffness": stiffness})


KINDS: Mapping[str, tuple[Callable[..., Recording], tuple[str, ...]]] = {
    "carts": (carts, ("sag", "perspective", "clock", "friction", "soft")),
    "film": (film, ("perspective", "clock", "drag", "soft", "law")),
    "pucks": (pucks, ("perspective", "clock", "drag", "friction", "tilt", "soft")),
    "oscillator": (oscillator, ("perspective", "clock", "drag", "friction")),
}


def make(kind: str, fault: str, seed: int) -> Recording:
    """A recording of a kind; its fault is between a third of an ordinary one and an ordinary one."""
    rng = np.random.default_rng([seed, *map(ord, kind + fault)])
    # A size of 1 is easily seen, a third of it hardly.
    return KINDS[kind][0](rng, fault, float(np.exp(rng.uniform(np.log(0.3), 0.0))))
