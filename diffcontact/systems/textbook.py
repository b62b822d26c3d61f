"""Model systems of a few coordinates as textbooks have them: a bouncing ball, carts, a pendulum, a line, one impact."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jax.numpy as jnp
import numpy as np

from diffcontact.arguments import is_count
from diffcontact.drawing import Ball, Beads, Coordinate, Drawing, Line, Polygon, Wall, rectangle
from diffcontact.host.messages import shown
from diffcontact.system import ParticleLine, System
from diffcontact.systems import laws
from diffcontact.systems.surroundings import against_gliding


def bouncing_ball(bounces: int = 1, *, restitution: str = "constant") -> System:
    r"""Make a ball that falls on a floor line and bounces, each bounce with a restitution of its own.

    The position q = (y,) is measured downwards, as in a picture. In a film of a ball that comes nearer, the floor under
    it sinks in the picture; restitution loses as the ball slows down::

        gap      g_k(t, q) = floor + floor_drift t - y      between the turning points apex_{k-1} and apex_k
        force    f = gravity - drag |u| u                   per unit mass
        impact   w+ = -e_k w-,    w = u - floor_drift

    The floor of bounce k is there from the turning point before it to the one after it, the last one for good; the gap
    of the others is open whatever the ball does. So there are as many constraints as bounces, one at a time.

    Params of the system: `restitution` () [1] of the first bounce, `later_restitution` (bounces - 1,) [1] of the
    others, `gravity` () [m/s^2], `drag` () [1/m] of the air, `floor` () [m] and `floor_drift` () [m/s], the floor at
    t = 0 and its velocity, `apexes` (bounces - 1,) [s], increasing: a time in each flight between two bounces. In
    pictures, lengths are pixels and times are frames. With a law of the speed of approach, all bounces have the same
    one: its params, all (), in place of `later_restitution`.

    Args:
        bounces: how many have a restitution of their own, 1 and up; all that follow have that of the last one.
        restitution: how it depends on the speed of approach, one of `systems.laws.LAWS` by name.

    Returns:
        A `System` with d = 1 and c = bounces; equal arguments return the same one.

    Raises:
        ValueError: for bounces below 1; no such law.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> params = dict(restitution=0.8, later_restitution=jnp.array([0.5]), gravity=10.0, drag=0.0)
        >>> params |= dict(floor=5.0, floor_drift=0.0, apexes=jnp.array([1.8]))
        >>> ball = dc.systems.bouncing_ball(2)
        >>> run = dc.simulate(ball, params, [0.0], [0.0], [0.0, 0.5, 1.5, 2.5, 3.0])  # bounces at 1 s and 2.6 s
        >>> print(run.u[:, 0].round(4))
        [ 0.  5. -3.  7.  0.]
    """
    if not is_count(bounces, 1):
        raise ValueError(f"bouncing_ball(bounces={bounces!r}): expected an integer of at least 1")
    laws.named(restitution, "bouncing_ball")
    return _bouncing_ball(int(bounces), restitution)


@lru_cache(maxsize=16)
def _bouncing_ball(bounces: int, law: str) -> System:
    def gap(t, q, params):
        height = params["floor"] + params["floor_drift"] * t - q[0]
        flight = jnp.sum(t >= jnp.asarray(params["apexes"])) if bounces > 1 else 0
        # Any positive number would do for a floor that is not there.
        return jnp.where(jnp.arange(bounces) == flight, height, 1.0 + jnp.abs(height))

    def force(t, q, u, params):
        return params["gravity"] - params["drag"] * jnp.abs(u) * u

    def of_each(params):
        first = jnp.asarray(params["restitution"])[None]
        return jnp.concatenate([first, params["later_restitution"]]) if bounces > 1 else first

    restitution = of_each if law == "constant" else laws.restitution(law)
    return System(
        gap=gap,
        force=force,
        mass=lambda q, params: jnp.ones_like(q),
        restitution=restitution,
        draw=_drawn_ball(),
    )


def _drawn_ball() -> Drawing:
    """Draw a point above its floor, y downwards."""

    def shapes(t, q, params):
        return Ball(q[:1]), Wall(jnp.array([-1.0]), -(params["floor"] + params["floor_drift"] * t))

    return Drawing(shapes, lambda params: (Coordinate("y", down=True),), lambda params: np.array([-1.0]))


def carts(*, restitution: str = "constant") -> System:
    """Make two riders on one track that collide through their bumpers.

    Positions q = (x_1, x_2) [m] are along the track, the second rider is ahead. Only the ratio of the masses can be
    seen in the motion, so everything is per unit mass of the second rider, M = diag(r, 1) with r = `mass_ratio`::

        gap      g(q) = x_2 - x_1 - distance                                                 [m]
        force    f_i = m_i (tilt - sag x_i - dry_friction u_i / |u_i|) - drag u_i            [m/s^2]

           m_1 = r                m_2 = 1
        [   o   ]~<-- distance -->~[   o   ]        o: the marker, ~: the bumper
        =====x_1======================x_2=====  -> x, u

    Params of the system, all () [unit], and those of the law of restitution besides:
        `restitution` [1] e of the two bumpers, `mass_ratio` [1] first rider over second, `distance` [m] between the
        markers while the bumpers touch, `tilt` [m/s^2] the downhill acceleration at x = 0, `sag` [1/s^2] how fast it
        falls along the track (g times the curvature of a track that sags between its feet), `drag` [1/s] of the air
        film, linear in the velocity and the same for both riders. There may be `dry_friction` [m/s^2], the
        deceleration by wheels or by a track that rubs; riders slower than 1 mm/s creep.

    Args:
        restitution: how it depends on the speed of approach, one of `systems.laws.LAWS` by name.

    Returns:
        A `System` with d = 2 and c = 1; equal arguments return the same one.

    Raises:
        ValueError: no such law.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> params = dict(restitution=0.5, mass_ratio=1.0, distance=0.1, tilt=0.0, sag=0.0, drag=0.0)
        >>> q0, u0, times = jnp.array([0.0, 0.2]), jnp.array([1.0, 0.0]), jnp.array([0.0, 0.2])
        >>> print(*(f"{u:.3f}" for u in dc.simulate(dc.systems.carts(), params, q0, u0, times).u[-1]))
        0.250 0.750
    """
    laws.named(restitution, "carts")
    return _carts(restitution)


@lru_cache(maxsize=16)
def _carts(law: str) -> System:
    def gap(t, q, params):
        return (q[1] - q[0] - params["distance"])[None]

    def mass(q, params):
        return jnp.stack([jnp.asarray(params["mass_ratio"], q.dtype), jnp.ones((), q.dtype)])

    def force(t, q, u, params):
        rubbed = against_gliding(u[:, None], params["dry_friction"])[:, 0] if "dry_friction" in params else 0.0
        return mass(q, params) * (params["tilt"] - params["sag"] * q + rubbed) - params["drag"] * u

    return System(gap=gap, force=force, mass=mass, restitution=laws.restitution(law), draw=_drawn_carts())


def _drawn_carts() -> Drawing:
    """Draw two riders, each as wide as their markers are apart at a touch."""

    def shapes(t, q, params):
        width = params["distance"]
        riders = (Polygon(rectangle(width, width / 2), jnp.stack([x, width / 4])) for x in q)
        return (*riders, Wall(jnp.array([0.0, 1.0]), 0.0))

    return Drawing(shapes, lambda params: (Coordinate("first rider"), Coordinate("second rider")))


@lru_cache(maxsize=1)
def pendulum() -> System:
    r"""Make a body that swings about a fixed axis, by any angle.

    The angle q = (theta,) [rad] is all that a camera or a rotary encoder sees, so that everything is per unit of the
    moment of inertia I about the axis::

        theta'' = -stiffness sin(theta - rest) - damping theta' - drag |theta'| theta'

    with stiffness = m g l / I [1/s^2], which is g / l of a point on a thread. Nothing touches it.

    Params of the system, all (): `stiffness` [1/s^2], `rest` [rad] the angle at which it hangs, `damping` [1/s] and
    `drag` [1], viscous and of the air.

    Returns:
        A `System` with d = 1 and c = 0.

    Example:
        A swing by 2 rad lasts 1.33 times as long as a small one, 4 K(sin^2 1) / 2 pi.

        >>> import jax.numpy as jnp, diffcontact as dc
        >>> params = dict(stiffness=1.0, rest=0.0, damping=0.0, drag=0.0)
        >>> times = jnp.linspace(0.0, 8.349753, 401)
        >>> run = dc.simulate(dc.systems.pendulum(), params, jnp.array([2.0]), jnp.zeros(1), times)
        >>> print(run.q[0], run.q[200].round(4), run.q[400].round(4))
        [2.] [-2.] [2.]
    """

    def force(t, q, u, params):
        pull = params["stiffness"] * jnp.sin(q - params["rest"])
        return -pull - (params["damping"] + params["drag"] * jnp.abs(u)) * u

    return System(
        gap=lambda t, q, params: jnp.zeros(0, q.dtype),
        force=force,
        mass=lambda q, params: jnp.ones_like(q),
        restitution=lambda params: jnp.zeros(0),
        draw=_drawn_pendulum(),
    )


def _drawn_pendulum() -> Drawing:
    """Draw a point on a rod of length one."""

    def shapes(t, q, params):
        turned = q[0] - params["rest"]
        end = jnp.stack([jnp.sin(turned), -jnp.cos(turned)])
        return Line(jnp.stack([jnp.zeros_like(end), end])), Ball(end[None])

    return Drawing(shapes, lambda params: (Coordinate("angle", "rad"),))


def particle_line(count: int = 1, driven: bool = False) -> ParticleLine:
    r"""Make particles on a rough floor, each tied to the one before by a spring and a dashpot, the first to a wall.

    ::

        |                                               with q relative to the rest positions,
        |--k_0,c_0--[m_0]--k_1,c_1--[m_1]-- ... --> p   link i is stretched by (q_i - rest_i) - (q_{i-1} - rest_{i-1})
        |____________/////___________/////__________    K = B^T diag(k) B,   V = B^T diag(c) B,   B q = stretches

    The law of S4 (1.4)-(1.7) without percussions: M du/dt + V u + K (q - rest) = f + p with the friction f of at most
    gamma nu_i on each particle, opposite to its velocity while it slips.

    Params of the system: `mass`, `stiffness` k, `damping` c, `normal` nu, `rest`, each () for all alike or (count,);
    `gamma` (). Where `driven`, the force p on the last particle is interpolated linearly from `drive` (m,) at the times
    `drive_times` (m,) [s], increasing; it is constant before the first and after the last.

    Units: mass in kg, k in N/m, c in N s/m, gamma nu in N: a friction coefficient with a normal reaction in N, or a
    friction force with the number 1. Divided by the mass throughout it is all the motion of one particle can show:
    mass 1, gamma nu in m/s^2.

    Args:
        count: number of particles, 1 and up.
        driven: whether a measured force acts on the last one.

    Returns:
        A `ParticleLine`; equal arguments return the same one.

    Raises:
        ValueError: for counts below 1.

    Source: S4 section 1; its chains are of this kind.

    Example:
        >>> import jax.numpy as jnp, diffcontact as dc
        >>> params = dict(mass=1.0, stiffness=0.0, damping=0.0, normal=9.81, rest=0.0, gamma=0.2)
        >>> slide = dc.simulate(dc.systems.particle_line(), params, [0.0], [1.0], [0.0, 0.25, 1.0])
        >>> print(f"{slide.q[-1, 0]:.4f} {1.0 / (2 * 0.2 * 9.81):.4f}")  # it stops after u^2 / (2 gamma g)
        0.2548 0.2548
    """
    if not is_count(count, 1):
        raise ValueError(f"particle_line(count={count!r}): expected an integer of at least 1")
    return _particle_line(int(count), bool(driven))


@lru_cache(maxsize=32)
def _particle_line(count: int, driven: bool) -> ParticleLine:
    stretch = np.eye(count) - np.eye(count, k=-1)

    def each(value):
        return jnp.broadcast_to(jnp.asarray(value), (count,))

    def links(value):
        B = jnp.asarray(stretch)
        return B.T @ (each(value)[:, None] * B)

    def load(t, params):
        at_rest = links(params["stiffness"]) @ each(params["rest"])
        if not driven:
            return at_rest
        return at_rest.at[-1].add(jnp.interp(t, params["drive_times"], params["drive"]))

    return ParticleLine(
        mass=lambda params: each(params["mass"]),
        damping=lambda params: links(params["damping"]),
        stiffness=lambda params: links(params["stiffness"]),
        load=load,
        friction=lambda params: params["gamma"],
        normal=lambda t, params: each(params["normal"]),
        percussion_times=(),
        percussions=lambda params: jnp.zeros(0),
        draw=_drawn_line(count),
    )


def _drawn_line(count: int) -> Drawing:
    """Draw particles on parallel wires, with any springs and the places of their rest."""

    def shapes(t, q, params):
        sprung = bool(np.any(np.asarray(params["stiffness"]) != 0))
        return (Beads(q, jnp.broadcast_to(jnp.asarray(params["rest"]), q.shape) if sprung else None, sprung),)

    def coordinates(params: Any):
        return tuple(Coordinate("x" if count == 1 else f"particle {i}") for i in range(count))

    return Drawing(shapes, coordinates)


KINDS = {"ball": 1, "carts": 2, "body": 3}
# Rows of the gap: a ball that falls on a floor, two carts, the second one ahead; that of a body depends on its lever.
_ROWS = {"ball": np.array([1.0]), "carts": np.array([-1.0, 1.0])}


def single_impact(of: str = "ball", *, restitution: str = "constant", impact_law: str = "newton") -> System:
    r"""Make a ball, two carts or a body that moves freely but for one impact; q counts from its place.

    With w = N u, the velocity of the gap, and u(t) = u_0 before the impact::

        gap      g(q) = N q         ball  N = [1], M = 1          carts  N = [-1, 1], M = diag(mass_ratio, 1)
        body     q = (x, y, rho theta), M = 1, per unit of mass, with rho the radius of gyration and, in parts of it,
                 the levers l_n and l_t of the place where it is struck
                 N = [0, 1, l_n]         slip  v_T = [1, 0, l_t] u

    Motions that begin at q_0 = -u_0 s are struck at t = 1 s.

    Params of the system: `restitution` () [1] and those of its law; of carts `mass_ratio` () [1], first over second; of
    a body `friction` () [1] and `levers` (2,) [1]; of one that is compliant `tangential_compliance` () [1], and its
    levers are (0, l_t), those of a ball (0, r / rho), which the derivative by l_n does not leave.

    Args:
        of: "ball", "carts" or "body".
        restitution: how it depends on the speed of approach, one of `systems.laws.LAWS` by name.
        impact_law: of a body, "newton", "poisson", "stronge" or "compliant", as in `System`.

    Returns:
        A `System` with c = 1 and d = 1, 2 or 3; equal arguments return the same one.

    Raises:
        ValueError: no such kind or law.

    Example:
        A body that is struck beside its centre, without friction: the impulse of its reduced mass 1 / (1 + l_n^2).

        >>> import jax.numpy as jnp, diffcontact as dc
        >>> params = dict(restitution=0.5, friction=0.0, levers=jnp.array([1.0, 1.0]))
        >>> before = jnp.array([0.2, -1.0, 0.0])
        >>> run = dc.simulate(dc.systems.single_impact("body"), params, -before, before, [0.0, 2.0])
        >>> print(run.u[-1])
        [ 0.2  -0.25  0.75]
    """
    if of not in KINDS:
        raise ValueError(f"single_impact(of={of!r}): expected one of {', '.join(map(shown, KINDS))}")
    laws.named(restitution, "single_impact")
    return _single_impact(of, restitution, impact_law)


@lru_cache(maxsize=16)
def _single_impact(of: str, law: str, impact_law: str) -> System:
    def gap(t, q, params):
        row = jnp.stack([0.0, 1.0, params["levers"][0]]) if of == "body" else jnp.asarray(_ROWS[of], q.dtype)
        return (row @ q)[None]

    def slip(t, q, u, params):
        return (u[0] + params["levers"][1] * u[2])[None, None]

    def mass(q, params):
        if of == "carts":
            return jnp.stack([jnp.asarray(params["mass_ratio"], q.dtype), jnp.ones((), q.dtype)])
        return jnp.ones_like(q)

    rubs = {"slip": slip, "friction": lambda params: params["friction"], **laws.of_impact(impact_law)}
    return System(
        gap=gap,
        force=lambda t, q, u, params: jnp.zeros_like(u),
        mass=mass,
        restitution=laws.restitution(law),
        **(rubs if of == "body" else {}),
    )


# Of a ball whose size is not known, over how far it rolls; points of its track; Newton steps from its way to its place.
_BALL, _POINTS, _STEPS = 0.06, 65, 8


def drawn_track(bend: float, reach: float) -> Drawing:
    """Draw a ball in a parabolic track; its coordinate is the arc length.

    Its centre is at (X, a X^2) with X from s = X sqrt(1 + 4 a^2 X^2) / 2 + asinh(2 a X) / (4 a), a = `bend` > 0 [1/m],
    as far as the longest way `reach` [m]. The ball is as large as suits the picture, and the track below it.

    Example:
        >>> import jax
        >>> ball, line = jax.jit(drawn_track(2.0, 0.5))(0.0, np.array([0.0]), {})
        >>> ball.centre.tolist(), np.allclose(np.asarray(line.points)[32], [0.0, -ball.radius])
        ([0.0, 0.0], True)
    """
    radius = _BALL * reach

    def place(s):
        X = s
        for _ in range(_STEPS):
            slope = jnp.sqrt(1 + (2 * bend * X) ** 2)
            X = X - (X * slope / 2 + jnp.arcsinh(2 * bend * X) / (4 * bend) - s) / slope
        return X

    def shapes(t, q, params):
        X, along = place(q[0]), place(jnp.linspace(-1.2, 1.2, _POINTS, dtype=q.dtype) * reach)
        normal = jnp.stack([-2 * bend * along, jnp.ones_like(along)])
        below = jnp.stack([along, bend * along**2]) - radius * normal / jnp.linalg.norm(normal, axis=0, keepdims=True)
        return Ball(jnp.stack([X, bend * X**2]), radius), Line(below.T)

    return Drawing(shapes, lambda params: (Coordinate("along the track"),))
