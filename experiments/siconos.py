# %% [markdown]
# # Siconos' own examples: the same equations, how far apart are the motions?
#
# Mechanical examples of siconos-tutorials with reference files that its authors test against, formulated here from
# their equations. Most of theirs are by the scheme of Moreau and Jean, of first order in the step h; two are
# event-driven. Where they have no file that could be right, ours stand beside a second integration: scipy's DOP853 from
# event to event, or Moreau and Jean's scheme with a short step. Ours is by `EventTimed`, whose own error is the
# difference to steps a tenth as long.
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
# | four-bar linkage, clearance in three joints, 0.8 s | 1e-4 | 3e-5 | 5e-3 | 9e-8 | 3e-5 |
# | slider-crank with clearance, 10 ms, 150 rad/s | 1e-4 | 5e-3 | 7e-1 | 6e-11 | 6e-9 |
# | all of its 0.2 s, beside Moreau and Jean | 1e-6 | 6e-3 | 5 | 8e-6 | 8e-4 |
# | block that rocks for 3 s, beside DOP853 | events | 7e-13 | 7e-12 | 2e-9 | 2e-8 |
# | block that falls, four impacts, e = 0.9, beside DOP853 | events | 3e-13 | 1e-12 | 4e-13 | 1e-12 |
#
# Ours are of steps a tenth as long as those that `steps` says, and the error is the difference to these: an oscillation
# takes some 40 and 400. Where theirs are event-driven, too, motions agree to their tolerance. Elsewhere what differs is
# of the size of their step: the oscillator that rubs stops at 15 - sqrt(205) = 0.682179, theirs at 0.682044. But for
# the rod: its slip turns back in the impact, where Newton's law with friction makes energy, from 3.76595 to 3.76606 J;
# ours is blended with the impact without restitution. The woodpecker's sleeve is 0.9 um inside the pole in their first
# state.
#
# The slider-crank's slider strikes its guides flat. Its two corners then bounce until they rest, slide together, and
# let go together where the guide no longer pushes, after 15.03 ms. Ours takes steps of 200 us for all of its 0.2 s and
# is of fourth order in them; Moreau and Jean's scheme, of first, is off by 6e-3 rad with 1 us. Theirs with 100 us is
# 1.1 rad ahead in the end.
#
# Their rocking block has a reference that leaves the ground by 4 km/s: its gaps are those of another block. Here it
# falls as they say, and another one rocks: Housner's, which keeps r = 1 - 3/2 sin^2(alpha) of its angular velocity.
#
# Run it: `python experiments/siconos.py [--data FOLDER]`, or with `--smoke`: three problems.

# %%
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from measuring import options
from scipy.integrate import solve_ivp

import diffcontact as dc

jax.config.update("jax_enable_x64", True)


# %%
@dataclass(frozen=True)
class Example:
    """An example of theirs."""

    file: str  # its reference file; empty where it is compared with another integration
    columns: tuple[list[int], list[int]]  # where the file has q and u, each the first m of (d,)
    h: float  # their step [s]; 0 where events are found
    system: dc.System  # system, start: the equations and the first state q, u
    start: tuple
    text: str | Callable[[], np.ndarray]  # rows of that file, t, q and u, a semicolon between two; or makes rows
    steps: int  # of ours until the last row
    finer: int = 10  # how many of the steps that tell our own error are in one of these

    @property
    def rows(self) -> np.ndarray:
        """(n, 1 + 2 m) the text as numbers."""
        if not isinstance(self.text, str):
            return self.text()
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


def slider_crank_whole() -> Example:
    """All of its 0.2 s, beside Moreau and Jean's scheme with a hundredth of their step."""
    short = slider_crank()
    rows = lambda: moreau_jean(short, np.linspace(0.02, 0.2, 10), 1e-6)  # noqa: E731
    return replace(short, file="", h=1e-6, text=rows, steps=1000)


