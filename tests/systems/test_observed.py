"""Sensors of model files beside MuJoCo's along its own motion, and what sites feel."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest

import diffcontact as dc

mujoco = pytest.importorskip("mujoco", reason="mechanism reads files by MuJoCo, the extra `mujoco`")

ARM = """<mujoco><option timestep="1e-4" integrator="RK4"/><worldbody><body name="upper" pos="0 0 1">
<joint name="shoulder" axis="0 1 0"/><geom type="capsule" size=".05" fromto="0 0 0 .3 0 0"/>
<body name="lower" pos=".3 0 0" euler="10 20 30"><joint name="lift" type="slide" axis="1 0 0" stiffness="50"/>
<joint name="wrist" axis="1 1 0"/><geom name="hand" size=".05" pos=".1 .1 0" euler="30 40 50"/>
<site name="imu" pos=".1 .2 .3" euler="40 50 60"/></body></body></worldbody>
<tendon><fixed name="sum"><joint joint="shoulder" coef="2"/><joint joint="lift" coef="-1"/></fixed></tendon><sensor>
<accelerometer name="felt" site="imu"/><jointpos name="angle" joint="wrist"/><jointvel name="rate" joint="lift"/>
<tendonpos name="way" tendon="sum"/><tendonvel name="pace" tendon="sum"/><gyro name="gyro" site="imu"/>
<velocimeter name="speed" site="imu"/><framepos name="place" objtype="geom" objname="hand"/>
<framexaxis name="x" objtype="site" objname="imu"/><framezaxis name="z" objtype="xbody" objname="lower"/>
<framelinvel name="v" objtype="xbody" objname="lower"/><frameangvel name="w" objtype="site" objname="imu" cutoff="1"/>
<magnetometer name="north" site="imu"/><framepos name="middle" objtype="body" objname="lower"/></sensor>
<contact><exclude body1="upper" body2="lower"/></contact></mujoco>"""


def test_sensors_tell_what_mujoco_has_them_tell():
    """The accelerometer tells the mean over two of MuJoCo's steps, so what MuJoCo has it tell in the middle."""
    system, m = dc.systems.mechanism(ARM), mujoco.MjModel.from_xml_string(ARM)
    d, rows = mujoco.MjData(m), []
    d.qpos[:], d.qvel[:] = [0.3, 0.1, 0.2], [1.0, 2.0, 3.0]
    for _ in range(21):
        mujoco.mj_forward(m, d)
        rows.append((d.qpos.copy(), d.qvel.copy(), d.time, d.sensordata[: m.sensor("north").adr[0]].copy()))
        mujoco.mj_step(m, d)
    q, u, t, told = (np.array([row[i] for row in rows]) for i in range(4))
    names = [m.sensor(number).name for number in range(m.nsensor - 2)]
    seen = system.observe("wrist", *names)
    assert seen.channels[:5] == ("wrist", "felt x", "felt y", "felt z", "angle")
    run = {"q": q[::2], "u": u[::2], "t": t[::2]}
    found = jax.jit(lambda run: seen(SimpleNamespace(**run, impulse=np.zeros((10, 0))), {}))(run)
    np.testing.assert_array_equal(found[:, 0], q[::2, 2])
    np.testing.assert_allclose(found[:, 4:], told[::2, 3:], atol=1e-12)
    np.testing.assert_array_equal(found[0, 1:4], 0)
    np.testing.assert_allclose(found[1:, 1:4], told[1::2, :3], atol=1e-5)
    for name, kind in (("north", "magnetometer"), ("middle", "framepos of a centre of mass")):
        with pytest.raises(ValueError, match=rf"observe\('{name}'\): {kind}, expected a sensor of jointpos, "):
            system.observe(name)
    with pytest.raises(ValueError, match=r"observe\('gyr'\): expected some of shoulder, .*, imu, .*, gyro"):
        system.observe("gyr")


FEET = """<mujoco><worldbody><geom name="floor" type="plane" size="1 1 1"/><body><freejoint/>
<geom name="left" size=".1" pos="-.3 0 0"/><geom name="right" size=".1" pos=".3 0 0"/>
<geom name="heel" type="box" size=".1 .1 .1" pos="0 .5 0"/>
<site name="left" size=".11" pos="-.3 0 0"/><site name="both" type="capsule" size=".11" fromto="-.3 0 0 .3 0 0"/>
<site name="heel" type="box" size=".11 .11 .02" pos="0 .5 -.1"/><site name="far" type="cylinder" size=".1 .1"
pos="0 0 1"/></body></worldbody><sensor><touch name="L" site="left"/><touch name="LR" site="both"/>
<touch name="H" site="heel"/><touch name="F" site="far"/></sensor></mujoco>"""


def test_a_site_feels_the_mean_normal_force_of_the_contacts_within():
    system = dc.systems.mechanism(FEET)
    names, rng = np.array(system.names["contacts"]), np.random.default_rng(0)
    impulse, t = rng.uniform(size=(2, names.size)), np.array([0.0, 0.1, 0.3])
    q = np.tile([0.2, 0.1, 0.1, np.cos(0.4), 0.0, 0.0, np.sin(0.4)], (3, 1))
    run = SimpleNamespace(q=q, u=np.zeros((3, 6)), t=t, impulse=impulse)
    felt = np.asarray(jax.jit(lambda: system.observe("L", "LR", "H", "F")(run, {}))())
    low = np.asarray(jax.jit(lambda q: system.gap(0.0, q, {}))(q[0])) < 1e-9
    force = impulse / np.diff(t)[:, None]

    def of(*geoms):
        return np.sum(force[:, low & np.isin(names, [f"floor/{geom}" for geom in geoms])], axis=1)

    assert low.sum() == 6
    np.testing.assert_array_equal(felt[0], 0)
    expected = np.stack([of("left"), of("left", "right"), of("heel"), np.zeros(2)], axis=1)
    np.testing.assert_allclose(felt[1:], expected, atol=1e-14)
