# %% [markdown]
# # Recordings by hand and by diffcontact
#
# Each recording is fitted twice. By hand: thirty lines of numpy and scipy, as somebody would write them who wants one
# number and its error. By diffcontact: `new` and `fit` on the command line, nothing edited.
#
# - film: parabolas between the bounces of a ball, on a floor that may drift, `soft_l1`, sixty starts.
# - carts: a parabola for each cart on either side of the impact, 0.25 s long; the velocities where these meet.
#
# An error by hand is one standard error of white noise, and 2 of them the interval. Ours holds the correlation of the
# residuals, drag, and what else the scene leaves open. Agreement is an estimate within the union of both intervals.
# A verdict "no" says that the interval is not to be used.
#
# Run it: `python experiments/by_hand.py DATA`, or with `--smoke`, on one film and one run of carts.

# %%
from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from measuring import data, options
from numpy.typing import NDArray
from scipy.optimize import least_squares

SIGMAS = 2.0


@dataclass(frozen=True)
class Row:
    """One recording, by hand and by diffcontact."""

    name: str  # of the recording and what is sought
    hand: float  # hand, error: by hand
    error: float
    ours: float  # ours, low, high: by diffcontact
    low: float
    high: float
    explains: str  # the verdict
    seconds: tuple[float, float]  # of processor time, by hand and by diffcontact

    @property
    def agrees(self) -> bool:
        """Whether our estimate is within the union of both intervals, and the one by hand, too."""
        ends = sorted([self.hand - SIGMAS * self.error, self.hand + SIGMAS * self.error, self.low, self.high])
        return ends[0] <= self.ours <= ends[-1]

    @property
    def longer(self) -> float:
        """How much longer our interval is."""
        return (self.high - self.low) / (2 * SIGMAS * self.error)


def table(path: Path) -> NDArray:
    """The columns of a CSV by name, NaN where a field is empty."""
    return np.genfromtxt(path, delimiter=",", names=True, deletechars="")


# %% [markdown]
# ## By hand


# %%
def film(path: Path) -> dict[str, tuple[float, float]]:
    """Restitution of the first bounce of a falling ball."""
    data = table(path)
    known = (data["duplicate_frame"] == 0) & (data["outlier"] == 0)
    # Rows in which the picture repeats are no time; where the ball moves the copies are alike to a pixel.
    rows, y = data["row"][known], data["y_px_down"][known]
    falls = np.flatnonzero(y > y[0] + 0.05 * np.ptp(y))[0]
    rows, y = rows[falls - 1 :], y[falls - 1 :]
    moves = np.concatenate([[True], np.abs(np.diff(y)) > 1])
    y = y[moves]
    # The false detections of a film that was lost for some pictures leave a gap in the rows.
    gaps = np.diff(rows[moves], prepend=rows[moves][0] - 1)
    t = np.cumsum(np.where(gaps > 2, gaps * 4 / 5, 1.0))
    lowest = [i for i in range(2, y.size - 2) if y[i] >= max(y[i - 2 : i + 3]) and y[i] > (y.min() + y.max()) / 2]
    bounces = [i for k, i in enumerate(lowest) if k == 0 or i - lowest[k - 1] > 3][:3]
    y, t = y[: bounces[2]], t[: bounces[2]] - t[0]
    floor, half = y.max(), t[bounces[0]]

    def height(x, s):
        q, u, g, e, later, level, drift = x
        speed = np.sqrt(max(u * u + 2 * g * max(q, 0.0), 1e-12))
        first = (u + speed) / g
        second = first + 2 * e * speed / g
        z = np.where(s < first, q + u * s - g * s**2 / 2, e * speed * (s - first) - g * (s - first) ** 2 / 2)
        z = np.where(s < second, z, later * e * speed * (s - second) - g * (s - second) ** 2 / 2)
        return z - level - drift * s, first, second

    best, rng = None, np.random.default_rng(0)
    for _ in range(60):
        fall = floor - y[0]
        start = [fall + 9 * rng.normal(), 9 * rng.normal(), 2 * fall / half**2, *rng.uniform(0.6, 0.95, 2), floor, 0.0]
        keep = np.ones(y.size, bool)
        for _ in range(2):
            end = least_squares(
                lambda x, keep=keep: (-y - height(x, t)[0])[keep], start, loss="soft_l1", f_scale=3, x_scale="jac"
            )
            _, first, second = height(end.x, t)
            # Pictures beside a bounce are blurred.
            keep, start = (np.abs(t - first) > 1) & (np.abs(t - second) > 1), end.x
        if best is None or end.cost < best[0].cost:
            best = end, int(keep.sum())
    end, count = best
    covariance = np.linalg.pinv(end.jac.T @ end.jac) * 2 * end.cost / (count - end.x.size)
    return {"restitution": (float(end.x[3]), float(np.sqrt(covariance[3, 3])))}


