# %% [markdown]
# # The same data, fitted three ways
#
# - diffcontact: `dc.fit`, exact Jacobians through the impacts, error bars included.
# - differences: scipy's `least_squares` with its finite differences, through the same compiled simulator.
# - MuJoCo: what one would do without a coefficient of restitution: the contact is a spring and a damper (`solref`),
#   both tuned by `least_squares` with finite differences, together with everything else; then the coefficient is read
#   off a simulated impact. Left out, and said so, where the package `mujoco` is absent.
#
# on the problems of `starts.py`, positions with 1 % noise:
#
# - ball: a bouncing ball, six bounces; e, g, q0 and u0 are sought.
# - box: three balls in a box, eight impacts; one e, two mass ratios, all positions and velocities are sought.
#
# Every repetition has its own noise and its own start: e from within 10 % of the truth, everything else within 2 %,
# near enough that the question is not who finds the valley (that is `starts.py`) but how fast, and how well. A fit has
# arrived when its misfit per degree of freedom is below 1.5. Times are medians of processor
# time (what else runs on the computer does not count), without compilation, which stands apart.
#
# Run it: `python experiments/compare_fits.py`, or with `--smoke`.

# %%
from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from measuring import options
from problems.fits import BOUNDED, NOISE, RADIUS, Case
from scipy.optimize import least_squares

import diffcontact as dc
from diffcontact.identify.objective import Objective
from diffcontact.identify.residual import residual

try:
    import mujoco
except ImportError:
    mujoco = None

jax.config.update("jax_enable_x64", True)

ARRIVED = 1.5


@dataclass(frozen=True)
class Found:
    """The end of one fit."""

    seconds: float  # of processor time
    evaluations: int  # simulations, those for differences included, or Jacobians of ours
    misfit: float  # 2 cost per degree of freedom
    e: float  # the restitution found


@dataclass(frozen=True)
class Row:
    """One way on one problem: medians over the repetitions that arrived, or over all where none did."""

    arrived: int  # how many did
    compile: float  # what the first fit took longer than the others [s]
    seconds: float  # seconds, evaluations, misfit: as of `Found`
    evaluations: float
    misfit: float
    error: float  # of the restitution, in absolute value


# %% [markdown]
# ## diffcontact

# %%


def exact(case: Case, problem: dc.Problem, start: dict) -> Found:
    """`dc.fit` as it is."""
    begin = time.process_time()
    result = dc.fit(problem, start, case.free, tied=case.tied)
    seconds = time.process_time() - begin
    return Found(seconds, result.iterations, result.chi2_per_dof, float(result.params["e"]))


# %% [markdown]
# ## Finite differences through the same simulator

# %%
_residual = jax.jit(residual, static_argnums=0)


def differences(case: Case, problem: dc.Problem, start: dict) -> Found:
    """scipy's defaults (forward differences), scaled by the Jacobian like ours."""
    objective = Objective.of(problem, start, case.free, tied=case.tied)
    (run,), parameters = objective.joint.runs, objective.parameters

    def residuals(theta):
        return np.asarray(_residual(run.model, jnp.asarray(theta), run.fixed, run.samples)[0]).ravel()

    return _tuned(residuals, parameters.start, parameters.low, parameters.high, e=lambda theta: float(theta[0]))


def _tuned(residuals: Callable, start, low, high, e: Callable, step: float | None = None) -> Found:
    counted = []

    def watched(theta):
        counted.append(1)
        return residuals(theta)

    begin = time.process_time()
    end = least_squares(watched, start, bounds=(low, high), x_scale="jac", diff_step=step)
    seconds = time.process_time() - begin
    return Found(seconds, len(counted), 2 * end.cost / (end.fun.size - end.x.size), e(end.x))


# %% [markdown]
# ## MuJoCo
#
# A contact is a spring and a damper there (`solref` in its direct form, per unit mass): sought are its frequency and
# its damping ratio, which starts at what a linear oscillator with the starting e would have, exp(-pi zeta / sqrt(1 -
# zeta^2)) = e. With steps of 1 ms a contact lasts ten of them or more. Differences are taken wider than scipy does by
# default, since the step at which a contact begins makes the simulation a sawtooth; other widths (1e-6,
# 1e-3) and stiffer contacts in shorter steps (600 rad/s, 0.25 ms) did not help.

# %%
STEP = 1e-3
WIDTH = 1e-4
FREQUENCY = 200.0
CONTACT_LOW, CONTACT_HIGH = (50.0, 1e-4), (np.pi / (10 * STEP), 2.0)


def solref(contact) -> tuple[float, float]:
    """Of a contact's frequency [rad/s] and damping ratio: minus its stiffness and damping per unit mass."""
    frequency, ratio = contact
    return -(frequency**2), -2 * ratio * frequency


BALL_MODEL = f"""<mujoco>
  <option timestep="{STEP}"><flag override="enable"/></option>
  <worldbody>
    <geom type="plane" size="1 1 1"/>
    <body pos="0 0 0.1"><joint type="slide" axis="0 0 1"/><geom type="sphere" size="0.1" mass="1" condim="1"/></body>
  </worldbody>
</mujoco>"""

_DISC = """<body><joint type="slide" axis="1 0 0"/><joint type="slide" axis="0 1 0"/>
  <geom type="sphere" size="{radius}" mass="1" condim="1"/></body>"""
