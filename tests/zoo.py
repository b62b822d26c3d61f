"""The systems of the tests, each built once: what differs between tests is a number among the parameters.

Each is one program for a scheme and a precision (`programs.py`), however many rows are run with it.
"""

import jax.numpy as jnp
import numpy as np
from programs import Model

import diffcontact as dc

FAR = 1e3


def system(gap, force=None, mass=None, restitution=0.0, **more):
    """A `dc.System` that is not driven and has masses of 1, unless said otherwise; a restitution may be a number."""
    return dc.System(
        gap=gap,
        force=force or (lambda t, q, u, p: np.zeros(u.shape, u.dtype)),
        mass=mass or (lambda q, p: np.ones(q.shape, q.dtype)),
        restitution=restitution if callable(restitution) else lambda p: restitution,
        **more,
    )


def _point():
    """A point in a plane over a floor, which leans and shakes, below a ceiling, and beside something round."""

    def gap(t, q, p):
        normal = jnp.stack([-jnp.sin(p["angle"]), jnp.cos(p["angle"])])
        floor = normal @ q - p["floor"] - p["amplitude"] * jnp.sin(p["omega"] * t)
        way = q - p["centre"]
        # side 1: outside of it; -1: within.
        round_one = p["side"] * (jnp.sqrt(way @ way) - p["radius"] - p["growth"] * t)
        return jnp.stack([floor, p["ceiling"] - q[1], round_one])

    return Model(
        dc.System(
            gap=gap,
            force=lambda t, q, u, p: p["mass"] @ p["gravity"] - p["drag"] * u - p["stiffness"] * q,
            mass=lambda q, p: p["mass"] + p["swell"] * jnp.diag(q**2),
            restitution=lambda p: p["restitution"],
        ),
        {
            "q0": np.array([0.0, 1.0]),
            "u0": np.zeros(2),
            "gravity": np.array([0.0, -9.81]),
            "mass": np.eye(2),
            # M grows with q: it is not constant then.
            "swell": 0.0,
            "drag": 0.0,
            "stiffness": 0.0,
            "restitution": np.full(3, 0.8),
            "angle": 0.0,
            "floor": 0.0,
            "amplitude": 0.0,
            "omega": 1.0,
            "ceiling": FAR,
            "centre": np.array([0.0, -FAR]),
            "radius": 1.0,
            "growth": 0.0,
            "side": 1.0,
        },
    )


POINT = _point()

# A mass on a line, over a floor that rises evenly, pushed by what grows with time: the smallest of all.
PUSHED = Model(
    dc.System(
        gap=lambda t, q, p: q - p["rises"] * t,
        force=lambda t, q, u, p: (p["push"] + p["grows"] * t) * jnp.ones_like(q),
        mass=lambda q, p: p["mass"],
        restitution=lambda p: p["restitution"],
    ),
    {
        "q0": np.ones(1),
        "u0": np.zeros(1),
        "rises": 0.0,
        "push": 0.0,
        "grows": 0.0,
        "mass": np.ones(1),
        "restitution": 0.0,
    },
)


def _disc():
    """A disc of mass 1, or with radius 0 a block, over a rough floor that runs as a belt: q = (x, y, angle)."""

    def force(t, q, u, p):
        push = p["push"] + p["amplitude"] * jnp.sin(p["frequency"] * t)
        down = p["gravity"] * jnp.stack([-jnp.sin(p["slope"]), -jnp.cos(p["slope"])])
        return jnp.stack([down[0] + push, down[1], jnp.zeros_like(push)])

    return Model(
        dc.System(
            gap=lambda t, q, p: q[1:2] - p["radius"],
            force=force,
            mass=lambda q, p: jnp.stack([jnp.ones_like(q[0]), jnp.ones_like(q[0]), p["inertia"]]),
            restitution=lambda p: p["restitution"],
            slip=lambda t, q, u, p: (u[0] + p["radius"] * u[2] - p["belt"])[None, None],
            friction=lambda p: p["friction"],
            tangential_restitution=lambda p: p["tangential_restitution"],
        ),
        {
            "q0": np.zeros(3),
            "u0": np.zeros(3),
            "gravity": 9.81,
            "slope": 0.0,
            "push": 0.0,
            "amplitude": 0.0,
            "frequency": 1.0,
            "belt": 0.0,
            "radius": 0.0,
            "inertia": 0.005,
            "restitution": 0.0,
            "friction": 0.5,
            "tangential_restitution": 0.0,
        },
        batched=True,
    )


DISC = _disc()


