"""Mechanisms from model files in scenes: the kind of system, and columns by the names of joints, bodies and sites."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from numpy.typing import NDArray
from scipy.optimize import least_squares

from diffcontact.host.messages import did_you_mean, shown
from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import KINDS, RESTITUTION_OF, RUBBING_LAW, Quantity, ReadySystem
from diffcontact.scene.preparation.coordinates import PREPARATIONS, Preparation, PreparedRun, followed, starts
from diffcontact.system import normalised
from diffcontact.system import rate as rate_of
from diffcontact.systems import mechanism
from diffcontact.systems.mechanism import Mechanism
from diffcontact.systems.observed import Observed

# The parts of the way from the file's configuration, so that Newton's steps find the next one in a turn by 2 pi.
_PARTS = 32
# One number for all, unless `each` names them.
_SHARED = ("friction", "restitution", "stop_restitution")
# Parameter -> (unit of what turns, unit of what slides), what is possible, and what it is.
_TURNS: Mapping[str, tuple[str, str, float, str]] = {
    "armature": ("kg*m^2", "kg", 0.0, "of the rotor of each velocity"),
    "damping": ("N*m*s", "N*s/m", 0.0, "of each velocity"),
    "stiffness": ("N*m", "N/m", 0.0, "of the spring of each joint"),
    "springref": ("rad", "m", -np.inf, "where its spring is slack"),
    "range": ("rad", "m", -np.inf, "of each joint with stops"),
    "frictionloss": ("N*m", "N", 0.0, "dry friction of joints that have it"),
}
_OTHERS: Mapping[str, Quantity] = {
    "gravity": Quantity("m/s^2", what="an acceleration along each axis"),
    "mass": Quantity("kg", low=0.0, positive=True, what="of each body that moves"),
    "inertia": Quantity("kg*m^2", low=0.0, what="of each body about its principal axes"),
    "centre": Quantity("m", what="of mass of each body, in its frame"),
    "friction": Quantity(low=0.0, what="Coulomb's coefficient of the pairs of geoms"),
    "restitution": Quantity(low=0.0, high=1.0, what="of the pairs of geoms; 0 where it is left out"),
    "stop_restitution": Quantity(low=0.0, high=1.0, what="of the stops of joints; 0 where it is left out"),
    "control": Quantity(what="of each actuator"),
}

# A mechanism's contacts are not compliant.
_RESTITUTION_OF = {name: text for name, text in RESTITUTION_OF.items() if name != "compliant"}


@KINDS.add(
    "mechanism",
    model="an MJCF or URDF file, relative to the scene, or its text; needs the extra `mujoco`",
    contacts="[[geom, geom], ...]: only these pairs touch; all that the file has by default",
    ignore="kinds of what is not supported that are left out, as the refusal names them",
    each="of friction, restitution and stop_restitution those with a number for each pair or joint, not one for all",
    independent="under constraints of equality the joints whose velocities give all others",
    impact_law=f"what restitution is a ratio of: {', '.join(map(repr, _RESTITUTION_OF))}",
)
def ready_mechanism(options: Table) -> ReadySystem:
    """A mechanism of a model file; see `systems.mechanism`. Parameters that are left out are those of the file.

    `q0` and `u0` have an entry for each independent velocity, all but under constraints of equality: angles and ways of
    hinges and slides, places of free joints, and of those and of ball joints the rotation vector from the orientation
    in the file.
    """
    options.expect(*KINDS["mechanism"].keys)
    model = options.file_name("model")
    path = model if "<" in model else Path(options.file).parent / model
    pairs = options.get("contacts", list, "a list of pairs of names", None)
    ignored = options.names("ignore") if "ignore" in options else ()
    each = options.names("each") if "each" in options else ()
    if unknown := set(each) - set(_SHARED):
        raise options.fail("each", f"{shown(min(unknown))}, expected some of {', '.join(_SHARED)}")
    kept = options.names("independent") if "independent" in options else None
    impact_law = options.choice("impact_law", _RESTITUTION_OF, "newton")
    try:
        system = mechanism(path, contacts=pairs, independent=kept, ignore=ignored, impact_law=impact_law)
    except (ValueError, TypeError, ImportError) as error:
        raise options.fail("model", str(error)) from None
    law = RUBBING_LAW.format(RESTITUTION_OF[impact_law])
    return ReadySystem(system, _quantities(system, each), law=law, initial=_Start.of(system))


def _quantities(system: Mechanism, each: tuple[str, ...]) -> dict[str, Quantity]:
    """Those of the parameters that the model has."""
    joints, found = system.model.tree, {}
    for name, value in system.defaults.items():
        if not value.size:
            continue
        if name in _TURNS:
            turning, sliding, low, what = _TURNS[name]
            unit = _unit(joints.dof_turns, turning, sliding)
            quantity = Quantity(unit, low=low, what=what if unit != "1" else f"{what}; in SI units of its joint")
        else:
            quantity = _OTHERS[name]
        shape = () if name in _SHARED and name not in each else value.shape
        found[name] = replace(quantity, shape=shape, optional=True)
    turns = joints.dof_turns[system.model.independent]
    size = (turns.size,)
    return found | {
        "q0": Quantity(_unit(turns, "rad", "m"), size, what="coordinates at the first time"),
        "u0": Quantity(_unit(turns, "rad/s", "m/s"), size, what="velocities at the first time"),
    }


def _unit(turns: NDArray, turning: str, sliding: str) -> str:
    return turning if turns.all() else "1" if turns.any() else sliding


@dataclass(frozen=True, eq=False)
class _Start:
    """The state at the first time: (params) -> q0 (n,), u0 (m,)."""

    system: Mechanism
    file: NDArray  # (m,) the coordinates of the file

    @classmethod
    def of(cls, system: Mechanism) -> _Start:
        joints = system.model.tree
        every = np.zeros(joints.velocities)
        every[joints.source[joints.plain]] = system.q0[joints.plain]
        return cls(system, every[system.model.independent])

    def __call__(self, params: Mapping[str, Any]) -> tuple[Any, Any]:
        return self.at(jnp.asarray(params["q0"])), params["u0"]

    def at(self, x: Any) -> Any:
        """(n,) the configuration of coordinates x (m,): where constraints lead to from that of the file."""
        model, joints = self.system.model, self.system.model.tree
        parts = _PARTS if model.equalities.rows.size else 1
        step = jnp.zeros(joints.velocities, x.dtype).at[model.independent].set(x - jnp.asarray(self.file, x.dtype))

        def moved(_, q):
            return normalised(self.system, {}, joints.advance(q, step / parts, 1.0))

        start = jnp.asarray(self.system.q0, x.dtype)
        return moved(0, start) if parts == 1 else lax.fori_loop(0, parts, moved, start)


@PREPARATIONS.add(
    "named",
    columns='{ hinge = "angle", tip = ["x", "y", "z"] }: columns by the name of a hinge, slide, body or site; "" where '
    "an axis was not measured",
    unit='of lengths, "m" by default',
    angle_unit='of hinges: "rad" (default), "deg"',
    angle_noise="{ value, unit }: one standard deviation of an angle, where lengths are measured, too",
    first_samples="straight lines through so many (10) give the starting positions and velocities",
)
def named(table: Table, ready: ReadySystem) -> Preparation:
    """Angles and ways of joints, and places of bodies and sites of a mechanism.

    Straight lines through the first samples give where these are at first, and how fast. Starting coordinates and
    velocities are those that agree with that best, and nearest to the file's where they are not determined.
    """
    system = ready.system
    if not isinstance(system, Mechanism):
        raise table.fail("kind", "of a system without names, expected a mechanism")
    observed, columns = _columns(table, system)
    lengths = sum(not turns for _, turns in columns)
    names = tuple(name for name, _ in columns)
    first = table.integer("first_samples", default=10, least=2)
    scale, angle_scale, sigma = table.factor("unit", "m"), table.factor("angle_unit", "rad"), 0.0
    mixed = 0 < lengths < len(columns)
    if mixed:
        sigma = table.quantity("angle_noise", "rad")
    elif "angle_noise" in table:
        raise table.fail("angle_noise", "of lengths or angles alone, expected that of [data]")
    initial = _Start.of(system)

    def runs(times: NDArray, recorded: Mapping[str, NDArray]) -> Iterable[PreparedRun]:
        values = np.stack(
            [followed(angle_scale * recorded[name]) if turns else scale * recorded[name] for name, turns in columns], 1
        )
        q0, u0 = _first_state(system, initial, observed, *starts(times, values, names, first, 1))
        return [PreparedRun(times, values, {"q0": q0, "u0": u0})]

    return Preparation(
        runs=runs,
        columns=names,
        channels=names,
        description=f"columns are {', '.join(observed.channels)} of the model",
        angles=len(columns) - lengths if mixed else 0,
        angle_noise=sigma,
        observe=observed,
        length="m" if lengths else "rad",
    )


def _columns(table: Table, system: Mechanism) -> tuple[Observed, list[tuple[str, bool]]]:
    """What is observed, lengths first, and for each channel its column and whether it is an angle."""
    given = table.table("columns")
    kinds = dict(zip(system.names["joint"], system.model.tree.dof_turns[system.model.tree.velocity[1:]], strict=True))
    known = system.observed
    for name in given.data:
        if name not in known:
            raise given.fail(name, f"no joint, body or site of this name; {did_you_mean(name, known)}")
    if not given.data:
        raise table.fail("columns", f"none, expected some of {', '.join(known)}")
    names = sorted(given.data, key=lambda name: known[name] == 1 and bool(kinds[name]))
    written: list[tuple[str, bool]] = []
    for name in names:
        if known[name] == 1:
            written.append((given.text(name), bool(kinds[name])))
            continue
        own = given.get(name, list, "a list of columns for x, y and z")
        if len(own) != 3 or not all(isinstance(column, str) for column in own) or not any(own):
            raise given.fail(name, f'{shown(own)}, expected the names of three columns, "" where none was measured')
        written += [(column, False) for column in own]
    observed, kept = system.observe(*names), [i for i, (column, _) in enumerate(written) if column]
    observed = replace(observed, channels=tuple(observed.channels[i] for i in kept), order=observed.order[kept])
    return observed, [written[i] for i in kept]


def _first_state(
    system: Mechanism, initial: _Start, observed: Observed, at: NDArray, rate: NDArray
) -> tuple[NDArray, NDArray]:
    """(m,) coordinates and velocities that are observed as these values (k,), which change at these rates (k,)."""

    def place(x):
        return observed.at(initial.at(x))

    def speed(x, u):
        q = initial.at(x)
        return jax.jvp(observed.at, (q,), (rate_of(system, {}, q, u),))[1]

    values, slope = jax.jit(place), jax.jit(jax.jacfwd(place))

    def off(x):
        return np.asarray(values(x), float) - at

    def jac(x):
        return np.asarray(slope(x), float)

    jacobian: Any = jac
    # The file may be at a dead point, where what is observed does not change at first: a little aside it does.
    aside = 0.05 * np.cos(np.arange(initial.file.size))
    near, other = (least_squares(off, initial.file + by, jacobian, x_scale="jac") for by in (0, aside))
    found = (other if other.cost < 0.99 * near.cost else near).x
    J = np.asarray(jax.jit(jax.jacfwd(partial(speed, found)))(jnp.zeros_like(found)), float)
    return found, np.linalg.lstsq(J, rate, rcond=1e-6)[0]
