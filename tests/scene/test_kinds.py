"""What the kinds of systems and preparations refuse, and how the data fill in what the scene leaves to them."""

from types import SimpleNamespace

import jax
import numpy as np
import pytest
from tables import cases

import diffcontact as dc
from diffcontact.scene import read_study
from diffcontact.scene.keys import Table
from diffcontact.scene.kinds import KINDS
from diffcontact.scene.parameters import read_parameters
from diffcontact.systems.laws import LAWS

LINE = """\
[system]
kind = "particle line"
drive = { column = "F", unit = "mN" }
[data]
time = "t"
time_unit = "s"
noise = { value = 1, unit = "mm" }
[preparation]
kind = "oscillation"
column = "y"
unit = "mm"
periods = 2
[parameters]
mass = { value = 2, unit = "kg" }
stiffness = { value = "from data", unit = "N/m" }
damping = { value = 0 }
gamma = { value = 1, unit = "N" }
normal = { value = 1, free = false }
rest = { value = "from data", unit = "mm", per_run = true }
q0 = { value = "from data", unit = "mm", per_run = true }
u0 = { value = "from data", unit = "mm/s", per_run = true }
"""
TIMES = np.linspace(0.0, 4.0, 81)


def study(folder, *changes, force=None):
    text = LINE
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    (folder / "line.toml").write_text(text)
    force = 1000 * TIMES if force is None else force
    files = []
    for name, rows in (("long.csv", 81), ("short.csv", 61)):
        y = 50 * np.sin(7.0 * TIMES)
        lines = [f"{t},{a},{'' if np.isnan(f) else f}" for t, a, f in zip(TIMES, y, force, strict=True)]
        (folder / name).write_text("\n".join(["t,y,F", *lines[:rows]]) + "\n")
        files.append(folder / name)
    return read_study(folder / "line.toml", files)


def test_stiffness_starts_from_the_mass_and_the_frequency_in_the_data(tmp_path):
    found = study(tmp_path)
    # Four seconds hold 4.5 periods of 2 pi / 7 s, three seconds 3.3: two stretches and one.
    assert [run.label for run in found.runs] == [
        *(f"{tmp_path / 'long.csv'}, stretch {i} of 2" for i in (1, 2)),
        str(tmp_path / "short.csv"),
    ]
    np.testing.assert_allclose(found.start["stiffness"], 2 * 7.0**2, rtol=1e-3)


def test_a_measured_force_reaches_every_run_in_newton(tmp_path):
    force = np.where(np.arange(81) == 5, np.nan, 1000 * TIMES)
    found = study(tmp_path, force=force)
    load = jax.jit(found.scene.ready.system.load)
    for i, end in enumerate((4.0, 4.0, 3.0)):
        params = found.params(i)
        at = [float(load(t, params)[0]) for t in (1.3, 9.0)]
        rest = float(params["stiffness"] * params["rest"])
        # Linear in time, also across the lost sample; held behind the last one.
        np.testing.assert_allclose(np.array(at) - rest, [1.3, end], rtol=1e-12)


def test_a_force_is_not_thinned_with_the_rows(tmp_path):
    """A blow between two rows that are used moves the body, too."""
    force = np.where(np.arange(81) == 13, 1000.0, 0.0)
    found = study(tmp_path, ("noise = {", "every = 5\nwindow = [0.2, 3.9]\nnoise = {"), force=force)
    assert found.runs[-1].times.size == 12
    given = found.params(len(found.runs) - 1)
    at = np.interp([0.6, 0.65, 0.675, 0.7], given["drive_times"], given["drive"])
    np.testing.assert_allclose(at, [0.0, 1.0, 0.5, 0.0], atol=1e-12)


