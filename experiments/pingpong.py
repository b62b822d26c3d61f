# %% [markdown]
# # The spin of a table-tennis ball, from where it flies
#
# Positions of a ball before and after it bounces, by the scene `pingpong.toml`: restitution and friction of the bounce
# for each track, and its spin, which nobody needs to have seen: the air bends the flight of a ball that spins, and the
# table kicks it. The spins were measured, too, from dots on the ball, and stand beside.
#
#     python experiments/pingpong.py [FOLDER] [--tracks N] [--smoke]
#
# FOLDER (or the environment variable DIFFCONTACT_DATA, whose `pingpong_spin` it then is) holds `000.csv` and so on,
# `time [s]`, `x [m]`, `y [m]`, `z [m]`, and `index.csv` with the measured spins: from the data set of Gossard et al.,
# SpinDOE (IROS 2023), cogsys-tuebingen/spindoe at e7046a8. They carry no licence and are not part of this project.

# %%
from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
from measuring import data, options
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import t as student

from diffcontact.host.progress import shown
from diffcontact.identify import FitResult
from diffcontact.scene import read_study

jax.config.update("jax_enable_x64", True)

HERE = Path(__file__).resolve().parent
SCENE = HERE / "pingpong.toml"
# The table's axes in those of the camera that saw the dots: x to the right, y downwards, z where it looks, along the
# table's y. The head of the scene says what shows it.
CAMERA = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
# Nobody gives a ball more [rad/s].
FASTEST = 1000.0
# From this track to that one flights without a bounce bend as the spin says that is listed so many numbers later; the
# others bend as no rule says.
LISTED = (0, 54, 0), (57, 96, 3), (108, 213, 0)


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


def measured_spins(folder: Path) -> dict[str, NDArray]:
    """Track -> spin [rad/s] along the table's axes."""
    rows = (line.split(",") for line in (folder / "index.csv").read_text().splitlines()[1:])
    return {track: CAMERA @ np.array(spin, float) for track, *spin in rows}


def listed_as(track: str) -> str | None:
    """Under which number the spin of a track is listed; None where flights do not show it."""
    number = int(track)
    return next((f"{number + later:03}" for first, last, later in LISTED if first <= number <= last), None)


def over_tracks(values: NDArray, errors: NDArray) -> tuple[float, float, float]:
    """Mean of what each track has of its own, half of its 95 % interval, and by how much tracks differ.

    Weights 1 / (s^2 + tau^2), with tau^2 where the sum of squares is n - 1 (R. C. Paule, J. Mandel, J. Research NBS 87
    (1982) 377); Student's t.
    """

    def weighed(scatter: float) -> tuple[float, float, float]:
        weight = 1 / (errors**2 + scatter)
        mean = float(weight @ values / weight.sum())
        return mean, float(weight @ (values - mean) ** 2), float(weight.sum())

    freedom = values.size - 1
    most = float(np.sum((values - values.mean()) ** 2)) / freedom

    def excess(scatter: float) -> float:
        return weighed(scatter)[1] - freedom

    # At `most` the errors only make the weights smaller than without them.
    scatter = float(brentq(excess, 0.0, most)) if excess(0.0) > 0 else 0.0  # pyright: ignore[reportArgumentType]
    mean, _, weight = weighed(scatter)
    return mean, float(student.ppf(0.975, freedom) / np.sqrt(weight)), float(np.sqrt(scatter))


@dataclass(frozen=True)
class Comparison:
    """Spins (n, 3) [rad/s] as they were fitted, with 95 % intervals (n, 3, 2), and as they were measured.

    Attributes:
        error: median over tracks of the length of fitted minus measured [rad/s].
        held: which part of the measured components is in its interval.
    """

    fitted: NDArray
    interval: NDArray
    measured: NDArray

    @property
    def error(self) -> float:
        return float(np.median(np.linalg.norm(self.fitted - self.measured, axis=1)))

    @property
    def inside(self) -> NDArray:
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

    def of(self, chosen: Sequence[int]) -> Comparison:
        """Of some tracks only."""
        at = np.array(chosen, int)
        return Comparison(self.fitted[at], self.interval[at], self.measured[at])


def compared(result: FitResult, measured: NDArray) -> Comparison:
    """The spins of a joint fit beside measured ones (n, 3)."""
    return Comparison(np.asarray(result.params["spin0"]), np.asarray(result.interval95["spin0"]), measured)


# %%
def main(arguments: list[str] | None = None) -> Comparison | None:
    chosen = options(arguments, "three tracks", ("folder", data("pingpong_spin")), tracks=12)
    if not (chosen.folder / "index.csv").is_file():
        print(f"skipped: no index.csv in {chosen.folder}; the head of this file says where the tracks come from")
        return None
    spins = measured_spins(chosen.folder)
    sorted_out = {track: spins[name] for track in spins if (name := listed_as(track)) in spins}
    bounce = tracks_with_a_bounce(chosen.folder)
    files = [file for file in bounce if np.linalg.norm(spins[file.stem]) < FASTEST]
    count = 3 if chosen.smoke else chosen.tracks
    # Evenly out of all, so that no day or player is left out.
    files = [files[i] for i in np.unique(np.linspace(0, len(files) - 1, count).astype(int))]
    with shown():
        result = read_study(SCENE, files).fit()
    print(result.verdict, "\n")
    for name in ("restitution", "friction"):
        values, errors = np.asarray(result.params[name]), np.asarray(result.stderr[name])
        # Of the friction of a ball that grips only the prior is known.
        seen = errors < 0.025
        mean, half, scatter = over_tracks(values[seen], errors[seen])
        ends = f"[{mean - half:.3f}, {mean + half:.3f}]"
        print(f"{name:12} {mean:.3f} {ends} over {seen.sum()} tracks, which differ by {scatter:.3f}")
    beside = compared(result, np.array([spins[file.stem] for file in files]))
    print("\ntrack   spin [rad/s]: fitted, 95 % interval, measured; * outside")
    for file, fitted, ends, known, inside in zip(
        files, beside.fitted, beside.interval, beside.measured, beside.inside, strict=True
    ):
        cells = [
            f"{w:6.0f} [{low:5.0f}, {high:5.0f}] {truth:5.0f}{' ' if held else '*'}"
            for w, (low, high), truth, held in zip(fitted, ends, known, inside, strict=True)
        ]
        print(f"{file.stem:6}{'   '.join(cells)}")
    print(f"\nall {len(files)} as listed: {beside.told()}")
    chosen = [i for i, file in enumerate(files) if file.stem in sorted_out]
    rightly = compared(result, np.array([sorted_out.get(file.stem, np.full(3, np.nan)) for file in files])).of(chosen)
    if chosen:
        print(f"the {len(chosen)} whose spin is known: {rightly.told()}")
    return beside


# %%
if __name__ == "__main__":
    main()
