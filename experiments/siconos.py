# %% [markdown]
# # Siconos' own examples: the same equations, how far apart are the motions?
#
# Mechanical examples of siconos-tutorials with reference files that its authors test against, formulated here from
# their equations. Most of theirs are by the scheme of Moreau and Jean, of first order in the step h; two are
# event-driven. Ours is by `EventTimed`, whose own error is the difference to steps a tenth as long.
#
# A few rows of each reference file stand below (siconos/siconos-tutorials, Copyright INRIA, Apache License 2.0, with
# the numbers as they are). `--data FOLDER`, a checkout of that repository, compares 200 rows of each file, but for
# those within two steps of an impact.
#
# Found, largest differences in m or rad, and in m/s or rad/s, with status OK everywhere:
#
# | example | their h | q | u | our own error: q | u |
# |---|---|---|---|---|---|
# | ball between floor and ceiling, 10 s | events | 2e-12 | 2e-12 | 2e-15 | 3e-14 |
# | oscillator with a stop, 19 impacts | events | 1e-9 | 1e-6 | 9e-6 | 1e-2 |
# | oscillator that rubs, until it stops | 1e-2 | 8e-4 | 5e-3 | 1e-5 | 5e-6 |
# | rod that falls onto its end, e = 1 | 1e-4 | 2e-4 | 4e-2 | 3e-14 | 1e-12 |
# | woodpecker, 0.3 s | 2e-5 | 1e-3 | 1e-2 | 3e-10 | 6e-9 |
# | ten beads in a column, 0.5 s | 5e-4 | 1e-2 | 4e-2 | 2e-14 | 2e-13 |
# | slider-crank with clearance, 10 ms, 150 rad/s | 1e-4 | 5e-3 | 7e-1 | 6e-11 | 6e-9 |
#
# Ours are of steps a tenth as long as those that `steps` says, and the error is the difference to these: an oscillation
# takes some 40 and 400. Where theirs are event-driven, too, motions agree to their tolerance. Elsewhere what differs is
# of the size of their step: the oscillator that rubs stops at 15 - sqrt(205) = 0.682179, theirs at 0.682044. But for
# the rod: its slip turns back in the impact, where Newton's law with friction makes energy, from 3.76595 to 3.76606 J;
# ours is blended with the impact without restitution. The woodpecker's sleeve is 0.9 um inside the pole in their first
# state.
#
# The slider-crank ends here after 10 ms, since for 0.2 s its corners rattle too fast for our steps (TOO_MANY_EVENTS).
# Their rocking block has a reference that leaves the ground by 4 km/s, and their four-bar linkage was not formulated.
#
# Run it: `python experiments/siconos.py [--data FOLDER]`, or with `--smoke`: three problems.

# %%
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from measuring import options

import diffcontact as dc

jax.config.update("jax_enable_x64", True)


# %%
@dataclass(frozen=True)
class Example:
    """An example of theirs."""

    file: str  # its reference file
    columns: tuple[list[int], list[int]]  # where the file has q and u, each (d,)
    h: float  # their step [s]; 0 where events are found
    system: dc.System  # system, start: the equations and the first state q, u
    start: tuple
    text: str  # rows of that file, t, q and u, with a semicolon between two
    steps: int  # of ours until the last row

    @property
    def rows(self) -> np.ndarray:
        """(n, 1 + 2 d) the text as numbers."""
        return np.array([row.split() for row in self.text.split(";")], float)


def system(gap, force, mass, restitution, friction=0.0, slip=None, **more) -> dc.System:
    """Contacts at gap(q) that slip with slip(q, u), under force(q, u)."""
    if slip is not None:
        more |= {"slip": lambda t, q, u, p: slip(q, u)[:, None], "friction": lambda p: friction}
    return dc.System(
        lambda t, q, p: gap(q),
        lambda t, q, u, p: force(q, u),
        (lambda q, p: mass(q)) if callable(mass) else lambda q, p: jnp.asarray(mass, float),
        lambda p: jnp.asarray(restitution),
        **more,
    )


