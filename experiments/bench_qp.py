# %% [markdown]
# # How fast is the projection, and how exact?
#
# `qp.project` against qpax, jaxopt's OSQP and BoxCDQP (coordinate descent on the dual) and, outside JAX, quadprog, daqp
# and proxsuite, on projections of real simulations (`tests/reference/qp`): the median time per problem, forward,
# forward + vjp and forward + jvp, in one process, the methods taking turns; and the largest error |u - u_ref| that each
# of them leaves. On a CPU it is processor time, which others on the machine do not disturb and of which two threads use
# up two: `taskset -c 0` gives one to everyone. A batch is done in one vmap, in chunks, and one by one; ratios compare
# everyone's fastest way. Every method gets the same compacted problems: the rows nearest to violation, as many as are
# sure to contain the active ones (checked here against the stored solution). Compilation is timed apart. What is not
# installed (`pip install diffcontact[bench]`) is left out.
#
# `project` gets what the others get, dense rows. `BodyRows` is the same projection of the same rows without their
# zeros, as `qp.BodyRows` between bodies: a form that no other solver here takes.
#
# `DIFFCONTACT_KERNEL=jax` measures the projection in JAX where the kernel is installed, `native` the kernel.
#
# Run it: `python experiments/bench_qp.py [--out DIR]` (a quarter of an hour), or with `--smoke` (one small set,
# no stored file needed). It prints tables and writes them to `bench_qp.txt`, with a picture, `bench_qp.png`.

# %%
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from measuring import bars, clock, installed, options, picture
from problems import reference

from diffcontact import qp
from diffcontact.qp import kernel

jax.config.update("jax_enable_x64", True)

# Rows that are kept of each set's c, and how many problems one batched call works on at a time: a chunk's tableaux
# should stay in the cache, and its slowest problem decides how long it takes.
ROWS = {"ball3d": 6, "s10": 32, "pyramid": 64, "s32": 128}
CHUNK = {"ball3d": 256, "s10": 16, "pyramid": 16, "s32": 8}
# Components of a body's velocity, by which rows between bodies are told.
COMPONENTS = {"ball3d": 3, "s10": 3, "pyramid": 2, "s32": 3}


# %% The problems.
@dataclass(frozen=True)
class Problems:
    """A batch of projections: mass (n, d), G (n, c, d), b (n, c), v (n, d) and their solutions u (n, d)."""

    mass: np.ndarray
    G: np.ndarray
    b: np.ndarray
    v: np.ndarray
    u: np.ndarray

    @property
    def arguments(self):
        return self.mass, self.G, self.b, self.v

    def take(self, count: int, dtype) -> Problems:
        """`count` of them, over and over again if there are fewer."""
        which = np.arange(count) % len(self.u)
        return Problems(*(x[which].astype(dtype) for x in (*self.arguments, self.u)))


def stored(name: str) -> Problems:
    """One of the sets in tests/reference/qp, compacted to the rows nearest to violation."""
    folder = reference.folder()
    with np.load(folder / "qp" / f"{name}.npz") as file:
        mass, G, b, v, u = (file[field] for field in ("mass", "G", "b", "v", "u"))
    length = np.sqrt(np.sum(G**2 / mass[:, None, :], axis=2))
    value = (np.einsum("ncd,nd->nc", G, v) + b) / np.where(length > 0, length, 1)
    order = np.argsort(value, axis=1, kind="stable")
    kept, left = order[:, : ROWS[name]], order[:, ROWS[name] :]
    room = np.take_along_axis(np.einsum("ncd,nd->nc", G, u) + b, left, 1)
    if room.size and room.min() < -1e-9:
        raise ValueError(f"{name}: a row that was left out is violated by {-room.min():.1e}; keep more rows")
    return Problems(mass, np.take_along_axis(G, kept[:, :, None], 1), np.take_along_axis(b, kept, 1), v, u)


