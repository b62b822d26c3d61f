"""Contacts that hold back: gluey particles, by VelocityProjection."""

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc

FILM = zoo.system(
    gap=lambda t, q, p: q,
    force=lambda t, q, u, p: jnp.where(t < p["from"], 0.0, p["pull"]) * np.ones(1),
    mass=lambda q, p: jnp.array([p["mass"]]),
    adhesion=lambda p: p["adhesion"],
)
TIMES = np.linspace(0.0, 2.0, 41)
# It lands at 0.15 s within a step and sticks; the pull begins at a time of the grid.
FALL = {"mass": 0.7, "speed": 2.0, "pull": 1.7, "from": 0.5, "adhesion": np.inf}
GLUE = dc.VelocityProjection()


def fall(params, scheme=GLUE, times=TIMES):
    return dc.simulate(FILM, params, np.array([0.3]), -params["speed"] * np.ones(1), times, scheme=scheme)


def lets_go(params):
    """When the impulse of the pull has made up that of the impact, or what the film takes of it."""
    held = jnp.minimum(params["mass"] * params["speed"], params["adhesion"])
    return params["from"] + held / params["pull"]


def told(run, params):
    """When it let go, as its velocity at the end tells."""
    return run.t[-1] - run.u[-1, 0] * params["mass"] / params["pull"]


@pytest.mark.parametrize("adhesion", [np.inf, 0.9], ids=["unbounded", "bounded"])
def test_a_sphere_that_falls_on_a_film_lets_go_after_the_impulse_of_the_impact(adhesion):
    params = FALL | {"adhesion": adhesion}
    run = jax.tree.map(np.asarray, fall(params))
    assert run.status == dc.Status.OK
    held = min(params["mass"] * params["speed"], adhesion)
    off = params["from"] + held / params["pull"]
    left = np.clip(held - params["pull"] * np.maximum(TIMES - params["from"], 0), 0, None)
    landed = TIMES >= 0.2
    np.testing.assert_allclose(run.adhesion[landed, 0], left[landed], atol=1e-14)
    np.testing.assert_array_equal(run.adhesion[TIMES < 0.15, 0], 0.0)
    # Closed to the rounding that the scheme allows gaps, until it lets go; then the pull's velocity, at every time.
    away = off < TIMES
    assert np.max(np.abs(run.q[landed & ~away, 0])) < 1e-14
    assert np.sum(away) > 5
    np.testing.assert_allclose(run.u[away, 0], params["pull"] * (TIMES - off)[away] / params["mass"], atol=1e-13)
    # All impulses but the pull's: what the film has given is what the momentum lacks.
    total = params["mass"] * (run.u[-1, 0] + params["speed"]) - params["pull"] * (2.0 - params["from"])
    np.testing.assert_allclose(np.sum(run.impulse), total, atol=1e-13)
    assert np.min(run.impulse) < 0


@pytest.mark.full
@pytest.mark.parametrize("adhesion", [1e3, 0.9], ids=["unbounded", "bounded"])
def test_the_time_of_letting_go_has_its_derivative(adhesion):
    params = FALL | {"adhesion": adhesion}
    free = ("mass", "speed", "pull", "adhesion")

    def time(values):
        given = params | dict(zip(free, values, strict=True))
        return told(fall(given), given)

    at = jnp.array([params[name] for name in free])
    expected = jax.grad(lambda values: lets_go(params | dict(zip(free, values, strict=True))))(at)
    forward = jax.jacfwd(time)(at)
    np.testing.assert_allclose(forward, expected, atol=1e-12)
    np.testing.assert_allclose(jax.jit(jax.grad(time))(at), forward, atol=1e-13)
    lanes = jax.vmap(time)(at[None] * np.array([1.0, 1.1])[:, None])
    np.testing.assert_allclose(lanes, [time(at), time(1.1 * at)], rtol=1e-14)


ROW = replace(dc.systems.balls(3, 1, box=(0.0, np.inf)), adhesion=lambda p: p["adhesion"])
# The floor and the pairs (0, 1), (1, 2); three balls on each other.
STACK = {"mass": np.array([1.0, 2.0, 0.5]), "radius": 0.1 * np.ones(3), "gravity": -10.0 * np.ones(1)}
STACK |= {"restitution": 0.0, "adhesion": 0.05}


PULLED = np.linspace(0.0, 0.5, 26)


def pulled(params, strength):
    """The stack under its weight, whose topmost ball is pulled from 0.2 s on."""
    system = replace(
        ROW, force=lambda t, q, u, p: ROW.force(t, q, u, p) + np.array([0, 0, 1.0]) * jnp.where(t < 0.2, 0, strength)
    )
    return dc.simulate(system, params, [0.1, 0.3, 0.5], np.zeros(3), PULLED, scheme=GLUE, breaks=np.array([0.2]))


@pytest.mark.full
def test_of_a_stack_that_is_pulled_the_weakest_contact_lets_go():
    """The film takes 0.05 N s; of 40 N on 5 N of weight the last contact bears 35 N, the next 15 N, the floor 5 N. The
    first lets go after 0.05/35 s, when the others still have some: only the topmost ball flies."""
    run = pulled(STACK, 40.0)
    assert run.status == dc.Status.OK
    closed = np.asarray(run.adhesion[10])
    np.testing.assert_allclose(closed[[0, 6, 8]], 0.05, atol=1e-15)  # weight has been pressing for 0.2 s
    off = 0.2 + 0.05 / 35
    np.testing.assert_allclose(run.u[-1], [0, 0, 35 / 0.5 * (0.5 - off)], atol=1e-11)
    np.testing.assert_allclose(run.adhesion[-1, [0, 6, 8]], [0.05, 0.05, 0.0], atol=1e-14)
    # A film that takes more still holds all of it at 0.22 s.
    strong = pulled(STACK | {"adhesion": 0.9}, 40.0)
    np.testing.assert_allclose(strong.u[11], 0.0, atol=1e-13)
    np.testing.assert_allclose(strong.adhesion[11, [0, 6, 8]], [0.9 - 0.1, 0.9 - 0.3, 0.9 - 0.7], atol=1e-13)


