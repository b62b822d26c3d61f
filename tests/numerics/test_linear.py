"""Small dense systems: what is solved, its derivatives, and batches that LAPACK gets in parts."""

import subprocess
import sys
from contextlib import contextmanager
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from diffcontact.numerics import linear

# name -> (what is solved, by A (n, n) that is regular and b, and what A x of it should be)
SYSTEMS = {
    "lu": (linear.solve, lambda A: A),
    "cholesky": (lambda A, b: linear.solve_cholesky(linear.cholesky(A @ A.T), b), lambda A: A @ A.T),
    "positive": (lambda A, b: linear.solve_positive(A @ A.T, b), lambda A: A @ A.T),
    "lower": (linear.solve_lower, jnp.tril),
    "lower, transposed": (lambda A, b: linear.solve_lower(A, b, transposed=True), lambda A: jnp.tril(A).T),
}


# From what work on a batch goes to LAPACK in parts: of seven lanes, three or four at a time with a rest, or one by one.
PARTS = {"whole": None, "written out": 500, "in a loop": 130}


@contextmanager
def _in_parts(length, panel=None):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(linear, "side_by_side", lambda: SimpleNamespace(factored=length, panel=panel))
        # What was traced with the other length is another program.
        jax.clear_caches()
        yield
    jax.clear_caches()


@pytest.fixture(params=PARTS, scope="module")
def parts(request):
    """Batches as one call of LAPACK, in some parts that are written out, or in a loop over many."""
    with _in_parts(PARTS[request.param]):
        yield request.param


@pytest.fixture
def looped():
    with _in_parts(PARTS["in a loop"]):
        yield


@pytest.mark.parametrize("size", [1, 3])
@pytest.mark.parametrize("columns", [(), (3,)])
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.full
def test_small_systems(name, columns, size, rng):
    solved(name, columns, size, rng)


@pytest.mark.parametrize("name", ["lu", "positive", "lower, transposed"])
def test_lanes_in_a_loop_have_derivatives(name, looped, rng):
    """Of three columns: what each kind of system does at least."""
    solved(name, (3,), 5, rng, [(0, 0)])


@pytest.mark.full
@pytest.mark.parametrize("columns", [(), (3,)])
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_solution_and_its_derivatives(name, columns, parts, rng):
    solved(name, columns, 5, rng)


def solved(name, columns, size, rng, shared=((0, 0), (None, 0), (0, None))):
    """A x = b, A dx = db - dA x; reverse mode is the transpose; lanes that share A or b are lanes like others."""
    solve, matrix = SYSTEMS[name]
    A, dA = rng.normal(size=(2, 7, size, size)) + np.array([4.0, 0.0])[:, None, None, None] * np.eye(size)
    b, db, back = rng.normal(size=(3, 7, size, *columns))

    def one(A, b, dA, db, back):
        x, dx = jax.jvp(solve, (A, b), (dA, db))
        _, dx_twice = jax.jvp(lambda A, b: jax.jvp(solve, (A, b), (dA, db))[1], (A, b), (dA, db))
        pulled = jax.vjp(solve, A, b)[1](back)
        M, dM = jax.jvp(matrix, (A,), (dA,))
        ddM = jax.jvp(lambda A: jax.jvp(matrix, (A,), (dA,))[1], (A,), (dA,))[1]
        products = jnp.sum(pulled[0] * dA) + jnp.sum(pulled[1] * db) - jnp.sum(back * dx)
        return M @ x - b, M @ dx + dM @ x - db, M @ dx_twice + 2 * dM @ dx + ddM @ x, products

    # Rounding of systems whose condition is below 100.
    tolerance = 1e-11

    @jax.jit
    def missed(lanes, back):
        """By each kind of sharing, and by lanes of lanes, of which the first are those of the plain ones, too."""
        by_sharing = []
        for axes in shared:
            args = [x if axis == 0 else x[0] for x, axis in zip(lanes, axes * 2, strict=True)]
            by_sharing.append(jax.vmap(one, (*axes * 2, 0))(*args, back))
        A, b = lanes[:2]
        twice = jax.vmap(jax.vmap(solve))(jnp.stack([A, A + 1]), jnp.stack([b, b]))
        return by_sharing, twice[1] - jax.vmap(solve)(A + 1, b)

    for each in jax.tree.leaves(missed((A, b, dA, db), back)):
        assert np.max(np.abs(each)) < tolerance


