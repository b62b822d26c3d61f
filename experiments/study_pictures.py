"""Pictures of studies: what derivatives miss, how intervals cover, where fits end; `pictures.py` writes them.

Each function makes one figure, of a simulation.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

import diffcontact as dc

jax.config.update("jax_enable_x64", True)

BALL = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
FALL = {"mass": jnp.ones(1), "radius": jnp.zeros(1), "gravity": jnp.array([-9.81]), "restitution": jnp.array(0.8)}


def blank(x: str, y: str) -> tuple[Figure, Any]:
    """A figure with one pair of axes, without pyplot."""
    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.set(xlabel=x, ylabel=y)
    return figure, axes


def contact_gradients() -> Figure:
    """Where a sliding block stops, over the friction, with tangents."""
    block = dc.System(
        gap=lambda t, q, p: q[1:],
        force=lambda t, q, u, p: jnp.array([0.0, -9.81]),
        mass=lambda q, p: jnp.ones(2),
        restitution=lambda p: 0.0,
        slip=lambda t, q, u, p: u[None, :1],
        friction=lambda p: p["mu"],
    )

    @jax.jit
    @jax.vmap
    def stop(mu):
        def place(mu):
            return dc.simulate(block, {"mu": mu}, jnp.zeros(2), jnp.array([2.0, 0.0]), jnp.linspace(0.0, 2.0, 21)).q[
                -1, 0
            ]

        return place(mu), jax.jacfwd(place)(mu)

    mu = np.linspace(0.15, 0.8, 14)
    places, slopes = (np.asarray(part) for part in stop(mu))
    figure, axes = blank("friction coefficient", "where it stops [m]")
    for at, place, slope in zip(mu, places, slopes, strict=True):
        step = 0.03 * np.array([-1.0, 1.0])
        axes.plot(at + step, place + slope * step, color="C1", lw=2)
    axes.plot(mu, places, "o", color="C0", ms=4)
    return figure


def interval_coverage() -> Figure:
    """A ball's film, measured sixty times with other noise: the interval of e from each."""
    from interval_coverage import ball, fit_replicas, noise

    case = ball()
    q = case.positions()
    results = fit_replicas(case.fit(q), [q + noise(np.random.default_rng(3), (60, *q.shape), 0.0)])
    figure, axes = blank("measurement", "restitution")
    intervals(axes, np.array([result.interval95["e"] for result in results]), case.truth["e"])
    return figure


def intervals(axes: Any, ends: np.ndarray, truth: float) -> None:
    """Intervals (m, 2) side by side, those that miss the truth in another colour."""
    for i, (low, high) in enumerate(ends):
        axes.plot([i, i], [low, high], color="C0" if low <= truth <= high else "C1", lw=2)
    axes.axhline(truth, color="k", lw=0.8)


def verdicts() -> Figure:
    """Residuals of three measurements of a ball, and what the verdict says of each."""
    from verdicts import NOISE, TIMES, faults

    figure = Figure(figsize=(6.4, 4.4), layout="constrained")
    rows = figure.subplots(3, sharex=True)
    for axes, (name, make) in zip(rows, faults(smoke=True).items(), strict=True):
        (result,) = make().results(1)
        axes.plot(TIMES, 1e3 * NOISE * result.residuals[0][:, 0], ".-", lw=0.6, ms=4)
        axes.axhline(0.0, color="k", lw=0.8)
        axes.set_title(f"{name.removeprefix('clean: ')}: {result.verdict.headline.partition(':')[0]}", fontsize=9)
    rows[1].set_ylabel("measured - fitted [mm]")
    rows[-1].set_xlabel("time [s]")
    return figure


def compare_fits() -> Figure:
    """Where fits of a ball end that start nearby, with exact derivatives and with differences."""
    from compare_fits import ARRIVED, differences, exact, near
    from starts import ball

    figure, axes = blank("simulations, those for differences included; Jacobians where they are exact", "misfit")
    cases = [ball(seed) for seed in range(12)]
    begins = [near(case, np.random.default_rng(100 + seed)) for seed, case in enumerate(cases)]
    for way, label in ((exact, "exact derivatives"), (differences, "finite differences")):
        ends = [way(case, begin) for case, begin in zip(cases, begins, strict=True)]
        axes.semilogx([end.evaluations for end in ends], [end.misfit for end in ends], "o", alpha=0.7, label=label)
    axes.axhline(ARRIVED, color="k", lw=0.8, label="arrived below it")
    axes.set_ylim(0.0, 2.2)
    axes.legend(frameon=False, ncols=3, loc="upper center")
    return figure


def starts() -> Figure:
    """Why bad starts are hard: the cost of a fit over one of its parameters."""
    times = jnp.linspace(0.0, 8.0, 161)

    @jax.jit
    @jax.vmap
    def height(g):
        return dc.simulate(BALL, {**FALL, "restitution": 0.95, "gravity": g[None]}, jnp.ones(1), jnp.zeros(1), times).q[
            :, 0
        ]

    g = np.linspace(-16.0, -5.0, 500)
    off = np.asarray(height(jnp.append(g, -9.81)))
    figure, axes = blank("gravity [m/s^2]", "mean squared misfit [m^2]")
    axes.plot(g, np.mean((off[:-1] - off[-1]) ** 2, axis=1), lw=1.2)
    return figure


def next_experiment() -> Figure:
    """Films of a falling ball that could be made, and how certain the restitution would be after each."""
    truth = {"e": 0.8, "gravity": 9.81, "height": np.array(0.5), "speed": np.array(0.0)}
    times = np.arange(49) / 60.0
    ball = dc.System(
        gap=lambda t, q, p: q,
        force=lambda t, q, u, p: -p["gravity"] * jnp.ones(1),
        mass=lambda q, p: jnp.ones(1),
        restitution=lambda p: p["e"],
    )
    film = dc.Observations(times, np.zeros((times.size, 1)), 2e-3, lambda motion, p: motion.q)
    problem = dc.Problem(ball, film, lambda p: (p["height"][None], p["speed"][None]), substeps=1)
    free = {"e": dc.Interval(0.0, 1.0), "gravity": dc.Positive(), "height": dc.Real(), "speed": dc.Real()}
    controls = {"height": dc.Interval(0.2, 2.0), "duration": dc.Interval(0.5, 1.5), "frame_rate": [60.0, 120.0]}
    return dc.identify.design(problem, truth, free, controls, target="e", candidates=80).plot()
