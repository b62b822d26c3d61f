# %% [markdown]
# # Frictional contact problems that Siconos met: how many are solved, how exactly, how fast?
#
# Seventeen problems of the collection that Siconos tests its solvers with (siconos/siconos @ 6070f0f, Apache-2.0):
# rovers, boxes, capsules, confetti and spheres, 1 to 225 contacts, some of them redundant many times over. Each asks
# for the impulses r of its contacts, normal first,
#
#     w = W r + q,     |r_T| <= mu r_N,     w_N >= 0,  r_N w_N = 0,     r_T = -mu r_N w_T/|w_T| where w_T is not zero
#
# W is written L L^T, by its eigenvalues that are above rounding, and `qp.coulomb` is given the mass 1 and the rows L. A
# W is up to 1e-3 unsymmetric; its symmetric part is solved, and judged. Of the confetti's W one eigenvalue is negative,
# by 1e-8 of the largest, and L L^T has not got it: q is given with (W - L L^T) r of the last call, twice. Problems are
# padded with contacts that are open to 4, 12, 32, 64 and so on: one program serves all of one size. The residual is the
# natural map, in units of w,
#
#     |r / s - P_K(r / s - (w + mu |w_T| n))| / |q|,     K the cone of mu,     1/s = trace(W) / (c d)
#
# Beside it Clarabel, an interior-point method, with what it can do: the convex problem, in which slip opens a contact.
#
# Found, on two cores with other work at a load of 4 (the first call of a size compiles for 9 to 28 s; next calls in ms,
# the longer of two):
#
# | problem | contacts | residual | next call | Clarabel |
# |---|---|---|---|---|
# | twelve, to 11 contacts | 1 to 11 | 6e-16 and less | 0.4 to 2.1 | 0.1 to 0.3 |
# | OneObject, two | 23, 24 | 5e-16 | 44 to 48 | 0.9 |
# | BoxesStack1 | 52 | 3e-15 | 52 | 7 |
# | Confeti-ex03 | 54 | 6e-16 | 40 | 2 |
# | FrictionContactProblem00071, in a plane | 89 | 2e-16 | 98 | 2 |
# | Capsules | 225 | 5e-17 | 1 300 | 9 |
#
# All have status 0. The time goes into factors of a matrix of all reactions, of open contacts that pad it too: some
# twenty for the interior-point method and ten for even shares.
#
# FOLDER (or the environment variable DIFFCONTACT_DATA, whose `fc3d` it then is) holds the problems; without it nothing
# is done. Run it: `python experiments/fc3d.py [FOLDER]`, or with `--smoke`: those of up to 12 contacts in space.

# %%
from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from measuring import data, installed, options

jax.config.update("jax_enable_x64", True)

from diffcontact import qp
from diffcontact.status import Status


# %%
@dataclass(frozen=True)
class Problem:
    """W (c d, c d), q (c, d), mu (c,) of c contacts in d dimensions."""

    name: str
    W: np.ndarray
    q: np.ndarray
    mu: np.ndarray

    @property
    def rows(self) -> np.ndarray:
        """(c, d, rank) L with W = L L^T."""
        values, vectors = np.linalg.eigh(self.W)
        kept = values > values.size * np.finfo(float).eps * values[-1]
        return (vectors[:, kept] * np.sqrt(values[kept])).reshape(*self.q.shape, -1)

    def residual(self, r: np.ndarray) -> float:
        """The natural map of the cone, in the units of w, over |q|."""
        w = (self.W @ r.ravel()).reshape(r.shape) + self.q
        r = r * np.trace(self.W) / len(self.W)
        bent = w.copy()
        bent[:, 0] += self.mu * np.linalg.norm(w[:, 1:], axis=1)
        return float(np.linalg.norm(r - _onto_cone(r - bent, self.mu)) / np.linalg.norm(self.q))


def _onto_cone(x: np.ndarray, mu: np.ndarray) -> np.ndarray:
    """The nearest (c, d) with |x_T| <= mu x_N."""
    normal, size = x[:, 0], np.linalg.norm(x[:, 1:], axis=1)
    along = np.maximum((normal + mu * size) / (1 + mu**2), 0.0)
    shrunk = np.where(size > 0, mu * along / np.where(size > 0, size, 1.0), 0.0)
    moved = np.concatenate([along[:, None], shrunk[:, None] * x[:, 1:]], axis=1)
    return np.where((size <= mu * normal)[:, None], x, moved)


