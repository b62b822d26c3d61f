"""Mechanisms from model files: trees of rigid bodies on joints, with stops, contacts and friction."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from diffcontact.drawing import Coordinate, Drawing
from diffcontact.numerics.linear import length
from diffcontact.system import System
from diffcontact.systems import geoms, inertia, model_file, model_writer, observed, poses, tree
from diffcontact.systems.constrained import constrained
from diffcontact.systems.model_file import Model
from diffcontact.systems.observed import Observed
from diffcontact.systems.tree import HINGE

# Parameters, and the things that their entries belong to.
_OF = {
    "gravity": None,
    "mass": "mass",
    "inertia": "mass",
    "centre": "mass",
    "log_cholesky": "mass",
    "armature": "velocity",
    "damping": "velocity",
    "stiffness": "joint",
    "springref": "coordinate",
    "friction": "pair",
    "restitution": "pair",
    "stop_restitution": "limit",
    "range": "limit",
    "control": "control",
    "frictionloss": "rubbing",
}


@dataclass(frozen=True)
class Mechanism(System):
    """The System of a model file: what `mechanism` returns.

    Args:
        model: the file as arrays.
    """

    model: Model = field(kw_only=True)

    @property
    def defaults(self) -> dict[str, np.ndarray]:
        """Parameters by name, with the values of the file."""
        return {name: value.copy() for name, value in self.model.defaults.items()}

    @property
    def q0(self) -> np.ndarray:
        """(n,) the configuration of the file."""
        return self.model.start.copy()

    @property
    def log_cholesky(self) -> np.ndarray:
        """(b, 10) mass, inertia and centre of mass of each body of the file, as the parameter `log_cholesky`.

        Any ten numbers are those of a solid body (`inertia`), so that a fit may change them all without bounds.

        Raises:
            ValueError: the file's inertia of a body is that of no solid one.
        """
        values = self.model.defaults
        axes = tree.matrices(self.model.bodies.principal)
        tensors = np.einsum("bij,bj,bkj->bik", axes, values["inertia"], axes)
        return inertia.log_cholesky(values["mass"], tensors, values["centre"], self.model.labels["mass"])

    @property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Parameter -> what its entries belong to: bodies, joints, pairs of geoms "floor/foot", actuators.

        "contacts" are those of `gap`, in order, "independent" the joints of the entries of u; "joint" and "site"
        all of these, the latter those of `site_poses`.
        """
        labels, limits = self.model.labels, self.model.limits
        stops = [f"{name} {side}" for name, ball in zip(limits.names, limits.ball, strict=True)
                 for side in (["end"] if ball else ["low", "high"])]  # fmt: skip
        touching = tuple(labels["pair"][pair] for pair in geoms.Touching.of(self.model.pairs).pair)
        of_all = {
            "contacts": (*touching, *stops),
            "independent": labels["independent"],
            "joint": labels["joint"],
            "site": labels["site"],
        }
        return {name: labels[of] for name, of in _OF.items() if of is not None} | of_all

    def index(self, parameter: str, *names: str) -> int:
        """The first entry of a parameter that belongs to a body, a joint, an actuator, or to a pair of two geoms.

        Raises:
            ValueError: there is none.
        """
        known = self.names.get(parameter, ())
        for number, name in enumerate(known):
            if name == "/".join(names) or name == "/".join(names[::-1]):
                return number
        expected = f"one of {', '.join(known)}" if known else f"a parameter, one of {', '.join(self.names)}"
        raise ValueError(f"index({parameter!r}, {', '.join(map(repr, names))}): expected {expected}")

    def body_poses(self, q: Any) -> Array:
        """(..., b, 7) places and unit quaternions of all bodies that move, in the order of `names["mass"]`.

        Args:
            q: (..., n), one configuration or those of a trajectory.
        """
        return _poses(self.model.tree, self.model.bodies, jnp.asarray(q))

    def site_poses(self, q: Any) -> Array:
        """(..., k, 7) places and unit quaternions of all sites, in the order of `names["site"]`; q as `body_poses`."""
        return _poses(self.model.tree, self.model.sites, jnp.asarray(q))

    @property
    def observed(self) -> dict[str, int]:
        """What `observe` takes besides sensors: hinges, slides, bodies and sites -> the number of columns, 1 or 3."""
        rows, points, _ = observed.known(self.model)
        return dict.fromkeys(points, 3) | dict.fromkeys(rows, 1)

    def observe(self, *names: str) -> Observed:
        """Observe joints, bodies, sites and sensors: an `observe` for `identify.Observations`.

        Args:
            names: of hinges and slides, one column each [rad or m]; of bodies and sites, three columns each, where
                their origin is [m]; of the file's sensors `jointpos`, `jointvel`, `tendonpos`, `tendonvel` and `touch`
                one column each, `framepos`, `framelinvel`, `frameangvel`, `framexaxis` and so on, `velocimeter`, `gyro`
                and `accelerometer` three columns each. What the accelerometer tells and `touch`, the normal force on a
                site [N], are means over the interval that ends at each time, and zero at the first.

        Returns:
            (trajectory, params) -> (n, k), with the names of the columns as its `channels`.

        Raises:
            ValueError: none of these has the name; a joint that is neither a hinge nor a slide; another kind of sensor.

        Example:
            >>> import jax, numpy as np, diffcontact as dc
            >>> rod = dc.systems.mechanism('''<mujoco><worldbody><body name="rod">
            ...     <joint name="hinge" axis="0 1 0"/><geom size=".1" pos="0 0 -1"/><site name="tip" pos="0 0 -2"/>
            ... </body></worldbody></mujoco>''')
            >>> seen, run = rod.observe("hinge", "tip"), dc.simulate(rod, {}, [0.0], [0.0], np.linspace(0.0, 1.0, 3))
            >>> seen.channels, np.asarray(jax.jit(seen)(run, {}))[-1].round(3).tolist()
            (('hinge', 'tip x', 'tip y', 'tip z'), [0.0, 0.0, 0.0, -2.0])
        """
        return Observed.of(self, self.model, names)

    def write(
        self, params: Mapping[str, Any], path: str | os.PathLike[str], *, speed: float = 1.0, tolerance: float = 0.01
    ) -> dict[str, float]:
        """Write the model with these parameters as MJCF, which bounces in MuJoCo with their restitution.

        The pairs of geoms that may touch become `pair` elements with their friction and a `solref`, and nothing else
        touches; stops have a `solreflimit`. MuJoCo's contacts are soft: each lasts some 20 time steps of the file, so
        that a shorter `timestep` makes a stiffer contact. Its restitution is found by bouncing a ball in MuJoCo with
        the file's options: it does not depend on masses, but on the speed, and on where in a time step a bounce begins,
        by some gravity timestep / speed; the mean counts. Numbers have six digits; those that `params` does not have
        are those of the file. `control`, and entries that are no parameters of the model, have no place in a file. What
        `ignore` left out of the system stays in the file, but for contacts.

        Args:
            params: as of simulations, the estimate of a fit.
            path: of the file, which is overwritten.
            speed: of approach at which bounces have the restitution [m/s or rad/s].
            tolerance: by which the restitution that MuJoCo reaches may be off.

        Returns:
            Pair of geoms or joint with stops -> the restitution that MuJoCo reaches.

        Raises:
            ImportError: MuJoCo is older than 4.
            ValueError: MuJoCo does not reach a restitution, or MJCF has no place for a number, like different damping
                of the axes of one ball joint. Nothing is written then.

        Example:
            >>> import tempfile, pathlib, diffcontact as dc
            >>> ball = dc.systems.mechanism('''<mujoco><worldbody>
            ...     <geom name="floor" type="plane" size="1 1 1"/>
            ...     <body><joint type="slide" axis="0 0 1"/><geom name="ball" size=".1"/></body>
            ... </worldbody></mujoco>''')
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     path = pathlib.Path(folder, "fitted.xml")
            ...     reached = ball.write({"mass": 0.3, "restitution": 0.7}, path)
            ...     fitted = dc.systems.mechanism(path)
            >>> {pair: round(e, 3) for pair, e in reached.items()}, fitted.defaults["mass"]
            ({'floor/ball': 0.7}, array([0.3]))
        """
        given = {
            name: np.asarray(_value(self.model, name, params, jnp.zeros(()).dtype), float)
            for name in self.model.defaults
        }
        given |= {name: value for name, value in self.model.defaults.items() if name not in params}
        if "log_cholesky" in params:
            own = jax.jit(lambda params: _inertial(self.model, params, jnp.zeros(()).dtype, along="body"))(params)
            given |= dict(zip(("mass", "tensor", "centre"), (np.asarray(x, float) for x in own), strict=True))
        for name, value in (("speed", speed), ("tolerance", tolerance)):
            if not value > 0:
                raise ValueError(f"write({name}={value!r}): expected a number above 0")
        return model_writer.write(self.model, given, path, speed, tolerance)


