import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc

pytestmark = pytest.mark.full

PARAMS = {"restitution": 0.7, "mass_ratio": 1.4, "distance": 0.1, "tilt": 0.02, "sag": 0.03, "drag": 0.05}
Q0, U0 = jnp.array([0.0, 0.5]), jnp.array([0.4, -0.1])


def simulate(params, times):
    params = {name: jnp.asarray(value) for name, value in params.items()}
    return dc.simulate(dc.systems.carts(), params, Q0, U0, jnp.asarray(times))


@pytest.mark.parametrize("name", ["restitution", "mass_ratio"])
def test_an_impact_follows_its_law(name):
    still = PARAMS | {"tilt": 0.0, "sag": 0.0, "drag": 0.0}
    after = np.asarray(simulate(still, np.linspace(0.0, 2.0, 501)).u[-1])
    r = still["mass_ratio"]
    # Constant forces: exact to rounding.
    if name == "restitution":
        assert after[1] - after[0] == pytest.approx(0.7 * 0.5, rel=1e-12)
    else:
        assert r * after[0] + after[1] == pytest.approx(r * 0.4 - 0.1, rel=1e-12)


def test_free_flight_on_the_track_is_the_solution_of_its_equation():
    times = np.linspace(0.0, 0.5, 501)
    found = simulate(PARAMS, times)
    for i, mass in enumerate((PARAMS["mass_ratio"], 1.0)):
        A = np.array([[0.0, 1.0], [-PARAMS["sag"], -PARAMS["drag"] / mass]])
        rest = np.array([PARAMS["tilt"] / PARAMS["sag"], 0.0])
        start = np.array([Q0[i], U0[i]]) - rest
        exact = np.asarray(jax.scipy.linalg.expm(0.5 * A)) @ start + rest
        # Second order in h = 1e-3: h^2 times the jerk, 0.05^2 * 0.4 m/s^3, over half a second.
        np.testing.assert_allclose([found.q[-1, i], found.u[-1, i]], exact, atol=1e-9)


def test_the_ready_made_system_is_one_and_the_same():
    assert dc.systems.carts() is dc.systems.carts()
