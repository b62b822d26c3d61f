"""Model files with other numbers: read again, and bounced in MuJoCo."""

import numpy as np
import pytest

import diffcontact as dc

mujoco = pytest.importorskip("mujoco", minversion="4", reason="Mechanism.write needs MuJoCo 4")

# Geoms without names, welded and massless bodies, total mass and inertias by the compiler, pairs of every kind.
TOY = """<mujoco><compiler inertiafromgeom="true" settotalmass="5"/><worldbody>
<geom name="floor" type="plane" size="9 9 1" condim="1"/>
<body name="ball" pos="0 0 .5"><freejoint/><geom name="shell" size=".1" condim="3" friction=".4"/></body>
<body pos="1 0 1"><joint name="hinge" axis="0 1 0" range="-90 30" stiffness="2" springref="20" ref="5"/>
  <geom type="capsule" size=".02" fromto="0 0 0 0 0 -.4"/><body><geom size=".03" pos="0 0 -.4"/>
  <joint name="slide" type="slide" damping=".2" armature=".1" frictionloss=".3" range="-.1 .2"/></body></body>
<body pos="3 0 2"><inertial mass="1" pos="0 0 0" diaginertia="1 1 1"/><joint name="socket" type="ball" damping=".1"/>
  <geom name="box" type="box" size=".1 .2 .3" contype="0" conaffinity="0"/></body>
</worldbody><contact><pair geom1="floor" geom2="box" friction=".7 .7 0 0 0" margin=".01"/></contact>
<tendon><fixed name="rope" limited="true" range="-.3 .2"><joint joint="slide" coef="2"/></fixed></tendon></mujoco>"""
BALL = """<mujoco><option timestep=".001" gravity="0 0 0" {}/><worldbody>
<geom name="floor" type="plane" size="9 9 1" zaxis="1 0 2"/>
<body name="ball"><freejoint/><geom name="shell" size=".1" mass="2.3"/></body>
<body name="bar" pos="5 0 1"><joint name="hinge" axis="1 0 0" range="-90 30"/>
  <geom size=".1" pos="0 0 1" contype="0" conaffinity="0"/></body></worldbody></mujoco>"""


@pytest.mark.filterwarnings("ignore:compiler attribute")
def test_a_written_file_has_the_numbers(tmp_path):
    system, path = dc.systems.mechanism(TOY), tmp_path / "fitted.xml"
    rng = np.random.default_rng(0)
    given = {name: value * rng.uniform(0.9, 1.1, value.shape) for name, value in system.defaults.items()}
    given["inertia"] = system.defaults["inertia"] * rng.uniform(0.9, 1.1, (4, 1))
    given["gravity"] = np.array([1.0, 2.0, -9.0])
    free = np.isin(system.names["springref"], ["joint 0", "socket"])
    given["springref"][free] = system.defaults["springref"][free]
    of_socket = np.array(system.names["damping"]) == "socket"
    given["damping"][of_socket] = 0.12
    system.write(given | {"restitution": 0.3}, path)
    again = dc.systems.mechanism(path)
    for name in given.keys() - {"restitution", "stop_restitution", "control", "friction"}:
        # A file has six digits.
        np.testing.assert_allclose(again.defaults[name], given[name], rtol=1e-5, atol=1e-5, err_msg=name)
    assert set(again.names["friction"]) == set(system.names["friction"])
    for pair, mu in zip(system.names["friction"], given["friction"], strict=True):
        assert again.defaults["friction"][again.index("friction", *pair.split("/"))] == pytest.approx(mu, rel=1e-5)


@pytest.mark.parametrize("options", ["", 'integrator="RK4" cone="elliptic"', 'integrator="implicitfast"'])
def test_bounces_in_mujoco_have_the_restitution(tmp_path, options):
    """Of a body on a slope that is hit at its centre, and of a bar at its stop, at one speed."""
    system, path, speed = dc.systems.mechanism(BALL.format(options)), tmp_path / "fitted.xml", 2.0
    wanted = {"floor/shell": 0.8, "hinge": 0.35}
    reached = system.write({"restitution": 0.8, "stop_restitution": 0.35}, path, speed=speed)
    assert reached == pytest.approx(wanted, abs=0.01)
    m = mujoco.MjModel.from_xml_path(str(path))
    normal = np.array([1.0, 0.0, 2.0]) / np.sqrt(5)
    found = {name: [] for name in ("floor/shell", "hinge")}
    for phase in np.linspace(0.0, 1.0, 9)[:8]:
        d, way = mujoco.MjData(m), speed * 1e-3 * (1 + phase)
        d.qpos[:3], d.qvel[:3] = (0.1 + way) * normal, -speed * normal
        d.qpos[7], d.qvel[6] = np.radians(30) - way, speed
        mujoco.mj_step(m, d, 60)
        found["floor/shell"].append(d.qvel[:3] @ normal / speed)
        found["hinge"].append(-d.qvel[6] / speed)
    assert {name: np.mean(values) for name, values in found.items()} == pytest.approx(
        {name: wanted[name] for name in found}, abs=0.01
    )


@pytest.mark.filterwarnings("ignore:compiler attribute")
def test_what_cannot_be_written_is_named(tmp_path):
    path = tmp_path / "fitted.xml"
    system = dc.systems.mechanism(TOY)
    damping = system.defaults["damping"]
    damping[-1] = 0.3
    with pytest.raises(ValueError, match=r"MJCF has no place for these numbers: .*socket"):
        system.write({"damping": damping}, path)
    with pytest.raises(ValueError, match=r"no place for springref of joint 'joint 0'"):
        system.write({"springref": np.ones(13)}, path)
    with pytest.raises(ValueError, match=r"speed=0.0\): expected a number above 0"):
        system.write({}, path, speed=0.0)
    text = BALL.format('integrator="RK4"').replace('gravity="0 0 0"', "")
    with pytest.raises(ValueError, match=r"bounce of hinge at 1 m/s reaches .*, expected 1 within 1e-05: a shorter"):
        dc.systems.mechanism(text).write({"restitution": 0.9, "stop_restitution": 1.0}, path, tolerance=1e-5)
    assert not path.exists()