def read(file: Path) -> Problem:
    """A file: dimension, contacts, storage; W dense, or as blocks with their numbers, column by column; q; mu."""
    words = iter(file.read_text().split())

    def take(count: int, of: type = float) -> np.ndarray:
        return np.array([of(next(words)) for _ in range(count)])

    d, c, storage = take(3, int)
    n = take(2, int)[0]
    if storage == 0:
        take(2, int)
        W = take(n * n).reshape(n, n)
    else:
        (blocks, rows, columns), W = take(3, int), np.zeros((n, n))
        take(rows + columns, int)
        starts, entries = take(2, int)
        start, column = take(starts, int), take(entries, int)
        for i in range(rows):
            for j in column[start[i] : start[i + 1]]:
                take(1, int)
                W[i * d : (i + 1) * d, j * d : (j + 1) * d] = take(d * d).reshape(d, d).T
        assert entries == blocks
    return Problem(file.name.split(".")[0], (W + W.T) / 2, take(n).reshape(c, d), take(c))


SIZES = (4, 12, 32, 64, 128, 256, 320, 512)
_solve = jax.jit(
    lambda L, q, mu: qp.coulomb(jnp.ones(L.shape[2]), L[:, 0], L[:, 1:], q[:, 0], q[:, 1:], mu, _at_rest(L))
)


def _at_rest(L):
    return jnp.zeros(L.shape[2])


def solved(problem: Problem):
    """r (c, d), the status, seconds of the first call and of the longer of the two next."""
    (c, d), L = problem.q.shape, problem.rows
    room = next(size for size in SIZES if size >= c)
    padded = np.zeros((room, d, room * d))
    padded[:c, :, : L.shape[2]] = L
    q = np.concatenate([problem.q, np.tile([np.inf] + [0.0] * (d - 1), (room - c, 1))])
    mu = np.concatenate([problem.mu, np.zeros(room - c)])
    left_out = problem.W - L.reshape(c * d, -1) @ L.reshape(c * d, -1).T
    seconds, r = [], np.zeros((c, d))
    for _ in range(3):
        q[:c] = problem.q + (left_out @ r.ravel()).reshape(c, d)
        began = time.perf_counter()
        found = jax.block_until_ready(_solve(padded, q, mu))
        seconds.append(time.perf_counter() - began)
        r = np.concatenate([np.asarray(found.normal)[:, None], np.asarray(found.tangential)], axis=1)[:c]
    return r, Status(int(found.status)), seconds[0], max(seconds[1:])


def convex_seconds(problem: Problem) -> float:
    """How long Clarabel takes for the convex problem."""
    import clarabel
    from scipy import sparse

    c, d = problem.q.shape
    scale = np.ones((c, d))
    scale[:, 0] = problem.mu
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    W, q = sparse.csc_matrix(np.triu(problem.W)), problem.q.ravel()
    A, cones = sparse.csc_matrix(-np.diag(scale.ravel())), [clarabel.SecondOrderConeT(d)] * c
    began = time.perf_counter()
    clarabel.DefaultSolver(W, q, A, np.zeros(c * d), cones, settings).solve()
    return time.perf_counter() - began


# %%
def main(arguments: list[str] | None = None) -> list[tuple[Problem, float, Status, float]]:
    chosen = options(arguments, "the problems of up to 12 contacts in space", ("folder", data("fc3d")))
    problems = sorted(map(read, chosen.folder.glob("*.dat")), key=lambda one: (one.q.shape[1], one.mu.size))
    if chosen.smoke:
        problems = [one for one in problems if one.q.shape[1] == 3 and one.mu.size <= 12]
    if not problems:
        print(f"{chosen.folder} holds no problems: nothing to do")
    peer, found = installed("clarabel"), []
    print(
        f"{'':34}{'contacts':>9}{'rank':>6}{'residual':>10}{'first [s]':>11}{'next [ms]':>11}{'Clarabel':>10}  status"
    )
    for problem in problems:
        r, status, first, again = solved(problem)
        found.append((problem, problem.residual(r), status, again))
        size = f"{problem.mu.size} ({problem.q.shape[1]}d)"
        other = f"{1e3 * convex_seconds(problem):10.1f}" if peer else f"{'-':>10}"
        line = (
            f"{problem.name:34}{size:>9}{problem.rows.shape[2]:6}{found[-1][1]:10.0e}{first:11.1f}{1e3 * again:11.1f}"
        )
        print(f"{line}{other}  {status.name}", flush=True)
    return found


if __name__ == "__main__":
    main()
