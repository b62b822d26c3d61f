# %% [markdown]
# # The spin of a table-tennis ball, from where it flies
#
# Positions of a ball before and after it bounces, by the scene `pingpong.toml`: restitution and friction of the bounce
# over all tracks, and for each track the spin, which nobody needs to have seen: the air bends the flight of a ball
# that spins, and the table kicks it. The spins were measured, too, from dots on the ball, and stand beside.
#
#     python experiments/pingpong.py [FOLDER] [--tracks N] [--smoke]
#
# FOLDER (or the environment variable DIFFCONTACT_DATA, whose `pingpong_spin` it then is) holds `000.csv` and so on,
# `time [s]`, `x [m]`, `y [m]`, `z [m]`, and `index.csv` with the measured spins: from the data set of Gossard et al.,
# SpinDOE (IROS 2023), cogsys-tuebingen/spindoe at e7046a8. They carry no licence and are not part of this project.

# %%
from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np

from diffcontact.identify import FitResult
from diffcontact.progress import shown
from diffcontact.scene import read_study

jax.config.update("jax_enable_x64", True)

HERE = Path(__file__).resolve().parent
SCENE = HERE / "pingpong.toml"
# The flights bend, and bounces kick, as if the measured y had the other sign: see the head of the scene.
MIRRORED = np.array([1.0, -1.0, 1.0])
# Nobody gives a ball more [rad/s].
FASTEST = 1000.0


# %%
def tracks_with_a_bounce(folder: Path) -> list[Path]:
    """The tracks of which the scene finds the bounce and enough on both sides of it."""
    found = []
    for file in sorted(folder.glob("[0-9]*.csv")):
        try:
            (run,) = read_study(SCENE, [file]).runs
        except ValueError:
            continue
        if len(run.times) >= 22 and np.all(np.diff(run.times) < 0.03):
            found.append(file)
    return found


def measured_spins(folder: Path) -> dict[str, np.ndarray]:
    """Track -> spin [rad/s]."""
    rows = (line.split(",") for line in (folder / "index.csv").read_text().splitlines()[1:])
    return {track: np.array(spin, float) for track, *spin in rows}


def bends_otherwise(track: Path, spin: np.ndarray) -> bool:
    """Whether the flight before the bounce bends to where no side force along w x v would bend it, whatever its law.

    A parabola through these samples, without gravity and without what is along the flight, is the side force over the
    mass. It may be any length along w x v, and none the other way or across, but for three standard errors: of the
    parabola, and of 0.5 m/s^2 for what else bends flights (the frame of the cameras, drag that changes on the way).
    """
    (run,) = read_study(SCENE, [track]).runs
    count = int(np.argmin(run.values[:, 2])) - 1
    t, places = run.times[:count], run.values[:count]
    powers = np.vander(t - t.mean(), 3, increasing=True)
    (_, v, half), squares, *_ = np.linalg.lstsq(powers, places, rcond=None)
    variance = squares / (len(places) - 3) * 4 * np.linalg.inv(powers.T @ powers)[2, 2] + 0.5**2
    along, across = np.cross(spin, v), np.cross(v, np.cross(spin, v))
    directions = np.array([along / np.linalg.norm(along), across / np.linalg.norm(across)])
    bend, turned = directions @ (2 * half + [0, 0, 9.81])
    errors = np.sqrt(directions**2 @ variance)
    return bool(np.hypot(min(bend, 0.0) / errors[0], turned / errors[1]) > 3)


@dataclass(frozen=True)
class Comparison:
    """Spins (n, 3) [rad/s] as they were fitted, with 95 % intervals (n, 3, 2), and as they were measured.

    Attributes:
        error: median over tracks of the length of fitted minus measured [rad/s].
        held: which part of the measured components is in its interval.
    """

    fitted: np.ndarray
    interval: np.ndarray
    measured: np.ndarray

    @property
    def error(self) -> float:
        return float(np.median(np.linalg.norm(self.fitted - self.measured, axis=1)))

    @property
    def inside(self) -> np.ndarray:
        return (self.interval[..., 0] <= self.measured) & (self.measured <= self.interval[..., 1])

    @property
    def held(self) -> float:
        return float(self.inside.mean())

    def told(self) -> str:
        """Over all components and for each."""
        each = "   ".join(
            f"{axis} {share:.0%}, {off:.0f} rad/s"
            for axis, share, off in zip(
                "xyz", self.inside.mean(axis=0), np.median(np.abs(self.fitted - self.measured), axis=0), strict=True
            )
        )
        size = np.median(np.linalg.norm(self.measured, axis=1))
        return f"{self.held:.0%} held, median error {self.error:.0f} of {size:.0f} rad/s   ({each})"

    def of(self, chosen: np.ndarray) -> Comparison:
        """Of some tracks only."""
        return Comparison(self.fitted[chosen], self.interval[chosen], self.measured[chosen])


def compared(result: FitResult, measured: np.ndarray) -> Comparison:
    """The spins of a joint fit beside measured ones (n, 3)."""
    return Comparison(np.asarray(result.params["spin0"]), np.asarray(result.interval95["spin0"]), measured)


# %%
def main(arguments: list[str] | None = None) -> Comparison | None:
    parser = argparse.ArgumentParser()
    default = Path(os.environ.get("DIFFCONTACT_DATA", HERE.parents[1] / "shared" / "data")) / "pingpong_spin"
    parser.add_argument("folder", nargs="?", type=Path, default=default, help="with 000.csv ... and index.csv")
    parser.add_argument("--tracks", type=int, default=12, help="how many of those with a bounce (12)")
    parser.add_argument("--smoke", action="store_true", help="three tracks")
    options = parser.parse_args(arguments)
    if not (options.folder / "index.csv").is_file():
        print(f"skipped: no index.csv in {options.folder}; the head of this file says where the tracks come from")
        return None
    spins = measured_spins(options.folder)
    files = [file for file in tracks_with_a_bounce(options.folder) if np.linalg.norm(spins[file.stem]) < FASTEST]
    count = 3 if options.smoke else options.tracks
    # Evenly out of all, so that no day or player is left out.
    files = [files[i] for i in np.unique(np.linspace(0, len(files) - 1, count).astype(int))]
    with shown():
        result = read_study(SCENE, files).fit()
    print(result.verdict, "\n")
    for name in ("restitution", "friction"):
        low, high = result.interval95[name]
        print(f"{name:12} {result.params[name]:.3f} +- {result.stderr[name]:.3f}  [{low:.3f}, {high:.3f}]")
    beside = compared(result, MIRRORED * np.array([spins[file.stem] for file in files]))
    otherwise = np.array([bends_otherwise(file, spins[file.stem]) for file in files])
    print(
        "\ntrack   spin [rad/s]: fitted, 95 % interval, measured (y mirrored); * outside, ! the flight bends otherwise"
    )
    for file, wrong, fitted, ends, known, inside in zip(
        files, otherwise, beside.fitted, beside.interval, beside.measured, beside.inside, strict=True
    ):
        cells = [
            f"{w:6.0f} [{low:5.0f}, {high:5.0f}] {truth:5.0f}{' ' if held else '*'}"
            for w, (low, high), truth, held in zip(fitted, ends, known, inside, strict=True)
        ]
        print(f"{file.stem:4}{'! ' if wrong else '  '}{'   '.join(cells)}")
    print(f"\nall {len(files)}: {beside.told()}")
    for name, chosen in (("bent as measured", ~otherwise), ("bent otherwise", otherwise)):
        if chosen.any():
            print(f"{name}, {chosen.sum()}: {beside.of(chosen).told()}")
    return beside


# %%
if __name__ == "__main__":
    main()
