"""A simulated motion."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.core import Tracer

from diffcontact.drawing import Draw
from diffcontact.host.files import write_atomically
from diffcontact.report import framed, page
from diffcontact.report.figures import figure
from diffcontact.report.simulated import trajectory_report
from diffcontact.schemes.event_timed.events import ModeChange, Percussion

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Trajectory:
    """A simulated motion on the grid of times it was asked for.

    Attributes:
        t: (n + 1,) times [s].
        q: (n + 1, d) positions [m].
        u: (n + 1, d) velocities, right limits [m/s].
        impulse: (n, c) impulse of each contact over each interval [N s], percussions and persistent contact together,
            negative where a contact holds back;
            of a `ParticleLine`, the impulse of friction on each particle; of balls with a cell list, (n, count), what
            each ball takes part in.
        status: () 0 = fine, else the first `Status` that happened.
        percussions: where asked for, the first so many `Percussion`s in order, each field with a leading axis,
            `contact` -1 behind the last one; else None. Differentiable: the time of an impact, its impulse.
        error: () with substeps="auto", how much the positions [m] and velocities [m/s] changed at most when the steps
            were halved last; (n + 1, 2 d) from a scheme that estimates the errors of q and u on the way; else None.
        substeps: () with substeps="auto", into how many steps each interval was cut; else None.
        friction: (n, c, k) where contacts rub, the tangential impulse of each contact over each interval [N s], along
            the directions of the system's slip velocities; else None.
        changes: where asked for, the first so many `ModeChange`s in order, each field with a leading axis, `contact` -1
            behind the last one; else None. Differentiable: the time.
        adhesion: (n + 1, c) where contacts hold back (`System(adhesion=...)`), the impulse by which each still would
            [N s], 0 for one that does not; else None.
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
    changes: ModeChange | None = None
    adhesion: Array | None = None

    @property
    def density(self) -> Array:
        """(n, c) the reaction's mean over each interval, impulse / length [N]; a vmapped trajectory's too."""
        return self.impulse / jnp.diff(self.t)[..., None]

    def report(
        self, system: Any, params: Any, path: str | Path, *, draw: Draw | None = None, title: str = "Motion"
    ) -> None:
        """Write a page that plays this motion, with its charts; of an ensemble's lanes, a fan.

        One HTML file that needs no network. Impacts are at their own times where the trajectory lists them
        (`simulate(..., percussions=...)`), else where the arcs before and behind them meet.

        Args:
            system: what was simulated.
            params: as its functions were given, or for lanes that differ a function lane -> params.
            path: of the file.
            draw: `draw(t, q, params) -> shapes`, in place of the system's own picture; see `diffcontact.drawing`.
            title: of the page.

        Raises:
            ValueError: a `draw` that returns no shapes, or not always the same ones; lanes on different times.
            OSError: the file cannot be written.

        Example:
            >>> import jax.numpy as jnp, tempfile, diffcontact as dc
            >>> ball = dc.systems.balls(1, 2, box=(0.0, 1.0))
            >>> params = dict(mass=jnp.ones(1), radius=0.1 * jnp.ones(1), gravity=jnp.zeros(2), restitution=0.9)
            >>> motion = dc.simulate(ball, params, [0.5, 0.5], [1.0, 0.3], jnp.linspace(0.0, 2.0, 41), percussions=8)
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     motion.report(ball, params, Path(folder) / "motion.html")
        """
        write_atomically(Path(path), page(trajectory_report(self, system, params, draw, title)))

    def plot(self, system: Any = None, params: Any = None) -> Figure:
        """The coordinates against time, with a tick at each impact; of an ensemble's lanes, a fan.

        Args:
            system: what was simulated, which knows what its coordinates are called; None: by their number.
            params: as its functions were given, or for lanes that differ a function lane -> params.

        Returns:
            A figure of matplotlib of which pyplot knows nothing: `savefig` writes it, a notebook shows it.

        Raises:
            ImportError: matplotlib is absent.
        """
        return figure(trajectory_report(self, system, params), "Trajectory.plot")

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the coordinates against time, and as beads that move."""
        if any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(self)):
            return None
        return framed(page(trajectory_report(self)))
