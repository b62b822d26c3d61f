"""The native search of `qp.project` against the pure one, and in every place where JAX may call it."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from qp_problems import backwards, optimised

from diffcontact import qp
from diffcontact.qp import native, working_set
from diffcontact.qp.native import layout
from diffcontact.qp.rows.body_rows import BodyRows, dense

pytest.importorskip("numba")
pytestmark = pytest.mark.full


@pytest.fixture(autouse=True)
def _native(monkeypatch):
    monkeypatch.setenv(native.VARIABLE, "native")
    assert native.unavailable() is None


@optimised
@jax.vmap
def pure(*problem):
    return working_set.find_working_set(*problem)


@jax.jit
@jax.vmap
def kernel(*problem):
    return native.find_working_set(*problem)


def _agree(problem, within):
    expected, found = pure(*problem), kernel(*problem)
    np.testing.assert_array_equal(found.status, expected.status)
    size = 1 + np.abs(problem[3]).max(axis=1, keepdims=True)
    assert np.max(np.abs(found.step - expected.step) / size) < within
    return expected, found


def _between_bodies(rng, count, bodies):
    pairs = np.array([rng.choice(bodies, 2, replace=False) for _ in range(count)], np.int32)
    pairs[: count // 3, 1] = -1
    normals = rng.normal(size=(count, 1, 3))
    return BodyRows(jnp.asarray(pairs), jnp.asarray(normals), bodies), rng.normal(size=3 * bodies)


@pytest.mark.parametrize("sides", [0, 1, 2])
def test_a_row_that_is_violated_alone(rng, sides):
    """In half of the problems what it pushes violates others; `sides` normals, 0: dense rows."""
    lanes, count, bodies = 256, 6, 3
    pairs = np.stack([[rng.choice(bodies, 2, replace=False) for _ in range(count)] for _ in range(lanes)])
    pairs[:, : count // 2, 1] = -1
    mass, v = 10 ** rng.uniform(-1, 1, (lanes, 9)), rng.normal(size=(lanes, 9))
    G = BodyRows(jnp.asarray(pairs, jnp.int32), jnp.asarray(rng.normal(size=(lanes, count, max(sides, 1), 3))), bodies)
    whole = jax.vmap(dense)(G)
    rows = whole if sides == 0 else G
    alone = np.arange(count) == rng.integers(0, count, (lanes, 1))
    room = 10 ** rng.uniform(-2, 2, (lanes, count))
    b = np.where(alone, -1.0, room) - jnp.einsum("ncd,nd->nc", whole, v)
    expected, found = _agree((mass, rows, b, v), 1e-13)
    np.testing.assert_array_equal(found.working, expected.working)
    np.testing.assert_allclose(found.multipliers, expected.multipliers, rtol=1e-11, atol=1e-11)
    single = np.all(found.working == alone, axis=1)
    assert 0.3 < np.mean(single) < 0.7
    assert np.all(found.working.sum(axis=1)[~single] >= 1)


@pytest.mark.parametrize("entry", [1e-200, 1e160, np.nan])
def test_a_row_that_is_violated_alone_beyond_all_numbers(entry):
    """Its multiplier, what it pushes, or its square has no finite number: said, as in JAX, and finite."""
    G = jnp.array([[entry, 0.0], [0.0, 1.0]])
    _, found = _agree(tuple(x[None] for x in (jnp.ones(2), G, jnp.array([-1.0, 1.0]), jnp.zeros(2))), 1e-11)
    assert np.all(np.isfinite(found.step))


@pytest.mark.parametrize("count", [3, 40])
@pytest.mark.parametrize("form", ["dense", "sparse", "full mass"])
@pytest.mark.parametrize(("where", "entry"), [("G", np.inf), ("G", -np.inf), ("mass", -np.inf), ("mass", np.nan)])
def test_a_row_or_a_mass_that_is_no_number_is_told(rng, count, form, where, entry):
    """Whether that row looks open, and whether any is violated; the lanes beside it are as ever."""
    lanes, d = 32, 6
    mass, G, v = np.ones((lanes, d)), rng.normal(size=(lanes, count, d)), rng.normal(size=(lanes, d))
    b, wrong = rng.uniform(0.0, 1.0, (lanes, count)), np.arange(lanes) % 2 == 0
    # Half of those lanes have no row that is violated.
    b[::4] += 100.0
    place = (wrong, rng.integers(0, count, 16), rng.integers(0, d, 16)) if where == "G" else (wrong, -1)
    {"G": G, "mass": mass}[where][place] = entry
    rows = jnp.asarray(G)
    if form == "sparse":
        ends = jnp.broadcast_to(jnp.array([0, 1]), (lanes, count, 2))
        rows = BodyRows(ends, jnp.asarray(G.reshape(lanes, count, 2, 3)), 2)
    if form == "full mass":
        mass = np.where(np.eye(d) > 0, mass[:, :, None], 0.0)
    found = jax.jit(jax.vmap(qp.project))(jnp.asarray(mass), rows, jnp.asarray(b), jnp.asarray(v))
    np.testing.assert_array_equal(np.asarray(found.status) != 0, wrong)
    assert np.all(np.isfinite(found.u))


@pytest.mark.parametrize("sparse", [False, True])
def test_rows_that_are_not_read_at_first_are_looked_at_afterwards(sparse):
    """Two rows, violated by 1, push by 4 together, against a third one that is 2 away; twenty are out of reach."""
    low, high = 0.25, np.sqrt(1 - 0.25**2)
    G = np.array([[high, low, 0], [-high, low, 0], [0, -0.8, 0.6], *[[0, 0, -1.0]] * 20])
    b = jnp.array([-1.0, -1.0, 2.0, *[100.0] * 20])
    bodies = np.tile([0, -1], (23, 1))
    rows = qp.BodyRows(jnp.asarray(bodies), jnp.stack([G, 0 * G], axis=1), 1) if sparse else jnp.asarray(G)
    found = qp.project(jnp.ones(3), rows, b, jnp.zeros(3))
    # All three hold: y = 4, and z makes 2 - 0.8 y + 0.6 z zero. Some roundings of numbers up to 16.
    np.testing.assert_allclose(found.u, [0, 4, 2], atol=1e-14)
    assert np.flatnonzero(found.active).tolist() == [0, 1, 2]
    assert found.status == 0


def test_wherever_it_is_called(rng):
    """Eager, jit, vmap over some operands and twice, lax.map, scan, cond, checkpoint: one result."""
    mass, G, b, v = backwards(rng, 12, 6, 4)[0]
    many = jnp.stack([v, v + 0.1, v - 0.1])
    offsets = jnp.stack([b, b + 0.1])
    expected = jnp.stack([qp.project(mass, G, b, x).u for x in many])

    def u(x, b=b):
        return qp.project(mass, G, b, x).u

    def grid(x, offsets):
        return jax.vmap(lambda b: jax.vmap(lambda x: u(x, b))(x))(offsets)

    calls = {
        "jit": lambda: jnp.stack([jax.jit(u)(x) for x in many]),
        "vmap": lambda: jax.vmap(u)(many),
        "twice": lambda: jax.jit(grid)(many, offsets)[0],
        "map": lambda: jax.lax.map(u, many, batch_size=2),
        "scan": lambda: jax.lax.scan(lambda carry, x: (carry, u(x)), 0, many)[1],
        "cond": lambda: jnp.stack([jax.lax.cond(x[0] < 100, u, lambda x: x, x) for x in many]),
        "checkpoint": lambda: jax.vmap(jax.checkpoint(u))(many),
    }
    for name, call in calls.items():
        np.testing.assert_allclose(call(), expected, atol=1e-14, err_msg=name)
    gradient = jax.grad(lambda x: jnp.sum(u(x)))(v)
    np.testing.assert_allclose(jax.grad(jax.checkpoint(lambda x: jnp.sum(u(x))))(v), gradient, atol=1e-14)


def test_what_the_other_platforms_get():
    """Nothing of the kernel: the lowering for a GPU has no call of it."""
    from diffcontact.qp.native import primitive

    mass, G, b, v = jnp.ones(2), jnp.eye(2), jnp.zeros(2), -jnp.ones(2)
    exported = jax.export.export(jax.jit(primitive.find_working_set), platforms=["cuda"])(mass, G, b, v)
    assert "diffcontact_projections" not in exported.mlir_module()


def test_what_cannot_be_compiled_is_found_in_jax(monkeypatch):
    """A program that needs such a handler works without, and says so."""
    from diffcontact.qp.native import library, targets

    def fails(handler):
        raise OSError(f"no room for {handler}")

    monkeypatch.setattr(targets, "_targets", {})
    monkeypatch.setattr(library, "address", fails)
    problem = jnp.ones(2), jnp.eye(2), jnp.zeros(2), -jnp.ones(2)
    message = "no kernel of projections_float64, in JAX instead: OSError: no room for projections_float64"
    with pytest.warns(UserWarning, match=message):
        found = jax.jit(lambda *problem: native.find_working_set(*problem))(*problem)
    assert found.working.all()
    # Sums of ones are exact.
    np.testing.assert_array_equal(found.step, 1.0)


def test_a_choice_that_is_none(monkeypatch):
    monkeypatch.setenv(native.VARIABLE, "fast")
    with pytest.raises(ValueError, match="DIFFCONTACT_KERNEL is 'fast'; expected one of jax, native"):
        qp.project(jnp.ones(1), jnp.ones((1, 1)), jnp.zeros(1), -jnp.ones(1))


def test_numba_waits_until_there_is_something_to_compile():
    script = "import sys, diffcontact; assert not {'numba', 'llvmlite'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True, timeout=120)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("count", "dimension"), [(2, 1), (21, 4), (24, 4), (26, 4), (12, 12), (16, 12)])
def test_what_is_solved_on_the_stack_and_what_beside_it_is_solved_alike(rng, dtype, count, dimension):
    """The sizes lie on both sides of the limit: nothing may be written past it."""
    lanes = 64
    mass, G = 10 ** rng.uniform(-1, 1, (lanes, dimension)), rng.normal(size=(lanes, count, dimension))
    inside, v = rng.normal(size=(lanes, dimension)), 5 * rng.normal(size=(lanes, dimension))
    b = rng.uniform(0, 1, (lanes, count)) - np.einsum("lcd,ld->lc", G, inside)
    problem = tuple(jnp.asarray(x, dtype) for x in (mass, G, b, v))
    expected, found = _agree(problem, 1e-11 if dtype is np.float64 else 1e-4)
    assert np.any(np.asarray(expected.working))
    np.testing.assert_array_equal(found.working, expected.working)


def test_the_limit_of_the_stack_lies_among_the_sizes_tested():
    sizes = [(2, 1), (21, 4), (24, 4), (26, 4), (12, 12), (16, 12)]
    beside = [layout.needed_beside_stack(c, d, d, layout.most_held(c, d), False) for c, d in sizes]
    assert 0 < beside.count(1) < len(sizes)
    # A ball between two walls touches nothing long.
    assert beside[0] == 1