def between_bodies(G: np.ndarray, components: int) -> qp.BodyRows:
    """Rows (n, c, d) between two bodies of so many components each, without the zeros."""
    each = G.reshape(*G.shape[:2], -1, components)
    touched = np.any(each != 0, axis=3)
    if np.max(touched.sum(axis=2)) > 2:
        raise ValueError("G: expected rows between two bodies at most")
    # The bodies that are touched come first.
    bodies = np.argsort(~touched, axis=2, kind="stable")[:, :, :2]
    bodies = bodies if bodies.shape[2] == 2 else np.concatenate([bodies, bodies], axis=2)
    there = np.arange(2) < touched.sum(axis=2)[:, :, None]
    normals = np.where(there[..., None], np.take_along_axis(each, bodies[..., None], axis=2), 0)
    return qp.BodyRows(jnp.asarray(np.where(there, bodies, -1)), jnp.asarray(normals), each.shape[2])


def built() -> Problems:
    """Random projections with a known solution, for the smoke run."""
    rng = np.random.default_rng(0)
    count, c, d, active = 16, 12, 6, 4
    G, u = rng.normal(size=(count, c, d)), rng.normal(size=(count, d))
    multipliers = np.where(np.arange(c) < active, rng.uniform(0.5, 1, (count, c)), 0)
    room = np.where(multipliers > 0, 0, rng.uniform(0.5, 1, (count, c)))
    mass = rng.uniform(0.5, 2, (count, d))
    v = u - np.einsum("ncd,nc->nd", G, multipliers) / mass
    return Problems(mass, G, room - np.einsum("ncd,nd->nc", G, u), v, u)


# %% The methods: one problem each, mapped over the batch afterwards.
def ours(mass, G, b, v):
    return qp.project(mass, G, b, v).u


# Others take the same projection and return u (d,): in JAX, to be mapped over a batch.
def by_qpax(mass, G, b, v):
    import qpax

    nothing = jnp.zeros((0, v.shape[0]), v.dtype), jnp.zeros(0, v.dtype)
    return qpax.solve_qp_primal(jnp.diag(mass), -mass * v, *nothing, -G, b, solver_tol=1e-8)


def by_osqp(mass, G, b, v):
    import jaxopt

    solver = jaxopt.OSQP(tol=1e-6, maxiter=4000)
    return solver.run(params_obj=(jnp.diag(mass), -mass * v), params_ineq=(-G, b)).params.primal


def by_boxcdqp(mass, G, b, v):
    """Coordinate descent on the dual, 1/2 l^T A l + l^T (G v + b) with l >= 0 and A = G M^-1 G^T."""
    import jaxopt

    weighted = G / mass[None, :]
    dual = weighted @ G.T, G @ v + b
    bounds = jnp.zeros_like(b), jnp.full_like(b, jnp.inf)
    solver = jaxopt.BoxCDQP(maxiter=2000, tol=1e-10 if b.dtype == jnp.float64 else 1e-5)
    return v + solver.run(jnp.zeros_like(b), params_obj=dual, params_ineq=bounds).params @ weighted


# Outside JAX: one problem at a time, and its solver's set-up is part of the time.
def by_quadprog(mass, G, b, v):
    import quadprog

    return quadprog.solve_qp(np.diag(mass), mass * v, np.ascontiguousarray(G.T), -b)[0]


def by_daqp(mass, G, b, v):
    import daqp

    # Its default primal tolerance is 1e-6.
    return daqp.solve(np.diag(mass), -mass * v, G, np.full(len(b), 1e30), -b, primal_tol=1e-12)[0]


def by_proxsuite(mass, G, b, v):
    from proxsuite import proxqp

    qp = proxqp.dense.QP(len(v), 0, len(b))
    qp.settings.eps_abs = 1e-9
    qp.init(np.diag(mass), -mass * v, None, None, G, -b, None)
    qp.solve()
    return qp.results.x


OUTSIDE = {"quadprog": by_quadprog, "daqp": by_daqp, "proxsuite": by_proxsuite}


def one_by_one(method: Callable, problems: Problems) -> np.ndarray:
    return np.array([method(*lane) for lane in zip(*problems.arguments, strict=True)])


