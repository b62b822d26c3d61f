"""EventTimed against event-exact states and Jacobians: one program a reference, forwards.

Others, of the same order and as exact, are rows of the zoo's models (`references.py`).
"""

import json

import coulomb
import hybrid
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems.reference import model

import diffcontact as dc
from diffcontact.schemes.event_timed import EventTimed

pytestmark = pytest.mark.full

# Step, order, and the largest error of state and Jacobian, relative to the largest entry. Constant forces and flat
# contacts are exact at every step; references are good to 1e-12, those with M(q) to 1e-10. The rest is twice what the
# method leaves: of order 4 a step of half the length would leave a sixteenth.
EXACT = (1e-2, 4, 2e-10, 2e-10)
CASES = {
    "exact/two_balls_box_2d": EXACT,
    "exact/growing_balls": EXACT,
    "exact/landing_bowl": (1e-2, 6, 1e-7, 1e-7),
    "exact/pendulum_stop": (1e-2, 6, 1e-9, 1e-9),
    "exact/double_pendulum_wall": (1e-2, 6, 1e-9, 1e-9),
    "hybrid/table_chatter": EXACT,
    "hybrid/block_bounce": EXACT,
    "hybrid/hopper": (5e-3, 6, 2e-7, 7e-7),
    "hybrid/cartpole_walls": (1e-2, 6, 1e-9, 1e-8),
    "hybrid/triple_pendulum": (1e-2, 6, 2e-9, 1e-8),
    "coulomb/driven_block": (1e-2, 4, 1e-8, 3e-8),
    "coulomb/ladder": (1e-2, 6, 1e-10, 1e-10),
}


def _problem(case, theta):
    """The system, params, q0 and u0."""
    folder, name = case.split("/")
    if folder == "coulomb":
        problem = coulomb.PROBLEMS[name]
        return problem.system, theta, *problem.start(theta)
    system, unpack = model(name) if folder == "exact" else hybrid.PROBLEMS[name]
    return system, *unpack(theta)


@pytest.mark.parametrize("case", CASES)
def test_the_references(reference, case):
    h, order, state, jacobian = CASES[case]
    data = json.loads((reference / f"{case}.json").read_text())
    values = data["parameters"] if "parameters" in data else data["theta"]
    theta = jnp.array(list(values.values()) if isinstance(values, dict) else values, float)

    @jax.jit
    def ended(theta, until, count):
        def end(theta):
            system, *given = _problem(case, theta)
            times = jnp.stack([np.zeros(()), until])
            run = dc.simulate(system, *given, times, scheme=EventTimed(order=order), substeps=count)
            state = jnp.concatenate([run.q[-1], run.u[-1]])
            return state, (state, run.status)

        return jax.jacfwd(end, has_aux=True)(theta)

    for run in data.get("runs", [data]):
        found, (value, status) = ended(theta, jnp.asarray(run["T"]), jnp.asarray(round(run["T"] / h)))
        assert status == 0
        for mine, truth, bound in ((value, run["state"], state), (found, run["jacobian"], jacobian)):
            assert np.max(np.abs(np.asarray(mine) - truth)) <= bound * max(1.0, np.max(np.abs(truth)))