_WALLS = (("0 0", "1 0"), ("0 0", "0 1"), ("1 1", "-1 0"), ("1 1", "0 -1"))
_WALL = """<geom type="plane" pos="{pos} 0" zaxis="{normal} 0" size="2 2 1" condim="1"/>"""
BOX_MODEL = f"""<mujoco>
  <option timestep="{STEP}" gravity="0 0 0"><flag override="enable"/></option>
  <worldbody>
    {"".join(_WALL.format(pos=pos, normal=normal) for pos, normal in _WALLS)}
    {_DISC.format(radius=RADIUS) * 3}
  </worldbody>
</mujoco>"""


def soft(case: Case, problem: dc.Problem, start: dict) -> Found:
    """Everything but e, and in its place the two numbers of the contact."""
    is_ball = "g" in case.free
    model = mujoco.MjModel.from_xml_string(BALL_MODEL if is_ball else BOX_MODEL)
    data = mujoco.MjData(model)
    names = [name for name in case.free if name != "e"]
    seen = problem.observations

    def run(theta):
        p, at = {}, 2
        for name in names:
            p[name] = theta[at : at + np.size(start[name])]
            at += np.size(start[name])
        model.opt.o_solref[:2] = solref(theta[:2])
        if is_ball:
            model.opt.gravity[2] = -p["g"][0]
        else:
            masses = np.append(p["ratio"], 1.0)
            model.body_inertia[1:] *= (masses / model.body_mass[1:])[:, None]
            model.body_mass[1:] = masses
            mujoco.mj_setConst(model, data)
        return motion(model, data, p["q0"], p["u0"], seen.times)

    def residuals(theta):
        return ((seen.values - run(theta)) / NOISE).ravel()

    decay = -np.log(start["e"])
    contact = FREQUENCY, decay / np.hypot(np.pi, decay)
    flat = [np.ravel(start[name]) for name in names]
    low, high = (
        [np.broadcast_to(getattr(case.free[name], side), np.size(start[name])) for name in names]
        for side in ("low", "high")
    )
    return _tuned(
        residuals,
        np.concatenate([contact, *flat]),
        np.concatenate([CONTACT_LOW, *low]),
        np.concatenate([CONTACT_HIGH, *high]),
        e=lambda theta: rebound(theta[:2]),
        step=WIDTH,
    )


def motion(model, data, q0, u0, times) -> np.ndarray:
    """(n, d) positions at equally spaced times."""
    mujoco.mj_resetData(model, data)
    data.qpos[:], data.qvel[:] = q0, u0
    steps = round(float(times[1] - times[0]) / STEP)
    positions = [data.qpos.copy()]
    for _ in times[1:]:
        mujoco.mj_step(model, data, nstep=steps)
        positions.append(data.qpos.copy())
    return np.array(positions)


def rebound(contact, speed: float = 1.0) -> float:
    """The coefficient of restitution of a contact: a ball that meets the floor at 1 m/s, without gravity."""
    model = mujoco.MjModel.from_xml_string(BALL_MODEL)
    data = mujoco.MjData(model)
    model.opt.o_solref[:2], model.opt.gravity[2] = solref(contact), 0.0
    data.qpos[:], data.qvel[:] = 0.05, -speed
    mujoco.mj_step(model, data, nstep=1000)
    return float(data.qvel[0]) / speed


# %% [markdown]
# ## Side by side

# %%
WAYS: dict[str, Callable[[Case, dc.Problem, dict], Found]] = {"diffcontact": exact, "differences": differences}
WAYS |= {} if mujoco is None else {"MuJoCo": soft}


def begins(case: Case, repetitions: int) -> list[tuple[dc.Problem, dict]]:
    """Data with their own noise, and a start in the valley of the truth, for each repetition."""
    found = []
    for seed in range(repetitions):
        rng = np.random.default_rng(100 + seed)
        found.append(
            (case.measured(seed), case.start(rng, 0.02, lambda e, rng=rng: min(e * rng.uniform(0.9, 1.1), 0.99)))
        )
    return found


def compare(case: Case, repetitions: int) -> dict[str, Row]:
    """Every way on so many sets of data."""
    given, rows = begins(case, repetitions), {}
    for way, solve in WAYS.items():
        first = solve(case, *given[0]).seconds
        found = [solve(case, *one) for one in given]
        arrived = np.array([end.misfit < ARRIVED for end in found])
        figures = np.array([(one.seconds, one.evaluations, one.misfit, abs(one.e - case.truth["e"])) for one in found])
        medians = np.median(figures[arrived if arrived.any() else slice(None)], axis=0)
        rows[way] = Row(int(arrived.sum()), first - found[0].seconds, *medians.tolist())
    return rows


def main(arguments: list[str] | None = None) -> dict[str, dict[str, Row]]:
    chosen = options(arguments, "one fit of the ball", case={"choices": [*BOUNDED]}, repetitions=10)
    if mujoco is None:
        print("MuJoCo is left out: the package mujoco is absent (pip install 'diffcontact[compare]')")
    names = ["ball"] if chosen.smoke else [chosen.case] if chosen.case else [*BOUNDED]
    results, repetitions = {}, 1 if chosen.smoke else chosen.repetitions
    print(f"{'':17}{'arrived':>9}{'compile s':>11}{'fit s':>9}{'simulations':>13}{'misfit':>9}{'error of e':>12}")
    for name in names:
        results[name] = compare(BOUNDED[name], repetitions)
        for way, row in results[name].items():
            print(
                f"{name:5}{way:12}{row.arrived:4}/{repetitions:<4}{row.compile:11.1f}{row.seconds:9.3f}"
                f"{row.evaluations:13.0f}{row.misfit:9.3f}{row.error:12.2e}",
                flush=True,
            )
    return results


if __name__ == "__main__":
    main()
