"""What is given as a function of time, and does much between the times of steps, is told."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from all_schemes import SCHEMES

import diffcontact as dc
from diffcontact.schemes.monitor import ENDS, SIMPSON, beside, depends_on_time

pytestmark = pytest.mark.full

STEP = 0.05
TIMES = np.linspace(0.0, 0.6, 13)
# One, two and four periods a step, and nearly so: table and camera at the same rate.
ALIASES = [2 * np.pi * k / STEP * (1 + off) for k, off in ((1, 0.0), (1, 0.003), (2, 0.0), (4, 0.001))]


def shaking(t, p):
    return p["amplitude"] * jnp.sin(p["omega"] * t + p["phase"])


# A mass far from everything.
FREE = dc.System(
    gap=lambda t, q, p: q + 1e6,
    force=lambda t, q, u, p: shaking(t, p) * jnp.ones(1),
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: 0.0,
)
TABLE = dc.System(
    gap=lambda t, q, p: q - shaking(t, p),
    force=lambda t, q, u, p: -10 * jnp.ones(1),
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: 0.0,
)
BELT = dc.System(
    gap=lambda t, q, p: q[:1],
    force=lambda t, q, u, p: jnp.array([-10.0, 1.0]),
    mass=lambda q, p: jnp.ones(2),
    restitution=lambda p: 0.0,
    slip=lambda t, q, u, p: (u[1:] - shaking(t, p))[None],
    friction=lambda p: 0.4,
)


def line(load, belt):
    return dc.ParticleLine(
        mass=lambda p: jnp.ones(1),
        damping=lambda p: jnp.zeros((1, 1)),
        stiffness=lambda p: jnp.zeros((1, 1)),
        load=lambda t, p: load * shaking(t, p) * jnp.ones(1),
        friction=lambda p: 0.3,
        normal=lambda t, p: 10 * jnp.ones(1),
        percussion_times=[0.33],
        percussions=lambda p: jnp.zeros(1),
        belt=lambda t, p: belt * shaking(t, p),
    )


def exact(omega, phase, amplitude, t):
    """The place of the free mass, from 0 with 1 m/s."""
    return t + amplitude / omega**2 * (np.sin(phase) - np.sin(omega * t + phase) + omega * t * np.cos(phase))


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
@pytest.mark.parametrize("phase", [0.0, 1.0, 2.5])
def test_a_force_is_right_or_told(scheme, phase):
    told = []
    for omega in (*np.geomspace(0.5, 3000, 40), *ALIASES):
        # As large as the mass moves by otherwise: half a metre.
        p = {"omega": omega, "phase": phase, "amplitude": 3.0}
        run = dc.simulate(FREE, p, [0.0], [1.0], TIMES, scheme=scheme)
        off = np.max(np.abs(run.q[:, 0] - exact(omega, phase, 3.0, TIMES)))
        # First order: the way of half a step, and what the force makes of it. Second order is far better where it is
        # not told; the share of the way that truncation may come to, twice, for it is an estimate.
        first_order = not isinstance(scheme, dc.EventTimed)
        allowed = STEP * (1 + 3.0 * TIMES[-1]) if first_order else 2 / 32 * 1.5
        told.append(run.status == dc.Status.TOO_COARSE)
        assert told[-1] or off < allowed, (omega, off)
    # Ten steps for a period are enough for what drives no more than a part of the way; none at all are not.
    assert not any(told[:10])
    assert all(told[-len(ALIASES) :])


@pytest.mark.parametrize("omega", ALIASES)
def test_a_force_that_comes_to_nothing_is_not_told(omega):
    p = {"omega": omega, "phase": 1.0, "amplitude": 1e-3}
    for scheme in SCHEMES.values():
        run = dc.simulate(FREE, p, [0.0], [1.0], TIMES, scheme=scheme)
        assert run.status == dc.Status.OK
        # All that a constant force of this size does.
        assert np.max(np.abs(run.q[:, 0] - TIMES)) <= 1e-3 * TIMES[-1] ** 2


@pytest.mark.parametrize("name", [name for name in SCHEMES if "Event" not in name])
@pytest.mark.parametrize("omega", ALIASES)
def test_a_table_that_shakes_as_often_as_steps_are_taken(name, omega):
    p = {"omega": omega, "phase": 0.7, "amplitude": 0.01}
    run = dc.simulate(TABLE, p, [0.05], [0.0], TIMES, scheme=SCHEMES[name])
    assert run.status == dc.Status.TOO_COARSE
    # The same one, out of reach, has no part in the motion.
    above = dc.simulate(TABLE, p, [5.0], [0.0], TIMES, scheme=SCHEMES[name])
    assert above.status == dc.Status.OK
    # Slowly it may shake: a body at rest stays on it.
    slow = dc.simulate(
        TABLE, p | {"omega": 5.0}, [0.01 * np.sin(0.7)], [0.05 * np.cos(0.7)], TIMES, scheme=SCHEMES[name]
    )
    assert slow.status == dc.Status.OK


@pytest.mark.parametrize("scheme", [dc.EventTimed(), dc.VelocityProjection()], ids=["EventTimed", "VelocityProjection"])
@pytest.mark.parametrize("omega", ALIASES[::2])
def test_a_belt_that_shakes_as_often_as_steps_are_taken(scheme, omega):
    # A cosine: with these steps it runs at 1 m/s for ever.
    p = {"omega": omega, "phase": np.pi / 2, "amplitude": 1.0}
    run = dc.simulate(BELT, p, [0.0, 0.0], [0.0, 0.5], TIMES, scheme=scheme)
    assert run.status == dc.Status.TOO_COARSE
    slow = dc.simulate(BELT, p | {"omega": 5.0}, [0.0, 0.0], [0.0, 0.5], TIMES, scheme=scheme)
    assert slow.status == dc.Status.OK


WALL = dc.System(
    gap=lambda t, q, p: q,
    force=lambda t, q, u, p: -10 * jnp.ones(1),
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: 0.0,
)


def wall(shape, t):
    """A ball that lies on a floor whose height is a function of time."""
    system = replace(WALL, gap=lambda t, q, p: q - shape(t))
    return lambda scheme: dc.simulate(system, {}, shape(jnp.array([0.0])), [0.0], t, scheme=SCHEMES[scheme])


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("steps", [1, 24])
def test_a_table_that_shakes_for_some_steps_of_many(name, steps):
    """Once a step, by 2 cm: it throws the ball by two metres, which is no share of the time that it lay there."""
    t = np.arange(201) / 100

    def shape(time):
        x = (time - 1.0) * 100
        return jnp.where((x > 0) & (x < steps), 0.02 * jnp.sin(jnp.pi * x) ** 2, 0.0)

    run = wall(shape, t)(name)
    assert run.status == dc.Status.TOO_COARSE


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("height", [0.1, -0.1], ids=["up", "down"])
def test_a_floor_that_jumps_has_no_answer_and_one_that_falls_has(name, height):
    """Upwards it throws the ball as fast as steps are short. Downwards the ball falls, and where to is known."""
    n = 100
    t = np.arange(n + 1) / n
    run = wall(lambda time: jnp.where(time > 0.5051, height, 0.0), t)(name)
    if height > 0:
        assert run.status == dc.Status.TOO_COARSE
    else:
        assert run.status == dc.Status.OK
        # A fall that begins two steps early or late at most, and ends on the new floor.
        early, late = (-5 * np.maximum(t - begin, 0) ** 2 for begin in (0.5051 - 2 / n, 0.5051 + 2 / n))
        assert np.all(run.q[:, 0] >= np.maximum(early, height) - 1e-9)
        assert np.all(run.q[:, 0] <= np.maximum(late, height) + 1e-9)


@pytest.mark.parametrize("name", [name for name in SCHEMES if "Event" not in name])
def test_a_piston_that_starts_and_stops_at_once_is_seen(name):
    """Wherever within a step that is: its way is the ball's to within a step's, and nothing is told.

    EventTimed, which promises times of impact, says that it needs `breaks` there.
    """
    for share in (0.01, 0.3, 0.5, 0.655, 0.9):

        def shape(time, begin=0.2 + share / 50):
            return jnp.clip(time - begin, 0.0, 0.3)

        t = np.linspace(0, 0.45, 24)
        run = wall(shape, t)(name)
        assert run.status == dc.Status.OK
        np.testing.assert_allclose(run.q[:, 0], shape(t), atol=0.02)


def test_a_belt_that_starts_at_once():
    # Within one step of many; twelve are few enough to count it.
    starting = replace(BELT, slip=lambda t, q, u, p: (u[1:] - jnp.where(t > 0.31, 1.0, 0.0))[None])
    times = np.linspace(0.0, 0.6, 25)
    run = dc.simulate(starting, {}, [0.0, 0.0], [0.0, 0.0], times, scheme=dc.VelocityProjection())
    assert run.status == dc.Status.OK
    # First held, then drawn along with g mu and driven with 1 m/s^2, to the order of the scheme.
    np.testing.assert_allclose(run.q[-1, 1], 0.5 * 5 * 0.2**2 + 0.09 * 1.0, atol=times[1])


@pytest.mark.parametrize("scheme", [dc.EventTimed(), dc.PercussionFriction()], ids=["EventTimed", "PercussionFriction"])
@pytest.mark.parametrize("system", [line(1.0, 0.0), line(0.0, 1.0)], ids=["load", "belt"])
def test_a_line_that_is_shaken_as_often_as_steps_are_taken(scheme, system):
    for omega in ALIASES[::2]:
        p = {"omega": omega, "phase": np.pi / 2, "amplitude": 20.0}
        told = dc.simulate(system, p, [0.0], [1.0], TIMES, scheme=scheme).status
        assert told in (dc.Status.TOO_COARSE, dc.Status.TOO_MANY_EVENTS)
    slow = {"omega": 5.0, "phase": np.pi / 2, "amplitude": 20.0}
    assert dc.simulate(system, slow, [0.0], [1.0], TIMES, scheme=scheme).status == dc.Status.OK


@pytest.mark.parametrize("name", [name for name in SCHEMES if "Event" not in name])
def test_a_spring_that_is_too_stiff_for_a_published_scheme(name):
    spring = dc.System(
        gap=lambda t, q, p: q + 1e6,
        force=lambda t, q, u, p: -p["k"] * q,
        mass=lambda q, p: jnp.ones(1),
        restitution=lambda p: 0.0,
    )
    # A period in three steps: (omega h)^2 is above 4, and explicit steps explode. And in sixty.
    for steps, status in ((3, dc.Status.TOO_COARSE), (60, dc.Status.OK)):
        k = (2 * np.pi / (steps * STEP)) ** 2
        run = dc.simulate(spring, {"k": k}, [1.0], [0.0], TIMES, scheme=SCHEMES[name])
        assert run.status == status


@pytest.mark.parametrize("name", [name for name in SCHEMES if "Event" not in name])
def test_what_rests_under_a_load_that_changes_is_right(name):
    loaded = dc.System(
        gap=lambda t, q, p: q,
        force=lambda t, q, u, p: (-20.0 - shaking(t, p)) * jnp.ones(1),
        mass=lambda q, p: jnp.ones(1),
        restitution=lambda p: 0.0,
    )
    # From rest to full load in three steps.
    run = dc.simulate(
        loaded, {"omega": 10.0, "phase": 0.0, "amplitude": 19.0}, [0.0], [0.0], TIMES, scheme=SCHEMES[name]
    )
    assert run.status == dc.Status.OK
    np.testing.assert_allclose(run.q, 0, atol=1e-15)


@pytest.mark.parametrize("nodes", [ENDS, SIMPSON])
def test_polynomials_of_their_degree_are_seen(nodes):
    degree = len(nodes) - 1
    off, size = beside(lambda t: jnp.stack([t**degree, t ** (degree + 1)]), 2.0, 0.5, nodes)
    # To rounding of numbers up to 2.5^3, a few times over.
    assert off[0] < 1e-14 < off[1]
    np.testing.assert_allclose(size, [2.5**degree, 2.5 ** (degree + 1)], rtol=1e-15)


def test_what_is_no_function_of_time_costs_nothing():
    assert depends_on_time(lambda t: jnp.sin(t), jnp.zeros(()))
    assert not depends_on_time(lambda t: jnp.ones(3), jnp.zeros(()))
    assert not depends_on_time(lambda t: FREE.gap(t, jnp.ones(1), {}), jnp.zeros(()))


@pytest.mark.parametrize("name", [name for name in SCHEMES if "Event" not in name])
def test_a_table_that_hardly_moves_is_no_noise(name):
    # In single precision, a tenth of a micrometre a step, ten metres away: all that is seen of it is rounding.
    table = dc.System(
        gap=lambda t, q, p: q - (10.0 + 2e-6 * t),
        force=lambda t, q, u, p: -10 * jnp.ones(1, q.dtype),
        mass=lambda q, p: jnp.ones(1, q.dtype),
        restitution=lambda p: 0.0,
    )
    q, times = np.full(1, 10.00201, np.float32), np.linspace(1000.0, 1006.0, 121).astype(np.float32)
    run = dc.simulate(table, {}, q, np.zeros(1, np.float32), times, scheme=SCHEMES[name])
    assert run.status in (dc.Status.OK, dc.Status.UNEVEN_STEPS)
    assert run.q.dtype == np.float32
    np.testing.assert_allclose(run.q[1:, 0], 10.0 + 2e-6 * times[1:], rtol=8 * np.finfo(np.float32).eps)


WASHBOARD = dc.System(
    gap=lambda t, q, p: (q[1] - p["amplitude"] * jnp.sin(p["k"] * q[0] + p["phase"]))[None],
    force=lambda t, q, u, p: jnp.zeros(2),
    mass=lambda q, p: jnp.ones(2),
    restitution=lambda p: 0.0,
)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_washboard_with_waves_as_long_as_steps(name):
    # A mass glides at 1 m/s, level, over one to four waves a step, through valleys or above all crests.
    rng = np.random.default_rng(3)
    count, amplitude = 48, 0.01
    # It begins in a valley at up to 0.3 of the crests: who grazes them may miss them.
    waves, phase = rng.integers(1, 5, count), rng.uniform(np.pi, 2 * np.pi, count)
    through = np.sin(phase) + (0.3 - np.sin(phase)) * rng.uniform(0.05, 1, count)
    height = amplitude * np.where(rng.uniform(size=count) < 0.25, 1.01, through)
    worlds = {"k": 2 * np.pi * waves / STEP, "phase": phase, "amplitude": np.full(count, amplitude), "height": height}

    def run(p, scheme, substeps):
        q = jnp.stack([0.0, p["height"]])
        found = dc.simulate(WASHBOARD, p, q, jnp.array([1.0, 0.0]), TIMES, scheme=scheme, substeps=substeps)
        return found.q, found.status

    q, status = jax.vmap(lambda p: run(p, SCHEMES[name], 1))(worlds)
    exact, sure = jax.vmap(lambda p: run(p, dc.EventTimed(), 128))(worlds)
    fine = np.asarray((status == dc.Status.OK) & (sure == dc.Status.OK))
    off = np.max(np.abs(q - exact), axis=(1, 2))
    # A mass that slides in a valley turns within few steps: truncation may come to 1/32 of the way, twice, as that is
    # an estimate. The published schemes may be off by a step's way.
    allowed = 2 * TIMES[-1] / 32 if "Event" in name else STEP
    assert np.all(off[fine] < allowed), (waves[fine], off[fine])
    # Above all crests there is nothing to tell, but by a scheme that takes a contact for its tangent.
    above = height > amplitude
    assert name == "VelocityProjection" or np.all(fine[above])
    assert np.sum(above) > 8
    # EventTimed sees up to three waves a step.
    assert np.sum(np.asarray(status) == dc.Status.TOO_COARSE) > (2 if "Event" in name else 8)


@pytest.mark.parametrize("name", SCHEMES)
def test_a_bowl_is_no_obstacle(name):
    # Twenty steps from rim to rim of a bowl of 1 m: concave all the way, and never passed through.
    bowl = dc.System(
        gap=lambda t, q, p: 1.0 - jnp.sqrt(jnp.sum(q**2))[None],
        force=lambda t, q, u, p: jnp.array([0.0, -9.81]),
        mass=lambda q, p: jnp.ones(2),
        restitution=lambda p: 0.0,
    )
    # The height swings twice as fast: second order asks for thirty steps of that.
    times = np.linspace(0.0, 1.6, 65 if name == "EventTimed 2" else 33)
    start = 0.999 * np.array([np.sin(0.5), -np.cos(0.5)])
    run = dc.simulate(bowl, {}, start, [0.0, 0.0], times, scheme=SCHEMES[name])
    assert run.status == dc.Status.OK


# A block on a floor that a sine lifts at every crest, until it is switched off.
LIFTED = dc.System(
    gap=lambda t, q, p: q,
    force=lambda t, q, u, p: (p["lift"] * jnp.sin(p["omega"] * t + p["phase"]) * (t < p["until"]) - 9.81) * jnp.ones(1),
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: 0.0,
)


def _lifted(scheme, lift, steps, seconds, until=np.inf):
    """Statuses for all phases with so many steps in a period of a second."""
    times = jnp.arange(round(seconds * steps) + 1) / steps

    def run(phase):
        p = {"lift": lift, "omega": 2 * jnp.pi, "phase": phase, "until": until}
        return dc.simulate(LIFTED, p, [0.0], [0.0], times, scheme=scheme).status

    return jax.vmap(run)(jnp.arange(6.0))


@pytest.mark.parametrize("name", [name for name in SCHEMES if "Event" not in name])
# A minute of rest hides no hop.
@pytest.mark.parametrize("seconds", [3.0, 63.0])
def test_hops_in_few_steps_of_a_force_are_told(name, seconds):
    # Of a hop of 5 cm, and of 22 cm, VelocityProjection misses 75 and 26 % so.
    for lift in (12.0, 15.0):
        assert np.all(_lifted(SCHEMES[name], lift, 10, seconds, until=3.0) == dc.Status.TOO_COARSE)


@pytest.mark.parametrize(
    ("lift", "steps", "told"), [(12.0, 16, True), (15.0, 10, True), (15.0, 60, False), (9.7, 10, False)]
)
def test_slips_in_few_steps_of_a_load_are_told(lift, steps, told):
    # As the block above: of a slip by 5 cm, and by 22 cm, 40 and 45 % are missed where it is told.
    slider = dc.ParticleLine(
        mass=lambda p: jnp.ones(1),
        damping=lambda p: jnp.zeros((1, 1)),
        stiffness=lambda p: jnp.zeros((1, 1)),
        load=lambda t, p: p * jnp.sin(2 * jnp.pi * t) * jnp.ones(1),
        friction=lambda p: 9.81,
        normal=lambda t, p: jnp.ones(1),
        percussion_times=[],
        percussions=lambda p: jnp.zeros(0),
    )
    times = jnp.arange(3 * steps + 1) / steps
    run = dc.simulate(slider, lift, [0.0], [0.0], times, scheme=dc.PercussionFriction())
    assert (run.status == dc.Status.TOO_COARSE) == told


@pytest.mark.parametrize("name", [name for name in SCHEMES if "Event" not in name])
def test_hops_in_many_steps_of_a_force_are_not_told(name):
    # Truncation is a share of 1/3 (omega h)^2 lift / (lift - g) at most of a hop: 1/200 of it here.
    assert np.all(_lifted(SCHEMES[name], 15.0, 60, 3.0) == dc.Status.OK)
    # Nor is what never lifts it.
    assert np.all(_lifted(SCHEMES[name], 9.7, 10, 3.0) == dc.Status.OK)
