"""Balls that fall into a box by the published schemes: what bounds on total variation and energy are tried on."""

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc


def balls_in_box(count: int, restitution):
    """Up to three balls fall into a box: many impacts, persistent contact. System, params, q0, u0, T."""
    params = {"mass": np.array([1.0, 2.0, 0.5])[:count], "radius": np.array([0.1, 0.15, 0.12])[:count]}
    params |= {"gravity": np.array([0.0, -9.81]), "restitution": restitution}
    q0 = np.array([0.3, 0.3, 0.35, 0.62, 0.75, 0.5])[: 2 * count]
    u0 = np.array([0.5, 0.0, 0.2, -0.4, -0.6, 0.3])[: 2 * count]
    return dc.systems.balls(count, 2, box=(0.0, 1.0)), params, q0, u0, 0.8


def trajectories(problem, scheme, counts):
    """One run per count, cut at T; all of one length before, so that they share a compilation."""
    system, params, q0, u0, T = problem
    grid = np.arange(max(counts) + 1)
    whole = [dc.simulate(system, params, q0, u0, T / count * grid, scheme=scheme) for count in counts]
    return [
        jax.tree.map(lambda x, n=count: x[: n + 1] if x.ndim else x, one)
        for one, count in zip(whole, counts, strict=True)
    ]


def total_variation(u) -> float:
    """Var(u) = sum |u^{n+1} - u^n|."""
    return float(jnp.sum(jnp.linalg.norm(jnp.diff(u, axis=0), axis=1)))


def energy_excess(problem, run) -> float:
    """How far the energy, less the work of gravity, ever rises above its initial value [J]."""
    _, params, _, _, _ = problem
    mass = np.repeat(params["mass"], 2)
    weight = (params["mass"][:, None] * params["gravity"]).ravel()
    total = run.u**2 @ mass / 2 - run.q @ weight
    return float(jnp.max(total) - total[0])
