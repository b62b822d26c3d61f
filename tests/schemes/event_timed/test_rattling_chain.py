"""Three masses on springs rattle between four stops: what decides their impacts is small."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.status import Status

pytestmark = pytest.mark.full


def _pulled(t, q, p):
    x = jnp.concatenate([jnp.zeros(1), q, jnp.zeros(1)])
    return jnp.diff(p["stiffness"] * jnp.diff(x)) + p["force"] * jnp.sin(p["frequency"] * t + p["phase"])


CHAIN = dc.System(
    gap=lambda t, q, p: jnp.concatenate([q[:1], jnp.diff(q), -q[-1:]]) + p["room"],
    force=lambda t, q, u, p: _pulled(t, q, p) - p["damping"] * u,
    mass=lambda q, p: p["mass"],
    restitution=lambda p: p["restitution"],
)
NAMES = ("room", "stiffness", "damping", "force", "frequency", "phase", "mass", "restitution", "q0", "u0")
SIZES = (4, 4, 1, 3, 1, 3, 3, 4, 3, 3)


@pytest.fixture(scope="module")
def chain(reference):
    return json.loads((reference / "vibro/chain_lane_346.json").read_text())


def _ended(theta, order, count):
    p = dict(zip(NAMES, jnp.split(theta, np.cumsum(SIZES)[:-1]), strict=True))
    scheme = dc.EventTimed(order=order)
    run = dc.simulate(CHAIN, p, p["q0"], p["u0"], jnp.linspace(0.0, 1.0, 5), scheme=scheme, substeps=count)
    return jnp.concatenate([run.q[-1], run.u[-1]]), run.status


def test_fourth_order_is_right_with_ten_milliseconds(chain):
    by_start = jax.jacfwd(lambda u0, x, n: (lambda end: (end[0], end))(_ended(x.at[-3:].set(u0), 4, n)), has_aux=True)
    derivative, theta = jax.jit(by_start), jnp.array(chain["theta"])
    truth, slopes = np.array(chain["state"]), np.array(chain["jacobian"])[:, -3:]
    # 7e-5 and 3e-3 with 10 ms, 5e-6 and 2e-4 with 5 ms.
    for count, most in ((25, 1.0), (50, 1 / 12)):
        jacobian, (state, status) = derivative(theta[-3:], theta, jnp.asarray(count))
        assert status == Status.OK
        assert np.max(np.abs(state - truth)) < 1e-4 * most * np.max(np.abs(truth))
        assert np.max(np.abs(jacobian - slopes)) < 5e-3 * most * np.max(np.abs(slopes))


def test_second_order_says_that_it_may_have_missed_an_impact(chain):
    """Steps of 10 and 5 ms are off by 110 % of the state: which impacts there are is within their error. In steps of
    2.5 ms the last impact comes 9e-5 s before the end, where the true one comes after it."""
    ended = jax.jit(lambda x, n: _ended(x, 2, n))
    off = []
    for count in (25, 50):
        state, status = ended(jnp.array(chain["theta"]), jnp.asarray(count))
        off.append(np.max(np.abs(state - np.array(chain["state"]))) / np.max(np.abs(chain["state"])))
        assert status == Status.TOO_COARSE
    assert min(off) > 0.5
    state, status = ended(jnp.array(chain["theta"]), jnp.asarray(200))
    assert status == Status.OK
    np.testing.assert_allclose(state, chain["state"], atol=1e-3 * np.max(np.abs(chain["state"])))