def ball() -> Example:
    """A ball between floor and ceiling."""
    return Example(
        "BouncingBallEventDriven/BouncingBallED-TwoContacts.ref",
        ([1], [2]),
        0.0,
        system(lambda q: jnp.stack([q[0], 1.5 - q[0]]), lambda q, u: jnp.array([-10.0]), [1.0], 0.8),
        ([1.0], [10.0]),
        """
        0.3 0.5110285800128533 6.770777532879285 ;
        0.46 1.466352985273539 5.170777532879283 ;
        0.72 0.1436574485678044 -6.618746937951608 ;
        10.0 2.032217136619642e-12 1.8691093381292e-12
        """,
        1000,
    )


def oscillator() -> Example:
    """A mass on two springs, with a stop at its rest in one of them."""
    m = 1e-3
    return Example(
        "BouncingBallEventDriven/LinearOscillatorED.ref",
        ([1, 7], [2, 8]),
        0.0,
        system(lambda q: q[:1], lambda q, u: -100 * q - jnp.array([m * 9.81, 0.0]), [m, m], 0.9),
        ([1.0, 1e-3], [0.0, 0.0]),
        """
        0.05 0.5872148859264068 -0.0009946563970939682 -19.5200332883175 0.03264759060030536 ;
        0.1 0.3409295476974082 0.000978682696559921 -23.02316455175708 -0.06494626968048742 ;
        0.19 0.1240739841992562 -0.0009237585418404965 -16.83118242706729 0.1211074549218526
        """,
        400,
    )


def friction_oscillator() -> Example:
    """A mass on a spring that rubs: it stops where the spring no longer moves it."""
    rubs = {"joint_slip": lambda t, q, u, p: u[:, None], "joint_friction": lambda t, p: jnp.ones(1)}
    return Example(
        "FrictionOscillator/FrictionOscillator.ref",
        ([1], [2]),
        1e-2,
        system(lambda q: jnp.zeros(0), lambda q, u: -q, [1.0], 0.0, **rubs),
        ([12.0], [6.0]),
        """
        0.2 12.932876000606 3.297721387827922 ;
        0.6 13.14605976237284 -2.049905973931773 ;
        99.99 0.6820441351954105 3.488528910189359e-15
        """,
        1000,
    )


def stick() -> Example:
    """A rod that falls onto its end, e = 1, mu = 0.01: its slip turns back in the impact."""
    angle = np.pi / 4
    return Example(
        "ImpactingStick/ImpactingStick.ref",
        ([1, 2, 3], [4, 5, 6]),
        1e-4,
        system(
            lambda q: (q[1] - jnp.cos(q[2]) / 2)[None],
            lambda q, u: jnp.array([0.0, -10.0, 0.0]),
            [1.0, 1.0, 1 / 12],
            1.0,
            0.01,
            lambda q, u: -(u[0] + jnp.cos(q[2]) / 2 * u[2])[None],
        ),
        ([np.sin(angle) / 2, np.cos(angle) / 2 + 0.01, angle], [-0.5, 0.1, 0.1]),
        """
        0.2 0.2529172311983667 0.2471693300826099 1.081891493988364 -0.50686726067093 -1.213273932906967
        3.212070578753687
        """,
        200,
    )


