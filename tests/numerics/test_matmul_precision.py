"""No product of single-precision matrices is left to what a device takes for enough."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rubbing import DISC, DROP

import diffcontact as dc
from diffcontact import qp

FULL = (jax.lax.Precision.HIGHEST,) * 2
# What is differentiated from the outside, and what was traced before somebody differentiates it.
DIRECTIONS = {
    "as it is": lambda f: f,
    "forward": jax.jacfwd,
    "reverse": jax.jacrev,
    "jit, then reverse": lambda f: jax.jacrev(jax.jit(f)),
}
# To trace one direction shows most of it; the others are of the tier `full`.
FEW = [pytest.param(name, marks=[pytest.mark.full] * (name != "jit, then reverse")) for name in DIRECTIONS]


def products(function, *at):
    """The precision of every product of matrices in what is traced, in all that it calls."""

    def of(jaxpr):
        for equation in jaxpr.eqns:
            if equation.primitive.name == "dot_general":
                yield equation.params["precision"]
            inner = jax.tree.leaves(list(equation.params.values()), is_leaf=lambda x: hasattr(x, "eqns"))
            for part in inner:
                part = getattr(part, "jaxpr", part)
                if hasattr(part, "eqns"):
                    yield from of(part)

    return list(of(jax.make_jaxpr(function)(*at).jaxpr))


def test_it_is_left_to_the_device_unless_said():
    assert products(lambda x: x @ x, np.ones(2, np.float32)) == [None]


def _problem():
    rng = np.random.default_rng(0)
    tangents, mass = rng.normal(size=(12, 1, 6)), np.eye(6) + 0.1
    single = partial(jnp.asarray, dtype=jnp.float32)
    return tuple(map(single, (mass, rng.normal(size=(12, 6)), tangents, rng.uniform(size=12), -np.ones(6))))


def _projected(v):
    mass, G, _, b, _ = _problem()
    return qp.project(mass, G, b, v).u


def _held(v):
    mass, G, _, b, _ = _problem()
    return qp.hold(mass, G, b, v, b < 0.5).u


def _boxed(v):
    return qp.box(_problem()[0], v, -jnp.ones(6, jnp.float32), jnp.ones(6, jnp.float32)).x


def _rubbed(v):
    mass, G, tangents, b, _ = _problem()
    nothing, friction = jnp.zeros((12, 1), jnp.float32), jnp.full(12, 0.3, jnp.float32)
    return qp.coulomb(mass, G, tangents, b, nothing, friction, v).u


def _pushed(v):
    rows = qp.BodyRows(jnp.array([[0, 1], [1, -1]]), jnp.ones((2, 1, 3), jnp.float32), 2)
    return qp.project_many(jnp.ones(6, jnp.float32), rows, jnp.zeros(2, jnp.float32), v).u


@pytest.mark.parametrize("direction", FEW)
@pytest.mark.parametrize("function", [_projected, _held, _boxed, _rubbed, _pushed])
def test_projections(function, direction):
    found = products(DIRECTIONS[direction](function), -np.ones(6, np.float32))
    assert found or function is _pushed  # Its rows are of two bodies each: sums, no products.
    assert set(found) <= {FULL}


BALLS = dc.systems.balls(2, 2, box=(0.0, 1.0))
PARAMS = {"mass": np.ones(2), "radius": 0.1 * np.ones(2), "gravity": np.array([0.0, -9.81]), "restitution": 0.0}


def _ends(scheme, u):
    q0 = jnp.array([0.2, 0.3, 0.6, 0.3], u.dtype)
    return dc.simulate(BALLS, PARAMS, q0, u, jnp.linspace(0.0, 0.1, 3, dtype=u.dtype), scheme=scheme).q[-1]


def _falls(scheme, u):
    times = jnp.linspace(0.0, 0.1, 3, dtype=u.dtype)
    return dc.simulate(DISC, {"mu": 0.3, "e": 0.0}, jnp.array(DROP[0], u.dtype), u, times, scheme=scheme).q[-1]


@pytest.mark.full
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize(
    "scheme",
    [dc.EventTimed(), dc.VelocityProjection(), dc.CatchingUp(), dc.ElasticProjection()],
)
def test_simulations(scheme, direction):
    found = products(DIRECTIONS[direction](partial(_ends, scheme)), jnp.zeros(4, jnp.float32))
    assert set(found) == {FULL}


@pytest.mark.full
@pytest.mark.parametrize("scheme", [dc.EventTimed(), dc.VelocityProjection()])
def test_simulations_with_friction(scheme):
    found = products(jax.jacrev(jax.jit(partial(_falls, scheme))), jnp.zeros(3, jnp.float32))
    assert set(found) == {FULL}
