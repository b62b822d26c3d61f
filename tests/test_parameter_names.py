"""Keys of params that nothing reads: told where they are misspelled, and else somebody else's."""

import pickle
from copy import copy, deepcopy

import jax
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.inputs import Recorded, require_names


def simulate(force, **params):
    """What is refused or told before anything is compiled: then a scheme for other systems ends it."""
    ball = dc.System(
        gap=lambda t, q, p: q, force=force, mass=lambda q, p: np.ones(1), restitution=lambda p: p["restitution"]
    )
    with pytest.raises(ValueError) as caught:
        dc.simulate(ball, {"restitution": 0.5, **params}, [1.0], [0.0], [0.0, 1.0], scheme=dc.PercussionFriction())
    return str(caught.value)


@pytest.mark.parametrize(
    "asked",
    [
        lambda p: sum([p["drag"]] if "drag" in p else []),
        lambda p: p.get("drag", 0.0),
    ],
)
def test_a_key_that_is_missing_and_misspelled_is_refused(asked):
    told = simulate(lambda t, q, u, p: -asked(p) * u, darg=0.1)
    assert told == "params['darg']: no parameter of this system, did you mean 'drag'?"
    told = simulate(lambda t, q, u, p: -asked(p["air"]) * u, air={"drga": 0.1})
    assert told == "params['air']['drga']: no parameter of this system, did you mean 'drag'?"


def test_a_key_beside_the_right_one_is_told():
    with pytest.warns(UserWarning, match=r"^params\['restitutions'\]: .* did you mean 'restitution'\?$") as told:
        simulate(lambda t, q, u, p: u, restitutions=0.1)
    # Where the user calls.
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    ("read", "others"),
    [
        # Of other runs of a joint fit, of `initial` and `observe`: other words, and others of a family.
        (("mass", "e_floor"), ("e_wall", "mass2", "mass_of_cart", "q0", "u0", "height")),
        (("mu",), ("u0", "nu", "mu2")),
        (("m1", "m2"), ("m3",)),
    ],
)
def test_what_somebody_else_reads_is_left_alone(read, others):
    told = simulate(lambda t, q, u, p: sum(p[name] for name in read) * u, **dict.fromkeys((*read, *others), 1.0))
    assert told.startswith("scheme: PercussionFriction")


@pytest.mark.parametrize(
    "use",
    [
        lambda p: sum(p.values()),
        lambda p: sum(value for _, value in p.items()),
        lambda p: sum(p[name] for name in p),
        lambda p: sum({**p}.values()),
        lambda p: sum(dict(p).values()),
        lambda p: (lambda **of: sum(of.values()))(**p),
        lambda p: sum((p | {"more": 1.0}).values()),
        lambda p: sum(({"more": 1.0} | p).values()),
        lambda p: sum(p.copy().values()),
        lambda p: sum(copy(p).values()),
        lambda p: sum(deepcopy(p).values()),
        lambda p: sum(pickle.loads(pickle.dumps(p)).values()),
        lambda p: sum(jax.tree.leaves(p)),
        lambda p: sum(jax.tree.map(lambda x: 2 * x, p).values()),
        lambda p: jax.lax.scan(lambda p, _: (p, None), p, None, length=1)[0]["mass"],
        lambda p: jax.vmap(lambda p, x: p["mass"] * x, in_axes=(None, 0))(p, np.ones(1))[0],
        # Nothing but Python's own dict will do.
        lambda p: sum(jax.tree.map(lambda x, y: x * y, p, {"mass": 1.0, "masss": 1.0, "restitution": 1.0}).values()),
    ],
)
def test_whoever_takes_all_of_them_has_read_them(use):
    assert simulate(lambda t, q, u, p: use(p) * u, mass=1.0, masss=1.0).startswith("scheme: PercussionFriction")


def test_params_that_are_no_dict_stay_what_they_are():
    ball = dc.System(
        gap=lambda t, q, p: q, force=lambda t, q, u, p: p[1] * u, mass=lambda q, p: p[0], restitution=lambda p: 0.5
    )
    with pytest.raises(ValueError, match="times: expected increasing"):
        dc.simulate(ball, ([1.0], 2.0), [1.0], [0.0], [1.0, 0.0])


def test_keys_that_are_no_names_are_left_alone():
    recorded = Recorded({1: 1.0, None: 2.0, "mass": 1.0, "masss": 2.0})
    assert recorded[1] == 1.0
    require_names(recorded, True)
