"""Rigid bodies: gaps, slips, mass matrices and gyroscopic torques, and what is refused."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import diffcontact as dc
from diffcontact import shapes
from diffcontact.inputs import require_shapes, require_values
from diffcontact.system import acceleration, contacts, rate
from diffcontact.systems import poses

KITE = shapes.Polygon([[0.3, 0.0], [0.0, 0.2], [-0.1, 0.0], [0.0, -0.2]])
WEDGE = shapes.Polyhedron(np.random.default_rng(0).normal(size=(7, 3)) / 5).centred()
# Of each dimension, and points of their surfaces; a body that is not a polytope has many.
ANGLES = np.linspace(0, 2 * np.pi, 721)
CIRCLE = np.stack([np.cos(ANGLES), np.sin(ANGLES)], axis=1)
SPHERE = np.stack(
    [np.outer(np.sin(ANGLES[:361]), np.cos(ANGLES)), np.outer(np.sin(ANGLES[:361]), np.sin(ANGLES))], axis=2
)
SPHERE = np.dstack([SPHERE, np.broadcast_to(np.cos(ANGLES[:361])[:, None], SPHERE.shape[:2])]).reshape(-1, 3)
SURFACES = {
    2: [
        (KITE, np.asarray(KITE.vertices)),
        (shapes.Box(0.4, 0.2), shapes.Box(0.4, 0.2).vertices),
        (shapes.Ellipse(0.4, 0.2), CIRCLE * [0.4, 0.2]),
        (shapes.Ball(0.3), CIRCLE * 0.3),
    ],
    3: [
        (WEDGE, np.asarray(WEDGE.vertices)),
        (shapes.Box(0.4, 0.2, 0.1), shapes.Box(0.4, 0.2, 0.1).vertices),
        (shapes.Ellipsoid(0.4, 0.2, 0.1), SPHERE * [0.4, 0.2, 0.1]),
        (shapes.Ball(0.3), SPHERE * 0.3),
    ],
}


def _planes(t, params):
    """One stands and one moves and tilts."""
    angle = params["tilt"] * t
    if params["gravity"].size == 2:
        normals = jnp.stack([np.array([0.6, 0.8]), jnp.stack([jnp.sin(angle), jnp.cos(angle)])])
    else:
        normals = jnp.stack([np.array([1.0, 2.0, 2.0]) / 3, jnp.stack([jnp.sin(angle), 0.0 * angle, jnp.cos(angle)])])
    return normals, jnp.stack([-0.5, params["lift"] * t])


def _belt(t, params):
    return params["lift"] * jnp.cos(t + jnp.arange(2 * params["gravity"].size)).reshape(2, -1)


def _params(dimension, count, **more):
    rng = np.random.default_rng(dimension)
    return {
        "mass": rng.uniform(1.0, 2.0, count),
        "gravity": rng.normal(size=dimension),
        "restitution": 0.5,
        "friction": 0.3,
        "tilt": 0.4,
        "lift": 0.7,
    } | more


def _state(dimension, count, seed):
    """Any positions, unit quaternions and velocities."""
    rng = np.random.default_rng(seed)
    place, velocity = rng.normal(size=(count, dimension)), rng.normal(size=(count, {2: 3, 3: 6}[dimension]))
    turn = rng.normal(size=(count, {2: 1, 3: 4}[dimension]))
    if dimension == 3:
        turn = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    return np.hstack([place, turn]).ravel(), velocity.ravel()


@pytest.mark.parametrize("dimension", [2, 3])
def test_gaps_and_slips_on_planes_are_those_of_the_material_points(dimension):
    """Each point of a surface is carried along for a moment: the lowest one is the gap, and slips."""
    found = [shape for shape, _ in SURFACES[dimension]]
    count, t = len(found), 0.3
    system = dc.systems.bodies(found, dimension, _planes, belt=_belt, pairs=False)
    params = _params(dimension, count, inertia=np.ones(count))
    q, u = _state(dimension, count, 1)

    @jax.jit
    def seen(t, q, u, params):
        """What is looked at, and the planes and poses now and a moment later."""
        later = q + 1e-6 * rate(system, params, q, u)
        rows = jax.jacfwd(lambda u: system.slip(t, q, u, params))(u)
        told = system.gap(t, q, params), system.slip(t, q, u, params), contacts(system, params, t, q).velocity(u), rows
        places = poses.of_bodies(q, dimension), poses.of_bodies(later, dimension)
        return told, _planes(t, params), _planes(t + 1e-6, params), places, _belt(t, params)

    told, (normals, offsets), (moved, lifted), (here, there), belts = jax.tree.map(np.asarray, seen(t, q, u, params))
    gap, slip, opening, frames = told
    row, surfaces = 0, [points for _, points in SURFACES[dimension]]

    @jax.jit
    def carry(*moments):
        return [[poses.placed(points, at[body]) for at in moments] for body, points in enumerate(surfaces)]

    carried = carry(here, there)
    for body, (points, places) in enumerate(zip(surfaces, carried, strict=True)):
        now, soon = map(np.asarray, places)
        height = now @ normals.T - offsets
        speed = (soon @ moved.T - lifted - height) / 1e-6
        for plane in range(2):
            many = len(points) < 10
            at = np.arange(len(points)) if many else np.argmin(height[:, plane])[None]
            rows = slice(row, row + len(at))
            row += len(at)
            # Of a sampled surface, whose points are 0.5 degrees apart, 0.4 (pi / 360)^2 / 2 too high.
            np.testing.assert_allclose(gap[rows], height[at, plane], atol=1e-14 if many else 2e-5)
            # The quotient is 1e-6 off; the lowest sample is 0.4 pi / 360 away: at some rad/s it moves otherwise.
            np.testing.assert_allclose(opening[rows], speed[at, plane], atol=1e-5 if many else 2e-2)
            frame = frames[rows][:, :, u.size // count * body :][:, :, :dimension]
            velocity = (soon - now)[at] / 1e-6 - belts[plane]
            np.testing.assert_allclose(
                slip[rows], np.einsum("ckm,cm->ck", frame, velocity), atol=1e-5 if many else 2e-2
            )
            np.testing.assert_allclose(np.einsum("ckm,m->ck", frame, normals[plane]), 0, atol=1e-14)
            np.testing.assert_allclose(
                np.einsum("ckm,clm->ckl", frame, frame),
                np.broadcast_to(np.eye(dimension - 1), (len(at),) + (dimension - 1,) * 2),
                atol=1e-14,
            )
    assert row == gap.size


@pytest.mark.parametrize("dimension", [2, 3])
def test_balls_as_bodies_are_the_balls_that_spin(dimension):
    count, radius = 3, [0.1, 0.2, 0.3]
    own = dc.systems.bodies([shapes.Ball(r) for r in radius], dimension, _planes, fixed=2, belt=_belt)
    other = dc.systems.balls(count, dimension, planes=_planes, fixed=2, belt=_belt, spin=True)
    fixed = {"fixed_centre": np.eye(2, dimension), "fixed_radius": np.array([0.2, 0.1])}
    params = _params(dimension, count, radius=np.asarray(radius), **fixed)
    q, u = _state(dimension, count, 2)

    @jax.jit
    def all_of(params, q, u):
        return [
            (of.gap(0.3, q, params), of.slip(0.3, q, u, params), of.mass(q, params), of.force(0.3, q, u, params))
            for of in (own, other)
        ]

    # Rounding of some ten terms of order 1.
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-14), *all_of(params, q, u))


@pytest.mark.full
@pytest.mark.parametrize("dimension", [2, 3])
def test_a_ball_that_meets_a_box_pushes_and_rubs_with_equal_and_opposite_forces(dimension):
    """Whichever is named first, moving or fixed; momentum and angular momentum of the pair do not change."""
    box, ball = shapes.Box(*[0.4, 0.3, 0.2][:dimension]), shapes.Ball(0.15)
    q, u = _state(dimension, 2, 3)
    params = _params(dimension, 2)
    # The ball is moved until they touch.
    pair = dc.systems.bodies((box, ball), dimension)
    way = contacts(pair, params, 0.0, q).normals[0, -u.size // 2 :][:dimension]
    begin = q.size // 2
    q[begin : begin + dimension] -= np.asarray(pair.gap(0.0, q, params)[0] * way)
    np.testing.assert_allclose(pair.gap(0.0, q, params), 0, atol=1e-15)
    (one, other), (here, there) = (np.split(np.asarray(x), 2) for x in (q, u))
    found = {}
    for order, given, place, speed in (
        ("box first", (box, ball), (one, other), (here, there)),
        ("ball first", (ball, box), (other, one), (there, here)),
    ):
        system, at, moving = dc.systems.bodies(given, dimension), jnp.concatenate(place), jnp.concatenate(speed)
        normal = contacts(system, params, 0.0, at).normals
        rows = jax.jacfwd(lambda u, system=system, at=at: system.slip(0.0, at, u, params))(moving)
        rows = np.concatenate([normal[None], np.asarray(rows)[0][:, None]], axis=0)[:, 0]
        for row in rows:
            forces, centres = row.reshape(2, -1), np.stack([place[0][:dimension], place[1][:dimension]])
            np.testing.assert_allclose(forces[:, :dimension].sum(axis=0), 0, atol=1e-14)
            push, torque = forces[:, :dimension], forces[:, dimension:].sum(axis=0)
            moment = np.cross(*(np.pad(x, ((0, 0), (0, 3 - dimension))) for x in (centres, push))).sum(axis=0)
            np.testing.assert_allclose(moment[-torque.size :] + torque, 0, atol=1e-14)
        found[order] = system.gap(0.0, at, params)[0], jnp.linalg.norm(system.slip(0.0, at, moving, params))
    np.testing.assert_allclose(found["box first"], found["ball first"], rtol=1e-13)
    system = dc.systems.bodies(box, dimension, fixed=1)
    fixed = params | {"fixed_centre": jnp.asarray(other[None, :dimension]), "fixed_radius": np.array([0.15])}
    fixed |= {"mass": params["mass"][:1]}
    np.testing.assert_allclose(system.gap(0.0, jnp.asarray(one), fixed)[0], found["box first"][0], rtol=1e-13)


def test_a_free_body_obeys_eulers_equations():
    rng = np.random.default_rng(4)
    frame = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    moments = np.array([[1.0, 2.0, 2.5], [0.7, 0.8, 0.9]])
    full = np.stack([frame @ np.diag(moments[0]) @ frame.T, np.diag(moments[1])])
    system = dc.systems.bodies([WEDGE, shapes.Box(1, 2, 3)], 3, pairs=False)
    q, u = _state(3, 2, 5)
    params = _params(3, 2, inertia=full)
    principal = params | {"inertia": moments}
    straight = params | {"inertia": np.stack([np.diag(each) for each in moments])}
    alike, same = (params | {"inertia": np.full((2, *more), 0.7)} for more in ((), (3,)))
    uniform = _params(3, 2, mass=np.array([2.0, 3.0]))

    @jax.jit
    def of_all(q, u):
        masses = [system.mass(q, each) for each in (principal, straight, alike, same, uniform)]
        forces = [system.force(0.0, q, u, each) for each in (alike, same)]
        return acceleration(system, params, 0.0, q, u), poses.rotation(poses.of_bodies(q, 3)), masses, forces

    a, turned, masses, forces = jax.tree.map(np.asarray, of_all(q, u))
    a = a.reshape(2, 6)
    w = np.asarray(u).reshape(2, 6)[:, 3:]
    for body in range(2):
        # J w' + w x J w = 0 in the body's frame, where R^T w changes by R^T w'.
        own, alpha = turned[body].T @ w[body], turned[body].T @ a[body, 3:]
        np.testing.assert_allclose(full[body] @ alpha, -np.cross(own, full[body] @ own), atol=1e-13)
        np.testing.assert_allclose(a[body, :3], params["gravity"], rtol=1e-13)
    np.testing.assert_allclose(masses[0], masses[1], atol=1e-14)
    # Bodies whose axes are all alike have a diagonal mass matrix and no gyroscopic torque.
    np.testing.assert_allclose(np.diag(masses[2]), masses[3], atol=1e-14)
    np.testing.assert_allclose(*forces, atol=1e-14)
    # Homogeneous, without any inertia: that of the shapes.
    mass = masses[4]
    np.testing.assert_allclose(np.linalg.eigvalsh(mass[9:, 9:]), np.sort(3 * np.array([13, 10, 5]) / 12), rtol=1e-13)


@pytest.mark.full
def test_sizes_that_are_parameters_have_derivatives():
    floor = lambda t, p: (np.array([[0.0, 1.0]]), np.zeros(1))  # noqa: E731
    system = dc.systems.bodies(lambda p: [shapes.Box(p["a"], p["b"])], 2, floor)
    params = _params(2, 1, a=0.4, b=0.2)
    q = np.array([0.0, 1.0, 0.3])
    slope = jax.grad(lambda a: system.gap(0.0, q, params | {"a": a})[0])(0.4)
    np.testing.assert_allclose(slope, -np.sin(0.3) / 2, rtol=1e-14)
    turning = jax.grad(lambda b: system.mass(q, params | {"b": b})[2])(0.2)
    np.testing.assert_allclose(turning, params["mass"][0] * 2 * 0.2 / 12, rtol=1e-14)


@pytest.mark.full
def test_rotation_vectors_undo_rotations():
    rng = np.random.default_rng(6)
    vectors = rng.normal(size=(20, 3))
    vectors[0] = 0.0
    vectors[1] *= 1e-9
    sizes = np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors, sizes = vectors * np.minimum(1, 3 / np.maximum(sizes, 1)), np.minimum(sizes, 3)
    half = sizes / 2
    turn = np.hstack([np.cos(half), np.sin(half) * vectors / np.where(sizes > 0, sizes, 1)])
    fitted = rng.normal(size=(20, 4))
    w = turn[:, :1]
    a, v = fitted[:, :1], fitted[:, 1:]
    measured = np.hstack(
        [w * a - np.sum(turn[:, 1:] * v, 1, keepdims=True), w * v + a * turn[:, 1:] + np.cross(turn[:, 1:], v)]
    )
    for sign in (1, -1):
        np.testing.assert_allclose(poses.rotation_vector(sign * measured, fitted), vectors, atol=1e-13)
    # At the measured orientation a small turn of the fitted one is the residual with its sign turned, no NaN.
    unit = jnp.asarray(fitted[3] / np.linalg.norm(fitted[3]))

    def turned(w):
        pose = jnp.concatenate([np.zeros(3), unit])
        return unit + rate(dc.systems.bodies(WEDGE, 3), {}, pose, jnp.concatenate([np.zeros(3), w]))[3:]

    slope = jax.jacfwd(lambda w: poses.rotation_vector(unit, turned(w)))(np.zeros(3))
    np.testing.assert_allclose(slope, -np.eye(3), atol=1e-14)
    rotations = np.asarray(poses.rotation(np.hstack([np.zeros((20, 3)), fitted])))
    np.testing.assert_allclose(rotations @ rotations.swapaxes(1, 2), np.broadcast_to(np.eye(3), (20, 3, 3)), atol=1e-14)
    np.testing.assert_allclose(np.linalg.det(rotations), 1, rtol=1e-14)


Q, U = np.array([0.0, 0, 0, 1, 0, 0, 0]), np.zeros(6)
PARAMS = {"mass": np.ones(1), "gravity": np.zeros(3), "restitution": 0.5, "friction": 0.3}


def _floor(t, params):
    return np.array([[0.0, 0.0, 1.0]]), np.array([-1.0])


def _checked(params, q0, u0, shapes, dimension, **options):
    """What a simulation looks at before it begins."""
    system = dc.systems.bodies(shapes, dimension, **options)
    require_shapes(system, params, 0.0, q0, u0)
    require_values(system, params, q0, u0, np.arange(2.0))


@pytest.mark.full
@pytest.mark.parametrize(
    ("line", "changes"),
    [
        (r"q0: expected shape \(7,\), 1 body of 7, got \(6,\)", {"q0": np.zeros(6)}),
        (r"u0: expected shape \(6,\), 1 body of 6, got \(7,\)", {"u0": Q}),
        (
            r"q0: expected unit quaternions, but that of body 0 has length 1\.1",
            {"q0": np.where(np.arange(7) == 3, 1.1, Q)},
        ),
        (
            r"inertia: expected no moment above the sum of the two others, but the principal ones of body 0 are "
            r"\[1\.0, 1\.0, 2\.1\]",
            {"inertia": np.array([[1.0, 1.0, 2.1]])},
        ),
        (
            r"inertia: expected positive moments, .* body 0 are \[-1",
            {"inertia": np.diag(np.array([1.0, -1, 1]))[None]},
        ),
        (r"inertia: expected symmetric matrices, .* body 0", {"inertia": np.eye(3)[None] + 0.1 * np.eye(3, k=1)}),
        (r"inertia: expected positive, but that of body 0 is 0", {"inertia": np.zeros(1)}),
        (r"params\['inertia'\]: expected shape \(1,\) or \(1, 3\) or .*got \(3,\)", {"inertia": np.ones(3)}),
        (r"friction: expected at least 0, got", {"friction": -0.1}),
        (r"params: expected 'mass' of shape \(1,\)", {"mass": None}),
        (r"shapes\[0\]: expected a shape in 3 dimensions, got Ellipse", {"shapes": shapes.Ellipse(1, 2)}),
        (r"shapes\[0\]: expected a shape in 3 dimensions, got 'cube'", {"shapes": ["cube"]}),
        (
            r"contacts of shapes\[0\] with shapes\[1\], a Box with a Polyhedron, .*pairs=False",
            {"shapes": [shapes.Box(1, 1, 1), WEDGE]},
        ),
        (
            r"contacts of shapes\[0\], an Ellipsoid, with balls are not covered",
            {"shapes": shapes.Ellipsoid(1, 1, 1), "fixed": 1},
        ),
        (
            r"Box\(\*sides\): expected positive lengths, got \[1\.0, 1\.0, -1\.0\]",
            {"shapes": lambda p: [shapes.Box(1, 1, p["size"])], "size": -1.0},
        ),
        (
            r"bodies\(materials=\.\.\.\): expected 2 numbers, .* got 1",
            {"materials": [0], "planes": lambda t, p: (np.eye(1, 3), 0.0)},
        ),
        (r"bodies\(planes=\.\.\.\): expected unit normals", {"planes": lambda t, p: (2 * np.eye(1, 3), 0.0)}),
        (r"bodies\(belt=\.\.\.\): expected planes", {"belt": _belt, "planes": None}),
        (r"bodies\(dimension=4\): expected 2 or 3", {"dimension": 4}),
        (r"impact_law='none'", {"impact_law": "none"}),
    ],
)
def test_bad_input_is_refused_in_one_line(line, changes):
    given = {"q0": Q, "u0": U, "shapes": shapes.Box(1, 1, 1), "dimension": 3, "planes": _floor}
    options = given | {name: value for name, value in changes.items() if name not in PARAMS | {"inertia": 0, "size": 0}}
    own = {name: value for name, value in changes.items() if name not in options}
    params = {name: value for name, value in (PARAMS | own).items() if value is not None}
    with pytest.raises(ValueError, match=line) as error:
        _checked(params, **options)
    assert "\n" not in str(error.value)


@pytest.mark.full
def test_notches_are_refused_only_beside_balls():
    arrow = shapes.Polygon([[0.3, 0.0], [-0.3, 0.2], [-0.1, 0.0], [-0.3, -0.2]])
    params = PARAMS | {"gravity": np.zeros(2), "inertia": np.ones(1)}
    _checked(params, np.zeros(3), np.zeros(3), arrow, 2, planes=lambda t, p: (np.eye(1, 2), -1.0))
    fixed = {"fixed_centre": np.ones((1, 2)), "fixed_radius": 0.1 * np.ones(1)}
    with pytest.raises(ValueError, match=r"shapes\[0\]: expected a Polygon with no notches where it meets balls"):
        _checked(params | fixed, np.zeros(3), np.zeros(3), arrow, 2, fixed=1)


@pytest.mark.full
def test_materials_and_functions_belong_to_their_surfaces():
    system = dc.systems.bodies(
        [shapes.Box(1, 1), shapes.Ball(0.5)],
        2,
        lambda t, p: (np.eye(2), -9 * np.ones(2)),
        fixed=1,
        materials=[0, 1, 2, 0, 1],
    )
    table = np.arange(9.0).reshape(3, 3)
    table = table + table.T
    # Box on planes, ball on planes, box and ball, box and fixed ball, ball and fixed ball.
    pairs = [(0, 0)] * 4 + [(0, 1)] * 4 + [(1, 0), (1, 1), (0, 1), (0, 2), (1, 2)]
    np.testing.assert_array_equal(system.friction({"friction": table}), [table[pair] for pair in pairs])
    assert system is dc.systems.bodies(
        [shapes.Box(1.0, 1.0), shapes.Ball(0.5)], 2, system.solids.planes, fixed=1, materials=(0, 1, 2, 0, 1)
    )


@pytest.mark.full
def test_markers_angles_and_orientations_are_seen_as_they_are():
    rng = np.random.default_rng(7)
    (q, _), (flat, _) = (_state(dimension, 2, 8) for dimension in (3, 2))
    run, plane = SimpleNamespace(q=jnp.stack([q, q[::-1]])), SimpleNamespace(q=flat[None])
    points = rng.normal(size=(2, 3))
    seen = poses.markers(points, body=1)(run, {})
    turned = poses.rotation(poses.of_bodies(q, 3)[1])
    np.testing.assert_allclose(seen[0].reshape(2, 3), np.asarray(q[7:10]) + points @ np.asarray(turned).T, atol=1e-15)
    np.testing.assert_array_equal(poses.markers("where", 1)(run, {"where": points}), seen)
    np.testing.assert_array_equal(poses.angles(1)(plane, {}), [[flat[5]]])
    assert poses.markers(points, 1) == poses.markers(points.tolist(), 1)
    # A run that is simulated on behind its last sample; quaternions of either sign.
    measured = -poses.of_bodies(run.q, 3)[:1, 0, 3:]
    found = poses.orientation("seen")(run, {"seen": measured})
    np.testing.assert_allclose(found[0], 0, atol=1e-15)
    np.testing.assert_allclose(found[1], poses.rotation_vector(run.q[1, 3:7], -measured[0]), atol=1e-15)
    with pytest.raises(ValueError, match=r"markers\(points\): expected shape \(k, 2\) or \(k, 3\), got \(3,\)"):
        poses.markers([1.0, 2.0, 3.0])


@pytest.mark.full
@pytest.mark.parametrize("dimension", [2, 3])
def test_bodies_are_drawn_where_they_are(dimension):
    found = [shape for shape, _ in SURFACES[dimension]]
    system = dc.systems.bodies(found, dimension, _planes, pairs=False)
    params = _params(dimension, len(found))
    q, _ = _state(dimension, len(found), 9)
    drawn = system.draw(0.3, q, params)
    kinds = (
        ["Polygon", "Polygon", "Ellipse"] if dimension == 2 else ["Polyhedron", "Polyhedron", "Line", "Line", "Line"]
    )
    assert [type(one).__name__ for one in drawn] == [*kinds, "Ball", "Wall", "Wall"]
    np.testing.assert_array_equal(drawn[1].place, q[q.size // 4 :][:dimension])
    names = [one.name for one in system.draw.coordinates(params)]
    assert names[: q.size // 4] == [
        f"{x} of body 0" for x in (["x", "y", "angle"], [*"xyz", "qw", "qx", "qy", "qz"])[dimension - 2]
    ]
    # The faces of a drawn body are flat and closed: every edge has two.
    if dimension == 3:
        for one in drawn[:2]:
            edges = [tuple(sorted(edge)) for face in one.faces for edge in zip(face, (*face[1:], face[0]), strict=True)]
            assert all(edges.count(edge) == 2 for edge in edges)


def test_a_body_that_meets_nothing_has_no_rows():
    lone = dc.systems.bodies(dc.shapes.Box(1.0, 0.6, 0.5), 3)
    params = {"mass": jnp.ones(1), "gravity": jnp.zeros(3), "restitution": 0.0, "friction": 0.0}
    assert lone.rows(0.0, jnp.array([0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0]), params).shape == (0, 3, 7)