SURROUNDED = """\
data = { time = "t", noise = { value = 1, unit = "mm" } }
preparation = { kind = "coordinates", columns = ["x", "y"] }

[system]
kind = "balls"
count = 1
dimension = 2
planes = [[3, 4], [0, -2]]
fixed = 2
materials = [0, 1, 1, 0, 2]

[parameters]
mass = { value = 1 }
radius = { value = 10, unit = "cm" }
gravity = { value = 0 }
plane_offset = { value = [500, -4000], unit = "mm" }
fixed_centre = { value = [[5, 3], [9, 9]] }
fixed_radius = { value = 0.4, free = false }
restitution_0_0 = { value = 0.5 }
restitution_0_1 = { value = 0.8 }
restitution_0_2 = { value = 0.1 }
q0 = { value = [2, 3] }
u0 = { value = [1, 0] }
"""


def surrounded(folder, old="", new="", scene=SURROUNDED):
    (folder / "balls.toml").write_text(scene.replace(old, new, 1))
    (folder / "run.csv").write_text("t,x,y\n" + "".join(f"{i},2,3\n" for i in range(5)))
    return read_study(folder / "balls.toml", [folder / "run.csv"])


def test_balls_meet_planes_and_fixed_balls_each_of_its_material(tmp_path):
    found = surrounded(tmp_path)
    system, params = found.scene.ready.system, found.params(0)
    # (3, 4)/5 . (2, 3) - 0.5 - 0.1 and -3 + 4 - 0.1; a fixed ball 3 m to the right, one at (7, 6): radii 0.1 and 0.4.
    gaps, restitution = jax.jit(lambda p: (system.gap(0.0, p["q0"], p), system.restitution(p)))(params)
    np.testing.assert_allclose(gaps, [3.0, 0.9, 2.5, np.sqrt(85) - 0.5], rtol=1e-14)
    np.testing.assert_allclose(restitution, [0.5, 0.1, 0.8, 0.8], rtol=1e-15)


@cases(
    "old new expected",
    r"""
    [0, -2]] | [0]] | system.planes: [[3, 4], [0]], expected a number or a list of numbers
    [0, -2]] | [0, 0]] | system.planes: [[3.0, 4.0], [0.0, 0.0]], expected normals that are not zero
    [[3, 4], [0, -2]] | [3, 4] | system.planes: [3.0, 4.0], expected a list of normals of 2 numbers each
    fixed = 2 | fixed = -1 | system.kind: balls(fixed=-1): expected an integer of at least 0
    1, 0, 2] | 1, 0, 0.5] | system.materials: [0, 1, 1, 0, 0.5], expected 5 whole numbers of at least 0 and
    restitution_0_2 | restitution | parameters.restitution: unknown key; did you mean 'restitution_0_
    [500, -4000] | [500] | plane_offset.value: shape (1,), expected a number or shape (2,)
    """,
)
def test_what_stands_around_balls_is_checked(tmp_path, old, new, expected):
    with pytest.raises(ValueError) as caught:
        surrounded(tmp_path, old, new)
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


@cases(
    "old new expected",
    r"""
    drive = { | drove = { | system.drove: unknown key; did you mean 'drive'
    column = "F" | colum = "F" | system.drive.colum: unknown key; did you mean
    "mN" | "mm" | system.drive.unit: unit 'mm' cannot be converted to 'N'
    column = "F" | column = "G" | long.csv: no column 'G'
    kind = "particle line" | kind = "particle line"\ncount = 0 | system.count: particle_line(count=0
    kind = "particle line" | kind = "particle line"\ncount = 2 | preparation.kind: observes 1 coordinates, the system
    line" | line"\nfriction = "coeficient" | system.friction: no such friction 'coeficient'; did you mean 'coefficient'
    kind = "particle line" | kind = "particle line"\nper_unit_mass = 1 | system.per_unit_mass: 1, expected true or false
    value = 1, unit = "N" | value = 1, unit = "m" | gamma.unit: unit 'm' cannot be conv
    "from data", unit = "N/m" | -3, unit = "N/m" | parameters.stiffness.value: -3.0, expected at least 0
    value = 2, unit = "kg" | value = "from data" | suggests no mass; it suggests q0, u0, rest, st
    periods = 2 | periods = 1 | preparation.periods: 1.0, expected at least 1.5
    periods = | period = | preparation.period: unknown key; did you mean
    """,
)
def test_bad_scenes_are_named(tmp_path, old, new, expected):
    with pytest.raises(ValueError) as caught:
        study(tmp_path, (old, new))
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)


