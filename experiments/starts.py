# %% [markdown]
# # From bad starts to the global optimum
#
# Contact makes the cost of a fit rugged: where the simulation has another number of impacts than the data, or has them
# at other times, it is full of local minima. How many of 100 bad starts reach the global optimum?
#
# - ball: a bouncing ball, six bounces, positions with 1 % noise; e, g, q0 and u0 are sought.
# - box: three balls in a box, eight impacts, positions with 1 % noise; one e, two mass ratios, all positions and
#   velocities are sought, 15 parameters.
#
# Starts: e from anywhere in [0.05, 0.99], every entry of the initial state, g and the mass ratios off by up to 20 %. A
# fit has reached the global optimum when its cost is within 0.1 % of where the fit from the truth ends.
#
# Run it: `python experiments/starts.py` (half an hour on one core), or with `--smoke`.

# %%
from __future__ import annotations

import time

import jax
import numpy as np
from measuring import options
from problems.fits import BOUNDED, Case

from diffcontact.host.progress import shown
from diffcontact.identify.objective import Objective
from diffcontact.identify.search import search

jax.config.update("jax_enable_x64", True)

WAYS = {
    "single shooting": {"shooting": "single"},
    "automatic": {},
    "growing horizon": {"shooting": "growing"},
    "16 starts, single": {"shooting": "single", "starts": 16},
}


# %%
def study(name: str, case: Case, ways: dict[str, dict], starts: int) -> dict[str, tuple[int, float]]:
    """Per way: how many of the starts reach the global optimum, and the mean time of a fit [s]; printed as it comes."""
    problem, rng = case.measured(0), np.random.default_rng(1)

    def cost(start: dict, starts: int = 1, shooting: str = "auto") -> float:
        """Where the fit ends; `dc.fit` without its error bars."""
        return search(Objective.of(problem, start, case.free, tied=case.tied), "lm", starts, 0, shooting).end.cost

    best = cost(case.truth, shooting="single")
    points = [case.start(rng, 0.2, lambda e: rng.uniform(0.05, 0.99)) for _ in range(starts)]
    found = {}
    for way, how in ways.items():
        begin = time.perf_counter()
        costs = np.array([cost(point, **how) for point in points])
        # A start may find a better minimum than the truth leads to: that is the global one then.
        best = min(best, costs.min())
        arrived, seconds = int(np.sum(costs <= 1.001 * best)), (time.perf_counter() - begin) / starts
        found[way] = arrived, seconds
        print(f"{name:5} {way:18} {arrived:4} of {starts} reach the global optimum, {seconds:6.2f} s a fit", flush=True)
    return found


def main(arguments: list[str] | None = None) -> dict[str, dict[str, tuple[int, float]]]:
    chosen = options(arguments, "six starts of the ball", case={"choices": [*BOUNDED]}, starts=100)
    names = ["ball"] if chosen.smoke else [chosen.case] if chosen.case else [*BOUNDED]
    ways = dict(list(WAYS.items())[:2]) if chosen.smoke else WAYS
    return {name: study(name, BOUNDED[name], ways, 6 if chosen.smoke else chosen.starts) for name in names}


if __name__ == "__main__":
    with shown():
        main()
