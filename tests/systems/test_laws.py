"""Laws of restitution: their formulas, that they stay within [0, 1] with finite derivatives, and systems with them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.system import approach
from diffcontact.systems.laws import LAWS, restitution

PARAMS = {
    "restitution": 0.6,
    "restitution_loss": 0.2,
    "restitution_exponent": 0.3,
    "reference_speed": 0.5,
    "sticking_speed": 0.4,
}
SPEEDS = np.array([0.3, 0.5, 2.0])
TRUTH = {
    "constant": [0.6, 0.6, 0.6],
    "linear": 0.6 - 0.2 * SPEEDS,
    "power": 0.6 * (SPEEDS / 0.5) ** -0.3,
    "viscoelastic": 1 - 0.4 * (SPEEDS / 0.5) ** 0.2,
    "sticking": [0.0, 0.6 * 0.6, 0.6 * np.sqrt(0.96)],
}


@pytest.fixture(scope="module")
def told():
    """Name -> a law at SPEEDS, and everywhere, with its derivatives, in either precision: one program."""
    everywhere = [np.array([0.0, 1e-12, 1e-3, 0.4, 3.0, 1e6], dtype) for dtype in (np.float32, np.float64)]

    def of(law, params, speed):
        function = restitution(law)
        return jnp.broadcast_to(function(params) if law == "constant" else function(params, speed), speed.shape)

    def one(law, anywhere):
        speed = approach(-anywhere)
        slopes = jax.jacfwd(lambda params: of(law, params, speed))(PARAMS)
        return of(law, PARAMS, jnp.asarray(SPEEDS)), of(law, PARAMS, speed), slopes

    return jax.jit(lambda everywhere: {law: [one(law, anywhere) for anywhere in everywhere] for law in LAWS})(
        everywhere
    )


@pytest.mark.parametrize("law", LAWS)
def test_formula_bounds_and_derivatives(told, law):
    for formula, e, derivatives in told[law]:
        np.testing.assert_allclose(formula, TRUTH[law], rtol=1e-12)
        assert np.all((np.asarray(e) >= 0) & (np.asarray(e) <= 1))
        assert all(np.all(np.isfinite(derivative)) for derivative in derivatives.values())


def test_an_impact_has_the_restitution_of_its_speed():
    params = {"restitution": 0.5, "restitution_loss": 0.25, "mass_ratio": 1.0, "distance": 0.1}
    params |= {"tilt": 0.0, "sag": 0.0, "drag": 0.0}
    carts = dc.systems.carts(restitution="linear")
    hit = jax.jit(jax.vmap(lambda u: dc.impact(carts, params, 0.0, np.array([0.0, 0.1]), u)))(
        np.array([[1.0, 0.0], [0.4, 0.0]])
    )
    after = np.asarray(hit.u) + np.asarray(hit.jump)
    np.testing.assert_allclose(after[:, 1] - after[:, 0], [0.25, 0.4 * 0.4], rtol=1e-12)


def test_laws_are_known_by_name():
    for system in (dc.systems.carts, lambda **law: dc.systems.balls(1, 1, **law), dc.systems.bouncing_ball):
        with pytest.raises(ValueError, match=r"restitution='linar'\): no such law; did you mean 'linear'"):
            system(restitution="linar")
    assert dc.systems.carts(restitution="linear") is dc.systems.carts(restitution="linear")


@pytest.mark.full
def test_carts_and_a_ball_with_a_law():
    carts = dc.systems.carts(restitution="linear")
    params = {"restitution": 0.5, "restitution_loss": 0.25, "mass_ratio": 1.0, "distance": 0.1}
    params |= {"tilt": 0.0, "sag": 0.0, "drag": 0.0}
    after = dc.simulate(carts, params, [0.0, 0.2], [1.0, 0.0], [0.0, 0.2]).u[-1]
    np.testing.assert_allclose(after[1] - after[0], 0.25, rtol=1e-12)
    ball = dc.systems.bouncing_ball(2, restitution="power")
    falling = {"gravity": 10.0, "drag": 0.0, "floor": 5.0, "floor_drift": 0.0, "apexes": np.array([1.5])}
    law = {"restitution": 0.5, "restitution_exponent": 0.5, "reference_speed": 10.0}
    # It lands at 10 m/s after 1 s, where e = 1/2, and at 5 m/s after 2 s, where e = 1/2 sqrt(2).
    run = dc.simulate(ball, falling | law, [0.0], [0.0], np.linspace(0.0, 2.5, 26))
    np.testing.assert_allclose(run.u[[15, 25], 0], [0.0, 5.0 - 5 * 0.5 * np.sqrt(2.0)], atol=1e-10)


@pytest.mark.full
def test_materials_and_a_cell_list():
    """Two balls on a floor, each pair of materials with a line of its own; with a cell list it is the same motion."""
    options = {"box": (np.array([-9.0, 0.0]), np.array([9.0, 9.0])), "materials": [0, 1, 1, 1, 1, 1]}
    params = {"mass": np.ones(2), "radius": np.full(2, 0.1), "gravity": np.array([0.0, -9.81])}
    params |= {
        "restitution": np.array([[0.9, 0.8], [0.8, 0.7]]),
        "restitution_loss": np.array([[0.0, 0.1], [0.1, 0.05]]),
    }
    q0, u0, times = [0.0, 0.3, 1.0, 0.3], [1.0, 0.0, -1.0, 0.0], np.linspace(0.0, 0.6, 13)
    pairs, cells = (
        dc.simulate(dc.systems.balls(2, 2, **options, restitution="linear", **more), params, q0, u0, times)
        for more in ({}, {"cell": 0.5})
    )
    assert (int(pairs.status), int(cells.status)) == (0, 0)
    np.testing.assert_allclose(cells.u, pairs.u, atol=1e-12)
    speed = np.sqrt(2 * 9.81 * 0.2)
    landed = np.sqrt(2 * 0.2 / 9.81)
    after = np.array([(0.8 - 0.1 * speed) * speed, (0.7 - 0.05 * speed) * speed])
    k = int(np.searchsorted(times, landed))
    np.testing.assert_allclose(pairs.u[k, 1::2], after - 9.81 * (times[k] - landed), atol=1e-12)
    e = 0.8 - 0.1 * 2.0
    np.testing.assert_allclose(pairs.u[-1, 0], -e, atol=1e-2)  # they meet, nearly head on, at 2 m/s
