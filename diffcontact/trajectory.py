"""A simulated motion."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from diffcontact.schemes.event_timed.impacts import Percussion


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["t", "q", "u", "impulse", "status", "percussions", "error", "substeps", "friction"],
    meta_fields=[],
)
@dataclass(frozen=True)
class Trajectory:
    """A simulated motion on the grid of times it was asked for.

    Attributes:
        t: (n + 1,) times [s].
        q: (n + 1, d) positions [m].
        u: (n + 1, d) velocities, right limits [m/s].
        impulse: (n, c) impulse of each contact over each interval [N s], percussions and persistent contact together;
            of a `ParticleLine`, the impulse of friction on each particle; of balls with a cell list, (n, count), what
            each ball takes part in.
        status: () 0 = fine, else the first `Status` that happened.
        percussions: where asked for, the first so many `Percussion`s in order, each field with a leading axis,
            `contact` -1 behind the last one; else None. Differentiable: the time of an impact, its impulse.
        error: () with substeps="auto", how much the positions [m] and velocities [m/s] changed at most when the steps
            were halved last; else None.
        substeps: () with substeps="auto", into how many steps each interval was cut; else None.
        friction: (n, c, k) where contacts rub, the tangential impulse of each contact over each interval [N s], along
            the directions of the system's slip velocities; else None.
    """

    t: Array
    q: Array
    u: Array
    impulse: Array
    status: Array
    percussions: Percussion | None = None
    error: Array | None = None
    substeps: Array | None = None
    friction: Array | None = None

    @property
    def density(self) -> Array:
        """(n, c) the reaction's mean over each interval, impulse / length [N]; a vmapped trajectory's too."""
        return self.impulse / jnp.diff(self.t)[..., None]