def test_another_preparation_or_another_system_is_refused(tmp_path):
    oscillation, line = '"oscillation"\ncolumn = "y"\nunit = "mm"\nperiods = 2', LINE[9 : LINE.index("\n[data]")]
    track = (oscillation, '"track"\nalong = "y"\nheight = "F"\nsteepest = 0')
    with pytest.raises(ValueError, match=r"preparation\.steepest: 0\.0, expected above 0"):
        study(tmp_path, track)
    with pytest.raises(ValueError, match=r"preparation\.kind: 'oscillation' does not find the apexes that the system"):
        study(tmp_path, (line, 'kind = "bouncing ball"\nlength = "m"'))


def test_a_force_that_was_never_measured_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"long\.csv: column 'F' is empty, expected what drives the system"):
        study(tmp_path, force=np.full(81, np.nan))


def test_discs_that_spin_have_friction_and_an_angular_velocity(tmp_path):
    spinning = SURROUNDED.replace("materials =", "spin = true\nmaterials =").replace(
        "q0 =",
        "friction_0_0 = { value = 0.4 }\nfriction_0_1 = { value = 0.3 }\nfriction_0_2 = { value = 0.2 }\n"
        'tangential_restitution_0_1 = { value = 0.6 }\nspin0 = { value = 90, unit = "deg/s" }\nq0 =',
    )
    found = surrounded(tmp_path, scene=spinning)
    system, ready, params = found.scene.ready.system, found.scene.ready, found.params(0)
    moved = np.array([[2.0, 3.0, 0.0], [3.0, 3.0, 1.5]])

    @jax.jit
    def all_of(p):
        q0, u0 = ready.initial(p)
        laws = system.friction(p), system.tangential_restitution(p), system.mass(q0, p)
        return q0, u0, ready.observe(SimpleNamespace(q=moved), p), *laws

    q0, u0, seen, friction, tangential, mass = all_of(params)
    np.testing.assert_array_equal(q0, [2.0, 3.0, 0.0])
    np.testing.assert_allclose(u0, [1.0, 0.0, np.pi / 2], rtol=1e-15)
    np.testing.assert_array_equal(seen, moved[:, :2])
    np.testing.assert_allclose(friction, [0.4, 0.2, 0.3, 0.3], rtol=1e-15)
    # Parameters that the scene leaves out are zero, and a disc is homogeneous.
    np.testing.assert_allclose(tangential, [0.0, 0.0, 0.6, 0.6], rtol=1e-15)
    np.testing.assert_allclose(mass, [1.0, 1.0, 0.005], rtol=1e-15)
    with pytest.raises(ValueError, match=r"parameters\.friction_0_2: missing"):
        surrounded(tmp_path, "friction_0_2 = { value = 0.2 }", "", spinning)


def _ready(**options):
    return KINDS[options["kind"]](Table(options, "s"))


@pytest.mark.parametrize("law", LAWS)
def test_a_law_of_restitution_brings_its_parameters_in_the_units_of_the_scene(law):
    names = {one.name for one in LAWS[law].coefficients}
    carts, film = _ready(kind="carts", restitution=law), _ready(kind="bouncing ball", bounces=3, restitution=law)
    assert names <= set(carts.quantities)
    assert ("later_restitution" in film.quantities) == (law == "constant")
    assert carts.system is dc.systems.carts(restitution=law)
    units = {"restitution_loss": "frame/px", "sticking_speed": "px/frame", "reference_speed": "px/frame"}
    for name in names - {"restitution_exponent"}:
        assert film.quantities[name].unit == units[name]


