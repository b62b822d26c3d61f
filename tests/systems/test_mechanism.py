"""Mechanisms from model files beside MuJoCo, which reads them, and beside closed forms."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import zoo

import diffcontact as dc
from diffcontact import Status
from diffcontact.systems.geoms import Touching

mujoco = pytest.importorskip("mujoco", reason="mechanism reads files by MuJoCo, the extra `mujoco`")

PENDULUM = """<mujoco><worldbody><body name="rod">
<joint name="hinge" axis="0 1 0" damping=".1" armature=".01" stiffness="2" springref="20" ref="5"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 -1" mass="1"/></body></worldbody>
<actuator><motor joint="hinge" gear="3" ctrlrange="-.5 .5"/>
<position joint="hinge" kp="4" kv=".3" forcerange="-1 1"/></actuator></mujoco>"""

# Every kind of joint below every other, anchors, welded bodies, inertias that are not along the axes.
CHAIN = """<mujoco><option gravity="1 2 -9"/><worldbody><body name="base" pos="0 0 1"><freejoint name="free"/>
<geom type="box" size=".05 .025 .025" mass=".37"/>
<body name="arm" pos="-.035 .06 0"><joint name="elbow" axis="0 1 0" damping=".001" ref="10"/>
  <geom type="box" pos=".035 .01 0" euler="10 20 30" size=".05 .025 .025" mass=".37"/>
  <body name="rod" pos="0 .1 0" quat=".9 .1 .2 .1">
    <joint name="shaft" type="slide" axis="0 .6 .8" pos=".1 0 0" stiffness="3" ref=".1" springref=".2"/>
    <joint name="crank" pos=".01 .02 0" axis="1 0 0" armature=".1"/>
    <geom type="capsule" size=".02 .1" mass=".2"/>
    <body name="welded" pos=".1 0 .1" euler="20 30 40"><geom type="ellipsoid" size=".1 .02 .03" mass=".3"/>
      <body name="bob" pos="0 .1 .1" euler="10 30 0" gravcomp=".4">
        <joint name="socket" type="ball" stiffness="1.5" damping=".1" pos=".02 .03 .01"/>
        <geom type="cylinder" size=".02 .1" pos=".02 .03 .1"/></body></body></body></body></body>
<body name="other" pos="3 0 1"><freejoint/><geom size=".1" pos=".01 .02 .03"/></body></worldbody></mujoco>"""

ARM = """<robot name="arm"><link name="base"/>
<link name="upper"><inertial><origin xyz=".1 .02 .3" rpy=".1 .2 .3"/><mass value="2"/>
<inertia ixx=".1" iyy=".2" izz=".15" ixy=".01" ixz="0" iyz=".02"/></inertial></link>
<link name="lower"><inertial><origin xyz="0 0 .2"/><mass value="1"/>
<inertia ixx=".05" iyy=".05" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0 0 1" rpy="0 .3 0"/>
<axis xyz="0 1 0"/><limit lower="-1" upper="2" effort="10" velocity="3"/><dynamics damping=".3"/></joint>
<joint name="lift" type="prismatic"><parent link="upper"/><child link="lower"/><origin xyz="0 .1 .6"/>
<axis xyz="1 0 1"/><limit lower="0" upper=".5" effort="10" velocity="3"/></joint></robot>"""

# Hips are ball joints with a largest angle.
SPIDER = """<mujoco><worldbody><body name="trunk" pos="0 0 1"><freejoint/><geom type="ellipsoid" size=".2 .1 .05"/>{}
</body></worldbody></mujoco>""".format(
    "".join(
        f"""<body name="thigh{i}" pos="{x} {y} 0"><joint type="ball" range="0 60"/><geom type="capsule" size=".02"
