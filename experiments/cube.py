# %% [markdown]
# # How near do predicted tosses of a cube come to the measured ones?
#
# 143 tosses of an acrylic cube onto a wooden table, tracked at 148 Hz: the data of Pfrommer, Halm and Posa, ContactNets
# (CoRL 2020), DAIRLab/contact-nets at c3dc21c, BSD-3-Clause. Each toss is predicted from its first ten samples alone,
# by restitution and friction that were found on the *other* tosses, and compared with what the camera saw:
#
#     error of a toss = mean over its samples of the distance of the centres, in sides of the cube, and of the angle
#
# Acosta, Yang and Posa, Validating Robotics Simulators on Real-World Impacts (IEEE RA-L 7, 2022), are quoted with 13.5
# +- 8.2 % of the side and 16.5 +- 20.0 degrees for Drake, 14.9 +- 8.9 % and 16.5 +- 20.2 for Bullet, 25.1 +- 10.8 % and
# 21.7 +- 21.4 for MuJoCo, each with contact parameters that were fitted for it, on 550 tosses of which these are 143.
# These are figures as later projects quote them, who take them for such means over samples; the paper was not at hand.
#
# Found on 48 of them (every third), with Poisson's restitution, each by what the others say: 11.1 +- 6.7 % of the side,
# 13.7 +- 17.6 degrees, by e = 0.3 and mu = 0.18; 92 % of these predictions have status 0, others are TOO_COARSE. The
# distance is least near mu = 0.18 for every e, and hardly depends on e (11.1 % for 0.3, 12.2 % for 0.06; larger e were
# not tried). With mu = 0.21 it is 20 to 23 %: the friction of slides by hand, 0.22, does not predict these tosses.
#
#     python experiments/cube.py [FILE] [--every N] [--csv TOSSES] [--smoke]
#
# FILE (or the environment variable DIFFCONTACT_DATA, whose `contactnets_cube/tosses.npz` it then is) holds `state`,
# rows of x y z, qw qx qy qz and velocities, and `offsets`, where each toss begins. `--csv` writes every toss as a CSV
# file in the form of the scene `cube.toml`, from which the starts here come.

# %%
from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from measuring import data, options

import diffcontact as dc
from diffcontact.scene import read_study
from diffcontact.scene.study import Study
from diffcontact.systems import poses

jax.config.update("jax_enable_x64", True)

HERE = Path(__file__).resolve().parent
SCENE = HERE / "cube.toml"
RATE, SIDE = 148.0, 0.1048
HEADER = "time [s],x [m],y [m],z [m],qw,qx,qy,qz"
# e and mu that are tried.
RESTITUTION = (0.06, 0.125, 0.2, 0.3)
FRICTION = (0.165, 0.18, 0.195, 0.21)
_SHARED = ("mass", "inertia", "gravity", "plane_offset")


# %%
def write_tosses(file: Path, folder: Path, every: int = 1) -> list[Path]:
    """One CSV file for each toss, or for one in so many, of the archive."""
    with np.load(file) as archive:
        rows = np.split(archive["state"][:, :7].astype(float), archive["offsets"][1:-1])
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for number in range(0, len(rows), every):
        files.append(folder / f"toss_{number:03d}.csv")
        table = np.column_stack([np.arange(len(rows[number])) / RATE, rows[number]])
        np.savetxt(files[-1], table, delimiter=",", header=HEADER, comments="", fmt="%.8g")
    return files


@dataclass(frozen=True)
class Errors:
    """How far predicted tosses (n,) are from the measured ones."""

    place: np.ndarray  # mean distance of the centres, in sides of the cube
    angle: np.ndarray  # mean angle between the orientations [degrees]
    status: np.ndarray  # of the simulation

    def __str__(self) -> str:
        fine = np.mean(self.status == 0)
        return (
            f"{100 * self.place.mean():5.1f} +- {100 * self.place.std():4.1f} %"
            f"{self.angle.mean():7.1f} +- {self.angle.std():4.1f} degrees   ({fine:.0%} of status 0)"
        )