def _ball():
    """A ball between floor and ceiling whose restitution depends on the speed of approach."""

    def restitution(p, speed):
        return jnp.where(speed < p["bend"], p["below"], p["e"] - p["slope"] * speed)

    return Model(
        dc.System(
            gap=lambda t, q, p: jnp.concatenate([q, p["ceiling"] - q]),
            force=lambda t, q, u, p: -p["gravity"] * jnp.ones_like(q),
            mass=lambda q, p: jnp.ones_like(q),
            restitution=restitution,
        ),
        {
            "q0": np.array([1.0]),
            "u0": np.zeros(1),
            "gravity": 9.81,
            "e": 0.8,
            "slope": 0.0,
            # Slower than this it is another one: none is.
            "bend": 0.0,
            "below": 0.0,
            "ceiling": FAR,
        },
    )


BALL = _ball()


def _quadrics():
    """A point pushed until a time among three gaps that are quadratic in its place: quick to compile, e = 0."""

    def gap(t, q, p):
        return p["offset"] + p["normals"] @ q + jnp.einsum("i,cij,j->c", q, p["curvature"], q) / 2

    return Model(
        dc.System(
            gap=gap,
            force=lambda t, q, u, p: jnp.where(t < p["until"], p["push"], 0.0),
            mass=lambda q, p: p["mass"],
            restitution=lambda p: 0.0,
        ),
        {
            "q0": np.zeros(2),
            "u0": np.zeros(2),
            "push": np.zeros(2),
            "until": FAR,
            # Open, unless a row closes them.
            "offset": np.ones(3),
            "normals": np.ones((3, 2)),
            "curvature": np.zeros((3, 2, 2)),
            "mass": np.ones(2),
        },
    )


QUADRICS = _quadrics()


def _sphere():
    """A solid sphere of mass 1 over a rough floor, q = its centre, u = velocity and spin."""

    def mass(q, p):
        return jnp.concatenate([jnp.ones(3, q.dtype), 0.4 * p["radius"] ** 2 * jnp.ones(3, q.dtype)])

    def slip(t, q, u, p):
        return (u[:3] + p["radius"] * jnp.cross(u[3:], jnp.array([0.0, 0.0, -1.0], q.dtype)))[None, :2]

    return Model(
        dc.System(
            gap=lambda t, q, p: q[2:] - p["radius"],
            force=lambda t, q, u, p: jnp.concatenate([p["gravity"], jnp.zeros(3, q.dtype)]),
            mass=mass,
            restitution=lambda p: p["restitution"],
            slip=slip,
            friction=lambda p: p["friction"],
            tangential_restitution=lambda p: p["tangential_restitution"],
            rate=lambda q, u, p: u[:3],
        ),
        {
            "q0": np.array([0.0, 0.0, 0.5]),
            "u0": np.zeros(6),
            "gravity": np.array([0.0, 0.0, -9.81]),
            "radius": 0.02,
            "restitution": 0.7,
            "friction": 0.25,
            "tangential_restitution": 0.0,
        },
    )


SPHERE = _sphere()