def chunks(name: str, batch: int) -> list[int]:
    """How many problems of a batch to do at a time, 0 for all: the ways to try. Only a CPU gains by less than all."""
    if jax.default_backend() != "cpu":
        return [0]
    return [0, *(size for size in (1, CHUNK[name]) if size < batch)] if name in CHUNK else [0]


def batched(method: Callable, sizes: list[int]) -> list[tuple[str, int, Callable]]:
    """Forward, forward + vjp (in v and b), and forward + jvp (in v), over a batch, in chunks of each of these sizes."""

    def over(f, chunk):
        if chunk == 0:
            return jax.jit(jax.vmap(f))
        return jax.jit(lambda *batch: jax.lax.map(lambda lane: f(*lane), batch, batch_size=chunk))

    def with_vjp(mass, G, b, v):
        u, pull = jax.vjp(lambda b, v: method(mass, G, b, v), b, v)
        return u, pull(u)

    def with_jvp(mass, G, b, v):
        return jax.jvp(lambda v: method(mass, G, b, v), (v,), (v,))

    found = {"forward": method, "vjp": with_vjp} | ({"jvp": with_jvp} if method is ours else {})
    return [(what, chunk, over(f, chunk)) for what, f in found.items() for chunk in sizes]


def form(method: str, name: str, problems: Problems) -> list:
    """The arguments as a method takes them."""
    mass, G, b, v = (jnp.asarray(x) for x in problems.arguments)
    return [mass, between_bodies(problems.G, COMPONENTS[name]) if method == "BodyRows" else G, b, v]


# %% Measuring.
@dataclass(frozen=True)
class Row:
    """One line of the table: microseconds per problem, seconds of compilation, the largest error of u.

    `chunk` is how many problems were done at a time, 0 where all.
    """

    problems: str
    batch: int
    dtype: str
    method: str
    what: str
    chunk: int
    microseconds: float
    compilation: float
    error: float


def medians(calls: dict[tuple, Callable], seconds: float) -> dict[tuple, float]:
    """The median time of each call, the calls taking turns, for about `seconds` in all (three rounds at least).

    In its turn each is called twice and timed the second time, when caches hold its code and its problems: after a
    solver that works on megabytes what takes a fifth of a microsecond takes half as long again.
    """
    times: dict[tuple, list[float]] = {key: [] for key in calls}
    start = clock()
    while len(next(iter(times.values()))) < 3 or clock() - start < seconds:
        for key, call in calls.items():
            jax.block_until_ready(call())
            before = clock()
            jax.block_until_ready(call())
            times[key].append(clock() - before)
    return {key: float(np.median(values)) for key, values in times.items()}


def measure(name: str, problems: Problems, batch: int, dtype, methods: dict, seconds: float) -> list[Row]:
    """All methods on one batch."""
    chosen = problems.take(batch, dtype)
    calls, compilation, errors = {}, {}, {}
    for method, function in methods.items():
        arguments = form(method, name, chosen)
        for what, chunk, mapped in batched(function, chunks(name, batch)):
            before = clock()
            compiled = mapped.lower(*arguments).compile()
            key = (method, what, chunk)
            compilation[key] = clock() - before
            calls[key] = partial(compiled, *arguments)
            u = jax.tree.leaves(compiled(*arguments))[0]
            errors[key] = float(np.max(np.abs(np.asarray(u, float) - problems.take(batch, float).u)))
    for method, function in OUTSIDE.items():
        # Their time per problem does not depend on how many there are.
        if installed(method) and dtype == np.float64 and batch <= 64:
            key = (method, "forward", 1)
            calls[key] = lambda function=function: one_by_one(function, chosen)
            compilation[key], errors[key] = 0.0, float(np.max(np.abs(one_by_one(function, chosen) - chosen.u)))
    return [
        Row(name, batch, np.dtype(dtype).name, *key, 1e6 * value / batch, compilation[key], errors[key])
        for key, value in medians(calls, seconds).items()
    ]