def mechanism(
    model: str | os.PathLike[str],
    *,
    contacts: Iterable[Sequence[str]] | None = None,
    restitution: float | Mapping[Any, float] = 0.0,
    friction: float | Mapping[Any, float] | None = None,
    frictionloss: Mapping[str, float] | None = None,
    independent: Sequence[str] | None = None,
    control: Callable[[Any, Array, Array, Any], Any] | None = None,
    ignore: Sequence[str] = (),
    impact_law: str = "newton",
) -> Mechanism:
    r"""Make a mechanism from a model file, MJCF or URDF: rigid bodies on joints, with hard contacts.

    MuJoCo (extra `mujoco`) parses the file and does nothing else. The equations of motion are those of Kane::

        M(q) u' = sum J^T (m (g - a), -I alpha - w x I w) - damping u - stiffness (q - springref) + actuators + contacts
        M(q) = sum J^T diag(m, I) J + diag(armature)

    with the velocities J u of the centres of mass and J' u = (a, alpha). Coordinates are MuJoCo's qpos and qvel:

        free        q: place (3) [m], unit quaternion w x y z (4);   u: velocity (3), along the axes of the world [m/s],
                    and angular velocity (3), along those of the body [rad/s]
        ball        q: unit quaternion (4);   u: angular velocity (3), along the axes of the body [rad/s]
        hinge       q: angle [rad];   u: its rate [rad/s]
        slide       q: way [m];   u: its rate [m/s]

    Contacts, each with its gap [m or rad]: those of geoms with planes, those between spheres and capsules, those of
    these with boxes, then the stops of joints and tendons with a range, low before high. A sphere, an ellipsoid, either
    end of a capsule or a cylinder and each corner of a box or of a mesh's convex hull, 64 at most, touches a plane.
    Which geoms may touch is what `contype`, `conaffinity`, `exclude`, `pair` and the tree say; coefficients of friction
    and margins are those that MuJoCo takes: with a margin, geoms and stops touch at this distance. Stops have no
    friction. Contacts are hard: solref, solimp and the settings of solvers are not read, and a file knows no
    restitution.

    Params are all optional; without one the file's value holds, `defaults`. `names` tells what entries belong to, and
    `index` finds one. Those of one axis except gravity and springref may be one number for all::

        gravity (3,) [m/s^2]             mass (b,) [kg]                  inertia (b, 3), principal [kg m^2]
        centre (b, 3) of mass [m]        armature, damping (d,)          stiffness (j,), springref (n,)
        friction, restitution (p,)       stop_restitution (s,)           range (s, 2) [m or rad]
        control (a,)                     frictionloss (f,) [N m or N]     log_cholesky (b, 10)

    for b bodies that move, j joints, p pairs of geoms, s joints and tendons with a range, f velocities of joints with
    dry friction; `centre` and `inertia` are in the body's frame and along the file's principal axes. `log_cholesky`
    stands for these two and the mass: any ten numbers are those of a solid body (`Mechanism.log_cholesky`).

    Actuators are motors and servos of one hinge, slide or tendon each, with force gain control + bias_0 + bias_1 gear q
    + bias_2 gear u, within the file's bounds; of a tendon q and u are its length and its rate. An actuator of a site
    pushes it with force times gear, a force and a torque along its axes: a rotor or a nozzle. Tendons, fixed ones and
    those along sites, with pulleys, have the file's springs, dampers and limits. These are hard: what is taut does not
    stretch.

    Constraints of equality (connect, weld, joint, fixed tendon) hold exactly and always (`constrained`): velocities u
    are then those of some joints, `names["independent"]`, which give all others. Along the axes of free joints and in
    `armature` and `damping` all velocities count.

    What is not supported is refused by name: tendons that wrap about geoms, other actuators, springs that are not
    linear, condim above 3, contacts of other pairs of geoms (two meshes, a box with a box), media,
    deformable bodies. Sensors have no effect, and `observe` takes them; cameras and keyframes are not read.

    Args:
        model: a path, or the text of a file.
        contacts: None for all that the file has, or pairs of names of geoms: only these touch.
        restitution: e of all contacts and stops, or a dict: a pair of names of geoms, or the name of a joint or tendon
            with a range -> e; 0 where it has none.
        friction: None for what the file says, mu of all pairs, or a dict: a pair of names of geoms -> mu.
        frictionloss: joint -> its dry friction [N m or N], besides what the file says; a joint with 0 may be given one
            by params.
        independent: under constraints of equality the joints whose velocities give all others, on the whole way, like
            the crank of a slider; None for those that do so best at the beginning.
        control: None, or `control(t, q, u, params) -> (a,)`, in place of the parameter; u are all velocities.
        ignore: kinds of what is refused that are left out instead, like "tendon"; the message names them.
        impact_law: "newton", "poisson" or "stronge", as in `System`.

    Returns:
        A `Mechanism`, which is a `System`.

    Raises:
        ImportError: MuJoCo is not installed.
        ValueError: the file cannot be read or has what is not supported; names that it does not have.

    Source: T. R. Kane, D. A. Levinson, Dynamics: Theory and Applications (1985); the layout of q and u, and which geoms
    touch: MuJoCo's documentation, chapter Computation.

    Example:
        A rod of 1 m hangs at a hinge and swings against a stop:

        >>> import numpy as np, diffcontact as dc
        >>> rod = dc.systems.mechanism('''<mujoco><worldbody><body name="rod">
        ...     <joint name="hinge" axis="0 1 0" range="-90 0"/>
        ...     <geom type="capsule" size=".02" fromto="0 0 0 0 0 -1" mass="1"/>
        ... </body></worldbody></mujoco>''', restitution={"hinge": 0.5})
        >>> rod.names["contacts"], rod.defaults["mass"]
        (('hinge low', 'hinge high'), array([1.]))
        >>> run = dc.simulate(rod, {"damping": 0.1}, [-1.0], [0.0], np.linspace(0.0, 1.0, 51))
        >>> print(f"{run.q[-1, 0]:.4f} rad", run.status)
        -0.3684 rad 0
    """
    read = model_file.read(model, contacts, frictionloss or {}, independent, ignore)
    pairs, stopped = read.labels["pair"], read.labels["limit"]
    e = _coefficients("restitution", restitution, pairs, stopped, np.zeros(len(pairs) + len(stopped)))
    mu = read.defaults["friction"]
    if friction is not None:
        mu = _coefficients("friction", friction, pairs, (), mu)
    numbers = {"friction": mu, "restitution": e[: len(pairs)], "stop_restitution": e[len(pairs) :]}
    if not (control is None or callable(control)):
        raise ValueError(f"mechanism(control={control!r}): expected a function of (t, q, u, params), or None")
    if impact_law == "compliant":
        raise ValueError('mechanism(impact_law="compliant"): expected "newton", "poisson" or "stronge"')
    return _system(replace(read, defaults=read.defaults | numbers), control, impact_law)