def four_bar() -> Example:
    """A four-bar linkage with clearance in three of its joints, whose crank is driven along 6 sin(0.75 pi t)."""
    ground, lengths, m, g, hole, journal = 3.0, (1.0, 4.0, 2.5), 1.0, 9.81, 0.06, 0.055
    l1, l2, l3 = lengths
    own = [m * length**2 / 12 for length in lengths]
    pull, decay, pace = 200.0, 10.0, 0.75 * jnp.pi

    def rod(length, angle):
        return length * jnp.stack([jnp.cos(angle), jnp.sin(angle)])

    def closed(crank):
        # The angles of coupler and rocker without clearance.
        across = jnp.array([ground, 0.0]) - rod(l1, crank)
        square = across @ across
        coupler = jnp.arctan2(across[1], across[0])
        coupler += jnp.arccos((square + l2**2 - l3**2) / (2 * l2 * jnp.sqrt(square)))
        rocker = rod(l2, coupler) - across
        return jnp.stack([coupler, jnp.arctan2(rocker[1], rocker[0])])

    def torque(t, crank, w):
        # Passive tracking, for the linkage without clearance; the rocker's own inertia in `turning` is as they have it.
        target, speed, gain = 6 * jnp.sin(pace * t), 6 * pace * jnp.cos(pace * t), -6 * pace**2 * jnp.sin(pace * t)
        slopes = jax.jacfwd(closed)
        a, da, (coupler, rocker) = slopes(crank), jax.jacfwd(slopes)(crank), closed(crank)
        lean = lambda crank: m * l1 * l2 / 2 * jnp.cos(crank - closed(crank)[0])  # noqa: E731
        both, bends = lean(crank), jax.grad(lean)(crank)
        third = m / 3 * jnp.array([l2**2, l3**2])
        inertia = m * 4 / 3 * l1**2 + third @ a**2 + 2 * both * a[0]
        turning = third[0] * a[0] * da[0] + 2 * own[2] * a[1] * da[1] + both * da[0] + a[0] * bends
        weight = 1.5 * l1 * jnp.cos(crank) + a[0] * l2 / 2 * jnp.cos(coupler) + a[1] * l3 / 2 * jnp.cos(rocker)
        off, late = crank - target, w - speed
        tracking = inertia * (gain - decay * late) + turning * w * (w - decay * off)
        return tracking - pull * (late + decay * off) + m * g * weight

    def joints(q):
        # From the middle of each journal to that of its hole.
        crank, coupler, rocker = (rod(*one) for one in zip(lengths, q[:3], strict=True))
        middle, other = q[3:5], q[5:]
        base = jnp.array([ground, 0.0])
        return jnp.stack(
            [middle - coupler / 2 - crank, base + other + rocker / 2 - coupler / 2 - middle, other - rocker / 2]
        )

    def slip(q, u):
        off, speed = jax.jvp(joints, (q,), (u,))
        away = off / jnp.linalg.norm(off, axis=1, keepdims=True)
        turns = jnp.stack([hole * u[1] - journal * u[0], hole * u[2] - journal * u[1], -journal * u[2]])
        return away[:, 1] * speed[:, 0] - away[:, 0] * speed[:, 1] + turns

    def force(t, q, u, p):
        weight = jnp.array([0.0, 0.0, 0.0, 0.0, -m * g, 0.0, -m * g])
        return weight.at[0].set(torque(t, q[0], u[0]) - m * g * l1 / 2 * jnp.cos(q[0]))

    linkage = system(
        lambda q: hole - journal - jnp.linalg.norm(joints(q), axis=1),
        lambda q, u: jnp.zeros(7),
        [m * l1**2 / 3, own[1], own[2], m, m, m, m],
        0.0,
        0.1,
        slip,
    )
    angles = [1.57082377240798, 0.353284202062446, 1.264872058968431]
    places = [1.87645458509765, 1.691962091335582, 0.3764686197082958, 1.191962183453451]
    return Example(
        "FourBarLinkageWith3clearance/FourBarClearance.ref",
        ([1, 2, 3], [8, 9, 10]),
        1e-4,
        replace(linkage, force=force),
        (angles + places, np.zeros(7)),
        """
        0.05 1.667922928591141 0.3597912260754407 1.30537227817969 4.39506541224138 0.4832215322358551
        2.062150363168989 ;
        0.5 5.545612442795652 0.9158032157417494 1.499656926497796 5.28504810778335 -2.184218173610044
        -4.031964339911933 ;
        0.8 5.707530859754471 0.8395519273265554 1.362866012798867 -4.377498489758237 2.037018124018210
        3.480913028853279
        """,
        800,
    )