def test_restitution_of_materials_and_of_contacts():
    walls = {"kind": "balls", "count": 2, "dimension": 1, "box": [0.0, 1.0]}
    each = _ready(**walls, restitution="per contact")
    assert each.quantities["restitution"].shape == (5,)
    of_pairs = _ready(**walls, materials=[0, 0, 1, 1], restitution="linear")
    known = {"restitution_0_0": 0.9, "restitution_0_1": 0.5, "restitution_loss_0_0": 0.1, "restitution_loss_0_1": 0.0}
    assert set(known) <= set(of_pairs.quantities)
    e = jax.jit(of_pairs.system.restitution)(known, np.full(5, 2.0))
    np.testing.assert_allclose(e, [0.5, 0.5, 0.5, 0.5, 0.7])
    with pytest.raises(ValueError, match=r"s: restitution: no such restitution 'linar'; did you mean 'linear'"):
        _ready(kind="carts", restitution="linar")
    with pytest.raises(ValueError, match=r's: materials: with restitution = "per contact", expected one of the two'):
        _ready(**walls, materials=[0, 0, 1, 1], restitution="per contact")


def test_friction_of_the_speed_has_a_loss_for_each_two_materials():
    walls = {"kind": "balls", "count": 2, "dimension": 2, "planes": [[0, 1]], "spin": True, "friction": "linear"}
    alike, of_pairs = _ready(**walls), _ready(**walls, materials=[0, 0, 1])
    assert alike.quantities["friction_loss"].unit == "s/m"
    assert "in impacts mu = friction - friction_loss v at the speed of approach v" in alike.law
    known = {"friction_0_0": 0.4, "friction_0_1": 0.2, "friction_loss_0_0": 0.1, "friction_loss_0_1": 0.0}
    assert set(known) <= set(of_pairs.quantities)
    friction = jax.jit(of_pairs.system.friction)
    np.testing.assert_allclose(friction(known, np.full(3, 2.0)), [0.2, 0.2, 0.2])
    np.testing.assert_allclose(friction(known, np.full(3, 0.0)), [0.2, 0.2, 0.4])
    box = {"box": {"shape": "box", "sides": [0.1, 0.1]}}
    bodies = _ready(kind="bodies", dimension=2, planes=[[0, 1]], bodies=box, friction="linear")
    assert bodies.quantities["friction_loss"].unit == "s/m"
    assert bodies.system.friction_by_speed


@pytest.mark.parametrize(
    "system",
    [
        {"kind": "carts"},
        {"kind": "bouncing ball"},
        {"kind": "balls", "count": 1, "dimension": 2, "air": True},
        {"kind": "particle line"},
    ],
    ids=lambda system: system["kind"],
)
def test_nothing_that_resists_motion_may_push(system):
    """No scene may let an estimate go there, and the default bound of one is zero."""
    quantities = KINDS[system["kind"]](Table(system, "scene.toml", ("system",))).quantities
    found = [name for name in ("drag", "damping", "gamma") if name in quantities]
    assert found
    for name in found:
        with pytest.raises(ValueError, match=r"reach beyond what is possible, expected at least 0 \(SI\)"):
            _one(name, quantities[name], bounds=[-0.1, 1])
        assert _one(name, quantities[name]).domain.low == 0.0


def _one(name, quantity, **keys):
    value = np.ones(quantity.shape).tolist()
    table = Table({name: {"value": value, **keys}}, "scene.toml", ("parameters",))
    return read_parameters(table, {name: quantity}, ())[name]


@pytest.mark.parametrize(
    "system",
    [
        {"kind": "impact", "of": "body"},
        {"kind": "bodies", "dimension": 2, "bodies": {"a": {"shape": "ball", "radius": 0.1}}, "planes": [[0.0, 1.0]]},
    ],
    ids=lambda system: system["kind"],
)
def test_what_springs_sideways_has_the_ratio_of_its_stiffnesses(system):
    for law in ("compliant", "stronge"):
        ready = KINDS[system["kind"]](Table(system | {"impact_law": law}, "s", ("system",)))
        assert ready.system.impact_law == law
        assert ("tangential_compliance" in ready.quantities) == (law == "compliant")
        assert ("k_n / k_t" in ready.law) == (law == "compliant")