# %% Showing.
def table(rows: list[Row]) -> str:
    head = (
        f"{'problems':9}{'batch':>6} {'type':8}{'method':10}{'what':9}{'chunk':>6}{'us/problem':>11}{'compile s':>10}"
        f"{'error':>9}"
    )
    lines = [
        f"{r.problems:9}{r.batch:6d} {r.dtype:8}{r.method:10}{r.what:9}{r.chunk or 'all':>6}{r.microseconds:11.2f}"
        f"{r.compilation:10.2f}{r.error:9.1e}"
        for r in rows
    ]
    return "\n".join([head, *lines])


def fastest(rows: list[Row]) -> dict[tuple, Row]:
    """Of each (problems, batch, dtype, method, what) the way that takes least."""
    found: dict[tuple, Row] = {}
    for r in rows:
        key = (r.problems, r.batch, r.dtype, r.method, r.what)
        found[key] = min(found.get(key, r), r, key=lambda row: row.microseconds)
    return found


def ratios(rows: list[Row]) -> str:
    """How many times as fast as qpax, case by case, and one problem at a time as daqp."""
    at = {key: row.microseconds for key, row in fastest(rows).items()}
    alone = {key: row.microseconds for key, row in fastest([r for r in rows if 1 in (r.chunk, r.batch)]).items()}
    lines = []
    for times, peer, said in ((at, "qpax", "qpax"), (alone, "daqp", "daqp, one at a time")):
        for (*case, method, what), value in times.items():
            key = (*case, peer, what)
            if method in ("project", "BodyRows") and key in times:
                problems, batch, dtype = case
                lines.append(
                    f"{problems:9}{batch:6d} {dtype:8}{method:9}{what:9}{times[key] / value:7.1f} x as fast as {said}"
                )
    return "\n".join(lines)


def draw(axes, rows: list[Row]) -> None:
    shown = [r for r in fastest(rows).values() if r.what == "forward" and r.dtype == "float64"]
    cases = list(dict.fromkeys((r.problems, r.batch) for r in shown))
    bars(axes[0], cases, [((r.problems, r.batch), r.method, r.microseconds) for r in shown], "{}\nbatch {}")
    axes[0].set(yscale="log", ylabel="median time per projection [us], forward, float64")
    axes[0].legend()


def competitors(name: str, batch: int, dtype) -> dict[str, Callable]:
    """Whom to run beside `project`: the others need minutes for a large batch of large problems."""
    methods = {"project": ours, "BodyRows": ours}
    if installed("qpax") and dtype == np.float64 and batch * ROWS[name] <= 32 * 1024:
        methods["qpax"] = by_qpax
    if installed("jaxopt") and batch == 1 and name in ("ball3d", "s10"):
        methods |= {"OSQP": by_osqp, "BoxCDQP": by_boxcdqp} if dtype == np.float64 else {"BoxCDQP": by_boxcdqp}
    return methods


# %%
def main(arguments: list[str] | None = None) -> list[Row]:
    chosen = options(
        arguments,
        "one small set, a few repeats",
        out=Path("."),
        sets={"nargs": "+", "choices": [*ROWS], "default": [*ROWS]},
        batches={"nargs": "+", "type": int, "default": [1, 64, 1024]},
    )

    rows: list[Row] = []
    print(f"project: {kernel.described()}\n{table(rows)}")
    if chosen.smoke:
        rows += measure("built", built(), 8, np.float64, {"project": ours}, 0.1)
        print(table(rows))
    else:
        for name in chosen.sets:
            problems = stored(name)
            for batch in chosen.batches:
                for dtype in (np.float64, np.float32):
                    found = measure(name, problems, batch, dtype, competitors(name, batch, dtype), 1.5)
                    print("\n".join(table(found).splitlines()[1:]), flush=True)
                    rows += found
    print(ratios(rows))
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "bench_qp.txt").write_text(f"{table(rows)}\n\n{ratios(rows)}\n")
    picture(chosen.out, "bench_qp", partial(draw, rows=rows), 1)
    return rows


if __name__ == "__main__":
    main()
