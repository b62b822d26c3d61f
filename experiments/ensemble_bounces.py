# %% [markdown]
# # A hundred thousand bouncing balls
#
# One ball, 500 steps, for 400 restitutions times 250 heights: how long does `dc.ensemble` take, and how much memory as
# the chunks go by? What comes back is the state at the end and the status of each lane, not the path: 100 000 paths of
# 500 positions and velocities are 0.8 GB. (With `store` they can be kept: they go to the file chunk by chunk.) The
# heights are compared with the closed form, bounce after bounce.
#
# Run it: `taskset -c 0 python experiments/ensemble_bounces.py`; with `--out FILE` into a file, from which an
# interrupted run goes on; or with `--smoke`. One CPU device on one core is best: the small operations of a step gain
# nothing from more threads, and two CPU devices in a process (`--devices 2`) hinder each other: five times the
# processor time. Two cores are two processes: `taskset -c 1 python experiments/ensemble_bounces.py --process 1/2 &` and
# `taskset -c 0 python experiments/ensemble_bounces.py --process 0/2`.

# %%
from __future__ import annotations

import argparse
import resource
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import diffcontact as dc

jax.config.update("jax_enable_x64", True)

STEPS, DURATION, GRAVITY = 500, 2.5, 9.81
BALL = dc.System(
    gap=lambda t, q, p: q,
    force=lambda t, q, u, p: jnp.full(1, -GRAVITY),
    mass=lambda q, p: jnp.ones(1),
    restitution=lambda p: p["restitution"],
)


def bounce(p):
    """Where a ball dropped from q0 is after 500 steps."""
    motion = dc.simulate(BALL, p, p["q0"], jnp.zeros(1), jnp.linspace(0.0, DURATION, STEPS + 1))
    return {"height": motion.q[-1, 0], "velocity": motion.u[-1, 0], "status": motion.status}


def grid(restitutions: int, heights: int) -> dict[str, np.ndarray]:
    """Every restitution with every height [m]."""
    e, q0 = np.meshgrid(np.linspace(0.5, 0.9, restitutions), np.linspace(0.5, 1.5, heights), indexing="ij")
    return {"restitution": e.ravel(), "q0": q0.reshape(-1, 1)}


def exact(e: np.ndarray, q0: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Height at the end [m], and the speed after the last impact before it [m/s]; both 0 after the last of all.

    The impacts are at t_0 + 2 t_0 (e + ... + e^k), t_0 = sqrt(2 q0 / g), with speeds g t_0 e^k before them.
    """
    fall = np.sqrt(2 * q0 / GRAVITY)
    speed, impact = GRAVITY * fall * e, fall
    while np.any(again := (impact + 2 * speed / GRAVITY <= DURATION) & (speed > 1e-12)):
        impact = np.where(again, impact + 2 * speed / GRAVITY, impact)
        speed = np.where(again, speed * e, speed)
    left = DURATION - impact
    speed = np.where(speed > 1e-12, speed, 0.0)
    return np.maximum(speed * left - GRAVITY * left**2 / 2, 0.0), speed


# %% [markdown]
# ## Memory as the chunks go by


# %%
class ResidentMemory:
    """The memory that the process holds [MB], noted ten times a second. (Its peak would be that of compilation.)"""

    def __enter__(self) -> ResidentMemory:
        self.noted, self._over = [self._now()], threading.Event()
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.noted.append(self._now())

    @staticmethod
    def _now() -> float:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6

    def __exit__(self, *exception) -> None:
        self._over.set()
        self._thread.join()
        self.noted.append(self._now())

    def quarters(self) -> np.ndarray:
        """(4,) the most in each quarter of the time."""
        return np.array([part.max() for part in np.array_split(np.resize(self.noted, max(4, len(self.noted))), 4)])


@dataclass(frozen=True)
class Outcome:
    """What was seen.

    Attributes:
        seconds: of the ensemble, without compilation.
        cpu: the same, of all cores together, whatever else they do meanwhile.
        memory: (4,) the most that was held in each quarter of the time [MB].
        errors: (n,) of the heights at the end [m].
        moving: (n,) bool, whether the ball still bounces at the end.
        outputs: of the ensemble.
    """

    seconds: float
    cpu: float
    memory: np.ndarray
    errors: np.ndarray
    moving: np.ndarray
    outputs: dict


def study(batch: dict, chunk: int | None, store: str | None) -> Outcome:
    """Run it, compiled beforehand, and compare with the closed form."""
    chunk = chunk or 256 * jax.device_count()
    dc.ensemble(bounce, jax.tree.map(lambda x: np.resize(x, (chunk, *x.shape[1:])), batch), chunk=chunk)
    begin, cpu = time.perf_counter(), time.process_time()
    with ResidentMemory() as memory:
        outputs = dc.ensemble(bounce, batch, chunk=chunk, progress=True, store=store)
    # Every process does as many chunks.
    seconds, cpu = time.perf_counter() - begin, (time.process_time() - cpu) * jax.process_count()
    height, speed = exact(batch["restitution"], batch["q0"][:, 0])
    # A bounce that is over within a step counts as rest.
    moving = speed > GRAVITY * DURATION / STEPS
    return Outcome(seconds, cpu, memory.quarters(), np.abs(outputs["height"] - height), moving, outputs)


def main(arguments: list[str] | None = None) -> Outcome:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="150 lanes, in chunks of 64")
    parser.add_argument("--devices", type=int, default=1, help="CPU devices")
    parser.add_argument("--process", default="0/1", metavar="K/N", help="the K-th of N processes on this machine")
    parser.add_argument("--chunk", type=int)
    parser.add_argument("--out", metavar="FILE")
    options = parser.parse_args(arguments)
    if not options.smoke:
        jax.config.update("jax_num_cpu_devices", options.devices)
    number, count = map(int, options.process.split("/"))
    if count > 1:
        jax.distributed.initialize("localhost:9911", count, number)
    batch, chunk = (grid(15, 10), 64) if options.smoke else (grid(400, 250), options.chunk)
    resumed = options.out is not None and Path(options.out).exists()
    found = study(batch, chunk, options.out)
    lanes = found.errors.size
    rate = "the rest of them" if resumed else f"{lanes * STEPS / found.cpu:.3g} steps per second of a core"
    print(f"{lanes} lanes of {STEPS} steps: {found.seconds:.1f} s, {found.cpu:.1f} s of all cores, {rate}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e6  # KiB on Linux
    quarters = ", ".join(f"{most:.0f}" for most in found.memory)
    print(f"memory in the quarters of that time: {quarters} MB; peak, compilation included: {peak:.0f} MB")
    for name, which in (("bounce", found.moving), ("rest", ~found.moving)):
        if which.any():
            print(f"{which.sum()} {name} at the end, the height at worst {found.errors[which].max():.1e} m off")
    return found


if __name__ == "__main__":
    main()
