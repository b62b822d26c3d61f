"""What balls may touch: closed forms for moving walls, planes, fixed balls, growing balls and materials."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.qp.rows import dense as spread_out
from diffcontact.status import Status

pytestmark = pytest.mark.full

DENSE, PARAMS, START = zoo.SURFACES.system, zoo.SURFACES.params, zoo.SURFACES.params["q0"]
LISTED = zoo.surfaces(cell=1.2)


def test_listed_contacts_have_the_gaps_gradients_and_restitutions_of_all():
    t, q = 0.2, START
    found = LISTED.within(PARAMS, t, q, 100.0)
    few = LISTED.listed_contacts(found)

    def seen(system):
        gap, jacobian = system.gap(t, q, PARAMS), jax.jacfwd(system.gap, argnums=1)(t, q, PARAMS)
        drift = jax.jvp(lambda t: system.gap(t, q, PARAMS), (t,), (1.0,))[1]
        rows = np.column_stack([gap, system.restitution(PARAMS), drift, jacobian])
        return rows[np.lexsort(rows.T.round(9))]

    there = np.asarray(found.taken)
    assert not found.full
    dense, listed = seen(DENSE), seen(few)
    # Open sides are never listed, and free places have a gap of 1 whatever happens.
    dense = dense[np.isfinite(dense[:, 0])]
    listed = listed[np.any(listed[:, 3:] != 0, axis=1)]
    assert np.count_nonzero(there) == len(listed) == 5 + 5 + 10 + 5
    np.testing.assert_allclose(listed, dense, atol=1e-13)
    rows = few.linearised(PARAMS, t, q)[1]
    np.testing.assert_allclose(spread_out(rows), jax.jacfwd(few.gap, argnums=1)(t, q, PARAMS), atol=1e-13)


@pytest.mark.parametrize("scheme", [dc.VelocityProjection(), dc.EventTimed()])
def test_a_wall_and_balls_that_close_faster_than_any_ball_moves_are_seen(scheme):
    # All are at rest, and in one step the wall comes by more than a diameter, and the balls grow by half.
    row = dc.systems.balls(
        3, 1, cell=0.2, box=lambda t, params: (50.0 * t**2, jnp.inf), radius=lambda t, params: jnp.full(3, 0.05 + t / 4)
    )
    params = {"mass": jnp.ones(3), "gravity": jnp.zeros(1), "restitution": 0.0}
    times = jnp.array([0.0, 0.1, 0.2])
    run = jax.jit(lambda q0: dc.simulate(row, params, q0, jnp.zeros(3), times, scheme=scheme))
    run = run(jnp.array([0.1, 0.3, 0.5]))
    assert run.status == Status.OK
    for t, q in zip(times[1:], run.q[1:], strict=True):
        # Inelastic: what the wall has caught up with lies on it, at the sum of the radii.
        pushed = 50 * t**2 + (0.05 + t / 4) * jnp.array([1.0, 3.0, 5.0])
        np.testing.assert_allclose(q, pushed, rtol=1e-5)


@pytest.mark.parametrize(
    ("message", "call"),
    [
        (r"fixed=-1", {"fixed": -1}),
        (r"planes=\[1.0\]\): expected a function", {"planes": [1.0]}),
        (r"radius=0.1\): expected a function", {"radius": 0.1}),
        (r"materials=\[0.5\]\): expected integers", {"materials": [0.5]}),
    ],
)
def test_arguments_that_make_no_sense_are_refused(message, call):
    with pytest.raises(ValueError, match=message):
        dc.systems.balls(1, 2, **call)


@pytest.mark.parametrize("cell", [None, 1.0])
@pytest.mark.parametrize(
    ("message", "call", "changed"),
    [
        (r"params: expected 'fixed_centre' of shape \(1, 2\)", {"fixed": 1}, {}),
        (r"fixed_radius.* expected shape \(1,\)", {"fixed": 1}, {"fixed_centre": [[5, 5]], "fixed_radius": [1, 1]}),
        (r"low < high.* at the first time", {"box": lambda t, p: (1.0, t)}, {}),
        (r"high: expected shape \(2,\), got \(3,\)", {"box": lambda t, p: (0, jnp.ones(3))}, {}),
        (r"unit normals, got lengths \[2", {"planes": lambda t, p: ([[0, 2.0]], [-9.0])}, {}),
        (r"normals: expected shape \(1, 2\)", {"planes": lambda t, p: ([[1.0]], [-9.0])}, {}),
        (r"radius=...\): expected shape \(2,\)", {"radius": lambda t, p: jnp.ones(3)}, {}),
        (r"radius: expected at least 0", {"radius": lambda t, p: jnp.array([0.1, -0.1])}, {}),
        (r"materials=.* expected 6 numbers, for 2 balls", {"box": (-9, 9), "materials": [0, 0]}, {}),
        (r"symmetric table of 2 x 2", {"materials": [0, 1]}, {"restitution": 0.5}),
        (r"symmetric table", {"materials": [0, 1]}, {"restitution": jnp.array([[0.0, 0.5], [0.4, 0.0]])}),
    ],
)
def test_bad_input_is_refused_by_name(message, call, changed, cell):
    params = {"mass": jnp.ones(2), "radius": jnp.full(2, 0.1), "gravity": jnp.zeros(2), "restitution": 0.5}
    system = dc.systems.balls(2, 2, cell=cell, **call)
    with pytest.raises(ValueError, match=message):
        dc.simulate(system, params | changed, [0.0, 0.0, 1.0, 0.0], jnp.zeros(4), [0.0, 0.1])


def test_on_a_line_points_do_not_meet():
    """Nothing would stop them; a point and a ball meet."""
    row, run = dc.systems.balls(2, 1), ([0.0, 1.0], [1.0, 0.0], [0.0, 2.0])
    params = {"mass": jnp.ones(2), "gravity": jnp.zeros(1), "restitution": 1.0}
    with pytest.raises(ValueError, match=r"radius: expected no two zeros that meet on a line.*got \[0\. 0\.\]"):
        dc.simulate(row, params | {"radius": jnp.zeros(2)}, *run)
    met = dc.simulate(row, params | {"radius": jnp.array([0.0, 0.1])}, *run)
    np.testing.assert_allclose(met.q[-1], [0.9, 2.1], rtol=1e-14)
    alley = dc.systems.balls(1, 1, fixed=2)
    posts = {"mass": jnp.ones(1), "gravity": jnp.zeros(1), "restitution": 1.0, "fixed_radius": jnp.zeros(2)}
    posts |= {"radius": jnp.array([0.1]), "fixed_centre": jnp.array([[-1.0], [1.0]])}
    np.testing.assert_allclose(dc.simulate(alley, posts, [0.0], [1.0], [0.0, 2.0]).q[-1], [-0.2], rtol=1e-14)


def test_what_overlaps_is_named():
    with pytest.raises(ValueError, match="ball 2 overlaps fixed ball 0 by 0"):
        dc.simulate(
            LISTED,
            PARAMS | {"fixed_centre": START[None, 4:6] + np.array([[0.5, 0.0]])},
            START,
            np.zeros(10),
            [0.0, 0.1],
        )
    assert [LISTED.surfaces.name(number) for number in (4, 5, 6, 9, 10)] == [
        "ball 4",
        "fixed ball 0",
        "side 0 of the box",
        "side 3 of the box",
        "plane 0",
    ]


@pytest.mark.parametrize("spin", [False, True])
def test_no_normal_turns_by_more_than_the_bound(spin):
    """Of balls that do not overlap; the way of a step is up to a tenth of a radius, and most bounds are small."""
    rng, radius = np.random.default_rng(0), np.array([0.1, 0.25, 0.15, 0.2])
    system = dc.systems.balls(4, 3, box=(0.0, 2.0), fixed=1, spin=spin)
    params = {"mass": jnp.array([1.0, 0.5, 3.0, 2.0]), "radius": jnp.asarray(radius), "gravity": jnp.zeros(3)}
    params |= {"fixed_centre": jnp.ones((1, 3)), "fixed_radius": jnp.array([0.3]), "friction": 0.5, "restitution": 0.0}
    pairs = np.arange(4 * 6, 4 * 6 + 10)

    def looked_at(start, x):
        mass = np.asarray(system.mass(start, params))
        rows = [np.asarray(spread_out(system.linearised(params, 0.0, at)[1])) for at in (start, x)]
        here, there, both = (np.sum(a * b / mass, axis=1) for a, b in ((rows[0],) * 2, (rows[1],) * 2, rows))
        sines = np.sqrt(np.maximum(1 - both**2 / (here * there), 0))
        return sines, here, system.turning(params, 0.0, jnp.asarray(mass), start, x)

    count, near = 0, 0
    for _ in range(200):
        place, way = rng.uniform(0.0, 2.0, (4, 3)), rng.normal(size=(4, 3))
        way *= rng.uniform(0, 0.01) / np.max(np.linalg.norm(way, axis=1))
        still = np.tile([1.0, 0, 0, 0], (4, 1))
        start, x = (np.hstack([at, still]) if spin else at for at in (place, place + way))
        start, x = jnp.asarray(start.ravel()), jnp.asarray(x.ravel())
        if np.min(system.gap(0.0, start, params)[pairs]) < 0 or np.min(system.gap(0.0, x, params)[pairs]) < 0:
            continue
        sines, here, (sine, square) = looked_at(start, x)
        assert np.max(sines) <= sine * (1 + 1e-9) + 1e-7
        assert np.max(here) <= square * (1 + 1e-9)
        count, near = count + 1, near + (np.max(sines) > sine / 8)
    # No bound that is never approached.
    assert count > 30
    assert near > 3
