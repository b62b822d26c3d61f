# %% [markdown]
# # Two riders on an air track
#
# Restitution and mass ratio of two riders, from one marker on each, by the scene `airtrack.toml`: every run alone, then
# the runs with one kind of bumper jointly. The riders were also weighed, so the mass ratio has an answer to be held
# against.
#
#     python experiments/airtrack.py [FOLDER] [--smoke]
#
# FOLDER (or the environment variable DIFFCONTACT_DATA, whose `airtrack_carts` it then is) holds `A2_*.csv` and
# `A3_*.csv`: motion capture at 500 Hz, columns `time [s]`, `x1 [mm]` ... `z2 [mm]`. The measurements are those of the
# public repository emilwolfgang/expfys (commit 01700e0); they carry no licence and are not part of this project.

# %%
import argparse
import os
import sys
from pathlib import Path

import jax

from diffcontact.host.progress import shown
from diffcontact.identify import FitResult
from diffcontact.scene import read_study

jax.config.update("jax_enable_x64", True)

HERE = Path(__file__).resolve().parent
SCENE = HERE / "airtrack.toml"
WEIGHED = {"A2": 0.1817 / 0.1831, "A3": 0.1813 / 0.1827}


# %%
def data_folder(given: str | None) -> Path:
    """The folder with the runs, from the argument or the environment."""
    if given is not None:
        return Path(given)
    return Path(os.environ.get("DIFFCONTACT_DATA", HERE.parents[1] / "shared" / "data")) / "airtrack_carts"


def fit_runs(files: list[Path]) -> FitResult:
    """One joint fit."""
    with shown():
        return read_study(SCENE, files).fit()


def line(label: str, kind: str, result: FitResult) -> str:
    """One row of the table: both estimates with their 95 % intervals, and the weighed mass ratio."""
    cells = [f"{label:14}"]
    for name in ("restitution", "mass_ratio"):
        low, high = result.interval95[name]
        cells.append(f"{result.params[name]:8.4f} +- {result.stderr[name]:.4f} [{low:.4f}, {high:.4f}]")
    notes = [f"{name} at its bound" for name in result.at_bound] + ([] if result.converged else [result.message])
    return "  ".join([*cells, f"{WEIGHED[kind]:.4f}", *notes])


# %% [markdown]
# Alone, a run can only look at the correlation of its own residuals; jointly, the scatter between the runs gives the
# error.


# %%
def main(arguments: list[str] | None = None) -> int:
    """Print the table; 0 also where there are no data, after saying so."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", nargs="?", help="with A2_*.csv and A3_*.csv")
    parser.add_argument("--smoke", action="store_true", help="the first run only")
    options = parser.parse_args(arguments)
    folder = data_folder(options.folder)
    runs = {kind: sorted(folder.glob(f"{kind}_*.csv")) for kind in WEIGHED}
    if not any(runs.values()):
        print(f"skipped: no A2_*.csv or A3_*.csv in {folder}; the head of this file says where they come from")
        return 0
    print(f"{'':14}  {'restitution':35}  {'mass ratio':35}  weighed")
    for kind, files in runs.items():
        for file in files:
            print(line(file.stem, kind, fit_runs([file])), flush=True)
            if options.smoke:
                return 0
        if len(files) > 1:
            print(line(f"{kind}, {len(files)} runs", kind, fit_runs(files)), flush=True)
    return 0


# %%
if __name__ == "__main__":
    sys.exit(main())