def carts(path: Path) -> dict[str, tuple[float, float]]:
    """Restitution and ratio of the masses of two carts, from their velocities on either side of the impact."""
    data = np.genfromtxt(path, delimiter=",", skip_header=1)
    t, first, second = data[:, 0], data[:, 1:4], data[:, 4:7]
    seen = np.isfinite(data).all(axis=1)
    points = np.concatenate([first[seen], second[seen]])
    line = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)[2][0]
    x = np.stack([first @ line, second @ line])
    apart = np.abs(x[1] - x[0])
    impact = t[seen][np.argmin(apart[seen])]
    velocity, error = np.zeros((2, 2)), np.zeros((2, 2))
    for i in range(2):
        for k, side in enumerate((-1, 1)):
            near = np.isfinite(x[i]) & (side * (t - impact) > 0.05) & (side * (t - impact) < 0.3)
            s = t[near] - impact
            coefficients, covariance = np.polyfit(s, x[i, near], 2, cov=True)
            velocity[i, k], error[i, k] = coefficients[1], np.sqrt(covariance[1, 1])
    (a, b), (c, d) = velocity
    ratio, e = -(d - c) / (b - a), -(d - b) / (c - a)
    off_e = np.hypot(np.hypot(error[0, 1], error[1, 1]), e * np.hypot(error[0, 0], error[1, 0])) / abs(c - a)
    off_ratio = np.hypot(np.hypot(*error[1]), ratio * np.hypot(*error[0])) / abs(b - a)
    return {"restitution": (float(e), float(off_e)), "mass_ratio": (float(ratio), float(off_ratio))}


# %% [markdown]
# ## By diffcontact


# %%
def by_command(path: Path) -> tuple[dict, float]:
    """What `new` and `fit` find, and how many seconds of processor time they take, everything compiled anew."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"DIFFCONTACT_CACHE": str(Path(folder) / "cache")}
        (Path(folder) / path.name).write_bytes(path.read_bytes())
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        for arguments in (["new", path.name], ["fit", f"{path.stem}.toml", "--out", "out"]):
            done = subprocess.run(
                [sys.executable, "-m", "diffcontact", *arguments], cwd=folder, env=environment, capture_output=True
            )
            if done.returncode not in (0, 3):
                raise RuntimeError(done.stderr.decode())
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found = json.loads((Path(folder) / "out" / "result.json").read_text())
    return found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


# %%
def rows(data: Path, smoke: bool) -> list[Row]:
    """Every recording of the folder."""
    films = ["bouncing_ball_video/ball1_3.csv", "bouncing_ball_video/ball1_4.csv"]
    runs = [f"airtrack_carts/A2_{k}.csv" for k in range(1, 7)]
    work: list[tuple[Callable, str]] = [(film, name) for name in films[: 1 if smoke else 2]]
    work += [(carts, name) for name in runs[: 1 if smoke else 6]]
    found = []
    for by_hand, name in work:
        path = data / name
        began = time.process_time()
        hand = by_hand(path)
        seconds = time.process_time() - began
        ours, took = by_command(path)
        for sought, (value, error) in hand.items():
            entry = ours["parameters"][sought]
            low, high = entry["interval95"]
            explains = ours["verdict"]["explains"]
            found.append(
                Row(f"{path.stem} {sought}", value, error, entry["value"], low, high, explains, (seconds, took))
            )
            print(found[-1].name, *(f"{x:.4f}" for x in (value, error, entry["value"], low, high)), explains)
    return found


def main(arguments: list[str] | None = None) -> list[Row]:
    """Print the table."""
    chosen = options(arguments, "one film and one run of carts", ("data", data()))
    if not (chosen.data / "airtrack_carts").is_dir():
        print("by_hand: no folder of recordings, expected DATA or DIFFCONTACT_DATA; skipped")
        return []
    found = rows(chosen.data, chosen.smoke)
    print(f"{'':26}{'by hand':>18}{'diffcontact':>30}{'longer':>8} {'verdict':8} seconds (hand, ours)")
    for row in found:
        hand = f"{row.hand:.4f} +- {row.error:.4f}"
        ours = f"{row.ours:.4f} [{row.low:.4f}, {row.high:.4f}]"
        agrees = "" if row.agrees else "  apart"
        seconds = f"{row.seconds[0]:.1f} {row.seconds[1]:.1f}"
        print(f"{row.name:26}{hand:>18}{ours:>30}{row.longer:8.1f} {row.explains:8} {seconds}{agrees}")
    return found


if __name__ == "__main__":
    main()
