"""Scenes of rigid bodies: shapes, orientations of either sign, states from the first frames, and what is refused."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from scipy.spatial.transform import Rotation
from tables import cases

from diffcontact.scene import read_study
from diffcontact.scene.document import read_scene

TIMES = np.arange(41) / 100
GRAVITY = np.array([0.0, 0.0, -9.81])

DIE = """\
[system]
kind = "bodies"
dimension = 3
planes = [[0, 0, 2]]
impact_law = "poisson"
[system.bodies.die]
shape = "box"
sides = [20, 20, 20]
unit = "mm"
[data]
time = "t"
time_unit = "s"
noise = { value = 0.1, unit = "mm" }
[preparation]
kind = "poses"
columns = ["x", "y", "z"]
unit = "cm"
quaternions = ["w", "i", "j", "k"]
angle_noise = { value = 0.5, unit = "deg" }
first_samples = 8
first_curve = "parabola"
[parameters]
mass = { value = 5, unit = "g", free = false }
plane_offset = { value = 0, free = false }
gravity = { value = [0, 0, -9.81], free = false }
restitution = { value = 0.3 }
friction = { value = 0.2 }
q0 = { value = "from data", unit = "cm", per_run = true }
u0 = { value = "from data", unit = "cm/s", per_run = true }
angle0 = { value = "from data", per_run = true }
spin0 = { value = "from data", per_run = true }
"""

PLACE, VELOCITY = np.array([0.1, -0.2, 1.0]), np.array([1.0, 0.5, 2.0])
STATE = ("q0", "u0", "angle0", "spin0")
TURN, SPIN = np.array([0.3, -2.0, 1.5]), np.array([4.0, -7.0, 2.0])


def flight(times=TIMES):
    """Places [m] and quaternions w x y z of a body in flight that turns steadily, in closed form."""
    places = PLACE + times[:, None] * VELOCITY + times[:, None] ** 2 / 2 * GRAVITY
    turned = Rotation.from_rotvec(times[:, None] * SPIN) * Rotation.from_rotvec(TURN)
    return places, np.roll(turned.as_quat(), 1, axis=1)


def write(folder, scene=DIE, poses=None, name="toss", header="t,x,y,z,w,i,j,k"):
    places, quaternions = flight() if poses is None else poses
    rows = np.column_stack([TIMES[: len(places)], 100 * places, quaternions])
    lines = [",".join("" if x != x else repr(float(x)) for x in row) for row in rows]
    (folder / "scene.toml").write_text(scene)
    (folder / f"{name}.csv").write_text("\n".join([header, *lines]) + "\n")
    return folder / "scene.toml", [folder / f"{name}.csv"]


def test_the_first_frames_say_where_a_body_is_and_how_it_turns(tmp_path, rng):
    places, quaternions = flight()
    signs = rng.choice([-1.0, 1.0], size=(41, 1))
    study = read_study(*write(tmp_path, poses=(places, signs * quaternions)))
    # Closed forms, to rounding: parabolas, and rotation vectors along a line.
    np.testing.assert_allclose(study.start["q0"][0], PLACE, atol=1e-12)
    np.testing.assert_allclose(study.start["u0"][0], VELOCITY, atol=1e-10)
    np.testing.assert_allclose(study.start["spin0"][0], SPIN, atol=1e-10)
    found = Rotation.from_rotvec(study.start["angle0"][0]) * Rotation.from_rotvec(TURN).inv()
    assert found.magnitude() < 1e-12
    q0, u0 = map(np.asarray, jax.jit(study.scene.ready.initial)({name: study.start[name][0] for name in STATE}))
    np.testing.assert_allclose(np.abs(q0[3:] @ quaternions[0]), 1.0, rtol=1e-12)
    np.testing.assert_allclose(u0, [*VELOCITY, *SPIN], atol=1e-10)


def test_an_orientation_off_the_measured_one_is_seen_as_its_rotation_whatever_the_signs(tmp_path, rng):
    places, quaternions = flight()
    lost = quaternions.copy()
    lost[7] = np.nan
    signs = rng.choice([-1.0, 1.0], size=(41, 1))
    study = read_study(*write(tmp_path, poses=(places, signs * lost)))
    (run,) = study.runs
    assert np.flatnonzero(np.isnan(run.values).any(axis=1)).tolist() == [7]
    assert not run.values[np.arange(41) != 7, 3:].any()
    assert study.scene.noises.tolist() == pytest.approx([1e-4] * 3 + [np.deg2rad(0.5)] * 3)
    # A motion that is off by the same small rotation all along.
    off = np.array([0.01, -0.02, 0.03])
    turned = Rotation.from_rotvec(off) * Rotation.from_quat(np.roll(quaternions, -1, axis=1))
    motion = np.column_stack([places, np.roll(turned.as_quat(), 1, axis=1)])
    observe = jax.jit(lambda q, params: study.scene.ready.observe(SimpleNamespace(q=q), params))
    seen = np.asarray(observe(motion, study.params(0)))
    kept = np.arange(41) != 7
    np.testing.assert_allclose(seen[kept, :3], run.values[kept, :3], atol=1e-12)
    # Single precision of what the default takes the angles with.
    np.testing.assert_allclose(seen[kept, 3:], np.broadcast_to(off, (40, 3)), atol=1e-6)


def test_runs_of_different_lengths_keep_their_own_orientations(tmp_path):
    places, quaternions = flight()
    scene, long = write(tmp_path)
    _, short = write(tmp_path, poses=(places[:20], -quaternions[:20]), name="short")
    study = read_study(scene, [*long, *short])
    for i, (count, sign) in enumerate(((41, 1), (20, -1))):
        given = study.params(i)["measured_orientation"]
        np.testing.assert_allclose(given[:count], sign * quaternions[:count], rtol=1e-12)


@pytest.mark.parametrize(
    ("dimension", "body", "pose", "gaps"),
    [
        (2, 'shape = "box"\nsides = [4, 2]\nunit = "cm"', (0, 0.05, np.pi / 2), (0.03, 0.03, 0.07, 0.07)),
        (2, 'shape = "polygon"\nvertices = [[-1, -1], [2, -1], [-1, 2]]', (0, 3, 0), (2, 2, 5)),
        (2, 'shape = "ellipse"\nsemi_axes = [3, 1]', (0, 4, np.pi / 2), (1,)),
        (3, 'shape = "ball"\nradius = 1', (0, 0, 3, 1, 0, 0, 0), (2,)),
        (3, 'shape = "ellipsoid"\nsemi_axes = [1, 2, 3]', (0, 0, 4, 1, 0, 0, 0), (1,)),
        (
            3,
            'shape = "polyhedron"\nvertices = [[-1, -1, -1], [3, -1, -1], [-1, 3, -1], [-1, -1, 3]]',
            (0, 0, 2, 1, 0, 0, 0),
            (1, 1, 1, 5),
        ),
    ],
)
def test_bodies_have_the_shapes_that_a_scene_gives_them(tmp_path, dimension, body, pose, gaps):
    up = [0] * (dimension - 1) + [1]
    text = DIE.replace("dimension = 3", f"dimension = {dimension}").replace("[[0, 0, 2]]", f"[{up}]")
    text = text.replace('shape = "box"\nsides = [20, 20, 20]\nunit = "mm"', body)
    if dimension == 2:
        begin, end = text.index("[preparation]"), text.index("[parameters]")
        text = text[:begin] + PLANAR + text[end:].replace("[0, 0, -9.81]", "[0, -9.81]")
    scene = write(tmp_path, text)[0]
    system = read_scene(scene).ready.system
    found = jax.jit(system.gap)(0.0, np.array(pose, float), {"plane_offset": np.zeros(1)})
    np.testing.assert_allclose(np.sort(found), gaps, atol=1e-6)


PLANAR = """\
[preparation]
kind = "coordinates"
columns = ["x", "z"]
unit = "cm"
angles = ["w"]
angle_noise = { value = 0.5, unit = "deg" }
"""


@cases(
    "old new message",
    r"""
    dimension = 3 | dimension = 4 | system.dimension: 4, expected at most 3
    "box" | "bix" | system.bodies.die.shape: no such shape 'bix'; did you mean 'box'?
    sides = [20 | radius = [20 | system.bodies.die.radius: of a box, expected sides alone
    [20, 20, 20] | [20, -1, 20] | system.bodies.die.sides: Box(*sides): expected positive lengths
    [20, 20, 20] | [20, 20] | system.bodies.die.shape: a box like this is none of 3 dimensions
    sides = [20, 20, 20]\nunit = "mm" |  | system.bodies.die.sides: missing, expected a number or a list
    "poisson" | "poison" | system.impact_law: no such impact_law 'poison'; did you mean 'poisson'?
    [[0, 0, 2]] | [[0, 2]] | system.planes: [[0.0, 2.0]], expected a list of normals of 3 numbers each
    [parameters]\n | [parameters]\ninertia = { value = "?" }\n | parameters.inertia.value: '?', expected a
    "x", "y", "z" | "x", "y" | preparation.columns: 2 names, expected 3, 3 for each of 1 body
    { value = 0.5, unit | { value = 0, unit | preparation.angle_noise: 0.0 rad, expected above 0
    "parabola" | "circle" | preparation.first_curve: no such first_curve 'circle'; known are
    angle0 = { value = "from data", per_run = true } |  | parameters.angle0: missing, expected { value = 'from
    "w", "i", "j", "k" | "x", "i", "j", "k" | column 'x' is used twice
    """,
)
def test_bad_bodies_are_named(tmp_path, old, new, message):
    assert DIE.count(old) >= 1
    with pytest.raises(ValueError) as caught:
        read_study(*write(tmp_path, DIE.replace(old, new, 1)))
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_measurements_are_named(tmp_path):
    places, quaternions = flight()
    quaternions[3] *= 0.5
    with pytest.raises(ValueError, match=r"toss\.csv: the quaternion of body 0 at t = 0\.03 has length 0\.5"):
        read_study(*write(tmp_path, poses=(places, quaternions)))
    with pytest.raises(ValueError, match=r"parameters\.q0: gap 3 is .* so two bodies overlap by"):
        read_study(*write(tmp_path, poses=(places - [0, 0, 1], flight()[1])))


def test_boxes_that_would_meet_are_refused(tmp_path):
    more = '\n[system.bodies.other]\nshape = "box"\nsides = [1, 1, 1]\n\n[data]'
    with pytest.raises(ValueError, match=r"scene\.toml: system\.bodies: .*pairs"):
        read_study(*write(tmp_path, DIE.replace("\n[data]", more, 1)))
