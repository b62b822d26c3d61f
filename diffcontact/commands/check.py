"""`python -m diffcontact check`: hypotheses of the theorems along runs."""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np

from diffcontact.arguments import placed
from diffcontact.commands.options import add_scene
from diffcontact.commands.outcome import ExitCode, about
from diffcontact.host.messages import say
from diffcontact.host.progress import stage
from diffcontact.hypotheses import report
from diffcontact.scene.study import Study, accuracy, read_study
from diffcontact.simulate import simulate
from diffcontact.status import Status
from diffcontact.system import System

HELP = "check the hypotheses of the convergence theorems on a scene's runs"
EXAMPLE = "check out/demo/carts.toml"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """SCENE [--data FILE ...]"""
    add_scene(parser)


def run(options: argparse.Namespace) -> ExitCode:
    """Print the hypotheses along the scene's runs."""
    study = read_study(options.scene, options.data)
    with about(study.scene.file), stage("hypotheses"):
        checked = check(study)
    say(*checked.splitlines())
    return ExitCode.DONE


def check(study: Study) -> str:
    """Check hypotheses at each run's start and closest approach, where no sample falls on an impact."""
    ready, system, blocks = study.scene.ready, study.scene.ready.system, []
    for i, run in enumerate(study.runs):
        params = {name: placed(value) for name, value in study.params(i).items()}
        q0, u0 = ready.initial(params)
        motion = jax.device_get(simulate(system, params, q0, u0, run.times, **accuracy(study.scene)))
        places = [("from the start", 0, {"duration": float(run.times[-1] - run.times[0])})]
        if isinstance(system, System):
            smallest = jax.jit(jax.vmap(lambda t, q, p=params: jnp.min(system.gap(t, q, p))))
            gaps = np.asarray(smallest(motion.t, motion.q))
            closest = int(np.argmin(gaps))
            places = [("at the start", 0, {"rho": 0.0}), ("closest", closest, {"rho": max(float(gaps[closest]), 0.0)})]
        for title, at, options in places:
            found = report(system, params, motion.t[at], motion.q[at], motion.u[at], **options)
            blocks.append(f"{run.label}, {title} (t = {motion.t[at]:.6g} {ready.time})\n{found}")
        if motion.status != Status.OK:
            blocks.append(f"{run.label}: {Status(int(motion.status)).message}")
    return "\n\n".join(blocks)