fromto="0 0 0 {x} {y} 0"/><body name="shin{i}" pos="{x} {y} 0"><joint axis="{-y} {x} 0" range="-90 10"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2"/></body></body>"""
        for i, (x, y) in enumerate([(0.1, 0.1), (0.1, -0.1), (-0.1, -0.1), (-0.1, 0.1)])
    )
)
# A crank that drives a slider, a bar that is welded to it, a wheel that is geared to crank and rod. Of the three
# equations of the loop two say something.
LOOP = """<mujoco><option><flag contact="disable"/></option><worldbody>
<body name="crank"><joint name="crank" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 .3 0 0" mass="1"/>
  <body name="rod" pos=".3 0 0"><joint name="pin" axis="0 1 0" damping=".1"/>
    <geom type="capsule" size=".02" fromto="0 0 0 .8 0 0" mass=".5"/></body></body>
<body name="slider" pos="1.1 0 0"><joint name="slider" type="slide" axis="1 0 0" range="-.45 1" armature=".3"/>
  <geom type="box" size=".05 .05 .05" mass="2"/></body>
<body name="bar" pos="1.2 0 .3" euler="10 20 30"><freejoint name="free"/><geom type="box" size=".05 .1 .2" mass=".4"/>
  <site name="end" pos=".05 .1 0" euler="30 20 10"/></body>
<body name="wheel" pos="0 1 0"><joint name="wheel" axis="1 0 0" ref="20"/><geom size=".1" mass=".7"/></body></worldbody>
<equality><connect body1="rod" body2="slider" anchor=".8 0 0"/><weld body1="slider" body2="bar"/>
<tendon tendon1="wheels" tendon2="sum" polycoef=".1 .5 .2 0 0"/></equality><tendon><fixed name="wheels">
<joint joint="wheel" coef="2"/></fixed><fixed name="sum"><joint joint="crank" coef=".8"/><joint joint="pin" coef=".1"/>
</fixed></tendon></mujoco>"""
STOPPED = """<mujoco><option gravity="0 0 0"/><worldbody><body><joint name="hinge" axis="0 1 0" range="-90 30"/>
<geom size=".1" pos="0 0 -1" mass="2"/></body></worldbody></mujoco>"""
# Weighted sums of joints with springs, dampers, a motor and a servo.
TENDONS = """<mujoco><worldbody><body><joint name="one" axis="0 1 0" ref="10"/><geom size=".1" pos=".3 0 0"/>
<body pos=".3 0 0"><joint name="two" axis="1 1 0"/><joint name="three" type="slide" axis="1 0 0" actuatorfrcrange="-1 2"
actuatorfrclimited="true"/><geom size=".1" pos=".3 0 0"/></body></body></worldbody>
<tendon><fixed name="tight" stiffness="3" damping=".2" springlength=".1 .3"><joint joint="one" coef=".5"/>
<joint joint="three" coef="-2"/></fixed><fixed name="geared"><joint joint="one" coef="2"/><joint joint="two" coef=".7"/>
</fixed><fixed name="slack" stiffness="2"><joint joint="two" coef="1"/></fixed></tendon>
<actuator><motor tendon="tight" gear="3"/>
<position tendon="geared" kp="4" kv=".3" gear=".5" forcerange="-1 1"/></actuator>
</mujoco>"""
# Strings along sites of three bodies and the world, one of them over a pulley and with limits.
STRINGS = """<mujoco><worldbody><site name="wall" pos=".1 .2 .5"/><body><joint name="one" axis="0 1 0"/>
<geom size=".1" pos=".3 0 0"/><site name="elbow" pos=".2 .1 0"/><body pos=".3 0 0" euler="10 20 30">
<joint name="two" type="ball"/><geom type="box" size=".1 .2 .1"/><site name="hand" pos=".3 .2 .1"/></body></body>
<body name="bob" pos="0 1 1"><freejoint/><geom size=".1"/><site name="bob" pos=".1 0 0"/></body></worldbody>
<tendon><spatial name="string" stiffness="30" damping=".2" springlength="0 .7"><site site="wall"/><site site="elbow"/>
<site site="hand"/></spatial><spatial name="pulley" limited="true" range=".2 1.5" margin=".1" stiffness="3">
<site site="wall"/><site site="bob"/><pulley divisor="2"/><site site="bob"/><site site="hand"/></spatial>
<fixed name="stop" limited="true" range="-1 2"><joint joint="one" coef="2"/></fixed></tendon>
<actuator><motor tendon="pulley" gear="3"/><position tendon="string" kp="4" kv=".3"/></actuator></mujoco>"""
# Thrusters at tilted sites, one with a torque and one with a damper along its way.
ROCKET = """<mujoco><worldbody><body><freejoint/><geom type="box" size=".1 .2 .3" mass="1"/><body pos=".2 0 0">
<joint name="gimbal" axis="1 1 0"/><geom size=".1" mass=".3"/>
<site name="nozzle" pos=".1 .2 .3" euler="10 20 30"/></body><site name="rotor" pos="0 .2 0" euler="50 0 0"/></body>
</worldbody><actuator><motor site="rotor" gear="0 0 2 0 0 .3"/>
<velocity site="nozzle" kv=".4" gear="1 2 3 .1 .2 .3"/></actuator></mujoco>"""
MODELS = {
    "pendulum": PENDULUM, "chain": CHAIN, "arm": ARM, "spider": SPIDER, "tendons": TENDONS, "strings": STRINGS,
    "rocket": ROCKET,
}  # fmt: skip
ONE_BODY = '<mujoco><worldbody><body name="b">{}<geom name="g" size=".1"/></body>{}</worldbody>{}</mujoco>'


def made(text, **options):
    """The mechanism without contacts of geoms, and MuJoCo's model of it."""
    return dc.systems.mechanism(text, contacts=(), **options), mujoco.MjModel.from_xml_string(text)


def state(system, seed=0):
    rng = np.random.default_rng(seed)
    q = rng.normal(size=system.q0.size)
    return _normalised(system, q), rng.normal(size=system.model.tree.velocities)


def _normalised(system, q):
    """The coordinates with quaternions of length 1."""
    return q if system.normalise is None else np.asarray(jax.jit(system.normalise)(q))


@pytest.mark.parametrize("name", MODELS)
def test_mass_forces_and_poses_are_those_of_mujoco(name):
    system, m = made(MODELS[name])
    control = np.array([0.9, -0.4])[: m.nu]
    rng, d = np.random.default_rng(0), mujoco.MjData(m)

    @jax.jit
    def found_at(q, u):
        q = q if system.normalise is None else system.normalise(q)
        given = {"control": control}
        rate = u if system.rate is None else system.rate(q, u, {})
        return q, system.mass(q, {}), system.force(0.0, q, u, given), system.body_poses(q), rate

    for _ in range(3):
        u = rng.normal(size=m.nv)
        q, mass, force, poses, rate = map(np.asarray, found_at(rng.normal(size=m.nq), u))
        d.qpos[:], d.qvel[:], d.ctrl[:] = q, u, control
        mujoco.mj_forward(m, d)
        expected = np.stack([_times_mass(m, d, e) for e in np.eye(m.nv)])
        np.testing.assert_allclose(mass, expected, atol=1e-13)
        forces = d.qfrc_passive + d.qfrc_actuator - d.qfrc_bias
        np.testing.assert_allclose(force, forces, atol=1e-12)
        before, after, h = q.copy(), q.copy(), 1e-6
        mujoco.mj_integratePos(m, before, u, -h)
        mujoco.mj_integratePos(m, after, u, h)
        np.testing.assert_allclose(rate, (after - before) / (2 * h), atol=1e-8)
        moving = m.body_weldid > 0
        np.testing.assert_allclose(poses[:, :3], d.xpos[moving], atol=1e-13)
        along = np.sum(poses[:, 3:] * d.xquat[moving], axis=1)
        np.testing.assert_allclose(np.abs(along), 1.0, atol=1e-13)


