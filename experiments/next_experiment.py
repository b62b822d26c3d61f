# %% [markdown]
# # What to film next: is what a design promises what one gets?
#
# A design says how certain a parameter would become if one filmed this instead of that (`identify.design`). Here that
# is tried out: the run as it was and the run that is proposed are simulated, noise is added, and they are fitted, 200
# times each. The standard deviation of the estimates should be the predicted standard error, and the intervals of the
# fits as wide as predicted.
#
# - ball: the restitution of a ball that is dropped and filmed; the controls are the height, the frame rate and the
#   length of the film. Weight, height and speed are fitted, too.
# - carts: the restitution of two carts; the controls are their velocities, the film's length and rate. Their mass
#   ratio, places and velocities are fitted, too.
# - disc: the friction of a disc that slides on a floor until it rolls; the controls are its speed and spin, one of
#   which lets it roll at once: that film cannot show the friction. Speed and spin are fitted, too.
#
# The ratio of two standard deviations has a standard error of 5 % with 200 replicas. Found: 0.92 to 1.06, with
# intervals 0.99 to 1.02 times as wide as predicted; the proposed runs have a variance 58, 6 and 180 times smaller.
#
# Last, measured carts (`airtrack.py` says where they come from): six runs on an air track, all in the same direction.
# What they have in common no scatter between them shows, and a rail that is not straight is such a thing. With the rail
# in the model, eight bumps that all runs share, the residuals are noise (chi^2 per degree of freedom 0.85 for 2.2), and
# the design says: film the next ones in the *other* direction. Six more runs make the standard error of e 0.0015 that
# way, 0.0019 the same way as before, from 0.0030.
#
# Run it: `python experiments/next_experiment.py [--case NAME] [--out FOLDER]` (some minutes), with `--rail FOLDER` for
# the measured carts (ten minutes), or with `--smoke`.

# %%
from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from starts import BALL, positions

import diffcontact as dc
from diffcontact.host.progress import shown
from diffcontact.identify import Candidate, Design, Normal, design, fit_replicas
from diffcontact.identify.experiment.candidates import DURATION, FRAME_RATE
from diffcontact.scene import read_study

jax.config.update("jax_enable_x64", True)

HERE = Path(__file__).resolve().parent
NOISE = 2e-3


@dataclass(frozen=True)
class Case:
    """What is to be known, and what can be done for it.

    Attributes:
        system: what moves.
        start: params -> (q0, u0).
        truth: parameters.
        free: domains of what is fitted.
        target: what is sought.
        controls: what can be chosen.
        times: of the run as it was.
        observe: what is seen.
    """

    system: dc.System
    start: Callable
    truth: dict
    free: dict
    target: str
    controls: dict
    times: np.ndarray
    observe: Callable = positions

    def problem(self, times: np.ndarray, values: np.ndarray) -> dc.Problem:
        return dc.Problem(self.system, dc.Observations(times, values, NOISE, self.observe), self.start, substeps=1)

    def design(self, candidates: int) -> Design:
        """The next experiment; nothing was measured yet."""
        k = self.seen(self.truth, self.times).shape[1]
        run = self.problem(self.times, np.zeros((self.times.size, k)))
        return design(run, self.truth, self.free, self.controls, target=self.target, candidates=candidates)

    def seen(self, truth: dict, times: np.ndarray) -> np.ndarray:
        """(n, k) without noise."""
        motion = dc.simulate(self.system, truth, *self.start(truth), times)
        return np.asarray(self.observe(motion, truth))


# %% [markdown]
# ## The cases


# %%
def ball() -> Case:
    return Case(
        system=BALL,
        start=lambda p: (p["height"][None], p["speed"][None]),
        truth={"e": 0.8, "g": 9.81, "height": np.array(0.5), "speed": np.array(0.0)},
        free={"e": dc.Interval(0.0, 1.0), "g": dc.Positive(), "height": dc.Real(), "speed": dc.Real()},
        target="e",
        controls={"height": dc.Interval(0.2, 2.0), DURATION: dc.Interval(0.5, 1.5), FRAME_RATE: [60.0, 120.0]},
        times=np.arange(49) / 60.0,
    )


def carts() -> Case:
    truth = {"restitution": 0.8, "mass_ratio": 1.3, "distance": 0.1, "tilt": 0.0, "sag": 0.0, "drag": 0.0}
    truth |= {"q0": np.array([0.2, 0.5]), "u0": np.array([0.3, 0.1])}
    free = {"restitution": dc.Interval(0.0, 1.0), "mass_ratio": dc.Positive(), "q0": dc.Real(), "u0": dc.Real()}
    controls = {"u0[0]": dc.Interval(0.0, 0.8), "u0[1]": dc.Interval(-0.4, 0.4), DURATION: dc.Interval(1.0, 2.0)}
    start = lambda p: (p["q0"], p["u0"])  # noqa: E731
    return Case(dc.systems.carts(), start, truth, free, "restitution", controls, np.arange(76) / 50.0)


RADIUS, GRAVITY = 0.05, 9.81
FLOOR = dc.systems.balls(1, 2, planes=lambda t, p: (jnp.array([[0.0, 1.0]]), jnp.zeros(1)), spin=True)


