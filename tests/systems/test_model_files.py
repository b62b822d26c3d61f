"""Model files of other packages beside MuJoCo: mass matrices and forces, and what is refused by name."""

from importlib.util import find_spec
from pathlib import Path

import jax
import numpy as np
import pytest

import diffcontact as dc
from diffcontact.system import normalised

mujoco = pytest.importorskip("mujoco", reason="mechanism reads files by MuJoCo, the extra `mujoco`")

# Files, and the kinds of what `mechanism` refuses in them.
GYMNASIUM = {
    "ant": (),
    "half_cheetah": (),
    "hopper": (),
    "humanoid": (),
    "humanoidstandup": (),
    "inverted_double_pendulum": (),
    "inverted_pendulum": (),
    "point": (),
    "pusher_v5": ("contact",),
    "reacher": (),
    "swimmer": ("fluid",),
    "walker2d_v5": (),
}
DM_CONTROL = {
    "locomotion/walkers/assets/dog_v2/dog": ("actuator", "condim", "contact"),
    "locomotion/walkers/assets/fruitfly_v2/fruitfly": ("actuator", "fluid", "contact"),
    "locomotion/walkers/assets/humanoid_CMU_V2020": ("contact",),
    "locomotion/walkers/assets/jumping_ball/jumping_ball_with_head": (),
    "locomotion/walkers/assets/rodent": ("actuator", "contact"),
    "mjcf/test_assets/robot_arm": ("contact", "condim"),
    "mujoco/testing/assets/arm": ("condim",),
    "mujoco/testing/assets/model_with_ball_joints": (),
    "suite/acrobot": (),
    "suite/ball_in_cup": (),
    "suite/cartpole": (),
    "suite/cheetah": (),
    "suite/dog": ("actuator", "condim", "contact"),
    "suite/finger": ("contact",),
    "suite/fish": ("fluid",),
    "suite/hopper": (),
    "suite/humanoid": (),
    "suite/humanoid_CMU": ("contact",),
    "suite/manipulator": (),
    "suite/pendulum": (),
    "suite/point_mass": (),
    "suite/quadruped": ("actuator", "condim", "contact"),
    "suite/reacher": (),
    "suite/stacker": ("contact",),
    "suite/swimmer": ("fluid",),
    "suite/walker": (),
    "third_party/ant/ant": (),
    "third_party/kinova/jaco_arm": ("contact",),
    "third_party/kinova/jaco_hand": ("contact",),
}
# Pendulums, a hopper and an arm are looked at with every commit.
QUICK = ("hopper", "inverted_double_pendulum", "inverted_pendulum", "pusher_v5", "swimmer")


FILES = [
    pytest.param(
        f"{folder}/{name}.xml",
        kinds,
        id=f"{folder.split('/')[0]} {name}",
        marks=() if name in QUICK else (pytest.mark.full,),
    )
    for folder, names in (("gymnasium/envs/mujoco/assets", GYMNASIUM), ("dm_control", DM_CONTROL))
    for name, kinds in names.items()
]


@pytest.mark.parametrize(("file", "refused"), FILES)
def test_mass_and_forces_are_those_of_mujoco_or_refused_by_name(file, refused):
    package, _, inside = file.partition("/")
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        pytest.skip(f"the model files of {package} are not installed")
    path = Path(found.submodule_search_locations[0], inside)
    if refused:
        with pytest.raises(ValueError, match=r"not supported: .*'.*; ignore=|a medium of density") as error:
            dc.systems.mechanism(path)
        assert str(error.value).endswith(f"; ignore={refused} leaves them out")
        assert "\n" not in str(error.value)
    system, m = dc.systems.mechanism(path, ignore=refused), mujoco.MjModel.from_xml_path(str(path))
    _without(m, system, refused)
    m.opt.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    control = np.ones(len(system.names["control"])) / 3

    @jax.jit
    def at(q, u):
        q = normalised(system, {}, q)
        return q, system.mass(q, {}), system.force(0.0, q, u, {"control": control})

    rng, d = np.random.default_rng(0), mujoco.MjData(m)
    for _ in range(3):
        w = rng.normal(size=system.model.independent.size)
        q, mass, force = map(np.asarray, at(_somewhere(system, rng), w))
        d.qpos[:], d.ctrl[:] = q, 1 / 3
        mujoco.mj_fwdPosition(m, d)
        Z = _basis(m, d, system.model.independent)
        d.qvel[:] = Z @ w
        mujoco.mj_forward(m, d)
        expected = np.empty((m.nv, m.nv))
        for row, e in zip(expected, np.eye(m.nv), strict=True):
            mujoco.mj_mulM(m, d, row, e)
        np.testing.assert_allclose(mass, Z.T @ expected @ Z, atol=1e-12 * np.abs(expected).max())
        parts = np.stack([d.qfrc_passive, d.qfrc_actuator, -d.qfrc_bias]) @ Z
        np.testing.assert_allclose(force, parts.sum(axis=0), atol=1e-12 * np.abs(parts).max())


def _somewhere(system, rng):
    """Random coordinates, near those of the file where constraints leave no others."""
    q = rng.normal(size=system.q0.size)
    return system.q0 + 0.1 * q if system.model.equalities.rows.size else q


def _basis(m, d, kept):
    """(d, d - m) all velocities by the independent ones, by MuJoCo's constraints of equality, which are linear here."""
    Z = np.zeros((m.nv, kept.size))
    Z[kept] = np.eye(kept.size)
    others = np.setdiff1d(np.arange(m.nv), kept)
    if others.size:
        rows = d.efc_J.reshape(-1, m.nv)[: d.ne]
        Z[others] = -np.linalg.lstsq(rows[:, others], rows[:, kept], rcond=None)[0]
    return Z


def _without(m, system, kinds):
    """Take out of MuJoCo's model what is left out of the system."""
    if "fluid" in kinds:
        m.opt.density = m.opt.viscosity = 0.0
    kept = system.names["control"]
    for number in range(getattr(m, "nactuator", m.nu)):
        name = mujoco.mj_id2name(m, mujoco.mjtObj.mjOBJ_ACTUATOR, number) or f"actuator {number}"
        if name not in kept:
            m.actuator_gainprm[number], m.actuator_biasprm[number] = 0.0, 0.0
