"""`qp.project` and its gradient against jaxopt's OSQP, the only module that imports jaxopt."""

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np
from qp_problems import backwards

from diffcontact import qp


def test_against_osqp(rng):
    (mass, G, b, v), _ = backwards(rng, 12, 6, 4)
    oracle = jaxopt.OSQP(tol=1e-10, maxiter=20000)

    def by_osqp(v, b):
        solution = oracle.run(params_obj=(jnp.diag(mass), -mass * v), params_ineq=(-G, b))
        return jnp.sum(solution.params.primal**2), solution.params.primal

    def by_project(v, b):
        u = qp.project(mass, G, b, v).u
        return jnp.sum(u**2), u

    expected, u = jax.jit(jax.grad(by_osqp, (0, 1), has_aux=True))(v, b)
    found, ours = jax.jit(jax.grad(by_project, (0, 1), has_aux=True))(v, b)
    # OSQP stops at 1e-10 of its own residuals; ours is exact.
    np.testing.assert_allclose(ours, u, atol=1e-7)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
