"""A function in one kernel is the function: its values, derivatives and lanes."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from diffcontact.numerics import one_kernel
from diffcontact.numerics.one_kernel import in_one_kernel

MARK = "xla_cpu_small_call"
PLACES = np.array([[0, 2], [2, 9], [1, -1]])


def mixed(x, y, number):
    """Products of matrices, a factor, sums at places, a branch and a loop; y[0] is not used."""
    A = x[:, None] * x[None] + jnp.diag(2 + y**2)[: x.size, : x.size]
    L = lax.linalg.cholesky(A)
    z = lax.linalg.triangular_solve(L, (A @ A)[:, :1], left_side=True, lower=True)[:, 0]
    taken = jnp.sin(x)[PLACES % x.size]
    summed = jnp.zeros(4).at[PLACES[:, 0]].add(taken.sum(axis=1), mode="drop")
    z = lax.cond(jnp.sum(z) > number, lambda: z * y[-1], lambda: jnp.cos(z))
    z = lax.fori_loop(0, 3, lambda i, z: z + 0.1 * jnp.roll(z, 1) * jnp.sin(z), z)
    return {"sum": jnp.sum(z**2) + jnp.sum(summed**3), "number": number + 1, "z": z}


def given(seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=3), random.normal(size=5), np.asarray(3)


def everything(function):
    """Values, both modes of derivatives, a second derivative and lanes of a function of `given()`."""

    def compute(x, y, number):
        scalar = lambda x, y: function(x, y, number)["sum"]  # noqa: E731
        lanes = jnp.stack([x, x + 0.1, -x])
        pushed = jax.jvp(scalar, (x, y), (jnp.ones_like(x), y))[1]
        batch = jax.vmap(lambda x: jax.value_and_grad(scalar)(x, y))(lanes)
        return function(x, y, number), pushed, jax.grad(scalar, (0, 1))(x, y), jax.hessian(scalar)(x, y), batch

    return jax.jit(compute)


def test_values_derivatives_and_lanes_are_those_of_the_function():
    here = given()
    expected = everything(mixed)(*here)
    found = everything(lambda *args: in_one_kernel(mixed, *args)(*args))(*here)
    # Sums are taken in another order.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-11), found, expected)


@pytest.mark.parametrize(
    ("function", "held"),
    [(lambda x: x @ jnp.sin(x), True), (lambda x: jnp.sort(x) @ x, False), (lambda x: x @ x, True)],
    ids=["a product", "a sort", "a square"],
)
def test_what_a_kernel_can_hold_is_marked(function, held):
    x = np.arange(3.0)
    program = jax.jit(lambda x: (in_one_kernel(function, x)(x), function(x))).lower(x)
    assert (MARK in program.as_text()) is held
    np.testing.assert_allclose(*program.compile()(x), rtol=1e-14)


def test_what_a_kernel_is_said_to_hold_it_holds():
    """XLA ends the process where it does not know an operation: each is in a kernel once, in all kinds of numbers."""
    unary = "abs neg sign sqrt rsqrt cbrt exp expm1 log log1p sin cos tan tanh floor ceil round logistic erf is_finite"
    numbers = jnp.float32, jnp.float64

    def every(x, n, b):
        found = [getattr(lax, name)(x) for name in unary.split()]
        found += [jnp.sinh(x), jnp.cosh(x), jnp.arcsin(x / 4), jnp.arccos(x / 4), jnp.square(x), lax.atan2(x, x + 1)]
        found += [x**1.5, x**3, x % 2, lax.rem(x, x + 1), jnp.clip(x, 0.5, 2.0), jnp.cumsum(x), lax.cummax(x)]
        found += [x[::-1], jnp.pad(x, 2), jnp.roll(x, n[0]), x[n % 3], lax.dynamic_slice(x, (n[1],), (2,))]
        found += [jnp.argmax(x), jnp.argmin(x), jnp.prod(x), jnp.max(x), jnp.any(b), jnp.all(b), jnp.tile(x, (3, 1)).T]
        found += [n << 1, n >> 1, lax.shift_right_logical(n, 1), lax.clz(n), lax.population_count(n), n // 2, n ^ 1, ~b]
        found += [b & (x > 1), b | (x > 1), b ^ (x > 1), jnp.where(b, x, -x), x.astype(int), b.astype(x.dtype)]
        found += [lax.bitcast_convert_type(x, jnp.int32 if x.dtype == jnp.float32 else jnp.int64), jnp.eye(3), n * 2]
        found += [lax.switch(n[0], [lambda: x, lambda: 2 * x, lambda: -x]), jnp.concatenate([x, x]), x.at[1:].set(0.0)]
        return found

    for dtype in numbers:
        given = np.array([0.3, 1.2, 2.7], dtype), np.array([1, 0, 2]), np.array([True, False, True])
        program = jax.jit(lambda *args: (every(*args), in_one_kernel(every, *args)(*args))).lower(*given)
        assert MARK in program.as_text()
        for expected, found in zip(*program.compile()(*given), strict=True):
            np.testing.assert_allclose(found, expected, rtol=16 * jnp.finfo(dtype).eps)


def test_large_arrays_keep_kernels_of_their_own():
    x = np.ones(100_000)
    program = jax.jit(lambda x: in_one_kernel(lambda x: jnp.sum(jnp.sin(x)), x)(x)).lower(x)
    assert MARK not in program.as_text()


def test_triangles_and_factors_in_loops():
    random = np.random.default_rng(0)
    A, b = random.normal(size=(5, 5)) + 4 * np.eye(5), random.normal(size=(5, 3))
    cases = [(left, lower, turned, unit) for left in (0, 1) for lower in (0, 1) for turned in (0, 1) for unit in (0, 1)]

    @jax.jit
    def solved(A, b):
        found = []
        for left, lower, turned, unit in cases:
            names = "left_side", "lower", "transpose_a", "unit_diagonal"
            options = dict(zip(names, map(bool, (left, lower, turned, unit)), strict=True))
            right = b if left else b.T
            ours = one_kernel.triangular_solve(A, right, conjugate_a=False, **options)
            found.append((ours, lax.linalg.triangular_solve(A, right, conjugate_a=False, **options)))
        S = A @ A.T
        factors = one_kernel.lu(A), tuple(lax.linalg.lu(A))
        return found, (one_kernel.cholesky(S), lax.linalg.cholesky(S)), factors

    for ours, other in jax.tree.leaves(solved(A, b), is_leaf=lambda x: isinstance(x, tuple) and len(x) == 2):
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12), ours, other)


SCATTERS = {
    "rows added": lambda x: x.at[PLACES].add(jnp.ones((3, 2, 3))),
    "rows dropped": lambda x: x.at[PLACES].set(jnp.ones((3, 2, 3)), mode="drop"),
    "columns": lambda x: x.at[:, PLACES[:, 0] % 3].set(2.0),
    "entries": lambda x: x.at[PLACES[:2, 0], PLACES[:2, 1] % 3].add(1.5),
    "a slope of what was taken": jax.grad(lambda x: jnp.sum(x[PLACES % 4] ** 2)),
    "a lane each": lambda x: jax.vmap(lambda x, k: x.at[k].add(3.0))(x, jnp.arange(4) % 3),
    "all of it": lambda x: x.at[...].set(x**2),
    "nothing": lambda x: x.at[PLACES[:0]].add(1.0),
    "clipped": lambda x: x.at[PLACES[:, 0] + 3].add(1.0, mode="clip"),
}


def test_scattered_sums_in_loops():
    x = np.random.default_rng(1).normal(size=(4, 3))
    both = jax.jit(lambda x: {name: (f(x), in_one_kernel(f, x)(x)) for name, f in SCATTERS.items()})
    for name, (expected, found) in both(x).items():
        np.testing.assert_allclose(found, expected, rtol=1e-14, err_msg=name)


def test_products_in_loops():
    random = np.random.default_rng(2)
    sums = ["ij,jk->ik", "bij,bjk->bik", "ijk,k->ij", "i,i->", "ij,kl->ijkl", "ijab,kab->ijk"]
    sizes = {"i": 3, "j": 4, "k": 2, "l": 5, "b": 2, "a": 3}
    given = {x: [random.normal(size=[sizes[i] for i in y]) for y in x.split("->")[0].split(",")] for x in sums}
    products = {subscripts: partial(jnp.einsum, subscripts) for subscripts in sums}
    found = jax.jit(lambda given: {x: in_one_kernel(products[x], *pair)(*pair) for x, pair in given.items()})(given)
    for subscripts, (a, b) in given.items():
        np.testing.assert_allclose(found[subscripts], np.einsum(subscripts, a, b), rtol=1e-13, err_msg=subscripts)