def _times_mass(m, d, vector):
    found = np.zeros(m.nv)
    mujoco.mj_mulM(m, d, found, vector)
    return found


def test_longer_moves_are_those_of_mujoco():
    system, m = made(CHAIN)
    q, u = state(system)
    moved = q.copy()
    mujoco.mj_integratePos(m, moved, u, 0.3)

    @jax.jit
    def along(theta):
        velocity = system.dexpinv(theta, u, {})
        there, moving = jax.jvp(lambda theta: system.advance(q, theta, 1.0, {}), (theta,), (velocity,))
        return system.advance(q, u, 0.3, {}), moving, system.rate(there, u, {})

    found, *rates = along(0.5 * u[::-1])
    np.testing.assert_allclose(found, moved, atol=1e-13)
    np.testing.assert_allclose(*rates, atol=1e-13)


def test_a_loop_moves_as_the_constraints_of_mujoco_say():
    """Velocities, mass and forces along the one motion that the rows of MuJoCo's Jacobian leave."""
    system, m = made(LOOP, independent=["crank"])
    m.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    joints = system.model.tree

    def at(q, w):
        return system.mass(q, {}), system.force(0.0, q, w, {}), system.rate(q, w, {}), system.normalise(q, {})

    def basis(q):
        """(d,) the velocities where that of the crank is 1."""
        d = mujoco.MjData(m)
        d.qpos[:] = q
        mujoco.mj_forward(m, d)
        rows = d.efc_J.reshape(-1, m.nv)[: d.ne]
        return np.concatenate([[1.0], -np.linalg.lstsq(rows[:, 1:], rows[:, 0], rcond=None)[0]])

    of, turning = jax.jit(at), jax.jit(joints.rate)
    assert system.names["independent"] == ("crank",)
    q, w = system.q0, np.array([0.7])
    for angle in (0.0, 0.4, 2.0):
        # From the file's configuration on, as far as Newton's steps find the way.
        for part in np.linspace(q[0], angle, 9):
            q = np.array(of(np.concatenate([[part], q[1:]]), w)[3])
        mass, force, rate, closed = of(q, w)
        np.testing.assert_allclose(closed, q, atol=1e-12)
        Z, moved, h = basis(q), np.array(q), 1e-6
        np.testing.assert_allclose(rate, turning(q, 0.7 * Z), atol=1e-12)
        d = mujoco.MjData(m)
        d.qpos[:], d.qvel[:] = q, 0.7 * Z
        mujoco.mj_forward(m, d)
        M = np.stack([_times_mass(m, d, e) for e in np.eye(m.nv)])
        np.testing.assert_allclose(mass[0, 0], Z @ M @ Z, atol=1e-12)
        ends = []
        for s in (h, -h):
            moved = q.copy()
            mujoco.mj_integratePos(m, moved, 0.7 * Z, s)
            ends.append(basis(moved))
        turned = 0.7 * (ends[0] - ends[1]) / (2 * h)
        forces = d.qfrc_passive + d.qfrc_actuator - d.qfrc_bias
        # What differences over 1e-6 are right to.
        np.testing.assert_allclose(force[0], Z @ (forces - M @ turned), atol=1e-8)


def test_parameters_replace_numbers_of_the_file():
    system, _ = made(CHAIN)
    q, u = state(system)
    given = system.defaults
    given["mass"][system.index("mass", "bob")] = 0.7
    given["damping"][system.index("damping", "elbow")] = 0.2
    body = '<body name="bob" pos="0 .1 .1" euler="10 30 0" gravcomp=".4">'
    inertia, centre = system.defaults["inertia"][4], system.defaults["centre"][4]
    inertial = '<inertial mass=".7" pos="{} {} {}" diaginertia="{} {} {}"/>'.format(*centre, *inertia)
    text = CHAIN.replace(body, body + inertial).replace('damping=".001"', 'damping=".2"')
    changed, _ = made(text)

    @jax.jit
    def both(given):
        return [(of.mass(q, own), of.force(0.0, q, u, own)) for of, own in ((system, given), (changed, {}))]

    (mass, force), (expected, forces) = both(given)
    np.testing.assert_allclose(mass, expected, atol=1e-13)
    np.testing.assert_allclose(force, forces, atol=1e-12)
    with pytest.raises(ValueError, match=r"params\['mass'\]: expected shape \(6,\), got \(2,\)"):
        jax.eval_shape(system.mass, q, {"mass": np.ones(2)})
    with pytest.raises(ValueError, match=r"index\('masses', 'bob'\): expected a parameter, one of mass, inertia"):
        system.index("masses", "bob")
    with pytest.raises(ValueError, match=r"index\('mass', 'wing'\): expected one of base, arm, rod"):
        system.index("mass", "wing")


KINDS = {
    "sphere": 'type="sphere" size=".1"',
    "long": 'type="capsule" size=".1 .3"',
    "thin": 'type="capsule" size=".05 .2"',
    "box": 'type="box" size=".1 .2 .3"',
    "ellipsoid": 'type="ellipsoid" size=".1 .2 .3"',
}


def _scene():
    """All kinds above an inclined plane; the round ones meet each other."""
    geoms = [
        f'<body><freejoint/><geom name="{name}" {kind} pos=".03 .02 .1" euler="30 40 50" '
        + f'contype="{0 if name in ("box", "ellipsoid") else 2}" '
        + f'conaffinity="{1 if name in ("box", "ellipsoid") else 3}"/></body>'
        for name, kind in KINDS.items()
    ]
    plane = '<geom name="floor" contype="1" conaffinity="0" type="plane" size="5 5 1" euler="10 20 0" pos="0 0 -.1"/>'
    return f"<mujoco><worldbody>{plane}{''.join(geoms)}</worldbody></mujoco>"