def test_matrices_of_middle_size_in_parts(rng):
    """Panels in turns, and halves of them, of rows that have to change their places; some columns and many."""
    size, many = 40, 35
    A = rng.normal(size=(3, size, size)) / np.sqrt(size) + 4 * np.eye(size)[rng.permutation(size)]
    b, few = rng.normal(size=(3, size, many)), rng.normal(size=(3, size))

    def missed(A, b, few):
        positive, lower, factored = A @ A.T, jnp.tril(A) + 4 * jnp.eye(size), linear.LU.of(A)
        return (
            [A @ factored.solve(right) - right for right in (b, few)],
            positive @ linear.solve_positive(positive, b) - b,
            lower.T @ linear.solve_lower(lower, b, transposed=True) - b,
            factored.sign() - jnp.linalg.slogdet(A)[0],
        )

    with _in_parts(None, panel=80):
        assert "scan" in str(jax.make_jaxpr(linear.LU.of)(A[0]))
        left = jax.jit(jax.vmap(missed))(A, b, few)
    # Rounding of systems whose condition is below 100.
    assert max(np.max(np.abs(each)) for each in jax.tree.leaves(left)) < 1e-11


THEIRS = SimpleNamespace(
    solve=jnp.linalg.solve,
    cholesky=jnp.linalg.cholesky,
    solve_positive=jnp.linalg.solve,
    solve_cholesky=lambda L, b: jax.scipy.linalg.cho_solve((L, True), b),
    solve_lower=lambda L, b, transposed: jax.scipy.linalg.solve_triangular(L, b, lower=True, trans=int(transposed)),
)


@pytest.mark.full
def test_second_derivatives_of_a_loop(rng):
    """A loop's derivative of either mode takes rules of derivatives apart, and must not lose them."""

    def end(tools, A, c):
        def body(x, k):
            M = A @ A.T + jnp.eye(4) * (1 + x[0] ** 2)
            y = tools.solve_cholesky(tools.cholesky(M), x) + tools.solve(M + A, c * k) + tools.solve_positive(M, c)
            return jnp.sin(y + tools.solve_lower(A + 5 * jnp.eye(4), x, True)), None

        return jnp.sum(jax.lax.scan(jax.checkpoint(body), c, jnp.arange(3.0))[0])

    A, c = rng.normal(size=(5, 4, 4)), rng.normal(size=(5, 4))
    ours, theirs = (
        jax.jit(jax.vmap(jax.hessian(lambda A, c, tools=tools: end(tools, A, c), (0, 1))))(A, c)
        for tools in (linear, THEIRS)
    )
    for found, true in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
        assert np.max(np.abs(found - true)) < 1e-12 * np.max(np.abs(true))


def test_parts_are_parts(parts, rng):
    """Many parts are a loop, some are written out; the tests above are of all."""
    text = jax.jit(jax.vmap(linear.cholesky)).lower(rng.normal(size=(7, 5, 5))).as_text()
    assert ("while" in text) == (parts == "in a loop")
    assert text.count("@lapack_dpotrf_ffi") == {"whole": 1, "written out": 3, "in a loop": 1}[parts]


def test_the_sign_is_the_determinants(looped, rng):
    A = rng.normal(size=(40, 4, 4))
    assert np.array_equal(jax.jit(jax.vmap(lambda A: linear.LU.of(A).sign()))(A), np.sign(np.linalg.det(A)))


def test_singular_values(looped, rng):
    A = rng.normal(size=(5, 3, 4))
    U, s, Vt = map(np.asarray, jax.jit(jax.vmap(linear.svd))(A))
    assert U.shape == (5, 3, 3)
    assert Vt.shape == (5, 4, 4)
    assert np.max(np.abs((U * s[:, None]) @ Vt[:, :3] - A)) < 1e-13


AT_ONCE = """
import jax, numpy as np
from diffcontact.numerics import linear
def one(A):
    return sum(linear.solve_positive(A[k] @ A[k].T, A[k - 1]) for k in range(8))
A = np.random.default_rng(0).normal(size=(4, 16, 8, 36, 36)) + 10 * np.eye(36)
for _ in range(5):
    jax.block_until_ready(jax.jit(lambda A: jax.lax.map(jax.vmap(one), A))(A))
"""


@pytest.mark.full
def test_eight_batches_at_once_do_not_wait_for_each_other():
    """jaxlib 0.10 blocks its threads so on a machine with two (`jnp.linalg.solve` in the place of ours: for ever)."""
    subprocess.run([sys.executable, "-c", AT_ONCE], check=True, timeout=120)
