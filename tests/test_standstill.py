"""Lanes that cannot be simulated: reported, left where they start, and without any influence on the others."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full

WELL = {"mass": np.ones(2), "radius": np.full(2, 0.1), "gravity": np.array([-9.81]), "restitution": np.array(0.8)}
BALLS = dc.systems.balls(2, 1, box=(0.0, np.inf))
Q0, U0, TIMES = np.array([0.5, 1.0]), np.array([0.3, -0.2]), np.linspace(0.0, 0.6, 13)

IMPOSSIBLE = [
    ({"restitution": np.array(2.0)}, Status.BAD_RESTITUTION),
    ({"restitution": np.array(-0.5)}, Status.BAD_RESTITUTION),
    ({"restitution": np.array(np.nan)}, Status.NOT_FINITE),
    ({"radius": np.array([0.1, -1.0])}, Status.BAD_INPUT),
    ({"mass": np.array([1.0, 0.0])}, Status.BAD_MASS),
    ({"mass": np.array([-1.0, 1.0])}, Status.BAD_MASS),
    ({"gravity": np.array([np.inf])}, Status.NOT_FINITE),
    ({"times": TIMES[::-1]}, Status.BAD_TIMES),
    ({"times": np.where(np.arange(13) == 5, TIMES[4], TIMES)}, Status.BAD_TIMES),
    ({"times": np.where(np.arange(13) == 5, np.nan, TIMES)}, Status.BAD_TIMES),
    ({"u0": np.array([np.inf, 0.0])}, Status.NOT_FINITE),
]


def run(lane):
    params = {name: lane[name] for name in WELL}
    return dc.simulate(BALLS, params, lane["q0"], lane["u0"], lane["times"], percussions=4)


@jax.jit
def lanes(batch):
    """The runs of a batch, and of each lane the derivative of the sum of its last positions, in reverse mode."""

    def end(lane):
        found = run(lane)
        return jnp.sum(found.q[-1]), found

    (_, found), slope = jax.vmap(jax.value_and_grad(end, has_aux=True))(batch)
    return found, slope


def stacked(*changes):
    lane = {**WELL, "q0": Q0, "u0": U0, "times": TIMES}
    return {name: np.stack([change.get(name, value) for change in changes]) for name, value in lane.items()}


def test_impossible_lanes_stand_still_and_the_others_do_not_notice():
    changes = [change for change, _ in IMPOSSIBLE]
    possible = [{"u0": U0 + 0.01 * i} for i in range(len(changes) + 1)]
    mixed = [lane for pair in zip(possible, [*changes, {}], strict=True) for lane in pair]
    alone = [lane for one in possible for lane in (one, {})]
    batch = stacked(*mixed)
    found, slope = lanes(batch)
    expected, expected_slope = lanes(stacked(*alone))
    assert np.sum(expected.percussions.contact[0] >= 0) >= 2
    for i, (change, status) in enumerate(IMPOSSIBLE):
        bad = 2 * i + 1
        assert found.status[bad] == status
        for way, start in ((found.q, batch["q0"]), (found.u, batch["u0"])):
            np.testing.assert_array_equal(way[bad], np.broadcast_to(start[bad], (13, 2)))
        assert np.all(found.impulse[bad] == 0)
        assert np.all(found.percussions.contact[bad] == -1)
        np.testing.assert_array_equal(found.t[bad], batch["times"][bad])
        # What stands still is where it was put. Zero times an infinite gravity is not finite, though.
        assert np.all(slope["q0"][bad] == 1)
        others = [name for name in slope if name != "q0" and not ("gravity" in change and name == "mass")]
        assert {name for name in others if np.any(slope[name][bad] != 0)} == set()
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a[::2], b[::2]), (found, slope), (expected, expected_slope))


@pytest.mark.parametrize("mode", [jax.jacfwd, jax.jacrev])
def test_a_mass_without_a_factor_leaves_no_nan_in_derivatives(mode):
    system = zoo.system(
        gap=lambda t, q, p: q[:1],
        force=lambda t, q, u, p: -p["g"] * jnp.ones(2),
        mass=lambda q, p: jnp.stack([jnp.stack([1.0, p["m"]]), jnp.stack([p["n"], 1.0])]),
        restitution=0.5,
    )

    def end(params):
        found = dc.simulate(system, params, [1.0, 0.0], [0.0, 0.0], [0.0, 0.1])
        return found.q[-1], found.status

    # Definite, indefinite, not symmetric: of shared parameters the lanes' derivatives add up.
    several = jnp.array([0.5, 2.0, 0.1])

    def total(g):
        return jax.tree.map(
            lambda x: x, jax.vmap(lambda m: end({"g": g, "m": m, "n": jnp.where(m == 0.1, 0.2, m)}))(several)
        )

    slope, status = jax.jit(mode(total, has_aux=True))(9.81)
    assert status.tolist() == [Status.OK, Status.BAD_MASS, Status.BAD_MASS]
    np.testing.assert_allclose(slope[0], [-0.005 / 1.5, -0.005 / 1.5], rtol=1e-12)
    assert np.all(slope[1:] == 0)


def test_a_line_that_makes_no_sense_stands_still():
    line = dc.systems.particle_line()
    params = {"mass": 1.0, "stiffness": 1.0, "damping": 0.1, "normal": 9.81, "rest": 0.0, "gamma": 0.2}
    bad = [("mass", -1.0), ("stiffness", -1.0), ("gamma", -0.1), ("damping", np.nan), ("gamma", 0.2)]
    batch = {name: jnp.array([value if name == key else known for key, value in bad]) for name, known in params.items()}
    simulated = jax.jit(jax.vmap(lambda p: dc.simulate(line, p, [0.5], [1.0], [0.0, 0.1, 0.2])))
    found = simulated(batch)
    expected = [Status.BAD_MASS, Status.BAD_INPUT, Status.BAD_INPUT, Status.NOT_FINITE, Status.OK]
    assert found.status.tolist() == expected
    assert np.all(found.q[:4] == 0.5)
    assert np.all(found.u[:4] == 1.0)
    # To the bit: the same program, beside lanes that make sense.
    good = simulated({name: jnp.full(len(bad), known) for name, known in params.items()})
    np.testing.assert_array_equal(found.q[4], good.q[4])


def test_a_gap_without_a_gradient_at_the_start_is_reported():
    bowl = zoo.system(gap=lambda t, q, p: (1.0 - jnp.linalg.norm(q))[None], restitution=1.0)
    centre = dc.simulate(bowl, {}, [0.0, 0.0], [0.5, 0.0], [0.0, 1.0])
    assert centre.status == Status.NO_DERIVATIVE
    assert centre.q[-1].tolist() == [0.5, 0.0]
    assert dc.simulate(bowl, {}, [0.1, 0.0], [0.5, 0.0], [0.0, 1.0]).status == Status.OK
