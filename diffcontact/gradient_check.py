"""A derivative beside central differences of several widths, and what to think of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffcontact.arguments import real_arrays
from diffcontact.certificate import Certificate, certify
from diffcontact.differences import Differences
from diffcontact.messages import shown
from diffcontact.named import names
from diffcontact.schemes.scheme import Scheme
from diffcontact.sensitivity import sensitivity
from diffcontact.status import Status

# More parameters than this a verdict does not name.
_NAMED = 5


@dataclass(frozen=True)
class GradientCheck:
    """A derivative beside differences.

    Attributes:
        names: (p,) of the parameters' entries, as in "q0[1]".
        widths: (m,) relative half-widths of the central differences.
        by_parameter: (m, p) |difference - derivative| of the state at the end by each of them, relative to the larger
            one of the two, or to what rounding leaves of either.
        crossed: (m, p) whether a run that is displaced by one of them has other percussions (number or contacts) than
            the run itself.
        certificate: of the run.
        resolved: whether shorter steps leave the derivative as it is (`sensitivity`).
        tolerance: what counts as agreement, the cube root of the precision's eps: 6e-6 in double, 5e-3 in single.
            Differences of a smooth map come down to eps^(2/3) times its condition.
    """

    names: tuple[str, ...]
    widths: np.ndarray
    by_parameter: np.ndarray
    crossed: np.ndarray
    certificate: Certificate
    tolerance: float
    resolved: bool = True

    @property
    def errors(self) -> np.ndarray:
        """(m,) the largest by a parameter."""
        return np.max(self.by_parameter, axis=1)

    @property
    def changed(self) -> np.ndarray:
        """(m,) whether any displaced run has other percussions."""
        return np.any(self.crossed, axis=1)

    @property
    def apart(self) -> tuple[str, ...]:
        """The parameters by which no width agrees: differences of a smooth map do, between curvature and rounding."""
        best = np.min(self.by_parameter, axis=0)
        return tuple(name for name, error in zip(self.names, best, strict=True) if not error <= self.tolerance)

    @property
    def agrees(self) -> bool:
        """By each parameter some width agrees."""
        return not self.apart

    @property
    def verdict(self) -> str:
        """One sentence."""
        if self.agrees and not self.resolved:
            return "the derivative is that of these steps, but shorter ones change it: take smaller steps"
        if self.agrees:
            return "the derivative is right: differences agree with it"
        if not self.certificate.clear:
            return f"no derivative to be had here: {self.certificate.first()[0].message}"
        blind = {name for name, crossed in zip(self.names, np.all(self.crossed, axis=0), strict=True) if crossed}
        wrong = [name for name in self.apart if name not in blind]
        if not wrong:
            return "differences of every width cross a change of the percussions: nothing can be said; try smaller ones"
        which = ", ".join(wrong[:_NAMED]) + (", ..." if len(wrong) > _NAMED else "")
        return f"derivative and differences by {which} disagree, and the percussions do not say why: do not trust it"

    def __str__(self) -> str:
        lines = ["   width   difference - derivative   percussions"]
        for width, error, changed in zip(self.widths, self.errors, self.changed, strict=True):
            lines.append(f"{width:8.0e}   {error:23.2e}   {'others' if changed else 'the same'}")
        return "\n".join([*lines, str(self.certificate), f"verdict: {self.verdict}"])


def check_gradient(
    system: Any,
    params: dict,
    q0: Any,
    u0: Any,
    times: Any,
    *,
    wrt: Sequence[str],
    scheme: Scheme | None = None,
    substeps: int | str = "auto",
    tolerance: float | None = None,
    widths: Sequence[float] | None = None,
    percussions: int = 64,
) -> GradientCheck:
    """Compare the derivative of the state at the end with central differences of several widths, and say what to think.

    At the edge of what a parameter may be (a restitution or a friction of 0) differences are of one side. Each
    parameter is compared by itself, so that also a derivative is found that is zero and should not be, as behind
    `lax.stop_gradient`, rounding or integers.

    Args:
        system, params, q0, u0, times, wrt, scheme, substeps, tolerance: as in `sensitivity`, with EventTimed on a
            `System`. The differences are taken with the same steps.
        widths: half-widths, relative to each entry (absolute for entries that are zero); None: five from eps^0.2 to
            eps^0.45, where eps is the precision of the arrays: 7e-4 to 9e-8 in double, 4e-2 to 8e-4 in single.
        percussions: how many of a run's to compare.

    Returns:
        A `GradientCheck`; print it.

    Raises:
        ValueError: as `sensitivity`; for no names, and widths that are not positive numbers.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> ball = dc.systems.balls(1, 1, box=(0.0, jnp.inf))
        >>> params = dict(mass=jnp.ones(1), radius=jnp.zeros(1), gravity=-9.81 * jnp.ones(1), restitution=0.8)
        >>> run = [1.0], [0.0], jnp.linspace(0, 1, 11)
        >>> check = dc.check_gradient(ball, params, *run, wrt=["q0", "restitution"])
        >>> print(check.verdict)
        the derivative is right: differences agree with it
    """
    half_widths, wrt = _checked_widths(widths), names(params, wrt)
    if not wrt:
        raise ValueError("wrt: expected at least one name, got none")
    found = sensitivity(system, params, q0, u0, times, wrt=wrt, scheme=scheme, substeps=substeps, tolerance=tolerance)
    if found.trajectory.substeps is not None:
        substeps = int(found.trajectory.substeps)
    certificate = certify(system, params, q0, u0, times, scheme=scheme, substeps=substeps, percussions=percussions)
    run = found.trajectory
    beside = Differences.of(
        found, system, params, run.q[0], run.u[0], wrt, scheme, int(substeps), half_widths, percussions
    )
    happened = certificate.trajectory.percussions
    assert happened is not None
    fine = int(run.status) != Status.TOO_COARSE
    crossed = np.any(beside.contacts != np.asarray(happened.contact), axis=(2, 3))
    agreement = float(jnp.finfo(run.q.dtype).eps) ** (1 / 3)
    return GradientCheck(beside.names, beside.widths, beside.errors(), crossed, certificate, agreement, fine)


def _checked_widths(widths) -> list[float] | None:
    """The argument, as numbers where it is given."""
    if widths is None:
        return None
    (values,) = map(np.asarray, real_arrays(widths=widths))
    if values.ndim != 1 or values.size == 0 or not np.all((values > 0) & np.isfinite(values)):
        raise ValueError(f"widths={shown(widths)}: expected a list of positive numbers, or None")
    return np.asarray(widths, float).tolist()
