# %% [markdown]
# # Does a cube have one coefficient of friction?
#
# The tosses of `cube.py`, without any simulation: what friction takes from a cube that slides on its face, and from one
# that hits the table with a corner and slips all through one way.
#
#     slide      -dv/dt / g                      of the centre, a parabola through its places
#     impact     |change of v_T| / change of v_N of the centre, gravity taken off; mu where the slip keeps its direction
#
# Found on the 143 tosses: 143 slides at 0.1 to 0.5 m/s say mu = 0.226, quartiles 0.218 and 0.235, the same for every
# direction within 0.01 (the table is level). 212 impacts say 0.188, quartiles 0.164 and 0.208, and the less the harder
# and faster they are:
#
#     mu = 0.222 +- 0.008 - (0.023 +- 0.008) v_N - (0.026 +- 0.011) v_T
#
# with v_N the change of the normal velocity and v_T the slip, both in m/s. Gentle impacts have the friction of slides.
# Two corners that slip different ways at once are not the reason: where the lowest one is lower by a centimetre, 55
# impacts say 0.168. So no single mu holds for these tosses: one that is fitted to all samples, 0.18 to 0.19, is that of
# their impacts. `cube.toml` fits one that falls with the speed of approach, and finds 0.210 [0.195, 0.225] at speed 0.
#
#     python experiments/cube_friction.py [FILE]

# %%
from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).resolve().parent
RATE = 148.0
# Of the tracker's metre, which is longer by 2.2 %: see `cube.toml`.
GRAVITY, HALF_SIDE = 9.60, 0.05125
_CORNERS = HALF_SIDE * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
# A face lies where its corners are as low as this, a slide is as fast and has as many samples.
_FLAT, _MOVING, _LONG = 4e-3, 0.12, 9
# An impact is where the table pushes by more than this times the weight, by at least so much in all [m/s]; its slip
# keeps its direction to 14 degrees.
_PUSHED, _LEAST, _ONE_WAY = 1.5, 0.3, 0.97


def corners(poses: NDArray) -> NDArray:
    """(n, 8, 3) places of the corners, of poses (n, 7) x y z, qw qx qy qz."""
    w, v = poses[:, None, 3:4], poses[:, None, 4:]
    turned = _CORNERS + 2 * w * np.cross(v, _CORNERS) + 2 * np.cross(v, np.cross(v, _CORNERS))
    return poses[:, None, :3] + turned


def stretches(on: NDArray) -> list[tuple[int, int]]:
    """(begin, end) of the runs of True in on (n,)."""
    steps = np.flatnonzero(np.diff(np.concatenate([[0], on.astype(int), [0]])))
    return [(int(begin), int(end)) for begin, end in zip(steps[::2], steps[1::2], strict=True)]


def slides(poses: NDArray) -> list[float]:
    """mu of each stretch of a toss in which the cube slides on a face."""
    low = np.sort(corners(poses)[:, :, 2], axis=1)[:, :4]
    flat = np.all(np.abs(low) < _FLAT, axis=1) & (np.ptp(low, axis=1) < _FLAT)
    speed = np.linalg.norm(np.gradient(poses[:, :2], 1 / RATE, axis=0), axis=1)
    found = []
    for begin, end in stretches(flat & (speed > _MOVING)):
        if end - begin >= _LONG:
            times = np.arange(end - begin - 2) / RATE
            powers = np.vander(times - times.mean(), 3, increasing=True)
            _, v, half = np.linalg.lstsq(powers, poses[begin + 1 : end - 1, :2], rcond=None)[0]
            found.append(float(-2 * half @ v / np.linalg.norm(v)) / GRAVITY)
    return found


def impacts(poses: NDArray) -> list[tuple[float, float, float]]:
    """(ratio, v_N, v_T) of each impact of a toss in which the lowest corner slips all through one way."""
    places = corners(poses)
    v, slip = (np.diff(x, axis=0) * RATE for x in (poses[:, :3], places[:, :, :2]))
    pushed = np.diff(v[:, 2]) * RATE + GRAVITY > _PUSHED * GRAVITY
    found = []
    for begin, end in stretches(pushed):
        before, after = max(begin - 1, 0), min(end + 1, len(v) - 1)
        kick = v[after] - v[before] + [0, 0, GRAVITY * (after - before) / RATE]
        corner = np.argmin(places[(before + after + 1) // 2, :, 2])
        slips, length = slip[[before, after], corner], np.linalg.norm(kick[:2])
        speeds = np.linalg.norm(slips, axis=1)
        if kick[2] > _LEAST and np.all(-slips @ kick[:2] > _ONE_WAY * speeds * length):
            found.append((float(length / kick[2]), float(kick[2]), float(speeds.mean())))
    return found


def falls(ratio: NDArray, *with_what: NDArray) -> tuple[NDArray, NDArray]:
    """Coefficients of ratio = c_0 + c_1 x_1 + ..., and their standard errors."""
    columns = np.column_stack([np.ones_like(ratio), *with_what])
    found, squares, *_ = np.linalg.lstsq(columns, ratio, rcond=None)
    variance = squares[0] / (ratio.size - found.size) * np.linalg.inv(columns.T @ columns)
    return found, np.sqrt(np.diag(variance))


# %%
def main(arguments: list[str] | None = None) -> tuple[NDArray, NDArray] | None:
    parser = argparse.ArgumentParser()
    default = Path(os.environ.get("DIFFCONTACT_DATA", HERE.parents[1] / "shared" / "data"))
    parser.add_argument("file", nargs="?", type=Path, default=default / "contactnets_cube" / "tosses.npz")
    options = parser.parse_args(arguments)
    if not options.file.is_file():
        print(f"{options.file} is absent: nothing to do")
        return None
    with np.load(options.file) as archive:
        tosses = np.split(archive["state"][:, :7].astype(float), archive["offsets"][1:-1])
    sliding = np.array([mu for toss in tosses for mu in slides(toss)])
    hit = np.array([one for toss in tosses for one in impacts(toss)])
    for name, mu in (("slides", sliding), ("impacts", hit[:, 0])):
        low, middle, high = np.percentile(mu, [25, 50, 75])
        print(f"{mu.size} {name}: mu = {middle:.3f}, quartiles {low:.3f} and {high:.3f}")
    terms = zip(*falls(*hit.T), ("", " v_N", " v_T"), strict=True)
    print(f"impacts: mu = {' '.join(f'({value:+.3f} +- {error:.3f}){what}' for value, error, what in terms)}")
    return sliding, hit


if __name__ == "__main__":
    main()