def _coefficients(what, given, pairs, joints, otherwise) -> np.ndarray:
    """(p + s,) coefficients of pairs and of joints with stops."""
    names = [*pairs, *joints]
    if not isinstance(given, Mapping):
        return _allowed(what, np.full(len(names), float(given)))
    found = np.array(otherwise, float)
    for key, value in given.items():
        labels = {key} if isinstance(key, str) else {"/".join(key), "/".join(key[::-1])}
        at = [number for number, name in enumerate(names) if name in labels]
        if not at:
            raise ValueError(f"mechanism({what}=...): {key!r}: expected one of {', '.join(names)}")
        found[at] = value
    return _allowed(what, found)


def _allowed(what: str, values: np.ndarray) -> np.ndarray:
    most = 1.0 if what == "restitution" else np.inf
    if not np.all((values >= 0) & (values <= most)):
        expected = "within [0, 1]" if most == 1.0 else "at least 0"
        raise ValueError(f"mechanism({what}=...): expected numbers {expected}, got {values.tolist()}")
    return values


def _system(model: Model, control: Callable | None, impact_law: str) -> Mechanism:
    joints, bodies, limits = model.tree, model.bodies, model.limits
    touching = geoms.Touching.of(model.pairs)
    lower = np.flatnonzero(~limits.ball)
    # Which stop each joint's contacts are.
    stop = np.repeat(np.arange(len(limits.names)), np.where(limits.ball, 1, 2))
    turning = joints.turning.size > 0

    def value(name, params, dtype):
        return _value(model, name, params, dtype)

    def mass(q, params):
        own = tree.mass_matrix(joints, bodies, q, *_inertial(model, params, q.dtype))
        return own + jnp.diag(value("armature", params, q.dtype))

    def force(t, q, u, params):
        m, moments, centre = _inertial(model, params, q.dtype)
        share = jnp.asarray(1 - model.buoyancy, q.dtype)
        weight = (m * share)[:, None] * value("gravity", params, q.dtype)[None]
        f = tree.inertial_force(joints, bodies, q, u, m, moments, centre, weight)
        f = f - value("damping", params, q.dtype) * u + _springs(model, params, q)
        if model.tendons.stiffness.size:
            f = f + _pulled(model, q, u)
        if not model.actuators.gain.size:
            return f
        asked = value("control", params, q.dtype) if control is None else control(t, q, u, params)
        return f + _actuated(model, jnp.asarray(asked, q.dtype), q, u)

    def gap(t, q, params):
        parts = []
        if touching.pair.size:
            parts.append(touching.at(joints.frames(q)).gap)
        if stop.size:
            parts.append(_stops(model, q, value("range", params, q.dtype), lower))
        return jnp.concatenate(parts) if parts else jnp.zeros(0, q.dtype)

    def slip(t, q, u, params):
        own = tree.dot("ckd,d->ck", touching.rows(joints, joints.frames(q))[:, 1:], u)
        # A stop has no friction. A slip that never ends keeps it from being looked at.
        return jnp.concatenate([own, jnp.ones((stop.size, 2), q.dtype)])

    def rows(t, q, params):
        across, d = (2 if touching.pair.size else 0), joints.velocities
        parts = [jnp.zeros((0, 1 + across, d + 1), q.dtype)]
        if touching.pair.size:
            parts.append(jnp.pad(touching.rows(joints, joints.frames(q)), ((0, 0), (0, 0), (0, 1))))
        if stop.size:
            _, opening = jax.linearize(lambda q: _stops(model, q, value("range", params, q.dtype), lower), q)
            own = jax.vmap(lambda u: opening(joints.rate(q, u)), out_axes=1)(jnp.eye(d, dtype=q.dtype))
            ever = jnp.broadcast_to(jnp.arange(d + 1) == d, (stop.size, across, d + 1)).astype(q.dtype)
            parts.append(jnp.concatenate([jnp.pad(own, ((0, 0), (0, 1)))[:, None], ever], axis=1))
        return jnp.concatenate(parts)

    def of_contacts(name, stops):
        def coefficients(params):
            dtype = jnp.zeros(()).dtype
            at_stops = value("stop_restitution", params, dtype)[stop] if stops else jnp.zeros(stop.size, dtype)
            return jnp.concatenate([value(name, params, dtype)[touching.pair], at_stops])

        return coefficients

    rubs = {"slip": slip, "friction": of_contacts("friction", False)} if touching.pair.size else {}
    if model.rubbing.size:
        rubs["joint_slip"] = lambda t, q, u, params: u[model.rubbing][:, None]
        rubs["joint_friction"] = lambda t, params: value("frictionloss", params, jnp.zeros(()).dtype)
    if turning:
        rubs |= {
            "rate": lambda q, u, params: joints.rate(q, u),
            "normalise": joints.normalise,
            "advance": lambda q, u, s, params: joints.advance(q, u, s),
            "dexpinv": lambda theta, u, params: joints.dexpinv(theta, u),
        }
    found = Mechanism(
        gap,
        force,
        mass,
        of_contacts("restitution", True),
        impact_law=impact_law,
        rows=rows,
        draw=_drawing(model),
        model=model,
        **rubs,
    )
    if not model.equalities.rows.size:
        return found
    return constrained(found, lambda q, params: model.equalities.off(joints, q), model.independent)


