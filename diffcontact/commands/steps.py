"""How long the steps of a scene's motions are: so short that shorter ones do not show in its noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from diffcontact.refinement import OF_THE_STEP, change, judged
from diffcontact.scene.document import Scene
from diffcontact.status import Status
from diffcontact.trajectory import Trajectory

# Of the motion, where the noise is not one of lengths.
_TOLERANCE = 1e-6
_PART_OF_NOISE = 0.1
# Of an ensemble, so many lanes tell how many steps all of them take: no more than that in all.
_ASKED, _MOST_STEPS = 9, 2**16


def accuracy(document: Scene) -> dict[str, Any]:
    """What `simulate` is told of a scene's steps: their number, or what shorter ones may change."""
    if isinstance(document.substeps, str):
        return {"substeps": document.substeps, "tolerance": tolerance(document)}
    return {"substeps": document.substeps}


def tolerance(document: Scene) -> float:
    """What shorter steps may change of a position or a velocity, in the system's units."""
    return _TOLERANCE if document.preparation.hears else _PART_OF_NOISE * document.noise


def enough(
    run: Callable[[Any, jax.Array], Trajectory], batch: dict[str, NDArray], intervals: int, allowed: float
) -> int:
    """A number of substeps with which lanes that are spread over an ensemble change by no more than is allowed.

    Args:
        run: the parameters of a lane and the number of substeps () -> its motion.
        batch: (n, ...) the parameters that lanes differ in.
        intervals: between the times of each.
        allowed: the largest change, when the steps are halved, of any position or velocity.

    Returns:
        An even number: half of it is what it was compared with. Lanes that no number mends do not count, where there
        are others.
    """
    lanes = next(iter(batch.values())).shape[0]
    some = np.unique(np.linspace(0, lanes - 1, _ASKED).round().astype(int))
    asked = {name: jnp.asarray(values[some]) for name, values in batch.items()}
    moved, changed = jax.jit(jax.vmap(run, (0, None))), jax.jit(jax.vmap(change))
    number, coarse = 1, moved(asked, jnp.array(1))
    needed = np.where(np.isin(coarse.status, OF_THE_STEP), 0, 2)
    while number == 1 or 2 * number * intervals <= _MOST_STEPS:
        number *= 2
        fine = moved(asked, jnp.array(number))
        right = (np.asarray(changed(coarse, fine)) <= allowed) & (np.asarray(fine.status) == Status.OK)
        needed[(needed == 0) & right] = number
        if np.all(needed):
            break
        coarse = fine
    return int(needed.max()) or number


def halved(run: Callable[[jax.Array], Trajectory], number: int, allowed: float) -> Trajectory:
    """The motion with a number of substeps, TOO_COARSE where half as many change it by more than is allowed.

    Pure: jit and vmap.
    """
    both = jax.lax.map(run, jnp.array([number // 2, number]))
    coarse, fine = jax.tree.map(lambda x: x[0], both), jax.tree.map(lambda x: x[1], both)
    return judged(fine, change(coarse, fine), allowed)
