"""Solvers of quadratic programmes that `bench_qp.py` measures `qp.project` against, behind one interface.

Each takes one projection, mass (d,), G (c, d), b (c,) and v (d,) of `min 1/2 (u - v)^T M (u - v)`, `G u + b >= 0`, and
returns u (d,): in JAX, to be mapped over a batch, or outside JAX, one problem at a time.
"""

from __future__ import annotations

import importlib.util

import jax.numpy as jnp
import numpy as np


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


def installed(*names: str) -> bool:
    return all(importlib.util.find_spec(name) is not None for name in names)