def _value(model: Model, name: str, params: Any, dtype: Any) -> Array:
    """A parameter, or the file's number."""
    default = model.defaults[name]
    given = jnp.asarray(params.get(name, default), dtype)
    one_for_all = given.ndim == 0 and default.ndim == 1 and name not in ("gravity", "springref")
    if given.shape != default.shape and not one_for_all:
        raise ValueError(f"params[{name!r}]: expected shape {default.shape}, got {given.shape}")
    return jnp.broadcast_to(given, default.shape)


def _inertial(model: Model, params: Any, dtype: Any, along: str = "principal") -> tuple[Array, Array, Array]:
    """Masses (b,), moments (b, 3) or tensors of inertia (b, 3, 3) along these axes, and centres of mass (b, 3)."""
    if "log_cholesky" not in params:
        mass, moments, centre = (_value(model, name, params, dtype) for name in ("mass", "inertia", "centre"))
        return mass, moments, centre
    given, count = jnp.asarray(params["log_cholesky"], dtype), len(model.defaults["mass"])
    if given.shape != (count, 10):
        raise ValueError(f"params['log_cholesky']: expected shape {(count, 10)}, got {given.shape}")
    if twice := [name for name in ("mass", "inertia", "centre") if name in params]:
        raise ValueError(f"params['log_cholesky']: it stands for {', '.join(twice)}, expected none of these")
    mass, tensor, centre = inertia.solid(given)
    if along == "principal":
        axes = tree.matrices(model.bodies.principal)
        tensor = tree.dot("bji,bjk,bkl->bil", axes, tensor, axes)
    return mass, tensor, centre


