"""Fits of motions with friction, and a rest that floor and guide share."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo
from rubbing import DISC, DROP, dropped

import diffcontact as dc
from diffcontact.identify import Interval, Observations, Positive, Problem, fit, profile

pytestmark = pytest.mark.full


def _drop(params):
    return DROP


def _places(trajectory, params):
    return trajectory.q


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("mu", [0.05, 0.3])
def test_an_impact_gives_friction_away_where_it_slips(mu, seed):
    times, noise, edge = np.linspace(0.0, 0.42, 31), 2e-3 * np.array([1.0, 1.0, 10.0]), 1 / 3 / 3.2
    seen = dropped(mu, 0.6, times) + noise * np.random.default_rng(seed).normal(size=(31, 3))
    run = Problem(DISC, Observations(times, seen, noise, _places), _drop, substeps=1)
    result = fit(run, {"mu": 0.07, "e": 0.5}, {"mu": Positive(), "e": Interval(0.0, 1.0)})
    assert abs(result.params["e"] - 0.6) < 4 * result.stderr["e"]
    low, high = result.interval95["mu"]
    if mu < edge:
        assert abs(result.params["mu"] - mu) < 4 * result.stderr["mu"]
        # d r / d mu, 3.2 s in x and 64 s in the angle s seconds after the impact, has length 1.8e3 over 16 samples:
        # four standard errors are 2.2e-3, and their estimate scatters.
        assert high - low < 5e-3
    else:
        # It gripped: any mu above the edge does as well, also where the noise makes it look like a slip close to it.
        assert low < 1.01 * edge
        assert high == np.inf
        if result.unidentifiable:
            assert result.gripped == ("mu",)
            # Below the edge by what 31 samples at d r / d mu = 1.8e3 leave open, 5e-4 per standard error.
            assert edge * 0.97 < low
            assert "it gripped, so the data only bound it from below" in str(result.verdict)
            (hint,) = result.hints
            assert hint.startswith("mu needs a contact that slips: none in these data; all grip, for which mu >= 0.10")
        else:
            assert profile(result, "mu").interval95[1] == np.inf


def test_a_floor_and_a_guide_that_hold_the_same_direction_bring_a_block_to_rest(rng):
    """A block bounces on a guide along the floor's normal, whose dry friction is a given load, slides and rests.

    Floor and guide then hold one direction, each in its own rounding: what the guide takes is not unique, but bounded.
    """
    arm, bound, g, h = 3.7, 0.5, 9.81, 0.01
    block = zoo.system(
        gap=lambda t, q, p: (p["turn"][0] @ q)[None],
        force=lambda t, q, u, p: -g * p["turn"][0],
        restitution=0.2,
        slip=lambda t, q, u, p: (p["turn"][1:] @ u)[None],
        friction=lambda p: jnp.array([0.3]),
        joint_slip=lambda t, q, u, p: (arm * p["turn"][:1] @ u)[None],
        joint_friction=lambda t, p: jnp.array([bound]),
    )
    turns = np.linalg.qr(rng.normal(size=(8, 3, 3)))[0]

    @jax.jit
    @jax.vmap
    def thrown(turn):
        return dc.simulate(block, {"turn": turn}, 0.01 * turn[0], turn[1] - 0.5 * turn[0], h * np.arange(61))

    run = jax.tree.map(np.asarray, thrown(turns))
    assert np.all(run.status == 0)
    np.testing.assert_allclose(run.u[:, -1], 0.0, atol=1e-12)
    assert np.all(np.abs(run.impulse[:, -1] - h * g) <= h * bound * arm * (1 + 1e-12))
    # Along the floor: all that the impulses of the floor have rubbed off is the speed at the beginning.
    slides = np.linalg.norm(np.einsum("ckj,cnj->cnk", turns[:, 1:], run.u), axis=2)
    rubbed = slides[:, :1] - 0.3 * np.cumsum(run.impulse[:, :, 0], axis=1)[:, :20]
    np.testing.assert_allclose(slides[:, 1:21], rubbed, atol=1e-12)