@pytest.mark.full
def test_no_energy_is_made_and_what_holds_back_is_closed():
    """Discs in a box without gravity that stick to it, to each other, and are torn off again by blows."""
    # Discs that hold on to each other roll round each other by 0.05 m within a step, a quarter of a radian at most.
    h = 0.005
    discs = replace(dc.systems.balls(3, 2, box=(0.0, 1.0)), adhesion=lambda p: p["adhesion"])
    rng = np.random.default_rng(5)
    lanes = {
        "mass": rng.uniform(0.5, 2.0, (24, 3)),
        "adhesion": rng.choice([0.05, 0.3, np.inf], 24),
        "u0": 3.0 * rng.normal(size=(24, 6)),
    }

    @jax.vmap
    def run(p):
        given = {"radius": 0.12 * np.ones(3), "gravity": np.zeros(2), "restitution": 0.0} | p
        q0 = np.array([0.2, 0.3, 0.7, 0.35, 0.45, 0.75])
        found = dc.simulate(discs, given, q0, p["u0"], h * np.arange(201), scheme=GLUE)
        gaps = jax.vmap(lambda q: discs.gap(0.0, q, given))(found.q)
        return found, found.u**2 @ jnp.repeat(p["mass"], 2) / 2, gaps

    found, energy, gaps = run(lanes)
    assert np.all(found.status == 0)
    assert np.min(gaps) > -1e-12
    # What holds back is closed: to rounding on walls, to the bend of a step on round ones, (h |v|)^2 / 2 r. That is
    # pulled closed: E' - E <= a . g / h, by the variational inequality of the projection, tried with a velocity of 0.
    closing = np.sum(found.adhesion * np.maximum(gaps, 0), axis=2)[:, :-1] / h
    assert np.all(np.diff(energy, axis=1) <= closing + 1e-12 * energy[:, :1])
    holds = np.asarray(found.adhesion) > 0
    assert np.mean(holds) > 0.05
    assert np.min(found.impulse) < -1e-3
    assert np.max(np.where(holds, gaps, 0)[..., :12]) < 1e-12
    assert np.max(np.where(holds, gaps, 0)) < (h * 15) ** 2
    bound = lanes["adhesion"][:, None, None]
    assert np.all((found.adhesion >= 0) & (found.adhesion <= bound))


@pytest.mark.full
def test_no_adhesion_is_no_glue():
    plain = dc.System(FILM.gap, FILM.force, FILM.mass, FILM.restitution)
    dry = fall(FALL | {"adhesion": 0.0})
    same = dc.simulate(plain, FALL, [0.3], [-2.0], TIMES, scheme=GLUE)
    for name in ("q", "u", "impulse"):
        np.testing.assert_array_equal(getattr(dry, name), getattr(same, name))
    assert same.adhesion is None
    assert not np.any(dry.adhesion)


@pytest.mark.full
def test_steps_within_intervals_and_breaks_tell_the_same_adhesion():
    whole = fall(FALL)
    coarse = partial(dc.simulate, FILM, FALL, [0.3], [-2.0], TIMES[::4], scheme=GLUE)
    for run in (coarse(substeps=4), coarse(substeps=np.array(4)), coarse(substeps=4, breaks=[TIMES[8]])):
        np.testing.assert_allclose(run.adhesion, whole.adhesion[::4], atol=1e-14)


@pytest.mark.full
def test_what_does_not_go_with_adhesion_is_refused():
    with pytest.raises(ValueError, match=r"CatchingUp steps no System with adhesion=\.\.\.; take VelocityProjection"):
        fall(FALL, scheme=dc.CatchingUp())
    with pytest.raises(ValueError, match=r"expected 0 of contacts with an adhesion, got 0\.5"):
        dc.simulate(replace(FILM, restitution=lambda p: 0.5), FALL, [0.3], [-2.0], TIMES, scheme=GLUE)
    with pytest.raises(ValueError, match=r"EventTimed steps no System with adhesion=\.\.\.; take VelocityProjection"):
        dc.simulate(FILM, FALL, [0.3], [-2.0], TIMES)
    with pytest.raises(ValueError, match=r"adhesion: expected at least 0, got -1.0"):
        fall(FALL | {"adhesion": -1.0})
    with pytest.raises(ValueError, match=r"expected no slip"):
        replace(dc.systems.balls(1, 2, spin=True), adhesion=lambda p: 0.0)
    with pytest.raises(ValueError, match=r"expected no adhesion=\.\.\. with it, which the contacts of a list"):
        replace(dc.systems.balls(3, 2, cell=1.0), adhesion=lambda p: 0.0)
    with pytest.raises(ValueError, match=r"System.adhesion: expected an array of shape \(\) or \(1,\), got \(2,\)"):
        fall(FALL | {"adhesion": np.zeros(2)})
    # A bad lane says so and leaves the others alone.
    lanes = jax.vmap(lambda a: fall(FALL | {"adhesion": a}))(np.array([-1.0, 0.9]))
    assert lanes.status.tolist() == [dc.Status.BAD_INPUT, dc.Status.OK]
    np.testing.assert_allclose(lanes.u[1], fall(FALL | {"adhesion": 0.9}).u, rtol=1e-14)