# Two rough discs in a plane without walls, q = (x, y, angle) each.
TWO_DISCS = Model(
    dc.systems.balls(2, 2, spin=True),
    {
        "q0": np.array([-1.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        "u0": np.array([2.0, 0.0, 0.0, 0.0, 0.0, 0.0]),
        "mass": np.ones(2),
        "radius": np.array([0.3, 0.2]),
        "gravity": np.zeros(2),
        "restitution": 0.7,
        "friction": 0.3,
        "tangential_restitution": 0.0,
    },
)


def _box():
    """A rectangle of mass 1 over a rough floor that runs as a belt: q = (x, y, angle), four corners."""

    def corners(q, p):
        """(2, 4) from the centre, counted from the lower left one."""
        x = p["half"][0] * jnp.array([-1.0, 1.0, 1.0, -1.0], q.dtype)
        y = p["half"][1] * jnp.array([-1.0, -1.0, 1.0, 1.0], q.dtype)
        cos, sin = jnp.cos(q[2]), jnp.sin(q[2])
        return jnp.stack([cos * x - sin * y, sin * x + cos * y])

    return Model(
        dc.System(
            gap=lambda t, q, p: q[1] + corners(q, p)[1],
            force=lambda t, q, u, p: jnp.concatenate([p["force"], jnp.zeros(1, q.dtype)]),
            mass=lambda q, p: jnp.stack([jnp.ones_like(q[0]), jnp.ones_like(q[0]), p["half"] @ p["half"] / 3]),
            restitution=lambda p: p["restitution"],
            slip=lambda t, q, u, p: (u[0] - corners(q, p)[1] * u[2] - p["belt"])[:, None],
            friction=lambda p: p["friction"],
        ),
        {
            "q0": np.array([0.0, 0.1, 0.0]),
            "u0": np.zeros(3),
            "half": np.array([0.2, 0.1]),
            "force": np.array([0.0, -9.81]),
            "belt": 0.0,
            "restitution": 0.0,
            "friction": 0.5,
        },
    )


BOX = _box()


def _ladder():
    """A rod of mass 1 between floor and wall, both rough, q = (x, y, angle): it touches both where it starts."""

    def slip(t, q, u, p):
        turn = p["length"] / 2 * u[2]
        return jnp.stack([u[0] + turn * jnp.sin(q[2]), u[1] + turn * jnp.cos(q[2])])[:, None]

    def gap(t, q, p):
        half = p["length"] / 2
        return jnp.stack([q[1] - half * jnp.sin(q[2]), -q[0] - half * jnp.cos(q[2])])

    def start(p):
        x, y = p["length"] / 2 * jnp.cos(p["angle"]), p["length"] / 2 * jnp.sin(p["angle"])
        return jnp.stack([-x, y, p["angle"]]), p["spin"] * jnp.stack([y, x, jnp.ones_like(x)])

    return Model(
        dc.System(
            gap=gap,
            force=lambda t, q, u, p: jnp.stack([jnp.zeros_like(q[0]), -p["gravity"], jnp.zeros_like(q[0])]),
            mass=lambda q, p: jnp.stack([jnp.ones_like(q[0]), jnp.ones_like(q[0]), p["length"] ** 2 / 12]),
            restitution=lambda p: 0.0,
            slip=slip,
            friction=lambda p: p["friction"],
        ),
        {"length": 1.0, "friction": 0.1, "gravity": 9.81, "angle": 1.0, "spin": 0.0},
        start,
    )


LADDER = _ladder()

# Two discs without spin in a box, and four balls in a row between two walls (a cradle, a stack, a queue).
TWO_BALLS = Model(
    dc.systems.balls(2, 2, box=(0.0, 1.0)),
    {
        "q0": np.array([0.3, 0.5, 0.62, 0.61]),
        "u0": np.array([1.1, 0.4, -0.9, 0.2]),
        "mass": np.array([1.0, 2.5]),
        "radius": np.array([0.1, 0.15]),
        "gravity": np.array([0.0, -9.81]),
        "restitution": 0.8,
    },
)
ROW = Model(
    dc.systems.balls(4, 1, box=(0.0, FAR)),
    {
        "q0": np.array([1.0, 1.5, 2.0, 2.5]),
        "u0": np.zeros(4),
        "mass": np.ones(4),
        "radius": np.full(4, 0.1),
        "gravity": np.zeros(1),
        "restitution": 1.0,
    },
)


def _pendulum():
    """Two rods between stops of their own, M(q), damped: with l = (l, 0) and m = (0, m) nearly a single one."""

    def gap(t, q, p):
        first = p["wall"] - p["length"][0] * jnp.sin(q[0])
        return jnp.stack([first, first - p["length"][1] * jnp.sin(q[1]), q[0] + p["stop"]])

    def mass(q, p):
        (m1, m2), (l1, l2), c = p["mass"], p["length"], jnp.cos(q[0] - q[1])
        return jnp.array([[(m1 + m2) * l1**2, m2 * l1 * l2 * c], [m2 * l1 * l2 * c, m2 * l2**2]])

    def force(t, q, u, p):
        (m1, m2), (l1, l2), s, g = p["mass"], p["length"], jnp.sin(q[0] - q[1]), p["gravity"]
        swing = jnp.stack([-(u[1] ** 2), u[0] ** 2]) * m2 * l1 * l2 * s
        return swing - g * jnp.stack([(m1 + m2) * l1 * jnp.sin(q[0]), m2 * l2 * jnp.sin(q[1])]) - p["damping"] * u

    return Model(
        dc.System(gap=gap, force=force, mass=mass, restitution=lambda p: p["restitution"]),
        {
            "q0": np.array([-0.8, -0.5]),
            "u0": np.zeros(2),
            "mass": np.array([1.0, 0.7]),
            "length": np.array([1.0, 0.8]),
            "gravity": 9.81,
            "damping": 0.0,
            "wall": 0.35,
            "stop": FAR,
            "restitution": 0.5,
        },
    )


PENDULUM = _pendulum()


def _chain():
    """Two particles with springs between them and to the ground, on a rough belt, with one percussion."""
    # As exact in single precision.
    row = np.array([[2.0, -1.0], [-1.0, 1.0]], np.float32)
    return Model(
        dc.ParticleLine(
            mass=lambda p: p["mass"],
            damping=lambda p: p["damping"] * row,
            stiffness=lambda p: p["stiffness"] * row,
            load=lambda t, p: p["load"] * jnp.cos(11 * t),
            friction=lambda p: p["friction"],
            normal=lambda t, p: p["normal"],
            percussion_times=[0.1, 0.25, 0.3],
            percussions=lambda p: p["percussion"],
            belt=lambda t, p: p["belt"],
        ),
        {
            "q0": np.array([0.1, -0.05]),
            "u0": np.array([0.0, 0.8]),
            "mass": np.array([1.0, 0.6]),
            "damping": 0.5,
            "stiffness": 80.0,
            "load": np.array([0.0, 3.0]),
            "friction": 0.2,
            "normal": np.array([9.81, 5.9]),
            "percussion": np.array([0.0, 0.03, 0.0]),
            "belt": 0.0,
        },
    )


CHAIN = _chain()

# Six discs over a floor, whose neighbours are found by a cell list, or are all others.
LISTED, PAIRS = (
    Model(
        dc.systems.balls(6, 2, box=(0.0, np.array([1.03, FAR])), cell=cell),
        {
            # Four on the floor, two above the gaps between them.
            "q0": np.array([0.15, 0.2, 0.38, 0.2, 0.61, 0.2, 0.84, 0.2, 0.28, 0.45, 0.51, 0.45]),
            "u0": np.zeros(12),
            "mass": np.ones(6),
            "radius": np.full(6, 0.1),
            "gravity": np.array([0.0, -9.81]),
            "restitution": 0.5,
        },
    )
    for cell in (0.25, None)
)


# Two carts on a track that sags, and a ball that bounces twice on a floor that drifts, in pixels.
CARTS = Model(
    dc.systems.carts(),
    {
        "q0": np.array([0.0, 0.5]),
        "u0": np.array([0.4, -0.1]),
        "restitution": 0.7,
        "mass_ratio": 1.4,
        "distance": 0.1,
        "tilt": 0.0,
        "sag": 0.0,
        "drag": 0.0,
    },
)
BOUNCES = Model(
    dc.systems.bouncing_ball(2),
    {
        "q0": np.zeros(1),
        "u0": np.zeros(1),
        "restitution": 0.8,
        "later_restitution": np.array([0.6]),
        "gravity": 10.0,
        "drag": 0.0,
        "floor": 5.0,
        "floor_drift": 0.5,
        "apexes": np.array([2.0]),
    },
)


PLANE = np.array([[np.sin(0.5), np.cos(0.5)]])


def surfaces(cell=None):
    """A ball before a piston, one over a fixed ball, one on an inclined plane, two that grow; of four materials."""
    return dc.systems.balls(
        5,
        2,
        cell=cell,
        box=lambda t, params: (jnp.array([params["piston"] * t, -jnp.inf]), jnp.inf),
        planes=lambda t, params: (jnp.asarray(PLANE), np.zeros(1)),
        radius=lambda t, params: params["radius"] + params["growth"] * t,
        fixed=1,
        # The balls but for 1, which is of another material; the fixed ball; the piston and the open sides; the plane.
        materials=[0, 1, 0, 0, 0, 2, 3, 0, 0, 0, 0],
    )


def _surfaces():
    table = np.zeros((4, 4))
    table[0, 0], table[0, 3], table[1, 2] = 0.5, 0.6, 0.8
    down = PLANE[0, ::-1] * [1.0, -1.0]
    return Model(
        surfaces(),
        {
            "q0": np.array([0.9, 10.0, 10.3, 21.0, *(0.3 * PLANE[0] + 20.0 * down), 30.0, 10.0, 30.6, 10.0]),
            "u0": np.array([-0.5, *[0.0] * 9]),
            "mass": np.array([1.0, 2.0, 3.0, 1.5, 1.5]),
            "radius": np.array([0.2, 0.1, 0.3, 0.2, 0.2]),
            "growth": np.array([0.0, 0.0, 0.0, 0.3, 0.3]),
            "gravity": np.array([0.0, -10.0]),
            "fixed_centre": np.array([[10.0, 20.0]]),
            "fixed_radius": np.array([0.5]),
            "piston": 2.0,
            "restitution": np.maximum(table, table.T),
        },
    )


SURFACES = _surfaces()