def disc() -> Case:
    def start(p):
        return jnp.stack([p["place"], RADIUS, 0.0]), jnp.stack([p["speed"], 0.0, p["spin"]])

    body = {"mass": np.ones(1), "radius": np.full(1, RADIUS), "gravity": np.array([0.0, -GRAVITY]), "restitution": 0.0}
    truth = body | {"friction": 0.2, "speed": np.array(0.5), "spin": np.array(0.0), "place": np.array(0.0)}
    free = {"friction": dc.Interval(0.01, 1.0), "speed": dc.Real(), "spin": dc.Real(), "place": dc.Real()}
    # A disc rolls to the right where it spins to the right: its spin is -speed / radius.
    controls = {"speed": dc.Interval(0.25, 1.0), "spin": [-10.0, 0.0, 10.0]}
    return Case(FLOOR, start, truth, free, "friction", controls, np.arange(61) / 120.0, lambda x, p: x.q[:, ::2])


CASES: dict[str, Callable[[], Case]] = {"ball": ball, "carts": carts, "disc": disc}


# %% [markdown]
# ## Trying it out


# %%
@dataclass(frozen=True)
class Tried:
    """An experiment that was made many times.

    Attributes:
        predicted: standard error of what is sought.
        found: standard deviation of its estimates.
        width: mean half width of the fits' 95 % intervals over the one predicted.
    """

    predicted: float
    found: float
    width: float

    @property
    def ratio(self) -> float:
        return self.found / self.predicted


def tried(case: Case, plan: Design, one: Candidate, replicas: int) -> Tried:
    """Make an experiment many times, with other noise each, and fit each."""
    truth = dict(case.truth)
    for name, value in one.setting.items():
        parameter, _, place = name.partition("[")
        if place:
            truth[parameter] = np.array(truth[parameter], float)
            truth[parameter][int(place[:-1])] = value
        elif name not in (DURATION, FRAME_RATE):
            truth[name] = np.array(value)
    times = case.times
    rate, span = one.setting.get(FRAME_RATE, 1 / np.diff(times)[0]), one.setting.get(DURATION, times[-1])
    times = np.arange(int(np.floor(rate * span + 1e-6)) + 1) / rate
    seen, rng = case.seen(truth, times), np.random.default_rng(1)
    base = dc.fit(case.problem(times, seen), truth, case.free)
    fits = fit_replicas(base, [seen + NOISE * rng.normal(size=(replicas, *seen.shape))])
    estimates = [fit.params[case.target] for fit in fits]
    halves = [np.diff(fit.interval95[case.target])[0] / 2 for fit in fits]
    predicted = one.stderr[case.target]
    width = float(np.median(halves)) / plan.interval(one)[case.target]
    return Tried(predicted, float(np.std(estimates, ddof=1)), width)


# %% [markdown]
# ## Measured carts, and a rail that is not straight

# %%
BUMPS = 8


def rail(folder: Path) -> Design:
    """The next runs after six that all went the same way: to the same side, or to the other."""
    study = read_study(HERE / "airtrack.toml", sorted(folder.glob("A2_*.csv")))
    task, plain = study.task(), dc.systems.carts()
    low, high = (
        extreme([extreme(run.values[np.isfinite(run.values)]) for run in study.runs]) for extreme in (min, max)
    )

    def force(t, q, u, p):
        waves = jnp.sin(jnp.pi * jnp.arange(1, BUMPS + 1) * (q[:, None] - low) / (high - low))
        return plain.force(t, q, u, p) + plain.mass(q, p) * (waves @ p["rail"])

    uneven = replace(plain, force=force)
    problems = [replace(problem, system=uneven, substeps=1) for problem in task.problems]
    free = {**task.free, "rail": dc.Real()}
    # A slope of 3e-4, as between feet that stand a third of a millimetre too high.
    priors = {"rail": Normal(0.0, 3e-3)}
    result = dc.fit(problems, {**task.params, "rail": np.zeros(BUMPS)}, free, priors=priors, shooting="single")
    print(f"chi^2 per degree of freedom {result.chi2_per_dof:.2f}, e {result.params['restitution']:.4f}")
    speeds = np.median(result.params["u0"], axis=0)
    # The same collision seen in a mirror.
    ways = {"u0": [speeds, -speeds[::-1]], "runs": [1, 3, 6]}
    return design(problems, result.params, free, ways, target="restitution", after=result, draws=1, priors=priors)


# %%
def main(arguments: list[str] | None = None) -> dict[str, tuple[Design, Tried, Tried]]:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="forty replicas of the ball")
    parser.add_argument("--case", choices=CASES, help="only this one")
    parser.add_argument("--replicas", type=int, default=200)
    parser.add_argument("--out", type=Path, help="a folder for the pictures")
    parser.add_argument("--rail", type=Path, metavar="FOLDER", help="only the measured carts, in A2_*.csv")
    options = parser.parse_args(arguments)
    if options.rail is not None:
        with shown():
            print(rail(options.rail))
        return {}
    results = {}
    for name in ["ball"] if options.smoke else [options.case] if options.case else CASES:
        case = CASES[name]()
        with shown():
            plan = case.design(30 if options.smoke else 80)
            assert plan.best is not None
            print(f"\n{name}: {plan}")
            replicas = 40 if options.smoke else options.replicas
            outcome = [tried(case, plan, one, replicas) for one in (plan.default, plan.best)]
        for label, one in zip(("as it was", "proposed"), outcome, strict=True):
            print(
                f"{label:9} standard error {one.predicted:.3g} predicted, {one.found:.3g} in {replicas} fits "
                f"(ratio {one.ratio:.3f}), intervals {one.width:.3f} times as wide as predicted",
                flush=True,
            )
        if options.out is not None:
            options.out.mkdir(parents=True, exist_ok=True)
            plan.plot().savefig(options.out / f"next_{name}.png", dpi=80)
        results[name] = plan, *outcome
    return results


if __name__ == "__main__":
    main()