def woodpecker() -> Example:
    """A toy on a pole (Glocker): a sleeve with play, a spring, a bird that pecks. Ours starts without their overlap."""
    m, M, J, JM, g = 0.0045, 0.0003, 7e-7, 5e-9, 9.81
    pole, sleeve, half, lever, spring, beak, reach = 0.0025, 0.0031, 0.0058, 0.010, 0.015, 0.02, 0.0201
    mass = [
        [m + M, m * lever, m * spring],
        [m * lever, JM + m * lever**2, m * lever * spring],
        [m * spring, m * lever * spring, J + m * spring**2],
    ]
    play = sleeve - pole

    def force(q, u):
        turned = 0.0056 * (q[1] - q[2])
        return -g * jnp.array([m + M, m * lever, m * spring]) - jnp.stack([0.0, turned, -turned])

    def slip(q, u):
        rubs = u[0] + sleeve * u[1]
        return jnp.stack([u[0] + lever * u[1] + (spring - reach) * u[2], rubs, rubs])

    return Example(
        "Woodpecker/Woodpecker.ref",
        ([1, 3, 5], [2, 4, 6]),
        2e-5,
        system(
            lambda q: jnp.stack([lever + spring - reach - pole - beak * q[2], play + half * q[1], play - half * q[1]]),
            force,
            mass,
            [0.5, 0.0, 0.0],
            0.3,
            slip,
        ),
        ([0.0, -play / half, -0.2788], [-0.3411, 0.0, -7.4583]),
        """
        0.00196 -0.0006540251237611237 -0.1036 -0.2936024790676569 -0.3258061495222042 0.0
        -7.648844965706241 ;
        0.29998 -0.04134818676833654 -0.1034684682717361 -0.3409339755504301 -0.2601373307913771 0.0
        -8.327555353239312
        """,
        3000,
    )


def beads() -> Example:
    """Ten beads in a column that fall onto the floor."""
    return Example(
        "ColumnOfBeads/ColumnOfBeadsTS.ref",
        (list(range(1, 21, 2)), list(range(2, 22, 2))),
        5e-4,
        system(
            lambda q: jnp.concatenate([q[:1] - 0.1, jnp.diff(q) - 0.2]),
            lambda q, u: jnp.full(10, -9.81),
            np.ones(10),
            0.9,
        ),
        (1 + 0.25 * np.arange(10), np.zeros(10)),
        """
        0.5025 0.1097248921246353 0.3278393480812516 0.5420140038036488 0.765472603699031
        0.9684628048305374 1.195087828230497 1.410110663651332 1.611800442443244 1.829807975020467
        2.045415425482712 2.721102072526472 -3.17165421287902 2.11701276838154 1.814788102964761
        -3.81310187683805 1.216466374767513 0.9430143368895524 -4.399440103279976 0.3759713032651665
        0.1013759974374921
        """,
        200,
    )


def slider_crank() -> Example:
    """A slider with clearance on a crank (Flores, Leine and Glocker): which strikes its guide."""
    l1, l2, a, b, c, g = 0.153, 0.306, 0.05, 0.025, 0.001, 9.81
    m, m3 = 0.038, 0.076
    inertia = jnp.diag(jnp.array([7.4e-5 + (1.25 * m + m3) * l1**2, 5.9e-4 + (m / 4 + m3) * l2**2, 2.7e-6]))
    coupled = (m / 2 + m3) * l1 * l2

    def force(q, u):
        gyration = coupled * jnp.sin(q[0] - q[1])
        weight = g * jnp.stack([(1.5 * m + m3) * l1 * jnp.cos(q[0]), (m / 2 + m3) * l2 * jnp.cos(q[1]), 0.0])
        return jnp.stack([-gyration * u[1] ** 2, gyration * u[0] ** 2, 0.0]) - weight

    def corners(q):
        x, y = (l1 * f(q[0]) + l2 * f(q[1]) for f in (jnp.cos, jnp.sin))
        cos, sin = jnp.cos(q[2]), jnp.sin(q[2])
        sides, ends = jnp.array([-1.0, -1.0, 1.0, 1.0]), jnp.array([-1.0, 1.0, -1.0, 1.0])
        return b + c + sides * (y + ends * a * sin) - b * cos, x + ends * a * cos + sides * b * sin

    return Example(
        "SliderCrank/SliderCrankMoreauJeanDirectProjectionOSI.ref",
        ([1, 2, 3], [4, 5, 6]),
        1e-4,
        system(
            lambda q: corners(q)[0],
            force,
            lambda q: inertia + coupled * jnp.cos(q[1] - q[0]) * jnp.array([[0, 1, 0], [1, 0, 0], [0, 0, 0]]),
            0.4,
            0.01,
            lambda q, u: jax.jvp(lambda q: corners(q)[1], (q,), (u,))[1],
        ),
        ([0.0, 0.0, 0.0], [150.0, -75.0, 0.0]),
        """
        0.002 0.27605895028083494 -0.135101852877576 0.0 120.8242092110994 -56.68029347554309 0.0 ;
        0.01 0.9526823193541726 -0.4161241947982883 0.0 68.1482717494859 -21.48921710498577 0.0
        """,
        400,
    )


