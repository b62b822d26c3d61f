"""Which functions and systems share a program, and which must not."""

from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.numerics.fingerprint import TracedError, fingerprint

SETTINGS = {"g": 9.81}
OBJECT = SimpleNamespace(g=9.81)


def ball(g=9.81, mass=1.0):
    return dc.System(
        gap=lambda t, q, p: q,
        force=lambda t, q, u, p: -g * jnp.ones(1),
        mass=lambda q, p: mass * np.ones(1),
        restitution=lambda p: p["e"],
    )


@dataclass(frozen=True)
class Force:
    g: float

    def __call__(self, t, q, u, p):
        return -self.g * q


def of_array(array):
    return lambda x: x * array


def of_function(function):
    return lambda x: function(x)


def of_settings():
    return lambda x: x * SETTINGS["g"]


def of_object():
    return lambda x: x * OBJECT.g


def _helper(x):
    return x * SETTINGS["g"]


def of_helper():
    return lambda x: _helper(x)


@pytest.mark.parametrize(
    "made",
    [
        ball,
        lambda: dc.systems.balls(2, 3, box=(0.0, 1.0)),
        lambda: dc.EventTimed(order=4),
        lambda: of_array(np.arange(3.0)),
        lambda: of_array(np.arange(1000.0)),
        lambda: of_array(jnp.arange(3.0)),
        lambda: of_function(lambda x: 2 * x),
        lambda: of_function(jnp.sin),
        lambda: partial(of_array, np.arange(3.0)),
        lambda: Force(2.0),
        of_settings,
        of_helper,
    ],
)
def test_what_is_made_twice_alike_is_interchangeable(made):
    assert fingerprint(made()) == fingerprint(made())
    assert hash(fingerprint(made())) == hash(fingerprint(made()))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (ball(), ball(g=1.62)),
        (ball(), ball(mass=2.0)),
        (of_array(0.0), of_array(-0.0)),
        (of_array(1), of_array(1.0)),
        (of_array(True), of_array(1)),
        (of_array(np.ones(3)), of_array(np.ones(3, np.float32))),
        (of_array(np.ones(3)), of_array(jax.device_put(np.ones(3)))),
        (of_array(np.arange(1000.0)), of_array(np.arange(1000.0) + (np.arange(1000) == 500))),
        (of_function(lambda x: 2 * x), of_function(lambda x: 3 * x)),
        (of_function(jnp.sin), of_function(jnp.cos)),
        (Force(2.0), Force(3.0)),
        (dc.EventTimed(order=2), dc.EventTimed(order=4)),
        # Code of one place, of which each is equal to itself only.
        (of_object(), of_object()),
    ],
)
def test_what_differs_is_not(one, other):
    assert fingerprint(one) == fingerprint(one)
    assert fingerprint(one) != fingerprint(other)


@pytest.mark.parametrize("made", [of_settings, of_helper])
def test_what_is_made_anew_sees_what_has_changed(made, monkeypatch):
    before = fingerprint(made())
    monkeypatch.setitem(SETTINGS, "g", 1.62)
    assert fingerprint(made()) != before


def test_a_traced_value_is_told():
    def traced(x):
        with pytest.raises(TracedError):
            fingerprint(of_array(x))
        return x

    jax.jit(traced)(1.0)
