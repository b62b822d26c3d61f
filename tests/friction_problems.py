"""Random problems of contact with friction, `diffcontact.qp.coulomb`, and how far a result is from solving them."""

from __future__ import annotations

import numpy as np

# Contacts and components of a problem; what it has fewer of is switched off, so that compiled programs are shared.
CONTACTS, COMPONENTS = 12, 36


def random_problems(seed: int, count: int, k: int, contacts: int = CONTACTS) -> tuple[np.ndarray, ...]:
    """`count` problems of 1 to `contacts` contacts, mu from 0 to 2, masses over four decades, moving obstacles.

    In every tenth problem contacts are redundant: some are repeated, or there are more rows than components. For each
    problem there is a velocity u0 with |S u0 + s| mu <= N u0 + b, so that it has a solution.

    Returns:
        mass (n, d), normals (n, c, d), tangents (n, c, k, d), b (n, c), s (n, c, k), friction (n, c), v (n, d).
    """
    rng = np.random.default_rng(seed)
    return tuple(np.stack(x) for x in zip(*(_rows(rng, k, contacts, i % 10 == 0) for i in range(count)), strict=True))


def _empty(k, contacts=CONTACTS):
    mass, normals, tangents = np.ones(COMPONENTS), np.zeros((contacts, COMPONENTS)), np.zeros((contacts, k, COMPONENTS))
    return mass, normals, tangents, np.full(contacts, np.inf), np.zeros((contacts, k))


def _rows(rng, k, contacts, redundant):
    c = int(rng.integers(2 if redundant else 1, contacts + 1))
    short = redundant and rng.uniform() < 0.5
    full = c * (1 + k)
    d = int(rng.integers(max(2, full // 2), full) if short else rng.integers(full, COMPONENTS + 1))
    mass, N, S, b, s = _empty(k, contacts)
    mass[:d] = 10 ** rng.uniform(-2, 2, d)
    N[:c, :d], S[:c, :, :d] = rng.normal(size=(c, d)), rng.normal(size=(c, k, d))
    friction = rng.uniform(0, 2, contacts)
    u0 = np.zeros(COMPONENTS)
    u0[:d] = rng.normal(size=d) / np.sqrt(mass[:d])
    room = rng.exponential(size=c)
    slip = rng.normal(size=(c, k))
    slip *= (rng.uniform(size=c) * room / np.maximum(friction[:c], 0.1) / np.linalg.norm(slip, axis=1))[:, None]
    b[:c], s[:c] = room - N[:c] @ u0, slip - S[:c] @ u0
    if redundant and not short:
        copies = int(rng.integers(1, c // 2 + 1))
        for x in (N, S, b, s, friction):
            x[c - copies : c] = x[:copies]
    v = np.zeros(COMPONENTS)
    v[:d] = 3 * rng.normal(size=d) / np.sqrt(mass[:d])
    return mass, N, S, b, s, friction, v


def residual(problem: tuple[np.ndarray, ...], u: np.ndarray, normal: np.ndarray, tangential: np.ndarray) -> float:
    """How far (u, normal, tangential) is from a solution: the natural map of the cone complementarity, relative.

    Contacts are measured in the unit in which their normal rows have length one in the metric of the mass. The largest
    error of M (u - v) = N^T P + S^T B counts as well, relative to its terms.
    """
    mass, N, S, b, s, mu, v = problem
    on = np.isfinite(b)
    H = np.concatenate([N[:, None], S], axis=1)[on]
    h = np.concatenate([b[:, None], s], axis=1)[on]
    r = np.concatenate([normal[:, None], tangential], axis=1)[on]
    mu = mu[on]
    moved = mass * (u - v)
    terms = np.einsum("cid,ci->cd", H, r)
    balance = np.max(np.abs(moved - terms.sum(0)), initial=0) / max(np.abs(terms).sum(0).max(initial=0), 1e-300)
    length = np.sqrt(np.sum(H[:, 0] ** 2 / mass, axis=1))
    trace = np.sum(H**2 / mass, axis=(1, 2)) / length**2
    w, r = (np.einsum("cid,d->ci", H, u) + h) / length[:, None], r * length[:, None]
    free = (np.einsum("cid,d->ci", H, v) + h) / length[:, None]
    dual = w + mu[:, None] * np.linalg.norm(w[:, 1:], axis=1)[:, None] * (np.arange(w.shape[1]) == 0)
    x = r - dual / trace[:, None]
    P, size = x[:, 0], np.linalg.norm(x[:, 1:], axis=1)
    top = (P + mu * size) / (1 + mu**2)
    boundary = np.concatenate([top[:, None], (mu * top / np.maximum(size, 1e-300))[:, None] * x[:, 1:]], axis=1)
    nearest = np.where((mu * size <= -P)[:, None], 0, np.where((size <= mu * P)[:, None], x, boundary))
    scale = np.abs(free).max(initial=0) + np.abs(r).max(initial=0)
    return max(balance, np.max(np.abs((r - nearest) * trace[:, None]), initial=0) / max(scale, 1e-300))