def test_gaps_are_distances_of_mujoco_and_slips_those_of_material_points():
    text = _scene()
    system, m = dc.systems.mechanism(text), mujoco.MjModel.from_xml_string(text)
    d, names, gap, rng = (
        mujoco.MjData(m),
        np.array(system.names["contacts"]),
        jax.jit(system.gap),
        np.random.default_rng(1),
    )
    pairs = system.names["friction"]
    assert set(pairs) == {f"floor/{name}" for name in KINDS} | {"sphere/long", "sphere/thin", "long/thin"}
    for _ in range(50):
        q = rng.normal(size=m.nq)
        q.reshape(-1, 7)[:, 3:] /= np.linalg.norm(q.reshape(-1, 7)[:, 3:], axis=1, keepdims=True)
        d.qpos[:] = q
        mujoco.mj_forward(m, d)
        gaps = np.asarray(gap(0.0, q, {}))
        for pair in pairs:
            one, other = (m.geom(name).id for name in pair.split("/"))
            # Crossed capsules overlap by another depth: distances of their axes have no sign.
            expected = mujoco.mj_geomDistance(m, d, one, other, 100.0, None)
            np.testing.assert_allclose(gaps[names == pair].min(), expected, atol=1e-6)


BOXES = """<mujoco><worldbody><geom name="floor" type="plane" size="5 5 1" euler="10 20 0" contype="4" conaffinity="0"/>
<body><freejoint/><geom name="box" type="box" size=".1 .2 .3" contype="1" pos=".02 .01 .03" euler="20 30 10"/></body>
<body><freejoint/><geom name="ball" size=".1" contype="0"/></body>
<body><freejoint/><geom name="rod" type="capsule" size=".05 .3" contype="0" pos=".01 .02 .03" euler="10 20 30"/></body>
<body><freejoint/><geom name="wheel" type="cylinder" size=".2 .05" contype="0" conaffinity="4" pos=".01 .02 0"/></body>
</worldbody></mujoco>"""


def test_boxes_and_cylinders_touch_where_mujoco_has_them():
    """Distances, nearest points, and first and second derivatives beside differences."""
    system, m = dc.systems.mechanism(BOXES), mujoco.MjModel.from_xml_string(BOXES)
    d, names, rng, h = mujoco.MjData(m), np.array(system.names["contacts"]), np.random.default_rng(0), 1e-6
    touching, joints = Touching.of(system.model.pairs), system.model.tree
    assert set(names) == {"box/ball", "box/rod", "floor/wheel"}

    @jax.jit
    def at(q, v):
        def gap(q):
            return system.gap(0.0, q, {})

        def rate(q):
            return jax.jvp(gap, (q,), (v,))[1]

        return touching.at(joints.frames(q)), rate(q), jax.jvp(rate, (q,), (v,))[1]

    def found(q, v):
        return jax.tree.map(np.asarray, at(q, v))

    for _ in range(30):
        q, v = 0.5 * rng.normal(size=m.nq), rng.normal(size=m.nq)
        q.reshape(-1, 7)[:, 3:] /= np.linalg.norm(q.reshape(-1, 7)[:, 3:], axis=1, keepdims=True)
        d.qpos[:] = q
        mujoco.mj_forward(m, d)
        (gaps, _, first, second), slope, bend = found(q, v)
        for pair in set(names):
            ends, nearest = np.zeros(6), np.flatnonzero(names == pair)
            nearest = nearest[np.argmin(gaps[nearest])]
            expected = mujoco.mj_geomDistance(m, d, *(m.geom(of).id for of in pair.split("/")), 100.0, ends)
            if expected < 1e-3:
                continue
            np.testing.assert_allclose(gaps[nearest], expected, atol=1e-9)
            np.testing.assert_allclose([*first[nearest], *second[nearest]], ends, atol=1e-6)
        (up, rising, _), (down, falling, _) = (found(q + s * v, v) for s in (h, -h))
        apart = np.asarray(gaps) > 1e-3
        np.testing.assert_allclose(slope[apart], ((up.gap - down.gap) / (2 * h))[apart], atol=1e-7)
        np.testing.assert_allclose(bend[apart], ((rising - falling) / (2 * h))[apart], atol=1e-5)


# MuJoCo rounds vertices of meshes to single precision, which these have.
CUBOID = " ".join(f"{x} {y} {z}" for x in (-0.125, 0.125) for y in (-0.0625, 0.0625) for z in (-0.25, 0.25))
MESHES = f"""<mujoco><asset><mesh name="skew" vertex=".05 .05 .05  0 0 0  .3 0 0  0 .2 0  0 .1 .4"/>
<mesh name="cuboid" vertex="0 0 0 {CUBOID}"/></asset><worldbody>
<geom name="floor" type="plane" size="5 5 1" euler="10 20 0" contype="2" conaffinity="0"/><body><freejoint/>
<geom name="skew" type="mesh" mesh="skew" pos=".1 .2 .3" euler="10 20 30" contype="0" conaffinity="2"/></body>
<body><freejoint/><geom name="cuboid" type="mesh" mesh="cuboid" contype="0" conaffinity="2"/></body>
<body><freejoint/><geom name="box" type="box" size=".125 .0625 .25" contype="0" conaffinity="2"/></body>
</worldbody></mujoco>"""


