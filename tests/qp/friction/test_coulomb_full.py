"""Contacts with friction by the thousand, in single precision, and second derivatives."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from friction.test_coulomb import SQUARE
from friction.test_coulomb import _problem as problem_of
from friction.test_coulomb import _residual as residual_of
from friction.test_coulomb import _solved as flat
from friction_problems import random_problems
from qp_problems import moved, run

from diffcontact import qp
from diffcontact.status import Status

pytestmark = pytest.mark.full
many = jax.jit(lambda *problems: jax.lax.map(lambda problem: qp.coulomb(*problem), problems, batch_size=16))


@pytest.mark.parametrize("k", [1, 2])
def test_ten_thousand_random_problems_are_solved(k):
    problems = random_problems(1, 5000, k)
    found = many(*problems)
    solved = np.asarray(found.status) == Status.OK
    assert solved.mean() >= 0.999
    found = jax.tree.map(np.asarray, found)
    for i in np.flatnonzero(solved):
        assert residual_of(tuple(x[i] for x in problems), jax.tree.map(lambda x, i=i: x[i], found)) < 1e-10


def _stack(rng, boxes, tilt):
    """Boxes on each other on a slope, four contacts a face: a step under gravity, and some noise where they stand."""
    rows, freedom, heavy = np.zeros((4 * boxes, 3, 6 * boxes)), np.tile([1, 1, 1, 1 / 6, 1 / 6, 1 / 6], boxes), []
    for i in range(boxes):
        heavy.append(10 ** rng.uniform(-0.5, 0.5))
        for j, corner in enumerate(SQUARE / 2):
            for body, sign in ((i, 1), (i - 1, -1)):
                arm = np.array([*corner, -sign / 2]) + 0.05 * rng.normal(size=3)
                turned = np.concatenate([np.eye(3), np.cross(arm, np.eye(3))], axis=1)[[2, 0, 1]]
                if body >= 0:
                    rows[4 * i + j, :, 6 * body : 6 * body + 6] += sign * turned
    v = np.tile([0.1 * np.sin(tilt), 0, -0.1 * np.cos(tilt), 0, 0, 0], boxes)
    return np.repeat(heavy, 6) * freedom, rows, v


def test_many_contacts(rng):
    """More contacts than the path is followed for: stacks that stand, slip and tip, rows that depend on each other."""
    c, d, cases = 20, 36, []
    for tilt in (0.0, 0.3, 0.8):
        for mu in (0.0, 0.1, 0.5, 1.2):
            mass, rows, v = _stack(rng, c // 4, tilt)
            problem = problem_of(mass, rows[:, 0], rows[:, 1:], mu, v, contacts=c)
            cases.append(problem)
    for most in (0.5, 1.0, 1.5) * 4:
        N, S, u = rng.normal(size=(c, d)), rng.normal(size=(c, 2, d)), rng.normal(size=d)
        room = rng.exponential(size=c) * (rng.uniform(size=c) < 0.7)
        friction, v = rng.uniform(0, most, c) * (rng.uniform(size=c) < 0.8), 3 * rng.normal(size=d)
        # With u contacts are at rest or open: there is a solution.
        cases.append(problem_of(np.ones(d), N, S, friction, v, room - N @ u, -S @ u, contacts=c))
    found = run(lambda rows: many(*rows), {str(i): (problem,) for i, problem in enumerate(cases)})
    solved = [i for i in range(len(cases)) if found[str(i)].status == Status.OK]
    assert len(solved) >= 0.95 * len(cases)
    for i in solved:
        assert residual_of(cases[i], found[str(i)]) < 1e-10, i


def test_one_contact_is_always_solved(rng):
    """Any body that is struck anywhere: a root of the last equation must not be lost to rounding (3 in 10^5 were)."""
    count = 200_000
    N, S = (np.stack([x, y, z], axis=1) for x, y, z in rng.normal(0, 1, (2, 3, count)))
    v, mass, mu = rng.normal(0, 1, (count, 3)), 10 ** rng.uniform(-1, 1, (count, 3)), rng.uniform(0, 2, count)
    still = jnp.zeros((count, 1))
    found = jax.jit(jax.vmap(qp.coulomb))(mass, N[:, None], S[:, None, None], still, still[..., None], mu[:, None], v)
    told = np.asarray(found.status) != Status.OK
    # Painleve: sliding presses the contact together at least as much as its load opens it.
    W_NN, W_TN = np.sum(N * N / mass, axis=1), np.abs(np.sum(N * S / mass, axis=1))
    assert not np.any(told & (mu * W_TN < W_NN))


def test_in_single_precision():
    """Contacts with one direction; walls far away and walls of a slot among them."""
    h, g, mu = 0.01, 9.81, 0.3
    rows = {f"random {i}": (one,) for i, one in enumerate(zip(*random_problems(5, 48, 1, contacts=3), strict=True))}
    # A disc of 1 kg, r = 0.1 m, that slips on a floor, with sides 0.9 m away: at 10 ms these are at 90 m/s.
    normals = np.array([[1, 0, 0], [0, 1, 0], [-1, 0, 0]])
    sides = np.array([[[0, -1, 0.1]], [[1, 0, 0.1]], [[0, 1, 0.1]]])
    slips = (0.09, 0.1, 0.2, 1.0)
    for slip in slips:
        b = [0.9 / h, 0, 0.9 / h]
        rows[f"disc {slip}"] = (problem_of([1, 1, 0.005], normals, sides, mu, [slip, -g * h, 0], b, contacts=3, k=1),)
    for i in range(8):
        way, across = np.array([[np.cos(i), np.sin(i)], [-np.sin(i), np.cos(i)]])
        problem = problem_of(
            np.ones(2), [across, -across], [[way], [way]], [0.5, 0.3], 3 * way - 2 * across, contacts=3, k=1
        )
        rows[f"slot {i}"] = (problem,)
    one = jax.jit(lambda given: jax.lax.map(lambda problem: qp.coulomb(*problem), given, batch_size=15))
    found = run(one, rows, np.float32)
    solved = [name for name in rows if found[name].status == Status.OK]
    assert len(solved) > 0.97 * len(rows)
    for name in solved:
        assert found[name].u.dtype == np.float32
        # Two thirds of the digits of single precision, and what a unit of them is among reactions.
        single = tuple(x.astype(np.float32).astype(float) for x in rows[name][0])
        assert residual_of(single, found[name]) < 1e-4, name
    # To the rounding of the fastest contact.
    atol = np.finfo(np.float32).eps * 0.9 / h
    for slip in slips:
        hit = found[f"disc {slip}"]
        assert hit.status == Status.OK
        # 1 / m + r^2 / I = 3 of what friction pushes.
        np.testing.assert_allclose(sides[1, 0] @ hit.u[:3], slip - 3 * mu * g * h, atol=atol)
        np.testing.assert_allclose(hit.tangential[1], -mu * g * h, atol=atol)
    for i in range(8):
        # A wall that the block is not pressed against has no share.
        np.testing.assert_allclose(found[f"slot {i}"].normal[:2], [2, 0], atol=1e-4)


def test_second_derivatives(rng):
    """By differences of the gradient, in a loop over problems that share contacts, as `dc.impact` and every step do."""
    tangents = np.eye(3)[None, :2] + 0.1 * rng.normal(size=(1, 2, 3))
    mass, still = np.array([1.0, 1.3, 0.8]), np.zeros((1, 2))
    problem = mass, np.eye(3)[2:], tangents, np.zeros(1), still, np.array([0.2]), np.array([2.0, 1.0, -1.0])
    along = tuple(rng.normal(size=x.shape) for x in problem)

    def looped(problem):
        def curved(share):
            return jnp.sum(jnp.sin(flat((*problem[:-1], share * problem[-1]))[0]))

        return jnp.sum(jax.lax.map(curved, np.array([1.0, 0.5])))

    second = jax.jit(lambda problem: jax.jvp(jax.grad(looped), (problem,), (along,)))
    step = 1e-5
    (_, exact), (up, _), (down, _) = (second(moved(problem, along, s)) for s in (0.0, step, -step))
    for one, high, low in zip(exact, up, down, strict=True):
        difference = (np.asarray(high) - np.asarray(low)) / (2 * step)
        np.testing.assert_allclose(one, difference, atol=1e-6 * (1 + np.abs(difference).max()))
