# %% [markdown]
# # Contacts with friction: how many random problems are solved, how exactly, and how fast?
#
# `qp.coulomb` on random problems of 1 to 12 contacts, in a plane and in space: mu from 0 to 2, masses over four
# decades, every tenth with redundant contacts; and on impacts of rigid bodies. Printed are the statuses and the
# residual, the natural map of the cone complementarity (`problems.friction.residual`, computed from the rows as given).
# "Silent" counts what must never be: status OK and a residual above 1e-10.
#
# Beside it, in the same run and on the same problems, Clarabel (an interior-point solver for second-order cones): it
# solves the convex version, in which slip opens a contact by mu |w_T|, to its default accuracy. That is an easier
# problem with another answer; the difference of the two velocities is printed too, in the metric of the mass. Where
# Clarabel is absent (`pip install diffcontact[bench]`) it is left out.
#
# Run it: `python experiments/bench_coulomb.py [--problems N] [--out DIR]` (ten thousand problems: a few minutes), or
# with `--smoke`. It prints a table and writes it to `bench_coulomb.txt`.

# %%
from __future__ import annotations

import argparse
import importlib.util
import time
from collections import Counter
from pathlib import Path

import jax
import numpy as np

jax.config.update("jax_enable_x64", True)

from problems.friction import random_bodies, random_problems, residual

from diffcontact import qp
from diffcontact.status import Status

FAMILIES = {"rows": random_problems, "bodies": random_bodies}
# Few problems need a long search: in a vmap all lanes would wait for them.
CHUNK = 1


# %% Ours.
def solver(problems):
    """`qp.coulomb` of all problems, in chunks, compiled; and the seconds that compilation took."""
    before = time.perf_counter()
    mapped = jax.jit(lambda *all: jax.lax.map(lambda one: qp.coulomb(*one), all, batch_size=CHUNK))
    return mapped.lower(*problems).compile(), time.perf_counter() - before


# %% The convex version.
def relaxed(problem) -> np.ndarray:
    """u of  min 1/2 (u-v)^T M (u-v)  subject to  mu |S u + s| <= N u + b  for each contact, by Clarabel."""
    import clarabel
    from scipy import sparse

    mass, N, S, b, s, mu, v = problem
    on = np.isfinite(b)
    H = np.concatenate([N[:, None], mu[:, None, None] * S], axis=1)[on]
    h = np.concatenate([b[:, None], mu[:, None] * s], axis=1)[on]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.SecondOrderConeT(H.shape[1])] * H.shape[0]
    rows = sparse.csc_matrix(-H.reshape(-1, H.shape[2]))
    found = clarabel.DefaultSolver(sparse.diags(mass).tocsc(), -mass * v, rows, h.ravel(), cones, settings).solve()
    return np.asarray(found.x)


def clarabel_times(problems, u, count) -> str:
    """Microseconds per problem, and how far its answer is from ours."""
    if importlib.util.find_spec("clarabel") is None:
        return "Clarabel is not installed"
    chosen = [tuple(x[i] for x in problems) for i in range(count)]
    before = time.perf_counter()
    others = [relaxed(problem) for problem in chosen]
    taken = 1e6 * (time.perf_counter() - before) / count
    weights = [np.sqrt(problem[0]) for problem in chosen]
    apart = [
        np.linalg.norm(weight * (x - y)) / max(np.linalg.norm(weight * y), 1e-300)
        for weight, x, y in zip(weights, others, u, strict=False)
    ]
    return f"Clarabel, convex version: {taken:.0f} us per problem; its u differs by {np.median(apart):.1e} (median)"


# %%
def measure(name: str, k: int, count: int, compared: int) -> str:
    problems = FAMILIES[name](1, count, k)
    solve, compilation = solver(problems)
    jax.block_until_ready(solve(*problems))
    before = time.perf_counter()
    found = jax.tree.map(np.asarray, jax.block_until_ready(solve(*problems)))
    taken = 1e6 * (time.perf_counter() - before) / count
    left = np.array(
        [
            residual(tuple(x[i] for x in problems), found.u[i], found.normal[i], found.tangential[i])
            for i in range(count)
        ]
    )
    solved = found.status == Status.OK
    others = Counter(Status(int(status)).name for status in found.status[~solved])
    return "\n".join(
        [
            f"{name}, k = {k}: {count} problems, {100 * np.mean(solved):.2f} % solved, others {dict(others)}; residual "
            f"median {np.median(left[solved]):.1e}, largest {left[solved].max():.1e}; "
            f"silent {np.sum(solved & (left > 1e-10))}",
            f"    qp.coulomb: {taken:.0f} us per problem in chunks of {CHUNK} (compiled in {compilation:.0f} s)",
            f"    {clarabel_times(problems, found.u, min(compared, count))}",
        ]
    )


def main(arguments: list[str] | None = None) -> str:
    parser = argparse.ArgumentParser(description="Residuals and times of qp.coulomb on random problems.")
    parser.add_argument("--smoke", action="store_true", help="a few problems in a plane")
    parser.add_argument("--problems", type=int, default=5000, help="of each kind")
    parser.add_argument("--out", type=Path, default=Path("."), help="folder of the table")
    chosen = parser.parse_args(arguments)

    cases = [("rows", 1)] if chosen.smoke else [(name, k) for name in FAMILIES for k in (1, 2)]
    lines = []
    for name, k in cases:
        lines.append(measure(name, k, 32 if chosen.smoke else chosen.problems, 16 if chosen.smoke else 1000))
        print(lines[-1], flush=True)
    chosen.out.mkdir(parents=True, exist_ok=True)
    (chosen.out / "bench_coulomb.txt").write_text("\n".join(lines) + "\n")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