def test_the_hull_of_a_mesh_touches_a_plane_where_mujoco_has_it_and_a_cuboid_as_a_box():
    system, m = dc.systems.mechanism(MESHES), mujoco.MjModel.from_xml_string(MESHES)
    names, rng, d = np.array(system.names["contacts"]), np.random.default_rng(3), mujoco.MjData(m)
    assert [int(np.sum(names == f"floor/{name}")) for name in ("skew", "cuboid", "box")] == [4, 8, 8]
    at = jax.jit(lambda q: (system.gap(0.0, q, {}), system.rows(0.0, q, {})))
    for _ in range(20):
        q = rng.normal(size=(3, 7))
        q[:, 3:] /= np.linalg.norm(q[:, 3:], axis=1, keepdims=True)
        q[2] = q[1]
        d.qpos[:] = q.ravel()
        mujoco.mj_forward(m, d)
        gaps, rows = map(np.asarray, at(q.ravel()))
        expected = mujoco.mj_geomDistance(m, d, m.geom("floor").id, m.geom("skew").id, 100.0, None)
        np.testing.assert_allclose(gaps[names == "floor/skew"].min(), expected, atol=1e-12)
        mesh, box = (np.flatnonzero(names == f"floor/{name}") for name in ("cuboid", "box"))
        mesh, box = (of[np.argsort(gaps[of])] for of in (mesh, box))
        np.testing.assert_allclose(gaps[mesh], gaps[box], atol=1e-13)
        np.testing.assert_allclose(rows[mesh, :, 6:12], rows[box, :, 12:18], atol=1e-12)


def test_a_hull_of_many_vertices_is_refused_and_the_file_can_coarsen_it():
    ring = " ".join(f"{np.cos(i):.4f} {np.sin(i):.4f} {z}" for i in range(40) for z in (0, 1))
    wheel = f'''<mujoco><asset><mesh name="m" vertex="{ring}" {{}}/></asset><worldbody><geom name="floor" type="plane"
    size="1 1 1"/><body><freejoint/><geom name="rim" type="mesh" mesh="m"/></body></worldbody></mujoco>'''
    line = r"geoms 'floor' with 'rim' \(plane with mesh: its hull has 80 vertices, expected at most 64, .*maxhullvert"
    with pytest.raises(ValueError, match=line):
        dc.systems.mechanism(wheel.format(""))
    assert dc.systems.mechanism(wheel.format(""), contacts=()).names["contacts"] == ()
    coarse = dc.systems.mechanism(wheel.format('maxhullvert="20"'))
    assert coarse.names["contacts"] == ("floor/rim",) * 20
    shapes = jax.jit(lambda q: coarse.draw(0.0, q, {}))(coarse.q0)
    assert [type(shape).__name__ for shape in shapes] == ["Wall", "Polyhedron"]


MARGINS = """<mujoco><worldbody><geom name="floor" type="plane" size="5 5 1" margin=".02" gap=".01"/>
<body pos="0 0 .1"><joint name="turn" axis="1 0 0" range="-60 60" margin=".1"/>
<geom name="bar" type="capsule" size=".02" fromto="0 0 0 0 .3 0" margin=".03"/></body>
<body pos="0 .2 .1"><freejoint/><geom name="ball" size=".05" margin=".04" gap=".02"/></body></worldbody>
<contact><pair geom1="floor" geom2="ball" margin=".07" gap=".01"/></contact></mujoco>"""


def test_margins_are_those_of_mujoco():
    """Of pairs, of geoms and of joints; friction acts in the middle of what touches at a distance."""
    system, m = dc.systems.mechanism(MARGINS), mujoco.MjModel.from_xml_string(MARGINS)
    d, names = mujoco.MjData(m), np.array(system.names["contacts"])
    d.qpos[0], d.qpos[3] = -0.31, 0.09
    mujoco.mj_forward(m, d)
    gaps = np.asarray(jax.jit(system.gap)(0.0, d.qpos, {}))
    met = {}
    for contact in d.contact:
        pair = "/".join(sorted((m.geom(of).name for of in contact.geom), key=["floor", "bar", "ball"].index))
        met.setdefault(pair, []).append(contact.dist - contact.includemargin)
    assert met.keys() == {"floor/bar", "floor/ball", "bar/ball"}
    for pair, expected in met.items():
        np.testing.assert_allclose(gaps[names == pair].min(), min(expected), atol=1e-12)
    np.testing.assert_allclose(gaps[-2:], np.radians(60) - 0.1 + np.array([-0.31, 0.31]), atol=1e-12)
    # Of a ball that is above the floor as far as it touches, the slip is that of the point between.
    q, u, number = system.q0, np.zeros(7), np.flatnonzero(names == "floor/ball")[0]
    margin = system.model.pairs[system.names["friction"].index("floor/ball")][2]
    q[1:4], u[1], u[5] = [5.0, 0.0, 0.05 + margin], 2.0, 3.0
    slip, gap = jax.jit(lambda: (system.slip(0.0, q, u, {})[number], system.gap(0.0, q, {})[number]))()
    np.testing.assert_allclose(slip, [2.0 - 3.0 * (0.05 + margin / 2), 0.0], atol=1e-12)
    np.testing.assert_allclose(gap, 0.0, atol=1e-12)


