"""Read model files, MJCF or URDF, by MuJoCo's parser: joints, bodies, geoms and numbers, and refuse the rest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from diffcontact.systems import geoms
from diffcontact.systems.geoms import Geom
from diffcontact.systems.tendons import Lengths
from diffcontact.systems.tree import BALL, FREE, SLIDE, Body, Equalities, Place, Tree, coordinates, matrices

# Unsupported parts of a file, which `ignore` leaves out.
WAIVED = {
    "equality": "constraints of equality of tendons along sites and of deformable bodies",
    "tendon": "dry friction and inertia of tendons, and forces of those that wrap about geoms",
    "actuator": "actuators that are not motors or servos of one hinge, slide, tendon or site",
    "stiffness": "springs that are not linear, and springs of free joints",
    "damping": "damping that is not linear",
    "plasticity": "springs that yield",
    "condim": "friction against rolling and pivoting",
    "friction": "friction that depends on the direction",
    "contact": "contacts of pairs of geoms that are not covered",
    "fluid": "forces of the medium",
    "flex": "deformable bodies",
    "mocap": "bodies that are moved from outside",
    "plugin": "plugins",
    "flag": "flags that change the physics",
}

# Sensors that tell one number.
SINGLE = ("jointpos", "jointvel", "tendonpos", "tendonvel", "touch")
# Unsupported forces of a tendon; a tendon without forces is there for sensors.
_TENDONS = ("stiffnesspoly", "dampingpoly", "frictionloss", "armature")
# Number of refused parts, of each kind, or of pairs that an error names.
NAMED = 8


@dataclass(frozen=True, eq=False)
class Limits:
    """Hold joints with stops, then tendons with limits.

    Attributes:
        names: of the joints and tendons (s,).
        position: (j,) the entry of each joint in q, the first of a ball's quaternion.
        ball: (s,) whether it is a ball joint, whose angle has one stop.
        lengths: of the tendons (s - j,).
        margin: (s,) distances at which stops act [rad or m].
    """

    names: tuple[str, ...]
    position: np.ndarray
    ball: np.ndarray
    lengths: Lengths
    margin: np.ndarray


@dataclass(frozen=True, eq=False)
class Sensor:
    """Hold a sensor of the file.

    Attributes:
        kind: MuJoCo's word; more words say what is not supported.
        frame, place, turn: axes that are fixed to a frame: their origin (3,) [m] and rotation (3, 3) therein.
        arms: (n,) weights of coordinates in what a joint's or a tendon's sensor tells.
        felt: (p,) whether its body is one of a pair of geoms; volume: of its site.
        cutoff: bound of what it tells, 0 for none.
    """

    kind: str
    frame: int
    place: np.ndarray
    turn: np.ndarray
    arms: np.ndarray
    felt: np.ndarray
    volume: Geom | None
    cutoff: float


@dataclass(frozen=True, eq=False)
class Tendons:
    """Hold springs and dampers of tendons.

    Attributes:
        lengths: of the tendons (k,).
        stiffness, damping: (k,); slack: (k, 2) between these lengths the spring has no force.
    """

    lengths: Lengths
    stiffness: np.ndarray
    damping: np.ndarray
    slack: np.ndarray


@dataclass(frozen=True, eq=False)
class Actuators:
    """Hold motors and servos of a hinge, a slide, a tendon or a site each.

    Attributes:
        lengths: of what they act on, times their gears.
        gain: (a,); bias: (a, 3) a force, and what it adds for each unit of length and of velocity.
        control, force, total: (a, 2), (a, 2), (d, 2) bounds; infinite where there are none.
    """

    lengths: Lengths
    gain: np.ndarray
    bias: np.ndarray
    control: np.ndarray
    force: np.ndarray
    total: np.ndarray


@dataclass(frozen=True, eq=False)
class Model:
    """Hold a model file as arrays of numpy.

    Attributes:
        source: the path or the text.
        tree, bodies, sites, limits, actuators, tendons: its parts; sensors by name.
        geoms: all of them that can be drawn; pairs: of those that may touch, with the margin of each [m].
        buoyancy: (b,) the share of each body's weight that is compensated.
        rubbing: (f,) entries in u of joints with dry friction.
        spring: (n,) coordinates at which springs are at rest.
        sprung: entries (k,) in u and in q of hinges and slides with springs, their joints (k,); balls: of ball joints.
        start: (n,) the configuration of the file.
        equalities: constraints of equality; independent: the velocities that give all others under these.
        defaults: parameters by name; labels: the names of their entries.
        numbers: "mass": file's numbers of moving bodies (b,); "limit": of joints with stops; "rope": of tendons with
            limits; "pair": of the geoms (p, 2).
    """

    source: str | os.PathLike[str]
    tree: Tree
    bodies: Body
    sites: Place
    sensors: dict[str, Sensor]
    limits: Limits
    actuators: Actuators
    tendons: Tendons
    geoms: list[Geom]
    pairs: list[tuple[Geom, Geom, float]]
    buoyancy: np.ndarray
    rubbing: np.ndarray
    sprung: tuple[np.ndarray, np.ndarray, np.ndarray]
    balls: tuple[np.ndarray, np.ndarray, np.ndarray]
    start: np.ndarray
    equalities: Equalities
    independent: np.ndarray
    defaults: dict[str, np.ndarray]
    labels: dict[str, tuple[str, ...]]
    numbers: dict[str, np.ndarray]


def read(
    model: Any,
    contacts: Iterable[Sequence[str]] | None,
    frictionloss: Mapping[str, float],
    independent: Sequence[str] | None,
    ignore: Sequence[str],
) -> Model:
    """Read a model; arguments as of `mechanism`.

    Raises ValueError where the file cannot be read, or names all unsupported kinds, with the first few of each.
    """
    unknown = set(ignore) - WAIVED.keys()
    if isinstance(ignore, str) or unknown:
        raise ValueError(f"mechanism(ignore={ignore!r}): expected some of {', '.join(WAIVED)}")
    parsed = _parsed(model)
    found = _Reader(parsed)
    pairs = found.pairs(contacts)
    refused = [(kind, line) for kind, line in found.refused if kind not in ignore]
    if refused:
        kinds = tuple(dict.fromkeys(kind for kind, _ in refused))
        raise ValueError(f"mechanism: not supported: {_listed(refused, kinds)}; ignore={kinds} leaves them out")
    return found.model(model, pairs, frictionloss, independent, ignore)


def _parsed(model: Any) -> Any:
    """Parse a path or a text to an `MjModel`."""
    try:
        mujoco: Any = import_module("mujoco")
    except ImportError as error:
        raise ImportError("mechanism needs MuJoCo to read model files: pip install 'diffcontact[mujoco]'") from error
    if not isinstance(model, str | os.PathLike):
        raise ValueError(f"mechanism(model=...): expected a path or text of MJCF or URDF, got {type(model).__name__}")
    text = isinstance(model, str) and "<" in model
    try:
        return mujoco.MjModel.from_xml_string(model) if text else mujoco.MjModel.from_xml_path(os.fspath(model))
    except ValueError as error:
        what = "text" if text else repr(os.fspath(model))
        raise ValueError(f"mechanism: MuJoCo cannot read {what}: {' '.join(str(error).split())}") from error


class _Reader:
    """Read an `MjModel` m, and collect refused parts as (kind, line)."""

    def __init__(self, m: Any):
        self.m, self.mujoco = m, import_module("mujoco")
        self.refused: list[tuple[str, str]] = []
        if m.nv == 0:
            raise ValueError("mechanism: expected a model with a joint, got none")
        self.frame, self.place, self.quaternion = self._bodies()
        self._refuse()

    def name(self, kind: str, number: Any) -> str:
        """Name a thing of this kind, by its number if it has no name."""
        of = getattr(self.mujoco.mjtObj, f"mjOBJ_{kind.upper()}")
        return self.mujoco.mj_id2name(self.m, of, int(number)) or f"{kind} {number}"

    def names(self, kind: str, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.name(kind, number) for number in numbers)

    def off(self, *flags: str) -> bool:
        """Tell whether the file disables physics by a flag that this MuJoCo has."""
        known = [f"mjDSBL_{flag}" for flag in flags if hasattr(self.mujoco.mjtDisableBit, f"mjDSBL_{flag}")]
        return any(self.m.opt.disableflags & code for code in self._codes("mjtDisableBit", *known))

    def _codes(self, kind: str, *names: str) -> list[int]:
        return [int(getattr(getattr(self.mujoco, kind), name)) for name in names]

    def _compose(self, place, quaternion, inner, turned):
        moved, product = np.zeros(3), np.zeros(4)
        self.mujoco.mju_rotVecQuat(moved, np.asarray(inner, float), quaternion)
        self.mujoco.mju_mulQuat(product, quaternion, np.asarray(turned, float))
        return place + moved, product

    def _bodies(self):
        """Place each body in a frame: a body without joints hangs on its parent's."""
        m = self.m
        frame, place, quaternion = np.zeros(m.nbody, int), np.zeros((m.nbody, 3)), np.zeros((m.nbody, 4))
        quaternion[:, 0] = 1
        for body in range(1, m.nbody):
            above = m.body_parentid[body]
            if m.body_jntnum[body]:
                frame[body] = m.body_jntadr[body] + m.body_jntnum[body]
            else:
                own = place[above], quaternion[above], m.body_pos[body], m.body_quat[body]
                frame[body], (place[body], quaternion[body]) = frame[above], self._compose(*own)
        return frame, place, quaternion

    def tree(self) -> Tree:
        m = self.m
        n = m.njnt + 1
        parent, place, quaternion = np.zeros(n, int), np.zeros((n, 3)), np.zeros((n, 4))
        quaternion[:, 0] = 1
        kind = np.concatenate([[-1], m.jnt_type])
        for joint in range(m.njnt):
            body = m.jnt_bodyid[joint]
            if joint > m.body_jntadr[body]:
                parent[joint + 1] = joint
            elif kind[joint + 1] != FREE:
                above = m.body_parentid[body]
                own = self.place[above], self.quaternion[above], m.body_pos[body], m.body_quat[body]
                parent[joint + 1] = self.frame[above]
                place[joint + 1], quaternion[joint + 1] = self._compose(*own)
        # The anchor of a free joint is the origin of its body.
        anchor = np.where((kind == FREE)[1:, None], 0, m.jnt_pos)
        return Tree(
            parent, place, quaternion, kind, _below(m.jnt_axis), _below(anchor), _below(m.qpos0[m.jnt_qposadr]),
            _below(m.jnt_qposadr), _below(m.jnt_dofadr), m.nq, m.nv,
        )  # fmt: skip

    def _refuse(self):
        m, say = self.m, self._say
        for number in np.flatnonzero(m.eq_active0):
            kind, tendons = self._equality(number), (m.eq_obj1id[number], m.eq_obj2id[number])
            fixed = kind == "tendon" and all(of < 0 or self.fixed(of) for of in tendons)
            if kind not in ("connect", "weld", "joint") and not fixed:
                say("equality", f"equality {self.name('equality', number)!r} ({kind})")
        for number in range(m.ntendon):
            wrapped = self.wrapped(number)
            for name in ("stiffness", "damping", "limited", *_TENDONS) if wrapped else _TENDONS:
                if _some(m, f"tendon_{name}", number):
                    why = f"{name}, wrapped about geoms" if wrapped else name
                    say("tendon", f"tendon {self.name('tendon', number)!r} ({why})")
        for number in range(self._actuators):
            if why := self._unlike_a_motor(number):
                say("actuator", f"actuator {self.name('actuator', number)!r} ({why})")
        self._refuse_in_joints()
        if m.opt.density or m.opt.viscosity:
            say("fluid", f"a medium of density {m.opt.density:g} and viscosity {m.opt.viscosity:g}")
        for kind in ("flex", "plugin"):
            for number in range(getattr(m, f"n{kind}", 0)):
                say(kind, f"{kind} {self.name(kind, number)!r}")
        for body in np.flatnonzero(m.body_mocapid >= 0):
            say("mocap", f"mocap body {self.name('body', body)!r}")
        if m.opt.enableflags & self._codes("mjtEnableBit", "mjENBL_OVERRIDE")[0]:
            say("flag", "flag override")
        if m.body_gravcomp.any() and (self.off("PASSIVE") or (self.off("SPRING") and self.off("DAMPER"))):
            say("flag", "gravity compensation without passive forces")

    def _refuse_in_joints(self):
        m = self.m
        for joint in range(m.njnt):
            free, dof = m.jnt_type[joint] == FREE, m.jnt_dofadr[joint]
            checks = {
                "stiffness": [_some(m, "jnt_stiffnesspoly", joint), free * m.jnt_stiffness[joint]],
                "damping": [_some(m, "dof_dampingpoly", dof)],
                "actuator": [m.jnt_actgravcomp[joint]],
            }
            if getattr(m, "nplastic", 0) and m.jnt_plasticadr[joint] >= 0:
                checks["plasticity"] = [1]
            for kind, values in checks.items():
                if np.any(values):
                    self._say(kind, f"{kind} of joint {self.name('joint', joint)!r}")

    def _say(self, kind: str, line: str) -> None:
        self.refused.append((kind, line))

    @property
    def _actuators(self) -> int:
        # From MuJoCo 4 on an actuator may have several controls.
        return getattr(self.m, "nactuator", self.m.nu)

    def _unlike_a_motor(self, number: int) -> str | None:
        """Say why an actuator is not supported."""
        m = self.m
        of, (tendon,) = m.actuator_trnid[number, 0], self._codes("mjtTrn", "mjTRN_TENDON")
        hinged = m.actuator_trntype[number] in self._codes("mjtTrn", "mjTRN_JOINT", "mjTRN_JOINTINPARENT")
        if m.actuator_trntype[number] == tendon:
            if self.wrapped(of) or _some(m, "tendon_actfrclimited", of):
                return "its tendon is wrapped about geoms, or bounds the force"
        elif self._thrusts(number):
            if m.actuator_trnid[number, 1] >= 0:
                return "it acts on a site relative to another"
        elif not hinged or m.jnt_type[of] < SLIDE:
            return "it does not act on a hinge, a slide, a tendon or a site"
        if m.actuator_dyntype[number] not in self._codes("mjtDyn", "mjDYN_NONE"):
            return "it has a state of its own"
        affine = m.actuator_biastype[number] in self._codes("mjtBias", "mjBIAS_NONE", "mjBIAS_AFFINE")
        if m.actuator_gaintype[number] not in self._codes("mjtGain", "mjGAIN_FIXED") or not affine:
            return "its force is not linear in control, position and velocity"
        for name in ("actuator_damping", "actuator_dampingpoly", "actuator_armature", "actuator_delay"):
            if _some(m, name, number):
                return name.removeprefix("actuator_")
        if self._actuators != m.nu:
            return "actuators with several controls"
        if m.opt.disableactuator >> int(m.actuator_group[number]) & 1:
            return "its group is disabled"
        return None

    def fixed(self, tendon: Any) -> bool:
        """Tell whether a tendon is a weighted sum of joints, not a way along sites."""
        return bool(np.all(self.m.wrap_type[self._wraps(tendon)] == self._codes("mjtWrap", "mjWRAP_JOINT")[0]))

    def wrapped(self, tendon: Any) -> bool:
        """Tell whether a tendon goes about geoms."""
        about = self._codes("mjtWrap", "mjWRAP_SPHERE", "mjWRAP_CYLINDER")
        return bool(np.isin(self.m.wrap_type[self._wraps(tendon)], about).any())

    def _wraps(self, tendon: Any) -> slice:
        first = self.m.tendon_adr[tendon]
        return slice(first, first + self.m.tendon_num[tendon])

    def _pulled(self, tendon: Any) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int, float]]]:
        """Return joints and weights of a tendon, and pairs of sites that it goes along, with their weights."""
        m, wraps = self.m, self._wraps(tendon)
        if self.fixed(tendon):
            return m.wrap_objid[wraps], m.wrap_prm[wraps], []
        (pulley,), before, share, parts = self._codes("mjtWrap", "mjWRAP_PULLEY"), -1, 1.0, []
        for kind, site, divisor in zip(m.wrap_type[wraps], m.wrap_objid[wraps], m.wrap_prm[wraps], strict=True):
            if kind == pulley:
                before, share = -1, 1 / divisor
                continue
            if before >= 0:
                parts.append((before, int(site), share))
            before = int(site)
        return np.zeros(0, int), np.zeros(0), parts

    def _acting(self, actuator: Any) -> tuple[np.ndarray, np.ndarray, list[tuple[int, int, float]]]:
        """Return joints, weights and pairs of sites of an actuator; none of a thruster."""
        m, of = self.m, self.m.actuator_trnid[actuator, 0]
        tendon = m.actuator_trntype[actuator] == self._codes("mjtTrn", "mjTRN_TENDON")[0]
        own = np.array([of] * (not self._thrusts(actuator)), int)
        joints, weights, parts = self._pulled(of) if tendon else (own, np.ones(own.size), [])
        gear = m.actuator_gear[actuator, 0]
        return joints, gear * weights, [(one, other, gear * share) for one, other, share in parts]

    def _thrusts(self, actuator: Any) -> bool:
        """Tell whether an actuator pushes a site."""
        return self.m.actuator_trntype[actuator] == self._codes("mjtTrn", "mjTRN_SITE")[0]

    def _lengths(
        self, rows: Sequence[tuple[Any, Any, list[tuple[int, int, float]]]], thrusters: Sequence[tuple[int, Any]] = ()
    ) -> Lengths:
        """Hold lengths of rows as `_pulled` returns them; thrusters are numbers of rows, and their actuators."""
        m, at = self.m, self.sites()
        position, velocity = np.zeros((len(rows), m.nq)), np.zeros((len(rows), m.nv))
        for number, (joints, weights, _) in enumerate(rows):
            np.add.at(velocity[number], m.jnt_dofadr[joints], weights)
            np.add.at(position[number], m.jnt_qposadr[joints], weights)
        ways = [(number, *part) for number, (*_, parts) in enumerate(rows) for part in parts]
        ends = np.array([way[1:3] for way in ways], int).reshape(-1, 2)
        straight = np.array([way[0] for way in ways], int), np.array([way[3] for way in ways])
        pushing, actuators = (np.array([one[i] for one in thrusters], int) for i in range(2))
        sites, gear = m.actuator_trnid[actuators, 0], m.actuator_gear[actuators].reshape(-1, 2, 3)
        wrench = np.einsum("pij,pkj->pki", matrices(at.quaternion[sites]), gear)
        thrust = pushing, at.frame[sites], at.place[sites], wrench
        return Lengths(position, velocity, *straight, at.frame[ends], at.place[ends], *thrust)

    def tendons(self) -> Tendons:
        m = self.m
        stiffness = _first(m.tendon_stiffness) * (not self.off("SPRING", "PASSIVE"))
        damping = _first(m.tendon_damping) * (not self.off("DAMPER", "PASSIVE"))
        kept = [i for i in np.flatnonzero(stiffness + damping) if not self.wrapped(i)]
        lengths = self._lengths([self._pulled(number) for number in kept])
        return Tendons(lengths, stiffness[kept], damping[kept], m.tendon_lengthspring[kept].copy())

    def actuators(self, ignored: bool) -> Actuators:
        m = self.m
        if self.off("ACTUATION") or self._actuators != m.nu:
            kept = np.zeros(0, int)
        else:
            kept = [i for i in range(m.nu) if not (ignored and self._unlike_a_motor(i))]
        kept = np.array(kept, int)
        affine = np.isin(m.actuator_biastype[kept], self._codes("mjtBias", "mjBIAS_AFFINE"))
        total = np.tile([-np.inf, np.inf], (m.nv, 1))
        for number in np.flatnonzero(m.jnt_actfrclimited):
            total[m.jnt_dofadr[number]] = m.jnt_actfrcrange[number]
        self.actuated, thrusters = kept, [(row, number) for row, number in enumerate(kept) if self._thrusts(number)]
        clamped = m.actuator_ctrllimited[kept] if not self.off("CLAMPCTRL") else np.zeros(kept.size)
        return Actuators(
            self._lengths([self._acting(number) for number in kept], thrusters), m.actuator_gainprm[kept, 0],
            np.where(affine[:, None], m.actuator_biasprm[kept, :3], 0.0),
            _bounds(clamped, m.actuator_ctrlrange[kept]),
            _bounds(m.actuator_forcelimited[kept], m.actuator_forcerange[kept]), total,
        )  # fmt: skip

    def _equality(self, number: Any) -> str:
        return self.mujoco.mjtEq(int(self.m.eq_type[number])).name.removeprefix("mjEQ_").lower()

    def equalities(self) -> Equalities:
        """Read the initial constraints of bodies, sites, joints and tendons; see mjModel.eq_data."""
        m, points, welds, joints = self.m, [], [], []
        kept = [] if self.off("EQUALITY", "CONSTRAINT") else np.flatnonzero(m.eq_active0)
        for number in kept:
            kind, data, ends = self._equality(number), m.eq_data[number], (m.eq_obj1id[number], m.eq_obj2id[number])
            if kind == "joint" or (kind == "tendon" and all(of < 0 or self.fixed(of) for of in ends)):
                own = [self._pulled(of) if kind == "tendon" else ([of], 1.0, []) for of in ends if of >= 0]
                sums = np.zeros((2, m.nq))
                sums[: len(own)] = self._lengths(own).position
                joints.append((sums, data[:5]))
            if kind not in ("connect", "weld"):
                continue
            sites = m.eq_objtype[number] == self._codes("mjtObj", "mjOBJ_SITE")[0]
            bodies = m.site_bodyid[list(ends)] if sites else np.array(ends)
            # A weld keeps a point of its second body, and of its first where that is then.
            local = m.site_pos[list(ends)] if sites else data[:6].reshape(2, 3)[:: 1 if kind == "connect" else -1]
            turns = m.site_quat[list(ends)] if sites else np.tile([1.0, 0.0, 0.0, 0.0], (2, 1))
            composed = [
                self._compose(self.place[b], self.quaternion[b], x, turn)
                for b, x, turn in zip(bodies, local, turns, strict=True)
            ]
            points.append((self.frame[bodies], [place for place, _ in composed]))
            if kind == "weld":
                turned = [1.0, 0.0, 0.0, 0.0] if sites else data[6:10]
                welds.append((self.frame[bodies], [own for _, own in composed], turned))
        frames, local = (np.array([row[i] for row in points]) for i in range(2))
        welded, own, turned = (np.array([row[i] for row in welds]) for i in range(3))
        weights, terms = (np.array([row[i] for row in joints]) for i in range(2))
        rows = np.arange(3 * len(points) + 3 * len(welds) + len(joints))
        return Equalities(frames, local, welded, own, turned, weights, m.qpos0.copy(), terms, rows)

    def _independent(self, tree: Tree, wanted: Sequence[str] | None) -> tuple[Equalities, np.ndarray]:
        """Return the constraints, and independent velocities: of joints by these names, or any."""
        m, found, every = self.m, self.equalities(), np.arange(self.m.nv)
        joints = self.names("joint", range(m.njnt))
        if unknown := set(wanted or ()) - set(joints):
            names = ", ".join(sorted(unknown))
            raise ValueError(f"mechanism(independent=...): {names}: expected some of {', '.join(joints)}")
        if not found.rows.size:
            if wanted is not None:
                raise ValueError("mechanism(independent=...): expected a model with constraints of equality, got none")
            return found, every
        of = None if wanted is None else np.flatnonzero([joints[joint] in wanted for joint in m.dof_jntid])
        try:
            return coordinates(found, tree, m.qpos0, of)
        except ValueError as error:
            raise ValueError(f"mechanism(independent={wanted!r}): {error}") from error

    def geom(self, number: int) -> Geom:
        """Return a geom; its kind is MuJoCo's word where this library has none."""
        m = self.m
        kind = self.mujoco.mjtGeom(int(m.geom_type[number])).name.removeprefix("mjGEOM_").lower()
        body = m.geom_bodyid[number]
        own = self.place[body], self.quaternion[body], m.geom_pos[number], m.geom_quat[number]
        vertices = self._hull(m.geom_dataid[number]) if kind == geoms.MESH else np.zeros((0, 3))
        return Geom(
            self.name("geom", number), kind, int(self.frame[body]), *self._compose(*own), m.geom_size[number].copy(),
            vertices,
        )  # fmt: skip

    def _hull(self, mesh: Any) -> np.ndarray:
        """Return the vertices (v, 3) of a mesh's convex hull; none of a flat one. See mjModel.mesh_graph."""
        m, graph, first = self.m, self.m.mesh_graphadr[mesh], self.m.mesh_vertadr[mesh]
        if graph < 0:
            return np.zeros((0, 3))
        # Numbers of vertices and faces, then for each vertex where its edges begin, and which one of the mesh it is.
        count = m.mesh_graph[graph]
        return m.mesh_vert[first + m.mesh_graph[graph + 2 + count : graph + 2 + 2 * count]].astype(float)

    def pairs(self, contacts) -> list[tuple[int, int, float, float]]:
        """List geoms that may touch: two numbers, the contact's friction and margin."""
        found = {} if self.off("CONTACT", "CONSTRAINT") else self._colliding()
        if contacts is not None:
            named = {frozenset(self.names("geom", pair)): pair for pair in found}
            contacts = list(contacts)
            for pair in contacts:
                if isinstance(pair, str) or len(pair) != 2:
                    raise ValueError(f"mechanism(contacts=...): expected pairs of names of geoms, got {pair!r}")
            asked = [frozenset(pair) for pair in contacts]
            if missing := [" and ".join(sorted(pair)) for pair in asked if pair not in named]:
                raise ValueError(
                    f"mechanism(contacts=...): geoms that do not touch in this model: {'; '.join(missing)}"
                )
            found = {named[pair]: found[named[pair]] for pair in asked}
        kept = []
        for (one, other), (condim, friction, margin) in found.items():
            what = f"{self.name('geom', one)!r} with {self.name('geom', other)!r}"
            a, b = self.geom(one), self.geom(other)
            if why := geoms.uncovered(a, b):
                self._say("contact", f"contact of geoms {what} ({why})")
                continue
            if condim > 3:
                self._say("condim", f"condim {condim} of geoms {what}")
            if friction[0] != friction[1] and condim > 1:
                self._say("friction", f"friction of geoms {what} that depends on the direction")
            kept.append((one, other, friction[0] if condim > 1 else 0.0, margin))
        return kept

    def _colliding(self) -> dict[tuple[int, int], tuple[int, np.ndarray, float]]:
        """List geoms that MuJoCo looks at, with dimension, frictions and margin."""
        m, found, widened = self.m, {}, _widened(self.mujoco)
        excluded = {(int(code) >> 16, int(code) & 0xFFFF) for code in m.exclude_signature}
        for one in range(m.ngeom):
            for other in range(one + 1, m.ngeom):
                bodies = m.geom_bodyid[one], m.geom_bodyid[other]
                a, b = (int(m.body_weldid[body]) for body in bodies)
                related = a and b and (a == self._above(b) or b == self._above(a)) and not self.off("FILTERPARENT")
                affine = (
                    m.geom_contype[one] & m.geom_conaffinity[other] | m.geom_contype[other] & m.geom_conaffinity[one]
                )
                apart = bodies in excluded or bodies[::-1] in excluded
                if a == b or related or apart or not affine:
                    continue
                first = m.geom_priority[one], m.geom_priority[other]
                of = [one, other] if first[0] == first[1] else [one if first[0] > first[1] else other]
                margin = widened(m.geom_margin[[one, other]], m.geom_gap[[one, other]])
                friction = m.geom_friction[of].max(axis=0)[0]
                found[one, other] = int(m.geom_condim[of].max()), np.full(2, friction), margin
        for number in range(m.npair):
            pair = sorted((int(m.pair_geom1[number]), int(m.pair_geom2[number])))
            found[pair[0], pair[1]] = (
                int(m.pair_dim[number]),
                m.pair_friction[number, :2],
                widened(m.pair_margin[[number]], m.pair_gap[[number]]),
            )
        return found

    def _above(self, body: int) -> int:
        return int(self.m.body_weldid[self.m.body_parentid[body]])

    def model(self, source, pairs, frictionloss, independent, ignore) -> Model:
        m, tree = self.m, self.tree()
        moving = np.flatnonzero(self.frame > 0)
        bodies = Body(self.frame[moving], self.place[moving], self.quaternion[moving], m.body_iquat[moving].copy())
        limits = self.limits()
        actuators = self.actuators("actuator" in ignore)
        own = [self.geom(number) for number in range(m.ngeom)]
        stiffness = np.where(m.jnt_type == FREE, 0.0, m.jnt_stiffness) * (not self.off("SPRING", "PASSIVE"))
        sprung, balls = (np.flatnonzero(kinds) for kinds in (m.jnt_type >= SLIDE, m.jnt_type == BALL))
        joints = self.names("joint", range(m.njnt))
        stopped, ropes = self._limited()
        if unknown := set(frictionloss) - set(joints):
            raise ValueError(
                f"mechanism(frictionloss=...): {', '.join(sorted(unknown))}: expected some of {', '.join(joints)}"
            )
        loss = np.array(
            [frictionloss.get(joints[of], own) for of, own in zip(m.dof_jntid, m.dof_frictionloss, strict=True)]
        )
        named = np.array([joints[of] in frictionloss for of in m.dof_jntid])
        rubbing = np.flatnonzero((loss > 0) | named)
        if self.off("FRICTIONLOSS", "CONSTRAINT"):
            rubbing = rubbing[:0]
        labels = {
            "mass": self.names("body", moving),
            "site": self.names("site", range(m.nsite)),
            "joint": joints,
            "velocity": tuple(joints[joint] for joint in m.dof_jntid),
            "coordinate": tuple(joints[np.searchsorted(m.jnt_qposadr, at, "right") - 1] for at in range(m.nq)),
            "pair": tuple(f"{self.name('geom', one)}/{self.name('geom', other)}" for one, other, *_ in pairs),
            "limit": limits.names,
            "control": self.names("actuator", self.actuated),
            "rubbing": tuple(joints[m.dof_jntid[at]] for at in rubbing),
        }  # fmt: skip
        defaults = {
            "gravity": np.zeros(3) if self.off("GRAVITY") else m.opt.gravity,
            "mass": m.body_mass[moving],
            "inertia": m.body_inertia[moving],
            "centre": m.body_ipos[moving],
            "armature": m.dof_armature,
            "damping": m.dof_damping * (not self.off("DAMPER", "PASSIVE")),
            "stiffness": stiffness,
            "springref": m.qpos_spring,
            "friction": np.array([friction for *_, friction, _ in pairs]),
            "range": np.concatenate([m.jnt_range[stopped], m.tendon_range[ropes]]),
            "control": np.zeros(self.actuated.size),
            "frictionloss": loss[rubbing],
        }
        equalities, kept = self._independent(tree, independent)
        labels["independent"] = tuple(labels["velocity"][at] for at in kept)
        numbers = {"mass": moving, "limit": stopped, "rope": ropes, "pair": [pair[:2] for pair in pairs]}
        return Model(
            source, tree, bodies, self.sites(), self.sensors(pairs), limits, actuators, self.tendons(), own,
            [(own[one], own[other], margin) for one, other, *_, margin in pairs],
            m.body_gravcomp[moving].copy(), rubbing,
            (m.jnt_dofadr[sprung].copy(), m.jnt_qposadr[sprung].copy(), sprung),
            (m.jnt_dofadr[balls].copy(), m.jnt_qposadr[balls].copy(), balls),
            m.qpos0.copy(), equalities, kept,
            {name: np.array(value, float) for name, value in defaults.items()}, labels,
            {name: np.array(value, int) for name, value in numbers.items()},
        )  # fmt: skip

    def sites(self) -> Place:
        m = self.m
        own = [
            self._compose(self.place[body], self.quaternion[body], *at)
            for body, *at in zip(m.site_bodyid, m.site_pos, m.site_quat, strict=True)
        ]
        place, quaternion = (np.array([row[i] for row in own]).reshape(-1, width) for i, width in enumerate((3, 4)))
        return Place(self.frame[m.site_bodyid], place, quaternion)

    def sensors(self, pairs: list[tuple[int, int, float, float]]) -> dict[str, Sensor]:
        m, found = self.m, {}
        of = {"site": "SITE", "geom": "GEOM", "cam": "CAMERA"}
        fixed = {self._codes("mjtObj", f"mjOBJ_{word}")[0]: kind for kind, word in of.items()}
        body, tendon = self._codes("mjtObj", "mjOBJ_BODY", "mjOBJ_TENDON")
        bodies = m.geom_bodyid[np.array([pair[:2] for pair in pairs], int).reshape(-1, 2)]
        for number in range(m.nsensor):
            kind = self.mujoco.mjtSensor(int(m.sensor_type[number])).name.removeprefix("mjSENS_").lower()
            what, at, arms, volume = m.sensor_objtype[number], m.sensor_objid[number], np.zeros(m.nq), None
            of, own = 0, (np.zeros(3), np.array([1.0, 0.0, 0.0, 0.0]))
            if m.sensor_refid[number] >= 0:
                kind += " relative to something"
            elif what in fixed:
                of = getattr(m, f"{fixed[what]}_bodyid")[at]
                own = getattr(m, f"{fixed[what]}_pos")[at], getattr(m, f"{fixed[what]}_quat")[at]
            elif what == self._codes("mjtObj", "mjOBJ_XBODY")[0]:
                of = at
            elif what == body:
                kind += " of a centre of mass"
            elif kind.startswith("joint"):
                arms = self._lengths([([at], 1.0, [])]).position[0]
            elif what == tendon and self.fixed(at):
                arms = self._lengths([self._pulled(at)]).position[0]
            elif what == tendon:
                kind += " along sites"
            place, quaternion = self._compose(self.place[of], self.quaternion[of], *own)
            if kind == "touch":
                shape = self.mujoco.mjtGeom(int(m.site_type[at])).name.removeprefix("mjGEOM_").lower()
                volume = Geom("", shape, 0, place, quaternion, m.site_size[at].copy(), np.zeros((0, 3)))
            found[self.name("sensor", number)] = Sensor(
                kind, int(self.frame[of]), place, matrices(quaternion[None])[0], arms,
                np.any(bodies == of, axis=1), volume, float(m.sensor_cutoff[number]),
            )  # fmt: skip
        return found

    def limits(self) -> Limits:
        m = self.m
        of, ropes = self._limited()
        lengths = self._lengths([self._pulled(number) for number in ropes])
        ball = np.concatenate([m.jnt_type[of] == BALL, np.zeros(ropes.size, bool)])
        margin = np.concatenate([m.jnt_margin[of], m.tendon_margin[ropes]])
        names = self.names("joint", of) + self.names("tendon", ropes)
        return Limits(names, m.jnt_qposadr[of].copy(), ball, lengths, margin)

    def _limited(self) -> tuple[np.ndarray, np.ndarray]:
        """Return joints and tendons with limits."""
        m, off = self.m, self.off("LIMIT", "CONSTRAINT")
        ropes = [number for number in np.flatnonzero(m.tendon_limited) if not (off or self.wrapped(number))]
        joints = np.flatnonzero((m.jnt_limited != 0) & (m.jnt_type != FREE) & (not off))
        return joints, np.array(ropes, int)


