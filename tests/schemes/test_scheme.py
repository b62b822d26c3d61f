"""What schemes say about themselves, and a scheme of one's own."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.schemes import Scheme
from diffcontact.schemes.scheme import Info, State

SYSTEM = dc.System(
    gap=lambda t, q, p: q + 10.0,
    force=lambda t, q, u, p: -p["k"] * q,
    mass=lambda q, p: np.ones(1),
    restitution=lambda p: 0.0,
)


@dataclass(frozen=True)
class Symplectic(Scheme):
    """Symplectic Euler, without any contact."""

    def init(self, system, params, t, h, q, u):
        return State(q, u)

    def step(self, system, params, t, h, state):
        u = state.u + h * system.force(t, state.q, state.u, params)
        nothing = jnp.zeros_like(system.gap(t, state.q, params))
        return State(state.q + h * u, u), Info(nothing, np.zeros((), int))


def test_a_scheme_of_ones_own_is_stepped():
    run = dc.simulate(SYSTEM, {"k": 4.0}, [1.0], [0.0], [0.0, 0.1, 0.2], scheme=Symplectic())
    assert run.status == dc.Status.OK
    # u' = u - 0.4 q, q' = q + 0.1 u'.
    np.testing.assert_allclose(run.u[:, 0], [0.0, -0.4, -0.784], rtol=1e-15)
    np.testing.assert_allclose(run.q[:, 0], [1.0, 0.96, 0.8816], rtol=1e-15)


@pytest.mark.parametrize(
    "scheme", [Symplectic, lambda state: state, "EventTimed"], ids=["a class", "a function", "text"]
)
def test_what_is_no_scheme_is_refused(scheme):
    with pytest.raises(ValueError, match="scheme: expected a step map like EventTimed"):
        dc.simulate(SYSTEM, {"k": 4.0}, [1.0], [0.0], [0.0, 0.1], scheme=scheme)


def test_what_the_schemes_say():
    published = (dc.VelocityProjection(), dc.CatchingUp(), dc.ElasticProjection(), dc.PercussionFriction())
    assert [scheme.inelastic for scheme in (*published, dc.EventTimed())] == [True, True, False, False, False]
    assert dc.EventTimed().systems == (dc.System, dc.ParticleLine)
    assert dc.PercussionFriction().systems == (dc.ParticleLine,)