def _springs(model: Model, params: Any, q: Array) -> Array:
    """(d,) forces of the springs of hinges, slides and ball joints."""
    k = _value(model, "stiffness", params, q.dtype)
    rest = _value(model, "springref", params, q.dtype)
    force = jnp.zeros(model.tree.velocities, q.dtype)
    velocity, position, joint = model.sprung
    if joint.size:
        force = force.at[velocity].set(-k[joint] * (q[position] - rest[position]))
    velocity, position, joint = model.balls
    if joint.size and ("stiffness" in params or np.any(model.defaults["stiffness"][joint])):
        entries = position[:, None] + np.arange(4)
        back = rest[entries] * jnp.array([[1.0, -1.0, -1.0, -1.0]], q.dtype)
        turned = poses.rotation_vector(poses.product(back, q[entries]), jnp.array([[1.0, 0.0, 0.0, 0.0]], q.dtype))
        force = force.at[velocity[:, None] + np.arange(3)].set(-k[joint][:, None] * turned)
    return force


def _actuated(model: Model, control: Array, q: Array, u: Array) -> Array:
    """(d,) forces of the actuators."""
    own = model.actuators
    if control.shape != own.gain.shape:
        raise ValueError(f"mechanism(control=...): expected shape {own.gain.shape}, got {control.shape}")
    gain, bias = (jnp.asarray(x, q.dtype) for x in (own.gain, own.bias))
    force = gain * _clipped(control, own.control) + bias[:, 0]
    length, arms = own.lengths.at(model.tree, q)
    force = _clipped(force + bias[:, 1] * length + bias[:, 2] * tree.dot("ad,d->a", arms, u), own.force)
    return _clipped(tree.dot("ad,a->d", arms, force), own.total)