def _listed(refused: list[tuple[str, str]], kinds: Sequence[str]) -> str:
    """List the first few lines of each kind, and how many more there are."""
    parts = []
    for kind in kinds:
        lines = list(dict.fromkeys(line for of, line in refused if of == kind))
        parts += lines[:NAMED]
        if len(lines) > NAMED:
            parts.append(f"{len(lines) - NAMED} more of this kind ({kind})")
    return "; ".join(parts)


@lru_cache
def _widened(mujoco: Any) -> Callable[[np.ndarray, np.ndarray], float]:
    """Return how this MuJoCo combines margins and gaps of geoms to a distance of touch."""
    m = mujoco.MjModel.from_xml_string(
        '<mujoco><worldbody><geom size="1" margin="2" gap=".5"/><body><freejoint/><geom size="1" margin="1"/></body>'
        "</worldbody></mujoco>"
    )
    d = mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    distance = float(d.contact[0].includemargin)
    combined, counts = (np.sum if distance > 2 else np.max), distance % 1 > 0
    return lambda margin, gap: float(combined(margin) - counts * combined(gap))


def _some(m: Any, name: str, number: int) -> bool:
    """Tell whether this version of MuJoCo has such a number, and it is not zero."""
    values = getattr(m, name, None)
    return values is not None and bool(np.any(values[number]))


def _first(values: np.ndarray) -> np.ndarray:
    """Select linear coefficients (k,), before those of a polynomial in some versions of MuJoCo."""
    return values.reshape(len(values), -1)[:, 0] if values.size else values.reshape(-1)


def _below(values: np.ndarray) -> np.ndarray:
    """Put zero, for the world, before the values of joints."""
    return np.concatenate([np.zeros_like(values[:1]), values])


def _bounds(limited: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    return np.where(np.asarray(limited, bool)[:, None], bounds, np.array([[-np.inf, np.inf]]))