def test_friction_and_what_touches_are_those_of_mujoco():
    """All geoms in one place: MuJoCo lists every pair that may touch."""
    rng = np.random.default_rng(2)
    sphere = '<geom name="g{}" size=".1" contype="{}" conaffinity="{}" friction="{}" priority="{}" condim="{}"/>'
    numbers = [
        (i, *rng.integers(0, 4, 2), rng.uniform(0.1, 1), *rng.integers(0, 2, 1), rng.choice([1, 3])) for i in range(8)
    ]
    own = [sphere.format(*row) for row in numbers]
    joint = '<joint type="ball"/>'
    text = f"""<mujoco><worldbody>{own[0]}<body name="a">{joint}{own[1]}<body name="b">{own[2]}
    <body name="c">{joint}{own[3]}<body name="d">{joint}{own[4]}</body></body></body></body>
    <body name="e">{joint}{own[5]}</body><body name="f"><freejoint/>{own[6]}<body name="g">
    {joint}{own[7]}</body></body></worldbody><contact><exclude body1="a" body2="e"/>
    <pair geom1="g6" geom2="g7" friction=".3 .3 0 0 0"/></contact></mujoco>"""
    m = mujoco.MjModel.from_xml_string(text)
    d = mujoco.MjData(m)
    mujoco.mj_forward(m, d)
    expected = {
        tuple(sorted(m.geom(geom).name for geom in contact.geom)): 0.0 if contact.dim == 1 else contact.friction[0]
        for contact in d.contact
    }
    system = dc.systems.mechanism(text)
    pairs = [tuple(sorted(pair.split("/"))) for pair in system.names["friction"]]
    assert len(pairs) == len(set(pairs)) > 5
    assert dict(zip(pairs, system.defaults["friction"], strict=True)) == pytest.approx(expected)
    only = dc.systems.mechanism(text, contacts=[("g7", "g6")], restitution={("g7", "g6"): 0.4}, friction=0.1)
    assert only.names["contacts"] == ("g6/g7",)
    assert only.index("friction", "g7", "g6") == 0
    assert (only.defaults["restitution"], only.defaults["friction"]) == (0.4, 0.1)


