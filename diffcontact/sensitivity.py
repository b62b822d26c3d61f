"""How a trajectory answers to each parameter and to where it starts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.core import Tracer
from jax.flatten_util import ravel_pytree
from numpy.typing import NDArray

from diffcontact.arguments import placed, real_arrays, require_near, require_tolerance
from diffcontact.certify.certificate import certifies, certify
from diffcontact.certify.differences import agreement, gather, moved_ends, names, put
from diffcontact.certify.singularity import Singularity
from diffcontact.numerics.batching import AT_ONCE
from diffcontact.numerics.compilation import jit_fast_compile
from diffcontact.schemes.scheme import Scheme
from diffcontact.simulate import HALVINGS, TOLERANCE, Trajectory, astride, change, halved, judged, simulate
from diffcontact.status import Status, first
from diffcontact.stepping import work

# A pass of reverse mode recomputes every step. It costs eight or nine passes of forward mode (EventTimed; one ball, and
# three in a box).
REVERSE_COST = 9
# With "auto": in all intervals together.
_MOST_STEPS = 65536


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sensitivity:
    """A trajectory and its derivatives.

    Attributes:
        trajectory: the motion itself.
        dq: name -> (n + 1, d, *shape of that parameter), dq / d parameter; a tree of those where the name stands for
            a tree of parameters.
        du: name -> the same of the velocities (right limits).
    """

    trajectory: Trajectory
    dq: dict[str, Any]
    du: dict[str, Any]

    @property
    def status(self) -> Array:
        """() that of the trajectory: 0 is right, else the first `Status` of motion or derivatives."""
        return self.trajectory.status

    def __str__(self) -> str:
        """The status, and a table of the derivatives at the last time: a row for each parameter element."""
        run = self.trajectory
        if isinstance(run.t, Tracer) or run.t.ndim != 1:
            return repr(self)
        coordinates = [f"{letter}[{i}]" for letter, x in (("q", run.q), ("u", run.u)) for i in range(x.shape[1])]
        cells = [("", *(f"d {coordinate}" for coordinate in coordinates))]
        for (path, dq), du in zip(jax.tree.leaves_with_path(self.dq), jax.tree.leaves(self.du), strict=True):
            name, ends = _name(path), np.concatenate([dq[-1], du[-1]])
            for index in np.ndindex(ends.shape[1:]):
                element = f"{name}[{', '.join(map(str, index))}]" if index else name
                cells.append((f"/ d {element}", *(f"{x:.6g}" for x in ends[:, *index])))
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in cells]
        status = Status(int(run.status))
        return "\n".join([f"at t = {run.t[-1]:.6g} s, status {int(status)}: {status.message}", *lines])


def _name(path: tuple[Any, ...]) -> str:
    """Of a leaf: its parameter, and where it is in a tree of those."""
    first, *rest = path
    return f"{first.key}{jax.tree_util.keystr(tuple(rest))}"


def sensitivity(
    system: Any,
    params: Any,
    q0: Any,
    u0: Any,
    times: Any,
    *,
    wrt: Sequence[str],
    scheme: Scheme | None = None,
    substeps: int | str | None = None,
    tolerance: float | None = None,
) -> Sensitivity:
    """Differentiate a trajectory by parameters and initial values, at all times.

    With `EventTimed` it converges to the derivative of the motion, through impacts (saltation) and changes between
    stick and slip; with the published schemes it is the derivative of the scheme, which does not (see there).

    Forward mode costs a pass for each of the p parameter entries, reverse mode one for each of the 2 d (n + 1) values
    of the trajectory; the cheaper is taken.

    Args:
        system, params, q0, u0, times, scheme: as in `simulate`.
        wrt: names in `params`, and "q0", "u0"; for params that are no dict "params" are all of them.
        substeps: each interval is cut into so many equal steps; "auto", outside transformations: into as many as it
            takes until halving them changes motion and derivatives by less than `tolerance`. None is "auto" there, and
            1 inside transformations.
        tolerance: of "auto", for every position and velocity at the times asked for [m, m/s], and for every derivative
            relative to the largest one by the same parameter. None is 1e-6, in single precision 1e-3. Steps of a given
            number take none.

    Returns:
        A `Sensitivity`. With "auto" the trajectory's `error` is the larger one of both changes. The status is
        TOO_COARSE where it stays above the tolerance with the finest steps (1/16384 of an interval, or some 65 000 in
        all). Where a derivative is not finite and nothing else was wrong, the status is NO_DERIVATIVE.

    Raises:
        ValueError: for names that are not there, a tolerance that is no positive number, and as `simulate`.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> balls = dc.systems.balls(2, 1)
        >>> params = dict(mass=jnp.ones(2), radius=0.1 * jnp.ones(2), gravity=jnp.zeros(1), restitution=1.0)
        >>> s = dc.sensitivity(balls, params, [0.0, 0.52], [1.0, 0.0], [0.0, 1.0], wrt=["q0", "restitution"])
        >>> print((s.dq["q0"][-1] + 0.0).round(3).tolist(), s.dq["restitution"].shape)  # they exchange places
        [[0.0, 1.0], [1.0, 0.0]] (2, 2)
        >>> print(dc.sensitivity(balls, params, [0.0, 0.52], [1.0, 0.0], [0.0, 1.0], wrt=["restitution"]))
        at t = 1 s, status 0: fine
                         d q[0]  d q[1]  d u[0]  d u[1]
        / d restitution   -0.34    0.34    -0.5     0.5
    """
    wrt = names(params, wrt)
    given = times
    q0, u0, times = real_arrays(q0=q0, u0=u0, times=times)
    require_near("times", given, times.dtype)
    inside = any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves((params, q0, u0, times)))

    def run(substeps):
        trajectory = simulate(system, params, q0, u0, times, scheme=scheme, substeps=substeps)
        at = params, trajectory.q[0], trajectory.u[0]
        if isinstance(substeps, Array) and _forward(gather(*at, wrt), trajectory.q.size + trajectory.u.size):
            dq, du = _counted_derivatives(system, *at, trajectory.t, wrt, scheme, substeps)
        else:
            dq, du = _derivatives(system, *at, trajectory.t, wrt, scheme, int(substeps))
        return Sensitivity(replace(trajectory, status=_defined(trajectory.status, dq, du)), dq, du)

    substeps = (1 if inside else "auto") if substeps is None else substeps
    if not isinstance(substeps, str):
        if tolerance is not None:
            raise ValueError(f'tolerance={tolerance!r}: expected substeps="auto" with it, got substeps={substeps!r}')
        found = run(substeps)
        at = system, params, found.trajectory, wrt, scheme, int(substeps)
        return found if inside or not certifies(system, scheme) else _unless_at_a_tie(found, *at)
    if tolerance is not None:
        require_tolerance(tolerance)
    if inside or substeps != "auto":
        simulate(system, params, q0, u0, times, scheme=scheme, substeps=substeps)  # says what is wrong with it
    if tolerance is None:
        tolerance = max(TOLERANCE, 1e4 * float(jnp.finfo(q0.dtype).eps))
    number, found, error = halved(
        lambda number: run(placed(number)),
        lambda one, other: _change(one, other, gather(params, q0, u0, wrt)),
        lambda found: found.trajectory.status,
        tolerance,
        min(HALVINGS, max(1, int(math.log2(_MOST_STEPS / times.size)))),
    )
    trajectory = replace(judged(found.trajectory, error, tolerance), substeps=placed(number))
    found = replace(found, trajectory=trajectory)
    if not certifies(system, scheme):
        return found
    return _unless_at_a_tie(found, system, params, trajectory, wrt, scheme, number)


# The relative change of velocities within which a certificate sees a tie, in units of the precision's root.
_TIE = 100


def _unless_at_a_tie(found: Sensitivity, system, params, run: Trajectory, wrt, scheme, substeps: int) -> Sensitivity:
    """The same, with the status NO_DERIVATIVE where one-sided derivatives differ."""
    if int(run.status) != Status.OK or not wrt:
        return found
    eps = float(jnp.finfo(run.q.dtype).eps)
    at = params, run.q[0], run.u[0]
    seen = certify(system, *at, run.t, scheme=scheme, substeps=substeps, change=_TIE * eps**0.5)
    met = {finding.singularity for finding in seen.findings}
    if not any(singularity.one_sided for singularity in met):
        wrt = _of_restitution(system, *at, wrt) if Singularity.STAYED in met else []
    if not wrt:
        return found
    if _largest_error(found, system, *at, wrt, scheme, substeps) <= agreement(eps):
        return found
    status = placed(Status.NO_DERIVATIVE, run.status.dtype)
    return replace(found, trajectory=replace(run, status=status))


def _largest_error(found: Sensitivity, system, params, q0, u0, wrt, scheme, substeps: int) -> float:
    """Find the largest error of a derivative at the end, against the central differences whose width is best for it.

    At the edge of the range of a parameter (e = 0) differences are of one side.
    """
    start = gather(params, q0, u0, wrt)
    at = np.asarray(ravel_pytree(start)[0])
    eps = float(jnp.finfo(at.dtype).eps)
    sizes = np.where(at == 0, 1.0, np.abs(at))
    # Half-widths between rounding and curvature.
    steps = eps ** np.linspace(0.2, 0.45, 5)[:, None] * sizes
    moves = steps[:, :, None, None] * np.array([1.0, -1.0])[:, None] * np.eye(at.size)[:, None, :]
    run = found.trajectory
    moved = moved_ends(system, params, q0, u0, start, moves.reshape(-1, at.size), run.t, scheme, substeps)
    ends, status = moved[:2]
    outside = np.isin(status, (Status.BAD_INPUT, Status.BAD_RESTITUTION)).reshape(*steps.shape, 2)
    beyond = outside & ~outside[:, :, ::-1]
    end = np.concatenate([run.q[-1], run.u[-1]])
    ends = np.where(beyond[..., None], end, ends.reshape(*steps.shape, 2, -1))
    differences = (ends[:, :, 0] - ends[:, :, 1]) / (steps * np.where(np.any(beyond, axis=2), 1, 2))[:, :, None]
    extent = float(np.linalg.norm(np.concatenate([np.max(np.abs(np.asarray(x)), axis=0) for x in (run.q, run.u)])))
    errors = derivative_errors(_at_the_end(found, sorted(start)), differences, sizes, extent, eps)
    return float(np.max(np.min(errors, axis=0), initial=0.0))


def derivative_errors(derivative: NDArray, differences: NDArray, sizes: NDArray, extent: float, eps: float) -> NDArray:
    """Compare a derivative with differences, parameter by parameter, each by its own size.

    Differences are right to eps^(2/3) of the motion and of its response to the parameters: what is below eps^(1/3) of
    both counts as if it were as large as that. A derivative of zero where the differences are not zero has the error 1.

    Args:
        derivative: (p, s) of s numbers by p parameters; differences: (m, p, s) the same by differences of m widths.
        sizes: (p,) of the parameters; extent: of the motion; eps: of the precision.

    Returns:
        (m, p) |difference - derivative| relative to the larger one; infinite where a difference is not finite.
    """
    responses = np.linalg.norm(derivative, axis=1) * sizes
    rounded = eps ** (1 / 3) * max(extent, np.max(responses, initial=0.0))
    larger = np.maximum(np.maximum(responses, np.linalg.norm(differences, axis=2) * sizes), rounded)
    apart = np.linalg.norm(differences - derivative, axis=2) * sizes
    # Where all is zero, nothing moves at all.
    errors = np.divide(apart, larger, out=np.zeros_like(apart), where=(larger > 0) & (larger < np.inf))
    return np.where(np.isfinite(apart), errors, np.inf)


def _at_the_end(found: Sensitivity, wrt: Sequence[str]) -> NDArray:
    """(p, n + d) derivatives of q and u at the last time by each entry, in the order of `ravel_pytree`."""
    pairs = [pair for name in wrt for pair in zip(*map(jax.tree.leaves, (found.dq[name], found.du[name])), strict=True)]
    columns = [np.concatenate([x[-1], v[-1]]).reshape(x.shape[1] + v.shape[1], -1) for x, v in pairs]
    return np.concatenate(columns, axis=1).T


def _of_restitution(system, params, q0, u0, wrt) -> list[str]:
    """Those of the names that a restitution may depend on."""
    if system.speed_dependent:
        return wrt

    def restitution(start):
        return system.coefficients(put(params, q0, u0, start)[0], q0)

    slopes = jax.jacobian(restitution)(gather(params, q0, u0, wrt))
    return [name for name in wrt if any(jnp.any(slope != 0) for slope in jax.tree.leaves(slopes[name]))]


def _change(one: Sensitivity, other: Sensitivity, values: dict[str, Any]) -> float:
    """Find the larger of the changes of the motion and of its derivatives, relative to the largest by one parameter."""
    counts = ~astride(one.trajectory, other.trajectory)
    largest = float(change(one.trajectory, other.trajectory))
    for state, before, after in (
        (other.trajectory.q, one.dq, other.dq),
        (other.trajectory.u, one.du, other.du),
    ):
        extent, rounding = float(jnp.max(jnp.abs(state))), float(jnp.finfo(state.dtype).eps) ** (1 / 3)
        for a, b, p in zip(*map(jax.tree.leaves, (before, after, values)), strict=True):
            if p.size:
                # What cancels, like the mass of a body in free fall, leaves a derivative of pure rounding.
                least = rounding * extent / max(float(jnp.max(jnp.abs(p))), 1.0)
                moved = float(np.max(np.abs(np.asarray(a) - np.asarray(b))[counts]))
                size = max(float(jnp.max(jnp.abs(b))), least)
                largest = max(largest, moved / size if size > 0 else 0.0)
    return largest if np.isfinite(largest) else np.inf


def _derived(system, params, q0, u0, times, wrt, scheme, substeps):
    """(dq, du), each a dict."""
    start = gather(params, q0, u0, wrt)
    at, unravel = ravel_pytree(start)

    def states(values):
        run = simulate(system, *put(params, q0, u0, unravel(values)), times, scheme=scheme, substeps=substeps)
        return jnp.concatenate([run.q, run.u], axis=1)

    shape = (times.size, q0.size + u0.size)
    forward = _forward(start, math.prod(shape))
    jacobian = jnp.moveaxis(_columns(states, at), 0, -1) if forward else _rows(states, at)
    per_name = jax.vmap(unravel)(jacobian.reshape(-1, at.size)) if wrt else {}
    per_name = jax.tree.map(lambda x, value: x.reshape(*shape, *value.shape), per_name, start)
    return jax.tree.map(lambda x: x[:, : q0.size], per_name), jax.tree.map(lambda x: x[:, q0.size :], per_name)


_derivatives = jit_fast_compile(_derived, work, static=("system", "wrt", "scheme", "substeps"))
# One compilation for all numbers of substeps; forward mode only.
_counted_derivatives = jit_fast_compile(_derived, work, static=("system", "wrt", "scheme"))


@jit_fast_compile
def _defined(status: Array, dq: Any, du: Any) -> Array:
    """The status, where it is OK that of the derivatives."""
    finite = jnp.array([jnp.all(jnp.isfinite(x)) for x in jax.tree.leaves((dq, du))])
    return first(status, jnp.where(jnp.all(finite), Status.OK, Status.NO_DERIVATIVE).astype(status.dtype))


def _forward(start: dict[str, Any], values: int) -> bool:
    """Whether forward mode is the cheaper one, for derivatives of so many values."""
    return sum(leaf.size for leaf in jax.tree.leaves(start)) <= REVERSE_COST * values


def _columns(function, at: Array) -> Array:
    """(p, ...) one pass of forward mode for each entry of `at`."""
    return lax.map(lambda tangent: jax.jvp(function, (at,), (tangent,))[1], _basis(at), batch_size=AT_ONCE)


def _rows(function, at: Array) -> Array:
    """(m, p) one pass of reverse mode for each entry of the result."""
    value, pullback = jax.vjp(function, at)
    return lax.map(
        lambda cotangent: pullback(cotangent.reshape(value.shape))[0], _basis(value.ravel()), batch_size=AT_ONCE
    )


def _basis(x: Array) -> Array:
    return jnp.eye(x.size, dtype=x.dtype)
