"""Loops over small arrays as one kernel: what is written out gives what a library does, and nothing is left outside."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import diffcontact as dc
from diffcontact import compilation, stepping
from diffcontact.kernels import may_be_asked_for, with_kernels

pytestmark = pytest.mark.skipif(not may_be_asked_for(), reason="this version of JAX is not asked for kernels")


def compiled(function, *operands):
    """What XLA makes of the function with kernels."""
    return jax.jit(with_kernels(function)).lower(*operands, always=True).compile()


def asks(program) -> bool:
    """XLA makes kernels of the smallest loops by itself; those that we ask for are told by what forbids inlining."""
    return any(
        'xla_cpu_small_call="true"' in line and 'inlineable="false"' in line for line in program.as_text().split("\n")
    )


def repeated(function):
    """A loop that runs the function twice."""
    return lambda *operands: lax.scan(lambda n, _: (n + 1, function(*operands)), 0, None, length=2)[1]


rng = np.random.default_rng(0)
A, B = rng.normal(size=(2, 3, 4, 4))
POSITIVE = A @ A.swapaxes(1, 2) + np.eye(4)
SOLVES = [(left, lower, turned, unit) for left in (0, 1) for lower in (0, 1) for turned in (0, 1) for unit in (0, 1)]


def solve(left, lower, turned, unit):
    def triangular(a, b):
        return lax.linalg.triangular_solve(
            a, b, left_side=bool(left), lower=bool(lower), transpose_a=bool(turned), unit_diagonal=bool(unit)
        )

    return triangular


CASES = {
    "matrix times matrix": (lambda a, b: a[0] @ b[0], A, B),
    "matrix times vector": (lambda a, b: a[0] @ b[0, 0], A, B),
    "two axes summed, two kept": (lambda a, b: jnp.einsum("kij,lij->kl", a, b), A, B),
    "batches of products": (lambda a, b: a @ b, A, B),
    "numbers of two kinds": (lambda a, b: (a[0] > 0) @ (b[0] > 0), A, B),
    "cholesky": (jnp.linalg.cholesky, POSITIVE),
    "cholesky of what has none": (jnp.linalg.cholesky, POSITIVE * np.sign([1.0, 1.0, -1.0, 1.0])[:, None]),
    "lu": (lax.linalg.lu, A),
    "lu of what is singular": (lambda a: lax.linalg.lu(a * jnp.array([1.0, 0.0, 1.0, 1.0])[None, None]), A),
    "lu of what is not square": (lambda a: lax.linalg.lu(a[:, :3]), A),
    "solve": (jnp.linalg.solve, A, B),
    "solve with a positive definite matrix": (
        lambda a, b: jax.scipy.linalg.solve(a[0], b[0], assume_a="pos"),
        POSITIVE,
        B,
    ),
    # Rounded they are zeros with both signs, and equal ones.
    "the largest": (lambda a: lax.top_k(jnp.round(a), 3), A),
    "the largest along rows": (lambda a: lax.top_k(jnp.where(a[0] > 1, jnp.nan, a[0]).T, 2), A),
    "put": (lambda a: a[0].at[jnp.array([2, 0]), jnp.array([1, 3])].set(7.0), A),
    "put the same place twice, add": (lambda a: a[0].at[jnp.array([2, 2])].add(jnp.arange(4, dtype=a.dtype)[None]), A),
    "put outside": (lambda a: a[0].at[jnp.array([9, 1])].multiply(2.0), A),
    "put outside, moved in": (lambda a: a[0].at[jnp.array([9, -9])].set(3.0, mode="clip"), A),
    "put a window": (lambda a: a[0].at[:, jnp.array([1, 3])].min(0.0), A),
    "put in batches": (lambda a, i: jax.vmap(lambda a, i: a.at[i].max(0.5))(a, i), A, np.array([0, 3, 1])),
    "branches": (lambda a: lax.cond(a[0, 0, 0] > 0, lambda: a @ a, lambda: a), A),
    **{f"triangular {flags}": (solve(*flags), A + 3 * np.eye(4), B) for flags in SOLVES},
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_what_is_written_out_gives_what_the_library_gives(case, dtype):
    function, *operands = CASES[case]
    operands = [x.astype(dtype) if x.dtype == float else x for x in operands]
    program = compiled(repeated(function), *operands)
    assert asks(program)
    expected = jax.jit(repeated(function))(*operands)
    # Sums in another order: some roundings of the largest entry, of matrices with condition numbers of up to 30.
    for found, exact in zip(*(jax.tree.leaves(x) for x in (program(*operands, always=True), expected)), strict=True):
        assert found.dtype == exact.dtype
        size = np.max(np.abs(np.nan_to_num(exact)), initial=1)
        np.testing.assert_allclose(found, exact, rtol=0, atol=300 * np.finfo(dtype).eps * size)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: jnp.linalg.eigh(x)[0],
        lambda x: jnp.linalg.svd(x)[1],
        lambda x: jnp.sort(x, axis=1),
        lambda x: jnp.kron(x, jnp.ones((40, 40))) @ jnp.ones(160),
    ],
)
def test_what_leaves_compiled_code_or_is_large_is_left_as_it_is(function):
    program = compiled(repeated(function), A[0])
    assert not asks(program)
    np.testing.assert_array_equal(program(A[0], always=True), jax.jit(repeated(function))(A[0]))


def test_loops_of_constants_are_kernels_too():
    """XLA ends the process where an operand of such a call is a constant."""

    def function(x):
        def body(i, state):
            count, total, rest = state
            return count + 1, total + x[0] * i, {key: value[::-1] for key, value in rest.items()}

        return lax.fori_loop(0, 1000, body, (0, 0.0, rest))

    ends = jnp.array([-0.0, jnp.inf, jnp.nan, 0.0])
    rest = {
        "no": jnp.zeros(3),
        "one": jnp.ones(2),
        "false": jnp.zeros(1, bool),
        "true": jnp.ones(2, bool),
        "ends": ends,
    }
    rest["count"], rest["small"] = jnp.zeros(2, int), jnp.array(-0.0, jnp.float32)[None]
    rest["empty"] = jnp.zeros((0, 2))
    program = compiled(function, A[0, 0])
    assert asks(program)
    count, total, found = program(A[0, 0], always=True)
    assert int(count) == 1000
    for key, value in rest.items():
        assert np.asarray(found[key]).tobytes() == np.asarray(value).tobytes(), key
    # 499 500 = the sum up to 999, one by one: a thousand roundings.
    np.testing.assert_allclose(total, 499_500 * A[0, 0, 0], rtol=1000 * np.finfo(float).eps)


def test_what_stands_around_a_loop_is_no_obstacle():
    """Calls, rules of derivatives and of batches, checkpoints; random keys and what prints stay outside."""

    @jax.custom_vjp
    def ruled(x):
        return lax.fori_loop(0, 3, lambda i, y: y + x, x)

    ruled.defvjp(lambda x: (ruled(x), None), lambda _, g: (g,))

    @jax.custom_jvp
    def bent(x):
        return lax.fori_loop(0, 3, lambda i, y: y * x, x)

    bent.defjvps(lambda rate, _, x: 4 * x**3 * rate)

    @jax.custom_batching.custom_vmap
    def dealt(x):
        return lax.fori_loop(0, 3, lambda i, y: y - x, x)

    dealt.def_vmap(lambda size, batched, x: (jax.vmap(lambda x: -2 * x)(x), batched[0]))

    def function(x):
        key = lax.fori_loop(0, 2, lambda i, key: jax.random.split(key)[0], jax.random.key(0))
        jax.debug.callback(lambda x: seen.append(float(x)), x[0])
        inside = jax.checkpoint(jax.jit(bent))(x)
        return ruled(x) + inside + dealt(x) + lax.fori_loop(0, 2, lambda i, y: ruled(y), x), jax.random.uniform(key)

    seen: list[float] = []
    x = jnp.array([1.5, 2.0])
    program = compiled(function, x)
    assert asks(program)
    found, expected = program(x, always=True), jax.jit(function)(x)
    jax.effects_barrier()
    np.testing.assert_allclose(found[0], 4 * x + x**4 - 2 * x + 16 * x, rtol=1e-15)
    assert float(found[1]) == float(expected[1])
    assert seen == [1.5, 1.5]


def bounces():
    box = dc.systems.balls(2, 2, box=(0.0, 1.0))
    params = {"mass": jnp.ones(2), "radius": jnp.full(2, 0.1), "gravity": jnp.array([0.0, -9.81]), "restitution": 0.7}
    return box, params, jnp.array([0.3, 0.5, 0.7, 0.6]), jnp.array([1.0, 0.2, -0.5, 0.0]), jnp.linspace(0.0, 0.6, 31)


@pytest.mark.parametrize("kernel", ["jax", "native"])
@pytest.mark.parametrize("scheme", [dc.EventTimed(), dc.EventTimed(order=4)], ids=["order 2", "order 4"])
def test_a_simulation_is_one_kernel(scheme, kernel, monkeypatch):
    """Nothing is left of the steps outside: each loop of the program is within the call."""
    monkeypatch.setenv("DIFFCONTACT_KERNEL", kernel)
    system, params, q0, u0, times = bounces()

    def motion(params):
        run = dc.simulate(system, params, q0, u0, times, scheme=scheme)
        return run.q, run.u, run.status

    program = compiled(motion, params)
    assert asks(program)
    entry = str(program.as_text()).split("ENTRY", 1)[1]
    assert " while(" not in entry
    found, expected = program(params, always=True), jax.jit(motion)(params)
    assert int(found[2]) == int(expected[2]) == 0
    for x, y in zip(found[:2], expected[:2], strict=True):
        # Impacts of which each multiplies what rounding has done before: a dozen of them.
        np.testing.assert_allclose(x, y, atol=1e-11)


def test_many_steps_are_one_kernel_by_themselves(monkeypatch):
    system, params, q0, u0, times = bounces()
    few = dc.simulate(system, params, q0, u0, times)
    asked = []
    monkeypatch.setattr(compilation, "with_kernels", lambda function: asked.append(function) or with_kernels(function))
    monkeypatch.setattr(compilation, "_MANY", 31)
    steps = compilation.quick_jit(stepping._stepped, stepping.work, static_argnames=STATIC)
    many = steps(system, params, q0, u0, times, None, dc.EventTimed(), 1, 0, 0, True)
    assert len(asked) == 1
    np.testing.assert_allclose(many.q, few.q, atol=1e-11)  # as above
    assert int(many.status) == 0


STATIC = ("system", "scheme", "substeps", "percussions", "changes", "sound")


def test_forward_derivatives_are_within():
    """They are those of the function: the Jacobian of the motion by all that it begins with."""
    system, params, q0, u0, times = bounces()

    def end(e, q0):
        return dc.simulate(system, {**params, "restitution": e}, q0, u0, times).q[-1]

    derivative = jax.jacfwd(end, argnums=(0, 1))
    quick, expected = dc.one_kernel(derivative)(0.7, q0), jax.jit(derivative)(0.7, q0)
    for x, y in zip(quick, expected, strict=True):
        np.testing.assert_allclose(x, y, atol=1e-9 * np.max(np.abs(y)))  # a dozen impacts, as above


def test_inside_a_transformation_it_is_the_function_itself():
    cube = dc.one_kernel(lambda x: lax.fori_loop(0, 3, lambda i, y: y * x, 1.0))
    assert float(cube(2.0)) == 8
    assert float(jax.jit(jax.jacfwd(cube))(2.0)) == 12
    np.testing.assert_array_equal(jax.vmap(cube)(jnp.arange(3.0)), [0, 1, 8])


def test_a_second_call_compiles_nothing():
    half = dc.one_kernel(lambda x, n: lax.fori_loop(0, n, lambda i, y: y / 2, x), static_argnames="n")
    for x in (4.0, 8.0):
        assert float(half(jnp.array([x]), n=2)[0]) == x / 4
    assert half.programs() == 1
