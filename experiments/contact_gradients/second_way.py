"""The exact answers a second time: by steps that find their events, or, of the pendulum, by DOP853."""

from __future__ import annotations

import numpy as np

from .peers.springs import relative
from .scene import Problem

STEP = 5e-3


def disagreement(problem: Problem) -> float:
    """The largest difference from the problem's exact answers, of the largest entry of a state or a Jacobian."""
    found = _by_events(problem) if problem.name == "pendulum" else _by_steps(problem)
    exact = (np.array([at[name] for at in problem.exact]) for name in ("state", "jacobian"))
    return max(relative(ours, theirs) for ours, theirs in zip(found, exact, strict=True))


def _by_steps(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """States and Jacobians by `EventTimed`, which shares nothing with the arithmetic of `exact`."""
    from .peers import peer

    ours = peer("diffcontact").jacobian
    assert ours is not None
    return ours(problem, np.array(problem.theta, float), STEP, None)


def _by_events(problem: Problem) -> tuple[np.ndarray, np.ndarray]:
    """The same with the variational equations of DOP853 (`event_exact.py`)."""
    import jax
    import jax.numpy as jnp
    from event_exact import event_exact

    from .peers.ours import model

    system, unpack, outputs = model(problem)
    theta, states, jacobians = jnp.array(problem.theta), [], []
    for time in problem.times:
        solved = event_exact(system, unpack, theta, time)
        q, u = jnp.split(solved.state, 2)
        by_state = jnp.hstack(jax.jacfwd(lambda q, u: outputs(q, u, theta), (0, 1))(q, u))
        by_theta = jax.jacfwd(lambda theta, q=q, u=u: outputs(q, u, theta))(theta)
        states.append(outputs(q, u, theta))
        jacobians.append(by_state @ solved.jacobian + by_theta)
    return np.array(states), np.array(jacobians)