TENDON = '<tendon><fixed name="t" frictionloss=".1"><joint joint="j" coef="1"/></fixed></tendon>'
REFUSED = {
    "tendon": (
        ONE_BODY.format('<joint name="j"/>', "", TENDON),
        "tendon 't' .frictionloss.",
    ),
    "actuator": (
        ONE_BODY.format('<joint name="j"/>', "", '<actuator><cylinder name="c" joint="j"/></actuator>'),
        "actuator 'c' .it has a state of its own.",
    ),
    "contact": (
        ONE_BODY.format("<freejoint/>", '<geom name="h" type="cylinder" size="1 1"/>', ""),
        "contact of geoms 'h' with 'g' .cylinder with sphere.",
    ),
    "condim": (
        ONE_BODY.format("<freejoint/>", '<geom name="h" type="plane" size="1 1 1" condim="4"/>', ""),
        "condim 4 of geoms 'h' with 'g'",
    ),
    "fluid": (ONE_BODY.format("<freejoint/>", '', '<option density="1.2"/>'), "a medium of density 1.2"),
    "mocap": (
        ONE_BODY.format("<freejoint/>", '<body name="hand" mocap="true"><geom size=".1" contype="0"/></body>', ""),
        "mocap body 'hand'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_not_supported_is_refused_by_name_and_can_be_waived(kind):
    text, line = REFUSED[kind]
    with pytest.raises(ValueError, match=f"not supported: .*{line}.*ignore=.*'{kind}'"):
        dc.systems.mechanism(text)
    dc.systems.mechanism(text, ignore=(kind,))


def test_a_tendon_that_wraps_about_a_geom_is_refused_with_what_acts_on_it():
    text = STRINGS.replace(
        '<site site="hand"/></spatial><spatial', '<geom geom="g"/><site site="hand"/></spatial><spatial'
    ).replace('<geom size=".1" pos=".3 0 0"/>', '<geom name="g" size=".1" pos=".3 0 0"/>')
    line = r"tendon 'string' \(stiffness, wrapped about geoms\);.* actuator 'actuator 1' \(its tendon is wrapped"
    with pytest.raises(ValueError, match=line):
        dc.systems.mechanism(text, contacts=())
    waived = dc.systems.mechanism(text, contacts=(), ignore=("tendon", "actuator"))
    assert waived.names["control"] == ("actuator 0",)
    assert waived.model.tendons.stiffness.tolist() == [3.0]


def test_a_constraint_of_a_tendon_along_sites_is_refused_and_can_be_waived():
    sites = '<joint name="j"/><site name="a"/><site name="b" pos="0 0 1"/>'
    tendon = '<tendon><spatial name="t"><site site="a"/><site site="b"/></spatial></tendon>'
    text = ONE_BODY.format(sites, "", tendon + '<equality><tendon name="e" tendon1="t"/></equality>')
    with pytest.raises(ValueError, match=r"not supported: equality 'e' \(tendon\); ignore=\('equality',\)"):
        dc.systems.mechanism(text)
    dc.systems.mechanism(text, ignore=("equality",))


@pytest.mark.parametrize(
    ("model", "options", "line"),
    [
        ("<mujoco><nonsense/></mujoco>", {}, "MuJoCo cannot read text: XML Error"),
        ("nowhere.xml", {}, "MuJoCo cannot read 'nowhere.xml'"),
        ("<mujoco/>", {}, "expected a model with a joint"),
        (PENDULUM, {"ignore": ("friction loss",)}, r"ignore=\('friction loss',\)\): expected some of equality"),
        (PENDULUM, {"restitution": {"elbow": 0.5}}, r"restitution=\.\.\.\): 'elbow': expected one of"),
        (PENDULUM, {"independent": ["hinge"]}, "expected a model with constraints of equality, got none"),
        (LOOP, {"independent": ["wing"]}, "wing: expected some of crank, pin, slider"),
        (LOOP, {"independent": ["crank", "pin"]}, "expected 1 velocities that give all others, got 2"),
        (PENDULUM, {"contacts": [("a", "b")]}, "geoms that do not touch in this model: a and b"),
        (PENDULUM, {"control": 1.0}, "control=1.0.: expected a function"),
        (PENDULUM, {"contacts": ["floor"]}, "expected pairs of names of geoms, got 'floor'"),
        (STOPPED, {"restitution": 1.5}, r"restitution=\.\.\.\): expected numbers within \[0, 1\], got \[1.5\]"),
        (3, {}, "expected a path or text"),
    ],
)
def test_bad_arguments_are_named(model, options, line):
    with pytest.raises(ValueError, match=line):
        dc.systems.mechanism(model, **options)


def test_files_are_read_and_pictures_have_every_geom(tmp_path):
    (tmp_path / "scene.xml").write_text(_scene())
    system = dc.systems.mechanism(tmp_path / "scene.xml")
    shapes = [type(shape).__name__ for shape in jax.jit(lambda q: system.draw(0.0, q, {}))(system.q0)]
    assert shapes == ["Wall", "Ball", *["Polyhedron", "Ball"] * 2, "Polyhedron", *["Line"] * 3]
    assert [one.name for one in system.draw.coordinates({})][:3] == ["x of joint 0", "y of joint 0", "z of joint 0"]
    np.testing.assert_allclose(system.draw.up({}), [0, 0, 1])


def test_a_hinge_has_stops():
    system = dc.systems.mechanism(STOPPED, restitution={"hinge": 0.5})
    assert system.names["contacts"] == ("hinge low", "hinge high")
    gaps, e = jax.jit(lambda q: (system.gap(0.0, q, {}), system.restitution({})))(np.array([0.2]))
    np.testing.assert_allclose(gaps, [0.2 + np.pi / 2, np.pi / 6 - 0.2], atol=1e-15)
    np.testing.assert_array_equal(e, 0.5)


def test_tendons_have_stops_where_mujoco_has_limits():
    system, m = made(STRINGS, restitution={"pulley": 0.4})
    d, h = mujoco.MjData(m), 1e-6
    assert system.names["contacts"] == ("pulley low", "pulley high", "stop low", "stop high")
    assert system.defaults["stop_restitution"].tolist() == [0.4, 0.0]
    q, u = state(system)

    def at(s):
        there = system.advance(q, u, s, {})
        return system.gap(0.0, there, {}), system.rows(0.0, there, {})

    gaps, rows = jax.jit(jax.vmap(at))(np.array([-h, 0.0, h]))
    d.qpos[:] = q
    mujoco.mj_forward(m, d)
    _, length, turn = d.ten_length
    expected = [length - 0.2 - 0.1, 1.5 - length - 0.1, turn + 1, 2 - turn]
    np.testing.assert_allclose(gaps[1], expected, atol=1e-13)
    np.testing.assert_allclose(rows[1, :, 0, :-1] @ u, (gaps[2] - gaps[0]) / (2 * h), atol=1e-8)


@pytest.mark.full
def test_a_hinge_bounces_between_its_stops():
    """At constant rates 2 and -2 e rad/s."""
    system = dc.systems.mechanism(STOPPED, restitution={"hinge": 0.5})
    times, high = np.array([0.0, 0.2, 0.5]), np.pi / 6

    def end(e):
        run = dc.simulate(system, {"stop_restitution": e}, [0.0], [2.0], times)
        return run.q[-1, 0], run.status

    angle, slope, status = jax.jvp(end, (0.8,), (1.0,), has_aux=True)
    left = 0.5 - high / 2.0
    np.testing.assert_allclose(angle, high - 0.8 * 2.0 * left, atol=1e-12)
    np.testing.assert_allclose(slope, -2.0 * left, atol=1e-12)
    assert status == Status.OK


def test_dry_friction_of_joints_by_hand_is_told_where_it_blows_or_drives_and_switches_at_its_break():
    """Two wheels; the friction of one is a + b t, from the break on c, and a blow of 20 N m at 0.137 s."""

    def friction(t, p):
        blow = p["blow"] * jnp.exp(-(((t - 0.137) / 0.04) ** 2))
        return jnp.stack([jnp.where(t < p["switch"], p["first"] + p["grows"] * t + blow, p["then"]), 0.3])

    wheels = zoo.system(
        gap=lambda t, q, p: jnp.zeros(0, q.dtype),
        mass=lambda q, p: np.array([1.0, 0.02]),
        joint_slip=lambda t, q, u, p: u[:, None],
        joint_friction=friction,
    )
    never = {"first": 1.0, "grows": 0.0, "switch": 2.0, "then": 0.0, "blow": 0.0, "speed": 5.0}
    rows = [
        never | {"switch": 0.3, "then": 3.0},
        never | {"speed": 0.5},
        never | {"first": 0.0, "blow": 20.0},
        never | {"grows": -1.5},
    ]
    lanes = {name: np.array([row[name] for row in rows]) for name in never}

    def ended(params):
        def end(params):
            times = np.array([0.0, 0.5, 1.0])
            u0, breaks = jnp.stack([params["speed"], 2.0]), jnp.stack([params["switch"]])
            run = dc.simulate(wheels, params, np.zeros(2), u0, times, breaks=breaks)
            return jnp.concatenate([run.q[-1], run.u[-1]]), run.status

        along = {name: jnp.asarray(float(name == "first")) for name in params}
        return jax.jvp(end, (params,), (along,), has_aux=True)

    end, slope, status = map(np.asarray, jax.jit(lambda lanes: jax.lax.map(ended, lanes))(lanes))
    assert status.tolist() == [Status.OK, Status.OK, Status.TOO_COARSE, Status.BAD_INPUT]
    np.testing.assert_allclose([end[0, 2], slope[0, 2]], [5.0 - 0.3 - 3.0 * 0.7, -0.3], atol=1e-12)
    # At rest after I w^2 / (2 F), both.
    np.testing.assert_allclose(end[1], [0.125, 0.02 * 2.0**2 / 0.6, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(slope[1], [-0.125, 0.0, 0.0, 0.0], atol=1e-11)


RUBBING = """<mujoco><worldbody><geom name="floor" type="plane" size="9 9 1"/>
<body pos="0 0 .1"><joint name="along" type="slide" axis="1 0 0"/><joint name="up" type="slide" axis="0 0 1"/>
<geom name="foot" size=".1" mass="2" friction=".2"/></body>
<body pos="0 0 3"><joint name="dry" axis="0 0 1" frictionloss=".3"/>
<geom type="box" size=".1 .1 .1" mass="3" contype="0" conaffinity="0"/></body></worldbody></mujoco>"""


def test_dry_friction_of_a_file_is_that_of_its_joint():
    system = dc.systems.mechanism(RUBBING)
    assert (system.names["frictionloss"], system.defaults["frictionloss"]) == (("dry",), 0.3)
    assert dc.systems.mechanism(RUBBING, frictionloss={"along": 0.0}).names["frictionloss"] == ("along", "dry")
    u = np.array([1.0, 2.0, 3.0])
    slip, loss = jax.jit(lambda u: (system.joint_slip(0.0, u, u, {}), system.joint_friction(0.0, {})))(u)
    assert (slip.tolist(), loss.tolist()) == ([[3.0]], [0.3])


SLOPE = np.array([0.0, -np.sin(0.2), np.cos(0.2)])


@pytest.mark.full
def test_a_box_on_a_slope_moves_as_in_bodies():
    """It falls with spin, bounces with friction and slides; and its derivatives are those of differences."""
    size, shape = 'type="box" size=".1 .05 .15"', dc.shapes.Box(0.2, 0.1, 0.3)
    slope = '<geom name="slope" type="plane" size="9 9 1" zaxis="{} {} {}"/>'.format(*SLOPE)
    body = f'<body name="body"><freejoint/><geom name="it" {size} mass="1.5"/></body>'
    text = f"<mujoco><worldbody>{slope}{body}</worldbody></mujoco>"
    system = dc.systems.mechanism(text)
    other = dc.systems.bodies(shape, 3, lambda t, params: (SLOPE[None], np.zeros(1)))
    q = np.array([0.0, 0.0, 0.3, 0.9, 0.1, 0.3, 0.2])
    q[3:] /= np.linalg.norm(q[3:])
    u, times = np.array([0.3, 0.1, 0.0, 1.0, -2.0, 0.5]), np.linspace(0.0, 0.4, 21)
    given = {"restitution": 0.4, "friction": 0.25}
    turn = np.asarray(dc.systems.poses.rotation(q))
    own = np.concatenate([u[:3], turn.T @ u[3:]])

    @jax.jit
    def moved(e):
        def run(e):
            run = dc.simulate(system, given | {"restitution": e}, q, own, times, substeps=10)
            return run.q, (run.impulse, run.status)

        return jax.jvp(run, (e,), (1.0,), has_aux=True)

    found, slope, (impulse, status) = moved(0.4)
    weight = {"mass": np.array([1.5]), "gravity": np.array([0, 0, -9.81])}
    expected = dc.simulate(other, given | weight, q, u, times, substeps=10)
    assert status == expected.status == Status.OK
    assert np.sum(np.any(np.asarray(impulse) > 0, axis=1)) >= 2
    np.testing.assert_allclose(found, expected.q, atol=1e-6)
    difference = (moved(0.4 + 1e-6)[0][-1] - moved(0.4 - 1e-6)[0][-1]) / 2e-6
    np.testing.assert_allclose(slope[-1], difference, rtol=1e-5, atol=1e-6)


DOUBLE = """<mujoco><worldbody><body><joint name="upper" axis="0 -1 0"/><geom size=".01" pos="0 0 -1" mass="1"/>
<body name="rod" pos="0 0 -1"><joint name="lower" axis="0 -1 0" range="-30 30"/>
<geom size=".01" pos="0 0 -.7" mass="2"/></body>
</body></worldbody></mujoco>"""


MARKED = DOUBLE.replace('mass="2"/>', 'mass="2"/><site name="tip" pos="0 .1 -.9" euler="10 20 30"/>')


def test_sites_are_where_mujoco_has_them_and_are_observed_by_name():
    system, m = made(MARKED)
    (q, _), d = state(system), mujoco.MjData(m)
    d.qpos[:] = q
    mujoco.mj_forward(m, d)
    seen = system.observe("tip", "lower", "rod")
    assert seen.channels == ("tip x", "tip y", "tip z", "lower", "rod x", "rod y", "rod z")
    assert system.names["site"] == ("tip",)

    def observed(q):
        (pose,) = system.site_poses(q)
        return pose[:3], dc.systems.poses.rotation(pose).ravel(), seen(SimpleNamespace(q=q[None]), {})[0]

    place, turned, columns = jax.jit(observed)(q)
    np.testing.assert_allclose(place, d.site("tip").xpos, atol=1e-13)
    np.testing.assert_allclose(turned, d.site("tip").xmat, atol=1e-13)
    np.testing.assert_allclose(columns, [*d.site("tip").xpos, q[1], *d.body("rod").xpos], atol=1e-13)
    with pytest.raises(ValueError, match=r"observe\('wing'\): expected some of upper, lower, tip, body 1, rod"):
        system.observe("tip", "wing")


def test_a_urdf_is_attached_to_a_free_base_above_a_floor(tmp_path):
    (tmp_path / "arm.urdf").write_text(ARM)
    scene = tmp_path / "scene.xml"
    scene.write_text(
        '<mujoco><asset><model name="arm" file="arm.urdf"/></asset><worldbody><geom name="floor" type="plane" '
        'size="1 1 1"/><body name="base"><freejoint name="base"/><geom name="foot" size=".1" mass="3"/>'
        '<attach model="arm" body="upper" prefix="my_"/></body></worldbody></mujoco>'
    )
    attached, alone = dc.systems.mechanism(scene), dc.systems.mechanism(ARM)
    assert attached.names["contacts"][0] == "floor/foot"
    assert attached.names["joint"] == ("base", *(f"my_{name}" for name in alone.names["joint"]))
    np.testing.assert_allclose(attached.defaults["mass"], [3.0, *alone.defaults["mass"]])
