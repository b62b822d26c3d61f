"""The native search of `qp.project` against the pure one, and in every place where JAX may call it."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from qp_problems import backwards, optimised

from diffcontact import qp
from diffcontact.qp import kernel as native
from diffcontact.qp import working_set
from diffcontact.qp.kernel import layout
from diffcontact.qp.rows import BodyRows

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
    from diffcontact.qp.kernel import primitive

    mass, G, b, v = jnp.ones(2), jnp.eye(2), jnp.zeros(2), -jnp.ones(2)
    exported = jax.export.export(jax.jit(primitive.find_working_set), platforms=["cuda"])(mass, G, b, v)
    assert "diffcontact_projections" not in exported.mlir_module()


def test_what_cannot_be_compiled_is_found_in_jax(monkeypatch):
    """A program that needs such a handler works without, and says so."""
    from diffcontact.qp.kernel import library

    def fails(handler):
        raise OSError(f"no room for {handler}")

    monkeypatch.setattr(library, "_targets", {})
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
@pytest.mark.parametrize(("count", "dimension"), [(2, 1), (21, 4), (37, 4), (38, 4), (16, 12), (20, 12)])
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
    sizes = [(2, 1), (21, 4), (37, 4), (38, 4), (16, 12), (20, 12)]
    beside = [layout.needed_beside_stack(c, d, d) for c, d in sizes]
    assert 0 < beside.count(1) < len(sizes)
    # A ball between two walls touches nothing long.
    assert beside[0] == 1