EXAMPLES: dict[str, Callable[[], Example]] = {
    one.__name__.replace("_", " "): one
    for one in (ball, oscillator, friction_oscillator, stick, woodpecker, beads, slider_crank)
}


# %%
@dataclass(frozen=True)
class Outcome:
    """Largest differences in q and u: to theirs, and of ours to steps a tenth as long; the status of both of ours."""

    theirs: tuple[float, float]
    own: tuple[float, float]
    status: int


def read(example: Example, folder: Path, least: int = 200) -> np.ndarray:
    """(n, 1 + 2 d) some rows of a reference file up to the last of `rows`, one for each time."""
    table = np.loadtxt(folder / "examples" / "mechanics" / example.file, skiprows=1)
    q, u = example.columns
    table = table[(np.diff(table[:, 0], append=np.inf) > 0) & (table[:, 0] <= example.rows[-1, 0])]
    rows = table[:: max(len(table) // least, 1)][:, [0, *q, *u]]
    if "Crank" in example.file:
        # Their crank is counted in revolutions.
        rows[:, 1] *= 2 * np.pi
    return rows[rows[:, 0] > 0]


def compare(example: Example, folder: Path | None = None) -> Outcome:
    """Ours at their times, away from impacts."""
    rows = example.rows if folder is None else read(example, folder)
    d, times = (rows.shape[1] - 1) // 2, rows[:, 0]
    grid = np.union1d(np.linspace(0.0, times[-1], example.steps + 1), times)
    grid = grid[np.append(True, np.diff(grid) > 1e-9)]
    at = np.searchsorted(grid, times - 1e-9)
    runs = [
        dc.simulate(example.system, {}, *map(jnp.asarray, example.start), grid, substeps=n, percussions=512)
        for n in (1, 10)
    ]
    fine = np.concatenate([runs[1].q, runs[1].u], axis=1)[at]
    struck = np.asarray(runs[1].percussions.time)
    near = np.min(np.abs(times[:, None] - struck), axis=1, initial=np.inf, where=np.isfinite(struck)) <= 2 * example.h
    off = np.abs(fine - rows[:, 1:])[~near | (folder is None)]
    own = np.abs(fine - np.concatenate([runs[0].q, runs[0].u], axis=1)[at])
    sizes = [(float(np.max(x[:, :d])), float(np.max(x[:, d:]))) for x in (off, own)]
    return Outcome(*sizes, int(runs[1].status))


def main(arguments: list[str] | None = None) -> dict[str, Outcome]:
    chosen = options(arguments, "three of them", data={"type": Path, "help": "a checkout of siconos-tutorials"})
    names = ("ball", "friction oscillator", "slider crank") if chosen.smoke else EXAMPLES
    print(f"{'':20}{'their h':>8}{'q':>10}{'u':>10}{'our own: q':>13}{'u':>10}   status")
    found = {}
    for name in names:
        example = EXAMPLES[name]()
        one = found[name] = compare(example, chosen.data)
        h = f"{example.h:g}" if example.h else "events"
        sizes = f"{one.theirs[0]:10.1e}{one.theirs[1]:10.1e}{one.own[0]:13.1e}{one.own[1]:10.1e}"
        print(f"{name:20}{h:>8}{sizes}   {dc.Status(one.status).name}", flush=True)
    return found


if __name__ == "__main__":
    main()