def block(width: float, height: float, start: float, restitution: float, *rubs) -> tuple[dc.System, tuple]:
    """A block of 1 kg above its two lower corners, and its first state: it leans on the left one, at the origin."""

    def corners(q):
        sides, cos, sin = jnp.array([-width / 2, width / 2]), jnp.cos(q[2]), jnp.sin(q[2])
        return q[1] + sides * sin - height / 2 * cos, q[0] + sides * cos + height / 2 * sin

    blocks = system(
        lambda q: corners(q)[0],
        lambda q, u: jnp.array([0.0, -9.81, 0.0]),
        [1.0, 1.0, (width**2 + height**2) / 12],
        restitution,
        *rubs,
        slip=(lambda q, u: jax.jvp(lambda q: corners(q)[1], (q,), (u,))[1]) if rubs else None,
    )
    cos, sin = np.cos(start), np.sin(start)
    return blocks, (np.array([width * cos - height * sin, width * sin + height * cos, 2 * start]) / 2, np.zeros(3))


def rocking_block() -> Example:
    """A tall block that rocks from corner to corner for 3 s (Housner 1963), beside the equation of its angle."""
    width, height = 0.2, 0.8
    slender = np.arctan(width / height)
    # p^2, and the part of its angular velocity that each of seven impacts leaves.
    pace, kept = 3 * 9.81 / (2 * np.hypot(width, height)), 1 - 1.5 * np.sin(slender) ** 2
    rocks, start = block(width, height, 0.6 * slender, 0.0, 1.0)
    times = np.linspace(0.15, 3.0, 20)

    def rows():
        # |theta|'' = -p^2 sin(alpha - |theta|)
        tilt, struck = by_events(
            lambda y: [y[1], -pace * np.sin(slender - y[0])],
            [start[0][2], 0.0],
            times,
            lambda y: y[0],
            lambda y: np.array([0.0, -kept * y[1]]),
        )
        left = 1 - 2 * (np.searchsorted(struck, times) % 2)
        theta, w = left * tilt.T
        x = (left * width * np.cos(theta) - height * np.sin(theta)) / 2
        y = (left * width * np.sin(theta) + height * np.cos(theta)) / 2
        return np.column_stack([times, np.where(left < 0, width, 0.0) + x, y, theta, -y * w, x * w, w])

    return Example("", ([1, 2, 3], [4, 5, 6]), 0.0, rocks, start, rows, 600)


def falling_block() -> Example:
    """Their block, without friction and e = 0.9: it falls 0.4 m onto one corner after the other."""
    width, height, e = 1.0, 0.5, 0.9
    falls, (q0, u0) = block(width, height, np.pi / 3, e)
    start = q0 + np.array([0.0, 0.4, 0.0]), u0
    times = np.linspace(0.2, 1.8, 17)

    def gaps(y):
        return y[1] + np.array([-width, width]) / 2 * np.sin(y[2]) - height / 2 * np.cos(y[2])

    def struck(y):
        side = np.array([-width, width])[np.argmin(gaps(y))]
        normal = np.array([0.0, 1.0, (side * np.cos(y[2]) + height * np.sin(y[2])) / 2])
        moved = normal / [1.0, 1.0, (width**2 + height**2) / 12]
        return np.append(y[:3], y[3:] - (1 + e) * (normal @ y[3:]) / (normal @ moved) * moved)

    def rows():
        fall = lambda y: [*y[3:], 0.0, -9.81, 0.0]  # noqa: E731
        found, _ = by_events(fall, np.concatenate(start), times, lambda y: np.min(gaps(y)), struck)
        return np.column_stack([times, found])

    return Example("", ([1, 2, 3], [4, 5, 6]), 0.0, falls, start, rows, 900)


EXAMPLES: dict[str, Callable[[], Example]] = {
    one.__name__.replace("_", " "): one
    for one in (
        ball,
        oscillator,
        friction_oscillator,
        stick,
        woodpecker,
        beads,
        four_bar,
        slider_crank,
        slider_crank_whole,
        rocking_block,
        falling_block,
    )
}


# %% [markdown]
# ## Second integrations