@partial(jax.jit, static_argnames="system")
def _rolled_out(system, params, times, q0, u0):
    """(n, samples, 7) the poses of all tosses, and statuses (n,); one after the other, so that each ends by itself."""

    def one(start):
        run = dc.simulate(system, params, *start, times, substeps=2)
        return run.q, run.status

    return jax.lax.map(one, (q0, u0))


def predicted(study: Study, restitution: float, friction: float) -> Errors:
    """All tosses of a study, from the states that their first samples give."""
    # One friction for slides and impacts, whatever the scene fits.
    known = study.params(0) | {"restitution": restitution, "friction": friction, "friction_loss": 0.0}
    starts = [study.scene.ready.initial(study.params(i)) for i in range(len(study.runs))]
    q0, u0 = (jnp.stack(parts) for parts in zip(*starts, strict=True))
    longest = max(study.runs, key=lambda run: run.times.size).times
    shared = {name: known[name] for name in (*_SHARED, "restitution", "friction", "friction_loss")}
    q, status = _rolled_out(study.scene.ready.system, shared, jnp.asarray(longest), q0, u0)
    place, angle = [], []
    for i, run in enumerate(study.runs):
        count = run.times.size
        seen = study.given["measured_orientation"][i][:count]
        place.append(np.linalg.norm(q[i, :count, :3] - run.values[:, :3], axis=1).mean() / SIDE)
        off = poses.rotation_vector(seen, q[i, :count, 3:])
        angle.append(np.degrees(np.linalg.norm(off, axis=1)).mean())
    return Errors(np.array(place), np.array(angle), np.asarray(status))


def left_out(tried: Sequence[Errors]) -> tuple[Errors, np.ndarray]:
    """Each toss by the parameters that are best, in the mean distance, for all others; and which (n,) these are."""
    place = np.stack([one.place for one in tried])
    others = place.sum(axis=1, keepdims=True) - place
    best = np.argmin(others, axis=0)
    each = np.arange(best.size)
    picked = (np.stack([getattr(one, name) for one in tried])[best, each] for name in ("place", "angle", "status"))
    return Errors(*picked), best


# %%
def main(arguments: list[str] | None = None) -> Errors | None:
    chosen = options(
        arguments,
        "six tosses, four pairs of e and mu",
        ("file", data("contactnets_cube") / "tosses.npz"),
        every=1,  # one toss in so many
        csv={"type": Path, "help": "a folder for the tosses as CSV files; nothing else is done"},
    )
    if not chosen.file.is_file():
        print(f"{chosen.file} is absent: nothing to do")
        return None
    if chosen.csv is not None:
        print(f"{len(write_tosses(chosen.file, chosen.csv, chosen.every))} tosses are in {chosen.csv}")
        return None
    restitution, friction = (RESTITUTION[:2], FRICTION[:2]) if chosen.smoke else (RESTITUTION, FRICTION)
    with tempfile.TemporaryDirectory() as folder:
        study = read_study(SCENE, write_tosses(chosen.file, Path(folder), 24 if chosen.smoke else chosen.every))
    law = study.scene.ready.system.impact_law
    print(f"{len(study.runs)} tosses, {law}'s restitution; mean errors over each toss")
    tried, pairs = [], [(e, mu) for e in restitution for mu in friction]
    for e, mu in pairs:
        tried.append(predicted(study, e, mu))
        print(f"e {e:5.3f}  mu {mu:5.3f}  {tried[-1]}", flush=True)
    found, best = left_out(tried)
    used = ", ".join(f"e {pairs[k][0]} mu {pairs[k][1]} ({np.sum(best == k)} tosses)" for k in np.unique(best))
    print(f"leave one out       {found}\nby {used}")
    print("published: Drake     13.5 +-  8.2 %   16.5 +- 20.0 degrees (Acosta, Yang, Posa 2022)")
    return found


if __name__ == "__main__":
    main()
