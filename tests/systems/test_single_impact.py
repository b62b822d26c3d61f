"""One impact by what it has to keep: momentum, the ratio of the velocities, Coulomb's cone."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc


def struck(of, params, before, **options):
    """(n, d) velocities after impacts of rows of params and velocities, lanes of one program."""
    system = dc.systems.single_impact(of, **options)

    def one(params, before):
        hit = dc.impact(system, params, 1.0, jnp.zeros_like(before), before)
        return hit.u + hit.jump, hit.status

    after, status = map(np.asarray, jax.jit(jax.vmap(one))(params, before))
    assert not np.any(status)
    return after


def test_carts_keep_their_momentum_and_part_by_their_restitution(rng):
    e, r = rng.uniform(0.1, 1.0, 20), rng.uniform(0.5, 2.0, 20)
    before = np.stack([rng.uniform(1.0, 2.0, 20), rng.uniform(-1.0, 0.9, 20)], axis=1)
    after = struck("carts", {"restitution": e, "mass_ratio": r}, before)
    np.testing.assert_allclose(r * after[:, 0] + after[:, 1], r * before[:, 0] + before[:, 1])
    np.testing.assert_allclose(after[:, 1] - after[:, 0], e * (before[:, 0] - before[:, 1]))


def test_a_body_is_struck_within_coulombs_cone(rng):
    e, mu, levers = rng.uniform(0.0, 1.0, 40), rng.uniform(0.0, 0.6, 40), rng.uniform(-1.0, 1.0, (40, 2))
    before = np.stack([rng.normal(size=40), -3.0 - rng.random(40), 0.3 * rng.normal(size=40)], axis=1)
    after = struck("body", {"restitution": e, "friction": mu, "levers": levers}, before)
    tangential, normal, spin = (after - before).T
    # The change of spin is the moment of the impulse, in units of the radius of gyration.
    np.testing.assert_allclose(spin, levers[:, 0] * normal + levers[:, 1] * tangential, atol=1e-12)
    assert np.all(np.abs(tangential) <= mu * normal + 1e-12)
    slip = after[:, 0] + levers[:, 1] * after[:, 2]
    grips = np.abs(tangential) < (1 - 1e-9) * mu * normal
    assert 5 < np.sum(grips) < 35
    assert np.all(np.abs(slip[grips]) < 1e-12)
    assert np.all(after[:, 1] + levers[:, 0] * after[:, 2] >= -1e-12)


def test_what_is_struck_is_one_of_three():
    with pytest.raises(ValueError, match=r"single_impact\(of='cat'\): expected one of 'ball', 'carts', 'body'"):
        dc.systems.single_impact("cat")
