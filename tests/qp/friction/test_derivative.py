"""The derivative at the frozen modes: both modes of differentiation, differences, ties."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems.friction import random_bodies, random_problems

from diffcontact import qp
from diffcontact.status import Status


def flat(*problem):
    found = qp.coulomb(*problem)
    return jnp.concatenate([found.u, found.normal, jnp.ravel(found.tangential)])


@jax.jit
def both_modes(problems, tangents, cotangents):
    def one(problem, tangent, cotangent):
        _, forward = jax.jvp(flat, problem, tangent)
        backward = jax.vjp(flat, *problem)[1](cotangent)
        return forward, sum(jnp.sum(x * y) for x, y in zip(backward, tangent, strict=True)), backward

    return jax.lax.map(lambda args: one(*args), (problems, tangents, cotangents), batch_size=16)


@jax.jit
def values(problems):
    return jax.lax.map(lambda problem: (flat(*problem), qp.coulomb(*problem).status), problems, batch_size=16)


def directions(rng, problems):
    """Random tangents that leave alone what is switched off."""
    mass, normals, _, b, *_ = problems
    on = np.isfinite(b)
    moved = [rng.normal(size=x.shape) for x in problems]
    present = (np.abs(normals).sum(1) > 0)[:, None, :]
    return (
        0.1 * moved[0] * mass,
        moved[1] * on[:, :, None] * present,
        moved[2] * on[:, :, None, None] * present[:, :, None],
        moved[3] * on,
        moved[4] * on[:, :, None],
        0.1 * moved[5] * on,
        moved[6] / np.sqrt(mass),
    )


@pytest.mark.parametrize("k", [1, 2])
@pytest.mark.parametrize("make", [random_problems, random_bodies])
def test_both_modes_agree(make, k, rng):
    """Redundant contacts included: finite, and one is the transpose of the other."""
    problems = make(21, 64, k)
    tangents = directions(rng, problems)
    forward = np.asarray(both_modes(problems, tangents, np.zeros((64, 36 + 12 * (1 + k))))[0])
    cotangents = rng.normal(size=forward.shape) / (1 + np.abs(forward))
    forward, products, backward = both_modes(problems, tangents, cotangents)
    assert all(np.all(np.isfinite(x)) for x in (forward, *backward))
    terms = np.abs(cotangents * forward).sum(1)
    sizes = sum(np.abs(x * y).reshape(64, -1).sum(1) for x, y in zip(backward, tangents, strict=True))
    assert np.max(np.abs((cotangents * forward).sum(1) - products) / (terms + sizes)) < 1e-10


@pytest.mark.parametrize("k", [1, 2])
def test_against_differences(k, rng):
    """Where contacts are independent and no mode changes between the two sides."""
    everything = random_problems(23, 64, k)
    independent = np.arange(64) % 10 != 0
    problems = tuple(x[independent] for x in everything)
    tangents = directions(rng, problems)
    step = 1e-6
    sides = [values(tuple(x + way * step * y for x, y in zip(problems, tangents, strict=True))) for way in (-1, 1)]
    forward = np.asarray(both_modes(problems, tangents, np.zeros_like(sides[0][0]))[0])
    middle = values(problems)

    def modes(side, friction):
        P, B = np.asarray(side[0][:, 36:48]), np.asarray(side[0][:, 48:]).reshape(-1, 12, k)
        return np.stack([P > 0, np.linalg.norm(B, axis=2) >= (1 - 1e-9) * friction * P])

    found = [modes(side, problems[5] + way * step * tangents[5]) for side, way in zip(sides, (-1, 1), strict=True)]
    found.append(modes(middle, problems[5]))
    same = np.all((found[0] == found[1]) & (found[0] == found[2]), axis=(0, 2))
    assert same.mean() > 0.8
    assert np.all(np.asarray(middle[1]) == Status.OK)
    differences = (np.asarray(sides[1][0]) - np.asarray(sides[0][0])) / (2 * step)
    # A difference over 2e-6 of values with twelve digits or more.
    error = np.abs(forward - differences).max(1) / (1 + np.abs(differences).max(1))
    assert np.max(error[same]) < 1e-6


def test_a_loop_has_the_second_derivatives_of_its_parts(rng):
    """Contacts that a loop's problems share, as `dc.impact` and every step do."""
    mass, normals, tangents = np.array([1.0, 1.3, 0.8]), np.eye(3)[2:], np.eye(3)[None, :2]
    tangents = tangents + 0.1 * rng.normal(size=tangents.shape)
    problem = mass, normals, tangents, np.zeros(1), np.zeros((1, 2)), np.array([0.2]), np.array([2.0, 1.0, -1.0])
    moved, shares = tuple(rng.normal(size=x.shape) for x in problem), jnp.array([1.0, 0.5])

    def curved(share, *problem):
        return jnp.sum(jnp.sin(flat(*problem[:-1], share * problem[-1])))

    def looped(*problem):
        return jnp.sum(jax.lax.map(lambda share: curved(share, *problem), shares))

    def apart(*problem):
        return curved(shares[0], *problem) + curved(shares[1], *problem)

    every = tuple(range(7))
    found, expected = jax.jit(lambda *at: [jax.jvp(jax.grad(loss, every), at, moved)[1] for loss in (looped, apart)])(
        *problem
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12 * (1 + np.abs(other).max()))


def test_finite_where_there_is_no_derivative():
    """At rest on a floor, at the bound, without friction, where no solution is, and with bad input."""
    floor, along = jnp.array([[0.0, 1.0]]), jnp.array([[[1.0, 0.0]]])
    jacobian = jax.jit(jax.jacrev(flat, argnums=tuple(range(7))))
    for v, mu, b in [
        ([0.0, 0.0], 0.5, 0.0),
        ([1.0, -2.0], 0.5, 0.0),
        ([0.0, -1.0], 0.0, 0.0),
        ([0.0, -1.0], -1.0, 0.0),
    ]:
        found = jacobian(jnp.ones(2), floor, along, jnp.array([b]), jnp.zeros((1, 1)), jnp.array([mu]), jnp.array(v))
        assert all(np.all(np.isfinite(x)) for x in found)
    one = jnp.ones((1, 1))
    found = jacobian(jnp.ones(1), one, one[None], -jnp.ones(1), 5 * one, 2 * jnp.ones(1), jnp.zeros(1))
    assert all(np.all(np.isfinite(x)) for x in found)


def test_a_box_that_lies_flat_stays_where_it_is_pushed_a_little():
    corners = np.array([[x, y, -0.5] for x in (-1.0, 1.0) for y in (-1.0, 1.0)])
    rows = np.array([[[*e, *np.cross(lever, e)] for e in np.eye(3)] for lever in corners])
    mass = np.array([4.0, 4.0, 4.0, 1.0, 2.0, 3.0])

    def after(v):
        return qp.coulomb(mass, rows[:, 2], rows[:, :2], jnp.zeros(4), jnp.zeros((4, 2)), 0.9 * jnp.ones(4), v).u

    rests = jnp.array([0.1, 0.0, -1.0, 0.0, 0.0, 0.1])
    np.testing.assert_allclose(jax.jit(jax.jacfwd(after))(rests), 0, atol=1e-13)
    # Sliding, u_x = v_x - mu |v_z|: a load more is friction more.
    slides = jnp.array([3.0, 0.0, -1.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(jax.jit(jax.jacfwd(after))(slides)[0], [1, 0, 0.9, 0, 0, 0], atol=1e-12)
