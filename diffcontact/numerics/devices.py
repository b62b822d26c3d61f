"""Choose how many lanes a device computes side by side, and how a loop is written for it.

On a CPU a batch is as slow as its slowest lane, and its arrays should stay in the cache. An accelerator wants to be
filled: on an H200 a step of a ball's fit takes 1.5 times as long in 65 536 copies as in one, and ten spheres take most
steps per second in some 16 384 copies.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax


@dataclass(frozen=True)
class SideBySide:
    """Hold batch sizes of a platform.

    Args:
        ensemble: lanes of an ensemble, on each device.
        candidates: experiments that are compared.
        bench: copies in the largest batch that `doctor --bench` measures.
        apart: branch around the only step of an interval: half the time on a CPU, a wait on an accelerator.
        factored: work of a batch of factorizations from which LAPACK gets it in parts (`linear`); None: never.
        panel: entries of a matrix up to which LAPACK factors it on the calling thread alone; None: any.
    """

    ensemble: int
    candidates: int
    bench: int
    apart: bool
    factored: int | None
    panel: int | None


# From a work of 200 000, number of entries times rows, jaxlib deals factorizations out to threads.
_ON_CPU = SideBySide(
    ensemble=256,
    candidates=16,
    bench=1024,
    apart=True,
    factored=200_000 if jax.__version_info__ < (0, 11) else None,
    panel=16_384,
)
# A chunk of an ensemble has to fit into the memory of smaller devices too.
_ELSEWHERE = SideBySide(ensemble=16_384, candidates=1024, bench=65_536, apart=False, factored=None, panel=None)


def side_by_side(platform: str | None = None) -> SideBySide:
    """Choose the batch sizes of a platform; None: that on which JAX computes."""
    return _ON_CPU if (platform or jax.default_backend()) == "cpu" else _ELSEWHERE