def _pulled(model: Model, q: Array, u: Array) -> Array:
    """(d,) forces of the springs and dampers of tendons."""
    tendons = model.tendons
    stiffness, damping, slack = (jnp.asarray(x, q.dtype) for x in (tendons.stiffness, tendons.damping, tendons.slack))
    length, arms = tendons.lengths.at(model.tree, q)
    pull = stiffness * (length - jnp.clip(length, slack[:, 0], slack[:, 1]))
    return -tree.dot("kd,k->d", arms, pull + damping * tree.dot("kd,d->k", arms, u))


def _clipped(x: Array, bounds: np.ndarray) -> Array:
    return jnp.clip(x, *jnp.asarray(bounds.T, x.dtype)) if np.isfinite(bounds).any() else x


def _stops(model: Model, q: Array, bounds: Array, lower: np.ndarray) -> Array:
    """Gaps of stops: low and high ones of hinges, slides and tendons, the one of a ball joint's angle."""
    limits = model.limits
    x = jnp.concatenate([q[limits.position], limits.lengths.at(model.tree, q)[0]])
    bounds = bounds + jnp.asarray(limits.margin[:, None] * np.array([[1.0, -1.0]]), q.dtype)
    gaps = jnp.stack([x - bounds[:, 0], bounds[:, 1] - x], axis=1)
    if lower.size == x.size:
        return gaps.ravel()
    entries = limits.position[limits.ball[: limits.position.size]][:, None] + np.arange(4)
    vector = q[entries]
    size = length(vector[:, 1:])
    angle = 2 * jnp.atan2(size, jnp.abs(vector[:, 0]))
    gaps = gaps.at[limits.ball, 1].set(bounds[limits.ball, 1] - angle)
    kept = np.stack([~limits.ball, np.ones_like(limits.ball)], axis=1).ravel()
    return gaps.ravel()[np.flatnonzero(kept)]


