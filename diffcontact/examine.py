"""What `python -m diffcontact check` prints: the hypotheses of the convergence theorems along a scene's runs."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact.hypotheses import report
from diffcontact.scene.study import Study
from diffcontact.simulate import simulate
from diffcontact.status import Status


def examine(study: Study) -> str:
    """The hypotheses where each run of the study begins and where its contacts come closest.

    The motion is simulated with the starting values of the parameters. What is closest then counts as active, since no
    sample falls exactly on an impact.

    Args:
        study: a scene with its runs.

    Returns:
        The text: per run two reports, and the status of the simulation where it is not OK.
    """
    system = study.scene.ready.system
    blocks = []
    for i, run in enumerate(study.runs):
        params = {name: jnp.asarray(value[i] if name in study.own else value) for name, value in study.start.items()}
        motion = simulate(system, params, params["q0"], params["u0"], run.times)
        gaps = np.asarray(jax.vmap(lambda t, q, p=params: jnp.min(system.gap(t, q, p)))(motion.t, motion.q))
        closest = int(np.argmin(gaps))
        for title, at, rho in (("at the start", 0, 0.0), ("closest", closest, max(float(gaps[closest]), 0.0))):
            state = (motion.t[at], motion.q[at], motion.u[at])
            blocks.append(f"{run.path}, {title} (t = {state[0]:.6g} s)\n{report(system, params, *state, rho=rho)}")
        if motion.status != Status.OK:
            blocks.append(f"{run.path}: {Status(int(motion.status)).message}")
    return "\n\n".join(blocks)