# %%
def by_events(rates, y, times, gap, jump) -> tuple[np.ndarray, np.ndarray]:
    """States (n, d) at the times, by DOP853 of scipy from one zero of gap(y) to the next, and the times of these."""
    gap_of = lambda t, y: gap(y)  # noqa: E731
    gap_of.terminal, gap_of.direction = True, -1
    found, struck, t, y = np.empty((len(times), len(y))), [], 0.0, np.asarray(y)
    while True:
        run = solve_ivp(
            lambda t, y: rates(y),
            (t, times[-1]),
            y,
            method="DOP853",
            rtol=1e-12,
            atol=1e-14,
            max_step=1e-2,
            events=gap_of,
            dense_output=True,
        )
        for i in np.flatnonzero((times >= t) & (times <= run.t[-1])):
            found[i] = run.sol(times[i])
        if run.status != 1:
            return found, np.array(struck)
        t, y = run.t[-1], jump(run.y[:, -1])
        struck.append(t)


def moreau_jean(example: Example, times: np.ndarray, h: float) -> np.ndarray:
    """(n, 1 + 2 d) rows at even times by the scheme of Moreau and Jean, its contacts by Gauss and Seidel."""
    system, none = example.system, {}
    # What is this near is closed: corners of a slider that lies flat arrive together but for rounding.
    near, sweeps = 1e-9, 60

    def free(q, u):
        return jnp.linalg.solve(system.mass(q, none), system.force(0.0, q, u, none))

    def step(state, _):
        q, u = state
        q = q + h / 2 * u
        closed, e = system.gap(0.0, q, none) <= near, system.restitution(none)
        normals = jax.jacfwd(lambda q: system.gap(0.0, q, none))(q)
        tangents = jax.jacfwd(lambda u: system.slip(0.0, q, u, none)[:, 0])(u)
        rows = jnp.stack([normals, tangents], axis=1)
        moved = jnp.linalg.solve(system.mass(q, none), rows.reshape(-1, q.size).T).T.reshape(rows.shape)
        bounce, unit = e * jnp.minimum(normals @ u, 0.0), jnp.sum(rows * moved, axis=2)

        def sweep(_, found):
            v, z = found
            for i in range(closed.size):
                push = z[i, 0] - (rows[i, 0] @ v + bounce[i]) / unit[i, 0]
                push = jnp.where(closed[i], jnp.maximum(push, 0.0), 0.0)
                v = v + moved[i, 0] * (push - z[i, 0])
                bound = system.friction(none) * push
                rub = jnp.clip(z[i, 1] - rows[i, 1] @ v / unit[i, 1], -bound, bound)
                v, z = v + moved[i, 1] * (rub - z[i, 1]), z.at[i].set(jnp.stack([push, rub]))
            return v, z

        flown = u + h * free(q, u + h / 2 * free(q, u))
        start = flown, jnp.zeros(rows.shape[:2])
        v, _ = jax.lax.cond(jnp.any(closed), lambda: jax.lax.fori_loop(0, sweeps, sweep, start), lambda: start)
        return (q + h / 2 * v, v), None

    def until(state, _):
        state, _ = jax.lax.scan(step, state, length=round((times[1] - times[0]) / h))
        return state, state

    _, (q, u) = jax.jit(lambda state: jax.lax.scan(until, state, length=len(times)))(
        tuple(jnp.asarray(x, float) for x in example.start)
    )
    return np.column_stack([times, q, u])


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
    folder = folder if example.file else None
    rows = example.rows if folder is None else read(example, folder)
    d, times = (rows.shape[1] - 1) // 2, rows[:, 0]
    grid = np.union1d(np.linspace(0.0, times[-1], example.steps + 1), times)
    grid = grid[np.append(True, np.diff(grid) > 1e-9)]
    at = np.searchsorted(grid, times - 1e-9)
    runs = [
        dc.simulate(example.system, {}, *map(jnp.asarray, example.start), grid, substeps=n, percussions=512)
        for n in (1, example.finer)
    ]
    fine, coarse = (np.concatenate([run.q[:, :d], run.u[:, :d]], axis=1)[at] for run in reversed(runs))
    struck = np.asarray(runs[1].percussions.time)
    near = np.min(np.abs(times[:, None] - struck), axis=1, initial=np.inf, where=np.isfinite(struck)) <= 2 * example.h
    off = np.abs(fine - rows[:, 1:])[~near | (folder is None)]
    own = np.abs(fine - coarse)
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