def _poses(joints: tree.Tree, fixed: tree.Place | tree.Body, q: Array) -> Array:
    if q.ndim > 1:
        return jax.vmap(lambda q: _poses(joints, fixed, q))(q)
    place = joints.frames(q).points(fixed.frame, fixed.place)
    own = jnp.asarray(fixed.quaternion, q.dtype)
    return jnp.concatenate([place, poses.product(joints.orientations(q)[fixed.frame], own)], axis=1)


def _drawing(model: Model) -> Drawing:
    def shapes(t, q, params):
        return geoms.drawn(model.geoms, model.tree, jnp.asarray(q))

    def coordinates(params):
        found = []
        for name, kind in zip(model.labels["joint"], model.tree.kind[1:], strict=True):
            if kind in (tree.FREE, tree.BALL):
                if kind == tree.FREE:
                    found += [Coordinate(f"{axis} of {name}") for axis in "xyz"]
                found += [Coordinate(f"q{axis} of {name}", "1", plotted=False) for axis in "wxyz"]
            else:
                found.append(Coordinate(name, "rad" if kind == HINGE else "m"))
        return tuple(found)

    def up(params):
        gravity = np.asarray(params.get("gravity", model.defaults["gravity"]), float)
        size = np.linalg.norm(gravity)
        return -gravity / size if 0 < size < np.inf else None

    return Drawing(shapes, coordinates, up)
